//! From a request to a reply: look up, check, latch, run, commit.
//!
//! ```text
//!   request ──resolve──> command ──┬─ latched: keys latched, function, commit
//!                                  ├─ exec: the requests that MULTI has queued, as one
//!                                  ├─ early: reads while the data is being loaded
//!                                  └─ waits: the connection runs it again
//!   commit ──waiters──> commands of clients that waited for these keys
//! ```

#[cfg(test)]
mod declared_tests;
mod early;
mod exec;
mod latched;
mod memory;
mod resolve;
mod script;
mod shown;
mod staging;
mod unbuilt;
mod waiters;
#[cfg(test)]
mod waiters_tests;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tarn_engine::record::{Batch, Lsn, UnixMs};
use tarn_engine::session::Session;
use tarn_engine::{Engine, Group};
use tarn_resp::Args;
use tarn_resp::Writer;

use self::latched::LATCH_WAIT;
use self::resolve::{Resolved, resolve, unknown};
use self::waiters::STAND_IN_WAIT;
use crate::config::{DebugAccess, EventClasses};
use crate::error::CommandError;
use crate::execute::call::{Call, note_large};
use crate::execute::client::{After, Client, ReplyMode};
use crate::execute::command::Command;
use crate::execute::rights::{self, request_of};
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::execute::table::{Found, Table, is_http};
use crate::execute::tracking::notes_reads;
use crate::net::tracks::TrackFlags;
use crate::observe::counter;
use crate::pubsub::Kind;
use crate::scripts::Workshop;

/// Flags of commands that do not run with their keys latched.
const APART: Flags = Flags::EXCLUSIVE.with(Flags::EXEC).with(Flags::OUTSIDE).with(Flags::SCRIPT);

/// Runs the requests of one batch of a worker.
pub struct Executor<'e> {
    server: &'e Services,
    table: &'static Table,
    /// Number of this worker.
    worker: usize,
    /// The worker inside the gate; out while a command has the store for itself.
    session: Option<Session<'e>>,
    /// The buffer in which records are encoded.
    group: &'e mut Group,
    /// The interpreter of scripts.
    workshop: &'e RefCell<Workshop>,
    /// The time of the commands.
    now: UnixMs,
    /// The newest change that could be revealed when the batch began.
    revealable: Lsn,
    /// Whether the log had room when the batch began.
    has_room: bool,
    /// Whether too much memory is in use for the current request.
    lacks_memory: bool,
    /// Keys that may have something for clients that wait.
    ready: VecDeque<(u8, Box<[u8]>)>,
    /// Whether waiting clients are being served.
    serving: bool,
    /// How long latches are waited for while they are.
    stand_in_wait: Duration,
    /// Clients asked for changes up to here to become durable at once.
    demanded: Lsn,
    /// Whether changes have to become durable within a second.
    wants_sync: bool,
    /// The newest `Lsn` that the error of the current request reveals.
    refused_at: Lsn,
}

impl<'e> Executor<'e> {
    /// An executor for a batch of requests of `worker`, whose commands take `now` for the time. Their records
    /// are encoded in `group`; `workshop` runs scripts.
    pub fn new(
        server: &'e Services,
        table: &'static Table,
        worker: usize,
        group: &'e mut Group,
        workshop: &'e RefCell<Workshop>,
        now: UnixMs,
    ) -> Executor<'e> {
        Executor {
            server,
            table,
            worker,
            session: None,
            group,
            workshop,
            now,
            revealable: server.revealable(),
            has_room: server.has_room(),
            lacks_memory: false,
            ready: VecDeque::new(),
            serving: false,
            stand_in_wait: STAND_IN_WAIT,
            demanded: Lsn::ZERO,
            wants_sync: false,
            refused_at: Lsn::ZERO,
        }
    }

    /// Ends the batch: passes on to the log how soon it has to be durable.
    pub fn finish(self) {
        if self.server.memory_limit.is_set() {
            self.server.memory_limit.note_thread(true);
        }
        if self.demanded > Lsn::ZERO || self.wants_sync {
            self.server.have_synced(self.demanded, self.wants_sync);
        }
    }

    /// The worker inside the gate, if a request of this batch has entered it.
    pub fn session(&self) -> Option<&Session<'e>> {
        self.session.as_ref()
    }

    /// The newest change that may be revealed to clients without a durability of their own.
    pub fn revealable(&self) -> Lsn {
        self.revealable
    }

    /// Demands that changes up to `lsn` become durable at once.
    pub fn demand(&mut self, lsn: Lsn) {
        self.demanded = self.demanded.max(lsn);
    }

    /// Demands that all changes become durable within a second.
    pub fn want_sync(&mut self) {
        self.wants_sync = true;
    }

    /// Runs one request and appends the reply to `out`. Returns the newest `Lsn` that the reply reveals.
    pub fn run(&mut self, client: &mut Client, args: Args<'_>, out: &mut Vec<u8>) -> Lsn {
        let start = out.len();
        self.refused_at = Lsn::ZERO;
        self.lacks_memory = false;
        client.reply_end_max = self.server.live.reply_end_max(start);
        let result = match self.table.find(&args[0]) {
            Some(found) => self.check_and_run(found, client, args, out),
            None if is_http(&args[0]) => {
                self.close_http(client);
                Ok(Lsn::ZERO)
            }
            None => Err(client.reject(Flags::NONE, unknown(args))),
        };
        let seen = match result {
            Ok(seen) => seen,
            Err(error) => {
                out.truncate(start);
                Writer::new(out, client.protocol).error(error.to_string());
                self.server.stats.note_error(&error);
                if matches!(client.after, After::Steps(_)) {
                    client.after = After::GoOn;
                }
                self.refused_at
            }
        };
        if !matches!(client.after, After::Postpone | After::Pause) {
            forget_caching(self.table, client, args);
            client.ready.iter_mut().for_each(|ready| ready.has_run = true);
            if client.migration.is_some() || client.sending_turn.is_some() || client.reload.is_some() {
                (client.migration, client.sending_turn, client.reload) = (None, None, None);
            }
        }
        match &mut client.after {
            // There is no reply yet, nor one to be skipped.
            After::Postpone | After::Pause => out.truncate(start),
            After::Block(request) => request.seen = seen,
            After::Steps(rest) => {
                rest.is_unwanted = client.reply_mode != ReplyMode::On;
                client.drop_unwanted(out, start);
            }
            After::GoOn | After::Close => client.drop_unwanted(out, start),
        }
        seen
    }

    /// Closes the connection of a client that speaks HTTP. As it may do so as often as it likes, the operator
    /// is told at most once a minute.
    #[cold]
    fn close_http(&self, client: &mut Client) {
        client.after = After::Close;
        let why = "it speaks HTTP; a web page may try to send commands through a browser";
        match self.server.stats.http.note(self.now) {
            None => {}
            Some(0) => client.close_for(why),
            Some(before) => client.close_for(&format!("{why}; {before} more since the last such message")),
        }
    }

    fn check_and_run(
        &mut self,
        found: Found,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let start = out.len();
        let resolved = resolve(found, args, || self.allows_debug(client));
        let resolved = resolved.map_err(|error| client.reject(Flags::NONE, error))?;
        let Resolved { command, slot, .. } = resolved;
        let is_free = client.rights.is_unrestricted(self.server.acl.version());
        if !is_free && !client.renew_rights(&self.server.acl) {
            // Its user is gone, and it goes, too.
            client.set_authenticated(false);
            client.after = After::Close;
        }
        let refusal = resolved.refusal(args, client.authenticated).or_else(|| {
            // A request that has begun is not refused: its change happens, and the next one would find its
            // outcome.
            if client.has_begun() {
                None
            } else if !is_free && let Some(refusal) = self.refuse_by_rights(command, slot, client, args) {
                Some(refusal)
            } else if self.server.scripts.running.is_busy()
                && !self.serving
                && !command.flags.has(Flags::ALLOW_BUSY)
            {
                Some(self.busy())
            } else if self.server.memory_limit.is_set() && self.is_denied_memory(command, client) {
                Some(CommandError::OutOfMemory)
            } else if self.server.saver.is_failing() && self.is_stopped_by_failure(command, client) {
                Some(CommandError::CheckpointsFail)
            } else if client.only_reads_channels() && !command.flags.has(Flags::AMONG_MESSAGES) {
                Some(resolved.refusal_among_messages())
            } else if client.handle.is_monitoring() && looks_at_keys(command, client) {
                Some(CommandError::text("ERR Replica can't interact with the keyspace"))
            } else if client.transaction.is_some() {
                self.refuse_to_queue(command)
            } else {
                None
            }
        });
        if let Some(refusal) = refusal {
            counter::add(&self.server.stats.workers[self.worker].commands[slot].rejected, 1);
            client.waits_for_gate = None;
            return Err(client.reject(command.flags, refusal));
        }
        let writes = writes(command, client);
        // As in Redis, a pause of all commands spares none: `CLIENT UNPAUSE` and `SHUTDOWN` wait, too.
        let may_write = writes || may_replicate(command, client);
        let pause = &self.server.pause;
        let promises_no_writes = || self.promises_no_writes(command, args);
        let is_paused =
            pause.holds(may_write, self.now) && (pause.holds(false, self.now) || !promises_no_writes());
        // Nor does a new write overtake those that a pause held back.
        let overtakes = || client.turn.is_none() && pause.is_followed(self.now);
        let lacks_room = || !self.has_room && !command.flags.has(Flags::ADMIN);
        // What ends scripts and clients is not held up by who does not read what it monitors.
        let is_shown = || !command.flags.has_any(Flags::ALLOW_BUSY.with(Flags::ADMIN));
        let says =
            may_publish(self.server, command, client) || self.server.pubsub.is_monitored() && is_shown();
        let is_crowded = says && self.is_crowded(command, args);
        let is_behind = || writes && (lacks_room() || overtakes()) && !promises_no_writes();
        if !self.serving && (is_paused || is_crowded || is_behind()) {
            client.after = if is_paused { After::Pause } else { After::Postpone };
            return Ok(Lsn::ZERO);
        }
        if client.transaction.is_some() && !command.flags.has(Flags::AT_ONCE) {
            self.queue(command, slot, client, args, out);
            return Ok(Lsn::ZERO);
        }
        let mut result = self.run_counted(command, slot, client, args, out);
        if matches!(result, Err(CommandError::Unprepared)) {
            client.ready.iter_mut().for_each(|ready| (ready.is_void, ready.is_used) = (true, false));
            out.truncate(start);
            result = self.run_counted(command, slot, client, args, out);
        }
        match result {
            // Nothing has changed: it can be run again.
            Err(CommandError::LogBehind | CommandError::GateBusy) => {
                client.after = After::Postpone;
                Ok(Lsn::ZERO)
            }
            result => {
                // A request that waited for the gate waits no longer.
                client.waits_for_gate = None;
                result
            }
        }
    }

    /// Why the user of a client may not run a request, or may not have it queued.
    #[inline(never)]
    fn refuse_by_rights(
        &self,
        command: &'static Command,
        slot: usize,
        client: &Client,
        args: Args<'_>,
    ) -> Option<CommandError> {
        // Requests before it in the queue may select another database; `EXEC` looks again.
        let is_queued = client.transaction.is_some() && !command.flags.has(Flags::AT_ONCE);
        let db = (!is_queued).then_some(client.db);
        rights::refuse(self.server, client, request_of(self.table, command, slot, args, db))
    }

    /// The error of clients while a script or a function runs for long.
    #[cold]
    fn busy(&self) -> CommandError {
        let kind = if self.server.scripts.running.function().is_some() { "FUNCTION" } else { "SCRIPT" };
        CommandError::Busy(kind)
    }

    /// Whether the command waits until a checkpoint has been taken (`stop-writes-on-bgsave-error`), as the
    /// last one failed.
    #[cold]
    fn is_stopped_by_failure(&self, command: &Command, client: &Client) -> bool {
        // A script may only read: what it calls is looked at.
        let writes = writes(command, client) && !command.flags.has(Flags::SCRIPT);
        writes && !self.serving && stops_writes(self.server)
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
        let start = out.len();
        let before = client.ready.as_ref().filter(|ready| !ready.has_run).map(|ready| ready.took);
        let (hot_since, db) = (self.server.hot_keys.is_active().then(Instant::now), client.db);
        // A look for a client that waits, and one for what another thread does, belong to a call that is
        // counted.
        let is_new = before.is_none() && !client.waits && !client.has_begun() && client.ending.is_none();
        let call = Call::begin(self.server, self.worker, command, slot, args, before, is_new);
        let alone = command.flags.has_any(APART) || command.alone_if.is_some_and(|needs| needs(args));
        let result = match alone {
            false => self.run_latched(command, client, args, out),
            true if command.flags.has(Flags::EXEC) => self.exec(client, out),
            true if command.flags.has(Flags::SCRIPT) => {
                let ran = self.run_script(command, client, args, out);
                self.note_failed_script(slot, client);
                ran
            }
            true if command.flags.has(Flags::OUTSIDE) => {
                self.session = None;
                self.run_without_store(command, client, args, out)
            }
            true => self.run_exclusive(command, client, args, out),
        };
        call.finish(client, args, self.now, &result);
        if matches!(client.after, After::GoOn | After::Close) && !is_to_run_again(&result) {
            let reply_bytes = out.len() - start;
            if !command.flags.has(Flags::SKIP_SLOWLOG) {
                note_large(self.server, client, (slot, args), self.now, reply_bytes);
            }
            if let Some(since) = hot_since.filter(|_| !command.flags.has(Flags::EXEC)) {
                note_hot(self.server, command, db, args, since, reply_bytes);
            }
        }
        if self.server.pubsub.is_monitored() && before.is_none() {
            shown::show_run(self.server, client, command, (slot, args), &result);
        }
        if let After::Steps(rest) = &mut client.after {
            rest.is_of(command.flags, slot, args);
        }
        if result.is_ok() && command.flags.has_any(Flags::ADMIN.with(Flags::EXEC)) {
            // `CONFIG SET` may have changed whether the replies of this very batch wait.
            self.revealable = self.server.revealable();
        }
        result
    }

    /// Makes sure that the worker is inside the gate, if the store is there.
    fn enter_gate(&mut self) -> Result<(), CommandError> {
        if self.session.is_none() {
            let Some(engine) = self.server.engine() else { return Ok(()) };
            self.session = Some(self.try_enter(engine).ok_or(CommandError::GateBusy)?);
        }
        Ok(())
    }

    /// The worker inside the gate; `None` while a script has the store for itself.
    fn try_enter(&self, engine: &'e Engine) -> Option<Session<'e>> {
        let is_barred = self.server.scripts.running.bars_the_gate();
        // A script may close the gate behind that look.
        (!is_barred).then(|| engine.enter_in_turn_within(self.worker, LATCH_WAIT)).flatten()
    }

    /// Whether a worker does not keep up with its messages: of one message only those that it comes to.
    fn is_crowded(&self, command: &Command, args: Args<'_>) -> bool {
        let pubsub = &self.server.pubsub;
        match command.name {
            _ if pubsub.is_monitored() => pubsub.is_full(),
            "publish" => pubsub.is_full_for(Kind::Channel, args.at(1)),
            "spublish" => pubsub.is_full_for(Kind::Shard, args.at(1)),
            _ => pubsub.is_full(),
        }
    }

    /// Counts the committed writes, and serves the clients that wait for them.
    fn after_commit(&mut self, batch: &Batch<'_>) {
        if !batch.is_empty() {
            counter::add(&self.server.stats.workers[self.worker].changes, batch.len() as u64);
            self.serve_ready(batch);
        }
    }

    fn note_lookups(&self, (hits, misses): (u64, u64)) {
        let stats = &self.server.stats.workers[self.worker];
        counter::add(&stats.hits, hits);
        counter::add(&stats.misses, misses);
    }

    /// The error of commands while the data is being loaded.
    fn loading(&self) -> CommandError {
        let loading = &self.server.loading;
        let (read, bytes) =
            (loading.bytes_read.load(Ordering::Relaxed), loading.bytes.load(Ordering::Relaxed));
        let percent = read * 100 / bytes.max(1);
        CommandError::owned(format!(
            "LOADING Tarn is loading the dataset in memory: {percent} % of {bytes} bytes"
        ))
    }
}

/// Ends what `CLIENT CACHING` said for one command, which may be a transaction.
#[inline]
fn forget_caching(table: &Table, client: &Client, args: Args<'_>) {
    let tracks = &client.handle.tracks;
    let is_client = || table.find(args.at(0)).is_some_and(|found| found.command.name == "client");
    let is_over = || client.transaction.is_none() && !is_client();
    if tracks.flags().has(TrackFlags::CACHING) && is_over() {
        tracks.set_flag(TrackFlags::CACHING, false);
    }
}

/// Whether a request has changed nothing and is run again.
fn is_to_run_again<T>(result: &Result<T, CommandError>) -> bool {
    matches!(result, Err(CommandError::GateBusy | CommandError::LogBehind | CommandError::Unprepared))
}

/// Notes what a request that has run since then has taken, for its keys.
#[cold]
fn note_hot(
    server: &Services,
    command: &Command,
    db: u8,
    args: Args<'_>,
    since: Instant,
    reply_bytes: usize,
) {
    if command.flags.has(Flags::ADMIN) {
        return;
    }
    let keys = command.declared_keys(db, server.databases, args);
    let bytes = args.total_bytes() + reply_bytes;
    server.hot_keys.note(keys.iter().map(|key| key.key), since.elapsed(), bytes);
}

/// Whether the command may publish something.
#[inline]
fn may_publish(server: &Services, command: &Command, client: &Client) -> bool {
    // A client that tracks makes room in a full table by what it reads.
    let tells = || command.may_write() || notes_reads(command, client);
    server.tracking.is_on() && tells()
        || command.flags.has_any(Flags::MAY_REPLICATE.with(Flags::EXEC))
        || server.live.event_classes().is_some_and(|classes| {
            let tells_of_reads = classes.has(EventClasses::KEY_MISS);
            command.may_write() || tells_of_reads && command.flags.has(Flags::READONLY)
        })
}

/// Whether nothing is written, as a checkpoint has failed.
#[inline]
pub(crate) fn stops_writes(server: &Services) -> bool {
    let is_wanted = || {
        let config = server.config.snapshot();
        config.stop_writes_on_bgsave_error && !config.save.rules.is_empty()
    };
    server.saver.is_failing() && is_wanted()
}

/// Whether the command looks at keys, or may tell replicas something, which who monitors must not do.
#[cold]
fn looks_at_keys(command: &Command, client: &Client) -> bool {
    const LOOKS: Flags = Flags::READONLY.with(Flags::WRITE).with(Flags::MAY_REPLICATE);
    command.flags.has_any(LOOKS) || writes(command, client)
}

/// Whether replicas may be told something by the command, or by the queue that it runs.
fn may_replicate(command: &Command, client: &Client) -> bool {
    let queue = || client.transaction.as_ref().is_some_and(|queue| queue.may_replicate());
    command.flags.has(Flags::MAY_REPLICATE) || command.flags.has(Flags::EXEC) && queue()
}

/// Whether the command writes, or runs a queue that does.
fn writes(command: &Command, client: &Client) -> bool {
    command.may_write()
        || command.flags.has(Flags::EXEC) && client.transaction.as_ref().is_some_and(|queue| queue.writes())
}
