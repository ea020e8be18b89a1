//! Collects members of large sorted sets, so that their trees are built in bulk. Inserting one by one into
//! two trees copies two leaves for each.
//!
//! A sorted set is collected from when it is large. Its members are put in when there are thrice as many as
//! it has, or before anything else happens to the key, or its database, or when all replaying ends.

use crate::log::Sizes;
use crate::record::{Change, Lsn, Stamped};
use crate::table::{Built, Entry, KeyHash, KeyRef, Retired, Segment, Table};
use crate::value::zset;
use hashbrown::HashTable;
use std::sync::Arc;

/// So many times the members that a sorted set has are collected before they are put in.
const TIMES: usize = 3;
/// The bytes that an empty collection counts for.
const KEY_BYTES: usize = 128;

/// The sorted sets of a replayer that are being collected.
pub(super) struct Collected {
    /// Members that are put in together, at least, where nothing else wants it.
    members_min: usize,
    /// Bytes that are collected, at most.
    bytes_max: usize,
    sets: HashTable<Set>,
    bytes: usize,
}

struct Set {
    db: u8,
    key: Box<[u8]>,
    hash: KeyHash,
    /// Packed, in the order of their records.
    members: Vec<u8>,
    count: usize,
    wanted: usize,
    last: Lsn,
}

impl Set {
    fn is_at(&self, key: KeyRef<'_>) -> bool {
        self.db == key.db && *self.key == *key.key
    }

    /// Puts what was collected into the sorted set.
    fn put_in(&mut self, segment: &mut Segment, retired: &mut Retired) {
        let members = std::mem::take(&mut self.members);
        if self.count > 0 {
            segment.put_members(self.hash, &self.key, &members, self.last, retired);
        }
        self.count = 0;
    }

    /// The same without the latch of the segment meanwhile, as all keys of a store with few may be in one
    /// segment. Nobody else changes the sorted set.
    fn put_in_apart(&mut self, table: &Table, retired: &mut Retired) {
        if self.count == 0 {
            return;
        }
        let (_, segment) = table.read_of(self.hash);
        let trees = segment.find(self.hash, &self.key).and_then(Entry::sorted_set).cloned();
        let mut trees = trees.expect("the sorted set is there as long as it is collected");
        drop(segment);
        let mut replaced = Vec::new();
        let longest = trees.put_all(&self.members, |lsn| replaced.push(lsn));
        let built = Built { trees, longest, replaced, lsn: self.last };
        let (_, mut segment) = table.write_of(self.hash);
        let old = segment.put_built(self.hash, &self.key, built, retired);
        drop(segment);
        drop(old);
        (self.members, self.count) = (Vec::new(), 0);
    }
}

impl Collected {
    pub(super) fn new(sizes: &Sizes) -> Collected {
        let (members_min, bytes_max) = (sizes.collected_members, sizes.collected_bytes);
        Collected { members_min, bytes_max, sets: HashTable::new(), bytes: 0 }
    }

    /// Is told of a change before it is made, in whose key's segment; `true` if that is all for now.
    pub(super) fn takes(
        &mut self,
        key: KeyRef<'_>,
        Stamped { lsn, change }: Stamped<'_, '_>,
        segment: &mut Segment,
        retired: &mut Retired,
    ) -> bool {
        if self.sets.is_empty() {
            return false;
        }
        let Ok(mut found) = self.sets.find_entry(key.hash.0, |set| set.is_at(key)) else { return false };
        let set = found.get_mut();
        let before = set.members.len();
        if let Change::ZSetPut { member, score } = change {
            zset::pack(&mut set.members, member, *score, lsn);
            (set.count, set.last) = (set.count + 1, lsn);
            self.bytes += set.members.len() - before;
            return true;
        }
        self.put_in(key, segment, retired);
        false
    }

    /// Puts in what is collected of a key, in whose segment.
    pub(super) fn put_in(&mut self, key: KeyRef<'_>, segment: &mut Segment, retired: &mut Retired) {
        if let Ok(found) = self.sets.find_entry(key.hash.0, |set| set.is_at(key)) {
            let (mut set, _) = found.remove();
            self.bytes -= set.members.len() + KEY_BYTES + key.key.len();
            set.put_in(segment, retired);
        }
    }

    /// Is told that members were put into a sorted set, or taken for one, in whose segment. `true` if
    /// [`Collected::put_in_apart`] is to follow.
    pub(super) fn note_puts(&mut self, key: KeyRef<'_>, segment: &Segment) -> bool {
        if let Some(set) = self.sets.find(key.hash.0, |set| set.is_at(key)) {
            return set.count >= set.wanted;
        }
        let KeyRef { db, hash, key } = key;
        if let Some(members) = segment.large_sorted_set(hash, key) {
            let (members, wanted) = (Vec::new(), wanted(Some(members), self.members_min));
            let set = Set { db, key: key.into(), hash, members, count: 0, wanted, last: Lsn::ZERO };
            self.sets.insert_unique(hash.0, set, |set| set.hash.0);
            self.bytes += KEY_BYTES + key.len();
        }
        false
    }

    /// Whether members of a key are collected.
    pub(super) fn has(&self, key: KeyRef<'_>) -> bool {
        self.sets.find(key.hash.0, |set| set.is_at(key)).is_some_and(|set| set.count > 0)
    }

    /// Puts in what is collected of a key; not between the records of one command, of which a reader would
    /// see a part.
    pub(super) fn put_in_apart(&mut self, key: KeyRef<'_>, table: &Table, retired: &mut Retired) {
        let Some(set) = self.sets.find_mut(key.hash.0, |set| set.is_at(key)) else { return };
        self.bytes -= set.members.len();
        set.put_in_apart(table, retired);
        let (_, segment) = table.read_of(key.hash);
        set.wanted = wanted(segment.large_sorted_set(key.hash, key.key), self.members_min);
    }

    /// Whether what is collected takes too much memory.
    pub(super) fn is_full(&self) -> bool {
        self.bytes > self.bytes_max
    }

    /// Puts all in.
    pub(super) fn put_all_in(&mut self, tables: &[Arc<Table>], retired: &mut Retired) {
        for mut set in self.sets.drain() {
            set.put_in_apart(&tables[usize::from(set.db)], retired);
        }
        self.bytes = 0;
    }
}

/// How many members are collected for a sorted set that has so many, at least `min`.
fn wanted(members: Option<usize>, min: usize) -> usize {
    (TIMES * members.unwrap_or_default()).max(min)
}
