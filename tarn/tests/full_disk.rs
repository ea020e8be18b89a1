//! Directories that cannot be written to, and a disk that fills up and is emptied again, on real file
//! systems.
//!
//! Small file systems in memory are mounted where this process may do so; elsewhere those tests say that they
//! were skipped.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Folder, LIMIT, SmallDisk, eventually, free_port};
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
    assert!(refusal("/proc").contains("cannot use log directory /proc/"));
    let Some(disk) = SmallDisk::mount(&folder, "small", "ro") else { return };
    let expected = format!("cannot use log directory {}/log: Read-only file system", disk.path());
    assert!(refusal(disk.path()).contains(&expected));
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

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_and_loses_nothing() {
    // The first file of the log has 4 MiB under `always`, 64 MiB else; there is room for no second one.
    for (mode, room_mib) in [("always", 12), ("everysec", 72)] {
        let (folder, port) = (Folder::new(), free_port());
        let Some(disk) = SmallDisk::mount(&folder, "small", "size=200m") else { return };
        let filler = disk.0.join("filler");
        let file = File::create(&filler).unwrap();
        fallocate(file, FallocateFlags::empty(), 0, (200 - room_mib) << 20).unwrap();
        let args = ["--port", &port.to_string(), "--dir", disk.path(), "--appendfsync", mode];
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
            assert!(client.ask("INFO persistence").contains("log_failure:the log cannot be written: "));

            if mode == "always" {
                // The newest write waits for the disk, and so does who looks at its key.
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
