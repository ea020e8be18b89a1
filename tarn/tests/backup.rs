//! `tarn backup` and `tarn restore` with the real program: what comes back is what was there, and what is
//! not a whole backup is refused.

#![allow(clippy::unwrap_used)]

mod running;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};

use running::{Connection, Folder, Running, digest, eventually, field, number};

/// Small files, compacted as soon as some of their records are needless.
const EAGER: [&str; 6] =
    ["--log-file-size", "65536", "--log-compaction-min-size", "0", "--log-compaction-file-percentage", "30"];

/// What the program says and its exit code; standard output and standard error in one.
fn tarn(args: &[&str]) -> (i32, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_tarn")).args(args).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    (status.code().unwrap(), said)
}

/// Backs up to a folder beside the data and returns the newest record that the backup has.
fn back_up(running: &Running, name: &str, since: u64) -> u64 {
    let (port, since) = (running.port.to_string(), since.to_string());
    let (code, said) = tarn(&["backup", "-p", &port, "--since", &since, name]);
    assert_eq!(code, 0, "{said}");
    said.trim_end().rsplit(' ').next().unwrap().parse().unwrap()
}

fn restore(folder: &Folder, backups: &[&str], to: &str) -> (i32, String) {
    let paths: Vec<String> =
        backups.iter().chain([&to]).map(|name| folder.path(name).to_str().unwrap().to_owned()).collect();
    let (to, backups) = paths.split_last().unwrap();
    let mut args = vec!["restore", "--dir", to];
    args.extend(backups.iter().map(String::as_str));
    tarn(&args)
}

/// The data of a server that runs on what was restored.
fn digest_of(path: PathBuf, directories: usize) -> String {
    let port = running::free_port().to_string();
    let dir = path.to_str().unwrap().to_owned();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    command.args(["serve", "--port", &port, "--enable-debug-command", "yes", "--dir", &dir]);
    if directories > 1 {
        command.arg("--log-dir").args((0..directories).map(|index| format!("log-{index}")));
    }
    let mut server = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut client = running::Client::tcp("127.0.0.1", port.parse().unwrap());
    while client.ask("PING") != "+PONG" {}
    let found = digest(&mut client);
    server.kill().unwrap();
    server.wait().unwrap();
    found
}

/// Writes to few keys of several types again and again, and deletes them.
fn churn(client: &mut Connection, rounds: std::ops::Range<usize>) {
    let value = "v".repeat(200);
    for round in rounds {
        let mut commands = Vec::new();
        for number in 0..200 {
            let slot = (round * 7 + number * 13) % 40;
            commands.push(format!("SET string:{slot} {value}{round}"));
            commands.push(format!("RPUSH list:{} {value}{number}", slot % 3));
            commands.push(format!("LPOP list:{}", slot % 3));
            commands.push(format!("HSET hash:{} f{} {value}{round}", slot % 4, slot / 4));
            commands.push(format!("HDEL hash:{} f{}", slot % 4, (slot + 5) / 4));
            commands.push(format!("SADD set:{} m{}", slot % 4, slot));
            commands.push(format!("SREM set:{} m{}", slot % 4, (slot + 3) % 40));
            commands.push(format!("DEL string:{}", (slot + 1) % 40));
        }
        commands.iter().for_each(|command| client.send(command));
        for command in &commands {
            let reply = client.reply();
            assert!(!reply.starts_with('-'), "{command}: {reply}");
        }
    }
}

#[test]
fn a_full_backup_and_its_increments_come_back_as_the_store_was_at_their_ends() {
    for directories in [1, 3] {
        for checkpoint in [false, true] {
            let mut args = EAGER.to_vec();
            let names = ["one", "two", "three"];
            if directories > 1 {
                args.push("--log-dir");
                args.extend(names);
            }
            let mut running = Running::start(&args);
            let mut client = running.connect();
            let (mut ends, mut digests, mut backups) = (vec![0], Vec::new(), Vec::new());
            for stage in 0..4 {
                churn(&mut client, stage * 6..stage * 6 + 6);
                client.ask(&format!("SET stage:{stage} {}", "x".repeat(1000)));
                client.ask(&format!("DEL stage:{}", (stage + 3) % 4));
                if checkpoint && stage % 2 == 0 {
                    assert_eq!(client.ask("SAVE"), "+OK");
                }
                if stage == 2 {
                    running.restart();
                    client = running.connect();
                }
                let name = ["full", "second", "third", "fourth"][stage];
                ends.push(back_up(&running, name, ends[stage]));
                backups.push(name);
                digests.push(digest(&mut client));
                assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
                eventually(|| (field(&mut client, "aof_rewrite_in_progress")? == "0").then_some(()));
            }
            assert!(number(&mut client, "log_compactions") > 0);
            for count in 1..=4 {
                let to = format!("restored-{count}");
                let (code, said) = restore(&running.folder, &backups[..count], &to);
                assert_eq!(code, 0, "{said}");
                assert!(said.starts_with(&format!("restored up to record {}: ", ends[count])), "{said}");
                let found = digest_of(running.folder.path(&to), directories);
                assert_eq!(found, digests[count - 1], "{directories}, {checkpoint}, {count}");
            }
        }
    }
}

#[test]
fn a_backup_under_load_has_what_was_acknowledged_before_it_and_no_hole() {
    let running = Running::start(&EAGER);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = running.connect();
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number += 1;
                client.ask(&format!("SET counter {number}"));
                client.ask(&format!("RPUSH list {number}"));
            }
        });
        let mut client = running.connect();
        for round in 0..5 {
            eventually(|| {
                let counted: u64 = client.ask("GET counter").parse().unwrap_or(0);
                (counted > round * 500).then_some(())
            });
            let before: u64 = client.ask("GET counter").parse().unwrap();
            let name = format!("full-{round}");
            back_up(&running, &name, 0);
            let (code, said) = restore(&running.folder, &[&name], &format!("restored-{round}"));
            assert_eq!(code, 0, "{said}");
            let dir = running.folder.path(&format!("restored-{round}"));
            let found = Found::in_data(&dir);
            assert!(found.counter >= before, "{} of {before}", found.counter);
            assert!((0..=1).contains(&(found.counter - found.elements)), "{found:?}");
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
    });
}

/// What the writer of a test had done.
#[derive(Debug)]
struct Found {
    counter: u64,
    elements: u64,
}

impl Found {
    fn in_data(dir: &Path) -> Found {
        let port = running::free_port().to_string();
        let args = ["serve", "--port", &port, "--dir", dir.to_str().unwrap()];
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        let mut server = command.args(args).stderr(std::process::Stdio::null()).spawn().unwrap();
        let mut client = running::Client::tcp("127.0.0.1", port.parse().unwrap());
        let counter = client.ask("GET counter").parse().unwrap();
        let elements = client.ask("LLEN list")[1..].parse().unwrap();
        server.kill().unwrap();
        server.wait().unwrap();
        Found { counter, elements }
    }
}
