//! Zigzag: two copies of each row, a bit that says which one has the newest content and one that says which
//! one a write goes to.
//!
//! ```text
//!   copy 0    a  b  .  d      write_to  1  1  0  1     writes go to `write_to`,
//!   copy 1    .  b' c  .      newest    0  1  1  0     the snapshot is in the other copy
//! ```
//!
//! - The snapshot's row is in copy `!write_to`; no write goes there until the next snapshot is taken.
//! - The first write of a period to a field brings the rest of the row across first.
//!
//! Several clients. Two copies of the data and two bits a row; the taken phase is O(rows / 64).

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::Ordering;

/// Alternates row by row between two copies.
pub struct Zigzag {
    shape: Shape,
    copies: [Rows; 2],
    /// The copy with the newest content. A client's own.
    newest: Bits,
    /// The copy that writes go to. Changed in the taken phase only.
    write_to: Bits,
}

impl Zigzag {
    #[inline]
    fn newest(&self, row: usize) -> &Rows {
        &self.copies[usize::from(self.newest.get(row, Ordering::Relaxed))]
    }

    /// The copy to write to, with `whole` or all of the row's newest content in it.
    #[inline]
    fn target(&self, row: usize, whole: bool) -> &Rows {
        let to = self.write_to.get(row, Ordering::Relaxed);
        let target = &self.copies[usize::from(to)];
        if self.newest.get(row, Ordering::Relaxed) != to {
            if !whole {
                target.copy_row(row, self.newest(row));
            }
            self.newest.put_alone(row, to);
        }
        target
    }
}

impl Algorithm for Zigzag {
    const NAME: &'static str = "Zigzag";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Zigzag, SnapshotError> {
        let write_to = Bits::new(shape)?;
        write_to.fill(u64::MAX);
        let copies = [Rows::new(shape)?, Rows::new(shape)?];
        Ok(Zigzag { shape, copies, newest: Bits::new(shape)?, write_to })
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
        self.target(row, true).write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.target(row, false).write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        for (write_to, newest) in self.write_to.words().iter().zip(self.newest.words()) {
            write_to.store(!newest.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        let mut fields = vec![0; self.shape.fields];
        for row in 0..self.shape.rows {
            let snapshot = !self.write_to.get(row, Ordering::Relaxed);
            self.copies[usize::from(snapshot)].read(row, &mut fields);
            if visit(row, &fields).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&self) {}
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Writes a field to the copy that is its turn, without the rest of the row, as the authors' programs do.
    pub(crate) struct WritesAFieldAlone;

    impl Mutant for WritesAFieldAlone {
        type Of = Zigzag;
        const NAME: &'static str = "Zigzag that writes a field alone";

        fn write_field(of: &Zigzag, row: usize, field: usize, value: u64) {
            of.target(row, true).write_field(row, field, value);
        }
    }
}
