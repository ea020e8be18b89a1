//! The program on a disk that loses power: acknowledged writes are there after every cut, and a disk that
//! does not sync is noticed.

#![allow(clippy::unwrap_used)]

use std::process::{Command, Output};

fn cut_power(kills: &str, more: &[&str]) -> Option<Output> {
    if let Err(reason) = tarn_lab::power::is_available() {
        println!("left out: {reason}");
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let json = dir.path().join("results.jsonl");
    let words = ["lab", "run", "durability", "--quick", "--power", "--kills", kills, "--dir", path, "--json"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    Some(command.args(words).arg(&json).args(more).output().unwrap())
}

#[test]
fn what_was_acknowledged_survives_cuts_of_power_while_checkpoints_and_backups_are_taken() {
    let Some(output) = cut_power("12", &[]) else { return };
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_disk_that_does_not_sync_is_noticed() {
    let Some(output) = cut_power("5", &["--without-syncs", "--modes", "always", "--dirs", "1"]) else {
        return;
    };
    let told = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    // Here chance lets so much survive that the next start refuses the log.
    let is_noticed = told.contains("acknowledged writes are lost") || told.contains("ended while starting");
    assert!(!output.status.success() && is_noticed, "{told}");
}
