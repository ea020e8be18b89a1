//! From a request to a reply: look up, check, latch, run, commit.

use crate::call::Call;
use crate::client::{After, Client};
use crate::command::{Command, Flags, places};
use crate::commands::{self, Found};
use crate::config::DebugAccess;
use crate::context::Context;
use crate::error::{CommandError, QUOTED_MAX, printable};
use crate::shared::Shared;
use crate::stats;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Instant;
use tarn_engine::record::{Batch, Lsn, UnixMs};
use tarn_engine::session::{Access, Exclusive, Latched, Session};
use tarn_engine::{Engine, Group};
use tarn_resp::reply::Writer;
use tarn_resp::request::Args;

/// What a worker keeps from command to command.
pub struct Executor<'e> {
    /// The server.
    pub server: &'e Shared,
    /// Number of this worker.
    pub worker: usize,
    /// The worker inside the gate; out while a command has the store for itself.
    pub session: Option<Session<'e>>,
    /// Where records are encoded.
    pub group: &'e mut Group,
    /// The time that commands take for now.
    pub now: UnixMs,
    /// Up to where changes may be revealed when the batch began.
    pub revealable: Lsn,
    /// Whether the log had room when the batch began.
    pub has_room: bool,
    /// Keys that may have something for clients that wait.
    pub ready: VecDeque<(u8, Box<[u8]>)>,
    /// Whether waiting clients are being served.
    pub serving: bool,
    /// Up to where changes have to become durable at once, for clients that asked for it.
    pub demanded: Lsn,
    /// Whether changes have to become durable within a second.
    pub wants_sync: bool,
    /// The newest `Lsn` that the error reveals which the request ends with.
    pub refused_at: Lsn,
}

impl Executor<'_> {
    /// Runs one request and appends the reply to `out`. Returns the newest `Lsn` that the reply reveals.
    pub fn run(&mut self, client: &mut Client, args: Args<'_>, out: &mut Vec<u8>) -> Lsn {
        let start = out.len();
        self.refused_at = Lsn::ZERO;
        client.reply_end_max = self.server.live.reply_end_max(start);
        let command = commands::find(&args[0]);
        let result = match command {
            Some(found) => self.check_and_run(found, client, args, out),
            None => Err(client.reject(Flags::NONE, unknown(args))),
        };
        let seen = match result {
            Ok(seen) => seen,
            Err(error) => {
                out.truncate(start);
                Writer::new(out, client.protocol).error(error.to_string());
                self.server.stats.note_error(&error);
                self.refused_at
            }
        };
        match &mut client.after {
            // There is no reply yet, nor one to be skipped.
            After::Postpone => out.truncate(start),
            After::Block(request) => request.seen = seen,
            After::GoOn | After::Close => client.drop_unwanted(out, start),
        }
        seen
    }

    fn check_and_run(
        &mut self,
        found: Found,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let resolved = self.resolve(found, client, args);
        let (command, slot) = resolved.map_err(|error| client.reject(Flags::NONE, error))?;
        let refusal = if !command.accepts(args.len()) {
            Some(wrong_number(found.command, command, args))
        } else if !client.authenticated && !command.flags.has(Flags::NO_AUTH) {
            Some(CommandError::text("NOAUTH Authentication required."))
        } else if self.server.saver.is_failing() && self.is_stopped_by_failure(command, client) {
            Some(CommandError::CheckpointsFail)
        } else if client.transaction.is_some() {
            self.refuse_to_queue(command)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            stats::add(&self.server.stats.workers[self.worker].commands[slot].rejected, 1);
            return Err(client.reject(command.flags, refusal));
        }
        let writes = command.flags.has(Flags::WRITE)
            || command.flags.has(Flags::EXEC)
                && client.transaction.as_ref().is_some_and(|queue| queue.writes());
        let waits = writes && !self.has_room && !command.flags.has(Flags::ADMIN)
            // As in Redis, a pause of all commands spares none: `CLIENT UNPAUSE` and `SHUTDOWN` wait, too.
            || self.server.pause.holds(writes, self.now);
        if waits && !self.serving {
            client.after = After::Postpone;
            return Ok(Lsn::ZERO);
        }
        if client.transaction.is_some() && !command.flags.has(Flags::AT_ONCE) {
            self.queue(command, slot, client, args, out);
            return Ok(Lsn::ZERO);
        }
        match self.run_counted(command, slot, client, args, out) {
            // Nothing has changed: it can be run again.
            Err(CommandError::LogBehind | CommandError::GateBusy) => {
                client.after = After::Postpone;
                Ok(Lsn::ZERO)
            }
            result => {
                // Whatever waited for the gate waits no more.
                client.waits_for_gate = None;
                result
            }
        }
    }

    /// Whether the command waits until a checkpoint has been taken (`stop-writes-on-bgsave-error`), as the
    /// last one failed.
    #[cold]
    fn is_stopped_by_failure(&self, command: &Command, client: &Client) -> bool {
        let config = self.server.config.snapshot();
        let writes = command.flags.has(Flags::WRITE)
            || command.flags.has(Flags::EXEC)
                && client.transaction.as_ref().is_some_and(|queue| queue.writes());
        writes && !self.serving && config.stop_writes_on_bgsave_error && !config.save.rules.is_empty()
    }

    /// The subcommand that the arguments name, if the command has any, and the slot of its counters.
    fn resolve(
        &self,
        found: Found,
        client: &Client,
        args: Args<'_>,
    ) -> Result<(&'static Command, usize), CommandError> {
        let Found { command, slot, .. } = found;
        let name = match args.get(1) {
            Some(name) if !command.subcommands.is_empty() => name,
            _ => return Ok((command, slot)),
        };
        if command.flags.has(Flags::PROTECTED) && !self.allows_debug(client) {
            return Err(CommandError::DebugNotAllowed);
        }
        let is_named = |sub: &Command| sub.name.as_bytes().eq_ignore_ascii_case(name);
        let position = command.subcommands.iter().position(is_named);
        let position = position.ok_or_else(|| unknown_subcommand(command, name))?;
        Ok((&command.subcommands[position], slot + 1 + position))
    }

    /// Whether `enable-debug-command` lets this client use `DEBUG`.
    fn allows_debug(&self, client: &Client) -> bool {
        match self.server.config.snapshot().enable_debug_command {
            DebugAccess::No => false,
            DebugAccess::Local => client.handle.addr.is_local(),
            DebugAccess::Yes => true,
        }
    }

    fn run_counted(
        &mut self,
        command: &'static Command,
        slot: usize,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        client.handle.last_slot.store(slot, Ordering::Relaxed);
        let call = Call { server: self.server, worker: self.worker, now: self.now, command, slot };
        call.run(client, args, |client| {
            let alone = command.flags.has_any(Flags::EXCLUSIVE.with(Flags::EXEC).with(Flags::OUTSIDE))
                || command.alone_if.is_some_and(|needs| needs(args));
            match alone {
                false => self.run_latched(command, client, args, out),
                true if command.flags.has(Flags::EXEC) => self.exec(client, out),
                true if command.flags.has(Flags::OUTSIDE) => {
                    self.session = None;
                    self.run_without_store(command, client, args, out)
                }
                true => self.run_exclusive(command, client, args, out),
            }
        })
        .inspect(|_| {
            if command.flags.has_any(Flags::ADMIN.with(Flags::EXEC)) {
                // `CONFIG SET` may have changed whether the replies of this very batch wait.
                self.revealable = self.server.revealable();
            }
        })
    }

    /// Makes sure that the worker is inside the gate, if the store is there.
    pub fn enter_gate(&mut self) {
        if self.session.is_none() {
            self.session = self.server.engine().map(|engine| engine.enter_in_turn(self.worker));
        }
    }

    fn run_latched(
        &mut self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let keys = command.declared_keys(client.db, self.server.databases, args);
        let session = match &self.session {
            Some(session) => session,
            None => {
                let Some(engine) = self.server.engine() else {
                    if command.flags.has(Flags::LOADING) {
                        return self.run_without_store(command, client, args, out);
                    }
                    return self.run_early(command, client, args, out);
                };
                self.session.insert(engine.enter_in_turn(self.worker))
            }
        };
        let access = if command.flags.has(Flags::WRITE) { Access::Write } else { Access::Read };
        let hashed = places(&keys);
        let mut latched = session.latch(&hashed, access, self.now);
        if access == Access::Write {
            latched.expire(&keys, self.group)?;
        }
        let mut batch = Batch::new();
        let ran = run_in(command, &latched, &mut batch, client, self.server, args, out);
        if let Err(error) = ran {
            self.refused_at = latched.seen();
            return Err(error);
        }
        if !batch.is_empty() {
            latched.commit(&batch, self.group)?;
        }
        let (seen, met_expired, lookups) = (latched.seen(), latched.met_expired(), latched.lookups());
        latched.release();
        if met_expired {
            let mut latched = session.latch(&hashed, Access::Write, self.now);
            // The keys are missing already for everybody, and if the log refuses this the expirer tries
            // again.
            let _ = latched.expire(&keys, self.group);
            latched.release();
        }
        if access == Access::Read {
            // As in Redis, the look-ups of writing commands are not counted.
            self.note_lookups(lookups);
        }
        self.after_commit(&batch);
        Ok(seen)
    }

    /// Counts what was committed and serves those who wait for it.
    pub(crate) fn after_commit(&mut self, batch: &Batch<'_>) {
        if !batch.is_empty() {
            stats::add(&self.server.stats.workers[self.worker].changes, batch.len() as u64);
            crate::blocking::serve_ready(self, batch);
        }
    }

    pub(crate) fn note_lookups(&self, (hits, misses): (u64, u64)) {
        let stats = &self.server.stats.workers[self.worker];
        stats::add(&stats.hits, hits);
        stats::add(&stats.misses, misses);
    }

    /// Runs a command of which the keys cannot be declared, with every other worker kept out.
    fn run_exclusive(
        &mut self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let keys = command.declared_keys(client.db, self.server.databases, args);
        self.session = None;
        let Some(engine) = self.server.engine() else {
            return Err(self.loading());
        };
        let mut alone = close_gate(engine, client)?;
        let hashed = places(&keys);
        let mut latched = alone.latch(&hashed, Access::Write, self.now);
        latched.expire(&keys, self.group)?;
        let mut batch = Batch::new();
        let ran = run_in(command, &latched, &mut batch, client, self.server, args, out);
        let mut seen = latched.seen();
        if let Err(error) = ran {
            self.refused_at = seen;
            return Err(error);
        }
        latched.release();
        if !batch.is_empty() {
            seen = seen.max(alone.commit(&batch, self.group)?);
        }
        drop(alone);
        self.after_commit(&batch);
        Ok(seen)
    }

    /// What clients are told while the data is being loaded.
    pub(crate) fn loading(&self) -> CommandError {
        let loading = &self.server.loading;
        let (read, bytes) =
            (loading.bytes_read.load(Ordering::Relaxed), loading.bytes.load(Ordering::Relaxed));
        let percent = read * 100 / bytes.max(1);
        CommandError::owned(format!(
            "LOADING Tarn is loading the dataset in memory: {percent} % of {bytes} bytes"
        ))
    }

    /// Runs a command that needs no key while the store is not there yet, or outside of the gate.
    fn run_without_store(
        &self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let session = self.server.empty_store.enter(0);
        let keys = command.declared_keys(client.db, self.server.databases, args);
        let hashed = places(&keys);
        let latched = session.latch(&hashed, Access::Read, self.now);
        let mut batch = Batch::new();
        run_in(command, &latched, &mut batch, client, self.server, args, out)?;
        Ok(Lsn::ZERO)
    }
}

/// Closes the gate for a client. If another worker is at something long, an error says that the request is
/// to be run again: the clients of this worker are served meanwhile.
///
/// REQUIRES: the worker is not inside the gate.
pub(crate) fn close_gate<'e>(engine: &'e Engine, client: &mut Client) -> Result<Exclusive<'e>, CommandError> {
    let since = *client.waits_for_gate.get_or_insert_with(Instant::now);
    let closed = engine.try_close_gate(since.elapsed()).ok_or(CommandError::GateBusy)?;
    client.waits_for_gate = None;
    Ok(closed)
}

/// Runs the function of a command.
pub(crate) fn run_in<'a>(
    command: &'static Command,
    latched: &Latched<'_>,
    batch: &mut Batch<'a>,
    client: &mut Client,
    server: &Shared,
    args: Args<'a>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let db = client.db;
    let reply = Writer::new(out, client.protocol).limited(client.reply_end_max);
    let mut context = Context { keys: latched, batch, reply, client, server, db };
    (command.run)(&mut context, args)?;
    if context.reply.is_over() { Err(CommandError::ReplyTooLong) } else { Ok(()) }
}

fn full_name(parent: &'static Command, command: &'static Command) -> Cow<'static, str> {
    if std::ptr::eq(parent, command) {
        parent.name.into()
    } else {
        format!("{}|{}", parent.name, command.name).into()
    }
}

fn unknown(args: Args<'_>) -> CommandError {
    let mut beginning = String::new();
    for arg in args.iter().skip(1) {
        if beginning.len() >= QUOTED_MAX {
            break;
        }
        let left = QUOTED_MAX - beginning.len();
        beginning.push_str(&format!("'{}' ", printable(&arg[..arg.len().min(left)])));
    }
    CommandError::owned(format!(
        "ERR unknown command '{}', with args beginning with: {beginning}",
        printable(&args[0])
    ))
}

fn wrong_number(parent: &'static Command, command: &'static Command, args: Args<'_>) -> CommandError {
    match args.get(1) {
        Some(name) if parent.flags.has(Flags::LOOSE) => unknown_subcommand(parent, name),
        _ => CommandError::Arity(full_name(parent, command)),
    }
}

fn unknown_subcommand(parent: &Command, name: &[u8]) -> CommandError {
    let or = if parent.flags.has(Flags::LOOSE) { " or wrong number of arguments for" } else { "" };
    CommandError::owned(format!(
        "ERR unknown subcommand{or} '{}'. Try {} HELP.",
        printable(name),
        parent.name.to_ascii_uppercase()
    ))
}
