//! Checkpoints with the real program: what a restart finds, however the server ended; the log beside them;
//! disks that refuse; and clients that wait for `SAVE`.
//!
//! ```text
//!   fill ── SAVE ── change ── an end (command, signal, kill) ── start again ── DEBUG DIGEST: which state?
//! ```

#![allow(clippy::unwrap_used)]

#[path = "../running/mod.rs"]
mod running;

mod crashes;
mod disk;
mod fork;
mod log;
mod waiting;

use running::{Connection, Folder, Running, digest, eventually, field, number};

/// Enough keys that a checkpoint of them takes a while.
const MANY_KEYS: usize = 30_000;

/// Waits until no checkpoint is being taken and none is wanted.
fn wait_until_saved(client: &mut Connection) {
    eventually(|| (field(client, "rdb_bgsave_in_progress")? == "0").then_some(()));
}

/// Keys of every type in two databases. Those of the same `stage` are always the same, and those of a later
/// one change, remove and add to those of an earlier.
fn fill(client: &mut Connection, stage: usize) {
    let earlier = stage.saturating_sub(1);
    for command in [
        format!("SET string:{stage} {}", "s".repeat(100 * stage)),
        format!("APPEND string:{earlier} more"),
        format!("RPUSH list a b {stage}"),
        format!("SADD set a b {stage}"),
        format!("HSET hash a {stage} b{stage} x"),
        format!("ZADD zset {stage} a 2.5 b{stage}"),
        format!("SETBIT bits {} 1", 1000 * stage),
        format!("SET expiring:{stage} x PX 100000000"),
        format!("DEL expiring:{earlier}"),
    ] {
        assert!(!client.ask(&command).starts_with('-'), "{command}");
    }
    assert_eq!(client.ask("SELECT 7"), "+OK");
    assert_eq!(client.ask(&format!("SET seventh {stage}")), "+OK");
    assert_eq!(client.ask("SELECT 0"), "+OK");
}

/// Adds [`MANY_KEYS`] keys.
fn fill_many(client: &mut Connection) {
    for first in (0..MANY_KEYS).step_by(1000) {
        let pairs: Vec<String> = (first..first + 1000).map(|key| format!("many:{key} {key}")).collect();
        assert_eq!(client.ask(&format!("MSET {}", pairs.join(" "))), "+OK");
    }
}

/// The names in the directory of checkpoints.
fn names(folder: &Folder) -> Vec<String> {
    let entries = std::fs::read_dir(folder.path("checkpoints")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// There is one checkpoint, and nothing else.
fn assert_one_checkpoint(folder: &Folder) {
    let names = names(folder);
    let [manifest, checkpoint, lock] = &names[..] else { panic!("{names:?}") };
    assert_eq!((&**manifest, &**lock), ("MANIFEST", "checkpoint.lock"));
    assert!(checkpoint.starts_with("checkpoint-") && checkpoint.ends_with(".tarn"), "{names:?}");
}

/// The way in which a server ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Kill,
    /// `SHUTDOWN` was asked.
    Itself,
    /// `SIGTERM`.
    Signal,
}

/// Rules that no test fulfils.
const RULES: &str = "3600 1000000";

#[test]
fn without_a_log_a_restart_finds_what_was_saved_last() {
    // The rules of `save`; the command before the end; the end; whether the changes are kept.
    for (rules, command, end, is_kept) in [
        (RULES, "SAVE", End::Kill, true),
        ("", "BGSAVE", End::Kill, true),
        ("", "BGSAVE SCHEDULE", End::Kill, true),
        ("1 1", "LASTSAVE", End::Kill, true),
        ("1 1000000 3600 1", "LASTSAVE", End::Kill, false),
        ("", "SHUTDOWN SAVE", End::Itself, true),
        (RULES, "SHUTDOWN", End::Itself, true),
        (RULES, "SHUTDOWN NOSAVE", End::Itself, false),
        ("", "SHUTDOWN", End::Itself, false),
        (RULES, "LASTSAVE", End::Signal, true),
        ("", "LASTSAVE", End::Signal, false),
    ] {
        let case = format!("save {rules:?}, {command}");
        let mut running = Running::start(&["--appendonly", "no", "--save", ""]);
        let mut client = running.connect();
        fill(&mut client, 1);
        assert_eq!(client.ask("SAVE"), "+OK");
        let saved = digest(&mut client);
        fill(&mut client, 2);
        let changed = digest(&mut client);
        assert_ne!(saved, changed);
        let saves = number(&mut client, "rdb_saves");
        assert_eq!(client.ask(&format!("CONFIG SET save \"{rules}\"")), "+OK");
        client.send(command);
        if !command.starts_with("SHUTDOWN") {
            assert!(!client.reply().starts_with('-'), "{case}");
        }
        if end == End::Kill && is_kept {
            eventually(|| (number(&mut client, "rdb_saves") == saves + 1).then_some(()));
            assert_eq!(number(&mut client, "rdb_changes_since_last_save"), 0, "{case}");
        }
        let server = running.server.take().unwrap();
        match end {
            End::Kill => server.kill(),
            End::Itself => assert!(server.wait().success(), "{case}"),
            End::Signal => assert!(server.terminate().success(), "{case}"),
        }
        running.restart();
        let mut client = running.connect();
        let expected = if is_kept { changed } else { saved };
        assert_eq!(digest(&mut client), expected, "{case}");
        assert_one_checkpoint(&running.folder);
        assert!(*client.ask("LASTSAVE") > *":1700000000");
    }
}

#[test]
fn what_was_never_saved_is_not_there() {
    let mut running = Running::start(&["--appendonly", "no", "--save", ""]);
    fill(&mut running.connect(), 1);
    running.connect().send("SHUTDOWN");
    assert!(running.server.take().unwrap().wait().success());
    running.restart();
    assert_eq!(running.connect().ask("DBSIZE"), ":0");
    assert_eq!(names(&running.folder), ["checkpoint.lock"]);
}

#[test]
fn databases_flushed_and_swapped_after_the_last_checkpoint_are_saved_by_shutdown() {
    for command in ["FLUSHALL", "FLUSHDB", "SWAPDB 0 7", "DEL list"] {
        let mut running = Running::start(&["--appendonly", "no", "--save", ""]);
        let mut client = running.connect();
        fill(&mut client, 1);
        assert_eq!(client.ask("SAVE"), "+OK");
        assert!(!client.ask(command).starts_with('-'));
        let changed = digest(&mut client);
        client.send("SHUTDOWN SAVE");
        assert!(running.server.take().unwrap().wait().success());
        running.restart();
        assert_eq!(digest(&mut running.connect()), changed, "{command}");
    }
}

#[test]
fn whatever_mode_follows_whatever_other_each_checkpoint_is_whole() {
    let running = Running::start(&["--appendonly", "no", "--save", ""]);
    let mut client = running.connect();
    fill_many(&mut client);
    let modes = ["full", "incremental", "incremental", "fork", "incremental", "full", "fork", "fork"];
    for (stage, mode) in modes.into_iter().enumerate() {
        assert_eq!(client.ask(&format!("CONFIG SET checkpoint-mode {mode}")), "+OK");
        let pace = ["fast", "quiet"][stage % 2];
        assert_eq!(client.ask(&format!("CONFIG SET checkpoint-pace {pace}")), "+OK");
        fill(&mut client, stage + 1);
        if stage == 2 {
            assert_eq!(client.ask("SWAPDB 0 7"), "+OK");
        }
        assert_eq!(client.ask("SAVE"), "+OK");
        assert_one_checkpoint(&running.folder);
        // Another server loads a copy, as a restart would begin with a checkpoint of all again.
        let mut other = Running::start(&["--appendonly", "no", "--save", ""]);
        other.server.take().unwrap().kill();
        for name in names(&running.folder) {
            let name = format!("checkpoints/{name}");
            std::fs::copy(running.folder.path(&name), other.folder.path(&name)).unwrap();
        }
        other.restart();
        assert_eq!(digest(&mut other.connect()), digest(&mut client), "{stage}: {mode}");
    }
}
