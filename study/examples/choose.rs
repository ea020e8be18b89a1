//! Runs each algorithm on this machine, on an array of a given size, and prints its costs, to help to choose
//! one.
//!
//! `cargo run --release -p tarn-study --example choose [rows [bytes of a row [updates a second]]]`; a
//! million rows of 64 bytes and a million updates a second unless said otherwise. `tarn lab choose` knows
//! more: it has measured checkpoints on the disk, too.

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tarn_study::{
    Algorithm, Array, Client, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Shape,
    SnapshotError, Zigzag,
};

/// Updates between which no snapshot is taken.
const TURN: usize = 1000;
/// Snapshots that are taken of each.
const SNAPSHOTS: u32 = 5;
/// Time between them.
const BETWEEN: Duration = Duration::from_millis(100);

/// The result of one algorithm.
struct Outcome {
    name: &'static str,
    /// Copies of the data, at most.
    copies: usize,
    /// True if a snapshot has all rows.
    full: bool,
    /// Nanoseconds an update, the time that clients wait for a cut included.
    update_ns: f64,
    /// The longest turn, which is the longest that a client may have to wait.
    turn_max: Duration,
    /// From the trigger of a snapshot to its last row, on average.
    snapshot: Duration,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (Ok(rows), Ok(row_bytes), Ok(updates)) = (number(0, 1_000_000), number(1, 64), number(2, 1_000_000))
    else {
        eprintln!("choose [rows [bytes of a row [updates a second]]]: whole numbers, please");
        return ExitCode::FAILURE;
    };
    match measure_all(rows, row_bytes) {
        Ok(outcomes) => {
            advise(&outcomes, updates);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn measure_all(rows: usize, row_bytes: usize) -> Result<Vec<Outcome>, SnapshotError> {
    let shape = Shape::new(rows, row_bytes)?;
    Ok(vec![
        measure::<Naive>(shape)?,
        measure::<CopyOnUpdate>(shape)?,
        measure::<Fork>(shape)?,
        measure::<Zigzag>(shape)?,
        measure::<PingPong>(shape)?,
        measure::<Hourglass>(shape)?,
        measure::<Piggyback>(shape)?,
    ])
}

/// A client updates rows at random, as fast as it can, while snapshots are taken.
fn measure<A: Algorithm>(shape: Shape) -> Result<Outcome, SnapshotError> {
    let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1)?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let client = &mut clients[0];
        let updating = scope.spawn(|| update(client, shape, &stop));
        let mut snapshots = Duration::ZERO;
        let mut take_all = || {
            for _ in 0..SNAPSHOTS {
                std::thread::sleep(BETWEEN);
                let start = Instant::now();
                snapshotter.take()?.traverse(|_, fields| {
                    black_box(fields);
                    Ok::<_, SnapshotError>(())
                })?;
                snapshots += start.elapsed();
            }
            Ok(())
        };
        let taken = take_all();
        stop.store(true, Ordering::Relaxed);
        let (update_ns, turn_max) = updating.join().expect("the client does not panic")?;
        taken?;
        let snapshot = snapshots / SNAPSHOTS;
        Ok(Outcome { name: A::NAME, copies: A::COPIES, full: A::FULL, update_ns, turn_max, snapshot })
    })
}

/// Updates until `stop` is set. Returns the nanoseconds of an update and the longest turn.
fn update<A: Algorithm>(
    client: &mut Client<A>,
    shape: Shape,
    stop: &AtomicBool,
) -> Result<(f64, Duration), SnapshotError> {
    let mut chance = 1_u64;
    let mut fields = vec![0; shape.fields];
    let (start, mut turns, mut turn_max) = (Instant::now(), 0_u64, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let before = Instant::now();
        let mut turn = client.turn();
        for _ in 0..TURN {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            fields[0] = chance;
            turn.write((chance >> 33) as usize % shape.rows, &fields)?;
        }
        drop(turn);
        turn_max = turn_max.max(before.elapsed());
        turns += 1;
    }
    Ok((start.elapsed().as_secs_f64() * 1e9 / (turns * TURN as u64) as f64, turn_max))
}

fn advise(outcomes: &[Outcome], updates: usize) {
    println!(
        "{:<16} {:>7} {:>13} {:>15} {:>13}  a snapshot has",
        "", "copies", "update ns", "client waits", "snapshot ms"
    );
    for outcome in outcomes {
        println!(
            "{:<16} {:>7} {:>13.1} {:>12.2} ms {:>13.1}  {}",
            outcome.name,
            outcome.copies,
            outcome.update_ns,
            outcome.turn_max.as_secs_f64() * 1e3,
            outcome.snapshot.as_secs_f64() * 1e3,
            if outcome.full { "all rows" } else { "what has changed" }
        );
    }
    let keeps_up = |outcome: &&Outcome| outcome.update_ns * updates as f64 <= 1e9;
    let able: Vec<&Outcome> = outcomes.iter().filter(keeps_up).collect();
    let Some(calmest) = able.iter().min_by_key(|outcome| outcome.turn_max) else {
        println!(
            "\nNone does {updates} updates a second with one client. Give each of several clients its rows."
        );
        return;
    };
    let cheapest = able.iter().min_by(|a, b| a.update_ns.total_cmp(&b.update_ns)).unwrap_or(calmest);
    println!("\n{updates} updates a second, one client:");
    println!("  clients wait least with {}", calmest.name);
    println!("  updates are cheapest with {}", cheapest.name);
    if !calmest.full {
        println!("  {} shows what has changed: keep the snapshot before to merge it into", calmest.name);
    }
}
