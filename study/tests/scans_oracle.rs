//! Writers and scans on threads of their own: each scan must show the state after some number of each
//! writer's steps, no fewer than were complete when it began and no more than were begun, and money that only
//! moves must be all there.
//!
//! A writer has keys of its own and logs its writes. In some steps, batches, it records in its clock, which
//! is a record as well, the number of its steps. So a scan says itself which instant it shows, and scans
//! begin while writers are in the midst of writing.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_study::vls::{Keep, Mask, Store, StoreError, Wide};
use tarn_study::{RecordBatch, RecordScan, Records, Shape, mvcc};

const FIELDS: usize = 3;
const INDEXED: usize = 1;
/// Values of the indexed field of the records that writers own.
const VALUES: u64 = 100;
const KEYS_PER_WRITER: u64 = 60;
const CLOCKS: u64 = 1 << 32;
const ACCOUNTS: u64 = 1 << 33;
const ACCOUNT_COUNT: u64 = 20;
const MONEY: u64 = 1000;
const STEPS_LIMIT: usize = 40_000;
/// The most scans that a thread begins at once.
const SCANS: usize = 32;

type Row = [u64; FIELDS];
type Rows = BTreeMap<u64, Row>;

/// The history of a writer's keys: by key, the step and the new row.
type History = BTreeMap<u64, Vec<(usize, Option<Row>)>>;

/// The rows that a scan showed.
struct Shown {
    least: u64,
    rows: Rows,
    /// By writer: steps complete before it began, and after.
    between: Vec<(usize, usize)>,
}

struct Writer<'t, S> {
    store: &'t S,
    number: u64,
    rng: StdRng,
    history: History,
    /// The number of complete steps.
    complete: &'t AtomicUsize,
}

impl<S: Records> Writer<'_, S> {
    fn run(mut self, stop: &AtomicBool) -> History {
        for step in 1..STEPS_LIMIT {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match self.rng.random_range(0..8) {
                0 => self.transfer(),
                1 | 2 => self.write_several(step),
                _ => self.write_one(step),
            }
            self.complete.store(step, Ordering::SeqCst);
        }
        self.history
    }

    fn random_key(&mut self) -> u64 {
        self.number * KEYS_PER_WRITER + self.rng.random_range(0..KEYS_PER_WRITER)
    }

    fn random_row(&mut self, step: usize) -> Row {
        [step as u64, self.rng.random_range(0..VALUES), self.number]
    }

    fn note(&mut self, step: usize, key: u64, row: Option<Row>) {
        self.history.entry(key).or_default().push((step, row));
    }

    fn write_one(&mut self, step: usize) {
        let key = self.random_key();
        let old = self.history.get(&key).and_then(|rows| rows.last()?.1);
        match self.rng.random_range(0..4) {
            0 => {
                assert_eq!(self.store.remove(key), old.is_some());
                self.note(step, key, None);
            }
            1 => {
                let row = self.random_row(step);
                self.store.write(key, &row).unwrap();
                self.note(step, key, Some(row));
            }
            _ => {
                // Twice as often a field that moves nothing in the index.
                let field = self.rng.random_range(0..FIELDS);
                let value = if field == INDEXED { self.rng.random_range(0..VALUES) } else { step as u64 };
                assert_eq!(self.store.write_field(key, field, value).unwrap(), old.is_some());
                if let Some(mut row) = old {
                    row[field] = value;
                    self.note(step, key, Some(row));
                }
            }
        }
    }

    fn write_several(&mut self, step: usize) {
        let clock = CLOCKS + self.number;
        let keys = [clock, self.random_key(), self.random_key(), self.random_key()];
        let mut batch = self.store.batch(&keys);
        batch.write(clock, &[step as u64, u64::MAX, 0]).unwrap();
        for key in &keys[1..] {
            // A key that is there twice has the later row.
            let row = self.rng.random_bool(0.6).then(|| self.random_row(step));
            match &row {
                Some(row) => batch.write(*key, row).unwrap(),
                None => batch.remove(*key).unwrap(),
            }
            self.note(step, *key, row);
        }
        batch.commit();
    }

    /// Money goes between accounts that all writers share.
    fn transfer(&mut self) {
        let from = ACCOUNTS + self.rng.random_range(0..ACCOUNT_COUNT);
        let to = ACCOUNTS + self.rng.random_range(0..ACCOUNT_COUNT);
        if from == to {
            return;
        }
        let mut batch = self.store.batch(&[from, to]);
        let read = |key| batch.read(key).unwrap().unwrap()[0];
        let (has, gets) = (read(from), read(to));
        let amount = self.rng.random_range(0..=has);
        // Accounts move in the index too, but never out of a scan's range.
        let mut place = || VALUES + self.rng.random_range(0..VALUES);
        batch.write(from, &[has - amount, place(), 0]).unwrap();
        batch.write(to, &[gets + amount, place(), 0]).unwrap();
        batch.commit();
    }
}

/// Begins several scans and reads them in turns; some it drops.
fn read<S: Records>(store: &S, rng: &mut StdRng, complete: &[AtomicUsize], shown: &mut Vec<Shown>) {
    let steps = || complete.iter().map(|steps| steps.load(Ordering::SeqCst));
    let mut running = Vec::new();
    for _ in 0..rng.random_range(1..=SCANS) {
        let before: Vec<usize> = steps().collect();
        let least = if rng.random() { 0 } else { rng.random_range(0..VALUES) };
        let begun = if least == 0 { store.scan() } else { store.index_scan(least, u64::MAX) };
        let scan = match begun {
            Ok(scan) => scan,
            Err(StoreError::Scans { .. }) => break,
            Err(error) => panic!("{error}"),
        };
        let between = before.into_iter().zip(steps()).collect();
        running.push((scan, Shown { least, rows: Rows::new(), between }));
        if rng.random_bool(0.2) {
            std::thread::yield_now();
        }
    }
    let mut left = if rng.random_bool(0.2) { rng.random_range(0..2000) } else { usize::MAX };
    while left > 0 && !running.is_empty() {
        left -= 1;
        let at = rng.random_range(0..running.len());
        let (scan, of_scan) = &mut running[at];
        let mut is_over = false;
        for _ in 0..rng.random_range(1..20) {
            let Some((key, row)) = scan.next_row() else {
                is_over = true;
                break;
            };
            let again = of_scan.rows.insert(key, row.try_into().unwrap());
            assert_eq!(again, None, "key {key} is shown once");
        }
        if is_over {
            shown.push(running.swap_remove(at).1);
        }
    }
}

/// The row of a key after `step` steps.
fn row_at(history: &History, key: u64, step: usize) -> Option<Row> {
    let rows = history.get(&key)?;
    let end = rows.partition_point(|(at, _)| *at <= step);
    rows[..end].last()?.1
}

fn verify(shown: &Shown, histories: &[History], seed: u64) {
    let money: u64 = shown.rows.range(ACCOUNTS..).map(|(_, row)| row[0]).sum();
    assert_eq!(money, ACCOUNT_COUNT * MONEY, "seed {seed}: money neither comes nor goes");
    for (writer, history) in histories.iter().enumerate() {
        let (before, after) = shown.between[writer];
        let clock = shown.rows[&(CLOCKS + writer as u64)][0] as usize;
        let keys = writer as u64 * KEYS_PER_WRITER..(writer as u64 + 1) * KEYS_PER_WRITER;
        let is_after = |step: usize| {
            keys.clone().all(|key| {
                let should = row_at(history, key, step).filter(|row| row[INDEXED] >= shown.least);
                shown.rows.get(&key).copied() == should
            })
        };
        // One step may have been in progress.
        assert!(clock <= after + 1, "seed {seed}: step {clock} is shown, {after} were complete");
        assert!(
            (clock.max(before)..=after + 1).any(is_after),
            "seed {seed} writer {writer}: from {} on, clock {clock}, {before} to {after} steps",
            shown.least
        );
    }
}

fn check<S: Records>(new: impl Fn(Shape) -> S, seed: u64, scans: usize) -> S {
    println!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let (writers, readers) = (rng.random_range(1..4), rng.random_range(1..4));
    let shape = Shape::new(rng.random_range(1..200), 8 * FIELDS).unwrap();
    let store = new(shape);
    for writer in 0..writers {
        store.write(CLOCKS + writer, &[0, u64::MAX, 0]).unwrap();
    }
    for account in ACCOUNTS..ACCOUNTS + ACCOUNT_COUNT {
        store.write(account, &[MONEY, VALUES, 0]).unwrap();
    }
    let complete: Vec<AtomicUsize> = (0..writers).map(|_| AtomicUsize::new(0)).collect();
    let stop = AtomicBool::new(false);
    let (histories, shown) = std::thread::scope(|scope| {
        let (store, stop, complete) = (&store, &stop, &complete);
        let of_writers: Vec<_> = (0..writers)
            .map(|number| {
                let rng = StdRng::seed_from_u64(seed * 10 + number);
                let complete = &complete[number as usize];
                let writer = Writer { store, number, rng, history: History::new(), complete };
                scope.spawn(move || writer.run(stop))
            })
            .collect();
        let of_readers: Vec<_> = (0..readers)
            .map(|number| {
                let mut rng = StdRng::seed_from_u64(seed * 10 + 5 + number);
                scope.spawn(move || {
                    let mut shown = Vec::new();
                    while shown.len() < scans / readers as usize {
                        read(store, &mut rng, complete, &mut shown);
                    }
                    shown
                })
            })
            .collect();
        let shown: Vec<Shown> = of_readers.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        stop.store(true, Ordering::Relaxed);
        let histories: Vec<History> = of_writers.into_iter().map(|thread| thread.join().unwrap()).collect();
        (histories, shown)
    });
    shown.iter().for_each(|shown| verify(shown, &histories, seed));
    store.settle();
    assert_eq!(store.kept().versions, 0, "seed {seed}: nobody needs a version any more");
    assert_eq!(store.kept_pointers(), 0, "seed {seed}");
    store
}

fn check_vls<M: Mask>(keep: Keep, seed: u64, scans: usize) {
    let store = check(|shape| Store::<M>::new(shape, Some(INDEXED), keep).unwrap(), seed, scans);
    let mut running: Vec<_> = (0..M::BITS).map(|_| store.scan().unwrap()).collect();
    assert_eq!(store.scan().err(), Some(StoreError::Scans { limit: M::BITS }));
    let count = running.iter_mut().map(|scan| std::iter::from_fn(|| scan.next_row().map(drop)).count());
    let counts: Vec<usize> = count.collect();
    assert!(counts.iter().all(|count| *count == counts[0]), "every bit means stable in every record");
}

#[test]
fn scans_of_64_bits_show_an_instant() {
    (0..8).for_each(|seed| check_vls::<u64>(Keep::Shared, seed, 500));
}

#[test]
fn scans_of_128_bits_show_an_instant() {
    (100..106).for_each(|seed| check_vls::<Wide<2>>(Keep::Shared, seed, 500));
}

#[test]
fn scans_of_256_and_of_512_bits_show_an_instant() {
    (600..603).for_each(|seed| check_vls::<Wide<4>>(Keep::Shared, seed, 300));
    (700..703).for_each(|seed| check_vls::<Wide<8>>(Keep::Shared, seed, 300));
}

#[test]
fn scans_with_remsets_of_their_own_show_an_instant() {
    (200..204).for_each(|seed| check_vls::<u64>(Keep::PerScan, seed, 300));
}

#[test]
fn scans_whose_versions_stay_to_the_end_show_an_instant() {
    (300..304).for_each(|seed| check_vls::<u64>(Keep::SharedToTheEnd, seed, 300));
}

#[test]
fn scans_of_version_chains_show_an_instant() {
    fn check_chains<K: mvcc::Keep>(seed: u64) {
        check(|shape| mvcc::Store::<K>::new(shape, Some(INDEXED)).unwrap(), seed, 300);
    }
    (400..404).for_each(check_chains::<mvcc::Every>);
    (500..504).for_each(check_chains::<mvcc::Seen>);
}
