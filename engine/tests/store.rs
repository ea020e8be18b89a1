//! The store through its front door: commits, expiry, growth and recovery on a real directory.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use tarn_engine::early::Early;
use tarn_engine::io::{Clock, ManualClock, OsDisk};
use tarn_engine::log::{Group, Log, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::recovery::{self, Progress, Replayed};
use tarn_engine::session::Access;
use tarn_engine::table::{KeyHash, ScanBudget};
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::{Background, Engine};

struct Store {
    engine: Arc<Engine>,
    _background: Background,
    log: Log,
    clock: Arc<ManualClock>,
    replayed: Replayed,
}

fn open(directories: &[&std::path::Path], threads: usize) -> Store {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut options = LogOptions::new(directories.iter().map(|path| path.to_path_buf()).collect());
    options.mode = SyncMode::No;
    let opened = recovery::open(Arc::new(OsDisk), options, None, 16, threads, &Progress::default()).unwrap();
    let shared: Arc<dyn Clock> = clock.clone();
    let appender = Some(opened.log.appender());
    let (engine, background) = Engine::new(opened.tables, 2, appender, opened.validity, shared);
    Store { engine, _background: background, log: opened.log, clock, replayed: opened.replayed }
}

impl Store {
    fn commit(&self, batch: Batch<'_>) -> Lsn {
        let session = self.engine.enter(0);
        let key_of = |write: &Write<'_>| match write {
            Write::Key { db, key, .. } => (*db, KeyHash::of(key)),
            other => panic!("{other:?} concerns no key"),
        };
        let keys: Vec<_> = batch.iter().map(key_of).collect();
        let mut latched = session.latch_places(&keys, Access::Write, self.clock.unix_ms());
        let lsn = latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
        lsn
    }

    fn change(&self, key: &str, change: Change<'_>) -> Lsn {
        let write = Write::Key { db: 0, key: key.as_bytes().into(), change };
        self.commit(Batch::from_iter([write]))
    }

    fn exclusive(&self, write: Write<'_>) {
        let batch = Batch::from_iter([write]);
        self.engine.close_gate().commit(&batch, &mut Group::default()).unwrap();
    }

    /// Every live key of a database with its value as text, in order of the keys.
    fn contents(&self, db: u8) -> Vec<(String, String)> {
        let session = self.engine.enter(1);
        let latched = session.latch(&[], Access::Read, self.clock.unix_ms());
        let mut all = Vec::new();
        latched.table(db).scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            let value = match entry.value() {
                ValueRef::String(value) => value.to_vec(),
                other => elements_of(other),
            };
            let (shown, expiry) = (entry.encoding(), entry.expiry());
            let text = format!("{:?} {shown} {} {expiry:?}", entry.kind(), value.escape_ascii());
            all.push((String::from_utf8_lossy(entry.key()).into_owned(), text));
            false
        });
        all.sort();
        all
    }

    fn close(self) -> Vec<Vec<(String, String)>> {
        let contents = (0..16).map(|db| self.contents(db)).collect();
        self.log.close().unwrap();
        contents
    }
}

fn put(value: &str) -> Change<'static> {
    Change::Put { value: value.as_bytes().to_vec().into(), expiry: None }
}

#[test]
fn what_was_committed_is_there_after_a_restart_with_any_number_of_threads() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directories = [a.path(), b.path()];
    let store = open(&directories, 2);
    for i in 0..5_000 {
        store.change(&format!("s{i}"), put(&format!("value {i}")));
        let field = Change::HashPut {
            field: format!("f{}", i % 300).into_bytes().into(),
            value: i.to_string().into_bytes().into(),
        };
        store.change(&format!("h{}", i % 7), field);
        store.change(
            "z",
            Change::ZSetPut { member: format!("m{}", i % 900).into_bytes().into(), score: f64::from(i) },
        );
        store.change("l", Change::ListPush { side: Side::Back, element: i.to_string().into_bytes().into() });
        if i % 3 == 0 {
            store.change("l", Change::ListPop { side: Side::Front, count: 2 });
        }
        if i % 11 == 0 {
            store.change(&format!("s{}", i / 2), Change::Delete);
        }
    }
    let mut contents = store.close();
    assert!(contents[0].len() > 4_000);
    for threads in [1, 2, 5] {
        let store = open(&directories, threads);
        assert_eq!(store.replayed.misfit, None);
        let again = store.close();
        assert!(again == contents, "{threads} threads replay the same");
        contents = again;
    }
}

/// Gives a sorted set members, of which `first` is the number of the first, in batches.
fn put_members(store: &Store, db: u8, key: &str, first: u32, count: u32) {
    let member = |number: u32| {
        let (member, score) = (format!("m{number}").into_bytes().into(), f64::from(number * 7919 % 1000));
        let change = Change::ZSetPut { member, score };
        Write::Key { db, key: key.as_bytes().into(), change }
    };
    let numbers: Vec<u32> = (first..first + count).collect();
    for part in numbers.chunks(500) {
        store.commit(part.iter().map(|number| member(*number)).collect());
    }
}

#[test]
fn large_sorted_sets_are_the_same_after_a_restart_whatever_happens_between_their_puts() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 1);
    let remove = |number: u32| Change::ZSetRemove { member: format!("m{number}").into_bytes().into() };
    for key in ["plain", "removed", "expiring", "made anew"] {
        put_members(&store, 0, key, 0, 3_000);
        put_members(&store, 0, key, 1_000, 2_500);
    }
    (0..3_500).step_by(3).for_each(|number| _ = store.change("removed", remove(number)));
    put_members(&store, 0, "removed", 0, 100);
    store.change("expiring", Change::Expire(Some(u64::MAX / 2)));
    put_members(&store, 0, "expiring", 9_000, 100);
    store.change("made anew", Change::Delete);
    put_members(&store, 0, "made anew", 5_000, 600);
    // What is collected of these must not go to the database that comes in the place of theirs.
    put_members(&store, 0, "swapped", 0, 700);
    put_members(&store, 1, "swapped", 0, 300);
    store.exclusive(Write::Swap { a: 0, b: 1 });
    put_members(&store, 0, "swapped", 1_000, 10);
    put_members(&store, 2, "flushed", 0, 700);
    store.exclusive(Write::Flush { db: Some(2) });
    put_members(&store, 2, "flushed", 0, 10);
    // What is collected when the log ends.
    put_members(&store, 1, "plain", 3_500, 600);
    let mut contents = store.close();
    assert_eq!(contents[1].len(), 5);
    for threads in [1, 2, 3] {
        let store = open(&[directory.path()], threads);
        assert_eq!(store.replayed.misfit, None);
        let again = store.close();
        assert!(again == contents, "{threads} threads replay the same");
        contents = again;
    }
}

#[test]
fn a_replayed_table_is_sound_although_room_was_made_ahead() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 1);
    let write = |number: u32| {
        let key = format!("key {number}").into_bytes().into();
        Write::Key { db: 0, key, change: put("value") }
    };
    // New keys first, then others of their values: fewer keys than the first part of the log lets expect.
    let numbers: Vec<u32> = (0..40_000).chain((0..5).flat_map(|_| 0..40_000)).collect();
    for part in numbers.chunks(400) {
        store.commit(part.iter().map(|number| write(*number)).collect());
    }
    store.close();
    for threads in [1, 3] {
        let options = LogOptions::new(vec![directory.path().to_path_buf()]);
        let opened =
            recovery::open(Arc::new(OsDisk), options, None, 16, threads, &Progress::default()).unwrap();
        assert_eq!(opened.tables[0].len(), 40_000);
        opened.tables[0].assert_invariants();
        assert!((40_000 / 800..40_000 / 50).contains(&opened.tables[0].segments()));
        opened.log.close().unwrap();
    }
}

#[test]
fn flushed_and_swapped_databases_stay_so_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 2);
    for i in 0..1_000 {
        store.change(&format!("k{i}"), put("old"));
    }
    store.exclusive(Write::Flush { db: Some(0) });
    store.change("kept", put("new"));
    store.exclusive(Write::Swap { a: 0, b: 3 });
    store.change("other", put("in 0"));
    let contents = store.close();
    assert_eq!(contents[3].len(), 1);
    assert_eq!(contents[3][0].0, "kept");
    assert_eq!(contents[0][0].0, "other");
    assert_eq!(open(&[directory.path()], 3).close(), contents);
}

#[test]
fn keys_that_are_due_are_deleted_and_the_deletion_is_logged() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 1);
    for i in 0..2_000u64 {
        let value = Change::Put { value: b"v"[..].into(), expiry: Some(1_000_100 + i % 2) };
        store.change(&format!("k{i}"), value);
    }
    store.clock.advance(101);
    store.engine.expire_due(store.clock.unix_ms());
    assert_eq!(store.engine.expiry().expired_keys(), 1_000);
    let contents = store.close();
    assert_eq!(contents[0].len(), 1_000);
    let store = open(&[directory.path()], 1);
    assert_eq!(store.contents(0), contents[0], "what expired does not come back");
}

#[test]
fn a_replaced_record_becomes_invalid_and_the_newest_stays_valid() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 1);
    let first = store.change("k", put("1"));
    let second = store.change("k", put("2"));
    let (f1, f2) = (store.change("h", field("a", "1")), store.change("h", field("b", "1")));
    let f3 = store.change("h", field("a", "2"));
    let validity = store.engine.store().validity();
    assert_eq!(
        [first, second, f1, f2, f3].map(|lsn| validity.is_valid(lsn)),
        [false, true, false, true, true]
    );
    store.change("h", Change::Delete);
    assert_eq!([f2, f3].map(|lsn| validity.is_valid(lsn)), [false, false]);
    store.close();
    let store = open(&[directory.path()], 2);
    let validity = store.engine.store().validity();
    assert_eq!(
        [first, second, f1, f2, f3].map(|lsn| validity.is_valid(lsn)),
        [false, true, false, false, false],
        "recovery finds the same"
    );
}

fn field(field: &str, value: &str) -> Change<'static> {
    let bytes = |text: &str| text.as_bytes().to_vec().into();
    Change::HashPut { field: bytes(field), value: bytes(value) }
}

#[test]
fn what_outgrew_a_small_encoding_shows_it_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&[directory.path()], 1);
    store.change("raw", put("12"));
    store.change("raw", Change::Patch { offset: 2, bytes: b""[..].into() });
    store.change("shrunk", field("f", &"long".repeat(20)));
    store.change("shrunk", field("f", "v"));
    let image = |sticky| Change::Image {
        kind: Kind::ZSet,
        elements: b"\x01m\0\0\0\0\0\0\0\0"[..].into(),
        expiry: None,
        sticky,
    };
    store.change("copied", image(true));
    store.change("small", image(false));
    let shown = |store: &Store| {
        let contents = store.contents(0);
        contents.into_iter().map(|(key, text)| (key, text.split(' ').nth(1).unwrap().to_owned())).collect()
    };
    let before: Vec<(String, String)> = shown(&store);
    let expected = [("copied", "skiplist"), ("raw", "raw"), ("shrunk", "hashtable"), ("small", "listpack")];
    assert_eq!(before, expected.map(|(key, encoding)| (key.to_owned(), encoding.to_owned())));
    store.close();
    assert_eq!(shown(&open(&[directory.path()], 2)), before);
}

#[test]
fn transfers_between_latched_keys_keep_the_sum() {
    let (engine, _background) = Engine::unlogged(1, 4, Arc::new(ManualClock::new(1)));
    let keys: Vec<String> = (0..50).map(|i| format!("account:{i}")).collect();
    let read = |engine: &Engine, worker: usize| -> i64 {
        let session = engine.enter(worker);
        let hashes: Vec<_> = keys.iter().map(|key| (0, KeyHash::of(key.as_bytes()))).collect();
        let latched = session.latch_places(&hashes, Access::Read, 1);
        keys.iter().map(|key| balance(&latched, key)).sum()
    };
    for key in &keys {
        let session = engine.enter(0);
        let mut latched = session.latch_places(&[(0, KeyHash::of(key.as_bytes()))], Access::Write, 1);
        let write = Write::Key { db: 0, key: key.as_bytes().into(), change: put("100") };
        latched.commit(&Batch::from_iter([write]), &mut Group::default()).unwrap();
    }
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (engine, keys) = (&engine, &keys);
            scope.spawn(move || {
                for i in 0..3_000usize {
                    let (from, to) = (&keys[(i * 7 + worker) % 50], &keys[(i * 13 + worker * 5 + 1) % 50]);
                    if from == to {
                        continue;
                    }
                    let session = engine.enter(worker);
                    let hashes = [from, to].map(|key| (0, KeyHash::of(key.as_bytes())));
                    let mut latched = session.latch_places(&hashes, Access::Write, 1);
                    let (a, b) = (balance(&latched, from) - 1, balance(&latched, to) + 1);
                    let write = |key: &str, value: i64| Write::Key {
                        db: 0,
                        key: key.as_bytes().to_vec().into(),
                        change: put(&value.to_string()),
                    };
                    let batch = Batch::from_iter([write(from, a), write(to, b)]);
                    latched.commit(&batch, &mut Group::default()).unwrap();
                    latched.release();
                }
            });
        }
        for _ in 0..300 {
            assert_eq!(read(&engine, 3), 5_000);
        }
    });
    assert_eq!(read(&engine, 3), 5_000);
}

fn balance(latched: &tarn_engine::session::Latched<'_>, key: &str) -> i64 {
    match latched.get(0, key.as_bytes()).map(|entry| entry.value()) {
        Some(ValueRef::String(text)) => std::str::from_utf8(&text.to_bytes()).unwrap().parse().unwrap(),
        _ => panic!("{key} is a string"),
    }
}

#[test]
fn a_replayer_that_panics_leaves_nobody_waiting() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&[place.path()], 2);
    for number in 0..2000 {
        store.change(&format!("key {}", number % 8), put("value"));
    }
    store.exclusive(Write::Flush { db: None });
    store.log.close().unwrap();

    let mut reader = Log::open(Arc::new(OsDisk), LogOptions::new(vec![place.path().to_path_buf()])).unwrap();
    let blocks = || Ok(reader.next_block()?.map(Arc::new));
    let first = std::sync::atomic::AtomicBool::new(true);
    // One of the two gives up, on its way to the flush where all meet.
    let invalidate =
        |_: &[Lsn]| assert!(!first.swap(false, std::sync::atomic::Ordering::Relaxed), "on purpose");
    let replay = std::panic::AssertUnwindSafe(|| {
        recovery::replay(
            blocks,
            (0..16).map(|_| Arc::default()).collect(),
            (Lsn::ZERO, Lsn::ZERO),
            2,
            (&Early::default(), 0),
            invalidate,
        )
    });
    assert!(std::panic::catch_unwind(replay).is_err(), "the panic is passed on");
}
