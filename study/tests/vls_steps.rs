//! One thread does everything in turns: it writes, and it reads a row of one of many scans. Each scan must
//! show exactly the copy that was taken when it began. The seed decides everything in a run; only the thread
//! that resets bits runs by itself.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_study::Shape;
use tarn_study::vls::{Keep, Mask, Scan, Store, StoreError};

const FIELDS: usize = 3;
/// The field that the index is over.
const INDEXED: usize = 1;
const VALUES: u64 = 20;

type Rows = BTreeMap<u64, [u64; FIELDS]>;

/// A scan, the rows that it has still to show, and the number of rows that it shows before it is dropped.
struct Running<'s, M: Mask> {
    scan: Scan<'s, M>,
    left: Rows,
    rows_limit: usize,
}

struct Steps<'s, M: Mask> {
    store: &'s Store<M>,
    rng: StdRng,
    seed: u64,
    keys: u64,
    /// The expected content of the store.
    rows: Rows,
    running: Vec<Running<'s, M>>,
    complete: usize,
}

impl<'s, M: Mask> Steps<'s, M> {
    fn begin(&mut self) {
        if self.running.len() == M::BITS {
            assert_eq!(self.store.scan().err(), Some(StoreError::Scans { limit: M::BITS }));
            return;
        }
        let mut left = self.rows.clone();
        let scan = if self.rng.random() {
            self.store.scan().unwrap()
        } else {
            let least = self.rng.random_range(0..VALUES);
            let most = if self.rng.random() { u64::MAX } else { self.rng.random_range(0..VALUES) };
            left.retain(|_, row| least <= row[INDEXED] && row[INDEXED] <= most);
            self.store.index_scan(least, most).unwrap()
        };
        let rows_limit = if self.rng.random_bool(0.2) { self.rng.random_range(0..20) } else { usize::MAX };
        self.running.push(Running { scan, left, rows_limit });
    }

    fn read(&mut self) {
        let at = self.rng.random_range(0..self.running.len());
        let Running { scan, left, rows_limit } = &mut self.running[at];
        let ends = if *rows_limit == 0 {
            true
        } else {
            *rows_limit -= 1;
            match scan.next_row() {
                Some((key, row)) => {
                    let should = left.remove(&key);
                    assert_eq!(
                        Some(row),
                        should.as_ref().map(|row| &row[..]),
                        "seed {} key {key}",
                        self.seed
                    );
                    false
                }
                None => {
                    assert!(left.is_empty(), "seed {}: {left:?} not shown", self.seed);
                    self.complete += 1;
                    true
                }
            }
        };
        if ends {
            self.running.swap_remove(at);
        }
    }

    fn random_row(&mut self) -> [u64; FIELDS] {
        [self.rng.random(), self.rng.random_range(0..VALUES), self.rng.random()]
    }

    fn write(&mut self) {
        let key = self.rng.random_range(0..self.keys);
        let known = self.rows.contains_key(&key);
        match self.rng.random_range(0..10) {
            0..3 => {
                let row = self.random_row();
                assert_eq!(self.store.write(key, &row).unwrap(), known);
                self.rows.insert(key, row);
            }
            3..6 => {
                let field = self.rng.random_range(0..FIELDS);
                let value = self.rng.random_range(0..VALUES);
                assert_eq!(self.store.write_field(key, field, value).unwrap(), known);
                self.rows.entry(key).and_modify(|row| row[field] = value);
            }
            6..8 => {
                assert_eq!(self.store.remove(key), known);
                self.rows.remove(&key);
            }
            _ => self.write_batch(),
        }
        let mut row = [0; FIELDS];
        let is_there = self.store.read(key, &mut row).unwrap();
        assert_eq!(is_there.then_some(row), self.rows.get(&key).copied(), "seed {}", self.seed);
    }

    fn write_batch(&mut self) {
        let keys: Vec<u64> = (0..4).map(|_| self.rng.random_range(0..self.keys)).collect();
        let mut batch = self.store.batch(&keys);
        let mut rows = self.rows.clone();
        for _ in 0..6 {
            let key = keys[self.rng.random_range(0..keys.len())];
            if self.rng.random() {
                let row = [self.rng.random(), self.rng.random_range(0..VALUES), 0];
                batch.write(key, &row).unwrap();
                rows.insert(key, row);
            } else {
                batch.remove(key).unwrap();
                rows.remove(&key);
            }
            assert_eq!(batch.read(key).unwrap(), rows.get(&key).map(|row| &row[..]));
        }
        if self.rng.random_bool(0.8) {
            batch.commit();
            self.rows = rows;
        }
    }
}

fn check<M: Mask>(keep: Keep, seed: u64) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = rng.random_range(5..200);
    let shape = Shape::new(rng.random_range(1..300), 8 * FIELDS).unwrap();
    let store = Store::<M>::new(shape, Some(INDEXED), keep).unwrap();
    // The probabilities that a step begins a scan, or else reads a row of one.
    let (begins, reads) = (rng.random_range(0.01..0.2), rng.random_range(0.5..0.95));
    let (rows, running) = (Rows::new(), Vec::new());
    let mut steps = Steps { store: &store, rng, seed, keys, rows, running, complete: 0 };
    for _ in 0..20_000 {
        if steps.rng.random_bool(begins) {
            steps.begin();
        } else if steps.rng.random_bool(reads) && !steps.running.is_empty() {
            steps.read();
        } else {
            steps.write();
        }
    }
    // Some run to their ends, the others are dropped.
    for _ in 0..5000 {
        if !steps.running.is_empty() {
            steps.read();
        }
    }
    steps.running.clear();
    store.wait_until_reset();
    assert_eq!(store.remset_size().versions, 0, "seed {seed}: nobody needs a version any more");
    assert_eq!(store.postponed_pointers(), 0, "seed {seed}");
    steps.complete
}

fn check_all<M: Mask>(keep: Keep) {
    let complete: usize = (0..20).map(|seed| check::<M>(keep, seed)).sum();
    assert!(complete > 500, "{complete} scans ran to their ends");
}

#[test]
fn scans_of_64_bits_show_what_was_there_when_they_began() {
    check_all::<u64>(Keep::Shared);
}

#[test]
fn scans_of_128_bits_show_what_was_there_when_they_began() {
    check_all::<u128>(Keep::Shared);
}

#[test]
fn scans_with_remsets_of_their_own_show_the_same() {
    check_all::<u64>(Keep::PerScan);
    check_all::<u128>(Keep::PerScan);
}

#[test]
fn scans_whose_versions_stay_to_the_end_show_the_same() {
    check_all::<u64>(Keep::SharedToTheEnd);
}
