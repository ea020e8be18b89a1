//! Tries all orders in which a writer and scans of virtual lightweight snapshots may act, by loom on stores
//! of two records.
//!
//! `cargo xtask ci models` runs them. A scan must show the state after some number of the writer's steps: no
//! fewer than were complete when it began.

use std::collections::BTreeMap;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

use super::view::{Published, View};
use super::{Keep, Mask, Scan, Store};
use crate::Shape;

/// Two fields; the index is over the second.
const FIELDS: usize = 2;

type Rows = BTreeMap<u64, [u64; FIELDS]>;

/// A step of a writer: keys, each with its new row or none. A step is one batch.
type Step = &'static [(u64, Option<[u64; FIELDS]>)];

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

fn play<M: Mask>(store: &Store<M>, step: Step) {
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

fn shown<M: Mask>(mut scan: Scan<'_, M>) -> Rows {
    let mut rows = Rows::new();
    while let Some((key, row)) = scan.next_row() {
        assert_eq!(rows.insert(key, row.try_into().unwrap()), None, "each record is shown once");
    }
    rows
}

/// The way in which the scans of a model read.
#[derive(Clone, Copy)]
enum By {
    Table,
    /// By the index, from this value on.
    Index(u64),
}

fn begin<M: Mask>(store: &Store<M>, by: By) -> Scan<'_, M> {
    match by {
        By::Table => store.scan().unwrap(),
        By::Index(least) => store.index_scan(least, u64::MAX).unwrap(),
    }
}

/// A writer takes its steps. Meanwhile scans run one after another, each with the bit of the one before.
/// `breaks_off` is the number of rows after which the first scan breaks off, if it is to.
fn check<M: Mask>(steps: &'static [Step], scans: &'static [By], breaks_off: Option<usize>) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shape = Shape::new(2, 8 * FIELDS).unwrap();
        let store = Arc::new(Store::<M>::new(shape, Some(1), Keep::Shared).unwrap());
        let states = states(steps);
        for (key, row) in &states[0] {
            store.write(*key, row).unwrap();
        }
        let complete = Arc::new(AtomicUsize::new(0));
        let of_writer = (store.clone(), complete.clone());
        let writer = thread::spawn(move || {
            for (number, step) in steps.iter().enumerate() {
                play(&of_writer.0, step);
                of_writer.1.store(number + 1, Ordering::Release);
            }
        });
        if let Some(rows) = breaks_off {
            let mut scan = begin(&store, scans[0]);
            for _ in 0..rows {
                scan.next_row();
            }
            drop(scan);
            store.reset_ended();
        }
        for by in scans {
            let at_least = complete.load(Ordering::Acquire);
            let rows = shown(begin(&store, *by));
            store.reset_ended();
            let least = if let By::Index(least) = by { *least } else { 0 };
            let fits = states[at_least..].iter().any(|state| {
                let mut state = state.clone();
                state.retain(|_, row| row[1] >= least);
                state == rows
            });
            assert!(fits, "{rows:?} with {at_least} steps before is none of {states:?}");
        }
        writer.join().unwrap();
        assert_eq!(store.remset_size().versions, 0, "nobody needs a version any more");
        assert_eq!(store.postponed_pointers(), 0);
        assert_eq!(shown(store.scan().unwrap()), states[steps.len()], "the bit means stable everywhere");
    });
}

/// Money goes from one record to the other and back.
const TRANSFERS: &[Step] =
    &[&[(0, Some([1, 10])), (1, Some([9, 20]))], &[(0, Some([3, 10])), (1, Some([7, 20]))]];
/// Each record changes by itself.
const SINGLES: &[Step] = &[&[(1, Some([1, 20]))], &[(0, Some([2, 10]))]];
/// A record moves ahead and back in the index, out of a range from 15 on and into it.
const MOVES: &[Step] = &[&[(0, Some([1, 30]))], &[(0, Some([2, 10]))]];
/// Both change their places.
const SWAP: &[Step] = &[&[(0, Some([1, 20])), (1, Some([1, 10]))]];
/// A record goes and comes back.
const GOES_AND_COMES: &[Step] = &[&[(1, None)], &[(1, Some([1, 20]))]];

const TWO_BY_TABLE: &[By] = &[By::Table, By::Table];
const INDEX_THEN_TABLE: &[By] = &[By::Index(15), By::Table];

#[test]
fn batches_are_seen_whole_or_not_at_all() {
    check::<u64>(TRANSFERS, TWO_BY_TABLE, None);
    check::<u64>(SWAP, INDEX_THEN_TABLE, None);
}

/// A published view is read as a whole, also with wide masks.
fn check_view<M: Mask>() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let published = Arc::new(Published::<M>::new());
        let all = |mask: M| View { active: mask, stable: mask, index_active: mask };
        published.write(all(M::ZEROS));
        let of_writer = published.clone();
        let writer = thread::spawn(move || {
            of_writer.write(all(M::ONES));
        });
        let View { active, stable, index_active } = published.read();
        assert!(active == M::ZEROS || active == M::ONES, "{active:?}");
        assert_eq!((active, active), (stable, index_active));
        writer.join().unwrap();
    });
}

#[test]
fn masks_are_read_as_one() {
    check_view::<u64>();
    check_view::<u128>();
}

#[test]
fn single_writes_are_seen_in_their_order() {
    check::<u64>(SINGLES, TWO_BY_TABLE, None);
}

#[test]
fn records_that_move_in_the_index_are_seen_at_one_place() {
    check::<u64>(MOVES, INDEX_THEN_TABLE, None);
    check::<u64>(MOVES, &[By::Index(0)], None);
    check::<u64>(GOES_AND_COMES, INDEX_THEN_TABLE, None);
}

#[test]
fn scans_that_break_off_leave_nothing_behind() {
    check::<u64>(&SINGLES[..1], &[By::Table], Some(1));
    check::<u64>(&SINGLES[..1], &[By::Index(0)], Some(0));
}
