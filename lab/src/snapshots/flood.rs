//! A client that updates without a pause, and snapshots that are traversed and not dumped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tarn_study::{Algorithm, Array, Client, Shape};

use super::cell::{Cell, Figures, Place};
use super::stream::{Stream, Updates, look};
use crate::error::Result;
use crate::process::{self, beside};

/// Measures the cell with algorithm `A`.
pub(super) fn measure<A: Algorithm + 'static>(cell: &Cell, place: &Place) -> Result<Figures> {
    let shape = Shape::new(cell.rows, cell.row_bytes)?;
    let (mut clients, mut snapshotter) = Array::<A>::new(shape, 1)?;
    let client = clients.remove(0);
    let stream = Stream::new(cell);
    snapshotter.take()?.traverse(look)?;
    let snapshots = || -> Result<()> {
        process::pin_thread(&[place.snapshotter_core])?;
        for _ in 0..cell.checkpoints {
            std::thread::sleep(Duration::from_micros(cell.tick_us * cell.ticks_between));
            snapshotter.take()?.traverse(look)?;
        }
        Ok(())
    };
    let (updates_per_s, outcome) = beside(|stop| flood(client, stream, cell, place, stop), snapshots);
    outcome?;
    let resident_bytes_max = process::memory(std::process::id())?.resident_bytes_max;
    Ok(Figures { updates_per_s: updates_per_s?, resident_bytes_max, ..Figures::default() })
}

/// Updates until `stop` is set. Returns the updates a second.
fn flood<A: Algorithm>(
    mut client: Client<A>,
    mut stream: Stream,
    cell: &Cell,
    place: &Place,
    stop: &AtomicBool,
) -> Result<f64> {
    process::pin_thread(&[place.client_core])?;
    let start = Instant::now();
    let mut updates = Updates::new(cell);
    while !stop.load(Ordering::Relaxed) {
        let mut turn = client.turn();
        stream.take(cell.updates_per_tick, |rows| updates.apply(&mut turn, rows));
    }
    Ok(updates.count() as f64 / start.elapsed().as_secs_f64())
}
