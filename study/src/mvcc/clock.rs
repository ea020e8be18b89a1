//! The clock, from which writers and scans draw timestamps, and the scans that run.
//!
//! ```text
//!   scan     announce ── draw s ── register s
//!                          │      a writer that draws after s acquires the announcement with the clock
//!   writer   latches ── draw t ── look at the readers ── write
//!                          │      a scan that draws after t waits for the latches
//! ```

use std::collections::BTreeSet;
use std::sync::PoisonError;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard};

use super::keep::{Keep, Readers};

/// The newest reader while none runs.
const NONE: u64 = 0;
/// The newest reader while a scan begins.
const BEGINS: u64 = u64::MAX;

pub(crate) struct Clock {
    /// The next timestamp. It is only ever changed by read-modify-writes, which acquire and release: who
    /// draws sees what all have done who drew before.
    next: AtomicU64,
    /// [`NONE`], [`BEGINS`] or the timestamp of the newest scan that runs.
    newest: AtomicU64,
    /// The timestamps of the scans that run.
    running: Mutex<BTreeSet<u64>>,
}

impl Clock {
    pub(crate) fn new() -> Clock {
        Clock {
            next: AtomicU64::new(NONE + 1),
            newest: AtomicU64::new(NONE),
            running: Mutex::new(BTreeSet::new()),
        }
    }

    /// The timestamp of a write. REQUIRES: its latches are held.
    pub(crate) fn draw(&self) -> u64 {
        self.next.fetch_add(1, Ordering::AcqRel)
    }

    /// The scans that a writer must keep versions for. REQUIRES: it has drawn its timestamp.
    pub(crate) fn readers(&self) -> Readers {
        // A scan that drew before the writer has announced itself before it drew.
        let newest = self.newest.load(Ordering::Relaxed);
        Readers { any: newest != NONE, newest }
    }

    /// Begins a scan; returns its timestamp.
    pub(crate) fn begin<K: Keep>(&self) -> u64 {
        let mut running = self.lock();
        if K::REGISTERS_FIRST {
            self.newest.store(BEGINS, Ordering::Relaxed);
        }
        let scan = self.draw();
        running.insert(scan);
        self.newest.store(scan, Ordering::Relaxed);
        scan
    }

    /// Ends a scan. Returns the horizon if it has moved.
    pub(crate) fn end(&self, scan: u64) -> Option<u64> {
        let mut running = self.lock();
        let was_oldest = running.first() == Some(&scan);
        running.remove(&scan);
        self.newest.store(running.last().copied().unwrap_or(NONE), Ordering::Relaxed);
        was_oldest.then(|| self.horizon_of(&running))
    }

    /// The horizon: no scan that runs or will begin has an earlier timestamp.
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon_of(&self.lock())
    }

    fn horizon_of(&self, running: &BTreeSet<u64>) -> u64 {
        // With the lock held nobody begins: who does later draws this number or a later one.
        running.first().copied().unwrap_or_else(|| self.next.load(Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        // Nothing panics while it is held.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
