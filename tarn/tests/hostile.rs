//! Hostile and faulty clients: too many, silent, half closed, never reading, and senseless. Whatever they do,
//! memory stays bounded and the others are served.

#![allow(clippy::unwrap_used)]

mod running;

use running::{Client, Folder, LIMIT, Server, eventually, free_port};
use rustix::net::sockopt::set_socket_linger;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

/// A server at a port, and a client that must be served whatever others do.
struct Scene {
    folder: Folder,
    server: Server,
    port: u16,
    witness: Client<TcpStream>,
}

impl Scene {
    fn new(args: &[&str]) -> Scene {
        let (folder, port) = (Folder::new(), free_port());
        let server = folder.serve(&[&["--port", &port.to_string()], args].concat());
        let mut witness = Client::tcp("127.0.0.1", port);
        // Answered when the server has loaded its data.
        assert_eq!(witness.ask("EXISTS k"), ":0");
        Scene { folder, server, port, witness }
    }

    /// A connection that waits for a reply no longer than for anything else.
    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn resident_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.server.pid())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    fn count(&mut self, line: &str) -> usize {
        let info = self.witness.ask("INFO clients");
        let count = info.lines().find_map(|text| text.strip_prefix(line)?.strip_prefix(':')).unwrap();
        count.parse().unwrap()
    }

    /// Waits until the requests of so many clients wait, for a key or behind a pause.
    fn wait_for_blocked(&mut self, clients: usize) {
        eventually(|| (self.count("blocked_clients") == clients).then_some(()));
    }

    /// Waits until only the witness and `others` are connected.
    fn wait_for_clients(&mut self, others: usize) {
        eventually(|| (self.count("connected_clients") == 1 + others).then_some(()));
    }
}

/// All bytes that come until the server closes the connection, in any way.
fn read_to_end(mut stream: &TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => {
            panic!("{error} after {} bytes", all.len())
        }
        _ => all,
    }
}

fn exchange(mut stream: &TcpStream, request: &[u8], reply: &[u8]) {
    stream.write_all(request).unwrap();
    let mut read = vec![0; reply.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(read.escape_ascii().to_string(), reply.escape_ascii().to_string());
}

/// Raises the limit of open files as far as `files`, or as it goes; returns it.
fn allow_files(files: u64) -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let reachable = maximum.unwrap_or(u64::MAX).min(files);
    setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum }).unwrap();
    reachable
}

/// Reads channel `c` from now on.
fn subscribe(stream: &mut TcpStream) {
    stream.write_all(b"SUBSCRIBE c\r\n").unwrap();
    let confirmation = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n";
    let mut bytes = vec![0; confirmation.len()];
    stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, confirmation);
}

#[test]
fn many_messages_at_once_do_not_close_a_client_that_reads() {
    let mut scene = Scene::new(&["--client-output-buffer-limit", "pubsub 256kb 0 0"]);
    let mut reader = scene.connect();
    subscribe(&mut reader);
    let publish = format!("PUBLISH c {:0>1000}\r\n", 7);
    let transaction = format!("MULTI\r\n{}EXEC\r\n", publish.repeat(2000));
    let mut publisher = scene.connect();
    publisher.write_all(transaction.as_bytes()).unwrap();
    let message = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1000\r\n{:0>1000}\r\n", 7);
    let mut bytes = vec![0; message.len()];
    for number in 0..2000 {
        reader.read_exact(&mut bytes).unwrap();
        assert!(bytes == message.as_bytes(), "message {number}");
    }
    assert_eq!(scene.witness.ask("PUBLISH c x"), ":1");
}

#[test]
fn a_silent_client_that_reads_a_channel_is_not_closed_for_it() {
    let scene = Scene::new(&["--timeout", "1"]);
    let (mut reader, mut silent) = (scene.connect(), scene.connect());
    subscribe(&mut reader);
    silent.write_all(b"PING\r\n").unwrap();
    let mut answer = Vec::new();
    silent.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, b"+PONG\r\n", "it was closed");
    let mut publisher = Client::tcp("127.0.0.1", scene.port);
    assert_eq!(publisher.ask("PUBLISH c x"), ":1");
}

#[test]
fn a_client_that_does_not_read_its_messages_is_closed_and_the_others_read_all_of_them() {
    let mut scene = Scene::new(&["--client-output-buffer-limit", "pubsub 1mb 0 0"]);
    let (mut deaf, mut reader) = (scene.connect(), scene.connect());
    subscribe(&mut deaf);
    subscribe(&mut reader);
    let before = scene.resident_bytes();
    let mut closed_after = None;
    for number in 0..4000 {
        let payload = format!("{number:0>32768}");
        let readers = scene.witness.ask(&format!("PUBLISH c {payload}"));
        let expected = format!("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$32768\r\n{payload}\r\n");
        let mut message = vec![0; expected.len()];
        reader.read_exact(&mut message).unwrap();
        assert!(message == expected.as_bytes(), "message {number}");
        if readers == ":1" {
            closed_after = Some(number);
            break;
        }
    }
    assert!(closed_after.is_some(), "the client that does not read is read for still");
    let grown = scene.resident_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more");
    scene.wait_for_clients(1);
    assert!(scene.folder.messages().contains("client-output-buffer-limit"));
}

#[test]
fn ten_thousand_idle_clients_cost_little_and_one_more_is_refused() {
    // The default of `maxclients`. The server needs files beside its clients, too, and cannot go further than
    // this process.
    let clients_max = allow_files(10_000 + 256).min(10_256) as usize - 256;
    let mut scene = Scene::new(&["--maxclients", &clients_max.to_string()]);
    let before = scene.resident_bytes();
    let mut idle = Vec::new();
    for _ in 1..clients_max {
        // Each is answered before the next comes: more than the backlog at once would have to knock again.
        let stream = scene.connect();
        exchange(&stream, b"PING\r\n", b"+PONG\r\n");
        idle.push(stream);
    }
    let each = (scene.resident_bytes() - before) / idle.len() as u64;
    assert!(each < 20_000, "{each} bytes each");

    assert_eq!(read_to_end(&scene.connect()), b"-ERR max number of clients reached\r\n");
    assert!(scene.witness.ask("INFO stats").contains("rejected_connections:1\r\n"));
    drop(idle);
    scene.wait_for_clients(0);
    exchange(&scene.connect(), b"PING\r\n", b"+PONG\r\n");
}

#[test]
fn a_request_may_take_its_time_and_holds_nobody_up() {
    let mut scene = Scene::new(&[]);
    let slow = scene.connect();
    let beginning = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nab";
    (&slow).write_all(beginning.as_bytes()).unwrap();
    let waits = format!(" qbuf={} ", beginning.len());
    eventually(|| scene.witness.ask("CLIENT LIST").contains(&waits).then_some(()));
    assert_eq!(scene.witness.ask("SET k other"), "+OK");
    exchange(&slow, b"cde\r\n", b"+OK\r\n");
    assert_eq!(scene.witness.ask("GET k"), "abcde");
}

#[test]
fn who_closes_its_sending_side_is_answered_first() {
    const BIG: usize = 8 << 20;
    for mode in ["everysec", "always"] {
        let mut scene = Scene::new(&["--appendfsync", mode]);
        let asks = scene.connect();
        (&asks).write_all(b"SET a b\r\nGET a\r\n").unwrap();
        asks.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&asks).escape_ascii().to_string(), "+OK\\r\\n$1\\r\\nb\\r\\n", "{mode}");

        assert_eq!(scene.witness.ask(&format!("SETRANGE big {} x", BIG - 1)), format!(":{BIG}"));
        let asks = scene.connect();
        (&asks).write_all(b"GET big\r\n").unwrap();
        asks.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&asks).len(), format!("${BIG}\r\n\r\n").len() + BIG, "{mode}");

        let waits = scene.connect();
        (&waits).write_all(b"SET b c\r\nBLPOP list 0\r\n").unwrap();
        waits.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&waits), b"+OK\r\n", "{mode}");

        // After the others' commands, too.
        for (requests, replies) in [
            ("FT._LIST\r\n", "*0\r\n"),
            ("SET b c\r\nSAVE\r\nGET b\r\n", "+OK\r\n+OK\r\n$1\r\nc\r\n"),
            ("SQL \"SELECT 1 AS one\"\r\nSET b d\r\n", "*2\r\n*1\r\n$3\r\none\r\n*1\r\n:1\r\n+OK\r\n"),
        ] {
            let asks = scene.connect();
            (&asks).write_all(requests.as_bytes()).unwrap();
            asks.shutdown(Shutdown::Write).unwrap();
            assert_eq!(String::from_utf8(read_to_end(&asks)).unwrap(), replies, "{mode}");
        }
        scene.wait_for_clients(0);
    }
}

#[test]
fn a_request_that_a_pause_holds_back_goes_with_its_client() {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.witness.ask("RPUSH list element"), ":1");
    for request in ["BLPOP list 0\r\n", "LPOP list\r\n", "MULTI\r\nDEL list\r\nEXEC\r\n"] {
        assert_eq!(scene.witness.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
        let goes = scene.connect();
        (&goes).write_all(request.as_bytes()).unwrap();
        scene.wait_for_blocked(1);
        drop(goes);
        assert_eq!(scene.witness.ask("CLIENT UNPAUSE"), "+OK");
        scene.wait_for_clients(0);
        assert_eq!(scene.witness.ask("LLEN list"), ":1", "{request}");
    }
}

#[test]
fn who_goes_while_it_waits_for_a_key_takes_nothing_whatever_it_has_sent_besides() {
    let mut scene = Scene::new(&[]);
    let goes = scene.connect();
    // Slightly more than the server reads ahead: the rest, with the end behind it, fits into any socket.
    let bytes = (1 << 20) + (16 << 10);
    let more = format!("*2\r\n$4\r\nECHO\r\n${bytes}\r\n{}\r\n", "x".repeat(bytes));
    (&goes).write_all(format!("BLPOP list 0\r\n{more}").as_bytes()).unwrap();
    scene.wait_for_blocked(1);
    drop(goes);
    scene.wait_for_clients(0);
    assert_eq!(scene.witness.ask("RPUSH list element"), ":1");
    assert_eq!(scene.witness.ask("LLEN list"), ":1");
}

#[test]
fn what_a_pause_of_writes_does_not_hold_back_waits_for_no_request_that_it_does() {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.witness.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
    let waits = scene.connect();
    (&waits).write_all(b"SET k v\r\n").unwrap();
    scene.wait_for_blocked(1);
    // It is answered when somebody else has done it, and its sending side may be closed by then.
    let saves = scene.connect();
    (&saves).write_all(b"SAVE\r\n").unwrap();
    saves.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_to_end(&saves), b"+OK\r\n");
    assert_eq!(scene.witness.ask("CLIENT UNPAUSE"), "+OK");
    exchange(&waits, b"", b"+OK\r\n");
}

#[test]
fn requests_that_a_pause_holds_back_run_in_the_order_in_which_they_came() {
    let mut scene = Scene::new(&["--threads", "2"]);
    // The rest of a pipeline belongs to what was held back.
    let request = |number| match number % 2 {
        0 => format!("MULTI\r\nRPUSH order {number}\r\nEXEC\r\n"),
        _ => format!("RPUSH order {number}\r\n"),
    };
    for _ in 0..5 {
        assert_eq!(scene.witness.ask("CLIENT PAUSE 600000 WRITE"), "+OK");
        let waiting: Vec<TcpStream> = (0..20)
            .map(|number| {
                let waits = scene.connect();
                (&waits).write_all(request(number).as_bytes()).unwrap();
                scene.wait_for_blocked(number + 1);
                waits
            })
            .collect();
        // One of them goes, and the ones behind it are not held up.
        let mut waiting = waiting.into_iter();
        drop(waiting.next());
        scene.wait_for_clients(19);
        assert_eq!(scene.witness.ask("CLIENT UNPAUSE"), "+OK");
        assert_eq!(scene.witness.ask("RPUSH order new"), ":20", "it overtakes nobody");
        for (place, waits) in (1..).zip(waiting) {
            let replies = ["+OK\r\n+QUEUED\r\n*1\r\n", ""][place % 2];
            exchange(&waits, b"", format!("{replies}:{place}\r\n").as_bytes());
        }
        assert_eq!(scene.witness.ask("DEL order"), ":1");
        scene.wait_for_clients(0);
    }
}

#[test]
fn who_vanishes_within_a_pipeline_is_forgotten() {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.witness.ask("SETRANGE big 1048575 x"), ":1048576");
    let pipeline = format!("{}{}*3\r\n$3\r\nSE", "INCR n\r\n".repeat(1000), "GET big\r\n".repeat(30));
    let vanish: Vec<TcpStream> = (0..10).map(|_| scene.connect()).collect();
    for mut stream in &vanish {
        stream.write_all(pipeline.as_bytes()).unwrap();
        // Closing will reset the connection instead of ending it in order.
        set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
    }
    eventually(|| (scene.witness.ask("GET n") == "10000").then_some(()));
    scene.wait_for_clients(10);
    drop(vanish);
    scene.wait_for_clients(0);
    assert_eq!(scene.witness.ask("INCR n"), ":10001");
}

/// Sends requests until the server takes no more.
fn flood(mut stream: &TcpStream, request: &str) -> usize {
    let requests = request.repeat(1000);
    stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut sent = 0;
    while sent < 256 << 20 {
        match stream.write(requests.as_bytes()) {
            Ok(len) => sent += len,
            Err(_) => return sent,
        }
    }
    panic!("the server takes everything");
}

#[test]
fn from_who_never_reads_nothing_more_is_read() {
    let mut scene = Scene::new(&[]);
    assert_eq!(scene.witness.ask("SETRANGE k 1048575 x"), ":1048576");
    assert_eq!(scene.witness.ask("GET k").len(), 1 << 20);
    let before = scene.resident_bytes();
    let idle = scene.connect();
    flood(&idle, "GET k\r\n");
    let grown = scene.resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");
    assert_eq!(scene.witness.ask("PING"), "+PONG");
    assert_eq!(scene.count("connected_clients"), 2);
}

#[test]
fn a_pipeline_whose_replies_wait_for_the_disk_holds_nobody_up() {
    let mut scene = Scene::new(&["--threads", "1", "--appendfsync", "always"]);
    assert_eq!(scene.witness.ask("SETRANGE big 19999 x"), ":20000");
    let reply = format!("+OK\r\n{}", format!("$20000\r\n{}x\r\n", "\0".repeat(19_999)).repeat(20));
    let stream = scene.connect();
    for number in 0..20 {
        // Between 256 KiB and 1 MiB of replies, which all wait for the first write.
        let pipeline = format!("SET k {number}\r\n{}", "GET big\r\n".repeat(20));
        exchange(&stream, pipeline.as_bytes(), reply.as_bytes());
        assert_eq!(scene.witness.ask("PING"), "+PONG");
    }
}

#[test]
fn who_pauses_within_a_large_reply_is_served_on() {
    let mut scene = Scene::new(&[]);
    for len in [3 << 20, 5 << 20, 9 << 20, 17 << 20] {
        assert_eq!(scene.witness.ask(&format!("SETRANGE k {} x", len - 1)), format!(":{len}"));
        let pauses = scene.connect();
        (&pauses).write_all(b"CLIENT SETNAME pauses\r\nGET k\r\n").unwrap();
        eventually(|| (scene.witness.ask("CLIENT LIST").contains(" name=pauses ")).then_some(()));
        let mut read = vec![0; format!("+OK\r\n${len}\r\n\r\n").len() + len];
        (&pauses).read_exact(&mut read).unwrap();
        exchange(&pauses, b"PING\r\n", b"+PONG\r\n");
    }
}

#[test]
fn who_exceeds_the_limit_of_unread_output_is_closed_and_told_of() {
    let mut scene = Scene::new(&["--client-output-buffer-limit", "normal 100kb 0 0"]);
    // Each reply is within the limit; all of them are more than the system takes for a client. The rest of
    // the replies that leave together, up to 256 KB, depends on their length.
    assert_eq!(scene.witness.ask("SETRANGE k 99999 x"), ":100000");
    let idle = (0..16).map(|number| {
        let (stream, end) = (scene.connect(), 50_000 + number * 3_001);
        (&stream).write_all(format!("GETRANGE k 0 {end}\r\n").repeat(500).as_bytes()).unwrap();
        stream
    });
    let idle: Vec<_> = idle.collect();
    let message = "it did not read its replies, see client-output-buffer-limit";
    eventually(|| scene.folder.messages().contains(message).then_some(()));
    drop(idle);
    scene.wait_for_clients(0);
}

#[test]
fn what_makes_no_sense_is_answered_with_redis_s_error_and_the_end() {
    let mut scene = Scene::new(&["--client-query-buffer-limit", "1mb"]);
    let nested = "*1\r\n".repeat(10_000);
    let endless = "a".repeat(70_000);
    let unclosed = format!("SET k \"{}\r\n", "x".repeat(1000));
    let half_a_million = format!("*500000\r\n{}", "$1\r\nx\r\n".repeat(200_000));
    for (request, reply) in [
        ("*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        ("*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*2\r\n$3\r\nGET\r\n$-9223372036854775808\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        ("*1\r\n$9223372036854775807\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (&nested, "-ERR Protocol error: expected '$', got '*'\r\n"),
        (&unclosed, "-ERR Protocol error: unbalanced quotes in request\r\n"),
        (&endless, "-ERR Protocol error: too big inline request\r\n"),
        // More than the query buffer may hold ends without a word, as in Redis.
        ("*2\r\n$4\r\nECHO\r\n$2000000\r\n", ""),
        (&half_a_million, ""),
    ] {
        let stream = scene.connect();
        // The server may have closed the connection before it has read everything.
        let _ = (&stream).write_all(request.as_bytes());
        let shown: String = request.chars().take(60).collect();
        assert_eq!(String::from_utf8(read_to_end(&stream)).unwrap(), reply, "{shown}");
        assert_eq!(scene.witness.ask("PING"), "+PONG", "{shown}");
    }
    let messages = scene.folder.messages();
    assert_eq!(messages.matches("longer than client-query-buffer-limit").count(), 2, "{messages}");
    scene.wait_for_clients(0);
}

#[test]
fn a_changed_limit_of_requests_reaches_who_is_connected_already() {
    let mut scene = Scene::new(&[]);
    let (bulk, query, fine) = (scene.connect(), scene.connect(), scene.connect());
    for stream in [&bulk, &query, &fine] {
        exchange(stream, b"PING\r\n", b"+PONG\r\n");
    }
    assert_eq!(scene.witness.ask("CONFIG SET proto-max-bulk-len 1mb"), "+OK");
    (&bulk).write_all(b"*2\r\n$4\r\nECHO\r\n$1048577\r\n").unwrap();
    assert_eq!(read_to_end(&bulk), b"-ERR Protocol error: invalid bulk length\r\n");
    assert_eq!(scene.witness.ask("CONFIG SET proto-max-bulk-len 1gb client-query-buffer-limit 2mb"), "+OK");
    (&query).write_all(b"*2\r\n$4\r\nECHO\r\n$3000000\r\n").unwrap();
    assert_eq!(read_to_end(&query), b"");
    assert_eq!(scene.witness.ask("CONFIG SET client-query-buffer-limit 1gb"), "+OK");
    let long = "x".repeat(3_000_000);
    let (request, reply) =
        (format!("*2\r\n$4\r\nECHO\r\n$3000000\r\n{long}\r\n"), format!("$3000000\r\n{long}\r\n"));
    exchange(&fine, request.as_bytes(), reply.as_bytes());
}

#[test]
fn announced_lengths_reserve_no_memory_and_keys_hold_any_byte() {
    let mut scene = Scene::new(&[]);
    let before = scene.resident_bytes();
    let announcers: Vec<TcpStream> = (0..100).map(|_| scene.connect()).collect();
    let beginning = "*2147483647\r\n$3\r\nSET\r\n$536870912\r\nab";
    for mut stream in &announcers {
        stream.write_all(beginning.as_bytes()).unwrap();
    }
    let waits = format!(" qbuf={} ", beginning.len());
    eventually(|| (scene.witness.ask("CLIENT LIST").matches(&waits).count() == 100).then_some(()));
    let grown = scene.resident_bytes().saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");

    let stream = scene.connect();
    exchange(&stream, b"*3\r\n$3\r\nSET\r\n$6\r\na\0\r\n\xff\0\r\n$1\r\n\0\r\n", b"+OK\r\n");
    exchange(&stream, b"*2\r\n$3\r\nGET\r\n$6\r\na\0\r\n\xff\0\r\n", b"$1\r\n\0\r\n");
    exchange(&stream, b"*2\r\n$6\r\nEXISTS\r\n$1\r\na\r\n", b":0\r\n");
}
