//! A view's traversal of a table: in the order of positions, a small part of a segment under each latch.
//!
//! ```text
//!   positions   0 ─────────────── passed[b] ──────────────────────────── 2^53
//!               read by view b     |           not read by it yet
//!                                  └ a write behind here keeps the old version for b
//! ```
//!
//! A key's position never changes, however the table grows, so one number a view says which keys it has
//! read. It moves on only under the latch of the one segment in which it moves. So a thread that holds the
//! latch of another segment always finds the keys of that segment on the same side of it.

use std::ops::Range;
use std::sync::Arc;

use super::directory::{Table, depth_of, index_among};
use super::entry::{Entry, touch};
use super::hash::{END, KeyHash, LAST_POSITION};
use super::latch::Ordering;
use super::readers::{Reader, Readers, Waiting};
use super::remset::{Freed, RemsetSize};
use super::segment::Segment;
use crate::record::Lsn;

/// The bytes of entries in one allocation that may be copied under one latch. Of longer entries fewer are
/// read, so that these are about as many bytes.
const PART_BYTES: usize = 256 << 10;
/// Bytes of an entry that are fetched at most before it is read.
pub const REACH_MAX: usize = 512;

/// Who reads a part of a table. Called under the latch of a segment, but for entries changed since.
pub trait Visitor {
    /// Entries that are read under one latch, about. With a segment's whole number (some hundreds) none is
    /// looked at twice; it is for visitors that need some dozens of nanoseconds for each.
    const PART_ENTRIES: usize = 128;

    /// How many bytes of an entry are read, from the front of its allocation, about: they are brought into
    /// the processor's cache for many entries side by side, up to 512 of each.
    fn reach(&self) -> usize {
        REACH_MAX
    }

    /// A part begins, of these positions; the newest removal of a key from its segment was at `removed`.
    fn part(&mut self, from: u64, end: u64, removed: Lsn) {
        let _ = (from, end, removed);
    }

    /// An entry as of the cut.
    fn visit(&mut self, entry: &Entry);

    /// The same for one that was changed since: a version that was kept. Called without a latch.
    fn version(&mut self, entry: &Entry) {
        self.visit(entry);
    }
}

impl<F: FnMut(&Entry)> Visitor for F {
    fn visit(&mut self, entry: &Entry) {
        self(entry);
    }
}

/// A part of a table that a view has read.
pub struct Part {
    /// Where the next part begins; [`END`] behind the last.
    pub next: u64,
    /// The versions that the view sees in this part: those entries have been changed since.
    pub versions: Vec<Arc<Entry>>,
    /// The versions that no view needs any more.
    pub freed: Freed,
}

impl Table {
    /// Those of `readers` that have still to read this key. REQUIRES: its segment is latched as long as they
    /// are asked for.
    pub(crate) fn waiting<'r>(&'r self, readers: Readers<'r>, hash: KeyHash) -> Waiting<'r> {
        Waiting { readers, passed: &self.passed, until: &self.until, position: hash.position() }
    }

    /// Has a view begin to read these positions. REQUIRES: no writer knows of it yet.
    pub(crate) fn begin(&self, bit: u8, positions: &Range<u64>) {
        self.passed[bit as usize].store(positions.start, Ordering::Relaxed);
        self.until[bit as usize].store(positions.end, Ordering::Relaxed);
    }

    /// Has a view need nothing of this table. REQUIRES: no writer knows of it yet.
    pub(crate) fn pass(&self, bit: u8) {
        self.passed[bit as usize].store(END, Ordering::Relaxed);
    }

    /// The positions that a view has read.
    pub(crate) fn read_by(&self, bit: u8) -> u64 {
        self.passed[bit as usize].load(Ordering::Relaxed)
    }

    /// Hands the entries that `reader` sees of the first of these positions on to `visitor`, some dozens of
    /// them, under the latch of their segment; those that were changed since are in the returned part. With
    /// `passes` the view needs nothing of the part any more.
    pub(crate) fn visit(
        &self,
        positions: Range<u64>,
        reader: Reader,
        passes: bool,
        visitor: &mut impl Visitor,
    ) -> Part {
        let from = positions.start;
        loop {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let segment = self.read_upgradable(index);
            let n = self.segments();
            if index_among(n, hash) != index {
                continue;
            }
            let rest = LAST_POSITION >> depth_of(n, index);
            let of_segment = (from | rest) + 1;
            let end = of_segment.min(positions.end);
            let is_whole = from & rest == 0 && end == of_segment;
            let next = segment.visit(from..end, is_whole, reader.cut, visitor);
            let versions = segment.remset().seen_by(reader, &(from..next));
            let mut freed = Freed::default();
            if passes {
                self.passed[reader.bit as usize].store(next, Ordering::Relaxed);
                if !segment.remset().is_empty() {
                    let mut segment = segment.upgrade();
                    segment.remset_mut().release(reader.bit, &(from..next), &mut freed);
                }
            }
            return Part { next, versions, freed };
        }
    }

    /// Hands the entry of a key that `reader` sees to `visit`, under the latch of its segment if it has not
    /// been changed since; else it says that this is a kept version. `None` if there is none. REQUIRES: the
    /// view has passed nothing.
    pub(crate) fn visit_key<T>(
        &self,
        key: &[u8],
        reader: Reader,
        visit: impl FnOnce(&Entry, bool) -> T,
    ) -> Option<T> {
        let hash = KeyHash::of(key);
        let (_, segment) = self.read_of(hash);
        if let Some(entry) = segment.find(hash, key)
            && entry.lsn() <= reader.cut
        {
            return Some(visit(entry, false));
        }
        let version = segment.remset().seen_of(hash, key, reader);
        drop(segment);
        version.map(|version| visit(&version, true))
    }

    /// Shows each version that is kept to `look`: the bits of those who have still to read it, and its bytes.
    /// Latches each segment for a moment.
    pub(crate) fn for_each_kept(&self, mut look: impl FnMut(u64, usize)) {
        for index in 0..self.segments() {
            self.read(index).remset().for_each(&mut look);
        }
    }

    /// Hands the entries of a part from position `from` on to `visitor` as they are now, where none is newer
    /// than `newest`. Returns where the next part begins.
    pub(crate) fn visit_now(&self, from: u64, newest: Lsn, visitor: &mut impl Visitor) -> u64 {
        loop {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let segment = self.read(index);
            let n = self.segments();
            if index_among(n, hash) == index {
                let rest = LAST_POSITION >> depth_of(n, index);
                return segment.visit(from..(from | rest) + 1, from & rest == 0, newest, visitor);
            }
        }
    }

    /// Hands the entry of a key to `visit` as it is now, under the latch of its segment.
    pub(crate) fn visit_key_now(&self, key: &[u8], visit: impl FnOnce(&Entry)) {
        let hash = KeyHash::of(key);
        let (_, segment) = self.read_of(hash);
        if let Some(entry) = segment.find(hash, key) {
            visit(entry);
        }
    }

    /// How much is kept for views, counted by a look at every segment.
    pub(crate) fn remset_size(&self) -> RemsetSize {
        let mut size = RemsetSize::default();
        // A table that grows or shrinks meanwhile moves versions from one segment to another.
        for index in 0..self.segments() {
            self.read(index).remset().count(&mut size);
        }
        size
    }

    /// The segment of a position, without its latch, and the position behind its last.
    ///
    /// REQUIRES: nobody grows the table.
    pub(crate) fn standing(&self, from: u64) -> (*const Segment, u64) {
        let index = self.index_of(KeyHash::at(from));
        let end = (from | (LAST_POSITION >> depth_of(self.segments(), index))) + 1;
        (self.cell(index).segment.data_ptr(), end)
    }

    /// Takes back what was kept for a view from position `from` on. REQUIRES: no writer keeps versions for it
    /// any more, once it has taken a latch.
    pub(crate) fn release(&self, mut from: u64, bit: u8) -> Freed {
        let mut freed = Freed::default();
        while from < END {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let mut segment = self.write(index);
            let n = self.segments();
            if index_among(n, hash) == index {
                let end = (from | (LAST_POSITION >> depth_of(n, index))) + 1;
                segment.remset_mut().release(bit, &(from..end), &mut freed);
                from = end;
            }
        }
        freed
    }
}

impl Segment {
    /// Visits entries that were there at `cut`, those of the first positions in `range`. Returns how far it
    /// went: up to the end of the range, or up to a position before which there are enough. `is_whole`: the
    /// range is all of the segment.
    fn visit<V: Visitor>(&self, range: Range<u64>, is_whole: bool, cut: Lsn, visitor: &mut V) -> u64 {
        let seen = self.iter().filter(|entry| entry.lsn() <= cut);
        if is_whole {
            let bytes = self.iter().map(Entry::block_len).sum();
            if self.len() <= part_len::<V>(self.len(), bytes) {
                visitor.part(range.start, range.end, self.removed());
                touch(self.iter(), visitor.reach().min(REACH_MAX));
                seen.for_each(|entry| visitor.visit(entry));
                return range.end;
            }
        }
        // The fronts are looked at for every part of the segment, the rest for one of them.
        touch(self.iter(), 1);
        let placed = seen.map(|entry| (KeyHash::of(entry.key()).position(), entry));
        let mut found: Vec<(u64, &Entry)> = placed.filter(|(at, _)| range.contains(at)).collect();
        let mut end = range.end;
        let most = part_len::<V>(found.len(), found.iter().map(|(_, entry)| entry.block_len()).sum());
        if found.len() > most {
            let (before, first, _) = found.select_nth_unstable_by_key(most, |(at, _)| *at);
            // Equal positions go together: all of the first, if there is nothing before it.
            let bound = first.0;
            end = if before.iter().any(|(at, _)| *at < bound) { bound } else { bound + 1 };
        }
        visitor.part(range.start, end, self.removed());
        let read = found.iter().filter(|(at, _)| *at < end).map(|(_, entry)| *entry);
        touch(read.clone(), visitor.reach().min(REACH_MAX));
        read.for_each(|entry| visitor.visit(entry));
        end
    }
}

/// How many of entries that have so many bytes together are read under one latch. More are only read where
/// they have one position.
fn part_len<V: Visitor>(count: usize, bytes: usize) -> usize {
    (count * PART_BYTES / bytes.max(1)).clamp(1, V::PART_ENTRIES)
}
