//! The program obeys its configuration, or reports where it does not: files of other servers, supervisors,
//! the background, passwords, and files of a Redis in the data directory.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Folder, eventually, free_port};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};

/// A file that sets `lines`.
fn file(folder: &Folder, lines: &str) -> PathBuf {
    let path = folder.path("tarn.conf");
    std::fs::write(&path, lines).unwrap();
    path
}

/// `tarn serve` with exactly these arguments.
fn tarn(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    command.arg("serve").args(args).stdin(Stdio::null());
    command
}

/// A process of the test; dropping it kills it.
struct Process(Child);

impl Process {
    fn spawn(command: &mut Command) -> Process {
        Process(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn terminate(&mut self) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Ends the process that a file names.
struct OfPidFile(PathBuf);

impl OfPidFile {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(std::fs::read_to_string(&self.0).ok()?.trim().parse().ok()?)
    }

    fn terminate(&self) {
        if let Some(pid) = self.pid() {
            kill_process(pid, Signal::TERM).unwrap();
            eventually(|| (!self.0.exists()).then_some(()));
        }
    }
}

impl Drop for OfPidFile {
    fn drop(&mut self) {
        if let Some(pid) = self.pid() {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

#[test]
fn every_stock_file_starts_the_server_with_the_command_line_on_top() {
    let stock = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../server/tests/stock");
    let mut count = 0;
    for entry in std::fs::read_dir(stock).unwrap() {
        let (path, folder, port) = (entry.unwrap().path(), Folder::new(), free_port());
        let (dir, port_text) = (folder.path(""), port.to_string());
        let messages = std::fs::File::create(folder.path("messages")).unwrap();
        let args = [path.to_str().unwrap(), "--dir", dir.to_str().unwrap(), "--port", &port_text];
        let more = ["--daemonize", "no", "--logfile", "", "--pidfile", "pid", "--sql-port", "0"];
        let mut server = Process::spawn(tarn(&args).args(more).stderr(messages));
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("SET k v"), "+OK", "{path:?}");
        assert!(server.terminate().success(), "{path:?}");
        let messages = folder.messages();
        let named: Vec<&str> =
            messages.lines().filter(|line| line.contains("the server does not obey")).collect();
        assert_eq!(named.len(), 1, "{path:?}: {messages}");
        assert!(named[0].contains("set-proc-title"), "{messages}");
        // Redis's rules of `save` were in force: the end has kept the key.
        let _server = Process::spawn(tarn(&args).args(more).stderr(Stdio::null()));
        assert_eq!(Client::tcp("127.0.0.1", port).ask("GET k"), "v", "{path:?}");
        count += 1;
    }
    assert_eq!(count, 8);
}

#[test]
fn a_configuration_is_tested_without_touching_anything() {
    let folder = Folder::new();
    let dir = folder.path("not-there");
    let path = file(&folder, "activerehashing no\nset-proc-title yes\n");
    let (path, dir_text) = (path.to_str().unwrap(), dir.to_str().unwrap());
    let all: [&[&str]; 2] =
        [&["--test-config", path, "--dir", dir_text], &[path, "--dir", dir_text, "--test-config"]];
    for args in all {
        let output = tarn(args).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let said = said(&output);
        for words in ["'activerehashing no' is accepted", "activerehashing, set-proc-title", "is valid"] {
            assert!(said.contains(words), "{said}");
        }
        assert!(!dir.exists());
    }
    std::fs::write(path, "hz 10\nsocket-mark-id 1\n").unwrap();
    let output = tarn(&["--test-config", path]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("tarn.conf:2: in 'socket-mark-id 1'"), "{}", said(&output));
    assert!(tarn(&["--test-config", path, "--socket-mark-id", "0"]).output().unwrap().status.success());
}

#[test]
fn the_background_is_entered_when_clients_can_connect_and_left_in_order() {
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    let args = [
        "--port",
        &port_text,
        "--daemonize",
        "yes",
        "--pidfile",
        "pid",
        "--requirepass",
        "s3cret",
        "--logfile",
    ];
    let output = folder.command(&args).arg("log-file").output().unwrap();
    let server = OfPidFile(folder.path("pid"));
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(said(&output), "");
    // It listens by now: no waiting.
    let stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut client = Client(std::io::BufReader::new(stream));
    assert_eq!(client.ask("AUTH s3cret"), "+OK");
    assert_eq!(client.ask("SET k v"), "+OK");
    let pid = server.pid().unwrap().as_raw_nonzero().get();
    let proc = |name: &str| std::fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    let stat = proc("stat");
    let session = stat.rsplit(')').next().unwrap().split_whitespace().nth(3).unwrap().to_owned();
    assert_eq!(session, pid.to_string(), "it leads a session of its own");
    for descriptor in ["0", "1", "2"] {
        let target = std::fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).unwrap();
        assert_eq!(target, Path::new("/dev/null"));
    }
    assert!(!proc("cmdline").contains("s3cret"));
    server.terminate();
    let log = std::fs::read_to_string(folder.path("log-file")).unwrap();
    assert!(log.contains("The log is on disk. Bye"), "{log}");
}

#[test]
fn a_failure_in_the_background_is_that_of_the_start() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = busy.local_addr().unwrap().port().to_string();
    let refusal = Folder::new().refusal(&["--port", &port, "--daemonize", "yes"]);
    assert!(refusal.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{refusal}");
}

#[test]
fn systemd_is_told_of_the_start_and_of_the_end() {
    for how in ["systemd", "auto"] {
        let (folder, port) = (Folder::new(), free_port().to_string());
        let socket = UnixDatagram::bind(folder.path("notify")).unwrap();
        socket.set_read_timeout(Some(running::LIMIT)).unwrap();
        let told = || {
            let mut buffer = [0; 4096];
            let len = socket.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..len].to_vec()).unwrap()
        };
        let until = |word: &str| while !told().lines().any(|line| line == word) {};
        // Under a supervisor the process stays where it is.
        let args = ["--port", &port, "--daemonize", "yes", "--supervised", how];
        let mut command = folder.command(&args);
        let mut server =
            Process::spawn(command.env("NOTIFY_SOCKET", folder.path("notify")).stderr(Stdio::null()));
        until("READY=1");
        assert!(server.0.try_wait().unwrap().is_none());
        assert_eq!(Client::tcp("127.0.0.1", port.parse().unwrap()).ask("PING"), "+PONG");
        assert!(server.terminate().success());
        until("STOPPING=1");
    }
    let (folder, port) = (Folder::new(), free_port());
    let _server = folder.serve(&["--port", &port.to_string(), "--supervised", "systemd"]);
    assert_eq!(Client::tcp("127.0.0.1", port).ask("PING"), "+PONG");
    assert!(folder.messages().contains("'supervised systemd' is told to nobody"), "{}", folder.messages());
}

#[test]
fn a_server_that_keeps_nothing_says_so_at_its_start_and_at_its_end() {
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    let server = folder.serve(&["--port", &port_text, "--appendonly", "no", "--save", ""]);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("SET k v"), "+OK");
    assert!(folder.messages().contains("NOTHING IS KEPT"), "{}", folder.messages());
    assert!(server.terminate().success());
    assert!(folder.messages().contains("NOT SAVED: 1 changes"), "{}", folder.messages());

    // Without a word about it, Redis's rules are in force, and the end takes a checkpoint.
    let args = ["--port", &port_text, "--appendonly", "no"];
    let server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.whole("CONFIG GET save"), "*[$save $3600 1 300 100 60 10000]");
    assert_eq!(client.ask("SET k v"), "+OK");
    assert!(server.terminate().success());
    assert!(!folder.messages().contains("NOT"), "{}", folder.messages());
    let server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("GET k"), "v");
    assert_eq!(client.ask("CONFIG SET save ''"), "+OK");
    assert_eq!(client.ask("DEL k"), ":1");
    assert!(server.terminate().success());
    let messages = folder.messages();
    assert!(messages.contains("NOTHING IS KEPT") && messages.contains("NOT SAVED: 1 changes"), "{messages}");
}

#[test]
fn no_list_of_processes_shows_a_password() {
    let (folder, port) = (Folder::new(), free_port());
    let server =
        folder.serve(&["--requirepass", "s3cret", "--port", &port.to_string(), "--masterauth", "s3cret2"]);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("AUTH s3cret"), "+OK");
    assert_eq!(client.ask("CONFIG GET masterauth").lines().count(), 1);
    let proc = |name: &str| std::fs::read(format!("/proc/{}/{name}", server.pid())).unwrap();
    let line = String::from_utf8_lossy(&proc("cmdline")).replace('\0', " ");
    assert!(line.contains("serve") && line.contains(&port.to_string()) && !line.contains("s3cret"), "{line}");
    assert!(!String::from_utf8_lossy(&proc("environ")).contains("s3cret"));
    // The file that it was in meanwhile is empty.
    for entry in std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap() {
        let path = entry.unwrap().path();
        if std::fs::read_link(&path).is_ok_and(|target| target.to_string_lossy().contains("tarn-secrets")) {
            assert_eq!(std::fs::read(&path).unwrap(), b"");
        }
    }
    let mut ask = Command::new(env!("CARGO_BIN_EXE_tarn"));
    let output = ask.args(["sql", "-a", "s3cret", "--port", &port.to_string(), "SELECT 1"]).output().unwrap();
    assert!(said(&output).contains("may see a password given with '-a'"), "{}", said(&output));
}

#[test]
fn the_password_may_come_from_a_file() {
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    std::fs::write(folder.path("password"), "s3cret word\nno password\n").unwrap();
    let path = file(&folder, "requirepass-file password\n");
    let dir = folder.path("");
    let args =
        [path.to_str().unwrap(), "--dir", dir.to_str().unwrap(), "--port", &port_text, "--sql-port", "0"];
    let server = Process::spawn(tarn(&args).stderr(Stdio::null()));
    let mut client = Client::tcp("127.0.0.1", port);
    assert!(client.ask("GET k").starts_with("-NOAUTH"));
    assert_eq!(client.ask("AUTH 's3cret word'"), "+OK");
    assert_eq!(client.ask("CONFIG SET timeout 7"), "+OK");
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("requirepass-file password") && !text.contains("s3cret"), "{text}");
    // One that is set from then on outranks the file.
    assert_eq!(client.ask("CONFIG SET requirepass other"), "+OK");
    assert_eq!(client.ask("CONFIG REWRITE"), "+OK");
    drop(server);
    let _server = Process::spawn(tarn(&args).stderr(Stdio::null()));
    assert_eq!(Client::tcp("127.0.0.1", port).ask("AUTH other"), "+OK");
    for content in [Some("\nsecond"), None] {
        let folder = Folder::new();
        content.into_iter().for_each(|content| std::fs::write(folder.path("password"), content).unwrap());
        let refusal = folder.refusal(&["--port", &port_text, "--requirepass-file", "password"]);
        assert!(refusal.contains("cannot take the password from requirepass-file"), "{refusal}");
    }
}

/// An RDB file with one key.
fn rdb_file() -> Vec<u8> {
    let mut writer = tarn_rdb::Writer::new(Vec::new()).unwrap();
    writer.begin_database(0, 1, 0).unwrap();
    let mut value = writer.begin_value(b"from", None, tarn_rdb::Kind::String, 1).unwrap();
    value.element(b"redis").unwrap();
    value.finish();
    writer.finish().unwrap()
}

#[test]
fn the_rdb_file_of_a_redis_is_taken_over_and_stays() {
    let (with_log, without): (&[&str], &[&str]) = (&["--appendfsync", "always"], &["--appendonly", "no"]);
    let rdb = ["--appendonly", "no", "--checkpoint-format", "rdb"];
    let rdb_and_log = ["--checkpoint-format", "rdb", "--appendfsync", "always"];
    for args in [with_log, without, &rdb, &rdb_and_log] {
        let (folder, port) = (Folder::new(), free_port());
        let port_text = port.to_string();
        let (path, content) = (folder.path("dump.rdb"), rdb_file());
        std::fs::write(&path, &content).unwrap();
        let args = [&["--port", &port_text], args].concat();
        let server = folder.serve(&args);
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("GET from"), "redis", "{args:?}: {}", folder.messages());
        // After an immediate kill it is there again, and so are the writes since, which were kept.
        assert_eq!(client.ask("SET own tarn"), "+OK");
        assert_eq!(client.ask("SAVE"), "+OK");
        server.kill();
        let is_rdb = args.contains(&"rdb");
        assert!(is_rdb || std::fs::read(&path).unwrap() == content, "the file is as it was");
        let server = folder.serve(&args);
        let mut client = Client::tcp("127.0.0.1", port);
        assert_eq!(client.ask("DBSIZE"), ":2", "{args:?}: {}", folder.messages());
        assert_eq!(client.ask("DEL from"), ":1");
        assert_eq!(client.ask("SAVE"), "+OK");
        server.kill();
        let _server = folder.serve(&args);
        assert_eq!(Client::tcp("127.0.0.1", port).ask("DBSIZE"), ":1", "{args:?}: {}", folder.messages());
    }
}

#[test]
fn an_rdb_file_that_cannot_be_taken_over_ends_the_start() {
    for args in [&[][..], &["--appendonly", "no"][..]] {
        let (folder, port) = (Folder::new(), free_port().to_string());
        let mut spoilt = rdb_file();
        *spoilt.last_mut().unwrap() ^= 1;
        std::fs::write(folder.path("dump.rdb"), &spoilt).unwrap();
        let refusal = folder.refusal(&[&["--port", &port], args].concat());
        assert!(refusal.contains("dump.rdb: ") && refusal.contains("move the file away"), "{refusal}");
        assert_eq!(std::fs::read(folder.path("dump.rdb")).unwrap(), spoilt);
    }
}

#[test]
fn an_rdb_file_that_is_newer_than_the_checkpoint_ends_the_start() {
    let (folder, port) = (Folder::new(), free_port());
    let port_text = port.to_string();
    let args = ["--port", &port_text, "--appendonly", "no"];
    let server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("SET k v"), "+OK");
    assert_eq!(client.ask("SAVE"), "+OK");
    server.kill();
    let path = folder.path("dump.rdb");
    std::fs::write(&path, rdb_file()).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(later).unwrap();
    let refusal = folder.refusal(&args);
    assert!(refusal.contains("is older than") && refusal.contains("dump.rdb"), "{refusal}");
    let before = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(before).unwrap();
    let _server = folder.serve(&args);
    assert_eq!(Client::tcp("127.0.0.1", port).ask("GET k"), "v");
    assert!(folder.messages().contains("dump.rdb is not loaded"), "{}", folder.messages());
}

#[test]
fn the_append_only_file_of_a_redis_ends_the_start() {
    for name in ["appendonlydir/appendonly.aof.manifest", "appendonly.aof", "aofs/appendonly.aof.1.incr.aof"]
    {
        let folder = Folder::new();
        let path = folder.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "file appendonly.aof.1.base.rdb seq 1 type b\n").unwrap();
        std::fs::write(folder.path("dump.rdb"), rdb_file()).unwrap();
        let directory = if name.starts_with("aofs") { "aofs" } else { "appendonlydir" };
        for appendonly in ["yes", "no"] {
            let port = free_port().to_string();
            let args = ["--port", &port, "--appendonly", appendonly, "--appenddirname", directory];
            let refusal = folder.refusal(&args);
            assert!(refusal.contains("append-only file of a Redis") && refusal.contains("SAVE"), "{refusal}");
        }
        std::fs::remove_file(&path).unwrap();
        let port = free_port();
        let _server = folder.serve(&["--port", &port.to_string()]);
        assert_eq!(Client::tcp("127.0.0.1", port).ask("GET from"), "redis");
    }
}

#[test]
fn help_of_a_command_is_the_same_in_both_orders() {
    let help = |args: [&str; 2]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tarn")).args(args).output().unwrap();
        assert!(output.status.success());
        said(&output)
    };
    let text = help(["help", "serve"]);
    assert_eq!(text, help(["serve", "--help"]));
    assert!(text.starts_with("Serves clients") && text.contains("appendfsync everysec"), "{text}");
    assert!(help(["help", "sql"]).contains("Usage: tarn sql"));
}

#[test]
fn clients_that_speak_http_are_told_of_once_a_minute() {
    let folder = Folder::new();
    let (port, log) = (free_port().to_string(), folder.path("messages"));
    let log = log.to_str().unwrap();
    let data = folder.path("").to_str().unwrap().to_owned();
    let _server = Process::spawn(&mut tarn(&["--port", &port, "--dir", &data, "--logfile", log]));
    let connect = || TcpStream::connect(format!("127.0.0.1:{port}")).ok();
    for _ in 0..3 {
        let mut stream = eventually(connect);
        stream.write_all(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = Vec::new();
        // Closed with bytes unread, it may be reset.
        let _ = stream.read_to_end(&mut reply);
        assert_eq!(reply, b"");
    }
    let messages = std::fs::read_to_string(log).unwrap();
    assert_eq!(messages.matches("it speaks HTTP").count(), 1, "{messages}");
}
