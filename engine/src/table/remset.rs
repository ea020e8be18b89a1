//! The version store of a segment: the old versions of entries that some view has not read yet.
//!
//! ```text
//!   entry of lsn 7 ──write at lsn 12──> entry of lsn 12, and a version (lsn 7, until 12) in the remset
//!                                       for the views with 7 <= cut < 12 that have not passed its position
//! ```
//!
//! A version itself says which views it concerns: a view with cut `s` sees it if and only if its `Lsn` ≤ `s`
//! < `until`. The bits beside it say which views have still to read it; the last of them takes it away. A
//! bit may be outdated, when its view was closed and a new one took the bit: then `until` ≤ the new cut.

use std::ops::Range;
use std::sync::Arc;

use super::entry::{Entry, OldVersion};
use super::hash::KeyHash;
use super::readers::{Reader, Retained};
use crate::record::Lsn;

/// The number and size of versions kept for views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemsetSize {
    /// Versions; each counts once, however many views read it.
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
    /// The most that these may be, once it has been measured.
    bytes_max: Option<usize>,
    /// Whether the value that follows it has nothing of it.
    is_apart: bool,
    /// That of its key: to find it does not need a look at the entry.
    hash: KeyHash,
    entry: Arc<Entry>,
}

/// A version that has more bytes is measured.
const MEASURED_FROM: usize = 16 << 10;

impl Version {
    /// Counts bytes that a write has left to it, or to a copy of its key: who writes does not know, and
    /// copies may come and go. But it has no more than all its nodes. Returns by how much it grows.
    fn leave(&mut self, bytes: usize) -> usize {
        if self.is_apart {
            return 0;
        }
        let mut grows = bytes;
        if self.bytes.saturating_add(bytes) > MEASURED_FROM {
            let entry = &self.entry;
            let most = *self.bytes_max.get_or_insert_with(|| entry.bytes_near());
            grows = grows.min(most.saturating_sub(self.bytes));
        }
        self.bytes += grows;
        grows
    }
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

    /// Keeps an entry. `is_apart`: the value that takes its place has nothing of it.
    pub(super) fn push(&mut self, hash: KeyHash, old: OldVersion, readers: u64, until: Lsn, is_apart: bool) {
        let OldVersion { entry, bytes } = old;
        debug_assert!(readers != 0 && entry.lsn() < until, "a version is older, and somebody needs it");
        let entry = Arc::new(entry);
        self.0.push(Version { readers, until, bytes, bytes_max: None, is_apart, hash, entry });
    }

    /// Counts bytes that a write has left to the newest version of `key`. Returns how many; 0 if there is no
    /// version with which it shares any, and somebody else has them.
    pub(super) fn leave_to(&mut self, hash: KeyHash, key: &[u8], bytes: usize) -> usize {
        if bytes == 0 {
            return 0;
        }
        self.newest(hash, key).map_or(0, |newest| newest.leave(bytes))
    }

    fn newest(&mut self, hash: KeyHash, key: &[u8]) -> Option<&mut Version> {
        let versions = self.0.iter_mut().filter(|version| version.hash == hash && version.entry.key() == key);
        versions.max_by_key(|version| version.until)
    }

    /// Whether there may be a version of a key with this hash.
    pub(super) fn has(&self, hash: KeyHash) -> bool {
        self.0.iter().any(|version| version.hash == hash)
    }

    /// As `leave_to`, with all nodes of an entry that is about to go, or to be replaced as a whole: its
    /// version takes nothing of later values.
    pub(super) fn leave_whole(&mut self, hash: KeyHash, entry: &Entry) -> usize {
        if !entry.is_large() || !self.has(hash) {
            return 0;
        }
        let bytes = entry.bytes_near();
        let Some(newest) = self.newest(hash, entry.key()) else { return 0 };
        let left = newest.leave(bytes);
        newest.is_apart = true;
        left
    }

    /// The versions within `positions` that `reader` sees, with the positions of their keys.
    pub(super) fn seen_by(&self, reader: Reader, positions: &Range<u64>) -> Vec<(u64, Arc<Entry>)> {
        let sees = |version: &&Version| {
            // The entry last: a look at it waits for memory.
            version.readers & 1 << reader.bit != 0
                && reader.cut < version.until
                && positions.contains(&version.hash.position())
                && version.entry.lsn() <= reader.cut
        };
        let seen = self.0.iter().filter(sees);
        seen.map(|version| (version.hash.position(), version.entry.clone())).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Change;

    #[test]
    fn a_version_has_no_more_than_all_its_nodes_whatever_copies_had() {
        let put = Change::Put { value: vec![1; 4 << 20].into(), expiry: None };
        let entry = Entry::create(b"key", &put, Lsn(1)).expect("a put makes an entry");
        let (hash, all) = (KeyHash::of(b"key"), entry.bytes());
        let mut remset = Remset::default();
        remset.push(hash, OldVersion { entry, bytes: 100 }, 1, Lsn(2), false);
        assert_eq!(remset.leave_to(hash, b"key", 1_000), 1_000);
        let left: usize = (0..100).map(|_| remset.leave_to(hash, b"key", 100_000)).sum();
        assert_eq!(100 + 1_000 + left, all);
        assert_eq!(remset.leave_to(hash, b"key", 1), 0);
        assert_eq!(remset.leave_to(KeyHash::of(b"other"), b"other", 1), 0, "nobody keeps that");
    }
}
