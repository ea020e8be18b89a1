//! Replies on their way out, and those that wait until what they reveal is durable.
//!
//! ```text
//!   base            sent              hold (Lsn 7)      hold (Lsn 9)      end
//!    |  gone already  |  may be sent    |  once 7 is durable |  once 9 is   |
//! ```
//!
//! Invariants: holds rise strictly in place and in `Lsn`; `sent` ≤ the place of the first hold that is not
//! durable.

use std::collections::VecDeque;
use tarn_engine::record::Lsn;

/// The replies of one connection that have not left yet.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    /// How many of `bytes` have been sent.
    sent: usize,
    /// From this place in `bytes` on nothing leaves before this `Lsn` is durable.
    holds: VecDeque<(usize, Lsn)>,
}

impl Outbox {
    /// Where replies are appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Bytes that have not been sent.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Whether all has been sent.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Gives an outbox without a buffer one.
    pub fn lend_buffer(&mut self, spare: impl FnOnce() -> Vec<u8>) {
        if self.bytes.capacity() == 0 {
            self.bytes = spare();
        }
    }

    /// Takes the buffer of an empty outbox, so that connections share a few warm ones.
    pub fn take_buffer(&mut self) -> Option<Vec<u8>> {
        if !self.is_empty() || self.bytes.capacity() == 0 {
            return None;
        }
        self.bytes.clear();
        self.sent = 0;
        Some(std::mem::take(&mut self.bytes))
    }

    /// Keeps back the bytes from `start` on until `lsn` is durable.
    pub fn hold(&mut self, start: usize, lsn: Lsn) {
        if self.holds.back().is_none_or(|&(_, last)| last < lsn) {
            self.holds.push_back((start, lsn));
        }
    }

    /// The `Lsn` whose durability lets more out; `None` if nothing is held.
    pub fn held_until(&self) -> Option<Lsn> {
        self.holds.front().map(|&(_, lsn)| lsn)
    }

    /// The bytes that may be sent now that all up to `durable` is durable.
    pub fn sendable(&mut self, durable: Lsn) -> &[u8] {
        while self.holds.front().is_some_and(|&(_, lsn)| lsn <= durable) {
            self.holds.pop_front();
        }
        let end = self.holds.front().map_or(self.bytes.len(), |&(start, _)| start);
        &self.bytes[self.sent..end]
    }

    /// Notes that `len` bytes have been sent.
    pub fn sent(&mut self, len: usize) {
        self.sent += len;
        debug_assert!(self.sent <= self.bytes.len(), "no more is sent than there was");
        if self.sent == self.bytes.len() {
            self.bytes.clear();
            self.sent = 0;
            debug_assert!(self.holds.is_empty(), "what is held has not been sent");
        } else if self.sent > (1 << 20) && self.sent * 2 > self.bytes.len() {
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
    use super::*;

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
}
