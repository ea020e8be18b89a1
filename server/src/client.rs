//! One client: what its connection remembers between commands, and the handle by which others reach it.

use crate::address::Address;
use crate::blocking::BlockRequest;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;
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
        }
    }
}

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
            killed: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    /// How long ago its last command, or its beginning, was.
    pub fn idle(&self) -> std::time::Duration {
        self.since
            .elapsed()
            .saturating_sub(std::time::Duration::from_millis(self.last_command_ms.load(Ordering::Relaxed)))
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
