//! Counters of each directory of the log, updated once a block or a sync, never once a record.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Blocks that are not tried after an attempt in vain, at most.
const PASSED_MAX: u64 = 64;

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

/// How compression went so far, of flushes and compactions.
#[derive(Debug, Default)]
pub(in crate::log) struct Packing {
    /// Blocks that were written compressed.
    pub(in crate::log) blocks: AtomicU64,
    pub(in crate::log) bytes_before: AtomicU64,
    pub(in crate::log) bytes_after: AtomicU64,
    /// Blocks that were tried in vain.
    pub(in crate::log) misses: AtomicU64,
    /// Blocks that were compressed and not written so, as another had been placed behind them.
    pub(in crate::log) overtaken: AtomicU64,
    /// Of flushes.
    pub(in crate::log) back_off: BackOff,
}

impl Packing {
    /// Counts a block that was written compressed.
    pub(in crate::log) fn note(&self, before: u64, after: u64) {
        self.blocks.fetch_add(1, Ordering::Relaxed);
        self.bytes_before.fetch_add(before, Ordering::Relaxed);
        self.bytes_after.fetch_add(after, Ordering::Relaxed);
    }

    pub(in crate::log) fn note_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    pub(in crate::log) fn note_overtaken(&self) {
        self.overtaken.fetch_add(1, Ordering::Relaxed);
    }
}

/// The blocks that are not tried, as those before them could not be compressed, or not before another was
/// placed behind them. Threads that look at once may pass over one more or less.
#[derive(Debug, Default)]
pub(in crate::log) struct BackOff {
    /// How many were passed over after the last attempt in vain; 0 after one that went well.
    passed: AtomicU64,
    /// How many are still to be passed over.
    left: AtomicU64,
}

impl BackOff {
    /// Whether the next block is tried.
    pub(in crate::log) fn is_due(&self) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        if left > 0 {
            self.left.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    /// Notes how an attempt went.
    pub(in crate::log) fn note(&self, went_well: bool) {
        let passed = match went_well {
            true => 0,
            false => (2 * self.passed.load(Ordering::Relaxed)).clamp(1, PASSED_MAX),
        };
        self.passed.store(passed, Ordering::Relaxed);
        self.left.store(passed, Ordering::Relaxed);
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
