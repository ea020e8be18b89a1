//! Queries beside updates: the updates on one core, the queries on another.
//!
//! ```text
//!   writer core    update ── update ── update …            closed loop, or each at its intended moment
//!   query core     query 1 ┈ query 2 ┈ … ┈ query k ┈ 1 …   one thread, some parts of each by turns
//! ```

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::cell::{Cell, Figures, Measured, Turns, Variant};
use super::query::Query;
use super::store::{Store, Writer};
use crate::error::{LabError, Result};
use crate::load::{KeyChoice, Keys};
use crate::process::{self, Pinned};
use crate::snapshots::cell::Distribution;

/// Updates between two checks for the end, in a closed loop.
const UPDATES_AT_ONCE: u64 = 32;
/// Parts that a query reads before it is the turn of the next: about a batch of 8,192 records.
pub(super) const PARTS_AT_ONCE: usize = 64;
/// A wait that is longer ends in a sleep, this much before its end.
const SPIN: Duration = Duration::from_micros(100);

/// Where, how long and how often.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// The core of the updates.
    pub writer_core: usize,
    /// The core of the queries.
    pub query_core: usize,
    /// The length of a turn, after a warm-up of a fifth of it.
    pub measured: Duration,
    /// Turns of each variant.
    pub repeats: u32,
    /// The seed of the random choices.
    pub seed: u64,
}

/// Figure 7a: a query by turns without a view and through one, and nothing else.
pub(super) fn alone(store: &Store, place: &Place, cell: &Cell) -> Result<Figures> {
    // On a thread of its own, because a granted priority cannot always be given back.
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| by_turns(store, place, cell));
        measured.join().expect("a query does not panic")
    })
}

fn by_turns(store: &Store, place: &Place, cell: &Cell) -> Result<Figures> {
    let mut variants = vec![Variant::Live, Variant::Vls];
    if cell.is_full() {
        variants.push(Variant::Fork);
    }
    let _pinned = Pinned::to(&[place.query_core])?;
    let preferred = process::prefer_thread();
    // As many turns as fit into the time of those of other parts, of which there are few.
    let began = Instant::now();
    let until = began + place.measured * place.repeats;
    let mut turns: Vec<Turns> =
        variants.iter().map(|variant| Turns { variant: *variant, turns: Vec::new() }).collect();
    let mut expected = None;
    let mut round = 0;
    while round == 0 || Instant::now() < until || turns[0].turns.len() < place.repeats as usize {
        // Each comes first as often as the others.
        for at in 0..turns.len() {
            let number = (at + round) % turns.len();
            let began = Instant::now();
            let mut query = Query::begin(store, turns[number].variant, cell)?;
            while query.part()? {}
            let counted = query.counted;
            drop(query);
            let seconds = began.elapsed().as_secs_f64();
            if *expected.get_or_insert(counted) != counted {
                return Err(LabError::Arguments(format!(
                    "{}: a query that changes nothing has counted {counted:?} and {expected:?}",
                    turns[number].variant.name()
                )));
            }
            turns[number].turns.push(Measured {
                rows_per_s: counted.rows as f64 / seconds,
                queries: 1,
                query: Distribution::of(vec![seconds * 1e6]),
                ..Measured::default()
            });
        }
        round += 1;
    }
    Ok(Figures { variants: turns, preferred, ..Figures::default() })
}

/// Figures 7b to 10: queries beside updates, the variants by turns.
pub(super) fn beside_updates(store: &Store, place: &Place, cell: &Cell) -> Result<Figures> {
    let mut variants = vec![Variant::None, Variant::Live, Variant::Vls];
    if cell.is_full() && cell.queries <= 8 {
        variants.push(Variant::Fork);
    }
    let mut turns: Vec<Turns> =
        variants.iter().map(|variant| Turns { variant: *variant, turns: Vec::new() }).collect();
    let mut preferred = false;
    for repeat in 0..place.repeats as usize {
        for at in 0..turns.len() {
            let number = (at + repeat) % turns.len();
            let turn = Turn::begin(store, place, cell, turns[number].variant);
            let (measured, granted) = turn.run(place.seed + repeat as u64)?;
            preferred = granted;
            turns[number].turns.push(measured);
        }
    }
    Ok(Figures { variants: turns, preferred, ..Figures::default() })
}

/// The state that the threads of a turn share.
struct Turn<'s> {
    store: &'s Store,
    place: &'s Place,
    cell: &'s Cell,
    variant: Variant,
    begin: Barrier,
    /// Warm: from now on it counts.
    counts: AtomicBool,
    stops: AtomicBool,
    rows: AtomicU64,
}

/// The figures of the writer of a turn.
pub(super) struct Written {
    /// Updates a second.
    pub updates_per_s: f64,
    /// The time of each update from its intended start, in microseconds; in an open loop.
    pub latencies_us: Vec<f64>,
    /// True if it had priority on its core.
    pub preferred: bool,
}

impl Turn<'_> {
    fn begin<'s>(store: &'s Store, place: &'s Place, cell: &'s Cell, variant: Variant) -> Turn<'s> {
        let queries = variant != Variant::None;
        Turn {
            store,
            place,
            cell,
            variant,
            begin: Barrier::new(2 + usize::from(queries)),
            counts: AtomicBool::new(false),
            stops: AtomicBool::new(false),
            rows: AtomicU64::new(0),
        }
    }

    fn run(&self, seed: u64) -> Result<(Measured, bool)> {
        let queries = self.variant != Variant::None;
        let measured = self.place.measured;
        let mut most = 0;
        let outcome = std::thread::scope(|scope| {
            let scanner = queries.then(|| scope.spawn(|| self.ask()));
            let writer = scope.spawn(|| {
                let pinned = Pinned::to(&[self.place.writer_core]);
                let preferred = process::prefer_thread();
                self.begin.wait();
                let _pinned = pinned?;
                let mut writer = Writer::new(self.store);
                write(&mut writer, self.cell, preferred, seed, &self.counts, &self.stops)
            });
            self.begin.wait();
            std::thread::sleep(measured / 5);
            self.counts.store(true, Ordering::Relaxed);
            let began = Instant::now();
            while began.elapsed() < measured {
                std::thread::sleep((measured / 20).min(Duration::from_millis(50)));
                most = most.max(self.store.engine.views().status().retained.records);
            }
            let rows = self.rows.load(Ordering::Relaxed);
            let seconds = began.elapsed().as_secs_f64();
            self.stops.store(true, Ordering::Relaxed);
            let written = writer.join().expect("the writer does not panic");
            let times = scanner.map(|one| one.join().expect("a query does not panic")).transpose();
            written.and_then(|written| Ok((written, times?.unwrap_or_default(), rows as f64 / seconds)))
        });
        let (written, times, rows_per_s) = outcome?;
        let figures = Measured {
            rows_per_s,
            queries: times.len() as u64,
            query: Distribution::of(times),
            updates_per_s: written.updates_per_s,
            latency_p95: p95(&written.latencies_us),
            latency: Distribution::of(written.latencies_us),
            versions: most as u64,
            versions_left: self.store.engine.remset_size(0).versions as u64,
        };
        Ok((figures, written.preferred))
    }

    /// Runs the queries of the cell at the same time, and starts a new one for each that ends. Returns the
    /// durations of those that began and ended within the measured time.
    fn ask(&self) -> Result<Vec<f64>> {
        let pinned = Pinned::to(&[self.place.query_core]);
        process::prefer_thread();
        self.begin.wait();
        let _pinned = pinned?;
        let begin = || -> Result<(Query, Option<Instant>)> {
            let counts = self.counts.load(Ordering::Relaxed);
            let began = counts.then(Instant::now);
            Ok((Query::begin(self.store, self.variant, self.cell)?, began))
        };
        let mut queries = (0..self.cell.queries).map(|_| begin().map(Some)).collect::<Result<Vec<_>>>()?;
        let mut times = Vec::new();
        while !self.stops.load(Ordering::Relaxed) {
            for place in &mut queries {
                let (query, began) = place.as_mut().expect("there is always one");
                let before = query.counted.rows;
                let mut goes_on = true;
                for _ in 0..PARTS_AT_ONCE {
                    goes_on = goes_on && query.part()?;
                }
                if self.counts.load(Ordering::Relaxed) {
                    self.rows.fetch_add(query.counted.rows - before, Ordering::Relaxed);
                }
                if goes_on {
                    continue;
                }
                times.extend(began.map(|began| began.elapsed().as_secs_f64() * 1e6));
                // The old one gives back its versions before the new one begins.
                *place = None;
                *place = Some(begin()?);
            }
        }
        Ok(times)
    }
}

/// 95 of 100 took no longer.
pub(super) fn p95(times_us: &[f64]) -> f64 {
    let mut times = times_us.to_vec();
    let at = (times.len() * 95).div_ceil(100).saturating_sub(1);
    if times.is_empty() { 0.0 } else { *times.select_nth_unstable_by(at, f64::total_cmp).1 }
}

/// A writer that can update a record.
pub(super) trait Update {
    /// Writes a field of a record.
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()>;
}

impl Update for Writer<'_> {
    fn update(&mut self, number: u64, rng: &mut SmallRng) -> Result<()> {
        Writer::update(self, number, rng)
    }
}

/// The number of updates whose durations can be recorded.
const LATENCIES: usize = 1 << 20;

/// Updates records, as often as it can or at the rate of the cell, until the turn ends. Updates before the
/// measured time are left out.
pub(super) fn write(
    writer: &mut impl Update,
    cell: &Cell,
    preferred: bool,
    seed: u64,
    counts: &AtomicBool,
    stops: &AtomicBool,
) -> Result<Written> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut keys = Keys::new(KeyChoice::Zipfian, cell.records);
    // The memory of the recorded durations is there from the start, and was written to: a wait for it would
    // be recorded, too.
    let mut latencies_us = vec![1.0; LATENCIES * usize::from(cell.rate != 0)];
    latencies_us.clear();
    let (mut from, mut done) = (None, 0);
    let began = Instant::now();
    let mut intended = began;
    let gap = Duration::from_secs(1).checked_div(cell.rate).unwrap_or_default();
    while !stops.load(Ordering::Relaxed) {
        if from.is_none() && counts.load(Ordering::Relaxed) {
            from = Some(Instant::now());
            done = 0;
        }
        if cell.rate == 0 {
            for _ in 0..UPDATES_AT_ONCE {
                writer.update(keys.next(&mut rng), &mut rng)?;
            }
            done += UPDATES_AT_ONCE;
            continue;
        }
        wait_until(intended);
        writer.update(keys.next(&mut rng), &mut rng)?;
        done += 1;
        if from.is_some() {
            latencies_us.push(intended.elapsed().as_secs_f64() * 1e6);
        }
        intended += gap;
    }
    // A thread that waited for a latch all the time has done none.
    let updates_per_s = from.map_or(0.0, |from| done as f64 / from.elapsed().as_secs_f64());
    Ok(Written { updates_per_s, latencies_us, preferred })
}

fn wait_until(moment: Instant) {
    let rest = moment.saturating_duration_since(Instant::now());
    if rest > SPIN * 2 {
        std::thread::sleep(rest - SPIN);
    }
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
}
