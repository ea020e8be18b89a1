//! `tarn import` and `tarn export` against the real `redis-server`, key by key, and the input that they
//! refuse.
//!
//! ```text
//!   redis-server ──SAVE──> dump.rdb ──tarn import──> tarn serve   =   redis-server
//!   tarn serve, stopped ──tarn export──> dump.rdb ──> another redis-server   =   the first
//! ```
//!
//! `TARN_KEYS` says how many keys go both ways, `TARN_SEED` draws others. Where no `redis-server` is
//! installed these are not checked.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "scripts/client.rs"]
mod client;
#[path = "scripts/reply.rs"]
mod reply;
mod running;
#[path = "scripts/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use client::Client;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reply::Reply;
use running::{Folder, eventually, free_port};
use tarn_rdb::{Kind, Writer};

/// Databases that keys are put into.
const DATABASES: [u64; 3] = [0, 1, 15];
/// Commands that are sent together.
const AT_ONCE: usize = 500;

/// Runs `tarn`; its exit code, and both of its outputs.
fn tarn(words: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tarn"));
    let Output { status, stdout, stderr } = command.args(words).output().unwrap();
    let said = String::from_utf8(stdout).unwrap() + &String::from_utf8(stderr).unwrap();
    println!("{}{said}", words.iter().map(|word| format!("{word} ")).collect::<String>());
    (status.code().unwrap(), said)
}

fn import(folder: &Folder, file: &Path, more: &[&str]) -> (i32, String) {
    tarn(&[&["import", "--dir", text(&folder.path("")), text(file)], more].concat())
}

fn export(folder: &Folder, file: &Path, more: &[&str]) -> (i32, String) {
    tarn(&[&["export", "--dir", text(&folder.path("")), text(file)], more].concat())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// All files below a folder with their content, but for locks, which say nothing.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(files(&path));
        } else if path.extension().is_none_or(|ending| ending != "lock") {
            all.insert(path.clone(), std::fs::read(&path).unwrap());
        }
    }
    all
}

/// A running `redis-server`; dropping it kills it.
struct Redis {
    child: Child,
    client: Client,
}

impl Redis {
    /// Starts one that loads `dump.rdb` in the folder, if it is there.
    fn start(folder: &Folder) -> Redis {
        let port = free_port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--save", "", "--enable-debug-command", "yes", "--dir"]);
        command.arg(folder.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().unwrap();
        Redis { child, client: connected(&port) }
    }

    fn is_installed() -> bool {
        let installed = Command::new("redis-server").arg("--version").stdout(Stdio::null()).status().is_ok();
        if !installed {
            println!("redis-server is not installed, nothing is checked");
        }
        installed
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Connects to a server as soon as it has loaded its data.
fn connected(port: &str) -> Client {
    let address = format!("127.0.0.1:{port}");
    eventually(|| {
        let mut client = Client::connect(&address).ok()?;
        (client.ask(&["PING"]).ok()? == Reply::Simple("PONG".into())).then_some(client)
    })
}

fn ask(client: &mut Client, request: &str) -> String {
    client.ask(&request.split(' ').collect::<Vec<_>>()).unwrap().line()
}

/// The replies to many requests, sent some at a time.
fn ask_all(client: &mut Client, requests: &[Vec<Vec<u8>>]) -> Vec<Reply> {
    let mut replies = Vec::with_capacity(requests.len());
    for some in requests.chunks(AT_ONCE) {
        let mut bytes = Vec::new();
        for words in some {
            bytes.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                bytes.extend_from_slice(word);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        client.send_raw(&bytes).unwrap();
        replies.extend(some.iter().map(|_| client.receive().unwrap()));
    }
    replies
}

fn request(words: &[&[u8]]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.to_vec()).collect()
}

/// The number in the environment, or this one.
fn from_environment(name: &str, otherwise: u64) -> u64 {
    let number = std::env::var(name).map_or(otherwise, |number| number.parse().unwrap());
    println!("{name}={number}");
    number
}

fn word(random: &mut SmallRng) -> Vec<u8> {
    match random.random_range(0..6) {
        0 => random.random_range(-70_000..70_000_i64).to_string().into_bytes(),
        1 => b"abc".repeat(random.random_range(0..60)),
        2 => (0..random.random_range(1..100)).map(|_| random.random()).collect(),
        _ => format!("word {}", random.random_range(0..1_000_000)).into_bytes(),
    }
}

/// The commands that make a key: most are small, some have many elements, a third expires, in an hour or
/// later.
fn make(number: u64, random: &mut SmallRng, now_ms: u64) -> Vec<Vec<Vec<u8>>> {
    let key = key(number);
    let len = match random.random_range(0..1000) {
        0 => 3000,
        1..10 => 200,
        _ => random.random_range(1..12),
    };
    let words: Vec<Vec<u8>> = (0..len).map(|_| word(random)).collect();
    let (command, words) = match random.random_range(0..6) {
        0 | 1 => ("SET", words[..1].to_vec()),
        2 => ("RPUSH", words),
        3 => ("SADD", words),
        4 => {
            let score = |random: &mut SmallRng| (random.random::<f64>() * 1e6 - 5e5).to_string().into_bytes();
            ("ZADD", words.into_iter().flat_map(|word| [score(random), word]).collect())
        }
        _ => ("HSET", words.into_iter().flat_map(|field| [field.clone(), word(random)]).collect()),
    };
    let mut requests = vec![[vec![command.as_bytes().to_vec(), key.clone()], words].concat()];
    if random.random_range(0..3) == 0 {
        let at = (now_ms + 3_600_000 + random.random_range(0..1_000_000_000)).to_string();
        requests.push(request(&[b"PEXPIREAT", &key, at.as_bytes()]));
    }
    requests
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number}").into_bytes()
}

fn fill(client: &mut Client, keys: u64) {
    let mut random = SmallRng::seed_from_u64(from_environment("TARN_SEED", 1));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    for database in DATABASES {
        assert_eq!(ask(client, &format!("SELECT {database}")), "OK");
        for from in (0..keys / 3).step_by(AT_ONCE) {
            let numbers = from..(from + AT_ONCE as u64).min(keys / 3);
            let make = |number| make(number, &mut random, now.as_millis() as u64);
            let requests: Vec<_> = numbers.flat_map(make).collect();
            for reply in ask_all(client, &requests) {
                assert!(!matches!(reply, Reply::Error(_)), "{}", reply.line());
            }
        }
    }
}

/// Every key of one server is on the other, with the same value and expiry, and nothing else is.
fn assert_same(one: &mut Client, other: &mut Client, keys: u64) {
    for database in DATABASES {
        for client in [&mut *one, &mut *other] {
            assert_eq!(ask(client, &format!("SELECT {database}")), "OK");
            assert_eq!(ask(client, "DBSIZE"), format!("(integer) {}", keys / 3));
        }
        for from in (0..keys / 3).step_by(AT_ONCE) {
            let numbers = from..(from + AT_ONCE as u64).min(keys / 3);
            let about = |number| {
                let key = key(number);
                [request(&[b"DEBUG", b"DIGEST-VALUE", &key]), request(&[b"PEXPIRETIME", &key])]
            };
            let requests: Vec<_> = numbers.flat_map(about).collect();
            let (one, other) = (ask_all(one, &requests), ask_all(other, &requests));
            for (request, (one, other)) in requests.iter().zip(one.iter().zip(&other)) {
                let words: Vec<_> = request.iter().map(|word| word.escape_ascii().to_string()).collect();
                assert_eq!(one, other, "database {database}: {words:?}");
            }
        }
    }
    let (one, other) = (ask(one, "DEBUG DIGEST"), ask(other, "DEBUG DIGEST"));
    assert_eq!(one, other);
    assert!(!one.contains(&"0".repeat(40)));
}

/// A file of two strings in each database of this list.
fn small_file(databases: &[u64]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new()).unwrap();
    for database in databases {
        writer.begin_database(*database, 2, 0).unwrap();
        put(&mut writer, b"greeting", None, b"hello, world");
        put(&mut writer, b"other", None, b"something else");
    }
    writer.finish().unwrap()
}

fn put(writer: &mut Writer<Vec<u8>>, key: &[u8], expiry_ms: Option<u64>, value: &[u8]) {
    let mut out = writer.begin_value(key, expiry_ms, Kind::String, 1).unwrap();
    out.element(value).unwrap();
    out.finish();
}

#[test]
fn all_that_redis_has_goes_to_tarn_and_back() {
    if !Redis::is_installed() {
        return;
    }
    let keys = from_environment("TARN_KEYS", 21_000) / 3 * 3;
    let (of_redis, folder, back) = (Folder::new(), Folder::new(), Folder::new());
    let mut redis = Redis::start(&of_redis);
    fill(&mut redis.client, keys);
    // In a database of their own.
    ask(&mut redis.client, "SELECT 7");
    for number in 1..=300 {
        ask(&mut redis.client, &format!("XADD key:stream {number}-1 field {number} other value"));
    }
    for change in [
        "XDEL key:stream 7-1",
        "XGROUP CREATE key:stream group 0",
        "XREADGROUP GROUP group alice COUNT 20 STREAMS key:stream >",
        "XADD key:empty 5-1 a b",
        "XDEL key:empty 5-1",
    ] {
        ask(&mut redis.client, change);
    }
    ask(&mut redis.client, "SELECT 0");
    let all = keys + 2;
    assert_eq!(ask(&mut redis.client, "SAVE"), "OK");
    let (code, said) = import(&folder, &of_redis.path("dump.rdb"), &[]);
    assert_eq!(code, 0);
    assert!(said.starts_with(&format!("imported {all} keys in ")) && !said.contains("left out"), "{said}");

    // With a log, which continues from the imported data.
    let port = free_port().to_string();
    let args = ["--port", &port, "--enable-debug-command", "yes", "--save", ""];
    let server = folder.serve(&args);
    let mut client = connected(&port);
    assert_same(&mut redis.client, &mut client, keys);
    let changes = ["SELECT 1", "SET key:new value", "DEL key:gone", "SELECT 0", "HSET key:hash field value"];
    for change in changes {
        ask(&mut client, change);
        ask(&mut redis.client, change);
    }
    assert!(server.terminate().success());

    let before = files(&folder.path(""));
    let file = back.path("dump.rdb");
    let (code, said) = export(&folder, &file, &[]);
    assert_eq!(code, 0);
    assert!(said.starts_with(&format!("exported {} keys in ", all + 2)), "{said}");
    assert!(files(&folder.path("")) == before, "an export changes nothing");
    let written = [("10", b"REDIS0010"), ("11", b"REDIS0011"), ("12", b"REDIS0012"), ("80", b"VALKEY080")];
    for (version, magic) in written {
        let (newer, again) = (back.path("newer.rdb"), Folder::new());
        assert_eq!(export(&folder, &newer, &["--rdb-version", version]).0, 0);
        assert!(std::fs::read(&newer).unwrap().starts_with(magic));
        assert_eq!(import(&again, &newer, &[]).0, 0, "version {version} is read");
    }
    let (code, said) = export(&folder, &file, &["--rdb-version", "13"]);
    assert!(code == 2 && said.contains("the versions are 9, 10, 11, 12, 80"), "{said}");
    let mut second = Redis::start(&back);
    assert_eq!(ask(&mut second.client, "DEBUG DIGEST"), ask(&mut redis.client, "DEBUG DIGEST"));
    for question in [
        "SELECT 7",
        "XLEN key:stream",
        "XRANGE key:stream - +",
        "XPENDING key:stream group",
        "XLEN key:empty",
    ] {
        assert_eq!(ask(&mut second.client, question), ask(&mut redis.client, question));
    }
    // The form of Redis 5, which every Redis loads, does not say what is gone.
    let head = ask(&mut second.client, "XINFO STREAM key:stream");
    assert!(head.contains("\"entries-added\", (integer) 299") && head.contains("\"0-0\""), "{head}");
    [&mut second.client, &mut redis.client].into_iter().for_each(|client| _ = ask(client, "SELECT 0"));
    for change in ["SELECT 1", "DEL key:new", "SELECT 0", "DEL key:hash"] {
        ask(&mut second.client, change);
        ask(&mut redis.client, change);
    }
    assert_same(&mut redis.client, &mut second.client, keys);
}

#[test]
fn what_tarn_cannot_hold_is_refused_or_left_out_and_counted() {
    if !Redis::is_installed() {
        return;
    }
    let (of_redis, folder) = (Folder::new(), Folder::new());
    let mut redis = Redis::start(&of_redis);
    for request in ["DEBUG SET-ACTIVE-EXPIRE 0", "SET gone value PX 1", "SET here value"] {
        ask(&mut redis.client, request);
    }
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    redis.client.ask(&["FUNCTION", "LOAD", library]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(10));
    assert_eq!(ask(&mut redis.client, "SAVE"), "OK");
    let file = of_redis.path("dump.rdb");
    // A value of a module stands before the end.
    let mut bytes = std::fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 9);
    bytes.extend_from_slice(b"\x07\x06module\x81\x12\x34\x56\x78\x9a\xbc\xde\xf0\x02\x05\x00\xff");
    bytes.extend_from_slice(&tarn_rdb::crc64(&bytes).to_le_bytes());
    std::fs::write(&file, &bytes).unwrap();
    let (code, said) = import(&folder, &file, &[]);
    assert_eq!(code, 1);
    let refusal = "holds a value of the module type EjRWeJq83 at byte ";
    assert!(said.contains(refusal) && said.contains("--skip-unsupported"), "{said}");
    assert!(files(&folder.path("")).is_empty());
    let (code, said) = import(&folder, &file, &["--skip-unsupported"]);
    assert_eq!(code, 0);
    let left_out = ["1 keys that had expired", "1 values of modules"];
    let left_out: String = left_out.iter().map(|what| format!("left out: {what}\n")).collect();
    assert!(said.starts_with("imported 1 keys in ") && said.ends_with(&left_out), "{said}");
    let port = free_port().to_string();
    let _server = folder.serve(&["--port", &port]);
    let mut client = connected(&port);
    assert_eq!(
        (ask(&mut client, "DBSIZE"), ask(&mut client, "GET here")),
        ("(integer) 1".into(), "\"value\"".into())
    );
}

#[test]
fn a_spoilt_file_is_refused_and_the_directory_is_as_before() {
    let (folder, given) = (Folder::new(), Folder::new());
    let whole = small_file(&[0, 3]);
    let mut twice = Writer::new(Vec::new()).unwrap();
    twice.begin_database(0, 2, 0).unwrap();
    [b"one", b"two", b"one"].iter().for_each(|key| put(&mut twice, *key, None, b"value"));
    let mut spoilt: Vec<(String, Vec<u8>)> = vec![
        ("the key \"one\" is there twice".into(), twice.finish().unwrap()),
        ("tells of database 16 before byte ".into(), small_file(&[0, 16])),
        ("tells of database 1000 before byte ".into(), small_file(&[1000])),
        ("is no RDB file".into(), b"something else".to_vec()),
        ("goes on behind its end, at byte ".into(), [&whole[..], b"*1\r\n"].concat()),
    ];
    spoilt.extend((9..whole.len()).map(|len| (format!("ends at byte {len}, "), whole[..len].to_vec())));
    // Every byte after the version, wrong: only the checksum finds some of these.
    for at in 9..whole.len() {
        let mut file = whole.clone();
        file[at] ^= 1;
        spoilt.push(("byte ".into(), file));
    }
    let file = given.path("dump.rdb");
    for (reason, bytes) in spoilt {
        std::fs::write(&file, bytes).unwrap();
        let (code, said) = import(&folder, &file, &[]);
        assert_eq!(code, 1, "{said}");
        assert!(said.starts_with(&format!("tarn: {}: ", text(&file))) && said.contains(&reason), "{said}");
        assert_eq!(std::fs::read_dir(folder.path("")).unwrap().count(), 0, "{said}");
    }
    std::fs::write(&file, small_file(&[0, 16])).unwrap();
    assert_eq!(import(&folder, &file, &["--databases", "17"]).0, 0);
}

#[test]
fn the_help_names_the_words_that_serve_takes() {
    let (code, said) = tarn(&["export", "--help"]);
    let words = said.lines().skip_while(|line| !line.contains("--appendonly <yes|no>")).take(4);
    let words: String = words.collect();
    assert!(code == 0 && words.contains("[default: yes]") && !words.contains("true"), "{said}");
}

#[test]
fn data_that_is_there_is_never_imported_over() {
    let (folder, given) = (Folder::new(), Folder::new());
    let file = given.path("dump.rdb");
    std::fs::write(&file, small_file(&[0])).unwrap();
    let (code, said) = import(&folder, &given.path("missing"), &[]);
    assert!(code == 2 && said.starts_with("tarn: cannot open "), "{said}");
    let nowhere = given.path("nowhere");
    let (code, said) = tarn(&["import", "--dir", text(&nowhere), text(&file)]);
    assert!(code == 1 && said.starts_with("tarn: cannot use data directory "), "{said}");
    assert!(said.trim_end().ends_with("; create it, or name another with --dir"), "{said}");
    assert!(!nowhere.exists());

    let port = free_port().to_string();
    let server = folder.serve(&["--port", &port]);
    assert_eq!(ask(&mut connected(&port), "SET key value"), "OK");
    for (code, said) in [import(&folder, &file, &[]), export(&folder, &given.path("out"), &[])] {
        assert!(code == 1 && said.ends_with(" is in use by another server\n"), "{said}");
    }
    assert!(server.terminate().success());
    let refuses = |what: &str| {
        let before = files(&folder.path(""));
        let (code, said) = import(&folder, &file, &[]);
        assert!(code == 1 && said.contains(&format!(" holds {what}: ")), "{said}");
        assert!(files(&folder.path("")) == before);
    };
    refuses("a log");
    std::fs::remove_dir_all(folder.path("log")).unwrap();
    assert_eq!(import(&folder, &file, &[]).0, 0);
    refuses("a checkpoint");
    let fresh = Folder::new();
    let (code, said) = export(&fresh, &given.path("out"), &[]);
    assert!(code == 1 && said.contains(" holds neither a checkpoint nor a log"), "{said}");
    assert!(std::fs::read_dir(fresh.path("")).unwrap().next().is_none() && !given.path("out").exists());
}

#[test]
fn an_export_replaces_a_file_when_the_new_one_is_whole() {
    let (folder, given) = (Folder::new(), Folder::new());
    let file = given.path("dump.rdb");
    std::fs::write(&file, small_file(&[0, 3])).unwrap();
    assert_eq!(import(&folder, &file, &[]).0, 0);
    let out = given.path("out.rdb");
    std::fs::write(&out, "as it was").unwrap();
    let checkpoint = folder.path("checkpoints/checkpoint-1.tarn");
    let whole = std::fs::read(&checkpoint).unwrap();
    let mut spoilt = whole.clone();
    *spoilt.last_mut().unwrap() ^= 1;
    std::fs::write(&checkpoint, spoilt).unwrap();
    let (code, said) = export(&folder, &out, &[]);
    assert!(
        code == 1 && said.contains("the checkpoint is damaged in ") && said.contains(" at byte "),
        "{said}"
    );
    assert_eq!(std::fs::read(&out).unwrap(), b"as it was");
    assert_eq!(files(&given.path("")).len(), 2, "no unfinished file is left");
    std::fs::write(&checkpoint, whole).unwrap();
    let (code, said) = export(&folder, &out, &["--databases", "3"]);
    assert!(code == 1 && said.contains("start with --databases 4 or more"), "{said}");
    assert_eq!(export(&folder, &out, &[]).0, 0);
    assert_eq!(files(&given.path("")).len(), 2);
    // The exported file is read again, and is the same.
    let second = Folder::new();
    assert_eq!(import(&second, &out, &[]).0, 0);
    let digests = [&folder, &second].map(|folder| {
        let port = free_port().to_string();
        let _server = folder.serve(&["--port", &port, "--enable-debug-command", "yes"]);
        ask(&mut connected(&port), "DEBUG DIGEST")
    });
    assert_eq!(digests[0], digests[1]);
}

#[test]
fn times_of_fields_go_through_rdb_files() {
    let (folder, given) = (Folder::new(), Folder::new());
    let port = free_port().to_string();
    let more = ["--enable-debug-command", "yes"];
    let server = folder.serve(&[&["--port", &port][..], &more].concat());
    let mut client = connected(&port);
    for request in [
        "DEBUG SET-ACTIVE-EXPIRE 0",
        "HSET plain a 1 b 2",
        "HSET some a 1 b 2 c 3",
        "HPEXPIREAT some 33177117420001 FIELDS 1 a",
        "HPEXPIREAT some 33177117420000 FIELDS 1 c",
        "HSET over a 1 b 2",
        "HPEXPIRE over 1 FIELDS 1 a",
        "HSET gone a 1",
        "HPEXPIRE gone 1 FIELDS 1 a",
    ] {
        let reply = ask(&mut client, request);
        assert!(!reply.starts_with("(error)"), "{request}: {reply}");
    }
    std::thread::sleep(std::time::Duration::from_millis(10));
    let digest = ask(&mut client, "DEBUG DIGEST");
    assert!(server.terminate().success());
    let written: [(&[&str], &str); 3] = [
        (&[], "REDIS0012"),
        (&["--rdb-version", "11"], "REDIS0012"),
        (&["--rdb-version", "80"], "VALKEY080"),
    ];
    for (args, magic) in written {
        let (file, again) = (given.path("dump.rdb"), Folder::new());
        let (code, said) = export(&folder, &file, args);
        assert!(code == 0 && said.starts_with("exported 3 keys in "), "{said}");
        assert!(std::fs::read(&file).unwrap().starts_with(magic.as_bytes()), "{args:?}");
        let is_newer = said.contains("WARNING: the file has version 12, not ");
        assert_eq!(is_newer, magic == "REDIS0012", "{args:?}: {said}");
        assert_eq!(import(&again, &file, &[]).0, 0);
        let port = free_port().to_string();
        let _server = again.serve(&[&["--port", &port][..], &more].concat());
        let mut client = connected(&port);
        assert_eq!(ask(&mut client, "DEBUG DIGEST"), digest, "{args:?}");
        let times = ask(&mut client, "HPEXPIRETIME some FIELDS 3 a b c");
        assert_eq!(times, "[(integer) 33177117420001, (integer) -1, (integer) 33177117420000]");
        assert_eq!(ask(&mut client, "HGETALL over"), "[\"b\", \"2\"]");
    }
}

#[test]
fn times_of_fields_survive_in_the_rdb_file_of_a_server() {
    let folder = Folder::new();
    let (server, port) = serve_rdb(&folder, &NO_LOG);
    let mut client = connected(&port);
    ask(&mut client, "HSET plain a 1");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    assert!(std::fs::read(folder.path("dump.rdb")).unwrap().starts_with(b"REDIS0009"));
    ask(&mut client, "HSET some a 1 b 2");
    ask(&mut client, "HPEXPIREAT some 33177117420001 FIELDS 1 a");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    assert!(std::fs::read(folder.path("dump.rdb")).unwrap().starts_with(b"REDIS0012"));
    let digest = ask(&mut client, "DEBUG DIGEST");
    server.kill();
    let (_server, port) = serve_rdb(&folder, &NO_LOG);
    assert_eq!(ask(&mut connected(&port), "DEBUG DIGEST"), digest);
}

#[test]
fn an_export_of_a_torn_log_names_what_it_leaves_out() {
    let (folder, given) = (Folder::new(), Folder::new());
    let port = free_port().to_string();
    let server = folder.serve(&["--port", &port, "--appendfsync", "always"]);
    assert_eq!(ask(&mut connected(&port), "SET key value"), "OK");
    assert!(server.terminate().success());
    let out = given.path("out.rdb");
    let (code, said) = export(&folder, &out, &[]);
    assert!(code == 0 && !said.contains("WARNING"), "{said}");
    let file = folder.path("log/0000000001.tarnlog");
    let mut torn = std::fs::read(&file).unwrap();
    torn.extend([7; 100]);
    std::fs::write(&file, torn).unwrap();
    let (code, said) = export(&folder, &out, &[]);
    assert!(code == 0 && said.starts_with("exported 1 keys in "), "{said}");
    assert!(
        said.contains("WARNING: The log ended in the middle of a write: 100 bytes after record "),
        "{said}"
    );
}

/// Starts a server that writes RDB files; its port.
fn serve_rdb(folder: &Folder, more: &[&str]) -> (running::Server, String) {
    let port = free_port().to_string();
    let args = ["--port", &port, "--enable-debug-command", "yes", "--checkpoint-format", "rdb"];
    (folder.serve(&[&args[..], more].concat()), port)
}

const NO_LOG: [&str; 2] = ["--appendonly", "no"];

#[test]
fn what_save_writes_as_an_rdb_file_redis_loads_and_so_does_the_next_start() {
    if !Redis::is_installed() {
        return;
    }
    let keys = 9_000;
    let (folder, back) = (Folder::new(), Folder::new());
    for (stage, mode) in ["full", "fork"].into_iter().enumerate() {
        let (server, port) = serve_rdb(&folder, &[&NO_LOG[..], &["--checkpoint-mode", mode]].concat());
        let mut client = connected(&port);
        if stage == 0 {
            fill(&mut client, keys);
            assert_eq!(ask(&mut client, "SAVE"), "OK");
        } else {
            assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
            eventually(|| ask(&mut client, "INFO persistence").contains("rdb_saves:1").then_some(()));
        }
        let info = ask(&mut client, "INFO");
        for line in ["rdb_last_bgsave_status:ok", "rdb_changes_since_last_save:0", "total_forks:0"] {
            assert!(info.contains(line), "{line}: {info}");
        }
        let bytes = std::fs::metadata(folder.path("dump.rdb")).unwrap().len();
        assert!(info.contains(&format!("checkpoint_last_keys:{keys}")), "{info}");
        assert!(info.contains(&format!("checkpoint_last_bytes:{bytes}")), "{info}");
        let names = files(&folder.path("")).into_keys().collect::<Vec<_>>();
        assert_eq!(
            names,
            [folder.path("dump.rdb"), folder.path("messages")],
            "no checkpoint of another kind"
        );
        std::fs::copy(folder.path("dump.rdb"), back.path("dump.rdb")).unwrap();
        let mut redis = Redis::start(&back);
        assert_same(&mut redis.client, &mut client, keys);
        server.kill();
    }
    // The writes of the end, too.
    let (server, port) = serve_rdb(&folder, &[&NO_LOG[..], &["--save", "3600 1"]].concat());
    let mut client = connected(&port);
    assert_eq!(ask(&mut client, "SET added at-the-end"), "OK");
    let digest = ask(&mut client, "DEBUG DIGEST");
    assert!(server.terminate().success());
    std::fs::copy(folder.path("dump.rdb"), back.path("dump.rdb")).unwrap();
    assert_eq!(ask(&mut Redis::start(&back).client, "DEBUG DIGEST"), digest);
    let (_server, port) = serve_rdb(&folder, &NO_LOG);
    assert_eq!(ask(&mut connected(&port), "DEBUG DIGEST"), digest);
}

#[test]
fn an_rdb_file_that_cannot_be_written_leaves_the_last_and_says_why() {
    let folder = Folder::new();
    let (_server, port) = serve_rdb(&folder, &[&NO_LOG[..], &["--dbfilename", "named.rdb"]].concat());
    let mut client = connected(&port);
    assert_eq!(ask(&mut client, "SET a 1"), "OK");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    let (last, time) = (std::fs::read(folder.path("named.rdb")).unwrap(), ask(&mut client, "LASTSAVE"));
    std::fs::create_dir(folder.path("named.rdb.tmp")).unwrap();
    assert_eq!(ask(&mut client, "SET a 2"), "OK");
    let refusal = ask(&mut client, "SAVE");
    assert!(refusal.contains("cannot create ") && refusal.contains("named.rdb.tmp"), "{refusal}");
    let info = ask(&mut client, "INFO persistence");
    assert!(info.contains("rdb_last_bgsave_status:err") && info.contains("rdb_saves:1"), "{info}");
    assert_eq!(ask(&mut client, "LASTSAVE"), time);
    assert_eq!(std::fs::read(folder.path("named.rdb")).unwrap(), last);
    assert!(folder.messages().contains("Checkpoint failed: cannot create "), "{}", folder.messages());
    std::fs::remove_dir(folder.path("named.rdb.tmp")).unwrap();
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    assert_ne!(std::fs::read(folder.path("named.rdb")).unwrap(), last);
    let refusal = folder.refusal(&["--port", "0", "--dbfilename", "a/b"]);
    assert!(refusal.contains("just a filename"), "{refusal}");
}

#[test]
fn a_full_disk_leaves_the_last_rdb_file() {
    let folder = Folder::new();
    let Some(disk) = running::SmallDisk::mount(&folder, "small", "size=4m") else { return };
    let port = free_port().to_string();
    let rdb = ["--checkpoint-format", "rdb", "--rdbcompression", "no"];
    let args = [&["--port", &port, "--appendonly", "no", "--dir", disk.path()], &rdb[..]].concat();
    let _server = folder.serve(&args);
    let mut client = connected(&port);
    assert_eq!(ask(&mut client, "SETRANGE a 1000000 x"), "(integer) 1000001");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
    let last = std::fs::read(disk.0.join("dump.rdb")).unwrap();
    assert_eq!(ask(&mut client, "SETRANGE b 3000000 x"), "(integer) 3000001");
    let refusal = ask(&mut client, "SAVE");
    assert!(refusal.contains("cannot write ") && refusal.contains("No space left on device"), "{refusal}");
    assert_eq!(std::fs::read(disk.0.join("dump.rdb")).unwrap(), last);
    assert!(!disk.0.join("dump.rdb.tmp").exists());
    assert_eq!(ask(&mut client, "DEL b"), "(integer) 1");
    assert_eq!(ask(&mut client, "SAVE"), "OK");
}

#[test]
fn a_start_loads_an_rdb_file_only_where_nothing_else_is_and_says_so_if_not() {
    let folder = Folder::new();
    std::fs::write(folder.path("dump.rdb"), small_file(&[0])).unwrap();
    let size = |more: &[&str], format: &str| {
        let port = free_port().to_string();
        let args = ["--port", &port, "--checkpoint-format", format];
        let server = folder.serve(&[&args[..], more].concat());
        let size = ask(&mut connected(&port), "DBSIZE");
        server.kill();
        (size, folder.messages().contains("dump.rdb is not loaded: "))
    };
    let loaded = "(integer) 2".to_owned();
    assert_eq!(size(&NO_LOG, "rdb"), (loaded.clone(), false));
    assert_eq!(size(&NO_LOG, "tarn"), (loaded.clone(), false), "it has become a checkpoint");
    assert_eq!(size(&NO_LOG, "rdb"), (loaded.clone(), true), "which is there");
    assert_eq!(size(&[], "tarn"), (loaded.clone(), true));
    assert_eq!(size(&[], "rdb"), (loaded, true), "there is a log by now");
    // A file that is spoilt is no reason to begin with nothing.
    let mut spoilt = small_file(&[0]);
    *spoilt.last_mut().unwrap() ^= 1;
    let folder = Folder::new();
    std::fs::write(folder.path("dump.rdb"), spoilt).unwrap();
    let port = free_port().to_string();
    let refusal = folder.refusal(&["--port", &port, "--appendonly", "no", "--checkpoint-format", "rdb"]);
    assert!(refusal.contains("dump.rdb: ") && refusal.contains("move the file away"), "{refusal}");
}

#[test]
fn save_writes_the_version_that_is_asked_for() {
    let folder = Folder::new();
    let port = free_port().to_string();
    let args = ["--port", &port, "--checkpoint-format", "rdb", "--save", ""];
    let _server = folder.serve(&[&args[..], &NO_LOG].concat());
    let mut client = connected(&port);
    for change in ["XADD x 1-1 f v", "XADD x 2-1 f v", "XDEL x 2-1", "SET s value"] {
        ask(&mut client, change);
    }
    for (version, magic) in [("9", b"REDIS0009"), ("11", b"REDIS0011"), ("10", b"REDIS0010")] {
        assert_eq!(ask(&mut client, &format!("CONFIG SET rdb-version {version}")), "OK");
        assert_eq!(ask(&mut client, "SAVE"), "OK");
        assert!(std::fs::read(folder.path("dump.rdb")).unwrap().starts_with(magic), "version {version}");
    }
}
