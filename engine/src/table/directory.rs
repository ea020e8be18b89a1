//! The table of one logical database: segments, which of them a key belongs to, and growth without a stall.
//!
//! Linear hashing (Litwin, 1980). With `n` segments and `2^k` the smallest power of two ≥ `n`, a hash `h`
//! belongs to segment `h mod 2^k` if that is < `n`, else to `h mod 2^(k-1)`. To grow by one, segment `n -
//! 2^(k-1)` gives half of its entries to the new segment `n`: a few hundred entries move under two latches,
//! nothing else is touched, and nobody waits longer than that.
//!
//! ```text
//!   n = 5   0    1    2    3    4        a hash ending in ..100 was in 0 and is in 4 now;
//!           |________________|            the next to split is 1, into 1 and 5
//! ```
//!
//! A table that has lost most of its keys goes the same way back: the last segment is merged into the one
//! that it was split from.
//!
//! Segments are allocated in pages that never move, so a reference to one stays good while the table grows
//! and shrinks. A thread that latched a segment looks at `n` again: a split and a merge change it while
//! holding that latch, so what is seen then stays true until the unlatch.
//!
//! Latch order: by database, then by index of the segment; a split and a merge latch their two segments in
//! that order and hold no other.

use super::entry::{Entry, touch, touch_all};
use super::hash::{END, KeyHash, LAST_POSITION};
use super::latch::{AtomicI64, AtomicU64, AtomicUsize, Ordering, ReadLatch, WriteLatch};
use super::left::LeftBytes;
use super::readers::VIEWS;
use super::segment::{Effect, Segment};
use super::untimed::{TimedCount, Untimed};
use crate::lock::{Mutex, Number, RwLock, RwLockUpgradableReadGuard, rank};
use crate::record::{Lsn, UnixMs};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock, atomic};
use std::time::Duration;

/// Entries a segment has on average before the table grows by one. Segments that wait for their split have up
/// to twice as many.
const ENTRIES_PER_SEGMENT: usize = 400;
/// The longest wait for the segment that is split next: somebody may have it for long.
const GROW_WAIT: Duration = Duration::from_millis(10);
/// A core's own cache holds a table of so many segments.
const SEGMENTS_CACHED: usize = 12;
/// Segments in one page.
const PAGE: usize = 64;
/// Doublings of the page directory: 2^24 pages.
const LEVELS: usize = 25;
/// Counters of keys: one for each residue of a segment's index, so that workers rarely share a cache line.
const COUNTERS: usize = 16;
/// The due time of a segment in which nothing expires.
const NEVER: u64 = u64::MAX;

/// A latch would have taken longer than the limit. Nothing has changed: the caller may try again later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatchTimeout;

/// A latched segment and, beside the latch, when the first of its entries is due.
pub(super) struct Cell {
    pub(super) segment: RwLock<Segment, rank::Segment>,
    /// ≤ the earliest expiry in the segment. A thread that sets an expiry lowers it under the latch; the
    /// expirer raises it under the latch.
    due: AtomicU64,
}

type Page = Box<[Cell]>;

/// Keys that were made, less those that are gone, and the same of those with an expiry, and of hashes whose
/// fields have times.
#[derive(Default)]
#[repr(align(64))]
struct Counter {
    keys: AtomicI64,
    expiring: AtomicI64,
    timed: TimedCount,
}

/// How many keys a database has, expired ones included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyCounts {
    /// All of them.
    pub keys: usize,
    /// Those with an expiry.
    pub expiring: usize,
    /// The hashes whose fields have times.
    pub timed: usize,
}

/// The keys of one logical database.
pub struct Table {
    /// Level `l` holds pages `2^(l-1) .. 2^l` (level 0: page 0).
    levels: [OnceLock<Box<[OnceLock<Page>]>>; LEVELS],
    /// Number of segments, at least 1.
    segments: AtomicUsize,
    /// Held by the one thread that is making the table larger or smaller.
    growing: Mutex<(), rank::Growth>,
    counters: [Counter; COUNTERS],
    untimed: Untimed,
    /// For each view, the positions that it has read: see `visit.rs`.
    pub(super) passed: [AtomicU64; VIEWS],
    /// For each view, where its positions end.
    pub(super) until: [AtomicU64; VIEWS],
    /// The bytes of its entries, if it is no database any more and somebody has it. The last field: it is
    /// dropped behind the entries.
    left: OnceLock<LeftBytes>,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            levels: [const { OnceLock::new() }; LEVELS],
            segments: AtomicUsize::new(1),
            growing: Mutex::new(()),
            counters: Default::default(),
            untimed: Untimed::default(),
            passed: std::array::from_fn(|_| AtomicU64::new(0)),
            until: std::array::from_fn(|_| AtomicU64::new(END)),
            left: OnceLock::new(),
        }
    }
}

fn new_page() -> Page {
    (0..PAGE).map(|_| Cell { segment: RwLock::new(Segment::default()), due: AtomicU64::new(NEVER) }).collect()
}

/// Which of `n` segments `hash` belongs to.
#[inline]
pub(super) const fn index_among(n: usize, hash: KeyHash) -> usize {
    let mask = n.next_power_of_two() - 1;
    let index = hash.0 as usize & mask;
    if index < n { index } else { index & (mask >> 1) }
}

impl Table {
    pub(super) fn cell(&self, index: usize) -> &Cell {
        let page = index / PAGE;
        let level = (usize::BITS - page.leading_zeros()) as usize;
        let first = if level == 0 { 0 } else { 1 << (level - 1) };
        let pages =
            self.levels[level].get_or_init(|| (first..(1 << level)).map(|_| OnceLock::new()).collect());
        &pages[page - first].get_or_init(new_page)[index % PAGE]
    }

    /// Number of segments.
    #[inline]
    pub fn segments(&self) -> usize {
        // Acquire pairs with the Release in `grow`: who sees the new number sees the new segment's page.
        self.segments.load(Ordering::Acquire)
    }

    /// Number of keys, expired ones included.
    pub fn len(&self) -> usize {
        self.counters.iter().map(|counter| counter.keys.load(Ordering::Relaxed)).sum::<i64>().max(0) as usize
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of keys with an expiry, expired ones included.
    pub fn expiring(&self) -> usize {
        let counted = self.counters.iter().map(|counter| counter.expiring.load(Ordering::Relaxed));
        counted.sum::<i64>().max(0) as usize
    }

    /// Number of hashes whose fields have times, those that are over included.
    pub fn timed(&self) -> usize {
        let counted = self.counters.iter().map(|counter| counter.timed.get());
        counted.sum::<i64>().max(0) as usize
    }

    /// The segment that `hash` belongs to at this moment; ask again under its latch.
    #[inline]
    pub fn index_of(&self, hash: KeyHash) -> usize {
        index_among(self.segments(), hash)
    }

    /// Latches a segment for reading.
    #[inline]
    pub fn read(&self, index: usize) -> ReadLatch<'_> {
        self.cell(index).segment.read_as(self.number(index))
    }

    /// Latches a segment for reading, unless somebody writes it.
    pub fn try_read(&self, index: usize) -> Option<ReadLatch<'_>> {
        self.read_within(index, Some(Duration::ZERO))
    }

    /// Latches a segment for writing.
    #[inline]
    pub fn write(&self, index: usize) -> WriteLatch<'_> {
        self.cell(index).segment.write_as(self.number(index))
    }

    /// Latches a segment for reading, and so that it may come to be written.
    #[inline]
    pub(super) fn read_upgradable(
        &self,
        index: usize,
    ) -> RwLockUpgradableReadGuard<'_, Segment, rank::Segment> {
        self.cell(index).segment.upgradable_read_as(self.number(index))
    }

    /// As `read`; `None` if it would take longer than the limit.
    #[inline]
    pub(crate) fn read_within(&self, index: usize, limit: Option<Duration>) -> Option<ReadLatch<'_>> {
        self.cell(index).segment.read_within(self.number(index), limit)
    }

    /// As `write`; `None` if it would take longer than the limit.
    #[inline]
    pub(crate) fn write_within(&self, index: usize, limit: Option<Duration>) -> Option<WriteLatch<'_>> {
        self.cell(index).segment.write_within(self.number(index), limit)
    }

    #[inline]
    fn number(&self, index: usize) -> Number {
        Number::of(self, index)
    }

    /// Latches the segment that `hash` belongs to for writing.
    #[inline]
    pub fn write_of(&self, hash: KeyHash) -> (usize, WriteLatch<'_>) {
        loop {
            let index = self.index_of(hash);
            let segment = self.write(index);
            // A split may have moved the hash away before the latch was there.
            if self.index_of(hash) == index {
                return (index, segment);
            }
        }
    }

    /// Latches the segment that `hash` belongs to for reading.
    #[inline]
    pub fn read_of(&self, hash: KeyHash) -> (usize, ReadLatch<'_>) {
        self.read_of_within(hash, None).expect("it waits as long as it takes")
    }

    /// As `read_of`; `None` if it would take longer than the limit.
    #[inline]
    pub(crate) fn read_of_within(
        &self,
        hash: KeyHash,
        limit: Option<Duration>,
    ) -> Option<(usize, ReadLatch<'_>)> {
        loop {
            let index = self.index_of(hash);
            let segment = self.read_within(index, limit)?;
            if self.index_of(hash) == index {
                return Some((index, segment));
            }
        }
    }

    /// Whether a look at an entry waits for memory, as a core's own cache does not hold the table.
    #[inline]
    pub fn is_beyond_cache(&self) -> bool {
        self.segments() > SEGMENTS_CACHED
    }

    /// Brings the entries of keys with these hashes, sixteen or fewer, into the processor's cache. Goes in
    /// steps, each of which looks for all keys at what the step before has found, so that no look waits for
    /// another: the cells, the table's slots, the entries, their allocations. All latches are taken in one
    /// step, as taking one waits for the looks before it; it passes over whichever are not free, so their
    /// order does not matter.
    pub fn fetch(&self, hashes: impl Iterator<Item = KeyHash>) {
        self.find_and_touch(hashes, |entries| touch_all(entries.iter().copied().flatten()));
    }

    /// As `fetch`, all lines of the entries as far as `reach`.
    pub(crate) fn fetch_lines(&self, hashes: impl Iterator<Item = KeyHash>, reach: usize) {
        self.find_and_touch(hashes, |entries| touch(entries.iter().copied().flatten(), reach));
    }

    /// Its keys by number. Latches nothing.
    pub fn counts(&self) -> KeyCounts {
        KeyCounts { keys: self.len(), expiring: self.expiring(), timed: self.timed() }
    }

    /// Adds the bytes of its entries to `sum`, without those that copies of keys have, segment by segment
    /// while `goes_on`; they are in there until the table is freed. What is kept for views beside the entries
    /// is not among them.
    ///
    /// REQUIRES: it is the first call, and nobody writes to the table any more.
    pub(crate) fn count_left(&self, sum: &Arc<atomic::AtomicU64>, goes_on: impl Fn() -> bool) {
        let left = self.left.get_or_init(|| LeftBytes::of(sum));
        for index in (0..self.segments()).take_while(|_| goes_on()) {
            left.add(self.read(index).bytes_left());
        }
    }

    fn find_and_touch(&self, hashes: impl Iterator<Item = KeyHash>, touch: impl FnOnce(&[Option<&Entry>])) {
        let cells: SmallVec<[_; 16]> = hashes.map(|hash| (self.cell(self.index_of(hash)), hash)).collect();
        let dues = cells.iter().map(|(cell, _)| cell.due.load(Ordering::Relaxed));
        std::hint::black_box(dues.fold(0, u64::wrapping_add));
        let latched: SmallVec<[_; 16]> =
            cells.into_iter().filter_map(|(cell, hash)| Some((cell.segment.try_read()?, hash))).collect();
        let entries: SmallVec<[Option<_>; 16]> =
            latched.iter().map(|(segment, hash)| segment.guess(*hash)).collect();
        touch(&entries);
    }

    /// Counts keys that have been made, less those that are gone, some of them in segment `index`; of them
    /// those with an expiry, and hashes whose fields have times.
    #[inline]
    pub(crate) fn count(&self, index: usize, Effect { keys, expiring, timed, .. }: Effect) {
        let counter = &self.counters[index % COUNTERS];
        if keys != 0 {
            counter.keys.fetch_add(keys, Ordering::Relaxed);
        }
        if expiring != 0 {
            counter.expiring.fetch_add(expiring, Ordering::Relaxed);
        }
        if timed != 0 {
            counter.timed.add(timed);
        }
    }

    /// Notes that a change takes the times of the fields of a hash away, or the hash with them. REQUIRES: it
    /// is not counted yet.
    pub(crate) fn note_untimed(&self, lsn: Lsn) {
        self.untimed.note(lsn);
    }

    /// Whether there are hashes whose fields have times, or were as of this cut: a view may see them.
    ///
    /// REQUIRES: all changes up to the cut have been applied.
    pub(crate) fn may_be_timed_at(&self, cut: Lsn) -> bool {
        self.untimed.may_be_timed_at(self.counters.iter().map(|counter| &counter.timed), cut)
    }

    /// Records when the first entry of a segment is due, as far as a change told. REQUIRES: segment `index`
    /// is latched for writing.
    #[inline]
    pub(crate) fn note_due(&self, index: usize, due: Option<UnixMs>) {
        if let Some(at) = due {
            self.cell(index).due.fetch_min(at, Ordering::Relaxed);
        }
    }

    /// Records what a change did. REQUIRES: segment `index` is latched for writing.
    #[inline]
    pub fn note(&self, index: usize, effect: Effect) {
        self.count(index, effect);
        self.note_due(index, effect.due);
    }

    /// The first segment from `index` on in which something may be due at `now`.
    pub fn next_due(&self, index: usize, now: UnixMs) -> Option<usize> {
        (index..self.segments()).find(|&i| self.cell(i).due.load(Ordering::Relaxed) < now)
    }

    /// Says when the next entry of a segment is due. REQUIRES: segment `index` is latched for writing.
    pub fn set_due(&self, index: usize, due: Option<UnixMs>) {
        self.cell(index).due.store(due.unwrap_or(NEVER), Ordering::Relaxed);
    }

    /// Whether the table has outgrown its segments.
    #[inline]
    pub fn is_crowded(&self, segment_len: usize) -> bool {
        segment_len > ENTRIES_PER_SEGMENT && self.len() > self.segments() * ENTRIES_PER_SEGMENT
    }

    /// Splits segments until the table is no longer crowded, at most `steps` of them; does nothing while
    /// another thread grows it. REQUIRES: the caller holds no latch.
    pub fn grow(&self, steps: usize) {
        let Some(_growing) = self.growing.try_lock() else { return };
        for _ in 0..steps {
            let n = self.segments();
            if self.len() <= n * ENTRIES_PER_SEGMENT {
                return;
            }
            if !self.split(n, 0, Some(GROW_WAIT)) {
                return;
            }
        }
    }

    /// Makes segments for so many keys, with room in each: they are going to be inserted. REQUIRES: the
    /// caller holds no latch.
    pub(crate) fn make_room(&self, keys: usize) {
        if keys <= self.segments() * ENTRIES_PER_SEGMENT {
            return;
        }
        let _growing = self.growing.lock();
        while keys > self.segments() * ENTRIES_PER_SEGMENT {
            self.split(self.segments(), ENTRIES_PER_SEGMENT, None);
        }
        (0..self.segments()).for_each(|index| self.write(index).make_room(ENTRIES_PER_SEGMENT));
    }

    /// Gives back the room that was made for keys that did not come. REQUIRES: the caller holds no latch.
    pub(crate) fn give_back_room(&self) {
        if self.len() < self.segments() * (ENTRIES_PER_SEGMENT / 2) {
            (0..self.segments()).for_each(|index| self.write(index).shrink());
        }
    }

    /// Splits the next of `n` segments; both halves have room for so many entries. `false` if a latch would
    /// take longer than the limit: the next change tries again. REQUIRES: the caller holds `growing`.
    fn split(&self, n: usize, room: usize, limit: Option<Duration>) -> bool {
        let bit = (n + 1).next_power_of_two() / 2;
        let (low, high) = (self.cell(n - bit), self.cell(n));
        let Some(mut from) = self.write_within(n - bit, limit) else { return false };
        let mut to = self.write(n);
        *to = from.split(bit as u64, room);
        high.due.store(low.due.load(Ordering::Relaxed), Ordering::Relaxed);
        let moved = to.len() as i64;
        self.count(n - bit, Effect { keys: -moved, ..Effect::default() });
        self.count(n, Effect { keys: moved, ..Effect::default() });
        self.segments.store(n + 1, Ordering::Release);
        true
    }

    /// Whether so many keys are gone that segments can be given back. Far from `is_crowded`, so that a table
    /// does not go to and fro.
    pub fn is_sparse(&self) -> bool {
        let n = self.segments();
        n > 1 && self.len() < n * (ENTRIES_PER_SEGMENT / 4)
    }

    /// Merges the last segment into the one that it was split from, until the table is no longer sparse, at
    /// most `steps` times; does nothing while another thread grows it, or has one of the latches for long.
    /// REQUIRES: the caller holds no latch.
    pub fn shrink(&self, steps: usize) {
        let Some(_growing) = self.growing.try_lock() else { return };
        for _ in 0..steps {
            if !self.is_sparse() {
                return;
            }
            let n = self.segments();
            let first = n - 1 - n.next_power_of_two() / 2;
            let (low, high) = (self.cell(first), self.cell(n - 1));
            let Some(mut to) = self.write_within(first, Some(GROW_WAIT)) else { return };
            let Some(mut from) = self.write_within(n - 1, Some(GROW_WAIT)) else { return };
            let moved = from.len() as i64;
            to.merge(std::mem::take(&mut *from));
            low.due.fetch_min(high.due.swap(NEVER, Ordering::Relaxed), Ordering::Relaxed);
            self.count(n - 1, Effect { keys: -moved, ..Effect::default() });
            self.count(first, Effect { keys: moved, ..Effect::default() });
            self.segments.store(n - 1, Ordering::Release);
        }
    }

    /// Calls `visit` for entries in the order of their scan position, from position `cursor` on, until
    /// `enough` says so after an entry or the table ends. Returns the cursor to go on from, 0 at the end.
    /// Every entry that is there during a whole scan is visited, once, however the table grows: an entry's
    /// position never changes. Entries of equal position go together.
    pub fn scan(&self, cursor: u64, budget: &mut ScanBudget, visit: impl FnMut(&Entry) -> bool) -> u64 {
        self.scan_within(cursor, budget, None, visit).expect("it waits as long as it takes")
    }

    /// As `scan`; an error if one of the latches would take longer than the limit.
    pub fn scan_within(
        &self,
        cursor: u64,
        budget: &mut ScanBudget,
        limit: Option<Duration>,
        mut visit: impl FnMut(&Entry) -> bool,
    ) -> Result<u64, LatchTimeout> {
        let mut position = cursor;
        if position > LAST_POSITION {
            return Ok(0);
        }
        loop {
            let hash = KeyHash::at(position);
            let index = self.index_of(hash);
            let segment = self.read_within(index, limit).ok_or(LatchTimeout)?;
            let n = self.segments();
            if index_among(n, hash) != index {
                continue;
            }
            // The segment covers all positions that begin with the `depth` bits of its index, reversed.
            let depth = depth_of(n, index);
            let last = position | (LAST_POSITION >> depth);
            let mut found: Vec<(u64, &Entry)> = segment
                .iter()
                .map(|entry| (KeyHash::of(entry.key()).position(), entry))
                .filter(|&(at, _)| at >= position)
                .collect();
            found.sort_unstable_by_key(|&(at, _)| at);
            let mut full = false;
            for (at, entry) in found {
                if full && at != position {
                    return Ok(at);
                }
                position = at;
                full |= visit(entry) | budget.spend_entry();
            }
            if last == LAST_POSITION {
                return Ok(0);
            }
            position = last + 1;
            if full | budget.spend_segment() {
                return Ok(position);
            }
        }
    }

    /// A key's entry chosen by `random`, handed to `visit`; `None` if no entry was found. An error if one of
    /// the latches would take longer than the limit.
    pub fn sample<T>(
        &self,
        limit: Option<Duration>,
        mut random: impl FnMut() -> u64,
        mut visit: impl FnMut(&Entry) -> Option<T>,
    ) -> Result<Option<T>, LatchTimeout> {
        let read = |index| self.read_within(index, limit).ok_or(LatchTimeout);
        for _ in 0..100 {
            if self.is_empty() {
                return Ok(None);
            }
            let segment = read(random() as usize % self.segments())?;
            if let Some(found) = segment.sample(random()).and_then(&mut visit) {
                return Ok(Some(found));
            }
        }
        // Nearly all segments are empty, or nearly all entries are refused: take the first that will do.
        for index in 0..self.segments() {
            if let Some(found) = read(index)?.iter().find_map(&mut visit) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Checks the invariants of all segments; for tests.
    pub fn assert_invariants(&self) {
        let n = self.segments();
        let (mut keys, mut expiring, mut timed) = (0, 0, 0);
        for index in 0..n {
            let segment = self.read(index);
            segment.assert_invariants();
            keys += segment.len();
            expiring += segment.expiring();
            timed += segment.timed();
            for entry in segment.iter() {
                assert_eq!(index_among(n, KeyHash::of(entry.key())), index, "an entry is in its segment");
            }
        }
        assert_eq!(keys, self.len(), "the count of keys is exact");
        assert_eq!(expiring, self.expiring(), "the count of keys with an expiry is exact");
        assert_eq!(timed, self.timed(), "the count of hashes whose fields have times is exact");
    }
}

/// How many low bits of the hash all entries of segment `index` among `n` share.
pub(super) const fn depth_of(n: usize, index: usize) -> u32 {
    let bits = n.next_power_of_two().trailing_zeros();
    let half = n.next_power_of_two() / 2;
    // Segments that have been split in this round, and those split off, are told apart by all bits.
    if n == n.next_power_of_two() || index + half < n || index >= half { bits } else { bits - 1 }
}

/// Bounds the work of one call of a scan.
#[derive(Clone, Copy, Debug)]
pub struct ScanBudget {
    /// Entries that may still be visited.
    pub entries: usize,
    /// Segments that may still be walked.
    pub segments: usize,
}

impl ScanBudget {
    /// A budget for a client that asks for `count` entries.
    pub const fn of_count(count: usize) -> ScanBudget {
        ScanBudget { entries: count, segments: 1 + count.saturating_mul(10) / 64 }
    }

    /// No bound.
    pub const UNLIMITED: ScanBudget = ScanBudget { entries: usize::MAX, segments: usize::MAX };

    fn spend_entry(&mut self) -> bool {
        self.entries = self.entries.saturating_sub(1);
        self.entries == 0
    }

    fn spend_segment(&mut self) -> bool {
        self.segments = self.segments.saturating_sub(1);
        self.segments == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::record::{Change, Lsn, Stamped};
    use crate::table::{KeyRef, Retired, Waiting};
    use std::collections::BTreeMap;

    fn change(table: &Table, key: &[u8], change: &Change<'_>, lsn: u64) {
        let (key, write) = (KeyRef::of(0, key), Stamped { lsn: Lsn(lsn), change });
        let (index, mut segment) = table.write_of(key.hash);
        let (effect, fits) = segment.apply(key, write, Waiting::NONE, &mut Retired::default());
        assert!(fits);
        table.note(index, effect);
        let crowded = table.is_crowded(segment.len());
        drop(segment);
        if crowded {
            table.grow(4);
        }
    }

    fn put(table: &Table, key: &str) {
        change(table, key.as_bytes(), &Change::Put { value: b"v"[..].into(), expiry: None }, 1);
    }

    #[test]
    fn every_index_belongs_to_exactly_one_range_of_positions() {
        for n in 1..200 {
            let mut covered = BTreeMap::new();
            for index in 0..n {
                let hash = KeyHash(index as u64);
                assert_eq!(index_among(n, hash), index);
                let width = LAST_POSITION >> depth_of(n, index);
                assert_eq!(hash.position() & width, 0, "a segment's range begins at its index, reversed");
                covered.insert(hash.position(), hash.position() + width);
            }
            let mut next = 0;
            for (first, last) in covered {
                assert_eq!(first, next, "{n} segments leave no gap and do not overlap");
                next = last + 1;
            }
            assert_eq!(next, LAST_POSITION + 1);
        }
    }

    #[test]
    fn a_table_that_grew_holds_every_key_where_it_belongs() {
        let table = Table::default();
        for i in 0..50_000 {
            put(&table, &format!("key:{i}"));
        }
        assert_eq!(table.len(), 50_000);
        assert!(table.segments() >= 50_000 / (2 * ENTRIES_PER_SEGMENT), "{} segments", table.segments());
        table.assert_invariants();
        for i in 0..50_000 {
            change(&table, format!("key:{i}").as_bytes(), &Change::Delete, 2);
        }
        assert_eq!(table.len(), 0);
        table.assert_invariants();
    }

    #[test]
    fn keys_are_counted_while_a_segment_is_latched() {
        let table = Table::default();
        let put = |expiry| Change::Put { value: b"v"[..].into(), expiry };
        change(&table, b"a", &put(Some(1_000)), 1);
        change(&table, b"b", &put(None), 2);
        change(&table, b"c", &put(Some(2_000)), 3);
        let held = table.write(0);
        assert_eq!((table.len(), table.expiring()), (3, 2));
        drop(held);
        change(&table, b"a", &Change::Expire(None), 4);
        change(&table, b"b", &Change::Expire(Some(3_000)), 5);
        change(&table, b"c", &Change::Delete, 6);
        assert_eq!((table.len(), table.expiring()), (2, 1));
        table.assert_invariants();
    }

    #[test]
    fn a_scan_returns_every_key_that_stays_while_the_table_grows() {
        let table = Table::default();
        for i in 0..3_000 {
            put(&table, &format!("stays:{i}"));
        }
        let mut seen = BTreeMap::new();
        let (mut cursor, mut calls) = (0, 0);
        loop {
            let mut found = Vec::new();
            cursor = table.scan(cursor, &mut ScanBudget::of_count(10), |entry| {
                found.push(entry.key().to_vec());
                false
            });
            for key in found {
                *seen.entry(key).or_insert(0) += 1;
            }
            calls += 1;
            if cursor == 0 {
                break;
            }
            for i in 0..50 {
                put(&table, &format!("new:{calls}:{i}"));
            }
        }
        assert!(calls > 100, "a call returns about as much as was asked for: {calls} calls");
        for i in 0..3_000 {
            assert_eq!(seen.get(format!("stays:{i}").as_bytes()), Some(&1), "key {i} was returned once");
        }
    }

    #[test]
    fn workers_that_insert_while_the_table_grows_lose_nothing() {
        let table = Table::default();
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let table = &table;
                scope.spawn(move || {
                    for i in 0..20_000 {
                        put(table, &format!("{worker}:{i}"));
                        let key = format!("{worker}:{}", i / 2);
                        let hash = KeyHash::of(key.as_bytes());
                        assert!(table.read_of(hash).1.find(hash, key.as_bytes()).is_some());
                    }
                });
            }
        });
        assert_eq!(table.len(), 60_000);
        table.assert_invariants();
    }

    #[test]
    fn a_table_that_lost_its_keys_gives_segments_back_and_loses_nothing() {
        let table = Table::default();
        let name = |i: usize| format!("key:{i}");
        for i in 0..50_000usize {
            let put = Change::Put { value: b"v"[..].into(), expiry: i.is_multiple_of(100).then_some(1_000) };
            change(&table, name(i).as_bytes(), &put, 1);
        }
        let grown = table.segments();
        (5_000..50_000).for_each(|i| change(&table, name(i).as_bytes(), &Change::Delete, 2));
        table.shrink(usize::MAX);
        table.assert_invariants();
        assert!(!table.is_sparse() && table.segments() < grown / 2, "{} of {grown}", table.segments());
        (0..5_000).for_each(|i| {
            let hash = KeyHash::of(name(i).as_bytes());
            assert!(table.read_of(hash).1.find(hash, name(i).as_bytes()).is_some());
        });
        let mut due = 0;
        let mut from = 0;
        while let Some(index) = table.next_due(from, 2_000) {
            due += table.read(index).over(2_000, 9).over.len();
            from = index + 1;
        }
        assert_eq!(due, 50, "the due times went with the keys");
        (0..5_000).for_each(|i| change(&table, name(i).as_bytes(), &Change::Delete, 3));
        table.shrink(usize::MAX);
        assert_eq!(table.segments(), 1);
        assert!(table.read(0).removed() == Lsn(3), "the newest removal is remembered");
    }

    #[test]
    fn room_that_was_made_is_enough() {
        let table = Table::default();
        put(&table, "first");
        table.make_room(20_000);
        let segments = table.segments();
        (0..19_999).for_each(|i| put(&table, &format!("key:{i}")));
        assert_eq!(table.segments(), segments, "nothing had to grow");
        table.assert_invariants();
    }

    #[test]
    fn workers_insert_and_delete_while_the_table_grows_and_shrinks() {
        let table = Table::default();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let table = &table;
                    scope.spawn(move || {
                        for round in 0..5 {
                            let name = |i: usize| format!("{worker}:{round}:{i}");
                            (0..6_000).for_each(|i| put(table, &name(i)));
                            for i in 0..6_000 {
                                let hash = KeyHash::of(name(i).as_bytes());
                                assert!(table.read_of(hash).1.find(hash, name(i).as_bytes()).is_some());
                                if i >= 10 {
                                    change(table, name(i).as_bytes(), &Change::Delete, 2);
                                }
                            }
                        }
                    })
                })
                .collect();
            let (table, done) = (&table, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    table.shrink(3);
                    std::thread::yield_now();
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(table.len(), 150);
        table.assert_invariants();
    }

    #[test]
    fn what_is_due_is_found_in_its_segment() {
        let table = Table::default();
        for i in 0..5_000u64 {
            let put = Change::Put { value: b"v"[..].into(), expiry: Some(1_000 + i) };
            change(&table, format!("key:{i}").as_bytes(), &put, 1);
        }
        assert_eq!(table.next_due(0, 1_000), None, "a key is there in the millisecond of its expiry");
        let mut due = 0;
        let mut from = 0;
        while let Some(index) = table.next_due(from, 2_000) {
            due += table.read(index).over(2_000, 9).over.len();
            from = index + 1;
        }
        assert_eq!(due, 1_000);
    }
}
