//! The start of a connection: who says nothing is not waited for.

#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tarn_analytics::{Analytics, AnalyticsOptions, Caller, Door, Rules, User, WireOptions, serve};

/// Clients may take a moment to begin.
struct Hasty;

impl Rules for Hasty {
    fn door(&self, _: &str) -> Door {
        Door::Open
    }

    fn refuses(&self, name: &str, _: SocketAddr, _: bool) -> Option<&'static str> {
        (name == "other").then_some("nobody is called so")
    }

    fn enter(&self, _: &str, _: &[u8], _: SocketAddr) -> Option<Arc<dyn User>> {
        None
    }

    fn connections_max(&self) -> usize {
        2
    }

    fn start_patience(&self) -> Duration {
        Duration::from_millis(200)
    }

    fn idle_patience(&self) -> Option<Duration> {
        None
    }

    fn note_wrong_password(&self, _: &str, _: SocketAddr) {}
}

/// Serves two clients at a time, who may take a moment to begin; its port.
fn served() -> (tokio::runtime::Runtime, u16) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let options = AnalyticsOptions {
        databases: 1,
        memory_bytes: 1 << 20,
        threads: 1,
        directory: None,
        export_directory: None,
    };
    let analytics = runtime.block_on(Analytics::open(options)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let options = WireOptions { rules: Arc::new(Hasty) };
    let (callers, incoming) = tokio::sync::mpsc::channel(8);
    runtime.spawn(serve(analytics, incoming, options));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            stream.set_nonblocking(true).unwrap();
            let peer = stream.peer_addr().unwrap();
            let caller = Caller { stream, peer, is_local: true, refusal: None, must_encrypt: false };
            if callers.blocking_send(caller).is_err() {
                return;
            }
        }
    });
    (runtime, port)
}

/// All that the server says until it hangs up.
fn said_to(port: u16, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(bytes).unwrap();
    let mut said = Vec::new();
    // It may hang up with bytes of ours unread.
    let _ = stream
        .read_to_end(&mut said)
        .map_err(|error| assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock));
    said
}

#[test]
fn who_does_not_begin_is_not_waited_for() {
    let (_runtime, port) = served();
    // Nothing, a part of a start, and a request for encryption with nothing after it.
    assert!(said_to(port, b"").is_empty());
    assert!(said_to(port, &[0, 0, 0, 40, 0, 3, 0, 0, b'u']).is_empty());
    assert_eq!(said_to(port, &[0, 0, 0, 8, 4, 210, 22, 47]), b"N");
    // Each had one of two places, and gave it back. There is no store, and the error says so.
    let started = said_to(port, b"\0\0\0\x16\0\x03\0\0user\0default\0\0");
    assert!(started.starts_with(b"E") && started.windows(5).any(|code| code == b"57P03"), "{started:?}");
}

#[test]
fn a_name_that_is_refused_is_told_why_and_is_not_asked_for_a_password() {
    let (_runtime, port) = served();
    let refused = said_to(port, b"\0\0\0\x14\0\x03\0\0user\0other\0\0");
    let says = |words: &[u8]| refused.windows(words.len()).any(|part| part == words);
    assert!(refused.starts_with(b"E") && says(b"C28000") && says(b"nobody is called so"), "{refused:?}");
}
