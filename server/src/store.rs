//! The store of a server: the engine, its log, and its checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwapOption;
use tarn_engine::Engine;
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::Lsn;
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
    /// While the log is about to be switched on, replies that reveal changes after this `Lsn` wait for it:
    /// the newest `Lsn` when the switch was requested. `u64::MAX`: no reply waits.
    pub held_from: AtomicU64,
}

impl Store {
    /// A store whose data is loaded.
    pub fn new(engine: Arc<Engine>, log: Option<OpenLog>, checkpoints: Arc<Checkpoints>) -> Store {
        let log = ArcSwapOption::from(log.map(Arc::new));
        Store { engine, log, checkpoints, held_from: AtomicU64::new(u64::MAX) }
    }

    /// The status of the log; `None` if there is no log, or no longer.
    pub fn log_status(&self) -> Option<LogStatus> {
        self.log.load().as_ref()?.log.lock().as_ref().map(Log::status)
    }
}

/// The changes that a start would find in the log.
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
    /// Its appender, to ask whether there is room.
    pub appender: Appender,
    /// Whether replies wait for it.
    pub always: AtomicBool,
    /// Whether it was switched on and waits for the checkpoint that it continues: until then a start would
    /// not find its records.
    pub pending: AtomicBool,
    /// While it waits, replies that reveal changes after this `Lsn` wait, too.
    pub held_from: Lsn,
    wakers: Vec<Arc<Notify>>,
}

impl OpenLog {
    /// A log that is used from now on. It notifies the workers through their `wakers`.
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

    /// A start finds all changes up to here, or they were there before the log was switched on.
    pub fn kept(&self) -> Lsn {
        // Pairs with the release in `counts`.
        if self.pending.load(Ordering::Acquire) { self.held_from } else { self.durable.lsn() }
    }

    /// Notes that a start finds the records of the log, and lets the replies leave that waited for it.
    /// Returns whether the log was pending.
    pub fn counts(&self) -> bool {
        let waited = self.pending.swap(false, Ordering::Release);
        if waited {
            self.wakers.iter().for_each(|waker| waker.notify_one());
        }
        waited
    }
}
