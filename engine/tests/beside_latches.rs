//! Latches that somebody keeps for long, as a script does: what runs in the background, and what closes a
//! view for a client, does not wait for them.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::renewal::{Renewal, Step};
use tarn_engine::session::Access;
use tarn_engine::table::KeyHash;
use tarn_engine::{Background, CommitError, Engine, Entry, KeyCounts, Preparation, ViewOptions};

/// An event that has not happened by then waits for the latch.
const LIMIT: Duration = Duration::from_secs(30);
const NOW: u64 = 1_000_000;
/// Keys of a table of several segments.
const KEYS: usize = 5_000;

fn store() -> (Arc<Engine>, Background) {
    let (engine, background) = Engine::unlogged(1, 2, Arc::new(ManualClock::new(NOW)));
    engine.expiry().set_active(false);
    (engine, background)
}

fn logged_store() -> (Arc<Engine>, Background, Log) {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), LogOptions::new(vec!["/log".into()]));
    let opened = recovery::open(Arc::new(disk), options, None, 1, 1, &Progress::default()).unwrap();
    let (log, clock) = (Some(opened.log.appender()), Arc::new(ManualClock::new(NOW)));
    let (engine, background) = Engine::new(opened.tables, 2, log, opened.validity, clock);
    (engine, background, opened.log)
}

fn key_of(number: usize) -> Vec<u8> {
    format!("key:{number}").into_bytes()
}

fn change(engine: &Engine, number: usize, change: Change<'static>) {
    let key = key_of(number);
    let session = engine.enter(1);
    let mut latched = session.latch_places(&[(0, KeyHash::of(&key))], Access::Write, NOW);
    let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
    latched.commit(&batch, &mut Group::default()).unwrap();
    latched.release();
}

fn put(expiry: Option<u64>) -> Change<'static> {
    Change::Put { value: b"v".into(), expiry }
}

/// Runs `work` while another thread keeps the latches of the first so many keys; `None` if it waits for them.
fn beside<T: Send>(engine: &Engine, keys: usize, work: impl FnOnce() -> T + Send) -> Option<T> {
    let places: Vec<_> = (0..keys).map(|number| (0, KeyHash::of(&key_of(number)))).collect();
    let ((latches, has_latched), (goes, is_to_go), (ends, has_ended)) = (channel(), channel(), channel());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let session = engine.enter(0);
            let latched = session.latch_places(&places, Access::Write, NOW);
            latches.send(()).unwrap();
            // Until the other end has gone.
            let _: Result<(), _> = is_to_go.recv();
            latched.release();
        });
        has_latched.recv().unwrap();
        scope.spawn(move || _ = ends.send(work()));
        let done = has_ended.recv_timeout(LIMIT).ok();
        drop(goes);
        done
    })
}

#[test]
fn keys_that_are_due_wait_for_the_next_turn() {
    let (engine, _background) = store();
    change(&engine, 0, put(None));
    change(&engine, 1, put(Some(NOW - 1)));
    let counts = |keys, expiring| [KeyCounts { keys, expiring, timed: 0 }];
    assert_eq!(engine.keyspace(), counts(2, 1));
    // All are in one segment.
    assert_eq!(beside(&engine, 1, || engine.expire_due(NOW)), Some(()));
    assert_eq!(engine.keyspace(), counts(2, 1));
    engine.expire_due(NOW);
    assert_eq!(engine.keyspace(), counts(1, 0));
}

#[test]
fn a_table_is_made_smaller_later() {
    let (engine, _background) = store();
    (0..KEYS).for_each(|number| change(&engine, number, put(None)));
    // The store's own thread may do some of it before.
    (0..KEYS).for_each(|number| change(&engine, number, Change::Delete));
    assert_eq!(beside(&engine, KEYS, || engine.shrink_tables()), Some(()));
}

#[test]
fn a_large_value_is_written_again_later() {
    let (engine, _background, _log) = logged_store();
    for _ in 0..100 {
        change(&engine, 0, Change::ListPush { side: Side::Back, element: b"element".into() });
    }
    let key = key_of(0);
    let begin = || Renewal::begin(engine.store(), 0, &key, 100);
    assert_eq!(beside(&engine, 1, || begin().is_some()), Some(false));
    let mut renewal = begin().unwrap();
    assert_eq!(beside(&engine, 1, || renewal.step()), Some(Step::Goes(0)));
    while matches!(renewal.step(), Step::Goes(1..)) {}
    assert_eq!(renewal.step(), Step::GivenUp, "it has ended");
}

#[test]
fn a_view_that_is_closed_for_a_client_is_ended_later() {
    let (engine, _background) = store();
    (0..KEYS).for_each(|number| change(&engine, number, put(None)));
    let mut view = engine.open_view(ViewOptions::once("KEYS")).unwrap();
    view.keep_processor();
    (0..KEYS).for_each(|number| change(&engine, number, put(None)));
    assert!(view.step(&mut |_: &Entry| {}).unwrap().is_some());
    let views = engine.views();
    let open_beside = beside(&engine, KEYS, || {
        drop(view);
        // A thread that cancels views does not wait, either.
        views.enforce_limits();
        views.status().open.len()
    });
    assert_eq!(open_beside, Some(1));
    views.enforce_limits();
    let status = views.status();
    assert_eq!((status.open.len(), status.retained.records, status.cancelled), (0, 0, 0));
    // Its number can be used again.
    let options = [ViewOptions::once("many"); 64];
    assert!(engine.open_views(&options).is_ok());
}

#[test]
fn who_enters_a_gate_that_stays_closed_comes_back() {
    let (engine, _background, _log) = logged_store();
    let closed = engine.close_gate();
    let limit = Duration::ZERO;
    std::thread::scope(|scope| {
        let enters = scope.spawn(|| {
            let session = engine.enter_in_turn_within(0, limit).is_some();
            let view = engine.open_view_within(ViewOptions::once("KEYS"), limit).unwrap().is_some();
            let prepared = Preparation::begin(engine.store(), 0, b"key", Kind::Set);
            assert!(matches!(prepared, Err(CommitError::GateClosed)));
            (session, view, engine.keyspace_within(limit).is_some())
        });
        assert_eq!(enters.join().unwrap(), (false, false, false));
    });
    drop(closed);
    assert!(engine.enter_in_turn_within(0, limit).is_some());
    assert!(engine.open_view_within(ViewOptions::once("KEYS"), limit).unwrap().is_some());
    assert_eq!(engine.keyspace_within(limit), Some((vec![KeyCounts::default()], Lsn::ZERO)));
}
