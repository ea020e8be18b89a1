//! The paper's literal form, with a mask in each record, and the cost of wider masks.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use rand::Rng;
use rand::rngs::SmallRng;
use tarn_study::Shape;
use tarn_study::vls::{Keep, Mask, Scan, Store, StoreError};

use super::cell::{Cell, Figures, Measured, Turns, Variant};
use super::measure::{self, Place, Update};
use super::store::RECORD_BYTES;
use crate::error::{LabError, Result};
use crate::process::{self, Pinned};
use crate::snapshots::cell::Distribution;

/// The field that is indexed: the number of the record.
const INDEXED: usize = 0;
/// Rows that a query reads before it is the turn of the next.
const ROWS_AT_ONCE: u64 = 8192;

fn wrong(error: impl std::fmt::Display) -> LabError {
    LabError::Arguments(error.to_string())
}

/// A store, whatever the width of its masks.
trait Masked: Sync {
    fn update(&self, number: u64, rng: &mut SmallRng) -> std::result::Result<(), StoreError>;
    /// Begins a query.
    fn query(&self, cell: &Cell) -> Result<Box<dyn Rows + '_>>;
    fn left(&self) -> u64;
}

/// The rows of a query.
trait Rows {
    /// Reads the next rows, at most `most`; returns their number.
    fn read(&mut self, most: u64) -> u64;
}

impl<M: Mask> Rows for Scan<'_, M> {
    fn read(&mut self, most: u64) -> u64 {
        let mut rows = 0;
        while rows < most && self.next_row().is_some() {
            rows += 1;
        }
        rows
    }
}

struct OfWidth<M: Mask>(Store<M>);

impl<M: Mask> OfWidth<M> {
    fn fill(cell: &Cell, keep: Keep) -> Result<Box<OfWidth<M>>> {
        let shape = Shape::new(cell.records as usize, RECORD_BYTES as usize)?;
        let store = Store::new(shape, Some(INDEXED), keep).map_err(wrong)?;
        let mut row = vec![0; shape.fields];
        for number in 0..cell.records {
            row[INDEXED] = number;
            store.write(number, &row).map_err(wrong)?;
        }
        Ok(Box::new(OfWidth(store)))
    }
}

impl<M: Mask> Masked for OfWidth<M> {
    fn update(&self, number: u64, rng: &mut SmallRng) -> std::result::Result<(), StoreError> {
        let field = 1 + rng.random_range(0..RECORD_BYTES as usize / 8 - 1);
        self.0.write_field(number, field, rng.random()).map(|_| ())
    }

    fn query(&self, cell: &Cell) -> Result<Box<dyn Rows + '_>> {
        let from = cell.records - cell.records * u64::from(cell.share_percent) / 100;
        let scan = match cell.is_full() {
            true => self.0.scan(),
            false => self.0.index_scan(from, u64::MAX),
        };
        Ok(Box::new(scan.map_err(wrong)?))
    }

    fn left(&self) -> u64 {
        self.0.wait_until_reset();
        self.0.remset_size().versions as u64
    }
}

struct Updates<'s>(&'s dyn Masked);

impl Update for Updates<'_> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        self.0.update(number, rng).map_err(wrong)
    }
}

/// The same for stores that keep nothing, and with masks of 64 and of 128 bits, by turns.
pub(super) fn measure(place: &Place, cell: &Cell) -> Result<Figures> {
    let stores: [(Variant, Box<dyn Masked>); 3] = [
        (Variant::MasksOff, OfWidth::<u64>::fill(cell, Keep::Nothing)?),
        (Variant::Masks64, OfWidth::<u64>::fill(cell, Keep::Shared)?),
        (Variant::Masks128, OfWidth::<u128>::fill(cell, Keep::Shared)?),
    ];
    let mut turns: Vec<Turns> =
        stores.iter().map(|(variant, _)| Turns { variant: *variant, turns: Vec::new() }).collect();
    let mut preferred = false;
    for repeat in 0..place.repeats as usize {
        for at in 0..stores.len() {
            let number = (at + repeat) % stores.len();
            let (measured, granted) = turn(&*stores[number].1, place, cell, repeat as u64)?;
            preferred = granted;
            turns[number].turns.push(measured);
        }
    }
    Ok(Figures { variants: turns, preferred, ..Figures::default() })
}

/// Queries beside updates; without updates if there are no queries beside them to be: the cell's `queries` is
/// 0 then, and one runs.
fn turn(store: &dyn Masked, place: &Place, cell: &Cell, repeat: u64) -> Result<(Measured, bool)> {
    let updates = cell.queries > 0;
    let (counts, stops, rows) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let queries = cell.queries.max(1);
    let begin = Barrier::new(2 + usize::from(updates));
    let ask = || -> Result<Vec<f64>> {
        let pinned = Pinned::to(&[place.query_core]);
        process::prefer_thread();
        begin.wait();
        let _pinned = pinned?;
        let query = || -> Result<(Box<dyn Rows + '_>, Option<Instant>)> {
            Ok((store.query(cell)?, counts.load(Ordering::Relaxed).then(Instant::now)))
        };
        let mut running = (0..queries).map(|_| query()).collect::<Result<Vec<_>>>()?;
        let mut times = Vec::new();
        while !stops.load(Ordering::Relaxed) {
            for (one, began) in &mut running {
                let read = one.read(ROWS_AT_ONCE);
                if counts.load(Ordering::Relaxed) {
                    rows.fetch_add(read, Ordering::Relaxed);
                }
                if read < ROWS_AT_ONCE {
                    times.extend(began.map(|began| began.elapsed().as_secs_f64() * 1e6));
                    (*one, *began) = query()?;
                }
            }
        }
        Ok(times)
    };
    std::thread::scope(|scope| {
        let scanner = scope.spawn(ask);
        let writer = updates.then(|| {
            scope.spawn(|| {
                let pinned = Pinned::to(&[place.writer_core]);
                let preferred = process::prefer_thread();
                begin.wait();
                let _pinned = pinned?;
                let seed = place.seed + repeat;
                measure::write(&mut Updates(store), cell, preferred, seed, &counts, &stops)
            })
        });
        begin.wait();
        std::thread::sleep(place.measured / 5);
        counts.store(true, Ordering::Relaxed);
        let began = Instant::now();
        std::thread::sleep(place.measured);
        let rows = rows.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64();
        stops.store(true, Ordering::Relaxed);
        let written = writer.map(|writer| writer.join().expect("the writer does not panic")).transpose()?;
        let times = scanner.join().expect("a query does not panic")?;
        let mut measured = Measured {
            rows_per_s: rows,
            queries: times.len() as u64,
            query: Distribution::of(times),
            versions_left: store.left(),
            ..Measured::default()
        };
        let preferred = written.as_ref().is_some_and(|written| written.preferred);
        if let Some(written) = written {
            measured.updates_per_s = written.updates_per_s;
            measured.latency_p95 = measure::p95(&written.latencies_us);
            measured.latency = Distribution::of(written.latencies_us);
        }
        Ok((measured, preferred))
    })
}
