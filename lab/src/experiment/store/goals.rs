//! The goals of the design for checkpoints, compared with the measurements.

use super::Results;
use super::cell::{Cell, Data, Figures, Pace, Part, Variant};
use super::is_records;
use crate::checkpoint::Stretch;
use crate::report::{self, Bound, Goal, Spread};

const P999_BY_WITHOUT: f64 = 1.2;
const MAX_ADDED_MS: f64 = 1.0;
const MAX_OF_REDIS: f64 = 50.0;
const GIANT_MAX_MS: f64 = 5.0;
const PAPER_MAX_MS: f64 = 5.0;
const RATE_BY_WITHOUT: f64 = 0.85;
const RATE_BY_REDIS: f64 = 1.3;
const MEMORY_BY_FORK: f64 = 0.6;
const RECOVERY_BY_REDIS: f64 = 2.0;
const CUT_US: f64 = 50.0;

/// Ours that do not fork.
const OURS: [Variant; 2] = [Variant::Hourglass, Variant::Piggyback];

/// The results of a part, the newest line of each cell.
pub(super) struct Measured<'r> {
    results: &'r Results,
    quick: bool,
}

impl<'r> Measured<'r> {
    pub(super) fn new(results: &'r Results, quick: bool) -> Measured<'r> {
        Measured { results, quick }
    }

    /// The cells of a part, in the order in which they were measured first.
    pub(super) fn part(&self, part: Part) -> Vec<(Cell, &'r Figures)> {
        let mut cells: Vec<Cell> = Vec::new();
        for line in &self.results.lines {
            if line.cell.part == part && line.cell.quick == self.quick && !cells.contains(&line.cell) {
                cells.push(line.cell);
            }
        }
        cells.into_iter().filter_map(|cell| Some((cell, self.results.find(&cell)?))).collect()
    }

    /// The cell of another variant that is otherwise the same, at the pace that it has.
    pub(super) fn other(&self, cell: &Cell, variant: Variant) -> Option<&'r Figures> {
        let pace = if variant.forks() { Pace::Fast } else { cell.pace };
        self.results.find(&Cell { variant, pace, ..*cell })
    }
}

/// Judges the results; unmeasured goals are left out.
pub fn judge(results: &Results, quick: bool) -> Vec<Goal> {
    let measured = Measured::new(results, quick);
    let mut goals = Vec::new();
    latency(&measured, &mut goals);
    throughput(&measured, &mut goals);
    paper(&measured, &mut goals);
    memory(&measured, &mut goals);
    time(&measured, &mut goals);
    cuts(&measured, &mut goals);
    giants(&measured, &mut goals);
    goals
}

/// The median of `of` over some stretches.
pub(super) fn median(stretches: &[Stretch], of: impl Fn(&Stretch) -> f64) -> f64 {
    report::median(stretches.iter().map(of))
}

fn rates(figures: &Figures) -> Option<(f64, f64)> {
    let median = |rates: &[f64]| (!rates.is_empty()).then(|| Spread::of(rates.iter().copied()).median);
    Some((median(&figures.rates_without)?, median(&figures.rates_during)?))
}

fn name(cell: &Cell) -> String {
    let pace = if cell.variant.forks() { String::new() } else { format!(" {}", cell.pace.name()) };
    format!("{}{pace}, {}", cell.variant.name(), cell.data)
}

/// A note for judging a longest latency: the delay of the generator, and the time that the host took.
fn noise(figures: &Figures) -> String {
    let (without, during) = (&figures.without_all, &figures.during_all);
    format!(
        "generator late by {:.2} and {:.2} ms at most; stolen {:.0} and {:.0} ms",
        without.late_max_us / 1e3,
        during.late_max_us / 1e3,
        without.stolen_ms,
        during.stolen_ms
    )
}

fn latency(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    let cells = measured.part(Part::Latency);
    for (cell, figures) in cells.iter().filter(|(cell, _)| OURS.contains(&cell.variant)) {
        let (without, during) = (&figures.without_all, &figures.during_all);
        goals.push(Goal {
            what: format!("p99.9 during / without: {}", name(cell)),
            figure: during.p999_us / without.p999_us,
            unit: "x",
            bound: Bound::AtMost(P999_BY_WITHOUT),
            note: format!(
                "{:.0} and {:.0} µs; generator late by {:.0} and {:.0} µs in 999 of 1000",
                during.p999_us, without.p999_us, during.late_p999_us, without.late_p999_us
            ),
        });
        let longest = |stretches| median(stretches, |stretch| stretch.max_us / 1e3);
        let served = |stretches| median(stretches, |stretch| stretch.served_max_us / 1e3);
        goals.push(Goal {
            what: format!("longest during - longest without, medians of the stretches: {}", name(cell)),
            figure: longest(&figures.during) - longest(&figures.without),
            unit: " ms",
            bound: Bound::AtMost(MAX_ADDED_MS),
            note: format!(
                "{:.2} and {:.2} ms; from the sending {:.2} and {:.2}; {}",
                longest(&figures.during),
                longest(&figures.without),
                served(&figures.during),
                served(&figures.without),
                noise(figures)
            ),
        });
    }
    let Some(largest) = cells.iter().map(|(cell, _)| cell.data.count).max() else { return };
    for (cell, figures) in cells.iter().filter(|(cell, _)| OURS.contains(&cell.variant)) {
        let Some(redis) = measured.other(cell, Variant::RedisServer) else { continue };
        if cell.data.count == largest {
            goals.push(Goal {
                what: format!("redis-server's longest during / {}", name(cell)),
                figure: redis.during_all.max_us / figures.during_all.max_us,
                unit: "x",
                bound: Bound::AtLeast(MAX_OF_REDIS),
                note: format!(
                    "{:.1} and {:.2} ms; promised for 8 M records",
                    redis.during_all.max_us / 1e3,
                    figures.during_all.max_us / 1e3
                ),
            });
        }
    }
}

fn throughput(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for (cell, figures) in measured.part(Part::Saturated) {
        let Some((without, during)) = rates(figures).filter(|_| OURS.contains(&cell.variant)) else {
            continue;
        };
        goals.push(Goal {
            what: format!("requests/s during / without: {}", name(&cell)),
            figure: during / without,
            unit: "x",
            bound: Bound::AtLeast(RATE_BY_WITHOUT),
            note: format!(
                "{during:.0} and {without:.0}; generator {:.0} %, server {:.0} % busy",
                figures.generator_busy * 100.0,
                figures.server_busy * 100.0
            ),
        });
        let redis = measured.other(&cell, Variant::RedisServer).and_then(rates);
        if let Some((_, theirs)) = redis {
            goals.push(Goal {
                what: format!("requests/s during, {} / redis-server", name(&cell)),
                figure: during / theirs,
                unit: "x",
                bound: Bound::AtLeast(RATE_BY_REDIS),
                note: format!("{during:.0} and {theirs:.0}"),
            });
        }
    }
}

/// Figures 14 and 17.
fn paper(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for (cell, figures) in measured.part(Part::Figures) {
        if !OURS.contains(&cell.variant) || cell.update_percent != super::plan::PAPER_UPDATES {
            continue;
        }
        goals.push(Goal {
            what: format!("figure 14, longest: {}", name(&cell)),
            figure: figures.all.max_us / 1e3,
            unit: " ms",
            bound: Bound::AtMost(PAPER_MAX_MS),
            note: format!("closed loop of 256 connections; p50 {:.2} ms", figures.all.p50_us / 1e3),
        });
        let fork =
            measured.other(&cell, Variant::Fork).or_else(|| measured.other(&cell, Variant::RedisServer));
        let dump = |figures: &Figures| {
            let seconds: Vec<f64> = figures.taken.iter().map(|taken| taken.seconds).collect();
            (!seconds.is_empty()).then(|| Spread::of(seconds).median)
        };
        if cell.pace == Pace::Fast
            && let (Some(own), Some(theirs)) = (dump(figures), fork.and_then(dump))
        {
            let whose = if measured.other(&cell, Variant::Fork).is_some() { "fork" } else { "redis-server" };
            goals.push(Goal {
                what: format!("figure 17, checkpoint: {} / {whose}", name(&cell)),
                figure: own / theirs,
                unit: "x",
                bound: Bound::AtMost(1.0),
                note: format!("{own:.2} and {theirs:.2} s"),
            });
        }
    }
}

/// Memory beyond that of the store before.
pub(super) fn extra(figures: &Figures) -> f64 {
    figures.peak.most.saturating_sub(figures.peak.before) as f64
}

fn memory(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for (cell, figures) in measured.part(Part::Overwrite) {
        let forks = [Variant::Fork, Variant::RedisServer];
        for other in forks.into_iter().filter(|_| OURS.contains(&cell.variant)) {
            let Some(theirs) = measured.other(&cell, other) else { continue };
            goals.push(Goal {
                what: format!("memory added while all is overwritten, {} / {}", name(&cell), other.name()),
                figure: extra(figures) / extra(theirs),
                unit: "x",
                bound: Bound::AtMost(MEMORY_BY_FORK),
                note: format!(
                    "{:.0} and {:.0} MB; {:.0} and {:.0} % of the records overwritten",
                    extra(figures) / 1e6,
                    extra(theirs) / 1e6,
                    figures.overwritten * 100.0,
                    theirs.overwritten * 100.0
                ),
            });
        }
    }
}

fn time(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for (cell, figures) in measured.part(Part::Time) {
        let redis = measured.other(&cell, Variant::RedisServer);
        let Some(redis) = redis.filter(|_| cell.variant == Variant::Piggyback) else { continue };
        let taken = |figures: &Figures| Spread::of(figures.taken.iter().map(|taken| taken.seconds)).median;
        let started = |figures: &Figures| Spread::of(figures.recovered_s.iter().copied()).median;
        let is_whole = |figures: &Figures| !figures.taken.is_empty() && !figures.recovered_s.is_empty();
        if !is_whole(figures) || !is_whole(redis) {
            continue;
        }
        goals.push(Goal {
            what: format!("checkpoint of an idle store / redis-server's: {}", name(&cell)),
            figure: taken(figures) / taken(redis),
            unit: "x",
            bound: Bound::AtMost(1.0),
            note: format!("{:.2} and {:.2} s", taken(figures), taken(redis)),
        });
        goals.push(Goal {
            what: format!("redis-server's start from its RDB file / {}", name(&cell)),
            figure: started(redis) / started(figures),
            unit: "x",
            bound: Bound::AtLeast(RECOVERY_BY_REDIS),
            note: format!("{:.2} and {:.2} s", started(redis), started(figures)),
        });
    }
}

/// The longest cut by size of the data, over all parts.
pub(super) fn cuts_of(measured: &Measured<'_>, variant: Variant) -> Vec<(Data, Spread)> {
    let mut all: Vec<(Data, Vec<f64>)> = Vec::new();
    for part in Part::ALL {
        for (cell, figures) in measured.part(part) {
            if cell.variant != variant || !is_records(&cell) {
                continue;
            }
            let cuts = figures.taken.iter().filter_map(|taken| taken.cut_us);
            match all.iter_mut().find(|(data, _)| *data == cell.data) {
                Some((_, own)) => own.extend(cuts),
                None => all.push((cell.data, cuts.collect())),
            }
        }
    }
    all.retain(|(_, cuts)| !cuts.is_empty());
    all.sort_by_key(|(data, _)| data.count);
    all.into_iter().map(|(data, cuts)| (data, Spread::of(cuts))).collect()
}

fn cuts(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for variant in OURS {
        for (data, cuts) in cuts_of(measured, variant) {
            goals.push(Goal {
                what: format!("opening a view: {}, {data}", variant.name()),
                figure: cuts.median,
                unit: " µs",
                bound: Bound::AtMost(CUT_US),
                note: format!("median, as the server tells it; {} to {} µs", cuts.min, cuts.max),
            });
        }
    }
}

fn giants(measured: &Measured<'_>, goals: &mut Vec<Goal>) {
    for (cell, figures) in measured.part(Part::Giants) {
        if !OURS.contains(&cell.variant) {
            continue;
        }
        goals.push(Goal {
            what: format!("giants, longest during: {}", name(&cell)),
            figure: figures.during_all.max_us / 1e3,
            unit: " ms",
            bound: Bound::AtMost(GIANT_MAX_MS),
            note: format!("without {:.2} ms; {}", figures.without_all.max_us / 1e3, noise(figures)),
        });
        if let Some((without, during)) = rates(figures) {
            goals.push(Goal {
                what: format!("giants, requests/s during / without: {}", name(&cell)),
                figure: during / without,
                unit: "x",
                bound: Bound::AtLeast(RATE_BY_WITHOUT),
                note: format!("{during:.0} and {without:.0}"),
            });
        }
    }
}
