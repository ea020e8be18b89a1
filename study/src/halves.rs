//! Two copies that take turns, shared by Ping-Pong and Hourglass. One copy takes the writes
//! of a period, with a mark for each row, while the other one keeps the writes of the period before.
//!
//! - Only clients write to the current copy and set its marks; the other one holds still.
//! - The first snapshot shows all rows: those that were never written are zero in both copies.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::flags::Flags;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) struct Halves {
    shape: Shape,
    copies: [Rows; 2],
    /// The rows that were written while their copy was the current one.
    marks: [Flags; 2],
    /// The copy that takes the writes. Changed in the taken phase only.
    current: AtomicUsize,
    /// No snapshot has been finished yet.
    first: AtomicBool,
}

impl Halves {
    pub(crate) fn new(shape: Shape) -> Result<Halves, SnapshotError> {
        Ok(Halves {
            shape,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            marks: [Flags::new(shape)?, Flags::new(shape)?],
            current: AtomicUsize::new(0),
            first: AtomicBool::new(true),
        })
    }

    #[inline]
    pub(crate) fn copy(&self, half: usize) -> &Rows {
        &self.copies[half]
    }

    /// The copy that takes the writes.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Marks a row in a copy.
    #[inline]
    pub(crate) fn mark(&self, half: usize, row: usize) {
        self.marks[half].put(row, 1, Ordering::Relaxed);
    }

    /// True if a row is marked in a copy.
    #[inline]
    pub(crate) fn is_marked(&self, half: usize, row: usize) -> bool {
        // Acquire: pairs with the Release in `finish`.
        self.marks[half].get(row, Ordering::Acquire) != 0
    }

    /// The rows that the snapshot shows as changed.
    fn changed(&self) -> impl Iterator<Item = usize> {
        self.marks[self.current() ^ 1].set()
    }

    /// Lets the copies change places.
    pub(crate) fn swap(&self) {
        self.current.fetch_xor(1, Ordering::Relaxed);
    }

    /// Shows the marked rows of the copy that holds still, all of them the first time.
    pub(crate) fn traverse(&self, visit: Visit<'_>) -> ControlFlow<()> {
        let still = self.current() ^ 1;
        let mut fields = vec![0; self.shape.fields];
        let mut show = |row| {
            self.copies[still].read(row, &mut fields);
            visit(row, &fields)
        };
        if self.first.load(Ordering::Relaxed) {
            (0..self.shape.rows).try_for_each(&mut show)
        } else {
            self.marks[still].set().try_for_each(&mut show)
        }
    }

    /// Clears the marks of what was shown. Calls `settled` with each marked row before its mark is cleared.
    pub(crate) fn finish(&self, settled: impl Fn(usize)) {
        self.first.store(false, Ordering::Relaxed);
        let still = self.current() ^ 1;
        for row in self.changed() {
            settled(row);
            // Release: pairs with the Acquire in `is_marked`.
            self.marks[still].put(row, 0, Ordering::Release);
        }
    }

    /// Adds the rows that were not shown to those of the next snapshot. REQUIRES: no turn is in progress.
    pub(crate) fn abandon(&self) {
        let current = self.current();
        let still = current ^ 1;
        for row in self.changed() {
            if !self.is_marked(current, row) {
                self.mark(current, row);
                self.copies[current].copy_row(row, &self.copies[still]);
            }
        }
        // Not that a first snapshot has all rows.
        self.marks[still].clear();
    }
}
