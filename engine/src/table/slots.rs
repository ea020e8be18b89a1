//! The entries of a segment: a hash table of buckets, each of them one line of the processor's cache.
//!
//! ```text
//!   bucket   entries e0 … e5, 8 bytes each     marks m0 … m5, 2 bytes each     passed, 2 bytes
//! ```
//!
//! The mark of an entry is 16 bits of its hash. It says which bucket is the entry's home, in a table of any
//! length, and so the table grows without a look at an entry, and by small steps: most slots are used. An
//! entry that finds its home full is put into the next bucket that is not, and counted in each that it
//! passed; a search ends at the first bucket that nothing has passed.
//!
//! Invariants:
//! - an entry is in its home, or in a bucket behind that which it reaches over buckets that count it;
//! - at least an eighth of the slots is free.

use super::entry::Entry;
use super::hash::KeyHash;

/// Entries of a bucket at most.
const SLOTS: usize = 6;
/// Of all slots, up to 7 of 8 are used.
const USED: [usize; 2] = [7, 8];
/// The steps in which a table doubles: those of the allocator's sizes.
const STEPS: usize = 4;

#[derive(Default)]
#[repr(align(64))]
struct Bucket {
    entries: [Option<Entry>; SLOTS],
    /// The marks of the entries; of no meaning where there is none.
    marks: [u16; SLOTS],
    /// How many entries are in buckets behind this one as it was full. If ever there are too many, it stays
    /// at the greatest number.
    passed: u16,
}

const _: () = assert!(size_of::<Bucket>() == 64, "a bucket is a line of the cache");

/// The entries of a segment.
#[derive(Default)]
pub(super) struct Slots {
    buckets: Box<[Bucket]>,
    len: usize,
}

/// Where an entry is, until the next change.
#[derive(Clone, Copy)]
pub(super) struct Place {
    bucket: usize,
    slot: usize,
}

/// The directory spends the low bits of a hash: these are the others.
#[inline]
fn mark_of(hash: KeyHash) -> u16 {
    (hash.0 >> 48) as u16
}

/// How many buckets are made for so many entries.
fn buckets_for(entries: usize) -> usize {
    let least = (entries * USED[1]).div_ceil(SLOTS * USED[0]);
    least.next_multiple_of((least.next_power_of_two() / (2 * STEPS)).max(1))
}

impl Slots {
    /// None, with room for so many.
    pub(super) fn with_room(entries: usize) -> Slots {
        Slots { buckets: (0..buckets_for(entries)).map(|_| Bucket::default()).collect(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries there may be before the table grows.
    pub(super) fn capacity(&self) -> usize {
        self.slots() * USED[0] / USED[1]
    }

    /// Slots, used or not.
    pub(super) fn slots(&self) -> usize {
        self.buckets.len() * SLOTS
    }

    /// The entry in a slot.
    pub(super) fn get(&self, slot: usize) -> Option<&Entry> {
        self.buckets[slot / SLOTS].entries[slot % SLOTS].as_ref()
    }

    /// The entries, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> + Clone {
        self.buckets.iter().flat_map(|bucket| bucket.entries.iter().flatten())
    }

    /// The same, to be changed; not their keys.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.buckets.iter_mut().flat_map(|bucket| bucket.entries.iter_mut().flatten())
    }

    #[inline]
    fn home(&self, mark: u16) -> usize {
        (usize::from(mark) * self.buckets.len()) >> u16::BITS
    }

    #[inline]
    fn next(&self, bucket: usize) -> usize {
        if bucket + 1 < self.buckets.len() { bucket + 1 } else { 0 }
    }

    /// Where the first entry is that has nearly the same hash, and of which `is` says so.
    #[inline]
    pub(super) fn find(&self, hash: KeyHash, is: impl Fn(&Entry) -> bool) -> Option<Place> {
        let mark = mark_of(hash);
        let mut at = self.home(mark);
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            let marks = bucket.marks.iter().enumerate();
            let mut same = marks.fold(0u32, |bits, (slot, other)| bits | u32::from(*other == mark) << slot);
            while same != 0 {
                let slot = same.trailing_zeros() as usize;
                if bucket.entries[slot].as_ref().is_some_and(&is) {
                    return Some(Place { bucket: at, slot });
                }
                same &= same - 1;
            }
            if bucket.passed == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// The entry there.
    #[inline]
    pub(super) fn at(&self, Place { bucket, slot }: Place) -> &Entry {
        self.buckets[bucket].entries[slot].as_ref().expect("a place has an entry")
    }

    /// The same, to be changed; not its key.
    #[inline]
    pub(super) fn at_mut(&mut self, Place { bucket, slot }: Place) -> &mut Entry {
        self.buckets[bucket].entries[slot].as_mut().expect("a place has an entry")
    }

    /// Takes the entry out.
    pub(super) fn remove(&mut self, Place { bucket, slot }: Place) -> Entry {
        let entry = self.buckets[bucket].entries[slot].take().expect("a place has an entry");
        let mut at = self.home(self.buckets[bucket].marks[slot]);
        while at != bucket {
            let passed = &mut self.buckets[at].passed;
            *passed -= u16::from(*passed != u16::MAX);
            at = self.next(at);
        }
        self.len -= 1;
        entry
    }

    /// Puts an entry in. REQUIRES: its key is not there.
    pub(super) fn insert(&mut self, hash: KeyHash, entry: Entry) {
        self.reserve(1);
        self.put(mark_of(hash), entry);
    }

    /// REQUIRES: there is room.
    fn put(&mut self, mark: u16, entry: Entry) {
        let mut at = self.home(mark);
        loop {
            let bucket = &mut self.buckets[at];
            if let Some(slot) = bucket.entries.iter().position(Option::is_none) {
                (bucket.entries[slot], bucket.marks[slot]) = (Some(entry), mark);
                self.len += 1;
                return;
            }
            bucket.passed = bucket.passed.saturating_add(1);
            at = self.next(at);
        }
    }

    /// Makes room for so many entries more.
    pub(super) fn reserve(&mut self, more: usize) {
        if self.len + more > self.capacity() {
            self.rebuild(self.len + more);
        }
    }

    /// Gives up room beyond that for so many entries, as far as it is not used.
    pub(super) fn shrink_to(&mut self, entries: usize) {
        let entries = entries.max(self.len);
        if buckets_for(entries) < self.buckets.len() {
            self.rebuild(entries);
        }
    }

    fn rebuild(&mut self, entries: usize) {
        let old = std::mem::replace(self, Slots::with_room(entries));
        self.take_in(old);
    }

    fn take_in(&mut self, other: Slots) {
        for Bucket { entries, marks, .. } in other.buckets {
            for (entry, mark) in entries.into_iter().zip(marks) {
                if let Some(entry) = entry {
                    self.put(mark, entry);
                }
            }
        }
    }

    /// Takes out the entries whose hash, as `hash` says it, has `bit`.
    pub(super) fn extract(&mut self, hash: impl Fn(&Entry) -> KeyHash, bit: u64) -> Vec<(KeyHash, Entry)> {
        let mut moved = Vec::with_capacity(self.len / 2);
        for bucket in 0..self.buckets.len() {
            for slot in 0..SLOTS {
                let Some(entry) = &self.buckets[bucket].entries[slot] else { continue };
                let hash = hash(entry);
                if hash.0 & bit != 0 {
                    moved.push((hash, self.remove(Place { bucket, slot })));
                }
            }
        }
        moved
    }

    /// Takes in the entries of another. REQUIRES: none of their keys is here.
    pub(super) fn merge(&mut self, other: Slots) {
        self.reserve(other.len);
        self.take_in(other);
    }

    /// Checks the invariants; for tests and debug builds.
    pub(super) fn assert_invariants(&self) {
        let mut passed = vec![0usize; self.buckets.len()];
        for (bucket, marked) in self.buckets.iter().enumerate() {
            for (entry, mark) in marked.entries.iter().zip(marked.marks) {
                let Some(entry) = entry else { continue };
                assert_eq!(mark, mark_of(KeyHash::of_stored(entry.key())), "a mark is of the entry's hash");
                let mut at = self.home(mark);
                while at != bucket {
                    passed[at] += 1;
                    at = self.next(at);
                }
            }
        }
        let is_exact = |(bucket, passed): (&Bucket, usize)| {
            usize::from(bucket.passed) == passed || bucket.passed == u16::MAX
        };
        assert!(self.buckets.iter().zip(passed).all(is_exact), "each bucket counts what has passed it");
        assert_eq!(self.iter().count(), self.len, "the count is exact");
        assert!(self.len <= self.capacity(), "there are free slots");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::record::{Change, Lsn};

    fn entry(key: &[u8]) -> Entry {
        let put = Change::Put { value: key.into(), expiry: None };
        Entry::create(key, &put, Lsn(1)).expect("a put makes an entry")
    }

    fn place(slots: &Slots, key: &[u8]) -> Option<Place> {
        slots.find(KeyHash::of_stored(key), |entry| entry.key() == key)
    }

    fn put(slots: &mut Slots, key: &[u8]) {
        slots.insert(KeyHash::of_stored(key), entry(key));
    }

    /// A key for each number.
    fn key(number: u16) -> Vec<u8> {
        format!("key:{number}").into_bytes()
    }

    fn check(slots: &Slots, model: &BTreeMap<u16, Vec<u8>>, gone: impl Iterator<Item = u16>) {
        slots.assert_invariants();
        assert_eq!(slots.len(), model.len());
        for (number, key) in model {
            let found = place(slots, key).map(|place| slots.at(place).key());
            assert_eq!(found, Some(&key[..]), "{number}");
        }
        gone.filter(|number| !model.contains_key(number))
            .for_each(|number| assert!(place(slots, &key(number)).is_none(), "{number} is gone"));
    }

    proptest! {
        #[test]
        fn entries_are_found_until_they_are_taken_out(
            steps in vec((0..4u8, 0..600u16), 0..2000)
        ) {
            let (mut slots, mut model) = (Slots::default(), BTreeMap::new());
            for (what, number) in steps {
                let name = key(number);
                match (what, place(&slots, &name)) {
                    (0, Some(place)) => {
                        let taken = slots.remove(place);
                        prop_assert_eq!(taken.key(), &name[..]);
                        model.remove(&number);
                    }
                    (0, None) if number % 16 == 0 => slots.shrink_to(usize::from(number)),
                    (1.., None) => {
                        put(&mut slots, &name);
                        model.insert(number, name);
                    }
                    _ => {}
                }
            }
            check(&slots, &model, 0..600);
            // A split and a merge.
            let moved = slots.extract(|entry| KeyHash::of_stored(entry.key()), 1);
            let mut other = Slots::with_room(moved.len());
            moved.into_iter().for_each(|(hash, entry)| other.insert(hash, entry));
            slots.assert_invariants();
            other.assert_invariants();
            prop_assert_eq!(slots.len() + other.len(), model.len());
            slots.merge(other);
            check(&slots, &model, 0..600);
        }
    }

    #[test]
    fn a_table_that_is_full_and_emptied_counts_nothing_that_passed() {
        let mut slots = Slots::default();
        let keys: Vec<_> = (0..1000).map(key).collect();
        keys.iter().for_each(|key| put(&mut slots, key));
        assert!(slots.buckets.iter().any(|bucket| bucket.passed > 0), "buckets overflow");
        for key in &keys {
            let place = place(&slots, key).expect("it is there");
            slots.remove(place);
        }
        slots.assert_invariants();
        assert!(slots.buckets.iter().all(|bucket| bucket.passed == 0));
    }

    #[test]
    fn a_slot_costs_few_bytes_however_many_are_used() {
        let mut slots = Slots::default();
        let (mut most, mut all) = (0.0, 0.0);
        for number in 0..1000u16 {
            put(&mut slots, &key(number));
            if slots.len() > 200 {
                let bytes = (slots.buckets.len() * size_of::<Bucket>()) as f64 / slots.len() as f64;
                most = f64::max(most, bytes);
                all += bytes;
            }
        }
        let mean = all / 800.0;
        assert!(most < 15.5 && mean < 13.8, "{most} bytes an entry at most, {mean} in the mean");
    }

    #[test]
    fn buckets_are_of_sizes_that_the_allocator_has() {
        // jemalloc: four sizes in each doubling.
        let sizes: Vec<usize> = (0..80).map(|entries| buckets_for(entries * 5)).collect();
        assert!(
            sizes.is_sorted()
                && sizes
                    .iter()
                    .all(|buckets| { *buckets <= 8 || buckets % (buckets.next_power_of_two() / 8) == 0 })
        );
        assert_eq!((buckets_for(0), buckets_for(1), buckets_for(5), buckets_for(6)), (0, 1, 1, 2));
        assert_eq!((buckets_for(420), buckets_for(421), buckets_for(840)), (80, 96, 160));
    }
}
