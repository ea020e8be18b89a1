//! A server in a folder of its own, and a client that talks to it, for the tests of this program.

// Each test file uses a part of this.
#![allow(dead_code)]

pub(crate) mod large;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod scrape;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// The longest time to wait for an event.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A folder for data, sockets and the messages of the servers that run in it one after another.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        command
            .args(["serve", "--sql-port", "0", "--dir"])
            .arg(self.0.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Starts a server that has to refuse; returns its exit status and its output.
    pub(crate) fn refusal(&self, args: &[&str]) -> String {
        let child = self.command(args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut server = Server { child };
        let status = eventually(|| server.child.try_wait().unwrap());
        assert_eq!(status.code(), Some(1), "{args:?}");
        std::io::read_to_string(server.child.stderr.take().unwrap()).unwrap()
    }

    /// Starts a server; its messages go to the file `messages`.
    pub(crate) fn serve(&self, args: &[&str]) -> Server {
        let messages = File::create(self.path("messages")).unwrap();
        Server { child: self.command(args).stderr(messages).stdout(Stdio::null()).spawn().unwrap() }
    }

    pub(crate) fn messages(&self) -> String {
        std::fs::read_to_string(self.path("messages")).unwrap()
    }
}

/// A running server; dropping it kills it.
pub(crate) struct Server {
    child: Child,
}

impl Server {
    pub(crate) fn new(child: Child) -> Server {
        Server { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it has ended by itself.
    pub(crate) fn wait(mut self) -> ExitStatus {
        eventually(|| self.child.try_wait().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of the program in a folder of its own, one after the other.
pub(crate) struct Running {
    pub folder: Folder,
    pub port: u16,
    pub server: Option<Server>,
    /// Arguments beside those that every server here gets.
    pub args: Vec<String>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Running {
        let args = args.iter().map(|arg| arg.to_string()).collect();
        let mut running = Running { folder: Folder::new(), port: free_port(), server: None, args };
        running.restart();
        running
    }

    /// Kills the server, if it runs, and starts another on the same data.
    pub(crate) fn restart(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        let port = self.port.to_string();
        let mut args = vec!["--port", &port, "--enable-debug-command", "yes"];
        args.extend(self.args.iter().map(String::as_str));
        self.server = Some(self.folder.serve(&args));
        // A connection to the server before may still be in the queue of the port: the system resets it.
        eventually(|| self.connect().try_ask("PING").filter(|reply| reply == "+PONG"));
    }

    /// As `restart`, with other arguments.
    pub(crate) fn restart_with(&mut self, args: &[&str]) {
        self.args = args.iter().map(|arg| arg.to_string()).collect();
        self.restart();
    }

    /// A connection whose replies have to come in time.
    pub(crate) fn connect(&self) -> Connection {
        let client = Client::tcp("127.0.0.1", self.port);
        client.0.get_ref().set_read_timeout(Some(LIMIT)).unwrap();
        client
    }
}

pub(crate) type Connection = Client<TcpStream>;

/// A file system in memory; dropping it takes it away.
pub(crate) struct SmallDisk(pub PathBuf);

impl SmallDisk {
    /// `None` if this process must not mount.
    pub(crate) fn mount(folder: &Folder, name: &str, options: &str) -> Option<SmallDisk> {
        let path = folder.path(name);
        std::fs::create_dir(&path).unwrap();
        let mount = ["-t", "tmpfs", "-o", options, "tmpfs"];
        let mounted = Command::new("mount").args(mount).arg(&path).stderr(Stdio::null()).status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(SmallDisk(path));
        }
        // The reader must not believe that this was tested.
        let _ = writeln!(std::io::stderr(), "SKIPPED: no file system can be mounted here");
        None
    }

    pub(crate) fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A connection that speaks inline commands and reads replies as they are on the wire.
pub(crate) struct Client<S>(pub BufReader<S>);

impl Client<TcpStream> {
    /// Connects as soon as the server is there.
    pub(crate) fn tcp(host: &str, port: u16) -> Self {
        Client(BufReader::new(eventually(|| TcpStream::connect((host, port)).ok())))
    }
}

impl Client<UnixStream> {
    pub(crate) fn unix(path: &PathBuf) -> Self {
        Client(BufReader::new(eventually(|| UnixStream::connect(path).ok())))
    }
}

impl<S: Read + Write> Client<S> {
    /// The reply's first line; of a bulk string its content.
    pub(crate) fn ask(&mut self, command: &str) -> String {
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
    pub(crate) fn whole(&mut self, command: &str) -> String {
        self.send(command);
        self.reply()
    }

    /// As `whole`; `None` if the server has closed the connection.
    pub(crate) fn try_ask(&mut self, command: &str) -> Option<String> {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).ok()?;
        self.try_reply()
    }

    /// As `reply`, of one that is a line; `None` if the server has closed the connection.
    pub(crate) fn try_reply(&mut self) -> Option<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).ok()?;
        line.ends_with('\n').then(|| line.trim_end().to_owned())
    }

    pub(crate) fn send(&mut self, command: &str) {
        self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
    }

    /// The next reply, as `whole` returns it.
    pub(crate) fn reply(&mut self) -> String {
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
            Some(kind @ ('*' | '~' | '%')) if len >= 0 => {
                let len = if kind == '%' { 2 * len } else { len };
                let elements: Vec<String> = (0..len).map(|_| self.reply()).collect();
                format!("{kind}[{}]", elements.join(" "))
            }
            _ => line,
        }
    }
}

/// All keys, in one number.
pub(crate) fn digest(client: &mut Connection) -> String {
    client.whole("DEBUG DIGEST")
}

/// A field of `INFO persistence`; `None` if there is none.
pub(crate) fn field(client: &mut Connection, name: &str) -> Option<String> {
    let info = client.ask("INFO persistence");
    let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.map(|value| value.trim_end().to_owned())
}

/// A field of `INFO persistence` that is a number.
pub(crate) fn number(client: &mut Connection, name: &str) -> u64 {
    field(client, name).unwrap().parse().unwrap()
}

pub(crate) fn eventually<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(result) = what() {
            return result;
        }
        assert!(began.elapsed() < LIMIT, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn free_port() -> u16 {
    tarn_lab::server::free_port().unwrap()
}
