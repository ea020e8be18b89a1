//! The program from an operator's view: the addresses at which it listens, its refusals, and the files that
//! it leaves.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Folder, eventually, free_port};
use std::fs::DirEntry;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use std::io::Write;

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

/// The cores that the threads of this name may run on, as the system lists them.
fn cores_of(pid: u32, name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let named = tasks
        .map(|task| task.unwrap().path())
        .filter(|task| std::fs::read_to_string(task.join("comm")).is_ok_and(|comm| comm.trim_end() == name));
    let listed = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.unwrap().trim().to_owned()
    };
    named.map(|task| listed(std::fs::read_to_string(task.join("status")).unwrap())).collect()
}

#[test]
fn threads_that_serve_and_that_take_checkpoints_keep_to_their_cores() {
    let own = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let allowed = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let (first, last) =
        (allowed.split([',', '-']).next().unwrap(), allowed.rsplit([',', '-']).next().unwrap());
    let (folder, port) = (Folder::new(), free_port());
    let port = port.to_string();
    let server = folder.serve(&["--port", &port, "--server_cpulist", first, "--bgsave_cpulist", last]);
    assert_eq!(Client::tcp("127.0.0.1", port.parse().unwrap()).ask("PING"), "+PONG");
    eventually(|| {
        let keeps = |name, cores| cores_of(server.pid(), name) == [cores];
        (keeps("tarn-worker-0", first) && keeps("tarn-loader", last)).then_some(())
    });
    assert_eq!(cores_of(server.pid(), "tarn-worker-1"), [""; 0], "one worker for one core");
    for directive in ["server_cpulist", "bgsave_cpulist"] {
        let port = free_port().to_string();
        let refusal = Folder::new().refusal(&["--port", &port, &format!("--{directive}"), "1023"]);
        assert!(refusal.contains(&format!("none of the cores of '{directive}'")), "{refusal}");
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

    // The files of a killed server are no obstacle.
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

/// Bytes of the disk that the files below a folder take.
fn disk_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    let bytes = |entry: DirEntry| match entry.metadata() {
        Ok(file) if file.is_dir() => disk_bytes(&entry.path()),
        Ok(file) => file.blocks() * 512,
        // It has gone meanwhile.
        Err(_) => 0,
    };
    entries.map(bytes).sum()
}

#[test]
fn servers_that_are_killed_leave_no_space_that_was_reserved() {
    const FILE_BYTES: u64 = 8 << 20;
    let folder = Folder::new();
    let file_size = FILE_BYTES.to_string();
    let args = ["--port", "0", "--unixsocket", "socket", "--log-file-size", &file_size];
    for round in 0..8 {
        let server = folder.serve(&args);
        let mut client = Client::unix(&folder.path("socket"));
        assert_eq!(client.ask(&format!("SET key:{round} value")), "+OK");
        client.ask("WAITAOF 1 0 10000");
        server.kill();
    }
    let server = folder.serve(&args);
    // The file that is written to, and the next one.
    let most = 3 * FILE_BYTES;
    let bytes = disk_bytes(&folder.path(""));
    assert!(bytes < most, "{bytes} bytes of the disk, {most} allowed");
    assert_eq!(Client::unix(&folder.path("socket")).ask("DBSIZE"), ":8");
    assert!(server.terminate().success());
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
    // Of a long reply a part is made at a time, so any number of bytes may be unread.
    let limit = ["--client-output-buffer-limit", "normal 0 1 1"];
    let _server = folder.serve(&[&["--port", &port.to_string()], &limit[..]].concat());
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("SETRANGE k 8388607 x"), ":8388608");
    let mut idle = Client::tcp("127.0.0.1", port);
    assert_eq!(idle.ask("CLIENT SETNAME idle"), "+OK");
    // More than sockets hold: the rest waits in the server.
    idle.0.get_mut().write_all("GET k\r\n".repeat(8).as_bytes()).unwrap();
    eventually(|| (!client.ask("CLIENT LIST").contains(" name=idle ")).then_some(()));
    assert!(folder.messages().contains("it did not read 1 bytes of output in time"));
    assert_eq!(client.ask("GET k").len(), 8_388_608, "who reads stays");
}

#[test]
fn the_rates_in_info_are_those_of_the_load() {
    let (folder, port) = (Folder::new(), free_port());
    let _server = folder.serve(&["--port", &port.to_string()]);
    let mut client = Client::tcp("127.0.0.1", port);
    for name in ["instantaneous_ops_per_sec", "instantaneous_input_kbps", "instantaneous_output_kbps"] {
        let mut is_positive = || {
            let info = client.ask("INFO stats");
            let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).unwrap();
            line.parse::<f64>().unwrap() > 0.0
        };
        eventually(|| is_positive().then_some(()));
    }
}

#[test]
fn a_directive_without_effect_is_told_once() {
    let (folder, port) = (Folder::new(), free_port());
    let args = ["--port", &port.to_string(), "--list-compress-depth", "2", "--active-expire-effort", "3"];
    let _server = folder.serve(&args);
    let mut client = Client::tcp("127.0.0.1", port);
    assert_eq!(client.ask("CONFIG SET list-max-listpack-size 64 list-compress-depth 0"), "+OK");
    let messages = folder.messages();
    for directive in ["list-compress-depth", "active-expire-effort", "list-max-listpack-size"] {
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
