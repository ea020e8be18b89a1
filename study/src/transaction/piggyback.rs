//! vPB, the virtual form of Piggyback: as vHG, and every snapshot shows all rows.
//!
//! ```text
//!   version 4       | 5  trigger
//!   O  |--- b ----------- a' --|                   in place: the snapshot has it
//!   N                  |- c' ---|                  c' goes to the other copy of the row: c stays
//!                              ^ O has ended: of each row the copy that version 4 has is the snapshot
//! ```
//!
//! - Older transactions are restarted by the same rule as in vHG, and versions say the same.
//! - In Piggyback one copy has the snapshot, and so a pass brings the rows of the last period across, before
//!   the next trigger. Here the lock of each row says which copy has it: there is nothing to bring across.
//!
//! Two copies of the data and a bit a row, beside its lock; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Newest};
use crate::transaction::pairs::Pairs;
use crate::transaction::periods::{Period, Periods};

/// Writes to the copy that the snapshot does not need, and shows all rows.
pub struct VirtualPiggyback {
    shape: Shape,
    copies: Pairs,
}

impl VirtualAlgorithm for VirtualPiggyback {
    const NAME: &'static str = "vPB";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<VirtualPiggyback, SnapshotError> {
        Ok(VirtualPiggyback { shape, copies: Pairs::new(shape)? })
    }

    #[inline]
    fn fetch(&self, row: usize) {
        self.copies.fetch(row);
    }

    #[inline]
    fn read(&self, row: usize, newest: Newest, fields: &mut [u64]) {
        self.copies.read(row, newest, fields);
    }

    #[inline]
    fn install(&self, began: Period, committed: Period, row: usize, newest: Newest, fields: &[u64]) -> usize {
        self.copies.write(row, Self::version(began, committed), 0, newest, fields)
    }

    fn take(&self, periods: &Periods) {
        periods.advance();
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
    }

    fn traverse(&self, periods: &Periods, locks: &Locks, visit: Visit<'_>) -> ControlFlow<()> {
        let shown = periods.before();
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies.read_of(row, shown, locks, &mut fields);
            visit(row, &fields)
        })
    }

    fn finish(&self, periods: &Periods, _: &Locks) {
        self.copies.end(periods.before());
    }
}
