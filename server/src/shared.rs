//! The state that all threads of a server share: configuration, counters, clients, and the store. It has no
//! behaviour of its own and knows no service; the parts that act are in
//! [`Services`](crate::execute::services::Services).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tarn_engine::Engine;
use tarn_engine::io::{Clock, SystemClock};
use tarn_engine::lock::Mutex;
use tarn_engine::record::Lsn;
use tarn_engine::recovery::Progress;
use tokio::sync::Notify;

use crate::acl::{Acl, Catalog};
use crate::config::ConfigStore;
use crate::config::live::Live;
use crate::net::attempts::Attempts;
use crate::net::certificates::Tls;
use crate::net::clients::Clients;
use crate::net::pause::Pause;
use crate::observe::hotkeys::HotKeys;
use crate::observe::keyspace::{Counts, Keyspace};
use crate::observe::memory_limit::MemoryLimit;
use crate::observe::process::Heap;
use crate::observe::pulse::Pulse;
use crate::observe::rates::Rates;
use crate::observe::slowlog::SlowLog;
use crate::observe::stats::Stats;
use crate::pubsub::{Post, PubSub, Tracking};
use crate::scripts::Scripts;
use crate::store::{Kept, Store};

/// Elements above which a command runs in steps: fewer take less than a step.
const STEPS_FROM: usize = 1024;

/// The longest wait for the gate of who only counts keys.
const GATE_WAIT: Duration = Duration::from_millis(10);

/// Twenty random bytes in hexadecimal.
pub(crate) fn random_id() -> String {
    format!("{:08x}{:032x}", rand::random::<u32>(), rand::random::<u128>())
}

/// The state that all threads of a server share.
pub struct Shared {
    /// The configuration.
    pub config: Arc<ConfigStore>,
    /// Settings that the hot path reads.
    pub live: Live,
    /// Number of logical databases.
    pub databases: usize,
    /// Counters.
    pub stats: Stats,
    /// Users and what they may do.
    pub acl: Acl,
    /// `maxmemory`, and how much is in use.
    pub memory_limit: MemoryLimit,
    /// Rates per second.
    pub rates: Rates,
    /// Connected clients.
    pub clients: Clients,
    /// Wrong passwords.
    pub attempts: Attempts,
    /// Certificates, and handshakes by them.
    pub tls: Arc<Tls>,
    /// Slow commands.
    pub slowlog: SlowLog,
    /// Large requests, with their bytes.
    pub large_requests: SlowLog,
    /// Requests with large replies, with the bytes of these.
    pub large_replies: SlowLog,
    /// Keys on which much is spent.
    pub hot_keys: HotKeys,
    /// Channels and their subscribers.
    pub pubsub: PubSub,
    /// Keys that clients have read and are told of.
    pub tracking: Tracking,
    /// Scripts, known and running.
    pub scripts: Scripts,
    /// When each worker looked after its connections last.
    pub(crate) pulse: Pulse,
    /// `CLIENT PAUSE`.
    pub pause: Pause,
    /// Numbers of keys that may be reported without waiting for the disk.
    pub keyspace: Keyspace,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// When the server started.
    pub started: Instant,
    /// The same as Unix time.
    pub started_unix_ms: u64,
    /// Bytes that the allocator held then.
    pub startup_bytes: u64,
    /// Elements above which a command runs in steps.
    pub steps_from: AtomicUsize,
    /// Twenty random bytes in hexadecimal: this run of the server.
    pub run_id: String,
    /// The same for the history of its data, as replicas would know it.
    pub replication_id: Mutex<String>,
    /// Whether checksums of payloads are not looked at (`DEBUG SET-SKIP-CHECKSUM-VALIDATION`).
    pub skips_checksums: AtomicBool,
    /// Whether a `DEBUG RELOAD` runs.
    pub(crate) reloading: Arc<AtomicBool>,
    store: OnceLock<Store>,
    stopping: AtomicBool,
    /// The progress of loading.
    pub loading: Progress,
    /// An empty store, for commands that need no key while the data is being loaded.
    pub empty_store: Arc<Engine>,
    /// Asks the main thread to stop the server.
    pub stop: Arc<Notify>,
    /// Wakes each worker when the log has made progress; the last is the spare one.
    pub wakers: Vec<Arc<Notify>>,
}

impl Shared {
    /// The state of a server whose data is not loaded yet, with counters for the commands of `catalog`.
    pub fn new(config: Arc<ConfigStore>, catalog: Catalog) -> Shared {
        let settings = config.snapshot();
        let (workers, databases) = (settings.serving_threads(), settings.databases);
        let log = |len_max| {
            let log = SlowLog::default();
            log.set_len_max(len_max);
            log
        };
        let acl = Acl::new(catalog);
        acl.log.set_len_max(settings.acl.log_max_len);
        if !settings.requirepass.is_empty() {
            acl.set_default_password(&settings.requirepass);
        }
        let started_unix_ms = SystemClock::new().unix_ms();
        let (empty_store, _background) = Engine::unlogged(databases, workers, Arc::new(SystemClock::new()));
        Shared {
            config,
            live: Live::of(&settings),
            databases,
            stats: Stats::new(workers, acl.catalog().len()),
            acl,
            memory_limit: MemoryLimit::new(settings.memory.maxmemory_bytes),
            rates: Rates::default(),
            clients: Clients::default(),
            attempts: Attempts::default(),
            tls: Arc::default(),
            slowlog: log(settings.slowlog_max_len),
            large_requests: log(settings.commandlog_large_request_max_len),
            large_replies: log(settings.commandlog_large_reply_max_len),
            hot_keys: HotKeys::default(),
            pubsub: PubSub::new(workers),
            tracking: Tracking::default(),
            scripts: Scripts::new(workers),
            pulse: Pulse::new(workers),
            pause: Pause::default(),
            keyspace: Keyspace::default(),
            clock: Arc::new(SystemClock::new()),
            started: Instant::now(),
            startup_bytes: Heap::now().allocated,
            started_unix_ms,
            steps_from: AtomicUsize::new(STEPS_FROM),
            run_id: random_id(),
            replication_id: Mutex::new(random_id()),
            skips_checksums: AtomicBool::new(false),
            reloading: Arc::default(),
            store: OnceLock::new(),
            stopping: AtomicBool::new(false),
            loading: Progress::default(),
            empty_store,
            stop: Arc::default(),
            wakers: (0..workers).map(|_| Arc::default()).collect(),
        }
    }

    /// The way of messages to clients. `worker` is the one that calls, for any client; `None` for another
    /// thread.
    pub fn post(&self, worker: Option<usize>) -> Post<'_> {
        Post { pubsub: &self.pubsub, clients: &self.clients, worker }
    }

    /// The store, once it is loaded.
    pub fn store(&self) -> Option<&Store> {
        self.store.get()
    }

    /// The engine, once it is loaded.
    pub fn engine(&self) -> Option<&Engine> {
        self.store.get().map(|store| &*store.engine)
    }

    /// The engine, for who goes on with it outside of the command.
    pub fn shared_engine(&self) -> Option<Arc<Engine>> {
        self.store.get().map(|store| store.engine.clone())
    }

    /// Notes what was loaded: all of it is durable.
    pub fn note_loaded(&self, engine: &Engine) {
        self.keyspace.note(&engine.keyspace(), Lsn::ZERO, Lsn::ZERO);
    }

    /// Gives all threads the store. REQUIRES: the data is loaded, and noted.
    pub fn set_store(&self, store: Store) {
        assert!(self.store.set(store).is_ok(), "a server loads its data once");
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

    /// Keys of each database by number, without what is not durable yet if replies wait for that. Latches
    /// nothing. While somebody has the store for itself for long, they are those of before.
    ///
    /// REQUIRES: the caller is not inside the gate.
    pub fn keyspace(&self) -> Option<Counts> {
        let engine = self.engine()?;
        let Some((counts, newest)) = engine.keyspace_within(GATE_WAIT) else {
            return Some(self.keyspace.settled());
        };
        let durable = self.durable().min(self.revealable());
        let is_durable = self.keyspace.note(&counts, newest, durable);
        Some(if is_durable || newest <= self.revealable() { counts } else { self.keyspace.settled() })
    }

    /// Which changes a start would find by the log.
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

    /// Bytes in use that eviction cannot give back, and does not count: the log's buffers, and old versions
    /// and flushed databases that views have still to read.
    pub fn not_counted_bytes(&self) -> u64 {
        let Some(store) = self.store.get() else { return 0 };
        let of_views = store.engine.views().retained_bytes() as u64 + store.engine.store().bytes_left();
        self.log_buffer_bytes() + of_views
    }

    /// Bytes of the log's buffers: records that are not written, or that the disk may not have, and room for
    /// the next ones.
    pub fn log_buffer_bytes(&self) -> u64 {
        let Some(store) = self.store.get() else { return 0 };
        store.log.load().as_ref().map_or(0, |log| log.appender.buffer_bytes())
    }

    /// Whether other threads are freeing memory, or were since the allocator was asked: it looks as if it
    /// were in use.
    pub fn is_freeing(&self) -> bool {
        let Some(engine) = self.engine() else { return false };
        // In this order: what waits no more is counted as freed.
        engine.pending_frees() > 0 || !self.memory_limit.has_seen(self.freed())
    }

    /// Large values that other threads have freed.
    pub(crate) fn freed(&self) -> u64 {
        self.engine().map_or(0, |engine| engine.store().freed())
    }

    /// Bytes in use beyond `maxmemory`, about; 0 without a limit.
    pub fn memory_excess(&self) -> u64 {
        self.memory_limit.excess(|| self.not_counted_bytes())
    }

    /// Whether a thread that is no worker may change keys for a client: writes are not paused, and the log
    /// keeps up, as do the clients that are told of changes.
    pub fn may_change(&self) -> bool {
        !self.pause.holds(true, self.clock.unix_ms())
            && self.has_room()
            && !(self.tracking.is_on() && self.pubsub.is_full())
    }

    /// Tells the clients that track keys that such a thread has changed these, the last as `lsn`. REQUIRES:
    /// as `Tracking::tell_readers`.
    pub fn tell_changed(&self, keys: &[&[u8]], lsn: Lsn) {
        if self.tracking.is_on() {
            self.tracking.tell_readers(keys, lsn, None, self.post(None));
            self.tracking.tell_by_prefix(keys, lsn, None, self.post(None));
        }
    }

    /// Counts changes that such a thread has made.
    pub fn count_changes(&self, changes: usize) {
        self.stats.changes_behind.fetch_add(changes as u64, Ordering::Relaxed);
    }

    /// Whether there are rules to take checkpoints by, or a log is wanted and is not there yet; then one is
    /// taken at the end.
    pub fn saves_by_rule(&self) -> bool {
        let config = self.config.snapshot();
        let is_without_log = || self.store().is_some_and(|store| store.log.load().is_none());
        !config.save.rules.is_empty() || config.appendonly && is_without_log()
    }

    /// Stops the server at once: connections are closed, then the log. To save the changes first, call
    /// `Shutdown::begin` instead.
    pub fn shut_down(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.stop.notify_one();
    }

    /// Keeps expired keys while there is a pause, and no longer.
    pub fn hold_expiry(&self) {
        if let Some(engine) = self.engine() {
            engine.expiry().hold(self.pause.is_on(self.clock.unix_ms()));
        }
    }

    /// Whether the server is stopping.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}
