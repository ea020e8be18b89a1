//! Measures one cell on a server that has its data.

use std::time::Duration;

use super::Options;
use super::cell::{Cell, Figures, Part};
use super::requests;
use super::trial::Filled;
use crate::checkpoint::{Script, Stretch, Trial, checkpoint_alone, play, play_at_half};
use crate::error::Result;
use crate::load::{Group, KeyChoice, Mix, Pace, Until};
use crate::setting::Setting;
use crate::ycsb;

/// Connections of the parts that are not the paper's.
const CONNECTIONS: usize = 50;
/// The loading threads of the paper.
const PAPER_CONNECTIONS: usize = 256;
/// Its number of requests.
const PAPER_OPERATIONS: u64 = 4_000_000;
/// Time from a checkpoint's end to the next in figures 13 to 17, as `save 10 1` has it.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// A statement that reads all of the store.
const STATEMENT: &str = "SELECT count(*), max(value) FROM keyspace.hashes";
/// Requests in a batch where records are overwritten.
const OVERWRITE_PIPELINE: u32 = 16;

/// A stretch without a checkpoint, at least.
fn stretch(setting: &Setting) -> Duration {
    setting.time(0.3, 3.0)
}

/// Stretches with and without a checkpoint by turns.
fn by_turns(setting: &Setting) -> Script {
    let stretch = stretch(setting);
    Script {
        warmup: stretch / 3,
        first: stretch,
        rest_least: stretch,
        rest_most: stretch * 3,
        checkpoints: setting.repeats(),
        time: stretch * 12,
        operations: u64::MAX,
        rests_at_end: true,
        sql: None,
    }
}

/// As `save 10 1` would have it. Figures 13 to 17 end after the paper's number of requests, or after five
/// stretches, by the options.
fn as_rules_have_it(setting: &Setting, own: &Options) -> Script {
    let stretch = stretch(setting);
    let every = if stretch < Duration::from_secs(1) { stretch } else { SAVE_EVERY };
    Script {
        warmup: stretch / 3,
        first: stretch / 3,
        rest_least: every,
        rest_most: every,
        checkpoints: u32::MAX,
        time: if is_timed(own, setting.options.seconds) { stretch * 5 } else { Duration::MAX },
        operations: operations(own, setting.options.seconds).unwrap_or(u64::MAX),
        rests_at_end: false,
        sql: None,
    }
}

/// The number of requests that ends figures 13 to 17: the one that is asked for, or with `--full` the
/// paper's.
pub(super) fn operations(own: &Options, seconds: Option<f64>) -> Option<u64> {
    let usual = (own.full && seconds.is_none()).then_some(PAPER_OPERATIONS);
    own.operations.or(usual)
}

/// True if time ends them.
pub(super) fn is_timed(own: &Options, seconds: Option<f64>) -> bool {
    seconds.is_some() || operations(own, seconds).is_none()
}

/// Measures a cell.
pub(super) fn measure(
    setting: &Setting,
    options: &Options,
    own: &mut Filled,
    cell: &Cell,
) -> Result<Figures> {
    own.set_pace(cell.pace)?;
    let trial = &mut own.trial;
    let mix = |choice| ycsb::updates(cell.update_percent, choice, cell.data.count);
    let mut figures = match cell.part {
        Part::Saturated => {
            closed(setting, trial, CONNECTIONS, mix(KeyChoice::Uniform), &by_turns(setting), false)
        }
        Part::Latency => {
            let script = Script { sql: Some(STATEMENT), ..by_turns(setting) };
            open(setting, trial, mix(KeyChoice::Uniform), &script)
        }
        Part::Figures => {
            let script = as_rules_have_it(setting, options);
            let operations = operations(options, setting.options.seconds).unwrap_or(0);
            closed(setting, trial, PAPER_CONNECTIONS, mix(KeyChoice::Zipfian), &script, true)
                .map(|figures| Figures { operations, ..figures })
        }
        Part::Overwrite => overwrite(setting, trial, cell),
        Part::Giants => {
            let figures = open(setting, trial, requests::writes(cell.data), &by_turns(setting))?;
            let script = Script { checkpoints: 1, ..by_turns(setting) };
            let closed = closed(setting, trial, CONNECTIONS, requests::writes(cell.data), &script, false)?;
            let Figures { rates_without, rates_during, .. } = closed;
            Ok(Figures { rates_without, rates_during, ..figures })
        }
        Part::Time => time(trial, setting.repeats()),
    }?;
    // Memory by time is not drawn here.
    figures.course.peak.timeline.clear();
    Ok(figures)
}

/// Checkpoints of a server that has nothing else to do, and starts from the last of them.
fn time(trial: &mut Trial, repeats: u32) -> Result<Figures> {
    let mut figures = Figures::default();
    for _ in 0..repeats {
        figures.course.taken.push(checkpoint_alone(trial)?);
    }
    for _ in 0..repeats {
        figures.recovered_s.push(trial.recover()?);
    }
    Ok(figures)
}

/// A closed loop with checkpoints.
fn closed(
    setting: &Setting,
    trial: &Trial,
    connections: usize,
    mix: Mix,
    script: &Script,
    memory: bool,
) -> Result<Figures> {
    let group = Group { name: "closed", connections, pace: Pace::Closed { pipeline: 1 }, mix };
    let course = play(setting, trial, group, script, memory)?;
    let rates = |stretches: &[Stretch]| stretches.iter().map(|stretch| stretch.rate).collect();
    let (rates_without, rates_during) = (rates(&course.without), rates(&course.during));
    Ok(Figures { rates_without, rates_during, course, ..Figures::default() })
}

/// An open loop with checkpoints.
fn open(setting: &Setting, trial: &Trial, mix: Mix, script: &Script) -> Result<Figures> {
    let until = Until::Time { warmup: stretch(setting) / 3, measured: stretch(setting) };
    let (saturation, due_rate, course) = play_at_half(setting, trial, CONNECTIONS, mix, until, script)?;
    Ok(Figures { saturation, due_rate, course, ..Figures::default() })
}

/// Overwrites records while one checkpoint is taken.
fn overwrite(setting: &Setting, trial: &Trial, cell: &Cell) -> Result<Figures> {
    let script =
        Script { checkpoints: 1, first: stretch(setting) / 3, rests_at_end: false, ..by_turns(setting) };
    let (pace, mix) = (Pace::Closed { pipeline: OVERWRITE_PIPELINE }, requests::overwrite(cell.data));
    let group = Group { name: "closed", connections: CONNECTIONS, pace, mix };
    let course = play(setting, trial, group, &script, true)?;
    let requests = course.during_all.rate * course.during_all.seconds;
    Ok(Figures { overwritten: requests / cell.data.count as f64, course, ..Figures::default() })
}
