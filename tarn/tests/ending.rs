//! The end of the server: changes are saved before clients are closed, and a checkpoint that fails keeps the
//! server running. Signals: the second SIGINT ends it at once, as does any while it loads; SIGHUP opens the
//! message file again.
//!
//! To stop a server in the middle, these tests use a pipe that nobody reads or writes: a process that opens
//! it waits.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Connection, Folder, LIMIT, Server, eventually, free_port};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;

/// Checkpoints are all that is kept, and a rule wants one at the end.
const CHECKPOINTS: [&str; 4] = ["--appendonly", "no", "--save", "3600 1000000"];
const RDB: [&str; 2] = ["--checkpoint-format", "rdb"];

/// A server whose checkpoints can be made to fail.
struct Ending {
    folder: Folder,
    port: u16,
    args: Vec<&'static str>,
    server: Option<Server>,
}

impl Ending {
    fn start(args: &[&'static str]) -> Ending {
        let args = [&CHECKPOINTS[..], args].concat();
        let mut ending = Ending { folder: Folder::new(), port: free_port(), args, server: None };
        ending.restart();
        ending
    }

    fn restart(&mut self) -> Connection {
        let port = self.port.to_string();
        self.server = Some(self.folder.serve(&[&["--port", &port][..], &self.args].concat()));
        let mut client = self.connect();
        assert_eq!(client.ask("PING"), "+PONG");
        client
    }

    fn connect(&self) -> Connection {
        let client = Client::tcp("127.0.0.1", self.port);
        client.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
        client
    }

    /// From now on no checkpoint can be taken, or again.
    fn break_checkpoints(&self, broken: bool) {
        let (place, aside) = (self.folder.path("checkpoints"), self.folder.path("aside"));
        if broken {
            std::fs::rename(&place, &aside).unwrap();
            std::fs::write(&place, "in its place").unwrap();
        } else {
            std::fs::remove_file(&place).unwrap();
            std::fs::rename(&aside, &place).unwrap();
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = self.server.as_ref().unwrap().pid();
        kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
    }

    /// Waits until the server has ended; its exit code.
    fn code(&mut self) -> Option<i32> {
        self.server.take().unwrap().wait().code()
    }

    fn told(&self, what: &str) -> usize {
        self.folder.messages().matches(what).count()
    }

    fn wait_until_told(&self, what: &str, times: usize) {
        eventually(|| (self.told(what) >= times).then_some(()));
    }
}

fn make_pipe(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
}

#[test]
fn a_server_whose_last_checkpoint_fails_goes_on() {
    let mut ending = Ending::start(&[]);
    let mut client = ending.connect();
    assert_eq!(client.ask("SET k 1"), "+OK");
    ending.break_checkpoints(true);
    let refusal = "-ERR Errors trying to SHUTDOWN. Check logs.";
    for request in ["SHUTDOWN", "SHUTDOWN SAVE", "SHUTDOWN NOW"] {
        assert_eq!(client.ask(request), refusal, "{request}");
    }
    assert_eq!(client.ask("SET k 2"), "+OK", "the server goes on");
    for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
        let told = ending.told("the server does not end");
        ending.signal(signal);
        ending.wait_until_told("the server does not end", told + 1);
        assert_eq!(ending.connect().ask("GET k"), "2", "new clients are served, too");
    }
    assert_eq!(client.ask("SET k 3"), "+OK");
    ending.break_checkpoints(false);
    ending.signal(Signal::TERM);
    assert_eq!(ending.code(), Some(0), "{}", ending.folder.messages());
    assert_eq!(ending.restart().ask("GET k"), "3", "nothing was lost");
}

#[test]
fn what_cannot_be_saved_is_given_up_by_force_or_on_demand() {
    for (request, code) in [("SHUTDOWN FORCE", 1), ("SHUTDOWN NOSAVE", 0), ("SHUTDOWN NOW NOSAVE FORCE", 0)] {
        let mut ending = Ending::start(&[]);
        let mut client = ending.connect();
        assert_eq!(client.ask("SET k 1"), "+OK");
        ending.break_checkpoints(true);
        client.send(request);
        assert_eq!(client.try_reply(), None, "{request}");
        assert_eq!(ending.code(), Some(code), "{request}");
        let lost = ending.told("what changed since the one before is lost");
        assert_eq!(lost, usize::from(code == 1), "{request}: {}", ending.folder.messages());
    }
}

#[test]
fn writes_wait_for_the_last_checkpoint_and_go_on_if_the_end_is_called_off() {
    let mut ending = Ending::start(&RDB);
    make_pipe(&ending.folder.path("dump.rdb.tmp"));
    let (mut client, mut writer) = (ending.connect(), ending.connect());
    assert_eq!(client.ask("SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    assert_eq!(client.ask("SET k 1"), "+OK");
    let id = writer.ask("CLIENT ID").split_off(1);
    let mut asking = ending.connect();
    asking.send("SHUTDOWN");
    ending.wait_until_told("Taking a last checkpoint", 1);
    assert_eq!(client.ask("GET k"), "1", "reads are answered");
    writer.send("SET k 2");
    let list = format!("CLIENT LIST ID {id}");
    eventually(|| client.ask(&list).contains("flags=b").then_some(()));
    assert_eq!(client.ask("GET k"), "1");
    assert_eq!(client.ask("SHUTDOWN ABORT"), "+OK");
    assert_eq!(writer.reply(), "+OK", "the write goes on");
    assert_eq!(asking.reply(), "-ERR Errors trying to SHUTDOWN. Check logs.");
    assert_eq!(client.ask("SHUTDOWN ABORT"), "-ERR No shutdown in progress.");
    // A client that does not want to wait for it, either.
    ending.signal(Signal::INT);
    eventually(|| {
        writer.send("SET k 3");
        client.ask(&list).contains("flags=b").then_some(())
    });
    ending.signal(Signal::INT);
    assert_eq!(ending.code(), Some(130), "{}", ending.folder.messages());
}

#[test]
fn the_second_sigint_ends_the_server_at_once() {
    let mut ending = Ending::start(&[&RDB[..], &["--pidfile", "pid"]].concat());
    make_pipe(&ending.folder.path("dump.rdb.tmp"));
    assert_eq!(ending.connect().ask("SET k 1"), "+OK");
    ending.signal(Signal::INT);
    ending.wait_until_told("Taking a last checkpoint", 1);
    // A supervisor may ask as often as it likes.
    for count in 2..4 {
        ending.signal(Signal::TERM);
        ending.wait_until_told("Received SIG", count);
    }
    assert_eq!(ending.connect().ask("GET k"), "1");
    ending.signal(Signal::INT);
    assert_eq!(ending.code(), Some(130));
    ending.wait_until_told("for the second time: ending at once", 1);
    assert!(!ending.folder.path("pid").exists());
}

#[test]
fn a_server_that_loads_ends_at_the_first_signal_and_at_shutdown() {
    for signal in [Some(Signal::TERM), Some(Signal::INT), None] {
        let folder = Folder::new();
        make_pipe(&folder.path("dump.rdb"));
        let port = free_port();
        let port_text = port.to_string();
        let args = [&CHECKPOINTS[..], &RDB, &["--port", &port_text]].concat();
        let server = Some(folder.serve(&args));
        let mut ending = Ending { folder, port, args: Vec::new(), server };
        let mut client = ending.connect();
        client.send("GET k");
        assert!(client.reply().starts_with("-LOADING"));
        match signal {
            Some(signal) => ending.signal(signal),
            None => client.send("SHUTDOWN"),
        }
        assert_eq!(ending.code(), Some(0), "{}", ending.folder.messages());
    }
}

#[test]
fn writes_are_refused_while_checkpoints_in_the_background_fail() {
    let ending = Ending::start(&[]);
    let mut client = ending.connect();
    assert_eq!(client.ask("SET k 1"), "+OK");
    assert_eq!(client.ask("FT.CREATE hats ON HASH SCHEMA f TEXT"), "+OK");
    ending.break_checkpoints(true);
    assert!(client.ask("SAVE").starts_with("-ERR"));
    assert_eq!(client.ask("SET k 2"), "+OK", "who asked for it has been told");
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    // The status says that the one before failed, too.
    let refusal = eventually(|| Some(client.ask("SET k 2")).filter(|reply| reply != "+OK"));
    assert!(refusal.starts_with("-MISCONF "), "{refusal}");
    assert!(refusal.contains("stop-writes-on-bgsave-error"), "{refusal}");
    assert_eq!(client.ask("GET k"), "2");
    assert!(client.ask("FT.DROPINDEX hats DD").starts_with("-MISCONF "));
    assert_eq!(client.ask("FT.DROPINDEX hats"), "+OK", "that leaves the keys");
    assert_eq!(client.ask("MULTI"), "+OK");
    assert!(client.ask("DEL k").starts_with("-MISCONF "));
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
    for (directive, value, is_refused) in
        [("stop-writes-on-bgsave-error", "no", false), ("stop-writes-on-bgsave-error", "yes", true)]
    {
        assert_eq!(client.ask(&format!("CONFIG SET {directive} {value}")), "+OK");
        assert_eq!(client.ask("SET k 3").starts_with("-MISCONF "), is_refused, "{directive} {value}");
    }
    assert_eq!(client.ask("CONFIG SET save \"\""), "+OK");
    assert_eq!(client.ask("SET k 4"), "+OK", "without rules nothing is refused");
    assert_eq!(client.ask("CONFIG SET save \"3600 1000000\""), "+OK");
    ending.break_checkpoints(false);
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(client.ask("SET k 5"), "+OK");
}

#[test]
fn the_message_file_is_opened_again_when_it_was_moved() {
    let ending = Ending::start(&["--logfile", "log.txt"]);
    let (file, old) = (ending.folder.path("log.txt"), ending.folder.path("log.1"));
    let messages = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    assert!(messages(&file).contains("Ready to accept connections"));
    // With a signal, and without.
    for signals in [true, false] {
        std::fs::rename(&file, &old).unwrap();
        if signals {
            ending.signal(Signal::HUP);
        }
        eventually(|| messages(&file).contains("opened again").then_some(()));
        assert!(!messages(&file).contains("Ready to accept"), "it is another file");
    }
    assert_eq!(ending.connect().ask("PING"), "+PONG", "SIGHUP ends nothing");
}
