//! The store: tables, log and the background work between them. The only place that knows them together.

use crate::checkpoint::{Loaded, Source};
use crate::compactor::Compactor;
use crate::early::Early;
use crate::gate::Gates;
use crate::index::Indexes;
use crate::indexer::{Builder, build_all};
use crate::io::Clock;
use crate::lock::{RwLockReadGuard, rank};
use crate::log::{Appender, Group, LogError, Validity};
use crate::record::{Batch, Lsn, UnixMs, Write};
use crate::renewal::Frontier;
use crate::session::{Exclusive, Latched, Session, World};
use crate::table::{Freed, Garbage, Readers, RemsetSize, Table};
use crate::upheaval::Upheavals;
use crate::view::{ForkedScan, Live, View, ViewError, ViewOptions, Views};
use crate::watch::Watches;
use crossbeam_channel::{Receiver, Sender};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Why a commit was refused. Nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// The log cannot take writes now; reads go on.
    #[error(transparent)]
    Log(#[from] LogError),
}

/// What is freed or walked off the write path.
pub(crate) enum Discarded {
    /// A large value.
    Value(Garbage),
    /// A flushed database. Its records are older than the record of the flush, which says enough.
    Table(#[expect(dead_code, reason = "held to be dropped elsewhere")] Arc<Table>),
    /// Indexes of such a database, or that were dropped.
    Indexes(#[expect(dead_code, reason = "held to be dropped elsewhere")] Indexes),
    /// What a view has left.
    View(#[expect(dead_code, reason = "held to be dropped elsewhere")] Freed),
    /// Somebody waits until what came before is done.
    Mark(Sender<()>),
}

/// The store. Threads enter by [`Engine::enter`] with a number of their own.
pub struct Engine {
    gates: Gates<World>,
    /// The newest `Lsn` while there is no log.
    unlogged: AtomicU64,
    /// Which records of the log have been replaced.
    validity: Arc<Validity>,
    /// Missing keys that somebody watches.
    watches: Arc<Watches>,
    clock: Arc<dyn Clock>,
    reaper: Sender<Discarded>,
    builder: Builder,
    views: Arc<Views>,
    compactor: Arc<Compactor>,
    frontier: Frontier,
    expired: AtomicU64,
    pending_frees: Arc<AtomicU64>,
    /// What was freed in the background so far.
    freed: Arc<AtomicU64>,
    active_expire: AtomicBool,
    /// Expired keys are left where they are for now.
    expiry_held: AtomicBool,
    /// Milliseconds between two turns of the expirer.
    expiry_cycle_ms: AtomicU64,
}

/// The background threads of an engine; ends them when dropped.
pub struct Background {
    stop: Arc<AtomicBool>,
    builder: Builder,
    compactor: Arc<Compactor>,
    threads: Vec<JoinHandle<()>>,
}

/// The gate of background threads; those of workers follow it.
const BACKGROUND: usize = 0;

impl Engine {
    /// A store of `databases` empty databases for `workers` threads, without a log.
    pub fn unlogged(databases: usize, workers: usize, clock: Arc<dyn Clock>) -> (Arc<Engine>, Background) {
        let tables = (0..databases).map(|_| Arc::default()).collect();
        Engine::loaded(Loaded { tables, cut: Lsn::ZERO, keys: 0 }, workers, clock)
    }

    /// A store of what a checkpoint held, without a log.
    pub fn loaded(loaded: Loaded, workers: usize, clock: Arc<dyn Clock>) -> (Arc<Engine>, Background) {
        let (engine, background) =
            Engine::new(loaded.tables, workers, None, Arc::new(Validity::new()), clock);
        engine.unlogged.store(loaded.cut.0, Ordering::Release);
        (engine, background)
    }

    /// A store of these databases for `workers` threads, logged to `log` if there is one. `validity` knows
    /// which records have been replaced so far.
    pub fn new(
        tables: Vec<Arc<Table>>,
        workers: usize,
        log: Option<Appender>,
        validity: Arc<Validity>,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Engine>, Background) {
        let indexes = tables.iter().map(|_| Indexes::default()).collect();
        let (swaps, floors) = (vec![0; tables.len()], vec![Lsn::ZERO; tables.len()]);
        let world = World { swaps, floors, tables, indexes, log };
        let (builder, builds) = crossbeam_channel::unbounded();
        let (reaper, discarded) = crossbeam_channel::unbounded();
        let (pending_frees, freed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (views_reaper, views_pending) = (reaper.clone(), pending_frees.clone());
        let discard = Box::new(move |freed| {
            views_pending.fetch_add(1, Ordering::Relaxed);
            let _ = views_reaper.send(Discarded::View(freed));
        });
        let engine = Arc::new(Engine {
            gates: Gates::new((0..=workers).map(|_| world.clone())),
            unlogged: AtomicU64::new(0),
            validity: validity.clone(),
            watches: Arc::default(),
            views: Arc::new(Views::new(clock.clone(), discard)),
            compactor: Arc::default(),
            frontier: Frontier::default(),
            clock,
            reaper,
            builder: builder.clone(),
            expired: AtomicU64::new(0),
            pending_frees: pending_frees.clone(),
            freed: freed.clone(),
            active_expire: AtomicBool::new(true),
            expiry_held: AtomicBool::new(false),
            expiry_cycle_ms: AtomicU64::new(EXPIRY_CYCLE_MS),
        });
        let stop = Arc::new(AtomicBool::new(false));
        let compactor = engine.compactor.clone();
        let threads = vec![
            spawn("tarn-compactor", {
                let (engine, compactor) = (Arc::downgrade(&engine), compactor.clone());
                move || compactor.run(&engine)
            }),
            spawn("tarn-indexer", {
                let stop = stop.clone();
                move || build_all(&builds, &stop)
            }),
            spawn("tarn-reaper", move || reap(discarded, &validity, (&pending_frees, &freed))),
            spawn("tarn-expirer", {
                let (engine, stop) = (Arc::downgrade(&engine), stop.clone());
                move || {
                    let mut cycle = Duration::from_millis(EXPIRY_CYCLE_MS);
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::park_timeout(cycle);
                        let Some(engine) = engine.upgrade() else { return };
                        cycle = Duration::from_millis(engine.expiry_cycle_ms.load(Ordering::Relaxed));
                        engine.views.enforce_limits();
                        if engine.active_expire.load(Ordering::Relaxed) && !engine.holds_expiry() {
                            engine.expire_due(engine.clock.unix_ms());
                        }
                        engine.shrink_tables();
                    }
                }
            }),
        ];
        (engine, Background { stop, builder, compactor, threads })
    }

    /// Enters the gate as worker `worker` (0, 1, …). Waits while the gate is closed. What the session commits
    /// is sent off to the disk when it ends.
    pub fn enter(&self, worker: usize) -> Session<'_> {
        Session::new(self, self.gates.enter(worker + 1), true)
    }

    /// As `enter`, but what the sessions of a worker commit gathers until `end_turn`.
    ///
    /// REQUIRES: the caller calls that soon.
    pub fn enter_in_turn(&self, worker: usize) -> Session<'_> {
        Session::new(self, self.gates.enter(worker + 1), false)
    }

    /// Sends off to the disk what the sessions of worker `worker` have committed.
    pub fn end_turn(&self, worker: usize) {
        if let Some(log) = &self.gates.enter(worker + 1).log {
            log.depart();
        }
    }

    /// Waits until every worker is out and keeps them out. While it waits for one that is slow, the others
    /// go on.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn close_gate(&self) -> Exclusive<'_> {
        Exclusive { engine: self, worlds: self.gates.close() }
    }

    /// As `close_gate`, but `None` where somebody is inside for longer: for who has something else to do, and
    /// tries again a moment later, having `waited` for so long altogether.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn try_close_gate(&self, waited: Duration) -> Option<Exclusive<'_>> {
        Some(Exclusive { engine: self, worlds: self.gates.try_close(waited)? })
    }

    /// Keys that were deleted because they expired.
    pub fn expired_keys(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Values that wait to be freed in the background.
    pub fn pending_frees(&self) -> u64 {
        self.pending_frees.load(Ordering::Relaxed)
    }

    /// Values, tables and indexes that were freed in the background so far.
    pub fn freed(&self) -> u64 {
        self.freed.load(Ordering::Relaxed)
    }

    /// Switches the deletion of expired keys that nobody touches.
    pub fn set_active_expire(&self, on: bool) {
        self.active_expire.store(on, Ordering::Relaxed);
    }

    /// Leaves expired keys where they are for a while, or deletes them again. Nobody sees them in any case.
    pub fn hold_expiry(&self, hold: bool) {
        self.expiry_held.store(hold, Ordering::Relaxed);
    }

    /// Whether expired keys are left where they are.
    pub fn holds_expiry(&self) -> bool {
        self.expiry_held.load(Ordering::Relaxed)
    }

    /// Lets the expirer look for keys that are due every so often, from its next turn on.
    pub fn set_expiry_cycle(&self, cycle: Duration) {
        self.expiry_cycle_ms.store(cycle.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn note_expired(&self, keys: usize) {
        self.expired.fetch_add(keys as u64, Ordering::Relaxed);
    }

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

    /// The time by which keys expire.
    pub fn now(&self) -> UnixMs {
        self.clock.unix_ms()
    }

    pub(crate) fn last_lsn(&self, world: &World) -> Lsn {
        match &world.log {
            Some(log) => log.last(),
            // A read-modify-write: whoever numbers after it has seen what its caller did before: `view/cuts`.
            None => Lsn(self.unlogged.fetch_add(0, Ordering::AcqRel)),
        }
    }

    /// The newest change that was made without a log; for whoever is inside the gate, too.
    pub fn newest_unlogged(&self) -> Lsn {
        Lsn(self.unlogged.fetch_add(0, Ordering::AcqRel))
    }

    /// Gives `batch` its `Lsn`s and appends it to the log if there is one. Returns the first, and the views
    /// that see what was there before. With `gathers` it is sent off by `Session`.
    pub(crate) fn append(
        &self,
        world: &World,
        batch: &Batch<'_>,
        group: &mut Group,
        gathers: bool,
    ) -> Result<(Lsn, Readers<'_>), CommitError> {
        let first = if let Some(log) = &world.log {
            group.clear();
            for write in batch {
                group.push(write);
            }
            if gathers { log.append_to_gather(group)? } else { log.append(group)? }
        } else if self.unlogged.load(Ordering::Relaxed) < Lsn::LIMIT.0 {
            Lsn(1 + self.unlogged.fetch_add(batch.len() as u64, Ordering::AcqRel))
        } else {
            return Err(LogError::Exhausted.into());
        };
        Ok((first, self.views.before(first, || self.last_lsn(world))))
    }

    /// Opens views, all at one instant: the newest change so far. It waits for nobody but a command that has
    /// the store for itself; if one of them reads indexes, until each worker has been out of the gate once.
    ///
    /// REQUIRES: for such a view, the caller is not inside the gate.
    pub fn open_views(&self, options: &[ViewOptions]) -> Result<Vec<View>, ViewError> {
        let world = self.gates.enter(BACKGROUND);
        let views = self.views.open(options, (&world.tables, &world.indexes), || self.last_lsn(&world))?;
        drop(world);
        if options.iter().any(|options| options.indexed) {
            // Whoever has got an `Lsn` up to the cut may still be about to apply his change. A table is read
            // under the latches that he holds; an index is not, so what he inserts must be there already.
            self.gates.pass_each();
        }
        Ok(views)
    }

    /// Opens one view.
    pub fn open_view(&self, options: ViewOptions) -> Result<View, ViewError> {
        Ok(self.open_views(&[options])?.remove(0))
    }

    /// A database as it is at each moment, without an instant.
    pub fn live(&self, db: u8) -> Live {
        let world = self.gates.enter(BACKGROUND);
        Live::new(db, world.tables[usize::from(db)].clone(), world.indexes[usize::from(db)].clone())
    }

    /// Forks a process that counts the entries of a database as of now. Waits until every worker is out of
    /// the gate. The process is killed when the calling thread ends.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn fork_scan(&self, db: u8) -> std::io::Result<ForkedScan> {
        let exclusive = self.close_gate();
        ForkedScan::fork(&exclusive.world().tables[usize::from(db)])
    }

    /// What is kept for views, counted by a look at every segment.
    pub fn remset_size(&self, db: u8) -> RemsetSize {
        let table = self.background().tables[usize::from(db)].clone();
        table.remset_size()
    }

    /// The open views, and what is kept for them.
    pub fn views(&self) -> &Views {
        &self.views
    }

    /// Which records of the log have been replaced.
    pub fn validity(&self) -> &Validity {
        &self.validity
    }

    /// The compactions of the log.
    pub fn compactor(&self) -> &Arc<Compactor> {
        &self.compactor
    }

    /// How far the renewal of a list has come.
    pub(crate) fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// Keys of each database, and how many of them expire. Latches nothing.
    pub fn keyspace(&self) -> Vec<(usize, usize)> {
        let world = self.background();
        world.tables.iter().map(|table| (table.len(), table.expiring())).collect()
    }

    pub(crate) fn log(&self) -> Option<Appender> {
        self.background().log.clone()
    }

    /// Lets readers see what is there while this store, of which nobody else knows yet, is being filled with
    /// one record for each key.
    pub fn show_early(&self, early: &Early) {
        early.begin(&self.background().tables, Lsn(u64::MAX));
    }

    pub(crate) fn background(&self) -> RwLockReadGuard<'_, World, rank::Gate> {
        self.gates.enter(BACKGROUND)
    }

    /// Logs all changes from now on; `false`, and nothing has changed, if one is newer already than where the
    /// log begins. Waits for compactions of the last log, if there was one.
    ///
    /// REQUIRES: there is no log.
    pub fn start_logging(&self, log: &Appender) -> bool {
        let _alone = self.compactor.pause();
        let mut exclusive = self.close_gate();
        let (newest, base) = (self.last_lsn(&exclusive.worlds[BACKGROUND]), log.last());
        if newest > base {
            return false;
        }
        self.validity.clear();
        self.validity.begin(Upheavals::default(), base);
        exclusive.worlds.iter_mut().for_each(|world| world.log = Some(log.clone()));
        true
    }

    /// Logs nothing any more. Ends the compaction that is under way.
    pub fn stop_logging(&self) {
        let _alone = self.compactor.pause();
        let mut exclusive = self.close_gate();
        self.unlogged.store(self.last_lsn(&exclusive.worlds[BACKGROUND]).0, Ordering::Release);
        exclusive.worlds.iter_mut().for_each(|world| world.log = None);
        self.validity.clear();
    }

    /// The newest record such that whatever was replaced up to there is marked; waits for that, as long as
    /// `goes_on` says so. It holds nobody up.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub(crate) fn settle_discarded(&self, goes_on: impl Fn() -> bool) -> Option<Lsn> {
        let newest = self.last_lsn(&self.background());
        // Whoever has numbered a record up to there is inside now, or was. When he has left, he has applied
        // it, and handed on what it replaced.
        self.gates.pass_each();
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

    /// Hands large values to the reaper; whoever meets a full queue frees his own.
    pub(crate) fn discard_values(&self, garbage: Vec<Garbage>) {
        for value in garbage {
            if self.pending_frees() >= PENDING_FREES_MAX {
                value.for_each_lsn(&mut |lsn| self.validity.invalidate(&[lsn]));
                self.freed.fetch_add(1, Ordering::Relaxed);
            } else {
                self.discard(Discarded::Value(value));
            }
        }
    }

    pub(crate) fn discard_table(&self, table: Arc<Table>) {
        self.discard(Discarded::Table(table));
    }

    pub(crate) fn builder(&self) -> &Builder {
        &self.builder
    }

    pub(crate) fn discard(&self, discarded: Discarded) {
        self.pending_frees.fetch_add(1, Ordering::Relaxed);
        // The reaper ends only after the engine, whose sender this is.
        let _ = self.reaper.send(discarded);
    }

    /// Deletes the keys that are due at `now`, one segment at a time. Stops early if the log refuses writes.
    pub fn expire_due(&self, now: UnixMs) {
        let mut group = Group::default();
        let databases = self.gates.enter(BACKGROUND).tables.len();
        for db in 0..databases {
            let mut from = 0;
            loop {
                // The gate is left after each segment, so that closing it waits for one segment at most.
                let world = self.gates.enter(BACKGROUND);
                let Some(index) = world.tables[db].next_due(from, now) else { break };
                from = index + 1;
                if self.expire_segment(&world, db as u8, index, now, &mut group).is_err() {
                    return;
                }
            }
        }
    }

    /// Gives back segments of tables that have lost most of their keys, some hundreds at most.
    pub fn shrink_tables(&self) {
        let databases = self.gates.enter(BACKGROUND).tables.len();
        for db in 0..databases {
            for _ in 0..SHRINKS_AT_ONCE {
                // The gate is left again and again, so that closing it waits for a few segments at most.
                let world = self.gates.enter(BACKGROUND);
                if !world.tables[db].is_sparse() {
                    break;
                }
                world.tables[db].shrink(8);
            }
        }
    }

    fn expire_segment(
        &self,
        world: &World,
        db: u8,
        index: usize,
        now: UnixMs,
        group: &mut Group,
    ) -> Result<(), CommitError> {
        let mut latched = Latched::of_segment(self, world, db, index, now);
        let (due, next) = latched.segment().expired(now);
        if !due.is_empty() {
            let delete = |key: Box<[u8]>| Write::Key {
                db,
                key: key.into_vec().into(),
                change: crate::record::Change::Delete,
            };
            let batch: Batch<'_> = due.into_iter().map(delete).collect();
            latched.commit(&batch, group)?;
            self.note_expired(batch.len());
        }
        latched.set_due(next);
        Ok(())
    }
}

impl Source for Engine {
    fn view(&self) -> Result<View, ViewError> {
        self.compactor.checkpoint_begins(self.newest());
        self.open_view(ViewOptions::once("checkpoint"))
    }

    fn standing(&self, look: &mut dyn FnMut(Lsn, &[Arc<Table>])) {
        self.compactor.checkpoint_begins(self.newest());
        let exclusive = self.close_gate();
        let world = &exclusive.worlds[BACKGROUND];
        look(self.last_lsn(world), &world.tables);
    }

    fn newest(&self) -> Lsn {
        self.last_lsn(&self.gates.enter(BACKGROUND))
    }

    fn settle(&self, cut: Lsn) -> Result<Option<u128>, LogError> {
        let log = self.gates.enter(BACKGROUND).log.clone();
        let Some(log) = log else { return Ok(None) };
        log.sync_up_to(cut)?;
        Ok(Some(log.log_id()))
    }

    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
}

/// So many wait to be freed in the background at most, but for databases, indexes and what views leave.
const PENDING_FREES_MAX: u64 = 1 << 14;
/// How often in one turn the expirer makes a table smaller.
const SHRINKS_AT_ONCE: usize = 64;

/// How long is waited before it is asked again whether to go on.
const A_WHILE: Duration = Duration::from_millis(50);

/// How often the expirer looks for keys that are due, in milliseconds, unless it is told otherwise.
const EXPIRY_CYCLE_MS: u64 = 20;

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(run).expect("the system can start one more thread at the start of the store")
}

/// Frees large values and flushed tables until the engine is gone. Others may hold a table for the rest of a
/// command; whoever lets go last frees it.
fn reap(discarded: Receiver<Discarded>, validity: &Validity, (pending, freed): (&AtomicU64, &AtomicU64)) {
    for item in discarded {
        let is_mark = matches!(item, Discarded::Mark(_));
        match &item {
            Discarded::Value(garbage) => garbage.for_each_lsn(&mut |lsn| validity.invalidate(&[lsn])),
            // Who waits may have given up.
            Discarded::Mark(done) => _ = done.send(()),
            Discarded::Table(_) | Discarded::Indexes(_) | Discarded::View(_) => {}
        }
        drop(item);
        freed.fetch_add(u64::from(!is_mark), Ordering::Relaxed);
        pending.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.builder.send(None);
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

#[cfg(all(test, not(any(shuttle, loom))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::io::ManualClock;

    #[test]
    fn no_more_values_wait_to_be_freed_than_may_and_who_meets_a_full_queue_frees_his_own() {
        let (engine, _background) = Engine::unlogged(1, 1, Arc::new(ManualClock::new(0)));
        // The reaper stands still until somebody takes this.
        let (sender, done) = crossbeam_channel::bounded(0);
        engine.discard(Discarded::Mark(sender));
        for _ in 0..PENDING_FREES_MAX + 1000 {
            engine.discard_values(vec![Garbage::cut(Vec::new())]);
        }
        assert_eq!((engine.pending_frees(), engine.freed()), (PENDING_FREES_MAX, 1001));
        done.recv().unwrap();
        engine.settle_discarded(|| true).unwrap();
        assert_eq!(engine.freed(), PENDING_FREES_MAX + 1000);
    }

    #[test]
    fn a_compaction_waits_for_a_slow_worker_and_holds_nobody_else() {
        let limit = Duration::from_secs(30);
        let (engine, _background) = Engine::unlogged(1, 2, Arc::new(ManualClock::new(0)));
        let slow = engine.enter(1);
        std::thread::scope(|scope| {
            let settling = scope.spawn(|| engine.settle_discarded(|| true));
            for _ in 0..30_000 {
                if engine.gates.is_waited_for(2) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            let is_waited_for = engine.gates.is_waited_for(2);
            let others_enter = engine.gates.lets_in(0, limit) && engine.gates.lets_in(1, limit);
            let ended = settling.is_finished();
            drop(slow);
            assert_eq!(settling.join().unwrap(), Some(Lsn::ZERO));
            assert!(is_waited_for && others_enter && !ended);
        });
    }
}
