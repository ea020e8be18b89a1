//! Tries all orders in which a client and the snapshotter may act, by loom on tiny arrays.
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

use super::mutant::{Faithful, Mutated, rejects};
use crate::{
    Algorithm, Array, Client, CopyOnUpdate, Hourglass, Naive, Piggyback, PingPong, PublishedCopyOnUpdate,
    PublishedHourglass, PublishedPiggyback, Shape, SnapshotError, Zigzag, copy_on_update, hourglass,
    piggyback, published, zigzag,
};

const ROWS: usize = 2;
const FIELDS: usize = 2;
/// The number of times that a thread may be interrupted where it need not wait.
const PREEMPTIONS: usize = 2;

/// The row and the field that each turn of the client writes.
type Turns = &'static [(usize, usize)];

/// The actions of client and snapshotter.
struct Plan {
    turns: Turns,
    /// The number of turns that come before everything else, in a fixed order.
    ahead: usize,
    /// The first of the two snapshots is abandoned.
    gives_up: bool,
}

const PLANS: &[Plan] = &[
    Plan { turns: &[(0, 0), (0, 1)], ahead: 0, gives_up: false },
    Plan { turns: &[(0, 0), (1, 0), (0, 1)], ahead: 0, gives_up: false },
    Plan { turns: &[(0, 0), (0, 1), (0, 0)], ahead: 1, gives_up: false },
    Plan { turns: &[(0, 0), (0, 1)], ahead: 0, gives_up: true },
];

/// A client writes one field a turn, each with the number of the turn, and reads the row back; meanwhile two
/// snapshots are taken. Each must show the state after as many turns as the cut saw.
fn check<A: Algorithm + 'static>(plan: &'static Plan) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(PREEMPTIONS);
    model.check(move || {
        let shape = Shape::new(ROWS, 8 * FIELDS).expect("a shape");
        let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1).expect("an array");
        let mut client = clients.pop().expect("a client");
        let done = Arc::new(AtomicU64::new(0));
        (0..plan.ahead).for_each(|number| turn(&mut client, plan.turns, number, &done));
        let done_by_client = done.clone();
        let writer = thread::spawn(move || {
            let numbers = plan.ahead..plan.turns.len();
            numbers.for_each(|number| turn(&mut client, plan.turns, number, &done_by_client));
        });
        let mut merged = [[0; FIELDS]; ROWS];
        for number in 0..2 {
            let mut cut = 0;
            let at_cut = || cut = done.load(Ordering::Relaxed);
            let mut snapshot = snapshotter.take_and(at_cut).expect("a snapshot is taken");
            if plan.gives_up && number == 0 {
                continue;
            }
            let show = |row: usize, fields: &[u64]| {
                merged[row].copy_from_slice(fields);
                Ok::<_, SnapshotError>(())
            };
            snapshot.traverse(show).expect("a snapshot is shown");
            assert_eq!(merged, state_after(plan.turns, cut as usize), "{}: after {cut} turns", A::NAME);
        }
        writer.join().expect("the client ends");
    });
}

fn turn<A: Algorithm>(client: &mut Client<A>, turns: Turns, number: usize, done: &AtomicU64) {
    let (row, field) = turns[number];
    let mut turn = client.turn();
    turn.write_field(row, field, number as u64 + 1).expect("the row is the client's");
    let mut fields = [0; FIELDS];
    turn.read(row, &mut fields).expect("the row is the client's");
    assert_eq!(fields, state_after(turns, number + 1)[row], "{}: the newest content is read", A::NAME);
    done.store(number as u64 + 1, Ordering::Relaxed);
}

fn state_after(turns: Turns, done: usize) -> [[u64; FIELDS]; ROWS] {
    let mut state = [[0; FIELDS]; ROWS];
    for (number, (row, field)) in turns[..done].iter().enumerate() {
        state[*row][*field] = number as u64 + 1;
    }
    state
}

fn check_all<A: Algorithm + 'static>() {
    PLANS.iter().for_each(check::<A>);
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
    published_copy_on_update_holds_in_every_order: PublishedCopyOnUpdate,
    published_hourglass_holds_in_every_order: PublishedHourglass,
    published_piggyback_holds_in_every_order: PublishedPiggyback,
    a_mutant_that_does_nothing_otherwise_holds: Mutated<Faithful<Hourglass>>,
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
    copy_on_update_that_looks_relaxed_is_rejected: copy_on_update::relaxed_mutants::OrdersOneHalf<false>,
    copy_on_update_that_settles_relaxed_is_rejected: copy_on_update::relaxed_mutants::OrdersOneHalf<true>,
    copy_on_update_that_looks_without_the_lock_is_rejected: copy_on_update::mutants::LooksWithoutTheLock,
    zigzag_that_writes_a_field_alone_is_rejected: zigzag::mutants::WritesAFieldAlone,
    hourglass_that_writes_a_field_alone_is_rejected: hourglass::mutants::WritesAFieldAlone,
    piggyback_that_clears_before_it_copies_is_rejected: piggyback::mutants::ClearsBeforeItCopies,
    piggyback_that_leaves_out_its_pass_is_rejected: piggyback::mutants::LeavesOutItsPass,
    published_copy_on_update_that_traverses_without_locks_is_rejected:
        published::copy_on_update_mutants::TraversesWithoutLocks,
    published_copy_on_update_that_writes_without_the_lock_is_rejected:
        published::copy_on_update_mutants::WritesWithoutTheLock,
    published_copy_on_update_that_copies_again_is_rejected: published::copy_on_update_mutants::CopiesAgain,
    published_hourglass_that_writes_a_field_alone_is_rejected:
        published::hourglass_mutants::WritesAFieldAlone,
    published_piggyback_that_clears_before_it_copies_is_rejected:
        published::piggyback_mutants::ClearsBeforeItCopies,
    published_piggyback_that_writes_before_it_tags_is_rejected:
        published::piggyback_mutants::WritesBeforeItTags,
}
