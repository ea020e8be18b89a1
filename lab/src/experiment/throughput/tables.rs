//! The tables of scores, and the ratios that are goals.

use comfy_table::{Cell, Table};

use super::contest::Score;
use crate::report::{Bound, Goal, Report, number_cell, table, thousands};

/// An empty table of rates.
pub fn rate_table() -> Table {
    table(&[
        "case",
        "server",
        "requests/s",
        "spread",
        "p99 µs",
        "server busy",
        "generator busy",
        "server µs/request",
    ])
}

/// Adds a row for each server and group of connections.
pub fn add_rate_rows(table: &mut Table, case: &str, scores: &[Score]) {
    for score in scores {
        for group in &score.groups {
            let case =
                if score.groups.len() > 1 { format!("{case}: {}", group.name) } else { case.to_owned() };
            table.add_row(vec![
                Cell::new(case),
                Cell::new(&score.label),
                number_cell(thousands(group.rate.median)),
                number_cell(format!("{:.0} %", group.rate.percent())),
                number_cell(thousands(group.p99_us.median)),
                number_cell(format!("{:.0} %", score.server_busy * 100.0)),
                number_cell(format!("{:.0} %", score.generator_busy * 100.0)),
                number_cell(format!("{:.3}", score.server_us_per_request())),
            ]);
        }
    }
}

/// Notes the ratio of the first server's rate to the second's as a goal, if there are two. The rates are
/// those of the first group.
pub fn add_ratio_goal(report: &mut Report, case: &str, scores: &[Score], at_least: f64) {
    if let [ours, theirs] = scores {
        add_goal(report, case, ours, theirs, at_least, "");
    }
}

/// Notes the ratio of two rates as a goal.
pub fn add_goal(report: &mut Report, case: &str, ours: &Score, theirs: &Score, at_least: f64, note: &str) {
    // Where the generator or somebody else was the limit, the cost of a request says more than the rate.
    let (one, two) = (ours.server_us_per_request(), theirs.server_us_per_request());
    let cost = format!("server µs/request {one:.3} against {two:.3}");
    let notes =
        [Some(cost), ours.limit_note(), theirs.limit_note(), (!note.is_empty()).then(|| note.to_owned())];
    report.goal(Goal::new(
        format!("{case}: {} / {}", ours.label, theirs.label),
        ours.groups[0].rate.median / theirs.groups[0].rate.median,
        "x",
        Bound::AtLeast(at_least),
        notes.into_iter().flatten().collect::<Vec<_>>().join("; "),
    ));
}
