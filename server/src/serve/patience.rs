//! The rule by which a worker waits for the disk with its clients.
//!
//! Under `appendfsync always` a worker whose clients all wait for the disk has nothing to do until it is
//! done, but for the requests of some that come one by one and would each cost a turn of the event loop and,
//! at worst, a block of their own. If it waits as well, they gather in their sockets meanwhile:
//!
//! ```text
//!   goes on:  run A B C │ submit │ run D │ submit │ sent A B C │ run E │ submit │ sent D │ …
//!   waits:    run A B C │ submit │ …        disk         … │ send A B C │ run D E F │ submit │ …
//! ```
//!
//! It waits for a moment at most, whatever the disk does, so that a client that waits for nothing is not held
//! up for longer. And it does so only after many turns in a row in which all replies waited for the disk;
//! after twice as many each time the disk was slower than that moment. Requests that come many at a time, in
//! a pipeline, are gathered already: they end such a row.

use std::cell::Cell;

use tarn_engine::record::Lsn;

/// How many turns in a row all replies waited for the disk, before a worker does.
const TURNS_MIN: u32 = 16;
/// The same behind a disk that was slow again and again.
const TURNS_MAX: u32 = 4096;

/// Fewer replies are not worth it: one client has nothing to gather.
const REPLIES_MIN: u64 = 2;

/// The end of a wait of a worker with its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Up to where changes are to be durable.
    pub(super) lsn: Lsn,
    /// So many replies wait for that.
    pub(super) replies: u64,
}

/// The worker's knowledge of its clients and of the disk.
pub(super) struct Patience {
    /// The newest `Lsn` that a reply of this turn waits for.
    newest: Cell<Lsn>,
    /// How many do.
    replies: Cell<u64>,
    /// A reply of this turn waits for nothing, or is one of several.
    answered: Cell<bool>,
    /// Turns in a row in which there were replies, and all waited.
    turns: Cell<u32>,
    /// A worker waits when there were so many.
    turns_needed: Cell<u32>,
}

impl Patience {
    /// Nothing is known yet.
    pub(super) fn new() -> Patience {
        Patience {
            newest: Cell::new(Lsn::ZERO),
            replies: Cell::new(0),
            answered: Cell::new(false),
            turns: Cell::new(0),
            turns_needed: Cell::new(TURNS_MIN),
        }
    }

    /// Notes that a client has been replied to: with one reply that is held until this is durable, or
    /// otherwise.
    pub(super) fn note_replies(&self, held_once: Option<Lsn>) {
        match held_once {
            Some(lsn) => {
                self.newest.set(self.newest.get().max(lsn));
                self.replies.set(self.replies.get() + 1);
            }
            None => self.answered.set(true),
        }
    }

    /// Ends a turn. Returns what to wait for, if all its replies wait for the disk and the worker is to wait,
    /// too.
    pub(super) fn end_turn(&self) -> Option<Waiting> {
        let waiting = Waiting { lsn: self.newest.replace(Lsn::ZERO), replies: self.replies.take() };
        if self.answered.take() {
            self.turns.set(0);
        } else if waiting.replies > 0 {
            self.turns.set(self.turns.get().saturating_add(1));
            let waits = self.turns.get() > self.turns_needed.get() && waiting.replies >= REPLIES_MIN;
            return waits.then_some(waiting);
        }
        None
    }

    /// Notes whether the disk was done in time.
    pub(super) fn note_wait(&self, in_time: bool) {
        let needed = self.turns_needed.get();
        if in_time {
            self.turns_needed.set((needed - 1).max(TURNS_MIN));
        } else {
            self.turns.set(0);
            self.turns_needed.set((needed * 2).min(TURNS_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns_until_it_waits(patience: &Patience) -> u32 {
        let waits = |turn: &u32| {
            let lsn = Lsn(u64::from(*turn));
            patience.note_replies(Some(lsn));
            patience.note_replies(Some(Lsn(1)));
            patience.end_turn() == Some(Waiting { lsn, replies: 2 })
        };
        (1..=2 * TURNS_MAX).find(waits).expect("it waits at last")
    }

    #[test]
    fn a_worker_waits_after_many_turns_in_which_all_replies_waited() {
        let patience = Patience::new();
        assert_eq!(turns_until_it_waits(&patience), TURNS_MIN + 1);
        assert_eq!(turns_until_it_waits(&patience), 1, "it goes on to");
    }

    #[test]
    fn a_reply_that_waits_for_nothing_ends_that() {
        let patience = Patience::new();
        turns_until_it_waits(&patience);
        patience.note_replies(Some(Lsn(1)));
        patience.note_replies(None);
        patience.note_replies(Some(Lsn(2)));
        assert_eq!(patience.end_turn(), None);
        assert_eq!(turns_until_it_waits(&patience), TURNS_MIN + 1);
    }

    #[test]
    fn for_one_client_a_worker_does_not_wait() {
        let patience = Patience::new();
        for turn in 0..2 * TURNS_MAX {
            patience.note_replies(Some(Lsn(u64::from(turn))));
            assert_eq!(patience.end_turn(), None);
        }
        assert_eq!(turns_until_it_waits(&patience), 1);
    }

    #[test]
    fn a_turn_without_replies_says_nothing() {
        let patience = Patience::new();
        turns_until_it_waits(&patience);
        assert_eq!(patience.end_turn(), None);
        assert_eq!(turns_until_it_waits(&patience), 1);
    }

    #[test]
    fn a_slow_disk_is_waited_for_ever_more_seldom_until_it_is_fast() {
        let patience = Patience::new();
        let mut before = turns_until_it_waits(&patience);
        for _ in 0..20 {
            patience.note_wait(false);
            let turns = turns_until_it_waits(&patience);
            assert!(turns > before || turns == TURNS_MAX + 1, "{turns} turns after {before}");
            before = turns;
        }
        assert_eq!(before, TURNS_MAX + 1);
        (0..TURNS_MAX).for_each(|_| patience.note_wait(true));
        patience.note_replies(None);
        patience.end_turn();
        assert_eq!(turns_until_it_waits(&patience), TURNS_MIN + 1);
    }
}
