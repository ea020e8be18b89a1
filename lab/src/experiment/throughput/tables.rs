//! The ratios of scores that are goals.

use super::contest::Score;
use crate::report::{Bound, Goal, Report};

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
