//! Reads a view by its indexes: pointers in order, and the entries of keys in any order.

use std::sync::Arc;

use super::register::Cancelled;
use super::walk::View;
use crate::index::{Direction, Index, IndexRange, IndexScan, Pointer};
use crate::table::latch::Ordering;
use crate::table::{Entry, KeyHash};

/// Keys whose entries are brought into the processor's cache side by side.
pub(super) const KEYS_FETCHED: usize = 16;

impl View {
    /// An index of a database that the view reads; `None` if there was none of that name when the view was
    /// opened, if it was not ready, or if the view reads no indexes.
    pub fn index(&self, db: u8, name: &str) -> Option<&Arc<Index>> {
        let found = self.opened.indexes.iter().find(|(of_db, index)| *of_db == db && index.name() == name);
        found.map(|(_, index)| index)
    }

    /// Begins to read a range of an index; `None` as for `index`.
    pub fn scan_index(
        &self,
        db: u8,
        name: &str,
        range: &IndexRange,
        direction: Direction,
    ) -> Option<IndexScan> {
        self.index(db, name).map(|index| IndexScan::new(index.clone(), db, range, direction))
    }

    /// The next pointers of a scan as of the cut, `most` or less; none at the end. Nobody waits longer than
    /// for one such call.
    ///
    /// REQUIRES: the scan was begun by this view.
    pub fn next_pointers(&self, scan: &mut IndexScan, most: usize) -> Result<Vec<Pointer>, Cancelled> {
        let pointers = scan.next(self.cut(), most);
        self.check()?;
        Ok(pointers)
    }

    /// How many pointers are left in a scan.
    pub fn count_pointers(&self, mut scan: IndexScan) -> Result<usize, Cancelled> {
        let mut count = 0;
        loop {
            match self.next_pointers(&mut scan, usize::MAX)?.len() {
                0 => return Ok(count),
                more => count += more,
            }
        }
    }

    /// Hands the entries of these keys as of the cut to `visit`, in their order, each with its place among
    /// them; keys that were not there are passed over. `reach` is how many bytes of each are read, about, as
    /// in [`Visitor::reach`](crate::Visitor::reach). For pinned views. Returns how many of them had been
    /// changed since, and were kept. If it was cancelled, what was handed over counts for nothing.
    ///
    /// `visit` is called under a latch: it must be quick, must not wait, and must not call the store.
    pub fn read_keys(
        &self,
        db: u8,
        keys: &[&[u8]],
        reach: usize,
        mut visit: impl FnMut(usize, &Entry),
    ) -> Result<usize, Cancelled> {
        debug_assert!(self.opened.options.pinned, "only a pinned view keeps what was read");
        let (table, reader) = (self.table(db), self.opened.reader());
        let mut kept = 0;
        for (part, keys) in keys.chunks(KEYS_FETCHED).enumerate() {
            table.fetch_lines(keys.iter().map(|key| KeyHash::of(key)), reach);
            for (place, key) in keys.iter().enumerate() {
                table.visit_key(key, reader, |entry, is_kept| {
                    kept += usize::from(is_kept);
                    visit(part * KEYS_FETCHED + place, entry);
                });
            }
            self.check()?;
        }
        Ok(kept)
    }

    /// Whether what was read before may count.
    fn check(&self) -> Result<(), Cancelled> {
        // Acquire, behind a latch or a lock: if a writer had not kept what was read, this is set already.
        match self.opened.cancelled.load(Ordering::Acquire) {
            true => Err(Cancelled(self.opened.options.purpose)),
            false => Ok(()),
        }
    }
}
