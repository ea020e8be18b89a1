//! Tests advice with made-up results.

use super::super::cell::Algorithm;
use super::super::fixture;
use super::super::plan::{Figure, Scale};
use super::*;

const SOME: Options = Options {
    rows: 16_000_000,
    row_bytes: 64,
    updates_per_s: 3_200_000,
    memory: None,
    latency_us_max: None,
    full_only: false,
    json: PathBuf::new(),
    quick: false,
    full: false,
};

fn advice(workload: Options) -> Advice {
    let results = fixture::results(&Figure::ALL, Scale::Default);
    advise(&Study::newest(&results, scales(Wanted::default())).expect("there are results"), &workload)
}

fn chosen(advice: &Advice) -> Option<Algorithm> {
    advice.chosen.map(|own| own.algorithm)
}

fn out(advice: &Advice) -> Vec<&'static str> {
    let mut names: Vec<_> = advice.ruled_out.iter().map(|(algorithm, _)| algorithm.name()).collect();
    names.dedup();
    names
}

#[test]
fn short_waits_and_full_snapshots_ask_for_piggyback() {
    let found = advice(Options { latency_us_max: Some(50), full_only: true, ..SOME });
    assert_eq!(chosen(&found), Some(Algorithm::Piggyback), "{found:?}");
    assert_eq!(out(&found), ["NS", "COU", "Fork", "ZZ", "PP", "HG"]);
    assert!(recommendation(found.chosen.as_ref()).starts_with("recommended: PB."));
}

#[test]
fn little_memory_asks_for_fork_and_less_for_nothing() {
    // The data are 1.024 GB: two copies are too much.
    let found = advice(Options { memory: Some(1_800_000_000), ..SOME });
    assert_eq!(chosen(&found), Some(Algorithm::Fork), "{found:?}");
    assert_eq!(out(&found), ["NS", "COU", "ZZ", "PP", "HG", "PB"]);
    let found = advice(Options { memory: Some(1_000_000_000), ..SOME });
    assert_eq!(chosen(&found), None);
    assert_eq!(recommendation(found.chosen.as_ref()), "none of them fits");
}

#[test]
fn many_updates_rule_out_who_cannot_keep_up_and_cost_decides() {
    // Of 45 million a second, each may take 22 ns.
    let found = advice(Options { updates_per_s: 45_000_000, ..SOME });
    assert_eq!(out(&found), ["COU", "ZZ", "PP", "HG", "PB"]);
    assert_eq!(chosen(&found), Some(Algorithm::Fork), "its spike is shorter than Naive's: {found:?}");
    assert!(found.notes.iter().any(|note| note.starts_with("rate: 45000000 updates/s lies outside")));
}

#[test]
fn predictions_are_straight_lines() {
    let of = |found: &Advice, algorithm: Algorithm| {
        let own = found.predictions.iter().find(|own| own.algorithm == algorithm);
        *own.expect("it was measured")
    };
    let found = advice(SOME);
    assert!(!found.notes.iter().any(|note| note.contains("outside")), "{:?}", found.notes);
    let near =
        |figure: f64, expected: f64| assert!((figure / expected - 1.0).abs() < 0.1, "{figure} {expected}");
    let zigzag = of(&found, Algorithm::Zigzag);
    near(zigzag.update_ns, 100.0);
    near(zigzag.core_share, 0.32);
    near(zigzag.spike_us, 1_026.0);
    near(zigzag.memory_bytes, 2.1e9);
    near(zigzag.checkpoint_s, 1.024);
    // 100 times the data, in rows of four times the bytes: 25 times the rows.
    let large = advice(Options { rows: SOME.rows * 25, row_bytes: 256, ..SOME });
    near(of(&large, Algorithm::Zigzag).spike_us, 25.0 * zigzag.spike_us);
    near(of(&large, Algorithm::Naive).spike_us, 100.0 * of(&found, Algorithm::Naive).spike_us);
    assert_eq!(of(&large, Algorithm::Hourglass).spike_us, of(&found, Algorithm::Hourglass).spike_us);
    near(of(&large, Algorithm::Zigzag).update_ns, 115.0);
    near(of(&large, Algorithm::Naive).update_ns, 46.0);
    assert!(large.notes.iter().any(|note| note.starts_with("data: 102.4 GB lies outside")), "{large:?}");
}

#[test]
fn what_was_not_measured_is_said_and_odd_figures_do_no_harm() {
    let mut results = fixture::results(&[Figure::Trace, Figure::Dataset], Scale::Quick);
    results.lines.retain(|line| line.cell.algorithm != Algorithm::Fork);
    for line in results.lines.iter_mut().filter(|line| line.cell.algorithm == Algorithm::Zigzag) {
        line.figures.quiet.mean = f64::NAN;
    }
    let study = Study::newest(&results, scales(Wanted::default())).expect("there are results");
    let found = advise(&study, &SOME);
    assert_eq!(found.predictions.len(), 5);
    assert!(found.notes.contains(&"Fork was not measured".to_owned()));
    assert!(found.notes.contains(&"ZZ was not measured".to_owned()));
}

#[test]
fn nonsense_is_refused_in_words() {
    let dir = tempfile::tempdir().expect("there is room");
    let json = dir.path().join("none.jsonl");
    let some = Options { rows: 1000, updates_per_s: 1000, json, ..SOME };
    let refused = |options: Options| run(&options).expect_err("it is nonsense").to_string();
    for (options, expected) in [
        (Options { rows: 0, ..some.clone() }, "row"),
        (Options { row_bytes: 12, ..some.clone() }, "12"),
        (Options { row_bytes: 0, ..some.clone() }, "0"),
        (Options { rows: usize::MAX, ..some.clone() }, "too many"),
        (Options { updates_per_s: 0, ..some.clone() }, "--updates-per-s is 0"),
        (some, "tarn lab run snapshots --json"),
    ] {
        let error = refused(options);
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(bytes("4gb"), Ok(4 << 30));
    assert_eq!(bytes("512"), Ok(512));
    assert_eq!(bytes("2M"), Ok(2_000_000));
    assert!(bytes("gb").is_err() && bytes("4 parsecs").is_err() && bytes("99999999999tb").is_err());
    assert!(bytes("-1").is_err());
}
