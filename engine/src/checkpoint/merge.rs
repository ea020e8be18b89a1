//! Merges a full checkpoint and the changes since into the next full one.
//!
//! It keeps the keys of the changes that lie between two groups of the full checkpoint in memory. These are
//! some hundreds of keys, unless the store has grown much since: after a bulk load into a small store they
//! are most of its keys.
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

/// The changes that have been written, as far as entries of the full checkpoint may still meet them.
#[derive(Default)]
struct Written {
    keys: HashSet<Box<[u8]>>,
    /// The keys in the order of their groups, with where that group ends.
    order: VecDeque<(u64, Box<[u8]>)>,
    whole: VecDeque<Range<u64>>,
}

impl Written {
    fn replaces(&self, position: u64, key: &[u8]) -> bool {
        self.whole.iter().any(|range| range.contains(&position)) || self.keys.contains(key)
    }

    /// Forgets what lies before a position.
    fn forget_before(&mut self, position: u64) {
        while self.order.front().is_some_and(|(end, _)| *end <= position) {
            if let Some((_, key)) = self.order.pop_front() {
                self.keys.remove(&key);
            }
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
    /// The group that is being read: its database and where it ends.
    db: u8,
    end: u64,
    /// The group behind it, read already.
    next: Option<(u8, bool, u64, u64)>,
    over: bool,
}

impl Changes<'_> {
    /// Writes changes up to, at least, `position` of `db`; everything before that database, too.
    fn write_up_to(&mut self, db: u8, position: u64, out: &mut Blocks<'_>) -> Result<(), CheckpointError> {
        while !self.over && (self.db < db || self.db == db && self.end <= position) {
            if let Some((next_db, whole, from, end)) = self.next.take() {
                if next_db != self.db {
                    self.written = Written::default();
                    out.range(next_db, true, 0, crate::table::END);
                }
                (self.db, self.end) = (next_db, end);
                if whole {
                    self.written.whole.push_back(from..end);
                }
            }
            self.write_group(out)?;
        }
        Ok(())
    }

    /// Writes the entries up to the next group.
    fn write_group(&mut self, out: &mut Blocks<'_>) -> Result<(), CheckpointError> {
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
                    let key: Box<[u8]> = key_of(block).unwrap_or_default().into();
                    self.written.order.push_back((self.end, key.clone()));
                    self.written.keys.insert(key);
                    out.copy(&record);
                }
                Record::Leaf(_) | Record::End => out.copy(&record),
            }
        }
    }
}

/// Writes what `full` and `changes` say together. `goes_on` is asked now and then.
pub(super) fn merge(
    full: &mut FileReader,
    changes: &mut FileReader,
    out: &mut Blocks<'_>,
    mut goes_on: impl FnMut() -> Result<(), CheckpointError>,
) -> Result<(), CheckpointError> {
    let mut full = Stream::of(full);
    let stream = Stream::of(changes);
    let written = Written::default();
    let mut changes = Changes { stream, written, db: 0, end: 0, next: None, over: false };
    let (mut db, mut keeps) = (0, true);
    out.range(0, true, 0, crate::table::END);
    while let Some(record) = full.next()? {
        match record {
            Record::Range { db: next, from, .. } => {
                if out.has_failed() {
                    // What has failed says so itself.
                    return Ok(());
                }
                goes_on()?;
                changes.write_up_to(next, from, out)?;
                if next != db {
                    db = next;
                    out.range(db, true, 0, crate::table::END);
                }
                if changes.db == db {
                    changes.written.forget_before(from);
                }
                out.range(db, true, from, crate::table::END);
            }
            Record::Entry(block) | Record::Nodes(block) => {
                let key = key_of(block).unwrap_or_default();
                let position = KeyHash::of(key).position();
                changes.write_up_to(db, position, out)?;
                keeps = changes.db != db || !changes.written.replaces(position, key);
                if keeps {
                    out.copy(&record);
                }
            }
            Record::Leaf(_) | Record::End if keeps => out.copy(&record),
            Record::Leaf(_) | Record::End => {}
        }
    }
    changes.write_up_to(u8::MAX, u64::MAX, out)
}
