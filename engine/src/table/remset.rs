//! What writers leave behind for views: the old versions of entries that some view has not read yet.
//!
//! ```text
//!   entry of lsn 7 ──write at lsn 12──> entry of lsn 12, and a version (lsn 7, until 12) in the remset
//!                                       for the views with 7 <= cut < 12 that have not passed its position
//! ```
//!
//! A version says itself whom it concerns: a view with cut `s` sees it if and only if its `Lsn` ≤ `s` <
//! `until`. The bits beside it say who has still to read it; whoever reads it last takes it away. A bit may
//! be outdated, when its view was closed and the bit taken by a new one: `until` ≤ the new cut tells.

use std::ops::Range;
use std::sync::Arc;

use super::entry::Entry;
use super::latch::{AtomicU64, Ordering};
use super::segment::KeyHash;
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
            // Relaxed: whoever made these readers has seen all these cuts settled.
            Some(Reader { bit, cut: Lsn(self.cuts[usize::from(bit)].load(Ordering::Relaxed)) })
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

/// How many versions are kept, and their bytes: an estimate where a large value was replaced as a whole.
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

/// What is kept for views, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemsetSize {
    /// Versions, of which each is there once, whoever reads it.
    pub versions: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Versions that there were if each view had its own.
    pub versions_apart: usize,
    /// The bytes of those.
    pub bytes_apart: usize,
}

/// An entry as it was.
struct Version {
    /// The bits of the views that have to read it.
    readers: u64,
    /// The `Lsn` of the write that replaced it.
    until: Lsn,
    bytes: usize,
    /// That of its key: to find it does not need a look at the entry.
    hash: KeyHash,
    entry: Arc<Entry>,
}

/// The versions of a segment, in no order.
#[derive(Default)]
pub(super) struct Remset(Vec<Version>);

impl Remset {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn count(&self, size: &mut RemsetSize) {
        for version in &self.0 {
            let readers = version.readers.count_ones() as usize;
            size.versions += 1;
            size.bytes += version.bytes;
            size.versions_apart += readers;
            size.bytes_apart += version.bytes * readers;
        }
    }

    pub(super) fn push(&mut self, hash: KeyHash, entry: Entry, readers: u64, until: Lsn, bytes: usize) {
        debug_assert!(readers != 0 && entry.lsn() < until, "a version is older, and somebody needs it");
        self.0.push(Version { readers, until, bytes, hash, entry: Arc::new(entry) });
    }

    /// Counts bytes that a write has left to the newest version of `key`. Returns how many; 0 if there is no
    /// version, and somebody else has them.
    pub(super) fn leave_to(&mut self, hash: KeyHash, key: &[u8], bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        let versions = self.0.iter_mut().filter(|version| version.hash == hash && version.entry.key() == key);
        let Some(newest) = versions.max_by_key(|version| version.until) else { return 0 };
        newest.bytes += bytes;
        bytes
    }

    /// The versions within `positions` that `reader` sees.
    pub(super) fn seen_by(&self, reader: Reader, positions: &Range<u64>) -> Vec<Arc<Entry>> {
        let sees = |version: &&Version| {
            version.readers & 1 << reader.bit != 0
                && (version.entry.lsn() <= reader.cut && reader.cut < version.until)
                && positions.contains(&version.hash.position())
        };
        self.0.iter().filter(sees).map(|version| version.entry.clone()).collect()
    }

    /// The bits of those who have to read each version, and its bytes.
    pub(super) fn for_each(&self, look: &mut impl FnMut(u64, usize)) {
        self.0.iter().for_each(|version| look(version.readers, version.bytes));
    }

    /// The version of `key` that `reader` sees.
    pub(super) fn seen_of(&self, hash: KeyHash, key: &[u8], reader: Reader) -> Option<Arc<Entry>> {
        let sees = |version: &&Version| {
            version.hash == hash
                && version.readers & 1 << reader.bit != 0
                && (version.entry.lsn() <= reader.cut && reader.cut < version.until)
                && version.entry.key() == key
        };
        self.0.iter().find(sees).map(|version| version.entry.clone())
    }

    /// Takes the bit of a view from the versions within `positions`, and these from here if nobody else has
    /// to read them: they are `freed`.
    pub(super) fn release(&mut self, bit: u8, positions: &Range<u64>, freed: &mut Freed) {
        self.0.retain_mut(|version| {
            if version.readers & 1 << bit != 0 && positions.contains(&version.hash.position()) {
                version.readers &= !(1 << bit);
            }
            if version.readers == 0 {
                freed.retained.add(version.bytes);
                freed.entries.push(version.entry.clone());
            }
            version.readers != 0
        });
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }

    /// Moves the versions of keys whose hash has `bit` to the returned remset.
    pub(super) fn split(&mut self, bit: u64) -> Remset {
        let moves = |version: &mut Version| version.hash.0 & bit != 0;
        Remset(self.0.extract_if(.., moves).collect())
    }

    pub(super) fn merge(&mut self, other: Remset) {
        self.0.extend(other.0);
    }
}

/// Versions that were taken from remsets. They are to be dropped without a latch: that may take long.
#[derive(Default)]
pub struct Freed {
    /// How much it was.
    pub retained: Retained,
    pub(super) entries: Vec<Arc<Entry>>,
}

impl Freed {
    /// Whether nothing was taken.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
