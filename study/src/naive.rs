//! Naive: to take a snapshot is to copy all rows while the clients wait.
//!
//! Several clients. Two copies of the data; the taken phase is O(rows), a write is a write.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;

/// Copies everything at once.
pub struct Naive {
    shape: Shape,
    now: Rows,
    /// Written in the taken phase only.
    snapshot: Rows,
}

impl Algorithm for Naive {
    const NAME: &'static str = "Naive";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Naive, SnapshotError> {
        Ok(Naive { shape, now: Rows::new(shape)?, snapshot: Rows::new(shape)? })
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
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.snapshot.copy_all(&self.now);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let mut fields = vec![0; self.shape.fields];
        for row in 0..self.shape.rows {
            self.snapshot.read(row, &mut fields);
            if visit(row, &fields).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&self) {}
}
