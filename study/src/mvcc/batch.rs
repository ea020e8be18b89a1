//! Several records read and written as one.

use super::keep::Keep;
use super::parts::Parts;
use super::record::Record;
use crate::records::RecordBatch;
use crate::vls::StoreError;
use crate::vls::draft::Draft;
use crate::vls::parts::Change;
use crate::vls::table::find;

/// Reads and writes of several keys with one timestamp. Other writers of these keys wait, and so do scans
/// that reach them: keep it short. If it is dropped without a commit, it has changed nothing.
pub struct Batch<'s, K: Keep> {
    parts: &'s Parts<K>,
    draft: Draft<'s, Record>,
}

impl<'s, K: Keep> Batch<'s, K> {
    pub(crate) fn open(parts: &'s Parts<K>, keys: &[u64]) -> Batch<'s, K> {
        Batch { parts, draft: Draft::open(&parts.table, keys) }
    }
}

impl<K: Keep> RecordBatch for Batch<'_, K> {
    fn read(&self, key: u64) -> Result<Option<&[u64]>, StoreError> {
        let bucket = &self.draft.buckets[self.draft.place(key)?].1;
        let stored = || find(bucket, key).and_then(|at| bucket[at].row.as_deref());
        Ok(self.draft.noted(key).unwrap_or_else(stored))
    }

    fn write(&mut self, key: u64, row: &[u64]) -> Result<(), StoreError> {
        self.parts.check_length(row.len())?;
        self.draft.note(key, Some(row.into()))
    }

    fn remove(&mut self, key: u64) -> Result<(), StoreError> {
        self.draft.note(key, None)
    }

    fn commit(mut self) {
        let noted = self.draft.take();
        let changes = || noted.iter().map(|(place, key, row)| (*place, *key, Change::of(row.as_deref())));
        let buckets = &mut self.draft.buckets;
        let moves =
            changes().any(|(place, key, change)| self.parts.moves_pointer(&buckets[place].1, key, &change));
        let mut pointers = self.parts.latch_index(moves);
        let moment = self.parts.moment();
        for (place, key, change) in changes() {
            let (number, bucket) = &mut buckets[place];
            self.parts.apply(moment, *number, bucket, pointers.as_deref_mut(), key, &change);
        }
    }
}
