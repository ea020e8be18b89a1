//! A panic of the real program: it ends the process, says where it was, and loses nothing that was
//! acknowledged as durable.

#![allow(clippy::unwrap_used)]

mod running;

use std::os::unix::process::ExitStatusExt;

use running::Running;

#[test]
fn a_panic_of_a_worker_ends_the_process_and_says_where() {
    let mut running = Running::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let mut client = running.connect();
    assert_eq!(client.ask("SET key value"), "+OK");
    assert!(client.ask("DEBUG PANIC now").contains("wrong number of arguments"));
    assert_eq!(client.try_ask("DEBUG PANIC"), None);
    let status = running.server.take().unwrap().wait();
    assert!(!status.success() && status.signal().is_some(), "{status}");
    let messages = running.folder.messages();
    let told = messages.lines().filter(|line| line.contains("tarn-worker-") && line.contains("DEBUG PANIC"));
    // On standard error and as a line of the log, both of which go to the same file here.
    assert!(told.count() >= 2, "{messages}");
    running.restart();
    assert_eq!(running.connect().ask("GET key"), "value");
}

#[test]
fn who_must_not_debug_cannot_end_the_process() {
    let running = Running::start(&["--enable-debug-command", "no"]);
    assert!(running.connect().ask("DEBUG PANIC").starts_with("-ERR DEBUG command not allowed"));
    assert_eq!(running.connect().ask("PING"), "+PONG");
}
