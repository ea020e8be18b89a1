//! Every snapshot of every algorithm is the array at its cut: not one write earlier or later, for rows that
//! are written always, sometimes and never.
//!
//! Clients write values that rise, and note what they wrote. The cut notes how much each of them had. What
//! the snapshots show, merged where they hold only changes, must be those writes replayed up to the cut.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_snapshot::{
    Algorithm, Array, Client, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Shape,
    SnapshotError, Zigzag,
};

/// A field that was written, or with `field` none a whole row.
struct Written {
    row: usize,
    field: Option<usize>,
    value: u64,
}

/// A traversal broke off.
struct Enough;

impl From<SnapshotError> for Enough {
    fn from(error: SnapshotError) -> Enough {
        panic!("{error}")
    }
}

/// All that a client wrote.
type Log = Vec<Written>;

fn field_of(value: u64, field: usize) -> u64 {
    value.wrapping_add((field as u64) << 40)
}

fn play(model: &mut [Vec<u64>], written: &Written) {
    match written.field {
        Some(field) => model[written.row][field] = written.value,
        None => {
            for (field, to) in model[written.row].iter_mut().enumerate() {
                *to = field_of(written.value, field);
            }
        }
    }
}

/// Writes until told to stop; checks that it reads what it has written.
fn run<A: Algorithm>(
    mut client: Client<A>,
    seed: u64,
    fields: usize,
    stop: &AtomicBool,
    progress: &AtomicUsize,
) -> Log {
    let mut rng = StdRng::seed_from_u64(seed);
    let rows = client.rows();
    let mut model = vec![vec![0; fields]; rows.end];
    let mut log = Log::new();
    let mut buffer = vec![0; fields];
    while !stop.load(Ordering::Relaxed) && log.len() < 400_000 {
        let mut turn = client.turn();
        for _ in 0..rng.random_range(1..20) {
            // A third of the rows is written always, a third seldom, the rest never.
            let third = (rows.len() / 3).max(1);
            let seldom = rng.random_range(0..200) == 0;
            let row = rows.start
                + rng.random_range(0..third)
                + if seldom { third.min(rows.len() - third) } else { 0 };
            let value = log.len() as u64 + 1;
            let field = rng.random_bool(0.7).then(|| rng.random_range(0..fields));
            let written = Written { row, field, value };
            match field {
                Some(field) => turn.write_field(row, field, value).unwrap(),
                None => {
                    let whole: Vec<u64> = (0..fields).map(|field| field_of(value, field)).collect();
                    turn.write(row, &whole).unwrap();
                }
            }
            play(&mut model, &written);
            log.push(written);
            let row = rng.random_range(rows.clone());
            turn.read(row, &mut buffer).unwrap();
            assert_eq!(buffer, model[row], "{} seed {seed}: row {row} reads what was written last", A::NAME);
            let field = rng.random_range(0..fields);
            assert_eq!(turn.read_field(row, field).unwrap(), model[row][field], "{} seed {seed}", A::NAME);
        }
        // Within the turn, so that the cut sees a turn whole or not.
        progress.store(log.len(), Ordering::Relaxed);
    }
    log
}

fn check<A: Algorithm>(seed: u64, snapshots: usize) {
    let mut rng = StdRng::seed_from_u64(seed);
    let clients = rng.random_range(1..4);
    let shape = Shape::new(rng.random_range(clients * 64..600), 8 * rng.random_range(1..9)).unwrap();
    let (handles, mut snapshotter) = Array::<A>::new(shape, clients).unwrap();
    let stop = AtomicBool::new(false);
    let progress: Vec<AtomicUsize> = (0..clients).map(|_| AtomicUsize::new(0)).collect();
    // Each snapshot: how far the clients were, and the rows, merged into those of the snapshots before.
    let mut taken: Vec<(Vec<usize>, Vec<Vec<u64>>)> = Vec::new();
    let logs: Vec<Log> = std::thread::scope(|scope| {
        let threads: Vec<_> = handles
            .into_iter()
            .zip(&progress)
            .enumerate()
            .map(|(index, (client, progress))| {
                let stop = &stop;
                scope.spawn(move || run(client, seed * 10 + index as u64, shape.fields, stop, progress))
            })
            .collect();
        let mut merged = vec![vec![0; shape.fields]; shape.rows];
        for number in 0..snapshots {
            let mut cut = Vec::new();
            let mut snapshot = snapshotter
                .take_and(|| cut = progress.iter().map(|n| n.load(Ordering::Relaxed)).collect())
                .unwrap();
            let breaks_off = rng.random_range(0..4) == 0;
            if breaks_off {
                let mut left = rng.random_range(0..shape.rows);
                let outcome = snapshot.traverse(|_, _| {
                    left = left.checked_sub(1).ok_or(Enough)?;
                    Ok::<_, Enough>(())
                });
                if outcome.is_err() && rng.random() {
                    // Given up: the next one makes up for it.
                    continue;
                }
            }
            let mut shown = vec![false; shape.rows];
            snapshot
                .traverse(|row, fields| {
                    assert!(!std::mem::replace(&mut shown[row], true), "row {row} is shown once");
                    merged[row].copy_from_slice(fields);
                    if row % 97 == 0 {
                        std::thread::yield_now();
                    }
                    Ok::<_, SnapshotError>(())
                })
                .unwrap();
            if A::FULL || taken.is_empty() {
                assert!(
                    shown.iter().all(|shown| *shown),
                    "{} seed {seed} snapshot {number} is full",
                    A::NAME
                );
            }
            taken.push((cut, merged.clone()));
        }
        stop.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut model = vec![vec![0; shape.fields]; shape.rows];
    let mut played = vec![0; clients];
    for (number, (cut, rows)) in taken.iter().enumerate() {
        for (client, log) in logs.iter().enumerate() {
            log[played[client]..cut[client]].iter().for_each(|written| play(&mut model, written));
            played[client] = cut[client];
        }
        for (row, (is, should)) in rows.iter().zip(&model).enumerate() {
            assert_eq!(is, should, "{} seed {seed} snapshot {number} row {row} of {}", A::NAME, shape.rows);
        }
    }
}

macro_rules! oracle {
    ($($name:ident: $algorithm:ty,)*) => {$(
        #[test]
        fn $name() {
            for seed in 0..12 {
                check::<$algorithm>(seed, 40);
            }
        }
    )*};
}

oracle! {
    naive_shows_the_array_at_the_cut: Naive,
    copy_on_update_shows_the_array_at_the_cut: CopyOnUpdate,
    fork_shows_the_array_at_the_cut: Fork,
    zigzag_shows_the_array_at_the_cut: Zigzag,
    ping_pong_shows_the_array_at_the_cut: PingPong,
    hourglass_shows_the_array_at_the_cut: Hourglass,
    piggyback_shows_the_array_at_the_cut: Piggyback,
}
