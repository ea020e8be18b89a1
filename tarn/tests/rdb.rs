//! RDB files and payloads against the real `redis-server`: what it writes is read, what is written it loads,
//! and `DUMP` and `RESTORE` carry every value between it and Tarn.
//!
//! ```text
//!   redis-server ──SAVE──> dump.rdb ──Reader──> values   =   what the server answers
//!   values ──Writer──> dump.rdb ──DEBUG RELOAD──> redis-server, what it answers   =   values
//!   redis-server ──DUMP──> payload ──RESTORE──> Tarn ──DUMP──> payload ──RESTORE──> redis-server
//! ```
//!
//! Here redis-server checks each payload in depth (`sanitize-dump-payload yes`).
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
use model::{Collected, Group, Key, Pairs, Stream, Value};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use reply::Reply;
use server::{Kind, Server};
use tarn_rdb::stream::{StreamHead, StreamId};
use tarn_rdb::{Head, Reader, Skipped, Unsupported, Writer, payload};

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
    let mut client = Client::connect(server.address()).unwrap();
    ask_ok(&mut client, &["CONFIG", "SET", "sanitize-dump-payload", "yes"]);
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
        _ => Value::Hash(words.into_iter().map(|word| (word, (bytes(random), None))).collect()),
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
            ("HSET", fields.iter().flat_map(|(field, (value, _))| [field.clone(), value.clone()]).collect())
        }
        Value::Stream(_) => panic!("streams are made by other commands"),
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
        "hash" => {
            let fields = pairs(bulks(ask(client, &[b"HGETALL", name])));
            Value::Hash(fields.map(|(field, value)| (field, (value, None))).collect())
        }
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
fn functions_of_redis_are_read() {
    let Some((_server, mut client)) = redis() else { return };
    select(&mut client, 0);
    let library = "#!lua name=lib\nredis.register_function('f', function() return 1 end)";
    assert_eq!(bulk(ask(&mut client, &["FUNCTION", "LOAD", library])), b"lib");
    ask_ok(&mut client, &["SET", "a", "before"]);
    ask_ok(&mut client, &["SAVE"]);
    let file = std::fs::read(dump_file(&mut client)).unwrap();
    assert_eq!(read(&file, Unsupported::Refuse).0.len(), 1);
    let mut reader = Reader::new(&file[..], Unsupported::Refuse).unwrap();
    while reader.next_key().unwrap().is_some() {}
    assert_eq!(reader.functions(), [library.as_bytes()]);
}

#[test]
fn what_is_written_is_loaded_by_redis() {
    let Some((_server, mut client)) = redis() else { return };
    let keys = keys(&mut SmallRng::seed_from_u64(seed()), 200);
    let mut damaged = Vec::new();
    for compresses in [true, false] {
        let mut writer = Writer::new(Vec::new()).unwrap().compressing(compresses);
        writer.about("7.0.15", 1_700_000_000, 1 << 20).unwrap();
        model::write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        let path = dump_file(&mut client);
        std::fs::write(&path, &file).unwrap();
        ask_ok(&mut client, &["DEBUG", "RELOAD", "NOSAVE"]);
        assert_same(&get_all(&mut client), &by_place(&keys));
        damaged = file;
    }

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

/// Makes a stream by random commands: entries of which some are gone, groups that have read some of them.
fn make_stream(client: &mut Client, random: &mut SmallRng, name: &str) {
    let mut send = |words: &[&[u8]]| {
        let reply = ask(client, words);
        assert!(!matches!(reply, Reply::Error(_)), "{} {}", text(words[0]), reply.line());
    };
    let name = name.as_bytes();
    let (mut ms, mut seq) = (random.random_range(1..2_000_000_000_000_u64), random.random_range(0..5_u64));
    let mut ids = Vec::new();
    let wide = random.random_range(0..3) == 0;
    for _ in 0..random.random_range(1..400) {
        match random.random_range(0..3) {
            0 => (ms, seq) = (ms + random.random_range(1..100_000), random.random_range(0..3)),
            _ => seq += random.random_range(1..200),
        }
        let id = format!("{ms}-{seq}");
        let mut words = vec![b"XADD".to_vec(), name.to_vec(), id.clone().into_bytes()];
        match random.random_range(0..5) {
            0 => (0..random.random_range(1..4) * 2).for_each(|_| words.push(bytes(random))),
            _ => {
                let value = if wide { bytes(random) } else { seq.to_string().into_bytes() };
                words.extend([b"field".to_vec(), value, b"7".to_vec(), b"text".to_vec()]);
            }
        }
        send(&words.iter().map(|word| &word[..]).collect::<Vec<_>>());
        ids.push(id);
    }
    for id in ids.iter().filter(|_| random.random_range(0..8) == 0) {
        send(&[b"XDEL", name, id.as_bytes()]);
    }
    for number in 0..random.random_range(0..4) {
        let group = [format!("group {number}").into_bytes(), bytes(random)].concat();
        let group = &group[..group.len().min(1000)];
        // Some have read the first entry, and some nothing.
        let [start, reads] = [0, 1].map(|_| random.random_range(0..2) == 0);
        let start = &ids[if start { 0 } else { random.random_range(0..ids.len()) }];
        match random.random_range(0..3) {
            0 => send(&[b"XGROUP", b"CREATE", name, group, start.as_bytes()]),
            1 => send(&[b"XGROUP", b"CREATE", name, group, b"0", b"ENTRIESREAD", b"3"]),
            _ => send(&[b"XGROUP", b"CREATE", name, group, b"$"]),
        }
        send(&[b"XGROUP", b"SETID", name, group, start.as_bytes()]);
        for consumer in [&b"alice"[..], b"bob", b"carol"].into_iter().filter(|_| reads) {
            let count = random.random_range(1..100).to_string();
            let count = count.as_bytes();
            send(&[b"XREADGROUP", b"GROUP", group, consumer, b"COUNT", count, b"STREAMS", name, b">"]);
        }
        send(&[b"XGROUP", b"CREATECONSUMER", name, group, b"idle"]);
        let some: Vec<&String> = ids.iter().filter(|_| random.random_range(0..6) == 0).collect();
        for id in some {
            let words: &[&[u8]] = match random.random_range(0..2) {
                0 => &[b"XACK", name, group, id.as_bytes()],
                _ => &[b"XCLAIM", name, group, b"bob", b"0", id.as_bytes(), b"RETRYCOUNT", b"300"],
            };
            send(words);
        }
    }
    match random.random_range(0..6) {
        0 => send(&[b"XTRIM", name, b"MAXLEN", random.random_range(0..20).to_string().as_bytes()]),
        1 => send(&[b"XSETID", name, format!("{}-0", ms + 1).as_bytes()]),
        _ => {}
    }
}

fn stream_id(reply: &Reply) -> StreamId {
    let Reply::Bulk(text) = reply else { panic!("{} is no ID", reply.line()) };
    let text = std::str::from_utf8(text).unwrap();
    let (ms, seq) = text.split_once('-').unwrap();
    StreamId { ms: ms.parse().unwrap(), seq: seq.parse().unwrap() }
}

fn number(reply: &Reply) -> u64 {
    let Reply::Integer(number) = reply else { panic!("{} is no number", reply.line()) };
    number.parse().unwrap()
}

fn array(reply: &Reply) -> &[Reply] {
    let Reply::Array(replies) = reply else { panic!("{} is no array", reply.line()) };
    replies
}

/// The field of a reply of names and values in turn.
fn field<'r>(reply: &'r Reply, name: &str) -> &'r Reply {
    let pairs = array(reply);
    let at = pairs.iter().position(|reply| *reply == Reply::Bulk(name.into())).unwrap();
    &pairs[at + 1]
}

/// A stream as redis-server 7.0 tells it.
fn stream_of(client: &mut Client, name: &str) -> Stream {
    let info = ask(client, &["XINFO", "STREAM", name, "FULL", "COUNT", "0"]);
    let entry = |entry: &Reply| -> (StreamId, Pairs) {
        let [id, fields] = array(entry) else { panic!("{} is no entry", entry.line()) };
        (stream_id(id), pairs(bulks(fields.clone())).collect())
    };
    let group = |group: &Reply| {
        let pending = array(field(group, "pending")).iter().map(|pending| {
            let [id, consumer, delivered, count] = array(pending) else { panic!("{}", pending.line()) };
            (stream_id(id), (bulk(consumer.clone()), number(delivered), number(count)))
        });
        let consumers = array(field(group, "consumers")).iter().map(|consumer| {
            let seen = number(field(consumer, "seen-time"));
            (bulk(field(consumer, "name").clone()), (seen, Some(seen)))
        });
        let entries_read = match field(group, "entries-read") {
            Reply::NullBulk => None,
            read => Some(number(read)),
        };
        let last_id = stream_id(field(group, "last-delivered-id"));
        let group_read =
            Group { last_id, entries_read, consumers: consumers.collect(), pending: pending.collect() };
        (bulk(field(group, "name").clone()), group_read)
    };
    Stream {
        head: StreamHead {
            last_id: stream_id(field(&info, "last-generated-id")),
            entries_added: number(field(&info, "entries-added")),
            max_deleted_id: stream_id(field(&info, "max-deleted-entry-id")),
        },
        entries: array(field(&info, "entries")).iter().map(entry).collect(),
        groups: array(field(&info, "groups")).iter().map(group).collect(),
    }
}

/// The stream in a payload.
fn stream_in(payload: &[u8]) -> Stream {
    let mut collected = Collected::default();
    payload::read(payload, &mut collected).unwrap();
    let Some(Value::Stream(stream)) = collected.0 else { panic!("no stream: {:.300?}", collected.0) };
    stream
}

/// Settings that decide how many entries are in a node.
const NODES: &[[&str; 2]] = &[["4096", "100"], ["4096", "3"], ["0", "0"], ["300", "1000"]];

#[test]
fn streams_of_redis_are_read_and_go_to_tarn_and_back() {
    let Some((_server, mut redis)) = redis() else { return };
    let server = Server::start(Kind::Tarn).unwrap();
    let mut tarn = Client::connect(server.address()).unwrap();
    let mut random = SmallRng::seed_from_u64(seed());
    let path = dump_file(&mut redis);
    for [bytes, entries] in NODES {
        set_encodings(&mut redis, &[("stream-node-max-bytes", bytes), ("stream-node-max-entries", entries)]);
        ask_ok(&mut redis, &["FLUSHALL"]);
        let names: Vec<String> = (0..25).map(|number| format!("stream {number}")).collect();
        for name in &names {
            make_stream(&mut redis, &mut random, name);
        }
        ask_ok(&mut redis, &["SAVE"]);
        let (read, _) = read(&std::fs::read(&path).unwrap(), Unsupported::Refuse);
        for name in &names {
            let expected = stream_of(&mut redis, name);
            let value = &read[&(0, name.clone().into_bytes())].value;
            assert!(*value == Value::Stream(expected.clone()), "{value:.3000?} is {expected:.3000?}");

            let digest = |client: &mut Client| ask(client, &["DEBUG", "DIGEST-VALUE", name]);
            let of_redis = digest(&mut redis);
            let payload = bulk(ask(&mut redis, &["DUMP", name]));
            ask_ok(&mut tarn, &[b"RESTORE", name.as_bytes(), b"0", &payload, b"REPLACE"]);
            assert_eq!(digest(&mut tarn), of_redis, "{name}");
            let payload = bulk(ask(&mut tarn, &["DUMP", name]));
            assert!(stream_in(&payload) == expected, "{:.3000?} is {expected:.3000?}", stream_in(&payload));
            ask_ok(&mut redis, &[b"RESTORE", name.as_bytes(), b"0", &payload, b"REPLACE"]);
            assert!(stream_of(&mut redis, name) == expected, "{name}");
            assert_eq!(digest(&mut redis), of_redis, "{name}");
        }
    }
}

#[test]
fn streams_in_files_of_version_9_are_to_tarn_what_they_are_to_redis() {
    let Some((_server, mut redis)) = redis() else { return };
    let mut random = SmallRng::seed_from_u64(seed());
    let path = dump_file(&mut redis);
    let names: Vec<String> = (0..60).map(|number| format!("stream {number}")).collect();
    for name in &names {
        make_stream(&mut redis, &mut random, name);
    }
    let key = |name: &String, client: &mut Client| Key {
        database: 0,
        name: name.clone().into_bytes(),
        expiry_ms: None,
        value: Value::Stream(stream_of(client, name)),
    };
    let keys: Vec<Key> = names.iter().map(|name| key(name, &mut redis)).collect();
    let mut writer = Writer::new(Vec::new()).unwrap();
    model::write(&mut writer, &keys);
    let file = writer.finish().unwrap();
    std::fs::write(&path, &file).unwrap();
    ask_ok(&mut redis, &["DEBUG", "RELOAD", "NOSAVE"]);
    let mut reader = Reader::new(&file[..], Unsupported::Refuse).unwrap();
    let mut counts = std::collections::BTreeSet::new();
    for before in &keys {
        reader.next_key().unwrap().unwrap();
        let mut collected = Collected::default();
        reader.read_value(&mut collected).unwrap();
        let name = String::from_utf8(before.name.clone()).unwrap();
        let of_redis = stream_of(&mut redis, &name);
        let Some(Value::Stream(read)) = collected.0 else { panic!("no stream") };
        assert!(read == of_redis, "{read:.3000?} is {of_redis:.3000?}");
        let Value::Stream(before) = &before.value else { panic!("no stream") };
        assert!(read.clone().after_type_15() == before.clone().after_type_15());
        counts.extend(read.groups.values().map(|group| group.entries_read.map(|read| read.min(2))));
    }
    assert_eq!(reader.next_key().unwrap(), None);
    let expected = [None, Some(0), Some(1), Some(2)];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), expected, "all cases were there");
}
