//! The keys of a batch, latched, and the new rows that it has noted for them: what batches have in common,
//! whatever the store does with the rows when they are committed.

use super::error::StoreError;
use super::table::{Bucket, Table};
use crate::sync::MutexGuard;

/// The new row of a key; `None` removes.
type NewRow = Option<Box<[u64]>>;

/// Notes of a batch. Dropped, it has changed nothing.
pub(crate) struct Draft<'s, R> {
    table: &'s Table<R>,
    /// Sorted.
    keys: Box<[u64]>,
    /// Those of the keys, latched, by number.
    pub(crate) buckets: Vec<(usize, MutexGuard<'s, Bucket<R>>)>,
    changes: Vec<(u64, NewRow)>,
}

impl<'s, R> Draft<'s, R> {
    /// Latches the buckets of the keys in the order of their numbers, which is that of all batches.
    pub(crate) fn open(table: &'s Table<R>, keys: &[u64]) -> Draft<'s, R> {
        let mut keys: Box<[u64]> = keys.into();
        keys.sort_unstable();
        let mut numbers: Vec<usize> = keys.iter().map(|key| table.bucket_of(*key)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let buckets = numbers.into_iter().map(|number| (number, table.latch(number))).collect();
        Draft { table, keys, buckets, changes: Vec::new() }
    }

    /// The place of a key's bucket among those that are latched.
    pub(crate) fn place(&self, key: u64) -> Result<usize, StoreError> {
        let opened = self.keys.binary_search(&key).is_ok();
        let number = self.table.bucket_of(key);
        let latched = self.buckets.binary_search_by_key(&number, |(number, _)| *number).ok();
        latched.filter(|_| opened).ok_or(StoreError::NotLatched { key })
    }

    /// The row that was noted for a key, or that it is to be removed; `None` if nothing was.
    pub(crate) fn noted(&self, key: u64) -> Option<Option<&[u64]>> {
        self.changes.iter().find(|(changed, _)| *changed == key).map(|(_, row)| row.as_deref())
    }

    /// Notes a key's new row; the last note counts.
    pub(crate) fn note(&mut self, key: u64, row: NewRow) -> Result<(), StoreError> {
        self.place(key)?;
        match self.changes.iter_mut().find(|(changed, _)| *changed == key) {
            Some(change) => change.1 = row,
            None => self.changes.push((key, row)),
        }
        Ok(())
    }

    /// Takes the notes out: the place of each key's bucket, the key, and its new row.
    pub(crate) fn take(&mut self) -> Vec<(usize, u64, NewRow)> {
        let changes = std::mem::take(&mut self.changes).into_iter();
        // `note` has looked.
        changes.filter_map(|(key, row)| Some((self.place(key).ok()?, key, row))).collect()
    }
}
