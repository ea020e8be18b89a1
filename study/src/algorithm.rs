//! The trait of an algorithm: it reads, writes, takes a snapshot and traverses it.

use std::ops::ControlFlow;

use crate::checkpoint::{CheckpointError, CheckpointWriter};
use crate::error::SnapshotError;
use crate::shape::Shape;

/// Is shown the rows of a snapshot in order, each once: its number and its fields. May break off.
pub type Visit<'v> = &'v mut dyn FnMut(usize, &[u64]) -> ControlFlow<()>;

/// An algorithm with the rows that it keeps.
///
/// REQUIRES, and [`crate::Array`] ensures: a row has one client, and no other reads or writes it. Reads and
/// writes happen in turns. [`Algorithm::take`] is called while no turn is in progress. Then one thread
/// traverses, once or, if that broke off, several times. Then it calls [`Algorithm::finish`] or
/// [`Algorithm::abandon`], before the next snapshot is taken.
pub trait Algorithm: Sized + Send + Sync {
    /// Its name in tables.
    const NAME: &'static str;
    /// True if each snapshot has all rows. Otherwise each snapshot but the first has the rows that changed
    /// since the one before.
    const FULL: bool;
    /// Copies of the data that it may come to have.
    const COPIES: usize;

    /// All rows zero.
    fn new(shape: Shape) -> Result<Self, SnapshotError>;

    /// Reads the newest content of a row.
    fn read(&self, row: usize, fields: &mut [u64]);

    /// Reads the newest content of a field.
    fn read_field(&self, row: usize, field: usize) -> u64;

    /// Writes a whole row.
    fn write(&self, row: usize, fields: &[u64]);

    /// Writes a field; the others stay.
    fn write_field(&self, row: usize, field: usize, value: u64);

    /// The taken phase: from now on the snapshot has the present content of the rows.
    fn take(&self) -> Result<(), SnapshotError>;

    /// The access phase: shows the rows of the snapshot, while clients continue.
    fn traverse(&self, visit: Visit<'_>) -> Result<ControlFlow<()>, SnapshotError>;

    /// The access phase into a file: writes the rows of the snapshot.
    fn dump(&self, to: &mut CheckpointWriter<'_>) -> Result<(), CheckpointError> {
        let mut failed = None;
        let outcome = self.traverse(&mut |row, fields| match to.put(row, fields) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        let _broken_off = outcome?;
        failed.map_or(Ok(()), Err)
    }

    /// Ends a snapshot that was shown completely.
    fn finish(&self);

    /// Ends a snapshot that was not shown completely: changes that only this snapshot has go to the next one.
    /// REQUIRES: no turn is in progress.
    fn abandon(&self) {
        self.finish();
    }
}
