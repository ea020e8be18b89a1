//! `MIGRATE` with the real program: between two servers, to `redis-server` and back, while others change the
//! keys, and to servers that do not answer.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use running::redis::Redis;
use running::{Connection, Running, digest, eventually};

/// One key of each type, all of them small.
const BEGINNING: &[&str] = &[
    "SET s value",
    "SET number 12345",
    "SET volatile value PX 100000000",
    "RPUSH l a b 3",
    "SADD set a b c",
    "SADD ints 1 2 3",
    "ZADD z 1 a -inf b 2.5 c",
    "HSET h f v g w",
    "XADD x 1-1 f v",
    "XADD x 2-1 f v",
    "XGROUP CREATE x g 0",
    "XREADGROUP GROUP g c COUNT 1 STREAMS x >",
    "PFADD hll a b c",
];

const KEYS: &str = "s number volatile l set ints z h x hll";

fn begin(client: &mut Connection) {
    for command in BEGINNING {
        let reply = client.whole(command);
        assert!(!reply.starts_with('-'), "{command}: {reply}");
    }
}

#[test]
fn keys_of_all_types_move_and_nothing_is_lost() {
    let (source, target) = (Running::start(&[]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    begin(&mut here);
    let all = digest(&mut here);
    let to = format!("MIGRATE 127.0.0.1 {} \"\" 0 5000", target.port);
    assert_eq!(here.ask(&format!("{to} COPY KEYS {KEYS} nokey")), "+OK");
    assert_eq!((digest(&mut here), digest(&mut there)), (all.clone(), all.clone()));
    assert!((90_000_000..=100_000_000).contains(&pttl(&mut there, "volatile")));
    let busy = here.ask(&format!("{to} KEYS {KEYS}"));
    assert_eq!(busy, "-ERR Target instance replied with error: BUSYKEY Target key name already exists.");
    assert_eq!(digest(&mut here), all, "what was refused stays");
    assert_eq!(here.ask(&format!("{to} REPLACE KEYS {KEYS} nokey")), "+OK");
    assert_eq!((here.ask("DBSIZE"), digest(&mut there)), (":0".to_owned(), all.clone()));
    assert_eq!(here.ask(&format!("{to} REPLACE KEYS {KEYS}")), "+NOKEY");
    // What was taken goes, although another key was refused.
    assert_eq!(here.ask("MSET new 1 s 2"), "+OK");
    let busy = here.ask(&format!("{to} KEYS new s"));
    assert!(busy.contains("BUSYKEY"), "{busy}");
    assert_eq!((here.ask("EXISTS new s"), there.ask("GET new")), (":1".to_owned(), "1".to_owned()));
    // Another database, of which there is none.
    let refused = here.ask(&format!("MIGRATE 127.0.0.1 {} s 99 5000", target.port));
    assert_eq!(refused, "-ERR Target instance replied with error: ERR DB index is out of range");
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} s 7 5000", target.port)), "+OK");
    assert_eq!((there.ask("SELECT 7"), there.ask("GET s")), ("+OK".to_owned(), "2".to_owned()));
    let waits = "-ERR MIGRATE waits for another server, which a transaction does not do";
    here.ask("SET k v");
    assert_eq!(here.ask("MULTI"), "+OK");
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} k 0 5000", target.port)), "+QUEUED");
    assert_eq!(here.whole("EXEC"), format!("*[{waits}]"));
}

fn pttl(client: &mut Connection, key: &str) -> i64 {
    client.ask(&format!("PTTL {key}")).strip_prefix(':').unwrap().parse().unwrap()
}

#[test]
fn times_of_fields_move_with_their_hash() {
    let (source, target) = (Running::start(&[]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    assert_eq!(here.ask("HSET h f v g w"), ":2");
    assert_eq!(here.whole("HPEXPIREAT h 33177117420000 FIELDS 1 f"), "*[:1]");
    let all = digest(&mut here);
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} h 0 5000", target.port)), "+OK");
    assert_eq!((here.ask("DBSIZE"), digest(&mut there)), (":0".to_owned(), all));
    assert_eq!(there.whole("HPEXPIRETIME h FIELDS 2 f g"), "*[:33177117420000 :-1]");
}

#[test]
fn keys_go_to_redis_and_come_back() {
    let Some(redis) = Redis::start() else { return };
    let source = Running::start(&[]);
    let (mut here, mut there) = (source.connect(), redis.connect());
    begin(&mut here);
    let all = digest(&mut here);
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {KEYS}", redis.port)), "+OK");
    assert_eq!((here.ask("DBSIZE"), digest(&mut there)), (":0".to_owned(), all.clone()));
    assert_eq!(there.ask(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {KEYS}", source.port)), "+OK");
    assert_eq!((there.ask("DBSIZE"), digest(&mut here)), (":0".to_owned(), all));
}

#[test]
fn a_password_is_sent_and_told_to_nobody() {
    let (source, target) = (Running::start(&[]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    assert_eq!(there.ask("CONFIG SET requirepass open-sesame"), "+OK");
    assert_eq!(here.ask("CONFIG SET slowlog-log-slower-than 0"), "+OK");
    assert_eq!(here.ask("SET k v"), "+OK");
    let to = format!("MIGRATE 127.0.0.1 {} k 0 5000", target.port);
    let refused = here.ask(&to);
    assert!(refused.starts_with("-ERR Target instance replied with error: NOAUTH"), "{refused}");
    let refused = here.ask(&format!("{to} AUTH wrong"));
    assert!(refused.starts_with("-ERR Target instance replied with error: WRONGPASS"), "{refused}");
    assert_eq!(here.ask("EXISTS k"), ":1");
    assert_eq!(here.ask(&format!("{to} AUTH open-sesame")), "+OK");
    assert_eq!(here.ask("SET k v"), "+OK");
    assert_eq!(here.ask(&format!("{to} REPLACE AUTH2 default open-sesame")), "+OK");
    assert_eq!((here.ask("EXISTS k"), there.ask("GET k")), (":0".to_owned(), "v".to_owned()));
    let log = here.whole("SLOWLOG GET 100");
    assert!(log.contains("(redacted)") && !log.contains("open-sesame"), "{log}");
}

/// Each counter is incremented by clients while it moves. However that falls out, no increment is lost: what
/// came before a key went is at the target, and what came later is here.
#[test]
fn keys_that_change_while_they_move_are_sent_again() {
    const KEYS: usize = 200;
    let (source, target) = (Running::start(&[]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    let (is_over, source) = (AtomicBool::new(false), &source);
    let is_over = &is_over;
    let (mut moved, counted) = thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(move || {
                    let (mut client, mut counts) = (source.connect(), vec![0; KEYS]);
                    let mut number = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let key = number % KEYS;
                        assert!(client.ask(&format!("INCR key:{key}")).starts_with(':'));
                        counts[key] += 1;
                        number += 7;
                    }
                    counts
                })
            })
            .collect();
        let mut moved = vec![0_u64; KEYS];
        for _ in 0..20 {
            for (key, sum) in moved.iter_mut().enumerate() {
                let reply = here.ask(&format!("MIGRATE 127.0.0.1 {} key:{key} 0 5000 REPLACE", target.port));
                match reply.as_str() {
                    // The target has what was counted up to here.
                    "+OK" => *sum += there.ask(&format!("GETDEL key:{key}")).parse::<u64>().unwrap(),
                    "+NOKEY" => {}
                    changed => {
                        assert!(changed.contains("changed whenever they were sent"), "{changed}");
                        there.ask(&format!("DEL key:{key}"));
                    }
                }
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let counts: Vec<Vec<u64>> = clients.into_iter().map(|client| client.join().unwrap()).collect();
        let counted: Vec<u64> = (0..KEYS).map(|key| counts.iter().map(|counts| counts[key]).sum()).collect();
        (moved, counted)
    });
    for (key, sum) in moved.iter_mut().enumerate() {
        // Missing: everything has gone.
        *sum += here.ask(&format!("GET key:{key}")).parse::<u64>().unwrap_or(0);
    }
    assert_eq!(moved, counted);
}

#[test]
fn others_are_served_while_the_target_is_silent_and_nothing_is_deleted() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    // One worker: it must not wait for the target.
    let source = Running::start(&["--threads", "1"]);
    let (mut here, mut other) = (source.connect(), source.connect());
    assert_eq!(other.ask("SET k v"), "+OK");
    here.send(&format!("MIGRATE 127.0.0.1 {port} k 0 1000"));
    let mut stream = silent.accept().unwrap().0;
    let began = Instant::now();
    for number in 0..100 {
        assert_eq!(other.ask(&format!("INCR counter:{number}")), ":1");
    }
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!(here.reply(), "-IOERR error or timeout reading to target instance");
    assert_eq!(other.ask("GET k"), "v");
    let mut sent = Vec::new();
    stream.read_to_end(&mut sent).unwrap();
    assert!(sent.starts_with(b"*1\r\n$4\r\nPING"), "{}", sent.escape_ascii());
    // A client that goes gives up: the connection to the target ends with the client's.
    here.send(&format!("MIGRATE 127.0.0.1 {port} k 0 3600000"));
    let mut stream = silent.accept().unwrap().0;
    drop(here);
    stream.read_to_end(&mut sent).unwrap();
    assert_eq!(other.ask("GET k"), "v");
    // A target that accepts, and then goes in the middle.
    let mut here = source.connect();
    here.send(&format!("MIGRATE 127.0.0.1 {port} k 0 5000"));
    let mut stream = silent.accept().unwrap().0;
    stream.write_all(b"+PONG\r\n+OK\r\n").unwrap();
    eventually(|| {
        let mut bytes = [0; 1000];
        let len = stream.read(&mut bytes).unwrap();
        bytes[..len].windows(7).any(|window| window == b"RESTORE").then_some(())
    });
    drop(stream);
    assert_eq!(here.reply(), "-IOERR error or timeout reading to target instance");
    assert_eq!(other.ask("GET k"), "v");
    drop(silent);
    assert_eq!(
        here.ask(&format!("MIGRATE 127.0.0.1 {port} k 0 5000")),
        "-IOERR error or timeout writing to target instance"
    );
    assert_eq!(other.ask("GET k"), "v");
}

#[test]
fn keys_that_were_taken_go_although_others_have_grown_too_large_to_be_sent_again() {
    const KEYS: usize = 80;
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = target.local_addr().unwrap().port();
    let source = Running::start(&[]);
    let (mut here, mut other) = (source.connect(), source.connect());
    assert_eq!(other.ask("CONFIG SET client-query-buffer-limit 1mb"), "+OK");
    assert_eq!(other.ask("MSET taken v gone v"), "+OK");
    let grow: Vec<String> = (0..KEYS).map(|number| format!("grows:{number}")).collect();
    for key in &grow {
        assert_eq!(other.ask(&format!("SET {key} v")), "+OK");
    }
    here.send(&format!("MIGRATE 127.0.0.1 {port} \"\" 0 60000 KEYS taken {} gone", grow.join(" ")));
    let mut stream = target.accept().unwrap().0;
    // Copies of all have been made. Now they get more than that limit together, though none of them is large.
    for key in &grow {
        assert_eq!(other.ask(&format!("SETRANGE {key} 14999 x")), ":15000");
    }
    stream.write_all(b"+PONG\r\n+OK\r\n").unwrap();
    stream.write_all(&b"+OK\r\n".repeat(KEYS + 2)).unwrap();
    let refused = "-ERR the keys have more than client-query-buffer-limit says; name fewer of them";
    assert_eq!(here.reply(), refused);
    assert_eq!(other.ask("EXISTS taken gone"), ":0");
    assert_eq!(other.ask("DBSIZE"), format!(":{KEYS}"));
}

#[test]
fn a_start_finds_keys_gone_that_had_moved() {
    let (mut source, target) = (Running::start(&["--appendfsync", "always"]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    begin(&mut here);
    let all = digest(&mut here);
    assert_eq!(here.ask("SET stays v"), "+OK");
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} \"\" 0 5000 KEYS {KEYS}", target.port)), "+OK");
    source.restart();
    let mut here = source.connect();
    assert_eq!((here.ask("DBSIZE"), here.ask("GET stays")), (":1".to_owned(), "v".to_owned()));
    assert_eq!(digest(&mut there), all);
}

#[test]
fn a_large_value_moves_while_others_use_the_server() {
    let (source, target) = (Running::start(&["--threads", "1"]), Running::start(&[]));
    let (mut here, mut there) = (source.connect(), target.connect());
    for part in 0..100 {
        let words: String = (0..1000).map(|number| format!(" f{part}:{number} value-{number}")).collect();
        assert_eq!(here.ask(&format!("HSET large{words}")), ":1000");
    }
    let all = digest(&mut here);
    assert_eq!(here.ask(&format!("MIGRATE 127.0.0.1 {} large 0 60000", target.port)), "+OK");
    assert_eq!((here.ask("DBSIZE"), digest(&mut there)), (":0".to_owned(), all));
}

#[test]
fn more_than_may_send_at_a_time_wait_for_a_place() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let (source, target) = (Running::start(&["--threads", "1"]), Running::start(&[]));
    let mut client = source.connect();
    let mut waiting: Vec<Connection> = (0..17).map(|_| source.connect()).collect();
    for (number, connection) in waiting.iter_mut().enumerate() {
        assert_eq!(client.ask(&format!("SET k{number} v")), "+OK");
        connection.send(&format!("MIGRATE 127.0.0.1 {port} k{number} 0 3600000"));
    }
    let mut accepted: Vec<_> = (0..16).map(|_| silent.accept().unwrap().0).collect();
    assert_eq!(client.ask("SET late v"), "+OK");
    let late = client.ask(&format!("MIGRATE 127.0.0.1 {} late 0 30", target.port));
    let expected = "-IOERR 16 other MIGRATE requests are running, and none has ended within the timeout";
    assert_eq!(late, expected);
    assert_eq!(client.ask("DEL late"), ":1");
    let mut one_more = source.connect();
    assert_eq!(client.ask("SET other v"), "+OK");
    one_more.send(&format!("MIGRATE 127.0.0.1 {} other 0 5000", target.port));
    assert_eq!(client.ask("PING"), "+PONG");
    // Two of them lose their connections, so that the other two get on.
    accepted.truncate(14);
    assert_eq!(one_more.reply(), "+OK");
    drop(silent.accept().unwrap());
    accepted.clear();
    for connection in &mut waiting {
        let reply = connection.reply();
        assert!(reply.starts_with("-IOERR error or timeout "), "{reply}");
    }
    assert_eq!(client.ask("DBSIZE"), ":17");
}
