//! Libraries of functions with the real program: they outlive it, travel in backups and RDB files, and those
//! that run for long are ended.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::Path;
use std::process::{Command, Output};

use running::redis::Redis;
use running::{Client, Connection, Folder, Running, eventually, free_port};

const ONE: &str = "\"#!lua name=one\\nredis.register_function('one', function() return 'first' end)\"";
const TWO: &str = "\"#!lua name=two\\nredis.register_function('two', function() return 'second' end)\"";

/// The output and the exit code of the program; standard output and standard error in one.
fn tarn(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_tarn")).args(args).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), said)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn load(client: &mut Connection, library: &str) -> String {
    client.ask(&format!("FUNCTION LOAD {library}"))
}

#[test]
fn libraries_outlive_the_server_whatever_else_it_keeps() {
    for args in [["--appendonly", "yes"], ["--appendonly", "no"]] {
        let mut running = Running::start(&args);
        let mut client = running.connect();
        assert_eq!((load(&mut client, ONE), load(&mut client, TWO)), ("one".into(), "two".into()));
        assert_eq!(client.ask("FUNCTION DELETE one"), "+OK");
        running.restart();
        let mut client = running.connect();
        assert_eq!(client.ask("FCALL two 0"), "second");
        assert_eq!(client.ask("FCALL one 0"), "-ERR Function not found");
        assert_eq!(client.ask("FUNCTION FLUSH"), "+OK");
        running.restart();
        assert_eq!(running.connect().ask("FCALL two 0"), "-ERR Function not found");
    }
}

#[test]
fn a_damaged_file_of_functions_is_refused_by_name() {
    let mut running = Running::start(&[]);
    load(&mut running.connect(), ONE);
    running.server.take().unwrap().terminate();
    let path = running.folder.path("functions.dump");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[3] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let said = running.folder.refusal(&["--port", &running.port.to_string()]);
    assert!(said.contains("functions.dump is damaged") && said.contains("move it away"), "{said}");
    std::fs::remove_file(&path).unwrap();
    running.restart();
    assert_eq!(running.connect().ask("FCALL one 0"), "-ERR Function not found");
}

#[test]
fn a_transaction_calls_functions_and_does_not_change_libraries() {
    let running = Running::start(&[]);
    let mut client = running.connect();
    load(&mut client, ONE);
    client.ask("MULTI");
    client.ask("FUNCTION FLUSH");
    client.ask("FCALL one 0");
    let said = client.whole("EXEC");
    assert!(said.contains("waits for the disk") && said.contains("first"), "{said}");
}

#[test]
fn backups_and_files_of_redis_have_the_libraries() {
    let running = Running::start(&["--appendonly", "yes"]);
    let mut client = running.connect();
    assert_eq!(load(&mut client, ONE), "one");
    assert_eq!(client.ask("SET key value"), "+OK");
    let port = running.port.to_string();
    let (code, said) = tarn(&["backup", "-p", &port, "copy"]);
    assert_eq!(code, 0, "{said}");
    let (copy, restored) = (running.folder.path("copy"), Folder::new());
    let target = restored.path("data");
    let (code, said) = tarn(&["restore", "--dir", text(&target), text(&copy)]);
    assert_eq!(code, 0, "{said}");
    let dump = restored.path("dump.rdb");
    let (code, said) = tarn(&["export", "--dir", text(&target), text(&dump)]);
    assert_eq!(code, 0, "{said}");
    let of_redis = tempfile::tempdir().unwrap();
    std::fs::copy(&dump, of_redis.path().join("dump.rdb")).unwrap();
    if let Some(redis) = Redis::start_on(of_redis) {
        let mut redis = redis.connect();
        assert_eq!((redis.ask("FCALL one 0"), redis.ask("GET key")), ("first".into(), "value".into()));
    }
    let imported = Folder::new();
    let (code, said) = tarn(&["import", "--dir", text(&imported.path("")), text(&dump)]);
    assert!(code == 0 && said.contains("imported 1 libraries of functions"), "{said}");
    let port = free_port();
    let _server = imported.serve(&["--port", &port.to_string()]);
    eventually(|| Client::tcp("127.0.0.1", port).try_ask("PING").filter(|reply| reply == "+PONG"));
    assert_eq!(Client::tcp("127.0.0.1", port).ask("FCALL one 0"), "first");
    let (code, said) = tarn(&["import", "--dir", text(&imported.path("")), text(&dump)]);
    assert_ne!(code, 0, "there are data and functions: {said}");
}

#[test]
fn libraries_in_a_checkpoint_in_the_format_of_redis_give_way_to_newer_ones() {
    let mut running = Running::start(&["--appendonly", "no", "--checkpoint-format", "rdb"]);
    let mut client = running.connect();
    load(&mut client, ONE);
    assert_eq!(client.ask("SET key value"), "+OK");
    assert_eq!(client.ask("SAVE"), "+OK");
    assert_eq!(client.ask("FUNCTION FLUSH"), "+OK");
    running.restart();
    let mut client = running.connect();
    assert_eq!(
        (client.ask("GET key"), client.ask("FCALL one 0")),
        ("value".into(), "-ERR Function not found".into())
    );
    // Without a file of its own, the server takes those of the checkpoint.
    running.server.take().unwrap().kill();
    std::fs::remove_file(running.folder.path("functions.dump")).unwrap();
    running.restart();
    assert_eq!(running.connect().ask("FCALL one 0"), "first");
}

#[test]
fn an_endless_function_is_described_and_ended_and_its_library_may_go_meanwhile() {
    let running = Running::start(&["--threads", "2", "--busy-reply-threshold", "50"]);
    let [mut one, mut other] = [running.connect(), running.connect()];
    for client in [&mut one, &mut other] {
        client.ask("PING");
    }
    let endless =
        "\"#!lua name=endless\\nredis.register_function('endless', function() while true do end end)\"";
    assert_eq!(load(&mut one, endless), "endless");
    one.send("FCALL endless 1 key");
    eventually(|| other.ask("PING").starts_with("-BUSY").then_some(()));
    assert_eq!(
        other.ask("GET key"),
        "-BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
    );
    assert!(other.ask("SCRIPT KILL").starts_with("-BUSY"));
    assert!(other.ask("FUNCTION DELETE endless").starts_with("-BUSY"));
    let said = other.whole("FUNCTION STATS");
    assert!(said.contains("endless") && said.contains("FCALL") && said.contains("duration_ms"), "{said}");
    assert_eq!(other.ask("FUNCTION KILL"), "+OK");
    let reply = one.reply();
    assert!(reply.starts_with("-ERR Script killed by user with FUNCTION KILL. script: endless"), "{reply}");
    assert_eq!(other.ask("FUNCTION DELETE endless"), "+OK");
    assert_eq!(one.ask("FCALL endless 0"), "-ERR Function not found");
}

#[test]
fn a_function_that_has_to_run_again_finds_its_library_as_it_was() {
    let running = Running::start(&["--threads", "1"]);
    let mut client = running.connect();
    let counts = "\"#!lua name=counts\\nlocal n = 0\\nredis.register_function('counts', function() n = n + 1 \
                  redis.call('GET', 'undeclared') return n end)\"";
    assert_eq!(load(&mut client, counts), "counts");
    assert_eq!(["FCALL counts 0"; 3].map(|call| client.ask(call)), [":1", ":2", ":3"]);
}
