//! Two copies, an upper and a lower one, with flags that say which has the newest content of a row: those of
//! Piggyback.
//!
//! ```text
//!   upper  a  b' .  d     takes the writes of this period
//!   flag   0  1  0  0     1: written in this period
//!   lower  a  b  c  d     the snapshot: whole, and still
//!   flag   0  0  1  0     1: behind, written in the last period; 2: claimed; 0: the upper copy has it
//! ```
//!
//! A copy's flags say what was written to it while it was the upper one. So a swap turns "written" into
//! "still in the lower copy" for all rows at once. The code calls such a row *behind*.
//!
//! - A thread that brings a row across, from the lower to the upper copy, claims it first. Another thread
//!   that needs the row waits for that one copy, never for the pass.
//! - While no row is behind (`behind` is false), nobody reads the lower copy's flags.
//! - Which copy is the upper one is the caller's to know: 0 or 1.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::flags::Flags;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::yield_now;

/// The copies are alike, according to this flag.
const ALIKE: u8 = 0;
/// Written while this copy was the upper one.
const WRITTEN: u8 = 1;
/// Somebody brings the row across.
const CLAIMED: u8 = 2;

pub(crate) struct Pair {
    shape: Shape,
    copies: [Rows; 2],
    flags: [Flags; 2],
    /// True while rows may be behind: from a swap until the pass has ended.
    behind: AtomicBool,
}

impl Pair {
    pub(crate) fn new(shape: Shape) -> Result<Pair, SnapshotError> {
        Ok(Pair {
            shape,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            flags: [Flags::new(shape)?, Flags::new(shape)?],
            behind: AtomicBool::new(false),
        })
    }

    /// Swaps the copies: rows that were written are behind from now on.
    pub(crate) fn swapped(&self) {
        // The end of the taken phase orders it.
        self.behind.store(true, Ordering::Relaxed);
    }

    /// True if the row's newest content is still in the lower copy.
    #[inline]
    fn is_behind(&self, row: usize, upper: usize) -> bool {
        // Acquire: pairs with the Release of the thread that brought the row, or all rows, across.
        self.behind.load(Ordering::Acquire) && self.flags[upper ^ 1].get(row, Ordering::Acquire) != ALIKE
    }

    /// The copy with the newest content. Rows that are behind or claimed are still complete in the lower
    /// copy.
    #[inline]
    pub(crate) fn newest(&self, row: usize, upper: usize) -> &Rows {
        &self.copies[upper ^ usize::from(self.is_behind(row, upper))]
    }

    /// Has `bring` copy the row to the upper copy, unless somebody else has claimed it. Says whether it did.
    ///
    /// The claim decides which thread copies, and orders nothing. The copied content was written in the last
    /// period, and the taken phase has ordered it.
    fn bring_across(&self, row: usize, upper: usize, bring: impl FnOnce(&Rows)) -> bool {
        let behind = &self.flags[upper ^ 1];
        let claimed = behind.swing(row, WRITTEN, CLAIMED);
        if claimed {
            bring(&self.copies[upper]);
            // Release: pairs with the Acquire in `is_behind`.
            behind.put(row, ALIKE, Ordering::Release);
        }
        claimed
    }

    /// Has `write` change the row in the upper copy, with `whole` or all of its newest content in it.
    #[inline]
    pub(crate) fn change(&self, row: usize, upper: usize, whole: bool, write: impl FnOnce(&Rows)) {
        while self.is_behind(row, upper) {
            let bring = |to: &Rows| {
                if !whole {
                    to.copy_row(row, &self.copies[upper ^ 1]);
                }
            };
            if !self.bring_across(row, upper, bring) {
                // The pass copies this row at this moment.
                yield_now();
            }
        }
        self.flags[upper].put(row, WRITTEN, Ordering::Relaxed);
        write(&self.copies[upper]);
    }

    /// Brings all rows across, and then shows those of the lower copy. These are two passes, because showing
    /// rows may take as long as the disk does, and while rows are behind each write has to check for them.
    pub(crate) fn traverse(&self, upper: usize, visit: Visit<'_>) -> ControlFlow<()> {
        self.finish(upper);
        self.show(upper, visit)
    }

    /// Shows all rows of the lower copy.
    pub(crate) fn show(&self, upper: usize, visit: Visit<'_>) -> ControlFlow<()> {
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies[upper ^ 1].read(row, &mut fields);
            visit(row, &fields)
        })
    }

    /// Brings across all rows that are behind.
    pub(crate) fn finish(&self, upper: usize) {
        if !self.behind.load(Ordering::Relaxed) {
            return;
        }
        for row in self.flags[upper ^ 1].set() {
            while self.is_behind(row, upper) {
                if !self.bring_across(row, upper, |to| to.copy_row(row, &self.copies[upper ^ 1])) {
                    // A client copies this row at this moment.
                    yield_now();
                }
            }
        }
        // Release: pairs with the Acquire in `is_behind`.
        self.behind.store(false, Ordering::Release);
    }
}

#[cfg(test)]
impl Pair {
    /// The published pass: it tests the flag, clears it and then copies. The copy overwrites what a client
    /// writes after the clearing. For a mutant.
    pub(crate) fn traverse_as_published(&self, upper: usize, visit: Visit<'_>) -> ControlFlow<()> {
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            self.copies[upper ^ 1].read(row, &mut fields);
            if self.flags[upper ^ 1].swing(row, WRITTEN, ALIKE) {
                yield_now();
                self.copies[upper].write(row, &fields);
            }
            visit(row, &fields)
        })
    }
}
