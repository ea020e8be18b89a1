//! `tarn lab run persistence`, small: every model is loaded and started from, what was measured is not
//! measured again, and `report persistence` draws it.

#![allow(clippy::unwrap_used)]

mod measuring;

use std::path::Path;

use serde_json::Value;

use measuring::{measured, tarn};

fn run(results: &Path, more: &[&str]) -> String {
    let small = ["--scale", "0.2", "--seconds", "0.15", "--seed", "7"];
    measuring::run("persistence", results, &[&small[..], more].concat())
}

/// The lines of a part of one server.
fn of<'l>(lines: &'l [Value], part: &str, server: &str) -> Vec<&'l Value> {
    let is_own = |line: &&Value| line["parameters"]["part"] == part && line["server"] == server;
    lines.iter().filter(is_own).collect()
}

#[test]
fn every_model_is_loaded_and_started_from_and_not_measured_twice() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("persistence.jsonl");
    let told = run(&results, &["--memory", "ample"]);
    let lines = measured(&results);
    assert!(told.contains(&format!("\n{} cells to measure", lines.len())), "{told}");
    // Five models with 1 and 16 threads, and the three with a log once more with a log that is made shorter.
    let loads = of(&lines, "load", "tarn");
    assert_eq!(loads.len(), 13);
    for line in &loads {
        let (model, figures) = (line["parameters"]["model"].as_str().unwrap(), &line["figures"]);
        // There is an end to the time for it, whatever the device and the machine.
        let loaded = figures["loaded"].as_u64().unwrap();
        assert!((1..=2000).contains(&loaded), "{model}: {loaded}");
        assert!(figures["ended"].is_null() && figures["errors"] == 0, "{line}");
        let usage = figures["usage"].as_array().unwrap();
        assert!(usage.iter().any(|usage| usage["resident"].as_u64().unwrap() > 1 << 20), "{model}");
        // A snapshot is taken when its rule says so, which may be later.
        let files = figures["file_bytes"].as_u64().unwrap();
        assert!(model == "snapshot" || (files > 0) == model.starts_with("log"), "{model}: {files}");
    }
    // On a busy machine a moment may pass without a reply, but not for each of them.
    assert!(loads.iter().any(|line| line["figures"]["updates"]["rate"].as_f64().unwrap() > 0.0));
    let starts = of(&lines, "recovery", "tarn");
    assert_eq!(starts.len(), 3);
    for line in &starts {
        assert!(line["figures"]["started_s"].as_f64().unwrap() > 0.0, "{line}");
    }
    let bytes = |model: &str, shortens: bool| {
        let own = |line: &&&Value| {
            line["parameters"]["model"] == model && line["parameters"]["shortens"] == shortens
        };
        starts.iter().find(own).unwrap()["figures"]["last_file_bytes"].as_u64().unwrap()
    };
    // The same updates: a log that was compacted is shorter than one that was not.
    let (compacted, whole) = (bytes("log-periodical", true), bytes("log-periodical", false));
    assert!(compacted < whole, "{compacted} bytes are not fewer than {whole}");
    assert!(bytes("snapshot", false) > 2_000_000);
    let series = std::fs::read_to_string(results.with_extension("series.csv")).unwrap();
    assert!(
        series.starts_with("part,server,model") && series.contains("\nload,tarn,no-save,false,1,2000,ample,")
    );

    let told = run(&results, &["--memory", "ample"]);
    assert!(told.contains("\n0 cells to measure"), "{told}");
    assert_eq!(measured(&results).len(), lines.len());

    let out = dir.path().join("persistence.html");
    let json = results.to_str().unwrap();
    let words = ["lab", "report", "persistence", "--json", json, "--out", out.to_str().unwrap()];
    let drawn = tarn(&words);
    assert!(drawn.status.success(), "{drawn:?}");
    let page = std::fs::read_to_string(&out).unwrap();
    for text in ["tarn, light, 16 client threads", "appendfsync always", "2.15x", "by core", "11b files"] {
        assert!(page.contains(text), "{text}");
    }
    std::fs::remove_file(&results).unwrap();
    let missing = tarn(&words);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no measurements of persistence"));
    let mut left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["persistence.html", "persistence.series.csv"]);
}

#[test]
fn short_memory_is_measured_or_said_to_be_impossible() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("persistence.jsonl");
    let told =
        run(&results, &["--memory", "short", "--models", "no-save,log-periodical", "--servers", "tarn"]);
    let lines = measured(&results);
    if told.contains("memory cannot be made short") {
        assert!(lines.is_empty());
        assert!(std::fs::read_to_string(&results).unwrap().contains("\"left-out\""));
        return;
    }
    // Two loads and two starts. Data this small may fit.
    assert_eq!(lines.len(), 4, "{told}");
    for line in &lines {
        let figures = &line["figures"];
        assert_eq!(figures["limit_bytes"], 2000 * 1000 * 3 / 4 + (16 << 20), "{line}");
        // There is an end to the time for it here, too.
        let is_loaded =
            (1..=2000).contains(&figures["loaded"].as_u64().unwrap()) && figures["ended"].is_null();
        assert!(is_loaded || figures["ended"].as_str().is_some_and(|why| !why.is_empty()), "{line}");
    }
}
