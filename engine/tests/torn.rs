//! Keys that a repair has left incomplete: a start logs them again, and from then on they are keys like
//! others.

#![allow(clippy::unwrap_used)]

mod histories;

use std::ops::Range;
use std::sync::Arc;

use histories::*;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use tarn_engine::io::{Crash, Disk, SimDisk, SimOptions};
use tarn_engine::log::{LogOptions, OpenError, SyncMode};
use tarn_engine::record::{Change, Kind, Side};
use tarn_engine::renewal::{Renewal, Step};
use tarn_engine::repair::Repair;
use tarn_engine::value::stream::{StreamHead, StreamId, element};

fn small_files() -> LogOptions {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    options
}

fn compact(store: &Store, files: Range<usize>) {
    for file in &store.files()[files] {
        store.engine.compactor().compact_files(store.engine.store(), std::slice::from_ref(file)).unwrap();
    }
}

/// Ends the life of a store, and spoils its log so that a repair keeps what is in the first files.
fn cut_behind(store: Store, disk: &SimDisk, options: &LogOptions, kept: usize) {
    let spoilt = store.files()[kept].path().to_path_buf();
    let Store { engine, _background, log, .. } = store;
    drop((engine, _background));
    log.close().unwrap();
    disk.spoil(&spoilt, 520, |byte| byte ^ 1);
    assert!(matches!(Store::open(disk, options), Err(OpenError::Damaged(_))), "it is noticed");
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let repair = Repair::begin(&shared, &options.directories, 2).unwrap();
    assert!(repair.survey.lacks_older, "who repairs it is told that keys may be lacking");
    repair.truncate().unwrap();
}

fn reopen(store: Store, disk: &SimDisk, options: &LogOptions) -> Store {
    let Store { engine, _background, log, .. } = store;
    drop((engine, _background));
    log.close().unwrap();
    Store::open(disk, options).unwrap()
}

fn found(store: &Store, key: &str) -> Option<String> {
    contents_of(&store.engine)[0].iter().find(|(name, _)| name == key).map(|(_, text)| text.clone())
}

/// The changes that make a value of 500 pieces of this many bytes.
fn changes_of(kind: Kind, bytes: usize) -> Vec<Change<'static>> {
    let piece = |number: u64| format!("{number:0bytes$}").into_bytes();
    let change = |number: u64| match kind {
        Kind::String => Change::Patch { offset: number * bytes as u64, bytes: piece(number).into() },
        Kind::List => Change::ListPush { side: Side::Back, element: piece(number).into() },
        Kind::Set => Change::SetAdd { member: piece(number).into() },
        Kind::ZSet => Change::ZSetPut { member: piece(number).into(), score: number as f64 },
        Kind::Hash => Change::HashPut { field: piece(number).into(), value: b"value".to_vec().into() },
        Kind::Stream if number == 0 => element::put_head(&StreamHead::default()),
        Kind::Stream => {
            let piece = piece(number);
            element::put_entry(StreamId::new(number, 0), number, [(&b"f"[..], &piece[..])].into_iter())
        }
        Kind::Json => {
            Change::Image { kind, elements: piece(number).repeat(500).into(), expiry: None, sticky: false }
        }
    };
    (0..if kind == Kind::Json { 1 } else { 500 }).map(change).collect()
}

/// A log with a value that was renewed before the cut, and what the value was.
fn with_a_torn_value(kind: Kind, bytes: usize) -> (SimDisk, LogOptions, String) {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), small_files());
    let store = Store::open(&disk, &options).unwrap();
    fill_on(&store);
    if matches!(kind, Kind::Set | Kind::ZSet | Kind::Hash | Kind::Stream) {
        // Others have elements of their own records alone, and are not renewed.
        commit(&store, "k", image(kind, None, &mut SmallRng::seed_from_u64(1)));
    }
    changes_of(kind, bytes).into_iter().for_each(|change| commit(&store, "k", change));
    commit(&store, "k", Change::Expire(Some(NOW + 1_000)));
    let mut renewal = Renewal::begin(store.engine.store(), 0, b"k", 1_000).unwrap();
    while renewal.step() != Step::Ended {}
    drop(renewal);
    let value = found(&store, "k").unwrap();
    fill_on(&store);
    let kept = store.files().len();
    commit(&store, "other", Change::Put { value: b"cut off".to_vec().into(), expiry: None });
    fill_on(&store);
    // A file of others, which relies on what will be cut off.
    compact(&store, 0..1);
    cut_behind(store, &disk, &options, kept);
    (disk, options, value)
}

#[test]
fn a_torn_value_is_logged_again_and_can_be_deleted_for_good() {
    for kind in KINDS {
        // As one record, and in parts; deleted at once, or when another start has seen it.
        for (bytes, lives_on) in [(10, false), (10, true), (300, false), (300, true)] {
            let what = format!("{kind:?} of 500 times {bytes} bytes, lives on: {lives_on}");
            let (disk, options, value) = with_a_torn_value(kind, bytes);
            let mut store = Store::open(&disk, &options).unwrap();
            assert_eq!(found(&store, "k").as_ref(), Some(&value), "{what}: after the repair");
            if lives_on {
                fill_on(&store);
                compact(&store, 0..store.files().len());
                store = reopen(store, &disk, &options);
                assert_eq!(found(&store, "k").as_ref(), Some(&value), "{what}: what is needed is kept");
            }
            commit(&store, "k", Change::Delete);
            fill_on(&store);
            // What was put, before what took it away.
            compact(&store, 0..store.files().len());
            compact(&store, 0..store.files().len());
            let store = reopen(store, &disk, &options);
            assert_eq!(found(&store, "k"), None, "{what}: deleted");
        }
    }
}

#[test]
fn killed_while_it_is_logged_again_a_value_is_what_it_was() {
    for kind in KINDS {
        let (disk, options, value) = with_a_torn_value(kind, 300);
        let mut calls = disk.calls();
        drop(Store::open(&disk.crash(Crash::Kill, 1, SimOptions::default()), &options).unwrap());
        calls = disk.calls() - calls;
        for call in 1..=calls.max(200) {
            let torn = disk.crash(Crash::Kill, call, SimOptions::default());
            torn.set_options(SimOptions { crash_at: Some(torn.calls() + call), ..SimOptions::default() });
            let is_open = Store::open(&torn, &options).is_ok();
            let left = torn.crash(Crash::PowerLoss, call, SimOptions::default());
            let store = Store::open(&left, &options).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
            assert_eq!(found(&store, "k").as_ref(), Some(&value), "{kind:?}, killed at call {call}");
            if is_open && !torn.is_dead() {
                break;
            }
        }
    }
}

#[test]
fn a_key_that_a_replay_sees_empty_and_of_another_kind_then_is_logged_again() {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), small_files());
    let store = Store::open(&disk, &options).unwrap();
    let push =
        |element: &str| Change::ListPush { side: Side::Back, element: element.as_bytes().to_vec().into() };
    let add = |member: &str| Change::SetAdd { member: member.as_bytes().to_vec().into() };
    let mut begins = Vec::new();
    for change in [
        push("w"),
        push("x"),
        Change::ListPop { side: Side::Front, count: 1 },
        Change::Image { kind: Kind::Set, elements: vec![1, b'i'].into(), expiry: None, sticky: false },
        add("m"),
    ] {
        begins.push(store.files().len());
        commit(&store, "k", change);
        fill_on(&store);
    }
    let kept = store.files().len();
    commit(&store, "k", Change::Delete);
    fill_on(&store);
    // What was pushed first goes, and the set's image, as the key is gone.
    compact(&store, begins[0]..begins[1]);
    compact(&store, begins[3]..begins[4]);
    cut_behind(store, &disk, &options, kept);
    let store = Store::open(&disk, &options).unwrap();
    let value = found(&store, "k");
    commit(&store, "k", add("n"));
    fill_on(&store);
    // The pop, which a set needs not, before the push that it took away.
    compact(&store, begins[2]..begins[3]);
    let store = reopen(store, &disk, &options);
    assert_eq!(value, Some("m None".to_owned()), "what is left of it");
    assert_eq!(found(&store, "k"), Some("mn None".to_owned()));
}
