//! The façade of the engine: builds the store, runs the threads beside it, and is what other packages call.
//!
//! ```text
//!   Engine::new ──> store ── reaper, index builder: by queues
//!                     └───── expirer, evictor, compactor: by turns, while the engine lives
//!   Background dropped ──> the threads end
//! ```

use crate::checkpoint::{Loaded, Source};
use crate::compactor::Compactor;
use crate::early::Early;
use crate::evictor;
use crate::expirer;
use crate::index::{Index, IndexStatus, Indexed};
use crate::indexer::{self, IndexError};
use crate::io::Clock;
use crate::log::{Appender, Group, LogError, Validity};
use crate::mover::{self, MovePlace, Moved};
use crate::record::{Lsn, UnixMs};
use crate::session::{Exclusive, Session};
use crate::store::{BuildSender, Evicted, Eviction, Expiry, IndexMemory, Store};
use crate::table::{KeyCounts, RemsetSize, Table};
use crate::throttle::ClientLatency;
use crate::value::usage;
use crate::view::{ForkedScan, Live, View, ViewError, ViewOptions, Views};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The engine. Threads enter by [`Engine::enter`] with a number of their own.
pub struct Engine {
    store: Store,
    compactor: Arc<Compactor>,
}

/// The background threads of an engine; ends them when dropped.
pub struct Background {
    stop: Arc<AtomicBool>,
    builds: BuildSender,
    compactor: Arc<Compactor>,
    threads: Vec<JoinHandle<()>>,
}

/// Beginning and end.
impl Engine {
    /// An engine of `databases` empty databases for `workers` threads, without a log.
    pub fn unlogged(databases: usize, workers: usize, clock: Arc<dyn Clock>) -> (Arc<Engine>, Background) {
        let tables = (0..databases).map(|_| Arc::default()).collect();
        Engine::loaded(Loaded { tables, cut: Lsn::ZERO, keys: 0 }, workers, clock)
    }

    /// An engine of what a checkpoint held, without a log.
    pub fn loaded(loaded: Loaded, workers: usize, clock: Arc<dyn Clock>) -> (Arc<Engine>, Background) {
        let (engine, background) =
            Engine::new(loaded.tables, workers, None, Arc::new(Validity::new()), clock);
        engine.store.set_newest_unlogged(loaded.cut);
        (engine, background)
    }

    /// An engine of these databases for `workers` threads, logged to `log` if there is one. `validity` knows
    /// which records have been replaced so far.
    pub fn new(
        tables: Vec<Arc<Table>>,
        workers: usize,
        log: Option<Appender>,
        validity: Arc<Validity>,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Engine>, Background) {
        let (store, queues) = Store::new(tables, workers, log, validity, clock);
        let (compactor, builds) = (Arc::<Compactor>::default(), store.build_sender());
        let engine = Arc::new(Engine { store, compactor: compactor.clone() });
        let stop = Arc::new(AtomicBool::new(false));
        let threads = vec![
            spawn("tarn-compactor", {
                let (engine, compactor) = (Arc::downgrade(&engine), compactor.clone());
                move || {
                    while compactor.wait() {
                        let Some(engine) = engine.upgrade() else { return };
                        compactor.catch_up(&engine.store);
                    }
                }
            }),
            spawn("tarn-indexer", {
                let (engine, stop) = (Arc::downgrade(&engine), stop.clone());
                move || {
                    while let Ok(Some(build)) = queues.builds.recv() {
                        let Some(engine) = engine.upgrade() else { return };
                        indexer::build(&engine.store, &build, &stop);
                    }
                }
            }),
            spawn("tarn-reaper", move || queues.reaper.reap()),
            spawn("tarn-expirer", {
                let mut cycle = engine.store.expiry().cycle();
                let (engine, stop) = (Arc::downgrade(&engine), stop.clone());
                move || {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::park_timeout(cycle);
                        let Some(engine) = engine.upgrade() else { return };
                        cycle = engine.store.expiry().cycle();
                        expirer::turn(&engine.store);
                    }
                }
            }),
            spawn("tarn-evictor", {
                let (engine, stop) = (Arc::downgrade(&engine), stop.clone());
                move || {
                    let (mut group, mut rest) = (Group::default(), Duration::ZERO);
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::park_timeout(rest);
                        let Some(engine) = engine.upgrade() else { return };
                        rest = evictor::turn(&engine.store, &mut group);
                    }
                }
            }),
        ];
        (engine, Background { stop, builds, compactor, threads })
    }

    /// The state that all threads share.
    pub fn store(&self) -> &Store {
        &self.store
    }
}

/// The gate.
impl Engine {
    /// Enters the gate as worker `worker` (0, 1, …). Waits while the gate is closed. What the session commits
    /// is sent off to the disk when it ends.
    pub fn enter(&self, worker: usize) -> Session<'_> {
        Session::new(&self.store, self.store.enter(worker), true)
    }

    /// Enters the gate as a thread that is no worker, for a moment.
    pub fn enter_behind(&self) -> Session<'_> {
        Session::new(&self.store, self.store.background(), true)
    }

    /// As `enter`, but what the sessions of a worker commit gathers until `end_turn`.
    ///
    /// REQUIRES: the caller calls that soon.
    pub fn enter_in_turn(&self, worker: usize) -> Session<'_> {
        Session::new(&self.store, self.store.enter(worker), false)
    }

    /// As `enter_in_turn`; `None` if the gate stays closed for longer than the limit.
    pub fn enter_in_turn_within(&self, worker: usize, limit: Duration) -> Option<Session<'_>> {
        Some(Session::new(&self.store, self.store.enter_within(worker, limit)?, false))
    }

    /// Sends off to the disk what the sessions of worker `worker` have committed.
    pub fn end_turn(&self, worker: usize) {
        if let Some(log) = &self.store.enter(worker).log {
            log.depart();
        }
    }

    /// As `end_turn`; `false`, and nothing is sent off, if the gate stays closed for longer than the limit.
    pub fn end_turn_within(&self, worker: usize, limit: Duration) -> bool {
        let Some(databases) = self.store.enter_within(worker, limit) else { return false };
        databases.log.iter().for_each(Appender::depart);
        true
    }

    /// Waits until every worker is out and keeps them out. While it waits for one that is slow, the others
    /// go on.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn close_gate(&self) -> Exclusive<'_> {
        Exclusive::close(&self.store)
    }

    /// As `close_gate`, but `None` if a thread stays inside for longer: for a caller that has something else
    /// to do, and tries again a moment later, having `waited` this long altogether.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn try_close_gate(&self, waited: Duration) -> Option<Exclusive<'_>> {
        Exclusive::try_close(&self.store, waited)
    }

    /// Lets readers see what is there while this engine, of which no other thread knows yet, is being filled
    /// with one record for each key.
    pub fn show_early(&self, early: &Early) {
        early.begin(&self.store.background().tables, Lsn(u64::MAX));
    }
}

/// The log.
impl Engine {
    /// Logs all changes from now on; `false`, and nothing has changed, if one is newer already than where the
    /// log begins. Waits for compactions of the last log, if there was one.
    ///
    /// REQUIRES: there is no log.
    pub fn start_logging(&self, log: &Appender) -> bool {
        let _alone = self.compactor.pause();
        self.close_gate().start_logging(log)
    }

    /// Logs nothing any more. Ends the compaction that is under way.
    pub fn stop_logging(&self) {
        let _alone = self.compactor.pause();
        self.close_gate().stop_logging();
    }

    /// The compactions of the log.
    pub fn compactor(&self) -> &Arc<Compactor> {
        &self.compactor
    }

    /// See `Store::newest_unlogged`.
    pub fn newest_unlogged(&self) -> Lsn {
        self.store.newest_unlogged()
    }
}

/// Views.
impl Engine {
    /// See `Store::open_views`.
    ///
    /// REQUIRES: for a view that reads indexes, the caller is not inside the gate.
    pub fn open_views(&self, options: &[ViewOptions]) -> Result<Vec<View>, ViewError> {
        self.store.open_views(options)
    }

    /// Opens one view.
    pub fn open_view(&self, options: ViewOptions) -> Result<View, ViewError> {
        self.store.open_view(options)
    }

    /// See `Store::open_view_within`.
    pub fn open_view_within(&self, options: ViewOptions, limit: Duration) -> Result<Option<View>, ViewError> {
        self.store.open_view_within(options, limit)
    }

    /// A database as it is at each moment, without an instant.
    pub fn live(&self, db: u8) -> Live {
        self.store.live(db)
    }

    /// Forks a process that counts the entries of a database as of now. Waits until every worker is out of
    /// the gate. The process is killed when the calling thread ends.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn fork_scan(&self, db: u8) -> std::io::Result<ForkedScan> {
        ForkedScan::fork(&self.close_gate().databases().tables[usize::from(db)])
    }

    /// The open views, and what is kept for them.
    pub fn views(&self) -> &Views {
        self.store.views()
    }

    /// The waits of clients beside background work.
    pub fn clients(&self) -> &ClientLatency {
        self.store.clients()
    }

    /// A worker's turn that ends now waited so long for what other threads had.
    pub fn note_wait(&self, waited: Duration) {
        self.clients().note(waited, || self.store.clock().monotonic());
    }

    /// Whether clients waited within the last second for longer than the target: background work then uses
    /// as little of the machine as it can.
    pub fn clients_wait(&self) -> bool {
        self.clients().were_slow(self.store.clock().monotonic())
    }

    /// The size of the remsets, counted by a look at every segment.
    pub fn remset_size(&self, db: u8) -> RemsetSize {
        self.store.remset_size(db)
    }
}

/// Indexes.
impl Engine {
    /// Makes an index of a database. It is built in the background: views that are opened when it is ready
    /// can read it. Waits until every worker is out of the gate.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn create_index(
        &self,
        db: u8,
        name: &str,
        indexed: Arc<dyn Indexed>,
    ) -> Result<Arc<Index>, IndexError> {
        indexer::create_index(&self.store, db, name, indexed)
    }

    /// Drops an index, ready or not; `false` if there is none of that name. Views that read it go on. Waits
    /// until every worker is out of the gate.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn drop_index(&self, db: u8, name: &str) -> bool {
        indexer::drop_index(&self.store, db, name)
    }

    /// An index of a database, as it is now.
    pub fn index(&self, db: u8, name: &str) -> Option<Arc<Index>> {
        self.store.index(db, name)
    }

    /// Whether there is any index.
    pub fn has_indexes(&self) -> bool {
        self.store.has_indexes()
    }

    /// Sets how many bytes of memory all indexes may take, about; 0: any number. Past that the largest are
    /// given up, until there is room for them again: queries read the tables meanwhile.
    pub fn limit_indexes(&self, bytes: usize) {
        self.store.index_limit().set(bytes);
    }

    /// The memory that all indexes take, as it was found a moment ago. Waits for nobody.
    pub fn index_memory(&self) -> IndexMemory {
        self.store.index_limit().memory()
    }

    /// All indexes, and how they are doing.
    pub fn indexes(&self) -> Vec<IndexStatus> {
        self.store.indexes()
    }
}

/// Expiry, memory and figures.
impl Engine {
    /// Whether and how often expired keys are deleted, and how many were.
    pub fn expiry(&self) -> &Expiry {
        self.store.expiry()
    }

    /// The settings and the counter of eviction.
    pub fn eviction(&self) -> &Eviction {
        self.store.eviction()
    }

    /// Evicts keys until about so many bytes are given back, or the time is over.
    ///
    /// REQUIRES: the caller holds no latch.
    pub fn make_room(
        &self,
        session: &Session<'_>,
        wanted: u64,
        time: Duration,
        group: &mut Group,
    ) -> Evicted {
        evictor::evict(&self.store, session, wanted, time, group)
    }

    /// Moves the small entries of one segment to new allocations, which the allocator puts where it has room:
    /// a step of a walk over all of them.
    ///
    /// REQUIRES: the caller holds no latch, and no session.
    pub fn move_entries(&self, place: MovePlace) -> Moved {
        mover::step(&self.store, place)
    }

    /// Has uses of keys noted at the time of the engine's clock from now on. The expirer does the same at
    /// each of its turns.
    pub fn note_time(&self) {
        usage::set_time(self.store.clock().monotonic());
    }

    /// Deletes the keys that are due at `now`, one segment at a time, but for segments that others have for
    /// long. Stops early if the log refuses writes.
    pub fn expire_due(&self, now: UnixMs) {
        expirer::expire_due(&self.store, now);
    }

    /// Gives back segments of tables that have lost most of their keys, some hundreds at most.
    pub fn shrink_tables(&self) {
        expirer::shrink_tables(&self.store);
    }

    /// The time by which keys expire.
    pub fn now(&self) -> UnixMs {
        self.store.now()
    }

    /// Keys of each database by number. Latches nothing.
    pub fn keyspace(&self) -> Vec<KeyCounts> {
        self.store.keyspace()
    }

    /// As `keyspace`, and the newest change that is counted; `None` if the gate stays closed for longer than
    /// the limit.
    pub fn keyspace_within(&self, limit: Duration) -> Option<(Vec<KeyCounts>, Lsn)> {
        self.store.keyspace_within(limit)
    }

    /// Values that wait to be freed in the background.
    pub fn pending_frees(&self) -> u64 {
        self.store.pending_frees()
    }
}

/// Of an engine, checkpoints are taken.
impl Source for Engine {
    fn view(&self) -> Result<View, ViewError> {
        self.compactor.checkpoint_begins(self.newest());
        let cutting = self.store.preparations().cut();
        let view = self.open_view(ViewOptions::once("checkpoint"))?;
        cutting.end_at(view.cut());
        Ok(view)
    }

    fn standing(&self, look: &mut dyn FnMut(Lsn, &[Arc<Table>])) {
        self.compactor.checkpoint_begins(self.newest());
        let exclusive = self.close_gate();
        let databases = exclusive.databases();
        let cut = self.store.last_lsn(databases);
        self.store.preparations().refuse_up_to(cut);
        look(cut, &databases.tables);
    }

    fn newest(&self) -> Lsn {
        self.store.newest()
    }

    fn settle(&self, cut: Lsn) -> Result<Option<u128>, LogError> {
        let Some(log) = self.store.log() else { return Ok(None) };
        log.sync_up_to(cut)?;
        Ok(Some(log.log_id()))
    }

    fn clock(&self) -> &dyn Clock {
        self.store.clock()
    }

    fn clients(&self) -> &ClientLatency {
        self.store.clients()
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).expect("the system can start one more thread at the start of the store")
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.builds.send(None);
        self.compactor.stop();
        for thread in &self.threads {
            thread.thread().unpark();
        }
        // The reaper ends when the last engine handle goes; it may be freeing gigabytes, which the end of the
        // process does faster.
        self.threads.retain(|thread| thread.thread().name() != Some("tarn-reaper"));
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
