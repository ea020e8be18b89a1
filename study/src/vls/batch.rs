//! Several records read and written as one.

use crate::sync::{Arc, MutexGuard};

use super::error::StoreError;
use super::mask::Mask;
use super::parts::{Change, Parts};
use super::table::{Bucket, Record, find};

/// Reads and writes of several keys, of which a scan sees all or nothing. Other writers of these keys wait,
/// and so do scans that reach them: keep it short. If it is dropped without [`Batch::commit`], it has changed
/// nothing.
pub struct Batch<'s, M: Mask> {
    parts: &'s Parts<M>,
    /// Sorted.
    keys: Box<[u64]>,
    /// Those of the keys, latched, by number.
    buckets: Vec<(usize, MutexGuard<'s, Bucket<Record<M>>>)>,
    /// The new rows of the keys; `None` removes.
    changes: Vec<(u64, Option<Box<[u64]>>)>,
}

impl<'s, M: Mask> Batch<'s, M> {
    pub(crate) fn open(parts: &'s Arc<Parts<M>>, keys: &[u64]) -> Batch<'s, M> {
        let mut keys: Box<[u64]> = keys.into();
        keys.sort_unstable();
        let mut numbers: Vec<usize> = keys.iter().map(|key| parts.table.bucket_of(*key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let buckets = numbers.into_iter().map(|number| (number, parts.table.latch(number))).collect();
        Batch { parts, keys, buckets, changes: Vec::new() }
    }

    /// A record's row, as the batch has left it.
    pub fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError> {
        let bucket = self.bucket(key)?;
        if let Some((_, row)) = self.changes.iter().find(|(changed, _)| *changed == key) {
            return Ok(row.as_deref());
        }
        let bucket = &self.buckets[bucket].1;
        Ok(find(bucket, key).map(|at| &*bucket[at].row))
    }

    /// Inserts a record or replaces its row.
    pub fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError> {
        self.parts.check_length(row.len())?;
        self.note(key, Some(row.into()))
    }

    /// Removes a record if there is one.
    pub fn remove(&mut self, key: u64) -> Result<(), StoreError> {
        self.note(key, None)
    }

    /// Does it all.
    pub fn commit(mut self) {
        let changes = std::mem::take(&mut self.changes);
        let changes: Vec<(usize, u64, Change<'_>)> = changes
            .iter()
            .filter_map(|(key, row)| {
                let change = row.as_deref().map_or(Change::Remove, Change::Row);
                // `note` has looked.
                Some((self.bucket(*key).ok()?, *key, change))
            })
            .collect();
        let moves = |(at, key, change): &(usize, u64, Change<'_>)| {
            self.parts.moves_pointer(&self.buckets[*at].1, *key, change)
        };
        let mut pointers = self.parts.latch_index(changes.iter().any(moves));
        let view = self.parts.view();
        for (at, key, change) in &changes {
            self.parts.apply(&view, &mut self.buckets[*at].1, pointers.as_deref_mut(), *key, change);
        }
    }

    fn note(&mut self, key: u64, row: Option<Box<[u64]>>) -> Result<(), StoreError> {
        self.bucket(key)?;
        match self.changes.iter_mut().find(|(changed, _)| *changed == key) {
            Some(change) => change.1 = row,
            None => self.changes.push((key, row)),
        }
        Ok(())
    }

    /// Where among the latched buckets a key's is.
    fn bucket(&self, key: u64) -> Result<usize, StoreError> {
        let opened = self.keys.binary_search(&key).is_ok();
        let number = self.parts.table.bucket_of(key);
        let latched = self.buckets.binary_search_by_key(&number, |(number, _)| *number).ok();
        latched.filter(|_| opened).ok_or(StoreError::NotLatched { key })
    }
}
