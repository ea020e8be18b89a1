//! Checkpoints by a child process: what it must not do, what it writes whatever the sizes, and how it ends
//! early.
//!
//! The allocator of this test ends a process that allocates or frees, if it is not the one that the test
//! began in.

#![allow(clippy::unwrap_used)]
#![expect(unsafe_code, reason = "an allocator is unsafe")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tarn_engine::Entry;
use tarn_engine::checkpoint::{CheckpointError, CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Disk, ManualClock, OsDisk, SimDisk, SimOptions};
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::recovery::empty;
use tarn_engine::session::Access;
use tarn_engine::table::{KeyHash, ScanBudget, Table};
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::{Background, Engine};

/// With this code ends a child that allocates.
const ALLOCATED: i32 = 66;
/// The process that may allocate; 0 before it is known.
static PARENT: AtomicU32 = AtomicU32::new(0);

struct NotInChildren;

impl NotInChildren {
    fn check(&self) {
        let parent = PARENT.load(Ordering::Relaxed);
        if parent != 0 && parent != std::process::id() {
            // SAFETY: may be called at any time.
            unsafe { libc::_exit(ALLOCATED) }
        }
    }
}

// SAFETY: as the system's.
unsafe impl GlobalAlloc for NotInChildren {
    // SAFETY: as the system's.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.check();
        // SAFETY: the caller says so.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as the system's.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        self.check();
        // SAFETY: the caller says so.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: NotInChildren = NotInChildren;

const DATABASES: usize = 3;
const OPTIONS: TakeOptions = TakeOptions { pace: Pace::Quiet, writers: 2 };

struct Store {
    engine: Arc<Engine>,
    _background: Background,
}

fn store() -> Store {
    PARENT.store(std::process::id(), Ordering::Relaxed);
    let (engine, background) = Engine::unlogged(DATABASES, 2, Arc::new(ManualClock::new(1_000)));
    Store { engine, _background: background }
}

impl Store {
    fn commit(&self, db: u8, key: &str, change: Change<'_>) {
        let session = self.engine.enter(0);
        let key = key.as_bytes();
        let mut latched = session.latch_places(&[(db, KeyHash::of(key))], Access::Write, 0);
        let batch = Batch::from_iter([Write::Key { db, key: key.into(), change }]);
        latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
    }

    fn put(&self, db: u8, key: &str, len: usize) {
        let value: Vec<u8> = (0..len).map(|at| (at / 3) as u8).collect();
        self.commit(db, key, Change::Put { value: value.into(), expiry: None });
    }

    fn tables(&self) -> Vec<Arc<Table>> {
        // Through a checkpoint of another kind, into a simulation.
        let checkpoints =
            Checkpoints::open(Arc::new(SimDisk::new(1, SimOptions::default())), Path::new("/d")).unwrap();
        checkpoints.take(&*self.engine, CheckpointMode::Full, OPTIONS, 0).unwrap();
        checkpoints.load(empty(DATABASES), 1, &|_, _| {}).unwrap().unwrap().tables
    }
}

fn describe(entry: &Entry) -> Vec<u8> {
    let mut value = match entry.value() {
        ValueRef::String(value) => value.to_vec(),
        ValueRef::List(list) => list.iter_from(0).collect::<Vec<_>>().join(&b','),
        other => elements_of(other),
    };
    if !matches!(entry.value(), ValueRef::String(_) | ValueRef::List(_)) {
        value.sort_unstable();
    }
    value.extend(format!("{:?} {} {:?}", entry.kind(), entry.lsn(), entry.expiry()).bytes());
    value
}

fn copy(tables: &[Arc<Table>]) -> BTreeMap<(usize, Vec<u8>), Vec<u8>> {
    let mut copy = BTreeMap::new();
    for (db, table) in tables.iter().enumerate() {
        table.scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            copy.insert((db, entry.key().to_vec()), describe(entry));
            false
        });
    }
    copy
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

/// Takes a checkpoint by a child, loads it, and compares.
fn assert_written(store: &Store, directory: &Path) {
    let checkpoints = open(directory);
    let taken = checkpoints.take(&*store.engine, CheckpointMode::Fork, OPTIONS, 5).unwrap();
    let loaded = checkpoints.load(empty(DATABASES), 2, &|_, _| {}).unwrap().unwrap();
    let expected = store.tables();
    assert_eq!(taken.keys, expected.iter().map(|table| table.len() as u64).sum::<u64>());
    assert!(copy(&loaded.tables) == copy(&expected), "what a child writes is what a view shows");
    assert!(taken.child_bytes.is_some());
    assert_eq!(OsDisk.list(directory).unwrap().len(), 3, "checkpoint, manifest, lock");
}

#[test]
fn a_child_neither_allocates_nor_frees_whatever_it_writes() {
    let directory = tempfile::tempdir().unwrap();
    let store = store();
    assert_written(&store, directory.path());
    for number in 0..20_000usize {
        let (db, key) = ((number % DATABASES) as u8, format!("key:{number}"));
        store.put(db, &key, number % 200);
    }
    // Around the room of the buffer, of a block, and beyond any.
    for len in [32 << 10, 64 << 10, 1 << 20, (1 << 20) + (64 << 10), 5 << 20] {
        for len in len - 40..len + 3 {
            store.put(1, &format!("large:{len}"), len);
        }
    }
    for number in 0..5_000usize {
        let name = format!("name:{number}").into_bytes();
        let value = vec![b'v'; if number.is_multiple_of(500) { 300_000 } else { number % 90 }];
        store.commit(2, "hash", Change::HashPut { field: name.clone().into(), value: value.clone().into() });
        store.commit(2, "list", Change::ListPush { side: Side::Back, element: value.into() });
        store.commit(0, "zset", Change::ZSetPut { member: name.clone().into(), score: number as f64 });
        store.commit(1, "set", Change::SetAdd { member: name.into() });
    }
    store.commit(0, "zset", Change::Expire(Some(77_000)));
    assert_written(&store, directory.path());
}

#[test]
fn a_child_that_is_given_up_leaves_the_last_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let store = store();
    for number in 0..100_000usize {
        store.put(0, &format!("key:{number}"), 100);
    }
    let checkpoints = open(directory.path());
    checkpoints.take(&*store.engine, CheckpointMode::Fork, OPTIONS, 5).unwrap();
    let (last, forks) =
        (checkpoints.current().unwrap(), checkpoints.progress().forks.load(Ordering::Relaxed));
    store.put(0, "one more", 100);
    let outcome = std::thread::scope(|scope| {
        let taking = scope.spawn(|| checkpoints.take(&*store.engine, CheckpointMode::Fork, OPTIONS, 6));
        while checkpoints.progress().forks.load(Ordering::Relaxed) == forks {
            std::hint::spin_loop();
        }
        checkpoints.progress().stop();
        taking.join().unwrap()
    });
    assert!(matches!(outcome, Err(CheckpointError::Stopped)), "{outcome:?}");
    assert_eq!(checkpoints.current().unwrap(), last);
    assert_eq!(OsDisk.list(directory.path()).unwrap().len(), 3, "checkpoint, manifest, lock");
    checkpoints.progress().resume();
    drop(checkpoints);
    assert_written(&store, directory.path());
}

#[test]
fn a_disk_without_descriptors_refuses() {
    let store = store();
    let disk = SimDisk::new(1, SimOptions::default());
    let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/d")).unwrap();
    let error = checkpoints.take(&*store.engine, CheckpointMode::Fork, OPTIONS, 5).unwrap_err();
    assert!(matches!(error, CheckpointError::NoDescriptor), "{error}");
    assert!(disk.paths().is_empty(), "{:?}", disk.paths());
}
