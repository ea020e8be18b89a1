//! What a client remembers of its transaction: the requests that `MULTI` has queued, and the keys that it
//! watches.

use crate::command::{Command, Flags};
use crate::commands::connection::selected;
use std::fmt;
use tarn_engine::Watch;
use tarn_engine::session::Latched;
use tarn_resp::request::{Args, OwnedArgs};

/// A request that waits for `EXEC`. It was checked as far as it can be without the keys.
pub struct Queued {
    /// The command.
    pub command: &'static Command,
    /// The slot of its counters.
    pub slot: usize,
    /// The request.
    pub args: OwnedArgs,
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queued").field(&self.command.name).field(&self.args).finish()
    }
}

/// The requests between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    bytes: usize,
    writes: bool,
    alone: bool,
    /// One of them looks at keys that it does not declare.
    sweeps: bool,
    /// A request was refused: `EXEC` will be, too.
    pub aborted: bool,
}

impl Transaction {
    /// Adds a request.
    pub fn push(&mut self, command: &'static Command, slot: usize, args: Args<'_>) {
        let queued = Queued { command, slot, args: args.to_owned() };
        self.bytes += size_of::<Queued>() + queued.args.memory_bytes();
        self.writes |= command.flags.has(Flags::WRITE);
        self.sweeps |= command.flags.has(Flags::ALONE_IN_EXEC);
        self.alone |=
            command.flags.has(Flags::EXCLUSIVE) || command.alone_if.is_some_and(|needs| needs(args));
        self.queue.push(queued);
    }

    /// The requests in their order.
    pub fn queue(&self) -> &[Queued] {
        &self.queue
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether one of them writes.
    pub fn writes(&self) -> bool {
        self.writes
    }

    /// Whether they need the store for themselves. Who looks at keys that it does not declare does so only
    /// beside others: by itself, and `unwatched`, it is as it is outside of a transaction.
    pub fn is_alone(&self, unwatched: bool) -> bool {
        self.alone || self.sweeps && !(unwatched && self.queue.len() == 1)
    }

    /// The keys of all of them, if the first begins in database `db`: a `SELECT` among them counts for those
    /// behind it.
    pub fn keys(&self, mut db: u8, databases: usize) -> Vec<(u8, &[u8])> {
        let mut keys = Vec::with_capacity(self.queue.len());
        for Queued { command, args, .. } in &self.queue {
            let args = args.as_args();
            keys.extend(command.declared_keys(db, databases, args));
            if command.name == "select" {
                db = selected(args, databases).unwrap_or(db);
            }
        }
        keys
    }
}

/// The keys that a client watches.
#[derive(Debug, Default)]
pub struct Watching {
    watches: Vec<Watch>,
    bytes: usize,
    /// A watched key has changed for sure.
    pub lost: bool,
}

impl Watching {
    /// Watches a key from now on, unless it is watched already.
    ///
    /// REQUIRES: `key` is among the keys that were latched.
    pub fn add(&mut self, keys: &Latched<'_>, db: u8, key: &[u8]) {
        if !self.watches.iter().any(|watch| watch.db() == db && watch.key() == key) {
            self.bytes += size_of::<Watch>() + key.len();
            self.watches.push(keys.watch(db, key));
        }
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The watched keys.
    pub fn watches(&self) -> &[Watch] {
        &self.watches
    }

    /// Whether nothing has happened to any of them.
    ///
    /// REQUIRES: they are latched, or the gate is closed.
    pub fn holds(&self, keys: &Latched<'_>) -> bool {
        !self.lost && self.watches.iter().all(|watch| keys.is_unchanged(watch))
    }
}
