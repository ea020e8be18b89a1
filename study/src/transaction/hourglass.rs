//! vHG, the virtual form of Hourglass. At the trigger the copies of every row change their parts, and each
//! transaction belongs to the side of the trigger on which it began.
//!
//! ```text
//!   version 4       | 5  trigger: from now on transactions begin in version 5
//!   O  |--- b ----------- a' --|                   in place: the snapshot has it
//!   N                  |- b' ---|                  b' goes to the other copy of the row: b stays
//!                              ^ O has ended: the rows that were written in version 4 are the snapshot
//!   P      |------------------- b?   restarted as a transaction of version 5
//! ```
//!
//! - The snapshot has the transactions of the earlier version. So none of them may follow one of the later
//!   version: it is restarted as a transaction of the later version, where it meets a row that such a one has
//!   written, or, to write it, a row that such a one has read.
//! - A row has two copies (`pairs.rs`). The lock of the row says which one is the newest, and in which
//!   version it was written: so a row changes its copy when it is first written, not all rows at the trigger.
//! - Versions say what the snapshot shows as well: there are no marks, and none to clear.
//!
//! Two copies of the data and a bit a row, beside its lock; the taken phase is O(1); a snapshot has the
//! changed rows, the first one all rows, which begin as written in version 0.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Newest};
use crate::transaction::pairs::Pairs;
use crate::transaction::periods::{Period, Periods};

/// Writes to the copy that the snapshot does not need, and shows the changed rows.
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
    fn read(&self, row: usize, newest: Newest, fields: &mut [u64]) {
        self.copies.read(row, newest, fields);
    }

    #[inline]
    fn install(&self, began: Period, committed: Period, row: usize, newest: Newest, fields: &[u64]) -> usize {
        let version = Self::version(began, committed);
        // Of the rows that the version before has not changed the snapshot shows none.
        self.copies.write(row, version, version.saturating_sub(1), newest, fields)
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
            self.copies.read_of(row, shown, locks, &mut fields);
            visit(row, &fields)
        })
    }

    fn finish(&self, periods: &Periods, _: &Locks) {
        self.copies.end(periods.before());
    }

    fn abandon(&self, periods: &Periods, locks: &Locks) {
        locks.pass_on(periods.before());
        self.finish(periods, locks);
    }
}
