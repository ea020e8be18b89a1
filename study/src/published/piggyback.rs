//! Piggyback with the array of 2-bit tags of the paper (algorithm 3).
//!
//! ```text
//!   upper  a  b' .  d     pU   takes the writes of this period; the pass brings c across
//!   lower  a  b  c  d     pD   the snapshot: whole, and still
//!   tag    0  1  2  0     D_b  0: both copies have the row, 1: copy 0 has it, 2: copy 1 has it
//! ```
//!
//! A write stores the row and its tag. Thirty-two tags share a word, and while the pass runs the snapshotter
//! changes tags of the same words as the clients. With plain loads and stores, as in the paper, one of them
//! would undo the other's change of a neighbour: so every tag is changed by compare-and-swap of its word.
//!
//! Departures from the paper:
//!
//! - Its pass clears a tag and then copies the row, over what a client has written in between. Here the pass
//!   gives the row a fourth tag, *claimed*, copies it, and then clears the tag. A client that finds a row
//!   claimed waits for that one copy.
//! - Its client writes the row and then the tag. Here the tag comes first, so that the pass no longer claims
//!   a row that is being written.
//! - A write of a field brings the rest of the row across first. The paper writes whole rows only.
//! - A snapshot that is abandoned completes the pass, before the next one is taken.
//!
//! Several clients. Two copies of the data and two bits a row; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::memory;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::yield_now;

/// Both copies have the row.
const EITHER: u64 = 0;
/// The pass copies the row at this moment. Not in the paper.
const CLAIMED: u64 = 3;
/// Rows whose tags share a word.
const ROWS_PER_WORD: usize = 32;

/// Piggyback as published: a 2-bit tag a row says which copy has its newest content.
pub struct PublishedPiggyback {
    shape: Shape,
    copies: [Rows; 2],
    tags: Tags,
    /// The copy that takes the writes. Changed in the taken phase only.
    upper: AtomicUsize,
}

/// Two bits a row.
struct Tags {
    words: Vec<AtomicU64>,
}

/// The tag of a row whose newest content only this copy has.
const fn only_in(copy: usize) -> u64 {
    copy as u64 + 1
}

impl Tags {
    fn new(shape: Shape) -> Result<Tags, SnapshotError> {
        Ok(Tags { words: memory::zeros(shape.rows.div_ceil(ROWS_PER_WORD), shape)? })
    }

    #[inline]
    fn get(&self, row: usize, order: Ordering) -> u64 {
        self.words[row / ROWS_PER_WORD].load(order) >> shift(row) & 3
    }

    /// Gives a row the tag `to`, if `may` allows it for the present one. Returns the present one.
    #[inline]
    fn change(&self, row: usize, to: u64, order: Ordering, may: impl Fn(u64) -> bool) -> Result<u64, u64> {
        let tag = |word: u64| word >> shift(row) & 3;
        let changed = |word| may(tag(word)).then_some(word & !(3 << shift(row)) | to << shift(row));
        self.words[row / ROWS_PER_WORD].fetch_update(order, Ordering::Relaxed, changed).map(tag).map_err(tag)
    }
}

const fn shift(row: usize) -> usize {
    row % ROWS_PER_WORD * 2
}

impl PublishedPiggyback {
    #[inline]
    fn upper(&self) -> usize {
        self.upper.load(Ordering::Relaxed)
    }

    /// The copy that Client::Read of the paper reads. The lower one has a claimed row whole.
    #[inline]
    fn newest(&self, row: usize) -> &Rows {
        // Acquire: pairs with the Release in `write_to_online`.
        let copy = match self.tags.get(row, Ordering::Acquire) {
            CLAIMED => self.upper() ^ 1,
            tag => usize::from(tag == only_in(1)),
        };
        &self.copies[copy]
    }

    /// Client::Write of the paper. `write` learns whether the rest of the row is still in the lower copy.
    #[inline]
    fn change(&self, row: usize, write: impl FnOnce(&Rows, bool)) {
        let upper = self.upper();
        let old = loop {
            // Acquire: pairs with the Release in `write_to_online`.
            match self.tags.change(row, only_in(upper), Ordering::Acquire, |tag| tag != CLAIMED) {
                Ok(old) => break old,
                Err(_) => yield_now(),
            }
        };
        write(&self.copies[upper], old == only_in(upper ^ 1));
    }

    /// Snapshotter::WriteToOnline of the paper, the pass: copies the rows of the last period to the upper
    /// copy, but for those that a client has written there meanwhile.
    fn write_to_online(&self) {
        let upper = self.upper();
        let lower = upper ^ 1;
        for row in 0..self.shape.rows {
            // The claim decides which thread writes the row. The taken phase has ordered its content.
            let is_behind = |tag| tag == only_in(lower);
            if is_behind(self.tags.get(row, Ordering::Relaxed))
                && self.tags.change(row, CLAIMED, Ordering::Relaxed, is_behind).is_ok()
            {
                self.copies[upper].copy_row(row, &self.copies[lower]);
                // Release: pairs with the Acquire in `change` and in `newest`.
                let cleared = self.tags.change(row, EITHER, Ordering::Release, |_| true);
                debug_assert_eq!(cleared, Ok(CLAIMED), "no other thread changes a claimed tag");
            }
        }
    }

    /// Snapshotter::TraverseSnapshot of the paper.
    fn show(&self, visit: Visit<'_>) -> ControlFlow<()> {
        let lower = &self.copies[self.upper() ^ 1];
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            lower.read(row, &mut fields);
            visit(row, &fields)
        })
    }
}

impl Algorithm for PublishedPiggyback {
    const NAME: &'static str = "Piggyback as published";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<PublishedPiggyback, SnapshotError> {
        let (copies, tags) = ([Rows::new(shape)?, Rows::new(shape)?], Tags::new(shape)?);
        Ok(PublishedPiggyback { shape, copies, tags, upper: AtomicUsize::new(0) })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.newest(row).read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.newest(row).read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.change(row, |rows, _| rows.write(row, fields));
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.change(row, |rows, is_behind| {
            if is_behind {
                rows.copy_row(row, &self.copies[self.upper() ^ 1]);
            }
            rows.write_field(row, field, value);
        });
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.upper.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        self.write_to_online();
        Ok(self.show(visit))
    }

    /// A complete traversal has made the pass.
    fn finish(&self) {}

    fn abandon(&self) {
        self.write_to_online();
    }
}

/// Mutants that the judges must reject: the paper's form where ours departs from it.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Has the pass of the paper, which clears a tag before it copies the row.
    pub(crate) struct ClearsBeforeItCopies;

    impl Mutant for ClearsBeforeItCopies {
        type Of = PublishedPiggyback;
        const NAME: &'static str = "published Piggyback that clears before it copies";

        fn traverse(of: &PublishedPiggyback, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            let (upper, lower) = (of.upper(), of.upper() ^ 1);
            for row in 0..of.shape.rows {
                let is_behind = |tag| tag == only_in(lower);
                if of.tags.change(row, EITHER, Ordering::Relaxed, is_behind).is_ok() {
                    yield_now();
                    of.copies[upper].copy_row(row, &of.copies[lower]);
                }
            }
            Ok(of.show(visit))
        }
    }

    /// Writes a field and then the tag, as the paper's client does.
    pub(crate) struct WritesBeforeItTags;

    impl Mutant for WritesBeforeItTags {
        type Of = PublishedPiggyback;
        const NAME: &'static str = "published Piggyback that writes before it tags";

        fn write_field(of: &PublishedPiggyback, row: usize, field: usize, value: u64) {
            let upper = of.upper();
            if of.tags.get(row, Ordering::Acquire) == only_in(upper ^ 1) {
                of.copies[upper].copy_row(row, &of.copies[upper ^ 1]);
            }
            of.copies[upper].write_field(row, field, value);
            yield_now();
            of.change(row, |_, _| ());
        }
    }
}
