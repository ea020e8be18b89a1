//! Piggyback: as Hourglass, but the traversal brings the rows of the last period up to date in the upper copy
//! as well, so that every snapshot is full.
//!
//! ```text
//!   upper  a  b' .  d     takes the writes of this period; the traversal brings c across
//!   lower  a  b  c  d     the snapshot: whole, and still
//! ```
//!
//! - The flags of `pair.rs` say which thread may write and which may copy.
//! - A snapshot is taken only when no row is behind: the traversal before has brought all rows across, in a
//!   pass of its own before it shows rows.
//!
//! Several clients. Two copies of the data and two bytes a row; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::error::SnapshotError;
use crate::pair::Pair;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Swaps two copies, and shows all rows.
pub struct Piggyback {
    copies: Pair,
    /// The copy that takes the writes. Changed in the taken phase only.
    upper: AtomicUsize,
}

impl Piggyback {
    #[inline]
    fn upper(&self) -> usize {
        self.upper.load(Ordering::Relaxed)
    }
}

impl Algorithm for Piggyback {
    const NAME: &'static str = "Piggyback";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<Piggyback, SnapshotError> {
        Ok(Piggyback { copies: Pair::new(shape)?, upper: AtomicUsize::new(0) })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.copies.newest(row, self.upper()).read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.copies.newest(row, self.upper()).read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.copies.change(row, self.upper(), true, |rows| rows.write(row, fields));
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.copies.change(row, self.upper(), false, |rows| rows.write_field(row, field, value));
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.copies.swapped();
        self.upper.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        Ok(self.copies.traverse(self.upper(), visit))
    }

    fn finish(&self) {
        self.copies.finish(self.upper());
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Has the pass of the paper, which clears a flag before it copies the row.
    pub(crate) struct ClearsBeforeItCopies;

    impl Mutant for ClearsBeforeItCopies {
        type Of = Piggyback;
        const NAME: &'static str = "Piggyback that clears before it copies";

        fn traverse(of: &Piggyback, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            Ok(of.copies.traverse_as_published(of.upper(), visit))
        }
    }

    /// Shows a snapshot and lets the next one be taken without a pass over the last period.
    pub(crate) struct LeavesOutItsPass;

    impl Mutant for LeavesOutItsPass {
        type Of = Piggyback;
        const NAME: &'static str = "Piggyback that leaves out its pass";

        fn traverse(of: &Piggyback, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            Ok(of.copies.show(of.upper(), visit))
        }

        fn finish(_: &Piggyback) {}

        fn abandon(_: &Piggyback) {}
    }
}
