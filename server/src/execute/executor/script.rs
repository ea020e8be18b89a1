//! Scripts and functions: a script is a transaction, the requests of which come one by one.
//!
//! ```text
//!   latch the keys that it declares ── run it; requests see earlier changes ── commit as one group
//!     │ it asks for a key that it has not declared, or for a command that needs the store for itself
//!     └──> forget its changes ── close the gate ── run it again; all keys are allowed
//! ```
//!
//! A script that fails keeps the changes that it has made, as in Redis. One that is ended has made none.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tarn_engine::KeyRef;
use tarn_engine::record::Lsn;
use tarn_engine::session::{Access, Latched};
use tarn_lua::{Abort, Errors, Failure, FunctionFlag, Host, Interpreter};
use tarn_resp::{Args, OwnedArgs, Protocol, Writer};
use typed_arena::Arena;

use super::exec::{Requests, refuse_without_room, refuses, settle, settle_alone};
use super::latched::{LATCH_WAIT, close_gate};
use super::resolve::{Resolved, resolve};
use super::shown::{keep, send_kept, show_part, show_script};
use super::staging::Staging;
use super::unbuilt::unbuilt;
use super::{Executor, may_publish, stops_writes};
use crate::error::CommandError;
use crate::execute::call::Call;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::parse;
use crate::execute::rights::{denied, refuse_part, request_of};
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::execute::table::Table;
use crate::observe::counter;
use crate::scripts::{self, Cache, Known, NO_SCRIPT, Run, Scripts, Sha, Workshop, sha_from};

/// Where the number of keys stands in a request, and where the keys begin.
const NUMBER_AT: usize = 2;
const KEYS_AT: usize = 3;

/// The part of a request that `FUNCTION STATS` shows: words, and bytes of each.
const SHOWN_WORDS: usize = 32;
const SHOWN_BYTES: usize = 128;

const UNKNOWN: CommandError = CommandError::text("ERR Unknown Redis command called from script");
const WRONG_NUMBER: CommandError =
    CommandError::text("ERR Wrong number of args calling Redis command from script");
const NOT_ALLOWED: CommandError = CommandError::text("ERR This Redis command is not allowed from script");
const READ_ONLY: CommandError =
    CommandError::text("ERR Write commands are not allowed from read-only scripts.");
const TOO_MUCH: CommandError =
    CommandError::text("ERR the script changes more at once than client-query-buffer-limit bytes");
const TOO_MANY_KEYS: CommandError =
    CommandError::text("ERR the script uses keys of more than client-query-buffer-limit bytes");
const SCRIPT_KILLED: &str = "ERR Script killed by user with SCRIPT KILL.";
const FUNCTION_KILLED: &str = "ERR Script killed by user with FUNCTION KILL.";

/// A script or a function that is asked for.
struct Wanted<'w> {
    interpreter: &'w Interpreter,
    known: &'w Known,
    request: Args<'w>,
    /// The number of keys; what follows them are arguments.
    count: usize,
    is_read_only: bool,
    is_function: bool,
}

impl Wanted<'_> {
    /// The error of one that was ended.
    fn killed(&self) -> &'static str {
        if self.is_function { FUNCTION_KILLED } else { SCRIPT_KILLED }
    }
}

/// The reason why a script was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// It needs the store for itself.
    NeedsGate,
    /// Somebody asked for it.
    Killed,
}

impl Executor<'_> {
    /// Whether a request runs a script or a function that promises not to write.
    #[cold]
    pub(super) fn promises_no_writes(&self, command: &Command, args: Args<'_>) -> bool {
        let cache = &self.server.scripts.cache;
        match command.name {
            "eval" => scripts::promises_no_writes(args.at(1)),
            "evalsha" => {
                let script = sha_from(args.at(1)).and_then(|sha| cache.find(&sha));
                script.and_then(|own| own.promises).is_some_and(|promises| promises.no_writes)
            }
            "fcall" => {
                let libraries = self.server.scripts.functions.now();
                let found = libraries.find(args.at(1));
                found.is_some_and(|(_, function)| function.flags.contains(&FunctionFlag::NoWrites))
            }
            _ => false,
        }
    }

    /// Runs the script that a request asks for.
    pub(super) fn run_script(
        &mut self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        if self.server.engine().is_none() {
            return Err(self.loading());
        }
        if is_load(command) {
            load(&mut self.workshop.borrow_mut(), &self.server.scripts.cache, client, args, out)?;
            return Ok(Lsn::ZERO);
        }
        keep(self.server, client);
        show_script(self.server, client, args);
        let ran = self.run_known(command, client, args, out);
        if matches!(ran, Err(CommandError::GateBusy | CommandError::LogBehind)) {
            client.unshown = None;
        } else {
            send_kept(self.server, client);
        }
        ran
    }

    fn run_known(
        &mut self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let (workshop, start, db) = (self.workshop, out.len(), client.db);
        let mut workshop = workshop.borrow_mut();
        let mut wanted = want(&mut workshop, &self.server.scripts, command, args)?;
        self.refuse_without_memory(&wanted)?;
        if !wanted.known.needs_gate.get() {
            let ran = self.script_latched(command, &wanted, client, args, out);
            if !matches!(ran, Ok(None)) {
                // The log may have refused what the messages tell of.
                ran.is_err().then(|| client.staged.clear());
                return ran.map(Option::unwrap_or_default);
            }
            out.truncate(start);
            client.staged.clear();
            client.unshown.iter_mut().for_each(|kept| kept.begin_again());
            client.select(db);
            wanted.known.needs_gate.set(true);
            if wanted.is_function {
                let name = wanted.known.name.clone();
                workshop.note_gated(&name);
                wanted = want(&mut workshop, &self.server.scripts, command, args)?;
            }
        }
        let ran = self.script_alone(&wanted, client, out);
        ran.is_err().then(|| client.staged.clear());
        self.wake_who_awaits_the_gate();
        ran
    }

    /// Refuses one that could promise to need no memory, and does not, while too much is in use.
    fn refuse_without_memory(&self, wanted: &Wanted<'_>) -> Result<(), CommandError> {
        let is_denied = self.lacks_memory && !wanted.is_read_only && wanted.known.allows_oom == Some(false);
        if is_denied { Err(CommandError::OutOfMemory) } else { Ok(()) }
    }

    /// Wakes the workers if they had something to do inside the gate while a script had the store for itself.
    pub(super) fn wake_who_awaits_the_gate(&self) {
        if self.server.scripts.running.take_awaited() {
            self.server.wakers.iter().for_each(|waker| waker.notify_one());
        }
    }

    /// Runs a script with the keys latched that it declares; `None` if that is not enough.
    fn script_latched(
        &mut self,
        command: &'static Command,
        wanted: &Wanted<'_>,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Option<Lsn>, CommandError> {
        // One that has the store for itself needs no admission: no other runs meanwhile.
        let _admitted = self.server.scripts.running.admit().ok_or(CommandError::GateBusy)?;
        self.enter_gate()?;
        let session = self.session.as_ref().expect("the store is there");
        let keys = command.declared_keys(client.db, self.server.databases, args);
        let access = if wanted.is_read_only { Access::Read } else { Access::Write };
        let latched = session.latch_within(&keys, access, self.now, Some(LATCH_WAIT));
        let mut latched = latched.ok_or(CommandError::GateBusy)?;
        if access == Access::Write {
            refuse_without_room(self.server)?;
            latched.expire(&keys, self.group)?;
            latched.begin();
        }
        let (arena, mut staged) = (Arena::new(), Staging::default());
        let ended = self.interpret(wanted, Some(&keys), &arena, &mut latched, &mut staged, client, out);
        latched.end();
        match ended {
            Some(Ended::NeedsGate) => {
                latched.release();
                return Ok(None);
            }
            Some(Ended::Killed) => forget(&mut staged, client),
            None => {}
        }
        let seen = settle(self.server, session, latched, &keys, &staged.writes, self.group, client)?;
        self.after_commit(&staged.writes);
        Ok(Some(seen))
    }

    /// Runs a script with the store for itself.
    fn script_alone(
        &mut self,
        wanted: &Wanted<'_>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        self.session = None;
        let engine = self.server.engine().ok_or_else(|| self.loading())?;
        let alone = close_gate(engine, client)?;
        let taken = self.server.scripts.running.take_gate();
        if !wanted.is_read_only {
            refuse_without_room(self.server)?;
        }
        // It runs no further time.
        send_kept(self.server, client);
        let mut latched = alone.transact(self.now);
        let (arena, mut staged) = (Arena::new(), Staging::default());
        if self.interpret(wanted, None, &arena, &mut latched, &mut staged, client, out).is_some() {
            forget(&mut staged, client);
        }
        let seen = latched.seen();
        latched.release();
        let seen = settle_alone(self.server, alone, seen, &staged.writes, self.group, client)?;
        // Clients that wait for keys are served inside the gate.
        drop(taken);
        self.after_commit(&staged.writes);
        Ok(seen)
    }

    /// Counts a call whose script has replied an error as one that failed.
    pub(super) fn note_failed_script(&self, slot: usize, client: &mut Client) {
        if std::mem::take(&mut client.script_failed) {
            counter::add(&self.server.stats.workers[self.worker].commands[slot].failed, 1);
        }
    }

    /// Runs a script of a transaction, which has the store for itself.
    #[expect(clippy::too_many_arguments, reason = "it is a part of a loop")]
    pub(super) fn script_in_exec<'a>(
        &self,
        command: &'static Command,
        slot: usize,
        args: Args<'_>,
        arena: &'a Arena<OwnedArgs>,
        latched: &mut Latched<'_>,
        staged: &mut Staging<'a>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Result<(), CommandError> {
        if refuses(self.server, self.table, self.worker, client, (command, slot, args), out) {
            return Ok(());
        }
        let call = Call::begin(self.server, self.worker, command, slot, args, None, true);
        let mut workshop = self.workshop.borrow_mut();
        let scripts = &self.server.scripts;
        let mut killed = None;
        if !is_load(command) {
            show_script(self.server, client, args);
        }
        let result = if is_load(command) {
            load(&mut workshop, &scripts.cache, client, args, out)
        } else {
            want(&mut workshop, scripts, command, args).and_then(|wanted| {
                self.refuse_without_memory(&wanted)?;
                let ended = self.interpret(&wanted, None, arena, latched, staged, client, out);
                killed = ended.map(|_| wanted.killed());
                Ok(())
            })
        };
        call.finish(client, args, self.now, &result);
        self.note_failed_script(slot, client);
        if self.server.pubsub.is_monitored() {
            show_part(self.server, client, command, (slot, args), false);
        }
        if let Err(error) = result {
            Writer::new(out, client.protocol).error(error.to_string());
            self.server.stats.note_error(&error);
        }
        // Nothing of the transaction happens then.
        killed.map_or(Ok(()), |text| Err(CommandError::text(text)))
    }

    /// Runs a script on latched keys, those that it has declared; `None`: on all. Writes its reply, unless it
    /// needs the store for itself.
    #[expect(clippy::too_many_arguments, reason = "two callers have all of these")]
    fn interpret<'a>(
        &self,
        wanted: &Wanted<'_>,
        declared: Option<&[KeyRef<'_>]>,
        arena: &'a Arena<OwnedArgs>,
        latched: &mut Latched<'_>,
        staged: &mut Staging<'a>,
        client: &mut Client,
        out: &mut Vec<u8>,
    ) -> Option<Ended> {
        let (db, denies_waiting) = (client.db, client.denies_waiting);
        (client.denies_waiting, client.runs_script) = (true, true);
        let start = out.len();
        let mut reply = Writer::new(out, client.protocol).limited(client.reply_end_max);
        let lacks_memory = self.lacks_memory && wanted.known.allows_oom.is_none();
        let mut caller = Caller {
            requests: Requests {
                server: self.server,
                table: self.table,
                worker: self.worker,
                now: self.now,
                by_script: true,
            },
            table: self.table,
            latched,
            staged,
            arena,
            client,
            declared,
            wanted,
            run: self.server.scripts.running.begin(self.worker),
            limit: self.server.live.busy_reply_threshold(),
            lacks_memory,
            has_written: false,
            ended: None,
        };
        let arguments = wanted.request.tail(KEYS_AT);
        let keys = arguments.iter().take(wanted.count);
        let args = arguments.iter().skip(wanted.count);
        let result = wanted.interpreter.run(&wanted.known.program, keys, args, &mut caller, &mut reply);
        let ended = caller.ended;
        let mut errors = wanted.interpreter.take_errors();
        caller.run.note_memory(wanted.is_function, wanted.interpreter.memory_bytes());
        drop(caller);
        let name = &wanted.known.name;
        let error = match result {
            Ok(()) if reply.is_over() => {
                errors = Errors { replied: 1, own: [(b"ERR".to_vec(), 1)].into() };
                Some(CommandError::ReplyTooLong.to_string().into_bytes())
            }
            Ok(()) => None,
            Err(Failure::Error { message, place }) => Some(told(&message, name, place)),
            Err(Failure::Aborted { place }) => Some(told(wanted.killed().as_bytes(), name, place)),
        };
        (client.denies_waiting, client.runs_script) = (denies_waiting, false);
        if client.db != db {
            client.select(db);
        }
        if let Some(error) = error {
            out.truncate(start);
            Writer::new(out, client.protocol).error(&error);
        }
        if ended != Some(Ended::NeedsGate) {
            client.script_failed = errors.replied > 0;
            for (code, number) in errors.own {
                self.server.stats.note_errors(&String::from_utf8_lossy(&code), number);
            }
        }
        ended
    }
}

/// Forgets what a script that was ended has changed.
fn forget(staged: &mut Staging<'_>, client: &mut Client) {
    *staged = Staging::default();
    client.staged.clear();
}

/// Whether a command keeps a script, and does not run it.
fn is_load(command: &Command) -> bool {
    command.name == "load"
}

/// Compiles and keeps a script, and replies its SHA1.
fn load(
    workshop: &mut Workshop,
    cache: &Cache,
    client: &Client,
    args: Args<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let script = workshop.load(cache, args.at(2))?;
    Writer::new(out, client.protocol).bulk(script.name().as_bytes());
    Ok(())
}

/// Finds the script or the function that a request asks for, and compiles it if need be.
fn want<'w>(
    workshop: &'w mut Workshop,
    scripts: &Scripts,
    command: &Command,
    args: Args<'w>,
) -> Result<Wanted<'w>, CommandError> {
    let is_function = command.name.starts_with("fcall");
    let by_sha = command.name.starts_with("evalsha");
    if by_sha && args.at(1).len() != 2 * size_of::<Sha>() {
        return Err(NO_SCRIPT);
    }
    let (count, (interpreter, known)) = if is_function {
        let function = workshop.function(&scripts.functions, args.at(1))?;
        let count = parse::integer(args.at(NUMBER_AT))
            .map_err(|_| CommandError::text("ERR Bad number of keys provided"))?;
        (count_of_keys(count, args)?, function)
    } else {
        let count = count_of_keys(parse::integer(args.at(NUMBER_AT))?, args)?;
        let cache = &scripts.cache;
        let script = if by_sha {
            workshop.of_sha(cache, args.at(1))?
        } else {
            workshop.of_source(cache, args.at(1))?
        };
        (count, script)
    };
    let reads = command.flags.has(Flags::READONLY);
    if reads && known.may_write {
        return Err(CommandError::text("ERR Can not execute a script with write flag using *_ro command."));
    }
    let is_read_only = reads || known.is_read_only;
    Ok(Wanted { interpreter, known, request: args, count, is_read_only, is_function })
}

fn count_of_keys(count: i64, args: Args<'_>) -> Result<usize, CommandError> {
    if count > args.tail(KEYS_AT).len() as i64 {
        return Err(CommandError::text("ERR Number of keys can't be greater than number of args"));
    }
    usize::try_from(count).map_err(|_| CommandError::text("ERR Number of keys can't be negative"))
}

/// The error of a script, with its place. It need not be UTF-8.
fn told(message: &[u8], script: &str, place: Option<(String, usize)>) -> Vec<u8> {
    let place = place.map_or(String::new(), |(source, line)| format!(", on {source}:{line}."));
    [message, format!(" script: {script}{place}").as_bytes()].concat()
}

/// Runs the requests of a script.
struct Caller<'x, 'a, 'k, 's> {
    requests: Requests<'x>,
    table: &'static Table,
    latched: &'x mut Latched<'s>,
    staged: &'x mut Staging<'a>,
    /// Requests that write: their changes refer to them.
    arena: &'a Arena<OwnedArgs>,
    client: &'x mut Client,
    declared: Option<&'x [KeyRef<'k>]>,
    wanted: &'x Wanted<'x>,
    run: Run<'x>,
    /// The time after which others are told.
    limit: Duration,
    /// Whether commands that may make memory grow are refused, until the script has run one that writes.
    lacks_memory: bool,
    /// Whether it has, even if that changed nothing.
    has_written: bool,
    ended: Option<Ended>,
}

impl Caller<'_, '_, '_, '_> {
    /// The command that a request names, if a script may run it.
    fn resolve(&mut self, args: Args<'_>) -> Result<Resolved, CommandError> {
        let found = self.table.find(args.at(0)).ok_or_else(|| unbuilt(args.at(0)).unwrap_or(UNKNOWN))?;
        let resolved = resolve(found, args, || false).map_err(|_| UNKNOWN)?;
        let refusal = self.refusal(resolved.command, args).or_else(|| self.refusal_by_rights(resolved, args));
        if let Some(refusal) = refusal {
            let stats = &self.requests.server.stats.workers[self.requests.worker];
            counter::add(&stats.commands[resolved.slot].rejected, 1);
            return Err(refusal);
        }
        Ok(resolved)
    }

    /// Why the user whose script it is may not run a request.
    fn refusal_by_rights(&mut self, resolved: Resolved, args: Args<'_>) -> Option<CommandError> {
        let Resolved { command, slot, .. } = resolved;
        let request = request_of(self.table, command, slot, args, Some(self.client.db));
        refuse_part(self.requests.server, self.client, request, true)
    }

    /// Why a script may not run a command.
    fn refusal(&self, command: &Command, args: Args<'_>) -> Option<CommandError> {
        let server = self.requests.server;
        if !command.accepts(args.len()) {
            Some(WRONG_NUMBER)
        } else if command.flags.has(Flags::NOSCRIPT) && !is_allowed_for_tests(server, command) {
            Some(NOT_ALLOWED)
        } else if self.wanted.is_read_only && (command.may_write() || command.flags.has(Flags::MAY_REPLICATE))
        {
            Some(READ_ONLY)
        } else if command.may_write() && stops_writes(server) {
            Some(CommandError::CheckpointsFail)
        } else if self.lacks_memory && !self.has_written && command.flags.has(Flags::DENYOOM) {
            Some(CommandError::OutOfMemory)
        } else if self.staged.is_over(server.live.query_buffer_limit_bytes())
            && (command.may_write() || may_publish(server, command, self.client))
        {
            Some(TOO_MUCH)
        } else if self.latched.copied_bytes() as u64 > server.live.query_buffer_limit_bytes()
            && self.declared.is_none()
        {
            Some(TOO_MANY_KEYS)
        } else {
            None
        }
    }

    /// Whether a request needs more than what is latched.
    fn needs_gate(&self, command: &Command, args: Args<'_>, keys: &[KeyRef<'_>]) -> bool {
        let Some(declared) = self.declared else { return false };
        let is_declared =
            |key: &KeyRef<'_>| declared.iter().any(|own| own.db == key.db && own.key == key.key);
        command.flags.has_any(Flags::EXCLUSIVE.with(Flags::ALONE_IN_EXEC).with(Flags::OUTSIDE))
            || command.alone_if.is_some_and(|needs| needs(args))
            || self.client.unshown.as_ref().is_some_and(|kept| kept.is_too_much())
            || !keys.iter().all(is_declared)
    }
}

impl Host for Caller<'_, '_, '_, '_> {
    fn call(&mut self, args: OwnedArgs, protocol: Protocol, out: &mut Vec<u8>) -> Result<(), Abort> {
        if self.ended.is_some() {
            return Err(Abort);
        }
        let Resolved { command, slot, .. } = match self.resolve(args.as_args()) {
            Ok(resolved) => resolved,
            Err(error) => {
                self.requests.server.stats.note_error(&error);
                Writer::new(out, protocol).error(error.to_string());
                return Ok(());
            }
        };
        let (requests, db) = (self.requests, self.client.db);
        let keys = command.declared_keys(db, requests.server.databases, args.as_args());
        if self.needs_gate(command, args.as_args(), &keys) {
            self.ended = Some(Ended::NeedsGate);
            return Err(Abort);
        }
        if self.declared.is_none() {
            self.latched.prepare(&keys);
        }
        drop(keys);
        let own_protocol = std::mem::replace(&mut self.client.protocol, protocol);
        if command.may_write() {
            self.has_written = true;
            self.staged.note_kept(&args);
            let args = self.arena.alloc(args).as_args();
            let batch = requests.run(command, slot, args, self.latched, self.client, out);
            let batch = batch.unwrap_or_default();
            if !batch.is_empty() {
                self.run.note_write();
            }
            requests.stage(command, args, db, batch, self.latched, self.staged, self.client);
        } else {
            let published = self.client.staged.len();
            let _ = requests.run(command, slot, args.as_args(), self.latched, self.client, out);
            if self.client.staged.len() > published {
                // They are kept until the script ends.
                self.staged.note_kept(&args);
            }
        }
        self.client.protocol = own_protocol;
        Ok(())
    }

    fn log(&mut self, level: u8, message: &[u8]) {
        scripts::log(level, message);
    }

    fn allows(&mut self, args: Args<'_>) -> Option<bool> {
        let found = self.table.find(args.at(0))?;
        let Resolved { command, slot, .. } = resolve(found, args, || false).ok()?;
        let server = self.requests.server;
        if self.client.rights.is_unrestricted(server.acl.version()) {
            return Some(true);
        }
        self.client.renew_rights(&server.acl);
        let request = request_of(self.table, command, slot, args, Some(self.client.db));
        Some(denied(server, self.client, request).is_none())
    }

    fn look(&mut self) -> Result<(), Abort> {
        let Wanted { known, request, is_function, .. } = self.wanted;
        let shown = |word: &[u8]| word[..word.len().min(SHOWN_BYTES)].to_vec();
        let about = || (known.name.clone(), request.iter().take(SHOWN_WORDS).map(shown).collect());
        self.run.look_at_time(self.limit, || is_function.then(about));
        let server = self.requests.server;
        if self.run.is_to_end() || server.is_stopping() || server.shutdown.is_running() {
            self.ended = Some(Ended::Killed);
        }
        if self.ended.is_some() { Err(Abort) } else { Ok(()) }
    }
}

/// Whether tests let scripts run a command that is not for them. It is one that a transaction may queue, so
/// that it waits for nobody, it brings no messages, and it does not change how the client speaks, which is
/// the protocol of the script meanwhile.
fn is_allowed_for_tests(server: &Services, command: &Command) -> bool {
    const BARRED: Flags = Flags::NO_MULTI
        .with(Flags::AT_ONCE)
        .with(Flags::EXEC)
        .with(Flags::SCRIPT)
        .with(Flags::OUTSIDE)
        .with(Flags::NO_AUTH)
        .with(Flags::AMONG_MESSAGES);
    server.scripts.allows_all.load(Ordering::Relaxed) && !command.flags.has_any(BARRED)
}
