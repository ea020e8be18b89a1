//! Tests the report and the targets with changed results.

use super::Store;
use super::cell::{Part, Variant};
use crate::experiment::contract::check;
use crate::experiment::{Experiment, ResultsOf, Wanted};

const RECORDED: &str = include_str!("../../../tests/results/store.jsonl");
const QUICK: Wanted = Wanted { quick: true, full: false };

#[test]
fn the_newest_line_of_a_cell_counts_and_quick_ones_stay_apart() {
    let mut results: ResultsOf<Store> = check::read(RECORDED, Store::NAME);
    results.lines.retain(|line| line.cell.part == Part::Latency && line.cell.variant == Variant::Piggyback);
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
