//! One client: what its connection remembers between commands, and the handle by which others reach it.

use crate::address::Address;
use crate::blocking::BlockRequest;
use crate::command::Flags;
use crate::config::AppendFsync;
use crate::error::CommandError;
use crate::saver::Ticket;
use crate::search::Searching;
use crate::shared::Shared;
use crate::sql::Asked;
use crate::transaction::{Transaction, Watching};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;
use tarn_engine::record::Lsn;
use tarn_resp::reply::Protocol;
use tarn_resp::request::OwnedArgs;

/// Whether replies are sent (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    /// Every reply.
    On,
    /// No reply until switched on again.
    Off,
    /// No reply to the next command.
    SkipNext,
    /// No reply to this command.
    Skipping,
}

/// What the connection does when a command has returned.
#[derive(Debug, Default)]
pub enum After {
    /// Goes on.
    #[default]
    GoOn,
    /// Sends what is there and closes.
    Close,
    /// Waits until a key has something, or for the timeout.
    Block(Box<BlockRequest>),
    /// Runs the request when the server is no longer paused.
    Postpone(OwnedArgs),
}

/// What a connection remembers between commands.
#[derive(Debug)]
pub struct Client {
    /// What others see of it.
    pub handle: Arc<ClientHandle>,
    /// The selected database.
    pub db: u8,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether it may do more than `AUTH`.
    pub authenticated: bool,
    /// Whether replies are sent.
    pub reply_mode: ReplyMode,
    /// What happens after this command.
    pub after: After,
    /// Whether a command that has waited runs again in this client's stead.
    pub waits: bool,
    /// What `MULTI` has queued; `None` outside of a transaction.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that are watched.
    pub watching: Watching,
    /// Whether a transaction runs: commands that would wait answer as if their time were over.
    pub denies_waiting: bool,
    /// The checkpoint that its `SAVE` waits for.
    pub save: Option<Ticket>,
    /// The statement of SQL that it waits for.
    pub asked: Option<Box<dyn Asked>>,
    /// The command of search that it waits for.
    pub searching: Option<Box<dyn Searching>>,
    /// The newest change that it made, or was told of.
    pub seen: Lsn,
}

impl Client {
    /// A new client.
    pub fn new(handle: Arc<ClientHandle>, authenticated: bool) -> Client {
        Client {
            handle,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            reply_mode: ReplyMode::On,
            after: After::GoOn,
            waits: false,
            transaction: None,
            watching: Watching::default(),
            denies_waiting: false,
            save: None,
            asked: None,
            searching: None,
            seen: Lsn::ZERO,
        }
    }

    /// Selects a database.
    pub fn select(&mut self, db: u8) {
        self.db = db;
        self.handle.info.lock().db = db;
    }

    /// Forgets the transaction, if there is one, and the watched keys.
    pub fn discard(&mut self) {
        self.transaction = None;
        self.handle.queued.store(-1, Ordering::Relaxed);
        self.unwatch();
    }

    /// Forgets the watched keys.
    pub fn unwatch(&mut self) {
        self.watching = Watching::default();
        self.note_queued_bytes();
    }

    /// Tells others how much memory the transaction and the watched keys take, and returns it.
    pub fn note_queued_bytes(&self) -> u64 {
        let of_queue = self.transaction.as_ref().map_or(0, |transaction| transaction.bytes());
        let bytes = of_queue + self.watching.bytes();
        self.handle.queued_bytes.store(bytes, Ordering::Relaxed);
        bytes as u64
    }

    /// Makes of a refusal before a command ran what the client is told: the transaction that the command was
    /// to belong to cannot run any more, and that which `EXEC` was to run is over.
    #[cold]
    pub fn reject(&mut self, flags: Flags, error: CommandError) -> CommandError {
        if let Some(transaction) = &mut self.transaction {
            transaction.aborted = true;
        }
        if !flags.has(Flags::EXEC) {
            return error;
        }
        self.discard();
        let text = error.to_string();
        let text = text.strip_prefix("ERR ").unwrap_or(&text);
        CommandError::owned(format!("EXECABORT Transaction discarded because of: {text}"))
    }

    /// Closes the connection without a reply, and tells the operator why.
    pub fn close_for(&mut self, why: &str) {
        let ClientHandle { id, addr, .. } = &*self.handle;
        tracing::warn!("closing client {id} at {addr}: {why}");
        self.after = After::Close;
    }
}

/// Stands for no value of `appendfsync`.
const DURABILITY_OF_SERVER: u8 = u8::MAX;

/// What others see of a client and how they reach it: `CLIENT LIST`, `CLIENT KILL`, `CLIENT UNBLOCK`.
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
    /// What changes now and then.
    pub info: Mutex<ClientInfo>,
    /// Milliseconds after `since` of the last command.
    pub last_command_ms: AtomicU64,
    /// Slot of the last command; `usize::MAX` before the first.
    pub last_slot: AtomicUsize,
    /// Bytes that wait to be sent.
    pub output_bytes: AtomicUsize,
    /// Bytes of an incomplete request.
    pub query_bytes: AtomicUsize,
    /// Requests that `MULTI` has queued; -1 outside of a transaction.
    pub queued: AtomicI64,
    /// Bytes of them and of watched keys.
    pub queued_bytes: AtomicUsize,
    durability: AtomicU8,
    killed: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// The part of a client that `CLIENT LIST` shows and commands change.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// `CLIENT SETNAME`.
    pub name: String,
    /// The selected database.
    pub db: u8,
    /// 2 or 3.
    pub protocol: u8,
    /// Whether it waits in a blocking command.
    pub blocked: bool,
    /// Not to be evicted (`CLIENT NO-EVICT`).
    pub no_evict: bool,
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
            info: Mutex::new(ClientInfo { protocol: 2, ..ClientInfo::default() }),
            last_command_ms: AtomicU64::new(0),
            last_slot: AtomicUsize::new(usize::MAX),
            output_bytes: AtomicUsize::new(0),
            query_bytes: AtomicUsize::new(0),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            durability: AtomicU8::new(DURABILITY_OF_SERVER),
            killed: AtomicBool::new(false),
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

    /// Up to where changes may be revealed to it, if it may be told of those up to `revealable` by what
    /// `appendfsync` says.
    pub fn revealable(&self, server: &Shared, revealable: impl FnOnce() -> Lsn) -> Lsn {
        match self.durability() {
            None => revealable(),
            Some(AppendFsync::Always) => server.durable(),
            Some(AppendFsync::EverySec | AppendFsync::No) => Lsn(u64::MAX),
        }
    }

    /// How long ago its last command, or its beginning, was.
    pub fn idle(&self) -> std::time::Duration {
        self.since
            .elapsed()
            .saturating_sub(std::time::Duration::from_millis(self.last_command_ms.load(Ordering::Relaxed)))
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
