//! Loading reads: serves reads from the tables while the data is being loaded, and decides which entries may
//! be served.
//!
//! ```text
//!   loader   begin(tables) ── checkpoint ── replay: note_sure, follow a flush or a swap ── end
//!   worker        enter ── latch the keys ── tells(entry) for each ── the command
//! ```
//!
//! A worker latches segments as readers do, so it sees whole records and waits for one batch of them at most,
//! and so does a replayer for one command. What an entry says is told if it is something that the key once
//! was:
//! - an entry that only the checkpoint made is as it was at the cut;
//! - a string that one record made is what that record said;
//! - any other is made of many records. Of those a compaction has left out what is obsolete in the end, so it
//!   may lack elements that it always had, until all that the compacted files rely on is replayed. Nor is it
//!   sure until then that a key was still there when its database changed places with another. From there on
//!   every beginning of the log is one that a crash may leave: see [`Reader::relied_on`].
//!
//! And nothing is told that a loss of power could still take: records beyond what is known to be durable are
//! made so at the end of the loading.
//!
//! [`Reader::relied_on`]: crate::log::Reader::relied_on

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::lock::{RwLock, rank};
use crate::record::{Lsn, Write};
use crate::session::Session;
use crate::store::{Databases, Store};
use crate::table::{Entry, Table};

/// The data that is loaded already, for clients that read while the rest is being loaded.
pub struct Early {
    /// No tables before the beginning and after the end.
    databases: RwLock<Databases, rank::Gate>,
    /// Records up to this `Lsn` are from a checkpoint.
    settled: AtomicU64,
    /// Records up to this `Lsn` are durable.
    sure: AtomicU64,
    /// The newest record that had databases change places.
    swapped: AtomicU64,
    /// Whether all has been replayed that compacted files rely on.
    exact: AtomicBool,
}

impl Default for Early {
    fn default() -> Early {
        Early {
            databases: RwLock::new(Databases::default()),
            settled: AtomicU64::new(0),
            sure: AtomicU64::new(0),
            swapped: AtomicU64::new(0),
            exact: AtomicBool::new(false),
        }
    }
}

impl Early {
    /// Shows the tables that are going to be filled: from a checkpoint with entries that are not newer than
    /// `settled`, then from a log.
    pub fn begin(&self, tables: &[Arc<Table>], settled: Lsn) {
        self.settled.store(settled.0, Ordering::Relaxed);
        self.show(tables);
    }

    /// Shows what became of the tables by a record that concerns whole databases.
    pub(crate) fn follow(&self, tables: &[Arc<Table>], lsn: Lsn, write: &Write<'_>) {
        if let Write::Swap { .. } = write {
            self.swapped.store(lsn.0, Ordering::Relaxed);
        }
        self.show(tables);
    }

    fn show(&self, tables: &[Arc<Table>]) {
        let old = {
            let mut databases = self.databases.write();
            databases.swaps.resize(tables.len(), 0);
            databases.floors.resize(tables.len(), Lsn::ZERO);
            std::mem::replace(&mut databases.tables, tables.to_vec())
        };
        // Freed, if nobody else has them, where no reader waits.
        drop(old);
    }

    /// Notes that records up to `lsn` are durable.
    pub fn note_sure(&self, lsn: Lsn) {
        self.sure.store(lsn.0, Ordering::Relaxed);
    }

    /// Notes that all has been replayed that compacted files rely on.
    pub(crate) fn note_exact(&self) {
        // Partner of the load in `tells`: the replayers' changes come before it.
        self.exact.store(true, Ordering::Release);
    }

    /// Shows nothing any more.
    pub fn end(&self) {
        self.show(&[]);
    }

    /// Enters what is there so far, for one command; `None` before the beginning and after the end. `store`
    /// is an empty one: the session takes the clock from it.
    ///
    /// REQUIRES: nothing is committed, and the session ends with the command.
    pub fn enter<'e>(&'e self, store: &'e Store) -> Option<Session<'e>> {
        let databases = self.databases.read();
        (!databases.tables.is_empty()).then(|| Session::new(store, databases, false))
    }

    /// Whether a client may be told what `entry` says. REQUIRES: its segment is latched.
    pub fn tells(&self, entry: &Entry) -> bool {
        let lsn = entry.lsn().0;
        let is_settled = lsn <= self.settled.load(Ordering::Relaxed);
        let is_durable = is_settled || lsn <= self.sure.load(Ordering::Relaxed);
        let is_in_place = lsn >= self.swapped.load(Ordering::Relaxed);
        // A replayer that has passed the point did so before its next change here, which waits for the latch:
        // what is seen has all up to the point.
        is_durable
            && (is_in_place && (is_settled || entry.is_of_one_record()) || self.exact.load(Ordering::Acquire))
    }
}
