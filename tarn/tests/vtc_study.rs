//! `tarn lab run vtc`, small: checkpoints of every kind are taken and measured, what was measured is not
//! measured again, and `report vtc` draws it.

#![allow(clippy::unwrap_used)]

mod measuring;

use std::path::Path;

use serde_json::Value;

use measuring::{measured, tarn};

fn run(results: &Path, more: &[&str]) -> String {
    let small = ["--scale", "0.2", "--seconds", "0.1", "--seed", "7"];
    measuring::run("vtc", results, &[&small[..], more].concat())
}

/// The lines of a part, each with its variant.
fn of<'l>(lines: &'l [Value], part: &str) -> Vec<(&'l str, &'l Value)> {
    let own = lines.iter().filter(|line| line["parameters"]["part"] == part);
    own.map(|line| (line["parameters"]["variant"].as_str().unwrap(), &line["figures"])).collect()
}

#[test]
fn checkpoints_of_every_kind_are_taken_and_not_measured_twice() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("vtc.jsonl");
    let told = run(&results, &["--only", "checkpoints,alone,latency"]);
    let lines = measured(&results);
    assert!(told.contains(&format!("{} cells to measure", lines.len())), "{told}");
    for (variant, figures) in of(&lines, "checkpoints") {
        let course = &figures["course"];
        let taken = course["taken"].as_array().unwrap();
        assert_eq!(taken.len(), usize::from(!["off", "none"].contains(&variant)), "{variant}");
        // The values of 4,000 records, in memory and in the files.
        assert!(figures["loaded_resident"].as_u64().unwrap() > 4_000_000, "{variant}");
        for taken in taken {
            assert!(taken["file_bytes"].as_u64().unwrap() > 4_000_000, "{variant}");
        }
    }
    // On a busy machine a tenth of a second may pass without a reply or a sample, but not for each of them.
    let courses: Vec<_> =
        of(&lines, "checkpoints").into_iter().map(|(_, figures)| &figures["course"]).collect();
    assert!(courses.iter().any(|course| course["without_all"]["rate"].as_f64().unwrap() > 0.0));
    assert!(courses.iter().any(|course| course["peak"]["timeline"].is_array()));
    for (variant, figures) in of(&lines, "alone") {
        let taken = &figures["course"]["taken"];
        assert_eq!(taken.as_array().unwrap().len(), 1, "{variant}");
        // Of twice as much that was written.
        let bytes = taken[0]["file_bytes"].as_u64().unwrap();
        assert!((4_000_000..7_000_000).contains(&bytes), "{variant}: {bytes}");
        assert!(taken[0]["seconds"].as_f64().unwrap() > 0.0, "{variant}");
    }
    let variants: Vec<_> = of(&lines, "latency").into_iter().map(|(variant, _)| variant).collect();
    assert!(["off", "none", "vtc", "vtc-fast", "snapshot"].iter().all(|own| variants.contains(own)));
    let series = std::fs::read_to_string(results.with_extension("series.csv")).unwrap();
    assert!(series.starts_with("part,variant,records") && series.contains("resident_bytes"));

    let told = run(&results, &["--only", "checkpoints,alone,latency"]);
    assert!(told.contains("\n0 cells to measure"), "{told}");
    assert_eq!(measured(&results).len(), lines.len());

    let out = dir.path().join("vtc.html");
    let words = ["lab", "report", "vtc", "--json", results.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let drawn = tarn(&words);
    assert!(drawn.status.success(), "{drawn:?}");
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.contains("vtc: memory") && page.contains("4.1a outside") && page.contains("+69.6 %"));
    assert!(page.contains("Not measured: tarn lab run vtc --only files"));
    std::fs::remove_file(&results).unwrap();
    let missing = tarn(&words);
    assert!(String::from_utf8(missing.stderr).unwrap().contains("no measurements of vtc"));
    let mut left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["vtc.html", "vtc.series.csv"]);
}

#[test]
fn files_are_made_shorter_and_started_from_and_bytes_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let results = dir.path().join("vtc.jsonl");
    let logs: Vec<_> = ["a", "b"].map(|name| dir.path().join(name)).to_vec();
    let mut words = vec!["--only", "files,writes"];
    logs.iter().for_each(|log| words.extend(["--log-dir", log.to_str().unwrap()]));
    run(&results, &words);
    let lines = measured(&results);
    for (variant, figures) in of(&lines, "files") {
        let files = &figures["files"];
        assert!(files["run_bytes"].as_u64().unwrap() > 4_000_000, "{variant}");
        assert!(files["started_s"][0].as_f64().unwrap() > 0.0, "{variant}");
        let is_made_shorter = ["vtc", "rewrite", "redis-aof"].contains(&variant);
        assert_eq!(files["short_bytes"].as_u64().is_some(), is_made_shorter, "{variant}");
        if variant == "redis-aof" {
            assert!(files["short_bytes"].as_u64() < files["run_bytes"].as_u64(), "{files}");
        }
        assert_eq!(files["short_started_s"].as_array().unwrap().len(), usize::from(is_made_shorter));
    }
    let written: Vec<_> = of(&lines, "writes");
    for (variant, figures) in &written {
        let writes = &figures["writes"];
        assert_eq!(writes["updates"], 4000 * 10 * 2, "{variant}");
        // A file system in memory writes nothing to a device.
        let bytes = writes["device_bytes"].as_u64().unwrap();
        assert!(bytes == 0 || bytes > 4_000_000, "{variant}: {bytes}");
        if *variant != "redis-aof" {
            // Each update has a value of 100 bytes.
            assert!(writes["appended_bytes"].as_u64().unwrap() > 4_000_000, "{variant}");
            let compacted = writes["compacted_bytes"].as_u64().unwrap();
            assert_eq!(compacted > 0, *variant == "vtc", "{variant}: {compacted}");
        }
    }
    assert!(written.len() >= 4);
    assert!(logs.iter().all(|log| std::fs::read_dir(log).unwrap().next().is_none()));
}
