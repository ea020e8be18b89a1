//! A scan: all records, or those of a range of the index, as they were when it began.
//!
//! ```text
//!   full    Table  ── each bucket: stable records are copied, their bit flipped ──┐
//!   index   Index  ── some pointers, then their records likewise ─────────────────┤
//!                                                                               leave
//!                                Remset ── versions kept for it ──▶ Done ◀────────┘
//! ```
//!
//! Rows are copied under a latch and shown without one. So the consumer of the rows may take as long as it
//! likes, write to the store, or panic. A scan that is dropped early leaves as one that is complete, releases
//! the versions that it has not read, and has its bit reset in the records that it has not reached.

use std::collections::HashSet;

use super::buffer::Buffer;
use super::error::StoreError;
use super::index::{self, POINTERS_PER_LATCH};
use super::keep::Keep;
use super::mask::Mask;
use super::parts::Parts;
use super::remset;
use super::table::{Record, find};

/// Shows the records of a snapshot, each once, in no order that means anything.
pub struct Scan<'s, M: Mask> {
    parts: &'s Parts<M>,
    /// The paper's *scan mask*. No bit if no versions are kept.
    bit: M,
    /// The value of the bit in the status of a record that is stable for the scan.
    stable: M,
    at: At,
    buffer: Buffer,
    /// Keys to read in the remset: their pointers were in the range, but their records have changed. The
    /// paper's *record set*, less the keys that were read already.
    record_set: HashSet<u64>,
    by_index: bool,
}

enum At {
    /// The next bucket.
    Table(usize),
    /// The next place in the index, and the last value.
    Index(index::Place, u64),
    Remset(remset::Place),
    /// The bit is given back.
    Done,
}

impl<'s, M: Mask> Scan<'s, M> {
    pub(crate) fn full(parts: &'s Parts<M>) -> Result<Scan<'s, M>, StoreError> {
        Scan::begin(parts, At::Table(0), false)
    }

    pub(crate) fn by_index(parts: &'s Parts<M>, least: u64, most: u64) -> Result<Scan<'s, M>, StoreError> {
        if parts.index.is_none() {
            return Err(StoreError::NoIndex);
        }
        Scan::begin(parts, At::Index((least, 0), most), true)
    }

    fn begin(parts: &'s Parts<M>, at: At, by_index: bool) -> Result<Scan<'s, M>, StoreError> {
        let (bit, stable) = match parts.keep {
            Keep::Nothing => (M::ZEROS, M::ZEROS),
            _ => parts.scans.begin(by_index)?,
        };
        let (buffer, record_set) = (Buffer::default(), HashSet::new());
        Ok(Scan { parts, bit, stable, at, buffer, record_set, by_index })
    }

    /// The next record: its key and its row.
    pub fn next_row(&mut self) -> Option<(u64, &[u64])> {
        while self.buffer.is_empty() {
            self.buffer.clear();
            match self.at {
                At::Table(bucket) => self.read_bucket(bucket),
                At::Index(from, most) => self.read_pointers(from, most),
                At::Remset(_) => self.read_remset(),
                At::Done => return None,
            }
        }
        Some(self.buffer.show(self.parts.fields))
    }

    fn read_bucket(&mut self, bucket: usize) {
        if bucket == self.parts.table.len() {
            return self.leave();
        }
        for record in self.parts.table.latch(bucket).iter_mut() {
            read_record(record, self.bit, self.stable, &mut self.buffer);
        }
        self.at = At::Table(bucket + 1);
    }

    fn read_pointers(&mut self, from: index::Place, most: u64) {
        let Some(index) = &self.parts.index else { return self.leave() };
        if from.0 > most {
            return self.leave();
        }
        let mut followed = Vec::with_capacity(POINTERS_PER_LATCH);
        let mut last = None;
        let pointers = index.latch();
        for (place, pointer) in pointers.tree.range(from..=(most, u64::MAX)).take(POINTERS_PER_LATCH) {
            last = Some(*place);
            // paper: IDX_SCAN_READ
            if pointer.status & self.bit != M::ZEROS {
                continue;
            }
            if pointer.removed {
                self.record_set.insert(place.1);
            } else {
                followed.push(place.1);
            }
        }
        drop(pointers);
        for key in followed {
            self.follow(key);
        }
        match last.and_then(index::after) {
            Some(next) => self.at = At::Index(next, most),
            None => self.leave(),
        }
    }

    fn follow(&mut self, key: u64) {
        let mut bucket = self.parts.table.latch_key(key);
        let found = find(&bucket, key);
        let read =
            found.is_some_and(|at| read_record(&mut bucket[at], self.bit, self.stable, &mut self.buffer));
        if !read {
            self.record_set.insert(key);
        }
    }

    /// The records are read: writers keep nothing more for this scan.
    fn leave(&mut self) {
        if self.bit != M::ZEROS {
            self.parts.scans.leave(self.bit);
        }
        self.at = At::Remset(remset::Place::START);
    }

    fn read_remset(&mut self) {
        let Scan { parts, bit, at, buffer, record_set, by_index, .. } = self;
        let At::Remset(place) = at else { return };
        let show = |key, row: &[u64]| {
            // Without an index there are no spurious versions.
            if !*by_index || record_set.remove(&key) {
                buffer.push(key, row);
            }
        };
        if !parts.remset.read(place, *bit, show) {
            debug_assert!(
                self.record_set.is_empty() || self.bit == M::ZEROS,
                "who changed a record has kept its version"
            );
            self.end(self.by_index);
        }
    }

    /// Gives the bit back. `unread`: records were left unread.
    fn end(&mut self, unread: bool) {
        self.at = At::Done;
        if self.bit != M::ZEROS {
            if self.parts.keep == Keep::SharedToTheEnd {
                self.parts.remset.release(self.bit);
            }
            self.parts.scans.give_back(self.bit, unread);
        }
    }
}

/// Copies a record if it is stable for the scan, and marks it as read. False: the scan has read it, or it has
/// changed.
fn read_record<M: Mask>(record: &mut Record<M>, bit: M, stable: M, buffer: &mut Buffer) -> bool {
    // paper: SCAN_TABLE_READ
    let is_stable = (stable ^ record.status) & bit == M::ZEROS;
    if is_stable {
        buffer.push(record.key, &record.row);
        // paper: STATUS_MASK_SCAN_UPD
        record.status = record.status ^ bit;
    }
    is_stable
}

impl<M: Mask> Drop for Scan<'_, M> {
    fn drop(&mut self) {
        let unread = match self.at {
            At::Done => return,
            At::Remset(_) => self.by_index,
            At::Table(_) | At::Index(..) => {
                self.leave();
                true
            }
        };
        if self.bit != M::ZEROS {
            self.parts.remset.release(self.bit);
        }
        self.end(unread);
    }
}
