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
//! Several clients. Three copies of the data and two bytes a row; the taken phase is O(1); a snapshot has the
//! changed rows.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::halves::Halves;
use crate::rows::Rows;
use crate::shape::Shape;

/// Writes everything twice.
pub struct PingPong {
    now: Rows,
    collected: Halves,
}

impl PingPong {
    /// The collecting copy, with `whole` or all of the row in it.
    #[inline]
    fn collect(&self, row: usize, whole: bool) -> &Rows {
        let current = self.collected.current();
        let copy = self.collected.copy(current);
        if !whole && !self.collected.is_marked(current, row) {
            copy.copy_row(row, &self.now);
        }
        self.collected.mark(current, row);
        copy
    }
}

impl Algorithm for PingPong {
    const NAME: &'static str = "Ping-Pong";
    const FULL: bool = false;
    const COPIES: usize = 3;

    fn new(shape: Shape) -> Result<PingPong, SnapshotError> {
        Ok(PingPong { now: Rows::new(shape)?, collected: Halves::new(shape)? })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.now.read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.now.read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
        self.collect(row, true).write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
        self.collect(row, false).write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.collected.swap();
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        Ok(self.collected.traverse(visit))
    }

    fn finish(&self) {
        self.collected.finish(|_| ());
    }

    fn abandon(&self) {
        self.collected.abandon();
    }
}
