//! Tests the report and the targets with changed results.

use super::Store;
use super::cell::{Part, Variant};
use crate::experiment::contract::{check, html};
use crate::experiment::{Experiment, ResultsOf, Wanted};
use crate::ledger::{Blame, Cause};

const RECORDED: &str = include_str!("../../../tests/results/store.jsonl");
const QUICK: Wanted = Wanted { quick: true, full: false };

#[test]
fn the_newest_line_of_a_cell_counts_and_quick_ones_stay_apart() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    results.lines.retain(|line| line.cell.part == Part::Latency && line.cell.variant == Variant::TarnFull);
    results.lines.truncate(1);
    let add = |results: &mut ResultsOf<Store>, quick: bool, p999_us: f64| {
        let mut line = results.lines[0].clone();
        (line.cell.quick, line.figures.course.during_all.p999_us) = (quick, p999_us);
        results.lines.push(line);
    };
    let slow = results.lines[0].figures.course.without_all.p999_us * 5.0;
    add(&mut results, true, slow);
    assert_eq!(check::judged::<Store>(&results, QUICK, "p99.9"), [false]);
    add(&mut results, true, slow / 5.0);
    add(&mut results, false, slow);
    assert_eq!(check::judged::<Store>(&results, QUICK, "p99.9"), [true]);
}

#[test]
fn the_causes_of_slow_requests_are_drawn_as_piles_where_there_is_a_ledger() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    results.lines.retain(|line| line.cell.part == Part::Latency && line.cell.variant == Variant::TarnFull);
    results.lines.truncate(1);
    let piles = |results: &ResultsOf<Store>| {
        let charts = check::charts(&html::<Store>(results, QUICK));
        charts.into_iter().filter(|chart| chart["kind"] == "stacked").collect::<Vec<_>>()
    };
    assert!(piles(&results).is_empty());
    let blame = |latch| {
        let causes = Cause::ALL.map(|cause| (cause, 0.0)).into_iter();
        let causes = causes.chain([(Cause::Latch, latch), (Cause::Outside, 250.0)]).collect();
        Some(Blame { causes, requests: 3, ..Blame::default() })
    };
    let course = &mut results.lines[0].figures.course;
    (course.without_slow, course.during_slow) = (blame(0.0), blame(1500.0));
    let [pile] = &piles(&results)[..] else { panic!("a chart for the one size") };
    let series: Vec<_> =
        ["latch", "outside"].iter().zip(pile["series"].as_array().into_iter().flatten()).collect();
    assert_eq!(pile["labels"].as_array().map(Vec::len), Some(2), "{pile}");
    assert!(series.iter().all(|(name, own)| own["name"] == **name && own["color"].is_string()), "{pile}");
    assert_eq!(pile["series"].as_array().map(Vec::len), Some(2), "{pile}");
    assert_eq!(series[0].1["data"], serde_json::json!([0.0, 1500.0]));
}
