//! Giant values and their readers at one instant: a checkpoint writes them, in blocks of bounded size, while
//! their keys are free, and a write during a view keeps a bounded part of them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{DiskResult, ManualClock, OsDisk, Tap, TappedDisk};
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Kind, Side, Write};
use tarn_engine::session::Access;
use tarn_engine::table::KeyHash;
use tarn_engine::value::stream::{StreamId, element};
use tarn_engine::value::{ImageBuilder, ValueRef, elements_of};
use tarn_engine::{Entry, ViewOptions};

const KINDS: [Kind; 7] =
    [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash, Kind::Stream, Kind::Json];
/// More than all blocks that may wait to be written.
const GIANT_BYTES: usize = 24 << 20;
/// Far above what anything here takes, below what a test runner waits.
const LIMIT: Duration = Duration::from_secs(60);

/// The switch that stops large writes.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    waiting: usize,
    longest: usize,
}

impl Gate {
    fn pass(&self, len: usize) {
        let mut state = self.state.lock();
        state.longest = state.longest.max(len);
        if len > 64 << 10 {
            state.waiting += 1;
            self.changed.notify_all();
            self.changed.wait_while(&mut state, |state| !state.is_open);
            state.waiting -= 1;
        }
    }

    fn wait_for_somebody(&self) {
        let mut state = self.state.lock();
        let waited = self.changed.wait_while_for(&mut state, |state| state.waiting == 0, LIMIT);
        assert!(!waited.timed_out(), "a block is to be written");
    }

    fn open(&self) {
        self.state.lock().is_open = true;
        self.changed.notify_all();
    }
}

impl Tap for Gate {
    fn before_write(&self, _: &Path, _: u64, bytes: usize) -> DiskResult<()> {
        self.pass(bytes);
        Ok(())
    }
}

fn giant(kind: Kind) -> Change<'static> {
    let expiry = None;
    if kind == Kind::String {
        let value: Vec<u8> = (0..GIANT_BYTES).map(|at| (at / 1_000) as u8).collect();
        return Change::Put { value: value.into(), expiry };
    }
    if kind == Kind::Json {
        let elements = format!("[{}0]", "1,".repeat(GIANT_BYTES / 2)).into_bytes().into();
        return Change::Image { kind, elements, expiry, sticky: false };
    }
    let mut image = ImageBuilder::new(kind);
    for number in 0..GIANT_BYTES / 1_000 {
        let element = format!("{number:01000}").into_bytes();
        match kind {
            Kind::Hash => image.push_field(&element[990..], &element),
            Kind::ZSet => image.push_scored(&element, number as f64),
            Kind::Stream => {
                if let Change::StreamPut { name, value } = entry(number as u64, &element) {
                    image.push_field(&name, &value);
                }
            }
            _ => image.push_element(&element),
        }
    }
    Change::Image { kind, elements: image.finish().into(), expiry, sticky: false }
}

/// An entry of a stream.
fn entry(number: u64, text: &[u8]) -> Change<'static> {
    element::put_entry(StreamId::new(number, 0), number, [(&b"field"[..], text)].into_iter())
}

/// A change of a small part; a document is changed as a whole.
fn small(kind: Kind) -> Change<'static> {
    let bytes = || b"something else"[..].into();
    match kind {
        Kind::String => Change::Patch { offset: GIANT_BYTES as u64 / 2, bytes: bytes() },
        Kind::List => Change::ListPush { side: Side::Front, element: bytes() },
        Kind::Set => Change::SetAdd { member: bytes() },
        Kind::ZSet => Change::ZSetPut { member: bytes(), score: 7.5 },
        Kind::Hash => Change::HashPut { field: bytes(), value: bytes() },
        Kind::Stream => entry(u64::MAX, b"something else"),
        Kind::Json => Change::Image { kind, elements: bytes(), expiry: None, sticky: false },
    }
}

fn commit(engine: &Engine, change: Change<'_>) {
    let session = engine.enter(0);
    let mut latched = session.latch_places(&[(0, KeyHash::of(b"giant"))], Access::Write, 0);
    let batch = Batch::from_iter([Write::Key { db: 0, key: b"giant"[..].into(), change }]);
    latched.commit(&batch, &mut Group::default()).unwrap();
    latched.release();
}

fn bytes_of(entry: &Entry) -> Vec<u8> {
    match entry.value() {
        ValueRef::String(string) => string.to_vec(),
        value => elements_of(value),
    }
}

fn store_with(kind: Kind) -> (Arc<Engine>, impl Sized) {
    let (engine, background) = Engine::unlogged(1, 2, Arc::new(ManualClock::new(1_000)));
    commit(&engine, giant(kind));
    (engine, background)
}

#[test]
fn a_checkpoint_writes_a_giant_in_blocks_while_its_key_is_free() {
    for kind in KINDS {
        let (engine, _background) = store_with(kind);
        let mut before = Vec::new();
        let view = engine.open_view(ViewOptions::once("test")).unwrap();
        view.for_each(|_, entry| before = bytes_of(entry)).unwrap();

        let directory = tempfile::tempdir().unwrap();
        let gate = Arc::new(Gate::default());
        let disk = TappedDisk::new(Arc::new(OsDisk), gate.clone());
        let checkpoints = Checkpoints::open(Arc::new(disk), directory.path()).unwrap();
        let options = TakeOptions { pace: Pace::Fast, writers: 1 };
        std::thread::scope(|scope| {
            let taking =
                scope.spawn(|| checkpoints.take(&*engine, CheckpointMode::Full, options, 0).unwrap());
            gate.wait_for_somebody();
            let (done, is_done) = std::sync::mpsc::channel();
            let engine = &engine;
            scope.spawn(move || {
                commit(engine, small(kind));
                done.send(()).unwrap();
            });
            let outcome = is_done.recv_timeout(LIMIT);
            gate.open();
            assert!(outcome.is_ok(), "a write to the {kind:?} waits for the disk");
            assert_eq!(taking.join().unwrap().keys, 1);
        });
        let longest = gate.state.lock().longest;
        assert!(longest < 2 << 20, "{kind:?}: a block of {longest} bytes is made in one go");

        let loaded = checkpoints.load(vec![Arc::default()], 1, &|_, _| {}).unwrap().unwrap();
        let mut after = Vec::new();
        loaded.tables[0].scan(0, &mut tarn_engine::ScanBudget::UNLIMITED.clone(), |entry| {
            after = bytes_of(entry);
            false
        });
        assert!(after == before, "the {kind:?} is as it was at the cut");
    }
}

#[test]
fn all_that_a_write_takes_away_from_a_giant_during_a_view_counts_as_kept() {
    let pop = |count| Change::ListPop { side: Side::Front, count };
    let trim = |ms| Change::StreamTrim { below: StreamId::new(ms, 0) };
    let elements = GIANT_BYTES as u64 / 1_000;
    for (kind, change) in [
        (Kind::List, pop(elements / 4 * 3)),
        (Kind::List, pop(elements)),
        (Kind::Stream, trim(elements / 4 * 3)),
        (Kind::Stream, trim(elements)),
    ] {
        let (engine, _background) = store_with(kind);
        let view = engine.open_view(ViewOptions::once("test")).unwrap();
        let what = format!("{kind:?}, {change:?}");
        commit(&engine, change);
        let bytes = engine.views().status().retained.bytes;
        assert!((GIANT_BYTES / 2..GIANT_BYTES * 2).contains(&bytes), "{what}: {bytes} bytes are kept");
        drop(view);
        assert_eq!(engine.views().status().retained.bytes, 0);
    }
}

#[test]
fn a_write_during_a_view_keeps_a_bounded_part_of_a_giant() {
    // Of a document that is put in the place of another, the view keeps all that it had.
    for kind in KINDS.into_iter().filter(|kind| *kind != Kind::Json) {
        let (engine, _background) = store_with(kind);
        let view = engine.open_view(ViewOptions::once("test")).unwrap();
        commit(&engine, small(kind));
        let retained = engine.views().status().retained;
        assert_eq!(retained.records, 1, "the view has not read the {kind:?}");
        assert!(retained.bytes < 40_000, "{kind:?}: {} bytes are kept", retained.bytes);
        drop(view);
        assert_eq!(engine.views().status().retained.bytes, 0);
    }
}
