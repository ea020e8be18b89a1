//! One client does not stand in the way of others: not by sleeping, not by hanging up while its request is
//! held back, not by a disk that does not answer, and not by wrong passwords.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::time::Duration;

use own_process::{Connection, Own, eventually, serve_if_told};
use rustix::fs::{CWD, FileType, Mode, mknodat};

#[test]
fn serves() {
    serve_if_told();
}

fn has_reply(client: &Connection) -> bool {
    let stream = client.0.get_ref();
    stream.set_nonblocking(true).unwrap();
    let peeked = stream.peek(&mut [0]);
    stream.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

/// Which of the two workers serves the client: they are dealt out in turn.
fn worker(client: &mut Connection) -> u64 {
    let id: u64 = client.ask("CLIENT ID")[1..].parse().unwrap();
    id % 2
}

#[test]
fn a_worker_that_sleeps_keeps_nobody_from_having_the_store_for_himself() {
    let mut own = Own::new();
    let (mut first, mut second) = (own.start(&["--appendonly", "no"]), own.connect());
    let mut sleeper = if worker(&mut first) == worker(&mut second) { own.connect() } else { second };
    assert_ne!(worker(&mut first), worker(&mut sleeper));
    sleeper.send("DEBUG SLEEP 20");
    eventually(|| first.ask("INFO commandstats").contains("cmdstat_debug").then_some(()));
    assert_eq!(first.ask("SWAPDB 0 1"), "+OK");
    // Had it been waited for, its reply would follow at once.
    std::thread::sleep(Duration::from_millis(300));
    assert!(!has_reply(&sleeper), "it sleeps no more");
}

#[test]
fn a_client_that_hangs_up_while_its_request_is_held_back_is_forgotten() {
    let mut own = Own::new();
    let mut watcher = own.start(&["--appendonly", "no"]);
    assert_eq!(watcher.ask("CLIENT PAUSE 3600000 WRITE"), "+OK");
    let mut held = own.connect();
    assert_eq!(held.ask("CLIENT SETNAME held"), "+OK");
    held.send("SET key value");
    eventually(|| watcher.ask("INFO clients").contains("blocked_clients:1").then_some(()));
    drop(held);
    eventually(|| (!watcher.ask("CLIENT LIST").contains("name=held")).then_some(()));
    assert_eq!(watcher.ask("EXISTS key"), ":0");
    // Who stays is served, with all that he has sent meanwhile.
    let mut held = own.connect();
    held.send("SET key value");
    eventually(|| watcher.ask("INFO clients").contains("blocked_clients:1").then_some(()));
    (0..1000).for_each(|number| held.send(&format!("SET key value-{number}")));
    assert_eq!(watcher.ask("CLIENT UNPAUSE"), "+OK");
    (0..1001).for_each(|_| assert_eq!(held.reply(), "+OK"));
    assert_eq!(held.ask("GET key"), "value-999");
}

#[test]
fn a_pause_of_all_commands_holds_those_of_operators_too() {
    let mut own = Own::new();
    let mut pauser = own.start(&["--appendonly", "no"]);
    let requests =
        ["CONFIG GET maxmemory", "INFO", "CLIENT UNPAUSE", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0", "PING"];
    let mut held: Vec<_> = requests.iter().map(|_| own.connect()).collect();
    assert_eq!(pauser.ask("CLIENT PAUSE 3600000 ALL"), "+OK");
    held.iter_mut().zip(requests).for_each(|(client, request)| client.send(request));
    // A connection that is not held has answered long before.
    std::thread::sleep(Duration::from_millis(300));
    for (client, request) in held.iter().zip(requests) {
        assert!(!has_reply(client), "{request}");
    }
}

#[test]
fn a_stranger_behind_the_same_address_locks_nobody_out() {
    let mut own = Own::new();
    own.start_unasked(&["--appendonly", "no", "--requirepass", "right"]);
    let mut wrong = 0;
    while wrong < 40 {
        let mut stranger = eventually(|| Connection::tcp(own.port));
        while let Some(reply) = stranger.try_ask("AUTH wrong") {
            assert_eq!(reply, "-WRONGPASS invalid username-password pair or user is disabled.");
            wrong += 1;
        }
    }
    let mut known = Connection::tcp(own.port).unwrap();
    assert_eq!(known.ask("AUTH right"), "+OK");
}

#[test]
fn the_configuration_is_written_and_what_was_set_before_is_in_it() {
    let mut own = Own::new();
    let file = own.path("tarn.conf");
    std::fs::write(&file, "appendonly no\n").unwrap();
    let mut client = own.start(&[file.to_str().unwrap()]);
    let mut other = own.connect();
    for number in 1..20 {
        assert_eq!(client.ask(&format!("CONFIG SET maxclients {}", 100 + number)), "+OK");
        other.send("CONFIG REWRITE");
        assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(&format!("maxclients {}", 100 + number)), "{text}");
        assert_eq!(other.reply(), "+OK");
    }
}

/// The write that blocks is to a pipe without a reader, in the place of the new file.
#[test]
fn who_has_the_configuration_written_to_a_disk_that_hangs_waits_alone() {
    let mut own = Own::new();
    let file = own.path("tarn.conf");
    std::fs::write(&file, "appendonly no\n").unwrap();
    let mut first = own.start(&[file.to_str().unwrap()]);
    let new = own.path(&format!(".tarn.conf.{}.tmp", first.field("process_id").unwrap()));
    mknodat(CWD, &new, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut others: Vec<_> = (0..4).map(|_| own.connect()).collect();
    let mut writer = own.connect();
    writer.send("CONFIG REWRITE");
    eventually(|| first.ask("INFO commandstats").contains("cmdstat_config|rewrite").then_some(()));
    // Those of the same worker, too, and who has the store for himself.
    for (number, other) in others.iter_mut().enumerate() {
        assert_eq!(other.ask(&format!("SET key:{number} value")), "+OK");
    }
    assert_eq!(first.ask("SWAPDB 0 1"), "+OK");
    assert!(!has_reply(&writer), "it waits for the disk");
    // The pipe cannot be synced: what was asked for has failed, and has left nothing.
    drop(std::fs::File::open(&new).unwrap());
    assert!(writer.reply().starts_with("-ERR "));
    assert!(!new.exists());
    assert_eq!(writer.ask("CONFIG REWRITE"), "+OK");
}

#[test]
fn what_a_client_sent_does_not_run_after_it_was_killed() {
    let mut own = Own::new();
    let (mut killer, mut second) = (own.start(&["--appendonly", "no"]), own.connect());
    // On one worker: it serves the client before it kills it, and then comes to the client's own task.
    let mut killed = if worker(&mut killer) == worker(&mut second) { second } else { own.connect() };
    assert_eq!(worker(&mut killer), worker(&mut killed));
    let id: u64 = killed.ask("CLIENT ID")[1..].parse().unwrap();
    killed.send("BLPOP list 0\r\nSET key value");
    eventually(|| killer.ask("INFO clients").contains("blocked_clients:1").then_some(()));
    killer.send(&format!("RPUSH list a\r\nCLIENT KILL ID {id}"));
    assert_eq!([killer.reply(), killer.reply()], [":1", ":1"]);
    eventually(|| (!killer.ask("CLIENT LIST").contains(&format!("id={id} "))).then_some(()));
    assert_eq!(killer.ask("EXISTS key list"), ":0");
}
