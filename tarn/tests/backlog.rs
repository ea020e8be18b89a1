//! Clients that write faster than the disk takes it wait, and are not refused. The bytes that wait to be
//! written stay within their limit.

// A test may fail by panicking.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const CLIENTS: usize = 4;
const WRITES: usize = 20_000;
const LIMIT_BYTES: u64 = 4 << 10;
/// More than one of the writes takes in the log.
const WRITE_BYTES: u64 = 1 << 10;
const START_LIMIT: Duration = Duration::from_secs(120);

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that makes clients wait for the log as soon as four kilobytes wait to be written.
fn start(folder: &std::path::Path) -> (Server, String) {
    let port = tarn_lab::server::free_port().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    command.args(["serve", "--port", &port.to_string(), "--threads", "2", "--loglevel", "warning"]);
    command.args(["--log-backlog-limit", &LIMIT_BYTES.to_string()]);
    command.args(["--appendfsync", "everysec", "--dir"]).arg(folder);
    let server = Server(command.stdin(Stdio::null()).spawn().unwrap());
    let address = format!("127.0.0.1:{port}");
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < START_LIMIT, "the server does not answer");
        if let Ok(mut stream) = TcpStream::connect(&address) {
            stream.write_all(b"PING\r\nQUIT\r\n").unwrap();
            let mut reply = String::new();
            if stream.read_to_string(&mut reply).is_ok() && reply.starts_with("+PONG") {
                return (server, address);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends many writes at once and returns all replies.
fn flood(address: &str, client: usize) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let mut reader = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let value = "v".repeat(100);
        let mut requests = String::new();
        for number in 0..WRITES {
            requests.push_str(&format!("RPUSH list:{client} {number}:{value}\r\n"));
        }
        requests.push_str("QUIT\r\n");
        stream.write_all(requests.as_bytes()).unwrap();
        stream
    });
    let mut replies = String::new();
    reader.read_to_string(&mut replies).unwrap();
    sender.join().unwrap();
    replies
}

/// Asks for the bytes that wait to be written, as often as it can until `stops`; returns the most.
fn watch_backlog(address: &str, stops: &AtomicBool) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let mut most = 0;
    while !stops.load(Ordering::Relaxed) {
        stream.get_mut().write_all(b"INFO persistence\r\n").unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        let mut info = vec![0; line.trim_end()[1..].parse::<usize>().unwrap() + 2];
        stream.read_exact(&mut info).unwrap();
        let info = String::from_utf8(info).unwrap();
        let bytes = info.lines().find_map(|line| line.strip_prefix("log_backlog_bytes:")).unwrap();
        most = most.max(bytes.parse().unwrap());
    }
    most
}

#[test]
fn writes_wait_for_a_log_that_is_behind_and_are_all_taken_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_server, address) = start(folder.path());
    let stops = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch_backlog(&address, &stops));
        let floods: Vec<_> = (0..CLIENTS)
            .map(|client| {
                scope.spawn({
                    let address = &address;
                    move || flood(address, client)
                })
            })
            .collect();
        let floods: Vec<_> = floods.into_iter().map(|flood| flood.join()).collect();
        stops.store(true, Ordering::Relaxed);
        // Beyond the limit clients are held back; those who have passed by then may fill it once more.
        let most = watch.join().unwrap();
        assert!(most < 2 * LIMIT_BYTES + WRITE_BYTES, "{most} bytes waited");
        for replies in floods {
            let replies = replies.unwrap();
            let expected =
                (1..=WRITES).map(|length| format!(":{length}\r\n")).collect::<String>() + "+OK\r\n";
            let differs = replies.lines().zip(expected.lines()).find(|(reply, expected)| reply != expected);
            assert!(replies == expected, "{differs:?}, {} of {} bytes", replies.len(), expected.len());
        }
    });
}
