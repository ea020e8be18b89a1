//! What all threads of the server share.

use crate::accept::AcceptorHandle;
use crate::attempts::Attempts;
use crate::backups::Backups;
use crate::blocking::Blocking;
use crate::clients::Clients;
use crate::commands;
use crate::config::ConfigStore;
use crate::keyspace::{Counts, Keyspace};
use crate::live::Live;
use crate::pause::Pause;
use crate::process::Heap;
use crate::rates::Rates;
use crate::rewriter::Rewriter;
use crate::saver::Saver;
use crate::search::Search;
use crate::shutdown::Shutdown;
use crate::slowlog::SlowLog;
use crate::sql::Sql;
use crate::stats::Stats;
use arc_swap::ArcSwapOption;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tarn_engine::checkpoint::{Checkpoints, Source};
use tarn_engine::engine::Engine;
use tarn_engine::io::{Clock, SystemClock};
use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;
use tarn_engine::recovery::Progress;
use tarn_engine::scrub::Scrubber;
use tarn_engine::{Appender, Durable, Log, LogStatus};
use tokio::sync::Notify;

/// The store and the log that it is written to.
pub struct Store {
    /// The tables.
    pub engine: Arc<Engine>,
    /// The log; `None` with `appendonly no`, and until it is switched on.
    pub log: ArcSwapOption<OpenLog>,
    /// Its checkpoints.
    pub checkpoints: Arc<Checkpoints>,
    /// Replies wait for a log that is about to be switched on: those that reveal changes behind this one, the
    /// newest when that was asked for; `u64::MAX`: none do.
    pub held_from: AtomicU64,
}

impl Store {
    /// A store whose data is loaded.
    pub fn new(engine: Arc<Engine>, log: Option<OpenLog>, checkpoints: Arc<Checkpoints>) -> Store {
        let log = ArcSwapOption::from(log.map(Arc::new));
        Store { engine, log, checkpoints, held_from: AtomicU64::new(u64::MAX) }
    }

    /// How the log is doing; `None` if there is none, or none any more.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.log.load().as_ref()?.log.lock().as_ref().map(Log::status)
    }
}

/// What of the changes a start would find by the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// Nothing: the log is off.
    Off,
    /// Nothing yet: the log is being switched on.
    NotYet,
    /// All up to here.
    UpTo(Lsn),
}

/// An open log.
pub struct OpenLog {
    /// The log; taken out to be closed.
    pub log: Mutex<Option<Log>, rank::OpenLog>,
    /// Its watermark.
    pub durable: Durable,
    /// The way into it, to ask whether there is room.
    pub appender: Appender,
    /// Whether replies wait for it.
    pub always: AtomicBool,
    /// Whether it was switched on and waits for the checkpoint that it goes on from: a start would not find
    /// what it has.
    pub pending: AtomicBool,
    /// As long as it waits, replies that reveal changes behind this one do.
    pub held_from: Lsn,
    wakers: Vec<Arc<Notify>>,
}

impl OpenLog {
    /// A log that is used from now on. The workers, by their `wakers`, hear what becomes of it.
    pub fn new(log: Log, always: bool, held_from: Lsn, wakers: &[Arc<Notify>]) -> OpenLog {
        let (durable, appender) = (log.durable(), log.appender());
        for waker in wakers {
            let notify = waker.clone();
            durable.subscribe(Box::new(move || notify.notify_one()));
            let notify = waker.clone();
            appender.subscribe_room(Box::new(move || notify.notify_one()));
        }
        let pending = AtomicBool::new(log.is_pending());
        let (log, always, wakers) = (Mutex::new(Some(log)), AtomicBool::new(always), wakers.to_vec());
        OpenLog { log, durable, appender, always, pending, held_from, wakers }
    }

    /// All up to here is found by a start, or was there before the log was switched on.
    pub fn kept(&self) -> Lsn {
        // Pairs with the release in `counts`.
        if self.pending.load(Ordering::Acquire) { self.held_from } else { self.durable.lsn() }
    }

    /// Notes that a start finds what the log has; says whether it waited for that. Replies that were held
    /// leave.
    pub fn counts(&self) -> bool {
        let waited = self.pending.swap(false, Ordering::Release);
        if waited {
            self.wakers.iter().for_each(|waker| waker.notify_one());
        }
        waited
    }
}

/// The server.
pub struct Shared {
    /// The configuration.
    pub config: Arc<ConfigStore>,
    /// Settings that the hot path reads.
    pub live: Live,
    /// Number of logical databases.
    pub databases: usize,
    /// Counters.
    pub stats: Stats,
    /// How much is done a second.
    pub rates: Rates,
    /// Connected clients.
    pub clients: Clients,
    /// Wrong passwords.
    pub attempts: Attempts,
    /// Slow commands.
    pub slowlog: SlowLog,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// Clients that wait for keys.
    pub blocking: Blocking,
    /// How many keys there are, as may be told at once.
    pub keyspace: Keyspace,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// When the server started.
    pub started: Instant,
    /// The same as a time of the day.
    pub started_unix_ms: u64,
    /// What the allocator held then.
    pub startup_bytes: u64,
    /// Twenty random bytes in hexadecimal: this run of the server.
    pub run_id: String,
    /// Who takes checkpoints.
    pub saver: Saver,
    /// Who writes the configuration into its file.
    pub rewriter: Arc<Rewriter>,
    /// Looks for damage on the disk.
    pub scrubber: Scrubber,
    /// How the server ends.
    pub shutdown: Shutdown,
    /// Who takes backups.
    pub backups: Arc<Backups>,
    store: OnceLock<Store>,
    sql: OnceLock<Arc<dyn Sql>>,
    search: OnceLock<Arc<dyn Search>>,
    stopping: AtomicBool,
    /// How far loading has come.
    pub loading: Progress,
    /// What commands that need no key see while the data is being loaded.
    pub empty_store: Arc<Engine>,
    /// Where connections are accepted.
    pub acceptor: AcceptorHandle,
    /// Asks the main thread to stop the server.
    pub stop: Arc<Notify>,
    /// Wakes each worker when the log has gone on.
    pub wakers: Vec<Arc<Notify>>,
}

impl Shared {
    /// A server whose data is not loaded yet.
    pub fn new(config: Arc<ConfigStore>, acceptor: AcceptorHandle) -> Shared {
        let settings = config.snapshot();
        let (workers, databases) = (settings.threads(), settings.databases);
        let slowlog = SlowLog::default();
        slowlog.set_len_max(settings.slowlog_max_len);
        let started_unix_ms = SystemClock::new().unix_ms();
        let (empty_store, _background) = Engine::unlogged(databases, workers, Arc::new(SystemClock::new()));
        Shared {
            config,
            live: Live::of(&settings),
            databases,
            stats: Stats::new(workers, commands::slots()),
            rates: Rates::default(),
            clients: Clients::default(),
            attempts: Attempts::default(),
            slowlog,
            pause: Pause::default(),
            blocking: Blocking::default(),
            keyspace: Keyspace::default(),
            clock: Arc::new(SystemClock::new()),
            started: Instant::now(),
            startup_bytes: Heap::now().allocated,
            started_unix_ms,
            run_id: format!("{:08x}{:032x}", rand::random::<u32>(), rand::random::<u128>()),
            saver: Saver::new(started_unix_ms),
            rewriter: Arc::default(),
            scrubber: Scrubber::default(),
            shutdown: Shutdown::default(),
            backups: Arc::default(),
            store: OnceLock::new(),
            sql: OnceLock::new(),
            search: OnceLock::new(),
            stopping: AtomicBool::new(false),
            loading: Progress::default(),
            empty_store,
            acceptor,
            stop: Arc::default(),
            wakers: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// The store, once it is loaded.
    pub fn store(&self) -> Option<&Store> {
        self.store.get()
    }

    /// Who answers SQL, if anybody does.
    pub fn sql(&self) -> Option<&Arc<dyn Sql>> {
        self.sql.get()
    }

    /// Names who answers SQL; to be called once.
    pub fn set_sql(&self, sql: Arc<dyn Sql>) {
        let is_first = self.sql.set(sql).is_ok();
        debug_assert!(is_first, "SQL is answered by one");
    }

    /// Who answers the commands `FT.*`, if anybody does.
    pub fn search(&self) -> Option<&Arc<dyn Search>> {
        self.search.get()
    }

    /// Names who answers the commands `FT.*`; to be called once.
    pub fn set_search(&self, search: Arc<dyn Search>) {
        let is_first = self.search.set(search).is_ok();
        debug_assert!(is_first, "search is answered by one");
    }

    /// The engine, once it is loaded.
    pub fn engine(&self) -> Option<&Engine> {
        self.store.get().map(|store| &*store.engine)
    }

    /// Notes what was loaded: all of it is durable.
    pub fn note_loaded(&self, engine: &Engine) {
        self.keyspace.note(&engine.keyspace(), Lsn::ZERO, Lsn::ZERO);
    }

    /// Opens the doors: the data is loaded, and noted.
    pub fn set_store(&self, store: Store) {
        assert!(self.store.set(store).is_ok(), "a server loads its data once");
    }

    /// Tells those who answer SQL that the store is there: they make their indexes, which closes the gate.
    ///
    /// REQUIRES: the caller holds no lock that anybody inside the gate waits for.
    pub fn tell_of_store(&self) {
        self.sql().into_iter().for_each(|sql| sql.store_is_there());
    }

    /// Up to which `Lsn` replies may reveal changes: all, unless the mode is `always`. While a log is being
    /// switched on, none that were made since that was asked for, until a start would find them.
    pub fn revealable(&self) -> Lsn {
        match self.store.get() {
            Some(store) => match &*store.log.load() {
                Some(log) if log.always.load(Ordering::Relaxed) => log.kept(),
                Some(_) => Lsn(u64::MAX),
                None => Lsn(store.held_from.load(Ordering::Acquire)),
            },
            None => Lsn(u64::MAX),
        }
    }

    /// Whether changes up to `lsn` may be revealed to who waits for that; an error: why they are not going to
    /// be durable for now.
    pub fn may_show(&self, lsn: Lsn) -> Result<bool, String> {
        if lsn <= self.revealable() {
            return Ok(true);
        }
        match self.store.get().and_then(Store::log_status).and_then(|status| status.failed) {
            Some((_, error)) => Err(error.to_string()),
            None => Ok(false),
        }
    }

    /// Up to where changes are durable; all, without a log.
    pub fn durable(&self) -> Lsn {
        let log = self.store.get().map(|store| store.log.load());
        log.and_then(|log| log.as_ref().map(|log| log.kept())).unwrap_or(Lsn(u64::MAX))
    }

    /// Keys of each database, and how many of them expire, without what is not durable yet if replies wait
    /// for that. Latches nothing, and waits for nothing but an open gate.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn keyspace(&self) -> Option<Counts> {
        let engine = self.engine()?;
        let counts = engine.keyspace();
        let newest = engine.newest();
        let durable = self.durable().min(self.revealable());
        let is_durable = self.keyspace.note(&counts, newest, durable);
        Some(if is_durable || newest <= self.revealable() { counts } else { self.keyspace.settled() })
    }

    /// What a start would find by the log.
    pub fn kept(&self) -> Kept {
        match self.store.get().and_then(|store| store.log.load_full()) {
            Some(log) if log.pending.load(Ordering::Relaxed) => Kept::NotYet,
            Some(log) => Kept::UpTo(log.durable.lsn()),
            None if self.config.snapshot().appendonly => Kept::NotYet,
            None => Kept::Off,
        }
    }

    /// Has changes up to `lsn` made durable now, and with `soon` all within a second, whatever `appendfsync`
    /// says.
    pub fn have_synced(&self, lsn: Lsn, soon: bool) {
        if let Some(log) = self.store.get().and_then(|store| store.log.load_full()) {
            log.appender.demand(lsn);
            if soon {
                log.appender.want_sync();
            }
        }
    }

    /// Whether commands that write may run: the log keeps up, or there is none, or it has failed and will say
    /// so.
    pub fn has_room(&self) -> bool {
        let Some(store) = self.store.get() else { return true };
        store.log.load().as_ref().is_none_or(|log| log.appender.has_room())
    }

    /// Whether there are rules to take checkpoints by, or a log is wanted and is not there yet; then one is
    /// taken at the end.
    pub fn saves_by_rule(&self) -> bool {
        let config = self.config.snapshot();
        let is_without_log = || self.store().is_some_and(|store| store.log.load().is_none());
        !config.save.rules.is_empty() || config.appendonly && is_without_log()
    }

    /// Stops the server at once: connections are closed, then the log. Who wants what has changed to be saved
    /// before asks [`Shutdown::begin`].
    pub fn shut_down(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.stop.notify_one();
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
