//! Checkpoints of a store that goes on changing: what a start loads is what the store held at the cut, by
//! every mode, after a crash at any call of the disk, and never what somebody spoilt.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::checkpoint::{CheckpointError, CheckpointMode, Checkpoints, Pace, Source, TakeOptions};
use tarn_engine::io::{Clock, Crash, Disk, Fault, ManualClock, OsDisk, SimDisk, SimOptions};
use tarn_engine::log::{Group, LogError};
use tarn_engine::record::{Batch, Change, FIELD_TIME_MAX, Lsn, Side, Write};
use tarn_engine::recovery::empty;
use tarn_engine::session::Access;
use tarn_engine::table::{KeyHash, ScanBudget, Table};
use tarn_engine::throttle::ClientLatency;
use tarn_engine::value::stream::{Pending, StreamHead, StreamId, element};
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::view::{View, ViewError};
use tarn_engine::{Background, Engine};
use tarn_engine::{Entry, ViewOptions};

const DATABASES: usize = 3;
const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 2 };
const ALL: [CheckpointMode; 3] = [CheckpointMode::Full, CheckpointMode::Incremental, CheckpointMode::Fork];

type Copy = BTreeMap<(u8, Vec<u8>), String>;

fn describe(entry: &Entry) -> String {
    let value = match entry.value() {
        ValueRef::String(value) => value.to_vec(),
        ValueRef::List(list) => list.iter_from(0).collect::<Vec<_>>().join(&b','),
        // In the order of their hashes, which another process has in another order.
        other => {
            let mut bytes = elements_of(other);
            bytes.sort_unstable();
            bytes
        }
    };
    let (expiry, lsn) = (entry.expiry(), entry.lsn());
    format!("{:?} {} {} {expiry:?} {lsn}", entry.kind(), entry.encoding(), value.escape_ascii())
}

fn copy(tables: &[Arc<Table>]) -> Copy {
    let mut copy = Copy::new();
    for (db, table) in tables.iter().enumerate() {
        table.assert_invariants();
        table.scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            copy.insert((db as u8, entry.key().to_vec()), describe(entry));
            false
        });
    }
    copy
}

struct Store {
    engine: Arc<Engine>,
    _background: Background,
}

fn store() -> Store {
    let (engine, background) = Engine::unlogged(DATABASES, 2, Arc::new(ManualClock::new(1_000)));
    engine.expiry().set_active(false);
    Store { engine, _background: background }
}

impl Store {
    fn commit(&self, worker: usize, db: u8, key: &[u8], change: Change<'_>) {
        let session = self.engine.enter(worker);
        let mut latched = session.latch_places(&[(db, KeyHash::of(key))], Access::Write, 0);
        let batch = Batch::from_iter([Write::Key { db, key: key.into(), change }]);
        latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
    }

    /// Some changes of every kind of value; keys are of one kind each, by their number.
    fn change_at_random(&self, worker: usize, changes: usize, random: &mut impl Rng) {
        for _ in 0..changes {
            let number = random.random_range(0..2_000u32);
            let key = format!("key:{number}").into_bytes();
            let name = format!("element:{}", random.random_range(0..400)).into_bytes();
            let value = vec![b'a' + (number % 26) as u8; random.random_range(0..90)];
            let id = StreamId::new(random.random_range(0..400), 0);
            let change = match (number % 6, random.random_range(0..12)) {
                (_, 0) => Change::Delete,
                (0, 1) => Change::Put { value: value.into(), expiry: Some(random.random_range(1..9_999)) },
                (0, 2) => Change::Patch { offset: random.random_range(0..40), bytes: value.into() },
                (0, _) => Change::Put { value: value.into(), expiry: None },
                (1, _) => Change::ListPush { side: Side::Back, element: value.into() },
                (2, _) => Change::SetAdd { member: name.into() },
                (3, _) => {
                    Change::ZSetPut { member: name.into(), score: f64::from(random.random_range(0..9)) }
                }
                (4, 1..4) => {
                    let lasts = random.random_range(0..3) == 0;
                    let at = (!lasts).then(|| random.random_range(1..FIELD_TIME_MAX));
                    Change::HashExpire { field: name.into(), at }
                }
                (4, _) => Change::HashPut { field: name.into(), value: value.into() },
                (_, 1..3) => element::remove_entry(id),
                (_, 3) => element::put_head(&StreamHead { last_id: id, ..StreamHead::default() }),
                (_, 4) if id.ms < 100 => Change::StreamTrim { below: id },
                (_, 5) => element::remove_pending(b"group", id),
                (_, 6..8) => {
                    let consumer = &name[..9];
                    let pending = Pending { id, consumer, delivered: id.ms, deliveries: 2 };
                    element::put_pending(b"group", &pending)
                }
                _ => element::put_entry(id, 3, [(&name[..], &value[..])].into_iter()),
            };
            // One large collection of each kind.
            let key = if random.random_range(0..3) == 0 {
                format!("large:{}", number % 6).into_bytes()
            } else {
                key
            };
            self.commit(worker, random.random_range(0..DATABASES as u8), &key, change);
        }
        match random.random_range(0..12) {
            0 => self.exclusive(Write::Flush { db: Some(1) }),
            1 => self.exclusive(Write::Swap { a: 0, b: 2 }),
            _ => {}
        }
    }

    fn exclusive(&self, write: Write<'static>) {
        self.engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::default()).unwrap();
    }

    /// The store as of now, through a view.
    fn copy(&self) -> (Lsn, Copy) {
        let view = self.engine.open_view(ViewOptions::once("test")).unwrap();
        let (cut, mut copy) = (view.cut(), Copy::new());
        view.for_each(|db, entry| _ = copy.insert((db, entry.key().to_vec()), describe(entry))).unwrap();
        (cut, copy)
    }
}

fn load(checkpoints: &Checkpoints, threads: usize) -> Option<(Lsn, Copy)> {
    let loaded = checkpoints.load(empty(DATABASES), threads, &|_, _| {}).unwrap()?;
    Some((loaded.cut, copy(&loaded.tables)))
}

/// Opens the directory, of which a child that another test has forked may hold the lock for a moment longer.
#[expect(clippy::disallowed_methods, reason = "the child is a real one, and nothing tells when it has")]
fn open(directory: &Path) -> Checkpoints {
    for _ in 0..10_000 {
        match Checkpoints::open(Arc::new(OsDisk), directory) {
            Err(CheckpointError::InUse(_)) => std::thread::sleep(std::time::Duration::from_millis(1)),
            opened => return opened.unwrap(),
        }
    }
    panic!("the lock is not given back");
}

#[test]
fn what_is_loaded_is_what_the_store_held_whatever_the_mode() {
    let directory = tempfile::tempdir().unwrap();
    for first in ALL {
        let path = directory.path().join(format!("{first:?}"));
        let store = store();
        let mut random = SmallRng::seed_from_u64(first as u64);
        for round in 0..12 {
            let checkpoints = open(&path);
            let mode = if round < 4 { first } else { ALL[random.random_range(0..ALL.len())] };
            for _ in 0..3 {
                store.change_at_random(0, [3, 3_000, 40_000][round % 3], &mut random);
                let taken = checkpoints.take(&*store.engine, mode, FAST, 7).unwrap();
                let (cut, expected) = store.copy();
                let current = checkpoints.current().unwrap();
                assert_eq!((current.cut, current.keys, current.unix_ms), (cut, expected.len() as u64, 7));
                assert_eq!(taken.keys, expected.len() as u64);
                let (loaded_cut, loaded) = load(&checkpoints, 1 + round % 3).unwrap();
                assert_eq!(loaded_cut, cut);
                assert!(loaded == expected, "round {round} of {first:?}: {mode:?} loads the same");
            }
        }
        let files = OsDisk.list(&path).unwrap().len();
        assert_eq!(files, 3, "one checkpoint, its manifest and the lock");
        let status = store.engine.views().status();
        assert_eq!((status.open.len(), status.retained.records), (0, 0));
    }
}

#[test]
fn a_checkpoint_is_of_one_instant_while_others_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = store();
    // Pairs that are always changed together: in a checkpoint they are equal.
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = SmallRng::seed_from_u64(1);
            let mut group = Group::default();
            let mut number = 0u64;
            while !stop.load(Ordering::Relaxed) {
                number += 1;
                let pair = random.random_range(0..5_000);
                let keys = ["left", "right"].map(|side| format!("{side}:{pair}").into_bytes());
                let session = store.engine.enter(0);
                let hashes: Vec<_> = keys.iter().map(|key| (0, KeyHash::of(key))).collect();
                let mut latched = session.latch_places(&hashes, Access::Write, 0);
                let put = |key: Vec<u8>| Write::Key {
                    db: 0,
                    key: key.into(),
                    change: Change::Put { value: number.to_string().into_bytes().into(), expiry: None },
                };
                let batch: Batch<'_> = keys.into_iter().map(put).collect();
                latched.commit(&batch, &mut group).unwrap();
                latched.release();
            }
        });
        let checkpoints = open(directory.path());
        for round in 0..60 {
            let pace = if round % 10 == 0 { Pace::Quiet } else { Pace::Fast };
            let options = TakeOptions { pace, writers: 1 + round / 2 % 2 };
            checkpoints.take(&*store.engine, ALL[round % ALL.len()], options, 0).unwrap();
            let (_, loaded) = load(&checkpoints, 2).unwrap();
            let value = |description: &String| description.split(' ').nth(2).map(str::to_owned);
            for ((db, key), left) in &loaded {
                if let Some(pair) = key.strip_prefix(b"left:") {
                    let right = &loaded[&(*db, [b"right:", pair].concat())];
                    assert_eq!(value(left), value(right), "round {round}: {}", key.escape_ascii());
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_crash_at_any_call_leaves_the_old_checkpoint_or_the_new_one() {
    let directory = PathBuf::from("/data/checkpoints");
    for mode in [CheckpointMode::Full, CheckpointMode::Incremental] {
        let store = store();
        let mut random = SmallRng::seed_from_u64(3);
        store.change_at_random(0, 4_000, &mut random);
        let mut tried = 0;
        for crash in [Crash::PowerLoss, Crash::Kill] {
            for at in 1.. {
                let disk = SimDisk::new(at, SimOptions::default());
                let checkpoints = Checkpoints::open(Arc::new(disk.clone()), &directory).unwrap();
                let options = TakeOptions { pace: Pace::Fast, writers: 1 };
                checkpoints.take(&*store.engine, mode, options, 0).unwrap();
                let old = load(&checkpoints, 1).unwrap();
                store.change_at_random(0, 50, &mut random);
                let crash_at = Some(disk.calls() + at);
                disk.set_options(SimOptions { crash_at, ..SimOptions::default() });
                let outcome = checkpoints.take(&*store.engine, mode, options, 0);
                let new = store.copy();
                let is_over = !disk.is_dead();
                drop(checkpoints);
                let disk = disk.crash(crash, at, SimOptions::default());
                let checkpoints = Checkpoints::open(Arc::new(disk.clone()), &directory).unwrap();
                let back = load(&checkpoints, 1).unwrap();
                assert!(back == new || back == old && outcome.is_err(), "{mode:?}, {crash:?} at call {at}");
                drop(checkpoints);
                for loss in 0..8 {
                    let left = disk.crash(Crash::PowerLoss, loss, SimOptions::default());
                    let checkpoints = Checkpoints::open(Arc::new(left), &directory).unwrap();
                    let again = load(&checkpoints, 1).unwrap();
                    assert!(again == back, "{mode:?}, {crash:?} at call {at}, loss {loss}: a start used it");
                }
                tried += 1;
                if is_over {
                    break;
                }
            }
        }
        assert!(tried > 20, "{tried} crashes");
    }
}

#[test]
fn a_disk_that_refuses_leaves_the_last_checkpoint_and_nothing_else() {
    let directory = PathBuf::from("/data");
    let store = store();
    let mut random = SmallRng::seed_from_u64(4);
    store.change_at_random(0, 4_000, &mut random);
    let disk = SimDisk::new(1, SimOptions::default());
    let checkpoints = Checkpoints::open(Arc::new(disk.clone()), &directory).unwrap();
    checkpoints.take(&*store.engine, CheckpointMode::Full, FAST, 0).unwrap();
    let (mut last, mut files) = (load(&checkpoints, 1), disk.paths());
    let mut refused = 0;
    for round in 0..40 {
        for mode in [CheckpointMode::Full, CheckpointMode::Incremental] {
            store.change_at_random(0, 50, &mut random);
            let before = disk.paths().len();
            let used: usize = files.iter().map(|path| disk.contents(path).unwrap().len()).sum();
            disk.set_options(match round % 2 {
                0 => SimOptions {
                    capacity_bytes: Some((used + round * 8_000) as u64),
                    ..SimOptions::default()
                },
                _ => SimOptions {
                    faults_per_mille: vec![(Fault::ALL[round / 2 % Fault::ALL.len()], 150)],
                    ..SimOptions::default()
                },
            });
            let outcome = checkpoints.take(&*store.engine, mode, FAST, 0);
            disk.set_options(SimOptions::default());
            match outcome {
                Ok(_) => (last, files) = (load(&checkpoints, 1), disk.paths()),
                Err(error) => {
                    assert!(matches!(error, CheckpointError::Disk(_)), "{error}");
                    refused += 1;
                    assert_eq!(load(&checkpoints, 1), last, "round {round}");
                    assert!(round % 2 == 1 || disk.paths().len() <= before, "{:?}", disk.paths());
                }
            }
            assert_eq!(store.engine.views().status().retained.records, 0);
        }
    }
    assert!(refused > 20, "{refused} refused");
    checkpoints.take(&*store.engine, CheckpointMode::Incremental, FAST, 0).unwrap();
    assert_eq!(load(&checkpoints, 1), Some(store.copy()), "the next one works");
}

#[test]
fn attempts_that_end_before_the_manifest_leave_no_files() {
    let store = store();
    store.change_at_random(0, 300, &mut SmallRng::seed_from_u64(5));
    let disk = SimDisk::new(1, SimOptions::default());
    let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/data")).unwrap();
    checkpoints.take(&*store.engine, CheckpointMode::Full, FAST, 0).unwrap();
    let (last, files) = (load(&checkpoints, 1), disk.paths());
    store.change_at_random(0, 300, &mut SmallRng::seed_from_u64(6));
    let faults_per_mille = vec![(Fault::SyncDirError, 1000)];
    disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    for mode in [CheckpointMode::Full, CheckpointMode::Incremental].repeat(3) {
        checkpoints.take(&*store.engine, mode, FAST, 0).unwrap_err();
        assert_eq!(disk.paths(), files, "{mode:?}");
    }
    disk.set_options(SimOptions::default());
    assert_eq!(load(&checkpoints, 1), last);
}

#[test]
fn spoilt_bytes_are_refused_with_their_place() {
    let directory = PathBuf::from("/data");
    let store = store();
    store.change_at_random(0, 300, &mut SmallRng::seed_from_u64(5));
    let disk = SimDisk::new(1, SimOptions::default());
    let checkpoints = Checkpoints::open(Arc::new(disk.clone()), &directory).unwrap();
    checkpoints.take(&*store.engine, CheckpointMode::Full, FAST, 0).unwrap();
    let name = |name: &str| directory.join(name);
    let file = disk.paths().into_iter().find(|path| path.extension().is_some_and(|e| e == "tarn")).unwrap();
    let len = disk.contents(&file).unwrap().len();
    for at in (0..len).step_by(1 + len / 3_000) {
        disk.spoil(&file, at, |byte| byte ^ 0x10);
        let error = checkpoints.load(empty(DATABASES), 2, &|_, _| {}).err();
        disk.spoil(&file, at, |byte| byte ^ 0x10);
        let error = error.unwrap_or_else(|| panic!("byte {at} is spoilt, and nobody noticed"));
        assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
    }
    drop(checkpoints);
    let manifest = disk.contents(&name("MANIFEST")).unwrap().len();
    for at in 0..manifest {
        disk.spoil(&name("MANIFEST"), at, |byte| byte ^ 1);
        assert!(Checkpoints::open(Arc::new(disk.clone()), &directory).is_err(), "byte {at} of the manifest");
        disk.spoil(&name("MANIFEST"), at, |byte| byte ^ 1);
    }
    assert!(Checkpoints::open(Arc::new(disk.clone()), &directory).is_ok());
}

/// Claims that its store is as of `Lsn` 1.
struct Backdated<'e>(&'e Engine);

impl Source for Backdated<'_> {
    fn view(&self) -> Result<View, ViewError> {
        self.0.view()
    }

    fn standing(&self, look: &mut dyn FnMut(Lsn, &[Arc<Table>])) {
        self.0.standing(&mut |_, tables| look(Lsn(1), tables));
    }

    fn newest(&self) -> Lsn {
        Lsn(1)
    }

    fn settle(&self, _: Lsn) -> Result<Option<u128>, LogError> {
        Ok(None)
    }

    fn clients(&self) -> &ClientLatency {
        self.0.clients()
    }

    fn clock(&self) -> &dyn Clock {
        Source::clock(self.0)
    }
}

#[test]
fn a_checkpoint_with_an_entry_newer_than_itself_is_refused() {
    let (directory, store) = (tempfile::tempdir().unwrap(), store());
    let checkpoints = open(directory.path());
    let take = || checkpoints.take(&Backdated(&store.engine), CheckpointMode::Fork, FAST, 0).unwrap();
    let value = || Change::Put { value: b"1".into(), expiry: None };
    store.commit(0, 0, b"as old as the checkpoint", value());
    take();
    assert_eq!(load(&checkpoints, 1).unwrap().1.len(), 1);
    store.commit(0, 0, b"newer", value());
    take();
    let error = checkpoints.load(empty(DATABASES), 1, &|_, _| {}).err().unwrap().to_string();
    assert!(error.contains("an entry is newer than the checkpoint"), "{error}");
}

#[test]
fn two_servers_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path());
    let error = Checkpoints::open(Arc::new(OsDisk), Path::new(directory.path())).err().unwrap();
    assert!(matches!(error, CheckpointError::InUse(_)));
    drop(first);
    open(directory.path());
}
