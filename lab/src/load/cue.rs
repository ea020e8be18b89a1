//! What another thread tells a load while it runs: that a new phase begins, and that it may end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Told by one thread, looked at by the load. Phase 0 is where a load begins.
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

    /// Whether the load may end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}
