//! Measures one cell on a server that has its data.

use std::time::Duration;

use super::cell::{Cell, Figures, Kind, Part};
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
/// Time from a checkpoint's end to the next in figures 13 to 17, as `save 10 1` has it.
const SAVE_EVERY: Duration = Duration::from_secs(10);
/// Requests in a batch where records are overwritten.
const OVERWRITE_PIPELINE: u32 = 16;

/// The durations and numbers of repeats.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Left out at the beginning of a load.
    pub warmup: Duration,
    /// A stretch without a checkpoint, at least.
    pub stretch: Duration,
    /// Where figures 13 to 17 stop.
    pub figures: Duration,
    /// Checkpoints of a cell, at most.
    pub repeats: u32,
}

impl Times {
    /// Those of a setting.
    pub(super) fn of(setting: &Setting) -> Times {
        let stretch = setting.time(0.3, 3.0);
        Times { warmup: stretch / 3, stretch, figures: stretch * 5, repeats: setting.repeats() }
    }

    /// Stretches with and without a checkpoint by turns.
    fn by_turns(&self) -> Script {
        Script {
            warmup: self.warmup,
            first: self.stretch,
            rest_least: self.stretch,
            rest_most: self.stretch * 3,
            checkpoints: self.repeats,
            time: self.stretch * 12,
            rests_at_end: true,
        }
    }

    /// As `save 10 1` would have it.
    fn as_rules_have_it(&self) -> Script {
        let every = if self.stretch < Duration::from_secs(1) { self.stretch } else { SAVE_EVERY };
        Script {
            warmup: self.warmup,
            first: self.stretch / 3,
            rest_least: every,
            rest_most: every,
            checkpoints: u32::MAX,
            time: self.figures,
            rests_at_end: false,
        }
    }
}

/// Measures a cell.
pub(super) fn measure(setting: &Setting, own: &mut Filled, cell: &Cell) -> Result<Figures> {
    own.set_pace(cell.pace)?;
    let (times, trial) = (Times::of(setting), &mut own.trial);
    let mix = |choice| ycsb::updates(cell.update_percent, choice, cell.data.count);
    let mut figures = match cell.part {
        Part::Saturated => {
            closed(setting, trial, CONNECTIONS, mix(KeyChoice::Uniform), &times.by_turns(), false)
        }
        Part::Latency => open(setting, trial, mix(KeyChoice::Uniform), &times),
        Part::Figures => {
            let script = times.as_rules_have_it();
            closed(setting, trial, PAPER_CONNECTIONS, mix(KeyChoice::Zipfian), &script, true)
        }
        Part::Overwrite => overwrite(setting, trial, cell, &times),
        Part::Giants => {
            let figures = open(setting, trial, requests::writes(cell.data), &times)?;
            let script = Script { checkpoints: 1, ..times.by_turns() };
            let closed = closed(setting, trial, CONNECTIONS, requests::writes(cell.data), &script, false)?;
            let Figures { rates_without, rates_during, .. } = closed;
            Ok(Figures { rates_without, rates_during, ..figures })
        }
        Part::Time => time(trial, times.repeats),
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
fn open(setting: &Setting, trial: &Trial, mix: Mix, times: &Times) -> Result<Figures> {
    let until = Until::Time { warmup: times.warmup, measured: times.stretch };
    let (saturation, due_rate, course) =
        play_at_half(setting, trial, CONNECTIONS, mix, until, &times.by_turns())?;
    Ok(Figures { saturation, due_rate, course, ..Figures::default() })
}

/// Overwrites records while one checkpoint is taken.
fn overwrite(setting: &Setting, trial: &Trial, cell: &Cell, times: &Times) -> Result<Figures> {
    let script = Script { checkpoints: 1, first: times.stretch / 3, rests_at_end: false, ..times.by_turns() };
    let (pace, mix) = (Pace::Closed { pipeline: OVERWRITE_PIPELINE }, requests::overwrite(cell.data));
    let group = Group { name: "closed", connections: CONNECTIONS, pace, mix };
    let course = play(setting, trial, group, &script, true)?;
    let requests = course.during_all.rate * course.during_all.seconds;
    Ok(Figures { overwritten: requests / cell.data.count as f64, course, ..Figures::default() })
}
