//! The keys that clients have read, and who has read each: the table of `CLIENT TRACKING`.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use smallvec::SmallVec;
use tarn_engine::lock::Mutex;

use crate::net::handle::ClientHandle;

/// Shards of the table, each with a lock of its own.
const SHARDS: usize = 64;
/// Bytes of names for which as much room is taken as for a key.
const BYTES_A_KEY: usize = 256;
/// From so many clients of a key on those are looked for that have gone, each time that they have doubled.
const PRUNED_MIN: usize = 8;

/// Clients that have read a key, by id. Some may track no longer.
pub(super) type Trackers = SmallVec<[Arc<ClientHandle>; 1]>;

/// A key and its clients.
#[derive(Debug)]
struct Tracked {
    key: Box<[u8]>,
    trackers: Trackers,
}

/// A part of the keys. Each of `places` is the place of a key in `tracked`.
#[derive(Debug, Default)]
struct Shard {
    tracked: Vec<Tracked>,
    places: HashTable<usize>,
}

/// The keys that clients have read.
#[derive(Debug)]
pub(super) struct TrackedKeys {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    keys: AtomicUsize,
    /// Room that the keys take, in keys of up to `BYTES_A_KEY`.
    room: AtomicUsize,
    /// Clients of all keys.
    items: AtomicUsize,
}

impl Default for TrackedKeys {
    fn default() -> TrackedKeys {
        TrackedKeys {
            hasher: RandomState::default(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            keys: AtomicUsize::new(0),
            room: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
        }
    }
}

impl Shard {
    fn find(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.places.find(hash, |place| &*self.tracked[*place].key == key).copied()
    }

    /// Takes out the key at a place. The last one takes the place over.
    fn take(&mut self, place: usize, hash_of: impl Fn(&[u8]) -> u64) -> Tracked {
        let last = self.tracked.len() - 1;
        let hash = hash_of(&self.tracked[place].key);
        if let Ok(found) = self.places.find_entry(hash, |other| *other == place) {
            found.remove();
        }
        if place != last {
            let hash = hash_of(&self.tracked[last].key);
            self.places.find_mut(hash, |other| *other == last).into_iter().for_each(|other| *other = place);
        }
        let taken = self.tracked.swap_remove(place);
        if self.tracked.is_empty() {
            *self = Shard::default();
        }
        taken
    }
}

impl TrackedKeys {
    fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash_one(key)
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[(hash >> 32) as usize % SHARDS]
    }

    /// Notes that a client has read a key.
    pub(super) fn add(&self, client: &Arc<ClientHandle>, key: &[u8]) {
        let hash = self.hash(key);
        let mut shard = self.shard(hash).lock();
        let Shard { tracked, places } = &mut *shard;
        let found = places.find(hash, |place| &*tracked[*place].key == key).copied();
        let Some(place) = found else {
            let place = tracked.len();
            tracked.push(Tracked { key: key.into(), trackers: Trackers::from_iter([client.clone()]) });
            places.insert_unique(hash, place, |place| self.hash(&tracked[*place].key));
            self.keys.fetch_add(1, Ordering::Relaxed);
            self.room.fetch_add(room_of(key), Ordering::Relaxed);
            self.items.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let trackers = &mut tracked[place].trackers;
        let before = trackers.len();
        let Err(mut at) = trackers.binary_search_by_key(&client.id, |other| other.id) else { return };
        if before >= PRUNED_MIN && before.is_power_of_two() {
            trackers.retain(|other| other.tracks.is_on());
            at = trackers.partition_point(|other| other.id < client.id);
        }
        trackers.insert(at, client.clone());
        self.items.fetch_add(trackers.len(), Ordering::Relaxed);
        self.items.fetch_sub(before, Ordering::Relaxed);
    }

    /// Takes a key out. Returns who has read it.
    pub(super) fn take(&self, key: &[u8]) -> Trackers {
        if self.len() == 0 {
            return Trackers::new();
        }
        let hash = self.hash(key);
        let mut shard = self.shard(hash).lock();
        let Some(place) = shard.find(hash, key) else { return Trackers::new() };
        self.note_taken(shard.take(place, |key| self.hash(key))).trackers
    }

    fn note_taken(&self, taken: Tracked) -> Tracked {
        self.keys.fetch_sub(1, Ordering::Relaxed);
        self.room.fetch_sub(room_of(&taken.key), Ordering::Relaxed);
        self.items.fetch_sub(taken.trackers.len(), Ordering::Relaxed);
        taken
    }

    /// Takes any key out, `spared` only if it is the last one. Returns it, and who has read it.
    pub(super) fn take_any(&self, spared: &[u8]) -> Option<(Box<[u8]>, Trackers)> {
        let first = rand::random_range(0..SHARDS);
        let mut spares = true;
        for step in 0..2 * SHARDS {
            spares &= step < SHARDS;
            let mut shard = self.shards[(first + step) % SHARDS].lock();
            let len = shard.tracked.len();
            if len == 0 {
                continue;
            }
            let mut place = rand::random_range(0..len);
            if spares && &*shard.tracked[place].key == spared {
                if len == 1 {
                    continue;
                }
                place = (place + 1) % len;
            }
            let taken = self.note_taken(shard.take(place, |key| self.hash(key)));
            return Some((taken.key, taken.trackers));
        }
        None
    }

    /// Takes all keys out.
    pub(super) fn clear(&self) {
        for shard in &self.shards {
            let taken = std::mem::take(&mut *shard.lock());
            for tracked in taken.tracked {
                self.note_taken(tracked);
            }
        }
    }

    /// How many keys there are.
    pub(super) fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// How many keys of up to 256 bytes take as much room.
    pub(super) fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// Clients of all keys, one that has read two of them counted twice.
    pub(super) fn items(&self) -> usize {
        self.items.load(Ordering::Relaxed)
    }
}

fn room_of(key: &[u8]) -> usize {
    key.len().div_ceil(BYTES_A_KEY).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::address::Address;
    use crate::net::tracks::TrackFlags;
    use std::collections::{BTreeMap, BTreeSet};

    fn client(id: u64) -> Arc<ClientHandle> {
        let address = Address::Unix("test".into());
        let client = ClientHandle::new(id, address.clone(), address, 0);
        client.tracks.set(TrackFlags::ON, 0);
        Arc::new(client)
    }

    #[test]
    fn the_table_has_what_a_map_of_sets_has() {
        let seed: u64 = rand::random();
        println!("seed {seed}");
        let mut state = seed | 1;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let (table, clients) = (TrackedKeys::default(), (0..40).map(client).collect::<Vec<_>>());
        let mut model = BTreeMap::<Vec<u8>, BTreeSet<u64>>::new();
        for _ in 0..20_000 {
            let key = vec![b'k'; 1 + random(600)];
            match random(40) {
                0 => {
                    let Some((key, trackers)) = table.take_any(&key) else { continue };
                    let ids: BTreeSet<u64> = trackers.iter().map(|client| client.id).collect();
                    assert_eq!(model.remove(&*key), Some(ids));
                }
                1..10 => {
                    let ids: BTreeSet<u64> = table.take(&key).iter().map(|client| client.id).collect();
                    assert_eq!(ids, model.remove(&key).unwrap_or_default());
                }
                _ => {
                    let client = &clients[random(clients.len())];
                    table.add(client, &key);
                    model.entry(key).or_default().insert(client.id);
                }
            }
            assert_eq!(table.len(), model.len());
            assert_eq!(table.items(), model.values().map(BTreeSet::len).sum::<usize>());
            assert_eq!(table.room(), model.keys().map(|key| room_of(key)).sum::<usize>());
        }
        table.clear();
        assert_eq!((table.len(), table.items(), table.room()), (0, 0, 0));
    }

    #[test]
    fn clients_that_have_gone_do_not_pile_up_at_a_key() {
        let table = TrackedKeys::default();
        for id in 0..1000 {
            let gone = client(id);
            table.add(&gone, b"k");
            gone.tracks.set(TrackFlags::default(), 0);
        }
        assert!(table.items() <= 2 * PRUNED_MIN, "{}", table.items());
    }

    #[test]
    fn the_key_that_is_spared_goes_when_it_is_the_last() {
        let table = TrackedKeys::default();
        let reader = client(1);
        for key in [&b"a"[..], b"b", b"c"] {
            table.add(&reader, key);
        }
        assert!(table.take_any(b"a").is_some_and(|(key, _)| *key != *b"a"));
        assert!(table.take_any(b"a").is_some_and(|(key, _)| *key != *b"a"));
        assert!(table.take_any(b"a").is_some_and(|(key, _)| *key == *b"a"));
        assert!(table.take_any(b"a").is_none());
    }
}
