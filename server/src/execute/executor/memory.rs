//! Makes room before commands that may need more memory than `maxmemory` leaves, and refuses them where no
//! key can be evicted.
//!
//! ```text
//!   too much in use? ── no ──> the command runs
//!     └ yes ─ do others free memory? ── yes ──> the command runs, if this worker has written little since
//!               └ no ─ evict about twice what it has written since it did so last, for a moment at most
//!                        ├─ enough, or the moment is over ──> it runs; a thread of its own goes on evicting
//!                        └─ nothing can be evicted ──> OOM
//! ```
//!
//! Large values and flushed databases are freed by a thread of their own. Until that is done, and the
//! allocator was asked again, nobody knows how much it is: a copy or a view may have the same. To evict
//! meanwhile would be to evict all that is large for the room of one.
//!
//! So each worker pays for what it writes, and memory does not grow past the limit. What is in use beyond
//! that, after the limit was lowered, is not evicted by commands: no client waits for it.

use tarn_engine::{Room, Victims};

use super::Executor;
use crate::execute::client::Client;
use crate::execute::command::Command;
use crate::execute::spec::Flags;

/// Bytes that a command evicts at least, if so much too much is in use: a key or a few.
const LEAST_BYTES: u64 = 256;

impl Executor<'_> {
    /// Whether a command does not run as too much memory is in use. As in Redis, that holds for those that
    /// say so, for a transaction that has one, and for what is queued, which takes memory itself.
    #[cold]
    pub(super) fn is_denied_memory(&mut self, command: &Command, client: &Client) -> bool {
        let queue = client.transaction.as_ref();
        let ends_queue = matches!(command.name, "exec" | "discard" | "quit" | "reset");
        let is_exec = command.flags.has(Flags::EXEC);
        let is_denied = command.flags.has(Flags::DENYOOM)
            || queue.is_some() && !ends_queue
            || is_exec && queue.is_some_and(|queue| queue.denies_oom());
        let runs_script =
            command.flags.has(Flags::SCRIPT) || is_exec && queue.is_some_and(|queue| queue.has_script());
        // While writes are paused, nothing changes: what is asked for waits.
        if self.serving || !(is_denied || runs_script) || self.server.pause.holds(true, self.now) {
            return false;
        }
        self.lacks_memory = !self.has_memory();
        self.lacks_memory && is_denied
    }

    /// Evicts some keys if too much memory is in use. `false` if none can be.
    fn has_memory(&mut self) -> bool {
        let server = self.server;
        let limit = &server.memory_limit;
        limit.note_thread(false);
        if server.memory_excess() == 0 {
            limit.note_excess(0);
            limit.end_sparing();
            return true;
        }
        // A script has the store for itself: the command waits anyway.
        if self.enter_gate().is_err() {
            return true;
        }
        // Values that other threads free look as if they were in use, until the allocator is asked.
        limit.look(server.freed());
        let excess = server.memory_excess();
        limit.note_excess(excess);
        let (Some(session), Some(engine)) = (&self.session, server.engine()) else { return true };
        if excess == 0 {
            limit.end_sparing();
            return true;
        }
        let evicts = engine.eviction().options().victims != Victims::None;
        if evicts && server.is_freeing() && limit.spares() {
            return true;
        }
        let wanted = excess.min(limit.owed().saturating_mul(2).max(LEAST_BYTES));
        let evicted = engine.make_room(session, wanted, server.live.eviction_time(), self.group);
        limit.note_room(evicted.bytes, evicted.bytes_behind);
        limit.note_thread(true);
        match evicted.room {
            Room::Enough | Room::Unfinished => true,
            Room::Freeing if evicted.keys > 0 || limit.spares() => true,
            Room::Freeing | Room::Nothing => {
                // In this order: what waits no more is counted as freed.
                let is_freeing = engine.pending_frees() > 0;
                limit.look_before_refusal(server.freed(), is_freeing);
                server.memory_excess() == 0
            }
        }
    }
}
