//! The goals of the design for the algorithms, compared with the measurements.

use super::cell::{Algorithm, Figures};
use super::plan::{Figure, Point, Scale, points};
use super::results::Results;
use crate::report::{Bound, Goal, Report, Spread};

/// A time below a clock read and two cache misses says nothing about growth, and counts as this.
const TAKEN_US_LEAST: f64 = 1.0;

/// Judges the results; unmeasured goals are left out.
pub fn judge(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    updates(results, scale, seed, report);
    triggers(results, scale, seed, report);
    transactions(results, scale, seed, report);
}

/// An algorithm at the study's default parameters: medians over the repeats.
struct Defaults {
    quiet_us: f64,
    quiet_p50_us: f64,
    during_us: f64,
    overhead_ms: f64,
    /// The most memory, in sizes of the data.
    memory: f64,
}

impl Defaults {
    fn find(results: &Results, points: &[Point], algorithm: Algorithm) -> Option<Defaults> {
        let own = points.iter().filter(|point| point.cell.algorithm == algorithm);
        let measured: Vec<_> =
            own.filter_map(|point| Some((results.find(&point.cell)?, point.cell.data_bytes()))).collect();
        if measured.is_empty() {
            return None;
        }
        let median =
            |of: &dyn Fn(&Figures) -> f64| Spread::of(measured.iter().map(|(figures, _)| of(figures))).median;
        let data_bytes = measured[0].1 as f64;
        Some(Defaults {
            quiet_us: median(&|figures| figures.quiet.mean),
            quiet_p50_us: median(&|figures| figures.quiet.p50),
            during_us: median(&|figures| figures.during.mean),
            overhead_ms: median(&|figures| figures.overhead_ms()),
            memory: median(&|figures| figures.resident_bytes_max as f64) / data_bytes,
        })
    }
}

/// At the study's default parameters.
fn updates(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    let mut defaults = points(Figure::Trace, scale, seed);
    defaults.extend(points(Figure::Repeats, scale, seed));
    let find = |algorithm: Algorithm| Defaults::find(results, &defaults, algorithm);
    let (Some(naive), Some(fork)) = (find(Algorithm::Naive), find(Algorithm::Fork)) else { return };
    let mut goal = |what: String, figure: f64, bound: f64, note: String| {
        report.goal(Goal { what, figure, unit: "x", bound: Bound::AtMost(bound), note });
    };
    for algorithm in [Algorithm::Hourglass, Algorithm::Piggyback] {
        let Some(own) = find(algorithm) else { continue };
        let name = algorithm.name();
        let p50 = own.quiet_p50_us / naive.quiet_p50_us;
        let note =
            format!("{:.0} µs, {:.0} µs; medians of the ticks {p50:.2}x", own.quiet_us, naive.quiet_us);
        goal(format!("{name}: mean tick without a snapshot / NS"), own.quiet_us / naive.quiet_us, 1.15, note);
        let note = format!("{:.0} µs, {:.0} µs", own.during_us, naive.quiet_us);
        goal(format!("{name}: mean tick during one / NS without"), own.during_us / naive.quiet_us, 1.5, note);
        let note = "with the program and the accesses".to_owned();
        goal(format!("{name}: most memory / data"), own.memory, 2.2, note);
    }
    for algorithm in Algorithm::PHYSICAL.into_iter().filter(|algorithm| *algorithm != Algorithm::Fork) {
        let Some(own) = find(algorithm) else { continue };
        let note = format!("{:.0} ms, {:.0} ms", own.overhead_ms, fork.overhead_ms);
        goal(
            format!("{}: checkpoint / Fork's", algorithm.name()),
            own.overhead_ms / fork.overhead_ms,
            1.2,
            note,
        );
    }
}

/// Judges whether the taken phase grows with the data: by medians over the snapshots, because a snapshot that
/// the machine disturbs takes a thousand times longer; the longest is judged by itself. Medians below
/// [`TAKEN_US_LEAST`] count as it.
fn triggers(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    let points = points(Figure::Trigger, scale, seed);
    for algorithm in [Algorithm::PingPong, Algorithm::Hourglass, Algorithm::Piggyback] {
        let own = points.iter().filter(|point| point.cell.algorithm == algorithm);
        let taken = own.filter_map(|point| {
            let figures = results.find(&point.cell)?;
            Some((point.x, figures.taken_us_median(), figures.taken_us_max()))
        });
        let measured: Vec<_> = taken.collect();
        let name = algorithm.name();
        for (gb, _, longest) in &measured {
            report.goal(Goal {
                what: format!("{name}: longest taken phase at {gb:.2} GB"),
                figure: *longest,
                unit: " µs",
                bound: Bound::AtMost(100.0),
                note: String::new(),
            });
        }
        let [(small_gb, small, _), (large_gb, large, _)] = measured[..] else { continue };
        report.goal(taken_growth(name, (small_gb, small), (large_gb, large)));
    }
}

/// That the taken phase does not grow, from medians in microseconds at two sizes in gigabytes.
fn taken_growth(name: &str, (small_gb, small): (f64, f64), (large_gb, large): (f64, f64)) -> Goal {
    Goal {
        what: format!("{name}: median taken phase at {large_gb:.2} GB / at {small_gb:.2} GB"),
        figure: large.max(TAKEN_US_LEAST) / small.max(TAKEN_US_LEAST),
        unit: "x",
        bound: Bound::AtMost(1.2),
        note: format!("{large:.1} µs, {small:.1} µs; less than {TAKEN_US_LEAST} µs counts as that"),
    }
}

/// The virtual algorithms at every number of threads.
fn transactions(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    let points = points(Figure::Transactions, scale, seed);
    let rate = |algorithm: Algorithm, threads: f64| {
        let point = points.iter().find(|point| point.x == threads && point.cell.algorithm == algorithm)?;
        results.find(&point.cell)
    };
    let threads = points.iter().filter(|point| point.cell.algorithm == Algorithm::Calc).map(|point| point.x);
    for threads in threads {
        let Some(calc) = rate(Algorithm::Calc, threads) else { continue };
        for algorithm in [Algorithm::VirtualHourglass, Algorithm::VirtualPiggyback] {
            let Some(figures) = rate(algorithm, threads) else { continue };
            report.goal(Goal {
                what: format!("{} / CALC, {threads} threads", algorithm.name()),
                figure: figures.transactions_per_s / calc.transactions_per_s,
                unit: "x",
                bound: Bound::AtLeast(1.0),
                note: format!("{} restarts, {} conflicts", figures.restarts, figures.conflicts),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_phase_that_no_clock_can_tell_from_another_does_not_grow() {
        let judged = |small, large| {
            let goal = taken_growth("HG", (1.0, small), (8.0, large));
            (goal.figure, goal.bound.is_met(goal.figure), goal.note)
        };
        let note = "0.4 µs, 0.2 µs; less than 1 µs counts as that".to_owned();
        assert_eq!(judged(0.2, 0.4), (1.0, true, note));
        // Growth is counted from the least visible value, and to it.
        assert_eq!(judged(0.2, 1.5).0, 1.5);
        assert!(!judged(0.2, 1.5).1 && !judged(2.0, 3.0).1 && judged(2.0, 2.2).1);
        assert_eq!(judged(2.0, 3.0).0, 1.5);
    }
}
