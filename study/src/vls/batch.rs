//! Several records read and written as one.

use crate::sync::Arc;

use super::draft::Draft;
use super::error::StoreError;
use super::mask::Mask;
use super::parts::{Change, Parts};
use super::table::{Record, find};

/// Reads and writes of several keys, of which a scan sees all or nothing. Other writers of these keys wait,
/// and so do scans that reach them: keep it short. If it is dropped without [`Batch::commit`], it has changed
/// nothing.
pub struct Batch<'s, M: Mask> {
    parts: &'s Parts<M>,
    draft: Draft<'s, Record<M>>,
}

impl<'s, M: Mask> Batch<'s, M> {
    pub(crate) fn open(parts: &'s Arc<Parts<M>>, keys: &[u64]) -> Batch<'s, M> {
        Batch { parts, draft: Draft::open(&parts.table, keys) }
    }

    /// A record's row, as the batch has left it.
    pub fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError> {
        let bucket = &self.draft.buckets[self.draft.place(key)?].1;
        let stored = || find(bucket, key).map(|at| &*bucket[at].row);
        Ok(self.draft.noted(key).unwrap_or_else(stored))
    }

    /// Inserts a record or replaces its row.
    pub fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError> {
        self.parts.check_length(row.len())?;
        self.draft.note(key, Some(row.into()))
    }

    /// Removes a record if there is one.
    pub fn remove(&mut self, key: u64) -> Result<(), StoreError> {
        self.draft.note(key, None)
    }

    /// Does it all.
    pub fn commit(mut self) {
        let noted = self.draft.take();
        let changes = || noted.iter().map(|(place, key, row)| (*place, *key, Change::of(row.as_deref())));
        let buckets = &mut self.draft.buckets;
        let moves =
            changes().any(|(place, key, change)| self.parts.moves_pointer(&buckets[place].1, key, &change));
        let mut pointers = self.parts.latch_index(moves);
        let view = self.parts.view();
        for (place, key, change) in changes() {
            self.parts.apply(&view, &mut buckets[place].1, pointers.as_deref_mut(), key, &change);
        }
    }
}
