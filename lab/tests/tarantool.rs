//! Tarantool with the application that makes it a peer: the commands that the laboratory sends, requests in
//! pieces and in batches, and what a snapshot keeps. Where there is no Tarantool nothing is tried.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tarn_lab::peers::{on_path, peer};
use tarn_lab::server::{Info, Persistence, Plan, Server};
use tarn_resp::client::{Client, integer, text, texts};

/// A plan for the peer, if the machine has it.
fn plan(dir: &Path) -> Option<Plan> {
    if on_path("tarantool").is_none() {
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no tarantool on the PATH");
        return None;
    }
    Some(Plan::new(peer("tarantool").unwrap(), dir))
}

/// Sends bytes in two pieces, the second one when the server has read the first, and reads so many bytes of
/// replies.
fn exchange(server: &Server, one: &[u8], other: &[u8], len: usize) -> String {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let read = |stream: &mut TcpStream, len| {
        let mut reply = vec![0; len];
        stream.read_exact(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    };
    // What comes in one write is read at once, if it is short.
    stream.write_all(&[b"PING\r\n", one].concat()).unwrap();
    assert_eq!(read(&mut stream, 7), "+PONG\r\n");
    stream.write_all(other).unwrap();
    read(&mut stream, len)
}

fn number(client: &mut Client, words: &[&str]) -> i64 {
    integer(&client.call(words).unwrap()).unwrap()
}

fn error(client: &mut Client, words: &[&str]) -> String {
    String::from_utf8(client.ask(words).unwrap().as_error().unwrap().to_vec()).unwrap()
}

/// Waits until no snapshot is taken.
fn wait(server: &Server) {
    let begun = Instant::now();
    while server.info_number("persistence", "rdb_bgsave_in_progress").unwrap() != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the snapshot ends");
        std::thread::yield_now();
    }
    let info = Info::read(&mut server.client().unwrap(), "persistence").unwrap();
    assert_eq!(info.text("rdb_last_bgsave_status"), Some("ok"));
}

/// The names of the snapshots.
fn snapshots(dir: &Path) -> Vec<String> {
    let files = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    files.filter(|name| name.ends_with(".snap")).collect()
}

#[test]
fn tarantool_answers_the_commands_that_the_laboratory_sends() {
    let dir = tempfile::tempdir().unwrap();
    let Some(plan) = plan(dir.path()) else { return };
    let server = plan.start().unwrap();
    assert!(server.version().unwrap().starts_with(|first: char| first.is_ascii_digit()));
    let mut client = server.client().unwrap();
    let client = &mut client;
    client.call(&["SET", "s", "a\r\nb"]).unwrap();
    assert_eq!(client.call(&["GET", "s"]).unwrap().as_bytes(), Some(&b"a\r\nb"[..]));
    assert_eq!(number(client, &["HSET", "h", "f", "1", "g", "2"]), 2);
    client.call(&["HMSET", "h", "g", "3"]).unwrap();
    let mut fields = texts(&client.call(&["HGETALL", "h"]).unwrap()).unwrap();
    fields.sort();
    assert_eq!(fields, ["1", "3", "f", "g"]);
    assert_eq!(text(&client.call(&["hget", "h", "g"]).unwrap()).unwrap(), "3");
    assert_eq!(number(client, &["ZADD", "z", "-594971599", "m", "1.5", "n"]), 2);
    assert_eq!(number(client, &["ZADD", "z", "2", "n"]), 0);
    assert_eq!(number(client, &["ZCARD", "z"]), 2);
    assert_eq!(text(&client.call(&["ZSCORE", "z", "m"]).unwrap()).unwrap(), "-594971599");
    assert_eq!(number(client, &["DBSIZE"]), 3);
    assert_eq!(server.key_count().unwrap(), 3);
    assert_eq!(number(client, &["UNLINK", "z", "nothing"]), 1);
    assert_eq!(number(client, &["ZCARD", "z"]), 0);
    assert!(texts(&client.call(&["HGETALL", "nothing"]).unwrap()).unwrap().is_empty());
    assert!(server.info_number("memory", "used_memory").unwrap() > Some(0));

    assert!(error(client, &["HGETALL", "s"]).starts_with("WRONGTYPE "));
    assert!(error(client, &["RPUSH", "l", "1"]).starts_with("ERR unknown command 'RPUSH'"));
    assert_eq!(error(client, &["GET"]), "ERR wrong number of arguments for 'get' command");
    assert!(error(client, &["CONFIG", "SET", "save", "1 1"]).starts_with("ERR "));
    let long = "x".repeat(2 << 20);
    assert!(error(client, &["SET", "long", &long]).starts_with("ERR "), "a row has a megabyte at most");
    client.call(&["FLUSHALL"]).unwrap();
    assert_eq!(number(client, &["DBSIZE"]), 0);
    server.stop().unwrap();
}

#[test]
fn requests_in_pieces_and_in_batches_are_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let Some(plan) = plan(dir.path()) else { return };
    let server = plan.start().unwrap();
    // A value that looks like a request, a line, an empty request.
    let batch = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n*1\r\nPING\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*0\r\n\
        *1\r\n$4\r\nPING\r\n";
    let replies = "+OK\r\n+PONG\r\n$4\r\n\r\n*1\r\n+PONG\r\n";
    for cut in 0..batch.len() {
        let (one, other) = batch.split_at(cut);
        assert_eq!(exchange(&server, one, other, replies.len()), replies, "cut at {cut}");
    }
    // Longer than a read, and a batch that is.
    let long = vec![b'v'; 900_000];
    let set = [b"*3\r\n$3\r\nSET\r\n$1\r\nl\r\n$900000\r\n", &long[..], b"\r\n"].concat();
    let replies = "+OK\r\n".repeat(3);
    assert_eq!(exchange(&server, &set, &set.repeat(2), replies.len()), replies);
    let pings = b"*1\r\n$4\r\nPING\r\n".repeat(10_000);
    assert_eq!(exchange(&server, b"", &pings, 70_000), "+PONG\r\n".repeat(10_000));
    for broken in ["*x\r\n", "*1\r\n:1\r\n", "*1\r\n$2\r\nPING\r\n", "*-1\r\n", "*99999999\r\n"] {
        let reply = exchange(&server, b"", broken.as_bytes(), "-ERR Protocol error".len());
        assert_eq!(reply, "-ERR Protocol error", "{broken}");
    }
    // A client that goes in the middle of a request takes nobody with it.
    drop(TcpStream::connect(server.address()).unwrap().write_all(b"*2\r\n$3\r\nGE"));
    assert_eq!(number(&mut server.client().unwrap(), &["DBSIZE"]), 2);
}

#[test]
fn a_snapshot_has_what_was_there_when_it_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let Some(plan) = plan(dir.path()) else { return };
    let mut server = plan.start().unwrap();
    let mut client = server.client().unwrap();
    for key in 0..2000 {
        client.call(&["HMSET", &format!("user{key}"), "field0", "before"]).unwrap();
    }
    client.call(&["BGSAVE"]).unwrap();
    wait(&server);
    let first = snapshots(dir.path());
    // Without a change in between there is another snapshot all the same.
    let began = number(&mut client, &["LASTSAVE"]);
    client.call(&["BGSAVE"]).unwrap();
    for key in 0..2000 {
        client.call(&["HMSET", &format!("user{key}"), "field0", "after"]).unwrap();
    }
    client.call(&["SET", "more", "1"]).unwrap();
    wait(&server);
    assert!(number(&mut client, &["LASTSAVE"]) >= began);
    assert!(snapshots(dir.path()).iter().any(|name| !first.contains(name)));
    server.kill().unwrap();
    // Without a log the snapshot is all that there is.
    let server = plan.start().unwrap();
    let mut client = server.client().unwrap();
    assert_eq!(server.key_count().unwrap(), 2000);
    for key in 0..2000 {
        let value = client.call(&["HGET", &format!("user{key}"), "field0"]).unwrap();
        assert_eq!(text(&value).unwrap(), "before", "user{key}");
    }
}

#[test]
fn a_log_keeps_what_came_after_the_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut plan) = plan(dir.path()) else { return };
    plan.persistence = Persistence::Always;
    let mut server = plan.start().unwrap();
    let mut client = server.client().unwrap();
    client.call(&["SET", "one", "1"]).unwrap();
    client.call(&["SAVE"]).unwrap();
    client.call(&["ZADD", "z", "1", "m"]).unwrap();
    server.kill().unwrap();
    let server = plan.start().unwrap();
    let mut client = server.client().unwrap();
    assert_eq!(number(&mut client, &["DBSIZE"]), 2);
    assert_eq!(number(&mut client, &["ZCARD", "z"]), 1);
}

#[test]
fn a_string_takes_the_place_of_a_sorted_set_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let Some(mut plan) = plan(dir.path()) else { return };
    // A command gives way to others when its changes are written.
    plan.persistence = Persistence::Always;
    let server = plan.start().unwrap();
    let mut writer = server.client().unwrap();
    let keys: Vec<String> = (0..200).map(|key| format!("z{key}")).collect();
    for key in &keys {
        writer.call(&["ZADD", key, "1", "m"]).unwrap();
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in &keys {
                writer.call(&["SET", key, "s"]).unwrap();
            }
        });
        // Each key is looked at until it has its string.
        let begun = Instant::now();
        let mut reader = server.client().unwrap();
        for key in &keys {
            while reader.ask(&["GET", key]).unwrap().as_bytes() != Some(b"s") {
                assert_eq!(number(&mut reader, &["EXISTS", key]), 1, "{key}");
                assert!(begun.elapsed() < Duration::from_secs(60), "{key} gets its string");
            }
        }
    });
    let mut client = server.client().unwrap();
    assert_eq!(number(&mut client, &["DEL", "z0", "none", "z1"]), 2);
    // No member is left behind.
    assert_eq!(number(&mut client, &["ZADD", "z0", "2", "m"]), 1);
}
