//! Lives of a server under random pipelines of several clients, and an operator who declares, saves, copies
//! and changes the configuration meanwhile.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tarn_resp::Frame;

use crate::client::{Client, Silence};
use crate::commands_of;
use crate::running::{Running, eventually};
use crate::words::{BEGINNING, Known, Words, encode, request, show};

/// The number of pipelines that each client sends in a life of the server.
const PIPELINES: usize = 30;

/// Commands that end a server or wait for ever. The commands of an operator are not random.
const LEFT_OUT: &[&str] = &[
    "shutdown",
    "debug",
    "debug|panic",
    "debug|sleep",
    "debug|set-active-expire",
    "debug|steps-from",
    "debug|set-disable-deny-scripts",
    "debug|set-skip-checksum-validation",
    // They keep the store for themselves for long.
    "debug|reload",
    "debug|loadaof",
    "debug|populate",
    "config|set",
    // They may leave nobody who may do anything.
    "acl|setuser",
    "acl|load",
    "backup",
    // They are answered by a reply for each channel.
    "subscribe",
    "psubscribe",
    "ssubscribe",
    "unsubscribe",
    "punsubscribe",
    "sunsubscribe",
    "monitor",
    // It replies a message, or an attribute before its reply.
    "debug|protocol",
    // It would fill the log of messages.
    "debug|log",
    // Messages come between its replies.
    "client|tracking",
];

/// One client: its requests, and those of the last pipelines, for a person who has to find a fault.
struct Disturber<'l> {
    port: u16,
    rng: SmallRng,
    commands: &'l [Known],
    told: Vec<String>,
}

fn words(words: &[&str]) -> Words {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Lets a command that may wait do so for a moment only.
fn bounded(mut words: Words) -> Words {
    let name = words[0].to_ascii_lowercase();
    let last = words.len() - 1;
    if name == b"migrate" && last >= 5 {
        // Nobody listens there, and no name is looked up.
        for (at, word) in [(1, "127.0.0.1"), (2, "1"), (5, "5")] {
            words[at] = word.as_bytes().to_vec();
        }
        return words;
    }
    let (at, timeout) = match name.as_slice() {
        b"blpop" | b"brpop" | b"blmove" | b"brpoplpush" | b"bzpopmin" | b"bzpopmax" => (last, "0.005"),
        b"blmpop" | b"bzmpop" => (1, "0.005"),
        b"wait" | b"waitaof" => (last, "5"),
        b"client" if last >= 2 && words[1].eq_ignore_ascii_case(b"pause") => (2, "3"),
        _ => return words,
    };
    if at > 0 && at <= last {
        words[at] = timeout.as_bytes().to_vec();
    }
    words
}

impl Disturber<'_> {
    fn words(&mut self) -> Words {
        let pick = |rng: &mut SmallRng, of: &[&'static str]| *of.choose(rng).unwrap();
        let rng = &mut self.rng;
        match rng.random_range(0..60) {
            0..2 => words(&["MULTI"]),
            2..4 => words(&["EXEC"]),
            4 => words(&["WATCH", pick(rng, &["s", "l", "none"])]),
            5 => words(&["CLIENT", "REPLY", pick(rng, &["OFF", "SKIP", "ON"])]),
            6 => words(&["HELLO", pick(rng, &["2", "3"])]),
            7 => words(&["CLIENT", "DURABILITY", pick(rng, &["always", "everysec", "no", "default"])]),
            8 => words(BEGINNING.choose(rng).unwrap()),
            9 => words(&["JSON.SET", "j", "$", "{\"a\":1,\"b\":[1,2,{\"a\":null}]}"]),
            10 => {
                words(&["FT.SEARCH", pick(rng, &["i", "nothing"]), pick(rng, &["*", "@a:{1}", "@c:[0 9]"])])
            }
            11 => words(&["SQL", pick(rng, &["SELECT count(*) FROM h", "SELECT * FROM keyspace.keys"])]),
            _ => bounded(request(rng, self.commands)),
        }
    }

    /// Sends pipelines, each closed by a marker that has to come back.
    fn disturb(&mut self) -> Result<(), String> {
        let mut open: Option<Client> = None;
        for pipeline in 0..PIPELINES {
            let Some(mut client) = open.take().or_else(|| Client::try_connect(self.port)) else {
                return Err("nobody listens".to_owned());
            };
            let mut bytes = Vec::new();
            self.told.push(format!("-- pipeline {pipeline}"));
            for _ in 0..self.rng.random_range(1..20) {
                let words = self.words();
                encode(&words, &mut bytes);
                self.told.push(show(&words));
            }
            let marker = format!("marker-{pipeline}");
            for end in [&["DISCARD"][..], &["CLIENT", "REPLY", "ON"], &["RESET"], &["ECHO", &marker]] {
                encode(&words(end), &mut bytes);
            }
            client.send(&bytes);
            loop {
                match client.reply() {
                    Ok(Frame::Bulk(text)) if text == marker.as_bytes() => break open = Some(client),
                    Ok(_) => {}
                    // By `QUIT`, `CLIENT KILL`, or for want of a correct request.
                    Err(Silence::Closed) => break,
                    Err(Silence::Fault(fault)) => return Err(fault),
                }
            }
        }
        Ok(())
    }
}

/// An operator's commands meanwhile. The reader of the replies counts how often each kind of them was
/// accepted.
fn operate(port: u16, seed: u64, switches: bool, told: &mut Vec<String>) -> Result<(), String> {
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut open: Option<Client> = None;
    for round in 0..2 * PIPELINES {
        let Some(mut client) = open.take().or_else(|| Client::try_connect(port)) else {
            return Err("nobody listens".to_owned());
        };
        let backup = format!("backups/{round}");
        let request: &[&str] = match rng.random_range(0..28) {
            0 => &["BACKUP", &backup],
            1 => &["BGSAVE"],
            2 => &["BGREWRITEAOF"],
            3 => &["CONFIG", "SET", "appendfsync", "always"],
            4 => &["CONFIG", "SET", "appendfsync", "everysec"],
            5 => &["CONFIG", "SET", "appendfsync", "no"],
            6 => &["CONFIG", "SET", "slowlog-log-slower-than", "0"],
            7 => &["CONFIG", "SET", "hash-max-listpack-entries", "2", "zset-max-listpack-entries", "2"],
            8 => &["CONFIG", "SET", "hash-max-listpack-entries", "512", "list-max-listpack-size", "2"],
            9 => &["CONFIG", "SET", "latency-tracking", "no"],
            10 => &["CLIENT", "PAUSE", "2", "WRITE"],
            11 => &["CLIENT", "KILL", "TYPE", "normal"],
            12 => &["DEBUG", "DIGEST"],
            13 => &["FT.CREATE", "i", "PREFIX", "1", "h", "SCHEMA", "a", "TAG", "c", "NUMERIC", "SORTABLE"],
            14 => &["FT.DROPINDEX", "i"],
            15 => &["SQL", "CREATE EXTERNAL TABLE h (id TEXT, a INT, b TEXT) STORED AS HASH LOCATION 'h*'"],
            16 => &["SQL", "CREATE INDEX by_a ON h (a)"],
            17 => &["SQL", "DROP INDEX by_a"],
            18 => &["SQL", "DROP TABLE h"],
            19 => &["SQL", "SELECT a, count(*) FROM h WHERE a > 0 GROUP BY a"],
            20 if switches => &["CONFIG", "SET", "appendonly", "no"],
            21 if switches => &["CONFIG", "SET", "appendonly", "yes"],
            22 => &["CONFIG", "SET", "maxclients", "1000"],
            _ => &["INFO", "everything"],
        };
        told.push(show(&words(request)));
        match client.try_ask(request) {
            Ok(reply) => {
                let shown = reply.to_string();
                told.push(format!("  -> {}", &shown.chars().take(100).collect::<String>()));
                open = Some(client);
            }
            Err(Silence::Closed) => {}
            Err(Silence::Fault(fault)) => return Err(fault),
        }
    }
    Ok(())
}

/// Deletes keys that are going to expire soon, so that the content depends on no clock.
fn settle(client: &mut Client) {
    for db in 0..16 {
        client.ask(&["SELECT", &db.to_string()]);
        let Frame::Array(keys) = client.ask(&["KEYS", "*"]) else { panic!("KEYS answers with an array") };
        for key in keys {
            let Frame::Bulk(key) = key else { panic!("a key is a string") };
            let left = client.ask(&[&b"TTL"[..], &key]);
            if matches!(left, Frame::Integer(0..3600)) {
                client.ask(&[&b"DEL"[..], &key]);
            }
        }
    }
    client.ask(&["SELECT", "0"]);
}

/// All that is there: keys, tables and indexes.
fn held(client: &mut Client) -> [String; 3] {
    let requests: [&[&str]; 3] = [&["DEBUG", "DIGEST"], &["FT._LIST"], &["SQL", "SHOW TABLES"]];
    requests.map(|request| client.ask(request).to_string())
}

fn live(seed: u64) {
    let modes: [&[&str]; 4] = [
        &["--appendonly", "yes", "--appendfsync", "always"],
        &["--appendonly", "yes", "--appendfsync", "everysec"],
        &["--appendonly", "yes", "--appendfsync", "no"],
        &["--appendonly", "no"],
    ];
    let mode = modes[seed as usize % modes.len()];
    let threads = (1 + seed / modes.len() as u64 % 4).to_string();
    let switches = seed.is_multiple_of(3);
    let args = [mode, &["--threads", &threads, "--save", "3600 1"]].concat();
    let mut server = Running::start(&args);
    let mut client = Client::connect(server.port);
    let mut commands = commands_of(&mut client);
    commands.retain(|command| !LEFT_OUT.contains(&command.name.as_str()));
    BEGINNING.iter().for_each(|request| assert!(!client.ask(request).is_error(), "{request:?}"));
    if seed.is_multiple_of(2) {
        // What can runs in steps.
        assert!(!client.ask(&["DEBUG", "STEPS-FROM", "0"]).is_error());
    }
    let port = server.port;
    let faults = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let (commands, faults) = (&commands, &faults);
        for number in 0..4 {
            scope.spawn(move || {
                let rng = SmallRng::seed_from_u64(seed * 10 + number);
                let mut client = Disturber { port, rng, commands, told: Vec::new() };
                let result = client.disturb();
                faults.lock().unwrap().push((format!("client {number}"), result, client.told));
            });
        }
        scope.spawn(move || {
            let mut told = Vec::new();
            let result = operate(port, seed, switches, &mut told);
            faults.lock().unwrap().push(("operator".to_owned(), result, told));
        });
    });
    let faults = faults.into_inner().unwrap();
    let story = |what: &str| {
        let mut story = format!("seed {seed}, {args:?}: {what}\n{}", server.folder.messages());
        for (who, _, told) in &faults {
            let last = told[told.len().saturating_sub(60)..].join("\n  ");
            story += &format!("\n{who}, last:\n  {last}");
        }
        let _ = std::io::stderr().write_all(story.as_bytes());
        format!("seed {seed}: {what}")
    };
    let messages = server.folder.messages();
    assert!(!messages.contains("panicked"), "{}", story("a panic"));
    for (who, result, _) in &faults {
        assert!(result.is_ok(), "{}", story(&format!("{who}: {result:?}")));
    }
    let mut client = Client::connect(port);
    // A pause that a client asked for holds writes.
    client.ask(&["CLIENT", "UNPAUSE"]);
    settle(&mut client);
    let before = held(&mut client);
    // The log does not continue from a checkpoint that was taken while the log was off.
    let Frame::Array(said) = client.ask(&["CONFIG", "GET", "appendonly"]) else { panic!("an array") };
    server.args.extend(["--appendonly".to_owned(), said[1].to_string().replace('"', "")]);
    let is_killed = !switches && mode[1] == "yes" && seed.is_multiple_of(2);
    if is_killed {
        client.ask(&["CLIENT", "DURABILITY", "always"]);
        assert!(!client.ask(&["SET", "last", "1"]).is_error());
        assert_eq!(client.ask(&["DEL", "last"]), Frame::Integer(1));
        drop(client);
    } else {
        drop(client);
        let ended = server.server.take().unwrap().terminate();
        assert!(ended.success(), "{}", story("it did not end well"));
    }
    let messages = server.folder.messages();
    let started = catch_unwind(AssertUnwindSafe(|| {
        server.restart();
        Client::connect(port)
    }));
    let mut client =
        started.unwrap_or_else(|_| panic!("seed {seed}: no start\n{messages}\n{}", server.folder.messages()));
    let after = eventually(|| {
        let after = held(&mut client);
        (!after[0].contains("LOADING")).then_some(after)
    });
    assert_eq!(after, before, "seed {seed}: a start found something else\n{}", server.folder.messages());
}

#[test]
fn whatever_clients_send_a_server_goes_on_and_keeps_what_it_holds() {
    tarn_engine::io::seeds(tarn_engine::io::seed_count(16)).for_each(live);
}
