//! `metrics-port` with the real program: its text is well formed, true and documented, and no client does
//! harm, in whatever way it asks.

#![allow(clippy::unwrap_used)]

mod running;

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::time::Duration;

use running::scrape::{Family, Scrape, ask};
use running::{Folder, LIMIT, Running, eventually, field, free_port, number};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// A server with two directories for its log, and its port for metrics.
fn start() -> (Running, u16) {
    let port = free_port();
    let folder = Folder::new();
    let directories = ["one", "two"].map(|name| folder.path(name).to_str().unwrap().to_owned());
    let args = ["--metrics-port", &port.to_string(), "--log-dir", &directories[0], &directories[1]];
    let mut running = Running { folder, port: free_port(), server: None, args: Vec::new() };
    running.restart_with(&args);
    (running, port)
}

#[test]
fn what_is_told_is_well_formed_rises_and_is_what_info_tells() {
    let (running, port) = start();
    let mut client = running.connect();
    let work = |client: &mut running::Connection| {
        for number in 0..200 {
            assert_eq!(client.ask(&format!("SET key:{number} value")), "+OK");
        }
        client.ask("PEXPIRE key:1 100000000");
        client.ask("GET key:1");
        client.ask("GET missing");
        client.ask("INCR key:1");
        client.ask("SAVE");
        eventually(|| (number(client, "log_lag_records") == 0).then_some(()));
    };
    work(&mut client);
    let before = Scrape::of(port);
    work(&mut client);
    let after = Scrape::of(port);
    for family in after.0.iter().filter(|family| family.kind != "gauge") {
        let old = before.0.iter().find(|old| old.name == family.name).unwrap();
        for (key, value) in
            family.samples.iter().filter(|((name, _), _)| family.kind == "counter" || *name != family.name)
        {
            assert!(old.samples.get(key).is_none_or(|old| old <= value), "{key:?} falls");
        }
    }
    let rose = |name: &str, labels: &[(&str, &str)]| {
        after.find(name, labels).unwrap() - before.find(name, labels).unwrap_or(0.0)
    };
    assert_eq!(rose("tarn_command_duration_seconds_count", &[("command", "set")]), 200.0);
    assert_eq!(rose("tarn_commands_failed_total", &[("command", "incr")]), 1.0);
    assert_eq!(rose("tarn_error_replies_total", &[("code", "ERR")]), 1.0);
    assert_eq!(rose("tarn_checkpoints_total", &[]), 1.0);
    assert_eq!(rose("tarn_log_last_lsn", &[]), 201.0);
    assert!(rose("tarn_log_appended_bytes_total", &[]) > 2000.0);
    let path = |name| running.folder.path(name).to_str().unwrap().to_owned();
    let flushed = |name| rose("tarn_log_flushed_bytes_total", &[("directory", &path(name))]);
    assert!(flushed("one") + flushed("two") > 2000.0);
    assert_eq!(after.find("tarn_keys", &[("db", "0")]), Some(200.0));
    assert_eq!(after.find("tarn_keys_expiring", &[("db", "0")]), Some(1.0));
    for (metric, name) in [
        ("tarn_log_last_lsn", "log_last_lsn"),
        ("tarn_log_durable_lsn", "log_durable_lsn"),
        ("tarn_log_lag_records", "log_lag_records"),
        ("tarn_log_appended_bytes_total", "log_appended_bytes"),
        ("tarn_checkpoints_total", "rdb_saves"),
        ("tarn_log_failures_total", "log_failures"),
    ] {
        assert_eq!(after.number(metric), number(&mut client, name) as f64, "{metric}");
    }
    let amplification: f64 = field(&mut client, "log_write_amplification").unwrap().parse().unwrap();
    assert!(amplification > 1.0, "{amplification}");
    let line = field(&mut client, "log_dir1").unwrap();
    assert!(line.starts_with(&format!("path={},files=1,bytes=", path("two"))), "{line}");
    assert!(line.ends_with(",failures=0,trouble=0"), "{line}");
}

#[test]
fn records_that_are_not_durable_are_told_with_their_age() {
    let mut running = Running::start(&[]);
    running.restart_with(&["--appendfsync", "no"]);
    let mut client = running.connect();
    assert_eq!((number(&mut client, "log_lag_records"), number(&mut client, "log_lag_ms")), (0, 0));
    for key in ["a", "b", "c"] {
        client.ask(&format!("SET {key} x"));
    }
    // There is no sync.
    assert_eq!(number(&mut client, "log_lag_records"), 3);
    let age_ms = eventually(|| Some(number(&mut client, "log_lag_ms")).filter(|age_ms| *age_ms > 0));
    eventually(|| (number(&mut client, "log_lag_ms") > age_ms).then_some(()));
    assert_eq!(client.ask("CONFIG SET appendfsync everysec"), "+OK");
    eventually(|| (number(&mut client, "log_lag_records") == 0).then_some(()));
    eventually(|| (number(&mut client, "log_lag_ms") == 0).then_some(()));
}

#[test]
fn info_log_has_a_line_for_each_full_file() {
    let running = Running::start(&["--log-file-size", "65536", "--log-compaction", "none"]);
    let mut client = running.connect();
    // A file is longer where the next one is late.
    let info = eventually(|| {
        for number in 0..400 {
            client.ask(&format!("SET key:{} {}", number % 10, "v".repeat(1000)));
        }
        Some(client.ask("INFO log")).filter(|info| info.contains("log_file1:"))
    });
    let count: usize =
        info.lines().find_map(|line| line.strip_prefix("log_files:")).unwrap().parse().unwrap();
    let files: Vec<&str> =
        info.lines().filter(|line| line.starts_with("log_file") && line.contains("path=")).collect();
    assert_eq!(files.len(), count);
    for (at, line) in files.iter().enumerate() {
        let part = |name: &str| -> u64 {
            line.split(',')
                .find_map(|part| part.strip_prefix(name)?.strip_prefix('='))
                .unwrap()
                .parse()
                .unwrap()
        };
        assert!(line.starts_with(&format!("log_file{at}:path=")), "{line}");
        assert_eq!(part("live_bytes") + part("invalid_bytes"), part("bytes"));
        // On a busy machine each record may take a block of its own, and few blocks fill a file.
        assert!(part("records") > 0, "{line}");
    }
    // Ten keys were written again and again. Records of a file that is just full are marked a moment later.
    let has_waste = |line: &str| line.contains("invalid_bytes=") && !line.contains("invalid_bytes=0,");
    eventually(|| {
        let info = client.ask("INFO log");
        let mut files = info.lines().filter(|line| line.starts_with("log_file") && line.contains("path="));
        files.all(has_waste).then_some(())
    });
    assert!(!client.ask("INFO").contains("log_file0:"), "only who asks gets them");
}

const HEAD: &str = "\
<!-- Written by: TARN_WRITE_DOCS=1 cargo test -p tarn --test metrics -->

# Metrics

With `--metrics-port 9121` a server answers `http://127.0.0.1:9121/metrics`, on the addresses of
`metrics-bind` or else of `bind`, in the text format of Prometheus. The numbers are those of `INFO`.
Counters begin at zero with each start, those of commands and clients also with `CONFIG RESETSTAT`. With
`protected-mode` and no password, only clients on the same machine are answered, as elsewhere. With a
password, those on other machines have to name a user that may run `INFO`, with its password, by HTTP's basic
scheme (`metrics-auth`; `basic_auth` in Prometheus). It travels in the clear, unless `metrics-tls` is on:
then the server speaks HTTPS at that port, and no HTTP.

How to read some of them:

- `tarn_log_failing`, `tarn_log_directory_trouble`, `tarn_compaction_failing`, `tarn_checkpoint_failing` and
  `tarn_tls_certificate_failing` are worth an alert: each is 1 while something is refused, and 0 when it works
  again, without a restart. The messages say what and why.
- `tarn_log_lag_seconds`: the age of a block counts from when it was taken for writing. The milliseconds, or
  the one flush, that records wait in memory before are left out. Under `appendfsync no` only a full file,
  or a compaction, makes records durable.
- `tarn_log_live_bytes` and `tarn_log_invalid_bytes` are looked at five times a second, between compactions.
  It is known of records that were replaced, not of removals and of changes within lists and strings. The
  file that is written to counts as live as a whole until it is full, or `BGREWRITEAOF` has it left.
- `tarn_log_write_amplification` and what goes into it count from the start of the server.
- `tarn_command_duration_seconds`: times of fast commands are taken by sample. Without `latency-tracking`
  there are no quantiles.
- Numbers are floating point in this format: beyond 2^53 they are rounded.

| metric | type | labels | what it tells |
| --- | --- | --- | --- |
";

#[test]
fn the_page_of_metrics_lists_what_a_server_tells() {
    let (running, port) = start();
    let mut client = running.connect();
    client.ask("INCR");
    assert_eq!(client.ask("SAVE"), "+OK");
    let mut page = HEAD.to_owned();
    for family in &Scrape::of(port).0 {
        let Family { name, kind, help, .. } = family;
        let labels: Vec<String> = family.labels().iter().map(|label| format!("`{label}`")).collect();
        writeln!(page, "| `{name}` | {kind} | {} | {help} |", labels.join(" ")).unwrap();
    }
    let path = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("../docs/metrics.md");
    if std::env::var_os("TARN_WRITE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(written, page, "write it again with TARN_WRITE_DOCS=1");
}

#[test]
fn the_port_is_kept_over_restarts_and_refused_when_it_cannot_be_had() {
    let (mut running, port) = start();
    running.restart();
    assert_eq!(Scrape::of(port).number("tarn_loading"), 0.0);
    let mut client = running.connect();
    assert_eq!(client.whole("CONFIG GET metrics-port"), format!("*[$metrics-port ${port}]"));
    assert_eq!(client.ask("CONFIG SET metrics-port 0"), "+OK");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(client.ask(&format!("CONFIG SET metrics-port {port}")), "+OK");
    let refused = |args: &[&str]| {
        let line = Folder::new().refusal(&[&["--port", &free_port().to_string()], args].concat());
        assert_eq!(line.trim_end().lines().count(), 1, "{line}");
        line
    };
    let taken = refused(&["--metrics-port", &port.to_string()]);
    let expected = format!("cannot serve metrics on 127.0.0.1:{port}: Address already in use");
    assert!(taken.contains(&expected) && taken.contains("with --metrics-port"), "{taken}");
    for bad in ["65536", "-1", "many"] {
        assert!(refused(&["--metrics-port", bad]).contains("'--metrics-port "), "{bad}");
    }
    // Off unless it is asked for.
    assert_eq!(Running::start(&[]).connect().whole("CONFIG GET metrics-port"), "*[$metrics-port $0]");
}

#[test]
fn only_metrics_are_there_and_only_to_be_read() {
    let (_running, port) = start();
    let status = |request: &str| {
        let (head, _) = ask(port, &format!("{request} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        head.split(' ').nth(1).unwrap().to_owned()
    };
    assert_eq!(status("GET /metrics"), "200");
    assert_eq!(status("GET /metrics?name=value"), "200");
    assert_eq!(status("GET /"), "404");
    assert_eq!(status("GET /../../etc/passwd"), "404");
    assert_eq!(status("DELETE /metrics"), "405");
    let (head, body) = ask(port, "HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK") && body.is_empty(), "{head}");
    let (head, body) = ask(port, "GET /metrics HTTP/1.0\r\n\r\n");
    assert!(head.starts_with("HTTP/1.0 200 OK") && body.contains("tarn_build_info{"), "{head}");
}

#[test]
fn strangers_are_refused_while_there_is_no_password() {
    // An address of this machine that is not the loopback's; nothing is sent.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    let address =
        socket.connect("192.0.2.1:9").and_then(|()| socket.local_addr()).map(|address| address.ip());
    let Some(address) = address.ok().filter(|address| !IpAddr::is_loopback(address)) else {
        let _ = writeln!(std::io::stderr(), "SKIPPED: this machine has no other address");
        return;
    };
    let port = free_port();
    let mut running = Running::start(&[]);
    let port_text = port.to_string();
    running.restart_with(&["--metrics-port", &port_text, "--bind", "127.0.0.1", &address.to_string()]);
    let answer = || {
        let mut stream = TcpStream::connect((address, port)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(answer().starts_with("HTTP/1.0 403 Forbidden\r\n"), "{}", answer());
    Scrape::of(port);
    assert_eq!(running.connect().ask("CONFIG SET protected-mode no"), "+OK");
    assert!(answer().starts_with("HTTP/1.0 200 OK\r\n"), "{}", answer());
}

/// Files and sockets that the server has open.
fn open_files(running: &Running) -> usize {
    let pid = running.server.as_ref().unwrap().pid();
    std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// True if the server has closed the connection.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn senseless_and_endless_requests_end() {
    let (running, port) = start();
    let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut streams = Vec::new();
    let garbage: Vec<u8> = (0..=255).collect();
    for request in
        [&garbage[..], b"*1\r\n$4\r\nPING\r\n", b"GET", b"GET /metrics HTTP/9.9\r\n\r\n", b"\0\0\0\0"]
    {
        let mut stream = connect();
        let _ = stream.write_all(request);
        streams.push(stream);
    }
    let mut endless = connect();
    endless.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    let line = format!("X-Endless: {}\r\n", "x".repeat(1000));
    let sent = (0..100_000).take_while(|_| endless.write_all(line.as_bytes()).is_ok()).count();
    assert!(sent < 100_000, "somebody read 100 MB of headers");
    let mut body = connect();
    let _ = body.write_all(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000000\r\n\r\n");
    let chunk = [b'x'; 1 << 16];
    let sent = (0..16_000).take_while(|_| body.write_all(&chunk).is_ok()).count();
    assert!(sent < 16_000, "somebody read 1 GB of body");
    // One byte after the other, for longer than a connection may take.
    let mut slow = connect();
    let mut bytes = b"GET /metrics HTTP/1.1\r\nX-Slow: ".iter().chain(std::iter::repeat(&b'x'));
    eventually(|| {
        std::thread::sleep(Duration::from_millis(50));
        let _ = slow.set_nonblocking(false);
        (slow.write_all(&[*bytes.next().unwrap()]).is_err() || is_closed(&mut slow)).then_some(())
    });
    for mut stream in streams {
        eventually(|| is_closed(&mut stream).then_some(()));
    }
    Scrape::of(port);
    assert_eq!(running.connect().ask("PING"), "+PONG");
}

#[test]
fn a_thousand_idle_connections_do_not_keep_others_out() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit { current: limit.maximum.map(|most| most.min(4096)).or(Some(4096)), ..limit };
    setrlimit(Resource::Nofile, wanted).unwrap();
    let (running, port) = start();
    let mut client = running.connect();
    let files = open_files(&running);
    let mut idle: Vec<TcpStream> = Vec::new();
    for round in 0..10 {
        for _ in 0..100 {
            let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            idle.push(stream);
        }
        Scrape::of(port);
        assert_eq!(client.ask(&format!("SET key {round}")), "+OK");
        assert!(open_files(&running) < files + 50, "{} files were open before", files);
    }
    // The last of them are not kept for ever, either.
    for stream in &mut idle {
        eventually(|| is_closed(stream).then_some(()));
    }
    Scrape::of(port);
}

#[test]
fn info_parts_memory_and_counts_calls_of_the_system_as_they_are() {
    let running = Running::start(&["--appendonly", "no"]);
    let mut client = running.connect();
    let number = |client: &mut running::Connection, name: &str| {
        let info = client.ask("INFO");
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().trim_end().parse::<u64>().unwrap()
    };
    let memory = ["used_memory_dataset", "used_memory_overhead", "used_memory_startup"];
    let before = memory.map(|name| number(&mut client, name));
    assert!(before.iter().all(|bytes| *bytes > 0), "{before:?}");
    let calls = ["total_reads_processed", "total_writes_processed"];
    let made = calls.map(|name| number(&mut client, name));
    // A value takes memory as data, half of a request as what is not.
    let value = "x".repeat(50_000);
    (0..200).for_each(|_| assert!(client.ask(&format!("APPEND large {value}")).starts_with(':')));
    let mut other = running.connect();
    other.0.get_mut().write_all(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\n").unwrap();
    other.0.get_mut().write_all(&[b'x'; 500_000]).unwrap();
    eventually(|| (number(&mut client, memory[1]) >= before[1] + 500_000).then_some(()));
    let after = memory.map(|name| number(&mut client, name));
    assert!(after[0] >= before[0] + 9_000_000 && after[1] < before[1] + 5_000_000, "{before:?} {after:?}");
    assert_eq!(after[2], before[2]);
    let made_since = calls.map(|name| number(&mut client, name));
    assert!((0..2).all(|at| made_since[at] >= made[at] + 200), "{made:?} {made_since:?}");
}
