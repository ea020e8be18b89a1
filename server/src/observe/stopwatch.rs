//! Notices commands that took long without reading an exact clock for each.
//!
//! The system has a coarse clock that costs a fraction of an exact one and goes on in ticks of some
//! milliseconds. A command during which it did not go on took less than a tick. After the others, some
//! hundred a second at most, the exact clock is read, and compared with when it was read last: at the
//! beginning of the batch, and for every command that is timed by sample. So what is measured may be too long
//! by the quick commands in between, and never too short.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

/// The times of one worker. Nobody else reads or writes them.
#[derive(Debug)]
pub struct Stopwatch {
    epoch: Instant,
    /// When the exact clock was read last, in nanoseconds after `epoch`.
    exact: AtomicU64,
    /// The last value of the coarse clock.
    coarse: AtomicU64,
}

/// Where a stopwatch stood.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    exact: u64,
    coarse: u64,
}

impl Default for Stopwatch {
    fn default() -> Stopwatch {
        Stopwatch { epoch: Instant::now(), exact: AtomicU64::new(0), coarse: AtomicU64::new(0) }
    }
}

impl Stopwatch {
    /// A batch of commands begins at this moment.
    pub fn start(&self, now: Instant) {
        self.note(now);
        self.coarse.store(coarse_ns(), Ordering::Relaxed);
    }

    /// Notes that the exact clock says `now`.
    #[inline]
    pub fn note(&self, now: Instant) {
        self.exact.store(now.duration_since(self.epoch).as_nanos() as u64, Ordering::Relaxed);
    }

    /// Where it stands, for who runs other commands within one that is being timed.
    pub fn mark(&self) -> Mark {
        Mark { exact: self.exact.load(Ordering::Relaxed), coarse: self.coarse.load(Ordering::Relaxed) }
    }

    /// Measures from a mark again.
    pub fn go_back_to(&self, mark: Mark) {
        self.exact.store(mark.exact, Ordering::Relaxed);
        self.coarse.store(mark.coarse, Ordering::Relaxed);
    }

    /// To be called behind a command: how long it took, if that may have been a tick or more.
    #[inline]
    pub fn look(&self) -> Option<Duration> {
        let coarse = coarse_ns();
        (coarse != self.coarse.load(Ordering::Relaxed)).then(|| self.look_closely(coarse))
    }

    #[cold]
    fn look_closely(&self, coarse: u64) -> Duration {
        self.coarse.store(coarse, Ordering::Relaxed);
        let before = self.exact.load(Ordering::Relaxed);
        self.note(Instant::now());
        Duration::from_nanos(self.exact.load(Ordering::Relaxed).saturating_sub(before))
    }
}

/// Microseconds between two ticks of the coarse clock, rounded up.
pub(crate) fn tick_us() -> i64 {
    static TICK: OnceLock<i64> = OnceLock::new();
    *TICK.get_or_init(|| nanos(clock_getres(ClockId::MonotonicCoarse)).div_ceil(1000) as i64)
}

/// The coarse clock.
#[inline]
pub(crate) fn coarse_ns() -> u64 {
    nanos(clock_gettime(ClockId::MonotonicCoarse))
}

#[inline]
fn nanos(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
