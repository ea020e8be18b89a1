//! Merges a full checkpoint and the changes since into the next full one.
//!
//! It keeps the keys of those changes in memory that an entry of the full checkpoint may still meet: they lie
//! in the group that is being read. These are some hundreds, unless the store has grown much since the groups
//! were made. If they are too many the merge is given up: all of the store is written then, in new groups.
//!
//! ```text
//!   full      e e e e | e e e | e e e e e      entries in groups of rising positions
//!   changes   c     c |       | c              "whole" groups replace all that was there
//!             └ written first; then those of the full one that are not among them
//! ```
//!
//! Positions come from the hash of a key, so both must have been written by this process.

use std::collections::{HashSet, VecDeque};
use std::ops::Range;

use super::error::CheckpointError;
use super::reader::{FileReader, Record, Stream};
use super::writer::Blocks;
use crate::table::KeyHash;
use crate::value::stored::key_of;

/// Keys that are kept at most, but for those of one group of changes; and their bytes, unless it is one key.
pub(super) const KEYS_MAX: usize = 1 << 16;
const KEY_BYTES_MAX: usize = 16 << 20;

/// How a merge ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Merged {
    /// Not if too many keys would have had to be kept.
    pub(super) is_complete: bool,
    /// How many keys were kept at one time.
    pub(super) keys_max: usize,
}

/// The changes that have been written, as far as entries of the full checkpoint may still meet them.
#[derive(Default)]
struct Written {
    keys: HashSet<Box<[u8]>>,
    key_bytes: usize,
    /// The keys in the order of their groups, with where that group ends.
    order: VecDeque<(u64, Box<[u8]>)>,
    /// Ranges of which everything is replaced, whatever its key. They rise, and none touches the next.
    whole: VecDeque<Range<u64>>,
}

impl Written {
    fn replaces(&self, position: u64, key: &[u8]) -> bool {
        let at = self.whole.partition_point(|range| range.end <= position);
        self.whole.get(at).is_some_and(|range| range.contains(&position)) || self.keys.contains(key)
    }

    fn note_key(&mut self, end: u64, key: &[u8]) {
        self.key_bytes += key.len();
        self.order.push_back((end, key.into()));
        self.keys.insert(key.into());
    }

    fn note_whole(&mut self, range: Range<u64>) {
        match self.whole.back_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.whole.push_back(range),
        }
    }

    /// How many keys and ranges are kept.
    fn kept(&self) -> usize {
        self.order.len() + self.whole.len()
    }

    fn is_too_much(&self) -> bool {
        self.kept() > KEYS_MAX || self.key_bytes > KEY_BYTES_MAX && self.order.len() > 1
    }

    /// Forgets what lies before a position.
    fn forget_before(&mut self, position: u64) {
        while let Some((_, key)) = self.order.pop_front_if(|(end, _)| *end <= position) {
            self.key_bytes -= key.len();
            self.keys.remove(&key);
        }
        while self.whole.front().is_some_and(|range| range.end <= position) {
            self.whole.pop_front();
        }
    }
}

/// The changes, and how far they have been written.
struct Changes<'r> {
    stream: Stream<'r>,
    written: Written,
    /// The group that is being read: its database, whether it is whole, and where it ends.
    db: u8,
    whole: bool,
    end: u64,
    /// The group behind it, read already.
    next: Option<(u8, bool, u64, u64)>,
    /// The full checkpoint has no more entries before this position of this database.
    passed: (u8, u64),
    merged: Merged,
    over: bool,
}

impl Changes<'_> {
    /// Notes how far the full checkpoint has been read.
    fn pass(&mut self, db: u8, position: u64) {
        self.passed = (db, position);
        if self.db == db {
            self.written.forget_before(position);
        }
    }

    /// Writes changes up to, at least, `position` of `db`; everything before that database, too. `false` if
    /// too many keys are kept.
    fn write_up_to(
        &mut self,
        db: u8,
        position: u64,
        out: &mut Blocks<'_>,
        goes_on: &mut impl FnMut() -> Result<(), CheckpointError>,
    ) -> Result<bool, CheckpointError> {
        while !self.over && (self.db < db || self.db == db && self.end <= position) {
            goes_on()?;
            if let Some((next_db, whole, from, end)) = self.next.take() {
                if next_db != self.db {
                    self.written = Written::default();
                    out.range(next_db, true, 0, crate::table::END);
                }
                (self.db, self.whole, self.end) = (next_db, whole, end);
                if whole && self.is_met() {
                    self.written.note_whole(from..end);
                }
            }
            self.write_group(out)?;
            self.merged.keys_max = self.merged.keys_max.max(self.written.kept());
            if self.written.is_too_much() {
                self.merged.is_complete = false;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an entry of the full checkpoint may still lie in the group.
    fn is_met(&self) -> bool {
        (self.db, self.end) > self.passed
    }

    /// Writes the entries up to the next group.
    fn write_group(&mut self, out: &mut Blocks<'_>) -> Result<(), CheckpointError> {
        let keeps = self.is_met() && !self.whole;
        loop {
            let Some(record) = self.stream.next()? else {
                self.over = true;
                return Ok(());
            };
            match record {
                Record::Range { db, whole, from, end } => {
                    self.next = Some((db, whole, from, end));
                    return Ok(());
                }
                Record::Entry(block) | Record::Nodes(block) => {
                    if keeps {
                        self.written.note_key(self.end, key_of(block).unwrap_or_default());
                    }
                    out.copy(&record);
                }
                Record::Leaf(_) | Record::Times(_) | Record::End => out.copy(&record),
            }
        }
    }
}

/// Writes what `full` and `changes` say together. `goes_on` is asked now and then. If it was given up, what
/// was written is of no use.
pub(super) fn merge(
    full: &mut FileReader,
    changes: &mut FileReader,
    out: &mut Blocks<'_>,
    mut goes_on: impl FnMut() -> Result<(), CheckpointError>,
) -> Result<Merged, CheckpointError> {
    let mut full = Stream::of(full);
    let mut changes = Changes {
        stream: Stream::of(changes),
        written: Written::default(),
        db: 0,
        whole: false,
        end: 0,
        next: None,
        passed: (0, 0),
        merged: Merged { is_complete: true, keys_max: 0 },
        over: false,
    };
    let (mut db, mut keeps) = (0, true);
    out.range(0, true, 0, crate::table::END);
    while let Some(record) = full.next()? {
        match record {
            Record::Range { db: next, from, .. } => {
                if out.has_failed() {
                    // What has failed says so itself.
                    return Ok(changes.merged);
                }
                goes_on()?;
                changes.pass(next, from);
                if !changes.write_up_to(next, from, out, &mut goes_on)? {
                    return Ok(changes.merged);
                }
                if next != db {
                    db = next;
                    out.range(db, true, 0, crate::table::END);
                }
                out.range(db, true, from, crate::table::END);
            }
            Record::Entry(block) | Record::Nodes(block) => {
                let key = key_of(block).unwrap_or_default();
                let position = KeyHash::of(key).position();
                if !changes.write_up_to(db, position, out, &mut goes_on)? {
                    return Ok(changes.merged);
                }
                keeps = changes.db != db || !changes.written.replaces(position, key);
                if keeps {
                    out.copy(&record);
                }
            }
            Record::Leaf(_) | Record::Times(_) | Record::End if keeps => out.copy(&record),
            Record::Leaf(_) | Record::Times(_) | Record::End => {}
        }
    }
    changes.pass(u8::MAX, u64::MAX);
    changes.write_up_to(u8::MAX, u64::MAX, out, &mut goes_on)?;
    Ok(changes.merged)
}
