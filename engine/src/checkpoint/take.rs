//! Taking a checkpoint through a view: what is written, and at which pace.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::lock::{Condvar, Mutex};

use super::error::CheckpointError;
use super::writer::Blocks;
use crate::io::Clock;
use crate::log::LogError;
use crate::record::Lsn;
use crate::table::{Entry, Table, Visitor};
use crate::view::{View, ViewError};

/// How hard a checkpoint works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It rests three quarters of the time, and what writes it gives way to all others, so that clients
    /// notice little of it.
    Quiet,
    /// As fast as it can.
    Fast,
}

/// A quiet checkpoint rests so many times as long as it worked.
const REST: u32 = 3;
/// It works so long before it rests.
const WORK: Duration = Duration::from_micros(100);

/// How a checkpoint is taken.
#[derive(Clone, Copy, Debug)]
pub struct TakeOptions {
    /// How hard it works.
    pub pace: Pace,
    /// Threads that write, beside the one that reads the store.
    pub writers: usize,
}

/// What checkpoints are taken of.
pub trait Source {
    /// Opens a view that is read once.
    fn view(&self) -> Result<View, ViewError>;

    /// Calls `look` with the newest change and the tables, once, while nobody else is inside the store.
    fn standing(&self, look: &mut dyn FnMut(Lsn, &[Arc<Table>]));

    /// The newest change.
    fn newest(&self) -> Lsn;

    /// Makes durable what was written up to `cut`, if it is logged: a log must not end before a checkpoint.
    /// Returns which log that is.
    fn settle(&self, cut: Lsn) -> Result<Option<u128>, LogError>;

    /// The time.
    fn clock(&self) -> &dyn Clock;
}

/// How far a checkpoint has come; shared with those who ask.
#[derive(Debug, Default)]
pub struct Progress {
    /// Keys that have been looked at.
    pub keys: AtomicU64,
    /// Keys that there were at the beginning.
    pub keys_total: AtomicU64,
    /// Bytes written.
    pub bytes: AtomicU64,
    /// Child processes made so far.
    pub forks: AtomicU64,
    /// Microseconds that the last fork took.
    pub last_fork_us: AtomicU64,
    stopped: AtomicBool,
    resting: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    /// One is begun that has so many keys.
    pub fn begin(&self, keys_total: u64) {
        self.keys.store(0, Ordering::Relaxed);
        self.keys_total.store(keys_total, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Lets the one that is being taken, and all later ones, be given up: the server stops.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _resting = self.resting.lock();
        self.changed.notify_all();
    }

    /// Lets later ones be taken again.
    pub fn resume(&self) {
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Whether it is of no use to go on.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    pub(super) fn rest(&self, time: Duration) {
        let mut resting = self.resting.lock();
        if !self.is_stopped() {
            self.changed.wait_for(&mut resting, time);
        }
    }
}

/// Has a checkpoint keep its pace.
pub struct Pacer<'p> {
    pace: Pace,
    progress: &'p Progress,
    clock: &'p dyn Clock,
    work_began: Duration,
}

impl<'p> Pacer<'p> {
    /// Work begins.
    pub fn new(pace: Pace, progress: &'p Progress, clock: &'p dyn Clock) -> Pacer<'p> {
        Pacer { pace, progress, clock, work_began: clock.monotonic() }
    }

    /// To be called behind each part, without a latch. An error if the checkpoint is to be given up.
    pub fn rest_if_due(&mut self) -> Result<(), CheckpointError> {
        if self.progress.is_stopped() {
            return Err(CheckpointError::Stopped);
        }
        let worked = self.clock.monotonic().saturating_sub(self.work_began);
        if self.pace == Pace::Quiet && worked > WORK {
            self.progress.rest(worked * REST);
            self.work_began = self.clock.monotonic();
        }
        Ok(())
    }
}

/// The store as it was at a checkpoint, as far as it matters for the next.
pub(super) struct Base {
    pub(super) cut: Lsn,
    /// A database that has another table by now was flushed or swapped.
    tables: Vec<Weak<Table>>,
}

impl Base {
    pub(super) fn of(view: &View) -> Base {
        let tables = (0..view.databases()).map(|db| Arc::downgrade(view.table(db as u8))).collect();
        Base { cut: view.cut(), tables }
    }

    pub(super) fn at(cut: Lsn, tables: &[Arc<Table>]) -> Base {
        Base { cut, tables: tables.iter().map(Arc::downgrade).collect() }
    }

    /// Whether this database has the table that it had.
    fn has(&self, view: &View, db: u8) -> bool {
        self.tables.get(usize::from(db)).is_some_and(|table| std::ptr::eq(table.as_ptr(), &**view.table(db)))
    }
}

/// Puts entries into blocks.
struct Dump<'w, 'f> {
    blocks: &'w mut Blocks<'f>,
    db: u8,
    /// What is not newer than this is left out, but for ranges in which keys were removed since.
    since: Lsn,
    whole: bool,
    keys: u64,
}

impl Visitor for Dump<'_, '_> {
    fn part(&mut self, from: u64, end: u64, removed: Lsn) {
        self.whole = self.since == Lsn::ZERO || removed > self.since;
        self.blocks.range(self.db, self.whole, from, end);
    }

    fn visit(&mut self, entry: &Entry) {
        self.keys += 1;
        if self.whole || entry.lsn() > self.since {
            self.blocks.entry(entry);
        }
    }
}

/// Walks `view` and puts it into `blocks`: all, or what has changed since `base`.
pub(super) fn dump(
    mut view: View,
    base: Option<&Base>,
    pace: Pace,
    progress: &Progress,
    clock: &dyn Clock,
    blocks: &mut Blocks<'_>,
) -> Result<(), CheckpointError> {
    let mut pacer = Pacer::new(pace, progress, clock);
    while let Some(db) = view.next_db() {
        let since = base.filter(|base| base.has(&view, db)).map_or(Lsn::ZERO, |base| base.cut);
        let mut dump = Dump { blocks, db, since, whole: true, keys: 0 };
        view.step(&mut dump)?;
        progress.keys.fetch_add(dump.keys, Ordering::Relaxed);
        blocks.settle();
        if blocks.has_failed() {
            // What has failed says so itself.
            return Ok(());
        }
        pacer.rest_if_due()?;
    }
    Ok(())
}
