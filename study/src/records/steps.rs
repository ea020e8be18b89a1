//! One thread does everything in turns: it writes, and it reads a row of one of many scans. Each scan must
//! show exactly the copy that was taken when it began. The seed decides everything in a run; only the thread
//! that resets bits runs by itself.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::{RecordBatch, RecordScan, Records};
use crate::mvcc;
use crate::shape::Shape;
use crate::vls::{Keep, Mask, Store, StoreError, Wide};

pub(crate) const FIELDS: usize = 3;
/// The field that the index is over.
pub(crate) const INDEXED: usize = 1;
/// No more scans are tried at once in a store that has no limit.
const SCANS: usize = 100;
const VALUES: u64 = 20;

type Rows = BTreeMap<u64, [u64; FIELDS]>;

/// A scan, the rows that it has still to show, and the number of rows that it shows before it is dropped.
struct Running<'s, S: Records + 's> {
    scan: S::Scan<'s>,
    left: Rows,
    rows_limit: usize,
}

struct Steps<'s, S: Records> {
    store: &'s S,
    /// The most scans at once, if there is a limit.
    limit: Option<usize>,
    rng: StdRng,
    seed: u64,
    keys: u64,
    /// The expected content of the store.
    rows: Rows,
    running: Vec<Running<'s, S>>,
    complete: usize,
}

impl<'s, S: Records> Steps<'s, S> {
    fn begin(&mut self) {
        if self.running.len() == self.limit.unwrap_or(SCANS) {
            let refused = self.limit.map(|limit| StoreError::Scans { limit });
            assert_eq!(self.store.scan().err(), refused);
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

/// Runs a store's steps: an empty one of the given shape. Returns the number of scans that ran to their ends.
pub(crate) fn check<S: Records>(new: impl Fn(Shape) -> S, limit: Option<usize>, seed: u64) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = rng.random_range(5..200);
    let shape = Shape::new(rng.random_range(1..300), 8 * FIELDS).unwrap();
    let store = new(shape);
    // The probabilities that a step begins a scan, or else reads a row of one.
    let (begins, reads) = (rng.random_range(0.01..0.2), rng.random_range(0.5..0.95));
    let (rows, running) = (Rows::new(), Vec::new());
    let mut steps = Steps { store: &store, limit, rng, seed, keys, rows, running, complete: 0 };
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
    store.settle();
    assert_eq!(store.kept().versions, 0, "seed {seed}: nobody needs a version any more");
    assert_eq!(store.kept_pointers(), 0, "seed {seed}");
    steps.complete
}

fn check_all<S: Records>(new: impl Fn(Shape) -> S, limit: Option<usize>) {
    let complete: usize = (0..20).map(|seed| check(&new, limit, seed)).sum();
    assert!(complete > 500, "{complete} scans ran to their ends");
}

fn check_vls<M: Mask>(keep: Keep) {
    check_all(|shape| Store::<M>::new(shape, Some(INDEXED), keep).unwrap(), Some(M::BITS));
}

#[test]
fn scans_of_64_bits_show_what_was_there_when_they_began() {
    check_vls::<u64>(Keep::Shared);
}

#[test]
fn scans_of_128_bits_show_what_was_there_when_they_began() {
    check_vls::<Wide<2>>(Keep::Shared);
}

#[test]
fn scans_of_256_and_of_512_bits_show_what_was_there_when_they_began() {
    check_vls::<Wide<4>>(Keep::Shared);
    check_vls::<Wide<8>>(Keep::Shared);
}

#[test]
fn scans_with_remsets_of_their_own_show_the_same() {
    check_vls::<u64>(Keep::PerScan);
    check_vls::<Wide<2>>(Keep::PerScan);
}

#[test]
fn scans_whose_versions_stay_to_the_end_show_the_same() {
    check_vls::<u64>(Keep::SharedToTheEnd);
}

#[test]
fn scans_of_version_chains_show_the_same() {
    check_all(|shape| mvcc::Store::<mvcc::Every>::new(shape, Some(INDEXED)).unwrap(), None);
    check_all(|shape| mvcc::Store::<mvcc::Seen>::new(shape, Some(INDEXED)).unwrap(), None);
}
