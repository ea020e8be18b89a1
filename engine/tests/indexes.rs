//! Indexes against a copy of the tables taken at the same instant, and against money that must not get lost.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::io::{Clock, ManualClock};
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Kind, Write};
use tarn_engine::session::Access;
use tarn_engine::table::{KeyHash, ScanBudget};
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::view::ViewLimits;
use tarn_engine::{Background, Engine};
use tarn_engine::{
    Direction, Entry, Index, IndexError, IndexRange, IndexScan, IndexValue, Indexed, View, ViewOptions,
};

const DATABASES: u8 = 2;
const NAMES: [&str; 2] = ["by number", "by text"];

/// The number in the field `n` of hashes.
struct ByNumber;

impl Indexed for ByNumber {
    fn covers(&self, key: &[u8]) -> bool {
        key.starts_with(b"key:")
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        let ValueRef::Hash(hash) = entry.value() else { return None };
        std::str::from_utf8(hash.get(b"n")?).ok()?.parse().ok().and_then(IndexValue::number)
    }
}

/// The text of strings.
struct ByText;

impl Indexed for ByText {
    fn covers(&self, key: &[u8]) -> bool {
        key.ends_with(b"1")
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        let ValueRef::String(text) = entry.value() else { return None };
        Some(IndexValue::text(&text.to_vec()))
    }
}

fn value_in(which: usize, entry: &Entry) -> Option<IndexValue> {
    let indexed: &dyn Indexed = if which == 0 { &ByNumber } else { &ByText };
    if indexed.covers(entry.key()) { indexed.value_of(entry) } else { None }
}

struct Store {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _background: Background,
}

/// An entry as a client sees it, and its values in the indexes.
#[derive(Clone, Debug, PartialEq)]
struct Described {
    text: String,
    values: [Option<IndexValue>; 2],
}

type Copy = BTreeMap<(u8, Vec<u8>), Described>;

fn describe(entry: &Entry) -> Described {
    let value = match entry.value() {
        ValueRef::String(value) => value.to_vec(),
        other => elements_of(other),
    };
    let (expiry, lsn) = (entry.expiry(), entry.lsn());
    let text = format!("{:?} {} {expiry:?} {lsn}", entry.kind(), value.escape_ascii());
    Described { text, values: [0, 1].map(|which| value_in(which, entry)) }
}

fn store(workers: usize) -> Store {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let (engine, background) = Engine::unlogged(usize::from(DATABASES), workers, clock.clone());
    engine.expiry().set_active(false);
    Store { engine, clock, _background: background }
}

fn create(store: &Store, db: u8, which: usize) -> Result<Arc<Index>, IndexError> {
    let indexed: Arc<dyn Indexed> = if which == 0 { Arc::new(ByNumber) } else { Arc::new(ByText) };
    store.engine.create_index(db, NAMES[which], indexed)
}

impl Store {
    fn commit(&self, worker: usize, batch: &Batch<'_>) {
        let session = self.engine.enter(worker);
        let keys: Vec<_> = batch
            .iter()
            .map(|write| match write {
                Write::Key { db, key, .. } => (*db, KeyHash::of(key)),
                other => panic!("{other:?} concerns no key"),
            })
            .collect();
        let mut latched = session.latch_places(&keys, Access::Write, self.clock.unix_ms());
        latched.commit(batch, &mut Group::default()).unwrap();
        latched.release();
    }

    fn exclusive(&self, write: Write<'static>) {
        let batch = Batch::from_iter([write]);
        self.engine.close_gate().commit(&batch, &mut Group::default()).unwrap();
    }

    fn copy(&self) -> Copy {
        let session = self.engine.enter(0);
        let latched = session.latch(&[], Access::Read, 0);
        let mut copy = Copy::new();
        for db in 0..DATABASES {
            latched.table(db).scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
                copy.insert((db, entry.key().to_vec()), describe(entry));
                false
            });
        }
        copy
    }

    fn kind(&self, db: u8, key: &[u8]) -> Option<Kind> {
        let session = self.engine.enter(0);
        let latched = session.latch_places(&[(db, KeyHash::of(key))], Access::Read, 0);
        latched.get(db, key).map(Entry::kind)
    }

    /// Waits until all indexes are built.
    fn wait_for_indexes(&self) {
        while !self.engine.indexes().iter().all(|index| index.is_ready) {
            std::thread::yield_now();
        }
    }

    fn assert_nothing_kept(&self) {
        let status = self.engine.views().status();
        assert_eq!((status.open.len(), status.retained.records, status.retained.bytes), (0, 0, 0));
        for index in self.engine.indexes() {
            assert_eq!(index.removed, 0, "{index:?}");
        }
    }
}

fn key_of(number: u64) -> Vec<u8> {
    format!("{}:{number}", if number.is_multiple_of(5) { "other" } else { "key" }).into_bytes()
}

/// A change that fits what the key holds.
fn change_for(kind: Option<Kind>, random: &mut impl Rng) -> Change<'static> {
    let text = vec![b'a' + random.random_range(0..5); random.random_range(0..4)];
    let number = (random.random_range(-10..10_i32) * 3).to_string().into_bytes();
    let expiry = Some(1_000_000 + random.random_range(0..100));
    let kind = kind.unwrap_or(if random.random_range(0..3) == 0 { Kind::String } else { Kind::Hash });
    match (random.random_range(0..12), kind) {
        (0, _) => Change::Delete,
        (1, _) => Change::Put { value: text.into(), expiry: None },
        (2, _) => Change::Put { value: text.into(), expiry },
        (3, Kind::String) => Change::Patch { offset: 1, bytes: text.into() },
        (_, Kind::String) => Change::Put { value: text.into(), expiry: None },
        (3, _) => Change::HashRemove { field: b"n"[..].into() },
        (4, _) => Change::HashRemove { field: b"other"[..].into() },
        (5 | 6, _) => Change::HashPut { field: b"other"[..].into(), value: text.into() },
        (7, _) => Change::HashPut { field: b"n"[..].into(), value: b"no number"[..].into() },
        (_, _) => Change::HashPut { field: b"n"[..].into(), value: number.into() },
    }
}

impl Store {
    /// One change, or several as one group, of keys below `keys`, and now and then something larger.
    fn write_at_random(&self, keys: u64, random: &mut impl Rng) {
        let count = if random.random_range(0..8) == 0 { random.random_range(2..6) } else { 1 };
        let mut batch = Batch::new();
        for _ in 0..count {
            let (db, key) = (random.random_range(0..DATABASES), key_of(random.random_range(0..keys)));
            if batch.iter().any(|write| matches!(write, Write::Key { key: other, .. } if **other == *key)) {
                continue;
            }
            let kind = self.kind(db, &key);
            if kind.is_some() && random.random_range(0..20) == 0 {
                let expiry = Some(1_000_000 + random.random_range(0..100));
                batch.push(Write::Key { db, key: key.into(), change: Change::Expire(expiry) });
                continue;
            }
            let change = change_for(kind, random);
            if let (Change::HashPut { .. }, 0) = (&change, random.random_range(0..4)) {
                // Several changes of one key in one group.
                let also = Change::HashPut { field: b"n"[..].into(), value: b"1"[..].into() };
                batch.push(Write::Key { db, key: key.clone().into(), change: also });
            }
            batch.push(Write::Key { db, key: key.into(), change });
        }
        self.commit(0, &batch);
        match random.random_range(0..1_000) {
            0 => self.exclusive(Write::Flush { db: Some(random.random_range(0..DATABASES)) }),
            1 => self.exclusive(Write::Flush { db: None }),
            2..4 => self.exclusive(Write::Swap { a: 0, b: random.random_range(0..DATABASES) }),
            4..10 => {
                self.clock.advance(10);
                self.engine.expire_due(self.clock.unix_ms());
            }
            10..14 => {
                let (db, which) = (random.random_range(0..DATABASES), random.random_range(0..2));
                if !self.engine.drop_index(db, NAMES[which]) {
                    create(self, db, which).unwrap();
                }
            }
            _ => {}
        }
        if random.random_range(0..50) == 0 {
            self.wait_for_indexes();
        }
    }
}

/// A scan, and what it has yet to find.
struct Scanning {
    scan: IndexScan,
    /// The next is the last.
    expected: Vec<(IndexValue, Vec<u8>)>,
}

/// A view, what was there when it was opened, and the scans that it runs.
struct Reading {
    view: View,
    db: u8,
    copy: Copy,
    scans: Vec<Scanning>,
}

fn any_range(which: usize, random: &mut impl Rng) -> IndexRange {
    let mut bound = || {
        let value = match which {
            0 => IndexValue::number(f64::from(random.random_range(-31..31))).unwrap(),
            _ => IndexValue::text(&vec![b'a' + random.random_range(0..5); random.random_range(0..4)]),
        };
        match random.random_range(0..3) {
            0 => Bound::Included(value),
            1 => Bound::Excluded(value),
            _ => Bound::Unbounded,
        }
    };
    IndexRange { from: bound(), to: bound() }
}

impl Reading {
    fn open(store: &Store, random: &mut impl Rng) -> Vec<Reading> {
        let dbs: Vec<u8> =
            (0..random.random_range(1..3)).map(|_| random.random_range(0..DATABASES)).collect();
        let options: Vec<_> = dbs.iter().map(|db| ViewOptions::indexed_of(*db, "test")).collect();
        let views = store.engine.open_views(&options).unwrap();
        let copy = store.copy();
        let reading = |(view, db)| Reading { view, db, copy: copy.clone(), scans: Vec::new() };
        views.into_iter().zip(dbs).map(reading).collect()
    }

    /// Begins a scan of a random range; `false` if the index is not there, or was not ready.
    fn begin(&mut self, random: &mut impl Rng) -> bool {
        let (which, db) = (random.random_range(0..2), self.db);
        let range = any_range(which, random);
        let direction =
            if random.random_range(0..2) == 0 { Direction::Ascending } else { Direction::Descending };
        let Some(scan) = self.view.scan_index(db, NAMES[which], &range, direction) else { return false };
        let of_db = self.copy.iter().filter(|((of_db, _), _)| *of_db == db);
        let values = of_db.filter_map(|((_, key), described)| {
            described.values[which].clone().map(|value| (value, key.clone()))
        });
        let mut expected: Vec<_> = values.filter(|(value, _)| range.contains(value)).collect();
        expected.sort_unstable();
        if direction == Direction::Ascending {
            expected.reverse();
        }
        if random.random_range(0..5) == 0 {
            let scan = self.view.scan_index(db, NAMES[which], &range, direction).unwrap();
            assert_eq!(self.view.count_pointers(scan).unwrap(), expected.len());
        }
        self.scans.push(Scanning { scan, expected });
        true
    }

    /// Goes on with one of the scans.
    fn step(&mut self, random: &mut impl Rng) {
        if self.scans.is_empty() {
            return;
        }
        let at = random.random_range(0..self.scans.len());
        let scanning = &mut self.scans[at];
        let pointers = self.view.next_pointers(&mut scanning.scan, random.random_range(1..40)).unwrap();
        if pointers.is_empty() {
            assert_eq!(scanning.expected, [], "all is found");
            self.scans.swap_remove(at);
            return;
        }
        for pointer in &pointers {
            let expected = scanning.expected.pop();
            assert_eq!(Some((pointer.value(), pointer.key().to_vec())), expected, "in order, as of the cut");
        }
        let mut keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
        keys.insert(0, b"key:missing");
        let mut read = Vec::new();
        self.view
            .read_keys(self.db, &keys, usize::MAX, |at, entry| read.push((at, describe(entry))))
            .unwrap();
        assert_eq!(read.len() + 1, keys.len(), "each was there");
        for (at, described) in read {
            assert_eq!(Some(&described), self.copy.get(&(self.db, keys[at].to_vec())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_scan_finds_what_the_tables_held(seed: u64, keys in 1u64..1_500, often in 1u32..100) {
        let mut random = SmallRng::seed_from_u64(seed);
        let store = store(1);
        (0..DATABASES).for_each(|db| _ = create(&store, db, 0).unwrap());
        let (mut readings, mut scans): (Vec<Reading>, _) = (Vec::new(), 0);
        for _ in 0..3_000 {
            store.write_at_random(keys, &mut random);
            if readings.len() < 6 && random.random_range(0..often) == 0 {
                readings.extend(Reading::open(&store, &mut random));
            }
            if readings.is_empty() {
                continue;
            }
            let which = random.random_range(0..readings.len());
            match random.random_range(0..40) {
                0 => _ = readings.swap_remove(which),
                1..10 => scans += usize::from(readings[which].begin(&mut random)),
                _ => readings[which].step(&mut random),
            }
        }
        for mut reading in readings {
            while !reading.scans.is_empty() {
                reading.step(&mut random);
            }
        }
        prop_assert!(scans > 0);
        store.wait_for_indexes();
        store.assert_nothing_kept();
        // What is there now.
        for mut reading in Reading::open(&store, &mut random) {
            (0..20).for_each(|_| _ = reading.begin(&mut random));
            for index in (0..2).filter_map(|which| reading.view.index(reading.db, NAMES[which])) {
                index.assert_invariants();
            }
            while !reading.scans.is_empty() {
                reading.step(&mut random);
            }
        }
    }
}

const ACCOUNTS: u64 = 300;
const START: i64 = 1_000;

fn account(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn balance_of(entry: &Entry) -> i64 {
    let ValueRef::Hash(hash) = entry.value() else { panic!("accounts are hashes") };
    std::str::from_utf8(hash.get(b"n").unwrap()).unwrap().parse().unwrap()
}

/// Moves money between two accounts; an account that has nothing is gone.
fn transfer(store: &Store, worker: usize, (from, to): (u64, u64), random: &mut impl Rng) {
    let keys = [from, to].map(|number| (0, KeyHash::of(&account(number))));
    let session = store.engine.enter(worker);
    let mut latched = session.latch_places(&keys, Access::Write, 0);
    let balance = |number: u64| latched.get(0, &account(number)).map_or(0, balance_of);
    let all = balance(from);
    let amount = if random.random_range(0..10) == 0 { all } else { random.random_range(-50..50) };
    let put = |number: u64, balance: i64| {
        let value = balance.to_string().into_bytes().into();
        let change = match balance {
            0 => Change::Delete,
            _ => Change::HashPut { field: b"n"[..].into(), value },
        };
        Write::Key { db: 0, key: account(number).into(), change }
    };
    let batch = Batch::from_iter([put(from, all - amount), put(to, balance(to) + amount)]);
    latched.commit(&batch, &mut Group::default()).unwrap();
    latched.release();
}

/// Reads all accounts by the index; `false` if it is not ready.
fn audit(store: &Store, direction: Direction) -> bool {
    let view = store.engine.open_view(ViewOptions::indexed_of(0, "audit")).unwrap();
    let Some(mut scan) = view.scan_index(0, NAMES[0], &IndexRange::ALL, direction) else { return false };
    let (mut sum, mut last) = (0, None);
    loop {
        let pointers = view.next_pointers(&mut scan, 20).unwrap();
        if pointers.is_empty() {
            assert_eq!(sum, ACCOUNTS as i64 * START);
            return true;
        }
        let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
        let mut read = 0;
        let look = |at: usize, entry: &Entry| {
            let value = pointers[at].value().as_number().unwrap();
            assert_eq!(balance_of(entry) as f64, value, "the entry is that of the pointer");
            let in_order = match direction {
                Direction::Ascending => last <= Some(value),
                Direction::Descending => last.is_none_or(|last| last >= value),
            };
            assert!(in_order, "{last:?}, then {value}");
            last = Some(value);
            sum += value as i64;
            read += 1;
        };
        view.read_keys(0, &keys, usize::MAX, look).unwrap();
        assert_eq!(read, keys.len(), "each was there");
    }
}

#[test]
fn the_sum_of_all_accounts_is_exact_in_every_scan_of_an_index() {
    let rounds: u64 = if cfg!(debug_assertions) { 1_000 } else { 20_000 };
    let store = store(4);
    for number in 0..ACCOUNTS {
        let change = Change::HashPut { field: b"n"[..].into(), value: START.to_string().into_bytes().into() };
        store.commit(0, &Batch::from_iter([Write::Key { db: 0, key: account(number).into(), change }]));
    }
    let (stop, tries) = (AtomicBool::new(false), AtomicU64::new(0));
    create(&store, 0, 0).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(worker as u64);
                while !stop.load(Ordering::Relaxed) {
                    let pair = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
                    if pair.0 != pair.1 {
                        transfer(store, worker, pair, &mut random);
                    }
                }
            });
        }
        let auditors: Vec<_> = [Direction::Ascending, Direction::Descending]
            .map(|direction| {
                let (store, tries) = (&store, &tries);
                scope.spawn(move || {
                    let mut done = 0;
                    while done < rounds {
                        done += u64::from(audit(store, direction));
                        tries.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .into();
        let are_done = || auditors.iter().all(|auditor| auditor.is_finished());
        while !are_done() {
            // It comes and goes, and is built while money moves.
            assert!(store.engine.drop_index(0, NAMES[0]));
            create(&store, 0, 0).unwrap();
            store.wait_for_indexes();
            let before = tries.load(Ordering::Relaxed);
            while tries.load(Ordering::Relaxed) < before + 20 && !are_done() {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
        auditors.into_iter().for_each(|auditor| auditor.join().unwrap());
    });
    assert!(tries.load(Ordering::Relaxed) > 2 * rounds, "now and then the index was not ready");
    assert!(audit(&store, Direction::Ascending));
    store.assert_nothing_kept();
}

fn put_number(store: &Store, db: u8, key: &str, number: i64) {
    let change = Change::HashPut { field: b"n"[..].into(), value: number.to_string().into_bytes().into() };
    store.commit(0, &Batch::from_iter([Write::Key { db, key: key.as_bytes().to_vec().into(), change }]));
}

fn numbers(view: &View, db: u8) -> Vec<(i64, String)> {
    let mut scan = view.scan_index(db, NAMES[0], &IndexRange::ALL, Direction::Ascending).unwrap();
    let pointers = view.next_pointers(&mut scan, 100).unwrap();
    let read = |pointer: &tarn_engine::Pointer| {
        let key = String::from_utf8(pointer.key().to_vec()).unwrap();
        (pointer.value().as_number().unwrap() as i64, key)
    };
    pointers.iter().map(read).collect()
}

fn found(number: i64, key: &str) -> (i64, String) {
    (number, key.to_owned())
}

#[test]
fn a_database_keeps_its_indexes_when_it_is_flushed_and_swapped() {
    let store = store(1);
    put_number(&store, 0, "key:a", 1);
    put_number(&store, 1, "key:b", 2);
    create(&store, 0, 0).unwrap();
    assert!(matches!(create(&store, 0, 0), Err(IndexError::Exists(0, _))));
    assert!(matches!(create(&store, DATABASES, 0), Err(IndexError::NoDatabase(DATABASES))));
    store.wait_for_indexes();
    let open = |db| store.engine.open_view(ViewOptions::indexed_of(db, "test")).unwrap();
    let before = open(0);
    store.exclusive(Write::Swap { a: 0, b: 1 });
    store.wait_for_indexes();
    assert_eq!(numbers(&open(0), 0), [found(2, "key:b")], "it is of the table that is there now");
    assert!(open(1).index(1, NAMES[0]).is_none(), "and does not go with the table");
    put_number(&store, 0, "key:c", -3);
    let between = open(0);
    store.exclusive(Write::Flush { db: Some(0) });
    assert_eq!(numbers(&open(0), 0), [], "a fresh table has an index that is ready");
    put_number(&store, 0, "key:d", 4);
    assert_eq!(numbers(&open(0), 0), [found(4, "key:d")]);
    assert_eq!(numbers(&between, 0), [found(-3, "key:c"), found(2, "key:b")], "open views see their instant");
    assert_eq!(numbers(&before, 0), [found(1, "key:a")]);
    assert!(store.engine.drop_index(0, NAMES[0]));
    assert!(!store.engine.drop_index(0, NAMES[0]));
    put_number(&store, 0, "key:d", 5);
    assert_eq!(numbers(&before, 0), [found(1, "key:a")]);
    drop((before, between));
    store.assert_nothing_kept();
}

#[test]
fn a_removed_pointer_stays_as_long_as_a_view_sees_it() {
    let store = store(1);
    create(&store, 0, 0).unwrap();
    store.wait_for_indexes();
    let open = || store.engine.open_view(ViewOptions::indexed_of(0, "test")).unwrap();
    let removed = || store.engine.indexes()[0].removed;
    put_number(&store, 0, "key:a", 1);
    put_number(&store, 0, "key:a", 2);
    assert_eq!(removed(), 0, "nobody sees it");
    let older = open();
    put_number(&store, 0, "key:a", 3);
    let newer = open();
    // There and back, so that the same pointer is there twice.
    [2, 3, 2].into_iter().for_each(|number| put_number(&store, 0, "key:a", number));
    assert_eq!(removed(), 2, "one for each view");
    let kept = store.engine.views().status().retained;
    assert_eq!((numbers(&older, 0), numbers(&newer, 0)), (vec![found(2, "key:a")], vec![found(3, "key:a")]));
    drop(older);
    assert_eq!((numbers(&newer, 0), removed()), (vec![found(3, "key:a")], 1));
    assert!(store.engine.views().status().retained.bytes < kept.bytes, "its bytes are counted");
    // Views that read no index keep no pointers.
    let full = store.engine.open_view(ViewOptions::pinned("test")).unwrap();
    drop(newer);
    put_number(&store, 0, "key:a", 9);
    assert_eq!(removed(), 0);
    drop(full);
    store.assert_nothing_kept();
}

#[test]
fn a_cancelled_view_gives_its_pointers_back_and_reads_no_more() {
    let store = store(1);
    create(&store, 0, 0).unwrap();
    store.wait_for_indexes();
    put_number(&store, 0, "key:a", 1);
    let view = store.engine.open_view(ViewOptions::indexed_of(0, "test")).unwrap();
    let mut scan = view.scan_index(0, NAMES[0], &IndexRange::ALL, Direction::Ascending).unwrap();
    put_number(&store, 0, "key:a", 2);
    store.engine.views().set_limits(ViewLimits { retained_bytes: 1, passing_bytes: 0, age: Duration::ZERO });
    // The expirer may be about to do the same.
    for _ in 0..100_000 {
        store.engine.views().enforce_limits();
        if store.engine.indexes()[0].removed == 0 {
            break;
        }
        std::thread::yield_now();
    }
    assert_eq!(store.engine.indexes()[0].removed, 0);
    assert!(view.next_pointers(&mut scan, 10).is_err());
    assert!(view.read_keys(0, &[b"key:a"], 0, |_, _| {}).is_err());
    drop(view);
    store.assert_nothing_kept();
}

#[test]
fn views_and_scans_go_from_thread_to_thread() {
    const fn goes<T: Send>() {}
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<View>();
    goes::<IndexScan>();
}

#[test]
fn an_index_says_how_large_it_is() {
    let store = store(1);
    let index = create(&store, 0, 0).unwrap();
    store.wait_for_indexes();
    assert_eq!((index.len(), index.bounds()), (0, None));
    let before = store.engine.indexes()[0].bytes;
    for number in 0..3_000 {
        put_number(&store, 0, &format!("key:{number}"), number - 1_000);
    }
    let number = |number: f64| IndexValue::number(number).unwrap();
    let status = store.engine.indexes().remove(0);
    assert_eq!((index.len(), status.pointers, status.progress_permille), (3_000, 3_000, 1_000));
    assert!(status.bytes > before + 3_000 * (8 + 5));
    assert_eq!(index.bounds(), Some((number(-1_000.0), number(1_999.0))));
    let range = IndexRange { from: Bound::Included(number(-500.5)), to: Bound::Excluded(number(2.0)) };
    assert_eq!(index.estimate(&range, 5_000), 502);
    assert_eq!(index.estimate(&range, 100), 100);
    assert_eq!(index.estimate(&IndexRange::ALL, 5_000), 3_000);
    assert_eq!(index.estimate(&IndexRange::of(number(7.0)), 5_000), 1);
    let nothing = IndexRange { from: Bound::Included(number(2.0)), to: Bound::Included(number(1.0)) };
    assert_eq!(index.estimate(&nothing, 5_000), 0);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "another thread gives it up, and nothing tells when")]
fn indexes_past_their_limit_are_given_up_and_built_again_when_there_is_room() {
    let store = store(1);
    create(&store, 0, 0).unwrap();
    create(&store, 0, 1).unwrap();
    (0..3_000).for_each(|number| put_number(&store, 0, &format!("key:{number}"), number));
    store.wait_for_indexes();
    let bytes: usize = store.engine.indexes().iter().map(|index| index.bytes).sum();
    let view = store.engine.open_view(ViewOptions::indexed_of(0, "test")).unwrap();
    store.engine.limit_indexes(bytes - 1);
    let is_given_up = || store.engine.indexes().iter().any(|index| index.given_up_bytes > 0);
    for _ in 0..30_000 {
        if is_given_up() {
            break;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let statuses = store.engine.indexes();
    let [largest, other] = &statuses[..] else { panic!("there are two") };
    assert!(largest.given_up_bytes > 0 && !largest.is_ready && other.is_ready, "{largest:?}, {other:?}");
    put_number(&store, 0, "key:new", 7);
    assert_eq!((store.engine.indexes()[0].pointers, store.engine.indexes()[0].bytes), (0, 0));
    // A view that had been opened before goes on to read what was there.
    let scan = view.scan_index(0, NAMES[0], &IndexRange::ALL, Direction::Ascending).unwrap();
    assert_eq!(view.count_pointers(scan).unwrap(), 3_000);
    drop(view);
    store.engine.limit_indexes(0);
    store.wait_for_indexes();
    assert_eq!(store.engine.indexes()[0].pointers, 3_001);
}
