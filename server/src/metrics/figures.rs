//! The numbers of `INFO` and the metrics, gathered by one function so that both agree.
//!
//! Nothing here waits for the disk, latches a segment or closes the gate.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tarn_engine::compactor::CompactionStatus;
use tarn_engine::scrub::ScrubStatus;
use tarn_engine::{DirectoryStatus, LogStatus};

use crate::execute::services::Services;
use crate::net::handle::ClientHandle;
use crate::observe::process::{self, Heap};
use crate::persist::saver;
use crate::shared::Shared;
use crate::store::{OpenLog, Store};

/// The clients.
#[derive(Debug)]
pub(crate) struct Clients {
    /// Those that are connected.
    pub connected: usize,
    /// Those that wait in a blocking command.
    pub blocked: usize,
    /// As many may be connected.
    pub limit: usize,
    /// The most bytes of requests that one has not been answered.
    pub query_bytes_max: usize,
    /// The most bytes of replies that one has not read.
    pub output_bytes_max: usize,
    /// Memory of all.
    pub bytes: usize,
}

impl Clients {
    /// Those of a server.
    pub(crate) fn of(server: &Shared) -> Clients {
        let all = server.clients.all();
        let largest = |bytes: fn(&ClientHandle) -> &AtomicUsize| {
            all.iter().map(|client| bytes(client).load(Ordering::Relaxed)).max().unwrap_or(0)
        };
        Clients {
            connected: all.len(),
            blocked: all.iter().filter(|client| client.info.lock().blocked).count(),
            limit: server.live.maxclients(),
            query_bytes_max: largest(|client| &client.query_bytes),
            output_bytes_max: largest(|client| &client.output_bytes),
            bytes: all.iter().map(|client| client.memory_bytes()).sum(),
        }
    }
}

/// Memory, in bytes.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The memory that the allocator holds.
    pub heap: Heap,
    /// The resident memory of the process.
    pub resident: u64,
    /// The most that was ever allocated.
    pub peak: u64,
}

impl Memory {
    /// That of a server.
    pub(crate) fn of(server: &Shared) -> Memory {
        let heap = Heap::now();
        Memory { heap, resident: process::resident_bytes(), peak: server.stats.note_memory(heap.allocated) }
    }
}

/// Memory beside keys and values that is told apart, in bytes.
#[derive(Debug)]
pub(crate) struct Overhead {
    /// That of the process before it had any data.
    pub startup: u64,
    /// The buffers of clients.
    pub clients: u64,
    /// Indexes of SQL.
    pub indexes: u64,
    /// Old versions that are kept for views.
    pub versions: u64,
    /// The log's buffers.
    pub log: u64,
    /// Bits of the log that say which records have been replaced.
    pub validity: u64,
    /// Interpreters and sources of scripts.
    pub scripts: u64,
    /// Interpreters of functions.
    pub functions: u64,
}

impl Overhead {
    /// That of a server.
    pub(crate) fn of(server: &Services) -> Overhead {
        let [scripts, functions] = server.scripts.running.interpreter_bytes().map(|bytes| bytes as u64);
        let engine = server.engine();
        Overhead {
            startup: server.startup_bytes,
            clients: Clients::of(server).bytes as u64,
            indexes: engine.map_or(0, |engine| engine.index_memory().bytes as u64),
            versions: engine.map_or(0, |engine| engine.views().retained_bytes() as u64),
            log: server.log_buffer_bytes(),
            validity: engine.map_or(0, |engine| engine.compactor().status().validity_bytes as u64),
            scripts: scripts + server.scripts.cache.size().1 as u64,
            functions,
        }
    }

    /// All of it.
    pub(crate) fn bytes(&self) -> u64 {
        let Overhead { startup, clients, indexes, versions, log, validity, scripts, functions } = self;
        startup + clients + indexes + versions + log + validity + scripts + functions
    }
}

/// How what was acknowledged is kept.
#[derive(Debug)]
pub(crate) struct Persistence {
    /// Whether the data is still being loaded.
    pub loading: bool,
    /// Bytes that were loaded so far, and that there are to load.
    pub loaded: (u64, u64),
    /// Checkpoints.
    pub checkpoints: saver::Status,
    /// Writes that the last checkpoint does not have.
    pub changes_unsaved: u64,
    /// The log; `None` while loading and with `appendonly no`.
    pub log: Option<LogStatus>,
    /// Whether the log is being switched on: a start would not find what it has.
    pub log_begins: bool,
    /// Its compactions.
    pub compactions: CompactionStatus,
    /// The search for damage.
    pub scrub: ScrubStatus,
}

impl Persistence {
    /// That of a server.
    pub(crate) fn of(server: &Services) -> Persistence {
        let store = server.store();
        let checkpoints = server.saver.status();
        let loading = &server.loading;
        Persistence {
            loading: store.is_none(),
            loaded: (loading.bytes_read.load(Ordering::Relaxed), loading.bytes.load(Ordering::Relaxed)),
            changes_unsaved: saver::changes(server).saturating_sub(checkpoints.changes_saved),
            checkpoints,
            log: store.and_then(Store::log_status),
            log_begins: store.is_some_and(|store| {
                let is_pending = |log: &OpenLog| log.pending.load(Ordering::Relaxed);
                server.config.snapshot().appendonly
                    && store.log.load().as_ref().is_none_or(|log| is_pending(log))
            }),
            compactions: store.map(|store| store.engine.compactor().status()).unwrap_or_default(),
            scrub: server.scrubber.status(),
        }
    }

    /// Whether the last attempt to take a checkpoint failed.
    pub(crate) fn checkpoint_failed(&self) -> bool {
        matches!(self.checkpoints.last, Some(Err(_)))
    }

    /// Whether the log is being compacted or rewritten as a whole, or waits for its first checkpoint.
    pub(crate) fn log_is_rewritten(&self) -> bool {
        self.compactions.round || self.checkpoints.rewrites || self.log_begins
    }

    /// Bytes in files of the log that are not known to be obsolete, over all directories:
    /// all of the files that are written to, and what was written since the compactor looked last.
    pub(crate) fn live_bytes(&self) -> u64 {
        LogDirectory::all(self).iter().map(|directory| directory.live_bytes).sum()
    }

    /// Bytes in files of the log that are known to be obsolete.
    pub(crate) fn invalid_bytes(&self) -> u64 {
        self.compactions.bytes.saturating_sub(self.compactions.live_bytes)
    }

    /// Bytes that flushes and compactions have written for each byte of records that was taken, since the
    /// start; 0 before the first.
    pub(crate) fn write_amplification(&self) -> f64 {
        let Some(log) = &self.log else { return 0.0 };
        let written = log.bytes_written() + self.compactions.bytes_written;
        if log.bytes_accepted == 0 { 0.0 } else { written as f64 / log.bytes_accepted as f64 }
    }
}

/// One directory of the log.
#[derive(Debug)]
pub(crate) struct LogDirectory {
    /// Where it is, fit for a line of `INFO`.
    pub path: String,
    /// Its files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of them that are not known to be obsolete.
    pub live_bytes: u64,
    /// Blocks written.
    pub flushes: u64,
    /// Bytes of them.
    pub flushed_bytes: u64,
    /// Syncs.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: Duration,
    /// How long the longest took.
    pub sync_time_max: Duration,
    /// The number of failures of the disk.
    pub failures: u64,
    /// Why it has no next file.
    pub trouble: Option<String>,
}

impl LogDirectory {
    /// Those of a log.
    pub(crate) fn all(figures: &Persistence) -> Vec<LogDirectory> {
        let Some(log) = &figures.log else { return Vec::new() };
        let of = |(index, status): (usize, &DirectoryStatus)| {
            let (_, closed_bytes, closed_live) =
                figures.compactions.directories.get(index).copied().unwrap_or_default();
            LogDirectory {
                path: word(&status.path.to_string_lossy()),
                files: status.closed_files + status.open_files,
                bytes: status.bytes,
                // What was written since the compactor looked last counts as live.
                live_bytes: status.bytes.saturating_sub(closed_bytes - closed_live),
                flushes: status.blocks_written,
                flushed_bytes: status.bytes_written,
                syncs: status.syncs,
                sync_time: status.sync_time,
                sync_time_max: status.sync_time_max,
                failures: status.failures,
                trouble: status.trouble.clone(),
            }
        };
        log.directories.iter().enumerate().map(of).collect()
    }

    /// How long a sync took on average.
    pub(crate) fn sync_time_mean(&self) -> Duration {
        if self.syncs == 0 { Duration::ZERO } else { self.sync_time.div_f64(self.syncs as f64) }
    }
}

/// The value of a directive, as `CONFIG GET` shows it.
pub(crate) fn setting(server: &Shared, name: &str) -> String {
    let found = server.config.get(&[name]).pop();
    found.map(|(_, value)| String::from_utf8_lossy(&value).into_owned()).unwrap_or_default()
}

/// A text without what separates the parts of a line of `INFO`.
pub(crate) fn word(text: &str) -> String {
    let is_safe = |c: char| !c.is_control() && c != ',' && c != '=';
    text.chars().map(|c| if is_safe(c) { c } else { '?' }).collect()
}
