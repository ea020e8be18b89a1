//! One client: what its connection remembers between commands, and the handle by which others reach it.

use crate::address::Address;
use crate::blocking::BlockRequest;
use crate::command::Flags;
use crate::config::AppendFsync;
use crate::error::CommandError;
use crate::rewriter;
use crate::saver::Ticket;
use crate::search::Searching;
use crate::shared::Shared;
use crate::shutdown::Attempt;
use crate::sql::Asked;
use crate::transaction::{Transaction, Watching};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;
use tarn_engine::lock::Mutex;
use tarn_engine::record::Lsn;
use tarn_resp::reply::Protocol;

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
    Postpone,
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
    /// The file that its `CONFIG REWRITE` waits for.
    pub rewrite: Option<rewriter::Ticket>,
    /// The end of the server that its `SHUTDOWN` waits for.
    pub ending: Option<Attempt>,
    /// Since when its request waits for the gate to be closed.
    pub waits_for_gate: Option<Instant>,
    /// The statement of SQL that it waits for.
    pub asked: Option<Box<dyn Asked>>,
    /// The command of search that it waits for.
    pub searching: Option<Box<dyn Searching>>,
    /// Bytes that the output buffer may have behind the reply to its command.
    pub reply_end_max: usize,
    /// The newest change that it made, or was told of.
    pub seen: Lsn,
}

impl Client {
    /// A new client.
    pub fn new(handle: Arc<ClientHandle>, authenticated: bool) -> Client {
        handle.await_password(!authenticated);
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
            rewrite: None,
            ending: None,
            waits_for_gate: None,
            asked: None,
            searching: None,
            reply_end_max: usize::MAX,
            seen: Lsn::ZERO,
        }
    }

    /// Lets it do more than `AUTH`, or no longer.
    pub fn set_authenticated(&mut self, authenticated: bool) {
        self.authenticated = authenticated;
        self.handle.await_password(!authenticated);
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

    /// Takes the reply at the end of `out`, which begins at `start`, away again if it is not wanted. To be
    /// called once for each reply.
    #[inline]
    pub fn drop_unwanted(&mut self, out: &mut Vec<u8>, start: usize) {
        if self.reply_mode == ReplyMode::On {
            return;
        }
        out.truncate(start);
        self.reply_mode = match self.reply_mode {
            ReplyMode::SkipNext => ReplyMode::Skipping,
            ReplyMode::Skipping => ReplyMode::On,
            mode => mode,
        };
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
    /// Its commands are not to count as uses of keys (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// What the client's library is called, and its version (`CLIENT SETINFO`).
    pub library: [String; 2],
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
            query_free_bytes: AtomicUsize::new(0),
            output_buffer_bytes: AtomicUsize::new(0),
            descriptor: AtomicI32::new(-1),
            queued: AtomicI64::new(-1),
            queued_bytes: AtomicUsize::new(0),
            awaited_ms: AtomicU64::new(u64::MAX),
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

    fn await_password(&self, awaited: bool) {
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
