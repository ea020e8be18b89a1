//! `serve-while-loading` with the real program: clients that read all the while a server loads.

#![allow(clippy::unwrap_used)]

mod running;

use std::collections::BTreeMap;
use std::io::Write;

use running::{Connection, Running, eventually};

const KEYS: usize = 400;
const ROUNDS: usize = 1_500;
const STRINGS_AT_ONCE: usize = 100;

/// Sends requests of a round, and takes their replies.
fn pipeline(client: &mut Connection, requests: &[String]) {
    let bytes: String = requests.iter().map(|request| format!("{request}\r\n")).collect();
    client.0.get_mut().write_all(bytes.as_bytes()).unwrap();
    for request in requests {
        let reply = client.reply();
        assert!(!reply.starts_with('-'), "{request}: {reply}");
    }
}

/// Strings and hashes that hold the number of the round, changed again and again: hundreds of megabytes of
/// log that take a while to be loaded, and a few keys.
fn write(client: &mut Connection) {
    for round in 1..=ROUNDS {
        let padding = "x".repeat(900);
        let mut requests: Vec<String> =
            (0..KEYS).map(|key| format!("SET string:{key} {round}-{padding}")).collect();
        requests.extend((0..KEYS / 10).map(|key| format!("HSET hash:{key} round {round} twice {round}")));
        requests.extend((0..KEYS / 10).map(|key| format!("SET expires:{key} {round} PX 100")));
        for part in requests.chunks(STRINGS_AT_ONCE) {
            pipeline(client, part);
        }
    }
}

/// The round that a reply contains; `None` for `LOADING`.
fn round_of(reply: &str) -> Option<usize> {
    if reply.starts_with("-LOADING") {
        return None;
    }
    let text = reply.strip_prefix('$').unwrap_or_else(|| panic!("a value or LOADING, and not {reply}"));
    let (round, padding) = text.split_once('-').unwrap_or((text, ""));
    assert!(padding.is_empty() || padding.len() == 900 && padding.bytes().all(|byte| byte == b'x'));
    Some(round.parse().unwrap())
}

/// The replies while the server was loading.
#[derive(Default)]
struct Told {
    loading: usize,
    values: usize,
    /// Rounds that were not the last.
    earlier: usize,
    /// The newest round of each key: it must not go back.
    newest: BTreeMap<String, usize>,
}

impl Told {
    fn note(&mut self, key: &str, reply: &str) {
        let Some(round) = round_of(reply) else {
            self.loading += 1;
            return;
        };
        assert!((1..=ROUNDS).contains(&round), "{key}: {round}");
        let before = self.newest.insert(key.to_owned(), round).unwrap_or(0);
        assert!(before <= round, "{key} went from {before} back to {round}");
        self.values += 1;
        self.earlier += usize::from(round < ROUNDS);
    }
}

/// Asks for all keys until the server has loaded everything.
fn ask_all_the_while(client: &mut Connection) -> Told {
    let mut told = Told::default();
    loop {
        client.send("INFO persistence");
        let is_loading = client.reply().contains("loading:1");
        for key in (0..KEYS).step_by(7) {
            let name = format!("string:{key}");
            client.send(&format!("GET {name}"));
            let reply = client.reply();
            told.note(&name, &reply);
        }
        for key in 0..KEYS / 10 {
            let name = format!("hash:{key}");
            client.send(&format!("HMGET {name} round twice"));
            match client.reply() {
                reply if reply.starts_with("-LOADING") => told.loading += 1,
                reply => {
                    let fields = reply.strip_prefix("*[").and_then(|reply| reply.strip_suffix(']')).unwrap();
                    let (round, twice) = fields.split_once(' ').unwrap();
                    assert_eq!(round, twice, "{name}: one command wrote both");
                    told.note(&name, round);
                }
            }
            client.send(&format!("GET expires:{key}"));
            let reply = client.reply();
            let is_gone = !is_loading && reply == "$-1";
            assert!(is_gone || reply.starts_with("-LOADING") || reply == "$-1", "it has expired: {reply}");
        }
        client.send("EXISTS never:was");
        let reply = client.reply();
        assert!(reply.starts_with("-LOADING") || !is_loading || reply == ":0", "{reply}");
        if !is_loading {
            return told;
        }
    }
}

/// Kills the server and starts another one that serves while it loads, or not. Returns as soon as it answers.
fn restart(running: &mut Running, serves: &str) -> Connection {
    running.server.take().unwrap().kill();
    let port = running.port.to_string();
    let mut args = vec!["--port", &port, "--serve-while-loading", serves];
    args.extend(running.args.iter().map(String::as_str));
    running.server = Some(running.folder.serve(&args));
    running.connect()
}

fn assert_final(client: &mut Connection) {
    eventually(|| (client.whole("DBSIZE") == format!(":{}", KEYS + KEYS / 10)).then_some(()));
    for key in 0..KEYS {
        assert_eq!(round_of(&client.whole(&format!("GET string:{key}"))), Some(ROUNDS));
    }
    for key in 0..KEYS / 10 {
        let last = format!("*[${ROUNDS} ${ROUNDS}]");
        assert_eq!(client.whole(&format!("HMGET hash:{key} round twice")), last);
    }
}

#[test]
fn while_a_log_is_loaded_each_reply_is_a_value_that_was_or_loading() {
    let mut running = Running::start(&["--log-compaction", "none", "--appendfsync", "everysec"]);
    let mut client = running.connect();
    write(&mut client);
    assert_eq!(client.whole("WAITAOF 1 0 0"), "*[:1 :0]");

    let mut client = restart(&mut running, "yes");
    let told = ask_all_the_while(&mut client);
    assert!(told.earlier > 0, "{} values, {} LOADING: none while loading", told.values, told.loading);
    assert_final(&mut client);

    let mut client = restart(&mut running, "no");
    let told = ask_all_the_while(&mut client);
    assert_eq!(told.earlier, 0, "nothing is told before all is loaded");
    assert!(told.loading > 0);
    assert_final(&mut client);
}
