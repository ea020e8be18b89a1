//! The trait of a virtual algorithm: it reads, installs the writes of transactions, and separates the
//! transactions that a snapshot has from those that it lacks.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::periods::{Period, Periods};

/// The state of a row that transactions of a later period have accessed before an older transaction.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// A transaction of the later period has written the row.
    pub written: bool,
    /// A transaction of the later period has read the row.
    pub read: bool,
    /// The older transaction is about to write the row; else to read it.
    pub to_write: bool,
}

/// A virtual algorithm with the rows that it keeps.
///
/// The callers guarantee the following, and [`crate::transaction::Store`] ensures it. A reader of a row holds
/// its lock, a writer holds it exclusively. A transaction installs its writes while it holds all its locks
/// and before its period is recorded as ended. One thread calls in this order, repeatedly: [`Self::take`],
/// [`Self::settle`], any number of [`Self::traverse`], [`Self::finish`] or [`Self::abandon`].
pub trait VirtualAlgorithm: Sized + Send + Sync {
    /// Its name in tables.
    const NAME: &'static str;
    /// True if each snapshot has all rows. Otherwise each snapshot but the first has the rows that changed
    /// since the one before.
    const FULL: bool;
    /// Copies of the data that it has.
    const COPIES: usize;

    /// All rows zero.
    fn new(shape: Shape) -> Result<Self, SnapshotError>;

    /// True if a transaction has to be restarted at such a row, as one of the later period.
    ///
    /// A snapshot that has the transactions of the earlier
    /// periods must have no transaction that follows one of the later period: one that overwrote or read what
    /// it wrote, or overwrote what it read.
    fn must_restart(meeting: Meeting) -> bool {
        meeting.written || meeting.read && meeting.to_write
    }

    /// Reads the newest content of a row, in a transaction that began in `began`.
    fn read(&self, began: Period, row: usize, fields: &mut [u64]);

    /// A transaction that began in `began` has locked a row and is going to write it, unless it aborts.
    fn before_write(&self, began: Period, row: usize) {
        let _ = (began, row);
    }

    /// Writes a row, in a transaction that began in `began` and commits in `committed`.
    fn install(&self, began: Period, committed: Period, row: usize, fields: &[u64]);

    /// The taken phase: from here on it is decided of each transaction whether the snapshot has it.
    fn take(&self, periods: &Periods);

    /// Waits until all that the snapshot has is installed.
    fn settle(&self, periods: &Periods);

    /// The access phase: shows the rows of the snapshot, while transactions continue.
    fn traverse(&self, visit: Visit<'_>) -> ControlFlow<()>;

    /// Ends a snapshot that was shown completely.
    fn finish(&self, periods: &Periods);

    /// Ends a snapshot that was not shown completely: changes that only this snapshot has go to the next one.
    /// `hold` locks a row for as long as its result lives.
    fn abandon<G>(&self, periods: &Periods, hold: impl Fn(usize) -> G) {
        let _ = hold;
        self.finish(periods);
    }
}
