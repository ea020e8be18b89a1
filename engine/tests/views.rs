//! Views against a copy of the tables taken at the same instant, and against money that must not get lost.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::io::{Clock, ManualClock};
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::session::Access;
use tarn_engine::table::{KeyHash, ScanBudget, Visitor};
use tarn_engine::value::stream::{Pending, StreamHead, StreamId, element};
use tarn_engine::value::{ImageBuilder, ValueRef, elements_of};
use tarn_engine::view::{ViewLimits, Views};
use tarn_engine::{Background, Engine, MovePlace};
use tarn_engine::{Entry, View, ViewOptions};

const DATABASES: usize = 3;
const KINDS: [Kind; 7] =
    [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash, Kind::Stream, Kind::Json];

struct Store {
    engine: Arc<Engine>,
    clock: Arc<ManualClock>,
    _background: Background,
}

/// The contents of a store: for each database and key, all that a client could see of it.
type Copy = BTreeMap<(u8, Vec<u8>), String>;

fn describe(entry: &Entry) -> String {
    let value = match entry.value() {
        ValueRef::String(value) => value.to_vec(),
        other => elements_of(other),
    };
    let (expiry, lsn) = (entry.expiry(), entry.lsn());
    format!("{:?} {} {} {expiry:?} {lsn}", entry.kind(), entry.encoding(), value.escape_ascii())
}

fn store() -> Store {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let (engine, background) = Engine::unlogged(DATABASES, 4, clock.clone());
    engine.expiry().set_active(false);
    Store { engine, clock, _background: background }
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

    /// The contents of all tables now: the oracle.
    fn copy(&self) -> Copy {
        let session = self.engine.enter(0);
        let latched = session.latch(&[], Access::Read, 0);
        let mut copy = Copy::new();
        for db in 0..DATABASES as u8 {
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

    fn views(&self) -> &Views {
        self.engine.views()
    }

    /// Moves all small entries that may be moved; how many these were, and how many others there are.
    fn move_all(&self) -> (usize, usize) {
        let (mut place, mut counts) = (Some(MovePlace::default()), (0, 0));
        while let Some(from) = place {
            let step = self.engine.move_entries(from);
            counts = (counts.0 + step.moved, counts.1 + step.stayed);
            place = step.next;
        }
        counts
    }

    fn assert_nothing_kept(&self) {
        let status = self.views().status();
        assert_eq!((status.open.len(), status.retained.records, status.retained.bytes), (0, 0, 0));
    }
}

fn key_of(number: u64) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

/// A change that fits what the key holds.
fn change_for(kind: Option<Kind>, random: &mut impl Rng) -> Change<'static> {
    let name = |random: &mut dyn FnMut() -> u64| format!("e{}", random() % 300).into_bytes().into();
    let mut draw = || random.random::<u64>();
    let side = if draw().is_multiple_of(2) { Side::Front } else { Side::Back };
    let value = vec![b'a' + (draw() % 26) as u8; (draw() % 60) as usize];
    let kind = kind.unwrap_or(KINDS[draw() as usize % KINDS.len()]);
    match (draw() % 10, kind) {
        (0, _) => Change::Delete,
        (1, _) => Change::Put { value: value.into(), expiry: Some(1_000_000 + draw() % 100) },
        (2, kind) if kind != Kind::String => {
            let mut image = ImageBuilder::new(Kind::Set);
            (0..draw() % 200 + 1).for_each(|i| image.push_element(&i.to_le_bytes()));
            Change::Image { kind: Kind::Set, elements: image.finish().into(), expiry: None, sticky: false }
        }
        (_, Kind::String) if draw().is_multiple_of(2) => {
            Change::Patch { offset: draw() % 50, bytes: value.into() }
        }
        (_, Kind::String) => Change::Put { value: value.into(), expiry: None },
        (_, Kind::List) => Change::ListPush { side, element: value.into() },
        (3, Kind::Set) => Change::SetRemove { member: name(&mut draw) },
        (_, Kind::Set) => Change::SetAdd { member: name(&mut draw) },
        (3, Kind::ZSet) => Change::ZSetRemove { member: name(&mut draw) },
        (_, Kind::ZSet) => Change::ZSetPut { member: name(&mut draw), score: (draw() % 9) as f64 },
        (3, Kind::Hash) => Change::HashRemove { field: name(&mut draw) },
        (4, Kind::Hash) => {
            let at = (!draw().is_multiple_of(4)).then(|| 1_000_000 + draw() % 1_000);
            Change::HashExpire { field: name(&mut draw), at }
        }
        (_, Kind::Hash) => Change::HashPut { field: name(&mut draw), value: value.into() },
        (draws, Kind::Stream) => {
            let (id, consumer) = (StreamId::new(draw() % 300, 0), [b'a' + (draw() % 3) as u8]);
            match draws {
                3 if draw().is_multiple_of(9) => Change::StreamTrim { below: id },
                3 => element::remove_entry(id),
                4 => element::put_pending(
                    b"group",
                    &Pending { id, consumer: &consumer, delivered: draw(), deliveries: draw() },
                ),
                5 if draw().is_multiple_of(9) => Change::StreamGroupRemove { group: b"group"[..].into() },
                5 => element::remove_pending(b"group", id),
                6 => element::put_head(&StreamHead { last_id: id, ..StreamHead::default() }),
                _ => element::put_entry(id, draw(), [(&b"field"[..], &value[..])].into_iter()),
            }
        }
        (_, Kind::Json) => {
            let elements = [&b"0"[..], &value].concat().into();
            Change::Image { kind: Kind::Json, elements, expiry: None, sticky: false }
        }
    }
}

impl Store {
    /// One change, or several as one group, of keys below `keys`.
    fn write_at_random(&self, keys: u64, random: &mut impl Rng) {
        let count = if random.random_range(0..8) == 0 { random.random_range(2..6) } else { 1 };
        let mut batch = Batch::new();
        for _ in 0..count {
            let (db, key) = (random.random_range(0..DATABASES as u8), key_of(random.random_range(0..keys)));
            if batch.iter().any(|write| matches!(write, Write::Key { key: other, .. } if **other == *key)) {
                continue;
            }
            let kind = self.kind(db, &key);
            batch.push(Write::Key { db, key: key.into(), change: change_for(kind, random) });
        }
        self.commit(0, &batch);
        match random.random_range(0..2_000) {
            0 => self.exclusive(Write::Flush { db: Some(random.random_range(0..DATABASES as u8)) }),
            1 => self.exclusive(Write::Flush { db: None }),
            2..4 => self.exclusive(Write::Swap { a: 0, b: random.random_range(0..DATABASES as u8) }),
            10..13 => {
                // So few keys are left that the tables shrink.
                for number in (0..keys).filter(|number| !number.is_multiple_of(9)) {
                    let delete = |db| Write::Key { db, key: key_of(number).into(), change: Change::Delete };
                    self.commit(0, &(0..DATABASES as u8).map(delete).collect());
                }
                self.engine.shrink_tables();
            }
            4..10 => {
                self.clock.advance(10);
                self.engine.expire_due(self.clock.unix_ms());
            }
            13..20 => _ = self.move_all(),
            _ => {}
        }
    }
}

/// A view that is being read, and what it has to find.
struct Reading {
    view: View,
    expected: Copy,
    found: Copy,
    options: ViewOptions,
}

impl Reading {
    /// Reads a part; whether there is more.
    fn step(&mut self) -> bool {
        if self.options.pinned {
            self.read_all();
            return true;
        }
        let mut part = Vec::new();
        let walked =
            self.view.step(&mut |entry: &Entry| part.push((entry.key().to_vec(), describe(entry)))).unwrap();
        for (key, description) in part {
            let db = walked.unwrap().db;
            assert!(self.found.insert((db, key), description).is_none(), "an entry is read once");
        }
        walked.is_some()
    }

    /// Reads a pinned view from front to back.
    fn read_all(&mut self) {
        let mut found = Copy::new();
        let positions = self.options.positions();
        for db in 0..DATABASES as u8 {
            let mut from = Some(positions.start);
            while let Some(at) = from {
                from = self
                    .view
                    .read_at(db, at..positions.end, &mut |entry: &Entry| {
                        assert!(found.insert((db, entry.key().to_vec()), describe(entry)).is_none());
                    })
                    .unwrap();
                assert!(from.is_none_or(|next| next > at && next < positions.end));
            }
        }
        self.found = found;
        self.check();
    }

    fn check(&self) {
        for (key, description) in self.expected.iter() {
            assert_eq!(self.found.get(key), Some(description), "{key:?} is read as it was");
        }
        assert_eq!(self.found.len(), self.expected.len(), "nothing else is read");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_view_sees_what_a_copy_of_the_tables_held(seed: u64, keys in 1u64..2_500, often in 1u32..200) {
        let mut random = SmallRng::seed_from_u64(seed);
        let store = store();
        for _ in 0..keys {
            store.write_at_random(keys, &mut random);
        }
        let mut readings: Vec<Reading> = Vec::new();
        for _ in 0..3_000 {
            store.write_at_random(keys, &mut random);
            if readings.len() < 8 && random.random_range(0..often) == 0 {
                let options: Vec<_> = (0..random.random_range(1..3))
                    .map(|_| {
                        let of = random.random_range(1..4);
                        let part = (random.random_range(0..of), of);
                        let whole = match random.random_range(0..4) {
                            0 => ViewOptions::pinned("test"),
                            1 => ViewOptions::once_of(random.random_range(0..DATABASES as u8), "test"),
                            _ => ViewOptions::once("test"),
                        };
                        ViewOptions { part, ..whole }
                    })
                    .collect();
                let views = store.engine.open_views(&options).unwrap();
                let all = store.copy();
                readings.extend(views.into_iter().zip(options).map(|(view, options)| {
                    let mut expected = all.clone();
                    expected.retain(|(db, key), _| {
                        let is_in_part = options.positions().contains(&KeyHash::of(key).position());
                        is_in_part && options.db.is_none_or(|only| only == *db)
                    });
                    Reading { view, expected, found: Copy::new(), options }
                }));
            }
            if !readings.is_empty() {
                let which = random.random_range(0..readings.len());
                if random.random_range(0..150) == 0 {
                    // Closed early.
                    readings.swap_remove(which);
                } else if random.random_range(0..if readings[which].options.pinned { 100 } else { 4 }) == 0
                    && !readings[which].step()
                {
                    readings.swap_remove(which).check();
                }
            }
        }
        for mut reading in readings {
            if reading.options.pinned {
                reading.read_all();
            } else {
                while reading.step() {}
                reading.check();
            }
        }
        store.assert_nothing_kept();
    }
}

/// Waits until it is so, up to a minute.
#[expect(clippy::disallowed_methods, reason = "another thread closes the view, and nothing tells when")]
fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    let mut looks = (0..60_000).inspect(|_| std::thread::sleep(Duration::from_millis(1)));
    is_so() || looks.any(|_| is_so())
}

#[test]
fn what_is_past_a_limit_is_cancelled_and_gives_everything_back() {
    let store = store();
    let mut random = SmallRng::seed_from_u64(1);
    // A database may have been flushed just before.
    while store.copy().len() < 2_000 {
        (0..1_000).for_each(|_| store.write_at_random(2_000, &mut random));
    }
    let limits =
        |retained_bytes, age| store.views().set_limits(ViewLimits { retained_bytes, passing_bytes: 0, age });
    let mut oldest = store.engine.open_view(ViewOptions::once("checkpoint")).unwrap();
    let mut newer = store.engine.open_view(ViewOptions::pinned("query")).unwrap();
    assert!(oldest.step(&mut |_: &Entry| {}).unwrap().is_some());
    limits(10_000, Duration::ZERO);
    // The store's own thread may do it too, and what is kept may become less meanwhile.
    let cancels = || {
        store.write_at_random(2_000, &mut random);
        store.views().enforce_limits();
        store.views().status().cancelled > 0
    };
    assert!(eventually(cancels), "nothing is cancelled");
    // The oldest is the first to go.
    assert!(oldest.step(&mut |_: &Entry| {}).is_err());
    drop(oldest);
    limits(0, Duration::from_millis(50));
    let lasting = store.engine.open_view(ViewOptions::once("checkpoint")).unwrap();
    store.clock.advance(51);
    store.views().enforce_limits();
    assert!(newer.step(&mut |_: &Entry| {}).is_err(), "too old");
    drop(newer);
    lasting.for_each(|_, _| {}).unwrap();
    store.assert_nothing_kept();
    assert_eq!(store.views().status().cancelled, 2);
}

#[test]
fn versions_are_told_from_what_is_in_the_table() {
    struct Counts(usize, usize);
    impl Visitor for Counts {
        fn visit(&mut self, _: &Entry) {
            self.0 += 1;
        }

        fn version(&mut self, _: &Entry) {
            self.1 += 1;
        }
    }
    let store = store();
    let mut random = SmallRng::seed_from_u64(3);
    for _ in 0..5_000 {
        store.write_at_random(2_000, &mut random);
    }
    let (mut once, pinned) = {
        let options = [ViewOptions::once("query"), ViewOptions::pinned("query")];
        let mut views = store.engine.open_views(&options).unwrap();
        (views.remove(0), views.remove(0))
    };
    for _ in 0..500 {
        store.write_at_random(2_000, &mut random);
    }
    let kept = store.views().status().retained.records;
    let mut counts = Counts(0, 0);
    while once.step(&mut counts).unwrap().is_some() {}
    let mut all = Vec::new();
    pinned.for_each(|_, entry| all.push(entry.key().to_vec())).unwrap();
    assert!(kept > 0);
    assert_eq!((counts.0 + counts.1, counts.1), (all.len(), kept));
    drop(once);
    store.assert_nothing_kept();
}

#[test]
fn what_a_view_keeps_of_a_large_value_is_counted_as_it_grows() {
    const PIECES: u64 = 20_000;
    let store = store();
    let write = |key: &str, change| {
        let write = Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change };
        store.commit(0, &Batch::from_iter([write]));
    };
    let field = |number: u64, value: &str| Change::HashPut {
        field: number.to_string().into_bytes().into(),
        value: value.as_bytes().to_vec().into(),
    };
    let patch = |number: u64| Change::Patch { offset: number * 200, bytes: vec![b'x'; 100].into() };
    let bytes = |key: &str| {
        let session = store.engine.enter(0);
        let place = [(0, KeyHash::of(key.as_bytes()))];
        let latched = session.latch_places(&place, Access::Read, store.clock.unix_ms());
        latched.get(0, key.as_bytes()).unwrap().bytes()
    };
    for number in 0..PIECES {
        write("hash", field(number, "before"));
        write("string", patch(number));
    }
    for (key, change) in
        [("hash", &(|number| field(number, "behind")) as &dyn Fn(u64) -> _), ("string", &patch)]
    {
        let view = store.engine.open_view(ViewOptions::pinned("test")).unwrap();
        let kept = || store.views().status().retained;
        for number in 0..PIECES / 400 {
            write(key, change(number));
        }
        let first = kept().bytes;
        for number in PIECES / 400..PIECES {
            write(key, change(number));
        }
        let (all, bytes) = (kept(), bytes(key));
        assert_eq!(all.records, 1, "{key}");
        assert!(first < all.bytes, "{key}: {first} bytes, then {}", all.bytes);
        assert!(all.bytes.abs_diff(bytes) < bytes / 10, "{key}: {} bytes are kept of {bytes}", all.bytes);
        drop(view);
        store.assert_nothing_kept();
    }
}

#[test]
fn a_deleted_value_counts_as_what_it_has_and_the_view_alone_keeps() {
    const GIANT: usize = 1 << 20;
    let store = store();
    let write = |key: &str, change| {
        let write = Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change };
        store.commit(0, &Batch::from_iter([write]));
    };
    let push = |bytes: usize| Change::ListPush { side: Side::Back, element: vec![b'x'; bytes].into() };
    write("sparse", Change::Patch { offset: (512 << 20) - 1, bytes: b"x".into() });
    write("list", push(GIANT));
    (0..20_000).for_each(|_| write("list", push(500)));
    write("value", Change::Put { value: vec![1; 4 * GIANT].into(), expiry: None });
    let session = store.engine.enter(0);
    let latched = session.latch_places(&[(0, KeyHash::of(b"value"))], Access::Read, 0);
    let value = latched.get(0, b"value").unwrap().made();
    latched.release();
    drop(session);
    let kind = Kind::String;
    write("copy", Change::Prepared { kind, begun: Lsn::ZERO, parts: 0, expiry: None, sticky: false, value });
    for (key, bytes) in [
        ("sparse", 0..20_000),
        // The giant may be among what is drawn, or not.
        ("list", 15 * GIANT / 2..15 * GIANT),
        ("copy", 0..1_000),
        ("value", 4 * GIANT..5 * GIANT),
    ] {
        let view = store.engine.open_view(ViewOptions::once("test")).unwrap();
        write(key, Change::Delete);
        let kept = store.views().status().retained;
        assert!(kept.records == 1 && bytes.contains(&kept.bytes), "{key}: {kept:?}, not {bytes:?}");
        drop(view);
        store.assert_nothing_kept();
        // All that the view kept is freed behind it: until then nobody has it alone.
        while store.engine.pending_frees() > 0 {
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_a_changed_value_still_shared_is_the_views_alone_when_it_goes() {
    const BYTES: usize = 4 << 20;
    let store = store();
    let write = |change| {
        let write = Write::Key { db: 0, key: b"key".into(), change };
        store.commit(0, &Batch::from_iter([write]));
    };
    let put = |bytes: usize| Change::Put { value: vec![b'x'; bytes].into(), expiry: None };
    for (last, views) in [(Change::Delete, 1), (put(1), 1), (Change::Delete, 2), (put(1), 2)] {
        write(put(BYTES));
        let view = store.engine.open_view(ViewOptions::once("test")).unwrap();
        write(Change::Patch { offset: 0, bytes: b"y".into() });
        let first = store.views().status().retained.bytes;
        assert!(first < 40_000, "{first} bytes are kept of a chunk and its path");
        // It has to keep what the write before has made, and what is as before for both.
        let second = (views > 1).then(|| store.engine.open_view(ViewOptions::once("test")).unwrap());
        write(last);
        let all = store.views().status().retained;
        assert!(all.records == views && (BYTES..BYTES * 5 / 4).contains(&all.bytes), "{all:?}");
        // The next value of the key has nothing of that.
        write(put(BYTES));
        write(Change::Delete);
        assert_eq!(store.views().status().retained, all);
        drop((view, second));
        store.assert_nothing_kept();
    }
}

#[test]
fn a_flushed_database_counts_as_left_while_a_view_has_it() {
    const KEYS: u64 = 20_000;
    let store = store();
    let put = |number: u64, bytes: usize| {
        let (key, value) = (number.to_be_bytes().to_vec().into(), vec![b'x'; bytes].into());
        let write = Write::Key { db: 1, key, change: Change::Put { value, expiry: None } };
        store.commit(0, &Batch::from_iter([write]));
    };
    let left = || {
        while store.engine.pending_frees() > 0 {
            std::thread::yield_now();
        }
        store.engine.store().bytes_left() as usize
    };
    for is_viewed in [false, true] {
        (0..KEYS).for_each(|number| put(number, 100));
        put(KEYS, 4 << 20);
        let view = is_viewed.then(|| store.engine.open_view(ViewOptions::once("test")).unwrap());
        // The view's version and the value share all but this.
        let (key, bytes) = (KEYS.to_be_bytes().to_vec().into(), b"y".into());
        let write = Write::Key { db: 1, key, change: Change::Patch { offset: 0, bytes } };
        store.commit(0, &Batch::from_iter([write]));
        store.exclusive(Write::Flush { db: Some(1) });
        let bytes = KEYS as usize * 100 + (4 << 20);
        let range = if is_viewed { bytes..bytes * 3 / 2 } else { 0..1 };
        assert!(range.contains(&left()), "{} bytes are left of {bytes}, {is_viewed}", left());
        let mut seen = 0;
        if let Some(view) = view {
            view.for_each(|_, _| seen += 1).unwrap();
        }
        assert_eq!((seen, left()), (if is_viewed { KEYS + 1 } else { 0 }, 0));
    }
}

#[test]
fn what_a_view_does_not_keep_is_not_read() {
    let store = store();
    let options = [ViewOptions::once("test"), ViewOptions { db: Some(1), ..ViewOptions::pinned("test") }];
    let views = store.engine.open_views(&options).unwrap();
    let part = ViewOptions { part: (0, 2), ..ViewOptions::pinned("test") };
    let part = store.engine.open_view(part).unwrap();
    let refused = |view: &View, db| {
        let read = || view.read_at(db, 0..tarn_engine::table::END, &mut |_: &Entry| {}).is_ok();
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(read)).is_err()
    };
    assert!(refused(&views[0], 0), "it is read once");
    assert!(refused(&views[1], 0) && !refused(&views[1], 1), "it has one database");
    assert!(refused(&part, 0), "it ends before");
}

#[test]
fn what_a_view_may_be_reading_is_not_moved() {
    let store = store();
    let write = |numbers: std::ops::Range<u64>| {
        for number in numbers {
            let change = Change::Put { value: b"value".to_vec().into(), expiry: None };
            store.commit(0, &Batch::from_iter([Write::Key { db: 0, key: key_of(number).into(), change }]));
        }
    };
    write(0..3_000);
    let large = Change::Put { value: vec![7; 100_000].into(), expiry: None };
    store.commit(0, &Batch::from_iter([Write::Key { db: 1, key: b"large".into(), change: large }]));
    let before = store.copy();
    assert_eq!(store.move_all(), (3_000, 1));
    assert_eq!(store.copy(), before);
    let mut view = store.engine.open_view(ViewOptions::once("test")).unwrap();
    write(3_000..3_100);
    assert_eq!(store.move_all(), (100, 3_001), "what the view does not see is moved");
    let mut read = 0;
    while view.step(&mut |_: &Entry| read += 1).unwrap().is_some() {}
    assert_eq!((read, store.move_all()), (3_001, (3_100, 1)), "what it has passed is moved");
    drop(view);
    store.assert_nothing_kept();
}

#[test]
fn a_walk_beside_which_the_table_shrinks_moves_all_that_is_left() {
    const KEYS: u64 = 40_000;
    let store = store();
    let change = |number: u64, change| {
        store.commit(0, &Batch::from_iter([Write::Key { db: 0, key: key_of(number).into(), change }]));
    };
    (0..KEYS)
        .for_each(|number| change(number, Change::Put { value: b"value".to_vec().into(), expiry: None }));
    (0..KEYS).filter(|number| number % 8 != 0).for_each(|number| change(number, Change::Delete));
    let (left, mut moved) = (KEYS as usize / 8, 0);
    let mut place = Some(MovePlace::default());
    while let Some(from) = place {
        let step = store.engine.move_entries(from);
        if moved < left / 2 && moved + step.moved >= left / 2 {
            store.engine.shrink_tables();
        }
        (moved, place) = (moved + step.moved, step.next);
    }
    assert!(moved >= left, "{moved} of {left} were moved");
}

#[test]
fn of_other_parts_nothing_is_kept() {
    const KEYS: u64 = 3_000;
    let store = store();
    let put = |number| {
        let change = Change::Put { value: b"value".to_vec().into(), expiry: None };
        Write::Key { db: 0, key: key_of(number).into(), change }
    };
    let write_all = || (0..KEYS).for_each(|number| store.commit(0, &Batch::from_iter([put(number)])));
    write_all();
    let options =
        [0, 1, 2].map(|number| ViewOptions { part: (number, 3), ..ViewOptions::once_of(0, "test") });
    let mut views = store.engine.open_views(&options).unwrap();
    write_all();
    assert_eq!(store.views().status().retained.records, KEYS as usize);
    assert_eq!(store.engine.remset_size(0).versions_apart, KEYS as usize, "each is kept for one of them");
    let mut read = 0;
    while views[1].step(&mut |_: &Entry| read += 1).unwrap().is_some() {}
    assert_eq!(store.views().status().retained.records, KEYS as usize - read);
    assert!(read.abs_diff(KEYS as usize / 3) < 200, "{read}");
    assert_eq!(store.views().status().open[1].progress_permille, 1000);
    drop(views);
    store.assert_nothing_kept();
}

#[test]
fn no_more_views_are_opened_than_there_are_bits() {
    let store = store();
    let views = store.engine.open_views(&[ViewOptions::once("test"); 60]).unwrap();
    assert!(store.engine.open_views(&[ViewOptions::once("test"); 5]).is_err());
    drop(views);
    assert_eq!(store.engine.open_views(&[ViewOptions::once("test"); 64]).unwrap().len(), 64);
    store.assert_nothing_kept();
}

/// Accounts whose sum never changes, as hashes, strings and fields of one large hash.
#[test]
fn the_sum_of_all_accounts_is_exact_in_every_view() {
    const ACCOUNTS: u64 = 3_000;
    const START: i64 = 1_000;
    let rounds: u64 = if cfg!(debug_assertions) { 400 } else { 10_000 };
    let store = store();
    let account = |number: u64| format!("account:{number}").into_bytes();
    let put = |number: u64, balance: i64| Write::Key {
        db: (number % 2) as u8,
        key: account(number).into(),
        change: Change::Put { value: balance.to_string().into_bytes().into(), expiry: None },
    };
    for number in 0..ACCOUNTS {
        store.commit(0, &Batch::from_iter([put(number, START)]));
    }
    let (stop, transfers) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                store.move_all();
                std::thread::yield_now();
            }
        });
        for worker in 0..3 {
            let (store, stop, transfers) = (&store, &stop, &transfers);
            scope.spawn(move || {
                let mut random = SmallRng::seed_from_u64(worker as u64);
                let mut group = Group::default();
                while !stop.load(Ordering::Relaxed) {
                    let (a, b) = (random.random_range(0..ACCOUNTS), random.random_range(0..ACCOUNTS));
                    if a == b {
                        continue;
                    }
                    let keys = [a, b].map(|number| ((number % 2) as u8, KeyHash::of(&account(number))));
                    let session = store.engine.enter(worker);
                    let mut latched = session.latch_places(&keys, Access::Write, 0);
                    let balance = |number: u64| match latched.get((number % 2) as u8, &account(number)) {
                        Some(entry) => balance_of(entry),
                        None => 0,
                    };
                    let amount = random.random_range(-50..50);
                    let (of_a, of_b) = (balance(a) - amount, balance(b) + amount);
                    let mut batch = Batch::from_iter([put(a, of_a), put(b, of_b)]);
                    if random.random_range(0..10) == 0 {
                        // One moves all that it has: the account is gone, and comes back with the next
                        // transfer.
                        batch = Batch::from_iter([put(a, 0), put(b, of_a + of_b)]);
                        if let Write::Key { change, .. } = &mut batch[0] {
                            *change = Change::Delete;
                        }
                    }
                    latched.commit(&batch, &mut group).unwrap();
                    latched.release();
                    transfers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for round in 0..rounds {
            let mut view = store.engine.open_view(ViewOptions::once("sum")).unwrap();
            let mut sum = 0;
            while view.step(&mut |entry: &Entry| sum += balance_of(entry)).unwrap().is_some() {
                if round.is_multiple_of(3) {
                    std::thread::yield_now();
                }
            }
            assert_eq!(sum, ACCOUNTS as i64 * START, "view {round}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(transfers.load(Ordering::Relaxed) > rounds, "there was something to see");
    store.assert_nothing_kept();
}

fn balance_of(entry: &Entry) -> i64 {
    match entry.value() {
        ValueRef::String(text) => std::str::from_utf8(&text.to_bytes()).unwrap().parse().unwrap(),
        _ => panic!("accounts are strings"),
    }
}

#[test]
fn for_a_view_of_one_database_nothing_of_others_is_kept() {
    let store = store();
    let put = |db| {
        let change = Change::Put { value: vec![b'x'; 10].into(), expiry: None };
        store.commit(0, &Batch::from_iter([Write::Key { db, key: b"key".to_vec().into(), change }]));
    };
    (0..DATABASES as u8).for_each(put);
    let mut view = store.engine.open_view(ViewOptions::once_of(1, "test")).unwrap();
    (0..DATABASES as u8).for_each(put);
    assert_eq!(store.views().status().retained.records, 1);
    let mut keys = 0;
    while let Some(walked) = view.step(&mut |_: &Entry| keys += 1).unwrap() {
        assert_eq!(walked.db, 1);
    }
    assert_eq!(keys, 1);
    drop(view);
    store.assert_nothing_kept();
}

#[test]
fn a_step_with_a_limit_waits_for_no_latch_and_a_walk_of_such_steps_loses_nothing() {
    const KEYS: u64 = 100;
    const SOON: Duration = Duration::from_millis(1);
    let store = store();
    let put = |key: Vec<u8>, value: &'static [u8]| {
        let change = Change::Put { value: value.to_vec().into(), expiry: None };
        Batch::from_iter([Write::Key { db: 0, key: key.into(), change }])
    };
    (0..KEYS).for_each(|number| store.commit(0, &put(key_of(number), b"old")));
    let mut view = store.engine.open_view(ViewOptions::once_of(0, "test")).unwrap();
    // Another thread latches a key, says so, and changes it when it is told to go on.
    let hold = |key: Vec<u8>, says: &mpsc::Sender<()>, told: &mpsc::Receiver<()>| {
        let session = store.engine.enter(1);
        let mut latched = session.latch_places(&[(0, KeyHash::of(&key))], Access::Write, 0);
        says.send(()).unwrap();
        told.recv().unwrap();
        latched.commit(&put(key, b"new"), &mut Group::default()).unwrap();
        latched.release();
    };
    let (mut seen, mut parts) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let ((says, said), (tell, told)) = (mpsc::channel(), mpsc::channel());
        let hold = &hold;
        let first = scope.spawn(move || hold(key_of(0), &says, &told));
        said.recv().unwrap();
        // Other segments can be read.
        loop {
            let walked = view.step_within(SOON, &mut |entry: &Entry| seen.push(described(entry))).unwrap();
            let walked = walked.expect("a key is left to be read");
            if walked.from == walked.end {
                break;
            }
        }
        assert!(!seen.contains(&(key_of(0), b"old".to_vec())));
        tell.send(()).unwrap();
        first.join().unwrap();
        // A latch that is taken while a part is read is not waited for either.
        let ((says, said), (tell, told)) = (mpsc::channel(), mpsc::channel());
        let mut ends = Some((says, told));
        let read = view.step_within(SOON, &mut |entry: &Entry| {
            if let Some((says, told)) = ends.take() {
                let key = entry.key().to_vec();
                scope.spawn(move || hold(key, &says, &told));
                said.recv().unwrap();
            }
            seen.push(described(entry));
        });
        assert!(read.unwrap().is_some_and(|walked| walked.from < walked.end));
        assert_eq!(view.next_db(), Some(0), "what was read is still to be passed");
        tell.send(()).unwrap();
    });
    while view.step_within(SOON, &mut |entry: &Entry| seen.push(described(entry))).unwrap().is_some() {
        parts += 1;
        assert!(parts < 10_000);
    }
    seen.sort();
    let mut all: Vec<_> = (0..KEYS).map(|number| (key_of(number), b"old".to_vec())).collect();
    all.sort();
    assert_eq!(seen, all);
    drop(view);
    store.assert_nothing_kept();
}

fn described(entry: &Entry) -> (Vec<u8>, Vec<u8>) {
    let ValueRef::String(text) = entry.value() else { panic!("there are only strings") };
    (entry.key().to_vec(), text.to_vec())
}

/// The element, or the text of the entry, of this number: no two lengths are alike beside each other.
fn job(number: u64) -> Vec<u8> {
    format!("{number}:{}", "x".repeat(number as usize % 41)).into_bytes()
}

/// The numbers in a list, or in the entries of a stream; each text is compared with that of its number.
fn jobs_of(entry: &Entry) -> Vec<u64> {
    let number = |text: &[u8]| {
        let digits = std::str::from_utf8(text).unwrap().split_once(':').unwrap().0;
        let number = digits.parse().unwrap();
        assert_eq!(text, job(number));
        number
    };
    match entry.value() {
        ValueRef::List(list) => list.iter_from(0).map(number).collect(),
        ValueRef::Stream(stream) => {
            let entries = stream.iter_from(StreamId::MIN);
            entries.flat_map(|entry| entry.fields.iter().map(move |(_, text)| number(text))).collect()
        }
        _ => panic!("queues are lists and streams"),
    }
}

/// Queues that are appended to at one end and emptied at the other: their leaves are written in place while
/// no view needs them. In every view they are one run of numbers.
#[test]
fn a_queue_is_one_run_of_jobs_in_every_view() {
    const LENGTH: u64 = 1_000;
    const BURST: u64 = 64;
    let jobs: u64 = if cfg!(debug_assertions) { 5_000 } else { 100_000 };
    let store = store();
    let write = |key: &str, change| {
        let write = Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change };
        store.commit(0, &Batch::from_iter([write]));
    };
    let (stop, views) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for options in [ViewOptions::pinned("test"), ViewOptions::once("test")] {
            let (store, stop, views) = (&store, &stop, &views);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let view = store.engine.open_view(options).unwrap();
                    // The writer goes on in between.
                    std::thread::yield_now();
                    let check = |_: u8, entry: &Entry| {
                        let mut jobs = jobs_of(entry);
                        if entry.key() == b"pushed in front" {
                            jobs.reverse();
                        }
                        assert!(jobs.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{jobs:?}");
                        assert!(jobs.len() as u64 <= LENGTH + 2 * BURST);
                    };
                    view.for_each(check).unwrap();
                    views.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for number in 0.. {
            // Views of threads that have failed do not come.
            if number >= 20 * jobs || number >= jobs && views.load(Ordering::Relaxed) > 20 {
                break;
            }
            let element = || job(number).into();
            write("pushed in front", Change::ListPush { side: Side::Front, element: element() });
            write("pushed behind", Change::ListPush { side: Side::Back, element: element() });
            let text = job(number);
            let fields = [(&b"job"[..], &text[..])].into_iter();
            write("stream", element::put_entry(StreamId::new(number + 1, 0), number + 1, fields));
            if number >= LENGTH && number.is_multiple_of(BURST) {
                for _ in 0..BURST {
                    write("pushed in front", Change::ListPop { side: Side::Back, count: 1 });
                    write("pushed behind", Change::ListPop { side: Side::Front, count: 1 });
                }
                write("stream", Change::StreamTrim { below: StreamId::new(number - LENGTH, 0) });
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.assert_nothing_kept();
}
