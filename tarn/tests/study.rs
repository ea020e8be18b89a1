//! `tarn lab run snapshots`, small: every figure has its cells, what was measured is not measured again, what
//! cannot be is refused; and `report` and `choose` use what was measured.

#![allow(clippy::unwrap_used)]

mod measuring;

use std::path::Path;

use measuring::{measured, tarn};

fn study(results: &Path, more: &[&str]) -> String {
    measuring::run("snapshots", results, more)
}

#[test]
fn what_was_measured_is_not_measured_again() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("deep/results.jsonl");
    std::fs::create_dir(dir.path().join("deep")).unwrap();
    let some = ["--only", "trace,skew", "--algorithms", "fork,hg"];
    let told = study(&results, &some);
    // The default cell belongs to both figures.
    assert!(told.contains("\n12 cells to measure"), "{told}");
    let lines = measured(&results);
    assert_eq!(lines.len(), 12);
    for line in &lines {
        let figures = &line["figures"];
        // On a busy machine a tick may last so long that none is outside of the checkpoint.
        let ticks = |when: &str| figures[when]["count"].as_u64().unwrap();
        assert!(ticks("quiet") + ticks("during") > 0, "{line}");
        assert_eq!(figures["overhead_us"].as_array().unwrap().len(), 1, "{line}");
        assert!(figures["taken_us"][0].as_f64().unwrap() > 0.0, "{line}");
        assert!(figures["resident_bytes_max"].as_u64().unwrap() > 1 << 20, "{line}");
    }
    let told = study(&results, &some);
    assert!(told.contains("0 cells to measure"), "{told}");
    assert_eq!(measured(&results).len(), 12);
    let left: Vec<_> = std::fs::read_dir(dir.path().join("deep")).unwrap().collect();
    assert_eq!(left.len(), 1, "no checkpoint is left: {left:?}");

    let (json, out) = (results.to_str().unwrap(), dir.path().join("page.html"));
    let drawn = tarn(&["lab", "report", "--json", json, "--out", out.to_str().unwrap()]);
    assert!(drawn.status.success(), "{drawn:?}");
    let page = std::fs::read_to_string(out).unwrap();
    assert!(page.contains("2 of 7 cells were measured") && page.contains("12 of 42 cells were measured"));
    let choose =
        ["lab", "choose", "--rows", "1000", "--row-bytes", "64", "--updates-per-s", "1000", "--json"];
    let chosen = tarn(&[&choose[..], &[json]].concat());
    assert!(chosen.status.success(), "{chosen:?}");
    assert!(String::from_utf8(chosen.stdout).unwrap().contains("recommended: "));
    let missing = tarn(&[&choose[..], &[json, "--full"]].concat());
    assert!(!missing.status.success());
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no measurements"));
}

#[test]
fn transactions_are_counted_with_every_virtual_algorithm() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.jsonl");
    study(&results, &["--only", "transactions"]);
    let lines = measured(&results);
    assert_eq!(lines.len(), 25);
    for name in ["CALC", "vHG", "vPB", "pCALC", "CPR"] {
        let own = lines.iter().filter(|line| line["server"] == name);
        let rates: Vec<f64> =
            own.map(|line| line["figures"]["transactions_per_s"].as_f64().unwrap()).collect();
        assert!(rates.len() == 5 && rates.iter().all(|rate| *rate > 0.0), "{name}: {rates:?}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let refusal = |words: &[&str]| {
        let output = tarn(&[&["lab", "run", "snapshots", "--quick"], words].concat());
        assert!(!output.status.success(), "{words:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("results.jsonl");
    let results = results.to_str().unwrap();
    assert!(refusal(&["--json", results, "--only", "fig9"]).contains("invalid value 'fig9'"));
    assert!(refusal(&["--json", results, "--full"]).contains("cannot be used with"));
    let told = refusal(&["--json", results, "--dir", "/proc"]);
    assert!(told.starts_with("error: /proc"), "{told}");
    std::fs::write(results, "no results\n").unwrap();
    let told = refusal(&["--json", results]);
    assert!(told.contains("has no results: choose another file with --json"), "{told}");
    std::fs::write(results, "{\"experiment\":\"snapshots\"}\nno results\n").unwrap();
    let told = refusal(&["--json", results]);
    assert!(told.contains("line 1"), "{told}");
}

#[test]
fn a_directory_of_results_is_made_once_and_drawn_again_from_the_data() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("machine");
    let reproduce = |words: &[&str]| {
        let output = tarn(&[&["lab", "reproduce", results.to_str().unwrap()], words].concat());
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    let quick = ["--scale", "quick", "--only", "machine"];
    let (went, told) = reproduce(&quick);
    assert!(went && told.contains("machine (1 of 1), about"), "{told}");
    let files = || {
        let files = std::fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        files
    };
    let all = ["machine.csv", "machine.html", "machine.jsonl.zst", "manifest.json"];
    assert_eq!(files(), all);
    let page = std::fs::read_to_string(results.join("machine.html")).unwrap();
    let (went, told) = reproduce(&quick);
    assert!(went && !told.contains("cells to measure"), "{told}");
    std::fs::remove_file(results.join("machine.html")).unwrap();
    assert!(reproduce(&["--draw"]).0);
    assert_eq!(files(), all);
    assert_eq!(std::fs::read_to_string(results.join("machine.html")).unwrap(), page);
    let (went, told) = reproduce(&["--scale", "small", "--only", "machine"]);
    assert!(!went && told.contains("was begun with --scale quick --seed 1"), "{told}");
}
