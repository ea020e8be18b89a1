//! `rename-command`, compared with a real redis-server 7.0: the same lines are refused, and under its new
//! name a command is what it is there, to its clients, to `COMMAND`, to rules of users and to scripts.
//! Left out where redis-server is not installed.

#![allow(clippy::unwrap_used)]

mod own_process;

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use own_process::{Connection, Own, eventually, serve_if_told};

const RENAMES: &str = r#"
rename-command CONFIG Conf!g-that-nobody-guesses
rename-command GET fetch
rename-command SET get
rename-command FLUSHALL ""
rename-command AUTH login
rename-command ACL users
rename-command BITFIELD bits
rename-command CLIENT me
rename-command me peer
rename-command DEBUG debug
rename-command REPLICAOF ""
rename-command CLUSTER cl
"#;

#[test]
fn serves() {
    serve_if_told();
}

fn has_redis() -> bool {
    let has_redis = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !has_redis {
        let _ = writeln!(std::io::stderr(), "SKIPPED: there is no redis-server to compare with");
    }
    has_redis
}

/// A file with these lines, in the folder of a server.
fn file(own: &Own, lines: &str) -> PathBuf {
    let path = own.path("renames.conf");
    std::fs::write(&path, lines).unwrap();
    path
}

/// A redis-server with these lines.
fn redis(own: &Own, lines: &str) -> Command {
    let mut command = Command::new("redis-server");
    command.arg(file(own, lines)).args(["--port", &own.port.to_string(), "--save", "", "--dir"]);
    command.arg(own.folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

/// A redis-server and a Tarn with the new names, and a client of each; `None` where there is no redis-server.
fn both() -> Option<([Own; 2], [Connection; 2])> {
    if !has_redis() {
        return None;
    }
    let (mut redis_there, mut own) = (Own::new(), Own::new());
    let child = redis(&redis_there, RENAMES).spawn().unwrap();
    redis_there.adopt(child);
    let path = file(&own, RENAMES);
    let clients = [redis_there.connect(), own.start(&[path.to_str().unwrap()])];
    Some(([redis_there, own], clients))
}

#[test]
fn a_renamed_command_is_the_same_to_redis() {
    let Some((_servers, [mut theirs, mut ours])) = both() else { return };
    for request in [
        "CONF!G-THAT-NOBODY-GUESSES GET hz",
        "conf!g-that-nobody-guesses SET hz 20",
        "conf!g-that-nobody-guesses nosuch",
        "conf!g-that-nobody-guesses GET",
        "conf!g-that-nobody-guesses",
        "CONFIG GET hz",
        "GET a 1",
        "FETCH a",
        "fetch",
        "fetch a b",
        "SET a 1",
        "FLUSHALL",
        "COMMAND INFO GET",
        "COMMAND INFO FLUSHALL SET AUTH",
        "COMMAND GETKEYS fetch k",
        "COMMAND GETKEYS GET k v",
        "COMMAND GETKEYS SET k v",
        "COMMAND GETKEYSANDFLAGS bits k GET u8 0",
        "COMMAND GETKEYSANDFLAGS bits k SET u8 0 1",
        "COMMAND LIST FILTERBY PATTERN fetch",
        "COMMAND LIST FILTERBY PATTERN get",
        "COMMAND LIST FILTERBY PATTERN flushall",
        "COMMAND INFO nosuch config conf!g-that-nobody-guesses|get",
        "USERS SETUSER u on nopass +get ~*",
        "USERS SETUSER c on nopass +config|get",
        "USERS SETUSER v +fetch",
        "USERS SETUSER w on nopass +flushall",
        "USERS SETUSER r on nopass +@all %R~*",
        "USERS nosuch",
        "USERS LIST",
        "USERS DRYRUN u get a",
        "USERS DRYRUN u set a 1",
        "USERS DRYRUN u fetch a",
        "USERS DRYRUN u flushall",
        "USERS DRYRUN c conf!g-that-nobody-guesses GET hz",
        "USERS DRYRUN c conf!g-that-nobody-guesses SET hz 20",
        "USERS DRYRUN r bits k GET u8 0",
        "USERS DRYRUN r bits k SET u8 0 1",
        "peer SETNAME x",
        "peer GETNAME",
        "ME GETNAME",
        "CLIENT GETNAME",
        "AUTH u x",
        "LOGIN u x",
        "FETCH a",
        "GET a 1",
        "EVAL x 0",
        "LOGIN u nosuch",
        "USERS WHOAMI",
        "LOGIN r x",
        "FETCH a",
        "GET a 2",
        "BITS a GET u8 0",
        "BITS a SET u8 0 1",
        "MULTI",
        "FETCH a",
        "SET a 1",
        "EXEC",
    ] {
        assert_eq!(ours.try_ask(request), theirs.try_ask(request), "{request}");
    }
}

/// A script finds commands by the names that clients have for them.
#[cfg(feature = "lua")]
#[test]
fn a_script_calls_commands_by_their_new_names_as_in_redis() {
    let Some((_servers, [mut theirs, mut ours])) = both() else { return };
    for script in [
        "return redis.call('get','a','1')",
        "return redis.call('fetch','a')",
        "return redis.pcall('set','a','1')['err']",
        "return redis.pcall('flushall')['err']",
        "return redis.acl_check_cmd('fetch','a')",
        "return redis.pcall('acl_check_cmd')['err']",
    ] {
        let request = format!("EVAL \"{script}\" 0");
        assert_eq!(ours.try_ask(&request), theirs.try_ask(&request), "{request}");
    }
}

/// Nobody learns a password, or the name that a command has been given, from a place where it does not
/// belong.
#[test]
fn passwords_of_renamed_commands_are_not_shown() {
    let mut own = Own::new();
    let path = file(&own, &format!("{RENAMES}\nslowlog-log-slower-than 0\n"));
    let (mut client, mut monitor) = (own.start(&[path.to_str().unwrap()]), own.connect());
    assert_eq!(monitor.try_ask("MONITOR").as_deref(), Some("+OK"));
    for request in [
        "LOGIN default s3cret",
        "USERS SETUSER u on >s3cret +@all ~*",
        "conf!g-that-nobody-guesses SET requirepass s3cret",
        "LOGIN s3cret",
        "conf!g-that-nobody-guesses SET requirepass ''",
        "PING",
    ] {
        let _ = client.try_ask(request);
    }
    let slow = client.try_ask("SLOWLOG GET 100").unwrap();
    assert!(slow.contains("(redacted)") && !slow.contains("s3cret"), "{slow}");
    loop {
        let line = monitor.reply();
        assert!(!line.contains("s3cret"), "{line}");
        if line.contains("PING") {
            break;
        }
    }
    assert!(!own.messages().contains("s3cret"), "{}", own.messages());
}

#[test]
fn wrong_lines_stop_the_start_and_show_no_new_name() {
    for (lines, why) in [
        ("rename-command nosuch s3cret", "No such command in rename-command"),
        ("rename-command GET \"\"\nrename-command GET s3cret", "No such command in rename-command"),
        ("rename-command config|get s3cret", "No such command in rename-command"),
        ("rename-command GET SET", "Target command name already exists"),
        ("rename-command GET s3cret\nrename-command SET S3CRET", "Target command name already exists"),
        ("rename-command GET", "takes a command and its new name"),
        ("rename-command GET s3cret x", "takes a command and its new name"),
    ] {
        let mut own = Own::new();
        let path = file(&own, lines);
        own.start_unasked(&[path.to_str().unwrap()]);
        assert!(!own.wait().success(), "{lines}");
        let messages = own.messages();
        assert!(messages.contains(why) && !messages.to_lowercase().contains("s3cret"), "{messages}");
        // Redis ends itself with a failed assertion for a subcommand.
        if has_redis() && !lines.contains('|') {
            let mut child = redis(&own, lines).spawn().unwrap();
            assert!(!eventually(|| child.try_wait().unwrap()).success(), "{lines}");
        }
    }
}
