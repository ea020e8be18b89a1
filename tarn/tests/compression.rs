//! `log-compression` and `rdbcompression` with the real program.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::Path;
use std::process::Command;

use running::{Connection, Running, digest, eventually, field, number};

const SMALL_FILES: [&str; 4] = ["--log-file-size", "65536", "--log-compaction-min-size", "0"];

/// The blocks with records of a log: how many there are, and how many of them are compressed.
fn blocks(directory: &Path) -> (usize, usize) {
    let (mut all, mut packed) = (0, 0);
    for file in std::fs::read_dir(directory).unwrap() {
        let bytes = match std::fs::read(file.unwrap().path()) {
            // The compaction has removed it meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            read => read.unwrap(),
        };
        let mut at = 512;
        while bytes.get(at..at + 64).is_some_and(|header| header.starts_with(b"\xF5TarnBk\n")) {
            let number = |from: usize, len: usize| {
                bytes[at + from..at + from + len]
                    .iter()
                    .rev()
                    .fold(0, |all, byte| all << 8 | usize::from(*byte))
            };
            if number(40, 4) > 0 {
                all += 1;
                packed += usize::from(number(44, 4) & 32 != 0);
            }
            at += number(48, 8);
        }
    }
    (all, packed)
}

/// Writes strings, hashes and lists, some of them again; each is acknowledged.
fn fill(client: &mut Connection, stage: usize) {
    let value = "a-value-of-some-words,and-of-some-words-more,".repeat(4);
    for number in 0..600 {
        client.send(&format!("SET string:{} {number},{stage},{value}", number % 200));
        client.send(&format!("HSET hash:{} field:{number} {stage}", number % 7));
        client.send(&format!("RPUSH list:{} {stage}:{number}", number % 5));
        client.send(&format!("DEL string:{}", (number + 100) % 200));
    }
    for _ in 0..4 * 600 {
        let reply = client.reply();
        assert!(!reply.starts_with('-'), "{reply}");
    }
}

fn compact(client: &mut Connection) {
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (field(client, "aof_rewrite_in_progress")? == "0").then_some(()));
    assert_eq!(field(client, "aof_last_bgrewrite_status").unwrap(), "ok");
}

fn check(directory: &Path) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_tarn")).args(["log", "check"]).arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_log_of_both_kinds_of_blocks_survives_kills_compaction_and_changes_of_the_setting() {
    for mode in ["always", "everysec", "no"] {
        let args = [&SMALL_FILES[..], &["--appendfsync", mode, "--log-compression", "lz4"]].concat();
        let mut running = Running::start(&args);
        let log = running.folder.path("log");
        for (stage, kind) in ["lz4", "no", "lz4"].into_iter().enumerate() {
            let mut client = running.connect();
            assert_eq!(client.ask(&format!("CONFIG SET log-compression {kind}")), "+OK");
            assert_eq!(field(&mut client, "log_compression").unwrap(), kind);
            fill(&mut client, stage);
            if stage == 0 {
                // All that was written at once may have been overtaken, or not tried after that.
                let value = "the-same-again-and-again-".repeat(100);
                eventually(|| {
                    assert_eq!(client.ask(&format!("SET alone {value}")), "+OK");
                    (number(&mut client, "log_compressed_blocks") > 0).then_some(())
                });
            }
            let before = digest(&mut client);
            // What the system has is there after a kill, in every mode.
            eventually(|| (number(&mut client, "log_backlog_bytes") == 0).then_some(()));
            if stage == 0 {
                let [was, is] = ["log_compressed_bytes_before", "log_compressed_bytes_after"];
                let (was, is) = (number(&mut client, was), number(&mut client, is));
                assert!(number(&mut client, "log_compressed_blocks") > 0 && is < was / 2, "{is} of {was}");
                assert!(blocks(&log).1 > 0);
            }
            running.restart();
            let mut client = running.connect();
            if stage == 0 {
                // A start knows them, too.
                let [bytes, raw] = ["log_closed_bytes", "log_closed_raw_bytes"];
                eventually(|| (number(&mut client, bytes) < number(&mut client, raw)).then_some(()));
            }
            assert_eq!(digest(&mut client), before, "{mode}, {stage}");
            compact(&mut client);
            assert_eq!(digest(&mut client), before, "{mode}, {stage}");
            running.restart();
            assert_eq!(digest(&mut running.connect()), before, "{mode}, {stage}");
        }
        // The way back to a program that knows no compressed blocks.
        let mut client = running.connect();
        assert!(blocks(&log).1 > 0);
        assert_eq!(client.ask("CONFIG SET log-compression no"), "+OK");
        // Files that were compacted after the newest change would be left as they are.
        assert_eq!(client.ask("SET string:0 changed"), "+OK");
        compact(&mut client);
        let [bytes, raw] = ["log_closed_bytes", "log_closed_raw_bytes"];
        eventually(|| (number(&mut client, bytes) == number(&mut client, raw)).then_some(()));
        let before = digest(&mut client);
        assert!(running.server.take().unwrap().terminate().success());
        let (all, packed) = blocks(&log);
        assert!(all > 0 && packed == 0, "{packed} of {all} blocks are compressed");
        check(&log);
        running.restart();
        assert_eq!(digest(&mut running.connect()), before, "{mode}");
    }
}

#[test]
fn rdb_files_are_compressed_unless_the_setting_says_no() {
    let mut running = Running::start(&["--appendonly", "no", "--checkpoint-format", "rdb"]);
    let mut client = running.connect();
    let value = "the-same-again-and-again-";
    assert_eq!(client.ask(&format!("SET short {}", value.repeat(20))), "+OK");
    // A string of many chunks.
    assert_eq!(client.ask(&format!("SET long {}", value.repeat(2_000))), "+OK");
    assert_eq!(client.ask(&format!("RPUSH list {} 12345 x", value.repeat(3))), ":3");
    let before = digest(&mut client);
    let mut lengths = Vec::new();
    for setting in ["yes", "no"] {
        let mut client = running.connect();
        assert_eq!(client.ask(&format!("CONFIG SET rdbcompression {setting}")), "+OK");
        assert_eq!(client.ask("SAVE"), "+OK");
        lengths.push(std::fs::metadata(running.folder.path("dump.rdb")).unwrap().len());
        running.restart();
        assert_eq!(digest(&mut running.connect()), before, "{setting}");
    }
    assert!(lengths[1] > 40_000 && lengths[0] < lengths[1] / 20, "{lengths:?}");
}
