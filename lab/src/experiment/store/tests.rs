//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use super::cell::{Cell, Data, Figures, Kind, Pace, Part, Variant};
use super::{Results, Store};
use crate::checkpoint::{Stretch, Taken};
use crate::experiment::contract::check;
use crate::experiment::{Experiment, Wanted};

const RECORDS: Data = Data { kind: Kind::Records, count: 1_000_000 };

fn cell(part: Part, variant: Variant) -> Cell {
    let pace = if variant.forks() { Pace::Fast } else { Pace::Quiet };
    Cell { part, variant, pace, data: RECORDS, update_percent: 50, quick: false }
}

fn stretch(p999_us: f64, max_us: f64) -> Stretch {
    Stretch { seconds: 1.0, rate: 1e4, p50_us: 50.0, p99_us: 90.0, p999_us, max_us, ..Stretch::default() }
}

/// Latencies without and with a checkpoint.
fn latency(without: (f64, f64), during: (f64, f64)) -> Figures {
    let (without, during) = (stretch(without.0, without.1), stretch(during.0, during.1));
    Figures {
        without: vec![without; 3],
        during: vec![during; 3],
        without_all: without,
        during_all: during,
        taken: vec![Taken { seconds: 2.0, cut_us: Some(20.0), from_ms: 500.0, ..Taken::default() }],
        timeline: vec![(0, 10, 80.0, 3.0), (20, 10, 95.0, 2.0)],
        ..Figures::default()
    }
}

fn judged(measured: &[(Cell, Figures)], what: &str) -> Vec<bool> {
    check::judged::<Store>(measured, what)
}

#[test]
fn the_newest_line_of_a_cell_counts_and_quick_ones_stay_apart() {
    let ours = cell(Part::Latency, Variant::Piggyback);
    let (bad, good) = (latency((100.0, 1.0), (500.0, 1.0)), latency((100.0, 1.0), (100.0, 1.0)));
    assert_eq!(judged(&[(ours, bad.clone()), (ours, good.clone())], "p99.9"), [true]);
    assert_eq!(judged(&[(ours, good), (Cell { quick: true, ..ours }, bad)], "p99.9"), [true]);
}

#[test]
fn results_of_before_are_drawn_and_judged_alike() {
    let results = include_str!("../../../tests/results/store.jsonl");
    let figures =
        ["longest during", "fork, 4 000", "Figure 13", "Figure 14", "Figure 15", "Figure 16", "Figure 17"];
    check::recorded::<Store>(results, Wanted { quick: true, full: false }, &figures);
}
