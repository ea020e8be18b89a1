//! Cache misses, where the machine counts them.

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counts the cache misses of a thread between starts and stops.
pub(super) struct CacheMisses {
    counter: Option<Counter>,
}

impl CacheMisses {
    /// Of the calling thread. Virtual machines often have no counters, and the system may forbid them.
    pub(super) fn of_this_thread() -> CacheMisses {
        CacheMisses { counter: Builder::new(Hardware::CACHE_MISSES).build().ok() }
    }

    /// Counts from here on.
    pub(super) fn start(&mut self) {
        self.counter.take_if(|counter| counter.enable().is_err());
    }

    /// Counts no more until started again.
    pub(super) fn stop(&mut self) {
        self.counter.take_if(|counter| counter.disable().is_err());
    }

    /// The number of misses, if they were counted.
    pub(super) fn count(&mut self) -> Option<u64> {
        self.counter.as_mut()?.read().ok()
    }
}
