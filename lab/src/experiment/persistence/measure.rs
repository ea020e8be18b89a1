//! Measures one cell.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use super::cell::{Cell, Figures, Model, Part};
use crate::checkpoint::{Trial, checkpoint_alone, together};
use crate::error::{LabError, Result};
use crate::load::{Cue, Group, KeyChoice, Load, LoadResult, MOMENT, Mix, Pace, Until};
use crate::process::{Pinned, beside};
use crate::report::median;
use crate::resources;
use crate::setting::{Setting, fill_silently};
use crate::shortage::is_refusal;
use crate::ycsb;

/// Each field of each record is updated so often on average before a start from a log.
const TURNS: u64 = 1;

/// Files of the part `fsync` are written so often.
const FILES: u32 = 3;

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
        _ => recovery(setting, times, trial, cell),
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
    let (mut figures, mut series) = (Figures::default(), Series::default());
    let done = requests(setting, times, trial, cell, &mut figures, &mut series);
    figures.ended = done.err().map(|error| end(trial, cell, error)).transpose()?;
    figures.throughput = series.rates(times.every);
    Ok(figures)
}

/// The load, and updates and reads afterwards.
fn requests(
    setting: &Setting,
    times: &Times,
    trial: &Trial,
    cell: &Cell,
    figures: &mut Figures,
    series: &mut Series,
) -> Result<()> {
    let began = Instant::now();
    let until = Until::Requests(cell.records);
    let most = times.load * if cell.limit().is_some() { SHORT_LOADS } else { 1 };
    let loaded = run(setting, trial, cell, Mix::in_order(ycsb::insert(), cell.records), until, most)?;
    series.add(Duration::ZERO, &loaded);
    let stretch = together(&[&loaded.watched.phases[0]]);
    let answered = (stretch.rate * stretch.seconds).round() as u64;
    note_errors(figures, &loaded, trial.kills())?;
    // An insert has two replies, and who refuses one refuses both.
    figures.loaded = answered.saturating_sub(figures.errors / 2);
    if answered < cell.records && began.elapsed() < most {
        return Err(LabError::Reply("the server broke the connections".to_owned()));
    }
    figures.load = Some(stretch);
    look(trial, figures)?;

    let from = began.elapsed();
    let until = Until::Time { warmup: Duration::ZERO, measured: times.updates };
    // A record that was not loaded is read as missing, and an update makes a small record of it.
    let mix = ycsb::updates(50, KeyChoice::Zipfian, cell.records);
    let updated = run(setting, trial, cell, mix, until, times.updates * 2)?;
    series.add(from, &updated);
    note_errors(figures, &updated, trial.kills())?;
    figures.last_file_bytes = Some(trial.file_bytes()?);
    figures.updates = Some(together(&[&updated.watched.phases[0]]));
    figures.updates_from_s = Some(from.as_secs_f64());
    Ok(())
}

/// The way in which the lack of memory ended a measurement under a limit. Without one, or for another reason,
/// what failed is an error.
fn end(trial: &mut Trial, cell: &Cell, error: LabError) -> Result<String> {
    if cell.limit().is_some() { trial.out_of_memory(error) } else { Err(trial.reason(error)) }
}

/// Counts the replies that refused for lack of memory, which are a result. Others are none, however many
/// refused before them: what was measured beside them is not a server that lacks memory.
fn note_errors(figures: &mut Figures, result: &LoadResult, kills: u64) -> Result<()> {
    let all = result.groups.iter().flat_map(|group| group.errors.texts());
    let (refusals, others): (Vec<_>, Vec<_>) = all.partition(|(text, _)| is_refusal(text, kills));
    let sum = |counted: &[(&str, u64)]| counted.iter().map(|(_, count)| count).sum::<u64>();
    if let Some((other, _)) = others.first() {
        let errors = sum(&others);
        return Err(LabError::Reply(format!("{errors} error replies, such as: {other}")).of_cell());
    }
    figures.errors += sum(&refusals);
    let first = refusals.first().map(|(text, _)| (*text).to_owned());
    figures.first_error = figures.first_error.take().or(first);
    Ok(())
}

/// Memory and files.
fn look(trial: &Trial, figures: &mut Figures) -> Result<()> {
    figures.used_bytes = trial.server.info_number("memory", "used_memory")?;
    figures.resident_bytes = Some(trial.server.memory()?.resident_bytes);
    figures.file_bytes = Some(trial.file_bytes()?);
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

/// Figures 10 to 15, and all other starts.
fn recovery(setting: &Setting, times: &Times, trial: &mut Trial, cell: &Cell) -> Result<Figures> {
    let mut figures = Figures { loaded: cell.records, ..Figures::default() };
    let inserts = Mix::in_order(ycsb::insert_of(cell.values), cell.records);
    fill_silently(&trial.server, cell.records, inserts, setting.seed)?;
    look(trial, &mut figures)?;
    let updates = cell.records * ycsb::FIELDS * TURNS;
    if cell.part == Part::Compression {
        figures.loading_cpu_s = Some(trial.server.cpu_time()?.as_secs_f64());
    }
    let files = if cell.part == Part::Fsync { FILES } else { 1 };
    let mut saved_s = Vec::new();
    for _ in 0..files {
        if cell.model.logs() && !matches!(cell.part, Part::Inserts | Part::Compression) {
            let mix = ycsb::updates(100, KeyChoice::Uniform, cell.records);
            fill_silently(&trial.server, updates, mix, setting.seed)?;
        }
        if cell.model == Model::Snapshot || cell.shortens {
            saved_s.push(checkpoint_alone(trial)?.seconds);
        }
    }
    figures.saved_s = (!saved_s.is_empty()).then(|| median(saved_s));
    let started = start(times, trial, &mut figures);
    // Where memory is short, the kernel may end a server; that is the measurement.
    figures.ended = started.err().map(|error| end(trial, cell, error)).transpose()?;
    Ok(figures)
}

/// Starts the server again from its files. One that ends has no figures of its start.
fn start(times: &Times, trial: &mut Trial, figures: &mut Figures) -> Result<()> {
    figures.last_file_bytes = Some(trial.file_bytes()?);
    let keys = trial.relaunch()?;
    figures.forgotten = trial.forgotten;
    let (pid, every) = (trial.server.pid(), times.every_of_start);
    let watch = |is_over: &_| resources::watch(pid, every, is_over);
    let (usage, started) = beside(watch, || {
        let seconds = trial.wait_until_back(keys)?;
        // The server has not ended: its time is that of the start.
        Ok::<_, LabError>((seconds, trial.server.cpu_time().unwrap_or_default()))
    });
    let (seconds, busy) = started?;
    figures.started_s = Some(seconds);
    figures.cores_busy = Some(busy.as_secs_f64() / seconds);
    figures.usage = usage;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::{Errors, GroupResult, Tally, Watched};

    #[test]
    fn error_replies_are_a_result_only_where_they_refuse_for_lack_of_memory() {
        let with = |errors: Errors| LoadResult {
            elapsed: Duration::ZERO,
            groups: vec![GroupResult {
                name: "threads",
                requests: 1,
                errors,
                latency_ns: hdrhistogram::Histogram::new(3).expect("three digits are few enough"),
                rate: 0.0,
            }],
            generator_busy: 0.0,
            server_busy: 0.0,
            others_busy: 0.0,
            tally: Tally::default(),
            watched: Watched::default(),
        };
        let result = |replies: &[(&str, u64)]| {
            let mut errors = Errors::default();
            replies.iter().for_each(|(text, count)| errors.add(text.as_bytes(), *count));
            with(errors)
        };
        let mut figures = Figures::default();
        let oom = "-OOM command not allowed when used memory > 'maxmemory'.";
        assert!(note_errors(&mut figures, &result(&[(oom, 2)]), 0).is_ok());
        assert_eq!((figures.errors, figures.first_error.as_deref()), (2, Some(oom)));
        let full = "-MISCONF Errors writing to the AOF file: No space left on device";
        // After refusals for lack of memory, too.
        for replies in [&[(full, 3)][..], &[(oom, 5), (full, 3)]] {
            let Err(LabError::LeftOut { why, failed: true }) = note_errors(&mut figures, &result(replies), 1)
            else {
                panic!("other error replies are no result");
            };
            assert!(why.contains("3 error replies, such as: -MISCONF Errors"), "{why}");
        }
        assert_eq!(figures.errors, 2);
    }

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
