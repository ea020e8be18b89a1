//! Checks that every snapshot of every algorithm is the array at its cut: not one write earlier or later, for
//! rows that are written always, sometimes and never.
//!
//! ```text
//!   client       write, note, write, note … ──┐ what it noted before the cut
//!   snapshotter               cut ────────────┴─► played onto the model
//!                             traversal ────────► the rows ── the same? ── the model
//! ```
//!
//! Clients write rising values and record them; they read too, and must see their last writes. A seed decides
//! on the array and on all actions; only the interleaving of the threads is left to chance. All seeds
//! together take 10,000 snapshots; `TARN_SEED=7` tries one alone.
//!
//! Where a checkpoint is more than a traversal that is written down, as that of a forked child is, snapshots
//! of larger arrays become checkpoints too, whose rows are judged in the same way.

use std::ops::Range;
use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::yield_now;

use rand::distr::weighted::WeightedIndex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::mutant::{Faithful, Mutated, rejects};
use crate::checkpoint::{CheckpointDir, CheckpointReader};
use crate::{
    Algorithm, Array, AsyncWriteProtection, Client, CopyOnUpdate, Fork, HotColdFork, Hourglass, Naive,
    Piggyback, PingPong, PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback, ReturningFork, Shape,
    Snapshot, SnapshotError, Snapshotter, WriteProtection, Zigzag, copy_on_update, fork, hourglass,
    piggyback, protection, published, zigzag,
};

/// Seeds and snapshots of each: with fourteen algorithms 20,300 snapshots.
const SEEDS: u64 = if cfg!(miri) { 1 } else { 29 };
const SNAPSHOTS: usize = if cfg!(miri) { 3 } else { 50 };
const CLIENTS_MAX: usize = if cfg!(miri) { 1 } else { 3 };
/// Fields of an array, about, where it has no long rows.
const FIELDS_OF_ALL: usize = if cfg!(miri) { 200 } else { 20_000 };
/// The same of an array whose checkpoints are judged, which has several pieces.
const FIELDS_OF_PIECES: usize = 400_000;
/// Seeds of such arrays, and snapshots of each.
const SEEDS_OF_PIECES: u64 = 8;
const SNAPSHOTS_OF_PIECES: usize = 12;
/// A row has less than two to the power of this many fields, or as many.
const FIELDS_LOG2_MAX: u32 = if cfg!(miri) { 2 } else { 9 };
/// Writes since the last cut after which a client gives way to the others between its turns.
const AHEAD: usize = if cfg!(miri) { 20 } else { 3000 };

/// A part of a row.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    Field(usize),
    /// Half a field.
    Item(usize),
}

impl Part {
    fn draw(rng: &mut StdRng, fields: usize) -> Part {
        match rng.random_range(0..10) {
            0..3 => Part::Whole,
            3..7 => Part::Field(rng.random_range(0..fields)),
            _ => Part::Item(rng.random_range(0..fields * 2)),
        }
    }
}

/// A part of a row that was written.
struct Written {
    row: usize,
    part: Part,
    value: u64,
}

impl Written {
    fn field_of(&self, field: usize) -> u64 {
        self.value.wrapping_add((field as u64) << 40)
    }

    fn play(&self, model: &mut [Vec<u64>]) {
        match self.part {
            Part::Field(field) => model[self.row][field] = self.value,
            Part::Item(item) => {
                let mut halves = [model[self.row][item / 2] as u32, (model[self.row][item / 2] >> 32) as u32];
                halves[item % 2] = self.value as u32;
                model[self.row][item / 2] = u64::from(halves[1]) << 32 | u64::from(halves[0]);
            }
            Part::Whole => {
                for field in 0..model[self.row].len() {
                    model[self.row][field] = self.field_of(field);
                }
            }
        }
    }
}

/// The writes of a client since the last cut.
type Notes = Mutex<Vec<Written>>;

/// The distribution of writes over a range of rows: many times, a few times; the last third never.
enum Access {
    /// The first third alike, the second seldom.
    Uniform,
    /// The first ones most.
    Zipfian(WeightedIndex<f64>),
}

impl Access {
    fn draw(rng: &mut StdRng, rows: &Range<usize>) -> Access {
        let exponent: f64 = rng.random_range(0.5..1.5);
        let weights = (1..=rows.len() * 2 / 3).map(|rank| (rank as f64).powf(-exponent));
        let zipf = WeightedIndex::new(weights).expect("there are rows");
        if rng.random() { Access::Uniform } else { Access::Zipfian(zipf) }
    }

    fn row(&self, rng: &mut StdRng, rows: &Range<usize>) -> usize {
        let third = rows.len() / 3;
        let index = match self {
            Access::Uniform if rng.random_ratio(1, 200) => third + rng.random_range(0..third),
            Access::Uniform => rng.random_range(0..third),
            Access::Zipfian(zipf) => rng.sample(zipf),
        };
        rows.start + index
    }
}

/// Writes until `stop` is set; checks that it reads what it has written.
fn write_and_read<A: Algorithm>(
    mut client: Client<A>,
    seed: u64,
    shape: Shape,
    stop: &AtomicBool,
    notes: &Notes,
) {
    let mut rng = StdRng::seed_from_u64(seed);
    let rows = client.rows();
    let access = Access::draw(&mut rng, &rows);
    let mut model = vec![vec![0; shape.fields]; rows.end];
    let mut buffer = vec![0; shape.fields];
    let mut value = 0;
    while !stop.load(Ordering::Relaxed) {
        let mut turn = client.turn();
        // Within the turn, so that the cut sees a turn whole or not.
        let mut notes = notes.lock().expect("who notes does not panic");
        for _ in 0..rng.random_range(1..20) {
            value += 1;
            let part = Part::draw(&mut rng, shape.fields);
            let written = Written { row: access.row(&mut rng, &rows), part, value };
            match part {
                Part::Field(field) => turn.write_field(written.row, field, value),
                Part::Item(item) => turn.write_item(written.row, item, value as u32),
                Part::Whole => {
                    (0..shape.fields).for_each(|field| buffer[field] = written.field_of(field));
                    turn.write(written.row, &buffer)
                }
            }
            .expect("the row is the client's");
            written.play(&mut model);
            notes.push(written);
        }
        let is_ahead = notes.len() > AHEAD;
        drop(notes);
        let row = rng.random_range(rows.clone());
        let field = rng.random_range(0..shape.fields);
        turn.read(row, &mut buffer).expect("the row is the client's");
        assert_eq!(buffer, model[row], "{}: seed {seed}: row {row} is read as it was written", A::NAME);
        let read = turn.read_field(row, field).expect("the row is the client's");
        assert_eq!(read, model[row][field], "{}: seed {seed}: field {field} of row {row} is read", A::NAME);
        drop(turn);
        if is_ahead {
            yield_now();
        }
    }
}

/// Takes snapshots and compares them with the clients' records.
struct Judge<'n, A: Algorithm> {
    snapshotter: Snapshotter<A>,
    shape: Shape,
    seed: u64,
    rng: StdRng,
    notes: &'n [Notes],
    /// Half of the snapshots become checkpoints here.
    dir: Option<CheckpointDir>,
    /// The rows at the last cut, by the notes.
    model: Vec<Vec<u64>>,
    /// The rows by the snapshots, each laid over those before.
    merged: Vec<Vec<u64>>,
    /// The number of snapshots that have been shown completely.
    whole: usize,
}

/// A traversal broke off.
struct Enough;

impl From<SnapshotError> for Enough {
    fn from(error: SnapshotError) -> Enough {
        panic!("{error}")
    }
}

impl<A: Algorithm> Judge<'_, A> {
    fn judge(&mut self, number: usize) {
        let mut written = Vec::new();
        let cut = || {
            let notes = self.notes.iter();
            written
                .extend(notes.flat_map(|notes| std::mem::take(&mut *notes.lock().expect("nobody panicked"))));
        };
        let mut snapshot = self.snapshotter.take_and(cut).expect("a snapshot is taken");
        written.iter().for_each(|written| written.play(&mut self.model));
        if self.rng.random_ratio(1, 4) && break_off(&mut snapshot, &mut self.rng, self.shape) {
            // Abandoned: the next one shows its changes too.
            return;
        }
        let mut shown = vec![false; self.shape.rows];
        let mut visit = |row: usize, fields: &[u64]| {
            assert!(!std::mem::replace(&mut shown[row], true), "{}: row {row} is shown twice", A::NAME);
            self.merged[row].copy_from_slice(fields);
            if row.is_multiple_of(97) {
                yield_now();
            }
            Ok::<_, SnapshotError>(())
        };
        match self.dir.as_mut().filter(|_| self.rng.random()) {
            None => snapshot.traverse(visit).expect("a snapshot is shown"),
            Some(dir) => {
                snapshot.checkpoint(dir).expect("a snapshot is written");
                let rows = CheckpointReader::open(dir.file())
                    .and_then(|own| own.rows(|row, fields| visit(row, fields).expect("it goes on")));
                rows.expect("a checkpoint is read");
            }
        }
        let (name, seed, rows) = (A::NAME, self.seed, self.shape.rows);
        if A::FULL || self.whole == 0 {
            assert!(shown.iter().all(|shown| *shown), "{name}: seed {seed}: snapshot {number} is full");
        }
        for (row, (is, should)) in self.merged.iter().zip(&self.model).enumerate() {
            assert_eq!(is, should, "{name}: seed {seed}: snapshot {number}, row {row} of {rows}");
        }
        self.whole += 1;
    }
}

/// Breaks a traversal off somewhere. Returns whether the snapshot is to be abandoned.
fn break_off<A: Algorithm>(snapshot: &mut Snapshot<'_, A>, rng: &mut StdRng, shape: Shape) -> bool {
    let mut left = rng.random_range(0..shape.rows);
    let broken = snapshot.traverse(|_, _| {
        left = left.checked_sub(1).ok_or(Enough)?;
        Ok::<_, Enough>(())
    });
    broken.is_err() && rng.random()
}

/// Stops the clients, also when the judge panics.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Has up to three clients write to an array of up to some hundred rows of 8 to 4096 bytes, and judges
/// snapshots of it.
fn check<A: Algorithm>(seed: u64, snapshots: usize) {
    check_of::<A>(seed, snapshots, FIELDS_OF_ALL, None);
}

/// The same of a larger array, half of whose snapshots become checkpoints. REQUIRES: they have all rows.
fn check_checkpoints<A: Algorithm>(seed: u64) {
    let place = tempfile::tempdir().expect("a directory");
    check_of::<A>(seed, SNAPSHOTS_OF_PIECES, FIELDS_OF_PIECES, Some(place.path()));
}

fn check_of<A: Algorithm>(seed: u64, snapshots: usize, fields_of_all: usize, place: Option<&Path>) {
    let mut rng = StdRng::seed_from_u64(seed);
    let clients = rng.random_range(1..=CLIENTS_MAX);
    let fields_max = 1 << rng.random_range(0..=FIELDS_LOG2_MAX);
    let fields = rng.random_range(fields_max / 2 + 1..=fields_max);
    let rows_min = clients * 64;
    let rows = rng.random_range(rows_min..=rows_min + fields_of_all / fields.max(32));
    let shape = Shape::new(rows, 8 * fields).expect("a shape");
    let dir = place.map(|place| CheckpointDir::new(place, shape));
    let (handles, snapshotter) = Array::<A>::new(shape, clients).expect("an array");
    let notes: Vec<Notes> = (0..clients).map(|_| Notes::default()).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = |(index, client)| {
            let (stop, notes): (&AtomicBool, &Notes) = (&stop, &notes[index]);
            scope.spawn(move || write_and_read(client, seed * 10 + index as u64, shape, stop, notes))
        };
        let threads: Vec<_> = handles.into_iter().enumerate().map(client).collect();
        let stopping = Stop(&stop);
        let zeros = || vec![vec![0; fields]; rows];
        let (model, merged) = (zeros(), zeros());
        let mut judge = Judge { snapshotter, shape, seed, rng, notes: &notes, dir, model, merged, whole: 0 };
        (0..snapshots).for_each(|number| judge.judge(number));
        drop(stopping);
        for thread in threads {
            thread.join().unwrap_or_else(|complaint| resume_unwind(complaint));
        }
    });
}

/// Judges an algorithm under each seed, or under that which the environment names.
fn check_all<A: Algorithm>() {
    if is_refused::<A>() {
        return;
    }
    match std::env::var("TARN_SEED") {
        Ok(seed) => check::<A>(seed.parse().expect("TARN_SEED is a number"), SNAPSHOTS),
        Err(_) => (0..SEEDS).for_each(|seed| check::<A>(seed, SNAPSHOTS)),
    }
}

/// Says that the kernel, or its settings, refuse what an algorithm needs, where they do.
fn is_refused<A: Algorithm>() -> bool {
    let refused = A::new(Shape::new(64, 8).expect("a shape")).err();
    let refused = refused.filter(|error| matches!(error, SnapshotError::System { .. }));
    refused.inspect(|error| eprintln!("{} is not tested: {error}", A::NAME)).is_some()
}

macro_rules! shown_as_at_the_cut {
    ($($(#[$unless:meta])? $name:ident: $algorithm:ty,)*) => {$(
        #[test]
        $(#[$unless])?
        fn $name() {
            check_all::<$algorithm>();
        }
    )*};
}

shown_as_at_the_cut! {
    naive_shows_the_array_at_the_cut: Naive,
    copy_on_update_shows_the_array_at_the_cut: CopyOnUpdate,
    #[cfg_attr(miri, ignore = "miri has one process")]
    fork_shows_the_array_at_the_cut: Fork,
    #[cfg_attr(miri, ignore = "miri has one process")]
    hot_cold_fork_shows_the_array_at_the_cut: HotColdFork,
    #[cfg_attr(miri, ignore = "miri has one process")]
    returning_fork_shows_the_array_at_the_cut: ReturningFork,
    zigzag_shows_the_array_at_the_cut: Zigzag,
    ping_pong_shows_the_array_at_the_cut: PingPong,
    hourglass_shows_the_array_at_the_cut: Hourglass,
    piggyback_shows_the_array_at_the_cut: Piggyback,
    #[cfg_attr(miri, ignore = "miri has no page tables")]
    write_protection_shows_the_array_at_the_cut: WriteProtection,
    #[cfg_attr(miri, ignore = "miri has no page tables")]
    async_write_protection_shows_the_array_at_the_cut: AsyncWriteProtection,
    published_copy_on_update_shows_the_array_at_the_cut: PublishedCopyOnUpdate,
    published_hourglass_shows_the_array_at_the_cut: PublishedHourglass,
    published_piggyback_shows_the_array_at_the_cut: PublishedPiggyback,
}

#[test]
fn mutants_that_do_nothing_otherwise_pass() {
    (0..3).for_each(|seed| {
        check::<Mutated<Faithful<Hourglass>>>(seed, SNAPSHOTS);
        check::<Mutated<Faithful<PingPong>>>(seed, SNAPSHOTS);
        check::<Mutated<Faithful<Piggyback>>>(seed, SNAPSHOTS);
    });
}

#[test]
#[cfg_attr(miri, ignore = "miri has one process")]
fn checkpoints_of_forked_children_have_the_array_at_the_cut() {
    (0..SEEDS_OF_PIECES).for_each(|seed| {
        check_checkpoints::<Fork>(seed);
        if !is_refused::<HotColdFork>() {
            check_checkpoints::<HotColdFork>(seed);
        }
        check_checkpoints::<Mutated<Faithful<ReturningFork>>>(seed);
    });
}

macro_rules! rejected {
    ($($name:ident: $mutant:ty,)*) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "too few snapshots to meet the hole")]
        fn $name() {
            type Mutant = Mutated<$mutant>;
            if is_refused::<Mutant>() {
                return;
            }
            rejects(Mutant::NAME, || (0..SEEDS).for_each(|seed| check::<Mutant>(seed, SNAPSHOTS)));
        }
    )*};
}

macro_rules! rejected_by_checkpoints {
    ($($name:ident: $mutant:ty,)*) => {$(
        #[test]
        #[cfg_attr(miri, ignore = "miri has one process")]
        fn $name() {
            type Mutant = Mutated<$mutant>;
            rejects(Mutant::NAME, || (0..SEEDS_OF_PIECES).for_each(check_checkpoints::<Mutant>));
        }
    )*};
}

rejected_by_checkpoints! {
    fork_that_returns_pages_before_it_writes_them_is_rejected: fork::mutants::ReturnsBeforeItWrites,
    fork_that_returns_a_page_of_the_next_piece_is_rejected: fork::mutants::ReturnsOfTheNextPiece,
}

rejected! {
    fork_that_returns_pages_that_it_shows_is_rejected: fork::mutants::ReturnsWhatItShows,
    copy_on_update_that_looks_without_the_lock_is_rejected: copy_on_update::mutants::LooksWithoutTheLock,
    zigzag_that_writes_a_field_alone_is_rejected: zigzag::mutants::WritesAFieldAlone,
    hourglass_that_writes_a_field_alone_is_rejected: hourglass::mutants::WritesAFieldAlone,
    piggyback_that_clears_before_it_copies_is_rejected: piggyback::mutants::ClearsBeforeItCopies,
    piggyback_that_leaves_out_its_pass_is_rejected: piggyback::mutants::LeavesOutItsPass,
    write_protection_that_lifts_before_it_copies_is_rejected:
        protection::synchronous_mutants::LiftsBeforeItCopies,
    async_write_protection_that_forgets_abandoned_snapshots_is_rejected:
        protection::asynchronous_mutants::ForgetsAbandoned,
    published_copy_on_update_that_traverses_without_locks_is_rejected:
        published::copy_on_update_mutants::TraversesWithoutLocks,
    published_copy_on_update_that_writes_without_the_lock_is_rejected:
        published::copy_on_update_mutants::WritesWithoutTheLock,
    published_copy_on_update_that_copies_again_is_rejected: published::copy_on_update_mutants::CopiesAgain,
    published_hourglass_that_writes_a_field_alone_is_rejected:
        published::hourglass_mutants::WritesAFieldAlone,
    published_hourglass_that_clears_as_it_shows_is_rejected: published::hourglass_mutants::ClearsAsItShows,
    published_piggyback_that_clears_before_it_copies_is_rejected:
        published::piggyback_mutants::ClearsBeforeItCopies,
    published_piggyback_that_writes_before_it_tags_is_rejected:
        published::piggyback_mutants::WritesBeforeItTags,
}
