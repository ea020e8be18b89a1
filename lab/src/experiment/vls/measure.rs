//! Queries beside updates: the updates on one core, the queries on another.
//!
//! ```text
//!   server's core  update ── update ── update …            closed loop, or each at its intended moment
//!   load's core    query 1 ┈ query 2 ┈ … ┈ query k ┈ 1 …   one thread, some parts of each by turns
//! ```
//!
//! Several writers share the server's cores, and several threads of queries the load's.
//!
//! A step of a query may begin in the measured time and end after it, as one over a server does, which is a
//! whole query. Its rows count by its share of that time. So the load stays the same until it has ended:
//!
//! ```text
//!   measured time      |───────────────────────|
//!   a query         ──────┼──────────┼──────────────┤          the last step counts in part
//!   others          ──┼──┼──┼──┼──┼──┼──┼──┼──┼──┼──┼┤         go on until all such steps have ended
//!   writers         ·······························┤·┤         go on until all queries have
//! ```

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::cell::{Cell, Figures, Measured, Turns, Variant};
use super::query::Query;
use super::store::{Store, Update, Writer};
use super::work::Worker;
use crate::error::{LabError, Result};
use crate::load::{KeyChoice, Keys};
use crate::process::{self, Pinned};
use crate::setting::Setting;
use crate::snapshots::cell::Distribution;

/// Updates between two checks for the end, in a closed loop.
pub(super) const UPDATES_AT_ONCE: u64 = 32;
/// Parts that a query reads before it is the turn of the next: about a batch of 8,192 records.
pub(super) const PARTS_AT_ONCE: usize = 64;

/// The length of a turn, after a warm-up of a fifth of it.
fn turn_time(setting: &Setting) -> Duration {
    setting.time(0.05, 2.0)
}

/// Figure 7a: a query by turns without a view and through one, and nothing else.
pub(super) fn alone(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    // On a thread of its own, because a granted priority cannot always be given back.
    std::thread::scope(|scope| {
        let measured = scope.spawn(|| by_turns(store, setting, cell));
        measured.join().expect("a query does not panic")
    })
}

fn by_turns(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    let mut variants = vec![Variant::Live, Variant::Vls];
    if cell.is_full() {
        variants.push(Variant::Fork);
    }
    let _pinned = Pinned::to(&[setting.load_cores[0]])?;
    let preferred = process::prefer_thread();
    // As many turns as fit into the time of those of other parts, of which there are few.
    let until = Instant::now() + turn_time(setting) * setting.repeats();
    let goes_on = |round| round < setting.repeats() || Instant::now() < until;
    let mut expected = None;
    in_turns(&variants, goes_on, |variant, _| {
        let began = Instant::now();
        let mut query = Query::begin(store, variant, cell)?;
        while query.part()? {}
        let counted = query.counted;
        drop(query);
        let seconds = began.elapsed().as_secs_f64();
        if *expected.get_or_insert(counted) != counted {
            return Err(LabError::Arguments(format!(
                "{}: a query that changes nothing has counted {counted:?} and {expected:?}",
                variant.name()
            )));
        }
        let measured = Measured {
            rows_per_s: counted.rows as f64 / seconds,
            queries: 1,
            query: Distribution::of(vec![seconds * 1e6]),
            ..Measured::default()
        };
        Ok((measured, preferred))
    })
}

/// Measures variants by turns, each as often first as the others. `measure` gets a variant and the number of
/// the round; it returns the figures, and whether the threads had priority.
pub(super) fn in_turns(
    variants: &[Variant],
    goes_on: impl Fn(u32) -> bool,
    mut measure: impl FnMut(Variant, u32) -> Result<(Measured, bool)>,
) -> Result<Figures> {
    let mut turns: Vec<Turns> =
        variants.iter().map(|variant| Turns { variant: *variant, turns: Vec::new() }).collect();
    let mut preferred = false;
    for round in (0..).take_while(|round| goes_on(*round)) {
        for at in 0..turns.len() {
            let number = (at + round as usize) % turns.len();
            let (measured, granted) = measure(variants[number], round)?;
            preferred = granted;
            turns[number].turns.push(measured);
        }
    }
    Ok(Figures { variants: turns, preferred, ..Figures::default() })
}

/// Figures 7b to 10: queries beside updates, the variants by turns.
pub(super) fn beside_updates(store: &Store, setting: &Setting, cell: &Cell) -> Result<Figures> {
    let mut variants = vec![Variant::None, Variant::Live, Variant::Vls];
    if cell.is_full() && cell.queries <= 8 {
        variants.push(Variant::Fork);
    }
    in_turns(
        &variants,
        |round| round < setting.repeats(),
        |variant, round| turn(store, setting, cell, variant, round),
    )
}

/// A turn of queries of a variant beside updates of records in the engine.
pub(super) fn turn(
    store: &Store,
    setting: &Setting,
    cell: &Cell,
    variant: Variant,
    round: u32,
) -> Result<(Measured, bool)> {
    let queries = if variant == Variant::None { 0 } else { cell.queries };
    Turn::new(&Beside { store, variant, cell }, setting, cell, queries, true).run(round)
}

/// A query that runs: reads some dozens of parts. Returns the number of rows, and whether there are more.
pub(super) type Running<'q> = Box<dyn FnMut() -> Result<(u64, bool)> + 'q>;

/// A store that is queried beside updates.
pub(super) trait Subject: Sync {
    /// Begins a query.
    fn begin(&self) -> Result<Running<'_>>;
    /// Who updates it, by number.
    fn writer(&self, number: usize) -> impl Update;
    /// The cores of those who update.
    fn writer_cores<'s>(&self, setting: &'s Setting) -> &'s [usize] {
        &setting.server_cores
    }
    /// Versions that are kept now.
    fn kept(&self) -> u64;
    /// Those that are kept when no query runs any more.
    fn left(&self) -> u64;
}

/// Records in the engine, read as a variant says.
struct Beside<'s> {
    store: &'s Store,
    variant: Variant,
    cell: &'s Cell,
}

impl Subject for Beside<'_> {
    fn begin(&self) -> Result<Running<'_>> {
        let mut query = Query::begin(self.store, self.variant, self.cell)?;
        Ok(Box::new(move || {
            let before = query.counted.rows;
            let mut goes_on = true;
            for _ in 0..PARTS_AT_ONCE {
                goes_on = goes_on && query.part()?;
            }
            Ok((query.counted.rows - before, goes_on))
        }))
    }

    fn writer(&self, number: usize) -> impl Update {
        Writer::new(self.store, number)
    }

    fn kept(&self) -> u64 {
        self.store.engine.views().status().retained.records as u64
    }

    fn left(&self) -> u64 {
        self.store.engine.remset_size(0).versions as u64
    }
}

/// The state that the threads of a turn share.
pub(super) struct Turn<'s, S> {
    subject: &'s S,
    setting: &'s Setting,
    cell: &'s Cell,
    queries: usize,
    updates: bool,
    begin: Barrier,
    /// Within the measured time: it is warm, and what is done counts.
    counts: AtomicBool,
    /// No query runs any more: the writers are to end.
    stops: AtomicBool,
    /// Threads of queries that are in a step, or may begin one, of the measured time.
    asking: AtomicUsize,
    time: Measuring,
}

/// A thread of queries until its steps of the measured time have ended, also by an error.
struct Asking<'t>(&'t AtomicUsize);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The measured time of a turn.
#[derive(Debug, Default)]
struct Measuring {
    began: OnceLock<Instant>,
    ended: OnceLock<Instant>,
}

impl Measuring {
    /// The share of a step that lies in the measured time. A step of a query over a server is a whole query.
    fn share(&self, from: Instant, to: Instant) -> f64 {
        let Some(&began) = self.began.get() else { return 0.0 };
        let end = self.ended.get().map_or(to, |&ended| to.min(ended));
        let inside = end.saturating_duration_since(from.max(began)).as_secs_f64();
        let all = to.saturating_duration_since(from).as_secs_f64();
        if all > 0.0 { inside / all } else { 0.0 }
    }

    /// True if all of a query lies in it.
    fn has(&self, from: Instant, to: Instant) -> bool {
        self.began.get().is_some_and(|&began| began <= from)
            && self.ended.get().is_none_or(|&ended| to <= ended)
    }
}

/// The queries of a thread.
#[derive(Debug, Default)]
struct Asked {
    /// Rows read in the measured time.
    rows: f64,
    /// The durations of the queries that began and ended in it, in microseconds.
    times_us: Vec<f64>,
}

/// The figures of the writer of a turn.
pub(super) struct Written {
    /// Updates in the measured time.
    pub done: u64,
    /// The measured time.
    pub seconds: f64,
    /// The time of each update from its intended start, in microseconds; in an open loop.
    pub latencies_us: Vec<f64>,
}

impl Written {
    /// Updates a second. A thread that waited for a latch all the time has done none.
    pub(super) fn updates_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.done as f64 / self.seconds } else { 0.0 }
    }
}

impl<S: Subject> Turn<'_, S> {
    /// So many queries at the same time, with updates or without.
    pub(super) fn new<'s>(
        subject: &'s S,
        setting: &'s Setting,
        cell: &'s Cell,
        queries: usize,
        updates: bool,
    ) -> Turn<'s, S> {
        let threads = cell.threads.min(queries);
        let begin = Barrier::new(1 + threads + if updates { cell.writers } else { 0 });
        let (counts, stops, time) = (AtomicBool::new(false), AtomicBool::new(false), Measuring::default());
        let asking = AtomicUsize::new(threads);
        Turn { subject, setting, cell, queries, updates, begin, counts, stops, asking, time }
    }

    /// Runs it. Returns its figures, and whether the updates had priority.
    pub(super) fn run(&self, round: u32) -> Result<(Measured, bool)> {
        let (measured, seed) = (turn_time(self.setting), self.setting.seed + u64::from(round));
        let mut versions = 0;
        let outcome = std::thread::scope(|scope| -> Result<_> {
            let threads = self.cell.threads.min(self.queries);
            let scanners: Vec<_> =
                (0..threads).map(|number| scope.spawn(move || self.ask(number, threads))).collect();
            let writers = if self.updates { self.cell.writers } else { 0 };
            let write = move |number| {
                let own = self.subject.writer_cores(self.setting);
                let (_pinned, preferred) = alone_on(cores(own, self.cell.writers), &self.begin)?;
                let (mut writer, seed) = (self.subject.writer(number), seed + ((number as u64) << 32));
                write(&mut writer, self.cell, seed, &self.counts, &self.stops)
                    .map(|written| (written, preferred))
            };
            let writers: Vec<_> = (0..writers).map(|number| scope.spawn(move || write(number))).collect();
            self.begin.wait();
            std::thread::sleep(measured / 5);
            self.counts.store(true, Ordering::Relaxed);
            let began = *self.time.began.get_or_init(Instant::now);
            while began.elapsed() < measured {
                std::thread::sleep((measured / 20).min(Duration::from_millis(50)));
                versions = versions.max(self.subject.kept());
            }
            let ended = *self.time.ended.get_or_init(Instant::now);
            self.counts.store(false, Ordering::Relaxed);
            let scanned: Vec<_> = scanners.into_iter().map(|scanner| scanner.join()).collect();
            // Before anything fails: the writers would go on for ever.
            self.stops.store(true, Ordering::Relaxed);
            let (mut updates_per_s, mut latencies_us) = (0.0, Vec::new());
            let (mut preferred, mut asked) = (false, Asked::default());
            for writer in writers {
                let (own, granted) = writer.join().expect("the writer does not panic")?;
                updates_per_s += own.updates_per_s();
                latencies_us.extend(own.latencies_us);
                preferred = granted;
            }
            for own in scanned {
                let own = own.expect("a query does not panic")?;
                asked.rows += own.rows;
                asked.times_us.extend(own.times_us);
            }
            let rows_per_s = asked.rows / ended.duration_since(began).as_secs_f64();
            Ok((updates_per_s, latencies_us, preferred, asked.times_us, rows_per_s))
        });
        let (updates_per_s, latencies_us, preferred, times_us, rows_per_s) = outcome?;
        let figures = Measured {
            rows_per_s,
            queries: times_us.len() as u64,
            query: Distribution::of(times_us),
            updates_per_s,
            latency_p95: p95(&latencies_us),
            latency: Distribution::of(latencies_us),
            versions,
            versions_left: self.subject.left(),
        };
        Ok((figures, preferred))
    }

    /// Runs the queries of a thread at the same time, and starts a new one for each that ends, until no
    /// thread is in a step of the measured time.
    fn ask(&self, number: usize, threads: usize) -> Result<Asked> {
        let mut asking = Some(Asking(&self.asking));
        let _pinned = alone_on(cores(&self.setting.load_cores, threads), &self.begin)?;
        let begin = || -> Result<(Running<'_>, Instant)> {
            let began = Instant::now();
            Ok((self.subject.begin()?, began))
        };
        let own = (number..self.queries).step_by(threads);
        let mut queries = own.map(|_| begin().map(Some)).collect::<Result<Vec<_>>>()?;
        let mut asked = Asked::default();
        while self.asking.load(Ordering::Relaxed) > 0 {
            for place in &mut queries {
                let (query, began) = place.as_mut().expect("there is always one");
                let from = Instant::now();
                let (rows, goes_on) = query()?;
                let to = Instant::now();
                asked.rows += rows as f64 * self.time.share(from, to);
                if self.time.ended.get().is_some() {
                    drop(asking.take());
                }
                if goes_on {
                    continue;
                }
                if self.time.has(*began, to) {
                    asked.times_us.push(to.duration_since(*began).as_secs_f64() * 1e6);
                }
                // The old one gives back its versions before the new one begins.
                *place = None;
                *place = Some(begin()?);
            }
        }
        Ok(asked)
    }
}

/// The cores of so many threads: one thread has the first.
fn cores(all: &[usize], threads: usize) -> &[usize] {
    if threads == 1 { &all[..1] } else { all }
}

/// Confines the calling thread to cores, asks for priority there, and waits for the others. Returns whether
/// it was granted.
pub(super) fn alone_on(cores: &[usize], begin: &Barrier) -> Result<(Pinned, bool)> {
    let pinned = Pinned::to(cores);
    let preferred = process::prefer_thread();
    begin.wait();
    Ok((pinned?, preferred))
}

/// 95 of 100 took no longer.
pub(super) fn p95(times_us: &[f64]) -> f64 {
    let mut times = times_us.to_vec();
    let at = (times.len() * 95).div_ceil(100).saturating_sub(1);
    if times.is_empty() { 0.0 } else { *times.select_nth_unstable_by(at, f64::total_cmp).1 }
}

/// The number of updates whose durations can be recorded.
const LATENCIES: usize = 1 << 20;

/// Updates records, as often as it can or at its share of the cell's rate, until it stops. Updates before and
/// after the measured time, in which it counts, are left out.
pub(super) fn write(
    writer: &mut impl Update,
    cell: &Cell,
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
    let mut writer = Worker::new(writer, cell);
    let (mut from, mut seconds, mut done): (Option<Instant>, Option<f64>, _) = (None, None, 0);
    let began = Instant::now();
    let mut intended = began;
    let gap = Duration::from_secs(cell.writers as u64).checked_div(cell.rate).unwrap_or_default();
    if cell.writers > 1 {
        // They do not all begin in one moment, again and again.
        intended += gap.mul_f64(rng.random());
    }
    while !stops.load(Ordering::Relaxed) {
        match (from, counts.load(Ordering::Relaxed)) {
            (None, true) => {
                from = Some(Instant::now());
                done = 0;
            }
            (Some(from), false) if seconds.is_none() => seconds = Some(from.elapsed().as_secs_f64()),
            _ => {}
        }
        let is_over = seconds.is_some();
        if cell.rate == 0 {
            for _ in 0..UPDATES_AT_ONCE {
                writer.update(keys.next(&mut rng), &mut rng)?;
            }
            done += if is_over { 0 } else { UPDATES_AT_ONCE };
            continue;
        }
        if cell.writers == 1 {
            process::wait_until(intended);
        } else {
            // They share cores, so they do not poll: the system wakes each of them somewhat late.
            std::thread::sleep(intended.saturating_duration_since(Instant::now()));
        }
        writer.update(keys.next(&mut rng), &mut rng)?;
        done += u64::from(!is_over);
        if from.is_some() && !is_over {
            latencies_us.push(intended.elapsed().as_secs_f64() * 1e6);
        }
        intended += gap;
    }
    let all = || from.map_or(0.0, |from| from.elapsed().as_secs_f64());
    let seconds = seconds.unwrap_or_else(all);
    writer.end(&mut rng)?;
    Ok(Written { done, seconds, latencies_us })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::AtomicU64;

    use clap::Parser;

    use super::*;
    use crate::experiment::vls::cell::{FULL, Part, Work};
    use crate::interrupt;
    use crate::setting::Options;

    fn cell(rate: u32) -> Cell {
        Cell {
            part: Part::Served,
            records: 100,
            queries: 2,
            share_percent: FULL,
            rate,
            work: Work::Field,
            writers: 1,
            threads: 2,
            quick: true,
        }
    }

    /// A store that nothing is written to: it is told of each update.
    struct Told<F>(F);

    impl<F: FnMut()> Update for Told<F> {
        fn update(&mut self, _: u64, _: &mut SmallRng) -> Result<()> {
            (self.0)();
            Ok(())
        }

        fn move_to(&mut self, _: u64, _: u64) -> Result<()> {
            Ok(())
        }

        fn remove(&mut self, _: u64) -> Result<()> {
            Ok(())
        }

        fn insert(&mut self, _: u64, _: &mut SmallRng) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn updates_after_the_measured_time_are_done_and_not_counted() {
        for rate in [0, 1_000_000] {
            let (counts, stops, mut done) = (AtomicBool::new(true), AtomicBool::new(false), 0);
            let mut writer = Told(|| {
                done += 1;
                counts.store(done < UPDATES_AT_ONCE, Ordering::Relaxed);
                stops.store(done >= 3 * UPDATES_AT_ONCE, Ordering::Relaxed);
            });
            let written = write(&mut writer, &cell(rate), 7, &counts, &stops).unwrap();
            assert_eq!((written.done, done), (UPDATES_AT_ONCE, 3 * UPDATES_AT_ONCE), "{rate} a second");
            let latencies = if rate == 0 { 0 } else { UPDATES_AT_ONCE };
            assert_eq!(written.latencies_us.len() as u64, latencies);
            assert!(written.seconds > 0.0);
        }
    }

    /// Queries of one step. The first one ends when it has seen others and updates after the measured time.
    #[derive(Default)]
    struct Watched {
        turn: OnceLock<&'static Turn<'static, Watched>>,
        queries: AtomicU64,
        updates: AtomicU64,
        /// Others and updates went on.
        is_beside: OnceLock<[bool; 2]>,
    }

    impl Watched {
        /// Waits for the end of the measured time, and afterwards for another query and an update.
        fn look(&self) -> Result<()> {
            let (often, patience) = (Duration::from_millis(1), Duration::from_secs(20));
            let turn = self.turn.get().expect("it runs");
            interrupt::wait_for(often, patience, || Ok(turn.time.ended.get()))?.expect("it ends");
            let seen = [&self.queries, &self.updates].map(|count| {
                let then = count.load(Ordering::Relaxed);
                let more = || Ok((count.load(Ordering::Relaxed) > then).then_some(()));
                interrupt::wait_for(often, patience, more).map(|more| more.is_some())
            });
            let [others, updates] = seen;
            let _ = self.is_beside.set([others?, updates?]);
            Ok(())
        }
    }

    impl Subject for Watched {
        fn begin(&self) -> Result<Running<'_>> {
            let is_first = self.queries.fetch_add(1, Ordering::Relaxed) == 0;
            Ok(Box::new(move || {
                if is_first {
                    self.look()?;
                }
                Ok((1, false))
            }))
        }

        fn writer(&self, _: usize) -> impl Update {
            Told(move || _ = self.updates.fetch_add(1, Ordering::Relaxed))
        }

        fn kept(&self) -> u64 {
            0
        }

        fn left(&self) -> u64 {
            0
        }
    }

    #[derive(Parser)]
    struct Words {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn the_load_stays_until_the_steps_of_the_measured_time_have_ended() {
        let words = ["vls", "--quick", "--seconds", "0.01", "--seed", "7"];
        let setting = Setting::of(Vec::new(), Words::parse_from(words).options).unwrap();
        let (setting, cell): (&Setting, &Cell) = (Box::leak(Box::new(setting)), Box::leak(Box::new(cell(0))));
        let subject: &Watched = Box::leak(Box::<Watched>::default());
        let turn: &Turn<'_, _> = Box::leak(Box::new(Turn::new(subject, setting, cell, cell.queries, true)));
        assert!(subject.turn.set(turn).is_ok());
        turn.run(0).unwrap();
        assert_eq!(subject.is_beside.get(), Some(&[true, true]));
    }

    #[test]
    fn a_step_counts_by_its_share_of_the_measured_time() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let time = Measuring::default();
        assert_eq!((time.share(at(0), at(10)), time.has(at(0), at(10))), (0.0, false), "a warm-up");
        time.began.set(at(20)).unwrap();
        assert_eq!(time.share(at(0), at(10)), 0.0, "before it");
        assert_eq!((time.share(at(0), at(40)), time.has(at(0), at(40))), (0.5, false), "begins before it");
        assert_eq!((time.share(at(30), at(40)), time.has(at(30), at(40))), (1.0, true), "in it");
        time.ended.set(at(100)).unwrap();
        assert_eq!((time.share(at(80), at(160)), time.has(at(80), at(160))), (0.25, false), "ends after it");
        assert_eq!((time.share(at(0), at(160)), time.has(at(0), at(160))), (0.5, false), "longer than it");
        assert_eq!(time.share(at(120), at(160)), 0.0, "after it");
        assert_eq!(time.share(at(50), at(50)), 0.0, "no time");
    }
}
