//! A scan: all records, or those of a range of the index, as they were when it began.
//!
//! Rows are copied under a latch and shown without one, as those of VLS.

use super::keep::Keep;
use super::parts::Parts;
use crate::records::RecordScan;
use crate::vls::StoreError;
use crate::vls::buffer::Buffer;
use crate::vls::index::after;
use crate::vls::table::find;

/// The number of pointers that a scan reads under one latch.
const POINTERS_PER_LATCH: usize = 64;

/// Shows the records of a snapshot, each once, in no order that means anything.
pub struct Scan<'s, K: Keep> {
    parts: &'s Parts<K>,
    /// Its timestamp.
    moment: u64,
    at: At,
    buffer: Buffer,
}

enum At {
    /// The next bucket.
    Table(usize),
    /// The next pointer, and the last value.
    Index((u64, u64), u64),
    Done,
}

impl<'s, K: Keep> Scan<'s, K> {
    pub(crate) fn full(parts: &'s Parts<K>) -> Scan<'s, K> {
        Scan::begin(parts, At::Table(0))
    }

    pub(crate) fn by_index(parts: &'s Parts<K>, least: u64, most: u64) -> Result<Scan<'s, K>, StoreError> {
        if parts.index.is_none() {
            return Err(StoreError::NoIndex);
        }
        Ok(Scan::begin(parts, At::Index((least, 0), most)))
    }

    fn begin(parts: &'s Parts<K>, at: At) -> Scan<'s, K> {
        Scan { parts, moment: parts.clock.begin::<K>(), at, buffer: Buffer::default() }
    }

    fn read_bucket(&mut self, number: usize) {
        if number == self.parts.table.len() {
            return self.end();
        }
        for record in self.parts.table.latch(number).iter() {
            if let Some(row) = record.seen_by::<K>(self.moment) {
                self.buffer.push(record.key, row);
            }
        }
        self.at = At::Table(number + 1);
    }

    fn read_pointers(&mut self, from: (u64, u64), most: u64) {
        let Some(index) = self.parts.index.as_ref().filter(|_| from.0 <= most) else { return self.end() };
        let pointers: Vec<(u64, u64)> =
            index.latch().range(from..=(most, u64::MAX)).take(POINTERS_PER_LATCH).copied().collect();
        for (value, key) in &pointers {
            let bucket = self.parts.table.latch_key(*key);
            // A record has a pointer for each value of its versions; it is shown at that of the scan's.
            let row = find(&bucket, *key).and_then(|at| bucket[at].seen_by::<K>(self.moment));
            if let Some(row) = row.filter(|row| row[index.field] == *value) {
                self.buffer.push(*key, row);
            }
        }
        match pointers.last().copied().and_then(after) {
            Some(next) => self.at = At::Index(next, most),
            None => self.end(),
        }
    }

    /// Its versions are not needed any more.
    fn end(&mut self) {
        self.at = At::Done;
        if let Some(horizon) = self.parts.clock.end(self.moment) {
            self.parts.collect(horizon);
        }
    }
}

impl<K: Keep> RecordScan for Scan<'_, K> {
    fn next_row(&mut self) -> Option<(u64, &[u64])> {
        while self.buffer.is_empty() {
            self.buffer.clear();
            match self.at {
                At::Table(number) => self.read_bucket(number),
                At::Index(from, most) => self.read_pointers(from, most),
                At::Done => return None,
            }
        }
        Some(self.buffer.show(self.parts.shape.fields))
    }
}

impl<K: Keep> Drop for Scan<'_, K> {
    fn drop(&mut self) {
        if !matches!(self.at, At::Done) {
            self.end();
        }
    }
}
