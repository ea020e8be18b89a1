//! Replies on their way out, and those that wait until what they reveal is durable.
//!
//! ```text
//!   base            sent              hold (Lsn 7)      hold (Lsn 9)      end
//!    |  gone already  |  may be sent    |  once 7 is durable |  once 9 is   |
//! ```
//!
//! A hold may have no bytes: the reply was not wanted (`CLIENT REPLY`), or is still to come (`BLPOP`). What
//! follows waits for it all the same.
//!
//! Invariants: holds rise strictly in `Lsn`, and no place is before the last one; `sent` ≤ the place of the
//! first hold that is not durable ≤ the end.

use std::collections::VecDeque;

use tarn_engine::record::Lsn;

/// Bytes that have left and still stand before others, before they are taken out. Unit tests want them out
/// soon.
const SENT_BYTES_MAX: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// The replies of one connection that have not left yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes` have been sent.
    sent: usize,
    /// From this place in `bytes` on nothing leaves before this `Lsn` is durable.
    holds: VecDeque<(usize, Lsn)>,
}

impl Outbox {
    /// Where replies are appended.
    pub(super) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that have not been sent.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes that there is room for.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Whether all has been sent.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives an outbox without a buffer one.
    pub(super) fn lend_buffer(&mut self, spare: impl FnOnce() -> Vec<u8>) {
        if self.bytes.capacity() == 0 {
            self.bytes = spare();
        }
    }

    /// Takes the buffer of an empty outbox, so that connections share a few warm ones.
    pub(super) fn take_buffer(&mut self) -> Option<Vec<u8>> {
        if !self.is_empty() || self.bytes.capacity() == 0 {
            return None;
        }
        self.bytes.clear();
        self.sent = 0;
        Some(std::mem::take(&mut self.bytes))
    }

    /// Keeps back the bytes from `start` on until `lsn` is durable.
    pub(super) fn hold(&mut self, start: usize, lsn: Lsn) {
        if self.holds.back().is_some_and(|&(_, last)| last >= lsn) {
            return;
        }
        // Holds at one place are one, so there are few more of them than bytes. Only the first stays as it
        // is: somebody may have been told to wait for it.
        let is_first = self.holds.len() == 1;
        match self.holds.back_mut() {
            Some((place, held)) if *place == start && !is_first => *held = lsn,
            _ => self.holds.push_back((start, lsn)),
        }
    }

    /// The `Lsn` whose durability lets more out; `None` if nothing is held.
    pub(super) fn held_until(&self) -> Option<Lsn> {
        self.holds.front().map(|&(_, lsn)| lsn)
    }

    /// The bytes that may be sent now that all up to `durable` is durable.
    pub(super) fn sendable(&mut self, durable: Lsn) -> &[u8] {
        while self.holds.front().is_some_and(|&(_, lsn)| lsn <= durable) {
            self.holds.pop_front();
        }
        let end = self.holds.front().map_or(self.bytes.len(), |&(start, _)| start);
        &self.bytes[self.sent..end]
    }

    /// Notes that `len` bytes have been sent.
    pub(super) fn sent(&mut self, len: usize) {
        self.sent += len;
        debug_assert!(self.sent <= self.bytes.len(), "no more is sent than there was");
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            // What is still held has no bytes yet.
            for hold in &mut self.holds {
                hold.0 = 0;
            }
        } else if self.sent > SENT_BYTES_MAX && self.sent * 2 > self.bytes.len() {
            self.bytes.drain(..self.sent);
            for hold in &mut self.holds {
                hold.0 -= self.sent;
            }
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_behind_a_hold_leaves_before_its_lsn_is_durable() {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(b"ab");
        outbox.hold(1, Lsn(7));
        outbox.buffer().extend_from_slice(b"cd");
        outbox.hold(2, Lsn(5));
        outbox.hold(3, Lsn(9));
        assert_eq!(outbox.sendable(Lsn(6)), b"a");
        outbox.sent(1);
        assert_eq!(outbox.sendable(Lsn(7)), b"bc", "a smaller Lsn behind a larger one adds nothing");
        outbox.sent(2);
        assert_eq!(outbox.sendable(Lsn(8)), b"");
        assert_eq!(outbox.held_until(), Some(Lsn(9)));
        assert_eq!(outbox.sendable(Lsn(9)), b"d");
        outbox.sent(1);
        assert!(outbox.is_empty());
    }

    #[test]
    fn a_hold_without_bytes_holds_what_follows_after_all_before_it_has_left() {
        let mut outbox = Outbox::default();
        outbox.buffer().extend_from_slice(b"+PONG\r\n");
        outbox.hold(7, Lsn(9));
        assert_eq!(outbox.sendable(Lsn(8)), b"+PONG\r\n");
        outbox.sent(7);
        assert_eq!(outbox.sendable(Lsn(8)), b"");
        outbox.buffer().extend_from_slice(b"*-1\r\n");
        assert_eq!(outbox.sendable(Lsn(8)), b"", "the hold is in force still");
        assert_eq!(outbox.sendable(Lsn(9)), b"*-1\r\n");
    }

    #[test]
    fn holds_without_bytes_do_not_pile_up() {
        let mut outbox = Outbox::default();
        (1..1000).for_each(|lsn| outbox.hold(0, Lsn(lsn)));
        assert!(outbox.holds.len() <= 2, "{} holds", outbox.holds.len());
        assert_eq!(outbox.held_until(), Some(Lsn(1)), "who waits for the first one finds it");
        outbox.buffer().push(b'x');
        assert_eq!(outbox.sendable(Lsn(998)), b"");
        assert_eq!(outbox.sendable(Lsn(999)), b"x");
    }

    /// A step of a test of an outbox.
    #[derive(Clone, Debug)]
    enum Step {
        /// A reply of so many bytes, that reveals this `Lsn` if any.
        Reply(usize, Option<u64>),
        /// The log is durable this much further, and the socket takes at most so many bytes.
        Send(u64, usize),
        /// The buffer is given back if nothing waits.
        GiveBack,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let len = prop_oneof![3 => Just(0usize), 6 => 1usize..40, 1 => 100usize..400];
        let reply = (len, proptest::option::of(1u64..60)).prop_map(|(len, lsn)| Step::Reply(len, lsn));
        let room = prop_oneof![Just(usize::MAX), 0usize..30, 60usize..400];
        let send = (0u64..6, room).prop_map(|(on, room)| Step::Send(on, room));
        proptest::collection::vec(prop_oneof![5 => reply, 4 => send, 1 => Just(Step::GiveBack)], 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// The model: each byte with the largest `Lsn` that it or anything before it reveals.
        #[test]
        fn each_byte_leaves_in_its_order_as_soon_as_all_that_is_before_it_may(steps in steps()) {
            let mut outbox = Outbox::default();
            let (mut model, mut newest) = (VecDeque::<(u8, u64)>::new(), 0);
            let (mut durable, mut next) = (0, 0u8);
            for step in steps {
                match step {
                    Step::Reply(len, lsn) => {
                        let start = outbox.buffer().len();
                        newest = newest.max(lsn.unwrap_or(0));
                        for _ in 0..len {
                            next = next.wrapping_add(1);
                            outbox.buffer().push(next);
                            model.push_back((next, newest));
                        }
                        if let Some(lsn) = lsn {
                            outbox.hold(start, Lsn(lsn));
                        }
                    }
                    Step::Send(on, room) => {
                        durable += on;
                        let free = model.iter().take_while(|(_, lsn)| *lsn <= durable).count();
                        let bytes = outbox.sendable(Lsn(durable));
                        prop_assert_eq!(bytes.len(), free);
                        prop_assert!(bytes.iter().eq(model.iter().take(free).map(|(byte, _)| byte)));
                        outbox.sent(free.min(room));
                        model.drain(..free.min(room));
                    }
                    Step::GiveBack => {
                        let given = outbox.take_buffer();
                        prop_assert!(given.is_none_or(|given| given.is_empty() && model.is_empty()));
                    }
                }
                prop_assert_eq!(outbox.len(), model.len());
                prop_assert!(outbox.holds.len() <= outbox.bytes.len() + 2);
            }
            prop_assert!(outbox.sendable(Lsn(60)).iter().eq(model.iter().map(|(byte, _)| byte)));
            prop_assert_eq!(outbox.held_until(), None);
        }
    }
}
