//! Locks with ranks: a thread that holds one takes none of a lower rank, so no two threads wait for each
//! other.
//!
//! ```text
//!   Mutex<T, rank::Gate>, Mutex<T>     the rank is part of the type; without one it is a leaf
//!   debug builds      a thread knows what it holds; taking a lock out of order is a panic that names both
//!   release builds    the locks of `plain` and of parking_lot, and notes about waits
//! ```
//!
//! A thread that has to wait for a lock measures how long ([`waits`]). The ranks are in [`rank`], and in
//! `docs/threads-and-locks.md`. Every lock of the engine, the server and the program is one of these; those
//! of tokio, which are held across an `await`, are not.
//!
//! Under `--cfg shuttle` they are the locks of a checker that has threads act in an order of its choosing.

mod condvar;
mod held;
#[cfg(not(shuttle))]
#[expect(unreachable_pub, reason = "the guard of a public mutex has a public type inside")]
mod plain;
pub mod rank;
pub mod waits;

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::Duration;
#[cfg(not(shuttle))]
use std::time::Instant;

pub use condvar::Condvar;
use held::{Held, Place};
#[cfg(not(shuttle))]
#[expect(unreachable_pub, reason = "the guard of a public mutex has a public type inside")]
mod raw {
    pub use super::plain::{Mutex, MutexGuard};
    pub use parking_lot::{RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
}
pub use rank::Rank;
#[cfg(shuttle)]
use shuttle_parking_lot as raw;

/// How often a mutex is looked at that is waited for with a limit.
#[cfg(not(shuttle))]
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A mutex of a rank.
pub struct Mutex<T, R = rank::Leaf> {
    raw: raw::Mutex<T>,
    rank: PhantomData<fn() -> R>,
}

/// A reader-writer lock of a rank.
pub struct RwLock<T, R = rank::Leaf> {
    raw: raw::RwLock<T>,
    rank: PhantomData<fn() -> R>,
}

/// A lock that is held. In a debug build the thread knows of it until it is given back.
pub struct Guard<G, R: Rank> {
    // Dropped in this order.
    raw: G,
    held: Held<R>,
}

/// A mutex that is held.
pub type MutexGuard<'l, T, R = rank::Leaf> = Guard<raw::MutexGuard<'l, T>, R>;
/// A lock that is held for reading.
pub type RwLockReadGuard<'l, T, R = rank::Leaf> = Guard<raw::RwLockReadGuard<'l, T>, R>;
/// A lock that is held for reading, by the one who may come to write.
pub type RwLockUpgradableReadGuard<'l, T, R = rank::Leaf> = Guard<raw::RwLockUpgradableReadGuard<'l, T>, R>;
/// A lock that is held for writing.
pub type RwLockWriteGuard<'l, T, R = rank::Leaf> = Guard<raw::RwLockWriteGuard<'l, T>, R>;

/// Which of several locks of one rank this is: the address of what they belong to, and a number. Those that
/// belong together are taken with rising numbers.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    of: usize,
    #[cfg_attr(
        any(not(debug_assertions), shuttle, loom),
        expect(dead_code, reason = "only a build that asserts the order looks at it")
    )]
    number: usize,
}

impl Number {
    /// Lock `number` of those that belong to `of`.
    #[inline]
    pub fn of<T>(of: &T, number: usize) -> Number {
        Number { of: std::ptr::from_ref(of).addr(), number }
    }

    /// A number that stands for all of them.
    #[inline]
    fn of_all(self) -> usize {
        // No lock has an odd address.
        self.of | 1
    }
}

impl<T, R: Rank> Mutex<T, R> {
    /// A mutex that nobody holds.
    pub fn new(value: T) -> Mutex<T, R> {
        Mutex { raw: raw::Mutex::new(value), rank: PhantomData }
    }

    /// Waits until nobody holds it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T, R> {
        let held = Held::in_order(Place::of::<T>(&self.raw, None));
        let raw = waits::taken::<R, _>(0, || self.raw.try_lock(), || self.raw.lock());
        waits::note_only::<R>();
        Guard { raw, held }
    }

    /// The protected value.
    pub fn into_inner(self) -> T {
        self.raw.into_inner()
    }

    /// Takes it if nobody holds it.
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, R>> {
        let raw = self.raw.try_lock()?;
        Some(Guard { raw, held: Held::at_once(Place::of::<T>(&self.raw, None)) })
    }

    /// Waits for so long until nobody holds it.
    #[cfg(not(shuttle))]
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "it measures a wait")]
    pub fn try_lock_for(&self, time: Duration) -> Option<MutexGuard<'_, T, R>> {
        let (held, began) = (Held::in_order(Place::of::<T>(&self.raw, None)), Instant::now());
        loop {
            match self.raw.try_lock() {
                Some(raw) => return Some(Guard { raw, held }),
                None if began.elapsed() >= time => return None,
                None => std::thread::sleep(LOOK_AGAIN.min(time)),
            }
        }
    }

    /// The checker knows no time: who holds it may do so for longer.
    #[cfg(shuttle)]
    pub fn try_lock_for(&self, _: Duration) -> Option<MutexGuard<'_, T, R>> {
        shuttle::thread::yield_now();
        self.try_lock()
    }
}

/// Waits for so long until nobody writes.
#[cfg(not(shuttle))]
fn read_for<T>(lock: &raw::RwLock<T>, limit: Duration) -> Option<raw::RwLockReadGuard<'_, T>> {
    lock.try_read_for(limit)
}

/// Waits for so long until nobody has it.
#[cfg(not(shuttle))]
fn write_for<T>(lock: &raw::RwLock<T>, limit: Duration) -> Option<raw::RwLockWriteGuard<'_, T>> {
    lock.try_write_for(limit)
}

/// The checker knows no time: who writes may do so for longer.
#[cfg(shuttle)]
fn read_for<T>(lock: &raw::RwLock<T>, _: Duration) -> Option<raw::RwLockReadGuard<'_, T>> {
    shuttle::thread::yield_now();
    lock.try_read()
}

/// The checker knows no time: who has it may do so for longer.
#[cfg(shuttle)]
fn write_for<T>(lock: &raw::RwLock<T>, _: Duration) -> Option<raw::RwLockWriteGuard<'_, T>> {
    shuttle::thread::yield_now();
    lock.try_write()
}

impl<T, R: Rank> RwLock<T, R> {
    /// A lock that nobody holds.
    pub fn new(value: T) -> RwLock<T, R> {
        RwLock { raw: raw::RwLock::new(value), rank: PhantomData }
    }

    /// Waits until nobody writes.
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T, R> {
        let held = Held::in_order(Place::of::<T>(&self.raw, None));
        Guard { raw: waits::taken::<R, _>(0, || self.raw.try_read(), || self.raw.read()), held }
    }

    /// Waits until nobody else holds it.
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, R> {
        let held = Held::in_order(Place::of::<T>(&self.raw, None));
        Guard { raw: waits::taken::<R, _>(0, || self.raw.try_write(), || self.raw.write()), held }
    }

    /// As `read`, for one of several.
    #[inline]
    #[track_caller]
    pub fn read_as(&self, number: Number) -> RwLockReadGuard<'_, T, R> {
        self.read_within(number, None).expect("it waits as long as it takes")
    }

    /// As `read_as`; `None` if it would take longer than the limit.
    #[inline]
    #[track_caller]
    pub fn read_within(&self, number: Number, limit: Option<Duration>) -> Option<RwLockReadGuard<'_, T, R>> {
        let held = Held::in_order(Place::of::<T>(&self.raw, Some(number)));
        let others = waits::of_all::<R>(number, self.address());
        let wait = || match limit {
            None => Some(self.raw.read()),
            Some(limit) => read_for(&self.raw, limit),
        };
        let raw = waits::taken::<R, _>(others, || self.raw.try_read().map(Some), wait)?;
        waits::note::<R>(self.address());
        Some(Guard { raw, held })
    }

    /// As `write`, for one of several.
    #[inline]
    #[track_caller]
    pub fn write_as(&self, number: Number) -> RwLockWriteGuard<'_, T, R> {
        self.write_within(number, None).expect("it waits as long as it takes")
    }

    /// As `write_as`; `None` if it would take longer than the limit.
    #[inline]
    #[track_caller]
    pub fn write_within(
        &self,
        number: Number,
        limit: Option<Duration>,
    ) -> Option<RwLockWriteGuard<'_, T, R>> {
        let held = Held::in_order(Place::of::<T>(&self.raw, Some(number)));
        let wait = || match limit {
            None => Some(self.raw.write()),
            Some(limit) => write_for(&self.raw, limit),
        };
        let raw = waits::taken::<R, _>(self.address(), || self.raw.try_write().map(Some), wait)?;
        waits::note::<R>(waits::of_all::<R>(number, self.address()));
        Some(Guard { raw, held })
    }

    /// As `read_as`, and nobody else may do so, or write, until it is given back.
    #[inline]
    #[track_caller]
    pub fn upgradable_read_as(&self, number: Number) -> RwLockUpgradableReadGuard<'_, T, R> {
        let held = Held::in_order(Place::of::<T>(&self.raw, Some(number)));
        let others = waits::of_all::<R>(number, self.address());
        let raw =
            waits::taken::<R, _>(others, || self.raw.try_upgradable_read(), || self.raw.upgradable_read());
        waits::note::<R>(self.address());
        Guard { raw, held }
    }

    fn address(&self) -> usize {
        std::ptr::from_ref(&self.raw).addr()
    }

    /// Where its value is, for a thread that may look at it without the lock.
    pub fn data_ptr(&self) -> *mut T {
        self.raw.data_ptr()
    }

    /// Reads if nobody writes.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T, R>> {
        let raw = self.raw.try_read()?;
        Some(Guard { raw, held: Held::at_once(Place::of::<T>(&self.raw, None)) })
    }

    /// Waits for so long until nobody else holds it; one of several.
    #[cfg(not(shuttle))]
    #[track_caller]
    pub fn try_write_for_as(&self, time: Duration, number: Number) -> Option<RwLockWriteGuard<'_, T, R>> {
        let held = Held::in_order(Place::of::<T>(&self.raw, Some(number)));
        let raw = match self.raw.try_write() {
            Some(raw) => raw,
            None => waits::waited::<R, _>(self.address(), || self.raw.try_write_for(time))?,
        };
        waits::note::<R>(waits::of_all::<R>(number, self.address()));
        Some(Guard { raw, held })
    }

    /// The checker knows no time: who holds it may do so for longer.
    #[cfg(shuttle)]
    pub fn try_write_for_as(&self, _: Duration, number: Number) -> Option<RwLockWriteGuard<'_, T, R>> {
        shuttle::thread::yield_now();
        let raw = self.raw.try_write()?;
        Some(Guard { raw, held: Held::at_once(Place::of::<T>(&self.raw, Some(number))) })
    }
}

impl<'l, T, R: Rank> RwLockUpgradableReadGuard<'l, T, R> {
    /// Waits until the others who read have left.
    #[inline]
    pub fn upgrade(self) -> RwLockWriteGuard<'l, T, R> {
        let Guard { raw, held } = self;
        Guard { raw: upgraded::<T, R>(raw), held }
    }
}

#[cfg(not(shuttle))]
#[inline]
fn upgraded<T, R: Rank>(raw: raw::RwLockUpgradableReadGuard<'_, T>) -> raw::RwLockWriteGuard<'_, T> {
    use raw::RwLockUpgradableReadGuard as Upgradable;
    Upgradable::try_upgrade(raw).unwrap_or_else(|raw| {
        let address = std::ptr::from_ref(Upgradable::rwlock(&raw)).addr();
        waits::waited::<R, _>(address, || Upgradable::upgrade(raw))
    })
}

#[cfg(shuttle)]
fn upgraded<T, R: Rank>(raw: raw::RwLockUpgradableReadGuard<'_, T>) -> raw::RwLockWriteGuard<'_, T> {
    raw::RwLockUpgradableReadGuard::upgrade(raw)
}

impl<G: Deref, R: Rank> Deref for Guard<G, R> {
    type Target = G::Target;

    #[inline]
    fn deref(&self) -> &G::Target {
        &self.raw
    }
}

impl<G: DerefMut, R: Rank> DerefMut for Guard<G, R> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.raw
    }
}

impl<T: Default, R: Rank> Default for Mutex<T, R> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T: Default, R: Rank> Default for RwLock<T, R> {
    fn default() -> Self {
        RwLock::new(T::default())
    }
}

impl<T: fmt::Debug, R> fmt::Debug for Mutex<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<T: fmt::Debug, R> fmt::Debug for RwLock<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.raw.fmt(f)
    }
}

impl<G: Deref<Target: fmt::Debug>, R: Rank> fmt::Debug for Guard<G, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A release build has nothing but the raw locks.
#[cfg(not(any(debug_assertions, shuttle)))]
const _: () = {
    assert!(size_of::<MutexGuard<'_, u64>>() == size_of::<std::sync::MutexGuard<'_, u64>>());
    assert!(size_of::<RwLockReadGuard<'_, u64>>() == size_of::<parking_lot::RwLockReadGuard<'_, u64>>());
    assert!(!std::mem::needs_drop::<Held<rank::Leaf>>());
};
const _: () = {
    assert!(size_of::<Mutex<u64>>() == size_of::<raw::Mutex<u64>>());
    assert!(size_of::<RwLock<u64>>() == size_of::<raw::RwLock<u64>>());
};

#[cfg(all(test, debug_assertions, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn told(what: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(what)).expect_err("it is out of order");
        *panic.downcast::<String>().expect("it says what is wrong")
    }

    #[test]
    fn a_lock_out_of_order_is_a_panic_that_names_both() {
        let segment = RwLock::<u8, rank::Segment>::default();
        let declarations = Mutex::<u8, rank::Declarations>::default();
        let told = told(|| {
            let _held = segment.read();
            let _taken = declarations.lock();
        });
        assert!(told.contains("\"declarations\"") && told.contains("\"segments\""), "{told}");
        assert!(told.matches(file!()).count() == 1, "it says where the first was taken: {told}");
        // It holds nothing any more.
        let _first = declarations.lock();
        let _second = segment.write();
    }

    #[test]
    fn two_of_one_kind_are_a_panic_and_those_that_are_several_rise() {
        let leaves: [Mutex<u8>; 2] = Default::default();
        let told_of_leaves = told(|| {
            let _one = leaves[0].lock();
            let _other = leaves[1].lock();
        });
        assert_eq!(told_of_leaves.matches("\"leaf\" (u8)").count(), 2, "{told_of_leaves}");
        let segments: [RwLock<u8, rank::Segment>; 2] = Default::default();
        let of = |number| Number::of(&segments, number);
        {
            let _first = segments[0].read_as(of(0));
            let _second = segments[1].write_as(of(1));
        }
        let told_of_segments = told(|| {
            let _second = segments[1].read_as(of(1));
            let _first = segments[0].read_as(of(0));
        });
        assert!(told_of_segments.contains("\"segments\""), "{told_of_segments}");
    }

    #[test]
    fn a_lock_that_is_tried_is_in_no_order_and_is_known_all_the_same() {
        let (gate, segment) = (RwLock::<u8, rank::Gate>::default(), RwLock::<u8, rank::Segment>::default());
        let last = segment.write();
        let gate = gate.try_read().expect("nobody holds it");
        drop(last);
        let configuration = Mutex::<u8, rank::Configuration>::default();
        drop(configuration.lock());
        drop(gate);
        let declarations = Mutex::<u8, rank::Declarations>::default();
        let _tried = configuration.try_lock().expect("nobody holds it");
        told(|| drop(declarations.lock()));
    }

    #[test]
    fn who_waits_for_a_condition_gives_that_lock_back_and_no_other() {
        let (leaf, appender) = (Mutex::<u8>::default(), Mutex::<u8, rank::Appender>::default());
        let changed = Condvar::new();
        let mut last = leaf.lock();
        changed.wait_for(&mut last, Duration::ZERO);
        drop(last);
        let mut first = appender.lock();
        let _last = leaf.lock();
        let told = told(|| changed.wait_for(&mut first, Duration::ZERO));
        assert!(told.contains("\"appender\"") && told.contains("\"leaf\""), "{told}");
    }

    #[test]
    fn a_thread_knows_only_what_it_holds_itself() {
        let (segment, gate) = (RwLock::<u8, rank::Segment>::default(), RwLock::<u8, rank::Gate>::default());
        let _held = segment.read();
        std::thread::scope(|scope| scope.spawn(|| drop(gate.write())).join()).expect("it holds nothing");
    }
}
