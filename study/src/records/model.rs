//! Tries all orders in which a writer and scans may act, by loom on stores of two records.
//!
//! `cargo xtask ci models` runs them. A scan must show the state after some number of the writer's steps: no
//! fewer than were complete when it began.

use std::collections::BTreeMap;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::{RecordBatch, RecordScan, Records};
use crate::Shape;
use crate::vls::{Keep, Store};

/// Two fields; the index is over the second.
const FIELDS: usize = 2;

type Rows = BTreeMap<u64, [u64; FIELDS]>;

/// A step of a writer: keys, each with its new row or none. A step is one batch.
pub(crate) type Step = &'static [(u64, Option<[u64; FIELDS]>)];

fn states(steps: &[Step]) -> Vec<Rows> {
    let mut rows: Rows = [(0, [0, 10]), (1, [0, 20])].into();
    let mut states = vec![rows.clone()];
    for step in steps {
        for (key, row) in *step {
            match row {
                Some(row) => rows.insert(*key, *row),
                None => rows.remove(key),
            };
        }
        states.push(rows.clone());
    }
    states
}

fn play(store: &impl Records, step: Step) {
    match step {
        [(key, Some(row))] => {
            store.write(*key, row).unwrap();
        }
        [(key, None)] => {
            store.remove(*key);
        }
        _ => {
            let keys: Vec<u64> = step.iter().map(|(key, _)| *key).collect();
            let mut batch = store.batch(&keys);
            for (key, row) in step {
                match row {
                    Some(row) => batch.write(*key, row).unwrap(),
                    None => batch.remove(*key).unwrap(),
                }
            }
            batch.commit();
        }
    }
}

fn shown(mut scan: impl RecordScan) -> Rows {
    let mut rows = Rows::new();
    while let Some((key, row)) = scan.next_row() {
        assert_eq!(rows.insert(key, row.try_into().unwrap()), None, "each record is shown once");
    }
    rows
}

/// The way in which the scans of a model read.
#[derive(Clone, Copy)]
pub(crate) enum By {
    Table,
    /// By the index, from this value on.
    Index(u64),
}

fn begin<S: Records>(store: &S, by: By) -> S::Scan<'_> {
    match by {
        By::Table => store.scan().unwrap(),
        By::Index(least) => store.index_scan(least, u64::MAX).unwrap(),
    }
}

/// A writer takes its steps. Meanwhile scans run one after another, each with the bit of the one before.
/// `breaks_off` is the number of rows after which the first scan breaks off, if it is to.
pub(crate) fn check<S: Records + Send + 'static>(
    new: fn(Shape) -> S,
    steps: &'static [Step],
    scans: &'static [By],
    breaks_off: Option<usize>,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shape = Shape::new(2, 8 * FIELDS).unwrap();
        let store = Arc::new(new(shape));
        let states = states(steps);
        for (key, row) in &states[0] {
            store.write(*key, row).unwrap();
        }
        let complete = Arc::new(AtomicUsize::new(0));
        let of_writer = (store.clone(), complete.clone());
        let writer = thread::spawn(move || {
            for (number, step) in steps.iter().enumerate() {
                play(&*of_writer.0, step);
                of_writer.1.store(number + 1, Ordering::Release);
            }
        });
        if let Some(rows) = breaks_off {
            let mut scan = begin(&*store, scans[0]);
            for _ in 0..rows {
                scan.next_row();
            }
            drop(scan);
            store.settle();
        }
        for by in scans {
            let at_least = complete.load(Ordering::Acquire);
            let rows = shown(begin(&*store, *by));
            store.settle();
            let least = if let By::Index(least) = by { *least } else { 0 };
            let fits = states[at_least..].iter().any(|state| {
                let mut state = state.clone();
                state.retain(|_, row| row[1] >= least);
                state == rows
            });
            assert!(fits, "{rows:?} with {at_least} steps before is none of {states:?}");
        }
        writer.join().unwrap();
        store.settle();
        assert_eq!(store.kept().versions, 0, "nobody needs a version any more");
        assert_eq!(store.kept_pointers(), 0);
        assert_eq!(shown(store.scan().unwrap()), states[steps.len()], "the bit means stable everywhere");
    });
}

/// Money goes from one record to the other and back.
pub(crate) const TRANSFERS: &[Step] =
    &[&[(0, Some([1, 10])), (1, Some([9, 20]))], &[(0, Some([3, 10])), (1, Some([7, 20]))]];
/// Each record changes by itself.
pub(crate) const SINGLES: &[Step] = &[&[(1, Some([1, 20]))], &[(0, Some([2, 10]))]];
/// A record moves ahead and back in the index, out of a range from 15 on and into it.
pub(crate) const MOVES: &[Step] = &[&[(0, Some([1, 30]))], &[(0, Some([2, 10]))]];
/// Both change their places.
pub(crate) const SWAP: &[Step] = &[&[(0, Some([1, 20])), (1, Some([1, 10]))]];
/// A record goes and comes back.
pub(crate) const GOES_AND_COMES: &[Step] = &[&[(1, None)], &[(1, Some([1, 20]))]];

pub(crate) const TWO_BY_TABLE: &[By] = &[By::Table, By::Table];
pub(crate) const INDEX_THEN_TABLE: &[By] = &[By::Index(15), By::Table];

fn vls(shape: Shape) -> Store<u64> {
    Store::new(shape, Some(1), Keep::Shared).unwrap()
}

#[test]
fn batches_are_seen_whole_or_not_at_all() {
    check(vls, TRANSFERS, TWO_BY_TABLE, None);
    check(vls, SWAP, INDEX_THEN_TABLE, None);
}

#[test]
fn single_writes_are_seen_in_their_order() {
    check(vls, SINGLES, TWO_BY_TABLE, None);
}

#[test]
fn records_that_move_in_the_index_are_seen_at_one_place() {
    check(vls, MOVES, INDEX_THEN_TABLE, None);
    check(vls, MOVES, &[By::Index(0)], None);
    check(vls, GOES_AND_COMES, INDEX_THEN_TABLE, None);
}

#[test]
fn scans_that_break_off_leave_nothing_behind() {
    check(vls, &SINGLES[..1], &[By::Table], Some(1));
    check(vls, &SINGLES[..1], &[By::Index(0)], Some(0));
}
