//! Commands that store a large value, by the real program: they prepare it in steps, and run again.

#![allow(clippy::unwrap_used)]

mod running;

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use running::large::{ELEMENTS, at_once, loaded};
use running::{Connection, Running, eventually};

/// Commands that store a value, and the key that has it then.
const STORES: &[(&str, &str)] = &[
    ("RENAME h to", "to"),
    ("RENAMENX s to", "to"),
    ("MOVE z 1", "z"),
    ("COPY l to", "to"),
    ("COPY y to DB 1 REPLACE", "to"),
    ("COPY giant to REPLACE", "to"),
    ("RENAME giant to", "to"),
    ("RENAME b to", "to"),
    ("COPY small to", "to"),
    ("COPY s s2", "s2"),
    ("RENAMENX s t", "t"),
    ("COPY s t", "t"),
    ("RENAME s s", "s"),
    ("COPY nokey to REPLACE", "to"),
    ("SUNIONSTORE to s t", "to"),
    ("SUNIONSTORE s s t nokey", "s"),
    ("SINTERSTORE to s t", "to"),
    ("SDIFFSTORE to s t", "to"),
    ("SDIFFSTORE t s s", "t"),
    ("SINTERSTORE to s nokey", "to"),
    ("ZUNIONSTORE to 3 z y s WEIGHTS 2 -1 0.5 AGGREGATE MAX", "to"),
    ("ZUNIONSTORE z 2 z z", "z"),
    ("ZINTERSTORE to 2 s y", "to"),
    ("ZDIFFSTORE to 2 z y", "to"),
    ("ZRANGESTORE to z 2 4001 REV", "to"),
    ("ZRANGESTORE z z 3 70 BYSCORE LIMIT 5 4000", "z"),
    ("GEOSEARCHSTORE to geo FROMLONLAT 0 2 BYRADIUS 500 km STOREDIST", "to"),
    ("GEOSEARCHSTORE geo geo BYPOLYGON 4 -4 0.05 4 0.5 3 4 -1 3", "geo"),
    ("GEOSEARCHSTORE to geo FROMLONLAT 90 80 BYRADIUS 1 m", "to"),
    ("GEORADIUS geo 0 2 900 km COUNT 3000 STORE to", "to"),
    ("SORT l STORE to", "to"),
    ("SORT l DESC LIMIT 10 3000 GET # GET x STORE l", "l"),
    ("SORT s ALPHA STORE to", "to"),
    ("SORT s STORE to", "to"),
];

/// All that can be seen of a key in databases 0 and 1.
fn look(client: &mut Connection, key: &str) -> String {
    let mut seen = String::new();
    for db in ["0", "1"] {
        client.ask(&format!("SELECT {db}"));
        let kind = client.ask(&format!("TYPE {key}"));
        let read = match kind.as_str() {
            "+string" => format!("GET {key}"),
            "+hash" => format!("HGETALL {key}"),
            "+list" => format!("LRANGE {key} 0 -1"),
            "+set" => format!("SORT {key} ALPHA"),
            "+zset" => format!("ZRANGE {key} 0 -1 WITHSCORES"),
            _ => format!("EXISTS {key}"),
        };
        let read = client.whole(&read);
        let read = if kind == "+hash" { sorted(&read) } else { read };
        let expiry = client.ask(&format!("EXPIRETIME {key}"));
        seen += &format!("{db} {kind} {expiry} {} {read}\n", client.ask(&format!("OBJECT ENCODING {key}")));
    }
    client.ask("SELECT 0");
    seen
}

/// The fields and values of a reply in an order of their own.
fn sorted(reply: &str) -> String {
    let mut words: Vec<&str> = reply.trim_matches(['*', '%', '[', ']']).split(' ').collect();
    words.sort_unstable();
    words.join(" ")
}

/// A server with collections of every kind, and with copies of what a test will change.
fn with_more(args: &[&str]) -> (Running, Connection) {
    let (running, mut client) = loaded(args);
    client.ask("SADD small a b c");
    client.ask("EXPIREAT h 99999999999");
    client.ask("EXPIREAT giant 99999999999");
    client.ask("SET to before EXAT 99999999998");
    (running, client)
}

const SOURCES: [&str; 11] = ["h", "s", "t", "z", "y", "geo", "l", "b", "giant", "small", "to"];

/// Puts all keys back as they were, from database 2.
fn put_back(client: &mut Connection) {
    for key in SOURCES {
        client.ask(&format!(
            "MULTI\r\nDEL {key}\r\nSELECT 1\r\nDEL {key} s2\r\nSELECT 2\r\nCOPY {key} {key} DB 0"
        ));
        (0..5).for_each(|_| _ = client.reply());
        client.whole("EXEC");
        client.ask("SELECT 0");
    }
    client.ask("DEL s2");
}

#[test]
fn a_prepared_value_is_what_the_same_command_stores_at_once_and_survives_a_crash() {
    for log in ["yes", "no"] {
        let (mut running, mut client) =
            with_more(&["--threads", "1", "--appendonly", log, "--appendfsync", "always"]);
        for key in SOURCES {
            assert_eq!(client.ask(&format!("COPY {key} {key} DB 2")), ":1");
        }
        for steps_from in ["1024", "0"] {
            for (command, key) in STORES {
                put_back(&mut client);
                assert_eq!(client.ask(&format!("DEBUG STEPS-FROM {steps_from}")), "+OK");
                let source = command.split(' ').nth(1).unwrap();
                let reply = client.ask(command);
                let stored = (look(&mut client, key), look(&mut client, source));
                if log == "yes" && (*key == "to" || source == "z") {
                    running.restart();
                    client = running.connect();
                    assert_eq!(
                        (look(&mut client, key), look(&mut client, source)),
                        stored,
                        "{command}, after a crash"
                    );
                }
                put_back(&mut client);
                let expected = at_once(&mut client, command);
                assert_eq!(reply, expected, "{command}");
                let expected = (look(&mut client, key), look(&mut client, source));
                assert!(stored == expected, "{log} {steps_from} {command}: {stored:.400?} {expected:.400?}");
            }
        }
    }
}

/// Sends commands from another connection until the reply to `command` is there.
fn beside(running: &Running, client: &mut Connection, command: &str, others: &[&str]) -> String {
    client.send(command);
    let mut other = running.connect();
    for other_command in others {
        let reply = other.ask(other_command);
        assert!(!reply.starts_with('-'), "{other_command}: {reply}");
    }
    client.reply()
}

#[test]
fn what_happens_meanwhile_is_not_lost() {
    let (mut running, mut client) = with_more(&["--threads", "2", "--appendfsync", "always"]);
    assert_eq!(client.ask("DEBUG STEPS-FROM 0"), "+OK");
    for round in 0..6 {
        client.ask("DEL h2 to2");
        at_once(&mut client, "COPY h h2");
        let others: &[&str] = match round {
            0 => &["HSET h2 more 1", "HDEL h2 field:7"],
            1 => &["BGSAVE"],
            2 => &["SWAPDB 3 4", "HSET h2 more 1"],
            3 => &["PERSIST h2", "BGSAVE", "HSET h2 more 2"],
            4 => &["BGREWRITEAOF", "HSET h2 more 1"],
            _ => &["HSET h2 more 1", "HSET h2 more 2", "HSET h2 more 3", "HSET h2 more 4", "HSET h2 more 5"],
        };
        let reply = beside(&running, &mut client, "RENAME h2 to2", others);
        assert_eq!(reply, "+OK", "{round}");
        // What came after the rename made the old key again, perhaps with a field that was renamed.
        let all = |client: &mut Connection| {
            let count = |client: &mut Connection, key: &str| {
                client.ask(&format!("HLEN {key}"))[1..].parse::<usize>().unwrap()
            };
            count(client, "h2") + count(client, "to2")
        };
        let sum = all(&mut client);
        assert!((ELEMENTS - 1..=ELEMENTS + 2).contains(&sum), "{round}: {sum}");
        let (from, to) = (look(&mut client, "h2"), look(&mut client, "to2"));
        running.restart();
        client = running.connect();
        assert_eq!((look(&mut client, "h2"), look(&mut client, "to2")), (from, to), "{round}");
        assert_eq!(client.ask("DEBUG STEPS-FROM 0"), "+OK");
    }
}

#[test]
fn a_command_whose_key_changes_each_time_meanwhile_ends_all_the_same() {
    let (running, mut client) = with_more(&["--threads", "1", "--appendonly", "yes"]);
    let stop = AtomicBool::new(false);
    let mut other = running.connect();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                other.ask("HSET h always changes");
            }
        });
        for _ in 0..3 {
            assert_eq!(client.ask("COPY h to REPLACE"), ":1");
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(client.ask("HLEN to")[1..].parse::<usize>().unwrap() >= ELEMENTS);
}

#[test]
fn replies_keep_their_order_and_are_counted_once() {
    let (running, mut client) = with_more(&["--threads", "1", "--slowlog-log-slower-than", "0"]);
    assert_eq!([client.ask("CONFIG RESETSTAT"), client.ask("SLOWLOG RESET")], ["+OK", "+OK"]);
    let packet = "ECHO one\r\nCOPY h c\r\nHLEN c\r\nCLIENT REPLY SKIP\r\nRENAME c d\r\nHLEN d\r\n\
        CLIENT REPLY OFF\r\nRENAME d e\r\nCLIENT REPLY ON\r\nHLEN e\r\nRENAME nokey e\r\nECHO two\r\n";
    client.0.get_mut().write_all(packet.as_bytes()).unwrap();
    let all = format!(":{ELEMENTS}");
    for expected in ["$one", ":1", &all, &all, "+OK", &all, "-ERR no such key", "$two"] {
        assert_eq!(client.reply(), expected);
    }
    let stats = client.ask("INFO commandstats");
    let calls = |name: &str, calls: usize| {
        let line = stats.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:"))).unwrap();
        assert!(line.contains(&format!("calls={calls},")), "{line}");
    };
    calls("copy", 1);
    calls("rename", 3);
    // Those of the packet, and two before it and one behind it.
    assert_eq!(client.ask("SLOWLOG LEN"), ":14");
    // The time of all steps is that of the call.
    let latencies = client.ask("INFO latencystats");
    let number = |text: &str, name: &str| -> f64 {
        let line = text.lines().find(|line| line.contains("_copy:")).unwrap();
        line.split([',', ':']).find_map(|word| word.strip_prefix(name)?.parse().ok()).unwrap()
    };
    let (whole, median) = (number(&stats, "usec="), number(&latencies, "p50="));
    assert!(median > whole / 2.0, "{median} of {whole} us");
    // A client that goes while its value is prepared leaves nothing behind.
    for _ in 0..20 {
        let mut gone = running.connect();
        gone.send("SUNIONSTORE gone s t");
        drop(gone);
    }
    eventually(|| (client.ask("CLIENT LIST").lines().count() == 1).then_some(()));
}

#[test]
fn who_waits_for_a_list_gets_of_one_that_was_prepared() {
    let (running, mut client) = with_more(&["--threads", "1"]);
    let mut waiting = running.connect();
    waiting.send("BLPOP queue 0");
    eventually(|| client.ask("INFO clients").contains("blocked_clients:1\r\n").then_some(()));
    assert_eq!(client.ask("SORT l STORE queue"), format!(":{ELEMENTS}"));
    assert_eq!(waiting.reply(), "*[$queue $0]");
    assert_eq!(client.ask("LLEN queue"), format!(":{}", ELEMENTS - 1));
}
