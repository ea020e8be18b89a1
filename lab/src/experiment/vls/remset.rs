//! Figure 11: the old versions kept while some queries run that began at the same instant.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use tarn_engine::END;
use tarn_engine::view::Cancelled;
use tarn_engine::{Entry, View, ViewOptions};

use super::cell::{Cell, Figures, Moment, Remset};
use super::measure::{self, PARTS_AT_ONCE};
use super::store::{Store, Writer};
use crate::error::{LabError, Result};
use crate::process::{self, Pinned, beside};
use crate::setting::Setting;

/// The approximate number of readings of the kept versions while the queries run.
const LOOKS: u32 = 200;
/// The least time between two readings.
const LOOK: Duration = Duration::from_micros(500);

/// Runs queries that begin together, twice: once they release versions when they have read them, and once
/// they keep them to the end.
pub(super) fn measure(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    let (moments, left, updates_per_s, preferred) = wave(store, setting, cell, false)?;
    let (to_the_end, left_then, ..) = wave(store, setting, cell, true)?;
    let remset = Remset { moments, to_the_end, left: left + left_then, updates_per_s };
    Ok(Figures { remset, preferred, ..Figures::default() })
}

/// The kept versions by time, those left at the end, updates a second, and whether the threads had priority.
fn wave(store: &Store, setting: &Setting, cell: &Cell, keeps: bool) -> Result<(Vec<Moment>, u64, f64, bool)> {
    let options = match keeps {
        true => ViewOptions::pinned("lab"),
        false => ViewOptions::once_of(0, "lab"),
    };
    let (counts, begin) = (AtomicBool::new(true), Barrier::new(2));
    let write = |stops: &_| -> Result<(f64, bool)> {
        let (_pinned, preferred) = measure::alone_on(&setting.server_cores[..1], &begin)?;
        let written = measure::write(&mut Writer::new(store, 0), cell, setting.seed, &counts, stops)?;
        Ok((written.updates_per_s(), preferred))
    };
    let (written, moments) = beside(write, || {
        begin.wait();
        let views = store.engine.open_views(&vec![options; cell.queries]).map_err(LabError::refused)?;
        read_and_look(store, setting, views)
    });
    let ((updates_per_s, preferred), moments) = (written?, moments?);
    let left = store.engine.remset_size(0).versions as u64;
    Ok((moments, left, updates_per_s, preferred))
}

/// Reads all of some views, and the kept versions meanwhile.
fn read_and_look(store: &Store, setting: &Setting, views: Vec<View>) -> Result<Vec<Moment>> {
    let look = |ms| {
        let size = store.engine.remset_size(0);
        let (shared, apart) = (size.versions as u64, size.versions_apart as u64);
        Moment { ms, shared, apart, bytes: size.bytes as u64 }
    };
    looked_at(setting, look, || read_all(views))
}

/// Reads on the load's core, and looks at what is kept meanwhile. `look` gets the milliseconds since the
/// beginning.
pub(super) fn looked_at(
    setting: &Setting,
    look: impl Fn(f64) -> Moment,
    read: impl FnOnce() -> Result<()> + Send,
) -> Result<Vec<Moment>> {
    let began = Instant::now();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let _pinned = Pinned::to(&setting.load_cores[..1])?;
            process::prefer_thread();
            read()
        });
        let mut moments = Vec::new();
        // At least once, however short the queries are.
        loop {
            moments.push(look(began.elapsed().as_secs_f64() * 1e3));
            if reader.is_finished() {
                break;
            }
            std::thread::sleep(LOOK.max(began.elapsed() / LOOKS));
        }
        reader.join().expect("a query does not panic")?;
        Ok(moments)
    })
}

/// Reads all of some views, a few parts of each by turns; closes each at its end.
fn read_all(views: Vec<View>) -> Result<()> {
    let mut bytes = 0;
    let mut look = |entry: &Entry| bytes += entry.key().len() as u64;
    let mut left: Vec<(View, u64)> = views.into_iter().map(|view| (view, 0)).collect();
    let mut part = |(view, at): &mut (View, u64)| -> std::result::Result<bool, Cancelled> {
        if !view.is_pinned() {
            return Ok(view.step(&mut look)?.is_some());
        }
        if *at != END {
            *at = view.read_at(0, *at..END, &mut look)?.unwrap_or(END);
        }
        Ok(*at != END)
    };
    while !left.is_empty() {
        let mut goes_on = Vec::with_capacity(left.len());
        for mut view in left {
            let mut more = true;
            for _ in 0..PARTS_AT_ONCE {
                more = more && part(&mut view).map_err(LabError::refused)?;
            }
            goes_on.extend(more.then_some(view));
        }
        left = goes_on;
    }
    black_box(bytes);
    Ok(())
}
