//! The handle of a client: what other threads see of it, and how they reach it.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use tarn_engine::lock::Mutex;
use tarn_engine::record::Lsn;
use tarn_resp::Protocol;

use crate::config::{AppendFsync, ClientClass};
use crate::net::address::Address;
use crate::net::tracks::{TrackFlags, Tracks};

/// Stands for no value of `appendfsync`.
const DURABILITY_OF_SERVER: u8 = u8::MAX;

/// A client as other threads see and reach it: `CLIENT LIST`, `CLIENT KILL`, `CLIENT UNBLOCK`.
#[derive(Debug)]
pub struct ClientHandle {
    /// Rises with each connection.
    pub id: u64,
    /// The other end.
    pub addr: Address,
    /// This end.
    pub local_addr: Address,
    /// When it connected.
    pub since: Instant,
    /// Number of the worker that serves it.
    pub worker: usize,
    /// How it tracks keys.
    pub tracks: Tracks,
    /// Why it is turned away as soon as it can be told so, if it is.
    pub refusal: OnceLock<&'static str>,
    /// The fields that change now and then.
    pub info: Mutex<ClientInfo>,
    /// Milliseconds after `since` of the last command.
    pub last_command_ms: AtomicU64,
    /// Slot of the last command; `usize::MAX` before the first.
    pub last_slot: AtomicUsize,
    /// Bytes that wait to be sent.
    pub output_bytes: AtomicUsize,
    /// Bytes of an incomplete request.
    pub query_bytes: AtomicUsize,
    /// Bytes that there is room for behind it.
    pub query_free_bytes: AtomicUsize,
    /// Bytes of the buffer of replies; a connection with nothing to send has none.
    pub output_buffer_bytes: AtomicUsize,
    /// The number of the socket in this process.
    pub descriptor: AtomicI32,
    /// Requests that `MULTI` has queued; -1 outside of a transaction.
    pub queued: AtomicI64,
    /// Bytes of them and of watched keys.
    pub queued_bytes: AtomicUsize,
    /// Milliseconds after `since` from when on its password is awaited; `u64::MAX`: it is not.
    awaited_ms: AtomicU64,
    /// How many channels, patterns and channels of shards it reads.
    subscriptions: [AtomicUsize; 3],
    /// Whether it speaks RESP3.
    speaks_resp3: AtomicBool,
    /// Whether it monitors.
    monitors: AtomicBool,
    durability: AtomicU8,
    killed: AtomicBool,
    /// Whether it may be told of what it must not know any more.
    doubtful: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// The user that a client is: a name, and a number that tells it from later ones of the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTag {
    /// The name.
    pub name: Arc<[u8]>,
    /// The number; 0: the user `default`.
    pub id: u64,
}

impl Default for UserTag {
    fn default() -> UserTag {
        UserTag { name: b"default".as_slice().into(), id: 0 }
    }
}

/// The part of a client that `CLIENT LIST` shows and commands change.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// The user that it is.
    pub user: UserTag,
    /// `CLIENT SETNAME`.
    pub name: String,
    /// The selected database.
    pub db: u8,
    /// Whether it waits in a blocking command.
    pub blocked: bool,
    /// Not to be evicted (`CLIENT NO-EVICT`).
    pub no_evict: bool,
    /// Its commands are not to count as uses of keys (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// The name of the client's library, and its version (`CLIENT SETINFO`).
    pub library: [String; 2],
    /// It understands that it is sent to another server (`CLIENT CAPA redirect`).
    pub takes_redirects: bool,
}

impl ClientHandle {
    /// A handle of a new connection.
    pub fn new(id: u64, addr: Address, local_addr: Address, worker: usize) -> ClientHandle {
        ClientHandle {
            id,
            addr,
            local_addr,
            since: Instant::now(),
            worker,
            tracks: Tracks::default(),
            refusal: OnceLock::new(),
            info: Mutex::default(),
            last_command_ms: AtomicU64::new(0),
            last_slot: AtomicUsize::new(usize::MAX),
            output_bytes: AtomicUsize::new(0),
            query_bytes: AtomicUsize::new(0),
            query_free_bytes: AtomicUsize::new(0),
            output_buffer_bytes: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            awaited_ms: AtomicU64::new(u64::MAX),
            subscriptions: Default::default(),
            speaks_resp3: AtomicBool::new(false),
            monitors: AtomicBool::new(false),
            durability: AtomicU8::new(DURABILITY_OF_SERVER),
            killed: AtomicBool::new(false),
            doubtful: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// When its replies leave, if not as `appendfsync` says (`CLIENT DURABILITY`).
    pub fn durability(&self) -> Option<AppendFsync> {
        AppendFsync::ALL.get(usize::from(self.durability.load(Ordering::Relaxed))).copied()
    }

    /// Sets when its replies leave; `None`: as `appendfsync` says.
    pub fn set_durability(&self, durability: Option<AppendFsync>) {
        let number = durability.map_or(DURABILITY_OF_SERVER, |durability| durability as u8);
        self.durability.store(number, Ordering::Relaxed);
    }

    /// The newest change that may be revealed to it. `revealable` is the one that `appendfsync` allows to
    /// reveal, `durable` the newest durable one.
    pub fn revealable(&self, durable: impl FnOnce() -> Lsn, revealable: impl FnOnce() -> Lsn) -> Lsn {
        match self.durability() {
            None => revealable(),
            Some(AppendFsync::Always) => durable(),
            Some(AppendFsync::EverySec | AppendFsync::No) => Lsn(u64::MAX),
        }
    }

    /// Notes how many channels, patterns and channels of shards it reads.
    pub fn note_subscriptions(&self, counts: [usize; 3]) {
        self.subscriptions
            .iter()
            .zip(counts)
            .for_each(|(noted, count)| noted.store(count, Ordering::Relaxed));
    }

    /// How many channels, patterns and channels of shards it reads.
    pub fn subscriptions(&self) -> [usize; 3] {
        self.subscriptions.each_ref().map(|count| count.load(Ordering::Relaxed))
    }

    /// Notes that it monitors what others send, or no longer.
    pub fn note_monitoring(&self, monitors: bool) {
        self.monitors.store(monitors, Ordering::Relaxed);
    }

    /// Whether it monitors what others send.
    pub fn is_monitoring(&self) -> bool {
        self.monitors.load(Ordering::Relaxed)
    }

    /// Whether it is told of something as time goes by: of messages to channels, of keys by their prefixes,
    /// of the requests of others.
    pub fn is_told(&self) -> bool {
        self.subscriptions() != [0; 3] || self.tracks.flags().has(TrackFlags::BCAST) || self.is_monitoring()
    }

    /// Which limit of unread output it has.
    pub fn class(&self) -> ClientClass {
        if self.subscriptions() == [0; 3] { ClientClass::Normal } else { ClientClass::PubSub }
    }

    /// The protocol that it speaks.
    pub fn protocol(&self) -> Protocol {
        if self.speaks_resp3.load(Ordering::Relaxed) { Protocol::Resp3 } else { Protocol::Resp2 }
    }

    /// Sets the protocol that it speaks.
    pub fn set_protocol(&self, protocol: Protocol) {
        self.speaks_resp3.store(protocol == Protocol::Resp3, Ordering::Relaxed);
    }

    /// How long ago its last command, or its beginning, was.
    pub fn idle(&self) -> Duration {
        self.since
            .elapsed()
            .saturating_sub(Duration::from_millis(self.last_command_ms.load(Ordering::Relaxed)))
    }

    /// Notes that the password is awaited from now on, or no longer.
    pub fn await_password(&self, awaited: bool) {
        let from = if awaited { self.since.elapsed().as_millis() as u64 } else { u64::MAX };
        self.awaited_ms.store(from, Ordering::Relaxed);
    }

    /// Whether its password has been awaited for so long.
    pub fn is_overdue(&self, patience_ms: u64) -> bool {
        let from = self.awaited_ms.load(Ordering::Relaxed);
        from != u64::MAX && self.since.elapsed().as_millis() as u64 >= from.saturating_add(patience_ms)
    }

    /// Bytes of memory that its buffers hold.
    pub fn memory_bytes(&self) -> usize {
        [&self.query_bytes, &self.output_bytes, &self.queued_bytes]
            .iter()
            .map(|bytes| bytes.load(Ordering::Relaxed))
            .sum()
    }

    /// Asks the connection to close.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Asks the connection to look whether its user may be told still of what it is told.
    pub fn look_at_rights(&self) {
        self.doubtful.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it was asked to.
    #[inline]
    pub fn takes_doubt(&self) -> bool {
        // Pairs with the release in `look_at_rights`: the user has changed before.
        self.doubtful.load(Ordering::Relaxed) && self.doubtful.swap(false, Ordering::Acquire)
    }

    /// Whether the connection shall close.
    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Relaxed)
    }

    /// Makes the connection's task look around.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.lock().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Says how to wake the connection's task.
    pub fn set_waker(&self, waker: &Waker) {
        *self.waker.lock() = Some(waker.clone());
    }
}
