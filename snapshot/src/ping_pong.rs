//! Ping-Pong: every write goes to the rows and, a second time, to one of two collecting copies; taking a
//! snapshot swaps these.
//!
//! ```text
//!   now         a  b' c  d'     clients read here
//!   collecting  .  b' .  d'     what was written since the snapshot was taken, and a mark for each
//!   collected   a  .  c  .      what the snapshot shows: what was written in the period before it
//! ```
//!
//! - A marked row of a collecting copy is whole: the first write of a period copies the row, not the field.
//! - The first snapshot shows all rows.
//!
//! Several clients. Three copies of the data and two bits a row; the taken phase is O(1); a snapshot has what
//! has changed.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Writes everything twice.
pub struct PingPong {
    shape: Shape,
    now: Rows,
    copies: [Rows; 2],
    marks: [Bits; 2],
    /// Which copy collects. Changed in the taken phase only.
    collecting: AtomicUsize,
    /// No snapshot has been finished yet.
    first: AtomicBool,
}

impl PingPong {
    fn collect(&self, row: usize) -> &Rows {
        let collecting = self.collecting.load(Ordering::Relaxed);
        let (copy, marks) = (&self.copies[collecting], &self.marks[collecting]);
        if !marks.get(row, Ordering::Relaxed) {
            marks.put_alone(row, true);
            copy.copy_row(row, &self.now);
        }
        copy
    }
}

impl Algorithm for PingPong {
    const NAME: &'static str = "Ping-Pong";
    const FULL: bool = false;

    fn new(shape: Shape) -> Result<PingPong, SnapshotError> {
        Ok(PingPong {
            shape,
            now: Rows::new(shape)?,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            marks: [Bits::new(shape.rows), Bits::new(shape.rows)],
            collecting: AtomicUsize::new(0),
            first: AtomicBool::new(true),
        })
    }

    fn read(&self, row: usize, fields: &mut [u64]) {
        self.now.read(row, fields);
    }

    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.now.read_field(row, field)
    }

    fn write(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
        self.collect(row).write(row, fields);
    }

    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
        self.collect(row).write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.collecting.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let collected = self.collecting.load(Ordering::Relaxed) ^ 1;
        let (copy, marks) = (&self.copies[collected], &self.marks[collected]);
        let mut fields = vec![0; self.shape.fields];
        let mut show = |row| {
            copy.read(row, &mut fields);
            visit(row, &fields)
        };
        if self.first.load(Ordering::Relaxed) {
            // Rows that were not written are zero here as they are in `now`.
            Ok((0..self.shape.rows).try_for_each(&mut show))
        } else {
            Ok(marks.ones().try_for_each(&mut show))
        }
    }

    fn finish(&self) {
        self.first.store(false, Ordering::Relaxed);
        self.marks[self.collecting.load(Ordering::Relaxed) ^ 1].fill(0);
    }

    fn abandon(&self) {
        let collecting = self.collecting.load(Ordering::Relaxed);
        let collected = collecting ^ 1;
        for row in self.marks[collected].ones() {
            if !self.marks[collecting].get(row, Ordering::Relaxed) {
                self.copies[collecting].copy_row(row, &self.copies[collected]);
                self.marks[collecting].put_alone(row, true);
            }
        }
        self.marks[collected].fill(0);
    }
}
