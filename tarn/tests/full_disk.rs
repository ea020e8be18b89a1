//! Directories that cannot be written to, and a disk that fills up and is emptied again, on real file
//! systems.
//!
//! Small file systems in memory are mounted where this process may do so; elsewhere those tests say that they
//! were skipped.

#![allow(clippy::unwrap_used)]

mod running;

use running::scrape::Scrape;
use running::{Client, Folder, LIMIT, Running, SmallDisk, eventually, field, free_port};
use rustix::fs::{FallocateFlags, fallocate};
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The one line with which a server refuses this directory.
fn refusal(dir: &str) -> String {
    let line = Folder::new().refusal(&["--port", &free_port().to_string(), "--dir", dir]);
    assert_eq!(line.trim_end().lines().count(), 1, "{line}");
    line
}

#[test]
fn a_directory_that_cannot_be_used_is_refused_in_one_line() {
    let folder = Folder::new();
    std::fs::write(folder.path("file"), "x").unwrap();
    let file = folder.path("file");
    assert!(refusal("/nosuch/folder").contains("cannot use data directory /nosuch/folder: No such file"));
    assert!(refusal(file.to_str().unwrap()).contains("not a directory; create it, or name another"));
    std::fs::create_dir(folder.path("data")).unwrap();
    std::fs::write(folder.path("data/log"), "x").unwrap();
    let in_its_place = "not a directory; move away what is in its place, or name others with --log-dir";
    assert!(refusal(folder.path("data").to_str().unwrap()).contains(in_its_place));
    assert!(refusal("/proc").contains("cannot use log directory /proc/"));
    let Some(disk) = SmallDisk::mount(&folder, "small", "ro") else { return };
    let expected = format!("cannot use log directory {}/log: Read-only file system", disk.path());
    let found = refusal(disk.path());
    assert!(found.contains(&expected) && !found.contains("make room"), "{found}");
}

/// Writes 100 KB strings to `k0`, `k1` … until `stops`; counts those that were acknowledged.
fn write_strings(port: u16, acknowledged: &AtomicUsize, stops: &AtomicBool) {
    let mut client = Client::tcp("127.0.0.1", port);
    client.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
    let value = "v".repeat(100_000);
    while !stops.load(Ordering::SeqCst) {
        let number = acknowledged.load(Ordering::SeqCst);
        let key = format!("k{number}");
        let request = format!("*3\r\n$3\r\nSET\r\n${}\r\n{key}\r\n$100000\r\n{value}", key.len());
        match client.ask(&request).as_str() {
            "+OK" => acknowledged.store(number + 1, Ordering::SeqCst),
            refusal => assert!(refusal.starts_with("-MISCONF "), "{refusal}"),
        }
    }
}

/// Stops the writer even if the test fails.
struct Stop<'s>(&'s AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn status(client: &mut Client<TcpStream>) -> String {
    let info = client.ask("INFO persistence");
    info.lines().find_map(|line| line.strip_prefix("aof_last_write_status:")).unwrap().to_owned()
}

/// Waits until the failure of the log is reported everywhere.
fn wait_until_told(folder: &Folder, client: &mut Client<TcpStream>, metrics: u16, directory: &str) {
    let error = field(client, "log_last_error").unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    let scrape = Scrape::of(metrics);
    assert_eq!(scrape.number("tarn_log_failing"), 1.0);
    let failed = scrape.number("tarn_log_failures_total");
    let failed_at = scrape.number("tarn_log_last_error_timestamp_seconds");
    assert!(failed >= 1.0 && failed_at >= scrape.number("process_start_time_seconds"), "{failed_at}");
    let failures = scrape.find("tarn_log_directory_failures_total", &[("directory", directory)]);
    assert!(failures.unwrap() >= 1.0, "{failures:?}");
    eventually(|| folder.messages().contains("writes are refused until it can be").then_some(()));
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    // The first file of the log has 4 MiB under `always`, 64 MiB else; there is room for no second one.
    for (mode, room_mib) in [("always", 12), ("everysec", 72)] {
        let (folder, port) = (Folder::new(), free_port());
        let Some(disk) = SmallDisk::mount(&folder, "small", "size=200m") else { return };
        let filler = disk.0.join("filler");
        let file = File::create(&filler).unwrap();
        fallocate(file, FallocateFlags::empty(), 0, (200 - room_mib) << 20).unwrap();
        let metrics = free_port();
        let (port_text, metrics_text) = (port.to_string(), metrics.to_string());
        let args = ["--port", &port_text, "--dir", disk.path(), "--appendfsync", mode];
        let args = [&args[..], &["--metrics-port", &metrics_text]].concat();
        let server = folder.serve(&args);
        let mut client = Client::tcp("127.0.0.1", port);
        let (acknowledged, stops) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let _stop = Stop(&stops);
            scope.spawn(|| write_strings(port, &acknowledged, &stops));
            eventually(|| (status(&mut client) == "err").then_some(()));
            let refusal = client.ask("SET other x");
            assert!(refusal.starts_with("-MISCONF Errors writing to the AOF file: "), "{refusal}");
            assert!(refusal.contains("No space left on device"), "{refusal}");
            assert_eq!(client.ask("STRLEN k0"), ":100000", "reads go on");
            let refusal = client.ask("SHUTDOWN NOSAVE");
            assert!(refusal.starts_with("-ERR Errors trying to SHUTDOWN: the log cannot be "), "{refusal}");
            assert!(client.ask("INFO persistence").contains("log_failure:the log cannot be written: "));

            wait_until_told(&folder, &mut client, metrics, &format!("{}/log", disk.path()));

            if mode == "always" {
                // The newest write waits for the disk, and so does a client that reads its key.
                let mut waiting = Client::tcp("127.0.0.1", port);
                let id = waiting.ask("CLIENT ID").split_off(1);
                let look = format!("STRLEN k{}\r\n", acknowledged.load(Ordering::SeqCst));
                waiting.0.get_mut().write_all(look.as_bytes()).unwrap();
                let list = format!("CLIENT LIST ID {id}");
                eventually(|| client.ask(&list).contains("cmd=strlen").then_some(()));
                assert_eq!(client.ask(&format!("CLIENT KILL ID {id}")), ":1");
                waiting.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
                let mut rest = Vec::new();
                waiting.0.read_to_end(&mut rest).unwrap();
                assert_eq!(rest, b"", "a killed client's socket does not wait for the disk");
            }

            std::fs::remove_file(&filler).unwrap();
            let full_at = acknowledged.load(Ordering::SeqCst);
            eventually(|| (status(&mut client) == "ok").then_some(()));
            assert_eq!(client.ask("SET other x"), "+OK", "{mode}");
            assert_eq!(Scrape::of(metrics).number("tarn_log_failing"), 0.0);
            assert!(field(&mut client, "log_last_error").is_some(), "what was wrong is still told");
            eventually(|| (field(&mut client, "log_dir0")?.ends_with(",trouble=0")).then_some(()));
            eventually(|| (acknowledged.load(Ordering::SeqCst) > full_at + 1).then_some(()));
        });
        for message in ["writes are refused until it can be", "The log can be written again"] {
            eventually(|| folder.messages().contains(message).then_some(()));
        }
        let acknowledged = acknowledged.into_inner();
        if mode == "always" {
            server.kill();
        } else {
            assert!(server.terminate().success());
        }
        let _server = folder.serve(&args);
        let mut client = Client::tcp("127.0.0.1", port);
        let lost = (0..acknowledged).find(|number| client.ask(&format!("STRLEN k{number}")) != ":100000");
        assert_eq!(lost, None, "of {acknowledged} under {mode}");
    }
}

#[test]
fn a_server_that_ends_while_its_log_cannot_be_written_says_how_much_is_lost() {
    for is_asked in [true, false] {
        eventually(|| end_without_room(is_asked));
    }
}

/// `None` if the disk was full just when all records had their place, and there was nothing to lose.
fn end_without_room(is_asked: bool) -> Option<()> {
    let (folder, port) = (Folder::new(), free_port());
    let Some(disk) = SmallDisk::mount(&folder, "small", "size=2m") else { return Some(()) };
    let log = disk.0.join("log");
    let args = ["--port", &port.to_string(), "--log-dir", log.to_str().unwrap()];
    let server = folder.serve(
        // Compaction would make room.
        &[&args[..], &["--log-file-size", "65536", "--log-compaction", "none"]].concat(),
    );
    let mut client = Client::tcp("127.0.0.1", port);
    let value = "v".repeat(10_000);
    // The cutting of a full file may make room once more behind a first refusal.
    eventually(|| {
        let reply = client.ask(&format!("SET key {value}"));
        assert!(reply == "+OK" || reply.starts_with("-MISCONF "), "{reply}");
        folder.messages().contains("writes are refused until it can be").then_some(())
    });
    if field(&mut client, "log_lag_records").unwrap() == "0" {
        return None;
    }
    let status = if is_asked {
        let refusal = client.ask("SHUTDOWN");
        assert!(refusal.ends_with(" or give them up with SHUTDOWN FORCE"), "{refusal}");
        assert_eq!(client.ask("PING"), "+PONG", "the server goes on");
        client.send("SHUTDOWN FORCE");
        server.wait()
    } else {
        server.terminate()
    };
    let messages = folder.messages();
    assert_eq!(status.code(), Some(1), "{messages}");
    let last = messages.lines().last().unwrap();
    let (_, told) = last.split_once("; its newest ").unwrap();
    let (lost, rest) = told.split_once(' ').unwrap();
    assert_eq!(rest, "records are not on disk: what was acknowledged of them is lost");
    assert!(lost.parse::<u64>().unwrap() > 0, "{last}");
    Some(())
}

#[test]
fn a_directory_without_room_is_told_while_the_log_goes_on_in_another() {
    let folder = Folder::new();
    let Some(disk) = SmallDisk::mount(&folder, "small", "size=4m") else { return };
    let (full, roomy, metrics) = (disk.0.join("log"), folder.path("roomy"), free_port());
    let (full, roomy) = (full.to_str().unwrap(), roomy.to_str().unwrap());
    let metrics_text = metrics.to_string();
    let running = Running::start(&[
        "--log-dir",
        full,
        roomy,
        "--log-file-size",
        "65536",
        "--log-compaction",
        "none",
        "--metrics-port",
        &metrics_text,
    ]);
    let mut client = running.connect();
    let filler = disk.0.join("filler");
    let mut file = File::create(&filler).unwrap();
    while file.write_all(&[1; 4096]).is_ok() {}
    let trouble = || Scrape::of(metrics).find("tarn_log_directory_trouble", &[("directory", full)]).unwrap();
    let write = |client: &mut Client<TcpStream>| {
        assert_eq!(
            client.ask(&format!("SET key {}", "v".repeat(10_000))),
            "+OK",
            "there is another directory"
        );
    };
    eventually(|| {
        write(&mut client);
        (trouble() == 1.0).then_some(())
    });
    assert!(field(&mut client, "log_dir0").unwrap().ends_with(",trouble=1"));
    let error = field(&mut client, "log_dir0_trouble").unwrap();
    assert!(error.contains("No space left on device"), "{error}");
    assert!(field(&mut client, "log_last_error").unwrap().contains("No space left on device"));
    assert!(field(&mut client, "log_dir1").unwrap().ends_with(",trouble=0"));
    assert_eq!(field(&mut client, "aof_last_write_status").unwrap(), "ok");
    let told = format!("The log has no next file in {full}: ");
    eventually(|| running.folder.messages().contains(&told).then_some(()));

    drop(file);
    std::fs::remove_file(&filler).unwrap();
    eventually(|| (trouble() == 0.0).then_some(()));
    let healed = format!("The log has a next file in {full} again");
    eventually(|| running.folder.messages().contains(&healed).then_some(()));
    assert!(field(&mut client, "log_dir0_trouble").is_none());
    drop(running);
}
