//! A segment: some hundreds of entries behind one latch.
//!
//! Invariants, under the latch:
//! - every entry's hash belongs to this segment (`directory.rs` says which);
//! - `expiring` counts the entries that have an expiry, and `timed` the hashes whose fields have times;
//! - `removed` ≥ the `Lsn` of every removal from this segment;
//! - `remset` has a version for each view that has not passed a key yet and saw another entry of it.

use super::entry::{Applied, Built, Entry, Over, Remains, Retired, touch_all};
use super::hash::{KeyHash, KeyRef};
use super::readers::Waiting;
use super::remset::Remset;
use super::slots::{Place, Slots};
use crate::record::{Change, Lsn, Stamped, UnixMs};
use crate::value::zset::ZSetTrees;
use crate::value::{is_same, left, scale};
use smallvec::SmallVec;

/// Slots that are drawn at random before a walk looks for one that is used.
const DRAWS: usize = 32;
/// An odd factor that spreads the bits of a random number: 2^64 by the golden ratio.
const DRAW_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// An entry with more bytes in its allocation stays where it is: few of that size share a page.
const MOVED_BYTES_MAX: usize = 4 << 10;

/// Whether a change may find nothing: what it takes away is gone already.
fn takes_away(change: &Change<'_>) -> bool {
    use Change::{Delete, HashExpire, HashRemove, RenewalEnds, SetRemove, ZSetRemove};
    use Change::{StreamGroupRemove, StreamRemove, StreamTrim};
    let is_of_hash = matches!(change, HashRemove { .. } | HashExpire { .. });
    let is_element = is_of_hash || matches!(change, SetRemove { .. } | ZSetRemove { .. });
    let is_of_stream = matches!(change, StreamRemove { .. } | StreamTrim { .. } | StreamGroupRemove { .. });
    is_element || is_of_stream || matches!(change, Delete | RenewalEnds { .. })
}

/// Whether a change leaves nothing of the value that is there.
fn takes_whole(change: &Change<'_>, entry: &Entry) -> bool {
    match change {
        Change::ListPop { count, .. } => *count >= entry.count() as u64,
        _ => replaces(change),
    }
}

/// Whether nothing of the value is looked at, let alone left.
fn replaces(change: &Change<'_>) -> bool {
    matches!(change, Change::Put { .. } | Change::Image { .. } | Change::Prepared { .. } | Change::Delete)
}

/// Some hundreds of entries; what the latch of the directory's slot protects.
#[derive(Default)]
pub struct Segment {
    entries: Slots,
    expiring: usize,
    timed: usize,
    removed: Lsn,
    remset: Remset,
}

/// The part of a segment that is over.
pub(crate) struct Due {
    /// Keys, and what of each is over.
    pub(crate) over: Vec<(Box<[u8]>, Over)>,
    /// When the next of the others is over.
    pub(crate) next: Option<UnixMs>,
}

/// The effect of a change on the numbers of keys and on the due time of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effect {
    /// +1, 0 or -1.
    pub keys: i64,
    /// The same for keys with an expiry.
    pub expiring: i64,
    /// The same for hashes whose fields have times.
    pub timed: i64,
    /// When something of the changed entry is over.
    pub due: Option<UnixMs>,
}

impl Effect {
    /// That of an entry that was not there before.
    pub(crate) fn of_new(entry: &Entry) -> Effect {
        let (expires, is_timed) = counted(entry);
        let due = if expires || is_timed { entry.due() } else { None };
        Effect { keys: 1, expiring: expires.into(), timed: is_timed.into(), due }
    }

    /// Adds the numbers of another change.
    pub(crate) fn add(&mut self, other: Effect) {
        self.keys += other.keys;
        self.expiring += other.expiring;
        self.timed += other.timed;
    }
}

impl Segment {
    /// The entry of `key`, expired or not.
    #[inline]
    pub fn find(&self, hash: KeyHash, key: &[u8]) -> Option<&Entry> {
        self.place_of(hash, key).map(|place| self.entries.at(place))
    }

    #[inline]
    fn place_of(&self, hash: KeyHash, key: &[u8]) -> Option<Place> {
        self.entries.find(hash, |entry| is_same(entry.key(), key))
    }

    /// Where the entry of a key with this hash is, if any: nearly always right, as nothing of the entry is
    /// looked at.
    #[inline]
    pub fn guess(&self, hash: KeyHash) -> Option<&Entry> {
        self.entries.find(hash, |_| true).map(|place| self.entries.at(place))
    }

    /// The `Lsn` of the newest removal: what a reader who finds a key missing has seen.
    pub const fn removed(&self) -> Lsn {
        self.removed
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// How many entries have an expiry.
    pub const fn expiring(&self) -> usize {
        self.expiring
    }

    /// How many entries are hashes whose fields have times.
    pub const fn timed(&self) -> usize {
        self.timed
    }

    /// Counts an entry that is there now.
    #[inline]
    fn count_in(&mut self, entry: (bool, bool)) {
        self.expiring += usize::from(entry.0);
        self.timed += usize::from(entry.1);
    }

    /// Counts an entry as gone.
    #[inline]
    fn count_out(&mut self, entry: (bool, bool)) {
        self.expiring -= usize::from(entry.0);
        self.timed -= usize::from(entry.1);
    }

    /// The entries, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.entries.iter()
    }

    /// The entries, in no order, brought into the processor's cache side by side.
    pub(crate) fn iter_fetched(&self) -> impl Iterator<Item = &Entry> {
        touch_all(self.entries.iter());
        self.entries.iter()
    }

    /// Bytes of its entries, without those that others have, too: copies of keys, but not versions of the
    /// same key.
    pub(super) fn bytes_left(&self) -> usize {
        let left = |entry: &Entry| {
            let hash = || KeyHash::of_stored(entry.key());
            let is_shared = entry.is_large() && !self.remset.is_empty() && self.remset.has(hash());
            if is_shared { entry.bytes_near() } else { entry.bytes_own() }
        };
        self.iter_fetched().map(left).sum()
    }

    pub(super) fn remset(&self) -> &Remset {
        &self.remset
    }

    pub(super) fn remset_mut(&mut self) -> &mut Remset {
        &mut self.remset
    }

    /// Applies a change to `key` and keeps what was there for those `waiting` that see it. A change that does
    /// not fit what is there (only a damaged log has one) is dropped and `false` stands in the result.
    pub fn apply(
        &mut self,
        KeyRef { hash, key, .. }: KeyRef<'_>,
        Stamped { lsn, change }: Stamped<'_, '_>,
        waiting: Waiting<'_>,
        retired: &mut Retired,
    ) -> (Effect, bool) {
        let mut effect = Effect::default();
        match self.place_of(hash, key) {
            None => {
                if let Some(entry) = Entry::create(key, change, lsn) {
                    effect = Effect::of_new(&entry);
                    self.count_in(counted(&entry));
                    self.entries.insert(hash, entry);
                } else if takes_away(change) {
                    if let Change::HashExpire { at: Some(_), .. } = change {
                        // Only a replay comes here: what took the key away is behind it.
                        retired.lsns.push(lsn);
                    }
                    self.removed = self.removed.max(lsn);
                } else {
                    return (effect, false);
                }
            }
            Some(place) => {
                let entry = self.entries.at_mut(place);
                let (before, used) = (counted(entry), entry.used());
                let needed = waiting.seeing(entry.lsn());
                let applied = if needed != 0 {
                    let is_apart = replaces(change);
                    if is_apart {
                        // What this version and an older one share counts for the older one.
                        retired.kept.bytes += self.remset.leave_whole(hash, entry);
                    }
                    let Ok((applied, version)) = entry.apply_and_keep(change, lsn, retired) else {
                        return (effect, false);
                    };
                    retired.kept.add(version.bytes);
                    self.remset.push(hash, version, needed, lsn, is_apart);
                    applied
                } else if *change == Change::Delete {
                    // A version of the key, kept at an earlier write, may have shared nodes until now.
                    retired.kept.bytes += self.remset.leave_whole(hash, entry);
                    Applied::Emptied
                } else {
                    let is_watched = !self.remset.is_empty();
                    if is_watched {
                        if takes_whole(change, entry) {
                            retired.kept.bytes += self.remset.leave_whole(hash, entry);
                        }
                        left::take_bytes();
                    }
                    let Ok(applied) = entry.apply(change, lsn, retired) else { return (effect, false) };
                    if is_watched {
                        // A version may have shared nodes that this change has left.
                        retired.kept.bytes += self.remset.leave_to(hash, key, left::take_bytes());
                    }
                    applied
                };
                if applied == Applied::Emptied {
                    (effect.expiring, effect.timed) = (-i64::from(before.0), -i64::from(before.1));
                    self.count_out(before);
                    self.entries.remove(place).retire(retired);
                    self.removed = self.removed.max(lsn);
                    effect.keys = -1;
                    self.shrink();
                } else {
                    entry.note_change(used, change);
                    let after = counted(entry);
                    if after != (false, false) {
                        effect.due = entry.due();
                    }
                    if after != before {
                        effect.expiring = i64::from(after.0) - i64::from(before.0);
                        effect.timed = i64::from(after.1) - i64::from(before.1);
                        self.count_out(before);
                        self.count_in(after);
                    }
                }
            }
        }
        (effect, true)
    }

    /// Gives a key that was just made what earlier records said of it; for a replay, while nobody else is
    /// there. Returns how many keys more have an expiry.
    pub(crate) fn take_over(&mut self, hash: KeyHash, key: &[u8], remains: Remains) -> i64 {
        let before = self.expiring;
        if let Some(place) = self.place_of(hash, key) {
            let entry = self.entries.at_mut(place);
            let expired = entry.expiry().is_some();
            entry.take_over(remains);
            let expires = entry.expiry().is_some();
            self.expiring -= usize::from(expired);
            self.expiring += usize::from(expires);
        }
        self.expiring as i64 - before as i64
    }

    /// How many members a sorted set has, if it is a large one.
    pub(crate) fn large_sorted_set(&self, hash: KeyHash, key: &[u8]) -> Option<usize> {
        self.find(hash, key).filter(|entry| entry.is_large_sorted_set()).map(Entry::count)
    }

    /// Puts packed members into a large sorted set, the newest record of them `lsn`; for a replay, while
    /// nobody else is there.
    pub(crate) fn put_members(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        members: &[u8],
        lsn: Lsn,
        retired: &mut Retired,
    ) {
        let place = self.place_of(hash, key);
        let place = place.expect("the sorted set is there as long as it is collected");
        self.entries.at_mut(place).put_members(members, lsn, retired);
    }

    /// Puts trees in the place of those of a large sorted set, from which they were built apart; for a
    /// replay, while nobody else changes it. Returns those that it had.
    pub(crate) fn put_built(
        &mut self,
        hash: KeyHash,
        key: &[u8],
        built: Built<'_>,
        retired: &mut Retired,
    ) -> Option<ZSetTrees> {
        let place = self.place_of(hash, key);
        let place = place.expect("the sorted set is there as long as it is collected");
        self.entries.at_mut(place).put_built(built, retired)
    }

    /// Puts in an entry that was stored; `false`, and nothing has changed, if its key is there already.
    pub(crate) fn insert(&mut self, hash: KeyHash, entry: Entry) -> bool {
        let is_free = self.entries.find(hash, |other| other.key() == entry.key()).is_none();
        if is_free {
            self.count_in(counted(&entry));
            self.entries.insert(hash, entry);
        }
        is_free
    }

    /// Makes room for so many entries in all.
    pub(super) fn make_room(&mut self, entries: usize) {
        self.entries.reserve(entries.saturating_sub(self.entries.len()));
    }

    /// Gives memory back when three quarters of a once full segment are empty.
    pub(super) fn shrink(&mut self) {
        if self.entries.capacity() > 64 && self.entries.len() * 4 < self.entries.capacity() {
            self.entries.shrink_to(self.entries.len() * 2);
        }
    }

    /// Moves the entries whose hash has `bit` into the returned segment: one step of the table's growth. Both
    /// have room for so many entries then.
    pub(super) fn split(&mut self, bit: u64, room: usize) -> Segment {
        // The hash of an entry is made from its key, in an allocation elsewhere.
        touch_all(self.entries.iter());
        let moved = self.entries.extract(|entry| KeyHash::of_stored(entry.key()), bit);
        let mut target = Segment {
            entries: Slots::with_room(moved.len().max(room)),
            removed: self.removed,
            ..Segment::default()
        };
        for (hash, entry) in moved {
            let counted = counted(&entry);
            self.count_out(counted);
            target.count_in(counted);
            target.entries.insert(hash, entry);
        }
        target.remset = self.remset.split(bit);
        self.entries.shrink_to(room);
        self.make_room(room);
        target
    }

    /// Takes in what `other` has: one step of the table's shrinking.
    pub(super) fn merge(&mut self, other: Segment) {
        let Segment { entries, expiring, timed, removed, remset } = other;
        self.entries.merge(entries);
        self.expiring += expiring;
        self.timed += timed;
        self.removed = self.removed.max(removed);
        self.remset.merge(remset);
    }

    /// The keys and fields that are over at `now`, of fields at most `fields_max`, and when the rest is.
    pub(crate) fn over(&self, now: UnixMs, fields_max: usize) -> Due {
        let mut due = Due { over: Vec::new(), next: None };
        if self.expiring == 0 && self.timed == 0 {
            return due;
        }
        let mut room = fields_max;
        for entry in self.entries.iter() {
            let over = entry.over(now, room);
            if let Some(Over::Fields(fields)) = &over {
                room -= fields.len();
            }
            let rest = match &over {
                None => entry.due(),
                Some(Over::Fields(fields)) => entry.due_behind(fields.len()),
                Some(Over::Key | Over::AllFields(_)) => None,
            };
            due.next = [due.next, rest].into_iter().flatten().min();
            due.over.extend(over.map(|over| (entry.key().into(), over)));
        }
        due
    }

    /// A key chosen by `random`: uniform but for what a segment with few keys in many slots costs; `None` if
    /// the segment is empty.
    pub fn sample(&self, random: u64) -> Option<&Entry> {
        if self.entries.is_empty() {
            return None;
        }
        let slots = self.entries.slots();
        // A walk from a slot that is free would find the key behind many of them more often than others. So
        // slots are drawn until one is used; of those of a segment that shrinks, a quarter is.
        let mut random = random;
        for _ in 0..DRAWS {
            if let Some(entry) = self.entries.get(random as usize % slots) {
                return Some(entry);
            }
            random = random.wrapping_mul(DRAW_FACTOR).rotate_left(31) ^ (random >> 7);
        }
        let start = random as usize % slots;
        (0..slots).find_map(|i| self.entries.get((start + i) % slots))
    }

    /// Entries in a row, from one drawn by `random` on, of which `is` says so: `most` of them, or as many as
    /// there are. The hashes of their keys alone say which entries stand side by side.
    pub(crate) fn sample_row(&self, random: u64, most: usize, is: impl Fn(&Entry) -> bool) -> Vec<&Entry> {
        let (mut row, slots) = (Vec::new(), self.entries.slots());
        let start = scale(random, slots);
        let mut entries = (start..slots).chain(0..start).filter_map(|slot| self.entries.get(slot));
        while row.len() < most {
            // Looks at entries that lie anywhere do not wait for each other.
            let next: SmallVec<[&Entry; 16]> = entries.by_ref().take(16.min(most)).collect();
            if next.is_empty() {
                break;
            }
            touch_all(next.iter().copied());
            row.extend(next.into_iter().filter(|entry| is(entry)));
        }
        row.truncate(most);
        row
    }

    /// Puts small entries into new allocations, but for those of which `stays` says so. Returns them as they
    /// were, with the old allocations: they are to be freed when all of the new ones are made.
    pub(crate) fn move_entries(&mut self, stays: impl Fn(&Entry) -> bool) -> Vec<Entry> {
        touch_all(self.entries.iter());
        let mut old = Vec::with_capacity(self.entries.len());
        for entry in self.entries.iter_mut() {
            if !entry.is_large() && entry.block_len() <= MOVED_BYTES_MAX && !stays(entry) {
                let copy = entry.clone();
                old.push(std::mem::replace(entry, copy));
            }
        }
        old
    }

    /// Checks the invariants; for tests and debug builds.
    pub fn assert_invariants(&self) {
        self.entries.assert_invariants();
        let expiring = self.entries.iter().filter(|entry| entry.expiry().is_some()).count();
        assert_eq!(expiring, self.expiring, "the count of expiring entries is exact");
        let timed = self.entries.iter().filter(|entry| entry.is_timed()).count();
        assert_eq!(timed, self.timed, "the count of hashes whose fields have times is exact");
    }
}

/// As what an entry counts: whether it has an expiry, and fields with times.
#[inline]
fn counted(entry: &Entry) -> (bool, bool) {
    (entry.expiry().is_some(), entry.is_timed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeMap;

    use rand::rngs::SmallRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn each_key_is_drawn_about_as_often() {
        let mut rng = SmallRng::seed_from_u64(7);
        for keys in [2, 5, 40, 300] {
            let mut segment = Segment::default();
            for number in 0..keys {
                let key = format!("key{number}").into_bytes();
                let put = Change::Put { value: b"value".into(), expiry: None };
                assert!(segment.insert(KeyHash::of(&key), Entry::create(&key, &put, Lsn(1)).unwrap()));
            }
            let mut drawn = BTreeMap::<Vec<u8>, u32>::new();
            for _ in 0..keys * 1000 {
                *drawn.entry(segment.sample(rng.random()).unwrap().key().into()).or_default() += 1;
            }
            let (least, most) = (drawn.values().min().unwrap(), drawn.values().max().unwrap());
            assert!(drawn.len() == keys && *least > 700 && *most < 1300, "{keys} keys: {drawn:?}");
        }
    }
}
