//! The server of the published mechanism: the commands that the laboratory sends, and the file of a dump that
//! is taken while clients write.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tarn_lab::server::{Plan, Product, Server, Subject};
use tarn_rdb::{Head, Kind, Reader, Unsupported, Visitor};
use tarn_resp::Frame;
use tarn_resp::client::Client;

const ALGORITHMS: [&str; 2] = ["hourglass", "piggyback"];

fn start(algorithm: &str, dir: &Path) -> Server {
    let arguments = ["published-store", "--algorithm", algorithm].map(str::to_owned).to_vec();
    let binary = Path::new(env!("CARGO_BIN_EXE_tarn-lab"));
    let name = algorithm.to_owned();
    let subject = Subject { name, arguments, forks: false, ..Subject::new(Product::RedisServer, binary) };
    Plan::new(subject, dir).start().unwrap()
}

fn number(client: &mut Client, words: &[&str]) -> i64 {
    tarn_resp::client::integer(&client.call(words).unwrap()).unwrap()
}

fn bgsave(client: &mut Client) {
    assert_eq!(client.call(&["BGSAVE"]).unwrap(), Frame::Simple(b"Background saving started".into()));
}

/// Waits until no dump is taken.
fn wait(server: &Server) {
    let begun = Instant::now();
    while server.info_number("persistence", "rdb_bgsave_in_progress").unwrap() != Some(0) {
        assert!(begun.elapsed() < Duration::from_secs(60), "the dump ends");
        std::thread::yield_now();
    }
    let info = tarn_lab::server::Info::read(&mut server.client().unwrap(), "persistence").unwrap();
    assert_eq!(info.text("rdb_last_bgsave_status"), Some("ok"));
    assert!(info.number::<f64>("checkpoint_last_cut_usec").unwrap() > 0.0);
}

/// Hashes, and members of sorted sets, by key.
#[derive(Default, Debug, PartialEq)]
struct File(BTreeMap<String, BTreeMap<String, String>>, String);

impl File {
    fn put(&mut self, name: &[u8], value: String) {
        let name = String::from_utf8(name.to_vec()).unwrap();
        self.0.get_mut(&self.1).unwrap().insert(name, value);
    }

    fn read(path: &Path) -> File {
        let mut reader = Reader::new(std::fs::File::open(path).unwrap(), Unsupported::Refuse).unwrap();
        let mut file = File::default();
        while let Some(Head { kind, .. }) = reader.next_key().unwrap() {
            assert!(matches!(kind, Kind::Hash | Kind::ZSet));
            file.1 = String::from_utf8(reader.key().to_vec()).unwrap();
            file.0.insert(file.1.clone(), BTreeMap::new());
            reader.read_value(&mut file).unwrap();
        }
        file
    }
}

impl Visitor for File {
    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.put(field, String::from_utf8(value.to_vec()).unwrap());
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        self.put(member, score.to_string());
    }
}

#[test]
fn a_dump_has_the_store_at_the_cut_while_clients_write() {
    for algorithm in ALGORITHMS {
        let dir = tempfile::tempdir().unwrap();
        let server = start(algorithm, dir.path());
        let mut client = server.client().unwrap();
        let keys: Vec<String> = (0..2000).map(|number| format!("user{number}")).collect();
        let write = |client: &mut Client, value: &str| {
            for key in &keys {
                client.call(&["HSET", key, "field0", value, "field1", "same"]).unwrap();
            }
        };
        write(&mut client, "first");
        keys.iter().for_each(|key| {
            client.call(&["ZADD", "_indices", "1.5", key]).unwrap();
        });
        for (before, after) in [("first", "second"), ("second", "third"), ("third", "fourth")] {
            bgsave(&mut client);
            write(&mut client, after);
            client.call(&["HSET", &format!("late{after}"), "field0", after]).unwrap();
            wait(&server);
            let file = File::read(&dir.path().join("dump.rdb"));
            for key in &keys {
                let record = &file.0[key];
                assert_eq!((&*record["field0"], &*record["field1"]), (before, "same"), "{algorithm}");
            }
            assert_eq!(file.0["_indices"].len(), keys.len());
            assert!(file.0["_indices"].values().all(|score| score == "1.5"));
            assert!(!file.0.contains_key(&format!("late{after}")), "{algorithm}");
            let read = client.call(&["HGET", &keys[7], "field0"]).unwrap();
            assert_eq!(read.as_bytes(), Some(after.as_bytes()));
        }
        assert_eq!(number(&mut client, &["DBSIZE"]), keys.len() as i64 + 4);
        server.stop().unwrap();
    }
}

#[test]
fn commands_answer_as_those_of_redis() {
    let dir = tempfile::tempdir().unwrap();
    let server = start("hourglass", dir.path());
    let mut client = server.client().unwrap();
    let mut ask = |words: &[&str]| client.ask(words).unwrap().to_string();
    for (words, reply) in [
        (&["HSET", "user1", "a", "1", "b", "2"][..], "(integer) 2"),
        (&["hset", "user1", "a", "3", "c", "4"], "(integer) 1"),
        (&["HMSET", "user1", "a", "5"], "OK"),
        (&["HGET", "user1", "a"], "\"5\""),
        (&["HGET", "user1", "d"], "(nil)"),
        (&["HGET", "user2", "a"], "(nil)"),
        (&["ZADD", "_indices", "1", "user1", "2", "user2"], "(integer) 2"),
        (&["ZADD", "_indices", "3", "user1"], "(integer) 0"),
        (&["ZSCORE", "_indices", "user1"], "\"3\""),
        (&["ZSCORE", "other", "user1"], "(nil)"),
        (&["DBSIZE"], "(integer) 2"),
        (&["SAVE"], "OK"),
    ] {
        assert_eq!(ask(words), reply, "{words:?}");
    }
    assert_eq!(File::read(&dir.path().join("dump.rdb")).0["user1"]["a"], "5");
    for (words, error) in [
        (&["HGETALL", "_indices"][..], "WRONGTYPE"),
        (&["ZADD", "user1", "1", "a"], "WRONGTYPE"),
        (&["ZADD", "_indices", "nan", "a"], "not a valid float"),
        (&["ZADD", "_indices", "1", "before", "nan", "a"], "not a valid float"),
        (&["HSET", "user1", "a"], "wrong number of arguments"),
        (&["LATENCY", "LEDGER"], "unknown command"),
    ] {
        assert!(ask(words).contains(error), "{words:?}");
    }
    assert_eq!(client.call(&["ZSCORE", "_indices", "before"]).unwrap(), Frame::NullBulk);
    let all = client.call(&["HGETALL", "user1"]).unwrap();
    let Frame::Array(all) = all else { panic!("it is an array") };
    let all: Vec<_> = all.iter().map(|part| part.as_bytes().unwrap()).collect();
    assert_eq!(all, [&b"a"[..], b"5", b"b", b"2", b"c", b"4"]);
    server.stop().unwrap();
}

#[test]
fn a_hash_has_a_bounded_number_of_fields() {
    let dir = tempfile::tempdir().unwrap();
    let server = start("hourglass", dir.path());
    let mut client = server.client().unwrap();
    let names: Vec<String> = (0..1025).map(|number| number.to_string()).collect();
    let mut set = |key: &'static str, names: &[String]| {
        let pairs = names.iter().flat_map(|name| [name.as_str(), "v"]);
        client.ask(&["HSET", key].into_iter().chain(pairs).collect::<Vec<_>>()).unwrap().to_string()
    };
    assert_eq!(set("user1", &names[..1024]), "(integer) 1024");
    assert_eq!(set("user1", &names[..1024]), "(integer) 0", "they are there");
    assert!(set("user1", &names[1023..]).contains("1024 fields at most"));
    assert!(set("user2", &names).contains("1024 fields at most"));
    assert_eq!(client.ask(&["DBSIZE"]).unwrap().to_string(), "(integer) 1");
    server.stop().unwrap();
}

#[test]
fn a_pipeline_that_takes_several_turns_is_answered_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = start("piggyback", dir.path());
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let count = 200_000;
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(&b"PING\r\n".repeat(count)).unwrap());
    let mut replies = vec![0; count * b"+PONG\r\n".len()];
    stream.read_exact(&mut replies).unwrap();
    writer.join().unwrap();
    assert!(replies.ends_with(b"+PONG\r\n"));
    server.stop().unwrap();
}

#[test]
fn a_dump_that_fails_is_told_and_the_next_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let server = start("piggyback", dir.path());
    let mut client = server.client().unwrap();
    client.call(&["HSET", "user1", "a", "1"]).unwrap();
    // The file cannot be made where a folder has its name.
    let unfinished = dir.path().join("dump.rdb.unfinished");
    std::fs::create_dir(&unfinished).unwrap();
    assert!(client.ask(&["SAVE"]).unwrap().is_error());
    client.call(&["HSET", "user1", "a", "2"]).unwrap();
    std::fs::remove_dir(&unfinished).unwrap();
    bgsave(&mut client);
    wait(&server);
    assert_eq!(File::read(&dir.path().join("dump.rdb")).0["user1"]["a"], "2");
}

#[test]
fn replies_that_nobody_reads_do_not_pile_up() {
    const VALUE_BYTES: usize = 1 << 20;
    const REQUESTS: usize = 300;
    let dir = tempfile::tempdir().unwrap();
    let server = start("hourglass", dir.path());
    let mut client = server.client().unwrap();
    client.call(&["HSET", "user1", "a", &"v".repeat(VALUE_BYTES)]).unwrap();
    let mut other = TcpStream::connect(server.address()).unwrap();
    let request = b"*2\r\n$7\r\nHGETALL\r\n$5\r\nuser1\r\n";
    other.write_all(&request.repeat(REQUESTS)).unwrap();
    // It executes all that it has read before it sends anything, if it does not wait.
    other.peek(&mut [0]).unwrap();
    client.call(&["PING"]).unwrap();
    assert!(server.memory().unwrap().resident_bytes < 64 << 20);
    let reply = format!("*2\r\n$1\r\na\r\n${VALUE_BYTES}\r\n").len() + VALUE_BYTES + 2;
    let mut replies = vec![0; reply];
    (0..REQUESTS).for_each(|_| other.read_exact(&mut replies).unwrap());
    server.stop().unwrap();
}
