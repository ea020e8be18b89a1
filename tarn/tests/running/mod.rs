//! A server in a folder of its own, and a client that talks to it, for the tests of this program.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// What has not happened by then will not happen.
pub const LIMIT: Duration = Duration::from_secs(30);

/// A folder for data, sockets and the messages of the servers that run in it one after another.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.arg("serve").arg("--dir").arg(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Starts a server that has to refuse; returns its exit status and what it says.
    pub fn refusal(&self, args: &[&str]) -> String {
        let Output { status, stderr, .. } = self.command(args).output().unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}");
        String::from_utf8(stderr).unwrap()
    }

    /// Starts a server; its messages go to the file `messages`.
    pub fn serve(&self, args: &[&str]) -> Server {
        let messages = File::create(self.path("messages")).unwrap();
        Server { child: self.command(args).stderr(messages).stdout(Stdio::null()).spawn().unwrap() }
    }

    pub fn messages(&self) -> String {
        std::fs::read_to_string(self.path("messages")).unwrap()
    }
}

/// A running server; dropping it kills it.
pub struct Server {
    child: Child,
}

impl Server {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that speaks inline commands and reads replies as they are on the wire.
pub struct Client<S>(pub BufReader<S>);

impl Client<TcpStream> {
    /// Connects as soon as the server is there.
    pub fn tcp(host: &str, port: u16) -> Self {
        Client(BufReader::new(eventually(|| TcpStream::connect((host, port)).ok())))
    }
}

impl Client<UnixStream> {
    pub fn unix(path: &PathBuf) -> Self {
        Client(BufReader::new(eventually(|| UnixStream::connect(path).ok())))
    }
}

impl<S: Read + Write> Client<S> {
    /// The reply's first line; of a bulk string its content.
    pub fn ask(&mut self, command: &str) -> String {
        loop {
            self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.starts_with("-LOADING") {
                continue;
            }
            if let Some(len) = line.strip_prefix('$').filter(|len| !len.starts_with('-')) {
                let mut content = vec![0; len.trim_end().parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut content).unwrap();
                line = String::from_utf8(content).unwrap();
            }
            return line.trim_end().to_owned();
        }
    }

    /// The whole reply as it is on the wire, arrays and all, but for its line breaks, which are blanks.
    pub fn whole(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }

    pub fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    /// The next reply, as `whole` returns it.
    pub fn reply(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        let line = line.trim_end().to_owned();
        let len: i64 = line.get(1..).and_then(|len| len.parse().ok()).unwrap_or(-1);
        match line.chars().next() {
            Some('$') if len >= 0 => {
                let mut content = vec![0; len as usize + 2];
                self.0.read_exact(&mut content).unwrap();
                format!("${}", content[..len as usize].escape_ascii())
            }
            Some('*') if len >= 0 => {
                let elements: Vec<String> = (0..len).map(|_| self.reply()).collect();
                format!("*[{}]", elements.join(" "))
            }
            _ => line,
        }
    }
}

pub fn eventually<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(result) = what() {
            return result;
        }
        assert!(began.elapsed() < LIMIT, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn free_port() -> u16 {
    // Each only once: of two tests with the same port one would talk to the server of the other.
    static GIVEN: Mutex<Vec<u16>> = Mutex::new(Vec::new());
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut given = GIVEN.lock().unwrap();
        if !given.contains(&port) {
            given.push(port);
            return port;
        }
    }
}
