//! vHG, the virtual form of Hourglass. The copies swap their parts at the trigger, and each transaction
//! continues to write to the copy that was the upper one when it began.
//!
//! ```text
//!   period 4        | 5  trigger: from now on transactions begin in period 5
//!   O  |--- b ----------- a' --|                   a' is written to copy 0
//!   N                  |- b' ---|                  b' is written to copy 1
//!                              ^ O has ended: the rows that were written in period 4 are the snapshot
//!   P      |------------------- b?   restarted as a transaction of period 5
//! ```
//!
//! - The snapshot has the transactions of the earlier period. So none of them may follow one of the later
//!   period: it is restarted as a transaction of the later period, where it meets a row that such a one has
//!   written, or, to write it, a row that such a one has read.
//! - A copy is written to by transactions of its period alone, and so holds still when they have ended.
//! - A version is a period. The version in a row's lock says which copy has its newest content, and whether
//!   the snapshot shows it: there are no marks, and none to clear.
//!
//! Two copies of the data and nothing else a row but its lock; the taken phase is O(1); a snapshot has the
//! changed rows, the first one all rows, which begin as written in period 0.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Version};
use crate::transaction::pairs::Pairs;
use crate::transaction::periods::{Period, Periods};

/// Swaps two copies between transactions, and shows the changed rows.
pub struct VirtualHourglass {
    shape: Shape,
    copies: Pairs,
}

impl VirtualAlgorithm for VirtualHourglass {
    const NAME: &'static str = "vHG";
    const FULL: bool = false;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<VirtualHourglass, SnapshotError> {
        Ok(VirtualHourglass { shape, copies: Pairs::new(shape)? })
    }

    #[inline]
    fn fetch(&self, row: usize) {
        self.copies.fetch(row);
    }

    #[inline]
    fn read(&self, row: usize, version: Version, fields: &mut [u64]) {
        self.copies.read(row, version, fields);
    }

    #[inline]
    fn install(&self, began: Period, committed: Period, row: usize, fields: &[u64]) {
        self.copies.write(row, Self::version(began, committed), fields);
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
        locks.changed_in(shown).try_for_each(|row| {
            self.copies.read(row, shown, &mut fields);
            visit(row, &fields)
        })
    }

    /// Versions expire by themselves.
    fn finish(&self, _: &Periods, _: &Locks) {}

    fn abandon(&self, periods: &Periods, locks: &Locks) {
        locks.pass_on(periods.before(), |row, version| self.copies.bring_across(row, version));
    }
}
