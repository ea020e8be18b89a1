//! The keys that are evicted: the hit ratio beside those of an exact policy and of a model of redis-server,
//! and the rules of each policy.
//!
//! The notes of use are those of the process, so the tests take turns.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use histories::{commit, fill_on};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::io::{Clock, ManualClock, SimDisk, SimOptions, seed_count, seeds};
use tarn_engine::log::{LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, UnixMs, Write};
use tarn_engine::renewal::{Renewal, Step};
use tarn_engine::session::Access;
use tarn_engine::value::usage::{Tracked, track};
use tarn_engine::value::{ImageBuilder, ValueRef};
use tarn_engine::{Background, Engine, Evicted, EvictionOptions, Group, KeyRef, Room, Victims, ViewOptions};

/// Held by the one test that runs.
static TURN: Mutex<()> = Mutex::new(());

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(3600);

struct Store {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    group: Group,
    _background: Background,
    _turn: MutexGuard<'static, ()>,
}

fn store(tracked: Tracked, options: EvictionOptions) -> Store {
    let turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let clock = Arc::new(ManualClock::new(1_000_000));
    let (engine, background) = Engine::unlogged(2, 1, clock.clone());
    engine.expiry().set_active(false);
    engine.eviction().set_options(options);
    // So few uses would leave nearly all counters alike with the default factor, 10.
    track(tracked, 1, 0);
    engine.note_time();
    Store { engine, clock, group: Group::default(), _background: background, _turn: turn }
}

impl Store {
    /// Lets time pass.
    fn wait(&self, ms: u64) {
        self.clock.advance(ms);
        self.engine.note_time();
    }

    /// Looks at a key as a client does; whether it is there.
    fn read(&self, key: &[u8]) -> bool {
        let session = self.engine.enter(0);
        let keys = [KeyRef::of(0, key)];
        let latched = session.latch(&keys, Access::Read, self.clock.unix_ms());
        latched.note_uses(true);
        let is_there = latched.get(0, key).is_some();
        latched.release();
        is_there
    }

    fn put(&mut self, db: u8, key: &[u8], expiry: Option<UnixMs>) {
        self.change(db, key, [Change::Put { value: b"value".into(), expiry }]);
    }

    fn change<const N: usize>(&mut self, db: u8, key: &[u8], changes: [Change<'static>; N]) {
        let session = self.engine.enter(0);
        let keys = [KeyRef::of(db, key)];
        let mut latched = session.latch(&keys, Access::Write, self.clock.unix_ms());
        let write = |change| Write::Key { db, key: key.into(), change };
        let batch: Batch<'_> = changes.into_iter().map(write).collect();
        latched.commit(&batch, &mut self.group).unwrap();
        latched.release();
    }

    /// A hash of two fields, of which one is over at this time.
    fn put_timed(&mut self, key: &[u8], at: UnixMs) {
        let put = |field: &'static [u8]| Change::HashPut { field: field.into(), value: b"value".into() };
        let time = Change::HashExpire { field: b"a".into(), at: Some(at) };
        self.change(0, key, [put(b"a"), put(b"b"), time]);
    }

    /// For how many seconds a key has not been used.
    fn idle_s(&self, key: &[u8]) -> u64 {
        let session = self.engine.enter(0);
        let keys = [KeyRef::of(0, key)];
        let latched = session.latch(&keys, Access::Read, self.clock.unix_ms());
        latched.get(0, key).unwrap().used().unwrap().idle_s()
    }

    fn evict(&mut self, bytes: u64) -> Evicted {
        let session = self.engine.enter(0);
        self.engine.make_room(&session, bytes, LONG, &mut self.group)
    }

    /// Waits until all that was evicted has been freed.
    fn wait_for_frees(&self) {
        while self.engine.pending_frees() > 0 {
            std::thread::yield_now();
        }
    }

    fn keys(&self) -> usize {
        self.engine.keyspace().iter().map(|counts| counts.keys).sum()
    }

    /// The keys that are there of all that have numbers below this.
    fn there(&self, numbers: u32) -> Vec<u32> {
        let session = self.engine.enter(0);
        let is_there = |number: &u32| {
            let key = number.to_be_bytes();
            let keys = [KeyRef::of(0, &key)];
            let latched = session.latch(&keys, Access::Read, self.clock.unix_ms());
            latched.get(0, &key).is_some()
        };
        (0..numbers).filter(is_there).collect()
    }
}

fn options(victims: Victims, only_expiring: bool, samples: usize) -> EvictionOptions {
    EvictionOptions { victims, only_expiring, samples }
}

/// Numbers with the frequencies of Zipf's law.
struct Zipf(Vec<f64>);

impl Zipf {
    fn new(numbers: u32, theta: f64) -> Zipf {
        let mut sum = 0.0;
        let sums = (1..=numbers).map(|rank| {
            sum += f64::from(rank).powf(-theta);
            sum
        });
        Zipf(sums.collect())
    }

    fn draw(&self, rng: &mut SmallRng) -> u32 {
        let at = rng.random::<f64>() * self.0.last().unwrap();
        self.0.partition_point(|sum| *sum < at) as u32
    }
}

/// A cache that evicts exactly the key of the least rank: when it was used last, or how often in all.
struct Exact {
    capacity: usize,
    counts_uses: bool,
    clock: u64,
    uses: HashMap<u32, u64>,
    ranks: HashMap<u32, (u64, u64)>,
    order: BTreeSet<((u64, u64), u32)>,
}

impl Exact {
    fn new(capacity: usize, counts_uses: bool) -> Exact {
        let (uses, ranks, order) = Default::default();
        Exact { capacity, counts_uses, clock: 0, uses, ranks, order }
    }

    /// Whether the number is there; then, or else, it is put in.
    fn hits(&mut self, number: u32) -> bool {
        self.clock += 1;
        let uses = self.uses.entry(number).or_default();
        *uses += 1;
        let rank = (if self.counts_uses { *uses } else { 0 }, self.clock);
        let old = self.ranks.insert(number, rank);
        if let Some(old) = old {
            self.order.remove(&(old, number));
        } else if self.ranks.len() > self.capacity {
            let (_, least) = self.order.pop_first().unwrap();
            self.ranks.remove(&least);
        }
        self.order.insert((rank, number));
        old.is_some()
    }
}

/// Keys of which redis-server looks for those to evict, at most.
const REDIS_POOL: usize = 16;

/// A cache that evicts as redis-server 7.0 does under an LRU policy: it draws keys at random, and keeps the
/// best of all that it has drawn in a pool, by the seconds since their last use.
struct Redis {
    capacity: usize,
    samples: usize,
    rng: SmallRng,
    numbers: Vec<u32>,
    /// The place of each number, and the second of its last use.
    there: HashMap<u32, (usize, u64)>,
    /// Seconds without use, rising, and the number.
    pool: Vec<(u64, u32)>,
}

impl Redis {
    fn new(capacity: usize, samples: usize, seed: u64) -> Redis {
        let rng = SmallRng::seed_from_u64(seed);
        let (numbers, there, pool) = Default::default();
        Redis { capacity, samples, rng, numbers, there, pool }
    }

    /// Whether the number is there at this second; then, or else, it is put in.
    fn hits(&mut self, number: u32, second: u64) -> bool {
        if let Some((_, used)) = self.there.get_mut(&number) {
            *used = second;
            return true;
        }
        if self.numbers.len() == self.capacity {
            self.evict(second);
        }
        self.there.insert(number, (self.numbers.len(), second));
        self.numbers.push(number);
        false
    }

    fn evict(&mut self, second: u64) {
        loop {
            for _ in 0..self.samples {
                let number = self.numbers[self.rng.random_range(0..self.numbers.len())];
                self.offer(second - self.there[&number].1, number);
            }
            while let Some((_, number)) = self.pool.pop() {
                if let Some((place, _)) = self.there.remove(&number) {
                    self.numbers.swap_remove(place);
                    if let Some(moved) = self.numbers.get(place) {
                        self.there.get_mut(moved).unwrap().0 = place;
                    }
                    return;
                }
            }
        }
    }

    fn offer(&mut self, idle: u64, number: u32) {
        let at = self.pool.partition_point(|(other, _)| *other < idle);
        match (self.pool.len(), at) {
            (REDIS_POOL, 0) => {}
            (REDIS_POOL, at) => {
                self.pool.remove(0);
                self.pool.insert(at - 1, (idle, number));
            }
            _ => self.pool.insert(at, (idle, number)),
        }
    }
}

/// Reads by Zipf's law; of those that scan, every tenth is of a key that comes once.
#[derive(Clone, Copy, Debug)]
struct Trace {
    theta: f64,
    scans: bool,
}

const USUAL: Trace = Trace { theta: 0.99, scans: false };

/// Hit ratios on one trace.
#[derive(Clone, Copy, Debug)]
struct Ratios {
    store: f64,
    exact: f64,
    /// That of redis-server's way of LRU, whatever the store's policy is.
    redis: f64,
}

/// The hit ratios on a trace, with a tenth of the keys in the cache.
fn hit_ratios(seed: u64, trace: Trace, tracked: Tracked, options: EvictionOptions) -> Ratios {
    const NUMBERS: u32 = 10_000;
    const CAPACITY: usize = 1_000;
    const WARM: usize = 30_000;
    const COUNTED: usize = 60_000;
    let mut store = store(tracked, options);
    let (zipf, mut rng) = (Zipf::new(NUMBERS, trace.theta), SmallRng::seed_from_u64(seed));
    let mut exact = Exact::new(CAPACITY, tracked == Tracked::Frequency);
    let mut redis = Redis::new(CAPACITY, options.samples, seed);
    let mut hits = [0usize; 3];
    for request in 0..WARM + COUNTED {
        // The clock of uses counts seconds: a key lives for many of them here, as in a cache of usual size.
        store.wait(100);
        let is_scanned = trace.scans && request.is_multiple_of(10);
        let number = if is_scanned { NUMBERS + request as u32 } else { zipf.draw(&mut rng) };
        let key = number.to_be_bytes();
        let is_there = store.read(&key);
        if !is_there {
            if store.keys() == CAPACITY {
                assert_eq!(store.evict(1).keys, 1);
            }
            store.put(0, &key, None);
        }
        let found = [is_there, exact.hits(number), redis.hits(number, request as u64 / 10)];
        if request >= WARM {
            hits.iter_mut().zip(found).for_each(|(hits, found)| *hits += usize::from(found));
        }
    }
    let [store, exact, redis] = hits.map(|hits| hits as f64 / COUNTED as f64);
    Ratios { store, exact, redis }
}

#[test]
fn the_hit_ratio_is_near_that_of_an_exact_policy() {
    for seed in seeds(seed_count(1)) {
        let lru_of = |trace, victims, samples| {
            hit_ratios(seed, trace, Tracked::Access, options(victims, false, samples))
        };
        let random = lru_of(USUAL, Victims::Random, 5);
        let (five, ten) = (lru_of(USUAL, Victims::Idle, 5), lru_of(USUAL, Victims::Idle, 10));
        let lfu = hit_ratios(seed, USUAL, Tracked::Frequency, options(Victims::Rare, false, 5));
        let told = format!("seed {seed}: random {random:?}, lru of 5 {five:?}, of 10 {ten:?}, lfu {lfu:?}");
        println!("{told}");
        assert!(five.store > five.exact - 0.02, "{told}");
        assert!((ten.store - ten.exact).abs() < 0.02, "{told}");
        assert!((five.store - five.redis).abs() < 0.01 && (ten.store - ten.redis).abs() < 0.01, "{told}");
        assert!(five.store > random.store + 0.005, "{told}");
        assert!(lfu.store > lfu.exact - 0.06 && lfu.store > random.store, "{told}");
        for (theta, scans) in [(0.8, false), (1.2, false), (0.99, true)] {
            let trace = Trace { theta, scans };
            let lru = lru_of(trace, Victims::Idle, 5);
            println!("seed {seed}, {trace:?}: lru of 5 {lru:?}");
            assert!((lru.store - lru.exact).abs() < 0.025, "seed {seed}, {trace:?}: {lru:?}");
            assert!((lru.store - lru.redis).abs() < 0.01, "seed {seed}, {trace:?}: {lru:?}");
        }
    }
}

#[test]
fn keys_that_were_used_stay() {
    let mut store = store(Tracked::Access, options(Victims::Idle, false, 10));
    (0..1000u32).for_each(|number| store.put(0, &number.to_be_bytes(), None));
    store.wait(60_000);
    (0..500u32).for_each(|number| assert!(store.read(&number.to_be_bytes())));
    // As long as there are enough of the others that a sample finds one.
    while store.keys() > 600 {
        assert_eq!(store.evict(1).keys, 1);
    }
    let there = store.there(1000);
    let used = there.iter().filter(|number| **number < 500).count();
    assert!(used > 495, "{used} of the 500 that were used are left");
    assert_eq!(store.engine.eviction().evicted_keys(), 400);
}

#[test]
fn reads_do_not_count_where_changes_are_noted() {
    let mut store = store(Tracked::Change, options(Victims::Idle, false, 10));
    (0..200u32).for_each(|number| store.put(0, &number.to_be_bytes(), None));
    store.wait(60_000);
    (0..100u32).for_each(|number| store.put(0, &number.to_be_bytes(), None));
    store.wait(60_000);
    (100..200u32).for_each(|number| assert!(store.read(&number.to_be_bytes())));
    while store.keys() > 110 {
        assert_eq!(store.evict(1).keys, 1);
    }
    let left = store.there(200);
    let changed = left.iter().filter(|number| **number < 100).count();
    assert!(changed > 95, "{changed} of the 100 that were changed are left");
}

#[test]
fn only_keys_with_an_expiry_go_and_the_first_due_of_them_first() {
    let mut store = store(Tracked::Access, options(Victims::Soonest, true, 200));
    let now = store.clock.unix_ms();
    for number in 0..200u32 {
        let expiry = number.is_multiple_of(2).then(|| now + 1_000_000 - u64::from(number));
        store.put(0, &number.to_be_bytes(), expiry);
    }
    assert_eq!(store.evict(1).keys, 1);
    assert!(!store.there(200).contains(&198), "the one that expires first is gone");
    let all = store.evict(u64::MAX);
    assert_eq!((all.room, all.keys), (Room::Nothing, 99));
    assert_eq!(store.there(200), (0..200).filter(|number| number % 2 == 1).collect::<Vec<_>>());
}

#[test]
fn keys_of_all_databases_go_and_of_an_empty_store_nothing() {
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    for number in 0..50u32 {
        store.put(0, &number.to_be_bytes(), None);
        store.put(1, &number.to_be_bytes(), None);
    }
    let all = store.evict(u64::MAX);
    assert_eq!((all.room, all.keys, store.keys()), (Room::Nothing, 100, 0));
    assert_eq!(store.evict(1), Evicted { room: Room::Nothing, ..Evicted::default() });
    store.engine.eviction().set_options(options(Victims::None, false, 5));
    store.put(0, b"key", None);
    assert_eq!((store.evict(1).room, store.keys()), (Room::Nothing, 1));
}

#[test]
fn no_more_is_evicted_than_was_asked_for() {
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    (0..1000u32).for_each(|number| store.put(0, &number.to_be_bytes(), None));
    let one = store.evict(1).bytes;
    let ten = store.evict(10 * one);
    assert_eq!((ten.room, ten.keys, ten.bytes_behind), (Room::Enough, 10, 0));
    // With no time at all, there is progress all the same.
    let session = store.engine.enter(0);
    let some = store.engine.make_room(&session, u64::MAX, Duration::ZERO, &mut store.group);
    assert_eq!((some.room, some.keys), (Room::Unfinished, 1));
}

/// A string of 512 MiB of which a few thousand bytes take memory.
fn sparse() -> [Change<'static>; 1] {
    [Change::Patch { offset: (512 << 20) - 1, bytes: b"x".into() }]
}

#[test]
fn that_a_value_is_rewritten_for_the_log_is_no_use_of_it() {
    let _turn = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    let disk = SimDisk::new(1, SimOptions::default());
    let store = histories::Store::open(&disk, &options).unwrap();
    store.engine.expiry().set_active(false);
    track(Tracked::Access, 1, 0);
    store.engine.note_time();
    // Many changes of what is little: a compaction that keeps them writes the value again.
    let element = |number: u64| number.to_string().into_bytes().into();
    commit(&store, "list", Change::ListPush { side: Side::Back, element: element(0) });
    commit(&store, "string", Change::Put { value: b"0".into(), expiry: None });
    // So large that they are written again in parts, the hash, which an image began, field by field.
    let mut image = ImageBuilder::new(Kind::Hash);
    (0..200u64).for_each(|number| image.push_field(&number.to_be_bytes(), b"value"));
    let elements = image.finish().into();
    commit(&store, "hash", Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false });
    commit(&store, "large", Change::Put { value: vec![b'x'; 2_000].into(), expiry: None });
    for number in 0..300 {
        commit(&store, "list", Change::ListPut { index: 0, element: element(number) });
        commit(&store, "string", Change::Patch { offset: 0, bytes: element(number) });
        commit(&store, "large", Change::Patch { offset: number, bytes: element(number) });
    }
    let idle_s = |key: &[u8]| {
        let session = store.engine.enter(0);
        let keys = [KeyRef::of(0, key)];
        let latched = session.latch(&keys, Access::Read, store.clock.unix_ms());
        latched.get(0, key).unwrap().used().unwrap().idle_s()
    };
    store.clock.advance(60_000);
    store.engine.note_time();
    let (compactor, before) = (store.engine.compactor(), store.log.appender().last());
    compactor.set_options(CompactionOptions { part_bytes: 500, ..compactor.options() });
    for _ in 0..5 {
        fill_on(&store);
        for file in store.files() {
            compactor.compact_files(store.engine.store(), &[file]).unwrap();
        }
    }
    // A compaction may have begun the same before.
    if let Some(mut renewal) = Renewal::begin(store.engine.store(), 0, b"hash", 100) {
        assert!((0..10_000).any(|_| renewal.step() == Step::Ended));
    }
    store.log.sync().unwrap();
    for key in ["list", "string", "large", "hash"] {
        let is_rewritten = {
            let session = store.engine.enter(0);
            let keys = [KeyRef::of(0, key.as_bytes())];
            let latched = session.latch(&keys, Access::Read, store.clock.unix_ms());
            latched.get(0, key.as_bytes()).unwrap().lsn() > before
        };
        assert!(is_rewritten, "{key} was written again");
        assert_eq!(idle_s(key.as_bytes()), 60, "{key}");
    }
    commit(&store, "list", Change::ListPut { index: 0, element: element(7) });
    assert_eq!(idle_s(b"list"), 0, "a change by a client is a use");
}

#[test]
fn gaps_of_a_string_make_no_room() {
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    (0..20u32).for_each(|number| store.change(0, &number.to_be_bytes(), sparse()));
    let evicted = store.evict(1 << 20);
    assert_eq!((evicted.keys, store.keys()), (20, 0), "all of them have not a megabyte");
    assert!(evicted.bytes < 1 << 20 && evicted.bytes_behind <= evicted.bytes, "{evicted:?}");
    assert_ne!(evicted.room, Room::Enough);
}

#[test]
fn an_element_counts_as_what_it_has_and_a_copy_as_nothing() {
    const GIANT: usize = 1 << 20;
    let push = |bytes: usize| Change::ListPush { side: Side::Back, element: vec![b'x'; bytes].into() };
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    store.change(0, b"list", [push(GIANT)]);
    (0..1000).for_each(|_| store.change(0, b"list", [push(1000)]));
    let evicted = store.evict(u64::MAX);
    assert_eq!(evicted.keys, 1);
    let bytes = evicted.bytes as usize;
    assert!((GIANT..4 * GIANT).contains(&bytes), "{bytes} of a list whose first element is a giant");
    store.change(0, b"value", [Change::Put { value: vec![1; 10 * GIANT].into(), expiry: None }]);
    let kind = Kind::String;
    for copy in 0..10u32 {
        let session = store.engine.enter(0);
        let keys = [KeyRef::of(0, b"value")];
        let latched = session.latch(&keys, Access::Read, store.clock.unix_ms());
        let value = latched.get(0, b"value").unwrap().made();
        latched.release();
        drop(session);
        let change =
            Change::Prepared { kind, begun: Lsn::ZERO, parts: 0, expiry: None, sticky: false, value };
        store.change(0, &copy.to_be_bytes(), [change]);
    }
    // All have the same: only the last of them gives it back.
    for _ in 0..10 {
        let evicted = store.evict(1);
        assert!(evicted.keys == 1 && evicted.bytes < 1000, "{evicted:?}");
        store.wait_for_frees();
    }
    let last = store.evict(1);
    assert!(last.bytes as usize > 10 * GIANT, "{last:?}");
}

#[test]
fn there_may_be_room_as_long_as_others_free_memory() {
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    store.change(0, b"value", [Change::Put { value: vec![1; 64 << 20].into(), expiry: None }]);
    let evicted = store.evict(1);
    assert_eq!((evicted.room, evicted.keys), (Room::Freeing, 1), "it is in use until it is freed");
    store.wait_for_frees();
    assert_eq!(store.evict(1), Evicted { room: Room::Nothing, ..Evicted::default() });
}

#[test]
fn an_expired_key_is_no_evicted_one() {
    let mut store = store(Tracked::Access, options(Victims::Soonest, true, 5));
    store.put(0, b"key", Some(store.clock.unix_ms() + 10));
    store.wait(11);
    let evicted = store.evict(1);
    assert_eq!((evicted.keys, store.keys(), store.engine.eviction().evicted_keys()), (0, 0, 0));
    assert_eq!(store.engine.expiry().expired_keys(), 1);
}

#[test]
fn a_hash_whose_fields_have_times_stays_beside_evicted_keys_and_its_fields_go_in_time() {
    let mut store = store(Tracked::Access, options(Victims::Soonest, true, 200));
    let now = store.clock.unix_ms();
    store.put_timed(b"hash", now + 10);
    // Some of them in its segment.
    (0..200u32).for_each(|number| store.put(0, &number.to_be_bytes(), Some(now + 1_000_000)));
    let all = store.evict(u64::MAX);
    assert_eq!((all.room, all.keys, store.keys()), (Room::Nothing, 200, 1));
    store.wait(11);
    store.engine.expire_due(store.clock.unix_ms());
    assert_eq!((store.keys(), store.engine.expiry().expired_fields()), (1, 1));
}

#[test]
fn that_a_field_is_over_is_no_use_of_its_hash_and_keeps_nobody_from_evicting_it() {
    let mut store = store(Tracked::Access, options(Victims::Idle, false, 5));
    let now = store.clock.unix_ms();
    store.put_timed(b"hash", now + 10);
    store.wait(60_000);
    assert_eq!(store.idle_s(b"hash"), 60);
    store.engine.expire_due(store.clock.unix_ms());
    assert_eq!((store.idle_s(b"hash"), store.engine.expiry().expired_fields()), (60, 1));
    assert_eq!(store.evict(1).keys, 1);
    // Of another one nobody has removed the field before.
    store.put_timed(b"other", store.clock.unix_ms() + 10);
    store.wait(11);
    assert_eq!((store.evict(1).keys, store.keys()), (1, 0));
    assert_eq!((store.engine.expiry().expired_keys(), store.engine.expiry().expired_fields()), (0, 2));
}

#[test]
fn keys_behind_a_latch_are_not_said_to_be_none() {
    let mut store = store(Tracked::Access, options(Victims::Random, false, 5));
    store.put(0, b"key", None);
    let session = store.engine.enter(0);
    let keys = [KeyRef::of(0, b"key")];
    let latched = session.latch(&keys, Access::Write, store.clock.unix_ms());
    let evicted = std::thread::scope(|scope| {
        let evict = || {
            let session = store.engine.enter_behind();
            store.engine.make_room(&session, 1, LONG, &mut Group::default())
        };
        scope.spawn(evict).join().unwrap()
    });
    assert_eq!((evicted.room, evicted.keys), (Room::Unfinished, 0));
    latched.release();
    drop(session);
    assert_eq!(store.evict(1).keys, 1);
}

#[test]
fn what_is_left_beside_evicted_keys_expires() {
    let mut store = store(Tracked::Access, options(Victims::Soonest, true, 5));
    let now = store.clock.unix_ms();
    store.put(0, b"first", Some(now + 10));
    store.put(0, b"second", Some(now + 20));
    assert_eq!(store.evict(1).keys, 1);
    store.wait(21);
    store.engine.expire_due(store.clock.unix_ms());
    assert_eq!((store.keys(), store.engine.expiry().expired_keys()), (0, 1));
    // Nothing expires there any more, and then something does.
    store.put(0, b"third", Some(store.clock.unix_ms() + 10));
    assert_eq!(store.evict(1).keys, 1);
    store.put(0, b"fourth", Some(store.clock.unix_ms() + 10));
    store.wait(11);
    store.engine.expire_due(store.clock.unix_ms());
    assert_eq!((store.keys(), store.engine.expiry().expired_keys()), (0, 2));
}

#[test]
fn a_view_goes_on_to_see_what_was_evicted() {
    let mut store = store(Tracked::Access, options(Victims::Idle, false, 5));
    (0..300u32).for_each(|number| store.put(0, &number.to_be_bytes(), None));
    let view = store.engine.open_view(ViewOptions::once("test")).unwrap();
    assert_eq!(store.evict(u64::MAX).keys, 300);
    let mut seen = 0;
    view.for_each(|_, entry| {
        assert!(matches!(entry.value(), ValueRef::String(_)));
        seen += 1;
    })
    .unwrap();
    assert_eq!((seen, store.keys()), (300, 0));
}
