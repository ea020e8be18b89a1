//! A compact list of records in the order of their `Lsn`s, about a byte each: a file may have millions.

use crate::log::{put_varint, take_varint};
use crate::record::Lsn;

/// Records that are handed out together.
const AT_ONCE: usize = 4096;

/// Records in the order of their `Lsn`s.
#[derive(Default)]
pub(super) struct Lsns {
    /// How far each is behind the one before.
    distances: Vec<u8>,
    last: Lsn,
}

impl Lsns {
    pub(super) fn push(&mut self, lsn: Lsn) {
        debug_assert!(lsn > self.last, "records of a file come in order");
        put_varint(&mut self.distances, lsn.0 - self.last.0);
        self.last = lsn;
    }

    /// Gives `act` all of them, some at a time.
    pub(super) fn each(&self, mut act: impl FnMut(&[Lsn])) {
        let (mut rest, mut lsn) = (&self.distances[..], Lsn::ZERO);
        let mut some = Vec::with_capacity(AT_ONCE);
        while !rest.is_empty() {
            lsn = lsn.after(take_varint(&mut rest).expect("what was put can be taken"));
            some.push(lsn);
            if some.len() == AT_ONCE || rest.is_empty() {
                act(&some);
                some.clear();
            }
        }
    }
}
