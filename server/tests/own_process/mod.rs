//! A server in a process of its own, which is this test's program once more, and a client that talks to it in
//! inline commands. So tests of this package start, kill and start servers again without the program `tarn`.

// Each test file uses a part of this.
#![allow(dead_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tarn_server::config::{Invocation, parse_serve_args};
use tarn_server::serve::serve;
use tempfile::TempDir;

/// The longest wait for an event.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Holds the words of the command line in the process that is to serve, one a line.
const WORDS: &str = "TARN_TEST_SERVES";

/// Serves, if this process was started for that. To be called by a test with the name `serves`.
#[expect(clippy::disallowed_methods, reason = "the process is this server, not the tests behind it")]
pub(crate) fn serve_if_told() {
    let Some(words) = std::env::var_os(WORDS) else { return };
    let words = words.into_string().unwrap();
    let loaded = match parse_serve_args(words.lines().map(OsString::from).collect::<Vec<_>>()) {
        Ok(Invocation::Serve(loaded)) => loaded,
        other => panic!("it is to serve: {other:?}"),
    };
    let code = match serve(*loaded) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "refused: {error}");
            1
        }
    };
    std::process::exit(code);
}

/// Waits until there is something.
pub(crate) fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "it does not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A folder with data, and the servers that run over it one after another.
pub(crate) struct Own {
    pub folder: TempDir,
    pub port: u16,
    child: Option<Child>,
}

impl Own {
    pub(crate) fn new() -> Own {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        Own { folder: tempfile::tempdir().unwrap(), port, child: None }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The process that is to serve.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let (port, dir) = (self.port.to_string(), self.folder.path().to_str().unwrap());
        let own = ["--port", &port, "--dir", dir, "--threads", "2", "--enable-debug-command", "yes"];
        // A file comes first.
        let files = args.iter().take_while(|arg| !arg.starts_with("--")).count();
        let words = [&args[..files], &own[..], &args[files..]].concat().join("\n");
        let messages = File::options().create(true).append(true).open(self.path("messages")).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serves", "--nocapture"]).env(WORDS, words);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(messages);
        command
    }

    /// Kills the server, if one runs, and starts another over the same data.
    pub(crate) fn start(&mut self, args: &[&str]) -> Connection {
        self.start_unasked(args);
        self.connect()
    }

    /// As `start`, without waiting for anything.
    pub(crate) fn start_unasked(&mut self, args: &[&str]) {
        self.kill();
        self.child = Some(self.command(args).spawn().unwrap());
    }

    /// Has another program's server in the place of one's own.
    pub(crate) fn adopt(&mut self, child: Child) {
        self.kill();
        self.child = Some(child);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("a server runs").id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(self.child.as_ref().expect("a server runs")), signal).unwrap();
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("a server runs");
        eventually(|| child.try_wait().unwrap())
    }

    pub(crate) fn terminate(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.wait().success(), "{}", self.messages());
    }

    /// The messages of the servers so far.
    pub(crate) fn messages(&self) -> String {
        std::fs::read_to_string(self.path("messages")).unwrap()
    }

    /// A connection, as soon as the server there has loaded its data.
    pub(crate) fn connect(&mut self) -> Connection {
        eventually(|| {
            if let Some(status) = self.child.as_mut().and_then(|child| child.try_wait().unwrap()) {
                panic!("the server has ended with {status}: {}", self.messages());
            }
            let mut connection = Connection::tcp(self.port)?;
            let answer = connection.try_ask("PING")?;
            (!answer.starts_with("-LOADING")).then_some(connection)
        })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A client.
pub(crate) struct Connection(pub BufReader<TcpStream>);

impl Connection {
    pub(crate) fn tcp(port: u16) -> Option<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Some(Connection(BufReader::new(stream)))
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    /// The next reply: a line, or the content of a bulk string, or elements in brackets; `None` if the server
    /// has gone.
    pub(crate) fn try_reply(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        let line = line.ends_with('\n').then(|| line.trim_end().to_owned())?;
        let len = line.get(1..).and_then(|len| len.parse::<i64>().ok()).unwrap_or(-1);
        match line.chars().next() {
            Some('$') if len >= 0 => {
                let mut content = vec![0; len as usize + 2];
                self.0.read_exact(&mut content).ok()?;
                Some(String::from_utf8_lossy(&content[..len as usize]).into_owned())
            }
            Some('*') if len >= 0 => {
                let elements = (0..len).map(|_| self.try_reply()).collect::<Option<Vec<_>>>()?;
                Some(format!("[{}]", elements.join(" ")))
            }
            _ => Some(line),
        }
    }

    pub(crate) fn reply(&mut self) -> String {
        self.try_reply().expect("the server is there")
    }

    pub(crate) fn try_ask(&mut self, command: &str) -> Option<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        self.try_reply()
    }

    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }

    /// A field of `INFO`; `None` if there is none of this name.
    pub(crate) fn field(&mut self, name: &str) -> Option<String> {
        let info = self.ask("INFO everything");
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(str::to_owned)
    }
}
