//! The pace, the progress and the cancellation of a checkpoint.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::error::CheckpointError;
use super::source::Source;
use crate::lock::{Condvar, Mutex};
use crate::throttle::Throttle;

/// How hard a checkpoint works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// It rests while clients wait for what it uses (`engine/src/throttle.rs`), and what writes it gives way
    /// to all others.
    Quiet,
    /// As fast as it can.
    Fast,
}

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
    /// `None`: it never rests.
    throttle: Option<Throttle>,
    progress: &'p Progress,
    source: &'p dyn Source,
}

impl<'p> Pacer<'p> {
    /// Work begins.
    pub fn new(pace: Pace, progress: &'p Progress, source: &'p dyn Source) -> Pacer<'p> {
        let throttle = (pace == Pace::Quiet).then(|| Throttle::new(source.clock().monotonic()));
        Pacer { throttle, progress, source }
    }

    /// To be called behind each part, without a latch. An error if the checkpoint is to be given up.
    pub fn rest_if_due(&mut self) -> Result<(), CheckpointError> {
        if self.progress.is_stopped() {
            return Err(CheckpointError::Stopped);
        }
        if let Some(throttle) = &mut self.throttle {
            let (clock, clients) = (self.source.clock(), self.source.clients());
            let asked = clock.monotonic();
            let rest = throttle.rest(clients, asked);
            if !rest.is_zero() {
                self.progress.rest(rest);
                let now = clock.monotonic();
                throttle.go_on(clients, now.saturating_sub(asked), now);
            }
        }
        Ok(())
    }
}
