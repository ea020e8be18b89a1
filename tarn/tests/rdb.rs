//! RDB files and payloads against the real `redis-server`: what it writes is read, what is written it loads,
//! and `DUMP` and `RESTORE` carry every value between it and Tarn.
//!
//! ```text
//!   redis-server ──SAVE──> dump.rdb ──Reader──> values   =   what the server answers
//!   values ──Writer──> dump.rdb ──DEBUG RELOAD──> redis-server, what it answers   =   values
//!   redis-server ──DUMP──> payload ──RESTORE──> Tarn ──DUMP──> payload ──RESTORE──> redis-server
//! ```
//!
//! Without an installed `redis-server` nothing is checked. `TARN_SEED` draws other keys.

#![allow(clippy::unwrap_used, dead_code)]

#[path = "scripts/client.rs"]
mod client;
#[path = "../../rdb/tests/model/mod.rs"]
mod model;
#[path = "scripts/reply.rs"]
mod reply;
#[path = "scripts/server.rs"]
mod server;
#[path = "scripts/words.rs"]
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::Client;
use model::{Collected, Key, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reply::Reply;
use server::{Kind, Server};
use tarn_rdb::{Head, Reader, Skipped, Unsupported, Writer};

/// Databases that keys are put into.
const DATABASES: [u64; 3] = [0, 1, 15];

/// Directives that decide which encodings Redis keeps and writes.
const SETTINGS: &[&[(&str, &str)]] = &[
    &[("rdbcompression", "yes"), ("list-max-listpack-size", "-2"), ("set-max-intset-entries", "512")],
    &[
        ("rdbcompression", "no"),
        ("list-max-listpack-size", "3"),
        ("hash-max-listpack-entries", "0"),
        ("zset-max-listpack-entries", "0"),
        ("set-max-intset-entries", "0"),
    ],
    &[
        ("rdbcompression", "yes"),
        ("list-max-listpack-size", "-5"),
        ("list-compress-depth", "1"),
        ("hash-max-listpack-entries", "100000"),
        ("hash-max-listpack-value", "100000"),
        ("zset-max-listpack-entries", "100000"),
        ("zset-max-listpack-value", "100000"),
        ("set-max-intset-entries", "100000"),
    ],
];

/// A started `redis-server` and a connection to it; `None` where none is installed.
fn redis() -> Option<(Server, Client)> {
    if !Kind::Redis.is_installed() {
        println!("redis-server is not installed, nothing is checked");
        return None;
    }
    let server = Server::start(Kind::Redis).unwrap();
    let client = Client::connect(server.address()).unwrap();
    Some((server, client))
}

fn seed() -> u64 {
    let seed = std::env::var("TARN_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("TARN_SEED={seed}");
    seed
}

fn ask<W: AsRef<[u8]>>(client: &mut Client, words: &[W]) -> Reply {
    client.ask(words).unwrap()
}

fn ask_ok<W: AsRef<[u8]>>(client: &mut Client, words: &[W]) {
    assert_eq!(ask(client, words), Reply::Simple("OK".into()), "{}", text(words[0].as_ref()));
}

fn text(bytes: &[u8]) -> String {
    bytes[..bytes.len().min(80)].escape_ascii().to_string()
}

fn bulk(reply: Reply) -> Vec<u8> {
    match reply {
        Reply::Bulk(bytes) => bytes,
        other => panic!("{} is no bulk string", other.line()),
    }
}

fn bulks(reply: Reply) -> Vec<Vec<u8>> {
    match reply {
        Reply::Array(replies) => replies.into_iter().map(bulk).collect(),
        other => panic!("{} is no array", other.line()),
    }
}

fn select(client: &mut Client, database: u64) {
    ask_ok(client, &["SELECT", &database.to_string()]);
}

/// The file that the server saves to and loads from.
fn dump_file(client: &mut Client) -> PathBuf {
    let folder = bulks(ask(client, &["CONFIG", "GET", "dir"])).remove(1);
    PathBuf::from(String::from_utf8(folder).unwrap()).join("dump.rdb")
}

fn set_encodings(client: &mut Client, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        ask_ok(client, &["CONFIG", "SET", name, value]);
    }
}

/// Bytes of each form that encodings distinguish: numbers of all widths, texts that can be compressed and
/// others, nothing.
fn bytes(random: &mut SmallRng) -> Vec<u8> {
    match random.random_range(0..8) {
        0 => Vec::new(),
        1 => random.random_range(-20..300_i64).to_string().into_bytes(),
        2 => (random.random::<i64>() >> random.random_range(0..64)).to_string().into_bytes(),
        3 => b"abc".repeat(random.random_range(1..400)),
        4 => (0..random.random_range(1..300)).map(|_| random.random()).collect(),
        5 => vec![b'x'; random.random_range(1..20_000)],
        _ => format!("word {}", random.random_range(0..1_000_000)).into_bytes(),
    }
}

fn score(random: &mut SmallRng) -> f64 {
    match random.random_range(0..6) {
        0 => f64::INFINITY,
        1 => f64::NEG_INFINITY,
        2 => f64::from(random.random_range(-5..5)),
        3 => random.random::<f64>() * 1e300,
        _ => random.random(),
    }
}

/// A value of any kind; `len` elements are drawn for collections, some of which may be equal.
fn value(random: &mut SmallRng, len: usize) -> Value {
    let mut words: Vec<Vec<u8>> = (0..len).map(|_| bytes(random)).collect();
    match random.random_range(0..6) {
        0 => Value::String(words.remove(0)),
        1 => Value::List(words),
        2 => Value::Set(words.into_iter().collect()),
        3 => Value::Set(
            (0..len).map(|_| random.random_range(-70_000..70_000).to_string().into_bytes()).collect(),
        ),
        4 => Value::ZSet(words.into_iter().map(|word| (word, score(random).to_bits())).collect()),
        _ => Value::Hash(words.into_iter().map(|word| (word, bytes(random))).collect()),
    }
}

/// Keys of all kinds and sizes, database by database, none twice; some expire, in an hour or later.
fn keys(random: &mut SmallRng, count: usize) -> Vec<Key> {
    let hour_ms = 3_600_000;
    let now_ms =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    let mut keys = Vec::new();
    for database in DATABASES {
        for number in 0..count {
            let len = [1, 3, 20, 130, 700][random.random_range(0..5)];
            let expires = random.random_range(0..3) == 0;
            keys.push(Key {
                database,
                name: [format!("key {number} ").into_bytes(), bytes(random)].concat(),
                expiry_ms: expires.then(|| now_ms + hour_ms + random.random_range(0..1_000_000_000)),
                value: value(random, len),
            });
        }
    }
    keys
}

/// Makes a key by the commands of its kind.
fn put(client: &mut Client, key: &Key) {
    let shown = |score: &u64| f64::from_bits(*score).to_string().into_bytes();
    let (command, words): (&str, Vec<Vec<u8>>) = match &key.value {
        Value::String(string) => ("SET", vec![string.clone()]),
        Value::Json(text) => ("JSON.SET", vec![b"$".to_vec(), text.clone()]),
        Value::List(elements) => ("RPUSH", elements.clone()),
        Value::Set(members) => ("SADD", members.iter().cloned().collect()),
        Value::ZSet(members) => {
            ("ZADD", members.iter().flat_map(|(member, score)| [shown(score), member.clone()]).collect())
        }
        Value::Hash(fields) => {
            ("HSET", fields.iter().flat_map(|(field, value)| [field.clone(), value.clone()]).collect())
        }
    };
    let request = [&[command.as_bytes().to_vec(), key.name.clone()], &words[..]].concat();
    let reply = ask(client, &request);
    assert!(!matches!(reply, Reply::Error(_)), "{}", reply.line());
    if let Some(expiry_ms) = key.expiry_ms {
        let at = expiry_ms.to_string();
        assert_eq!(ask(client, &[b"PEXPIREAT", &key.name[..], at.as_bytes()]), Reply::Integer("1".into()));
    }
}

fn put_all(client: &mut Client, keys: &[Key]) {
    for group in keys.chunk_by(|one, other| one.database == other.database) {
        select(client, group[0].database);
        group.iter().for_each(|key| put(client, key));
    }
}

fn pairs(words: Vec<Vec<u8>>) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let mut words = words.into_iter();
    std::iter::from_fn(move || Some((words.next()?, words.next()?)))
}

/// The value of a key of the selected database, as the server reports it.
fn get(client: &mut Client, database: u64, name: &[u8]) -> Key {
    let Reply::Simple(kind) = ask(client, &[b"TYPE", name]) else { panic!("TYPE answers otherwise") };
    let all = [&b"0"[..], b"-1", b"WITHSCORES"];
    let value = match &kind[..] {
        "string" => Value::String(bulk(ask(client, &[b"GET", name]))),
        "list" => Value::List(bulks(ask(client, &[b"LRANGE", name, all[0], all[1]]))),
        "set" => Value::Set(bulks(ask(client, &[b"SMEMBERS", name])).into_iter().collect()),
        "hash" => Value::Hash(pairs(bulks(ask(client, &[b"HGETALL", name]))).collect()),
        "zset" => {
            let bits = |text: Vec<u8>| String::from_utf8(text).unwrap().parse::<f64>().unwrap().to_bits();
            let members = bulks(ask(client, &[b"ZRANGE", name, all[0], all[1], all[2]]));
            Value::ZSet(pairs(members).map(|(member, score)| (member, bits(score))).collect())
        }
        other => panic!("{} is a {other}", text(name)),
    };
    let Reply::Integer(expiry) = ask(client, &[b"PEXPIRETIME", name]) else { panic!("no number") };
    Key { database, name: name.to_vec(), expiry_ms: expiry.parse().ok(), value }
}

/// All keys of a server.
fn get_all(client: &mut Client) -> BTreeMap<(u64, Vec<u8>), Key> {
    let mut all = BTreeMap::new();
    for database in DATABASES {
        select(client, database);
        for name in bulks(ask(client, &["KEYS", "*"])) {
            let key = get(client, database, &name);
            all.insert((database, name), key);
        }
    }
    all
}

/// All keys of a file, and the parts that were left out.
fn read(file: &[u8], unsupported: Unsupported) -> (BTreeMap<(u64, Vec<u8>), Key>, Skipped) {
    let mut reader = Reader::new(file, unsupported).unwrap();
    let mut all = BTreeMap::new();
    while let Some(Head { database, expiry_ms, .. }) = reader.next_key().unwrap() {
        let name = reader.key().to_vec();
        let mut collected = Collected::default();
        reader.read_value(&mut collected).unwrap_or_else(|error| panic!("{}: {error}", text(&name)));
        let value = collected.0.unwrap();
        let before = all.insert((database, name.clone()), Key { database, name, expiry_ms, value });
        assert!(before.is_none());
    }
    reader.expect_end().unwrap();
    assert_eq!(reader.version(), 10);
    assert!(reader.made_by().unwrap().starts_with("7."));
    (all, reader.skipped())
}

fn assert_same(one: &BTreeMap<(u64, Vec<u8>), Key>, other: &BTreeMap<(u64, Vec<u8>), Key>) {
    for (place, key) in one {
        let other = other.get(place).unwrap_or_else(|| panic!("{} is missing", text(&place.1)));
        assert!(key == other, "{} is {:.300?} and {:.300?}", text(&place.1), key, other);
    }
    assert_eq!(one.len(), other.len());
}

fn by_place(keys: &[Key]) -> BTreeMap<(u64, Vec<u8>), Key> {
    keys.iter().map(|key| ((key.database, key.name.clone()), key.clone())).collect()
}

#[test]
fn what_redis_saves_is_read_in_every_encoding() {
    let Some((_server, mut client)) = redis() else { return };
    let mut random = SmallRng::seed_from_u64(seed());
    let path = dump_file(&mut client);
    for settings in SETTINGS {
        ask_ok(&mut client, &["FLUSHALL"]);
        set_encodings(&mut client, settings);
        // Longer elements are nodes of their own.
        ask_ok(&mut client, &["DEBUG", "QUICKLIST-PACKED-THRESHOLD", "1000"]);
        let keys = keys(&mut random, 80);
        put_all(&mut client, &keys);
        ask_ok(&mut client, &["SAVE"]);
        let (read, skipped) = read(&std::fs::read(&path).unwrap(), Unsupported::Refuse);
        assert_same(&read, &by_place(&keys));
        assert_same(&read, &get_all(&mut client));
        assert_eq!(skipped, Skipped::default());
    }
}

#[test]
fn streams_of_redis_are_left_out_and_counted_and_functions_are_read() {
    let Some((_server, mut client)) = redis() else { return };
    select(&mut client, 0);
    for number in 0..300_u32 {
        let request = ["XADD", "stream", "*", "field", &"value ".repeat(number as usize)];
        bulk(ask(&mut client, &request));
    }
    ask_ok(&mut client, &["XGROUP", "CREATE", "stream", "group", "0"]);
    ask_ok(&mut client, &["XGROUP", "CREATE", "stream", "other", "$"]);
    for consumer in ["alice", "bob"] {
        let request = ["XREADGROUP", "GROUP", "group", consumer, "COUNT", "50", "STREAMS", "stream", ">"];
        assert!(matches!(ask(&mut client, &request), Reply::Array(_)));
    }
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(bulk(ask(&mut client, &["FUNCTION", "LOAD", library])), b"lib");
    ask_ok(&mut client, &["SET", "a", "before"]);
    ask_ok(&mut client, &["SET", "z", "behind"]);
    ask_ok(&mut client, &["SAVE"]);
    let file = std::fs::read(dump_file(&mut client)).unwrap();
    let (read, skipped) = read(&file, Unsupported::Skip);
    assert_eq!(read.len(), 2);
    assert_eq!(skipped, Skipped { streams: 1, ..Skipped::default() });
    let mut reader = Reader::new(&file[..], Unsupported::Skip).unwrap();
    while reader.next_key().unwrap().is_some() {}
    assert_eq!(reader.functions(), [library.as_bytes()]);
    let mut reader = Reader::new(&file[..], Unsupported::Refuse).unwrap();
    let error = loop {
        match reader.next_key() {
            Ok(found) => assert!(found.is_some(), "the stream is there"),
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.starts_with("holds a stream at byte ") && error.contains("key \"stream\""), "{error}");
}

#[test]
fn what_is_written_is_loaded_by_redis() {
    let Some((_server, mut client)) = redis() else { return };
    let keys = keys(&mut SmallRng::seed_from_u64(seed()), 200);
    let mut writer = Writer::new(Vec::new()).unwrap();
    writer.about("7.0.15", 1_700_000_000, 1 << 20).unwrap();
    model::write(&mut writer, &keys);
    let file = writer.finish().unwrap();
    let path = dump_file(&mut client);
    std::fs::write(&path, &file).unwrap();
    ask_ok(&mut client, &["DEBUG", "RELOAD", "NOSAVE"]);
    assert_same(&get_all(&mut client), &by_place(&keys));

    let mut damaged = file;
    let at = damaged.len() / 2;
    damaged[at] ^= 1;
    assert!(Reader::new(&damaged[..], Unsupported::Refuse).is_ok_and(|mut reader| loop {
        match reader.next_key() {
            Ok(Some(_)) => {}
            Ok(None) => break false,
            Err(_) => break true,
        }
    }));
}

/// The payload of a key of the selected database.
fn dump(client: &mut Client, key: &Key) -> Vec<u8> {
    bulk(ask(client, &[b"DUMP", &key.name[..]]))
}

fn restore(client: &mut Client, key: &Key, payload: &[u8]) {
    let at = key.expiry_ms.unwrap_or(0).to_string();
    ask_ok(client, &[b"RESTORE", &key.name[..], at.as_bytes(), payload, b"REPLACE", b"ABSTTL"]);
}

fn digest(client: &mut Client, key: &Key) -> Reply {
    ask(client, &[&b"DEBUG"[..], b"DIGEST-VALUE", &key.name])
}

#[test]
fn dump_and_restore_carry_values_between_redis_and_tarn() {
    let Some((_server, mut redis)) = redis() else { return };
    let server = Server::start(Kind::Tarn).unwrap();
    let mut tarn = Client::connect(server.address()).unwrap();
    let mut random = SmallRng::seed_from_u64(seed());
    for settings in SETTINGS {
        set_encodings(&mut redis, settings);
        for client in [&mut redis, &mut tarn] {
            ask_ok(client, &["FLUSHALL"]);
        }
        let keys = keys(&mut random, 40);
        put_all(&mut redis, &keys);
        for key in &keys {
            [&mut redis, &mut tarn].into_iter().for_each(|client| select(client, key.database));
            let of_redis = digest(&mut redis, key);
            let payload = dump(&mut redis, key);
            restore(&mut tarn, key, &payload);
            assert!(get(&mut tarn, key.database, &key.name) == *key, "{:.300?} in Tarn", key);
            assert_eq!(digest(&mut tarn, key), of_redis, "{:.300?} in Tarn", key);
            let payload = dump(&mut tarn, key);
            restore(&mut redis, key, &payload);
            assert!(get(&mut redis, key.database, &key.name) == *key, "{:.300?} in Redis", key);
            assert_eq!(digest(&mut redis, key), of_redis, "{:.300?} in Redis", key);
        }
    }
}
