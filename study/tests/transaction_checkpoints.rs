//! Checkpoints of the virtual algorithms, taken while transactions continue: complete, equal to their
//! snapshot, and either whole under their name or not there.
//!
//! ```text
//!   transactions    ── payments between rows: the sum of all rows is 0 ──────────►
//!   snapshotter       take ─ show ─ checkpoint   take ─ checkpoint, which fails   take ─ checkpoint …
//!                             └ the same? ┘             └── its changes are in the next one ──┘
//! ```

#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_study::checkpoint::{CheckpointDir, CheckpointError, CheckpointReader};
use tarn_study::transaction::{
    Calc, Cpr, PartialCalc, Store, TransactionError, VirtualAlgorithm, VirtualHourglass, VirtualPiggyback,
};
use tarn_study::{Shape, SnapshotError};

/// Several pieces of a megabyte, the last one not whole.
const ROWS: usize = 150_000;
const CHECKPOINTS: usize = 12;

fn rows_of(path: impl AsRef<Path>) -> Vec<u64> {
    let mut rows = Vec::new();
    CheckpointReader::open(path).unwrap().rows(|_, fields| rows.push(fields[0])).unwrap();
    rows
}

/// Pays from row to row; about a half of the rows, and half of these seldom.
fn pay<V: VirtualAlgorithm>(store: &Store<V>, rng: &mut StdRng) {
    let row = |rng: &mut StdRng| {
        let limit = if rng.random_ratio(1, 100) { ROWS / 2 } else { ROWS / 4 };
        rng.random_range(0..limit) * 2
    };
    let (from, to, amount) = (row(rng), row(rng), rng.random_range(1..100));
    let add = |balance: &[u64; 2], amount| [balance[0].wrapping_add(amount), balance[1] + 1];
    store
        .run(|transaction| {
            let mut balance = [0; 2];
            transaction.read(from, &mut balance)?;
            transaction.write(from, &add(&balance, 0_u64.wrapping_sub(amount)))?;
            transaction.read(to, &mut balance)?;
            transaction.write(to, &add(&balance, amount))
        })
        .unwrap_or_else(|error: TransactionError| panic!("{error}"));
}

/// All rows as they are now.
fn newest<V: VirtualAlgorithm>(store: &Store<V>) -> Vec<u64> {
    let balance = |row| {
        let mut fields = [0; 2];
        store.run(|transaction| transaction.read(row, &mut fields)).unwrap();
        fields[0]
    };
    (0..ROWS).map(balance).collect()
}

/// Stops the payers, also when a checkpoint is wrong.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn check<V: VirtualAlgorithm>(seed: u64) {
    let shape = Shape::new(ROWS, 16).unwrap();
    let (store, mut snapshotter) = Store::<V>::new(shape).unwrap();
    let place = tempfile::tempdir().unwrap();
    let unfinished = place.path().join("rows.unfinished");
    let mut dir = CheckpointDir::new(place.path(), shape);
    let mut rng = StdRng::seed_from_u64(seed);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let payer = |number| {
            let (store, stop) = (&store, &stop);
            let mut rng = StdRng::seed_from_u64(seed * 10 + number);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    pay(store, &mut rng);
                }
            })
        };
        let payers: Vec<_> = (1..3).map(payer).collect();
        let stopping = Stop(&stop);
        // The rows as the snapshots show them, each laid over those before.
        let mut merged = vec![0; ROWS];
        for number in 0..CHECKPOINTS {
            (0..rng.random_range(0..2000)).for_each(|_| pay(&store, &mut rng));
            let mut snapshot = snapshotter.take();
            pay(&store, &mut rng);
            // The first ones, so that the base may be missing, and others.
            let fails = match number {
                0 => {
                    // Only when all of the file is written.
                    fs::create_dir(dir.file()).unwrap();
                    Some(libc::EISDIR)
                }
                number if number == 1 || rng.random_ratio(1, 4) => {
                    symlink("/dev/full", &unfinished).unwrap();
                    Some(libc::ENOSPC)
                }
                _ => None,
            };
            let is_shown = rng.random();
            if is_shown {
                let show = |row: usize, fields: &[u64]| {
                    merged[row] = fields[0];
                    Ok::<_, SnapshotError>(())
                };
                snapshot.traverse(show).unwrap();
            }
            match snapshot.checkpoint(&mut dir) {
                Err(CheckpointError::Io { source, .. }) if fails.is_some() => {
                    assert_eq!(source.raw_os_error(), fails);
                    if number == 0 {
                        fs::remove_dir(dir.file()).unwrap();
                    }
                }
                outcome => {
                    outcome.unwrap();
                    assert_eq!(fails, None, "{}", V::NAME);
                    let rows = rows_of(dir.file());
                    let sum = rows.iter().fold(0, |sum: u64, row| sum.wrapping_add(*row));
                    assert_eq!(sum, 0, "{} seed {seed}: checkpoint {number} makes no money", V::NAME);
                    assert!(!is_shown || rows == merged, "{} seed {seed}: checkpoint {number}", V::NAME);
                    merged = rows;
                }
            }
            assert!(!unfinished.exists(), "{}: nothing unfinished is left", V::NAME);
        }
        drop(stopping);
        payers.into_iter().for_each(|payer| payer.join().unwrap());
    });
    let newest = newest(&store);
    snapshotter.take().checkpoint(&mut dir).unwrap();
    assert!(rows_of(dir.file()) == newest, "{} seed {seed}: the last checkpoint has all", V::NAME);
}

#[test]
fn checkpoints_of_calc_are_what_the_snapshots_show() {
    (0..3).for_each(check::<Calc>);
}

#[test]
fn checkpoints_of_partial_calc_are_what_the_snapshots_show() {
    (0..3).for_each(check::<PartialCalc>);
}

#[test]
fn checkpoints_of_cpr_are_what_the_snapshots_show() {
    (0..3).for_each(check::<Cpr>);
}

#[test]
fn checkpoints_of_virtual_hourglass_are_what_the_snapshots_show() {
    (0..3).for_each(check::<VirtualHourglass>);
}

#[test]
fn checkpoints_of_virtual_piggyback_are_what_the_snapshots_show() {
    (0..3).for_each(check::<VirtualPiggyback>);
}
