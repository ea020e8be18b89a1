//! Hundreds of snapshots that fail, break off, are abandoned or panic leave no file, no open file, no thread,
//! no child process and no memory. This is the only test of the file, because it counts what belongs to the
//! process.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::yield_now;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use tarn_study::checkpoint::{CheckpointDir, CheckpointReader};
use tarn_study::transaction::{
    Calc, Cpr, PartialCalc, Store, VirtualAlgorithm, VirtualHourglass, VirtualPiggyback,
};
use tarn_study::{
    Algorithm, Array, AsyncWriteProtection, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong,
    PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback, ReturningFork, Shape, SnapshotError,
    WriteProtection, Zigzag,
};

/// The number of failures of each kind. Each needs about [`ROWS`] times [`ROW_BYTES`].
const TIMES: usize = 12;
const ROWS: usize = 4096;
const ROW_BYTES: usize = 256;
/// The limit of the bytes that remain. More would remain if one snapshot in five left a copy; an allocator
/// keeps some of the memory that was freed.
const LEFT_BYTES_MAX: usize = 6 * TIMES / 5 * ROWS * ROW_BYTES;

/// The files, threads, children and memory of a process.
#[derive(Debug, PartialEq)]
struct Belongings {
    open_files: usize,
    threads: usize,
    has_children: bool,
}

fn belongings() -> Belongings {
    let entries = |folder| fs::read_dir(folder).unwrap().count();
    // Without reaping one that somebody else forgot.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let has_children = waitid(WaitId::All, options).err() != Some(Errno::CHILD);
    Belongings { open_files: entries("/proc/self/fd"), threads: entries("/proc/self/task"), has_children }
}

/// The kernel lists a thread for a moment after it was joined.
fn belongings_after(before: &Belongings) -> Belongings {
    let begun = Instant::now();
    while belongings() != *before && begun.elapsed() < Duration::from_secs(10) {
        yield_now();
    }
    belongings()
}

fn resident_bytes() -> usize {
    let pages = fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * rustix::param::page_size()
}

/// The ways in which a snapshot does not become a checkpoint.
#[derive(Clone, Copy, Debug)]
enum Failure {
    GivenUp,
    BreaksOff,
    Panics,
    DiskIsFull,
    NoDirectory,
    CannotBeRenamed,
}

use Failure::{BreaksOff, CannotBeRenamed, DiskIsFull, GivenUp, NoDirectory, Panics};

/// Takes the snapshot of an array or a store, by their own names for the same things.
macro_rules! fails {
    ($snapshot:expr, $failure:expr, $place:expr, $dir:expr, $shape:expr) => {{
        let mut snapshot = $snapshot;
        match $failure {
            GivenUp => drop(snapshot),
            BreaksOff => {
                let broken = |row, _: &[u64]| if row < 9 { Ok(()) } else { Err(SnapshotError::NoRows) };
                snapshot.traverse(broken).unwrap_err();
            }
            Panics => {
                let visit =
                    |row, _: &[u64]| if row < 9 { Ok::<_, SnapshotError>(()) } else { panic!("on purpose") };
                catch_unwind(AssertUnwindSafe(|| snapshot.traverse(visit))).unwrap_err();
            }
            DiskIsFull => {
                symlink("/dev/full", $place.join("rows.unfinished")).unwrap();
                snapshot.checkpoint($dir).unwrap_err();
            }
            NoDirectory => {
                let mut nowhere = CheckpointDir::new($place.join("missing"), $shape);
                snapshot.checkpoint(&mut nowhere).unwrap_err();
            }
            CannotBeRenamed => {
                fs::create_dir($dir.file()).unwrap();
                snapshot.checkpoint($dir).unwrap_err();
                fs::remove_dir($dir.file()).unwrap();
            }
        }
    }};
}

/// Runs `fail` for each kind of failure, many times; then `checkpoint`, which must have row 7 as it was
/// written last.
fn leaves_nothing(
    name: &str,
    mut fail: impl FnMut(Failure, &Path, &mut CheckpointDir),
    checkpoint: impl FnOnce(&mut CheckpointDir),
) {
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape());
    let before = belongings();
    let mut bytes = 0;
    for failure in [GivenUp, BreaksOff, Panics, DiskIsFull, NoDirectory, CannotBeRenamed] {
        for _ in 0..TIMES {
            fail(failure, place.path(), &mut dir);
            assert_eq!(
                fs::read_dir(place.path()).unwrap().count(),
                0,
                "{name}, {failure:?}: no file is left"
            );
            assert_eq!(belongings_after(&before), before, "{name}, {failure:?}");
            // After the first, which touches memory that the array keeps.
            bytes = if bytes == 0 { resident_bytes() } else { bytes };
        }
    }
    let left = resident_bytes().saturating_sub(bytes);
    assert!(left < LEFT_BYTES_MAX, "{name}: {left} bytes are left");
    checkpoint(&mut dir);
    let mut row_7 = 0;
    let visit = |row, fields: &[u64]| {
        if row == 7 {
            row_7 = fields[0]
        }
    };
    CheckpointReader::open(dir.file()).unwrap().rows(visit).unwrap();
    assert_eq!(row_7, 6 * TIMES as u64, "{name}: the next one has what those that failed had");
    assert_eq!(belongings_after(&before), before, "{name}");
}

fn shape() -> Shape {
    Shape::new(ROWS, ROW_BYTES).unwrap()
}

fn of_array<A: Algorithm>() {
    let (mut clients, snapshotter) = Array::<A>::new(shape(), 1).unwrap();
    let snapshotter = std::cell::RefCell::new(snapshotter);
    let mut times = 0;
    let fail = |failure, place: &Path, dir: &mut CheckpointDir| {
        times += 1;
        clients[0].turn().write_field(7, 0, times).unwrap();
        let mut snapshotter = snapshotter.borrow_mut();
        fails!(snapshotter.take().unwrap(), failure, place, dir, shape());
    };
    leaves_nothing(A::NAME, fail, |dir| snapshotter.borrow_mut().take().unwrap().checkpoint(dir).unwrap());
}

fn of_store<V: VirtualAlgorithm>() {
    let (store, snapshotter) = Store::<V>::new(shape()).unwrap();
    let snapshotter = std::cell::RefCell::new(snapshotter);
    let mut times = 0;
    let fail = |failure, place: &Path, dir: &mut CheckpointDir| {
        times += 1;
        store.run(|transaction| transaction.write(7, &[times; ROW_BYTES / 8])).unwrap();
        let mut snapshotter = snapshotter.borrow_mut();
        fails!(snapshotter.take(), failure, place, dir, shape());
    };
    leaves_nothing(V::NAME, fail, |dir| snapshotter.borrow_mut().take().checkpoint(dir).unwrap());
}

#[test]
fn snapshots_that_fail_leave_nothing_behind() {
    // The messages of hundreds of intended panics are of no use.
    std::panic::set_hook(Box::new(|panic| {
        if panic.payload_as_str() != Some("on purpose") {
            eprintln!("{panic}");
        }
    }));
    of_array::<Naive>();
    of_array::<CopyOnUpdate>();
    of_array::<Fork>();
    of_array::<ReturningFork>();
    of_array::<Zigzag>();
    of_array::<PingPong>();
    of_array::<Hourglass>();
    of_array::<Piggyback>();
    of_array::<PublishedCopyOnUpdate>();
    of_array::<PublishedHourglass>();
    of_array::<PublishedPiggyback>();
    of_array::<WriteProtection>();
    of_array::<AsyncWriteProtection>();
    of_store::<Calc>();
    of_store::<PartialCalc>();
    of_store::<Cpr>();
    of_store::<VirtualHourglass>();
    of_store::<VirtualPiggyback>();
}
