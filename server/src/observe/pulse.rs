//! The time at which each worker looked after its connections last: one that is silent for long waits for
//! something, and serves nobody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The last beat of each worker.
#[derive(Debug)]
pub(crate) struct Pulse {
    began: Instant,
    /// Milliseconds since then.
    beats_ms: Vec<AtomicU64>,
}

impl Pulse {
    /// So many workers, all of which are well.
    pub(crate) fn new(workers: usize) -> Pulse {
        Pulse { began: Instant::now(), beats_ms: (0..workers).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes that a worker looks after its connections now.
    pub(crate) fn beat(&self, worker: usize) {
        self.beats_ms[worker].store(self.now_ms(), Ordering::Relaxed);
    }

    /// Whether a worker has not looked after its connections for longer than that.
    pub(crate) fn is_silent(&self, worker: usize, limit: Duration) -> bool {
        let silent_ms = self.now_ms().saturating_sub(self.beats_ms[worker].load(Ordering::Relaxed));
        Duration::from_millis(silent_ms) > limit
    }

    fn now_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_not_beaten_for_long_is_silent() {
        let mut pulse = Pulse::new(2);
        pulse.began -= Duration::from_secs(7200);
        pulse.beat(1);
        let hour = Duration::from_secs(3600);
        assert!(pulse.is_silent(0, hour) && !pulse.is_silent(1, hour));
        pulse.beat(0);
        assert!(!pulse.is_silent(0, hour) && !pulse.is_silent(0, Duration::MAX));
    }
}
