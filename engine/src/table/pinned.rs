//! Entries that a view reads without the latch of their segment.
//!
//! ```text
//!   under the latch     which entries the view sees, by a look at the `Lsn` of each
//!   without a latch     their keys and values are read
//!   meanwhile           a write keeps what it replaces for the view: the entry moves to the segment's
//!                       versions, and its allocations stay as they are and where they are
//! ```
//!
//! So a thread that reads the store for long holds a latch for some microseconds at a time, and a worker does
//! not wait for a thread that lost its processor in the middle of a part.

#![expect(unsafe_code, reason = "entries are read while others may move them")]

use std::mem::MaybeUninit;

use super::entry::Entry;

/// An entry that a view sees: the same pointers, wherever it has been moved. It is not dropped here.
pub(super) struct Pinned(MaybeUninit<Entry>);

impl Pinned {
    /// An entry that is about to be read without its latch.
    ///
    /// SAFETY, of the call: as long as this is used, nobody changes or frees the allocations of `entry`, but
    /// for the note of use in a head, which is atomic. It may be moved.
    // SAFETY: as above.
    pub(super) unsafe fn new(entry: &Entry) -> Pinned {
        // SAFETY: a reference may be read. The copy is never dropped, and its type says that nobody may take
        // it for the owner.
        Pinned(MaybeUninit::new(unsafe { std::ptr::read(entry) }))
    }

    /// The entry.
    #[inline]
    pub(super) fn entry(&self) -> &Entry {
        // SAFETY: it was read from an entry, whose allocations are as they were: who made it promised that.
        unsafe { self.0.assume_init_ref() }
    }
}
