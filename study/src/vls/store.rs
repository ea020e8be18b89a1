//! The store: records that any number of threads write while scans read.
//!
//! ```text
//!   writer   latch buckets, in order ─ latch the index, if it changes ─ read the masks ─ change records,
//!            remset and index by them ─ unlatch
//!   scan     begin ┈ latch one bucket or the index, for some records ┈ … ┈ latch one shard of the remset ┈ …
//! ```
//!
//! **The cut.** A scan sees what those writers did that had read the masks before it began. Since a writer
//! reads the masks once, with all its latches held, a scan sees all of a write or batch or nothing:
//!
//! - A writer whose masks lack the scan had its latches when the scan began. The scan waits for them wherever
//!   it meets them, and then finds the new content as the stable one, in records and in the index.
//! - A writer whose masks have the scan keeps for it what it changes.
//! - Of two writers that touch the same record the later reads the masks after the earlier. So what a scan
//!   sees is a prefix of the order in which writers met.
//!
//! **Order of latches.** Buckets, by number; the index; one shard of the remset. The lock of the scans' bits
//! is taken with no latch held. A scan holds one latch at a time and calls nobody while it does.

use crate::rows::Shape;
use crate::sync::{Arc, MutexGuard};

use super::batch::Batch;
use super::error::StoreError;
use super::index::{Index, Pointers};
use super::mask::Mask;
use super::remset::{Remset, RemsetSize};
use super::reset::Resetter;
use super::scan::Scan;
use super::scans::Scans;
use super::table::{Bucket, Record, Table, find};
use super::view::View;

/// Which old versions are kept, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// In one remset for all scans; who needs a version last frees it. The algorithm.
    Shared,
    /// In one remset for all scans; a version is freed when the scans that needed it have ended.
    SharedToTheEnd,
    /// In a remset for each scan, each with copies of its own.
    PerScan,
    /// None: scans show each record as it is when they meet it, some twice, some not at all. What the others
    /// are measured against.
    Nothing,
}

/// Records of a key and a row of 8-byte fields, with at most [`Mask::BITS`] scans of `M` at once.
pub struct Store<M: Mask> {
    parts: Arc<Parts<M>>,
    _resetter: Resetter<M>,
}

/// What the store shares with the thread that resets bits.
pub(crate) struct Parts<M: Mask> {
    pub(crate) fields: usize,
    pub(crate) keep: Keep,
    pub(crate) table: Table<M>,
    pub(crate) index: Option<Index<M>>,
    pub(crate) remset: Remset<M>,
    pub(crate) scans: Scans<M>,
}

/// What becomes of a key.
pub(crate) enum Change<'c> {
    Row(&'c [u64]),
    Field(usize, u64),
    Remove,
}

impl<M: Mask> Store<M> {
    /// An empty store for about so many rows, with an index over `indexed_field` if one is named.
    pub fn new(shape: Shape, indexed_field: Option<usize>, keep: Keep) -> Result<Store<M>, StoreError> {
        if let Some(given) = indexed_field.filter(|field| *field >= shape.fields) {
            return Err(StoreError::Fields { fields: shape.fields, given });
        }
        let parts = Arc::new(Parts {
            fields: shape.fields,
            keep,
            table: Table::new(shape)?,
            index: indexed_field.map(Index::new),
            remset: Remset::new(keep, shape.row_bytes()),
            scans: Scans::new(),
        });
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

    /// How much is being kept for scans.
    pub fn remset_size(&self) -> RemsetSize {
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

    /// Does what otherwise a thread of its own does, which models do without.
    #[cfg(loom)]
    pub fn reset_ended(&self) {
        let (bits, stable) = self.parts.scans.take_ended();
        if bits != M::ZEROS {
            self.parts.reset(bits, stable);
        }
    }
}

impl<M: Mask> Parts<M> {
    pub(crate) fn check_length(&self, given: usize) -> Result<(), StoreError> {
        if given == self.fields { Ok(()) } else { Err(StoreError::Fields { fields: self.fields, given }) }
    }

    /// The masks by which a writer goes that holds all its latches.
    pub(crate) fn view(&self) -> View<M> {
        if self.keep == Keep::Nothing { View::IDLE } else { self.scans.view() }
    }

    /// Changes one record.
    fn change(&self, key: u64, change: &Change<'_>) -> bool {
        let mut bucket = self.table.latch_key(key);
        let mut pointers = self.latch_index(self.moves_pointer(&bucket, key, change));
        let view = self.view();
        self.apply(&view, &mut bucket, pointers.as_deref_mut(), key, change)
    }

    /// Whether the change inserts or removes a pointer of the index.
    pub(crate) fn moves_pointer(&self, bucket: &Bucket<M>, key: u64, change: &Change<'_>) -> bool {
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
        bucket: &mut Bucket<M>,
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
            // What was kept was replaced above.
            Change::Row(row) if unread == M::ONES => record.row.copy_from_slice(row),
            Change::Field(field, value) => record.row[*field] = *value,
            _ => {}
        }
    }
}
