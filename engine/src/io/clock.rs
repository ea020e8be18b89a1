//! Time: the real clock of the machine and one that a test moves by hand.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::record::UnixMs;

/// The time of day.
pub trait Clock: Send + Sync + Debug {
    /// Milliseconds since the Unix epoch; may jump when the machine's clock is set.
    fn unix_ms(&self) -> UnixMs;

    /// Time since some fixed moment; never runs backwards.
    fn monotonic(&self) -> Duration;
}

/// The clock of the machine.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn new() -> SystemClock {
        SystemClock { started: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> SystemClock {
        SystemClock::new()
    }
}

impl Clock for SystemClock {
    fn unix_ms(&self) -> UnixMs {
        // A clock set before 1970 counts as the epoch itself.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A clock that stands still until it is moved.
#[derive(Debug, Default)]
pub struct ManualClock {
    unix_ms: AtomicU64,
    monotonic_ms: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `unix_ms` and whose monotonic time is 0.
    pub fn new(unix_ms: UnixMs) -> ManualClock {
        ManualClock { unix_ms: AtomicU64::new(unix_ms), monotonic_ms: AtomicU64::new(0) }
    }

    /// Lets `ms` milliseconds pass.
    pub fn advance(&self, ms: u64) {
        self.unix_ms.fetch_add(ms, Ordering::SeqCst);
        self.monotonic_ms.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn unix_ms(&self) -> UnixMs {
        self.unix_ms.load(Ordering::SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.monotonic_ms.load(Ordering::SeqCst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_moves_only_when_told() {
        let clock = ManualClock::new(1_000);
        assert_eq!((clock.unix_ms(), clock.monotonic()), (1_000, Duration::ZERO));
        clock.advance(5);
        assert_eq!((clock.unix_ms(), clock.monotonic()), (1_005, Duration::from_millis(5)));
    }

    #[test]
    fn system_clock_does_not_run_backwards() {
        let clock = SystemClock::new();
        let first = clock.monotonic();
        assert!(clock.monotonic() >= first);
        assert!(clock.unix_ms() > 1_600_000_000_000);
    }
}
