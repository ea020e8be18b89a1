//! A client that works tick by tick, and checkpoints meanwhile.
//!
//! ```text
//!   client       |updates---|reads--|idle |updates----|reads--|idle |…      one tick each
//!   snapshotter        |taken|-traverse and dump, fsync-|   between   |taken|-…
//! ```
//!
//! The update stage begins when the tick should begin, or when the one before has ended if that was later;
//! the client's wait for the cut is part of it. A tick counts as one during a snapshot if it overlaps with
//! the time from its trigger until the checkpoint is durable.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tarn_study::checkpoint::CheckpointDir;
use tarn_study::{Algorithm, Array, Client, Shape, Snapshotter};

use super::cell::{Cell, Distribution, Figures, Place, Task};
use super::counter::{CacheMisses, child_bytes_most};
use super::stream::{Stream, Updates, look};
use crate::error::{LabError, Result};
use crate::process::{self, beside};
use crate::{interrupt, machine};

/// One tick, in microseconds since the start.
struct Tick {
    intended: f64,
    began: f64,
    /// The part of the update stage that was a wait for a cut.
    waited: f64,
    updated: f64,
    ended: f64,
}

/// One snapshot, in microseconds since the start.
struct Taken {
    triggered: f64,
    /// The client was out, and had to stay out until `taken`.
    cut: f64,
    taken: f64,
    durable: f64,
}

/// Measures the cell with algorithm `A`.
pub(super) fn measure<A: Algorithm + 'static>(cell: &Cell, place: &Place) -> Result<Figures> {
    let shape = Shape::new(cell.rows, cell.row_bytes)?;
    let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1)?;
    let client = clients.remove(0);
    let mut dir = CheckpointDir::new(&place.dir, shape);
    let stream = Stream::new(cell);
    // If snapshots show only changes, the first one has all rows, and is the base of the next.
    match (cell.dump, A::FULL) {
        (true, false) => snapshotter.take()?.checkpoint(&mut dir)?,
        (true, true) => {}
        (false, _) => snapshotter.take()?.traverse(look)?,
    }
    let own = std::process::id();
    let resident_bytes = process::memory(own)?.resident_bytes;
    let (huge_bytes, page_table_bytes) = (process::huge_bytes(own), process::page_table_bytes(own));
    if cell.needs_huge_pages() {
        machine::check_huge_pages(huge_bytes, cell.data_bytes())?;
    }

    let start = Instant::now();
    let (ticked, taken) = beside(
        |stop| run_ticks(client, stream, cell, place, start, stop),
        || run_checkpoints(&mut snapshotter, &mut dir, cell, place, start),
    );
    let (taken, child_bytes) = taken?;
    let (ticks, cache_misses) = ticked?;
    let resident_bytes_max = process::memory(own)?.resident_bytes_max + child_bytes;
    let judged = judge(&ticks, &taken, cell);
    Ok(Figures { resident_bytes, resident_bytes_max, huge_bytes, page_table_bytes, cache_misses, ..judged })
}

/// Works until `stop` is set, and for one tick more. Returns the ticks, and the cache misses of their
/// updates.
fn run_ticks<A: Algorithm>(
    mut client: Client<A>,
    mut stream: Stream,
    cell: &Cell,
    place: &Place,
    start: Instant,
    stop: &AtomicBool,
) -> Result<(Vec<Tick>, Option<u64>)> {
    process::pin_thread(&[place.client_core])?;
    let mut misses = CacheMisses::of_this_thread();
    let fields = cell.row_bytes / 8;
    let since_start = |now: Instant| (now - start).as_secs_f64() * 1e6;
    let mut ticks = Vec::new();
    let mut updates = Updates::new(cell);
    let mut sum = 0_u64;
    let mut is_last = false;
    for number in 0.. {
        if is_last {
            break;
        }
        // One tick comes behind all checkpoints: a thread that got its first turn late has none before.
        is_last = stop.load(Ordering::Relaxed);
        let intended = start + Duration::from_micros(cell.tick_us) * number;
        process::wait_until(intended);
        let began = Instant::now();
        misses.start();
        let mut turn = client.turn();
        let entered = Instant::now();
        stream.take(cell.updates_per_tick, |rows| updates.apply(&mut turn, rows));
        drop(turn);
        misses.stop();
        let updated = Instant::now();
        if cell.task == Task::Reads {
            let turn = client.turn();
            stream.take(cell.updates_per_tick, |rows| {
                for &row in rows {
                    sum ^= turn.read_field(row as usize, row as usize % fields).unwrap_or_default();
                }
            });
        }
        let ended = Instant::now();
        ticks.push(Tick {
            intended: since_start(intended),
            began: since_start(began.min(entered)),
            waited: (entered - began).as_secs_f64() * 1e6,
            updated: since_start(updated),
            ended: since_start(ended),
        });
    }
    std::hint::black_box(sum);
    Ok((ticks, misses.count()))
}

/// Takes the snapshots and dumps them. Returns them, and the most memory that a child had for itself.
fn run_checkpoints<A: Algorithm>(
    snapshotter: &mut Snapshotter<A>,
    dir: &mut CheckpointDir,
    cell: &Cell,
    place: &Place,
    start: Instant,
) -> Result<(Vec<Taken>, u64)> {
    process::pin_thread(&[place.snapshotter_core])?;
    let since_start = |now: Instant| (now - start).as_secs_f64() * 1e6;
    let between = Duration::from_micros(cell.tick_us * cell.ticks_between);
    let mut all = Vec::new();
    let mut child_bytes = 0;
    for number in 0..cell.checkpoints {
        std::thread::sleep(between);
        interrupt::check()?;
        let triggered = Instant::now();
        let mut cut = triggered;
        let mut snapshot = snapshotter.take_and(|| cut = Instant::now())?;
        let taken = Instant::now();
        let dump = || {
            let dumped = if cell.dump {
                snapshot.checkpoint(dir).map_err(LabError::from)
            } else {
                snapshot.traverse(look).map(|()| drop(snapshot))
            };
            dumped.map(|()| Instant::now())
        };
        let durable = if number + 1 < cell.checkpoints {
            dump()
        } else {
            // The last one only: to read the child's memory takes time of its own.
            let (bytes, durable) = beside(|stop| child_bytes_most(place.snapshotter_core, stop), dump);
            child_bytes = bytes;
            durable
        }?;
        all.push(Taken {
            triggered: since_start(triggered),
            cut: since_start(cut),
            taken: since_start(taken),
            durable: since_start(durable),
        });
    }
    std::thread::sleep(between);
    Ok((all, child_bytes))
}

fn judge(ticks: &[Tick], taken: &[Taken], cell: &Cell) -> Figures {
    // Those before the first snapshot warm the caches up.
    let warm = taken.first().map_or(0.0, |first| first.triggered / 2.0);
    let measured = || ticks.iter().filter(|tick| tick.began >= warm);
    let meets = |tick: &Tick| {
        taken.iter().any(|taken| tick.began <= taken.durable && tick.updated >= taken.triggered)
    };
    let times = |during: bool, of: fn(&Tick) -> f64| {
        Distribution::of(measured().filter(|tick| meets(tick) == during).map(of).collect())
    };
    let (update, read) = (|tick: &Tick| tick.updated - tick.began, |tick: &Tick| tick.ended - tick.updated);
    let reads = |during| if cell.task == Task::Reads { times(during, read) } else { Distribution::default() };
    let wait = |taken: &Taken| {
        let met =
            ticks.iter().filter(|tick| tick.began <= taken.taken && tick.began + tick.waited >= taken.cut);
        met.map(|tick| tick.waited).fold(0.0, f64::max)
    };
    Figures {
        quiet: times(false, update),
        during: times(true, update),
        reads_quiet: reads(false),
        reads_during: reads(true),
        from_intended: Distribution::of(measured().map(|tick| tick.updated - tick.intended).collect()),
        waits_us: taken.iter().map(wait).collect(),
        taken_us: taken.iter().map(|taken| taken.taken - taken.cut).collect(),
        overhead_us: taken.iter().map(|taken| taken.durable - taken.taken).collect(),
        updates: (ticks.len() * cell.updates_per_tick) as u64,
        trace: ticks.iter().map(|tick| ((tick.began / 1e3) as f32, update(tick) as f32)).collect(),
        snapshots_ms: taken.iter().map(|taken| (taken.triggered / 1e3, taken.durable / 1e3)).collect(),
        ..Figures::default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::snapshots::cell::Algorithm as Named;
    use tarn_study::Hourglass;

    #[test]
    fn a_client_that_gets_its_first_turn_when_all_is_over_still_makes_a_tick() {
        let cell = Cell {
            task: Task::Ticks,
            algorithm: Named::Hourglass,
            rows: 1000,
            row_bytes: 64,
            updates_per_tick: 10,
            skew: 0.0,
            tick_us: 100,
            checkpoints: 1,
            ticks_between: 1,
            fields: false,
            items: false,
            dump: false,
            threads: 1,
            huge_pages: false,
            by_popularity: false,
            seed: 1,
        };
        let core = process::cores_allowed()[0];
        let place = Place { dir: std::env::temp_dir(), client_core: core, snapshotter_core: core };
        let shape = Shape::new(cell.rows, cell.row_bytes).unwrap();
        let (mut clients, _snapshotter) = Array::<Hourglass>::new(shape, 1).unwrap();
        let stream = Stream::new(&cell);
        // In a thread of its own, which stays on its core.
        let ran = std::thread::spawn(move || {
            run_ticks(clients.remove(0), stream, &cell, &place, Instant::now(), &AtomicBool::new(true))
        });
        let (ticks, _) = ran.join().unwrap().unwrap();
        assert_eq!(ticks.len(), 1);
    }
}
