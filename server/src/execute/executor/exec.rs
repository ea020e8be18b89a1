//! `MULTI` and `EXEC`: requests are queued, then run as one.
//!
//! ```text
//!   latch the keys of all queued requests, and the watched keys
//!     ─ has a watched key changed? then that is all
//!     ─ run one request after the other, each sees what those before it changed
//!     ─ commit all changes as one group ─ unlatch ─ serve clients that wait for keys
//! ```
//!
//! If a request needs the store for itself, the gate is closed instead. Then what one request flushed or
//! swapped is what the next one finds, too.

use std::sync::atomic::Ordering;
use std::time::Instant;

use tarn_engine::record::{Batch, Lsn, UnixMs};
use tarn_engine::session::{Access, Exclusive, Latched, Session};
use tarn_engine::{CommitError, Group, KeyHash, KeyRef};
use tarn_resp::{Args, OwnedArgs, Writer};
use typed_arena::Arena;

use super::latched::{LATCH_WAIT, close_gate, run_in};
use super::shown::show_part;
use super::staging::Staging;
use super::{Executor, note_hot};
use crate::error::CommandError;
use crate::execute::call::Call;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::events::Events;
use crate::execute::rights::{refuse_part, request_of};
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::execute::table::Table;
use crate::execute::tracking::{notes_reads, send_staged, staged_reads, staged_writes};
use crate::execute::transaction::{Queued, Transaction};
use crate::observe::counter;

const TOO_MUCH: CommandError =
    CommandError::text("ERR the transaction changes more at once than client-query-buffer-limit bytes");

/// Whether the keys of each request are to be copied before it runs: behind a closed gate nothing is latched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Prepare {
    Each,
    Nothing,
}

impl Executor<'_> {
    /// Why a request is not queued.
    #[cold]
    pub(super) fn refuse_to_queue(&self, command: &Command) -> Option<CommandError> {
        if command.flags.has(Flags::NO_MULTI) {
            return Some(CommandError::text("ERR Command not allowed inside a transaction"));
        }
        let is_early = self.server.engine().is_none() && !command.flags.has(Flags::LOADING);
        is_early.then(|| self.loading())
    }

    /// Queues a request.
    pub(super) fn queue(
        &mut self,
        command: &'static Command,
        slot: usize,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) {
        let Some(transaction) = &mut client.transaction else { return };
        client.handle.last_slot.store(slot, Ordering::Relaxed);
        transaction.push(&command.spec, slot, args);
        client.handle.queued.store(transaction.queue().len() as i64, Ordering::Relaxed);
        if client.note_queued_bytes() > self.server.live.query_buffer_limit_bytes() {
            client.close_for("its transaction is longer than client-query-buffer-limit");
            return;
        }
        Writer::new(out, client.protocol).simple("QUEUED");
    }

    /// Runs the queued requests. The client forgets them, and the keys that it watches, unless the log has no
    /// room, or somebody keeps the gate open: then none has run, and `EXEC` is to be run again.
    pub(super) fn exec(&mut self, client: &mut Client, out: &mut Vec<u8>) -> Result<Lsn, CommandError> {
        let Some(transaction) = client.transaction.take() else {
            return Err(CommandError::text("ERR EXEC without MULTI"));
        };
        if transaction.aborted {
            client.discard();
            return Err(CommandError::text("EXECABORT Transaction discarded because of previous errors."));
        }
        let db = client.db;
        client.denies_waiting = true;
        let result = if self.server.engine().is_none() {
            self.exec_unloaded(&transaction, client, out)
        } else if transaction.is_alone(client.watching.watches().is_empty()) {
            self.exec_alone(&transaction, client, out)
        } else {
            self.exec_latched(&transaction, client, out)
        };
        self.wake_who_awaits_the_gate();
        client.denies_waiting = false;
        if let Err(error) = result {
            client.staged.clear();
            client.select(db);
            if matches!(error, CommandError::LogBehind | CommandError::GateBusy) {
                client.transaction = Some(transaction);
                return Err(error);
            }
            return Err(client.reject(Flags::EXEC, error));
        }
        client.discard();
        let seen = result?;
        send_staged(self.server, client, seen);
        Ok(seen)
    }

    fn exec_latched(
        &mut self,
        transaction: &Transaction,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        self.enter_gate()?;
        let session = self.session.as_ref().expect("the store is there");
        let keys = transaction.keys(client.db, self.server.databases);
        let watched = client.watching.watches().iter().map(|watch| (watch.db(), watch.hash()));
        let own = keys.iter().map(|key| (key.db, key.hash));
        let all: Vec<(u8, KeyHash)> = own.chain(watched).collect();
        let access = if transaction.writes() { Access::Write } else { Access::Read };
        let latched = session.latch_places_within(&all, access, self.now, Some(LATCH_WAIT));
        let mut latched = latched.ok_or(CommandError::GateBusy)?;
        latched.know(&keys);
        if !client.watching.holds(&latched) {
            return Ok(refuse_changed(&latched, client, out));
        }
        if access == Access::Write {
            refuse_without_room(self.server)?;
            latched.expire(&keys, self.group)?;
            latched.begin();
        }
        let arena = Arena::new();
        let staged = self.run_queue(transaction, &arena, Prepare::Nothing, &mut latched, client, out)?;
        latched.end();
        let seen = settle(self.server, session, latched, &keys, &staged.writes, self.group, client)?;
        self.after_commit(&staged.writes);
        Ok(seen)
    }

    fn exec_alone(
        &mut self,
        transaction: &Transaction,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        self.session = None;
        let engine = self.server.engine().ok_or_else(|| self.loading())?;
        let alone = close_gate(engine, client)?;
        let taken = transaction.has_script().then(|| self.server.scripts.running.take_gate());
        let mut latched = alone.transact(self.now);
        if !client.watching.holds(&latched) {
            return Ok(refuse_changed(&latched, client, out));
        }
        if transaction.writes() {
            refuse_without_room(self.server)?;
        }
        let arena = Arena::new();
        let staged = self.run_queue(transaction, &arena, Prepare::Each, &mut latched, client, out)?;
        let seen = latched.seen();
        latched.release();
        let seen = settle_alone(self.server, alone, seen, &staged.writes, self.group, client)?;
        drop(taken);
        self.after_commit(&staged.writes);
        Ok(seen)
    }

    /// Runs requests that need no key, while the store is not there yet.
    fn exec_unloaded(
        &mut self,
        transaction: &Transaction,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let session = self.server.empty_store.enter(0);
        let keys = transaction.keys(client.db, self.server.databases);
        let mut latched = session.latch(&keys, Access::Read, self.now);
        if client.watching.lost {
            return Ok(refuse_changed(&latched, client, out));
        }
        let arena = Arena::new();
        self.run_queue(transaction, &arena, Prepare::Nothing, &mut latched, client, out)?;
        Ok(Lsn::ZERO)
    }

    /// Runs one request after the other, and returns all their changes. A request that fails changes nothing,
    /// and the others go on. If they would stage too much, there is an error, and none has changed anything.
    /// `arena` keeps what scripts among them ask for.
    fn run_queue<'a>(
        &self,
        transaction: &'a Transaction,
        arena: &'a Arena<OwnedArgs>,
        prepare: Prepare,
        latched: &mut Latched<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Staging<'a>, CommandError> {
        let server = self.server;
        let mut staged = Staging::default();
        let limit = server.live.query_buffer_limit_bytes();
        Writer::new(out, client.protocol).array(transaction.queue().len());
        for Queued { slot, args, .. } in transaction.queue() {
            let command = self.table.at(*slot).expect("a queued request names a command of the table");
            let args = args.as_args();
            if command.may_write() && staged.is_over(limit) {
                return Err(TOO_MUCH);
            }
            if command.flags.has(Flags::SCRIPT) {
                self.script_in_exec(command, *slot, args, arena, latched, &mut staged, client, out)?;
                continue;
            }
            if prepare == Prepare::Each {
                latched.prepare(&command.declared_keys(client.db, server.databases, args));
            }
            let db = client.db;
            let (table, worker, now) = (self.table, self.worker, self.now);
            let requests = Requests { server, table, worker, now, by_script: false };
            let at = out.len();
            let batch = requests.run(command, *slot, args, latched, client, out)?;
            client.keep_forced(&out[at..]);
            requests.stage(command, args, db, batch, latched, &mut staged, client);
        }
        Ok(staged)
    }
}

/// Runs requests of a transaction or of a script, one after the other.
#[derive(Clone, Copy)]
pub(super) struct Requests<'r> {
    pub(super) server: &'r Services,
    pub(super) table: &'static Table,
    pub(super) worker: usize,
    pub(super) now: UnixMs,
    /// Whether a script asks for them.
    pub(super) by_script: bool,
}

impl Requests<'_> {
    /// Runs one request, and returns its changes, which are to be staged. One that fails replies its error.
    /// An error says that it is to be run again, as a latch would take long, and that nothing has happened:
    /// it is a lone request of a transaction that looks at keys which it does not declare. A script that does
    /// so has the store for itself.
    pub(super) fn run<'a>(
        &self,
        command: &'static Command,
        slot: usize,
        args: Args<'a>,
        latched: &Latched<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Batch<'a>, CommandError> {
        let server = self.server;
        let (start, before, db) = (out.len(), latched.lookups(), client.db);
        let mut batch = Batch::new();
        if !self.by_script && refuses(server, self.table, self.worker, client, (command, slot, args), out) {
            return Ok(batch);
        }
        let hot_since = (!self.by_script && server.hot_keys.is_active()).then(Instant::now);
        let call = Call::begin(server, self.worker, command, slot, args, None, true);
        let result = run_in(command, latched, &mut batch, client, server, args, out);
        call.finish(client, args, self.now, &result);
        if !self.by_script && matches!(result, Err(CommandError::GateBusy)) {
            out.truncate(start);
            return Err(CommandError::GateBusy);
        }
        if let Some(since) = hot_since {
            note_hot(server, command, db, args, since, out.len() - start);
        }
        if server.pubsub.is_monitored() {
            show_part(server, client, command, (slot, args), self.by_script);
        }
        if notes_reads(command, client) {
            client.staged.push(staged_reads(&command.declared_keys(db, server.databases, args)));
        }
        if let Err(error) = result {
            out.truncate(start);
            Writer::new(out, client.protocol).error(error.to_string());
            server.stats.note_error(&error);
            batch = Batch::new();
        }
        if !command.flags.has(Flags::WRITE) {
            let (hits, misses) = latched.lookups();
            if let Some(classes) = server.live.event_classes().filter(|_| misses > before.1) {
                let keys = command.declared_keys(db, server.databases, args);
                Events::new(classes, &mut client.staged).add_missed(latched, command.name, &keys);
            }
            let stats = &server.stats.workers[self.worker];
            counter::add(&stats.hits, hits - before.0);
            counter::add(&stats.misses, misses - before.1);
        }
        Ok(batch)
    }

    /// Lets the requests that follow see the changes of one that ran in database `db`, and stages its events.
    #[expect(clippy::too_many_arguments, reason = "they are the state of two loops")]
    pub(super) fn stage<'a>(
        &self,
        command: &'static Command,
        args: Args<'_>,
        db: u8,
        batch: Batch<'a>,
        latched: &mut Latched<'_>,
        staged: &mut Staging<'a>,
        client: &mut Client,
    ) {
        staged.note(&batch);
        if !batch.is_empty() && self.server.tracking.is_on() {
            client.staged.push(staged_writes(&batch));
        }
        let is_told = !batch.is_empty() && !command.flags.has(Flags::UNTOLD);
        let Some(classes) = self.server.live.event_classes().filter(|_| is_told) else {
            latched.stage(batch, &mut staged.writes);
            return;
        };
        let mut events = Events::new(classes, &mut client.staged);
        events.add_new(latched, &batch);
        events.add_consumers(latched, &batch);
        let written = batch.clone();
        latched.stage(batch, &mut staged.writes);
        events.add_written(latched, command.name, args, db, &written);
    }
}

/// Replies an error if the user of a client has lost the right to a request that was queued.
pub(super) fn refuses(
    server: &Services,
    table: &'static Table,
    worker: usize,
    client: &mut Client,
    (command, slot, args): (&'static Command, usize, Args<'_>),
    out: &mut Vec<u8>,
) -> bool {
    let request = request_of(table, command, slot, args, Some(client.db));
    let Some(refusal) = refuse_part(server, client, request, false) else { return false };
    counter::add(&server.stats.workers[worker].commands[slot].rejected, 1);
    server.stats.note_error(&refusal);
    Writer::new(out, client.protocol).error(refusal.to_string());
    true
}

/// Commits what was staged, sends the messages about it, and gives the latches back. Returns the newest
/// change that the replies reveal.
pub(super) fn settle(
    server: &Services,
    session: &Session<'_>,
    mut latched: Latched<'_>,
    keys: &[KeyRef<'_>],
    staged: &Batch<'_>,
    group: &mut Group,
    client: &mut Client,
) -> Result<Lsn, CommandError> {
    if !staged.is_empty() {
        group.insist();
        latched.commit(staged, group).map_err(lost)?;
    }
    let (seen, met_expired, now) = (latched.seen(), latched.met_expired(), latched.now());
    send_staged(server, client, seen);
    latched.release();
    if met_expired {
        // As for a single command: the expirer tries again.
        if let Some(mut latched) = session.latch_within(keys, Access::Write, now, Some(LATCH_WAIT)) {
            let _ = latched.expire(keys, group);
            latched.release();
        }
    }
    Ok(seen)
}

/// The same behind a closed gate.
pub(super) fn settle_alone(
    server: &Services,
    mut alone: Exclusive<'_>,
    mut seen: Lsn,
    staged: &Batch<'_>,
    group: &mut Group,
    client: &mut Client,
) -> Result<Lsn, CommandError> {
    if !staged.is_empty() {
        group.insist();
        seen = seen.max(alone.commit(staged, group).map_err(lost)?);
    }
    send_staged(server, client, seen);
    Ok(seen)
}

/// The requests of a queue act on more than the keys (`UNWATCH`, `CLIENT KILL`), so they run once. What they
/// write is taken then, whatever comes into the log meanwhile: that is one group more for each worker.
pub(super) fn refuse_without_room(server: &Services) -> Result<(), CommandError> {
    if server.has_room() { Ok(()) } else { Err(CommandError::LogBehind) }
}

/// The error of requests that have run, and whose changes the log has refused. They do not run again.
fn lost(error: CommitError) -> CommandError {
    CommandError::LogRefuses(error.to_string())
}

/// Replies that a watched key has changed, and returns up to where that may reveal changes.
fn refuse_changed(latched: &Latched<'_>, client: &Client, out: &mut Vec<u8>) -> Lsn {
    latched.see_all();
    Writer::new(out, client.protocol).null_array();
    latched.seen()
}
