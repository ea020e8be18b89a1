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
//! - Older transactions are restarted by the same rule as in vHG.
//! - The pass begins when they have ended, and is over before the next trigger. So an older transaction meets
//!   no row that is behind in its copy, and none that is claimed.
//! - The pass takes no row locks; the flags of `pair.rs` say which thread may write and which may copy.
//!
//! Two copies of the data and two bytes a row; the taken phase is O(1).

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::pair::Pair;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::transaction::algorithm::VirtualAlgorithm;
use crate::transaction::periods::{Period, Periods};

/// Swaps two copies between transactions, and shows all rows.
pub struct VirtualPiggyback {
    copies: Pair,
    /// The copy of the period that is now. The snapshotter's own.
    upper: AtomicUsize,
}

impl VirtualPiggyback {
    fn upper(&self) -> usize {
        self.upper.load(Ordering::Relaxed)
    }
}

impl VirtualAlgorithm for VirtualPiggyback {
    const NAME: &'static str = "vPB";
    const FULL: bool = true;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<VirtualPiggyback, SnapshotError> {
        Ok(VirtualPiggyback { copies: Pair::new(shape)?, upper: AtomicUsize::new(0) })
    }

    fn read(&self, began: Period, row: usize, fields: &mut [u64]) {
        self.copies.newest(row, began.half()).read(row, fields);
    }

    fn install(&self, began: Period, _: Period, row: usize, fields: &[u64]) {
        self.copies.change(row, began.half(), true, |rows| rows.write(row, fields));
    }

    fn take(&self, periods: &Periods) {
        // Before the period begins: its transactions find rows behind.
        self.copies.swapped();
        self.upper.fetch_xor(1, Ordering::Relaxed);
        periods.advance();
    }

    fn settle(&self, periods: &Periods) {
        periods.drain();
    }

    fn traverse(&self, visit: Visit<'_>) -> ControlFlow<()> {
        self.copies.traverse(self.upper(), visit)
    }

    fn finish(&self, _: &Periods) {
        self.copies.finish(self.upper());
    }
}
