//! All orders in which a client and the snapshotter may act, tried out by loom on tiny arrays.
//!
//! ```text
//!   client       turn 1: write, read   turn 2: write, read   …
//!   snapshotter  take, show            take, show                 in every order
//! ```
//!
//! `cargo xtask ci models` runs them.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;

use super::mutant::{Mutated, rejects};
use crate::{
    Algorithm, Array, CopyOnUpdate, Hourglass, Naive, Piggyback, PingPong, Shape, SnapshotError, Zigzag,
    copy_on_update, hourglass, piggyback, zigzag,
};

const ROWS: usize = 2;
const FIELDS: usize = 2;
/// How often a thread may be interrupted where it need not wait.
const PREEMPTIONS: usize = 2;

/// The row and the field that each turn of the client writes.
type Plan = &'static [(usize, usize)];

/// What becomes of the two snapshots.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Both are shown.
    Shown,
    /// The first is given up, the second is shown.
    GivenUp,
}

/// A client writes one field a turn, each with the number of the turn, and reads the row back; meanwhile two
/// snapshots are taken. What they show must be the state after as many turns as the cut saw.
fn check<A: Algorithm + 'static>(plan: Plan, fate: Fate) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let shape = Shape::new(ROWS, 8 * FIELDS).expect("a shape");
        let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1).expect("an array");
        let mut client = clients.pop().expect("a client");
        let turns = Arc::new(AtomicU64::new(0));
        let turns_of_client = turns.clone();
        let writer = thread::spawn(move || {
            for (number, (row, field)) in plan.iter().enumerate() {
                let value = number as u64 + 1;
                let mut turn = client.turn();
                turn.write_field(*row, *field, value).expect("the row is the client's");
                let state = state_after(plan, number + 1);
                let mut fields = [0; FIELDS];
                turn.read(*row, &mut fields).expect("the row is the client's");
                assert_eq!(fields, state[*row], "{}: the newest content is read", A::NAME);
                turns_of_client.store(value, Ordering::Relaxed);
            }
        });
        let mut merged = [[0; FIELDS]; ROWS];
        for number in 0..2 {
            let mut cut = 0;
            let at_cut = || cut = turns.load(Ordering::Relaxed);
            let mut snapshot = snapshotter.take_and(at_cut).expect("a snapshot is taken");
            if fate == Fate::GivenUp && number == 0 {
                continue;
            }
            let show = |row: usize, fields: &[u64]| {
                merged[row].copy_from_slice(fields);
                Ok::<_, SnapshotError>(())
            };
            snapshot.traverse(show).expect("a snapshot is shown");
            assert_eq!(merged, state_after(plan, cut as usize), "{}: after {cut} turns", A::NAME);
        }
        writer.join().expect("the client ends");
    });
}

fn state_after(plan: Plan, turns: usize) -> [[u64; FIELDS]; ROWS] {
    let mut state = [[0; FIELDS]; ROWS];
    for (number, (row, field)) in plan[..turns].iter().enumerate() {
        state[*row][*field] = number as u64 + 1;
    }
    state
}

fn check_all<A: Algorithm + 'static>() {
    check::<A>(&[(0, 0), (0, 1)], Fate::Shown);
    check::<A>(&[(0, 0), (1, 0), (0, 1)], Fate::Shown);
    check::<A>(&[(0, 0), (0, 1)], Fate::GivenUp);
}

macro_rules! models {
    ($($name:ident: $algorithm:ty,)*) => {$(
        #[test]
        fn $name() {
            check_all::<$algorithm>();
        }
    )*};
}

models! {
    naive_holds_in_every_order: Naive,
    copy_on_update_holds_in_every_order: CopyOnUpdate,
    zigzag_holds_in_every_order: Zigzag,
    ping_pong_holds_in_every_order: PingPong,
    hourglass_holds_in_every_order: Hourglass,
    piggyback_holds_in_every_order: Piggyback,
}

macro_rules! rejected {
    ($($name:ident: $mutant:ty,)*) => {$(
        #[test]
        fn $name() {
            type Mutant = Mutated<$mutant>;
            rejects(Mutant::NAME, check_all::<Mutant>);
        }
    )*};
}

rejected! {
    copy_on_update_that_looks_without_the_lock_is_rejected: copy_on_update::mutants::LooksWithoutTheLock,
    zigzag_that_writes_a_field_alone_is_rejected: zigzag::mutants::WritesAFieldAlone,
    hourglass_that_writes_a_field_alone_is_rejected: hourglass::mutants::WritesAFieldAlone,
    piggyback_that_clears_before_it_copies_is_rejected: piggyback::mutants::ClearsBeforeItCopies,
    piggyback_that_leaves_its_pass_unfinished_is_rejected: piggyback::mutants::LeavesItsPassUnfinished,
}
