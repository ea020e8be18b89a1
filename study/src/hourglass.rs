//! Hourglass: two copies that swap their parts when a snapshot is taken: one takes the writes, the other one
//! holds still.
//!
//! ```text
//!   upper    .  b' .  d     takes the writes of this period, and a mark for each
//!   lower    a  b  c  .     holds still; the snapshot shows its marked rows: those of the period before
//!   settled  1  .  .  0     which copy has the newest content of a row without a mark
//! ```
//!
//! - The first write of a period to a field brings the rest of the row across first, if the upper copy is not
//!   the newest.
//! - A row that was not written in a period stays in its copy, without a mark. So after a swap the newest
//!   content may be in either copy. When the snapshotter removes a row's mark, it records which copy that is.
//! - The first snapshot shows all rows.
//!
//! Several clients. Two copies of the data and three bytes a row; the taken phase is O(1); a snapshot has the
//! changed rows.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::flags::Flags;
use crate::halves::Halves;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::Ordering;

/// Swaps two copies, and shows the changed rows.
pub struct Hourglass {
    /// The current copy is the upper one.
    copies: Halves,
    /// The copy with the newest content of a row that has no mark. The snapshotter's own.
    settled: Flags,
}

impl Hourglass {
    /// The copy with the newest content.
    #[inline]
    fn newest(&self, row: usize) -> usize {
        let upper = self.copies.current();
        match [upper, upper ^ 1].into_iter().find(|half| self.copies.is_marked(*half, row)) {
            Some(half) => half,
            None => usize::from(self.settled.get(row, Ordering::Relaxed)),
        }
    }

    /// The copy to write to, with `whole` or all of the row's newest content in it. To write a whole row it
    /// reads nothing, so it does not wait for memory.
    #[inline]
    fn target(&self, row: usize, whole: bool) -> &Rows {
        let upper = self.copies.current();
        let target = self.copies.copy(upper);
        if !whole {
            let newest = self.newest(row);
            if newest != upper {
                target.copy_row(row, self.copies.copy(newest));
            }
        }
        self.copies.mark(upper, row);
        target
    }
}

impl Algorithm for Hourglass {
    const NAME: &'static str = "Hourglass";
    const FULL: bool = false;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Hourglass, SnapshotError> {
        Ok(Hourglass { copies: Halves::new(shape)?, settled: Flags::new(shape)? })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.copies.copy(self.newest(row)).read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.copies.copy(self.newest(row)).read_field(row, field)
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
        self.copies.swap();
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        Ok(self.copies.traverse(visit))
    }

    fn finish(&self) {
        let still = self.copies.current() ^ 1;
        self.copies.finish(|row| self.settled.put(row, still as u8, Ordering::Relaxed));
    }

    fn abandon(&self) {
        self.copies.abandon();
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Writes a field to the copy that is its turn, without the rest of the row, as the authors' programs do.
    pub(crate) struct WritesAFieldAlone;

    impl Mutant for WritesAFieldAlone {
        type Of = Hourglass;
        const NAME: &'static str = "Hourglass that writes a field alone";

        fn write_field(of: &Hourglass, row: usize, field: usize, value: u64) {
            of.target(row, true).write_field(row, field, value);
        }
    }
}
