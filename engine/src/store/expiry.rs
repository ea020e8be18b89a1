//! Settings and counts of the deletion of expired keys.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How often the expirer looks for keys that are due, in milliseconds, unless another cycle is set.
const CYCLE_MS: u64 = 20;

/// The switches and the counter of expiry.
#[derive(Debug)]
pub struct Expiry {
    expired: AtomicU64,
    /// Whether keys that no command touches are deleted.
    active: AtomicBool,
    /// Expired keys are left where they are for now.
    held: AtomicBool,
    /// Milliseconds between two turns of the expirer.
    cycle_ms: AtomicU64,
}

impl Default for Expiry {
    fn default() -> Expiry {
        Expiry {
            expired: AtomicU64::new(0),
            active: AtomicBool::new(true),
            held: AtomicBool::new(false),
            cycle_ms: AtomicU64::new(CYCLE_MS),
        }
    }
}

impl Expiry {
    /// Keys that were deleted because they expired.
    pub fn expired_keys(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    pub(crate) fn note_expired(&self, keys: usize) {
        self.expired.fetch_add(keys as u64, Ordering::Relaxed);
    }

    /// Switches the deletion of expired keys that no command touches.
    pub fn set_active(&self, on: bool) {
        self.active.store(on, Ordering::Relaxed);
    }

    /// Leaves expired keys where they are for a while, or deletes them again. No client sees them in any
    /// case.
    pub fn hold(&self, hold: bool) {
        self.held.store(hold, Ordering::Relaxed);
    }

    /// Whether expired keys are left where they are.
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether the expirer deletes keys in this turn.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Relaxed) && !self.is_held()
    }

    /// Sets how often the expirer looks for keys that are due, from its next turn on.
    pub fn set_cycle(&self, cycle: Duration) {
        self.cycle_ms.store(cycle.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn cycle(&self) -> Duration {
        Duration::from_millis(self.cycle_ms.load(Ordering::Relaxed))
    }
}
