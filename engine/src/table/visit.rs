//! A view's traversal of a table, in the order of positions. What it sees of a segment is found under the
//! segment's latch, and read without it.
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

#![expect(unsafe_code, reason = "entries are read while others may move them: see `pinned.rs`")]

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::directory::{Table, depth_of, index_among};
use super::entry::{Entry, REACH_MAX, touch, touch_fronts};
use super::hash::{END, KeyHash, LAST_POSITION};
use super::latch::{Ordering, WriteLatch};
use super::pinned::Pinned;
use super::readers::{Reader, Readers, Waiting};
use super::remset::{Freed, RemsetSize};
use super::segment::Segment;
use crate::record::Lsn;

/// The bytes of entries that a view reads in one part, about; of one position all are read.
const PART_BYTES: usize = 1 << 20;
/// Entries that are read under one latch where there is no view, about.
const LIVE_ENTRIES: usize = 128;
/// Their bytes, about.
const LIVE_BYTES: usize = 256 << 10;
/// Entries that are brought into the processor's cache side by side, before they are read.
const FETCHED: usize = 64;

/// Who reads a part of a table.
pub trait Visitor {
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

    /// The same for one that was changed since: a version that was kept.
    fn version(&mut self, entry: &Entry) {
        self.visit(entry);
    }
}

impl<F: FnMut(&Entry)> Visitor for F {
    fn visit(&mut self, entry: &Entry) {
        self(entry);
    }
}

/// The entries that a view sees of a segment, to be read without its latch.
pub(crate) struct Part {
    /// The positions that were looked at.
    range: Range<u64>,
    /// The newest removal of a key.
    removed: Lsn,
    /// The entries of these positions.
    entries: Vec<Pinned>,
    /// The versions that the view sees of entries that have been changed since, with their positions.
    versions: Vec<(u64, Arc<Entry>)>,
}

impl Table {
    /// Those of `readers` that have still to read this key. REQUIRES: its segment is latched as long as they
    /// are asked for.
    pub(crate) fn waiting<'r>(&'r self, readers: Readers<'r>, hash: KeyHash) -> Waiting<'r> {
        Waiting { readers, passed: &self.passed, until: &self.until, position: hash.position() }
    }

    /// Whether one of `readers` may look at an entry when nobody has its latch. REQUIRES: its segment is
    /// latched for writing.
    pub(crate) fn is_pinned(&self, readers: Readers<'_>, entry: &Entry) -> bool {
        readers.active != 0 && self.waiting(readers, KeyHash::of_stored(entry.key())).seeing(entry.lsn()) != 0
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

    /// Finds what `reader` sees of the first of these positions, those of one segment; `None` if its latch
    /// would take longer than the limit.
    ///
    /// SAFETY, of the call: as long as the part is there, writers keep for the view what they replace, and it
    /// does not pass these positions.
    // SAFETY: as above.
    pub(crate) unsafe fn pin(
        &self,
        positions: Range<u64>,
        reader: Reader,
        limit: Option<Duration>,
    ) -> Option<Part> {
        let from = positions.start;
        loop {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let segment = self.read_within(index, limit)?;
            let n = self.segments();
            if index_among(n, hash) != index {
                continue;
            }
            let rest = LAST_POSITION >> depth_of(n, index);
            let of_segment = (from | rest) + 1;
            let range = from..of_segment.min(positions.end);
            let is_whole = from & rest == 0 && range.end == of_segment;
            let position = |entry: &Entry| KeyHash::of_stored(entry.key()).position();
            let sees =
                |entry: &Entry| entry.lsn() <= reader.cut && (is_whole || range.contains(&position(entry)));
            let mut entries = Vec::with_capacity(segment.len());
            // Behind the latch only those are left that the view sees. A write that replaces one keeps it as
            // it is, until the view has passed it or is closed. The latch was taken after the cut was
            // settled, so no write is under way that does not know of the view.
            for entry in segment.iter() {
                // SAFETY: nobody changes an entry while the latch is held, and then as above.
                entries.push(unsafe { Pinned::new(entry) });
            }
            // Their fronts side by side: that is where the `Lsn`s are.
            touch_fronts(entries.iter().map(Pinned::entry));
            entries.retain(|pinned| sees(pinned.entry()));
            return Some(Part {
                removed: segment.removed(),
                entries,
                versions: segment.remset().seen_by(reader, &range),
                range,
            });
        }
    }

    /// Latches the segment that a position is in for writing, unless that would take longer than the limit;
    /// and says where the positions of that segment end.
    pub(crate) fn write_at(&self, position: u64, limit: Duration) -> (u64, Option<WriteLatch<'_>>) {
        let hash = KeyHash::at(position);
        loop {
            let n = self.segments();
            let index = index_among(n, hash);
            let end = |n| (position | (LAST_POSITION >> depth_of(n, index))) + 1;
            let Some(segment) = self.write_within(index, Some(limit)) else { return (end(n), None) };
            // Who splits or merges it has its latch.
            let n = self.segments();
            if index_among(n, hash) == index {
                return (end(n), Some(segment));
            }
        }
    }

    /// Has a view need nothing of these positions any more. Returns the versions that no view needs any more.
    pub(crate) fn pass_over(&self, positions: Range<u64>, bit: u8) -> Freed {
        let mut freed = Freed::default();
        let mut from = positions.start;
        while from < positions.end {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let segment = self.read_upgradable(index);
            let n = self.segments();
            if index_among(n, hash) == index {
                let end = ((from | (LAST_POSITION >> depth_of(n, index))) + 1).min(positions.end);
                self.passed[bit as usize].store(end, Ordering::Relaxed);
                if !segment.remset().is_empty() {
                    segment.upgrade().remset_mut().release(bit, &(from..end), &mut freed);
                }
                from = end;
            }
        }
        freed
    }

    /// As `pass_over`; also returns up to where it came, which is not the end if a latch would take longer
    /// than the limit.
    pub(crate) fn pass_over_within(&self, positions: Range<u64>, bit: u8, limit: Duration) -> (Freed, u64) {
        let mut freed = Freed::default();
        let mut from = positions.start;
        while from < positions.end {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            // Not one that may come to be written: to wait for readers then has no limit.
            let Some(mut segment) = self.write_within(index, Some(limit)) else { break };
            let n = self.segments();
            if index_among(n, hash) == index {
                let end = ((from | (LAST_POSITION >> depth_of(n, index))) + 1).min(positions.end);
                self.passed[bit as usize].store(end, Ordering::Relaxed);
                segment.remset_mut().release(bit, &(from..end), &mut freed);
                from = end;
            }
        }
        (freed, from)
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
    /// Latches each segment for a moment; passes over those that somebody writes, which may last.
    pub(crate) fn for_each_kept(&self, mut look: impl FnMut(u64, usize)) {
        for segment in (0..self.segments()).filter_map(|index| self.try_read(index)) {
            segment.remset().for_each(&mut look);
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
                return segment.visit(from..(from | rest) + 1, newest, visitor);
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

    /// Takes back what was kept for a view from position `from` on, up to a latch that would take longer than
    /// the limit. Returns whether that was all. REQUIRES: no writer keeps versions for it any more, once it
    /// has taken a latch.
    pub(crate) fn release(&self, mut from: u64, bit: u8, limit: Option<Duration>) -> (Freed, bool) {
        let mut freed = Freed::default();
        while from < END {
            let hash = KeyHash::at(from);
            let index = self.index_of(hash);
            let Some(mut segment) = self.write_within(index, limit) else { return (freed, false) };
            let n = self.segments();
            if index_among(n, hash) == index {
                let end = (from | (LAST_POSITION >> depth_of(n, index))) + 1;
                segment.remset_mut().release(bit, &(from..end), &mut freed);
                from = end;
            }
        }
        (freed, true)
    }
}

impl Part {
    /// Hands the first of the entries on to `visitor`, and the versions in their place. Returns the position
    /// up to which it went.
    pub(crate) fn read(mut self, visitor: &mut impl Visitor) -> u64 {
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
        let end = self.choose();
        visitor.part(self.range.start, end, self.removed);
        let reach = visitor.reach();
        for entries in self.entries.chunks(FETCHED) {
            touch(entries.iter().map(Pinned::entry), reach);
            for pinned in entries {
                #[cfg(shuttle)]
                shuttle::thread::yield_now();
                visitor.visit(pinned.entry());
            }
        }
        self.versions.iter().for_each(|(_, version)| visitor.version(version));
        end
    }

    /// Keeps the entries of the first positions, as many as are enough, and their versions. Returns where the
    /// next ones begin.
    fn choose(&mut self) -> u64 {
        let kept = self.versions.iter().map(|(_, version)| &**version);
        let bytes = self.entries.iter().map(Pinned::entry).chain(kept).map(Entry::bytes_about).sum();
        if bytes <= PART_BYTES {
            return self.range.end;
        }
        let position = |pinned: &Pinned| KeyHash::of_stored(pinned.entry().key()).position();
        let mut placed: Vec<(u64, Option<Pinned>)> =
            self.entries.drain(..).map(|pinned| (position(&pinned), Some(pinned))).collect();
        placed.extend(self.versions.iter().map(|(at, _)| (*at, None)));
        let most = part_len(bytes, placed.len(), PART_BYTES);
        let end = end_of(&mut placed, most, |(at, _)| *at).unwrap_or(self.range.end);
        let read = placed.into_iter().filter(|(at, _)| *at < end);
        self.entries.extend(read.filter_map(|(_, pinned)| pinned));
        self.versions.retain(|(at, _)| *at < end);
        end
    }
}

impl Segment {
    /// Visits entries up to `newest`, those of the first positions in `range`. Returns how far it went: up to
    /// the end of the range, or up to a position before which there are enough.
    fn visit<V: Visitor>(&self, range: Range<u64>, newest: Lsn, visitor: &mut V) -> u64 {
        // The fronts are looked at for every part of the segment, the rest for one of them.
        touch_fronts(self.iter());
        let seen = self.iter().filter(|entry| entry.lsn() <= newest);
        let placed = seen.map(|entry| (KeyHash::of_stored(entry.key()).position(), entry));
        let mut found: Vec<(u64, &Entry)> = placed.filter(|(at, _)| range.contains(at)).collect();
        let bytes = found.iter().map(|(_, entry)| entry.block_len()).sum();
        let most = part_len(bytes, found.len(), LIVE_BYTES).min(LIVE_ENTRIES);
        let end = end_of(&mut found, most, |(at, _)| *at).unwrap_or(range.end);
        visitor.part(range.start, end, self.removed());
        let read = found.iter().filter(|(at, _)| *at < end).map(|(_, entry)| *entry);
        touch(read.clone(), visitor.reach());
        read.for_each(|entry| visitor.visit(entry));
        end
    }
}

/// How many of `count` entries that have so many bytes together are as many as `most`.
fn part_len(bytes: usize, count: usize, most: usize) -> usize {
    (count * most / bytes.max(1)).max(1)
}

/// The position in front of which about `most` are found; `None` if there are no more than that. Those of one
/// position go together.
fn end_of<T>(found: &mut [T], most: usize, position: impl Fn(&T) -> u64) -> Option<u64> {
    if found.len() <= most {
        return None;
    }
    let (before, first, _) = found.select_nth_unstable_by_key(most, &position);
    // All of the first position, if there is nothing before it.
    let bound = position(first);
    Some(if before.iter().any(|one| position(one) < bound) { bound } else { bound + 1 })
}

#[cfg(all(test, not(any(shuttle, loom))))]
mod tests {
    use super::*;
    use crate::record::{Change, Kind, Side, Stamped};
    use crate::table::latch::AtomicU64;
    use crate::table::{KeyRef, Retired};
    use crate::value::stream::{Pending, StreamId, element};
    use crate::value::{ImageBuilder, ValueRef, elements_of};

    /// A view that has seen what was written at 1.
    const READER: Reader = Reader { bit: 0, cut: Lsn(1) };

    fn write(table: &Table, key: &str, write: Stamped<'_, '_>, readers: Readers<'_>) {
        let key = KeyRef::of(0, key.as_bytes());
        let (index, mut segment) = table.write_of(key.hash);
        let (effect, fits) =
            segment.apply(key, write, table.waiting(readers, key.hash), &mut Retired::default());
        assert!(fits);
        table.note(index, effect);
    }

    /// Creates what the view sees.
    fn create(table: &Table, key: &str, change: &Change<'_>) {
        write(table, key, Stamped { lsn: Lsn(1), change }, Readers::NONE);
    }

    /// Changes that.
    fn change(table: &Table, key: &str, change: &Change<'_>) {
        let cuts = [AtomicU64::new(READER.cut.0)];
        let readers = Readers { active: 1, newest: READER.cut, lsn: Lsn(2), cuts: &cuts };
        write(table, key, Stamped { lsn: Lsn(2), change }, readers);
    }

    fn put(value: Vec<u8>) -> Change<'static> {
        Change::Put { value: value.into(), expiry: None }
    }

    /// An entry of a stream.
    fn entry(number: u64, text: &[u8]) -> Change<'static> {
        element::put_entry(StreamId::new(number, 0), number, [(text, text)].into_iter())
    }

    /// A collection of so many elements.
    fn image(kind: Kind, elements: usize) -> Change<'static> {
        let mut image = ImageBuilder::new(kind);
        for number in 0..elements {
            let name = format!("element:{number}").into_bytes();
            match kind {
                Kind::Hash => image.push_field(&name, b"value"),
                Kind::ZSet => image.push_scored(&name, 1.0),
                Kind::Stream => {
                    if let Change::StreamPut { name, value } = entry(number as u64, &name) {
                        image.push_field(&name, &value);
                    }
                }
                _ => image.push_element(&name),
            }
        }
        Change::Image { kind, elements: image.finish().into(), expiry: None, sticky: false }
    }

    /// Changes at the ends of a list or a stream: the leaves there have room then.
    fn at_ends(kind: Kind) -> Vec<Change<'static>> {
        let element = || b"an element at an end".to_vec().into();
        match kind {
            Kind::List => [Side::Front, Side::Back, Side::Front, Side::Back]
                .map(|side| Change::ListPush { side, element: element() })
                .into(),
            Kind::Stream => (6_000..6_004).map(|number| entry(number, b"more")).collect(),
            _ => Vec::new(),
        }
    }

    fn contents(entry: &Entry) -> Vec<u8> {
        match entry.value() {
            ValueRef::String(text) => text.to_vec(),
            value => elements_of(value),
        }
    }

    #[test]
    fn a_part_has_no_entry_of_positions_that_are_not_kept_for_the_view() {
        let table = Table::default();
        (0..100).for_each(|number| create(&table, &format!("key:{number}"), &put(Vec::new())));
        let mut found = 0;
        for range in [0..END / 3, END / 3..END] {
            // SAFETY: nobody else has the table.
            let part = unsafe { table.pin(range.clone(), READER, None).expect("without a limit it waits") };
            let position = |pinned: &Pinned| KeyHash::of_stored(pinned.entry().key()).position();
            assert!(part.entries.iter().map(position).all(|at| range.contains(&at)));
            found += part.entries.len();
        }
        assert_eq!(found, 100);
    }

    #[test]
    fn a_write_leaves_what_a_part_is_about_to_read_as_it_was() {
        let name = || b"element:1".to_vec().into();
        let list = [
            Change::ListPush { side: Side::Back, element: name() },
            Change::ListPush { side: Side::Front, element: name() },
            Change::ListInsert { index: 1, element: name() },
            Change::ListPut { index: 1, element: name() },
            Change::ListRemove { index: 1 },
            Change::ListPop { side: Side::Front, count: 2 },
            Change::ListPop { side: Side::Back, count: 1 },
        ];
        let set = [Change::SetAdd { member: b"more".into() }, Change::SetRemove { member: name() }];
        let hash =
            [Change::HashPut { field: name(), value: b"other".into() }, Change::HashRemove { field: name() }];
        let zset = [Change::ZSetPut { member: name(), score: 2.0 }, Change::ZSetRemove { member: name() }];
        let pending = Pending { id: StreamId::MIN, consumer: b"c", delivered: 1, deliveries: 1 };
        let stream = [
            entry(1, b"other"),
            entry(u64::MAX, b"more"),
            element::remove_entry(StreamId::new(3, 0)),
            element::put_pending(b"g", &pending),
            Change::StreamTrim { below: StreamId::new(4, 0) },
            Change::StreamTrim { below: StreamId::new(4_900, 0) },
            Change::StreamTrim { below: StreamId::MAX },
        ];
        let string = [Change::Patch { offset: 1, bytes: b"patch".into() }];
        let all = || [put(b"other".to_vec()), Change::Expire(Some(9)), Change::Delete];
        // One allocation, and nodes or chunks.
        let cases = [
            (Kind::String, &string[..]),
            (Kind::List, &list[..]),
            (Kind::Set, &set[..]),
            (Kind::Hash, &hash[..]),
            (Kind::ZSet, &zset[..]),
            (Kind::Stream, &stream[..]),
        ];
        for ((kind, changes), elements) in cases.iter().flat_map(|case| [(*case, 5), (*case, 5000)]) {
            for write in changes.iter().cloned().chain(all()) {
                let table = Table::default();
                table.begin(READER.bit, &(0..END));
                let value =
                    if kind == Kind::String { put(vec![b'x'; elements * 10]) } else { image(kind, elements) };
                create(&table, "key", &value);
                at_ends(kind).iter().for_each(|more| create(&table, "key", more));
                let entry_of = |part: &Part| contents(part.entries[0].entry());
                // SAFETY: `change` keeps what the view sees.
                let part = unsafe { table.pin(0..END, READER, None).expect("without a limit it waits") };
                let before = entry_of(&part);
                change(&table, "key", &write);
                change(&table, "key", &Change::Delete);
                assert!(entry_of(&part) == before, "{kind:?} of {elements}, {write:?}");
                part.read(&mut |entry: &Entry| assert!(contents(entry) == before));
            }
        }
    }

    #[test]
    fn a_part_is_bounded_by_all_that_is_read_in_it() {
        const KEYS: usize = 64;
        let table = Table::default();
        table.begin(READER.bit, &(0..END));
        for number in 0..KEYS {
            create(&table, &format!("list:{number}"), &image(Kind::List, 20_000));
            create(&table, &format!("string:{number}"), &put(vec![0; 100_000]));
        }
        // What is kept of them counts as well.
        (0..KEYS / 2).for_each(|number| change(&table, &format!("list:{number}"), &Change::Delete));
        let (mut from, mut read) = (0, 0);
        while from < END {
            let mut bytes = Vec::new();
            // SAFETY: nobody else has the table.
            let part = unsafe { table.pin(from..END, READER, None).expect("without a limit it waits") };
            from = part.read(&mut |entry: &Entry| bytes.push(entry.bytes_about()));
            assert!(bytes.iter().sum::<usize>() <= 2 * PART_BYTES, "{bytes:?}");
            read += bytes.len();
        }
        assert_eq!(read, 2 * KEYS);
    }
}
