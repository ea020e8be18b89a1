//! The whole program on a disk whose syncs do not end. SQL and search show nothing that a loss of power would
//! take back, and show everything when the disk continues. A second Ctrl-C does not wait for the disk.
//!
//! `server/tests/durable_before_visible` tests the same for all other commands. Where no such disk can be
//! mounted, the test says so.

#![allow(clippy::unwrap_used)]

mod running;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use running::postgres::Postgres;
use running::{Connection, Running, eventually, free_port};
use rustix::process::{Pid, Signal, kill_process};
use tarn_lab::power::{PowerDisk, is_available};
use tempfile::TempDir;

/// Time for a reply that must not come.
const A_WHILE: Duration = Duration::from_millis(300);

/// The value that the tests change.
const BEFORE: &str = "old";
const AFTER: &str = "new";

/// A server whose log lies on a disk that may hang.
struct Stalled {
    running: Running,
    sql_port: u16,
    disk: PowerDisk,
    _mounted: TempDir,
}

impl Drop for Stalled {
    fn drop(&mut self) {
        // A process ends when its calls do.
        self.disk.release_syncs();
    }
}

impl Stalled {
    fn start(appendfsync: &str) -> Option<Stalled> {
        if let Err(reason) = is_available() {
            println!("SKIPPED: {reason}");
            return None;
        }
        let mounted = tempfile::tempdir().unwrap();
        let disk = PowerDisk::mount(mounted.path(), true, 1).unwrap();
        let (log, sql_port) = (mounted.path().join("log"), free_port());
        let port = sql_port.to_string();
        let args = ["--appendfsync", appendfsync, "--log-dir", log.to_str().unwrap(), "--sql-port", &port];
        let running = Running::start(&args);
        let mut client = running.connect();
        for request in [
            "HSET h:1 name old number 1",
            "SQL \"CREATE EXTERNAL TABLE h (id INT, name TEXT, number INT) STORED AS HASH LOCATION 'h:*'\"",
            "SQL \"CREATE INDEX by_number ON h (number)\"",
            "FT.CREATE i PREFIX 1 h: SCHEMA name TAG",
            "WAITAOF 1 0 0",
        ] {
            assert!(!client.whole(request).starts_with('-'), "{request}");
        }
        Some(Stalled { running, sql_port, disk, _mounted: mounted })
    }

    /// Has the disk hang, and a client change the hash meanwhile; returns when that is done, but for its
    /// reply.
    fn change(&self) -> Connection {
        self.disk.hold_syncs();
        let (mut writer, mut other) = (self.running.connect(), self.running.connect());
        let calls = |other: &mut Connection| {
            let info = other.ask("INFO commandstats");
            info.lines().find(|line| line.starts_with("cmdstat_hset:calls=2,")).map(drop)
        };
        writer.send("HSET h:1 name new");
        eventually(|| calls(&mut other));
        writer
    }

    /// Asks by a connection of its own; the answer comes when it does.
    fn ask(&self, sets_up: Option<&'static str>, request: &'static str) -> Receiver<String> {
        let (sender, receiver) = channel();
        let mut client = self.running.connect();
        std::thread::spawn(move || {
            if let Some(request) = sets_up {
                assert_eq!(client.ask(request), "+OK");
            }
            let _ = sender.send(client.whole(request));
        });
        receiver
    }

    /// Asks at the port for SQL.
    fn query(&self, sql: &'static str) -> Receiver<String> {
        let (sender, receiver) = channel();
        let mut client = Postgres::connect(self.sql_port);
        std::thread::spawn(move || {
            let answer = client.ask(sql);
            let _ = sender.send(format!("{:?} {:?}", answer.text(), answer.error));
        });
        receiver
    }
}

const BY_SQL: &str = "SELECT name FROM h";
const BY_COMMAND: &str = "SQL \"SELECT name FROM h\"";
const BY_INDEX: &str = "SELECT name FROM h WHERE number = 1";
const BY_SEARCH: &str = "FT.SEARCH i *";

#[test]
fn neither_sql_nor_a_search_shows_what_is_not_durable() {
    let Some(stalled) = Stalled::start("always") else { return };
    let mut writer = stalled.change();
    let mut asked = vec![stalled.query(BY_SQL), stalled.query(BY_INDEX)];
    asked.extend([BY_COMMAND, BY_SEARCH].map(|request| stalled.ask(None, request)));
    std::thread::sleep(A_WHILE);
    asked.retain(|asked| match asked.try_recv() {
        Ok(shown) => panic!("{shown} does not wait for the disk"),
        Err(_) => true,
    });
    stalled.disk.release_syncs();
    for asked in asked {
        let shown = asked.recv_timeout(running::LIMIT).unwrap();
        assert!(shown.contains(AFTER) && !shown.contains(BEFORE), "{shown}");
    }
    assert_eq!(writer.reply(), ":0");
}

#[test]
fn a_client_that_asked_for_durable_replies_gets_them_from_sql_and_searches() {
    let Some(stalled) = Stalled::start("everysec") else { return };
    assert_eq!(stalled.change().reply(), ":0");
    // To all others it is shown at once.
    let shown = [stalled.query(BY_SQL), stalled.ask(None, BY_COMMAND), stalled.ask(None, BY_SEARCH)];
    for shown in shown {
        assert!(shown.recv_timeout(running::LIMIT).unwrap().contains(AFTER));
    }
    let asked = [BY_COMMAND, BY_SEARCH].map(|request| stalled.ask(Some("CLIENT DURABILITY always"), request));
    std::thread::sleep(A_WHILE);
    for asked in &asked {
        assert!(asked.try_recv().is_err(), "it waits for the disk");
    }
    stalled.disk.release_syncs();
    for asked in asked {
        assert!(asked.recv_timeout(running::LIMIT).unwrap().contains(AFTER));
    }
}

#[test]
fn the_second_sigint_ends_a_server_whose_disk_hangs() {
    let Some(mut stalled) = Stalled::start("everysec") else { return };
    let mut writer = stalled.change();
    assert_eq!(writer.reply(), ":0");
    let pid = Pid::from_raw(stalled.running.server.as_ref().unwrap().pid() as i32).unwrap();
    let until_told =
        |what: &str| eventually(|| stalled.running.folder.messages().contains(what).then_some(()));
    kill_process(pid, Signal::INT).unwrap();
    until_told("Stopping: no new connections");
    // Nobody is served any more, and the log waits for the disk.
    assert!(writer.try_reply().is_none());
    kill_process(pid, Signal::INT).unwrap();
    until_told("SIGINT for the second time: ending at once");
    // A process ends when its calls do.
    stalled.disk.release_syncs();
    assert_eq!(stalled.running.server.take().unwrap().wait().code(), Some(130));
}
