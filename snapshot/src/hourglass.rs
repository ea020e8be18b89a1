//! Hourglass: two copies that swap their parts when a snapshot is taken: one takes the writes, the other one
//! holds still.
//!
//! ```text
//!   upper  .  b' .  d     takes the writes of this period, and a mark for each
//!   lower  a  b  c  .     holds still; the snapshot shows its marked rows: those of the period before
//!   newest 1  0  1  0     which copy has the newest content of a row
//! ```
//!
//! - The first write of a period to a field brings the rest of the row across first, if the upper copy is not
//!   the newest.
//! - A row that was not written in a period stays where it is, marked by nobody; so after a swap the newest
//!   content may be in either copy.
//! - The first snapshot shows all rows.
//!
//! Several clients. Two copies of the data and three bits a row; the taken phase is O(1); a snapshot has what
//! has changed.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Swaps two copies, and shows what has changed.
pub struct Hourglass {
    shape: Shape,
    copies: [Rows; 2],
    /// The rows that were written while their copy was the upper one.
    marks: [Bits; 2],
    /// The copy with the newest content. A client's own.
    newest: Bits,
    /// Which copy takes the writes. Changed in the taken phase only.
    upper: AtomicUsize,
    /// No snapshot has been finished yet.
    first: AtomicBool,
}

impl Hourglass {
    fn newest(&self, row: usize) -> &Rows {
        &self.copies[usize::from(self.newest.get(row, Ordering::Relaxed))]
    }

    /// The copy to write to, with `whole` or all of the row's newest content in it.
    fn target(&self, row: usize, whole: bool) -> &Rows {
        let upper = self.upper.load(Ordering::Relaxed);
        let (target, marks) = (&self.copies[upper], &self.marks[upper]);
        if !marks.get(row, Ordering::Relaxed) {
            marks.put_alone(row, true);
            if self.newest.get(row, Ordering::Relaxed) != (upper == 1) {
                if !whole {
                    target.copy_row(row, self.newest(row));
                }
                self.newest.put_alone(row, upper == 1);
            }
        }
        target
    }
}

impl Algorithm for Hourglass {
    const NAME: &'static str = "Hourglass";
    const FULL: bool = false;

    fn new(shape: Shape) -> Result<Hourglass, SnapshotError> {
        Ok(Hourglass {
            shape,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            marks: [Bits::new(shape.rows), Bits::new(shape.rows)],
            newest: Bits::new(shape.rows),
            upper: AtomicUsize::new(0),
            first: AtomicBool::new(true),
        })
    }

    fn read(&self, row: usize, fields: &mut [u64]) {
        self.newest(row).read(row, fields);
    }

    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.newest(row).read_field(row, field)
    }

    fn write(&self, row: usize, fields: &[u64]) {
        self.target(row, true).write(row, fields);
    }

    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.target(row, false).write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.upper.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let lower = self.upper.load(Ordering::Relaxed) ^ 1;
        let (copy, marks) = (&self.copies[lower], &self.marks[lower]);
        let mut fields = vec![0; self.shape.fields];
        let mut show = |row| {
            copy.read(row, &mut fields);
            visit(row, &fields)
        };
        if self.first.load(Ordering::Relaxed) {
            // Rows that were never written are zero in both copies.
            Ok((0..self.shape.rows).try_for_each(&mut show))
        } else {
            Ok(marks.ones().try_for_each(&mut show))
        }
    }

    fn finish(&self) {
        self.first.store(false, Ordering::Relaxed);
        self.marks[self.upper.load(Ordering::Relaxed) ^ 1].fill(0);
    }

    fn abandon(&self) {
        let upper = self.upper.load(Ordering::Relaxed);
        let lower = upper ^ 1;
        for row in self.marks[lower].ones() {
            if !self.marks[upper].get(row, Ordering::Relaxed) {
                self.copies[upper].copy_row(row, &self.copies[lower]);
                self.newest.put_alone(row, upper == 1);
                self.marks[upper].put_alone(row, true);
            }
        }
        self.marks[lower].fill(0);
    }
}
