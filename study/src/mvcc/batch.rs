//! Several records read and written as one.

use super::keep::Keep;
use super::parts::Parts;
use super::record::Record;
use crate::records::RecordBatch;
use crate::sync::MutexGuard;
use crate::vls::StoreError;
use crate::vls::parts::Change;
use crate::vls::table::{Bucket, find};

/// Reads and writes of several keys with one timestamp. Other writers of these keys wait, and so do scans
/// that reach them: keep it short. If it is dropped without a commit, it has changed nothing.
pub struct Batch<'s, K: Keep> {
    parts: &'s Parts<K>,
    /// Sorted.
    keys: Box<[u64]>,
    /// Those of the keys, latched, by number.
    buckets: Vec<(usize, MutexGuard<'s, Bucket<Record>>)>,
    /// The new rows of the keys; `None` removes.
    changes: Vec<(u64, Option<Box<[u64]>>)>,
}

impl<'s, K: Keep> Batch<'s, K> {
    pub(crate) fn open(parts: &'s Parts<K>, keys: &[u64]) -> Batch<'s, K> {
        let mut keys: Box<[u64]> = keys.into();
        keys.sort_unstable();
        let mut numbers: Vec<usize> = keys.iter().map(|key| parts.table.bucket_of(*key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let buckets = numbers.into_iter().map(|number| (number, parts.table.latch(number))).collect();
        Batch { parts, keys, buckets, changes: Vec::new() }
    }

    fn note(&mut self, key: u64, row: Option<Box<[u64]>>) -> Result<(), StoreError> {
        self.place(key)?;
        match self.changes.iter_mut().find(|(changed, _)| *changed == key) {
            Some(change) => change.1 = row,
            None => self.changes.push((key, row)),
        }
        Ok(())
    }

    /// The place of a key's bucket among those that are latched.
    fn place(&self, key: u64) -> Result<usize, StoreError> {
        let opened = self.keys.binary_search(&key).is_ok();
        let number = self.parts.table.bucket_of(key);
        let latched = self.buckets.binary_search_by_key(&number, |(number, _)| *number).ok();
        latched.filter(|_| opened).ok_or(StoreError::NotLatched { key })
    }
}

impl<K: Keep> RecordBatch for Batch<'_, K> {
    fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError> {
        let place = self.place(key)?;
        if let Some((_, row)) = self.changes.iter().find(|(changed, _)| *changed == key) {
            return Ok(row.as_deref());
        }
        let bucket = &self.buckets[place].1;
        Ok(find(bucket, key).and_then(|at| bucket[at].row.as_deref()))
    }

    fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError> {
        self.parts.check_length(row.len())?;
        self.note(key, Some(row.into()))
    }

    fn remove(&mut self, key: u64) -> Result<(), StoreError> {
        self.note(key, None)
    }

    fn commit(mut self) {
        let changes = std::mem::take(&mut self.changes);
        let changes: Vec<(usize, u64, Change<'_>)> = changes
            .iter()
            .filter_map(|(key, row)| {
                let change = row.as_deref().map_or(Change::Remove, Change::Row);
                // `note` has looked.
                Some((self.place(*key).ok()?, *key, change))
            })
            .collect();
        let moves = |(place, key, change): &(usize, u64, Change<'_>)| {
            self.parts.moves_pointer(&self.buckets[*place].1, *key, change)
        };
        let mut pointers = self.parts.latch_index(changes.iter().any(moves));
        let moment = self.parts.moment();
        for (place, key, change) in &changes {
            let (number, bucket) = &mut self.buckets[*place];
            self.parts.apply(moment, *number, bucket, pointers.as_deref_mut(), *key, change);
        }
    }
}
