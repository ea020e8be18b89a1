//! The store: records that any number of threads write while scans read.
//!
//! **The cut.** A scan sees the writes with earlier timestamps than its own. A writer draws its timestamp
//! with all its latches held, so a scan that began later waits for them wherever it meets them, in the table
//! and in the index, and finds all of a write or batch. A writer that draws later than a scan sees that the
//! scan runs (`clock.rs`), and keeps the versions that it replaces.
//!
//! **Order of latches.** Buckets, by number; the index; one shard of the garbage. The lock of the clock is
//! taken with no latch held. A scan holds one latch at a time.

use super::batch::Batch;
use super::keep::Keep;
use super::parts::Parts;
use super::scan::Scan;
use crate::records::{Kept, Records};
use crate::shape::Shape;
use crate::vls::StoreError;
use crate::vls::parts::Change;
use crate::vls::table::find;

/// Records of a key and a row of 8-byte fields, with any number of scans at once.
pub struct Store<K: Keep>(pub(crate) Parts<K>);

impl<K: Keep> Store<K> {
    /// An empty store for about `shape.rows` rows, with an index over `indexed_field` if one is named.
    pub fn new(shape: Shape, indexed_field: Option<usize>) -> Result<Store<K>, StoreError> {
        Ok(Store(Parts::new(shape, indexed_field)?))
    }
}

impl<K: Keep> Records for Store<K> {
    type Scan<'s> = Scan<'s, K>;
    type Batch<'s> = Batch<'s, K>;

    fn read(&self, key: u64, row: &mut [u64]) -> Result<bool, StoreError> {
        self.0.check_length(row.len())?;
        let bucket = self.0.table.latch_key(key);
        let found = find(&bucket, key).and_then(|at| bucket[at].row.as_deref());
        found.inspect(|own| row.copy_from_slice(own));
        Ok(found.is_some())
    }

    fn write(&self, key: u64, row: &[u64]) -> Result<bool, StoreError> {
        self.0.check_length(row.len())?;
        Ok(self.0.change(key, &Change::Row(row)))
    }

    fn write_field(&self, key: u64, field: usize, value: u64) -> Result<bool, StoreError> {
        if field >= self.0.shape.fields {
            return Err(StoreError::Fields { fields: self.0.shape.fields, given: field });
        }
        Ok(self.0.change(key, &Change::Field(field, value)))
    }

    fn remove(&self, key: u64) -> bool {
        self.0.change(key, &Change::Remove)
    }

    fn batch(&self, keys: &[u64]) -> Batch<'_, K> {
        Batch::open(&self.0, keys)
    }

    fn scan(&self) -> Result<Scan<'_, K>, StoreError> {
        Ok(Scan::full(&self.0))
    }

    fn index_scan(&self, least: u64, most: u64) -> Result<Scan<'_, K>, StoreError> {
        Scan::by_index(&self.0, least, most)
    }

    fn kept(&self) -> Kept {
        self.0.kept()
    }

    fn kept_pointers(&self) -> usize {
        self.0.kept_pointers()
    }

    /// Frees what a writer has kept for a scan that ended at the same time.
    fn settle(&self) {
        self.0.collect(self.0.clock.horizon());
    }
}
