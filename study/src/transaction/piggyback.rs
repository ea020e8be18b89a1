//! vPB, the virtual form of Piggyback. The copies swap their parts at the trigger, each transaction continues
//! to write to the copy that was the upper one when it began, and the traversal brings rows across.
//!
//! ```text
//!   period 4        | 5  trigger
//!   O  |--- b ----------- a' --|                   a' is written to copy 0: b and a are now behind
//!   N                  |- c' ---|                  c' is written to copy 1
//!                              ^ O has ended: copy 0 is the snapshot; the pass brings a and b to copy 1
//! ```
//!
//! - Older transactions are restarted by the same rule as in vHG, and versions say the same.
//! - The pass begins when they have ended, and is over before the next trigger. It brings across the rows
//!   that were written in the period of the snapshot and have not been written again, each under its lock: so
//!   a transaction waits for one row to be copied, not for the pass.
//! - A transaction never looks where a row is: the copy of the version in which it was last written has its
//!   newest content, whether or not the pass has brought it across.
//!
//! Two copies of the data and nothing else a row but its lock; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::locks::{Locks, Version};
use crate::transaction::pairs::Pairs;
use crate::transaction::periods::{Period, Periods};

/// Swaps two copies between transactions, and shows all rows.
pub struct VirtualPiggyback {
    shape: Shape,
    copies: Pairs,
    /// Rows may be behind: from the trigger until the pass has ended. The snapshotter's own.
    behind: AtomicBool,
}

impl VirtualPiggyback {
    /// The pass: brings across the rows that are behind.
    fn bring_all_across(&self, periods: &Periods, locks: &Locks) {
        if !self.behind.load(Ordering::Relaxed) {
            return;
        }
        let shown = periods.before();
        for row in (0..self.shape.rows).filter(|row| locks.version(*row) == shown) {
            let held = locks.hold(row);
            // A transaction of the later period may have written the whole row meanwhile.
            if held.version() == shown {
                self.copies.bring_across(row, shown);
            }
        }
        self.behind.store(false, Ordering::Relaxed);
    }
}

impl VirtualAlgorithm for VirtualPiggyback {
    const NAME: &'static str = "vPB";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<VirtualPiggyback, SnapshotError> {
        Ok(VirtualPiggyback { shape, copies: Pairs::new(shape)?, behind: AtomicBool::new(false) })
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
        self.behind.store(true, Ordering::Relaxed);
        periods.advance();
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
    }

    /// Brings all rows across before it shows one: to show them may take as long as the disk does.
    fn traverse(&self, periods: &Periods, locks: &Locks, visit: Visit<'_>) -> ControlFlow<()> {
        self.bring_all_across(periods, locks);
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies.read(row, periods.before(), &mut fields);
            visit(row, &fields)
        })
    }

    fn finish(&self, periods: &Periods, locks: &Locks) {
        self.bring_all_across(periods, locks);
    }
}
