//! The measurements as rows: one for each point of a figure, and one for each algorithm at the default
//! parameters, whose columns are lists over the repeats.

use serde_json::json;

use super::cell::{Algorithm, Cell, Figures};
use super::compare::data::{Study, TAKEN_US_SHORT, exponent};
use super::compare::model;
use super::plan::Figure;
use crate::experiment::row;
use crate::page::{Row, with};
use crate::report::short;

/// Waits and taken phases are drawn on a logarithmic axis; one of zero is drawn here.
const LEAST_WAIT_US: f64 = 0.1;
/// A time below a clock read and two cache misses says nothing about growth, and counts as this.
const TAKEN_US_LEAST: f64 = 1.0;

/// All rows of a study.
pub(super) fn of(study: &Study<'_>) -> Vec<Row> {
    let figures = Figure::ALL.into_iter().flat_map(|figure| of_figure(study, figure));
    figures.chain(defaults(study)).chain(growths(study)).collect()
}

fn of_figure(study: &Study<'_>, figure: Figure) -> Vec<Row> {
    let points = study.measured(figure).into_iter().map(|(point, figures)| {
        let more = json!({
            "part": figure.name(),
            "x": point.x,
            "label": point.cell.label(),
            "mean_us": figures.mean_us(),
            "max_us": figures.max_us(),
            "taken": figures.taken_us_max(),
            "memory": memory_ratio(&point.cell, figures),
            "update_bytes": update_bytes(&point.cell),
            "visible_taken": figures.taken_us_max().max(LEAST_WAIT_US),
            "visible_wait": figures.longest_wait().max(LEAST_WAIT_US),
            "longest_reads": figures.reads_quiet.max.max(figures.reads_during.max),
            "longest_fields": figures.max_us(),
        });
        with(row(&point.cell, figures), more)
    });
    points.collect()
}

/// Bytes that an update writes.
const fn update_bytes(cell: &Cell) -> usize {
    match (cell.fields, cell.items) {
        (_, true) => 4,
        (true, false) => 8,
        (false, false) => cell.row_bytes,
    }
}

/// The most memory by the data's.
fn memory_ratio(cell: &Cell, figures: &Figures) -> f64 {
    if figures.resident_bytes_max == 0 {
        return f64::NAN;
    }
    figures.resident_bytes_max as f64 / cell.data_bytes() as f64
}

/// The algorithms at the default parameters, for the tables of the defaults, the summary and the cache.
fn defaults(study: &Study<'_>) -> Vec<Row> {
    let taken = study.series(Figure::Dataset, |_, figures| figures.taken_us_median().max(TAKEN_US_SHORT));
    let flood = study.series(Figure::Flood, |_, figures| figures.updates_per_s / 1e6);
    let rows = Algorithm::PHYSICAL.into_iter().map(|algorithm| {
        let repeats = study.defaults_of(algorithm);
        let all = |of: &dyn Fn(&Cell, &Figures) -> f64| {
            json!(repeats.iter().map(|(cell, figures)| of(cell, figures)).collect::<Vec<_>>())
        };
        let own = |of: fn(&Figures) -> f64| all(&|_, figures| of(figures));
        let growth = taken.iter().find(|series| series.algorithm == algorithm);
        let most = flood.iter().find(|series| series.algorithm == algorithm);
        let row_bytes = repeats.first().map_or(64, |(cell, _)| cell.row_bytes);
        let lines = model::lines(algorithm, row_bytes);
        let more = json!({
            "algorithm": algorithm.name(),
            "mean_us": own(Figures::mean_us),
            "quiet_mean": own(|figures| figures.quiet.mean),
            "quiet_p50": own(|figures| figures.quiet.p50),
            "during_mean": own(|figures| figures.during.mean),
            "p50": own(|figures| figures.quiet.p50.max(figures.during.p50)),
            "p99": own(|figures| figures.quiet.p99.max(figures.during.p99)),
            "p999": own(|figures| figures.quiet.p999.max(figures.during.p999)),
            "longest": own(Figures::max_us),
            "intended": own(|figures| figures.from_intended.max),
            "taken": own(Figures::taken_us_max),
            "wait": own(Figures::longest_wait),
            "overhead_ms": own(Figures::overhead_ms),
            "memory": all(&memory_ratio),
            "complexity": complexity(growth.and_then(|series| exponent(&series.points))),
            "flood": most.and_then(|series| series.points.first()).map(|point| point.1),
            "full": if algorithm.is_full() { "yes" } else { "no" },
            "misses": misses(repeats.first().map(|(_, figures)| *figures)),
            "model": lines,
            "which": lines.map(|own| own.what),
        });
        with(Row::new(), more)
    });
    let rows: Vec<Row> = rows.collect();
    let tables = ["defaults", "summary", "cache"];
    let of = |part: &&str| -> Vec<Row> {
        rows.iter().map(|row| with(row.clone(), json!({ "part": part }))).collect()
    };
    tables.iter().flat_map(of).collect()
}

fn misses(figures: Option<&Figures>) -> String {
    match figures.map(|figures| (figures.cache_misses, figures.updates)) {
        None => "–".to_owned(),
        Some((Some(misses), updates)) => short(misses as f64 / updates as f64),
        Some((None, _)) => "not available here".to_owned(),
    }
}

/// The growth of a taken phase, as an order.
fn complexity(exponent: Option<f64>) -> String {
    match exponent {
        None => "–".to_owned(),
        Some(exponent) if exponent < 0.3 => format!("O(1) (n^{exponent:.2})"),
        Some(exponent) if exponent > 0.7 => format!("O(n) (n^{exponent:.2})"),
        Some(exponent) => format!("between (n^{exponent:.2})"),
    }
}

/// Whether the taken phase grows with the data: by medians over the snapshots, because a snapshot that the
/// machine disturbs takes a thousand times longer. Medians below [`TAKEN_US_LEAST`] count as it.
fn growths(study: &Study<'_>) -> Vec<Row> {
    let series = study.series(Figure::Trigger, |_, figures| figures.taken_us_median());
    let growth = series.iter().filter_map(|series| {
        let [(small_gb, small), (large_gb, large)] = series.points[..] else { return None };
        let more = json!({
            "part": "trigger-growth", "algorithm": series.algorithm.name(), "small_gb": small_gb,
            "small": small, "large_gb": large_gb, "large": large, "growth": taken_growth(small, large),
        });
        Some(with(Row::new(), more))
    });
    growth.collect()
}

fn taken_growth(small: f64, large: f64) -> f64 {
    large.max(TAKEN_US_LEAST) / small.max(TAKEN_US_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_a_name() {
        assert_eq!(complexity(None), "–");
        assert_eq!(complexity(Some(0.04)), "O(1) (n^0.04)");
        assert_eq!(complexity(Some(0.98)), "O(n) (n^0.98)");
        assert_eq!(complexity(Some(0.5)), "between (n^0.50)");
    }

    #[test]
    fn a_taken_phase_that_no_clock_can_tell_from_another_does_not_grow() {
        assert_eq!(taken_growth(0.2, 0.4), 1.0);
        // Growth is counted from the least visible value, and to it.
        assert_eq!([taken_growth(0.2, 1.5), taken_growth(2.0, 3.0)], [1.5, 1.5]);
        assert!(taken_growth(2.0, 2.2) < 1.2);
    }

    #[test]
    fn the_summary_says_of_each_whether_it_is_full_as_the_algorithm_does() {
        use super::super::study::Snapshots;
        use crate::experiment::Experiment;
        use crate::page::List;
        use tarn_study::{Algorithm as _, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};
        let full = [
            Naive::FULL,
            CopyOnUpdate::FULL,
            Fork::FULL,
            Zigzag::FULL,
            PingPong::FULL,
            Hourglass::FULL,
            Piggyback::FULL,
        ];
        assert_eq!(Algorithm::PHYSICAL.map(Algorithm::is_full), full);
        let printed = List::parse(Snapshots::FIGURES).more;
        let printed = Algorithm::PHYSICAL.map(|algorithm| printed[algorithm.name()]["table_2"][4] == "yes");
        assert_eq!(printed, full);
    }
}
