//! JSON documents with the real program: commands agree with a plain model, whatever was compacted or saved a
//! restart finds the same documents, hostile ones are refused, and an RDB file carries them.
//!
//! `TARN_SEED` draws other commands; a failure names the seed.

#![allow(clippy::unwrap_used, dead_code)]

mod running;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use running::{Connection, Folder, Running, digest, eventually, field, number};
use serde_json::{Map, Value, json};

/// Small files, compacted as soon as some of their records are obsolete.
const EAGER: [&str; 8] = [
    "--appendfsync",
    "always",
    "--log-file-size",
    "65536",
    "--log-compaction-min-size",
    "0",
    "--log-compaction-file-percentage",
    "30",
];
const KEYS: usize = 5;
const NAMES: [&str; 4] = ["a", "b", "c", "x y"];

/// Sends words as they are, and returns the reply as it is on the wire.
fn ask(client: &mut Connection, words: &[&str]) -> String {
    let mut request = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| request += &format!("${}\r\n{word}\r\n", word.len()));
    client.0.get_mut().write_all(request.as_bytes()).unwrap();
    client.reply()
}

fn bulk(value: &impl serde::Serialize) -> String {
    format!("${}", serde_json::to_string(value).unwrap().into_bytes().escape_ascii())
}

/// A segment of a path, as the model knows it.
#[derive(Clone, Debug)]
enum Segment {
    Name(&'static str),
    Index(i64),
    All,
    Below(&'static str),
}

/// Where a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Member(String),
    /// An element of an array of this length.
    Element(usize, usize),
}

type Place = Vec<Step>;

fn segments(random: &mut SmallRng) -> Vec<Segment> {
    let name = |random: &mut SmallRng| NAMES[random.random_range(0..NAMES.len())];
    let one = |random: &mut SmallRng| match random.random_range(0..8) {
        0..4 => Segment::Name(name(random)),
        4 | 5 => Segment::Index(random.random_range(-3..3)),
        6 => Segment::All,
        _ => Segment::Below(name(random)),
    };
    (0..random.random_range(0..4)).map(|_| one(random)).collect()
}

fn text_of(path: &[Segment]) -> String {
    path.iter().fold("$".to_owned(), |text, segment| match segment {
        Segment::Name(name) if name.contains(' ') => format!("{text}[\"{name}\"]"),
        Segment::Name(name) => format!("{text}.{name}"),
        Segment::Index(index) => format!("{text}[{index}]"),
        Segment::All => format!("{text}[*]"),
        Segment::Below(name) => format!("{text}..['{name}']"),
    })
}

/// All values and where they are.
fn all<'d>(value: &'d Value, place: &Place, found: &mut Vec<(Place, &'d Value)>) {
    found.push((place.clone(), value));
    let mut below = |step, child| all(child, &[&place[..], &[step]].concat(), found);
    match value {
        Value::Array(elements) => elements
            .iter()
            .enumerate()
            .for_each(|(index, element)| below(Step::Element(index, elements.len()), element)),
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| below(Step::Member(name.clone()), member));
        }
        _ => {}
    }
}

fn fits(path: &[Segment], place: &[Step]) -> bool {
    let Some((segment, path)) = path.split_first() else { return place.is_empty() };
    let is_child = match (segment, place.first()) {
        (Segment::Name(name) | Segment::Below(name), Some(Step::Member(member))) => name == member,
        (Segment::Index(index), Some(Step::Element(at, len))) => {
            *at as i64 == if *index < 0 { *len as i64 + index } else { *index }
        }
        (Segment::All, Some(_)) => true,
        _ => false,
    };
    let goes_deeper = matches!(segment, Segment::Below(_)) && !place.is_empty();
    is_child && fits(path, &place[1..])
        || goes_deeper && fits(&[std::slice::from_ref(segment), path].concat(), &place[1..])
}

fn places(document: &Value, path: &[Segment]) -> Vec<Place> {
    let mut found = Vec::new();
    all(document, &Vec::new(), &mut found);
    found.into_iter().map(|(place, _)| place).filter(|place| fits(path, place)).collect()
}

/// Without those that are in others.
fn outermost(places: Vec<Place>) -> Vec<Place> {
    let is_in = |place: &Place| places.iter().any(|other| other != place && place.starts_with(other));
    places.iter().filter(|place| !is_in(place)).cloned().collect()
}

fn at<'d>(document: &'d mut Value, place: &[Step]) -> &'d mut Value {
    place.iter().fold(document, |value, step| match step {
        Step::Member(name) => value.get_mut(name).unwrap(),
        Step::Element(index, _) => value.get_mut(*index).unwrap(),
    })
}

fn any_value(random: &mut SmallRng, depth: usize) -> Value {
    match random.random_range(0..if depth == 0 { 5 } else { 9 }) {
        0 => Value::Null,
        1 => json!(random.random::<bool>()),
        2 => json!(random.random_range(-5..1_000_000_000_000_i64)),
        3 => json!(random.random::<f64>() * 10.0),
        4 => json!("té\"xt ".repeat(random.random_range(0..3))),
        5 | 6 => (0..random.random_range(0..4)).map(|_| any_value(random, depth - 1)).collect(),
        _ => {
            let member = |random: &mut SmallRng| {
                let name = NAMES[random.random_range(0..NAMES.len())];
                (name.to_owned(), any_value(random, depth - 1))
            };
            Value::Object((0..random.random_range(0..5)).map(|_| member(random)).collect::<Map<_, _>>())
        }
    }
}

/// A reply with the results of several values, in any order.
fn sorted(mut all: Vec<String>) -> Vec<String> {
    all.sort();
    all
}

struct Model {
    documents: BTreeMap<String, Value>,
}

impl Model {
    /// Sends one command to the server and to the model, and compares the replies.
    fn step(&mut self, client: &mut Connection, random: &mut SmallRng) {
        let key = format!("doc{}", random.random_range(0..KEYS));
        let path = segments(random);
        let (text, value) = (text_of(&path), any_value(random, 3));
        match random.random_range(0..13) {
            0..4 => self.set(client, &key, &path, value, random.random_range(0..4)),
            4 => self.del(client, &key, &path),
            5 | 6 => self.add(client, &key, &path, random),
            7 => self.append(client, &key, &path, &value),
            10 => self.pop(client, &key, &path, random.random_range(-3..3)),
            11 => self.merge(client, &key, &value),
            12 => self.clear(client, &key, &path),
            _ => {
                let reply = ask(client, &["JSON.GET", &key, &text]);
                let Some(document) = self.documents.get_mut(&key) else { return assert_eq!(reply, "$-1") };
                let found = places(document, &path);
                let values: Vec<String> = found.iter().map(|place| at(document, place).to_string()).collect();
                let told: Vec<Value> = serde_json::from_str(&unescaped(&reply)).unwrap();
                let told = told.iter().map(Value::to_string).collect();
                assert_eq!(sorted(told), sorted(values), "{text}");
            }
        }
    }

    fn set(&mut self, client: &mut Connection, key: &str, path: &[Segment], value: Value, condition: usize) {
        let (text, given) = (text_of(path), value.to_string());
        let word: &[&str] = [&[][..], &["NX"], &["XX"], &[]][condition];
        let reply = ask(client, &[&["JSON.SET", key, &text, &given], word].concat());
        let (is_missing, is_present) = (condition == 1, condition == 2);
        let Some(document) = self.documents.get_mut(key) else {
            let expected = match path {
                _ if is_present => "$-1",
                [] => "+OK",
                _ => "-ERR new objects must be created at the root",
            };
            assert_eq!(reply, expected);
            if expected == "+OK" {
                self.documents.insert(key.to_owned(), value);
            }
            return;
        };
        let found = outermost(places(document, path));
        let is_static = path.iter().all(|segment| matches!(segment, Segment::Name(_) | Segment::Index(_)));
        let expected = if !found.is_empty() {
            if !is_missing {
                found.iter().for_each(|place| *at(document, place) = value.clone());
            }
            if is_missing { "$-1" } else { "+OK" }
        } else if is_present {
            "$-1"
        } else if !is_static {
            "-ERR wrong static path"
        } else if let Some((Segment::Name(name), above)) = path.split_last() {
            let object = places(document, above).first().cloned();
            match object.map(|place| at(document, &place)) {
                Some(Value::Object(members)) => {
                    members.insert((*name).to_owned(), value);
                    "+OK"
                }
                _ => "$-1",
            }
        } else {
            "-ERR array index out of range"
        };
        assert_eq!(reply, expected, "{text} {given}");
    }

    fn del(&mut self, client: &mut Connection, key: &str, path: &[Segment]) {
        let reply = ask(client, &["JSON.DEL", key, &text_of(path)]);
        let Some(document) = self.documents.get_mut(key) else { return assert_eq!(reply, ":0") };
        let found = outermost(places(document, path));
        assert_eq!(reply, format!(":{}", found.len()));
        if path.is_empty() {
            self.documents.remove(key);
            return;
        }
        for place in found.iter().rev() {
            let (last, above) = place.split_last().unwrap();
            match (at(document, above), last) {
                (Value::Object(members), Step::Member(name)) => _ = members.shift_remove(name),
                (Value::Array(elements), Step::Element(index, _)) => _ = elements.remove(*index),
                _ => unreachable!(),
            }
        }
    }

    fn add(&mut self, client: &mut Connection, key: &str, path: &[Segment], random: &mut SmallRng) {
        let is_integer = random.random_bool(0.7);
        let addend = if is_integer { json!(random.random_range(-9..9)) } else { json!(0.25) };
        let reply = ask(client, &["JSON.NUMINCRBY", key, &text_of(path), &addend.to_string()]);
        let Some(document) = self.documents.get_mut(key) else {
            return assert!(reply.starts_with("-ERR could not perform"), "{reply}");
        };
        let mut sums = Vec::new();
        for place in places(document, path) {
            let value = at(document, &place);
            if value.is_number() {
                *value = match (value.as_i64(), addend.as_i64()) {
                    (Some(one), Some(other)) => json!(one + other),
                    _ => json!(value.as_f64().unwrap() + addend.as_f64().unwrap()),
                };
            }
            sums.push(if value.is_number() { value.to_string() } else { "null".to_owned() });
        }
        let told: Vec<Value> = serde_json::from_str(&unescaped(&reply)).unwrap();
        assert_eq!(sorted(told.iter().map(Value::to_string).collect()), sorted(sums));
    }

    fn append(&mut self, client: &mut Connection, key: &str, path: &[Segment], value: &Value) {
        let text = value.to_string();
        let reply = ask(client, &["JSON.ARRAPPEND", key, &text_of(path), &text, &text]);
        let Some(document) = self.documents.get_mut(key) else {
            return assert!(reply.starts_with("-ERR could not perform"), "{reply}");
        };
        let mut lens = Vec::new();
        for place in places(document, path).iter().rev() {
            lens.push(match at(document, place) {
                Value::Array(elements) => {
                    elements.extend([value.clone(), value.clone()]);
                    format!(":{}", elements.len())
                }
                _ => "$-1".to_owned(),
            });
        }
        let told = reply.trim_start_matches("*[").trim_end_matches(']').split_whitespace();
        assert_eq!(sorted(told.map(str::to_owned).collect()), sorted(lens));
    }

    /// Of arrays within each other the inner ones lose an element first.
    fn pop(&mut self, client: &mut Connection, key: &str, path: &[Segment], index: i64) {
        let reply = ask(client, &["JSON.ARRPOP", key, &text_of(path), &index.to_string()]);
        let Some(document) = self.documents.get_mut(key) else {
            return assert!(reply.starts_with("-ERR could not perform"), "{reply}");
        };
        for place in places(document, path).iter().rev() {
            if let Value::Array(elements) = at(document, place) {
                let len = elements.len() as i64;
                let nearest = if index < 0 { (len + index).max(0) } else { index.min(len - 1) };
                if len > 0 {
                    elements.remove(nearest as usize);
                }
            }
        }
    }

    fn merge(&mut self, client: &mut Connection, key: &str, patch: &Value) {
        fn merged(place: &mut Value, patch: &Value) {
            let Value::Object(changes) = patch else { return *place = patch.clone() };
            if !place.is_object() {
                *place = json!({});
            }
            let members = place.as_object_mut().unwrap();
            for (name, change) in changes {
                match change {
                    Value::Null => _ = members.shift_remove(name),
                    change => merged(members.entry(name.clone()).or_insert(Value::Null), change),
                }
            }
        }
        assert_eq!(ask(client, &["JSON.MERGE", key, "$", &patch.to_string()]), "+OK");
        merged(self.documents.entry(key.to_owned()).or_insert(Value::Null), patch);
    }

    fn clear(&mut self, client: &mut Connection, key: &str, path: &[Segment]) {
        let reply = ask(client, &["JSON.CLEAR", key, &text_of(path)]);
        let Some(document) = self.documents.get_mut(key) else {
            return assert!(reply.starts_with("-ERR could not perform"), "{reply}");
        };
        let mut found = places(document, path);
        found.retain(|place| match at(document, place) {
            Value::Array(elements) => !elements.is_empty(),
            Value::Object(members) => !members.is_empty(),
            Value::Number(number) => number.as_f64() != Some(0.0),
            _ => false,
        });
        let found = outermost(found);
        assert_eq!(reply, format!(":{}", found.len()));
        for place in &found {
            let value = at(document, place);
            *value = match value {
                Value::Array(_) => json!([]),
                Value::Object(_) => json!({}),
                _ => json!(0),
            };
        }
    }

    fn check(&self, client: &mut Connection) {
        for number in 0..KEYS {
            let key = format!("doc{number}");
            let expected = self.documents.get(&key).map_or("$-1".to_owned(), bulk);
            assert_eq!(ask(client, &["JSON.GET", &key]), expected);
        }
    }
}

/// The bytes of a bulk string that `reply` has escaped.
fn unescaped(reply: &str) -> String {
    let (mut bytes, mut chars) = (Vec::new(), reply.strip_prefix('$').unwrap().bytes());
    while let Some(byte) = chars.next() {
        bytes.push(match (byte, byte == b'\\') {
            (_, true) => match chars.next().unwrap() {
                b'x' => {
                    let digits = [chars.next().unwrap(), chars.next().unwrap()];
                    u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
                }
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                plain => plain,
            },
            (plain, _) => plain,
        });
    }
    String::from_utf8(bytes).unwrap()
}

fn rewrite_log(client: &mut Connection) {
    assert_eq!(client.ask("BGREWRITEAOF"), "+Background append only file rewriting started");
    eventually(|| (field(client, "aof_rewrite_in_progress")? == "0").then_some(()));
    assert_eq!(field(client, "aof_last_bgrewrite_status").unwrap(), "ok");
}

#[test]
fn commands_agree_with_a_model_and_a_restart_finds_the_same_documents() {
    let seed = std::env::var("TARN_SEED").map_or_else(|_| rand::random(), |seed| seed.parse().unwrap());
    println!("TARN_SEED={seed}");
    let mut random = SmallRng::seed_from_u64(seed);
    let mut running = Running::start(&EAGER);
    let mut model = Model { documents: BTreeMap::new() };
    for round in 0..6 {
        let mut client = running.connect();
        (0..500).for_each(|_| model.step(&mut client, &mut random));
        model.check(&mut client);
        // So that the stored document is older than the changes of the key.
        ask(&mut client, &["EXPIRE", "doc0", "100000"]);
        match round % 3 {
            0 => rewrite_log(&mut client),
            1 => assert_eq!(client.ask("SAVE"), "+OK"),
            _ => {}
        }
        let before = digest(&mut client);
        running.restart();
        let mut client = running.connect();
        assert_eq!(digest(&mut client), before, "round {round}");
        model.check(&mut client);
    }
}

#[test]
fn the_log_of_a_large_document_stays_short_and_a_restart_finds_it() {
    let mut running = Running::start(&EAGER);
    let mut client = running.connect();
    let texts: Vec<String> = (0..300).map(|number| format!("{number} {}", "x".repeat(1_000))).collect();
    let document = json!({"texts": texts, "n": 0}).to_string();
    assert_eq!(ask(&mut client, &["JSON.SET", "large", "$", &document]), "+OK");
    for number in 1..=60 {
        assert_eq!(ask(&mut client, &["JSON.NUMINCRBY", "large", "$.n", "1"]), format!("$[{number}]"));
        // From now on the document is more than its newest record.
        assert_eq!(ask(&mut client, &["EXPIRE", "large", &(100_000 + number).to_string()]), ":1");
    }
    rewrite_log(&mut client);
    assert_eq!(number(&mut client, "log_compaction_failures"), 0);
    let files = std::fs::read_dir(running.folder.path("log")).unwrap();
    let used = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let bytes: usize =
        files.map(|file| std::fs::read(file.unwrap().path()).map_or(0, |all| used(&all))).sum();
    // 60 times 300 KB went in.
    assert!(bytes < 2_000_000, "{bytes} bytes");
    let before = digest(&mut client);
    for _ in 0..2 {
        running.restart();
        let mut client = running.connect();
        assert_eq!(digest(&mut client), before);
        assert_eq!(ask(&mut client, &["JSON.GET", "large", "$.n"]), "$[60]");
        assert_eq!(client.ask("SAVE"), "+OK");
    }
}

#[test]
fn what_is_deep_or_would_become_large_is_refused_and_nothing_has_changed() {
    let running = Running::start(&["--appendonly", "no", "--proto-max-bulk-len", "1mb"]);
    let mut client = running.connect();
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(ask(&mut client, &["JSON.SET", "k", "$", &nested(128)]).starts_with("-ERR recursion limit"));
    assert!(ask(&mut client, &["JSON.SET", "k", "$", &"[".repeat(1_000_000)]).starts_with("-ERR recursion"));
    assert!(ask(&mut client, &["JSON.SET", "k", "$", &"{\"a\":".repeat(100_000)]).starts_with("-ERR rec"));
    assert_eq!(ask(&mut client, &["JSON.SET", "k", "$", &nested(127)]), "+OK");
    let innermost = "$".to_owned() + &"[0]".repeat(126);
    assert_eq!(ask(&mut client, &["JSON.ARRAPPEND", "k", &innermost, "1"]), "*[:1]");
    let deeper = ask(&mut client, &["JSON.ARRAPPEND", "k", &innermost, "[]"]);
    assert_eq!(deeper, "-ERR recursion limit exceeded");
    let deeper = ask(&mut client, &["JSON.SET", "k", &(innermost.clone() + "[0]"), "{}"]);
    assert_eq!(deeper, "-ERR recursion limit exceeded");
    let deeper: [&[&str]; 3] = [
        &["JSON.ARRINSERT", "k", &innermost, "0", "[]"],
        &["JSON.MERGE", "k", &innermost, "[[]]"],
        &["JSON.MSET", "other", "$", "1", "k", &innermost, "[{}]"],
    ];
    for request in deeper {
        assert_eq!(ask(&mut client, request), "-ERR recursion limit exceeded", "{request:?}");
    }
    assert_eq!(ask(&mut client, &["EXISTS", "other"]), ":0");
    assert_eq!(ask(&mut client, &["JSON.GET", "k", &innermost]), "$[[1]]");
    // Each value once, though the path says it again and again: 127 - 49 are so deep, and the number.
    let types = ask(&mut client, &["JSON.TYPE", "k", &("$".to_owned() + &"..*".repeat(50))]);
    assert_eq!(types.split_whitespace().count(), 78, "{types}");

    let long = format!("\"{}\"", "x".repeat(1_000));
    let objects = format!("[{}]", vec!["{\"l\":[]}"; 10_000].join(","));
    assert_eq!(ask(&mut client, &["JSON.SET", "many", "$", &objects]), "+OK");
    let before = digest(&mut client);
    let too_long = "-ERR string exceeds maximum allowed size (proto-max-bulk-len)";
    assert_eq!(ask(&mut client, &["JSON.SET", "many", "$[*]", &long]), too_long);
    assert_eq!(ask(&mut client, &["JSON.ARRAPPEND", "many", "$..l", &long]), too_long);
    let member = format!("{{\"m\":{long}}}");
    assert_eq!(ask(&mut client, &["JSON.MERGE", "many", "$[*]", &member]), too_long);
    assert_eq!(ask(&mut client, &["JSON.ARRINSERT", "many", "$..l", "0", &long]), too_long);
    assert_eq!(ask(&mut client, &["JSON.MSET", "other", "$", "1", "many", "$[*]", &long]), too_long);
    assert_eq!(ask(&mut client, &["JSON.GET", "many", "INDENT", &"x".repeat(100_000), "$"]), too_long);
    let zeros = format!("$[{}]", vec!["0"; 5_000].join(","));
    assert_eq!(ask(&mut client, &["JSON.GET", "many", &zeros]), bulk(&json!([{"l": []}])));
    assert_eq!(digest(&mut client), before);
}

#[test]
fn an_rdb_file_carries_documents_and_says_who_reads_it() {
    let mut running = Running::start(&["--appendfsync", "always"]);
    let mut client = running.connect();
    let giant = json!({"text": "x".repeat(100_000), "n": [1, 2.5, null]}).to_string();
    for (key, document) in [("giant", giant.as_str()), ("one", "1"), ("text", "\"text\"")] {
        assert_eq!(ask(&mut client, &["JSON.SET", key, "$", document]), "+OK");
    }
    assert_eq!(ask(&mut client, &["EXPIRE", "one", "100000"]), ":1");
    assert_eq!(ask(&mut client, &["SET", "plain", "string"]), "+OK");
    let before = digest(&mut client);
    running.server.take().unwrap().terminate();
    let file = running.folder.path("out.rdb");
    let tarn = |words: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_tarn")).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let said = tarn(&["export", "--dir", &path(running.folder.path("")), &path(file.clone())]);
    assert!(said.contains("WARNING: 3 of the keys are JSON documents"), "{said}");
    let mut other = Running { folder: Folder::new(), port: running.port, server: None, args: Vec::new() };
    tarn(&["import", "--dir", &path(other.folder.path("")), &path(file)]);
    other.restart();
    let mut client = other.connect();
    assert_eq!(digest(&mut client), before);
    assert_eq!(ask(&mut client, &["JSON.GET", "giant"]), format!("${}", giant.as_bytes().escape_ascii()));
}

#[test]
fn the_documents_that_one_command_changes_are_bounded_together() {
    let running = Running::start(&["--proto-max-bulk-len", "1mb"]);
    let mut client = running.connect();
    let document = json!({"text": "x".repeat(600 << 10), "n": 0}).to_string();
    for key in ["a", "b"] {
        assert_eq!(ask(&mut client, &["JSON.SET", key, "$", &document]), "+OK");
    }
    let reply = ask(&mut client, &["JSON.MSET", "a", "$.n", "1", "b", "$.n", "1"]);
    assert_eq!(reply, "-ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    assert_eq!(ask(&mut client, &["JSON.GET", "a", "$.n"]), "$[0]", "nothing has changed");
    // One of them may be changed in several places, and new ones count as bytes of the request.
    let reply = ask(&mut client, &["JSON.MSET", "a", "$.n", "1", "a", "$.m", "2", "b", "$", &document]);
    assert_eq!(reply, "+OK");
    assert_eq!(ask(&mut client, &["JSON.GET", "a", "$.n"]), "$[1]");
}
