//! The parts of a store, which its scans and batches share; a change of one record; and the collection of
//! garbage.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::mem::size_of;
use std::sync::PoisonError;

use super::clock::Clock;
use super::garbage::{Ended, Garbage};
use super::keep::{Keep, Readers};
use super::record::{Record, Version};
use crate::records::Kept;
use crate::shape::Shape;
use crate::sync::atomic::Ordering;
use crate::sync::{Mutex, MutexGuard};
use crate::vls::StoreError;
use crate::vls::parts::Change;
use crate::vls::table::{Bucket, Table, find};

/// Pointers: the value of the indexed field, and the key. There is one for each value of a record's versions.
pub(crate) type Pointers = BTreeSet<(u64, u64)>;

pub(crate) struct Index {
    /// The field that it is over.
    pub(crate) field: usize,
    pointers: Mutex<Pointers>,
}

/// The parts of a store.
pub(crate) struct Parts<K> {
    pub(crate) shape: Shape,
    pub(crate) table: Table<Record>,
    pub(crate) index: Option<Index>,
    pub(crate) clock: Clock,
    garbage: Garbage,
    rule: PhantomData<K>,
}

/// The moment of a write: its timestamp, and the scans that it keeps versions for.
#[derive(Clone, Copy)]
pub(crate) struct Moment {
    write: u64,
    readers: Readers,
}

impl Index {
    pub(crate) fn latch(&self) -> MutexGuard<'_, Pointers> {
        // Nothing panics while it is held.
        self.pointers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Keep> Parts<K> {
    pub(crate) fn new(shape: Shape, indexed_field: Option<usize>) -> Result<Parts<K>, StoreError> {
        if let Some(given) = indexed_field.filter(|field| *field >= shape.fields) {
            return Err(StoreError::Fields { fields: shape.fields, given });
        }
        Ok(Parts {
            shape,
            table: Table::new(shape)?,
            index: indexed_field.map(|field| Index { field, pointers: Mutex::new(Pointers::new()) }),
            clock: Clock::new(),
            garbage: Garbage::new(),
            rule: PhantomData,
        })
    }

    pub(crate) fn check_length(&self, given: usize) -> Result<(), StoreError> {
        let fields = self.shape.fields;
        if given == fields { Ok(()) } else { Err(StoreError::Fields { fields, given }) }
    }

    /// The moment of a writer that holds all its latches.
    pub(crate) fn moment(&self) -> Moment {
        let write = self.clock.draw();
        Moment { write, readers: self.clock.readers() }
    }

    /// Changes one record.
    pub(crate) fn change(&self, key: u64, change: &Change<'_>) -> bool {
        let number = self.table.bucket_of(key);
        let early = (!K::LATCHES_FIRST).then(|| self.moment());
        let mut bucket = self.table.latch(number);
        let mut pointers = self.latch_index(self.moves_pointer(&bucket, key, change));
        let moment = early.unwrap_or_else(|| self.moment());
        self.apply(moment, number, &mut bucket, pointers.as_deref_mut(), key, change)
    }

    /// True if the change inserts or removes a pointer of the index.
    pub(crate) fn moves_pointer(&self, bucket: &Bucket<Record>, key: u64, change: &Change<'_>) -> bool {
        let Some(Index { field, .. }) = &self.index else { return false };
        let row = find(bucket, key).and_then(|at| bucket[at].row.as_ref());
        match (row.map(|row| row[*field]), change) {
            (old, Change::Row(row)) => old != Some(row[*field]),
            (Some(old), Change::Field(own, value)) => own == field && old != *value,
            (old, Change::Remove) => old.is_some(),
            (None, Change::Field(..)) => false,
        }
    }

    pub(crate) fn latch_index(&self, wanted: bool) -> Option<MutexGuard<'_, Pointers>> {
        self.index.as_ref().filter(|_| wanted).map(Index::latch)
    }

    /// Does a change. True if there was a record. REQUIRES: the bucket is latched, and the index if the
    /// change moves a pointer, since before the timestamp was drawn.
    pub(crate) fn apply(
        &self,
        Moment { write, readers }: Moment,
        number: usize,
        bucket: &mut Bucket<Record>,
        pointers: Option<&mut Pointers>,
        key: u64,
        change: &Change<'_>,
    ) -> bool {
        let found = find(bucket, key);
        let was_there = found.is_some_and(|at| bucket[at].row.is_some());
        if !was_there && !matches!(change, Change::Row(_)) {
            return false;
        }
        let at = found.unwrap_or_else(|| {
            bucket.push(Record { key, begin: write, row: None, older: Default::default() });
            bucket.len() - 1
        });
        let record = &mut bucket[at];
        let old = record.row.as_deref().zip(self.index.as_ref()).map(|(row, index)| row[index.field]);
        if was_there && K::keeps(record.begin, readers) {
            let new = match change {
                Change::Field(..) => record.row.clone(),
                _ => None,
            };
            if let Some(row) = std::mem::replace(&mut record.row, new) {
                record.older.push_back(Version { begin: record.begin, end: write, row });
                self.garbage.push(write, number);
            }
        }
        match (&mut record.row, change) {
            (Some(row), Change::Field(field, value)) => row[*field] = *value,
            (Some(row), Change::Row(new)) => row.copy_from_slice(new),
            (row, Change::Row(new)) => *row = Some((*new).into()),
            (row, _) => *row = None,
        }
        record.begin = write;
        if let (Some(pointers), Some(Index { field, .. })) = (pointers, &self.index) {
            record.row.iter().for_each(|row| _ = pointers.insert((row[*field], key)));
            if let Some(old) = old.filter(|old| !record.has_value(*field, *old)) {
                pointers.remove(&(old, key));
            }
        }
        if record.is_empty() {
            bucket.swap_remove(at);
        }
        was_there
    }

    /// Frees the versions that ended before the horizon, a bucket at a time.
    pub(crate) fn collect(&self, horizon: u64) {
        for number in self.garbage.take(|end| K::is_garbage(end, horizon)) {
            let mut bucket = self.table.latch(number as usize);
            let mut freed = Vec::new();
            for record in bucket.iter_mut() {
                let versions = record.prune::<K>(horizon);
                self.garbage.versions.fetch_sub(versions.len(), Ordering::Relaxed);
                self.remove_pointers(record, &versions);
                freed.extend(versions);
            }
            bucket.retain(|record| !record.is_empty());
            drop(bucket);
        }
    }

    /// Removes the pointers of versions that were freed and whose values the record has no more.
    fn remove_pointers(&self, record: &Record, freed: &[Version]) {
        let Some(index) = &self.index else { return };
        let newest = record.row.as_ref().map(|row| row[index.field]);
        let values = freed.iter().map(|version| version.row[index.field]);
        let mut gone: BTreeSet<u64> = values.filter(|value| Some(*value) != newest).collect();
        if !gone.is_empty() {
            record.older.iter().for_each(|version| _ = gone.remove(&version.row[index.field]));
            let mut pointers = index.latch();
            gone.into_iter().for_each(|value| _ = pointers.remove(&(value, record.key)));
        }
    }

    /// Pointers to versions that only scans can see, by a pass over all records.
    pub(crate) fn kept_pointers(&self) -> usize {
        let Some(index) = &self.index else { return 0 };
        let newest = |number| self.table.latch(number).iter().filter(|record| record.row.is_some()).count();
        let newest: usize = (0..self.table.len()).map(newest).sum();
        // Records may have gone since they were counted.
        index.latch().len().saturating_sub(newest)
    }

    pub(crate) fn kept(&self) -> Kept {
        let versions = self.garbage.versions.load(Ordering::Relaxed);
        Kept {
            versions,
            bytes: versions * (size_of::<Version>() + size_of::<Ended>() + self.shape.row_bytes()),
        }
    }
}
