//! Messages of another thread to a load while it runs: a new phase begins, or the load may end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Set by one thread, read by the load. A load begins in phase 0.
#[derive(Debug, Default)]
pub struct Cue {
    phase: AtomicUsize,
    ended: AtomicBool,
}

impl Cue {
    /// Begins the next phase, and returns its number.
    pub fn next(&self) -> usize {
        self.phase.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Lets the load end.
    pub fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
    }

    /// The phase that it is.
    pub fn phase(&self) -> usize {
        self.phase.load(Ordering::Relaxed)
    }

    /// True if the load may end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}
