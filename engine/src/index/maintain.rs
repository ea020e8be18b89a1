//! Builds an index while writes go on, and maintains it under the latches of writers.

use super::pointers::{Batch, Kept, Pointer, Pointers, Purged};
use super::range::IndexRange;
use super::value::IndexValue;
use crate::lock::RwLock;
use crate::record::{Change, Lsn, Stamped};
use crate::table::latch::{AtomicBool, AtomicU64, Ordering};
use crate::table::{END, Entry, KeyRef, ScanBudget, Segment, Table};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// The function that says which part of a key belongs to an index. It is called under the latch of a
/// segment: it must be quick, must not wait, must not call the store, and must give the same answer each
/// time.
pub trait Indexed: Send + Sync {
    /// Whether what this key holds may be in the index.
    fn covers(&self, key: &[u8]) -> bool;

    /// The value that the key is found by; `None` if it is not in the index. Whether an entry is expired must
    /// not matter.
    fn value_of(&self, entry: &Entry) -> Option<IndexValue>;
}

/// The indexes of one logical database.
pub(crate) type Indexes = Arc<[Arc<Index>]>;

/// How an index is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatus {
    /// The database that it is of.
    pub db: u8,
    /// Its name.
    pub name: String,
    /// Thousandths of the table that it has been built from.
    pub progress_permille: u64,
    /// Whether views that are opened now can read it.
    pub is_ready: bool,
    /// Keys that are in it.
    pub pointers: usize,
    /// Pointers that were removed and are kept for views.
    pub removed: usize,
    /// Bytes of memory, about.
    pub bytes: usize,
    /// Bytes that it had when it was given up, as all indexes took more than they may; 0: it was not. One
    /// that was given up has no pointers, and is not ready.
    pub given_up_bytes: usize,
}

/// An index of one table. A table that takes the place of another has indexes of its own.
pub struct Index {
    name: String,
    indexed: Arc<dyn Indexed>,
    /// Taken under the latch of a segment, or alone; nothing is locked under it.
    pointers: RwLock<Pointers>,
    /// The position up to which it has been built; [`END`]: it is ready.
    built: AtomicU64,
    /// Nobody needs it to be built any more.
    dropped: AtomicBool,
    /// As in [`IndexStatus`].
    given_up_bytes: usize,
}

/// Entries that are looked at under one latch while an index is built, and a few where they have one
/// position.
const BUILD_ENTRIES: usize = 64;

impl Index {
    /// An index that is still to be built.
    pub(crate) fn new(name: &str, indexed: Arc<dyn Indexed>) -> Index {
        let (pointers, built) = (RwLock::default(), AtomicU64::new(0));
        let (name, dropped) = (name.to_owned(), AtomicBool::new(false));
        Index { name, indexed, pointers, built, dropped, given_up_bytes: 0 }
    }

    /// An index of the same definition that is still to be built.
    pub(crate) fn rebuilding(&self) -> Index {
        Index::new(&self.name, self.indexed.clone())
    }

    /// An index of the same definition, of an empty table.
    pub(crate) fn emptied(&self) -> Index {
        Index { built: AtomicU64::new(END), ..self.rebuilding() }
    }

    /// An index of the same definition that nobody builds or maintains.
    pub(crate) fn given_up(&self) -> Index {
        let given_up_bytes = self.pointers.read().bytes().max(1);
        Index { given_up_bytes, ..self.rebuilding() }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether views that are opened from now on can read it.
    pub fn is_ready(&self) -> bool {
        // Acquire: what has been seen while it was built was written before, so it has smaller `Lsn`s than
        // what is written from here on.
        self.built.load(Ordering::Acquire) == END
    }

    /// Keys that are in it now.
    pub fn len(&self) -> usize {
        self.pointers.read().len()
    }

    /// Whether no key is in it now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The smallest and the largest value now.
    pub fn bounds(&self) -> Option<(IndexValue, IndexValue)> {
        let pointers = self.pointers.read();
        Some((pointers.first()?.value(), pointers.last()?.value()))
    }

    /// How many keys have a value in `range` now, if there are less than about `most` of them; else about
    /// `most`: whether it is worth while to read the index.
    pub fn estimate(&self, range: &IndexRange, most: usize) -> usize {
        let (mut lower, upper) = (range.lower(), range.upper());
        let mut count = 0;
        while count < most {
            let (some, last) = self.pointers.read().count((&lower, &upper), most - count);
            count += some;
            match last {
                Some(last) => lower = Bound::Excluded(last),
                None => break,
            }
        }
        count
    }

    /// How it is doing.
    pub(crate) fn status(&self, db: u8) -> IndexStatus {
        let built = self.built.load(Ordering::Acquire);
        let pointers = self.pointers.read();
        IndexStatus {
            db,
            name: self.name.clone(),
            progress_permille: (u128::from(built) * 1000 / u128::from(END)) as u64,
            is_ready: built == END,
            pointers: pointers.len(),
            removed: pointers.removed(),
            bytes: pointers.bytes(),
            given_up_bytes: self.given_up_bytes,
        }
    }

    /// Ends the building of it.
    pub(crate) fn note_dropped(&self) {
        self.dropped.store(true, Ordering::Relaxed);
    }

    /// Puts in what is in `table`, a few entries under each latch, while writers go on. Gives up when the
    /// index is dropped, or `goes_on` says so.
    ///
    /// REQUIRES: writers of the table maintain the index already.
    pub(crate) fn build(&self, table: &Table, mut goes_on: impl FnMut() -> bool) {
        let mut cursor = 0;
        while goes_on() && !self.dropped.load(Ordering::Relaxed) {
            cursor = table.scan(cursor, &mut ScanBudget::of_count(BUILD_ENTRIES), |entry| {
                if let Some(value) = self.value_of(entry) {
                    // What a writer has put in stays as it is. That it was there before says enough: no view
                    // reads the index that was opened before it is ready.
                    self.pointers.write().insert(Pointer::new(&value, entry.key()), Lsn::ZERO);
                }
                false
            });
            // Release: partner of the load in `is_ready`.
            self.built.store(if cursor == 0 { END } else { cursor }, Ordering::Release);
            if cursor == 0 {
                return;
            }
        }
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        if self.indexed.covers(entry.key()) { self.indexed.value_of(entry) } else { None }
    }

    /// A key's value has changed by the write `lsn`. Returns what is kept for views.
    fn change(&self, key: &[u8], old: Option<IndexValue>, new: Option<IndexValue>, lsn: Lsn) -> Kept {
        let [old, new] = [old, new].map(|value| value.map(|value| Pointer::new(&value, key)));
        let mut pointers = self.pointers.write();
        let kept = old.map_or(Kept::default(), |old| pointers.remove(&old, lsn));
        if let Some(new) = new {
            pointers.insert(new, lsn);
        }
        kept
    }

    /// A view that reads the index is being opened.
    pub(crate) fn begin(&self, bit: u8) {
        self.pointers.write().begin(bit);
    }

    /// It has got its cut.
    pub(crate) fn settle(&self, bit: u8, cut: Lsn) {
        self.pointers.write().settle(bit, cut);
    }

    /// It needs nothing any more. Returns how much was kept for it alone.
    pub(crate) fn end(&self, bit: u8) -> Kept {
        self.pointers.write().end(bit);
        let mut kept = Kept::default();
        let mut from = None;
        loop {
            let mut purged = Purged::default();
            from = self.pointers.write().purge(from, &mut purged);
            // Dropped here, where nobody waits for it.
            kept.add_all(purged.kept);
            if from.is_none() {
                return kept;
            }
        }
    }

    pub(super) fn seen_at(
        &self,
        cut: Lsn,
        bounds: (&Bound<Pointer>, &Bound<Pointer>),
        is_backward: bool,
        most: usize,
    ) -> Batch {
        self.pointers.read().seen_at(cut, bounds, is_backward, most)
    }

    /// Checks the invariants; for tests.
    pub fn assert_invariants(&self) {
        self.pointers.read().assert_invariants();
    }
}

impl fmt::Debug for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Has `apply` apply a change of a key to its segment, and moves the key in the indexes of its table.
/// Returns what `apply` does, and what is kept for views.
///
/// REQUIRES: the segment is latched for writing, and stays so.
#[cold]
#[inline(never)]
pub(crate) fn maintained<T>(
    indexes: &[Arc<Index>],
    segment: &mut Segment,
    KeyRef { hash, key, .. }: KeyRef<'_>,
    Stamped { lsn, change }: Stamped<'_, '_>,
    apply: impl FnOnce(&mut Segment) -> T,
) -> (T, Kept) {
    let mut kept = Kept::default();
    if let Change::Expire(_) | Change::HashExpire { .. } = change {
        return (apply(segment), kept);
    }
    let value_in = |index: &Index, segment: &Segment| {
        segment.find(hash, key).and_then(|entry| index.indexed.value_of(entry))
    };
    let covering = indexes.iter().filter(|index| index.given_up_bytes == 0 && index.indexed.covers(key));
    let before: SmallVec<[_; 2]> = covering.map(|index| (index, value_in(index, segment))).collect();
    let applied = apply(segment);
    for (index, old) in before {
        let new = value_in(index, segment);
        if old != new {
            kept.add_all(index.change(key, old, new, lsn));
        }
    }
    (applied, kept)
}
