//! Bytes in an allocation of their own, owned through one pointer of 8 bytes: their number stands in front of
//! them. A `Box<[u8]>` would take 16 bytes in each slot of the table, used or not.
//!
//! ```text
//!   Thin    ──> [head 4][bytes]
//!   Either  ──> the same, or a box: then the lowest bit of the pointer is set
//!   head        number of bytes, 15 bits   use of the key, 16 bits   0
//!               number of bytes, 31 bits                             1
//! ```
//!
//! The allocation is as long as it has to be: no room is kept for more. A note of the use of a key
//! (`usage.rs`) stands where a number of bytes leaves room: all that have less than 32 KiB have one. Threads
//! that only read the bytes may change the note, so the head is atomic. Its number of bytes changes only
//! while nobody else has the bytes.

#![expect(unsafe_code, reason = "an allocation behind a thin pointer")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use super::usage::{self, Use};

/// Bytes in front of the bytes.
pub(crate) const HEAD_BYTES: usize = size_of::<AtomicU32>();
/// The bit of a head that says that the number of bytes takes all others.
const IS_LONG: u32 = 1 << 31;
/// Where the use stands in a head that has one.
const USE_AT: u32 = 15;
/// The bits of the number of bytes in such a head.
const SHORT: u32 = (1 << USE_AT) - 1;
/// The bit of an [`Either`]'s pointer that says that it is a box.
const IS_BOX: usize = 1;

/// The head of all that have no bytes, and so no allocation.
static NO_BYTES: AtomicU32 = AtomicU32::new(0);

/// Bytes on the heap.
///
/// Invariant: the pointer is to [`NO_BYTES`], or to an allocation of `layout(n)` that nobody else owns, which
/// begins with a head of `n` > 0 bytes and has `n` bytes behind it.
#[repr(transparent)]
pub(crate) struct Thin(NonNull<AtomicU32>);

// SAFETY: it owns its bytes as a box does; `NO_BYTES` is never written to.
unsafe impl Send for Thin {}
// SAFETY: as above; through a shared reference bytes are only read, and the head is atomic.
unsafe impl Sync for Thin {}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(HEAD_BYTES + len, align_of::<AtomicU32>()).expect("lengths fit an allocation")
}

fn head_of(len: usize, used: Use) -> AtomicU32 {
    let number = u32::try_from(len).ok().filter(|number| number & IS_LONG == 0);
    let number = number.expect("a key and its small value fit 2 GiB");
    let rest = if number <= SHORT { u32::from(used.0) << USE_AT } else { IS_LONG };
    AtomicU32::new(number | rest)
}

/// The number of bytes behind a head.
#[inline]
fn len_of(head: u32) -> usize {
    (head & if head & IS_LONG == 0 { SHORT } else { !IS_LONG }) as usize
}

impl Thin {
    /// These parts, one behind the other.
    #[inline]
    pub(crate) fn of(parts: &[&[u8]]) -> Thin {
        let len = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return Thin::default();
        }
        let (head, layout) = (head_of(len, usage::of_new()), layout(len));
        // SAFETY: the layout is not of 0 bytes.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }.cast::<AtomicU32>()) else {
            handle_alloc_error(layout)
        };
        // SAFETY: the allocation has room for the head, and is aligned for it.
        unsafe { start.write(head) };
        let mut at = HEAD_BYTES;
        for part in parts {
            // SAFETY: the lengths add up to `len`, so it ends in the new allocation, which nobody else has.
            unsafe {
                start.cast::<u8>().add(at).copy_from_nonoverlapping(NonNull::from(*part).cast(), part.len())
            };
            at += part.len();
        }
        Thin(start)
    }

    #[inline]
    fn head(&self) -> &AtomicU32 {
        // SAFETY: the invariant: there is a head, and it lives as long as this is borrowed.
        unsafe { self.0.as_ref() }
    }

    /// The note of the use of a key that begins the bytes; `None`: there are too many to have one.
    #[inline]
    pub(crate) fn used(&self) -> Option<Use> {
        let head = self.head().load(Relaxed);
        (head & IS_LONG == 0).then_some(Use((head >> USE_AT) as u16))
    }

    /// Makes another note of the one that is there, if there is room for one. Another thread may do so at
    /// the same time: then one of the two is lost.
    #[inline]
    pub(crate) fn note_use(&self, next: impl FnOnce(Use) -> Use) {
        let head = self.head().load(Relaxed);
        if head & IS_LONG != 0 || head & SHORT == 0 {
            return;
        }
        let used = Use((head >> USE_AT) as u16);
        let new = next(used);
        if new != used {
            // Nobody changes the number of bytes meanwhile: that takes an exclusive reference.
            self.head().store(head & SHORT | u32::from(new.0) << USE_AT, Relaxed);
        }
    }

    /// Makes it so long: bytes at the end are cut off, or zeros are added.
    pub(crate) fn resize(&mut self, len: usize) {
        let old = self.len();
        if old == 0 || len == 0 {
            *self = Thin::of(&[&vec![0; len]]);
            return;
        }
        let used = self.used().unwrap_or_else(usage::of_new);
        let (head, new) = (head_of(len, used), layout(len));
        // SAFETY: the allocation is of this layout, as there are bytes, and the new size is not 0.
        let moved = unsafe { realloc(self.0.cast().as_ptr(), layout(old), new.size()) };
        let Some(start) = NonNull::new(moved.cast::<AtomicU32>()) else { handle_alloc_error(new) };
        self.0 = start;
        // SAFETY: the allocation has room for the head, and is aligned for it.
        unsafe { start.write(head) };
        if len > old {
            // SAFETY: the bytes from `old` to `len` are in the allocation, and no reference to it exists.
            unsafe { start.cast::<u8>().add(HEAD_BYTES + old).write_bytes(0, len - old) };
        }
    }
}

impl Deref for Thin {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let len = len_of(self.head().load(Relaxed));
        // SAFETY: the invariant: a head, and as many initialized bytes behind it as it says, which live and
        // are not changed as long as this is borrowed.
        unsafe { NonNull::slice_from_raw_parts(self.0.add(1).cast(), len).as_ref() }
    }
}

impl DerefMut for Thin {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let len = len_of(self.head().load(Relaxed));
        // SAFETY: as in `deref`; nobody else owns them, and where there is no allocation, there are no bytes.
        unsafe { NonNull::slice_from_raw_parts(self.0.add(1).cast(), len).as_mut() }
    }
}

impl Default for Thin {
    #[inline]
    fn default() -> Thin {
        Thin(NonNull::from(&NO_BYTES))
    }
}

impl Clone for Thin {
    fn clone(&self) -> Thin {
        let copy = Thin::of(&[self]);
        if let Some(used) = self.used() {
            copy.note_use(|_| used);
        }
        copy
    }
}

impl Drop for Thin {
    #[inline]
    fn drop(&mut self) {
        // A read of what is freed fails in tests.
        #[cfg(test)]
        std::hint::black_box(&mut **self).fill(u8::MAX);
        let len = self.len();
        if len > 0 {
            // SAFETY: the invariant: where there are bytes, there is such an allocation, owned here.
            unsafe { dealloc(self.0.cast().as_ptr(), layout(len)) };
        }
    }
}

/// Bytes, or a box of something larger, in 8 bytes.
///
/// Invariant: the pointer is that of a [`Thin`], or that of a box with `IS_BOX` added.
#[repr(transparent)]
pub(crate) struct Either<T>(NonNull<u8>, PhantomData<(Thin, Box<T>)>);

// SAFETY: it owns either of the two.
unsafe impl<T: Send> Send for Either<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Either<T> {}

/// Which of the two it is.
pub(crate) enum Which<S, L> {
    /// Bytes.
    Small(S),
    /// The other.
    Large(L),
}

impl<T> Either<T> {
    const ALIGNED: () =
        assert!(size_of::<T>() > 0 && align_of::<T>() > IS_BOX && align_of::<Thin>() == align_of::<Self>());

    #[inline]
    pub(crate) fn small(bytes: Thin) -> Either<T> {
        Either(ManuallyDrop::new(bytes).0.cast(), PhantomData)
    }

    pub(crate) fn large(large: Box<T>) -> Either<T> {
        const { Self::ALIGNED };
        let start = NonNull::from(Box::leak(large)).cast::<u8>();
        Either(start.map_addr(|addr| addr | IS_BOX), PhantomData)
    }

    /// The box, if it is one.
    #[inline]
    fn as_box(&self) -> Option<NonNull<T>> {
        let addr = self.0.addr().get();
        // SAFETY: a box is not at address 0: without the bit, what is left is its address.
        (addr & IS_BOX != 0).then(|| unsafe { self.0.sub(IS_BOX) }.cast())
    }

    #[inline]
    pub(crate) fn get(&self) -> Which<&Thin, &T> {
        match self.as_box() {
            // SAFETY: `large` leaked it, it is owned here, and `self` is borrowed as long.
            Some(large) => Which::Large(unsafe { large.as_ref() }),
            // SAFETY: both types are one pointer, and without the bit it is that of a `Thin`.
            None => Which::Small(unsafe { NonNull::from(self).cast().as_ref() }),
        }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self) -> Which<&mut Thin, &mut T> {
        match self.as_box() {
            // SAFETY: as in `get`, and `self` is borrowed for that alone.
            Some(mut large) => Which::Large(unsafe { large.as_mut() }),
            // SAFETY: as in `get`. Whatever `Thin` is put there, its pointer does not have the bit: it is
            // aligned for a number.
            None => Which::Small(unsafe { NonNull::from(self).cast().as_mut() }),
        }
    }

    pub(crate) fn into_inner(self) -> Which<Thin, Box<T>> {
        let this = ManuallyDrop::new(self);
        match this.as_box() {
            // SAFETY: `large` leaked it, and what owned it is not dropped.
            Some(large) => Which::Large(unsafe { Box::from_raw(large.as_ptr()) }),
            None => Which::Small(Thin(this.0.cast())),
        }
    }
}

impl<T: Clone> Clone for Either<T> {
    fn clone(&self) -> Either<T> {
        match self.get() {
            Which::Small(bytes) => Either::small(bytes.clone()),
            Which::Large(large) => Either::large(Box::new(large.clone())),
        }
    }
}

impl<T> Drop for Either<T> {
    #[inline]
    fn drop(&mut self) {
        match self.as_box() {
            // SAFETY: `large` leaked it, and it is not looked at again.
            Some(large) => drop(unsafe { Box::from_raw(large.as_ptr()) }),
            None => drop(Thin(self.0.cast())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const _: () = assert!(size_of::<Option<Either<u64>>>() == 8);

    #[test]
    fn a_thin_has_the_bytes_that_it_was_made_of() {
        assert!(Thin::default().is_empty() && Thin::of(&[]).is_empty() && Thin::of(&[b"", b""]).is_empty());
        let mut thin = Thin::of(&[b"key", b"", b"value"]);
        let copy = thin.clone();
        assert_eq!(*thin, *b"keyvalue");
        thin[0] = b'h';
        assert_eq!((&*thin, &*copy), (&b"heyvalue"[..], &b"keyvalue"[..]));
        assert_eq!(*std::mem::take(&mut thin), *b"heyvalue");
        assert!(thin.is_empty() && thin.clone().is_empty());
    }

    #[test]
    fn a_note_of_use_stays_where_there_is_room_for_it() {
        assert_eq!(Thin::default().used(), Some(Use(0)));
        Thin::default().note_use(|_| Use(7));
        assert_eq!(Thin::default().used(), Some(Use(0)), "nothing is written to what all share");
        let mut thin = Thin::of(&[b"bytes"]);
        for note in [0, 1, u16::MAX] {
            thin.note_use(|_| Use(note));
            assert_eq!((thin.used(), thin.clone().used()), (Some(Use(note)), Some(Use(note))));
            assert_eq!(*thin, *b"bytes");
        }
        thin.resize(SHORT as usize);
        assert_eq!((thin.len(), thin.used()), (SHORT as usize, Some(Use(u16::MAX))));
        thin.resize(SHORT as usize + 1);
        thin.note_use(|_| Use(7));
        assert_eq!((thin.len(), thin.used()), (SHORT as usize + 1, None));
        thin.resize(3);
        assert!(*thin == *b"byt" && thin.used().is_some());
    }

    #[test]
    fn either_owns_one_of_the_two() {
        let counted = Arc::new(7u64);
        let mut either = Either::large(Box::new(counted.clone()));
        let copy = either.clone();
        assert_eq!(Arc::strong_count(&counted), 3);
        assert!(matches!(copy.get(), Which::Large(number) if **number == 7));
        drop(copy);
        assert!(matches!(either.get_mut(), Which::Large(_)));
        assert!(matches!(either.into_inner(), Which::Large(number) if **number == 7));
        assert_eq!(Arc::strong_count(&counted), 1);
        either = Either::small(Thin::of(&[b"bytes"]));
        if let Which::Small(bytes) = either.get_mut() {
            bytes.resize(3);
        }
        assert!(matches!(either.clone().get(), Which::Small(bytes) if **bytes == *b"byt"));
        assert!(matches!(either.into_inner(), Which::Small(bytes) if *bytes == *b"byt"));
    }

    proptest! {
        #[test]
        fn a_thin_that_is_resized_keeps_its_front_and_has_zeros_behind_it(
            start in vec(any::<u8>(), 0..100), lens in vec(0..36_000usize, 0..8)
        ) {
            let (mut thin, mut model) = (Thin::of(&[&start]), start);
            for len in lens {
                thin.resize(len);
                model.resize(len, 0);
                prop_assert_eq!(&*thin, &model[..]);
                thin.iter_mut().for_each(|byte| *byte = byte.wrapping_add(3));
                model.iter_mut().for_each(|byte| *byte = byte.wrapping_add(3));
            }
        }
    }
}
