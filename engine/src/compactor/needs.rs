//! Decides which records of a compacted file are still needed.
//!
//! By kind of record:
//! - a put, an element, an image, an expiry: unless its bit says that a newer one took its place, or its
//!   database was flushed. What a start has found in its checkpoint may lack bits, so the entry is asked,
//!   too, whether the record is the newest of what it says;
//! - a change of a list or of a part of a string: while the entry is made of it, which the entry knows
//!   (`Entry::base`), so it is asked, where it is now;
//! - a part of a prepared value, and the record that gave it its key: while it is being prepared, or the
//!   entry is made of it;
//! - a removal (a key, an element, the time of a field, a database): as long as a file may hold an older
//!   record of what it took away. A file that was compacted after the removal has none. The checkpoint that a
//!   start begins with may have one too, if it is older than the removal. An image holds what was taken out
//!   of it since, as long as the key is there that began with it;
//! - two databases that changed places: always.
//!
//! With `CompactionOptions::rewrites` nothing is needed that the last checkpoint has: a log that is written
//! again from a snapshot, as others do it, to compare with.

use std::collections::HashMap;
use std::time::Duration;

use crate::log::{Keeper, Look};
use crate::record::{Change, Kind, Lsn, Write};
use crate::store::Store;
use crate::table::{Entry, KeyHash};

use super::lsns::Lsns;

/// The longest wait for a latch inside the gate: a script may have it for long.
const LATCH_WAIT: Duration = Duration::from_millis(10);
/// The most keys of which the bytes of changes are counted in one compaction.
const COUNTED_KEYS_MAX: usize = 1 << 16;

/// Says what is needed of files that are being compacted.
pub(super) struct Needs<'e> {
    pub(super) store: &'e Store,
    /// Told how many bytes were moved so far; waits if that was too fast, and says whether to go on.
    pub(super) keep_pace: &'e dyn Fn(u64) -> bool,
    /// Removals before this one are needed by no file, and by no checkpoint.
    pub(super) removals_end: Lsn,
    /// Records up to this `Lsn` are in the checkpoint, and are dropped.
    pub(super) dropped_up_to: Lsn,
    /// Records up to this `Lsn` are in the checkpoint, so damage to them does not matter.
    pub(super) covered: Lsn,
    /// Raw bytes that were read and written.
    pub(super) moved: u64,
    /// The bits of the block that is being copied.
    pub(super) look: Look,
    /// Records that were dropped and may have bits.
    pub(super) dropped: Lsns,
    /// Records that were kept.
    pub(super) kept: Lsns,
    /// Bytes of the changes of each key that were kept because its entry is made of them.
    pub(super) changes: HashMap<(u8, Box<[u8]>), usize>,
}

impl Needs<'_> {
    fn is_needed(&mut self, lsn: Lsn, write: &Write<'_>) -> bool {
        let Write::Key { db, key, change } = write else {
            return matches!(write, Write::Swap { .. }) || self.needs_removal(lsn);
        };
        match change {
            Change::Delete => self.needs_removal(lsn),
            Change::HashRemove { .. }
            | Change::HashExpire { at: None, .. }
            | Change::SetRemove { .. }
            | Change::ZSetRemove { .. }
            | Change::StreamRemove { .. }
            | Change::StreamTrim { .. }
            | Change::StreamGroupRemove { .. } => {
                self.needs_removal(lsn) || {
                    let place = self.place_if(*db, key, lsn, |entry| entry.is_taken_from_image(lsn));
                    self.count(place, key, change)
                }
            }
            // What is older than these may have been dropped, and is of use to no element that is there.
            Change::RenewalBegins { kind: Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream, .. }
            | Change::RenewalEnds { kind: Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream, .. } => {
                self.needs_removal(lsn)
            }
            Change::Patch { .. }
            | Change::ListPush { .. }
            | Change::ListPop { .. }
            | Change::ListPut { .. }
            | Change::ListInsert { .. }
            | Change::ListRemove { .. }
            | Change::RenewalBegins { .. }
            | Change::RenewalEnds { .. } => {
                let kind = change.kind();
                let place = self.place_if(*db, key, lsn, |entry| entry.may_be_made_of(lsn, kind));
                self.count(place, key, change)
            }
            // Tells a start to forget parts that other files may have.
            Change::PreparedPart { begun, bytes, .. } if *begun != Lsn::ZERO && bytes.is_empty() => {
                self.needs_removal(lsn)
            }
            Change::PreparedPart { begun, .. } | Change::Prepared { begun, .. } => {
                let begun = if *begun == Lsn::ZERO { lsn } else { *begun };
                self.store.preparations().is_running(begun)
                    || self.place_if(*db, key, lsn, |entry| entry.is_prepared_since(begun)).is_some()
            }
            // What the value began with, so it is no change of it.
            Change::RenewalPart { .. } => {
                let kind = change.kind();
                self.place_if(*db, key, lsn, |entry| entry.may_be_made_of(lsn, kind)).is_some()
            }
            _ => {
                let validity = self.store.validity();
                if !self.look.is_valid(lsn).unwrap_or_else(|| validity.is_valid(lsn)) {
                    return false;
                }
                match lsn > validity.complete_after() {
                    true => !self.look.has_upheavals || validity.place_now(*db, lsn).is_some(),
                    // It was not replayed, so its replacement set no bit.
                    false => self.place_if(*db, key, lsn, |entry| entry.has_of(lsn, change)).is_some(),
                }
            }
        }
    }

    /// Where the key of an old record is now, if it is there and its entry is one that `is_wanted`.
    fn place_if(&self, db: u8, key: &[u8], lsn: Lsn, is_wanted: impl Fn(&Entry) -> bool) -> Option<u8> {
        let hash = KeyHash::of(key);
        loop {
            let databases = self.store.background();
            let db = self.store.validity().place_now(db, lsn)?;
            // The gate is left between two tries: others may want to close it.
            let latched = databases.tables[db as usize].read_of_within(hash, Some(LATCH_WAIT));
            if let Some((_, segment)) = latched {
                return segment.find(hash, key).is_some_and(is_wanted).then_some(db);
            }
        }
    }

    /// Whether a file, or a checkpoint, may have what a removal took away.
    fn needs_removal(&self, lsn: Lsn) -> bool {
        // Of elements up to there, older versions kept old ones, too.
        lsn >= self.removals_end || lsn <= self.store.validity().complete_after()
    }

    /// Counts a change that is kept because the entry in database `db` is made of it; says whether it is.
    fn count(&mut self, db: Option<u8>, key: &[u8], change: &Change<'_>) -> bool {
        let Some(db) = db else { return false };
        let bytes = 16
            + key.len()
            + match change {
                Change::Patch { bytes, .. } => bytes.len(),
                Change::ListPush { element, .. }
                | Change::ListPut { element, .. }
                | Change::ListInsert { element, .. } => element.len(),
                _ => 0,
            };
        if self.changes.len() < COUNTED_KEYS_MAX {
            *self.changes.entry((db, key.into())).or_default() += bytes;
        } else if let Some(sum) = self.changes.get_mut(&(db, key.into()) as &(u8, Box<[u8]>)) {
            *sum += bytes;
        }
        true
    }
}

impl Keeper for Needs<'_> {
    fn dropped_up_to(&self) -> Lsn {
        self.dropped_up_to
    }

    fn covered(&self) -> Lsn {
        self.covered
    }

    fn begin(&mut self, first: Lsn, last: Lsn) {
        self.store.validity().look(first..=last, &mut self.look);
    }

    fn needs(&mut self, lsn: Lsn, write: &Write<'_>) -> bool {
        let needs = lsn > self.dropped_up_to && self.is_needed(lsn, write);
        if needs {
            self.kept.push(lsn)
        } else {
            self.dropped.push(lsn)
        }
        needs
    }

    fn moved(&mut self, bytes: u64) -> bool {
        self.moved += bytes;
        (self.keep_pace)(self.moved)
    }
}
