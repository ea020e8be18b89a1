//! The state that all threads of an engine share: databases behind the gate, log, views, validity, clock.
//!
//! ```text
//!            engine: starts the threads, and is what other packages call
//!   ┌───────────┼──────────┬──────────┬─────────┬─────────┐
//!   session  compactor  indexer  expirer  renewal  backup …
//!   └───────────┴──────────┴────┬─────┴─────────┴─────────┘
//!                             store ──> gate, log, views, index, watches, rewrite cursor
//!                               │ queues
//!                               └──> reaper, index builder
//! ```
//!
//! A session enters the gate here, appends to the log here, and then applies the change itself. The store
//! knows nothing of sessions or of background threads: to them it is only passed.

mod builds;
mod copied;
mod databases;
mod eviction;
mod expiry;
mod prepared;
mod reaper;

use crate::gate::{Closed, Gates};
use crate::index::{Index, IndexStatus, Indexes};
use crate::io::Clock;
use crate::lock::{RwLockReadGuard, rank};
use crate::log::{Appender, Group, LogError, Validity};
use crate::record::{Batch, Lsn, Made, UnixMs};
use crate::rewrite_cursor::RewriteCursor;
use crate::table::{Entry, Garbage, KeyCounts, Readers, RemsetSize, Table};
use crate::throttle::ClientLatency;
use crate::view::{Live, View, ViewError, ViewOptions, Views};
use crate::watch::Watches;
pub use builds::IndexMemory;
pub(crate) use builds::{Build, BuildQueue, BuildSender, IndexLimit};
pub use copied::Copied;
pub(crate) use databases::Databases;
pub(crate) use eviction::{Candidate, Eviction, Pool};
pub use eviction::{Evicted, EvictionOptions, Listener as EvictionListener, Room, Victims};
pub(crate) use expiry::Expiry;
pub use expiry::Listener as ExpiryListener;
pub use prepared::Preparation;
use prepared::Preparations;
use reaper::Reaper;
pub(crate) use reaper::{Discarded, ReaperQueue};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Why a commit was refused. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The log cannot take writes now; reads go on.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A value was prepared in vain, as a checkpoint began, or a database was flushed or swapped.
    #[error("the value has to be prepared again")]
    Unprepared,
    /// Somebody has the store for itself for long: it is to be tried again a moment later.
    #[error("another thread has the store for itself")]
    GateClosed,
}

/// The gate of background threads; those of workers follow it.
const BACKGROUND: usize = 0;

/// The shared state of an engine. Threads enter it through the gate, with a number of their own.
pub struct Store {
    gates: Gates<Databases>,
    /// The newest `Lsn` while there is no log.
    unlogged: AtomicU64,
    /// Which records of the log have been replaced.
    validity: Arc<Validity>,
    /// Missing keys that a client watches.
    watches: Arc<Watches>,
    clock: Arc<dyn Clock>,
    reaper: Reaper,
    builds: BuildSender,
    index_limit: IndexLimit,
    views: Arc<Views>,
    rewrite_cursor: RewriteCursor,
    expiry: Expiry,
    eviction: Eviction,
    preparations: Preparations,
}

/// The receiving ends of the store's queues, for the threads that serve them.
pub(crate) struct Queues {
    /// The queue of garbage to free.
    pub(crate) reaper: ReaperQueue,
    /// Indexes that are to be built.
    pub(crate) builds: BuildQueue,
}

impl Store {
    /// A store of these tables for `workers` threads, logged to `log` if there is one. `validity` knows
    /// which records have been replaced so far.
    pub(crate) fn new(
        tables: Vec<Arc<Table>>,
        workers: usize,
        log: Option<Appender>,
        validity: Arc<Validity>,
        clock: Arc<dyn Clock>,
    ) -> (Store, Queues) {
        let databases = Databases::new(tables, log);
        let (builds, build_queue) = crossbeam_channel::unbounded();
        let (reaper, reaper_queue) = Reaper::new(validity.clone());
        let views_reaper = reaper.clone();
        let discard = Box::new(move |freed| views_reaper.discard(Discarded::View(freed)));
        let store = Store {
            gates: Gates::new((0..=workers).map(|_| databases.clone())),
            unlogged: AtomicU64::new(0),
            validity,
            watches: Arc::default(),
            views: Arc::new(Views::new(clock.clone(), discard)),
            rewrite_cursor: RewriteCursor::default(),
            clock,
            reaper,
            builds,
            index_limit: IndexLimit::default(),
            expiry: Expiry::default(),
            eviction: Eviction::default(),
            preparations: Preparations::default(),
        };
        (store, Queues { reaper: reaper_queue, builds: build_queue })
    }
}

/// The gate.
impl Store {
    /// Enters the gate as worker `worker` (0, 1, …). Waits while the gate is closed.
    pub(crate) fn enter(&self, worker: usize) -> RwLockReadGuard<'_, Databases, rank::Gate> {
        self.gates.enter(worker + 1)
    }

    /// As `enter`; `None` if the gate stays closed for longer than the limit.
    pub(crate) fn enter_within(
        &self,
        worker: usize,
        limit: Duration,
    ) -> Option<RwLockReadGuard<'_, Databases, rank::Gate>> {
        self.gates.enter_within(worker + 1, limit)
    }

    /// Enters the gate as a background thread.
    pub(crate) fn background(&self) -> RwLockReadGuard<'_, Databases, rank::Gate> {
        self.gates.enter(BACKGROUND)
    }

    /// As `background`; `None` if the gate stays closed for longer than the limit.
    pub(crate) fn background_within(
        &self,
        limit: Duration,
    ) -> Option<RwLockReadGuard<'_, Databases, rank::Gate>> {
        self.gates.enter_within(BACKGROUND, limit)
    }

    /// Closes the gate: waits until every worker is out, and keeps them out.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn close(&self) -> Closed<'_, Databases> {
        self.gates.close()
    }

    /// As `close`, but `None` if a thread stays inside for longer; see [`Gates::try_close`].
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn try_close(&self, waited: Duration) -> Option<Closed<'_, Databases>> {
        self.gates.try_close(waited)
    }

    /// Keys of each database by number. Latches nothing.
    pub fn keyspace(&self) -> Vec<KeyCounts> {
        counts(&self.background())
    }

    /// As `keyspace`, and the newest change that is counted; `None` if the gate stays closed for longer than
    /// the limit.
    pub(crate) fn keyspace_within(&self, limit: Duration) -> Option<(Vec<KeyCounts>, Lsn)> {
        let databases = self.background_within(limit)?;
        Some((counts(&databases), self.last_lsn(&databases)))
    }

    /// The log, if there is one.
    pub(crate) fn log(&self) -> Option<Appender> {
        self.background().log.clone()
    }
}

/// The order of changes.
impl Store {
    /// The newest change.
    pub fn newest(&self) -> Lsn {
        self.last_lsn(&self.background())
    }

    pub(crate) fn last_lsn(&self, databases: &Databases) -> Lsn {
        match &databases.log {
            Some(log) => log.last(),
            None => self.newest_unlogged(),
        }
    }

    /// The newest change that was made without a log; also for threads inside the gate.
    pub fn newest_unlogged(&self) -> Lsn {
        // A read-modify-write, so that a thread that takes a number after this has seen what the caller did
        // before: `view/cuts`.
        Lsn(self.unlogged.fetch_add(0, Ordering::AcqRel))
    }

    /// Sets the newest change, where there is no log. REQUIRES: the gate is closed, or no other thread has
    /// the store yet.
    pub(crate) fn set_newest_unlogged(&self, lsn: Lsn) {
        self.unlogged.store(lsn.0, Ordering::Release);
    }

    /// Gives `batch` its `Lsn`s and appends it to the log if there is one. Returns the first, and the views
    /// that see what was there before. With `gathers` the caller sends it off later.
    pub(crate) fn append(
        &self,
        databases: &Databases,
        batch: &Batch<'_>,
        group: &mut Group,
        gathers: bool,
    ) -> Result<(Lsn, Readers<'_>), CommitError> {
        let first = if let Some(log) = &databases.log {
            group.clear();
            for write in batch {
                group.push(write);
            }
            let _admitted = group.prepared().map(|begun| self.preparations.admit(begun)).transpose()?;
            let taken = if gathers { log.append_to_gather(group) } else { log.append(group) };
            group.end_insisting();
            taken?
        } else if self.unlogged.load(Ordering::Relaxed) < Lsn::LIMIT.0 {
            group.end_insisting();
            Lsn(1 + self.unlogged.fetch_add(batch.len() as u64, Ordering::AcqRel))
        } else {
            return Err(LogError::Exhausted.into());
        };
        Ok((first, self.views.before(first, || self.last_lsn(databases))))
    }

    /// Which records of the log have been replaced.
    pub fn validity(&self) -> &Validity {
        &self.validity
    }
}

/// Views and indexes.
impl Store {
    /// Opens views, all at one instant: the newest change so far. It waits only for a command that has the
    /// store for itself; if a view reads indexes, also until each worker has been out of the gate once.
    ///
    /// REQUIRES: for such a view, the caller is not inside the gate.
    pub fn open_views(&self, options: &[ViewOptions]) -> Result<Vec<View>, ViewError> {
        let databases = self.background();
        let (tables, indexes) = (&databases.tables, &databases.indexes);
        let views = View::open(&self.views, options, (tables, indexes), || self.last_lsn(&databases))?;
        drop(databases);
        if options.iter().any(|options| options.indexed) {
            // A thread that has got an `Lsn` up to the cut may still be about to apply its change. A table is
            // read under the latches that it holds; an index is not, so what it inserts must be there
            // already.
            self.gates.pass_each();
        }
        Ok(views)
    }

    /// Opens one view.
    pub fn open_view(&self, options: ViewOptions) -> Result<View, ViewError> {
        Ok(self.open_views(&[options])?.remove(0))
    }

    /// As `open_view`, of a view that reads no indexes; `None` if the gate stays closed for longer than the
    /// limit.
    pub fn open_view_within(&self, options: ViewOptions, limit: Duration) -> Result<Option<View>, ViewError> {
        debug_assert!(!options.indexed, "who opens a view of indexes waits for all workers");
        let Some(databases) = self.background_within(limit) else { return Ok(None) };
        let (tables, indexes) = (&databases.tables, &databases.indexes);
        let views = View::open(&self.views, &[options], (tables, indexes), || self.last_lsn(&databases))?;
        Ok(views.into_iter().next())
    }

    /// A database as it is at each moment, without an instant.
    pub fn live(&self, db: u8) -> Live {
        let databases = self.background();
        let (table, indexes) = (&databases.tables[usize::from(db)], &databases.indexes[usize::from(db)]);
        Live::new(db, table.clone(), indexes.clone())
    }

    /// The open views, and what is kept for them.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// The size of the remsets, counted by a look at every segment.
    pub fn remset_size(&self, db: u8) -> RemsetSize {
        let table = self.background().tables[usize::from(db)].clone();
        table.remset_size()
    }

    /// An index of a database, as it is now.
    pub fn index(&self, db: u8, name: &str) -> Option<Arc<Index>> {
        let background = self.background();
        background.indexes.get(usize::from(db))?.iter().find(|index| index.name() == name).cloned()
    }

    /// Whether there is any index.
    pub fn has_indexes(&self) -> bool {
        self.background().indexes.iter().any(|of_db| !of_db.is_empty())
    }

    /// All indexes, and how they are doing.
    pub fn indexes(&self) -> Vec<IndexStatus> {
        let indexes = self.background().indexes.clone();
        let of_db = |(db, indexes): (usize, &Indexes)| {
            indexes.iter().map(|index| index.status(db as u8)).collect::<Vec<_>>()
        };
        indexes.iter().enumerate().flat_map(of_db).collect()
    }

    /// The memory that indexes may take, and take.
    pub(crate) fn index_limit(&self) -> &IndexLimit {
        &self.index_limit
    }

    /// Has an index built in the background.
    pub(crate) fn build(&self, build: Build) {
        // The builder ends only with the background threads, and then nothing is to be built any more.
        let _ = self.builds.send(Some(build));
    }

    /// The queue to the index builder, by which its thread is ended.
    pub(crate) fn build_sender(&self) -> BuildSender {
        self.builds.clone()
    }
}

/// The garbage that waits to be freed.
impl Store {
    /// Values that wait to be freed in the background.
    pub fn pending_frees(&self) -> u64 {
        self.reaper.pending()
    }

    /// Values, tables and indexes that were freed in the background so far.
    pub fn freed(&self) -> u64 {
        self.reaper.freed()
    }

    /// Bytes of flushed databases that views still read, about. They are given back with the views.
    pub fn bytes_left(&self) -> u64 {
        self.reaper.left()
    }

    /// A copy of an entry for who reads longer than its latch may be held.
    pub(crate) fn copy_of(&self, entry: &Entry) -> Copied {
        Copied::new(entry, &self.reaper)
    }

    /// Has a value freed that was made for a key and did not get it.
    pub fn discard_made(&self, made: Made) {
        self.reaper.discard_made(made);
    }

    pub(crate) fn discard(&self, discarded: Discarded) {
        self.reaper.discard(discarded);
    }

    /// Hands large values to the reaper; a thread that meets a full queue frees its own.
    pub(crate) fn discard_values(&self, garbage: Vec<Garbage>) {
        self.reaper.discard_values(garbage, &self.validity);
    }

    /// Hands indexes that are of no database any more to the reaper.
    pub(crate) fn discard_indexes(&self, indexes: Indexes) {
        if !indexes.is_empty() {
            indexes.iter().for_each(|index| index.note_dropped());
            self.discard(Discarded::Indexes(indexes));
        }
    }

    /// The newest record such that all records that were replaced up to there are marked; waits for that, as
    /// long as `goes_on` says so. It holds no other thread up.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn settle_discarded(&self, goes_on: impl Fn() -> bool) -> Option<Lsn> {
        let newest = self.newest();
        // A thread that has numbered a record up to there is inside now, or was. When it has left, it has
        // applied the record, and handed on what that replaced.
        self.gates.pass_each();
        self.reaper.settle(newest, goes_on)
    }
}

/// The rest.
impl Store {
    pub(crate) fn watches(&self) -> &Arc<Watches> {
        &self.watches
    }

    /// How many missing keys are watched.
    pub fn missing_keys_watched(&self) -> usize {
        self.watches.registered()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The waits of clients beside background work.
    pub fn clients(&self) -> &ClientLatency {
        self.views.clients()
    }

    /// The time by which keys expire.
    pub fn now(&self) -> UnixMs {
        self.clock.unix_ms()
    }

    /// The values that are being prepared.
    pub(crate) fn preparations(&self) -> &Preparations {
        &self.preparations
    }

    /// How far the rewrite of a list has come.
    pub(crate) fn rewrite_cursor(&self) -> &RewriteCursor {
        &self.rewrite_cursor
    }

    /// Whether and how often expired keys are deleted, and how many were.
    pub fn expiry(&self) -> &Expiry {
        &self.expiry
    }

    /// The settings and the counter of eviction.
    pub fn eviction(&self) -> &Eviction {
        &self.eviction
    }
}

fn counts(databases: &Databases) -> Vec<KeyCounts> {
    databases.tables.iter().map(|table| table.counts()).collect()
}

#[cfg(all(test, not(any(shuttle, loom))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::reaper::PENDING_FREES_MAX;
    use super::*;
    use crate::io::ManualClock;
    use std::thread;

    /// An empty store for this many workers, with a reaper.
    fn store(workers: usize) -> Store {
        let (validity, clock) = (Arc::new(Validity::new()), Arc::new(ManualClock::new(0)));
        let (store, queues) = Store::new(vec![Arc::default()], workers, None, validity, clock);
        thread::spawn(move || queues.reaper.reap());
        store
    }

    #[test]
    fn the_queue_of_frees_is_bounded_and_a_thread_that_meets_it_full_frees_its_own_value() {
        let store = store(1);
        // The reaper stands still until this is received.
        let (sender, done) = crossbeam_channel::bounded(0);
        store.discard(Discarded::Mark(sender));
        for _ in 0..PENDING_FREES_MAX + 1000 {
            store.discard_values(vec![Garbage::cut(Vec::new())]);
        }
        assert_eq!((store.pending_frees(), store.freed()), (PENDING_FREES_MAX, 1001));
        done.recv().unwrap();
        store.settle_discarded(|| true).unwrap();
        assert_eq!(store.freed(), PENDING_FREES_MAX + 1000);
    }

    #[test]
    fn a_compaction_waits_for_a_slow_worker_and_holds_no_other_thread() {
        let limit = Duration::from_secs(30);
        let store = store(2);
        let slow = store.enter(1);
        thread::scope(|scope| {
            let settling = scope.spawn(|| store.settle_discarded(|| true));
            for _ in 0..30_000 {
                if store.gates.is_waited_for(2) {
                    break;
                }
                thread::sleep(Duration::from_millis(1));
            }
            let is_waited_for = store.gates.is_waited_for(2);
            let others_enter = store.gates.lets_in(0, limit) && store.gates.lets_in(1, limit);
            let ended = settling.is_finished();
            drop(slow);
            assert_eq!(settling.join().unwrap(), Some(Lsn::ZERO));
            assert!(is_waited_for && others_enter && !ended);
        });
    }
}
