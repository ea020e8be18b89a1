//! The study of snapshots from end to end, small: measured, drawn, and used to choose. Needs the program of
//! Tarn, which `TARN_BINARY` names.

#![allow(clippy::unwrap_used)]

use clap::Parser;
use tarn_lab::{Conclusion, LabCli};

#[derive(Parser)]
struct Lab {
    #[command(flatten)]
    lab: LabCli,
}

fn lab(words: &[&str]) -> tarn_lab::error::Result<Conclusion> {
    tarn_lab::execute(Lab::parse_from([&["lab"], words].concat()).lab)
}

#[test]
fn the_study_is_measured_once_drawn_and_used() {
    let Some(tarn) = std::env::var_os("TARN_BINARY") else {
        println!("TARN_BINARY names no program: nothing was measured");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let [json, out] = ["deep/results.jsonl", "deeper/report.html"].map(|name| dir.path().join(name));
    let (json_text, out_text) = (json.to_str().unwrap(), out.to_str().unwrap());
    let run = ["run", "snapshots", "--quick", "--only", "trace,transactions", "--algorithms", "hg,vpb"];
    let here = ["--json", json_text, "--dir", dir.path().to_str().unwrap(), "--tarn", tarn.to_str().unwrap()];
    let words = [&run[..], &here[..]].concat();
    lab(&words).unwrap();
    let cells = || {
        let lines = std::fs::read_to_string(&json).unwrap();
        lines.lines().filter(|line| !line.contains("\"case\":\"goal\"")).count()
    };
    assert_eq!(cells(), 1 + 5, "Hourglass has one trace, and vPB five numbers of threads");
    lab(&words).unwrap();
    assert_eq!(cells(), 6, "what was measured is not measured again");

    lab(&["report", "--json", json_text, "--out", out_text]).unwrap();
    let page = std::fs::read_to_string(&out).unwrap();
    // The default cell is in figures 9, 10 (four panels by each of four parameters) and 11, vPB in 12.
    assert_eq!(page.matches("<svg").count(), 1 + 16 + 2 + 1);
    assert!(page.contains("1 of 7 cells were measured") && page.contains("5 of 15 cells were measured"));

    let choose = ["choose", "--rows", "1000", "--row-bytes", "64", "--updates-per-s", "1000"];
    lab(&[&choose[..], &["--json", json_text]].concat()).unwrap();
    let error = lab(&[&choose[..], &["--json", json_text, "--full"]].concat()).unwrap_err().to_string();
    assert!(error.contains("no measurements"), "{error}");
}
