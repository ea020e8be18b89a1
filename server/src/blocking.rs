//! Commands that wait for a list or a sorted set to have something (`BLPOP`, `BZPOPMIN` …), or for replicas
//! (`WAIT`), of which there are none yet, or for the disk (`WAITAOF`).
//!
//! A blocking command that finds nothing asks its connection to wait. The connection registers a [`Waiter`]
//! in a queue for each key. Whoever commits a write that may give one of these keys something runs the
//! command of the first waiter in its stead, with the same function, right behind its own command, and hands
//! it the reply. So clients are served in the order in which they came.
//!
//! Order of locks: the gate, a waiter's outcome, the keys that its command latches; the queues are locked
//! last and for a moment. So a command that holds latches must not touch an outcome.

use crate::client::{After, Client, ClientHandle};
use crate::dispatch::Executor;
use crate::shared::{Kept, Shared};
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Write};
use tarn_resp::reply::{Protocol, Writer};
use tarn_resp::request::OwnedArgs;

/// A blocking command that found nothing.
#[derive(Debug)]
pub struct BlockRequest {
    /// What is waited for: a list, a sorted set, or (`None`) replicas or the disk.
    pub kind: Option<Kind>,
    /// Up to where the log is to be durable, if that is waited for.
    pub log: Option<AwaitedLog>,
    /// The keys that may bring something, in the selected database; none for replicas or the disk.
    pub keys: Vec<Box<[u8]>>,
    /// How long to wait at most; `None`: for ever.
    pub timeout: Option<Duration>,
    /// The request, to be run again.
    pub args: OwnedArgs,
    /// The newest `Lsn` that finding nothing revealed.
    pub seen: Lsn,
}

impl BlockRequest {
    /// A request that waits for nothing in particular yet.
    pub fn new(timeout: Option<Duration>, args: OwnedArgs) -> BlockRequest {
        BlockRequest { kind: None, log: None, keys: Vec::new(), timeout, args, seen: Lsn::ZERO }
    }
}

/// What `WAITAOF` waits for.
#[derive(Clone, Copy, Debug)]
pub struct AwaitedLog {
    /// The log is to be durable up to here, if the log is waited for at all.
    pub local: Option<Lsn>,
    /// Replicas are waited for besides, of which there are none.
    pub replicas: bool,
}

impl AwaitedLog {
    /// Whether a start would find everything by the log.
    pub fn is_kept(&self, kept: Kept) -> bool {
        matches!(kept, Kept::UpTo(kept) if kept >= self.local.unwrap_or(Lsn::ZERO))
    }

    /// Whether nothing is waited for any more.
    pub fn is_done(&self, kept: Kept) -> bool {
        !self.replicas && (self.local.is_none() || self.is_kept(kept))
    }
}

/// How waiting ended.
#[derive(Debug)]
pub enum Outcome {
    /// The command ran; the reply, and what it reveals.
    Served(Vec<u8>, Lsn),
    /// `CLIENT UNBLOCK … TIMEOUT`, or the time is over.
    TimedOut,
    /// `CLIENT UNBLOCK … ERROR`.
    Unblocked,
}

/// A client that waits.
#[derive(Debug)]
pub struct Waiter {
    client: Arc<ClientHandle>,
    db: u8,
    protocol: Protocol,
    request: Box<BlockRequest>,
    /// The newest `Lsn` that looks which found nothing have revealed.
    seen: AtomicU64,
    outcome: Mutex<Option<Outcome>, rank::Outcome>,
}

impl Waiter {
    /// Whether waiting has ended.
    pub fn is_done(&self) -> bool {
        // Locked while somebody runs the command in this client's stead; its wake-up follows.
        self.outcome.try_lock().is_some_and(|outcome| outcome.is_some())
    }

    /// Takes the outcome if there is one.
    pub fn take_outcome(&self) -> Option<Outcome> {
        self.outcome.lock().take()
    }
}

type Place = (u8, Box<[u8]>);

/// All clients that wait, by key, first come first.
#[derive(Debug, Default)]
pub struct Blocking {
    queues: Mutex<HashMap<Place, VecDeque<Arc<Waiter>>>>,
    /// How many are in the queues.
    waiting: AtomicUsize,
    /// Those that no key can serve (`WAIT`, `WAITAOF`).
    keyless: Mutex<Vec<Arc<Waiter>>>,
    /// Keys whose waiters could not be served for want of room in the log.
    postponed: Mutex<Vec<Place>>,
}

impl Blocking {
    /// How many clients wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// How many wait that will not wait for ever.
    pub fn waiting_for_a_time(&self) -> usize {
        let for_a_time = |waiter: &&Arc<Waiter>| waiter.request.timeout.is_some();
        let queues = self.queues.lock();
        let mut ids: Vec<u64> =
            queues.values().flatten().filter(for_a_time).map(|waiter| waiter.client.id).collect();
        drop(queues);
        ids.sort_unstable();
        ids.dedup();
        ids.len() + self.keyless.lock().iter().filter(for_a_time).count()
    }

    /// Puts `client` at the end of the queues of the request's keys.
    pub fn register(&self, client: &Client, request: Box<BlockRequest>) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            client: client.handle.clone(),
            db: client.db,
            protocol: client.protocol,
            seen: AtomicU64::new(request.seen.0),
            request,
            outcome: Mutex::new(None),
        });
        if waiter.request.keys.is_empty() {
            self.keyless.lock().push(waiter.clone());
            return waiter;
        }
        let mut queues = self.queues.lock();
        // SeqCst with the load in `serve_ready`: either the pusher sees this waiter, or the waiter's second
        // look sees the push.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        for key in &waiter.request.keys {
            let queue = queues.entry((waiter.db, key.clone())).or_default();
            if !queue.back().is_some_and(|last| Arc::ptr_eq(last, &waiter)) {
                queue.push_back(waiter.clone());
            }
        }
        waiter
    }

    /// Takes a waiter out of all queues.
    pub fn remove(&self, waiter: &Arc<Waiter>) {
        if waiter.request.keys.is_empty() {
            self.keyless.lock().retain(|other| !Arc::ptr_eq(other, waiter));
            return;
        }
        let mut queues = self.queues.lock();
        let mut found = false;
        for key in &waiter.request.keys {
            let place = (waiter.db, key.clone());
            if let Some(queue) = queues.get_mut(&place) {
                let before = queue.len();
                queue.retain(|other| !Arc::ptr_eq(other, waiter));
                found |= queue.len() < before;
                if queue.is_empty() {
                    queues.remove(&place);
                }
            }
        }
        if found {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Ends the waiting of client `id`, for `CLIENT UNBLOCK`. Returns whether it waited.
    pub fn unblock(&self, id: u64, outcome: Outcome) -> bool {
        let is_it = |waiter: &&Arc<Waiter>| waiter.client.id == id;
        let queued = self.queues.lock().values().flatten().find(is_it).cloned();
        let found = queued.or_else(|| self.keyless.lock().iter().find(is_it).cloned());
        let Some(waiter) = found else { return false };
        let mut slot = waiter.outcome.lock();
        let waited = slot.is_none();
        if waited {
            *slot = Some(outcome);
        }
        drop(slot);
        self.remove(&waiter);
        waiter.client.wake();
        waited
    }

    /// The first that waits for this key, those passed over who wait for a kind of which there is no more.
    fn first(&self, place: &Place, exhausted: &[Kind]) -> Option<Arc<Waiter>> {
        let queues = self.queues.lock();
        queues
            .get(place)?
            .iter()
            .find(|waiter| !waiter.request.kind.is_some_and(|kind| exhausted.contains(&kind)))
            .cloned()
    }

    /// Serves those whose changes are durable by now.
    pub fn serve_durable(&self, server: &Shared) {
        let waiting = self.keyless.lock().clone();
        if waiting.is_empty() {
            return;
        }
        let kept = server.kept();
        for waiter in waiting {
            let Some(awaited) = waiter.request.log else { continue };
            let mut reply = Vec::new();
            let mut writer = Writer::new(&mut reply, waiter.protocol);
            match (kept, awaited.local) {
                (Kept::Off, Some(_)) => writer.error(LOG_IS_OFF),
                _ if awaited.is_done(kept) => acknowledge(&mut writer, awaited.is_kept(kept)),
                _ => continue,
            }
            let mut outcome = waiter.outcome.lock();
            if outcome.is_none() {
                *outcome = Some(Outcome::Served(reply, Lsn::ZERO));
                drop(outcome);
                self.remove(&waiter);
                waiter.client.wake();
            }
        }
    }

    /// Whether there are keys whose waiters could not be served for want of room in the log.
    pub fn has_postponed(&self) -> bool {
        !self.postponed.lock().is_empty()
    }

    fn places_of(&self, db: u8) -> Vec<Place> {
        self.queues.lock().keys().filter(|place| place.0 == db).cloned().collect()
    }
}

/// Serves clients that wait for keys which `batch` may have given something. Called behind each command that
/// wrote.
pub fn serve_ready(executor: &mut Executor<'_>, batch: &Batch<'_>) {
    if executor.server.blocking.waiting.load(Ordering::SeqCst) == 0 {
        return;
    }
    for write in batch {
        match write {
            Write::Key { db, key, change } if may_serve(change) => {
                executor.ready.push_back((*db, key.as_ref().into()));
            }
            Write::Swap { a, b } => {
                for db in [*a, *b] {
                    executor.ready.extend(executor.server.blocking.places_of(db));
                }
            }
            _ => {}
        }
    }
    serve_queued(executor);
}

/// Looks once more for something to take, for a waiter that has just been registered.
pub fn serve_waiter(executor: &mut Executor<'_>, waiter: &Waiter) {
    executor.ready.extend(waiter.request.keys.iter().map(|key| (waiter.db, key.clone())));
    serve_queued(executor);
}

/// Serves clients that could not be served for want of room in the log, now that there is some.
pub fn serve_postponed(executor: &mut Executor<'_>) {
    executor.ready.extend(std::mem::take(&mut *executor.server.blocking.postponed.lock()));
    serve_queued(executor);
}

const fn may_serve(change: &Change<'_>) -> bool {
    matches!(
        change,
        Change::ListPush { .. }
            | Change::ListInsert { .. }
            | Change::ZSetPut { .. }
            | Change::Image { kind: Kind::List | Kind::ZSet, .. }
    )
}

/// A command that serves a waiter may push in its turn (`BLMOVE`); its keys join the queue instead of the
/// stack.
fn serve_queued(executor: &mut Executor<'_>) {
    if executor.serving {
        return;
    }
    executor.serving = true;
    // The commands that run here are timed by themselves, and not taken off the time of the one that served
    // them.
    let stopwatch = &executor.server.stats.workers[executor.worker].stopwatch;
    let mark = stopwatch.mark();
    while let Some(place) = executor.ready.pop_front() {
        let mut exhausted = SmallVec::<[Kind; 2]>::new();
        while let Some(waiter) = executor.server.blocking.first(&place, &exhausted) {
            match serve(executor, &waiter) {
                Served::Done => {}
                Served::FoundNothing => exhausted.extend(waiter.request.kind),
                Served::NoRoom => {
                    executor.server.blocking.postponed.lock().push(place.clone());
                    exhausted.extend(waiter.request.kind);
                }
            }
        }
    }
    stopwatch.go_back_to(mark);
    executor.serving = false;
}

/// What running a waiter's command came to.
enum Served {
    /// The waiter is done, by this or by something else.
    Done,
    /// There is nothing for it.
    FoundNothing,
    /// The log has no room for it. It keeps its place in the queues.
    NoRoom,
}

/// Runs the command of `waiter`.
fn serve(executor: &mut Executor<'_>, waiter: &Arc<Waiter>) -> Served {
    let server = executor.server;
    // Whoever holds an outcome must not wait for the gate: a worker inside may be waiting for this outcome.
    executor.enter_gate();
    let mut outcome = waiter.outcome.lock();
    if outcome.is_none() && !waiter.client.is_killed() {
        let mut stand_in = Client::new(waiter.client.clone(), true);
        stand_in.db = waiter.db;
        stand_in.protocol = waiter.protocol;
        stand_in.waits = true;
        let mut reply = Vec::new();
        let lsn = executor.run(&mut stand_in, waiter.request.args.as_args(), &mut reply);
        match stand_in.after {
            After::Block(_) => {
                waiter.seen.fetch_max(lsn.0, Ordering::Relaxed);
                return Served::FoundNothing;
            }
            After::Postpone => return Served::NoRoom,
            After::GoOn | After::Close => {}
        }
        *outcome = Some(Outcome::Served(reply, lsn));
    }
    drop(outcome);
    server.blocking.remove(waiter);
    waiter.client.wake();
    Served::Done
}

/// Ends the waiting of a connection that gives up, unless it has been served in this very moment. The outcome
/// is then in the waiter.
pub fn give_up(blocking: &Blocking, waiter: &Arc<Waiter>) {
    let mut outcome = waiter.outcome.lock();
    if outcome.is_none() {
        *outcome = Some(Outcome::TimedOut);
    }
    drop(outcome);
    blocking.remove(waiter);
}

/// The reply of `WAITAOF` when nobody is to wait for a log that is off.
pub const LOG_IS_OFF: &str = "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// Writes the reply of `WAITAOF`: how many logs and how many replicas have what the connection wrote.
pub fn acknowledge(writer: &mut Writer<'_>, is_kept: bool) {
    writer.array(2);
    writer.integer(i64::from(is_kept));
    writer.integer(0);
}

/// Writes what the client of `waiter` is told. A start would find `kept`.
pub fn write_outcome(waiter: &Waiter, outcome: Outcome, kept: Kept, out: &mut Vec<u8>) -> Lsn {
    let mut writer = Writer::new(out, waiter.protocol);
    match outcome {
        Outcome::Served(reply, lsn) => {
            out.extend_from_slice(&reply);
            return lsn;
        }
        Outcome::TimedOut if waiter.request.log.is_some() => {
            acknowledge(&mut writer, waiter.request.log.is_some_and(|awaited| awaited.is_kept(kept)));
        }
        Outcome::TimedOut if waiter.request.kind.is_none() => writer.integer(0),
        Outcome::TimedOut => {
            // That there was nothing all the time.
            writer.null_array();
            return Lsn(waiter.seen.load(Ordering::Relaxed));
        }
        Outcome::Unblocked => writer.error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
    }
    Lsn::ZERO
}

impl Waiter {
    /// How long to wait at most.
    pub fn timeout(&self) -> Option<Duration> {
        self.request.timeout
    }
}
