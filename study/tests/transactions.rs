//! Guarantees to a user of a store of transactions. Bad input is refused with an error that names it. A
//! transaction that ends early, by an error or a panic, has changed nothing and holds nothing.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tarn_study::transaction::{
    Calc, Counts, Cpr, PartialCalc, Snapshot, Snapshotter, Store, TransactionError, VirtualAlgorithm,
    VirtualHourglass, VirtualPiggyback,
};
use tarn_study::{Shape, SnapshotError};

/// Calls a function once for each algorithm.
macro_rules! each {
    ($check:ident) => {
        $check::<Calc>();
        $check::<PartialCalc>();
        $check::<Cpr>();
        $check::<VirtualHourglass>();
        $check::<VirtualPiggyback>();
    };
}

fn shape() -> Shape {
    Shape::new(100, 16).unwrap()
}

fn put<V: VirtualAlgorithm>(store: &Store<V>, row: usize, fields: [u64; 2]) {
    store.run(|transaction| transaction.write(row, &fields)).unwrap();
}

fn get<V: VirtualAlgorithm>(store: &Store<V>, row: usize) -> [u64; 2] {
    let mut fields = [0; 2];
    store.run(|transaction| transaction.read(row, &mut fields)).unwrap();
    fields
}

fn merge<V: VirtualAlgorithm>(snapshot: &mut Snapshot<'_, V>, rows: &mut [[u64; 2]]) {
    let visit = |row: usize, fields: &[u64]| {
        rows[row].copy_from_slice(fields);
        Ok::<_, SnapshotError>(())
    };
    snapshot.traverse(visit).unwrap();
}

fn rows_and_lengths<V: VirtualAlgorithm>() {
    let (store, _snapshotter) = Store::<V>::new(shape()).unwrap();
    let mut transaction = store.begin();
    let error = transaction.read(100, &mut [0; 2]).unwrap_err();
    assert_eq!(error.to_string(), "there is no row 100: the rows are 0 to 99");
    assert_eq!(transaction.write(usize::MAX, &[0; 2]).unwrap_err(), {
        TransactionError::Access(SnapshotError::NoSuchRow { row: usize::MAX, rows: 100 })
    });
    for outcome in [transaction.read(0, &mut [0; 1]), transaction.write(0, &[0; 3])] {
        assert!(matches!(outcome, Err(TransactionError::Access(SnapshotError::Fields { fields: 2, .. }))));
    }
    transaction.write(0, &[1, 2]).unwrap();
    transaction.commit().unwrap();
    assert_eq!(get(&store, 0), [1, 2], "{}: a transaction survives what it is refused", V::NAME);
}

#[test]
fn rows_and_lengths_that_do_not_exist_are_refused() {
    each!(rows_and_lengths);
}

fn beyond_memory<V: VirtualAlgorithm>() {
    for rows in [1 << 42, usize::MAX / 64, usize::MAX] {
        let need = rows as u128 * 64 * V::COPIES as u128;
        let error = Store::<V>::new(Shape::new(rows, 64).unwrap()).err();
        let Some(SnapshotError::Memory { need_bytes, have_bytes: Some(_) }) = error else {
            panic!("{}: {error:?}", V::NAME)
        };
        assert_eq!(need_bytes, need, "{}", V::NAME);
    }
}

#[test]
fn rows_beyond_memory_are_refused() {
    each!(beyond_memory);
}

fn own_writes<V: VirtualAlgorithm>() {
    let (store, _snapshotter) = Store::<V>::new(shape()).unwrap();
    let mut transaction = store.begin();
    let mut fields = [9; 2];
    transaction.read(5, &mut fields).unwrap();
    assert_eq!(fields, [0, 0]);
    for content in [[1, 1], [2, 2]] {
        transaction.write(5, &content).unwrap();
        transaction.write(3, &content).unwrap();
        transaction.read(5, &mut fields).unwrap();
        assert_eq!(fields, content, "{}", V::NAME);
    }
    transaction.commit().unwrap();
    assert_eq!((get(&store, 3), get(&store, 5)), ([2, 2], [2, 2]), "{}", V::NAME);
}

#[test]
fn a_transaction_reads_what_it_has_written() {
    each!(own_writes);
}

fn early_ends<V: VirtualAlgorithm>() {
    let (store, mut snapshotter): (_, Snapshotter<V>) = Store::new(shape()).unwrap();
    put(&store, 0, [1, 1]);
    put(&store, 1, [1, 1]);
    #[derive(Debug, PartialEq)]
    struct Poor;
    let ended = store.run(|transaction| {
        transaction.write(0, &[7, 7]).unwrap();
        transaction.read(1, &mut [0; 2]).unwrap();
        Err::<(), _>(Poor)
    });
    assert_eq!(ended, Err(Poor));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.run(|transaction| -> Result<(), TransactionError> {
            transaction.write(1, &[8, 8])?;
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    let mut rows = vec![[0; 2]; 100];
    let mut snapshot = snapshotter.take();
    let visit = |row, _: &[u64]| if row == 1 { panic!("on purpose") } else { Ok::<_, SnapshotError>(()) };
    assert!(catch_unwind(AssertUnwindSafe(|| snapshot.traverse(visit))).is_err());
    drop(snapshot);
    assert_eq!((get(&store, 0), get(&store, 1)), ([1, 1], [1, 1]), "{}: nothing is changed", V::NAME);
    put(&store, 2, [3, 3]);
    merge(&mut snapshotter.take(), &mut rows);
    assert_eq!(rows[..4], [[1, 1], [1, 1], [3, 3], [0, 0]], "{}", V::NAME);
    assert_eq!(store.counts(), Counts::default(), "{}: every lock was given back", V::NAME);
}

#[test]
fn a_transaction_that_ends_early_changes_nothing_and_holds_nothing() {
    each!(early_ends);
}

fn conflicts<V: VirtualAlgorithm>() {
    let (store, _snapshotter) = Store::<V>::new(shape()).unwrap();
    let (mut one, mut other) = (store.begin(), store.begin());
    one.read(0, &mut [0; 2]).unwrap();
    other.read(0, &mut [0; 2]).unwrap();
    assert_eq!(other.write(0, &[1, 1]), Err(TransactionError::Held { row: 0 }));
    assert_eq!(other.read(50, &mut [0; 2]), Err(TransactionError::Held { row: 0 }), "it has to end");
    assert_eq!(other.commit(), Err(TransactionError::Held { row: 0 }));
    one.write(0, &[2, 2]).unwrap();
    let mut third = store.begin();
    assert_eq!(third.read(0, &mut [0; 2]), Err(TransactionError::Held { row: 0 }));
    one.commit().unwrap();
    drop(third);
    assert_eq!(get(&store, 0), [2, 2]);
    assert_eq!(store.counts(), Counts { conflicts: 2, restarts: 0 }, "{}", V::NAME);
}

#[test]
fn who_does_not_get_a_lock_aborts_and_is_counted() {
    each!(conflicts);
}

fn later_periods<V: VirtualAlgorithm>() {
    let (store, mut snapshotter): (_, Snapshotter<V>) = Store::new(shape()).unwrap();
    let (mut rows, mut model) = (vec![[0; 2]; 100], vec![[0; 2]; 100]);
    // Row 0 always, row 1 every other period, row 2 every third, row 3 once; some snapshots are abandoned.
    for period in 1..60_u64 {
        for row in (0..3).filter(|row| period % (row + 1) == 0).chain((period == 5).then_some(3)) {
            model[row as usize] = [period, row];
            put(&store, row as usize, [period, row]);
        }
        let mut snapshot = snapshotter.take();
        put(&store, 4, [period, 4]);
        if period % 7 != 0 {
            merge(&mut snapshot, &mut rows);
            assert_eq!(rows, model, "{} period {period}", V::NAME);
        }
        model[4] = [period, 4];
    }
}

#[test]
fn snapshot_after_snapshot_is_the_store_at_its_cut() {
    each!(later_periods);
}

fn reads_of_long_ago<V: VirtualAlgorithm>() {
    // The lock of a row keeps 12 bits of the version of its last read. No row is read; each is written once.
    const KEPT: u64 = 1 << 12;
    let (store, mut snapshotter) = Store::<V>::new(shape()).unwrap();
    for version in 0..KEPT + 8 {
        let mut snapshot = snapshotter.take();
        snapshot.traverse(|_, _| Ok::<_, SnapshotError>(())).unwrap();
        drop(snapshot);
        if let Some(row) = (version + 8).checked_sub(KEPT) {
            let written = store.begin().write(row as usize, &[version, 1]);
            assert_eq!(written, Ok(()), "{}, after snapshot {version}", V::NAME);
        }
    }
}

#[test]
fn a_row_that_was_read_long_ago_is_not_taken_for_one_of_a_later_version() {
    each!(reads_of_long_ago);
}
