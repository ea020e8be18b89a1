//! The views that a table knows: which of them still need a replaced version, and how much is kept for them.

use super::latch::{AtomicU64, Ordering};
use crate::record::Lsn;

/// Views that can be open at the same time: one bit each.
pub const VIEWS: usize = 64;

/// A view as tables know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Its number, below [`VIEWS`].
    pub bit: u8,
    /// It sees what was written up to here.
    pub cut: Lsn,
}

/// Views that may need what a write is going to replace: their cuts are before it. Which cuts these are is
/// only looked up for entries that one of them may see.
#[derive(Clone, Copy, Debug)]
pub struct Readers<'c> {
    /// The bits of all views that were open when the write got its `Lsn`.
    pub active: u64,
    /// No cut of theirs that is before the write is newer: what was written behind it, nobody needs.
    pub newest: Lsn,
    /// The write.
    pub lsn: Lsn,
    /// The cut of each view; those that are closed or not settled have one that no `Lsn` reaches. A view that
    /// takes the bit of another meanwhile has one that is not before the write.
    pub cuts: &'c [AtomicU64],
}

impl Readers<'_> {
    /// No views.
    pub const NONE: Readers<'static> = Readers { active: 0, newest: Lsn::ZERO, lsn: Lsn::ZERO, cuts: &[] };

    /// Of the views, those whose cut has what was written at `lsn`, and not this write.
    pub(crate) fn seeing(&self, lsn: Lsn) -> impl Iterator<Item = Reader> {
        let mut left = if lsn > self.newest { 0 } else { self.active };
        let next = move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as u8)?;
            left &= left - 1;
            // The maker of these readers has seen all these cuts settled. Acquire: a writer that finds a view
            // closed changes entries in place, and does so only after the view's last look at them.
            Some(Reader { bit, cut: Lsn(self.cuts[usize::from(bit)].load(Ordering::Acquire)) })
        };
        std::iter::from_fn(next).filter(move |reader| lsn <= reader.cut && reader.cut < self.lsn)
    }
}

/// Those of some views that have still to read a key.
#[derive(Clone, Copy)]
pub struct Waiting<'r> {
    pub(super) readers: Readers<'r>,
    /// The positions that each view has passed.
    pub(super) passed: &'r [AtomicU64],
    /// Where the positions of each end.
    pub(super) until: &'r [AtomicU64],
    /// That of the key.
    pub(super) position: u64,
}

impl Waiting<'_> {
    /// No views.
    pub const NONE: Waiting<'static> =
        Waiting { readers: Readers::NONE, passed: &[], until: &[], position: 0 };

    /// The bits of those that see an entry of this `Lsn`.
    #[inline]
    pub(super) fn seeing(self, lsn: Lsn) -> u64 {
        if lsn > self.readers.newest { 0 } else { self.among(lsn) }
    }

    #[cold]
    fn among(self, lsn: Lsn) -> u64 {
        let at = |places: &[AtomicU64], reader: &Reader| places[reader.bit as usize].load(Ordering::Relaxed);
        let waits = |reader: &Reader| {
            at(self.passed, reader) <= self.position && self.position < at(self.until, reader)
        };
        self.readers.seeing(lsn).filter(waits).fold(0, |bits, reader| bits | 1 << reader.bit)
    }
}

/// How many versions are kept, and their bytes: about, where a large value was replaced as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Versions.
    pub records: usize,
    /// Bytes that they hold beyond what the newest entries do.
    pub bytes: usize,
}

impl Retained {
    pub(crate) fn add(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }

    pub(crate) fn add_all(&mut self, other: Retained) {
        self.records += other.records;
        self.bytes += other.bytes;
    }
}
