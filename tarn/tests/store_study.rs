//! `tarn lab run store`, small: checkpoints are taken and measured, what was measured is not measured again,
//! and `report store` draws it.

#![allow(clippy::unwrap_used)]

mod measuring;

use std::path::Path;

use measuring::{measured, tarn};

fn run(results: &Path, more: &[&str]) -> String {
    let small = ["--scale", "0.1", "--seconds", "0.5", "--seed", "7", "--sizes", "1"];
    measuring::run("store", results, &[&small[..], more].concat())
}

#[test]
fn checkpoints_are_taken_under_load_and_not_measured_twice() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("store.jsonl");
    let some = ["--servers", "tarn", "--variants", "tarn-full", "--only", "latency,overwrite,time"];
    let told = run(&results, &some);
    assert!(told.contains("4 cells to measure"), "{told}");
    let lines = measured(&results);
    assert_eq!(lines.len(), 4);
    for line in &lines {
        let figures = &line["figures"];
        let taken = figures["taken"].as_array().unwrap();
        assert_eq!(taken.len(), 1, "{line}");
        assert!(taken[0]["seconds"].as_f64().unwrap() > 0.0, "{line}");
        assert!(taken[0]["cut_us"].as_f64().is_some(), "{line}");
        // At least the values of 1000 records, not compressed.
        assert!(taken[0]["file_bytes"].as_u64().unwrap() > 1_000_000, "{line}");
        match line["parameters"]["part"].as_str().unwrap() {
            "latency" => {
                assert!(figures["saturation"].as_f64().unwrap() > 0.0, "{line}");
                assert_eq!(figures["without"].as_array().unwrap().len(), 2, "{line}");
                let requests: u64 = figures["timeline"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|moment| moment[1].as_u64().unwrap())
                    .sum();
                assert!(requests > 0, "{line}");
            }
            "overwrite" => assert!(figures["peak"]["most"].as_u64().unwrap() > 1 << 20, "{line}"),
            "time" => assert!(figures["recovered_s"][0].as_f64().unwrap() > 0.0, "{line}"),
            other => panic!("{other}"),
        }
    }
    let series = std::fs::read_to_string(results.with_extension("series.csv")).unwrap();
    assert!(
        series.starts_with("part,variant,pace")
            && series.contains("\nlatency,tarn-full,quiet,records,1000,50,")
    );
    let told = run(&results, &some);
    assert!(told.contains("0 cells to measure"), "{told}");
    assert_eq!(measured(&results).len(), 4);

    let out = dir.path().join("store.html");
    let drawn = tarn(&[
        "lab",
        "report",
        "store",
        "--json",
        results.to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
    ]);
    assert!(drawn.status.success(), "{drawn:?}");
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.contains("tarn-full quiet, 1 000 records") && page.contains("echarts"));
    assert!(page.contains("Not measured: tarn lab run store --only giants"));
    std::fs::remove_file(&results).unwrap();
    let missing = tarn(&["lab", "report", "store", "--json", results.to_str().unwrap()]);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no measurements of store"));
    let mut left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["store.html", "store.series.csv"]);
}

#[test]
fn giants_are_written_to_while_checkpoints_are_taken() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("store.jsonl");
    run(&results, &["--variants", "tarn-incremental,redis-server", "--only", "giants"]);
    let lines = measured(&results);
    let of = |name: &str| lines.iter().filter(|line| line["server"] == name).count();
    assert_eq!(of("tarn-incremental"), 5);
    assert!([0, 5].contains(&of("redis-server")));
    for line in &lines {
        let figures = &line["figures"];
        assert!(figures["rates_during"][0].as_f64().is_some(), "{line}");
        assert_eq!(figures["taken"].as_array().unwrap().len(), 1, "{line}");
    }
}
