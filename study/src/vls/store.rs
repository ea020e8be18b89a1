//! The store: records that any number of threads write while scans read.
//!
//! ```text
//!   writer   latch buckets, in order ─ latch the index, if it changes ─ read the masks ─ change records,
//!            remset and index by them ─ unlatch
//!   scan     begin ┈ latch one bucket or the index, for some records ┈ … ┈ latch one shard of the remset ┈ …
//! ```
//!
//! **The cut.** A scan sees the writes of those writers that had read the masks before it began. A writer
//! reads the masks once, with all its latches held. So a scan sees all of a write or batch or nothing:
//!
//! - A writer whose masks lack the scan had its latches when the scan began. The scan waits for them wherever
//!   it meets them, and then finds the new content as the stable one, in records and in the index.
//! - A writer whose masks have the scan keeps the versions that it replaces for the scan.
//! - Of two writers that access the same record the later reads the masks after the earlier. So a scan sees a
//!   prefix of the order in which writers met.
//!
//! **Order of latches.** Buckets, by number; the index; one shard of the remset. The lock of the scans' bits
//! is taken with no latch held. A scan holds one latch at a time, and calls no code of its user while it
//! does.

use super::batch::Batch;
use super::error::StoreError;
use super::keep::Keep;
use super::mask::Mask;
use super::parts::{Change, Parts};
use super::reset::Resetter;
use super::scan::Scan;
use super::table::find;
use crate::records::{Kept, RecordBatch, RecordScan, Records};
use crate::shape::Shape;
use crate::sync::Arc;

/// Records of a key and a row of 8-byte fields, with at most [`Mask::BITS`] scans of `M` at once.
pub struct Store<M: Mask> {
    parts: Arc<Parts<M>>,
    _resetter: Resetter<M>,
}

impl<M: Mask> Store<M> {
    /// An empty store for about `shape.rows` rows, with an index over `indexed_field` if one is named.
    pub fn new(shape: Shape, indexed_field: Option<usize>, keep: Keep) -> Result<Store<M>, StoreError> {
        let parts = Arc::new(Parts::new(shape, indexed_field, keep)?);
        let _resetter = Resetter::start(&parts)?;
        Ok(Store { parts, _resetter })
    }

    /// Reads a record's newest row; false if there is none.
    pub fn read(&self, key: u64, row: &mut [u64]) -> Result<bool, StoreError> {
        self.parts.check_length(row.len())?;
        let bucket = self.parts.table.latch_key(key);
        let found = find(&bucket, key);
        if let Some(at) = found {
            row.copy_from_slice(&bucket[at].row);
        }
        Ok(found.is_some())
    }

    /// Inserts a record or replaces its row; true if there was one.
    pub fn write(&self, key: u64, row: &[u64]) -> Result<bool, StoreError> {
        self.parts.check_length(row.len())?;
        Ok(self.parts.change(key, &Change::Row(row)))
    }

    /// Writes a field of a record; the others stay. False if there is no record.
    pub fn write_field(&self, key: u64, field: usize, value: u64) -> Result<bool, StoreError> {
        if field >= self.parts.fields {
            return Err(StoreError::Fields { fields: self.parts.fields, given: field });
        }
        Ok(self.parts.change(key, &Change::Field(field, value)))
    }

    /// Removes a record; true if there was one.
    pub fn remove(&self, key: u64) -> bool {
        self.parts.change(key, &Change::Remove)
    }

    /// Opens a batch: reads and writes of these keys that scans see all or nothing of. Waits for others that
    /// hold one of the keys; a thread that holds a batch opens no other one and reads no scan.
    pub fn batch(&self, keys: &[u64]) -> Batch<'_, M> {
        Batch::open(&self.parts, keys)
    }

    /// Begins a scan of all records as they are now.
    pub fn scan(&self) -> Result<Scan<'_, M>, StoreError> {
        Scan::full(&self.parts)
    }

    /// Begins a scan of the records whose indexed field is now between `least` and `most`, both included.
    pub fn index_scan(&self, least: u64, most: u64) -> Result<Scan<'_, M>, StoreError> {
        Scan::by_index(&self.parts, least, most)
    }

    /// The memory that is kept for scans.
    pub fn remset_size(&self) -> Kept {
        self.parts.remset.size()
    }

    /// Pointers of the index that are kept for scans only.
    pub fn postponed_pointers(&self) -> usize {
        self.parts.index.as_ref().map_or(0, |index| index.latch().postponed)
    }

    /// Waits until the bits of all scans that have ended are free for other ones.
    pub fn wait_until_reset(&self) {
        self.parts.scans.wait_until_reset();
    }

    /// Does the work of the resetter's thread, which models do not have.
    #[cfg(loom)]
    pub fn reset_ended(&self) {
        let (bits, stable) = self.parts.scans.take_ended();
        if bits != M::ZEROS {
            self.parts.reset(bits, stable);
        }
    }
}

impl<M: Mask> Records for Store<M> {
    type Scan<'s> = Scan<'s, M>;
    type Batch<'s> = Batch<'s, M>;

    fn read(&self, key: u64, row: &mut [u64]) -> Result<bool, StoreError> {
        self.read(key, row)
    }

    fn write(&self, key: u64, row: &[u64]) -> Result<bool, StoreError> {
        self.write(key, row)
    }

    fn write_field(&self, key: u64, field: usize, value: u64) -> Result<bool, StoreError> {
        self.write_field(key, field, value)
    }

    fn remove(&self, key: u64) -> bool {
        self.remove(key)
    }

    fn batch(&self, keys: &[u64]) -> Batch<'_, M> {
        self.batch(keys)
    }

    fn scan(&self) -> Result<Scan<'_, M>, StoreError> {
        self.scan()
    }

    fn index_scan(&self, least: u64, most: u64) -> Result<Scan<'_, M>, StoreError> {
        self.index_scan(least, most)
    }

    fn kept(&self) -> Kept {
        self.remset_size()
    }

    fn kept_pointers(&self) -> usize {
        self.postponed_pointers()
    }

    fn settle(&self) {
        #[cfg(loom)]
        self.reset_ended();
        #[cfg(not(loom))]
        self.wait_until_reset();
    }
}

impl<M: Mask> RecordScan for Scan<'_, M> {
    fn next_row(&mut self) -> Option<(u64, &[u64])> {
        self.next_row()
    }
}

impl<M: Mask> RecordBatch for Batch<'_, M> {
    fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError> {
        self.read(key)
    }

    fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError> {
        self.write(key, row)
    }

    fn remove(&mut self, key: u64) -> Result<(), StoreError> {
        self.remove(key)
    }

    fn commit(self) {
        self.commit();
    }
}
