//! The parts of a store, which its scans and batches and the thread that resets bits share; and a change of
//! one record.

use super::error::StoreError;
use super::index::{Index, Pointers};
use super::keep::Keep;
use super::mask::Mask;
use super::remset::Remset;
use super::scans::Scans;
use super::table::{Bucket, Record, Table, find};
use super::view::View;
use crate::shape::Shape;
use crate::sync::MutexGuard;

/// The parts of a store.
pub(crate) struct Parts<M: Mask> {
    pub(crate) fields: usize,
    pub(crate) keep: Keep,
    pub(crate) table: Table<Record<M>>,
    pub(crate) index: Option<Index<M>>,
    pub(crate) remset: Remset<M>,
    pub(crate) scans: Scans<M>,
}

/// The change of a key.
pub(crate) enum Change<'c> {
    Row(&'c [u64]),
    Field(usize, u64),
    Remove,
}

impl Change<'_> {
    /// To a new row, or to none.
    pub(crate) fn of(row: Option<&[u64]>) -> Change<'_> {
        row.map_or(Change::Remove, Change::Row)
    }
}

impl<M: Mask> Parts<M> {
    /// The parts of an empty store for about `shape.rows` rows, with an index over `indexed_field` if one is
    /// named.
    pub(crate) fn new(
        shape: Shape,
        indexed_field: Option<usize>,
        keep: Keep,
    ) -> Result<Parts<M>, StoreError> {
        if let Some(given) = indexed_field.filter(|field| *field >= shape.fields) {
            return Err(StoreError::Fields { fields: shape.fields, given });
        }
        Ok(Parts {
            fields: shape.fields,
            keep,
            table: Table::new(shape)?,
            index: indexed_field.map(Index::new),
            remset: Remset::new(keep, shape.row_bytes()),
            scans: Scans::new(),
        })
    }

    pub(crate) fn check_length(&self, given: usize) -> Result<(), StoreError> {
        if given == self.fields { Ok(()) } else { Err(StoreError::Fields { fields: self.fields, given }) }
    }

    /// The masks by which a writer goes that holds all its latches.
    pub(crate) fn view(&self) -> View<M> {
        if self.keep == Keep::Nothing { View::IDLE } else { self.scans.view() }
    }

    /// Changes one record.
    pub(crate) fn change(&self, key: u64, change: &Change<'_>) -> bool {
        let mut bucket = self.table.latch_key(key);
        let mut pointers = self.latch_index(self.moves_pointer(&bucket, key, change));
        let view = self.view();
        self.apply(&view, &mut bucket, pointers.as_deref_mut(), key, change)
    }

    /// True if the change inserts or removes a pointer of the index.
    pub(crate) fn moves_pointer(&self, bucket: &Bucket<Record<M>>, key: u64, change: &Change<'_>) -> bool {
        let Some(index) = &self.index else { return false };
        let old = find(bucket, key).map(|at| bucket[at].row[index.field]);
        match (old, change) {
            (old, Change::Row(row)) => old != Some(row[index.field]),
            (Some(old), Change::Field(field, value)) => *field == index.field && old != *value,
            (old, Change::Remove) => old.is_some(),
            (None, Change::Field(..)) => false,
        }
    }

    pub(crate) fn latch_index(&self, wanted: bool) -> Option<MutexGuard<'_, Pointers<M>>> {
        self.index.as_ref().filter(|_| wanted).map(Index::latch)
    }

    /// Does a change by the masks of `view`. True if there was a record. REQUIRES: the bucket is latched, and
    /// the index if the change moves a pointer, since before the view was read.
    pub(crate) fn apply(
        &self,
        view: &View<M>,
        bucket: &mut Bucket<Record<M>>,
        pointers: Option<&mut Pointers<M>>,
        key: u64,
        change: &Change<'_>,
    ) -> bool {
        let found = find(bucket, key);
        if let (Some(pointers), Some(index)) = (pointers, &self.index) {
            let old = found.map(|at| bucket[at].row[index.field]);
            let new = match change {
                Change::Row(row) => Some(row[index.field]),
                Change::Field(field, value) if *field == index.field => old.map(|_| *value),
                Change::Field(..) => old,
                Change::Remove => None,
            };
            if old != new {
                old.inspect(|value| pointers.remove((*value, key), view));
                new.inspect(|value| pointers.insert((*value, key), view));
            }
        }
        match (found, change) {
            (None, Change::Row(row)) => {
                bucket.push(Record { key, status: view.status_mask_upd(), row: (*row).into() });
            }
            (None, _) => {}
            (Some(at), Change::Remove) => {
                let record = bucket.swap_remove(at);
                let unread = view.remset_mask_ins(record.status);
                if unread != M::ONES {
                    self.remset.add(key, record.row, unread);
                }
            }
            (Some(at), change) => self.overwrite(view, &mut bucket[at], change),
        }
        found.is_some()
    }

    fn overwrite(&self, view: &View<M>, record: &mut Record<M>, change: &Change<'_>) {
        let unread = view.remset_mask_ins(record.status);
        if unread != M::ONES {
            let row = match change {
                Change::Row(row) => (*row).into(),
                _ => record.row.clone(),
            };
            let old = std::mem::replace(&mut record.row, row);
            self.remset.add(record.key, old, unread);
            record.status = view.status_mask_upd();
        }
        match change {
            // A row that was kept has been replaced above.
            Change::Row(row) if unread == M::ONES => record.row.copy_from_slice(row),
            Change::Field(field, value) => record.row[*field] = *value,
            _ => {}
        }
    }
}
