//! The pace, the progress and the cancellation of a checkpoint.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::error::CheckpointError;
use crate::io::Clock;
use crate::lock::{Condvar, Mutex};

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
