//! Where a panic does not end the process, as in this one, the connection that it was of is forgotten: a stop
//! waits for nobody who is gone.

#![allow(clippy::unwrap_used)]

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tarn_server::config::{Invocation, parse_serve_args};
use tarn_server::serve::serve;

/// The longest wait for an event.
const LIMIT: Duration = Duration::from_secs(120);

fn connect(port: u16) -> TcpStream {
    let began = Instant::now();
    loop {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            return stream;
        }
        assert!(began.elapsed() < LIMIT, "nobody listens");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The reply, which is one line; empty if the connection was closed.
fn ask(stream: &mut TcpStream, command: &str) -> String {
    stream.write_all(format!("{command}\r\n").as_bytes()).unwrap();
    let (mut reply, mut byte) = (Vec::new(), [0]);
    while !reply.ends_with(b"\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => reply.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8(reply).unwrap()
}

#[test]
fn a_stop_waits_for_no_connection_that_has_panicked() {
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
    let args = format!("--port {port} --threads 1 --enable-debug-command yes --appendonly no --dir");
    let args: Vec<OsString> = args.split(' ').map(OsString::from).chain([directory.path().into()]).collect();
    let Ok(Invocation::Serve(loaded)) = parse_serve_args(args) else { panic!("it is to serve") };
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(serve(*loaded).is_ok()));
    let mut other = connect(port);
    while ask(&mut other, "PING") != "+PONG\r\n" {}
    let mut panics = connect(port);
    assert_eq!(ask(&mut panics, "DEBUG PANIC"), "");
    other.write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    let ended = ended.recv_timeout(LIMIT);
    assert_eq!(ended, Ok(true), "the server did not stop");
}
