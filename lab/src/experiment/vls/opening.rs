//! Measures how long a view takes to open while writers write, and checks that it sees what was acknowledged
//! before.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tarn_engine::value::ValueRef;
use tarn_engine::{Engine, View, ViewOptions};

use super::cell::{Cell, Figures, Opening};
use super::measure::alone_on;
use super::store::{Store, Update, Writer};
use crate::error::{LabError, Result};
use crate::interrupt::wait_for;
use crate::process::{self, Pinned, beside};
use crate::setting::Setting;
use crate::snapshots::cell::Distribution;

/// Openings of each kind.
const OPENINGS: u64 = 10_000;
const OPENINGS_QUICK: u64 = 200;
/// The interval between two looks for the first write, and the longest time that it may take.
const FIRST_EVERY: Duration = Duration::from_micros(100);
const FIRST_PATIENCE: Duration = Duration::from_secs(10);
/// The key that is written and read; it is no record, so no index has it.
const KEY: &[u8] = b"fresh";
const FIELD: &[u8] = b"number";

/// Opens views beside a writer.
pub(super) fn measure(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    let (acknowledged, begin) = (AtomicU64::new(0), Barrier::new(2));
    let openings = if cell.quick { OPENINGS_QUICK } else { OPENINGS };
    let write = |stops: &AtomicBool| -> Result<bool> {
        let (_pinned, preferred) = alone_on(&setting.server_cores[..1], &begin)?;
        let (mut writer, mut rng) = (Writer::new(store, 0), SmallRng::seed_from_u64(setting.seed));
        let mut number = 0;
        while !stops.load(Ordering::Relaxed) {
            number += 1;
            let text = number.to_string();
            writer.put(KEY.to_vec(), std::iter::once((FIELD, text.as_bytes())))?;
            // Release: partner of the load in `is_fresh`.
            acknowledged.store(number, Ordering::Release);
            writer.update(number % store.records, &mut rng)?;
        }
        Ok(preferred)
    };
    let open = || {
        let _pinned = Pinned::to(&[setting.load_cores[0]])?;
        process::prefer_thread();
        open(&store.engine, openings, &acknowledged)
    };
    let (preferred, opened) = beside(write, || {
        begin.wait();
        // A writer that fails writes nothing.
        wait_for(FIRST_EVERY, FIRST_PATIENCE, || {
            Ok((acknowledged.load(Ordering::Acquire) > 0).then_some(()))
        })?
        .ok_or_else(|| LabError::Missing("the writer has written nothing".to_owned()))?;
        // On a thread of its own, because a granted priority cannot always be given back.
        std::thread::scope(|scope| scope.spawn(open).join().expect("who opens views does not panic"))
    });
    Ok(Figures { preferred: preferred?, opening: opened?, ..Figures::default() })
}

fn open(engine: &Engine, openings: u64, acknowledged: &AtomicU64) -> Result<Opening> {
    let timed = |options: ViewOptions| -> Result<Distribution> {
        let one = |_| {
            let began = Instant::now();
            let view = open_view(engine, options)?;
            let took = began.elapsed().as_secs_f64() * 1e6;
            drop(view);
            Ok(took)
        };
        (0..openings).map(one).collect::<Result<Vec<f64>>>().map(Distribution::of)
    };
    let plain = timed(ViewOptions::once_of(0, "lab"))?;
    let indexed = timed(ViewOptions::indexed_of(0, "lab"))?;
    let mut stale = 0;
    for _ in 0..openings {
        stale += u64::from(!is_fresh(engine, acknowledged)?);
    }
    Ok(Opening { plain, indexed, asked: openings, stale })
}

fn open_view(engine: &Engine, options: ViewOptions) -> Result<View> {
    engine.open_view(options).map_err(LabError::refused)
}

/// True if a view sees what was acknowledged before it was opened.
fn is_fresh(engine: &Engine, acknowledged: &AtomicU64) -> Result<bool> {
    let least = acknowledged.load(Ordering::Acquire);
    let view = open_view(engine, ViewOptions::pinned("lab"))?;
    let mut seen = 0;
    let read = view.read_keys(0, &[KEY], usize::MAX, |_, entry| {
        let ValueRef::Hash(hash) = entry.value() else { return };
        let number = hash.get(FIELD).and_then(|bytes| std::str::from_utf8(bytes).ok()?.parse().ok());
        seen = number.unwrap_or(0);
    });
    read.map_err(LabError::refused)?;
    Ok(seen >= least)
}
