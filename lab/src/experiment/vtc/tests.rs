//! Tests the report and the targets with recorded results.

use super::Vtc;
use crate::experiment::Wanted;
use crate::experiment::contract::check;

#[test]
fn results_of_before_are_drawn_and_judged_alike() {
    let results = include_str!("../../../tests/results/vtc.jsonl");
    let figures = [
        "vtc: throughput",
        "vtc: memory",
        "4.1a",
        "4.1b",
        "4.2a",
        "4.2b",
        "4.3a",
        "4.3b",
        "4.4",
        "4.5",
        "4.6",
        "4.7",
    ];
    check::recorded::<Vtc>(results, Wanted { quick: true, full: false }, &figures);
}
