//! The goals of the design for the log and its compaction, compared with the measurements.

use super::Results;
use super::cell::{Access, Cell, Figures, Part, Variant};
use crate::checkpoint::Stretch;
use crate::report::{Bound, Goal, median};

const RATE_BY_OFF: f64 = 0.9;
const RATE_BY_WITHOUT: f64 = 0.95;
const P999_BY_WITHOUT: f64 = 1.2;
const MAX_ADDED_MS: f64 = 1.0;
const EXTRA_PERCENT: f64 = 2.0;
const AMPLIFICATION_ZIPFIAN: f64 = 1.6;
const AMPLIFICATION_UNIFORM: f64 = 2.2;
const BYTES_BY_REDIS: f64 = 0.6;
const TIME_BY_REDIS: f64 = 0.5;
const LOG_BY_NEEDED: f64 = 1.8;
const FASTER_THAN_REDIS: f64 = 1.0;

/// Ours whose log is compacted.
const OURS: [Variant; 2] = [Variant::Vtc, Variant::VtcFast];

/// Judges the results; unmeasured goals are left out.
pub fn judge(results: &Results, quick: bool) -> Vec<Goal> {
    let part = |part: Part| {
        let cells = results.of(move |cell: &Cell| cell.quick == quick && cell.part == part);
        cells.into_iter().filter(|(cell, _)| OURS.contains(&cell.variant)).collect::<Vec<_>>()
    };
    let mut goals = Vec::new();
    for (cell, figures) in part(Part::Checkpoints) {
        throughput(results, cell, figures, &mut goals);
        memory(cell, figures, &mut goals);
        time(results, cell, figures, &mut goals);
    }
    part(Part::Alone).into_iter().for_each(|(cell, figures)| time(results, cell, figures, &mut goals));
    part(Part::Latency).into_iter().for_each(|(cell, figures)| latency(cell, figures, &mut goals));
    part(Part::Files).into_iter().for_each(|(cell, figures)| files(results, cell, figures, &mut goals));
    part(Part::Writes).into_iter().for_each(|(cell, figures)| writes(results, cell, figures, &mut goals));
    goals
}

/// The figures of another variant of the same cell.
fn other<'r>(results: &'r Results, cell: &Cell, variant: Variant) -> Option<&'r Figures> {
    results.find(&Cell { variant, ..*cell })
}

fn name(cell: &Cell) -> String {
    let text = cell.to_string();
    text.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(text)
}

/// The median of `of` over some stretches.
pub(super) fn of_stretches(stretches: &[Stretch], of: impl Fn(&Stretch) -> f64) -> f64 {
    median(stretches.iter().map(of))
}

/// Requests a second outside of checkpoints and during them.
pub(super) fn rates(figures: &Figures) -> (f64, f64) {
    let rate = |stretches| of_stretches(stretches, |stretch| stretch.rate);
    (rate(&figures.course.without), rate(&figures.course.during))
}

fn busy(figures: &Figures) -> String {
    let (generator, server) = (figures.course.generator_busy, figures.course.server_busy);
    format!("generator {:.0} %, server {:.0} % busy", generator * 100.0, server * 100.0)
}

fn throughput(results: &Results, cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let (without, during) = rates(figures);
    let off = other(results, cell, Variant::Off).map(|off| rates(off).0);
    if let Some(off) = off.filter(|_| cell.variant == Variant::Vtc) {
        goals.push(Goal {
            what: format!("requests/s with the log / without: {}", name(cell)),
            figure: without / off,
            unit: "x",
            bound: Bound::AtLeast(RATE_BY_OFF),
            note: format!("{without:.0} and {off:.0}; {}", busy(figures)),
        });
    }
    goals.push(Goal {
        what: format!("requests/s during compaction / outside: {}", name(cell)),
        figure: during / without,
        unit: "x",
        bound: Bound::AtLeast(RATE_BY_WITHOUT),
        note: format!("{during:.0} and {without:.0}; {}", busy(figures)),
    });
}

fn memory(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let (before, during) = figures.extra_bytes().unwrap_or_default();
    goals.push(Goal {
        what: format!("resident memory added by compaction: {}", name(cell)),
        figure: figures.extra_share() * 100.0,
        unit: " %",
        bound: Bound::AtMost(EXTRA_PERCENT),
        note: format!(
            "{:.1} MB to {:.0} MB; its buffers weigh more in a small store",
            during.saturating_sub(before) as f64 / 1e6,
            before as f64 / 1e6
        ),
    });
}

fn time(results: &Results, cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    // With a bound of bytes a second it takes the time that the bound says.
    let is_bound = cell.variant != Variant::VtcFast;
    let Some(redis) = other(results, cell, Variant::RedisRdb).filter(|_| !is_bound) else { return };
    let (ours, theirs) = (figures.checkpoint_s(), redis.checkpoint_s());
    goals.push(Goal {
        what: format!("compaction of the whole log / redis-server's BGSAVE: {}", name(cell)),
        figure: ours / theirs,
        unit: "x",
        bound: Bound::AtMost(TIME_BY_REDIS),
        note: match cell.part {
            Part::Alone => format!("{ours:.2} and {theirs:.2} s, nothing else to do"),
            _ => format!("{ours:.2} and {theirs:.2} s under the same closed loop"),
        },
    });
}

fn latency(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let course = &figures.course;
    let (without, during) = (&course.without_all, &course.during_all);
    goals.push(Goal {
        what: format!("p99.9 during / outside: {}", name(cell)),
        figure: during.p999_us / without.p999_us,
        unit: "x",
        bound: Bound::AtMost(P999_BY_WITHOUT),
        note: format!(
            "{:.0} and {:.0} µs; generator late by {:.0} and {:.0} µs in 999 of 1000",
            during.p999_us, without.p999_us, during.late_p999_us, without.late_p999_us
        ),
    });
    let longest = |stretches| of_stretches(stretches, |stretch| stretch.max_us / 1e3);
    let (during_ms, without_ms) = (longest(&course.during), longest(&course.without));
    goals.push(Goal {
        what: format!("longest during - longest outside, medians of the stretches: {}", name(cell)),
        figure: during_ms - without_ms,
        unit: " ms",
        bound: Bound::AtMost(MAX_ADDED_MS),
        note: format!(
            "{during_ms:.2} and {without_ms:.2} ms; generator late by {:.2} and {:.2} ms at most; stolen \
             {:.0} and {:.0} ms",
            during.late_max_us / 1e3,
            without.late_max_us / 1e3,
            during.stolen_ms,
            without.stolen_ms
        ),
    });
}

fn files(results: &Results, cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let started = |figures: &Figures| median(figures.files.started_s.iter().copied());
    if let Some(redis) = other(results, cell, Variant::RedisRdb) {
        goals.push(Goal {
            what: format!("redis-server's start from its RDB file / {}", name(cell)),
            figure: started(redis) / started(figures),
            unit: "x",
            bound: Bound::AtLeast(FASTER_THAN_REDIS),
            note: format!("{:.2} and {:.2} s", started(redis), started(figures)),
        });
    }
    if let Some(redis) = other(results, cell, Variant::RedisAof) {
        let megabytes = |figures: &Figures| figures.files.run_bytes as f64 / 1e6;
        goals.push(Goal {
            what: format!("file size / redis-server's append-only file: {}", name(cell)),
            figure: megabytes(figures) / megabytes(redis),
            unit: "x",
            bound: Bound::AtMost(1.0),
            note: format!("{:.0} and {:.0} MB", megabytes(figures), megabytes(redis)),
        });
    }
}

/// Bytes written to the log, with those of compaction, by bytes appended.
pub(super) fn amplification(figures: &Figures) -> f64 {
    let (Some(appended), Some(compacted)) = (figures.writes.appended_bytes, figures.writes.compacted_bytes)
    else {
        return f64::NAN;
    };
    (appended + compacted) as f64 / appended as f64
}

/// Bytes written to the device for each update.
pub(super) fn bytes_per_update(figures: &Figures) -> f64 {
    figures.writes.device_bytes as f64 / figures.writes.updates as f64
}

/// The largest ratio of the log's length to its needed part, once it is long enough to be compacted.
pub(super) fn longest_log(figures: &Figures) -> f64 {
    let long = figures.writes.log.iter().filter(|(_, all, _)| *all > 2 * figures.log_file_bytes);
    long.map(|(_, all, needed)| *all as f64 / (*needed).max(1) as f64).fold(f64::NAN, f64::max)
}

fn writes(results: &Results, cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let bound = match cell.access {
        Access::Zipfian => AMPLIFICATION_ZIPFIAN,
        Access::Uniform => AMPLIFICATION_UNIFORM,
    };
    goals.push(Goal {
        what: format!("bytes written to the log by bytes appended: {}", name(cell)),
        figure: amplification(figures),
        unit: "x",
        bound: Bound::AtMost(bound),
        note: format!("{} updates; as the server tells it", figures.writes.updates),
    });
    goals.push(Goal {
        what: format!("longest log by what is needed of it: {}", name(cell)),
        figure: longest_log(figures),
        unit: "x",
        bound: Bound::AtMost(LOG_BY_NEEDED),
        note: "as the server tells it, ten times a second".to_owned(),
    });
    if let Some(redis) = other(results, cell, Variant::RedisAof) {
        let (ours, theirs) = (bytes_per_update(figures), bytes_per_update(redis));
        goals.push(Goal {
            what: format!("bytes to the device for an update, {} / redis-aof", name(cell)),
            figure: ours / theirs,
            unit: "x",
            bound: Bound::AtMost(BYTES_BY_REDIS),
            note: format!("{ours:.0} and {theirs:.0} B, as the kernel counts them"),
        });
    }
}
