//! `CLIENT PAUSE`, and the pause of writes before the server ends: which commands are held back, until when,
//! and in which order they run then: that in which they came. Expired keys are not deleted meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_engine::lock::Mutex;
use tarn_engine::record::UnixMs;

use crate::net::handle::ClientHandle;

/// Which commands a pause holds back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseMode {
    /// Those that may write.
    Write,
    /// All.
    All,
}

/// Writes wait, whatever the rest of the state says: the server is about to end.
const ENDING: u64 = 1 << 63;
/// Clients have a request held back, or had one when the pause ended and it has not run yet.
const TURNS: u64 = 1 << 62;

/// The pause; over at its time by itself.
#[derive(Debug, Default)]
pub struct Pause {
    /// The end of the pause in milliseconds, shifted by one; the lowest bit says `All`, the highest `ENDING`,
    /// and the next `TURNS`.
    /// 0: no pause.
    state: AtomicU64,
    /// The clients that have a request held back.
    turns: Mutex<Turns>,
}

/// Clients that have a request held back, in the order in which these came.
#[derive(Debug, Default)]
struct Turns {
    next: u64,
    waiting: BTreeMap<u64, Arc<ClientHandle>>,
}

impl Pause {
    /// Holds commands back until `until`. A pause that is on is not shortened, nor made milder.
    pub fn begin(&self, mode: PauseMode, until: UnixMs) {
        let asked = (until.min(u64::MAX >> 3) << 1, u64::from(mode == PauseMode::All));
        let merge = |state: u64| {
            let until = (state & !(ENDING | TURNS | 1)).max(asked.0);
            Some(until | state & (ENDING | TURNS | 1) | asked.1)
        };
        let _ = self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, merge);
    }

    /// Lets commands go on.
    pub fn end(&self) {
        self.state.fetch_and(ENDING | TURNS, Ordering::Relaxed);
    }

    /// Holds writes back because the server is about to end, or not any more.
    pub fn stop_writes(&self, stop: bool) {
        if stop {
            self.state.fetch_or(ENDING, Ordering::Relaxed);
        } else {
            self.state.fetch_and(!ENDING, Ordering::Relaxed);
        }
    }

    /// A place behind all clients that have a request held back, for `client`. To be given up.
    pub fn take_turn(&self, client: Arc<ClientHandle>) -> u64 {
        let mut turns = self.turns.lock();
        let turn = turns.next;
        turns.next += 1;
        turns.waiting.insert(turn, client);
        self.state.fetch_or(TURNS, Ordering::Relaxed);
        turn
    }

    /// Whether nobody waits who came before.
    pub fn is_turn(&self, turn: u64) -> bool {
        self.turns.lock().waiting.first_key_value().is_none_or(|(first, _)| *first >= turn)
    }

    /// Gives a place up, and wakes the client whose turn it is now.
    pub fn give_up_turn(&self, turn: u64) {
        let mut turns = self.turns.lock();
        turns.waiting.remove(&turn);
        if turns.waiting.is_empty() {
            self.state.fetch_and(!TURNS, Ordering::Relaxed);
        }
        let first = turns.waiting.first_key_value().map(|(_, client)| client.clone());
        drop(turns);
        if let Some(first) = first {
            first.wake();
        }
    }

    /// Whether a pause is over and requests that it held back have not run yet.
    #[inline]
    pub fn is_followed(&self, now: UnixMs) -> bool {
        self.state.load(Ordering::Relaxed) & TURNS != 0 && !self.is_on(now)
    }

    /// Whether there is a pause of any kind.
    pub fn is_on(&self, now: UnixMs) -> bool {
        self.holds(true, now)
    }

    /// Whether a command is held back.
    #[inline]
    pub fn holds(&self, writes: bool, now: UnixMs) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        state != 0 && self.holds_in(state, writes, now)
    }

    #[cold]
    fn holds_in(&self, state: u64, writes: bool, now: UnixMs) -> bool {
        let ending = state & ENDING != 0 && writes;
        if (state & !(ENDING | TURNS)) >> 1 <= now {
            // Over. Only this very pause is taken back, not one that began meanwhile.
            let over = state & (ENDING | TURNS);
            let _ = self.state.compare_exchange(state, over, Ordering::Relaxed, Ordering::Relaxed);
            return ending;
        }
        ending || writes || state & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_of_writes_lets_reads_through_and_ends() {
        let pause = Pause::default();
        assert!(!pause.holds(true, 5));
        pause.begin(PauseMode::Write, 10);
        assert!(pause.holds(true, 5));
        assert!(!pause.holds(false, 5));
        pause.begin(PauseMode::All, 8);
        assert!(pause.holds(false, 9), "the longer time and the stronger mode stay");
        assert!(!pause.holds(true, 10));
        pause.begin(PauseMode::Write, 20);
        pause.end();
        assert!(!pause.holds(true, 11));
    }

    #[test]
    fn writes_wait_before_the_end_whatever_becomes_of_other_pauses() {
        let pause = Pause::default();
        pause.stop_writes(true);
        assert!(pause.holds(true, 5) && !pause.holds(false, 5) && pause.is_on(5));
        pause.begin(PauseMode::All, 10);
        assert!(pause.holds(true, 5) && pause.holds(false, 5));
        assert!(!pause.holds(false, 10) && pause.holds(true, 10), "the other one is over");
        pause.begin(PauseMode::All, 20);
        pause.end();
        assert!(pause.holds(true, 15) && !pause.holds(false, 15));
        pause.begin(PauseMode::Write, u64::MAX);
        pause.stop_writes(false);
        assert!(pause.holds(true, 1 << 50) && !pause.holds(false, 15));
        pause.end();
        assert!(!pause.is_on(15));
    }
}
