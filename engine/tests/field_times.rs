//! Fields of hashes that expire: what is over is removed, and what the log, a checkpoint or a view has of
//! times is what was said last.

#![allow(clippy::unwrap_used)]

mod histories;

use std::path::Path;
use std::sync::Arc;

use histories::{NOW, Store, commit, contents_of, fill_on};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Crash, SimDisk, SimOptions};
use tarn_engine::log::{Group, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::{KeyCounts, KeyHash, KeyRef, ViewOptions};

const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };

fn put(field: &str, value: &str) -> Change<'static> {
    Change::HashPut { field: field.as_bytes().to_vec().into(), value: value.as_bytes().to_vec().into() }
}

fn expire(field: &str, at: Option<u64>) -> Change<'static> {
    Change::HashExpire { field: field.as_bytes().to_vec().into(), at }
}

fn remove(field: &str) -> Change<'static> {
    Change::HashRemove { field: field.as_bytes().to_vec().into() }
}

fn options() -> LogOptions {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    options
}

/// A hash with so many fields, each with a time.
fn commit_hash(store: &Store, key: &str, fields: usize, at: u64) {
    let mut batch = Batch::new();
    for number in 0..fields {
        let field = format!("field{number}");
        for change in [put(&field, "value"), expire(&field, Some(at))] {
            batch.push(Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change });
        }
    }
    store.engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
}

/// How many fields of a hash are there, shown or not, and how many of them at `now`; `None`: the key is not.
fn fields_at(store: &Store, key: &str, now: u64) -> Option<(usize, usize)> {
    let session = store.engine.enter(0);
    let latched = session.latch_places(&[(0, KeyHash::of(key.as_bytes()))], Access::Read, now);
    let hash = latched.get(0, key.as_bytes())?.hash().unwrap();
    Some((hash.len(), hash.at(now).len()))
}

#[test]
fn fields_that_are_over_are_removed_and_the_key_with_the_last() {
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options()).unwrap();
    commit_hash(&store, "part", 600, NOW + 5);
    commit(&store, "part", put("stays", "value"));
    commit_hash(&store, "all", 300, NOW + 5);
    commit_hash(&store, "later", 3, NOW + 50);
    store.engine.expire_due(NOW + 5);
    assert_eq!(fields_at(&store, "part", NOW + 5), Some((601, 601)), "in this millisecond they are there");
    assert_eq!(fields_at(&store, "part", NOW + 6), Some((601, 1)), "hidden until they are removed");
    assert_eq!(fields_at(&store, "all", NOW + 6), None, "a hash without fields is no key");
    assert_eq!(store.engine.keyspace()[0], KeyCounts { keys: 3, expiring: 0, timed: 3 });
    store.engine.expire_due(NOW + 6);
    assert_eq!(fields_at(&store, "part", 0), Some((1, 1)));
    assert_eq!(store.engine.keyspace()[0], KeyCounts { keys: 2, expiring: 0, timed: 1 });
    assert_eq!(fields_at(&store, "later", NOW + 6), Some((3, 3)));
    let expiry = store.engine.expiry();
    assert_eq!((expiry.expired_fields(), expiry.expired_keys()), (900, 0));
    store.engine.expire_due(NOW + 51);
    assert_eq!((fields_at(&store, "later", 0), expiry.expired_fields()), (None, 903));
    store.log.sync().unwrap();
    let before = contents_of(&store.engine);
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    drop(store);
    assert_eq!(contents_of(&Store::open(&disk, &options()).unwrap().engine), before);
}

#[test]
fn who_writes_removes_what_is_over_of_its_keys() {
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options()).unwrap();
    commit_hash(&store, "few", 3, NOW + 5);
    commit(&store, "few", put("stays", "value"));
    commit_hash(&store, "many", 500, NOW + 5);
    commit(&store, "many", put("stays", "value"));
    commit_hash(&store, "all", 500, NOW + 5);
    let [few, many, all] = [&b"few"[..], b"many", b"all"].map(|key| KeyRef::of(0, key));
    let keys = [few, many, all, few, all];
    let session = store.engine.enter(0);
    let mut latched = session.latch(&keys, Access::Write, NOW + 6);
    assert_eq!(latched.expire(&keys, &mut Group::new()).unwrap(), 3);
    assert_eq!(store.engine.expiry().expired_fields(), 3 + 64 + 500, "who is named twice is told of once");
    latched.release();
    drop(session);
    assert_eq!(fields_at(&store, "few", 0), Some((1, 1)));
    let (left, shown) = fields_at(&store, "many", NOW + 6).unwrap();
    assert!(left > 1 && left < 501 && shown == 1, "{left} are left of many, which takes too long");
    assert_eq!(fields_at(&store, "all", 0), None);
}

#[test]
fn times_that_were_taken_away_do_not_come_back_in_any_order_of_files() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let store = Store::open(&disk, &options()).unwrap();
        for change in [
            vec![put("persisted", "1"), put("put", "1"), put("removed", "1"), put("timed", "1")],
            vec![expire("persisted", Some(NOW + 5_000)), expire("put", Some(NOW + 5_000))],
            vec![expire("removed", Some(NOW + 5_000)), expire("timed", Some(NOW + 5_000))],
            vec![expire("persisted", None), put("put", "2"), remove("removed")],
            vec![put("removed", "2"), expire("timed", Some(NOW + 7_000))],
        ] {
            // Each in a file of its own.
            change.into_iter().for_each(|change| commit(&store, "k", change));
            fill_on(&store);
        }
        let expected = contents_of(&store.engine);
        let shown = &expected[0].iter().find(|(key, _)| key == "k").unwrap().1;
        assert_eq!(shown, &format!("persisted=1put=2removed=2timed=1@{} None", NOW + 7_000));
        let mut order: Vec<usize> = (0..store.files().len()).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(seed));
        // A start behind each file finds the others as they are: one with a time, though the one that took it
        // away has been compacted. Some seeds go on for a round, by what a life knows beyond its files.
        let files_of_life = if seed.is_multiple_of(3) { order.len() } else { 1 };
        let (mut disk, mut store) = (disk, store);
        for round in 0..2 {
            for indexes in order.chunks(files_of_life) {
                for index in indexes {
                    if let Some(file) = store.files().get(*index) {
                        let compactor = store.engine.compactor();
                        compactor.compact_files(store.engine.store(), std::slice::from_ref(file)).unwrap();
                    }
                }
                let left = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
                drop(store);
                disk = left;
                store = Store::open(&disk, &options()).unwrap();
                assert_eq!(contents_of(&store.engine), expected, "seed {seed}, round {round}, {indexes:?}");
            }
        }
    }
}

#[test]
fn checkpoints_have_times_in_each_mode() {
    for fields in [3, 5_000] {
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/checkpoints")).unwrap();
        let store = Store::open_on(&disk, &options(), Some(&checkpoints)).unwrap();
        for (mode, number) in
            [(CheckpointMode::Full, 0), (CheckpointMode::Incremental, 1), (CheckpointMode::Incremental, 2)]
        {
            commit_hash(&store, &format!("hash{number}"), fields, NOW + 5_000);
            commit(&store, "hash0", expire("field1", None));
            commit(&store, "hash0", put("lasting", "value"));
            checkpoints.take(&*store.engine, mode, FAST, NOW).unwrap();
            let loaded = checkpoints.load(tarn_engine::recovery::empty(3), 1, &|_, _| {}).unwrap().unwrap();
            loaded.tables.iter().for_each(|table| table.assert_invariants());
            assert_eq!((loaded.tables[0].len(), loaded.tables[0].timed()), (number + 1, number + 1));
        }
        let expected = contents_of(&store.engine);
        store.log.sync().unwrap();
        drop((store, checkpoints));
        let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/checkpoints")).unwrap();
        let store = Store::open_on(&disk, &options(), Some(&checkpoints)).unwrap();
        assert_eq!(contents_of(&store.engine), expected, "{fields} fields");
    }
}

#[test]
fn a_view_has_the_fields_that_are_removed_behind_it() {
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options()).unwrap();
    commit_hash(&store, "h", 600, NOW + 5);
    commit(&store, "h", put("stays", "value"));
    let view = store.engine.open_view(ViewOptions::once("test")).unwrap();
    commit(&store, "h", expire("field1", None));
    store.engine.expire_due(NOW + 6);
    assert_eq!(fields_at(&store, "h", 0), Some((2, 2)));
    let later = store.engine.open_view(ViewOptions::once("test")).unwrap();
    assert!(view.may_be_timed(0) && !later.may_be_timed(0), "no time is left, but one sees some");
    drop(later);
    let mut seen = Vec::new();
    view.for_each(|_, entry| {
        let hash = entry.hash().unwrap();
        seen.push((hash.len(), hash.at(NOW + 6).len(), hash.time(b"field1")));
    })
    .unwrap();
    assert_eq!(seen, [(601, 1, Some(NOW + 5))]);
}
