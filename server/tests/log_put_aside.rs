//! A start with `appendonly no` in a directory that has a log, and the way back: nothing is lost, and nothing
//! is passed over.
//!
//! ```text
//!   on ── killed ── off: what the log has is loaded ── checkpoint: the log is put aside ── on: goes on
//! ```

#![allow(clippy::unwrap_used)]

mod own_process;

use own_process::{Connection, Own, eventually, serve_if_told};

#[test]
fn serves() {
    serve_if_told();
}

const ON: [&str; 6] = ["--appendonly", "yes", "--appendfsync", "always", "--log-compaction", "rewrite"];

/// Changes of every kind to a few hundred keys.
fn write(client: &mut Connection, round: usize) {
    for number in 0..300 {
        client.send(&format!("SET string:{number} {round}-{number}"));
        client.send(&format!("RPUSH list:{} {round}:{number}", number % 7));
        client.send(&format!("HSET hash:{} f{number} {round}", number % 5));
        client.send(&format!("DEL string:{}", (number + round) % 300));
    }
    (0..1200).for_each(|_| _ = client.reply());
}

fn digest(client: &mut Connection) -> String {
    client.ask("DEBUG DIGEST")
}

fn both_directions(off: &[&str], is_compacted: bool) {
    let what = format!("{off:?}, compacted: {is_compacted}");
    let mut own = Own::new();
    let mut client = own.start(&ON);
    write(&mut client, 1);
    if is_compacted {
        // The log lacks its beginning from now on.
        assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
        eventually(|| (client.field("rdb_saves")? != "0").then_some(()));
    }
    for round in 2..4 {
        write(&mut client, 10 * round);
        let logged = digest(&mut client);
        client = own.start(off);
        assert_eq!(digest(&mut client), logged, "{what}: what the log has, round {round}");
        // Nothing was saved since, so nothing has changed for any start.
        client = own.start(off);
        assert_eq!(digest(&mut client), logged, "{what}: the same once more, round {round}");
        write(&mut client, 10 * round + 1);
        assert_eq!(client.ask("SAVE"), "+OK");
        let saved = digest(&mut client);
        if off.contains(&"rdb") && own.path("checkpoints/MANIFEST").exists() {
            // It is older than the RDB file, and a start would say so.
            std::fs::remove_dir_all(own.path("checkpoints")).unwrap();
        }
        client = own.start(off);
        assert_eq!(digest(&mut client), saved, "{what}: what was saved, round {round}");
        write(&mut client, 10 * round + 2);
        let at_end = digest(&mut client);
        // The default rules of `save`, which a server without a log has, take a checkpoint.
        own.terminate();
        client = own.start(&ON);
        assert_eq!(digest(&mut client), at_end, "{what}: and logged again, round {round}");
    }
}

#[test]
fn a_start_without_a_log_over_one_loses_nothing_in_either_direction() {
    both_directions(&["--appendonly", "no"], false);
}

#[test]
fn a_start_without_a_log_over_one_that_lacks_its_beginning_loses_nothing_in_either_direction() {
    both_directions(&["--appendonly", "no"], true);
}

#[test]
fn an_rdb_file_takes_the_place_of_a_log_as_a_checkpoint_does() {
    both_directions(&["--appendonly", "no", "--checkpoint-format", "rdb"], false);
    both_directions(&["--appendonly", "no", "--checkpoint-format", "rdb"], true);
}

/// Who sets `appendonly no` while the server runs, and not in the file, is not locked out by the next start.
#[test]
fn a_log_that_was_switched_off_does_not_refuse_the_next_start_with_one() {
    let mut own = Own::new();
    let mut client = own.start(&ON);
    write(&mut client, 1);
    assert_eq!(client.ask("CONFIG SET appendonly no"), "+OK");
    eventually(|| (client.field("aof_enabled")? == "0").then_some(()));
    write(&mut client, 2);
    assert_eq!(client.ask("SAVE"), "+OK");
    let saved = digest(&mut client);
    client = own.start(&ON);
    assert_eq!(digest(&mut client), saved);
    write(&mut client, 3);
    let logged = digest(&mut client);
    client = own.start(&ON);
    assert_eq!(digest(&mut client), logged);
    let aside = own.path("log/retired-1");
    assert!(std::fs::read_dir(&aside).unwrap().next().is_some(), "the log was put aside, not removed");
}

/// A crash in the middle of putting a log aside is made good by the next start, be it with a log or without.
#[test]
fn what_was_put_aside_in_part_is_put_aside_by_the_next_start() {
    for next in [&ON[..], &["--appendonly", "no"][..]] {
        let mut own = Own::new();
        let mut client = own.start(&ON);
        write(&mut client, 1);
        client = own.start(&["--appendonly", "no"]);
        write(&mut client, 2);
        let saved = digest(&mut client);
        own.terminate();
        drop(client);
        // As a crash leaves it behind the mark and some of the names.
        let (log, aside) = (own.path("log"), own.path("log/retired-1"));
        std::fs::rename(aside.join("tarnlog.id"), log.join("tarnlog.id")).unwrap();
        std::fs::write(log.join("tarnlog.retiring"), b"").unwrap();
        let mut client = own.start(next);
        assert_eq!(digest(&mut client), saved, "{next:?}");
        assert!(!log.join("tarnlog.retiring").exists());
    }
}
