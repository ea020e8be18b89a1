//! `CLIENT PAUSE`: until when which commands are held back.

use std::sync::atomic::{AtomicU64, Ordering};
use tarn_engine::record::UnixMs;

/// Which commands a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

/// The pause; over at its time by itself.
#[derive(Debug, Default)]
pub struct Pause {
    /// The end of the pause in milliseconds, shifted by one; the lowest bit says `All`. 0: no pause.
    state: AtomicU64,
}

impl Pause {
    /// Holds commands back until `until`. A pause that is on is not shortened, nor made milder.
    pub fn begin(&self, mode: PauseMode, until: UnixMs) {
        let asked = (until.min(u64::MAX >> 1) << 1, u64::from(mode == PauseMode::All));
        let merge = |state: u64| Some((state & !1).max(asked.0) | (state & 1) | asked.1);
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
    }

    /// Lets commands go on.
    pub fn end(&self) {
        self.state.store(0, Ordering::Relaxed);
    }

    /// Until when a command is held back, if it is.
    #[inline]
    pub fn holds(&self, writes: bool, now: UnixMs) -> Option<UnixMs> {
        let state = self.state.load(Ordering::Relaxed);
        if state == 0 {
            return None;
        }
        if state >> 1 <= now {
            // Over. Only this very pause is taken back, not one that began meanwhile.
            let _ = self.state.compare_exchange(state, 0, Ordering::Relaxed, Ordering::Relaxed);
            return None;
        }
        (writes || state & 1 == 1).then_some(state >> 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_writes_lets_reads_through_and_ends() {
        let pause = Pause::default();
        assert_eq!(pause.holds(true, 5), None);
        pause.begin(PauseMode::Write, 10);
        assert_eq!(pause.holds(true, 5), Some(10));
        assert_eq!(pause.holds(false, 5), None);
        pause.begin(PauseMode::All, 8);
        assert_eq!(pause.holds(false, 5), Some(10), "the longer time and the stronger mode stay");
        assert_eq!(pause.holds(true, 10), None);
        pause.begin(PauseMode::Write, 20);
        pause.end();
        assert_eq!(pause.holds(true, 11), None);
    }
}
