//! The log and checkpoints together: a start continues from both, or refuses a pair that does not fit.

use super::running::{Folder, Running, eventually};
use super::{assert_one_checkpoint, digest, fill, number};
use std::collections::BTreeMap;
use std::path::Path;

const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
const NO_LOG: [&str; 4] = ["--appendonly", "no", "--save", ""];

/// The content of all files of the log and of checkpoints, but for locks and files without any data yet.
fn files(folder: &Folder) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for directory in ["log", "checkpoints"].map(|name| folder.path(name)) {
        let Ok(entries) = std::fs::read_dir(directory) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            let name = path.to_str().unwrap().to_owned();
            if !name.ends_with("lock") && !name.ends_with(".unfinished") {
                files.insert(name, std::fs::read(path).unwrap());
            }
        }
    }
    files
}

/// The start is refused for this reason, and changes nothing.
fn assert_refused(running: &mut Running, reason: &str) {
    running.server.take().unwrap().kill();
    let before = files(&running.folder);
    let port = running.port.to_string();
    let args = [&ALWAYS[..], &["--port", &port]].concat();
    for _ in 0..2 {
        let refusal = running.folder.refusal(&args);
        let said = refusal.lines().last().unwrap();
        assert!(said.starts_with("tarn: ") && said.contains(reason), "{refusal}");
        let after = files(&running.folder);
        assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        assert!(before == after, "a file was changed by a start that was refused");
    }
}

fn rename(folder: &Folder, from: &str, to: &str) {
    let _ = std::fs::remove_dir_all(folder.path(to));
    std::fs::rename(folder.path(from), folder.path(to)).unwrap();
}

#[test]
fn a_restart_goes_on_from_the_checkpoint_and_misses_nothing_of_the_log() {
    for mode in ["full", "incremental", "fork"] {
        let args = [&ALWAYS[..], &["--checkpoint-mode", mode]].concat();
        let mut running = Running::start(&args);
        for stage in 0..3 {
            let mut client = running.connect();
            fill(&mut client, 4 * stage + 1);
            assert_eq!(client.ask("SAVE"), "+OK");
            fill(&mut client, 4 * stage + 2);
            assert_eq!(client.ask("SAVE"), "+OK");
            fill(&mut client, 4 * stage + 3);
            assert_eq!(client.ask("BGSAVE"), "+Background saving started");
            fill(&mut client, 4 * stage + 4);
            let written = digest(&mut client);
            running.restart();
            assert_eq!(digest(&mut running.connect()), written, "{mode} {stage}");
            assert_one_checkpoint(&running.folder);
        }
    }
}

#[test]
fn what_was_acknowledged_while_checkpoints_were_taken_is_there_after_a_kill() {
    let mut running = Running::start(&ALWAYS);
    let mut expected = 0;
    for round in 0..4 {
        let mut writer = running.connect();
        let mut saver = running.connect();
        let saves = 1 + round % 3;
        let acknowledged = std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let mut acknowledged = expected;
                // Until the kill closes the connection.
                while let Some(reply) = writer.try_ask("INCR counter") {
                    acknowledged += 1;
                    assert_eq!(reply, format!(":{acknowledged}"));
                }
                acknowledged
            });
            for _ in 0..saves {
                let before = number(&mut saver, "rdb_saves");
                assert_eq!(saver.ask("BGSAVE"), "+Background saving started");
                eventually(|| (number(&mut saver, "rdb_saves") > before).then_some(()));
            }
            saver.send("BGSAVE");
            running.server.take().unwrap().kill();
            writing.join().unwrap()
        });
        running.restart();
        let found: u64 = running.connect().whole("GET counter")[1..].parse().unwrap();
        // One increment may have been made and not acknowledged.
        assert!(found == acknowledged || found == acknowledged + 1, "{found} of {acknowledged}");
        expected = found;
    }
}

#[test]
fn a_first_log_goes_on_from_the_checkpoint_and_is_refused_without_it() {
    let mut running = Running::start(&NO_LOG);
    let mut client = running.connect();
    fill(&mut client, 1);
    assert_eq!(client.ask("SAVE"), "+OK");
    let saved = digest(&mut client);
    running.restart_with(&ALWAYS);
    let mut client = running.connect();
    assert_eq!(digest(&mut client), saved);
    fill(&mut client, 2);
    let written = digest(&mut client);
    running.restart();
    assert_eq!(digest(&mut running.connect()), written);
    assert_one_checkpoint(&running.folder);

    running.server.take().unwrap().kill();
    let mut check = std::process::Command::new(env!("CARGO_BIN_EXE_tarn"));
    let checked = check.args(["log", "check"]).arg(running.folder.path("log")).output().unwrap();
    assert!(checked.status.success());
    assert!(
        String::from_utf8_lossy(&checked.stdout).contains("it goes on from a checkpoint with all up to Lsn ")
    );
    running.restart();

    rename(&running.folder, "checkpoints", "away");
    assert_refused(&mut running, "the log goes on from a checkpoint with all up to record ");
    let directory = running.folder.path("checkpoints");
    assert_refused_again(&mut running, &format!("and there is none in {}: restore it", display(&directory)));
    rename(&running.folder, "away", "checkpoints");
    running.restart();
    assert_eq!(digest(&mut running.connect()), written);
}

#[test]
fn a_checkpoint_is_not_gone_on_from_by_another_log() {
    let mut running = Running::start(&ALWAYS);
    let mut other = Running::start(&ALWAYS);
    for running in [&running, &other] {
        let mut client = running.connect();
        fill(&mut client, 1);
        assert_eq!(client.ask("SAVE"), "+OK");
    }
    other.server.take().unwrap().kill();
    running.server.take().unwrap().kill();
    rename(&running.folder, "log", "own");
    std::fs::rename(other.folder.path("log"), running.folder.path("log")).unwrap();
    let port = running.port.to_string();
    let refusal = running.folder.refusal(&[&ALWAYS[..], &["--port", &port]].concat());
    assert!(refusal.contains("was not taken with this log"), "{refusal}");
    rename(&running.folder, "log", "theirs");
    rename(&running.folder, "own", "log");
    running.restart();
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

/// As `assert_refused`, with no server running.
fn assert_refused_again(running: &mut Running, reason: &str) {
    let port = running.port.to_string();
    let refusal = running.folder.refusal(&[&ALWAYS[..], &["--port", &port]].concat());
    assert!(refusal.contains(reason), "{refusal}");
}

#[test]
fn a_checkpoint_taken_without_the_log_is_refused_and_either_can_be_used_alone() {
    let mut running = Running::start(&ALWAYS);
    let mut client = running.connect();
    fill(&mut client, 1);
    assert_eq!(client.ask("SAVE"), "+OK");
    let saved = digest(&mut client);
    fill(&mut client, 2);
    let logged = digest(&mut client);

    // The log is away while a start without one continues from the checkpoint, and comes back after that.
    running.server.take().unwrap().kill();
    rename(&running.folder, "log", "away");
    running.restart_with(&NO_LOG);
    let mut client = running.connect();
    assert_eq!(digest(&mut client), saved, "the checkpoint alone");
    fill(&mut client, 3);
    assert_eq!(client.ask("SAVE"), "+OK");
    let without = digest(&mut client);
    running.server.take().unwrap().kill();
    rename(&running.folder, "away", "log");

    let reason = "was not taken with this log, so one of the two is older: move the log away to use the \
                  checkpoint alone, or move the checkpoint away to use the log alone";
    for args in [ALWAYS, NO_LOG] {
        let port = running.port.to_string();
        let refusal = running.folder.refusal(&[&args[..], &["--port", &port]].concat());
        assert!(refusal.contains(reason), "{refusal}");
    }
    rename(&running.folder, "log", "away");
    running.restart_with(&NO_LOG);
    assert_eq!(digest(&mut running.connect()), without, "the checkpoint alone, as the message says");
    running.server.take().unwrap().kill();
    rename(&running.folder, "away", "log");
    rename(&running.folder, "checkpoints", "elsewhere");
    running.restart_with(&ALWAYS);
    assert_eq!(digest(&mut running.connect()), logged, "the log alone, as the message says");
}

#[test]
fn a_log_that_is_away_is_missed_and_no_new_one_begins_at_the_checkpoint() {
    let mut running = Running::start(&ALWAYS);
    let mut client = running.connect();
    fill(&mut client, 1);
    assert_eq!(client.ask("SAVE"), "+OK");
    let saved = digest(&mut client);
    fill(&mut client, 2);
    let written = digest(&mut client);
    running.server.take().unwrap().kill();
    rename(&running.folder, "log", "away");
    assert_refused_again(&mut running, "was taken with a log, and there is none in ");
    let log = running.folder.path("log").to_str().unwrap().to_owned();
    assert!(
        !files(&running.folder).keys().any(|name| name.starts_with(&log)),
        "no log was begun in its place"
    );
    rename(&running.folder, "away", "log");
    running.restart();
    assert_eq!(digest(&mut running.connect()), written);

    running.server.take().unwrap().kill();
    rename(&running.folder, "log", "away");
    running.restart_with(&NO_LOG);
    let mut client = running.connect();
    assert_eq!(digest(&mut client), saved, "the checkpoint alone, as the message says");
    assert_eq!(client.ask("SAVE"), "+OK");
    running.restart_with(&ALWAYS);
    assert_eq!(digest(&mut running.connect()), saved, "a new log goes on from it, as the message says");
}

#[test]
fn shutdown_saves_what_came_from_the_log_too() {
    let mut running = Running::start(&ALWAYS);
    let mut client = running.connect();
    fill(&mut client, 1);
    assert_eq!(client.ask("SAVE"), "+OK");
    fill(&mut client, 2);
    let written = digest(&mut client);
    running.restart();
    running.connect().send("SHUTDOWN SAVE");
    assert!(running.server.take().unwrap().wait().success());
    running.restart_with(&NO_LOG);
    assert_eq!(digest(&mut running.connect()), written);
}
