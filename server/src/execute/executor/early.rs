//! Reads that are answered while the data is being loaded: `serve-while-loading`, `docs/design/0020`.

use std::sync::atomic::Ordering;

use tarn_engine::Entry;
use tarn_engine::record::{Batch, Lsn};
use tarn_engine::session::Access;
use tarn_resp::Args;

use super::Executor;
use super::latched::run_in;
use crate::error::CommandError;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::spec::Flags;
use crate::execute::tracking::{note_reads, notes_reads};

/// Flags that keep a command from running while the data is being loaded.
const NEVER: Flags = Flags::WRITE.with(Flags::BLOCKING).with(Flags::EXCLUSIVE);

impl Executor<'_> {
    /// Runs a command that only reads the keys that it declares, if all of them are there already, and
    /// neither they nor fields of theirs are expired: what is not there may not be loaded yet, and an expiry
    /// may have been moved later. Changes nothing: expired keys are left, tables do not grow, and look-ups
    /// are not counted. The reply tells nothing that is not durable.
    #[cold]
    pub(super) fn run_early(
        &self,
        command: &'static Command,
        client: &mut Client,
        args: Args<'_>,
        out: &mut Vec<u8>,
    ) -> Result<Lsn, CommandError> {
        let server = self.server;
        let only_reads = command.flags.has(Flags::READONLY) && !command.flags.has_any(NEVER);
        if !only_reads || !server.live.serves_while_loading() {
            return Err(self.loading());
        }
        let keys = command.declared_keys(client.db, server.databases, args);
        let early = &server.loading.early;
        let Some(session) = early.enter(server.empty_store.store()).filter(|_| !keys.is_empty()) else {
            return Err(self.loading());
        };
        let latched = session.latch(&keys, Access::Read, self.now);
        // A time of a field that is over may have been moved later, too.
        let is_told = |entry: &Entry| entry.due().is_none_or(|due| due >= self.now) && early.tells(entry);
        if !keys.iter().all(|key| latched.find(*key).is_some_and(is_told)) {
            return Err(self.loading());
        }
        run_in(command, &latched, &mut Batch::new(), client, server, args, out)?;
        if notes_reads(command, client) {
            note_reads(server, client, &keys);
        }
        server.stats.early_reads.fetch_add(1, Ordering::Relaxed);
        Ok(Lsn::ZERO)
    }
}
