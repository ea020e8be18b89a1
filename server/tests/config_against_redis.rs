//! `CONFIG GET`, `CONFIG SET` and glob patterns, compared with a real redis-server 7.0.
//!
//! Where no `redis-server` is on the PATH the tests say so and check nothing.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tarn_server::config::{
    Config, ConfigStore, Directive, Invocation, SetError, Shape, ValueError, directives, parse_serve_args,
};
use tarn_server::glob;

/// A redis-server of its own on a Unix socket, gone when dropped.
struct Redis {
    child: Child,
    connection: BufReader<UnixStream>,
    _dir: tempfile::TempDir,
}

#[derive(Debug, PartialEq)]
enum Reply {
    Text(Vec<u8>),
    Error(String),
    Array(Vec<Reply>),
}

impl Redis {
    /// A server with the default configuration, but for one limit; none if there is no redis-server here.
    fn start() -> Option<Self> {
        Self::start_with(&[]).map(|started| started.expect("redis-server starts by default"))
    }

    /// A server with these arguments; `Err` if it refuses them.
    fn start_with(args: &[&str]) -> Option<Result<Self, ()>> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("socket");
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(dir.path())
            // The default that protects the server here.
            .args(["--client-output-buffer-limit", "normal", "1073741824", "0", "0"])
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("no redis-server on the PATH: nothing is compared");
            return None;
        };
        let connection = loop {
            if let Ok(connection) = UnixStream::connect(&socket) {
                break BufReader::new(connection);
            }
            if child.try_wait().unwrap().is_some() {
                return Some(Err(()));
            }
            std::thread::yield_now();
        };
        Some(Ok(Self { child, connection, _dir: dir }))
    }

    fn call(&mut self, words: &[&[u8]]) -> Reply {
        let mut request = format!("*{}\r\n", words.len()).into_bytes();
        for word in words {
            request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            request.extend_from_slice(word);
            request.extend_from_slice(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).unwrap();
        self.reply()
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end().split_at(1);
        match kind {
            "+" | ":" => Reply::Text(rest.into()),
            "-" => Reply::Error(rest.to_owned()),
            "$" => {
                let mut text = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.connection.read_exact(&mut text).unwrap();
                text.truncate(text.len() - 2);
                Reply::Text(text)
            }
            "*" => Reply::Array((0..rest.parse().unwrap()).map(|_| self.reply()).collect()),
            _ => panic!("unexpected reply {line:?}"),
        }
    }

    fn texts(&mut self, words: &[&[u8]]) -> Vec<Vec<u8>> {
        let Reply::Array(items) = self.call(words) else { panic!("no array") };
        let text = |item| match item {
            Reply::Text(text) => text,
            other => panic!("no text: {other:?}"),
        };
        items.into_iter().map(text).collect()
    }

    fn config(&mut self, pattern: &str) -> BTreeMap<String, String> {
        let texts = self.texts(&[b"config", b"get", pattern.as_bytes()]);
        let lossy = |text: &Vec<u8>| String::from_utf8_lossy(text).into_owned();
        texts.chunks(2).map(|pair| (lossy(&pair[0]), lossy(&pair[1]))).collect()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tarn_config(store: &ConfigStore, pattern: &str) -> BTreeMap<String, String> {
    let lossy = |text: Vec<u8>| String::from_utf8_lossy(&text).into_owned();
    store.get(&[pattern]).into_iter().map(|(name, value)| (lossy(name), lossy(value))).collect()
}

/// Directives that Redis does not have.
const ONLY_TARN: [&str; 42] = [
    "analytics-max-memory",
    "analytics-threads",
    "auth-timeout",
    "background-latency-target-us",
    "backup-dir",
    "backup-max",
    "checkpoint-format",
    "checkpoint-mode",
    "checkpoint-pace",
    "index-max-memory",
    "log-backlog-limit",
    "log-compaction",
    "log-compaction-bytes-per-second",
    "log-compaction-file-percentage",
    "log-compaction-log-percentage",
    "log-compaction-min-size",
    "log-compression",
    "log-dir",
    "log-file-size",
    "log-flushes-in-flight",
    "log-scrub-bytes-per-second",
    "metrics-auth",
    "metrics-bind",
    "metrics-port",
    "metrics-tls",
    "metrics-tls-auth-clients",
    "proxy-protocol-from",
    "rdb-version",
    "requirepass-file",
    "serve-while-loading",
    "snapshot-algorithm",
    "sql-bind",
    "sql-export-dir",
    "sql-max-clients",
    "sql-port",
    "sql-tls",
    "sql-tls-auth-clients",
    "threads",
    "tls-crl-file",
    "tls-required",
    "trust-local-clients",
    "view-memory-limit",
];

/// Newer names of directives of redis-server 7.0, and newer directives that Tarn obeys.
const NEWER_NAMES: [&str; 15] = [
    "aof-rewrite-cpulist",
    "bgsave-cpulist",
    "bio-cpulist",
    "commandlog-execution-slower-than",
    "commandlog-large-reply-max-len",
    "commandlog-large-request-max-len",
    "commandlog-reply-larger-than",
    "commandlog-request-larger-than",
    "commandlog-slow-execution-max-len",
    "primaryauth",
    "primaryuser",
    "server-cpulist",
    "stream-idmp-duration",
    "stream-idmp-maxsize",
    "tls-auth-clients-user",
];

/// Directives with other defaults here, or that the test sets for its own redis-server.
const OTHER_DEFAULT: [&str; 6] = ["appendonly", "bind", "dir", "port", "save", "unixsocket"];

#[test]
fn tarn_knows_every_directive_of_redis_with_the_same_default() {
    let Some(mut redis) = Redis::start() else { return };
    let theirs = redis.config("*");
    let mut ours = tarn_config(&ConfigStore::new(Config::default(), None), "*");
    ours.retain(|name, _| !NEWER_NAMES.contains(&name.as_str()));
    directives().filter(|row| row.is_newer()).for_each(|row| assert!(ours.remove(row.name).is_some()));
    let names = |map: &BTreeMap<String, String>| map.keys().cloned().collect::<BTreeSet<_>>();
    let missing: Vec<_> = names(&theirs).difference(&names(&ours)).cloned().collect();
    let added: Vec<_> = names(&ours).difference(&names(&theirs)).cloned().collect();
    assert_eq!(missing, Vec::<String>::new());
    assert_eq!(added, ONLY_TARN);
    for (name, value) in theirs.iter().filter(|(name, _)| !OTHER_DEFAULT.contains(&name.as_str())) {
        assert_eq!(&ours[name], value, "{name}");
    }
}

/// Directives that change what the comparison stands on, or the machine, when redis-server obeys them; inert
/// ones of which Tarn does not check the finer rules; and one that has names of later versions, which the
/// error tells.
const NOT_TRIED: [&str; 17] = [
    "activedefrag",
    "appendonly",
    "bind",
    "cluster-link-sendbuf-limit",
    "cluster-port",
    "dir",
    "jemalloc-bg-thread",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "oom-score-adj",
    "oom-score-adj-values",
    "port",
    "proc-title-template",
    "repl-backlog-size",
    "tls-port",
    "unixsocket",
];

/// Texts that some directive takes and others refuse.
const TEXTS: [&str; 40] = [
    "",
    "0",
    "1",
    "-1",
    "7",
    "03",
    " 5",
    "5 ",
    "+5",
    "-0",
    "1.5",
    "100",
    "101",
    "600",
    "65535",
    "65536",
    "2147483647",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "1b",
    "3k",
    "3kb",
    "2MB",
    "1gb",
    "1tb",
    "kb1",
    "50%",
    "101%",
    "%",
    "yes",
    "NO",
    "maybe",
    "60 1 30 2",
    "60 1  30 2",
    "60",
    "normal 1 2 3 replica 4kb 5 6",
    "50 99.9 100",
    "a b",
];

/// The answer of Tarn to `CONFIG SET`, as text; `None` where it refuses a thing that it does not do.
fn tarn_set(store: &ConfigStore, name: &str, text: &str) -> Option<Reply> {
    match store.set(&[(name, text)]) {
        Ok(_) => Some(Reply::Text(b"OK".to_vec())),
        Err(SetError::Value { reason: ValueError::Unsupported { .. }, .. }) => None,
        Err(error) => Some(Reply::Error(format!("ERR {error}"))),
    }
}

/// Texts that redis-server takes for numbers because of how C reads them, and Tarn does not.
fn is_taken_by_c_only(directive: &Directive, text: &str) -> bool {
    match directive.shape {
        Shape::Memory { .. } | Shape::MemoryOrPercent => text.is_empty(),
        _ => directive.name == "save" && text == "5 ",
    }
}

fn is_comparable(directive: &Directive) -> bool {
    !directive.is_newer()
        && !NOT_TRIED.contains(&directive.name)
        && !ONLY_TARN.contains(&directive.name)
        && !directive.name.starts_with("tls-")
        && !directive.name.starts_with("cluster-announce")
        && !directive.name.ends_with("cpulist")
        && !directive.name.starts_with("commandlog-")
        && !directive.name.starts_with("stream-idmp-")
        && directive.name != "replicaof"
}

#[test]
fn config_set_answers_and_config_get_shows_what_redis_does() {
    let Some(mut redis) = Redis::start() else { return };
    let store = ConfigStore::new(Config::default(), None);
    store.set(&[("save", "3600 1 300 100 60 10000")]).unwrap();
    let mut differences = Vec::new();
    for directive in directives().filter(|directive| is_comparable(directive)) {
        for text in TEXTS.iter().filter(|text| !is_taken_by_c_only(directive, text)) {
            let Some(ours) = tarn_set(&store, directive.name, text) else { continue };
            let theirs = redis.call(&[b"config", b"set", directive.name.as_bytes(), text.as_bytes()]);
            let shown = (tarn_config(&store, directive.name), redis.config(directive.name));
            if ours != theirs || shown.0 != shown.1 {
                differences.push(format!("{} {text:?}: {ours:?} {theirs:?} {shown:?}", directive.name));
            }
        }
    }
    assert!(differences.is_empty(), "{}\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn globs_match_what_redis_matches() {
    let Some(mut redis) = Redis::start() else { return };
    let seed = 20_260_711;
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut word = |alphabet: &[u8], len_max: usize| -> Vec<u8> {
        let len = random.random_range(0..=len_max);
        (0..len).map(|_| alphabet[random.random_range(0..alphabet.len())]).collect()
    };
    let keys: BTreeSet<Vec<u8>> = (0..300).map(|_| word(b"aab-]^\\[*", 5)).collect();
    for key in &keys {
        redis.call(&[b"set", key, b""]);
    }
    for _ in 0..4000 {
        let pattern = word(b"aabAc-]]^\\[[**?", 8);
        let theirs: BTreeSet<Vec<u8>> = redis.texts(&[b"keys", &pattern]).into_iter().collect();
        let ours: BTreeSet<Vec<u8>> = keys
            .iter()
            .filter(|key| glob::is_everything(&pattern) || glob::matches(&pattern, key))
            .cloned()
            .collect();
        assert_eq!(ours, theirs, "{:?}", String::from_utf8_lossy(&pattern));
    }
}

/// Arguments for both servers, some of which both must refuse.
const COMMAND_LINES: [&[&str]; 28] = [
    &["--save", "60 1"],
    &["--save", "60 1 30 2"],
    &["--save", "60 1", "30", "2"],
    &["--save", "60", "1", "--save", "30", "1"],
    &["--save", ""],
    &["--save", "", "--save", "60", "1"],
    &["--save"],
    &["--save", "--hz", "20"],
    &["--save", "60", "1", "--hz", "20", "--save", "30", "1"],
    &["--save", "60"],
    &["--save 60 1"],
    &["--save 60 1", "30", "2"],
    &["--hz 20", "--timeout", "5"],
    &["--HZ", "20"],
    &["--hz", "20 "],
    &["--hz", "20", "30"],
    &["--hz", "\"20\""],
    &["--hz"],
    &["--hz=20"],
    &["--hz", "20", "-x"],
    &["--hz", "20", "--"],
    &["--"],
    &["--logfile", "--hz", "20"],
    &["--masterauth", "--hz"],
    &["--client-output-buffer-limit", "normal 1 2 3"],
    &["--client-output-buffer-limit", "normal", "1", "2", "3", "replica", "4kb", "5", "6"],
    &["--appendfilename", "a \"b"],
    &["--no-such-thing", "1"],
];

#[test]
fn command_lines_are_taken_and_refused_as_redis_does() {
    for args in COMMAND_LINES {
        let Some(theirs) = Redis::start_with(args) else { return };
        // As for redis-server, an option stands before them: the first argument is not a file.
        let words = ["--port", "0", "--dir", "/tmp"].iter().chain(args).map(Into::into);
        match (theirs, parse_serve_args(words)) {
            (Ok(mut redis), Ok(Invocation::Serve(loaded))) => {
                let store = ConfigStore::new(loaded.config, None);
                for name in ["hz", "timeout", "client-output-buffer-limit", "appendfilename", "masterauth"] {
                    assert_eq!(tarn_config(&store, name), redis.config(name), "{args:?}");
                }
                if args.iter().any(|arg| arg.starts_with("--save")) {
                    assert_eq!(tarn_config(&store, "save"), redis.config("save"), "{args:?}");
                }
            }
            (Err(()), Err(_)) => {}
            (theirs, ours) => panic!("{args:?}: {ours:?}, but redis-server starts: {}", theirs.is_ok()),
        }
    }
}
