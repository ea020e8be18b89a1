//! The program as an operator meets it: where it listens, what it refuses, and what it leaves behind.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// What has not happened by then will not happen.
const LIMIT: Duration = Duration::from_secs(30);

/// A folder for data, sockets and the messages of the servers that run in it one after another.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
        command.arg("serve").arg("--dir").arg(self.0.path()).args(args).stdin(Stdio::null());
        command
    }

    /// Starts a server that has to refuse; returns its exit status and what it says.
    fn refusal(&self, args: &[&str]) -> String {
        let Output { status, stderr, .. } = self.command(args).output().unwrap();
        assert_eq!(status.code(), Some(1), "{args:?}");
        String::from_utf8(stderr).unwrap()
    }

    /// Starts a server; its messages go to the file `messages`.
    fn serve(&self, args: &[&str]) -> Server {
        let messages = File::create(self.path("messages")).unwrap();
        Server { child: self.command(args).stderr(messages).stdout(Stdio::null()).spawn().unwrap() }
    }

    fn messages(&self) -> String {
        std::fs::read_to_string(self.path("messages")).unwrap()
    }
}

/// A running server; dropping it kills it.
struct Server {
    child: Child,
}

impl Server {
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn terminate(mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap()
    }

    fn kill(mut self) {
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
struct Client<S>(BufReader<S>);

impl Client<TcpStream> {
    /// Connects as soon as the server is there.
    fn tcp(host: &str, port: u16) -> Self {
        Client(BufReader::new(eventually(|| TcpStream::connect((host, port)).ok())))
    }
}

impl Client<UnixStream> {
    fn unix(path: &PathBuf) -> Self {
        Client(BufReader::new(eventually(|| UnixStream::connect(path).ok())))
    }
}

impl<S: Read + Write> Client<S> {
    /// The reply's first line; of a bulk string its content.
    fn ask(&mut self, command: &str) -> String {
        loop {
            self.0.get_mut().write_all(format!("{command}\r\n").as_bytes()).unwrap();
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line.starts_with("-LOADING") {
                continue;
            }
            if let Some(len) = line.strip_prefix('$') {
                let mut content = vec![0; len.trim_end().parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut content).unwrap();
                line = String::from_utf8(content).unwrap();
            }
            return line.trim_end().to_owned();
        }
    }
}

fn eventually<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(result) = what() {
            return result;
        }
        assert!(began.elapsed() < LIMIT, "it did not happen in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn debug_is_refused_unless_it_was_enabled() {
    let refused = "-ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", \
         you can run it from a local connection, otherwise you need to set this option in the configuration \
         file, and then restart the server.";
    for (access, expected) in [("no", refused), ("local", "+OK"), ("yes", "+OK")] {
        let (folder, port) = (Folder::new(), free_port());
        let _server = folder.serve(&["--port", &port.to_string(), "--enable-debug-command", access]);
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("DEBUG SLEEP 0"), expected, "{access}");
        assert_eq!(client.ask("DEBUG"), "-ERR wrong number of arguments for 'debug' command");
        let unknown = client.ask("DEBUG NOSUCH");
        assert_eq!(unknown == refused, access == "no", "{unknown}");
    }
}

#[test]
fn a_server_that_nobody_could_reach_does_not_start() {
    let nowhere = "configured to not listen anywhere";
    assert!(Folder::new().refusal(&["--port", "0"]).contains(nowhere));
    assert!(Folder::new().refusal(&["--bind", "", "--port", &free_port().to_string()]).contains(nowhere));
    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let refusal = Folder::new().refusal(&["--port", &port]);
    assert!(refusal.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{refusal}");
    assert_eq!(refusal.trim_end().lines().count(), 1, "{refusal}");
}

#[test]
fn a_unix_socket_serves_and_goes_with_its_server() {
    let folder = Folder::new();
    let path = folder.path("socket");
    let args =
        ["--port", "0", "--unixsocket", "socket", "--unixsocketperm", "700", "--appendfsync", "always"];
    let server = folder.serve(&args);
    let mut client = Client::unix(&path);
    assert_eq!(client.ask("SET k v"), "+OK");
    assert_eq!(client.ask("GET k"), "v");
    let line = client.ask("CLIENT INFO");
    assert!(line.contains(" addr=socket:0 laddr=socket:0 ") && line.contains(" flags=U "), "{line}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);

    // A second server does not take the socket away from the first.
    let other = Folder::new();
    let refusal = other.refusal(&["--port", "0", "--unixsocket", path.to_str().unwrap()]);
    assert!(refusal.contains("cannot listen on the Unix socket"), "{refusal}");
    assert_eq!(client.ask("GET k"), "v");

    // What a killed server left is no hindrance.
    server.kill();
    assert!(path.exists());
    let server = folder.serve(&args);
    assert_eq!(Client::unix(&path).ask("GET k"), "v");
    assert!(server.terminate().success());
    assert!(!path.exists());

    // A file that is no socket stays.
    std::fs::write(&path, "precious").unwrap();
    assert!(folder.refusal(&args).contains("cannot listen on the Unix socket"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn the_pidfile_is_there_as_long_as_the_server() {
    let (folder, port) = (Folder::new(), free_port().to_string());
    let path = folder.path("pid");
    let server = folder.serve(&["--port", &port, "--pidfile", "pid"]);
    let content = format!("{}\n", server.pid());
    eventually(|| (std::fs::read_to_string(&path).ok()? == content).then_some(()));
    assert!(folder.refusal(&["--port", &port, "--pidfile", "pid"]).contains("cannot listen"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
    assert!(server.terminate().success());
    assert!(!path.exists());
}

#[test]
fn a_pidfile_that_cannot_be_written_is_told() {
    let (folder, port) = (Folder::new(), free_port());
    let _server = folder.serve(&["--port", &port.to_string(), "--pidfile", "no/such/folder/pid"]);
    assert_eq!(Client::tcp("127.0.0.1", port).ask("PING"), "+PONG");
    assert!(folder.messages().contains("cannot write the process id"), "{}", folder.messages());
}

#[test]
fn port_and_bind_move_at_run_time_or_stay() {
    let (folder, first, second) = (Folder::new(), free_port(), free_port());
    let _server = folder.serve(&["--port", &first.to_string()]);
    let mut client = Client::tcp("127.0.0.1", first);
    assert_eq!(client.ask(&format!("CONFIG SET port {second}")), "+OK");
    assert_eq!(Client::tcp("127.0.0.1", second).ask("PING"), "+PONG");
    assert!(TcpStream::connect(("127.0.0.1", first)).is_err());
    assert_eq!(client.ask("PING"), "+PONG", "open connections stay");

    let busy = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusal = client.ask(&format!("CONFIG SET port {}", busy.local_addr().unwrap().port()));
    let reason = "Unable to listen on this port. Check server logs.";
    assert_eq!(refusal, format!("-ERR CONFIG SET failed (possibly related to argument 'port') - {reason}"));
    assert_eq!(Client::tcp("127.0.0.1", second).ask("PING"), "+PONG");

    assert_eq!(client.ask("CONFIG SET bind '127.0.0.1 127.0.0.2 -::1'"), "+OK");
    assert_eq!(Client::tcp("127.0.0.2", second).ask("PING"), "+PONG");
    assert_eq!(client.ask("CONFIG SET bind 127.0.0.2"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", second)).is_err());

    // Somebody else's address at the same port: the old one is listened on again.
    let _other = TcpListener::bind(("127.0.0.3", second)).unwrap();
    let refusal = client.ask("CONFIG SET bind 127.0.0.3");
    let reason = "Failed to bind to specified addresses.";
    assert_eq!(refusal, format!("-ERR CONFIG SET failed (possibly related to argument 'bind') - {reason}"));
    assert_eq!(Client::tcp("127.0.0.2", second).ask("PING"), "+PONG");
    assert!(folder.messages().contains("CONFIG SET failed: cannot listen on 127.0.0.3"));
}

#[test]
fn who_does_not_read_is_closed_after_the_seconds_of_the_soft_limit() {
    let (folder, port) = (Folder::new(), free_port());
    let limit = ["--client-output-buffer-limit", "normal 0 100kb 1"];
    let _server = folder.serve(&[&["--port", &port.to_string()], &limit[..]].concat());
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("SETRANGE k 8388607 x"), ":8388608");
    let mut idle = Client::tcp("127.0.0.1", port);
    assert_eq!(idle.ask("CLIENT SETNAME idle"), "+OK");
    // More than sockets hold: the rest waits in the server.
    idle.0.get_mut().write_all("GET k\r\n".repeat(8).as_bytes()).unwrap();
    eventually(|| (!client.ask("CLIENT LIST").contains(" name=idle ")).then_some(()));
    assert!(folder.messages().contains("it did not read 102400 bytes of output in time"));
    assert_eq!(client.ask("GET k").len(), 8_388_608, "who reads stays");
}

#[test]
fn a_directive_without_effect_is_told_once() {
    let (folder, port) = (Folder::new(), free_port());
    let args = ["--port", &port.to_string(), "--save", "60 1", "--save", "30 1", "--log-compaction", "none"];
    let _server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("CONFIG SET latency-monitor-threshold 5 save ''"), "+OK");
    let messages = folder.messages();
    for directive in ["save", "log-compaction", "latency-monitor-threshold"] {
        assert_eq!(messages.matches(&format!("'{directive} ")).count(), 1, "{messages}");
    }
}

#[test]
fn no_message_shows_a_password() {
    let (folder, port) = (Folder::new(), free_port());
    let _server =
        folder.serve(&["--port", &port.to_string(), "--masterauth", "s3cret", "--loglevel", "debug"]);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("CONFIG SET masterauth s3cret2 requirepass s3cret3"), "+OK");
    assert!(client.ask("AUTH s3cret4").starts_with("-WRONGPASS"));
    assert!(folder.messages().contains("'masterauth ...' is accepted"), "{}", folder.messages());
    assert!(!folder.messages().contains("s3cret"), "{}", folder.messages());
    assert!(!folder.refusal(&["--requirepass=s3cret"]).contains("s3cret"));
}
