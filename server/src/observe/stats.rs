//! Counters: one set a worker, so that counting costs no shared cache line; `INFO` adds them up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_engine::lock::Mutex;

use crate::error::CommandError;
use crate::observe::latency::{Counts, Histogram};
use crate::observe::ledger::Ledgers;
use crate::observe::seldom::Seldom;
use crate::observe::stopwatch::Stopwatch;

/// Calls of one command.
#[derive(Debug, Default)]
pub struct CommandCounter {
    /// Times it ran.
    pub calls: AtomicU64,
    /// Nanoseconds it ran, fast commands by sample.
    pub nanos: AtomicU64,
    /// Calls by how long they took, fast commands by sample.
    pub latencies: Histogram,
    /// Times it was refused before it ran.
    pub rejected: AtomicU64,
    /// Times it replied an error.
    pub failed: AtomicU64,
}

/// The counters of one worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerStats {
    /// By slot of the command.
    pub commands: Box<[CommandCounter]>,
    /// Writes to keys.
    pub changes: AtomicU64,
    /// Bytes read from sockets.
    pub input_bytes: AtomicU64,
    /// Bytes written to sockets.
    pub output_bytes: AtomicU64,
    /// Times something was read from a socket.
    pub reads: AtomicU64,
    /// Times something was written to a socket.
    pub writes: AtomicU64,
    /// Reads that found their key.
    pub hits: AtomicU64,
    /// Reads that did not.
    pub misses: AtomicU64,
    /// Notices slow commands.
    pub stopwatch: Stopwatch,
}

/// All counters.
#[derive(Debug)]
pub struct Stats {
    /// One a worker.
    pub workers: Box<[WorkerStats]>,
    /// Writes to keys by threads that are no workers, for clients.
    pub(crate) changes_behind: AtomicU64,
    /// Where requests waited.
    pub(crate) ledgers: Ledgers,
    /// Errors by code.
    pub errors: Mutex<HashMap<String, u64>>,
    /// Connections accepted.
    pub connections: AtomicU64,
    /// Connections refused for `maxclients`.
    pub rejected_connections: AtomicU64,
    /// Clients disconnected for `maxmemory-clients`.
    pub evicted_clients: AtomicU64,
    /// Reads that were answered while the data was being loaded.
    pub early_reads: AtomicU64,
    /// The warning of clients that speak HTTP.
    pub(crate) http: Seldom,
    /// The counters at the last `CONFIG RESETSTAT`: a worker's counters are written by that worker
    /// alone.
    baseline: Mutex<Totals>,
    /// The same of the latencies, by slot.
    latency_baseline: Mutex<Vec<Counts>>,
    memory_peak_bytes: AtomicU64,
}

/// The counters of all workers together.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// By slot of the command.
    pub commands: Vec<CommandTotals>,
    /// Bytes read from sockets.
    pub input_bytes: u64,
    /// Bytes written to sockets.
    pub output_bytes: u64,
    /// Times something was read from a socket.
    pub reads: u64,
    /// Times something was written to a socket.
    pub writes: u64,
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Connections accepted.
    pub connections: u64,
    /// Connections refused.
    pub rejected_connections: u64,
}

/// The calls of one command on all workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CommandTotals {
    /// Times it ran.
    pub calls: u64,
    /// Nanoseconds it ran.
    pub nanos: u64,
    /// Times it was refused before it ran.
    pub rejected: u64,
    /// Times it replied an error.
    pub failed: u64,
}

impl Stats {
    /// Zeros for `workers` workers and `slots` commands.
    pub fn new(workers: usize, slots: usize) -> Stats {
        let worker = || WorkerStats {
            commands: (0..slots).map(|_| CommandCounter::default()).collect(),
            changes: AtomicU64::new(0),
            input_bytes: AtomicU64::new(0),
            output_bytes: AtomicU64::new(0),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            stopwatch: Stopwatch::default(),
        };
        Stats {
            workers: (0..workers).map(|_| worker()).collect(),
            changes_behind: AtomicU64::new(0),
            ledgers: Ledgers::new(workers),
            errors: Mutex::new(HashMap::new()),
            connections: AtomicU64::new(0),
            rejected_connections: AtomicU64::new(0),
            evicted_clients: AtomicU64::new(0),
            early_reads: AtomicU64::new(0),
            http: Seldom::default(),
            baseline: Mutex::default(),
            latency_baseline: Mutex::default(),
            memory_peak_bytes: AtomicU64::new(0),
        }
    }

    /// The sum over all workers.
    pub fn sum(&self, counter: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.workers.iter().map(|worker| counter(worker).load(Ordering::Relaxed)).sum()
    }

    /// The counters since the last [`reset`](Self::reset).
    pub fn totals(&self) -> Totals {
        let now = self.totals_ever();
        let then = self.baseline.lock();
        let since = |slot: usize, now: &CommandTotals| {
            let then: CommandTotals = then.commands.get(slot).copied().unwrap_or_default();
            CommandTotals {
                calls: now.calls.saturating_sub(then.calls),
                nanos: now.nanos.saturating_sub(then.nanos),
                rejected: now.rejected.saturating_sub(then.rejected),
                failed: now.failed.saturating_sub(then.failed),
            }
        };
        Totals {
            commands: now.commands.iter().enumerate().map(|(slot, now)| since(slot, now)).collect(),
            input_bytes: now.input_bytes.saturating_sub(then.input_bytes),
            output_bytes: now.output_bytes.saturating_sub(then.output_bytes),
            reads: now.reads.saturating_sub(then.reads),
            writes: now.writes.saturating_sub(then.writes),
            hits: now.hits.saturating_sub(then.hits),
            misses: now.misses.saturating_sub(then.misses),
            connections: now.connections.saturating_sub(then.connections),
            rejected_connections: now.rejected_connections.saturating_sub(then.rejected_connections),
        }
    }

    /// Commands that ever ran, for rates.
    pub fn calls(&self) -> u64 {
        let of = |worker: &WorkerStats| -> u64 {
            worker.commands.iter().map(|command| command.calls.load(Ordering::Relaxed)).sum()
        };
        self.workers.iter().map(of).sum()
    }

    /// How long the calls of a command took since the last [`reset`](Self::reset).
    pub fn latencies(&self, slot: usize) -> Counts {
        let mut counts = self.latencies_ever(slot);
        if let Some(then) = self.latency_baseline.lock().get(slot) {
            for (count, then) in counts.iter_mut().zip(then) {
                *count = count.saturating_sub(*then);
            }
        }
        counts
    }

    fn latencies_ever(&self, slot: usize) -> Counts {
        let mut counts = Counts::new();
        for worker in &self.workers {
            worker.commands[slot].latencies.add_to(&mut counts);
        }
        counts
    }

    fn slots(&self) -> usize {
        self.workers.first().map_or(0, |worker| worker.commands.len())
    }

    /// Counts from zero again, as far as [`totals`](Self::totals) and the errors go.
    pub fn reset(&self) {
        *self.baseline.lock() = self.totals_ever();
        *self.latency_baseline.lock() = (0..self.slots()).map(|slot| self.latencies_ever(slot)).collect();
        self.ledgers.reset();
        self.errors.lock().clear();
    }

    /// Notes how much memory is used; returns the most that was ever noted.
    pub fn note_memory(&self, bytes: u64) -> u64 {
        self.memory_peak_bytes.fetch_max(bytes, Ordering::Relaxed).max(bytes)
    }

    fn totals_ever(&self) -> Totals {
        let of = |slot: usize| CommandTotals {
            calls: self.sum(|worker| &worker.commands[slot].calls),
            nanos: self.sum(|worker| &worker.commands[slot].nanos),
            rejected: self.sum(|worker| &worker.commands[slot].rejected),
            failed: self.sum(|worker| &worker.commands[slot].failed),
        };
        Totals {
            commands: (0..self.slots()).map(of).collect(),
            input_bytes: self.sum(|worker| &worker.input_bytes),
            output_bytes: self.sum(|worker| &worker.output_bytes),
            reads: self.sum(|worker| &worker.reads),
            writes: self.sum(|worker| &worker.writes),
            hits: self.sum(|worker| &worker.hits),
            misses: self.sum(|worker| &worker.misses),
            connections: self.connections.load(Ordering::Relaxed),
            rejected_connections: self.rejected_connections.load(Ordering::Relaxed),
        }
    }

    /// Counts an error reply by its code.
    pub fn note_error(&self, error: &CommandError) {
        let text = error.to_string();
        self.note_errors(text.split(' ').next().unwrap_or("ERR"), 1);
    }

    /// Counts error replies of a code.
    pub fn note_errors(&self, code: &str, number: u64) {
        let mut errors = self.errors.lock();
        // As many codes as Redis keeps, so that scripts with codes of their own cannot fill memory.
        if let Some(count) = errors.get_mut(code) {
            *count += number;
        } else if errors.len() < 128 {
            errors.insert(code.to_owned(), number);
        }
    }
}
