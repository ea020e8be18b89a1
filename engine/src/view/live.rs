//! Reads without a cut: each entry as it is when the reader meets it, so an entry moved meanwhile is seen
//! twice or not at all. Other stores call this a scan; views are measured against it.

use std::sync::Arc;

use super::indexed::KEYS_FETCHED;
use crate::index::{Direction, IndexRange, IndexScan, Indexes, Pointer};
use crate::record::Lsn;
use crate::table::{END, Entry, KeyHash, Table, Visitor};

/// After all writes; pointers that are in force are so until after it.
const NOW: Lsn = Lsn(u64::MAX - 1);

/// A database as it is at each moment. Nothing is kept for it.
pub struct Live {
    db: u8,
    table: Arc<Table>,
    indexes: Indexes,
    /// Where the walk goes on.
    from: u64,
}

impl Live {
    pub(crate) fn new(db: u8, table: Arc<Table>, indexes: Indexes) -> Live {
        Live { db, table, indexes, from: 0 }
    }

    /// Hands the entries of the next part of the table to `visitor`; `false` at the end. `visitor`
    /// is called under a latch: it must be quick, must not wait, and must not call the store.
    pub fn step(&mut self, visitor: &mut impl Visitor) -> bool {
        if self.from == END {
            return false;
        }
        self.from = self.table.visit_now(self.from, NOW, visitor);
        true
    }

    /// Begins to read a range of an index; `None` if there is none of that name that is ready.
    pub fn scan_index(&self, name: &str, range: &IndexRange, direction: Direction) -> Option<IndexScan> {
        let index = self.indexes.iter().find(|index| index.name() == name && index.is_ready())?;
        Some(IndexScan::new(index.clone(), self.db, range, direction))
    }

    /// The next pointers of a scan, `most` or less; none at the end.
    pub fn next_pointers(&self, scan: &mut IndexScan, most: usize) -> Vec<Pointer> {
        scan.next(NOW, most)
    }

    /// Hands the entries of these keys to `visit`, as `View::read_keys`.
    pub fn read_keys(&self, keys: &[&[u8]], reach: usize, mut visit: impl FnMut(usize, &Entry)) {
        for (part, keys) in keys.chunks(KEYS_FETCHED).enumerate() {
            self.table.fetch_lines(keys.iter().map(|key| KeyHash::of(key)), reach);
            for (place, key) in keys.iter().enumerate() {
                self.table.visit_key_now(key, |entry| visit(part * KEYS_FETCHED + place, entry));
            }
        }
    }
}
