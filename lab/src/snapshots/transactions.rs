//! Transactions of several threads under strict two-phase locking, and snapshots that are traversed
//! meanwhile.
//!
//! A transaction reads and writes [`ROWS`] rows, drawn uniformly.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_study::Shape;
use tarn_study::transaction::{Store, TransactionError, VirtualAlgorithm};

use super::cell::{Cell, Figures};
use super::stream::look;
use crate::error::Result;

/// Rows that a transaction reads and writes.
const ROWS: usize = 10;
/// Transactions between two checks for the end.
const BATCH: usize = 64;

/// Measures the cell with algorithm `V`.
pub(super) fn measure<V: VirtualAlgorithm + 'static>(cell: &Cell) -> Result<Figures> {
    let shape = Shape::new(cell.rows, cell.row_bytes)?;
    let (store, mut snapshotter) = Store::<V>::new(shape)?;
    let stop = AtomicBool::new(false);
    snapshotter.take().traverse(look)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cell.threads as u64)
            .map(|thread| {
                let (store, stop) = (store.clone(), &stop);
                scope.spawn(move || work(&store, cell, cell.seed * 1000 + thread, stop))
            })
            .collect();
        let start = Instant::now();
        let between = Duration::from_micros(cell.tick_us * cell.ticks_between);
        for number in 1..=cell.checkpoints as u32 {
            snapshotter.take().traverse(look)?;
            // The next one at its time, however long this one took.
            std::thread::sleep((start + between * number).saturating_duration_since(Instant::now()));
        }
        stop.store(true, Ordering::Relaxed);
        let elapsed = start.elapsed();
        let mut committed = 0;
        for thread in threads {
            committed += thread.join().expect("a client does not panic")?;
        }
        let counts = store.counts();
        Ok(Figures {
            transactions_per_s: committed as f64 / elapsed.as_secs_f64(),
            conflicts: counts.conflicts,
            restarts: counts.restarts,
            ..Figures::default()
        })
    })
}

/// Runs transactions until `stop` is set. Returns their number.
fn work<V: VirtualAlgorithm>(
    store: &Store<V>,
    cell: &Cell,
    seed: u64,
    stop: &AtomicBool,
) -> std::result::Result<u64, TransactionError> {
    let mut committed = 0;
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut fields = vec![0; cell.row_bytes / 8];
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..BATCH {
            let rows: [usize; ROWS] = std::array::from_fn(|_| rng.random_range(0..cell.rows));
            store.run(|transaction| {
                for row in rows {
                    transaction.read(row, &mut fields)?;
                    fields[0] = fields[0].wrapping_add(1);
                    transaction.write(row, &fields)?;
                }
                Ok::<_, TransactionError>(())
            })?;
            committed += 1;
        }
    }
    Ok(committed)
}
