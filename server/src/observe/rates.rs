//! Current rates per second, from the counters at the last few looks.

use std::collections::VecDeque;
use std::time::Instant;

use tarn_engine::lock::Mutex;

/// Looks that are remembered, as many as in Redis. At ten a second a rate is that of the last 1.6 seconds.
const LOOKS: usize = 17;

/// Counters at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// When.
    pub at: Instant,
    /// Commands that ran.
    pub commands: u64,
    /// Bytes read from sockets.
    pub input_bytes: u64,
    /// Bytes written to sockets.
    pub output_bytes: u64,
}

/// Rates per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate {
    /// Commands.
    pub commands: f64,
    /// Bytes read from sockets.
    pub input_bytes: f64,
    /// Bytes written to sockets.
    pub output_bytes: f64,
}

/// The last looks, oldest first.
#[derive(Debug, Default)]
pub struct Rates(Mutex<VecDeque<Look>>);

impl Rates {
    /// Remembers a look at counters that only rise.
    pub fn note(&self, look: Look) {
        let mut looks = self.0.lock();
        if looks.len() == LOOKS {
            looks.pop_front();
        }
        looks.push_back(look);
    }

    /// The rates between the oldest look and the newest; zeros before there are two.
    pub fn now(&self) -> Rate {
        let looks = self.0.lock();
        let (Some(first), Some(last)) = (looks.front(), looks.back()) else { return Rate::default() };
        let seconds = last.at.duration_since(first.at).as_secs_f64();
        if seconds == 0.0 {
            return Rate::default();
        }
        Rate {
            commands: (last.commands - first.commands) as f64 / seconds,
            input_bytes: (last.input_bytes - first.input_bytes) as f64 / seconds,
            output_bytes: (last.output_bytes - first.output_bytes) as f64 / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_rate_is_that_of_the_looks_that_are_remembered() {
        let (rates, began) = (Rates::default(), Instant::now());
        assert_eq!(rates.now(), Rate::default());
        for tenth in 0..100 {
            // From the 50th look on nothing comes in any more.
            let input_bytes = tenth.min(50) * 1000;
            let at = began + Duration::from_millis(100 * tenth);
            rates.note(Look { at, commands: tenth * 5, input_bytes, output_bytes: 7 });
        }
        let Rate { commands, input_bytes, output_bytes } = rates.now();
        assert!((commands - 50.0).abs() < 1e-6, "{commands}");
        assert_eq!((input_bytes, output_bytes), (0.0, 0.0));
    }
}
