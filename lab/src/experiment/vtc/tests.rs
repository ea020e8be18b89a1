//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use super::cell::{Access, Cell, Figures, Files, Part, Variant};
use super::{Results, Vtc};
use crate::checkpoint::{Course, Peak, Stretch, Taken};
use crate::experiment::contract::check;
use crate::experiment::{Experiment, Wanted};

fn cell(part: Part, variant: Variant) -> Cell {
    let access = Access::Zipfian;
    Cell { part, variant, records: 1_000_000, update_percent: 50, access, quick: false }
}

/// A course with one checkpoint from second 1 to 2: rates, resident bytes before and during, longest ms.
fn course(rates: (f64, f64), bytes: (u64, u64), longest_ms: (f64, f64)) -> Figures {
    let stretch = |rate, max_ms: f64| Stretch {
        seconds: 1.0,
        rate,
        p999_us: max_ms * 100.0,
        max_us: max_ms * 1e3,
        ..Stretch::default()
    };
    let (without, during) = (stretch(rates.0, longest_ms.0), stretch(rates.1, longest_ms.1));
    let course = Course {
        without: vec![without; 2],
        during: vec![during],
        without_all: without,
        during_all: during,
        taken: vec![Taken { seconds: 1.0, from_ms: 1000.0, ..Taken::default() }],
        peak: Peak {
            most: bytes.1,
            timeline: vec![(0, 1), (900, bytes.0), (1500, bytes.1), (2500, 9 * bytes.1)],
            ..Peak::default()
        },
        timeline: (0..100).map(|at| (at * 20, 10, 80.0, 3.0)).collect(),
        ..Course::default()
    };
    Figures { course, loaded_resident: bytes.0, log_file_bytes: 1 << 20, ..Figures::default() }
}

#[test]
fn the_page_shows_what_there_is_and_names_what_is_missing() {
    let files = Files { run_s: 1.0, run_bytes: 122, started_s: vec![1.0], ..Files::default() };
    let rdb = Files { run_bytes: 100, started_s: vec![2.0], ..files.clone() };
    let files = |files| Figures { files, ..Figures::default() };
    let measured = [
        (cell(Part::Checkpoints, Variant::Vtc), course((10.0, 9.0), (100, 101), (1.0, 1.0))),
        (cell(Part::Alone, Variant::VtcFast), course((10.0, 9.0), (100, 101), (1.0, 1.0))),
        (
            cell(Part::Files, Variant::Vtc),
            files(self::Files::clone(&Files { run_bytes: 122, ..rdb.clone() })),
        ),
        (cell(Part::Files, Variant::RedisRdb), files(rdb)),
    ];
    let page = check::page::<Vtc>(&Results::invented(Vtc::NAME, &measured), Wanted::default());
    for text in ["A &lt;fast&gt; one", "vtc: memory", "4.1a outside", "1.22x", "--only writes", "+1.0 %"] {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.contains("not measured</dt><dd>off, none"), "{}", page);
    assert!(check::charts(&page).len() >= 6);
}

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
