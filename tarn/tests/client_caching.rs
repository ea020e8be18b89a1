//! Client-side caching by chance: clients of every mode cache what they read, and forget what they are told
//! of. When all is quiet, what they still have is what the store has.
//!
//! A run prints its seed. The same seed gives the same commands; how the clients meet is up to the machine.

#![allow(clippy::unwrap_used)]

mod running;

use std::collections::HashMap;
use std::io::BufRead;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use running::{Connection, LIMIT, Running};

const KEYS: usize = 24;
const ROUNDS: u64 = 6;
const COMMANDS: usize = 400;
/// As long as nothing comes, there is nothing more to come.
const QUIET: Duration = Duration::from_millis(30);

/// The way in which a client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    All,
    NoLoop,
    OptIn,
    OptOut,
    Broadcast,
    Redirected,
}

const MODES: [Mode; 6] =
    [Mode::All, Mode::NoLoop, Mode::OptIn, Mode::OptOut, Mode::Broadcast, Mode::Redirected];

/// A client with a cache of replies to `GET`.
struct Caching {
    mode: Mode,
    connection: Connection,
    /// Where it is told, if not on its own connection.
    told: Option<Connection>,
    cache: HashMap<String, String>,
    /// How often it was told of keys, and of all of them.
    invalidations: (usize, usize),
}

impl Caching {
    fn connect(running: &Running, mode: Mode) -> Caching {
        let (mut connection, mut told) = (running.connect(), None);
        let options = match mode {
            Mode::All => String::new(),
            Mode::NoLoop => "NOLOOP".into(),
            Mode::OptIn => "OPTIN".into(),
            Mode::OptOut => "OPTOUT".into(),
            Mode::Broadcast => "BCAST PREFIX k1 PREFIX k2 PREFIX k0".into(),
            Mode::Redirected => {
                let mut other = running.connect();
                let id = other.ask("CLIENT ID");
                other.whole("SUBSCRIBE __redis__:invalidate");
                told = Some(other);
                format!("REDIRECT {}", &id[1..])
            }
        };
        if mode != Mode::Redirected {
            connection.whole("HELLO 3");
        }
        assert_eq!(connection.ask(&format!("CLIENT TRACKING ON {options}")), "+OK");
        Caching { mode, connection, told, cache: HashMap::new(), invalidations: (0, 0) }
    }

    /// Takes a message that begins with this line.
    fn take(&mut self, first: &str) -> bool {
        if first != ">2" {
            return false;
        }
        assert_eq!(self.connection.reply(), "$invalidate");
        let keys = self.connection.reply();
        self.forget(&keys);
        true
    }

    fn forget(&mut self, keys: &str) {
        let Some(keys) = keys.strip_prefix("*[") else {
            assert!(keys == "_" || keys == "$-1", "{keys:?} is no list of keys");
            self.invalidations.1 += 1;
            self.cache.clear();
            return;
        };
        for key in keys.trim_end_matches(']').split(' ') {
            self.invalidations.0 += 1;
            self.cache.remove(&key[1..]);
        }
    }

    fn ask(&mut self, command: &str) -> String {
        self.connection.send(command);
        loop {
            let reply = self.connection.reply();
            if !self.take(&reply) {
                return reply;
            }
        }
    }

    /// Takes all messages that have come, until none comes for a while.
    fn listen(&mut self) {
        while has_more(&mut self.connection) {
            let first = self.connection.reply();
            assert!(self.take(&first), "{first:?} is no message");
        }
        while self.told.as_mut().is_some_and(has_more) {
            let message = self.told.as_mut().unwrap().reply();
            let keys = message.strip_prefix("*[$message $__redis__:invalidate ").unwrap();
            let keys = keys[..keys.len() - 1].to_owned();
            self.forget(&keys);
        }
    }

    fn read(&mut self, random: &mut StdRng) {
        let (one, other) = (key(random), key(random));
        let mut caches = true;
        match self.mode {
            Mode::OptIn => {
                caches = random.random_bool(0.8);
                if caches {
                    assert_eq!(self.ask("CLIENT CACHING YES"), "+OK");
                }
            }
            Mode::OptOut => {
                caches = random.random_bool(0.8);
                if !caches {
                    assert_eq!(self.ask("CLIENT CACHING NO"), "+OK");
                }
            }
            _ => {}
        }
        let values = match random.random_range(0..10) {
            0..6 => vec![self.ask(&format!("GET {one}"))],
            6 => {
                let reply = self.ask(&format!("EVAL \"return redis.call('get', KEYS[1])\" 1 {one}"));
                vec![reply]
            }
            7 => {
                let reply = self.ask(&format!("MGET {one} {other}"));
                elements(&reply)
            }
            _ => {
                self.ask("MULTI");
                self.ask(&format!("GET {one}"));
                if random.random_bool(0.5) {
                    // What it changes itself in between.
                    if self.mode == Mode::NoLoop {
                        self.cache.remove(&other);
                    }
                    self.ask(&format!("SET {other} {}", random.random::<u16>()));
                    self.ask(&format!("GET {other}"));
                    let reply = self.ask("EXEC");
                    let values = elements(&reply);
                    vec![values[0].clone(), values[2].clone()]
                } else {
                    self.ask(&format!("GET {other}"));
                    let reply = self.ask("EXEC");
                    elements(&reply)
                }
            }
        };
        if !caches {
            return;
        }
        for (key, value) in [one, other].into_iter().zip(values) {
            if !value.starts_with('-') {
                self.cache.insert(key, value);
            }
        }
    }

    /// Changes something. Who is not told of its own changes forgets what they may be about.
    fn write(&mut self, random: &mut StdRng) {
        if self.mode == Mode::NoLoop {
            self.cache.clear();
        }
        let command = change(random);
        self.ask(&command);
    }
}

/// The elements of an array of strings without blanks.
fn elements(reply: &str) -> Vec<String> {
    let inside = reply.strip_prefix("*[").unwrap_or_else(|| panic!("{reply:?} is no array"));
    inside.trim_end_matches(']').split(' ').map(str::to_owned).collect()
}

fn key(random: &mut StdRng) -> String {
    format!("k{:02}", random.random_range(0..KEYS))
}

/// A command that may change keys. Keys of strings alone, so that every `GET` has a value.
fn change(random: &mut StdRng) -> String {
    let (one, other, value) = (key(random), key(random), random.random::<u16>());
    match random.random_range(0..100) {
        0..25 => format!("SET {one} {value}"),
        25..40 => format!("SET {one} {value} PX {}", random.random_range(1..40)),
        40..45 => format!("DEL {one} {other}"),
        45..52 => format!("MSET {one} {value} {other} x{value}"),
        52..57 => format!("RENAME {one} {other}"),
        57..62 => format!("COPY {one} {other} REPLACE"),
        62..67 => format!("PEXPIRE {one} {}", random.random_range(0..40)),
        67..70 => format!("PERSIST {one}"),
        70..75 => format!("APPEND {one} y"),
        75..80 => format!("GETDEL {one}"),
        80..84 => format!("MOVE {one} 1"),
        84..88 => format!("EVAL \"redis.call('set', KEYS[1], ARGV[1])\" 1 {one} {value}"),
        88..92 => format!("EVAL \"redis.call('set', '{one}', 1) redis.call('del', '{other}')\" 0"),
        92..97 => format!("SETRANGE {one} 1 z"),
        97 => "SWAPDB 0 1".into(),
        98 => "FLUSHDB".into(),
        _ => "FLUSHALL".into(),
    }
}

/// Whether something comes within a while.
fn has_more(connection: &mut Connection) -> bool {
    connection.0.get_mut().set_read_timeout(Some(QUIET)).unwrap();
    let more = connection.0.fill_buf().is_ok_and(|bytes| !bytes.is_empty());
    connection.0.get_mut().set_read_timeout(None).unwrap();
    more
}

/// Clients that only write, some of it in transactions.
fn write_only(connection: &mut Connection, random: &mut StdRng) {
    // They are done before the readers are, as a rule: so the caches are not empty in the end.
    for _ in 0..COMMANDS / 3 {
        if random.random_bool(0.1) {
            connection.whole("MULTI");
            for _ in 0..random.random_range(0..5) {
                connection.whole(&change(random));
            }
            connection.whole("EXEC");
        } else {
            connection.whole(&change(random));
        }
    }
}

/// Lets clients read and write; in the end none of them has a value that the store has not. Returns how often
/// they were told of keys, and of all of them.
fn nothing_stays_stale(args: &[&str]) -> (usize, usize) {
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let running = Running::start(args);
    let mut clients: Vec<Caching> = MODES.iter().map(|mode| Caching::connect(&running, *mode)).collect();
    let mut writers: Vec<Connection> = (0..2).map(|_| running.connect()).collect();
    let mut plain = running.connect();
    let mut compared = 0;
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (number, client) in clients.iter_mut().enumerate() {
                let mut random = StdRng::seed_from_u64(seed + 100 * round + number as u64);
                scope.spawn(move || {
                    for _ in 0..COMMANDS {
                        match random.random_range(0..10) {
                            0 => client.write(&mut random),
                            _ => client.read(&mut random),
                        }
                    }
                });
            }
            for (number, writer) in writers.iter_mut().enumerate() {
                let mut random = StdRng::seed_from_u64(seed + 100 * round + 50 + number as u64);
                scope.spawn(move || write_only(writer, &mut random));
            }
        });
        // Keys still expire meanwhile.
        let began = Instant::now();
        loop {
            clients.iter_mut().for_each(Caching::listen);
            let stale = clients.iter().find_map(|client| {
                let mut is_stale = |(key, value): &(&String, &String)| {
                    let now = plain.whole(&format!("GET {key}"));
                    *value != &now && !(*value == "_" && now == "$-1")
                };
                client.cache.iter().find(|cached| is_stale(cached)).map(|cached| (client.mode, cached))
            });
            let Some((mode, (key, value))) = stale else { break };
            assert!(began.elapsed() < LIMIT / 12, "{mode:?} still has {value:?} for {key}, seed {seed}");
        }
        compared += clients.iter().map(|client| client.cache.len()).sum::<usize>();
    }
    assert!(compared > 0, "nobody has cached anything");
    for client in &clients {
        assert!(client.invalidations.0 > 0, "{:?} was never told", client.mode);
    }
    let told = |(keys, all): (usize, usize), client: &Caching| {
        (keys + client.invalidations.0, all + client.invalidations.1)
    };
    clients.iter().fold((0, 0), told)
}

#[test]
fn no_cache_stays_stale() {
    nothing_stays_stale(&["--threads", "2", "--appendonly", "no", "--save", ""]);
}

#[test]
fn no_cache_stays_stale_when_the_table_is_full_and_replies_wait_for_the_disk() {
    let small = ["--threads", "2", "--appendfsync", "always", "--tracking-table-max-keys", "5"];
    nothing_stays_stale(&small);
}
