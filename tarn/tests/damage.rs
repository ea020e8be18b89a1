//! Damage to files on the disk, with the real program: a running server finds it and repairs it from memory.
//! A start continues where the checkpoint has the damaged records too.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::PathBuf;

use running::scrape::Scrape;
use running::{Connection, Running, digest, eventually, field, free_port, number};

/// Small files, which are compacted only because of damage.
const ARGS: [&str; 8] = [
    "--log-file-size",
    "65536",
    "--log-compaction",
    "none",
    "--log-scrub-bytes-per-second",
    "0",
    "--appendfsync",
    "everysec",
];

/// Fills some files, and removes half of their content again.
fn fill(client: &mut Connection, round: usize) {
    let value = "v".repeat(300);
    for number in 0..800 {
        assert_eq!(client.ask(&format!("SET {round}:{number} {value}")), "+OK");
        client.ask(&format!("HSET hash {number} {value}"));
    }
    for number in 0..400 {
        client.ask(&format!("DEL {round}:{number}"));
        client.ask(&format!("HDEL hash {number}"));
    }
    client.ask("SWAPDB 0 1");
    client.ask("SWAPDB 1 0");
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");
}

/// The oldest file of the log.
fn oldest(running: &Running) -> PathBuf {
    let files = std::fs::read_dir(running.folder.path("log")).unwrap().map(|file| file.unwrap().path());
    let mut files: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|name| name == "tarnlog")).collect();
    files.sort();
    files.swap_remove(0)
}

fn flip_a_byte(path: &PathBuf) {
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(path, bytes).unwrap();
}

fn check(running: &Running) -> (Option<i32>, String) {
    let log = running.folder.path("log");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"));
    let output = command.args(["log", "check", log.to_str().unwrap()]).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_running_server_finds_damage_and_makes_it_good() {
    let metrics = free_port();
    let metrics_text = metrics.to_string();
    let mut running = Running::start(&[&ARGS[..], &["--save", "", "--metrics-port", &metrics_text]].concat());
    let mut client = running.connect();
    (0..3).for_each(|round| fill(&mut client, round));
    let before = digest(&mut client);
    flip_a_byte(&oldest(&running));
    assert_eq!(number(&mut client, "log_scrub_passes"), 0);
    assert_eq!(client.ask("CONFIG SET log-scrub-bytes-per-second 1000000000"), "+OK");
    eventually(|| (number(&mut client, "log_scrub_damaged_places") > 0).then_some(()));
    let what = field(&mut client, "log_scrub_last_damage").unwrap();
    assert!(what.contains("the log is damaged in ") && what.contains(".tarnlog"), "{what}");
    eventually(|| (number(&mut client, "log_damage_left_out") > 0).then_some(()));
    eventually(|| (number(&mut client, "log_damaged_files") == 0).then_some(()));
    assert_eq!(number(&mut client, "log_damage_wants_checkpoint"), 0);
    let messages = running.folder.messages();
    for told in ["Damage on the disk: the log is damaged in", "Taking a checkpoint, as what is damaged"] {
        assert!(messages.contains(told), "{told}: {messages}");
    }
    // Now all is whole.
    let (damage, passes) =
        (number(&mut client, "log_scrub_damaged_places"), number(&mut client, "log_scrub_passes"));
    eventually(|| (number(&mut client, "log_scrub_passes") > passes + 1).then_some(()));
    assert_eq!(number(&mut client, "log_scrub_damaged_places"), damage);
    let scrape = Scrape::of(metrics);
    assert_eq!(scrape.number("tarn_log_damaged_files"), 0.0);
    assert!(scrape.number("tarn_scrub_damaged_places_total") >= 1.0);
    assert!(scrape.number("tarn_log_damage_left_out_total") >= 1.0);
    assert_eq!(digest(&mut client), before);

    drop(client);
    running.server.take().unwrap().kill();
    let (code, said) = check(&running);
    assert!(code == Some(0) && !said.contains("damage"), "{code:?}: {said}");
    running.restart();
    let mut client = running.connect();
    assert_eq!(digest(&mut client), before);
    assert_eq!(number(&mut client, "log_damage_passed_at_start"), 0);
}

#[test]
fn a_start_goes_on_where_the_checkpoint_has_what_was_damaged() {
    let mut running = Running::start(&[&ARGS[..], &["--save", ""]].concat());
    let mut client = running.connect();
    fill(&mut client, 0);
    assert_eq!(client.ask("SAVE"), "+OK");
    fill(&mut client, 1);
    let before = digest(&mut client);
    drop(client);
    running.server.take().unwrap().kill();
    flip_a_byte(&oldest(&running));
    let (code, said) = check(&running);
    assert!(code == Some(0) && said.contains("harmless damage in "), "{code:?}: {said}");
    running.restart();
    let mut client = running.connect();
    assert_eq!(digest(&mut client), before);
    assert!(number(&mut client, "log_damage_passed_at_start") > 0);
    assert!(running.folder.messages().contains("Damage in the log was passed over"));
    // The start has cut off damage at the end of its file; else a compaction leaves it out.
    eventually(|| (number(&mut client, "log_damaged_files") == 0).then_some(()));
    running.restart();
    let mut client = running.connect();
    assert_eq!(digest(&mut client), before);
}
