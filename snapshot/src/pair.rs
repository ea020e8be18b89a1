//! Two copies of which one is the upper, with a tag for each row that says which has its newest content:
//! what Piggyback and its virtual form share.
//!
//! ```text
//!   upper  a  b' .  d     takes the writes of this period
//!   lower  a  b  c  d     the snapshot: whole, and still
//!   tag    -  U  L  -     U: written in this period; L: behind, the newest content is
//!                         in the lower copy; -: both are alike
//! ```
//!
//! A tag has two bits, one for each copy: "written while this copy was the upper one". So a swap turns U into
//! L for all rows at once. Both bits together are the fourth state: claimed, by whoever is bringing the row
//! across.
//!
//! - Whoever copies a row from the lower to the upper copy claims it first; the other one waits for that
//!   copy, never for the pass.
//! - Which copy is the upper one is the caller's to know: 0 or 1.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::yield_now;

/// Rows whose tags share a word. Divides what clients' ranges are multiples of.
const TAGS_PER_WORD: usize = 32;
const CLAIMED: u64 = 0b11;
const ALIKE: u64 = 0b00;

pub(crate) struct Pair {
    shape: Shape,
    copies: [Rows; 2],
    tags: Vec<AtomicU64>,
}

/// The tag of a row that was written while copy `upper` was the upper one.
const fn written(upper: usize) -> u64 {
    1 << upper
}

impl Pair {
    pub(crate) fn new(shape: Shape) -> Result<Pair, SnapshotError> {
        let mut tags = Vec::new();
        tags.resize_with(shape.rows.div_ceil(TAGS_PER_WORD), AtomicU64::default);
        Ok(Pair { shape, copies: [Rows::new(shape)?, Rows::new(shape)?], tags })
    }

    fn tag(&self, row: usize) -> u64 {
        // Acquire: pairs with the Release in `swing` of whoever brought the row across.
        self.tags[row / TAGS_PER_WORD].load(Ordering::Acquire) >> shift(row) & 0b11
    }

    /// Turns a tag from one state into another; `false` if it was in neither that state nor changed.
    fn swing(&self, row: usize, from: u64, to: u64) -> bool {
        let word = &self.tags[row / TAGS_PER_WORD];
        let change = |tags: u64| {
            (tags >> shift(row) & 0b11 == from).then_some(tags & !(0b11 << shift(row)) | to << shift(row))
        };
        word.fetch_update(Ordering::AcqRel, Ordering::Acquire, change).is_ok()
    }

    /// The copy with the newest content. Behind and claimed rows are still whole in the lower copy.
    pub(crate) fn newest(&self, row: usize, upper: usize) -> &Rows {
        let tag = self.tag(row);
        &self.copies[if tag == ALIKE || tag == written(upper) { upper } else { upper ^ 1 }]
    }

    /// Brings the upper copy up to date with `fields`, the row in the lower one, unless a client has done so.
    fn bring_across(&self, row: usize, fields: &[u64], upper: usize) {
        let behind = written(upper ^ 1);
        if self.tag(row) == behind && self.swing(row, behind, CLAIMED) {
            self.copies[upper].write(row, fields);
            self.swing(row, CLAIMED, ALIKE);
        }
    }

    /// Has `write` change the row in the upper copy, with `whole` or all of its newest content in it.
    pub(crate) fn change(&self, row: usize, upper: usize, whole: bool, write: impl FnOnce(&Rows)) {
        let target = &self.copies[upper];
        loop {
            let tag = self.tag(row);
            if tag == written(upper) || tag == ALIKE && self.swing(row, ALIKE, written(upper)) {
                return write(target);
            }
            if tag == written(upper ^ 1) && self.swing(row, tag, CLAIMED) {
                if !whole {
                    target.copy_row(row, &self.copies[upper ^ 1]);
                }
                write(target);
                self.swing(row, CLAIMED, written(upper));
                return;
            }
            // The pass copies this row at this moment.
            yield_now();
        }
    }

    /// Shows all rows of the lower copy, and brings each across.
    pub(crate) fn traverse(&self, upper: usize, visit: Visit<'_>) -> ControlFlow<()> {
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies[upper ^ 1].read(row, &mut fields);
            self.bring_across(row, &fields, upper);
            visit(row, &fields)
        })
    }

    /// Brings across what a traversal that was given up has left behind.
    pub(crate) fn finish(&self, upper: usize) {
        let mut fields = vec![0; self.shape.fields];
        for row in (0..self.shape.rows).filter(|row| self.tag(*row) != ALIKE) {
            self.copies[upper ^ 1].read(row, &mut fields);
            self.bring_across(row, &fields, upper);
        }
    }
}

const fn shift(row: usize) -> usize {
    row % TAGS_PER_WORD * 2
}

#[cfg(test)]
impl Pair {
    /// The pass as it was published: it tests the tag, clears it and then copies. What a client writes after
    /// the clearing is lost under the copy. For a mutant.
    pub(crate) fn traverse_as_published(&self, upper: usize, visit: Visit<'_>) -> ControlFlow<()> {
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies[upper ^ 1].read(row, &mut fields);
            if self.swing(row, written(upper ^ 1), ALIKE) {
                yield_now();
                self.copies[upper].write(row, &fields);
            }
            visit(row, &fields)
        })
    }
}
