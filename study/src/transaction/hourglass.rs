//! vHG, the virtual form of Hourglass. The copies swap their parts at the trigger, and each transaction
//! continues to write to the copy that was the upper one when it began.
//!
//! ```text
//!   period 4        | 5  trigger: from now on transactions begin in period 5
//!   O  |--- b ----------- a' --|                   a' is written to copy 0
//!   N                  |- b' ---|                  b' is written to copy 1
//!                              ^ O has ended: the marked rows of copy 0 are the snapshot
//!   P      |------------------- b?   restarted as a transaction of period 5
//! ```
//!
//! - The snapshot has the transactions of the earlier period. So none of them may follow one of the later
//!   period: it is restarted as a transaction of the later period, where it meets a row that such a one has
//!   written, or, to write it, a row that such a one has read.
//! - A copy is written to by transactions of its period alone, and so holds still when they have ended.
//! - Marks and the bit that says which copy is newest are a row's, and changed under its lock.
//!
//! Two copies of the data and three bytes a row; the taken phase is O(1); a snapshot has the changed rows,
//! the first one all rows.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::flags::Flags;
use crate::halves::Halves;
use crate::shape::Shape;
use crate::sync::atomic::Ordering;
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::periods::{Period, Periods};

/// Swaps two copies between transactions, and shows the changed rows.
pub struct VirtualHourglass {
    /// The current copy is that of the period that is now.
    copies: Halves,
    /// The copy with the newest content.
    newest: Flags,
}

impl VirtualHourglass {
    /// Notes that a copy has the newest content of a row.
    fn note(&self, row: usize, half: usize) {
        self.copies.mark(half, row);
        self.newest.put(row, half as u8, Ordering::Relaxed);
    }
}

impl VirtualAlgorithm for VirtualHourglass {
    const NAME: &'static str = "vHG";
    const FULL: bool = false;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<VirtualHourglass, SnapshotError> {
        Ok(VirtualHourglass { copies: Halves::new(shape)?, newest: Flags::new(shape)? })
    }

    fn read(&self, began: Period, row: usize, fields: &mut [u64]) {
        let half = began.half();
        // A branch and no computed copy: the processor continues speculatively with the expected copy, and
        // does not wait for the flag first.
        if usize::from(self.newest.get(row, Ordering::Relaxed)) == half {
            self.copies.copy(half).read(row, fields);
        } else {
            self.copies.copy(half ^ 1).read(row, fields);
        }
    }

    fn install(&self, began: Period, _: Period, row: usize, fields: &[u64]) {
        self.copies.copy(began.half()).write(row, fields);
        self.note(row, began.half());
    }

    fn take(&self, periods: &Periods) {
        self.copies.swap();
        periods.advance();
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
    }

    fn traverse(&self, visit: Visit<'_>) -> ControlFlow<()> {
        self.copies.traverse(visit)
    }

    fn finish(&self, _: &Periods) {
        self.copies.finish(|_| ());
    }

    fn abandon<G>(&self, _: &Periods, hold: impl Fn(usize) -> G) {
        let current = self.copies.current();
        for row in self.copies.changed() {
            let _held = hold(row);
            if !self.copies.is_marked(current, row) {
                self.copies.copy(current).copy_row(row, self.copies.copy(current ^ 1));
                self.note(row, current);
            }
        }
        self.copies.forget();
    }
}
