//! Messages that others can cause as often as they like: at most one a minute is written, and it counts those
//! that were not.

use tarn_engine::lock::Mutex;
use tarn_engine::record::UnixMs;

/// From one message to the next.
const PAUSE_MS: u64 = 60_000;

/// The state of one message.
#[derive(Debug, Default)]
pub(crate) struct Seldom {
    /// When it was written last, and how often it was not since.
    last: Mutex<Option<(UnixMs, u64)>>,
}

impl Seldom {
    /// Counts a message at `now`. How many before it were left out, if it is to be written.
    pub(crate) fn note(&self, now: UnixMs) -> Option<u64> {
        let mut last = self.last.lock();
        match &mut *last {
            Some((written, left_out)) if now.abs_diff(*written) < PAUSE_MS => {
                *left_out += 1;
                None
            }
            last => Some(last.replace((now, 0)).map_or(0, |(_, left_out)| left_out)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_a_minute_is_written_and_counts_those_that_are_not() {
        let seldom = Seldom::default();
        let start = 1_700_000_000_000;
        let noted: Vec<_> = [0, 0, 59_999, 60_000, 60_001, 200_000].map(|ms| seldom.note(start + ms)).into();
        assert_eq!(noted, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(seldom.note(start), Some(0), "a clock that was set back does not silence it");
    }
}
