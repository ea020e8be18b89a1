//! Two copies of which one takes what is written in a period, with a mark for each row, while the other one
//! holds what was written in the period before: what Ping-Pong, Hourglass and its virtual form share.
//!
//! - Only clients write to the current copy and set its marks; the other one holds still.
//! - The first snapshot shows all rows: those that were never written are zero in both copies.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::{Rows, Shape};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

pub(crate) struct Halves {
    shape: Shape,
    copies: [Rows; 2],
    /// The rows that were written while their copy was the current one.
    marks: [Bits; 2],
    /// Which copy takes the writes. Changed in the taken phase only.
    current: AtomicUsize,
    /// No snapshot has been finished yet.
    first: AtomicBool,
}

impl Halves {
    pub(crate) fn new(shape: Shape) -> Result<Halves, SnapshotError> {
        Ok(Halves {
            shape,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            marks: [Bits::new(shape.rows), Bits::new(shape.rows)],
            current: AtomicUsize::new(0),
            first: AtomicBool::new(true),
        })
    }

    pub(crate) fn copy(&self, half: usize) -> &Rows {
        &self.copies[half]
    }

    /// Which copy takes the writes.
    #[inline]
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Marks a row in the current copy; says whether it was marked before.
    #[inline]
    pub(crate) fn mark(&self, row: usize) -> bool {
        let marks = &self.marks[self.current()];
        let was_marked = marks.get(row, Ordering::Relaxed);
        if !was_marked {
            marks.put_alone(row, true);
        }
        was_marked
    }

    /// Marks a row in a copy, while others may mark other rows.
    #[inline]
    pub(crate) fn mark_among_others(&self, half: usize, row: usize) {
        if !self.marks[half].get(row, Ordering::Relaxed) {
            self.marks[half].set(row, Ordering::Relaxed);
        }
    }

    /// Whether a row is marked in a copy.
    #[inline]
    pub(crate) fn is_marked(&self, half: usize, row: usize) -> bool {
        self.marks[half].get(row, Ordering::Relaxed)
    }

    /// The rows that the snapshot shows as changed.
    pub(crate) fn changed(&self) -> impl Iterator<Item = usize> {
        self.marks[self.current() ^ 1].ones()
    }

    /// Forgets which rows had changed, but not that a first snapshot has all rows.
    pub(crate) fn forget(&self) {
        self.marks[self.current() ^ 1].fill(0);
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
            self.marks[still].ones().try_for_each(&mut show)
        }
    }

    /// Forgets what was shown.
    pub(crate) fn finish(&self) {
        self.first.store(false, Ordering::Relaxed);
        self.forget();
    }

    /// Adds what was not shown to what the next snapshot shows; `moved` is told each row that now has its
    /// newest content in the current copy. REQUIRES: no turn is under way.
    pub(crate) fn abandon(&self, moved: impl Fn(usize)) {
        let current = self.current();
        let still = current ^ 1;
        for row in self.changed() {
            if !self.mark(row) {
                self.copies[current].copy_row(row, &self.copies[still]);
                moved(row);
            }
        }
        self.forget();
    }
}
