//! The state of one client that its connection keeps between commands.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tarn_engine::record::Lsn;
use tarn_resp::Protocol;

use crate::acl::FileJob;
use crate::analytics::search::Searching;
use crate::analytics::sql::Asked;
use crate::config::rewriter;
use crate::error::CommandError;
use crate::execute::blocking::BlockRequest;
use crate::execute::identity::Rights;
use crate::execute::preparing::Ready;
use crate::execute::spec::Flags;
use crate::execute::steps::Rest;
use crate::execute::transaction::{Transaction, Watching};
use crate::net::certificates::Reading;
use crate::net::handle::ClientHandle;
use crate::persist::libraries::Job;
use crate::persist::migration::{Migration, Queued};
use crate::persist::reload::Reload;
use crate::persist::saver::Ticket;
use crate::persist::shutdown::Attempt;
use crate::pubsub::monitors::KeptLines;
use crate::pubsub::{OwnPrefixes, Staged, Subscriptions};

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

/// The next step of the connection after a command.
#[derive(Debug, Default)]
pub enum After {
    /// Goes on.
    #[default]
    GoOn,
    /// Sends what is there and closes.
    Close,
    /// Waits until a key has something, or for the timeout.
    Block(Box<BlockRequest>),
    /// Runs the rest of the command in steps.
    Steps(Box<Rest>),
    /// Runs the request again when the log has room, or somebody else has done something.
    Postpone,
    /// Runs the request when the server is no longer paused, and those that were held back before have run.
    Pause,
}

/// The state of a connection between commands.
#[derive(Debug)]
pub struct Client {
    /// The part that other threads see.
    pub handle: Arc<ClientHandle>,
    /// The worker that runs its requests. Of one that another worker runs in the stead of a client that
    /// waits, that is not the worker of its connection.
    pub worker: usize,
    /// The selected database.
    pub db: u8,
    /// RESP2 or RESP3.
    pub protocol: Protocol,
    /// Whether it may do more than `AUTH`.
    pub authenticated: bool,
    /// Wrong passwords that it has given in a row.
    pub(crate) wrong_logins: u32,
    /// No request of it runs for so long.
    pub(crate) delay: Option<Duration>,
    /// The user that it is, and whether that one may do everything.
    pub(crate) rights: Rights,
    /// Whether replies are sent.
    pub reply_mode: ReplyMode,
    /// The next step after this command.
    pub after: After,
    /// The place of a request of this client among those that a pause holds back.
    pub turn: Option<u64>,
    /// Whether a command that has waited runs again in this client's stead.
    pub waits: bool,
    /// The requests queued since `MULTI`; `None` outside of a transaction.
    pub transaction: Option<Box<Transaction>>,
    /// The keys that are watched.
    pub watching: Watching,
    /// Whether a transaction runs: commands that would wait answer as if their time were over.
    pub denies_waiting: bool,
    /// Whether a script runs, of which its commands are.
    pub runs_script: bool,
    /// Whether its commands are no uses of keys, but for `TOUCH` (`CLIENT NO-TOUCH`).
    pub no_touch: bool,
    /// The checkpoint that its `SAVE` waits for.
    pub save: Option<Ticket>,
    /// The file that its `CONFIG REWRITE` waits for.
    pub rewrite: Option<rewriter::Ticket>,
    /// The certificates that its `CONFIG SET` waits for.
    pub certificates: Option<Reading>,
    /// The file of users that its `ACL SAVE` or `ACL LOAD` waits for.
    pub(crate) user_file: Option<FileJob>,
    /// The change of functions that its `FUNCTION` waits for.
    pub(crate) job: Option<Job>,
    /// The keys that its `MIGRATE` sends to another server.
    pub(crate) migration: Option<Box<Migration>>,
    /// The turn of its `MIGRATE` where others send keys, too.
    pub(crate) sending_turn: Option<Box<Queued>>,
    /// The file that its `DEBUG RELOAD` waits for.
    pub(crate) reload: Option<Box<Reload>>,
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
    /// The value that its command has prepared, which runs again.
    pub(crate) ready: Option<Box<Ready>>,
    /// The newest change that it made, or was told of.
    pub seen: Lsn,
    /// The channels that it reads; `None`: none.
    pub subscriptions: Option<Box<Subscriptions>>,
    /// The prefixes of keys that it is told of.
    pub prefixes: OwnPrefixes,
    /// The messages of its transaction, and the keys that it has read and written, in their order. They count
    /// when its changes are there.
    pub staged: Vec<Staged>,
    /// The requests of its script that have not been shown to those who monitor.
    pub(crate) unshown: Option<Box<KeptLines>>,
    /// Whether its script has replied an error.
    pub(crate) script_failed: bool,
    /// Whether the reply to this command is sent whatever the mode.
    forces_reply: bool,
    /// The replies within that to a transaction of which the same holds.
    forced: Vec<u8>,
}

impl Client {
    /// A new client.
    pub fn new(handle: Arc<ClientHandle>, authenticated: bool) -> Client {
        handle.await_password(!authenticated);
        let no_touch = handle.info.lock().no_touch;
        Client {
            worker: handle.worker,
            handle,
            db: 0,
            protocol: Protocol::Resp2,
            authenticated,
            wrong_logins: 0,
            delay: None,
            rights: Rights::default(),
            reply_mode: ReplyMode::On,
            after: After::GoOn,
            waits: false,
            transaction: None,
            watching: Watching::default(),
            denies_waiting: false,
            runs_script: false,
            no_touch,
            save: None,
            rewrite: None,
            certificates: None,
            user_file: None,
            job: None,
            migration: None,
            sending_turn: None,
            reload: None,
            ending: None,
            waits_for_gate: None,
            turn: None,
            asked: None,
            searching: None,
            reply_end_max: usize::MAX,
            ready: None,
            seen: Lsn::ZERO,
            subscriptions: None,
            prefixes: OwnPrefixes::new(),
            staged: Vec::new(),
            unshown: None,
            script_failed: false,
            forces_reply: false,
            forced: Vec::new(),
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
        let is_forced = std::mem::take(&mut self.forces_reply);
        let forced = std::mem::take(&mut self.forced);
        if self.reply_mode == ReplyMode::On {
            return;
        }
        if !is_forced {
            out.truncate(start);
            out.extend_from_slice(&forced);
        }
        self.reply_mode = match self.reply_mode {
            ReplyMode::SkipNext => ReplyMode::Skipping,
            ReplyMode::Skipping => ReplyMode::On,
            mode => mode,
        };
    }

    /// Has the reply to this command sent whatever the mode: as a message, it comes at any time.
    pub fn force_reply(&mut self) {
        self.forces_reply = self.reply_mode != ReplyMode::On;
    }

    /// Notes the reply to a command of a transaction, which may be one that is sent whatever the mode.
    pub fn keep_forced(&mut self, reply: &[u8]) {
        if std::mem::take(&mut self.forces_reply) {
            self.forced.extend_from_slice(reply);
        }
    }

    /// Whether its request has begun, and waits for another thread.
    pub fn has_begun(&self) -> bool {
        self.job.is_some()
            || self.save.is_some()
            || self.rewrite.is_some()
            || self.certificates.is_some()
            || self.user_file.is_some()
            || self.asked.is_some()
            || self.searching.is_some()
            || self.migration.is_some()
            || self.sending_turn.is_some()
            || self.reload.is_some()
    }

    /// Whether another thread is at what its request waits for still. It wakes the connection at its end, but
    /// for that of a time.
    pub(crate) fn awaits_thread(&self) -> bool {
        let sends = || self.migration.as_ref().is_some_and(|migration| migration.outcome().is_none());
        self.sending_turn.as_ref().map_or_else(sends, |turn| !turn.is_over())
            || self.reload.as_ref().is_some_and(|reload| reload.outcome().is_none())
    }

    /// Whether it may do nothing but read its channels: it could not tell messages from replies.
    #[inline]
    pub fn only_reads_channels(&self) -> bool {
        self.subscriptions.is_some() && self.protocol == Protocol::Resp2
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
