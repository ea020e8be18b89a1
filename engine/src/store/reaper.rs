//! The queue to the reaper, the thread that frees large values, flushed databases and old versions off the
//! write path.
//!
//! ```text
//!   command ──discard──> queue ──> reaper: mark the records of a value as superseded, then free it
//!   full queue: the command frees its own value
//! ```

use crate::index::Indexes;
use crate::log::Validity;
use crate::record::{Lsn, Made};
use crate::table::{Entry, Freed, Garbage, Table};
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// So many wait to be freed in the background at most, but for databases, indexes and what views leave.
pub(super) const PENDING_FREES_MAX: u64 = 1 << 14;

/// How long is waited before it is asked again whether to go on.
const A_WHILE: Duration = Duration::from_millis(50);

/// The garbage that is freed or walked off the write path.
pub(crate) enum Discarded {
    /// A large value.
    Value(Garbage),
    /// A flushed database. Its records are older than the record of the flush, which says enough. If views
    /// still read it, its bytes are counted until they do not.
    Table(Arc<Table>),
    /// Indexes of such a database, or that were dropped.
    Indexes(#[expect(dead_code, reason = "held to be dropped elsewhere")] Indexes),
    /// A copy of an entry. Its records are reported by the original.
    Copy(#[expect(dead_code, reason = "held to be dropped elsewhere")] Entry),
    /// A value that was made for a key and is of no use to it any more.
    Made(#[expect(dead_code, reason = "held to be dropped elsewhere")] Made),
    /// The versions that a view has left.
    View(#[expect(dead_code, reason = "held to be dropped elsewhere")] Freed),
    /// A thread waits until everything sent before this is done.
    Mark(Sender<()>),
}

/// The end of the queue that the store and the views send to, and what it counts.
#[derive(Clone)]
pub(super) struct Reaper {
    sender: Sender<Discarded>,
    pending: Arc<AtomicU64>,
    freed: Arc<AtomicU64>,
    left: Arc<AtomicU64>,
}

/// The other end of the queue, for the reaper's thread.
pub(crate) struct ReaperQueue {
    discarded: Receiver<Discarded>,
    validity: Arc<Validity>,
    pending: Arc<AtomicU64>,
    freed: Arc<AtomicU64>,
    /// Bytes of flushed databases that views still read.
    left: Arc<AtomicU64>,
}

impl Reaper {
    /// Both ends of a queue. `validity` is where records of freed values are marked.
    pub(super) fn new(validity: Arc<Validity>) -> (Reaper, ReaperQueue) {
        let (sender, discarded) = crossbeam_channel::unbounded();
        let [pending, freed, left] = std::array::from_fn(|_| Arc::new(AtomicU64::new(0)));
        let reaper = Reaper { sender, pending: pending.clone(), freed: freed.clone(), left: left.clone() };
        (reaper, ReaperQueue { discarded, validity, pending, freed, left })
    }

    pub(super) fn pending(&self) -> u64 {
        // Acquire pairs with the Release in `reap`: who sees that nothing waits sees all counted as freed.
        self.pending.load(Ordering::Acquire)
    }

    pub(super) fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Bytes of flushed databases that somebody still reads.
    pub(super) fn left(&self) -> u64 {
        self.left.load(Ordering::Relaxed)
    }

    pub(super) fn discard(&self, discarded: Discarded) {
        self.pending.fetch_add(1, Ordering::Relaxed);
        // The reaper ends only after the store, whose sender this is.
        let _ = self.sender.send(discarded);
    }

    /// Sends a copy that is read no more. It is not counted: writers free their own values when too many
    /// wait.
    pub(super) fn discard_copy(&self, entry: Entry) {
        let _ = self.sender.send(Discarded::Copy(entry));
    }

    /// Sends a value that has no key. Like a copy it is not counted.
    pub(super) fn discard_made(&self, made: Made) {
        let _ = self.sender.send(Discarded::Made(made));
    }

    /// Sends large values; a thread that meets a full queue frees its own.
    pub(super) fn discard_values(&self, garbage: Vec<Garbage>, validity: &Validity) {
        for value in garbage {
            if self.pending() >= PENDING_FREES_MAX {
                value.for_each_lsn(&mut |lsn| validity.invalidate(&[lsn]));
                self.freed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.discard(Discarded::Value(value));
            }
        }
    }

    /// Waits until what was sent up to now is done, as long as `goes_on` says so; then returns `newest`.
    pub(super) fn settle(&self, newest: Lsn, goes_on: impl Fn() -> bool) -> Option<Lsn> {
        let (sender, done) = crossbeam_channel::bounded(1);
        self.discard(Discarded::Mark(sender));
        loop {
            match done.recv_timeout(A_WHILE) {
                Ok(()) => return Some(newest),
                Err(_) if goes_on() => {}
                Err(_) => return None,
            }
        }
    }
}

impl ReaperQueue {
    /// Frees large values and flushed tables until the store is gone. Others may hold a table for the rest of
    /// a command; the last one that lets go of it frees it.
    pub(crate) fn reap(self) {
        for item in self.discarded {
            let is_mark = matches!(item, Discarded::Mark(_));
            let is_counted = !matches!(item, Discarded::Copy(_) | Discarded::Made(_));
            match &item {
                Discarded::Value(garbage) => {
                    garbage.for_each_lsn(&mut |lsn| self.validity.invalidate(&[lsn]));
                }
                // The thread that waits may have given up.
                Discarded::Mark(done) => _ = done.send(()),
                // One that nobody else has is freed at once.
                Discarded::Table(table) => table.count_left(&self.left, || Arc::strong_count(table) > 1),
                Discarded::Indexes(_) | Discarded::Copy(_) | Discarded::Made(_) | Discarded::View(_) => {}
            }
            drop(item);
            if is_counted {
                self.freed.fetch_add(u64::from(!is_mark), Ordering::Relaxed);
                self.pending.fetch_sub(1, Ordering::Release);
            }
        }
    }
}
