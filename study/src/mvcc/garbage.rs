//! The versions that were replaced, by their ends, so that those that nobody needs any more are found without
//! a pass over all records.

use std::collections::VecDeque;
use std::sync::PoisonError;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, MutexGuard};

/// The number of latches: enough that writers seldom meet.
const SHARDS: usize = if cfg!(loom) { 1 } else { 64 };

/// The end of a version, and the bucket that it is in.
pub(crate) type Ended = (u64, u32);

pub(crate) struct Garbage {
    shards: Box<[Mutex<VecDeque<Ended>>]>,
    /// Versions in all chains.
    pub(crate) versions: AtomicUsize,
}

impl Garbage {
    pub(crate) fn new() -> Garbage {
        let shards = (0..SHARDS).map(|_| Mutex::new(VecDeque::new())).collect();
        Garbage { shards, versions: AtomicUsize::new(0) }
    }

    /// A version has ended. REQUIRES: its bucket is latched.
    pub(crate) fn push(&self, end: u64, bucket: usize) {
        self.versions.fetch_add(1, Ordering::Relaxed);
        // A table has no more buckets than a `u32` can number.
        lock(&self.shards[bucket % SHARDS]).push_back((end, bucket as u32));
    }

    /// Takes the buckets that have versions which satisfy `is_garbage`. Ends in a shard are nearly in order;
    /// one that is behind a later one is found the next time.
    pub(crate) fn take(&self, is_garbage: impl Fn(u64) -> bool) -> Vec<u32> {
        let mut buckets = Vec::new();
        for shard in &self.shards {
            let mut ended = lock(shard);
            let count = ended.iter().take_while(|(end, _)| is_garbage(*end)).count();
            buckets.extend(ended.drain(..count).map(|(_, bucket)| bucket));
        }
        buckets.sort_unstable();
        buckets.dedup();
        buckets
    }
}

fn lock<T>(shard: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is held.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}
