//! What the design promises of the algorithms, held against what was measured.

use super::cell::{Algorithm, Figures};
use super::plan::{Figure, Scale, points};
use super::results::Results;
use crate::report::{Bound, Goal, Report};

/// Judges what the results have; what was not measured is left out.
pub fn judge(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    updates(results, scale, seed, report);
    triggers(results, scale, seed, report);
    transactions(results, scale, seed, report);
}

/// At the study's default parameters.
fn updates(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    let defaults = points(Figure::Trace, scale, seed);
    let find = |algorithm: Algorithm| {
        let point = defaults.iter().find(|point| point.cell.algorithm == algorithm)?;
        results.find(&point.cell).map(|figures| (figures, point.cell.data_bytes()))
    };
    let (Some((naive, _)), Some((fork, _))) = (find(Algorithm::Naive), find(Algorithm::Fork)) else { return };
    let mut goal = |what: String, figure: f64, bound: f64, note: String| {
        report.goal(Goal { what, figure, unit: "x", bound: Bound::AtMost(bound), note });
    };
    for algorithm in [Algorithm::Hourglass, Algorithm::Piggyback] {
        let Some((figures, data_bytes)) = find(algorithm) else { continue };
        let name = algorithm.name();
        let note = |figures: &Figures| format!("{:.0} µs", figures.quiet.mean);
        let quiet = figures.quiet.mean / naive.quiet.mean;
        goal(format!("{name}: mean tick without a snapshot / NS"), quiet, 1.15, note(figures));
        let during = figures.during.mean / naive.quiet.mean;
        let note = format!("{:.0} µs", figures.during.mean);
        goal(format!("{name}: mean tick during one / NS without"), during, 1.5, note);
        let most = figures.resident_bytes_max as f64 / data_bytes as f64;
        let note = "with the program and the accesses".to_owned();
        goal(format!("{name}: most memory / data"), most, 2.2, note);
    }
    for algorithm in Algorithm::PHYSICAL.into_iter().filter(|algorithm| *algorithm != Algorithm::Fork) {
        let Some((figures, _)) = find(algorithm) else { continue };
        let note = format!("{:.0} ms", figures.overhead_ms());
        let what = format!("{}: checkpoint / Fork's", algorithm.name());
        goal(what, figures.overhead_ms() / fork.overhead_ms(), 1.2, note);
    }
}

/// Whether the wait at the trigger grows with the data.
fn triggers(results: &Results, scale: Scale, seed: u64, report: &mut Report) {
    let points = points(Figure::Trigger, scale, seed);
    for algorithm in [Algorithm::PingPong, Algorithm::Hourglass, Algorithm::Piggyback] {
        let own = points.iter().filter(|point| point.cell.algorithm == algorithm);
        let measured: Vec<_> =
            own.filter_map(|point| Some((point.x, results.find(&point.cell)?.taken_us_max()))).collect();
        let [(small_gb, small_us), (large_gb, large_us)] = measured[..] else { continue };
        let name = algorithm.name();
        report.goal(Goal {
            what: format!("{name}: taken phase at {large_gb:.2} GB / at {small_gb:.2} GB"),
            figure: large_us / small_us,
            unit: "x",
            bound: Bound::AtMost(1.2),
            note: format!("{large_us:.1} µs, {small_us:.1} µs"),
        });
        report.goal(Goal {
            what: format!("{name}: taken phase at {large_gb:.2} GB"),
            figure: large_us,
            unit: " µs",
            bound: Bound::AtMost(100.0),
            note: String::new(),
        });
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
