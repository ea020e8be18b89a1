//! The records, in buckets by their keys; each bucket has a latch.
//!
//! The number of buckets never changes. So a scan that goes from bucket to bucket meets every record, and a
//! latch stands for a key whether or not there is a record. A bucket holds about four records if the expected
//! number of rows was right.

use std::sync::PoisonError;

use super::error::StoreError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::{Mutex, MutexGuard};

const RECORDS_PER_BUCKET: usize = 4;

pub(crate) struct Record<M> {
    pub(crate) key: u64,
    /// Its state for each scan, by the bit's current meaning: stable, or else changed or read.
    pub(crate) status: M,
    pub(crate) row: Box<[u64]>,
}

/// A record of a table.
pub(crate) trait Keyed {
    fn key(&self) -> u64;
}

impl<M> Keyed for Record<M> {
    fn key(&self) -> u64 {
        self.key
    }
}

pub(crate) type Bucket<R> = Vec<R>;

/// Records of VLS or of another store: the table knows their keys only.
pub(crate) struct Table<R> {
    buckets: Box<[Mutex<Bucket<R>>]>,
}

impl<R> Table<R> {
    pub(crate) fn new(shape: Shape) -> Result<Table<R>, StoreError> {
        // Of the rows; the allocator refuses the overhead of each if it must.
        memory::check(shape, 1)?;
        // Loom's models have a bucket for each record.
        let per_bucket = if cfg!(loom) { 1 } else { RECORDS_PER_BUCKET };
        // A bucket's number is found with 32 bits of the key's hash.
        let count = (shape.rows / per_bucket).max(1);
        if count > u32::MAX as usize {
            return Err(StoreError::Rows { rows: shape.rows });
        }
        Ok(Table { buckets: memory::zeros(count, shape)?.into() })
    }

    pub(crate) fn len(&self) -> usize {
        self.buckets.len()
    }

    pub(crate) fn bucket_of(&self, key: u64) -> usize {
        // The upper half of a product by the golden ratio spreads keys that follow each other.
        let hash = key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    pub(crate) fn latch(&self, bucket: usize) -> MutexGuard<'_, Bucket<R>> {
        // A thread that panics with a latch held, in a batch, has not changed anything yet.
        self.buckets[bucket].lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn latch_key(&self, key: u64) -> MutexGuard<'_, Bucket<R>> {
        self.latch(self.bucket_of(key))
    }
}

/// Where in its bucket a key's record is.
pub(crate) fn find<R: Keyed>(bucket: &Bucket<R>, key: u64) -> Option<usize> {
    bucket.iter().position(|record| record.key() == key)
}
