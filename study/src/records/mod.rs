//! Stores of keyed records that scans read as of an instant: what they have in common, so that one oracle
//! judges them and one experiment measures them.

#[cfg(all(test, loom))]
pub(crate) mod model;
#[cfg(all(test, not(loom)))]
pub(crate) mod steps;

use crate::vls::StoreError;

/// The memory that is kept for scans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Old versions of records.
    pub versions: usize,
    /// Bytes of their rows and of the metadata of each, without the allocator's share.
    pub bytes: usize,
}

/// Records of a key and a row of 8-byte fields, written by any number of threads. A scan shows them as they
/// were when it began, and sees all of a write or batch or nothing.
pub trait Records: Sync {
    /// A scan.
    type Scan<'s>: RecordScan + Send
    where
        Self: 's;
    /// Reads and writes of several keys.
    type Batch<'s>: RecordBatch
    where
        Self: 's;

    /// Reads a record's newest row; false if there is none.
    fn read(&self, key: u64, row: &mut [u64]) -> Result<bool, StoreError>;

    /// Inserts a record or replaces its row; true if there was one.
    fn write(&self, key: u64, row: &[u64]) -> Result<bool, StoreError>;

    /// Writes a field of a record; the others stay. False if there is no record.
    fn write_field(&self, key: u64, field: usize, value: u64) -> Result<bool, StoreError>;

    /// Removes a record; true if there was one.
    fn remove(&self, key: u64) -> bool;

    /// Opens a batch of these keys. Waits for others that hold one of the keys; a thread that holds a batch
    /// opens no other one and reads no scan.
    fn batch(&self, keys: &[u64]) -> Self::Batch<'_>;

    /// Begins a scan of all records as they are now.
    fn scan(&self) -> Result<Self::Scan<'_>, StoreError>;

    /// Begins a scan of the records whose indexed field is now between `least` and `most`, both included.
    fn index_scan(&self, least: u64, most: u64) -> Result<Self::Scan<'_>, StoreError>;

    /// The memory that is kept for scans.
    fn kept(&self) -> Kept;

    /// Pointers of the index that are kept for scans only.
    fn kept_pointers(&self) -> usize;

    /// Completes the work that scans which have ended have left: afterwards nothing is kept for them.
    fn settle(&self);
}

/// A scan; it ends when it is dropped, if not before.
pub trait RecordScan {
    /// The next record: its key and its row. Each is shown once, in no order that means anything.
    fn next_row(&mut self) -> Option<(u64, &[u64])>;
}

/// Reads and writes of several keys as one. Dropped without a commit, it has changed nothing.
pub trait RecordBatch {
    /// A record's row, as the batch has left it.
    fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError>;

    /// Inserts a record or replaces its row.
    fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError>;

    /// Removes a record if there is one.
    fn remove(&mut self, key: u64) -> Result<(), StoreError>;

    /// Does it all.
    fn commit(self);
}
