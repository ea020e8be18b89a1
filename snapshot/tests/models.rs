//! All orders in which a client and the snapshotter may act, tried out by loom on tiny arrays.
//!
//! `cargo xtask ci models` runs them.

#![cfg(loom)]
#![allow(clippy::unwrap_used)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use tarn_snapshot::{
    Algorithm, Array, CopyOnUpdate, Hourglass, Naive, Piggyback, PingPong, Shape, SnapshotError, Zigzag,
};

const ROWS: usize = 2;
const FIELDS: usize = 2;

/// A client writes one field a turn, each with the number of the turn, and reads it back; meanwhile two
/// snapshots are taken. What they show must be the state after as many turns as the cut saw.
fn check<A: Algorithm + 'static>(plan: &'static [(usize, usize)]) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let shape = Shape::new(ROWS, 8 * FIELDS).unwrap();
        let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1).unwrap();
        let mut client = clients.pop().unwrap();
        let turns = Arc::new(AtomicU64::new(0));
        let turns_of_client = turns.clone();
        let writer = thread::spawn(move || {
            for (number, (row, field)) in plan.iter().enumerate() {
                let value = number as u64 + 1;
                let mut turn = client.turn();
                turn.write_field(*row, *field, value).unwrap();
                let state = state_after(plan, number + 1);
                let mut fields = [0; FIELDS];
                turn.read(*row, &mut fields).unwrap();
                assert_eq!(fields, state[*row], "{}: the newest content is read", A::NAME);
                turns_of_client.store(value, Ordering::Relaxed);
            }
        });
        let mut merged = [[0; FIELDS]; ROWS];
        for _ in 0..2 {
            let mut cut = 0;
            let mut snapshot = snapshotter.take_and(|| cut = turns.load(Ordering::Relaxed)).unwrap();
            snapshot
                .traverse(|row, fields| {
                    merged[row].copy_from_slice(fields);
                    Ok::<_, SnapshotError>(())
                })
                .unwrap();
            assert_eq!(merged, state_after(plan, cut as usize), "{}: after {cut} turns", A::NAME);
        }
        writer.join().unwrap();
    });
}

fn state_after(plan: &[(usize, usize)], turns: usize) -> [[u64; FIELDS]; ROWS] {
    let mut state = [[0; FIELDS]; ROWS];
    for (number, (row, field)) in plan[..turns].iter().enumerate() {
        state[*row][*field] = number as u64 + 1;
    }
    state
}

macro_rules! models {
    ($($name:ident: $algorithm:ty,)*) => {$(
        #[test]
        fn $name() {
            check::<$algorithm>(&[(0, 0), (0, 1)]);
            check::<$algorithm>(&[(0, 0), (1, 0), (0, 1)]);
        }
    )*};
}

models! {
    naive: Naive,
    copy_on_update: CopyOnUpdate,
    zigzag: Zigzag,
    ping_pong: PingPong,
    hourglass: Hourglass,
    piggyback: Piggyback,
}
