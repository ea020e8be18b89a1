//! Cache misses, where the machine counts them, and the private memory of forked children: the pages that the
//! kernel has copied.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

use crate::process;

/// The interval between two readings of the children's memory.
const PERIOD: Duration = Duration::from_millis(50);

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

/// Reads the memory of this process's children repeatedly, on the given core, until `stop` is set. Returns
/// the most bytes that they had together and for themselves.
pub(super) fn child_bytes_most(core: usize, stop: &AtomicBool) -> u64 {
    // Where it runs is a matter of courtesy.
    let _ = process::pin_thread(&[core]);
    let mut most = 0;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(PERIOD);
        most = most.max(process::children(std::process::id()).into_iter().map(process::private_bytes).sum());
    }
    most
}

#[cfg(test)]
mod tests {
    use process::private_bytes;

    use super::*;

    #[test]
    fn a_child_has_memory_of_its_own() {
        let mut child = std::process::Command::new("sleep").arg("5").spawn().expect("there is a sleep");
        assert!(process::children(std::process::id()).contains(&child.id()));
        // It may not have begun yet.
        while private_bytes(child.id()) <= 4096 {
            assert!(matches!(child.try_wait(), Ok(None)), "it sleeps for long");
            std::thread::yield_now();
        }
        child.kill().and_then(|()| child.wait()).expect("the child is ours");
    }
}
