//! Commands that wait for a list, a sorted set or a stream to have something (`BLPOP`, `BZPOPMIN`, `XREAD`
//! …), or for replicas (`WAIT`), of which there are none yet, or for the disk (`WAITAOF`).
//!
//! A blocking command that finds nothing asks its connection to wait. The connection registers a [`Waiter`]
//! in a queue for each key. A worker that commits a write which may give one of these keys something runs the
//! command of the first waiter in its stead, with the same function, right after its own command, and hands
//! it the reply (`executor/waiters.rs`). So clients are served in the order in which they came. One that
//! finds something leaves it to those that wait already, and joins them: they may not have been served yet.
//! `XREADGROUP` does so for those of its group, but not with `CLAIM`.
//!
//! What is claimed from others (`XREADGROUP … CLAIM`) comes by time alone: such a client looks again when
//! something may have been pending for long enough.
//!
//! Order of locks: the gate, the state of a waiter, the keys that its command latches; the queues are locked
//! last and for a moment. So a command that holds latches must not touch a waiter's state.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tarn_engine::lock::{Mutex, rank};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Write};
use tarn_engine::value::stream::element;
use tarn_resp::OwnedArgs;
use tarn_resp::{Protocol, Writer};

use crate::net::handle::ClientHandle;
use crate::shared::Shared;
use crate::store::Kept;

/// The shortest time after which a client that waits looks again.
pub(crate) const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// All clients that look again do so for about this part of the time of one worker together: a sixteenth.
const LOOKS_SHARE: u32 = 16;
/// The longest time for which such looks are put off.
const LOOK_PAUSE_MAX: Duration = Duration::from_secs(10);

/// For how long a client does not look again whose look took so long, where so many may look so.
pub(crate) fn pause_of_looks(took: Duration, clients: usize) -> Duration {
    let clients = u32::try_from(clients).unwrap_or(u32::MAX);
    took.saturating_mul(LOOKS_SHARE).saturating_mul(clients).min(LOOK_PAUSE_MAX)
}

/// A blocking command that found nothing.
#[derive(Debug)]
pub struct BlockRequest {
    /// The object of the wait: a list, a sorted set, a stream, or (`None`) replicas or the disk.
    pub kind: Option<Kind>,
    /// The group for which entries of streams are awaited.
    pub group: Option<Box<[u8]>>,
    /// Up to where the log is to be durable, if that is waited for.
    pub log: Option<AwaitedLog>,
    /// The keys that may bring something, in the selected database; none for replicas or the disk.
    pub keys: Vec<Box<[u8]>>,
    /// How long to wait at most; `None`: for ever.
    pub timeout: Option<Duration>,
    /// The request, to be run again.
    pub args: OwnedArgs,
    /// Where the keys begin in `args`. Their number stands before them, unless they come first. Keys of
    /// streams have none; as many IDs follow them.
    pub first_key: usize,
    /// The newest `Lsn` that finding nothing revealed.
    pub seen: Lsn,
    /// When the client looks again, for what time alone brings.
    pub look_after: Option<Duration>,
}

impl BlockRequest {
    /// A request that waits for nothing in particular yet.
    pub fn new(timeout: Option<Duration>, args: OwnedArgs) -> BlockRequest {
        let keys = Vec::new();
        BlockRequest {
            kind: None,
            group: None,
            log: None,
            keys,
            timeout,
            args,
            first_key: 0,
            seen: Lsn::ZERO,
            look_after: None,
        }
    }

    /// The request with `key` instead of all its keys: of several keys that have something, the one that was
    /// given it first serves the client, and nobody is passed who waits longer for another key. It takes as
    /// long for one key of thousands as for the only one.
    pub(crate) fn looking_only_at(&self, key: &[u8]) -> OwnedArgs {
        let args = self.args.as_args();
        if self.kind == Some(Kind::Stream) {
            return self.looking_only_at_stream(key);
        }
        let before = args.iter().take(self.first_key).enumerate().map(|(index, arg)| match index {
            0 => arg,
            _ if index + 1 == self.first_key => b"1",
            _ => arg,
        });
        let behind = args.tail(self.first_key + self.keys.len());
        before.chain([key]).chain(behind).collect()
    }

    /// The same for streams. A key that comes twice does so with two IDs.
    fn looking_only_at_stream(&self, key: &[u8]) -> OwnedArgs {
        let args = self.args.as_args();
        let places = (0..self.keys.len()).filter(|place| *self.keys[*place] == *key);
        let keys = places.clone().map(|_| key);
        let ids = places.map(|place| args.at(self.first_key + self.keys.len() + place));
        args.iter().take(self.first_key).chain(keys).chain(ids).collect()
    }
}

/// The condition of a `WAITAOF`.
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

/// The state of a client's waiting.
#[derive(Debug)]
pub(crate) enum Wait {
    /// The client may be served.
    GoesOn,
    /// The client is to be told how it ended.
    Ended(Outcome),
    /// The client has been told. Who found it in a queue before that must not serve it again: nobody would
    /// send that reply.
    Told,
}

impl Wait {
    /// Ends the waiting, unless it has ended. Returns whether it went on until now.
    pub(crate) fn end(&mut self, outcome: Outcome) -> bool {
        let went_on = matches!(self, Wait::GoesOn);
        if went_on {
            *self = Wait::Ended(outcome);
        }
        went_on
    }
}

/// A client that waits.
#[derive(Debug)]
pub struct Waiter {
    pub(crate) client: Arc<ClientHandle>,
    pub(crate) db: u8,
    pub(crate) protocol: Protocol,
    pub(crate) request: Box<BlockRequest>,
    /// The newest `Lsn` that looks which found nothing have revealed.
    pub(crate) seen: AtomicU64,
    pub(crate) wait: Mutex<Wait, rank::Outcome>,
}

impl Waiter {
    /// Whether waiting has ended.
    pub fn is_done(&self) -> bool {
        // Locked while somebody runs the command in this client's stead; its wake-up follows.
        self.wait.try_lock().is_some_and(|wait| !matches!(*wait, Wait::GoesOn))
    }

    /// Takes the outcome of waiting that has ended, once.
    pub fn take_outcome(&self) -> Option<Outcome> {
        let mut wait = self.wait.lock();
        match std::mem::replace(&mut *wait, Wait::Told) {
            Wait::Ended(outcome) => Some(outcome),
            other => {
                *wait = other;
                None
            }
        }
    }
}

/// A database and a key.
pub(crate) type Place = (u8, Box<[u8]>);

/// All clients that wait, by key, first come first.
#[derive(Debug, Default)]
pub struct Blocking {
    queues: Mutex<HashMap<Place, VecDeque<Arc<Waiter>>>>,
    /// How many are in the queues.
    waiting: AtomicUsize,
    /// How many of them read streams on behalf of groups.
    groups: AtomicUsize,
    /// How many of them look again for what time alone brings.
    looking: AtomicUsize,
    /// Those that no key can serve (`WAIT`, `WAITAOF`).
    keyless: Mutex<Vec<Arc<Waiter>>>,
    /// Keys whose waiters could not be served for want of room in the log, for a pause, or because somebody
    /// had a latch for long.
    postponed: Mutex<Postponed>,
}

/// Keys to be tried again, in their order.
#[derive(Debug, Default)]
struct Postponed {
    places: Vec<Place>,
    known: HashSet<Place>,
}

impl Blocking {
    /// How many clients wait.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Whether anybody waits for entries on behalf of a group, and is to be told that there is none any more.
    pub(crate) fn awaits_groups(&self) -> bool {
        self.groups.load(Ordering::SeqCst) > 0
    }

    /// The number of those that look again for what time alone brings.
    pub(crate) fn looking(&self) -> usize {
        self.looking.load(Ordering::Relaxed)
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

    /// Puts `client` at the end of the queues of the request's keys, which are of database `db`.
    pub fn register(
        &self,
        client: Arc<ClientHandle>,
        db: u8,
        protocol: Protocol,
        request: Box<BlockRequest>,
    ) -> Arc<Waiter> {
        let waiter = Arc::new(Waiter {
            client,
            db,
            protocol,
            seen: AtomicU64::new(request.seen.0),
            request,
            wait: Mutex::new(Wait::GoesOn),
        });
        if waiter.request.keys.is_empty() {
            self.keyless.lock().push(waiter.clone());
            return waiter;
        }
        let mut queues = self.queues.lock();
        // SeqCst with the load in `collect_ready`: either the pusher sees this waiter, or the waiter's second
        // look sees the push.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if waiter.request.group.is_some() {
            self.groups.fetch_add(1, Ordering::SeqCst);
        }
        if waiter.request.look_after.is_some() {
            self.looking.fetch_add(1, Ordering::Relaxed);
        }
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
            if waiter.request.group.is_some() {
                self.groups.fetch_sub(1, Ordering::SeqCst);
            }
            if waiter.request.look_after.is_some() {
                self.looking.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the waiting of client `id`, for `CLIENT UNBLOCK`. Returns whether it waited.
    pub fn unblock(&self, id: u64, outcome: Outcome) -> bool {
        let is_it = |waiter: &&Arc<Waiter>| waiter.client.id == id;
        let queued = self.queues.lock().values().flatten().find(is_it).cloned();
        let found = queued.or_else(|| self.keyless.lock().iter().find(is_it).cloned());
        let Some(waiter) = found else { return false };
        let waited = waiter.wait.lock().end(outcome);
        self.remove(&waiter);
        waiter.client.wake();
        waited
    }

    /// Whether a client waits for a value of this kind at this key.
    pub(crate) fn is_awaited(&self, db: u8, key: &[u8], kind: Kind) -> bool {
        // Most often nobody waits for anything.
        self.waiting.load(Ordering::SeqCst) > 0 && {
            let queues = self.queues.lock();
            let queue = queues.get(&(db, Box::from(key)));
            queue.is_some_and(|queue| queue.iter().any(|waiter| waiter.request.kind == Some(kind)))
        }
    }

    /// Whether a client waits for entries of the stream at this key on behalf of this group.
    pub(crate) fn is_read_for(&self, db: u8, key: &[u8], group: &[u8]) -> bool {
        self.awaits_groups() && {
            let queues = self.queues.lock();
            let queue = queues.get(&(db, Box::from(key)));
            queue.is_some_and(|queue| {
                queue.iter().any(|waiter| waiter.request.group.as_deref() == Some(group))
            })
        }
    }

    /// The first client that waits for this key. Skips those that wait for a kind in `exhausted`.
    pub(crate) fn first(&self, place: &Place, exhausted: &[Kind]) -> Option<Arc<Waiter>> {
        let queues = self.queues.lock();
        queues
            .get(place)?
            .iter()
            .find(|waiter| !waiter.request.kind.is_some_and(|kind| exhausted.contains(&kind)))
            .cloned()
    }

    /// All clients that wait for entries of the stream at this key, in their order.
    pub(crate) fn readers(&self, place: &Place) -> Vec<Arc<Waiter>> {
        let queues = self.queues.lock();
        let waiters = queues.get(place).into_iter().flatten();
        waiters.filter(|waiter| waiter.request.kind == Some(Kind::Stream)).cloned().collect()
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
            let is_served = waiter.wait.lock().end(Outcome::Served(reply, Lsn::ZERO));
            if is_served {
                self.remove(&waiter);
                waiter.client.wake();
            }
        }
    }

    /// Whether there are keys whose waiters could not be served.
    pub fn has_postponed(&self) -> bool {
        !self.postponed.lock().places.is_empty()
    }

    /// Adds the keys to `ready` that `batch` may have given something. `false` if no client waits for keys.
    pub(crate) fn collect_ready(&self, batch: &Batch<'_>, ready: &mut VecDeque<Place>) -> bool {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let awaits_groups = self.awaits_groups();
        for write in batch {
            match write {
                Write::Key { db, key, change } if may_serve(change, awaits_groups) => {
                    let is_last = ready.back().is_some_and(|last| last.0 == *db && *last.1 == **key);
                    if !is_last {
                        ready.push_back((*db, key.as_ref().into()));
                    }
                }
                Write::Flush { db } if awaits_groups => {
                    ready.extend(self.places_of(|place| db.is_none_or(|db| place == db)));
                }
                Write::Swap { a, b } => {
                    ready.extend(self.places_of(|place| place == *a));
                    ready.extend(self.places_of(|place| place == *b));
                }
                Write::Key { .. } | Write::Flush { .. } => {}
            }
        }
        true
    }

    /// Notes keys whose waiters could not be served, behind those that are noted already.
    pub(crate) fn postpone(&self, places: impl Iterator<Item = Place>) {
        let mut places = places.peekable();
        if places.peek().is_none() {
            return;
        }
        let mut postponed = self.postponed.lock();
        for place in places {
            if postponed.known.insert(place.clone()) {
                postponed.places.push(place);
            }
        }
    }

    /// Takes the keys whose waiters could not be served.
    pub(crate) fn take_postponed(&self) -> Vec<Place> {
        std::mem::take(&mut *self.postponed.lock()).places
    }

    fn places_of(&self, is_meant: impl Fn(u8) -> bool) -> Vec<Place> {
        let mut places: Vec<Place> =
            self.queues.lock().keys().filter(|place| is_meant(place.0)).cloned().collect();
        places.sort_unstable();
        places
    }
}

/// Whether a change may give somebody something, or tell those who read for groups that there is none.
fn may_serve(change: &Change<'_>, awaits_groups: bool) -> bool {
    match change {
        Change::StreamPut { name, .. } => element::is_entry(name),
        Change::ListPush { .. }
        | Change::ListInsert { .. }
        | Change::ZSetPut { .. }
        | Change::Image { kind: Kind::List | Kind::ZSet | Kind::Stream, .. }
        | Change::Prepared { kind: Kind::List | Kind::ZSet | Kind::Stream, .. } => true,
        Change::Put { .. }
        | Change::Delete
        | Change::Image { .. }
        | Change::Prepared { .. }
        | Change::StreamGroupRemove { .. } => awaits_groups,
        _ => false,
    }
}

/// Ends the waiting of a connection that gives up, unless it has been served in this very moment. The outcome
/// is then in the waiter.
pub(crate) fn give_up(blocking: &Blocking, waiter: &Arc<Waiter>) {
    waiter.wait.lock().end(Outcome::TimedOut);
    blocking.remove(waiter);
}

/// The reply of `WAITAOF` when nobody is to wait for a log that is off.
pub(crate) const LOG_IS_OFF: &str =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";

/// Writes the reply of `WAITAOF`: how many logs and how many replicas have what the connection wrote.
pub(crate) fn acknowledge(writer: &mut Writer<'_>, is_kept: bool) {
    writer.array(2);
    writer.integer(i64::from(is_kept));
    writer.integer(0);
}

/// Writes what the client of `waiter` is told. A start would find `kept`.
pub(crate) fn write_outcome(waiter: &Waiter, outcome: Outcome, kept: Kept, out: &mut Vec<u8>) -> Lsn {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_that_take_long_are_put_off_the_more_clients_look() {
        let ms = Duration::from_millis;
        for (took, clients, expected) in [
            (ms(0), 1_000, ms(0)),
            (ms(1), 1, ms(16)),
            (ms(2), 100, ms(3_200)),
            (ms(2), 1_000, LOOK_PAUSE_MAX),
            (Duration::MAX, usize::MAX, LOOK_PAUSE_MAX),
        ] {
            assert_eq!(pause_of_looks(took, clients), expected, "{took:?} of {clients}");
        }
    }

    #[test]
    fn a_request_looks_at_one_of_its_keys_alone() {
        for (request, first_key, keys, expected) in [
            ("BLPOP a b c 0.5", 1, 3, "BLPOP b 0.5"),
            ("BLMOVE b d LEFT RIGHT 0", 1, 1, "BLMOVE b d LEFT RIGHT 0"),
            ("BLMPOP 0 3 a b c LEFT COUNT 2", 3, 3, "BLMPOP 0 1 b LEFT COUNT 2"),
            ("XREAD COUNT 3 BLOCK 0 STREAMS a b c 1 2 3", 6, 3, "XREAD COUNT 3 BLOCK 0 STREAMS b 2"),
            ("XREAD BLOCK 0 STREAMS b a b 1 2 3", 4, 3, "XREAD BLOCK 0 STREAMS b b 1 3"),
        ] {
            let args: OwnedArgs = request.split(' ').collect();
            let keys = (0..keys).map(|key| Box::from(args.as_args().at(first_key + key))).collect();
            let kind = request.starts_with('X').then_some(Kind::Stream);
            let request = BlockRequest { kind, first_key, keys, ..BlockRequest::new(None, args) };
            assert_eq!(request.looking_only_at(b"b"), expected.split(' ').collect());
        }
    }
}
