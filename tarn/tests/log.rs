//! `tarn log` as an operator meets it: after a start that was refused, with a server that runs, and with
//! directories that hold no log.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::Path;
use std::process::{Command, Output};

use running::{Client, Folder, free_port};

/// The output and the exit code of `tarn log`; standard output and standard error in one.
fn tarn_log(args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    let Output { status, stdout, stderr } = command.arg("log").args(args).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), said)
}

/// Changes a byte within the first block that holds `bytes`.
fn spoil(file: &Path, bytes: &[u8]) {
    let mut content = std::fs::read(file).unwrap();
    let at = content.windows(bytes.len()).position(|window| window == bytes).unwrap();
    content[at] ^= 1;
    std::fs::write(file, content).unwrap();
}

#[test]
fn a_damaged_log_is_checked_repaired_as_the_refusal_says_and_served_again() {
    let (folder, port) = (Folder::new(), free_port());
    let port_arg = port.to_string();
    let args = ["--port", &port_arg, "--appendfsync", "always"];
    let server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    for key in ["one", "two", "three"] {
        assert_eq!(client.ask(&format!("SET {key} the-value-of-{key}")), "+OK");
    }
    let directory = folder.path("log");
    let directory_arg = directory.to_str().unwrap();
    for command in [&["check"][..], &["repair"], &["repair", "--truncate"]] {
        let (code, said) = tarn_log(&[command, &[directory_arg]].concat());
        assert_eq!((code, said), (2, format!("tarn: {directory_arg} is in use by another server\n")));
    }
    assert!(server.terminate().success());

    let (code, said) = tarn_log(&["check", directory_arg]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("0000000001.tarnlog: epoch 1, number 1, "), "{said}");
    assert!(said.contains(" 3 records, Lsn 1 to 3\n"), "{said}");
    assert!(said.contains("\nwhole: the records up to Lsn 3 in "), "{said}");
    let (code, said) = tarn_log(&["repair", "--truncate", directory_arg]);
    assert!(code == 0 && said.ends_with("\nnothing to repair\n"), "{said}");

    spoil(&directory.join("0000000001.tarnlog"), b"the-value-of-two");
    let refusal = folder.refusal(&args);
    let remedy = format!("tarn log repair --truncate {directory_arg}");
    let said = refusal.lines().last().unwrap();
    assert!(said.starts_with("tarn: the log is damaged in ") && said.ends_with(&remedy), "{refusal}");
    for command in ["check", "repair"] {
        let (code, said) = tarn_log(&[command, directory_arg]);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("0000000001.tarnlog at byte ") && said.contains(&remedy), "{said}");
        assert!(
            said.contains("kept: the records up to Lsn 1 in ") && said.contains(" with 1 record "),
            "{said}"
        );
    }
    let command: Vec<&str> = remedy.strip_prefix("tarn log ").unwrap().split(' ').collect();
    let (code, said) = tarn_log(&command);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains(&format!("what is cut off is kept in {directory_arg}/damaged-1\n")), "{said}");
    assert!(said.contains(" blocks, 1 record\n") || said.contains(" block, 1 record\n"), "{said}");
    assert!(!said.contains("this log was compacted"), "{said}");
    let folder_of_damage = directory.join("damaged-1");
    assert!(folder_of_damage.join("0000000001.tarnlog").exists());
    for command in [&["check"][..], &["dump"], &["repair"], &["repair", "--truncate"]] {
        let (code, said) = tarn_log(&[command, &[folder_of_damage.to_str().unwrap()]].concat());
        assert!(code > 0 && !said.contains("tarn log repair"), "{said}");
        assert!(said.contains("damaged-1 is no log: a repair has kept there"), "{said}");
    }

    let server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!((client.ask("GET one"), client.ask("DBSIZE")), ("the-value-of-one".into(), ":1".into()));
    assert!(server.terminate().success());
    assert_eq!(tarn_log(&["check", directory_arg]).0, 0);
}

#[test]
fn what_is_no_log_is_told_in_a_line() {
    let folder = Folder::new();
    let path = folder.path("");
    let path = path.to_str().unwrap();
    for command in ["check", "dump", "repair"] {
        assert_eq!(tarn_log(&[command, path]), (2, format!("tarn: {path}: there is no log in it\n")));
        let (code, said) = tarn_log(&[command, "/no/such/directory"]);
        assert!(code == 2 && said.starts_with("tarn: cannot list /no/such/directory: "), "{said}");
        assert_eq!(tarn_log(&[command]).0, 2);
    }
    assert!(std::fs::read_dir(path).unwrap().next().is_none(), "nothing was made there");
}

#[test]
fn a_dump_has_a_line_for_each_record() {
    let (folder, port) = (Folder::new(), free_port());
    let server = folder.serve(&["--port", &port.to_string()]);
    let mut client = Client::tcp("127.0.0.1", port);
    for command in [
        &format!("SET long {}", "x".repeat(100)),
        "SET short v PXAT 99999999999999",
        "PERSIST short",
        "HSET h a 1 b 2",
        "RPUSH l a",
        "LPOP l",
        "SWAPDB 0 3",
        "SELECT 3",
        "SETRANGE short 2 z",
        "ZADD z 1.5 m",
        "COPY z y",
        "FLUSHDB",
        "FLUSHALL",
    ] {
        assert!(!client.ask(command).starts_with('-'), "{command}");
    }
    assert!(server.terminate().success());
    let directory = folder.path("log");
    let (code, said) = tarn_log(&["dump", "--width", "10", directory.to_str().unwrap()]);
    let expected = [
        "1 db0 put \"long\" \"xxxxxxxxxx\"... (100 bytes)",
        "2 db0 put \"short\" \"v\" expires 99999999999999",
        "3 db0 persist \"short\"",
        "4 db0 hash-put \"h\" \"a\" \"1\"",
        "5 +db0 hash-put \"h\" \"b\" \"2\"",
        "6 db0 list-push \"l\" back \"a\"",
        "7 db0 list-pop \"l\" front 1",
        "8 +db0 delete \"l\"",
        "9 swap db0 db3",
        "10 db3 patch \"short\" at 2 \"z\"",
        "11 db3 zset-put \"z\" \"m\" score 1.5",
        "12 db3 image \"y\" zset of 10 bytes",
        "13 db3 flush",
        "14 flush all",
    ];
    assert_eq!((code, said.lines().collect::<Vec<_>>()), (0, expected.to_vec()));
}

/// A log with a torn tail.
fn torn(folder: &Folder) -> std::path::PathBuf {
    let port = free_port();
    let server = folder.serve(&["--port", &port.to_string()]);
    assert_eq!(Client::tcp("127.0.0.1", port).ask("SET key value"), "+OK");
    assert!(server.terminate().success());
    let log = folder.path("log");
    let names = std::fs::read_dir(&log).unwrap().map(|entry| entry.unwrap().path());
    let newest = names.filter(|path| path.extension().is_some_and(|end| end == "tarnlog")).max().unwrap();
    let mut content = std::fs::read(&newest).unwrap();
    content.extend_from_slice(&[7; 100]);
    std::fs::write(newest, content).unwrap();
    log
}

#[test]
fn a_dump_tells_of_a_torn_tail_beside_its_lines() {
    let folder = Folder::new();
    let log = torn(&folder);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    let Output { status, stdout, stderr } = command.arg("log").arg("dump").arg(&log).output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!((status.code(), &*stdout), (Some(0), "1 db0 put \"key\" \"value\"\n"));
    assert!(stderr.starts_with("torn tail of 100 bytes behind Lsn 1, from "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_line_break_in_a_path_begins_no_line() {
    let folder = Folder::new();
    let moved = folder.path("two\nlines");
    std::fs::rename(torn(&folder), &moved).unwrap();
    let (code, said) = tarn_log(&["check", moved.to_str().unwrap()]);
    assert!(code == 0 && said.contains("torn tail of 100 bytes"), "{said}");
    assert!(said.contains("two\\nlines/") && !said.contains("two\nlines"), "{said}");
}
