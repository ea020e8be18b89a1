//! Settings and counts of the deletion of expired keys.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::record::Lsn;
use crate::table::Over;

/// How often the expirer looks for keys that are due, in milliseconds, unless another cycle is set.
const CYCLE_MS: u64 = 20;

/// Is told of each key that was deleted as it had expired.
pub trait Listener: Send + Sync {
    /// A key of a database has expired, and was deleted as `lsn`. Its segment is latched.
    fn has_expired(&self, db: u8, key: &[u8], lsn: Lsn);
    /// Fields of a hash have expired, and were removed up to `lsn`; all, if the key is gone with them. Its
    /// segment is latched.
    fn have_fields_expired(&self, db: u8, key: &[u8], lsn: Lsn, is_gone: bool);
    /// Whether keys that no command touches are to be left where they are for now.
    fn is_behind(&self) -> bool;
}

/// The switches and the counter of expiry.
pub struct Expiry {
    listener: OnceLock<Box<dyn Listener>>,
    expired: AtomicU64,
    /// Fields of hashes.
    expired_fields: AtomicU64,
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
            expired_fields: AtomicU64::new(0),
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

    /// Fields of hashes that were removed because they expired.
    pub fn expired_fields(&self) -> u64 {
        self.expired_fields.load(Ordering::Relaxed)
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

    /// Notes that this part of a key was deleted, the last of it as `lsn`.
    pub(crate) fn note_expired(&self, (db, key): (u8, &[u8]), over: &Over, lsn: Lsn) {
        let (keys, fields) = match over {
            Over::Key => (1, 0),
            Over::AllFields(count) => (0, *count),
            Over::Fields(fields) => (0, fields.len()),
        };
        self.expired.fetch_add(keys, Ordering::Relaxed);
        self.expired_fields.fetch_add(fields as u64, Ordering::Relaxed);
        let Some(listener) = self.listener.get() else { return };
        match over {
            Over::Key => listener.has_expired(db, key, lsn),
            Over::AllFields(_) => listener.have_fields_expired(db, key, lsn, true),
            Over::Fields(_) => listener.have_fields_expired(db, key, lsn, false),
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
