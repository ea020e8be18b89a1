//! Copy-on-Update: the first write to a row after a snapshot was taken copies the old row aside.
//!
//! ```text
//!   settled  0 1 1 0     1: copied aside, by a client or by the traversal
//!   now      a b'c d     clients read and write here, always
//!   aside    . b c .     what the traversal shows
//! ```
//!
//! - A row is settled once in a period, under its lock; it is changed only after that, and then without the
//!   lock.
//! - The traversal settles each row that no client has, and so pays a copy of each row that the published
//!   form does not: one rule serves both, and a traversal that broke off can be repeated.
//!
//! Several clients. Two copies of the data and two bits a row; the taken phase is O(rows / 64).

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{Ordering, fence};
use crate::sync::yield_now;

/// Keeps an old row when it is first written over.
pub struct CopyOnUpdate {
    shape: Shape,
    now: Rows,
    aside: Rows,
    /// The row has been copied aside.
    settled: Bits,
    locked: Bits,
}

impl CopyOnUpdate {
    /// Ensures that the row has been copied aside.
    ///
    /// The first check takes no lock, so the lock does not order it: the bit itself must. This order is for
    /// two things, and loom sees one of them: the traversal reads in `aside` what the client put there. The
    /// model fails as soon as either half is relaxed. The other one is that the client's write comes after
    /// the traversal's reading of `now`; loom lets no load return what is stored later.
    fn settle(&self, row: usize) {
        // Acquire: pairs with the Release below, and with the fence in `finish`.
        if self.settled.get(row, Ordering::Acquire) {
            return;
        }
        self.lock(row);
        if !self.settled.get(row, Ordering::Acquire) {
            self.aside.copy_row(row, &self.now);
            // Release: pairs with the Acquire above.
            self.settled.set(row, Ordering::Release);
        }
        self.unlock(row);
    }

    /// From here on a row is copied aside before it is changed.
    pub(crate) fn unsettle(&self) {
        self.settled.fill(0);
    }

    /// Shows all rows as they were when they were unsettled.
    pub(crate) fn show_all(&self, visit: Visit<'_>) -> ControlFlow<()> {
        self.show(0..self.shape.rows, visit)
    }

    /// Shows some rows as they were when they were unsettled.
    pub(crate) fn show(&self, mut rows: impl Iterator<Item = usize>, visit: Visit<'_>) -> ControlFlow<()> {
        let mut fields = vec![0; self.shape.fields];
        rows.try_for_each(|row| {
            self.settle(row);
            self.aside.read(row, &mut fields);
            visit(row, &fields)
        })
    }

    /// Has the processor fetch a row.
    #[inline]
    pub(crate) fn fetch(&self, row: usize) {
        self.now.fetch(row);
    }

    /// Writes a row without checking the snapshot. For CALC, which knows that the write belongs to it.
    pub(crate) fn write_through(&self, row: usize, fields: &[u64]) {
        self.now.write(row, fields);
    }

    /// Copies a row aside, if it has not been; [`CopyOnUpdate::keep`] settles it, or another copy replaces
    /// this one. REQUIRES: no other thread writes or settles the row.
    pub(crate) fn copy_aside(&self, row: usize) {
        if !self.settled.get(row, Ordering::Acquire) {
            self.aside.copy_row(row, &self.now);
        }
    }

    /// Settles a row with the copy that was made of it.
    pub(crate) fn keep(&self, row: usize) {
        // Release: as in `settle`.
        self.settled.set(row, Ordering::Release);
    }

    fn lock(&self, row: usize) {
        // Held for the copying of one row.
        while self.locked.set(row, Ordering::Acquire) {
            yield_now();
        }
    }

    fn unlock(&self, row: usize) {
        self.locked.clear(row, Ordering::Release);
    }
}

impl Algorithm for CopyOnUpdate {
    const NAME: &'static str = "Copy-on-Update";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<CopyOnUpdate, SnapshotError> {
        let (settled, locked) = (Bits::new(shape)?, Bits::new(shape)?);
        settled.fill(u64::MAX);
        Ok(CopyOnUpdate { shape, now: Rows::new(shape)?, aside: Rows::new(shape)?, settled, locked })
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
        self.settle(row);
        self.now.write(row, fields);
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        self.settle(row);
        self.now.write_field(row, field, value);
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.unsettle();
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        Ok(self.show_all(visit))
    }

    fn finish(&self) {
        // A thread that finds a bit of these changes a row only after the traversal has read it.
        fence(Ordering::Release);
        // Some rows of an abandoned snapshot are still to be settled; no snapshot needs them.
        self.settled.fill(u64::MAX);
    }
}

/// Mutants that the judges must reject.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Looks whether a row is settled, and reads it where it then is, in two steps: a client may copy the
    /// row aside and change it in between.
    pub(crate) struct LooksWithoutTheLock;

    impl Mutant for LooksWithoutTheLock {
        type Of = CopyOnUpdate;
        const NAME: &'static str = "Copy-on-Update that looks without the lock";

        fn traverse(of: &CopyOnUpdate, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            let mut fields = vec![0; of.shape.fields];
            Ok((0..of.shape.rows).try_for_each(|row| {
                let rows = if of.settled.get(row, Ordering::Acquire) { &of.aside } else { &of.now };
                yield_now();
                rows.read(row, &mut fields);
                visit(row, &fields)
            }))
        }
    }
}

/// Mutants that loom must reject; on many processors their fault would not show.
#[cfg(all(test, loom))]
pub(crate) mod relaxed_mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Orders only one half of the check of a bit without the lock: the load, or else the store.
    pub(crate) struct OrdersOneHalf<const LOOK: bool>;

    impl<const LOOK: bool> OrdersOneHalf<LOOK> {
        fn settle(of: &CopyOnUpdate, row: usize) {
            if of.settled.get(row, if LOOK { Ordering::Acquire } else { Ordering::Relaxed }) {
                return;
            }
            of.lock(row);
            if !of.settled.get(row, Ordering::Relaxed) {
                of.aside.copy_row(row, &of.now);
                of.settled.set(row, if LOOK { Ordering::Relaxed } else { Ordering::Release });
            }
            of.unlock(row);
        }
    }

    impl<const LOOK: bool> Mutant for OrdersOneHalf<LOOK> {
        type Of = CopyOnUpdate;
        const NAME: &'static str = "Copy-on-Update that orders one half";

        fn write_field(of: &CopyOnUpdate, row: usize, field: usize, value: u64) {
            Self::settle(of, row);
            of.now.write_field(row, field, value);
        }

        fn traverse(of: &CopyOnUpdate, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            let mut fields = vec![0; of.shape.fields];
            Ok((0..of.shape.rows).try_for_each(|row| {
                Self::settle(of, row);
                of.aside.read(row, &mut fields);
                visit(row, &fields)
            }))
        }
    }
}
