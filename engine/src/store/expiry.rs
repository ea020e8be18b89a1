//! Settings and counts of the deletion of expired keys.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::record::{Batch, Lsn, Write};

/// How often the expirer looks for keys that are due, in milliseconds, unless another cycle is set.
const CYCLE_MS: u64 = 20;

/// Is told of each key that was deleted as it had expired.
pub trait Listener: Send + Sync {
    /// A key of a database has expired, and was deleted as `lsn`. Its segment is latched.
    fn has_expired(&self, db: u8, key: &[u8], lsn: Lsn);
    /// Whether keys that no command touches are to be left where they are for now.
    fn is_behind(&self) -> bool;
}

/// The switches and the counter of expiry.
pub struct Expiry {
    listener: OnceLock<Box<dyn Listener>>,
    expired: AtomicU64,
    /// Nanoseconds that the expirer has taken to delete what was due.
    took_ns: AtomicU64,
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
            listener: OnceLock::new(),
            expired: AtomicU64::new(0),
            took_ns: AtomicU64::new(0),
            active: AtomicBool::new(true),
            held: AtomicBool::new(false),
            cycle_ms: AtomicU64::new(CYCLE_MS),
        }
    }
}

impl fmt::Debug for Expiry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expiry").field("expired", &self.expired).field("active", &self.active).finish()
    }
}

impl Expiry {
    /// Keys that were deleted because they expired.
    pub fn expired_keys(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// The time that the expirer has taken to delete what was due.
    pub fn took(&self) -> Duration {
        Duration::from_nanos(self.took_ns.load(Ordering::Relaxed))
    }

    /// Notes that the expirer has taken so long.
    pub(crate) fn note_took(&self, took: Duration) {
        self.took_ns.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Has `listener` told of each key that was deleted as it had expired.
    ///
    /// REQUIRES: it is called once. The listener takes no lock that comes before the segments.
    pub fn tell(&self, listener: Box<dyn Listener>) {
        let is_first = self.listener.set(listener).is_ok();
        debug_assert!(is_first, "one is told of expired keys");
    }

    /// Notes that the keys of `batch` were deleted, the last of them as `lsn`.
    pub(crate) fn note_expired(&self, batch: &Batch<'_>, lsn: Lsn) {
        self.expired.fetch_add(batch.len() as u64, Ordering::Relaxed);
        let Some(listener) = self.listener.get() else { return };
        for write in batch {
            if let Write::Key { db, key, .. } = write {
                listener.has_expired(*db, key, lsn);
            }
        }
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

    /// Whether the expirer leaves keys where they are until the listener has kept up.
    pub(crate) fn is_behind(&self) -> bool {
        self.listener.get().is_some_and(|listener| listener.is_behind())
    }

    /// Sets how often the expirer looks for keys that are due, from its next turn on.
    pub fn set_cycle(&self, cycle: Duration) {
        self.cycle_ms.store(cycle.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn cycle(&self) -> Duration {
        Duration::from_millis(self.cycle_ms.load(Ordering::Relaxed))
    }
}
