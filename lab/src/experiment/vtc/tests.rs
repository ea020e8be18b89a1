//! Tests targets and reports with made-up results.

#![allow(clippy::unwrap_used)]

use super::cell::{Access, Cell, Figures, Files, Part, Variant, Writes};
use super::{Results, Vtc};
use crate::checkpoint::{Course, Peak, Stretch, Taken};
use crate::experiment::contract::check;
use crate::experiment::{Experiment, Wanted};

fn cell(part: Part, variant: Variant) -> Cell {
    let access = Access::Zipfian;
    Cell { part, variant, records: 1_000_000, update_percent: 50, access, quick: false }
}

fn judged(measured: &[(Cell, Figures)], what: &str) -> Vec<bool> {
    check::judged::<Vtc>(measured, what)
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
fn throughput_and_memory_are_judged_by_what_was_just_before() {
    let ours = cell(Part::Checkpoints, Variant::Vtc);
    let off = (cell(Part::Checkpoints, Variant::Off), course((100.0, 0.0), (1, 1), (1.0, 1.0)));
    let good = [off.clone(), (ours, course((91.0, 87.0), (1000, 1019), (1.0, 1.0)))];
    assert_eq!(judged(&good, "requests/s with"), [true]);
    assert_eq!(judged(&good, "requests/s during"), [true]);
    assert_eq!(judged(&good, "resident"), [true]);
    let bad = [off, (ours, course((89.0, 84.0), (1000, 1021), (1.0, 1.0)))];
    assert_eq!(judged(&bad, "requests/s with"), [false]);
    assert_eq!(judged(&bad, "requests/s during"), [false]);
    assert_eq!(judged(&bad, "resident"), [false]);
}

#[test]
fn latency_is_judged_by_ratio_and_by_what_was_added() {
    let ours = cell(Part::Latency, Variant::Vtc);
    let of = |during| [(ours, course((1.0, 1.0), (1, 1), (10.0, during)))];
    assert_eq!((judged(&of(10.9), "p99.9"), judged(&of(10.9), "longest during")), (vec![true], vec![true]));
    assert_eq!((judged(&of(11.1), "p99.9"), judged(&of(11.1), "longest during")), (vec![true], vec![false]));
    assert_eq!(judged(&of(12.1), "p99.9"), [false]);
}

fn writes(appended: u64, compacted: u64, device: u64, log: u64) -> Figures {
    let writes = Writes {
        updates: 1000,
        appended_bytes: Some(appended),
        compacted_bytes: Some(compacted),
        device_bytes: device,
        // A log shorter than two files is not judged.
        log: vec![(0, 1 << 20, 1), (100, log << 20, 100 << 20)],
        ..Writes::default()
    };
    Figures { writes, log_file_bytes: 1 << 20, ..Figures::default() }
}

#[test]
fn writes_and_times_are_judged_against_redis_server() {
    let zipfian = cell(Part::Writes, Variant::Vtc);
    let uniform = Cell { access: Access::Uniform, ..zipfian };
    let redis = (Cell { variant: Variant::RedisAof, ..zipfian }, writes(1, 1, 1000, 1));
    let all = |own: Figures| [(zipfian, own.clone()), (uniform, own), redis.clone()];
    let good = all(writes(100, 59, 599, 179));
    assert_eq!(judged(&good, "bytes written to the log"), [true, true]);
    assert_eq!(judged(&good, "longest log"), [true, true]);
    assert_eq!(judged(&good, "bytes to the device"), [true]);
    let bad = all(writes(100, 61, 601, 181));
    assert_eq!(judged(&bad, "bytes written to the log"), [false, true]);
    assert_eq!(judged(&bad, "longest log"), [false, false]);
    assert_eq!(judged(&bad, "bytes to the device"), [false]);

    let timed = |seconds| {
        let mut figures = course((1.0, 1.0), (1, 1), (1.0, 1.0));
        figures.course.taken[0].seconds = seconds;
        figures
    };
    for part in [Part::Checkpoints, Part::Alone] {
        let time = |ours, theirs| {
            [
                (cell(part, Variant::VtcFast), timed(ours)),
                // Of one with a bound nothing is said.
                (cell(part, Variant::Vtc), timed(theirs)),
                (cell(part, Variant::RedisRdb), timed(theirs)),
            ]
        };
        assert_eq!(judged(&time(4.9, 10.0), "compaction of"), [true]);
        assert_eq!(judged(&time(5.1, 10.0), "compaction of"), [false]);
    }
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
