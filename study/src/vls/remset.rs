//! The remset: old versions of records, each with a mask of the scans that still need it.
//!
//! ```text
//!   shard, latched   [v v v v v v v v v v]◀── push: writers
//!                              ◀───┘ a scan goes downwards, some at a time; what goes away is replaced
//!                                    by the last, which the scan has met already
//! ```
//!
//! The last scan that needs a version frees it. Two other ways exist for comparison: a remset for each scan,
//! and a shared one that frees a version only when the scans that read it have ended.

use std::mem::size_of;
use std::sync::PoisonError;

use super::keep::Keep;
use super::mask::Mask;
use crate::records::Kept;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The number of latches of a remset: enough that writers seldom meet.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };
/// The number of versions that a scan reads under one latch.
const VERSIONS_PER_LATCH: usize = 64;

struct Version<M> {
    key: u64,
    row: Box<[u64]>,
    /// 0 for each scan that has yet to read it. The paper's *remset status mask*.
    unread: M,
    /// 0 for each scan that keeps it from being freed: those that have yet to read it, and, without early
    /// reclamation, those that have read it and run on.
    held: M,
}

type Shard<M> = Mutex<Vec<Version<M>>>;

pub(crate) struct Remset<M> {
    /// One, or one for each scan.
    sets: Vec<Box<[Shard<M>]>>,
    versions: AtomicUsize,
    version_bytes: usize,
    /// True if a scan releases a version when it has read it.
    early: bool,
}

/// The progress of a scan through its set.
pub(crate) struct Place {
    shard: usize,
    /// All from here on upwards have been met.
    below: usize,
}

impl Place {
    pub(crate) const START: Place = Place { shard: 0, below: usize::MAX };
}

impl<M: Mask> Remset<M> {
    pub(crate) fn new(keep: Keep, row_bytes: usize) -> Remset<M> {
        let sets = if keep == Keep::PerScan { M::BITS } else { 1 };
        let shards = || (0..SHARDS).map(|_| Mutex::new(Vec::new())).collect();
        Remset {
            sets: (0..sets).map(|_| shards()).collect(),
            versions: AtomicUsize::new(0),
            version_bytes: size_of::<Version<M>>() + row_bytes,
            early: keep != Keep::SharedToTheEnd,
        }
    }

    pub(crate) fn size(&self) -> Kept {
        let versions = self.versions.load(Ordering::Relaxed);
        Kept { versions, bytes: versions * self.version_bytes }
    }

    /// Keeps a version for the scans with 0 in `unread`. REQUIRES: the record's latch is held, and was before
    /// the masks were read.
    pub(crate) fn add(&self, key: u64, row: Box<[u64]>, unread: M) {
        if self.sets.len() == 1 {
            return self.push(0, Version { key, row, unread, held: unread });
        }
        let mut left = !unread;
        while left != M::ZEROS {
            let bit = left.lowest();
            self.push(bit.position(), Version { key, row: row.clone(), unread: !bit, held: !bit });
            left = left & !bit;
        }
    }

    fn push(&self, set: usize, version: Version<M>) {
        // Before it is there, so that the number is never below the number of versions.
        self.versions.fetch_add(1, Ordering::Relaxed);
        let shard = version.key as usize % SHARDS;
        lock(&self.sets[set][shard]).push(version);
    }

    /// A scan reads on, some versions at most, and shows the ones that it needs. False: it has met all.
    pub(crate) fn read(&self, place: &mut Place, bit: M, mut show: impl FnMut(u64, &[u64])) -> bool {
        let set = if self.sets.len() == 1 { 0 } else { bit.position() };
        self.step(set, place, |version| {
            // paper: SCAN_REMSET_READ and REMSET_MASK_UPD
            if version.unread & bit == M::ZEROS {
                show(version.key, &version.row);
                version.unread = version.unread | bit;
            }
            if self.early {
                version.held = version.held | bit;
            }
        })
    }

    /// Releases the versions of scans that have left, read or not.
    pub(crate) fn release(&self, bits: M) {
        if self.versions.load(Ordering::Relaxed) == 0 {
            return;
        }
        for set in 0..self.sets.len() {
            let mut place = Place::START;
            let release = |version: &mut Version<M>| {
                version.unread = version.unread | bits;
                version.held = version.held | bits;
            };
            while self.step(set, &mut place, release) {}
        }
    }

    fn step(&self, set: usize, place: &mut Place, mut meet: impl FnMut(&mut Version<M>)) -> bool {
        let Some(shard) = self.sets[set].get(place.shard) else { return false };
        let mut versions = lock(shard);
        let from = place.below.min(versions.len());
        let to = from.saturating_sub(VERSIONS_PER_LATCH);
        for at in (to..from).rev() {
            meet(&mut versions[at]);
            if versions[at].held == M::ONES {
                versions.swap_remove(at);
                self.versions.fetch_sub(1, Ordering::Relaxed);
            }
        }
        *place = match to {
            0 => Place { shard: place.shard + 1, ..Place::START },
            below => Place { below, ..*place },
        };
        true
    }
}

fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
