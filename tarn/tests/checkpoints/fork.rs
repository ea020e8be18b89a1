//! `checkpoint-mode fork`: the child process that writes is stopped by a signal to examine it, killed, and
//! left without its parent.
//!
//! ```text
//!   BGSAVE ── child found in /proc ── SIGSTOP ── change, ask, kill ── SIGCONT ── what does a restart find?
//! ```

use super::running::{Connection, Running, eventually};
use super::{
    MANY_KEYS, assert_one_checkpoint, digest, field, fill, fill_many, names, number, wait_until_saved,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;

const FORK: [&str; 6] = ["--appendonly", "no", "--save", "", "--checkpoint-mode", "fork"];

/// Strings of a megabyte.
const BIG_KEYS: u64 = 30;

/// The processes whose parent is `parent`, zombies too.
fn children(parent: u32) -> Vec<Pid> {
    let mut children = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{name}/stat")) else { continue };
        // `pid (name) state parent …`, where the name may hold anything.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        if rest.split(' ').nth(1).is_some_and(|found| found == parent.to_string()) {
            children.extend(name.parse().ok().and_then(Pid::from_raw));
        }
    }
    children
}

fn exists(pid: Pid) -> bool {
    // A zombie does not count: the first process of a container may not reap it.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// True if a process has any connection open.
fn has_sockets(pid: Pid) -> bool {
    let open = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero()));
    let mut targets =
        open.into_iter().flatten().flatten().filter_map(|file| std::fs::read_link(file.path()).ok());
    targets.any(|target| target.to_string_lossy().starts_with("socket:"))
}

/// Begins a checkpoint, until its child is held still.
fn hold_child(running: &Running, client: &mut Connection) -> Pid {
    let server = running.server.as_ref().unwrap().pid();
    eventually(|| {
        client.ask("BGSAVE");
        let mut found = children(server);
        while found.is_empty() && number(client, "rdb_bgsave_in_progress") == 1 {
            found = children(server);
        }
        let child = *found.first()?;
        // It closes clients' connections before all else.
        eventually(|| (!has_sockets(child)).then_some(()));
        kill_process(child, Signal::STOP).ok()?;
        // It may have ended before the signal came.
        let held = || std::fs::read_to_string(format!("/proc/{}/stat", child.as_raw_nonzero())).ok();
        eventually(|| held().is_none_or(|stat| stat.contains(") T ") || stat.contains(") Z ")).then_some(()));
        held()?.contains(") T ").then_some(child)
    })
}

fn filled() -> (Running, Connection, String) {
    let running = Running::start(&FORK);
    let mut client = running.connect();
    fill_many(&mut client);
    fill(&mut client, 1);
    // Enough data that the child exists for a while.
    for number in 0..BIG_KEYS {
        assert_eq!(client.ask(&format!("SETRANGE big:{number} 999999 x")), ":1000000");
    }
    assert_eq!(client.ask("SAVE"), "+OK");
    let saved = digest(&mut client);
    (running, client, saved)
}

#[test]
fn clients_go_on_while_a_child_writes_what_was_there_at_the_fork() {
    let (mut running, mut client, saved) = filled();
    let mut other = running.connect();
    assert_eq!(other.ask("PING"), "+PONG");
    let child = hold_child(&running, &mut client);
    fill(&mut client, 2);
    assert_eq!(client.ask("FLUSHALL"), "+OK");
    fill_many(&mut client);
    fill(&mut client, 3);
    assert_eq!(field(&mut client, "rdb_bgsave_in_progress").unwrap(), "1");
    assert_eq!(number(&mut client, "current_save_keys_total"), MANY_KEYS as u64 + BIG_KEYS + 9);
    // A client that leaves while there is a child is gone: the child holds no connection.
    other.send("QUIT");
    assert_eq!(other.reply(), "+OK");
    assert_eq!(other.0.read(&mut [0]).unwrap(), 0);
    kill_process(child, Signal::CONT).unwrap();
    wait_until_saved(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status").unwrap(), "ok");
    assert!(number(&mut client, "rdb_last_cow_size") > 0);
    let stats = client.ask("INFO stats");
    assert!(!stats.contains("total_forks:0\r") && !stats.contains("latest_fork_usec:0\r"), "{stats}");
    assert!(number(&mut client, "rdb_changes_since_last_save") > 30_000);
    running.restart();
    assert_eq!(digest(&mut running.connect()), saved);
    assert_one_checkpoint(&running.folder);
}

#[test]
fn a_child_that_is_killed_fails_the_checkpoint_and_the_last_one_stays() {
    let (mut running, mut client, saved) = filled();
    let child = hold_child(&running, &mut client);
    kill_process(child, Signal::KILL).unwrap();
    wait_until_saved(&mut client);
    assert_eq!(field(&mut client, "rdb_last_bgsave_status").unwrap(), "err");
    let why = field(&mut client, "checkpoint_failure").unwrap();
    assert_eq!(why, "the process that wrote the checkpoint was ended by signal 9");
    assert_one_checkpoint(&running.folder);
    assert_eq!(children(running.server.as_ref().unwrap().pid()), [], "it is reaped");
    assert_eq!(client.ask("SET after x"), "+OK");
    running.restart();
    let mut client = running.connect();
    assert_eq!(digest(&mut client), saved);
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(field(&mut client, "rdb_last_bgsave_status").unwrap(), "ok");
}

#[test]
fn a_child_ends_with_its_server_and_does_not_keep_the_data_locked() {
    for command in [None, Some("SHUTDOWN NOSAVE"), Some("SHUTDOWN SAVE")] {
        let (mut running, mut client, saved) = filled();
        let child = hold_child(&running, &mut client);
        assert_eq!(client.ask("SET one-more x"), "+OK");
        let changed = digest(&mut client);
        let server = running.server.take().unwrap();
        match command {
            // A process that is held still can be killed, too.
            None => server.kill(),
            Some(command) => {
                client.send(command);
                assert!(server.wait().success());
            }
        }
        eventually(|| (!exists(child)).then_some(()));
        running.restart();
        let expected = if command == Some("SHUTDOWN SAVE") { changed } else { saved };
        assert_eq!(digest(&mut running.connect()), expected, "{command:?}");
        assert_one_checkpoint(&running.folder);
        assert_eq!(names(&running.folder).len(), 3);
    }
}
