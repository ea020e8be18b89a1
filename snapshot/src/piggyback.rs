//! Piggyback: as Hourglass, but the traversal brings the rows of the last period up to date in the upper copy
//! as well, so that every snapshot is full.
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
//! - A snapshot is taken only when no row is behind: the traversal before has seen to that.
//! - Whoever copies a row from the lower to the upper copy claims it first; the other one waits for that
//!   copy, never for the pass.
//!
//! Several clients. Two copies of the data and two bits a row; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::yield_now;

/// Rows whose tags share a word. Divides what clients' ranges are multiples of.
const TAGS_PER_WORD: usize = 32;
const CLAIMED: u64 = 0b11;
const ALIKE: u64 = 0b00;

/// Swaps two copies, and shows all rows.
pub struct Piggyback {
    shape: Shape,
    copies: [Rows; 2],
    tags: Vec<AtomicU64>,
    /// Which copy takes the writes. Changed in the taken phase only.
    upper: AtomicUsize,
}

/// The tag of a row that was written while copy `upper` was the upper one.
const fn written(upper: usize) -> u64 {
    1 << upper
}

impl Piggyback {
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
    fn newest(&self, row: usize) -> &Rows {
        let upper = self.upper.load(Ordering::Relaxed);
        let tag = self.tag(row);
        &self.copies[if tag == ALIKE || tag == written(upper) { upper } else { upper ^ 1 }]
    }

    /// Brings the upper copy up to date with `fields`, the row in the lower one, unless a client has done so.
    fn bring_across(&self, row: usize, fields: &[u64]) {
        let upper = self.upper.load(Ordering::Relaxed);
        let behind = written(upper ^ 1);
        if self.tag(row) == behind && self.swing(row, behind, CLAIMED) {
            self.copies[upper].write(row, fields);
            self.swing(row, CLAIMED, ALIKE);
        }
    }

    /// Has `write` change the row in the upper copy, with `whole` or all of its newest content in it.
    fn change(&self, row: usize, whole: bool, write: impl FnOnce(&Rows)) {
        let upper = self.upper.load(Ordering::Relaxed);
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
}

impl Algorithm for Piggyback {
    const NAME: &'static str = "Piggyback";
    const FULL: bool = true;

    fn new(shape: Shape) -> Result<Piggyback, SnapshotError> {
        let mut tags = Vec::new();
        tags.resize_with(shape.rows.div_ceil(TAGS_PER_WORD), AtomicU64::default);
        let copies = [Rows::new(shape)?, Rows::new(shape)?];
        Ok(Piggyback { shape, copies, tags, upper: AtomicUsize::new(0) })
    }

    fn read(&self, row: usize, fields: &mut [u64]) {
        self.newest(row).read(row, fields);
    }

    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.newest(row).read_field(row, field)
    }

    fn write(&self, row: usize, fields: &[u64]) {
        self.change(row, true, |rows| rows.write(row, fields));
    }

    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.change(row, false, |rows| rows.write_field(row, field, value));
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.upper.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let snapshot = &self.copies[self.upper.load(Ordering::Relaxed) ^ 1];
        let mut fields = vec![0; self.shape.fields];
        for row in 0..self.shape.rows {
            snapshot.read(row, &mut fields);
            self.bring_across(row, &fields);
            if visit(row, &fields).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&self) {
        let snapshot = &self.copies[self.upper.load(Ordering::Relaxed) ^ 1];
        let mut fields = vec![0; self.shape.fields];
        // Of a snapshot that was given up some rows may still be behind.
        for row in (0..self.shape.rows).filter(|row| self.tag(*row) != ALIKE) {
            snapshot.read(row, &mut fields);
            self.bring_across(row, &fields);
        }
    }
}

const fn shift(row: usize) -> usize {
    row % TAGS_PER_WORD * 2
}
