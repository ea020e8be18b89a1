//! Tests the baselines of views: live reads, and scans by a child process; and counts the versions kept.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use tarn_engine::io::SystemClock;
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::session::Access;
use tarn_engine::table::RemsetSize;
use tarn_engine::value::ValueRef;
use tarn_engine::{Background, Engine};
use tarn_engine::{Direction, Entry, Group, IndexRange, IndexValue, Indexed, KeyHash, View, ViewOptions};

const KEYS: u64 = 2_000;

struct ByNumber;

impl Indexed for ByNumber {
    fn covers(&self, _: &[u8]) -> bool {
        true
    }

    fn value_of(&self, entry: &Entry) -> Option<IndexValue> {
        Some(IndexValue::integer(number_in(entry) as i64))
    }
}

fn number_in(entry: &Entry) -> u64 {
    let ValueRef::String(text) = entry.value() else { panic!("all are strings") };
    std::str::from_utf8(&text.to_bytes()).unwrap().parse().unwrap()
}

fn put(engine: &Engine, key: u64, number: u64) {
    let key = format!("key:{key:06}").into_bytes();
    let session = engine.enter(0);
    let mut latched = session.latch_places(&[(0, KeyHash::of(&key))], Access::Write, 0);
    let change = Change::Put { value: number.to_string().into_bytes().into(), expiry: None };
    let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
    latched.commit(&batch, &mut Group::default()).unwrap();
    latched.release();
}

fn filled() -> (Arc<Engine>, Background) {
    let (engine, background) = Engine::unlogged(2, 1, Arc::new(SystemClock::new()));
    (0..KEYS).for_each(|key| put(&engine, key, key));
    (engine, background)
}

fn sum_of(mut view: View) -> u64 {
    let mut sum = 0;
    while view.step(&mut |entry: &Entry| sum += number_in(entry)).unwrap().is_some() {}
    sum
}

#[test]
fn a_version_counts_once_and_apart_for_each_view_that_reads_it() {
    let (engine, _background) = filled();
    let views = engine.open_views(&[ViewOptions::once_of(0, "test"); 3]).unwrap();
    (0..10).for_each(|key| put(&engine, key, 7_000));
    // Of what was kept already nothing is kept again.
    (0..10).for_each(|key| put(&engine, key, 8_000));
    let size = engine.remset_size(0);
    assert_eq!((size.versions, size.versions_apart), (10, 30));
    assert_eq!((size.bytes * 3, size.bytes), (size.bytes_apart, engine.views().status().retained.bytes));
    assert_eq!(engine.remset_size(1), RemsetSize::default());
    for (left, view) in views.into_iter().enumerate().rev() {
        assert_eq!(sum_of(view), KEYS * (KEYS - 1) / 2);
        assert_eq!(engine.remset_size(0).versions_apart, 10 * left);
    }
    assert_eq!(engine.remset_size(0), RemsetSize::default());
}

#[test]
fn a_live_read_sees_what_is_there_now() {
    let (engine, _background) = filled();
    let index = engine.create_index(0, "number", Arc::new(ByNumber)).unwrap();
    while !index.is_ready() {
        std::thread::yield_now();
    }
    let view = engine.open_view(ViewOptions::indexed_of(0, "test")).unwrap();
    put(&engine, 3, 10_000);
    let mut live = engine.live(0);
    let (mut count, mut sum) = (0, 0);
    while live.step(&mut |entry: &Entry| (count, sum) = (count + 1, sum + number_in(entry))) {}
    assert_eq!((count, sum), (KEYS, KEYS * (KEYS - 1) / 2 - 3 + 10_000));
    assert!(!live.step(&mut |_: &Entry| panic!("it is at its end")));

    assert!(live.scan_index("none", &IndexRange::ALL, Direction::Ascending).is_none());
    let mut scan = live.scan_index("number", &IndexRange::ALL, Direction::Descending).unwrap();
    let pointers = live.next_pointers(&mut scan, 2);
    let keys: Vec<&[u8]> = pointers.iter().map(|pointer| pointer.key()).collect();
    let mut numbers = Vec::new();
    live.read_keys(&keys, usize::MAX, |place, entry| numbers.push((place, number_in(entry))));
    assert_eq!(numbers, [(0, 10_000), (1, KEYS - 1)]);
    // The removed pointer is there for the view, and for nobody else.
    let all = IndexRange::of(IndexValue::integer(3));
    let mut scan = live.scan_index("number", &all, Direction::Ascending).unwrap();
    assert!(live.next_pointers(&mut scan, 2).is_empty());
    let scan = view.scan_index(0, "number", &all, Direction::Ascending).unwrap();
    assert_eq!(view.count_pointers(scan).unwrap(), 1);
}

#[test]
fn a_child_process_counts_what_was_there() {
    let (engine, _background) = filled();
    let mut child = engine.fork_scan(0).unwrap();
    put(&engine, KEYS, 1);
    let counted = loop {
        match child.counted().unwrap() {
            Some(counted) => break counted,
            None => std::thread::yield_now(),
        }
    };
    assert_eq!(counted, (KEYS, KEYS * 10));
    assert_eq!(engine.fork_scan(1).unwrap().counted().ok().flatten().unwrap_or((0, 0)), (0, 0));
}
