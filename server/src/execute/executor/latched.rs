//! Runs one command: latch its keys, run its function, commit its writes.
//!
//! ```text
//!   keys declared ── latch ── expire ── function ── commit ── unlatch ── serve waiting clients
//!   keys unknown  ── close the gate, which keeps every other worker out ── the same without latches
//!   no keys, or no store yet ── the empty store
//! ```

use std::time::{Duration, Instant};

use tarn_engine::Engine;
use tarn_engine::record::{Batch, Lsn};
use tarn_engine::session::{Access, Exclusive, Latched};
use tarn_resp::Args;
use tarn_resp::Writer;

use super::Executor;
use crate::error::CommandError;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::context::Context;
use crate::execute::events::Events;
use crate::execute::services::Services;
use crate::execute::spec::Flags;
use crate::execute::tracking::{note_reads, notes_reads, send_staged, tell_written};

/// The longest wait for latches, and for the gate: a script may hold them for longer, and the worker has
/// other clients, one of which may be about to end that script. The request is run again later.
pub(super) const LATCH_WAIT: Duration = Duration::from_millis(100);

impl Executor<'_> {
    /// Runs a command that declares its keys.
    pub(super) fn run_latched(
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
                match self.try_enter(engine) {
                    Some(session) => self.session.insert(session),
                    None if command.flags.has(Flags::ALLOW_BUSY) && keys.is_empty() => {
                        return self.run_without_store(command, client, args, out);
                    }
                    None => return Err(CommandError::GateBusy),
                }
            }
        };
        let access = if command.flags.has(Flags::WRITE) { Access::Write } else { Access::Read };
        let limit = Some(if self.serving { self.stand_in_wait } else { LATCH_WAIT });
        // It is not moved to a result: it is large.
        let Some(mut latched) = session.latch_within(&keys, access, self.now, limit) else {
            return Err(CommandError::GateBusy);
        };
        if access == Access::Write {
            latched.expire(&keys, self.group)?;
        }
        let (events, db) = (self.server.live.event_classes(), client.db);
        let mut batch = Batch::new();
        client.ready.iter_mut().for_each(|ready| ready.is_used = false);
        let ran = run_in(command, &latched, &mut batch, client, self.server, args, out);
        if notes_reads(command, client) {
            note_reads(self.server, client, &keys);
        }
        if let Err(error) = ran {
            self.refused_at = latched.seen();
            return Err(error);
        }
        if !batch.is_empty() {
            let mut new = Vec::new();
            if let Some(classes) = events {
                let mut events = Events::new(classes, &mut new);
                events.add_new(&latched, &batch);
                events.add_consumers(&latched, &batch);
            }
            latched.commit(&batch, self.group)?;
            client.staged.append(&mut new);
            if let Some(ready) = client.ready.as_mut().filter(|ready| ready.is_used) {
                ready.end();
            }
        }
        let (seen, met_expired, lookups) = (latched.seen(), latched.met_expired(), latched.lookups());
        if let Some(classes) = events {
            let mut events = Events::new(classes, &mut client.staged);
            events.add_written(&latched, command.name, args, db, &batch);
            if access == Access::Read && lookups.1 > 0 {
                events.add_missed(&latched, command.name, &keys);
            }
        }
        if !batch.is_empty() && self.server.tracking.is_on() {
            tell_written(self.server, client, &batch, seen);
        }
        if !client.staged.is_empty() && !client.denies_waiting {
            send_staged(self.server, client, seen);
        }
        latched.release();
        if met_expired {
            // The keys are missing for everybody already. If the log refuses this, or somebody has them for
            // long, the expirer tries again.
            if let Some(mut latched) = session.latch_within(&keys, Access::Write, self.now, limit) {
                let _ = latched.expire(&keys, self.group);
                latched.release();
            }
        }
        if access == Access::Read && !client.waits {
            // As in Redis, the look-ups of writing commands are not counted, nor those for clients that wait.
            self.note_lookups(lookups);
        }
        self.after_commit(&batch);
        Ok(seen)
    }

    /// Runs a command whose keys cannot be declared, with every other worker kept out.
    pub(super) fn run_exclusive(
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
        let db = client.db;
        let mut alone = close_gate(engine, client)?;
        // Without latches: it may look at keys that it does not declare, in any order.
        let mut latched = alone.transact(self.now);
        latched.prepare(&keys);
        let mut batch = Batch::new();
        let ran = run_in(command, &latched, &mut batch, client, self.server, args, out);
        let mut seen = latched.seen();
        if notes_reads(command, client) {
            note_reads(self.server, client, &keys);
        }
        if let Err(error) = ran {
            self.refused_at = seen;
            return Err(error);
        }
        let is_told = !batch.is_empty() && !command.flags.has(Flags::UNTOLD);
        let events = self.server.live.event_classes().filter(|_| is_told);
        let mut new = Vec::new();
        if let Some(classes) = events {
            let mut events = Events::new(classes, &mut new);
            events.add_new(&latched, &batch);
            events.add_consumers(&latched, &batch);
        }
        latched.release();
        if !batch.is_empty() {
            seen = seen.max(alone.commit(&batch, self.group)?);
        }
        if let Some(classes) = events {
            client.staged.append(&mut new);
            let mut latched = alone.transact(self.now);
            latched.prepare(&keys);
            Events::new(classes, &mut client.staged).add_written(&latched, command.name, args, db, &batch);
            latched.release();
        }
        if !batch.is_empty() && self.server.tracking.is_on() {
            tell_written(self.server, client, &batch, seen);
        }
        send_staged(self.server, client, seen);
        drop(alone);
        self.after_commit(&batch);
        Ok(seen)
    }

    /// Runs a command that needs no key before the store is loaded, or outside of the gate.
    pub(super) fn run_without_store(
        &self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let session = self.server.empty_store.enter(0);
        let keys = command.declared_keys(client.db, self.server.databases, args);
        let latched = session.latch(&keys, Access::Read, self.now);
        let mut batch = Batch::new();
        run_in(command, &latched, &mut batch, client, self.server, args, out)?;
        Ok(Lsn::ZERO)
    }
}

/// Closes the gate for a client. If another worker is at something long, an error says that the request is
/// to be run again: the clients of this worker are served meanwhile.
///
/// REQUIRES: the worker is not inside the gate.
pub(super) fn close_gate<'e>(engine: &'e Engine, client: &mut Client) -> Result<Exclusive<'e>, CommandError> {
    let since = *client.waits_for_gate.get_or_insert_with(Instant::now);
    let closed = engine.try_close_gate(since.elapsed()).ok_or(CommandError::GateBusy)?;
    client.waits_for_gate = None;
    Ok(closed)
}

/// Runs the function of a command.
pub(super) fn run_in<'a>(
    command: &'static Command,
    latched: &Latched<'_>,
    batch: &mut Batch<'a>,
    client: &mut Client,
    server: &Services,
    args: Args<'a>,
    out: &mut Vec<u8>,
) -> Result<(), CommandError> {
    let db = client.db;
    let reply = Writer::new(out, client.protocol).limited(client.reply_end_max);
    // As in Redis, TOUCH is a use of a key for all clients.
    let is_silent = command.flags.has(Flags::NO_TOUCH) || client.no_touch && command.name != "touch";
    latched.note_uses(!is_silent);
    let mut context = Context { keys: latched, batch, reply, client, server, db };
    let ran = (command.run)(&mut context, args);
    latched.note_uses(false);
    ran?;
    if context.reply.is_over() { Err(CommandError::ReplyTooLong) } else { Ok(()) }
}
