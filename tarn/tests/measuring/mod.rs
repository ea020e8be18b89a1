//! Small runs of the laboratory's experiments, and the lines that they have written.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs the program.
pub(crate) fn tarn(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tarn")).args(words).output().unwrap()
}

/// Runs an experiment with more words, and data beside its results. Returns its messages.
pub(crate) fn run(experiment: &str, results: &Path, words: &[&str]) -> String {
    let (dir, json) = (results.parent().unwrap().to_str().unwrap(), results.to_str().unwrap());
    let own = ["lab", "run", experiment, "--quick", "--dir", dir, "--json", json];
    let output = tarn(&[&own[..], words].concat());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    told
}

/// The lines of the cells that were measured.
pub(crate) fn measured(results: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(results).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["case"] != "goal" && line["case"] != "note").collect()
}
