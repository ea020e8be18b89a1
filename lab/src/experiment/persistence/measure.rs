//! Measures one cell.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::cell::{Cell, Figures, Model, Part};
use crate::checkpoint::{Trial, checkpoint_alone, together};
use crate::error::{LabError, Result};
use crate::interrupt;
use crate::load::{Cue, Group, KeyChoice, Load, LoadResult, MOMENT, Mix, Pace, Until};
use crate::process::{Pinned, beside};
use crate::resources;
use crate::setting::{Setting, fill_silently};
use crate::shortage::as_result;
use crate::ycsb;

/// Each field of each record is updated so often on average before a start from a log.
const TURNS: u64 = 1;

/// Records are loaded so many times longer where memory is short: what is swapped out takes its time.
const SHORT_LOADS: u32 = 3;

/// The durations and numbers of repeats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Records are loaded no longer than this.
    load: Duration,
    /// Updates afterwards.
    updates: Duration,
    /// Time between two readings while records are loaded.
    pub every: Duration,
    /// The same while a server starts.
    pub every_of_start: Duration,
}

impl Times {
    /// Those of a setting.
    pub(super) fn of(setting: &Setting, full: bool) -> Times {
        let (updates, ms) = (setting.time(0.2, 2.0), Duration::from_millis);
        let (load, every, every_of_start) = match (full, setting.options.quick) {
            (true, _) => (ms(900_000), ms(1000), ms(1000)),
            // Whole moments of the generator, so that each interval has as many.
            (_, false) => (updates * 5, ms(200), ms(100)),
            (_, true) => (updates * 5, ms(60), ms(20)),
        };
        Times { load, updates, every, every_of_start }
    }
}

/// Measures a cell.
pub(super) fn measure(setting: &Setting, times: &Times, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let figures = match cell.part {
        Part::Load => load(setting, times, trial, cell),
        Part::Recovery | Part::Compression => recovery(setting, times, trial, cell),
    }?;
    let limit_bytes = cell.limit().map(|limit| limit.limit_bytes(cell.raw_bytes()));
    Ok(Figures { limit_bytes, kills: trial.kills(), ..figures })
}

/// Requests by time, from the start of all loads on.
#[derive(Debug, Default)]
struct Series {
    moments: Vec<(Duration, u32)>,
}

impl Series {
    fn add(&mut self, from: Duration, result: &LoadResult) {
        let moments = result.watched.timeline.iter().enumerate();
        self.moments.extend(moments.map(|(place, moment)| (from + MOMENT * place as u32, moment.requests)));
    }

    /// Seconds at the end of each interval, and requests a second in it.
    fn rates(&self, every: Duration) -> Vec<(f32, f32)> {
        let place = |at: Duration| (at.as_nanos() / every.as_nanos()) as usize;
        let Some((last, _)) = self.moments.last() else { return Vec::new() };
        let mut rates = vec![0_u64; place(*last) + 1];
        self.moments.iter().for_each(|(at, requests)| rates[place(*at)] += u64::from(*requests));
        let every = every.as_secs_f32();
        let point = |(place, requests): (usize, &u64)| ((place + 1) as f32 * every, *requests as f32 / every);
        // The last interval is not whole.
        let whole = rates.len().saturating_sub(1).max(1);
        rates.iter().take(whole).enumerate().map(point).collect()
    }
}

/// Figures 2 to 9.
fn load(setting: &Setting, times: &Times, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let (pid, every) = (trial.server.pid(), times.every);
    let watch = |is_over: &_| resources::watch(pid, every, is_over);
    let (usage, figures) = beside(watch, || load_and_update(setting, times, trial, cell));
    Ok(Figures { usage, ..figures? })
}

fn load_and_update(setting: &Setting, times: &Times, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let began = Instant::now();
    let mut series = Series::default();
    let mut figures = Figures::default();
    let until = Until::Requests(cell.records);
    let most = times.load * if cell.limit().is_some() { SHORT_LOADS } else { 1 };
    let loaded = run(setting, trial, cell, Mix::in_order(ycsb::insert(), cell.records), until, most)?;
    series.add(Duration::ZERO, &loaded);
    figures.load = together(&[&loaded.watched.phases[0]]);
    let answered = (figures.load.rate * figures.load.seconds).round() as u64;
    note_errors(&mut figures, &loaded);
    // An insert has two replies, and who refuses one refuses both.
    figures.loaded = answered.saturating_sub(figures.errors / 2);
    if answered < cell.records && began.elapsed() < most {
        figures.ended = Some(how_it_ended(trial)?.unwrap_or_else(|| "it broke the connections".to_owned()));
    } else if let Err(error) = look(trial, &mut figures) {
        figures.ended = Some(end(trial, cell, error)?);
    }
    if figures.ended.is_none() {
        let from = began.elapsed();
        figures.updates_from_s = from.as_secs_f64();
        let until = Until::Time { warmup: Duration::ZERO, measured: times.updates };
        // A record that was not loaded is read as missing, and an update makes a small record of it.
        let mix = ycsb::updates(50, KeyChoice::Zipfian, cell.records);
        let updated = run(setting, trial, cell, mix, until, times.updates * 2)?;
        series.add(from, &updated);
        figures.updates = together(&[&updated.watched.phases[0]]);
        note_errors(&mut figures, &updated);
        match trial.file_bytes() {
            Ok(bytes) => figures.last_file_bytes = bytes,
            Err(error) => figures.ended = Some(end(trial, cell, error)?),
        }
    }
    figures.throughput = series.rates(times.every);
    Ok(figures)
}

/// How the server ended by itself; `None` if it has not.
fn how_it_ended(trial: &mut Trial) -> Result<Option<String>> {
    // Ctrl-C ends the server too.
    interrupt::check()?;
    Ok(trial.server.ended().map(|status| LabError::Ended { status }.to_string()))
}

/// The same after something failed, which is a result of its own where memory is short.
fn end(trial: &mut Trial, cell: &Cell, error: LabError) -> Result<String> {
    match how_it_ended(trial)? {
        Some(how) => Ok(how),
        None => as_result(cell.limit(), error),
    }
}

fn note_errors(figures: &mut Figures, result: &LoadResult) {
    figures.errors += result.groups.iter().map(|group| group.errors).sum::<u64>();
    let first = result.groups.iter().find_map(|group| group.first_error.clone());
    figures.first_error = figures.first_error.take().or(first);
}

/// Memory and files.
fn look(trial: &Trial, figures: &mut Figures) -> Result<()> {
    figures.used_bytes = trial.server.info_number("memory", "used_memory")?.unwrap_or_default();
    figures.resident_bytes = trial.server.memory()?.resident_bytes;
    figures.file_bytes = trial.file_bytes()?;
    Ok(())
}

/// Runs a load over the cell's threads, not longer than `most`. A server that ends is the end of it.
fn run(
    setting: &Setting,
    trial: &Trial,
    cell: &Cell,
    mix: Mix,
    until: Until,
    most: Duration,
) -> Result<LoadResult> {
    let connections = cell.threads as usize;
    let group = Group { name: "threads", connections, pace: Pace::Closed { pipeline: 1 }, mix };
    let mut load = Load::new(trial.server.address(), vec![group], until, setting.seed);
    let cue = Arc::new(Cue::default());
    load.cue = Some(cue.clone());
    load.killed = Some(Arc::new(AtomicBool::new(true)));
    let began = Instant::now();
    let _pinned = Pinned::to(&setting.load_cores)?;
    load.run(|_| {
        if began.elapsed() > most {
            cue.end();
        }
    })
}

/// Figures 10 to 15, and starts from files that are compressed.
fn recovery(setting: &Setting, times: &Times, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let mut figures = Figures { loaded: cell.records, ..Figures::default() };
    let inserts = Mix::in_order(ycsb::insert_of(cell.values), cell.records);
    fill_silently(&trial.server, cell.records, inserts, setting.seed)?;
    look(trial, &mut figures)?;
    let updates = cell.records * ycsb::FIELDS * TURNS;
    if cell.model.logs() {
        let mix = ycsb::updates(100, KeyChoice::Uniform, cell.records);
        fill_silently(&trial.server, updates, mix, setting.seed)?;
    }
    if cell.model == Model::Snapshot || cell.shortens {
        figures.saved_s = Some(checkpoint_alone(trial)?.seconds);
    }
    let written = trial.file_bytes().inspect(|bytes| figures.last_file_bytes = *bytes);
    let started = written.and_then(|_| trial.relaunch()).and_then(|keys| {
        let (pid, every) = (trial.server.pid(), times.every_of_start);
        let watch = |is_over: &_| resources::watch(pid, every, is_over);
        let (usage, started) = beside(watch, || {
            let seconds = trial.wait_until_back(keys)?;
            // The server has not ended: its time is that of the start.
            Ok((seconds, trial.server.cpu_time().unwrap_or_default()))
        });
        figures.usage = usage;
        started
    });
    match started {
        Ok((seconds, busy)) => {
            figures.started_s = Some(seconds);
            figures.cores_busy = busy.as_secs_f64() / seconds;
        }
        // Where memory is short, a server may end; that is the measurement.
        Err(error) if cell.limit().is_some() => figures.ended = Some(end(trial, cell, error)?),
        Err(error) => return Err(error),
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_interval_and_the_last_one_is_left_out() {
        let ms = Duration::from_millis;
        let moments = (0..55).map(|place| (ms(place * 20), 2)).collect();
        let rates = Series { moments }.rates(ms(500));
        assert_eq!(rates, [(0.5, 100.0), (1.0, 100.0)]);
        assert!(Series::default().rates(ms(500)).is_empty());
        assert_eq!(Series { moments: vec![(ms(0), 5)] }.rates(ms(500)), [(0.5, 10.0)]);
    }
}
