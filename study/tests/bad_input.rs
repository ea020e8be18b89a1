//! Bad input is refused with an error that names it. After a panic of a client or a reader, the next snapshot
//! of the array is right.

#![allow(clippy::unwrap_used)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use tarn_study::vls::{self, StoreError};
use tarn_study::{
    Algorithm, Array, AsyncWriteProtection, CopyOnUpdate, Fork, HotColdFork, Hourglass, Naive, Piggyback,
    PingPong, PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback, ReturningFork, Shape,
    SnapshotError, WriteProtection, Zigzag,
};

#[test]
fn shapes_and_clients_that_cannot_be_are_refused() {
    assert_eq!(Shape::new(0, 8), Err(SnapshotError::NoRows));
    for bytes in [0, 4, 12] {
        assert_eq!(Shape::new(1, bytes), Err(SnapshotError::RowBytes(bytes)));
    }
    let make = |rows, bytes, clients| Array::<Naive>::new(Shape::new(rows, bytes).unwrap(), clients).err();
    assert_eq!(make(100, 8, 0), Some(SnapshotError::Clients { clients: 0, rows: 100 }));
    assert_eq!(make(100, 8, 3), Some(SnapshotError::Clients { clients: 3, rows: 100 }));
    assert_eq!(make(100, 8, 2), None);
}

#[test]
fn rows_beyond_memory_are_refused() {
    fn refuses<A: Algorithm>(rows: usize) {
        let need = rows as u128 * 64 * A::COPIES as u128;
        let error = Array::<A>::new(Shape::new(rows, 64).unwrap(), 1).err().unwrap();
        let SnapshotError::Memory { need_bytes, have_bytes: Some(have) } = error else { panic!("{error}") };
        assert_eq!(need_bytes, need);
        let text = format!("the array needs {need} bytes of memory, and {have} can be had; make it smaller");
        assert_eq!(error.to_string(), text);
    }
    // More than an address space has, so that no machine suffers where the check is missing, and more than a
    // number holds.
    for rows in [1 << 42, usize::MAX / 64, usize::MAX] {
        refuses::<Naive>(rows);
        refuses::<CopyOnUpdate>(rows);
        refuses::<Fork>(rows);
        refuses::<ReturningFork>(rows);
        refuses::<HotColdFork>(rows);
        refuses::<Zigzag>(rows);
        refuses::<PingPong>(rows);
        refuses::<Hourglass>(rows);
        refuses::<Piggyback>(rows);
        refuses::<PublishedCopyOnUpdate>(rows);
        refuses::<PublishedHourglass>(rows);
        refuses::<PublishedPiggyback>(rows);
        refuses::<WriteProtection>(rows);
        refuses::<AsyncWriteProtection>(rows);
    }
}

#[test]
fn a_store_of_records_beyond_memory_is_refused() {
    for rows in [1 << 42, usize::MAX / 64, usize::MAX] {
        let store = vls::Store::<u64>::new(Shape::new(rows, 64).unwrap(), None, vls::Keep::Shared);
        let Some(StoreError::Memory(SnapshotError::Memory { need_bytes, .. })) = store.err() else {
            panic!("{rows} rows are refused for what the machine has")
        };
        assert_eq!(need_bytes, rows as u128 * 64);
    }
}

#[test]
fn foreign_rows_and_fields_that_do_not_exist_are_refused() {
    let (mut clients, _snapshotter) = Array::<Naive>::new(Shape::new(128, 16).unwrap(), 2).unwrap();
    let mut turn = clients[0].turn();
    let error = turn.write_field(64, 0, 1).unwrap_err();
    assert_eq!(error.to_string(), "row 64 is not among the client's rows 0 to 63");
    for outcome in [
        turn.write_field(0, 2, 1),
        turn.write_item(0, 4, 1),
        turn.write(0, &[1]),
        turn.read(0, &mut [0; 3]),
        turn.read_field(0, 2).map(|_| ()),
    ] {
        assert!(matches!(outcome, Err(SnapshotError::Fields { fields: 2, .. })), "{outcome:?}");
    }
    let error = turn.write_item(64, 0, 1).unwrap_err();
    assert_eq!(error.to_string(), "row 64 is not among the client's rows 0 to 63");
}

/// A client, a visit and a cut that panic, one after the other; then a snapshot of the written rows.
fn panics<A: Algorithm>() {
    let (mut clients, mut snapshotter) = Array::<A>::new(Shape::new(100, 16).unwrap(), 1).unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut turn = clients[0].turn();
        turn.write_field(1, 0, 10).unwrap();
        panic!("on purpose");
    }));
    assert!(panicked.is_err());
    let visit = AssertUnwindSafe(|| {
        let visit = |row, _: &[u64]| if row == 2 { panic!("on purpose") } else { Ok::<_, SnapshotError>(()) };
        snapshotter.take().unwrap().traverse(visit)
    });
    assert!(catch_unwind(visit).is_err(), "{}", A::NAME);
    clients[0].turn().write_field(2, 0, 20).unwrap();
    let cut = AssertUnwindSafe(|| drop(snapshotter.take_and(|| panic!("on purpose"))));
    assert!(catch_unwind(cut).is_err(), "{}", A::NAME);
    clients[0].turn().write_field(3, 1, 30).unwrap();

    let mut rows = vec![[0; 2]; 100];
    let mut snapshot = snapshotter.take().unwrap();
    clients[0].turn().write_field(3, 1, 31).unwrap();
    snapshot
        .traverse(|row, fields| {
            rows[row].copy_from_slice(fields);
            Ok::<_, SnapshotError>(())
        })
        .unwrap();
    assert_eq!(rows[..4], [[0, 0], [10, 0], [20, 0], [0, 30]], "{}", A::NAME);
}

#[test]
fn a_panic_spoils_no_later_snapshot() {
    panics::<Naive>();
    panics::<CopyOnUpdate>();
    panics::<Fork>();
    panics::<ReturningFork>();
    panics::<Zigzag>();
    panics::<PingPong>();
    panics::<Hourglass>();
    panics::<Piggyback>();
    panics::<PublishedCopyOnUpdate>();
    panics::<PublishedHourglass>();
    panics::<PublishedPiggyback>();
    panics::<WriteProtection>();
    panics::<AsyncWriteProtection>();
}

#[test]
fn an_array_ends_while_a_child_of_another_lives() {
    let shape = Shape::new(1000, 64).unwrap();
    let protected = Array::<WriteProtection>::new(shape, 1).unwrap();
    let (_clients, mut snapshotter) = Array::<Fork>::new(shape, 1).unwrap();
    let snapshot = snapshotter.take().unwrap();
    // The child has all that this process had open, the ends of pipes among it.
    drop(protected);
    drop(snapshot);
}
