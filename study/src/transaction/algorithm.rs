//! The trait of a virtual algorithm: it reads, installs the writes of transactions, and separates the
//! transactions that a snapshot has from those that it lacks.

use std::ops::ControlFlow;

use crate::algorithm::Visit;
use crate::error::SnapshotError;
use crate::shape::Shape;
use crate::transaction::locks::{Locks, Meeting, Newest, Version};
use crate::transaction::periods::{Period, Periods};

/// A virtual algorithm with the rows that it keeps.
///
/// The callers guarantee the following, and [`crate::transaction::Store`] ensures it. A reader of a row holds
/// its lock, a writer holds it exclusively. A transaction installs its writes while it holds all its locks
/// and before its period is recorded as ended; with a lock it leaves its version. One thread calls in this
/// order, repeatedly: [`Self::take`], [`Self::settle`], any number of [`Self::traverse`], [`Self::finish`] or
/// [`Self::abandon`].
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

    /// The version that a transaction belongs to, which began in `began` and commits, or could by now, in
    /// `committed`. Snapshot `v`, counted from 0, has the transactions of the versions 0 to `v`.
    fn version(began: Period, committed: Period) -> Version {
        let _ = committed;
        began.number()
    }

    /// True if a transaction has to be restarted at such a row, as one of the later version.
    ///
    /// A snapshot that has the transactions of the earlier versions must have no transaction that follows one
    /// of the later version: one that overwrote or read what it wrote, or overwrote what it read.
    fn must_restart(meeting: Meeting) -> bool {
        meeting.written || meeting.read && meeting.to_write
    }

    /// Has the processor fetch what [`VirtualAlgorithm::read`] may read of a row, while it fetches the lock.
    fn fetch(&self, row: usize);

    /// Reads the newest content of a row.
    fn read(&self, row: usize, newest: Newest, fields: &mut [u64]);

    /// A transaction that began in `began` has locked a row and is going to write it, unless it aborts.
    fn before_write(&self, began: Period, row: usize) {
        let _ = (began, row);
    }

    /// Writes a row, in a transaction that began in `began` and commits in `committed`. Says which copy
    /// has the newest content from now on.
    fn install(&self, began: Period, committed: Period, row: usize, newest: Newest, fields: &[u64]) -> usize;

    /// The taken phase: from here on it is decided of each transaction whether the snapshot has it.
    fn take(&self, periods: &Periods);

    /// Waits until all that the snapshot has is installed.
    fn settle(&self, periods: &Periods);

    /// The access phase: shows the rows of the snapshot, while transactions continue.
    fn traverse(&self, periods: &Periods, locks: &Locks, visit: Visit<'_>) -> ControlFlow<()>;

    /// Ends a snapshot that was shown completely.
    fn finish(&self, periods: &Periods, locks: &Locks);

    /// Ends a snapshot that was not shown completely: changes that only this snapshot has go to the next one.
    fn abandon(&self, periods: &Periods, locks: &Locks) {
        self.finish(periods, locks);
    }
}
