//! Checkpoints are complete, of the instant of their snapshot, and either whole under their name or not
//! there. Those of the virtual algorithms are in `transaction_checkpoints.rs`.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_study::checkpoint::{CheckpointDir, CheckpointError, CheckpointReader};
use tarn_study::{
    Algorithm, Array, AsyncWriteProtection, Client, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback,
    PingPong, PublishedCopyOnUpdate, PublishedHourglass, PublishedPiggyback, ReturningFork, Shape,
    SnapshotError, WriteProtection, Zigzag,
};

/// All rows of a checkpoint.
fn rows_of(path: impl AsRef<Path>) -> Vec<Vec<u64>> {
    let mut rows = Vec::new();
    CheckpointReader::open(path)
        .unwrap()
        .rows(|row, fields| {
            assert_eq!(row, rows.len());
            rows.push(fields.to_vec());
        })
        .unwrap();
    rows
}

fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Writes here and there, to the array and to the model.
fn change<A: Algorithm>(client: &mut Client<A>, model: &mut [Vec<u64>], rng: &mut StdRng) {
    let mut turn = client.turn();
    for _ in 0..rng.random_range(0..model.len()) {
        let row = rng.random_range(0..model.len());
        let field = rng.random_range(0..model[row].len());
        let value = rng.random();
        turn.write_field(row, field, value).unwrap();
        model[row][field] = value;
    }
}

/// Checkpoints with writes before, between and after; some of them fail.
fn check<A: Algorithm>(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    // Several pieces of a megabyte, the last one not whole; and rows that are longer than that.
    let fields = [1, 8, 500, 140_000][seed as usize % 4];
    let shape = Shape::new(1_300_000 / (fields * 8) + 5, fields * 8).unwrap();
    let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1).unwrap();
    let mut model = vec![vec![0; fields]; shape.rows];
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape);
    let mut last: Option<Vec<Vec<u64>>> = None;
    for number in 0..6 {
        change(&mut clients[0], &mut model, &mut rng);
        let snapshot = snapshotter.take().unwrap();
        let at_cut = model.clone();
        change(&mut clients[0], &mut model, &mut rng);
        // The first ones, so that the base may be missing, and a later one.
        let fails = match number {
            0 | 4 => {
                std::os::unix::fs::symlink("/dev/full", place.path().join("rows.unfinished")).unwrap();
                Some(("write", libc::ENOSPC))
            }
            1 => {
                fs::create_dir(dir.file()).unwrap();
                Some(("rename", libc::EISDIR))
            }
            _ => None,
        };
        match snapshot.checkpoint(&mut dir) {
            Ok(()) => last = Some(at_cut),
            Err(CheckpointError::Io { action, source, .. }) => {
                let failure = (action, source.raw_os_error().unwrap());
                assert_eq!(Some(failure), fails, "{} seed {seed}: checkpoint {number}", A::NAME);
                if number == 1 {
                    fs::remove_dir(dir.file()).unwrap();
                }
            }
            Err(error) => panic!("{} seed {seed}: {error}", A::NAME),
        }
        assert_eq!(last.is_some(), dir.file().exists());
        if let Some(last) = &last {
            assert!(*last == rows_of(dir.file()), "{} seed {seed}: checkpoint {number}", A::NAME);
            assert_eq!(names(place.path()), ["rows.checkpoint"], "{}", A::NAME);
        }
    }
}

macro_rules! checkpoints {
    ($($name:ident: $algorithm:ty,)*) => {$(
        #[test]
        fn $name() {
            (0..4).for_each(check::<$algorithm>);
        }
    )*};
}

checkpoints! {
    checkpoints_of_naive_are_the_array_at_the_cut: Naive,
    checkpoints_of_copy_on_update_are_the_array_at_the_cut: CopyOnUpdate,
    checkpoints_of_fork_are_the_array_at_the_cut: Fork,
    checkpoints_of_returning_fork_are_the_array_at_the_cut: ReturningFork,
    checkpoints_of_zigzag_are_the_array_at_the_cut: Zigzag,
    checkpoints_of_ping_pong_are_the_array_at_the_cut: PingPong,
    checkpoints_of_hourglass_are_the_array_at_the_cut: Hourglass,
    checkpoints_of_piggyback_are_the_array_at_the_cut: Piggyback,
    checkpoints_of_published_copy_on_update_are_the_array_at_the_cut: PublishedCopyOnUpdate,
    checkpoints_of_published_hourglass_are_the_array_at_the_cut: PublishedHourglass,
    checkpoints_of_published_piggyback_are_the_array_at_the_cut: PublishedPiggyback,
    checkpoints_of_write_protection_are_the_array_at_the_cut: WriteProtection,
    checkpoints_of_async_write_protection_are_the_array_at_the_cut: AsyncWriteProtection,
}

/// A checkpoint that fails after its snapshot was traversed, and one between which and the next a snapshot
/// was traversed only.
fn traversed<A: Algorithm>() {
    let shape = Shape::new(100, 16).unwrap();
    let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape);
    snapshotter.take().unwrap().checkpoint(&mut dir).unwrap();
    clients[0].turn().write_field(5, 1, 7).unwrap();
    let mut snapshot = snapshotter.take().unwrap();
    snapshot.traverse(|_, _| Ok::<_, SnapshotError>(())).unwrap();
    std::os::unix::fs::symlink("/dev/full", place.path().join("rows.unfinished")).unwrap();
    snapshot.checkpoint(&mut dir).unwrap_err();
    clients[0].turn().write_field(6, 1, 8).unwrap();
    let mut snapshot = snapshotter.take().unwrap();
    snapshot.traverse(|_, _| Ok::<_, SnapshotError>(())).unwrap();
    snapshot.checkpoint(&mut dir).unwrap();
    assert_eq!(rows_of(dir.file())[4..8], [[0, 0], [0, 7], [0, 8], [0, 0]], "{}", A::NAME);

    clients[0].turn().write_field(7, 1, 9).unwrap();
    snapshotter.take().unwrap().traverse(|_, _| Ok::<_, SnapshotError>(())).unwrap();
    match snapshotter.take().unwrap().checkpoint(&mut dir) {
        Err(CheckpointError::NoBase { row: 0 }) if !A::FULL => {
            assert_eq!(rows_of(dir.file())[7], [0, 0], "{}", A::NAME);
        }
        outcome => {
            outcome.unwrap();
            assert_eq!(rows_of(dir.file())[7], [0, 9], "{}", A::NAME);
        }
    }
    assert_eq!(names(place.path()), ["rows.checkpoint"]);
}

#[test]
fn what_was_traversed_is_in_the_next_checkpoint_or_that_is_refused() {
    traversed::<Naive>();
    traversed::<CopyOnUpdate>();
    traversed::<Fork>();
    traversed::<ReturningFork>();
    traversed::<Zigzag>();
    traversed::<PingPong>();
    traversed::<Hourglass>();
    traversed::<Piggyback>();
    traversed::<PublishedCopyOnUpdate>();
    traversed::<PublishedHourglass>();
    traversed::<PublishedPiggyback>();
    traversed::<WriteProtection>();
    traversed::<AsyncWriteProtection>();
}

#[test]
fn changes_of_one_array_are_not_laid_over_another_one() {
    let shape = Shape::new(100, 16).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape);
    let (_, mut one) = Array::<Hourglass>::new(shape, 1).unwrap();
    let (_, mut other) = Array::<Hourglass>::new(shape, 1).unwrap();
    one.take().unwrap().checkpoint(&mut dir).unwrap();
    other.take().unwrap().checkpoint(&mut dir).unwrap();
    let outcome = one.take().unwrap().checkpoint(&mut dir);
    assert!(matches!(outcome, Err(CheckpointError::NoBase { row: 0 })), "{outcome:?}");
    other.take().unwrap().checkpoint(&mut dir).unwrap();
}

#[test]
fn a_full_snapshot_needs_nothing_of_the_checkpoint_before() {
    let shape = Shape::new(100, 16).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape);
    let (_clients, mut snapshotter) = Array::<Piggyback>::new(shape, 1).unwrap();
    snapshotter.take().unwrap().checkpoint(&mut dir).unwrap();
    fs::write(dir.file(), "damaged").unwrap();
    snapshotter.take().unwrap().checkpoint(&mut dir).unwrap();
    assert_eq!(rows_of(dir.file()).len(), 100);
}

#[test]
fn a_directory_that_cannot_be_written_is_told_and_the_next_checkpoint_works() {
    let shape = Shape::new(100, 16).unwrap();
    let (mut clients, mut snapshotter) = Array::<Hourglass>::new(shape, 1).unwrap();
    clients[0].turn().write_field(5, 1, 7).unwrap();
    let place = tempfile::tempdir().unwrap();
    // The last one lets no process create a file, not even root.
    for nowhere in [place.path().join("missing"), "/dev/null".into(), "/sys".into()] {
        let error = snapshotter.take().unwrap().checkpoint(&mut CheckpointDir::new(&nowhere, shape));
        let told = format!("cannot create {}: ", nowhere.join("rows.unfinished").display());
        assert!(error.unwrap_err().to_string().starts_with(&told));
    }
    let mut dir = CheckpointDir::new(place.path(), shape);
    snapshotter.take().unwrap().checkpoint(&mut dir).unwrap();
    assert_eq!(rows_of(dir.file())[5], [0, 7]);
}

#[test]
fn rows_that_no_checkpoint_has_are_not_made_up() {
    let shape = Shape::new(100, 16).unwrap();
    let (mut clients, mut snapshotter) = Array::<Hourglass>::new(shape, 1).unwrap();
    let place = tempfile::tempdir().unwrap();
    snapshotter.take().unwrap().checkpoint(&mut CheckpointDir::new(place.path(), shape)).unwrap();
    clients[0].turn().write_field(5, 1, 7).unwrap();
    // Another one, which knows nothing of the file there; it may be of any array.
    let mut dir = CheckpointDir::new(place.path(), shape);
    let outcome = snapshotter.take().unwrap().checkpoint(&mut dir);
    assert!(matches!(outcome, Err(CheckpointError::NoBase { row: 0 })), "{outcome:?}");
    let mut other = CheckpointDir::new(place.path(), Shape::new(100, 8).unwrap());
    let outcome = snapshotter.take().unwrap().checkpoint(&mut other);
    assert!(matches!(outcome, Err(CheckpointError::OtherShape { .. })), "{outcome:?}");
    assert_eq!(names(place.path()), ["rows.checkpoint"]);
}

#[test]
fn a_damaged_checkpoint_is_refused_with_the_place() {
    let shape = Shape::new(100_000, 16).unwrap();
    let (mut clients, mut snapshotter) = Array::<Naive>::new(shape, 1).unwrap();
    clients[0].turn().write_field(70_000, 1, 7).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut dir = CheckpointDir::new(place.path(), shape);
    snapshotter.take().unwrap().checkpoint(&mut dir).unwrap();
    let whole = fs::read(dir.file()).unwrap();
    let refusal = |bytes: &[u8]| {
        let path = place.path().join("damaged");
        fs::write(&path, bytes).unwrap();
        match CheckpointReader::open(&path).and_then(|reader| reader.rows(|_, _| ())) {
            Err(CheckpointError::Damaged { offset, .. }) => offset,
            outcome => panic!("{outcome:?}"),
        }
    };
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        refusal(&bytes)
    };
    assert_eq!(flipped(0), 0);
    assert_eq!(flipped(24), 32, "a header that tells other rows");
    assert_eq!(flipped(4096), 4096);
    let second_piece = 4096 + (1 << 20);
    assert_eq!(flipped(second_piece + 12_345), second_piece as u64);
    let trailer = 4096 + 1_600_000;
    assert_eq!(flipped(trailer), trailer as u64);
    assert_eq!(flipped(whole.len() - 1), trailer as u64);
    assert_eq!(refusal(&whole[..4000]), 4000);
    assert_eq!(refusal(&whole[..whole.len() - 1]), whole.len() as u64 - 1);
    assert_eq!(refusal(&[&whole[..], &[0]].concat()), whole.len() as u64);
}
