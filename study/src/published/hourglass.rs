//! Hourglass with the three bit arrays of the paper (algorithm 2).
//!
//! ```text
//!   upper    .  b' .  d     pU    takes the writes of this period
//!   updated  0  1  0  1     pU_b  written in this period
//!   lower    a  b  c  .     pD    holds still; the snapshot shows its rows with a bit in pD_b
//!   latest   0  1  0  1     D_br  which copy has the newest content
//! ```
//!
//! A write stores a bit of `updated`, the row, and a bit of `latest`; to store a bit is to read its word
//! first. A client owns whole words, and the snapshotter changes only the words of `pD_b`, which no client
//! looks at: so the bits need no atomic instruction.
//!
//! Departures from the paper:
//!
//! - A write of a field brings the rest of the row across first. The paper writes whole rows only.
//! - A bit of `pD_b` is cleared when the snapshot has ended, and not when its row is shown: a traversal that
//!   breaks off would lose the rows that it has shown.
//! - The paper begins with a snapshot of the initial data in progress, all bits of `pD_b` set. Here none is
//!   in progress, so they are clear, and the first snapshot shows all rows.
//!
//! Several clients. Two copies of the data and three bits a row; the taken phase is O(1); a snapshot has the
//! changed rows.

use std::ops::ControlFlow;

use crate::algorithm::{Algorithm, Visit};
use crate::bits::Bits;
use crate::error::SnapshotError;
use crate::rows::Rows;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Hourglass as published: a bit for each copy of a row, and one for where its newest content is.
pub struct PublishedHourglass {
    shape: Shape,
    copies: [Rows; 2],
    /// The rows that were written while their copy was the upper one.
    updated: [Bits; 2],
    /// The copy with the newest content. A client's own.
    latest: Bits,
    /// The copy that takes the writes. Changed in the taken phase only.
    upper: AtomicUsize,
    /// No snapshot has been finished yet.
    first: AtomicBool,
}

impl PublishedHourglass {
    #[inline]
    fn upper(&self) -> usize {
        self.upper.load(Ordering::Relaxed)
    }

    #[inline]
    fn latest(&self, row: usize) -> usize {
        usize::from(self.latest.get(row, Ordering::Relaxed))
    }

    /// Client::Write of the paper.
    #[inline]
    fn change(&self, row: usize, write: impl FnOnce(&Rows)) {
        let upper = self.upper();
        self.updated[upper].put_alone(row, true);
        write(&self.copies[upper]);
        self.latest.put_alone(row, upper == 1);
    }

    /// Shows the rows of the snapshot, all of them the first time.
    fn show(&self, visit: Visit<'_>, shown: impl Fn(usize)) -> ControlFlow<()> {
        let still = self.upper() ^ 1;
        let all = self.first.load(Ordering::Relaxed);
        let mut fields = vec![0; self.shape.fields];
        (0..self.shape.rows).try_for_each(|row| {
            if !all && !self.updated[still].get(row, Ordering::Relaxed) {
                return ControlFlow::Continue(());
            }
            shown(row);
            self.copies[still].read(row, &mut fields);
            visit(row, &fields)
        })
    }
}

impl Algorithm for PublishedHourglass {
    const NAME: &'static str = "Hourglass as published";
    const FULL: bool = false;
    const COPIES: usize = 2;

    fn new(shape: Shape) -> Result<PublishedHourglass, SnapshotError> {
        let latest = Bits::new(shape)?;
        latest.fill(u64::MAX);
        Ok(PublishedHourglass {
            shape,
            copies: [Rows::new(shape)?, Rows::new(shape)?],
            updated: [Bits::new(shape)?, Bits::new(shape)?],
            latest,
            upper: AtomicUsize::new(0),
            first: AtomicBool::new(true),
        })
    }

    #[inline]
    fn read(&self, row: usize, fields: &mut [u64]) {
        self.copies[self.latest(row)].read(row, fields);
    }

    #[inline]
    fn read_field(&self, row: usize, field: usize) -> u64 {
        self.copies[self.latest(row)].read_field(row, field)
    }

    #[inline]
    fn write(&self, row: usize, fields: &[u64]) {
        self.change(row, |rows| rows.write(row, fields));
    }

    #[inline]
    fn write_field(&self, row: usize, field: usize, value: u64) {
        let (latest, upper) = (self.latest(row), self.upper());
        self.change(row, |rows| {
            if latest != upper {
                rows.copy_row(row, &self.copies[latest]);
            }
            rows.write_field(row, field, value);
        });
    }

    fn take(&self) -> Result<(), SnapshotError> {
        self.upper.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
        Ok(self.show(visit, |_| ()))
    }

    fn finish(&self) {
        self.first.store(false, Ordering::Relaxed);
        self.updated[self.upper() ^ 1].fill(0);
    }

    fn abandon(&self) {
        let upper = self.upper();
        let still = upper ^ 1;
        let was_written = |row: &usize| self.updated[still].get(*row, Ordering::Relaxed);
        for row in (0..self.shape.rows).filter(was_written) {
            if !self.updated[upper].get(row, Ordering::Relaxed) {
                self.change(row, |rows| rows.copy_row(row, &self.copies[still]));
            }
        }
        self.updated[still].fill(0);
    }
}

/// Mutants that the judges must reject: the paper's form where ours departs from it.
#[cfg(test)]
pub(crate) mod mutants {
    use super::*;
    use crate::judge::Mutant;

    /// Writes a field to the copy that is its turn, without the rest of the row, as the authors' programs do.
    pub(crate) struct WritesAFieldAlone;

    impl Mutant for WritesAFieldAlone {
        type Of = PublishedHourglass;
        const NAME: &'static str = "published Hourglass that writes a field alone";

        fn write_field(of: &PublishedHourglass, row: usize, field: usize, value: u64) {
            of.change(row, |rows| rows.write_field(row, field, value));
        }
    }

    /// Clears the bit of a row when the row is shown. loom breaks off no traversal.
    #[cfg(not(loom))]
    pub(crate) struct ClearsAsItShows;

    #[cfg(not(loom))]
    impl Mutant for ClearsAsItShows {
        type Of = PublishedHourglass;
        const NAME: &'static str = "published Hourglass that clears as it shows";

        fn traverse(of: &PublishedHourglass, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError> {
            Ok(of.show(visit, |row| of.updated[of.upper() ^ 1].put_alone(row, false)))
        }
    }
}
