//! The transaction of a client: the requests that `MULTI` has queued, and the keys that it
//! watches.

use std::fmt;

use tarn_engine::session::Latched;
use tarn_engine::{KeyRef, Watch};
use tarn_resp::{Args, OwnedArgs};

use crate::error::CommandError;
use crate::execute::parse;
use crate::execute::spec::{Flags, Spec};

/// A request that waits for `EXEC`. It was checked as far as it can be without the keys.
pub struct Queued {
    /// The command.
    pub spec: &'static Spec,
    /// The slot of its counters.
    pub slot: usize,
    /// The request.
    pub args: OwnedArgs,
}

impl fmt::Debug for Queued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Queued").field(&self.spec.name).field(&self.args).finish()
    }
}

/// The requests between `MULTI` and `EXEC`.
#[derive(Debug, Default)]
pub struct Transaction {
    queue: Vec<Queued>,
    bytes: usize,
    writes: bool,
    may_replicate: bool,
    /// One of them may make memory grow.
    denies_oom: bool,
    alone: bool,
    has_script: bool,
    /// One of them looks at keys that it does not declare.
    sweeps: bool,
    /// A request was refused: `EXEC` will be, too.
    pub aborted: bool,
}

impl Transaction {
    /// Adds a request.
    pub fn push(&mut self, spec: &'static Spec, slot: usize, args: Args<'_>) {
        let queued = Queued { spec, slot, args: args.to_owned() };
        self.bytes += size_of::<Queued>() + queued.args.memory_bytes();
        self.writes |= spec.may_write();
        self.may_replicate |= spec.flags.has(Flags::MAY_REPLICATE);
        self.denies_oom |= spec.flags.has(Flags::DENYOOM);
        self.sweeps |= spec.flags.has(Flags::ALONE_IN_EXEC);
        self.has_script |= spec.flags.has(Flags::SCRIPT);
        // A script may use keys that it does not declare.
        self.alone |= spec.flags.has_any(Flags::EXCLUSIVE.with(Flags::SCRIPT))
            || spec.alone_if.is_some_and(|needs| needs(args));
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

    /// Whether replicas may be told something by one of them.
    pub fn may_replicate(&self) -> bool {
        self.may_replicate
    }

    /// Whether one of them is refused while too much memory is in use.
    pub fn denies_oom(&self) -> bool {
        self.denies_oom
    }

    /// Whether one of them runs a script.
    pub fn has_script(&self) -> bool {
        self.has_script
    }

    /// Whether they need the store for themselves. Who looks at keys that it does not declare does so only
    /// beside others: by itself, and `unwatched`, it is as it is outside of a transaction.
    pub fn is_alone(&self, unwatched: bool) -> bool {
        self.alone || self.sweeps && !(unwatched && self.queue.len() == 1)
    }

    /// The keys of all of them, if the first begins in database `db`: a `SELECT` among them counts for those
    /// behind it.
    pub fn keys(&self, mut db: u8, databases: usize) -> Vec<KeyRef<'_>> {
        let mut keys = Vec::with_capacity(self.queue.len());
        for Queued { spec, args, .. } in &self.queue {
            let args = args.as_args();
            keys.extend(spec.declared_keys(db, databases, args));
            if spec.name == "select" {
                db = selected(args, databases).unwrap_or(db);
            }
        }
        keys
    }
}

/// The database that a `SELECT` selects, among `databases`.
pub(crate) fn selected(args: Args<'_>, databases: usize) -> Result<u8, CommandError> {
    let db = parse::int(args.at(1))?;
    let db = usize::try_from(db).ok().filter(|db| *db < databases).ok_or(CommandError::DbOutOfRange)?;
    Ok(db as u8)
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
