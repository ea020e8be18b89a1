//! Counters of each directory of the log, updated once a block or a sync, never once a record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The work done so far in one directory.
#[derive(Debug, Default)]
pub(in crate::log) struct Counters {
    pub(in crate::log) blocks: AtomicU64,
    pub(in crate::log) bytes: AtomicU64,
    pub(in crate::log) syncs: AtomicU64,
    pub(in crate::log) sync_nanos: AtomicU64,
    pub(in crate::log) sync_nanos_max: AtomicU64,
    pub(in crate::log) failures: AtomicU64,
}

/// The bytes that compression has saved so far, of flushes and compactions.
#[derive(Debug, Default)]
pub(in crate::log) struct Packing {
    pub(in crate::log) blocks: AtomicU64,
    pub(in crate::log) bytes_before: AtomicU64,
    pub(in crate::log) bytes_after: AtomicU64,
}

impl Packing {
    /// Counts a block that compression has made shorter, if it has.
    pub(in crate::log) fn note(&self, before: u64, after: u64) {
        if after < before {
            self.blocks.fetch_add(1, Ordering::Relaxed);
            self.bytes_before.fetch_add(before, Ordering::Relaxed);
            self.bytes_after.fetch_add(after, Ordering::Relaxed);
        }
    }
}

impl Counters {
    /// Counts a block of `bytes` bytes.
    pub(in crate::log) fn note_block(&self, bytes: u64) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts a sync.
    pub(in crate::log) fn note_sync(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.sync_nanos_max.fetch_max(nanos, Ordering::Relaxed);
    }
}
