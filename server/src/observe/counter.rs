//! Counters that one thread writes and others read.

use std::sync::atomic::{AtomicU64, Ordering};

/// Adds to a counter that only this thread writes: a load and a store, no locked instruction.
#[inline]
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
