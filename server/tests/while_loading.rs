//! `serve-while-loading`: which requests are answered while the data is being loaded, and that they change
//! nothing. Requests run as a worker runs them, without sockets, on a server whose loading does not go on.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tarn_engine::Group;
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::{Background, Engine};
use tarn_resp::OwnedArgs;
use tarn_server::Services;
use tarn_server::commands;
use tarn_server::config::{Config, ConfigStore};
use tarn_server::execute::client::Client;
use tarn_server::execute::executor::Executor;
use tarn_server::net::address::Address;
use tarn_server::net::handle::ClientHandle;
use tarn_server::net::moves::AcceptorHandle;
use tarn_server::store::Store;

const NOW: u64 = 1_000_000;

/// A server that is loading, and what it has so far.
struct Loading {
    server: Services,
    engine: Arc<Engine>,
    _background: Background,
    client: Client,
}

impl Loading {
    fn new() -> Loading {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Services::new(config, AcceptorHandle::new().0, commands::catalog());
        let databases = server.databases;
        let (engine, _background) = Engine::unlogged(databases, 1, Arc::new(ManualClock::new(NOW)));
        // Else expired keys would go in the background.
        engine.expiry().set_active(false);
        let put = |value: &'static str, expiry| Change::Put { value: value.as_bytes().into(), expiry };
        let bytes = |text: &'static str| text.as_bytes().into();
        let push = |text| Change::ListPush { side: Side::Back, element: bytes(text) };
        for (db, key, change) in [
            (0, "s", put("value", None)),
            (0, "t", put("10", Some(NOW + 5_000))),
            (0, "expired", put("old", Some(NOW - 1))),
            (0, "h", Change::HashPut { field: bytes("f"), value: bytes("v") }),
            (0, "later", Change::HashPut { field: bytes("f"), value: bytes("v") }),
            (0, "later", Change::HashExpire { field: bytes("f"), at: Some(NOW + 5_000) }),
            (0, "part", Change::HashPut { field: bytes("f"), value: bytes("v") }),
            (0, "part", Change::HashPut { field: bytes("g"), value: bytes("v") }),
            (0, "part", Change::HashExpire { field: bytes("f"), at: Some(NOW - 1) }),
            (0, "l", push("2")),
            (0, "l", push("1")),
            (0, "set", Change::SetAdd { member: bytes("m") }),
            (0, "set2", Change::SetAdd { member: bytes("m") }),
            (0, "z", Change::ZSetPut { member: bytes("m"), score: 1.5 }),
            (3, "elsewhere", put("there", None)),
        ] {
            let write = Write::Key { db, key: key.as_bytes().into(), change };
            engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::new()).unwrap();
        }
        engine.show_early(&server.loading.early);
        let address = Address::Unix("test".into());
        let handle = ClientHandle::new(1, address.clone(), address, 0);
        Loading { client: Client::new(Arc::new(handle), true), server, engine, _background }
    }

    /// As `new`, with the directive set.
    fn serving() -> Loading {
        let mut loading = Loading::new();
        assert_eq!(loading.ask("CONFIG SET serve-while-loading yes"), "+OK");
        loading
    }

    /// The reply to requests that come in one batch, on one line.
    fn ask_all(&mut self, requests: &[&str]) -> String {
        let mut group = Group::default();
        let workshop = RefCell::default();
        let mut executor = Executor::new(&self.server, commands::table(), 0, &mut group, &workshop, NOW);
        let mut out = Vec::new();
        for request in requests {
            let args: OwnedArgs = request.split(' ').collect();
            executor.run(&mut self.client, args.as_args(), &mut out);
        }
        String::from_utf8_lossy(&out).trim_end().replace("\r\n", " ")
    }

    fn ask(&mut self, request: &str) -> String {
        self.ask_all(&[request])
    }

    fn assert_loading(&mut self, request: &str) {
        let reply = self.ask(request);
        assert!(reply.starts_with("-LOADING "), "{request}: {reply}");
    }

    /// The data is there.
    fn open_doors(&self) {
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Arc::new(Checkpoints::open(Arc::new(disk), Path::new("/checkpoints")).unwrap());
        self.server.note_loaded(&self.engine);
        self.server.set_store(Store::new(self.engine.clone(), None, checkpoints));
        self.server.loading.early.end();
    }
}

#[test]
fn the_start_of_loading_does_not_change_while_it_goes_on() {
    let mut loading = Loading::new();
    loading.server.shared.started_unix_ms = 5_999;
    let told = loading.ask("INFO persistence");
    assert!(told.contains(" loading_start_time:5 "), "{told}");
}

/// Reads of keys that are there, and their replies.
const READS: [(&str, &str); 31] = [
    ("GET s", "$5 value"),
    ("MGET s t", "*2 $5 value $2 10"),
    ("GETRANGE s 1 2", "$2 al"),
    ("STRLEN s", ":5"),
    ("GETBIT s 1", ":1"),
    ("BITCOUNT s", ":21"),
    ("BITFIELD_RO s GET u8 0", "*1 :118"),
    ("LCS s s LEN", ":5"),
    ("TYPE s", "+string"),
    ("EXISTS s t s", ":3"),
    ("TOUCH s", ":1"),
    ("TTL s", ":-1"),
    ("PTTL t", ":5000"),
    ("OBJECT ENCODING t", "$3 int"),
    ("HGET h f", "$1 v"),
    ("HGET h nofield", "$-1"),
    ("HMGET h f g", "*2 $1 v $-1"),
    ("HGETALL h", "*2 $1 f $1 v"),
    ("HPTTL later FIELDS 1 f", "*1 :5000"),
    ("HSCAN h 0", "*2 $1 0 *2 $1 f $1 v"),
    ("LRANGE l 0 -1", "*2 $1 2 $1 1"),
    ("LLEN l", ":2"),
    ("SORT_RO l", "*2 $1 1 $1 2"),
    ("SISMEMBER set m", ":1"),
    ("SMEMBERS set", "*1 $1 m"),
    ("SINTER set set2", "*1 $1 m"),
    ("SINTERCARD 2 set set2", ":1"),
    ("ZRANGE z 0 -1 WITHSCORES", "*2 $1 m $3 1.5"),
    ("ZSCORE z m", "$3 1.5"),
    ("ZDIFF 1 z", "*1 $1 m"),
    ("GET h", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
];

/// Requests that are not answered before the doors are open.
const NOT_YET: [&str; 42] = [
    // Of keys of which one is not there, or may not be any more.
    "GET nokey",
    "MGET s nokey",
    "EXISTS nokey",
    "EXISTS s nokey",
    "TTL nokey",
    "GET elsewhere",
    "SINTER set nokey",
    "ZUNION 2 z nokey",
    "GET expired",
    "PTTL expired",
    "EXISTS s expired",
    "HGET part f",
    "HGET part g",
    // Not of keys that are named, or not of them alone.
    "SCAN 0",
    "KEYS *",
    "DBSIZE",
    "RANDOMKEY",
    "SORT_RO l BY w*",
    "SORT_RO l GET w*",
    // With arguments that do not say which.
    "SINTERCARD 9 set",
    "ZINTERCARD x z",
    // Writes, in whole or in part.
    "SET s other",
    "SET s other GET",
    "GETSET s other",
    "GETEX s",
    "GETDEL s",
    "APPEND s x",
    "INCR t",
    "EXPIRE s 10",
    "DEL s",
    "UNLINK s",
    "RENAME s r",
    "COPY s r",
    "MOVE s 1",
    "SORT l",
    "BITFIELD s GET u8 0",
    "HSET h f w",
    "LPOP l",
    "SINTERSTORE r set set2",
    "FLUSHALL",
    "SWAPDB 0 1",
    "BLPOP l 0",
];

#[test]
fn reads_of_keys_that_are_there_are_answered() {
    let mut loading = Loading::serving();
    for (request, reply) in READS {
        assert_eq!(loading.ask(request), reply, "{request}");
    }
    assert!(loading.ask("DUMP s").starts_with("$"));
    assert!(loading.ask("MEMORY USAGE s").starts_with(":"));
    assert_eq!(loading.ask("GETRANGE s a b"), "-ERR value is not an integer or out of range");
    assert_eq!(loading.ask_all(&["SELECT 3", "GET elsewhere", "SELECT 0"]), "+OK $5 there +OK");
}

#[test]
fn nothing_else_is_answered() {
    let mut loading = Loading::serving();
    for request in NOT_YET {
        loading.assert_loading(request);
    }
}

#[test]
fn transactions_are_as_they_were() {
    let mut loading = Loading::serving();
    assert_eq!(loading.ask_all(&["WATCH s", "MULTI"]), "+OK +OK");
    loading.assert_loading("GET s");
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    assert_eq!(loading.ask("EXEC"), aborted);
    assert_eq!(loading.ask("GET s"), "$5 value");
}

#[test]
fn without_the_directive_nothing_is_answered_and_it_can_be_set_at_any_time() {
    let mut loading = Loading::new();
    assert_eq!(loading.ask("CONFIG GET serve-while-loading"), "*2 $19 serve-while-loading $2 no");
    for (request, _) in READS {
        loading.assert_loading(request);
    }
    assert_eq!(loading.ask("CONFIG SET serve-while-loading yes"), "+OK");
    assert_eq!(loading.ask("GET s"), "$5 value");
    assert_eq!(loading.ask("CONFIG SET serve-while-loading no"), "+OK");
    loading.assert_loading("GET s");
}

#[test]
fn info_tells_of_it() {
    let mut loading = Loading::new();
    let told = |loading: &mut Loading, line: &str| {
        let info = loading.ask("INFO persistence");
        assert!(info.contains(&format!(" {line} ")), "{line}: {info}");
    };
    told(&mut loading, "loading:1 async_loading:0");
    told(&mut loading, "loading_serves_reads:0 loading_reads_served:0");
    loading.ask("CONFIG SET serve-while-loading yes");
    loading.ask_all(&["GET s", "MGET s t", "GET nokey", "SET s x"]);
    told(&mut loading, "loading:1 async_loading:0");
    told(&mut loading, "loading_serves_reads:1 loading_reads_served:2");
}

#[test]
fn reading_changes_nothing() {
    let mut loading = Loading::serving();
    let before = loading.engine.keyspace();
    for request in READS.iter().map(|(request, _)| *request).chain(NOT_YET) {
        loading.ask(request);
    }
    assert_eq!(loading.engine.keyspace(), before);
    assert_eq!(
        loading.engine.expiry().expired_keys() + loading.server.empty_store.expiry().expired_keys(),
        0
    );
    let totals = loading.server.stats.totals();
    assert_eq!((totals.hits, totals.misses), (0, 0), "what is missing is not known");
    assert_eq!(loading.server.stats.workers[0].changes.load(Ordering::Relaxed), 0);
}

#[test]
fn connections_go_on_when_the_doors_open() {
    let mut loading = Loading::serving();
    assert!(loading.ask("HELLO 3").starts_with('%'));
    assert_eq!(loading.ask_all(&["GET s", "HGETALL h", "SMEMBERS set"]), "$5 value %1 $1 f $1 v ~1 $1 m");
    loading.assert_loading("GET nokey");
    loading.open_doors();
    let replies = loading.ask_all(&["GET s", "GET nokey", "SET s new", "GET s", "HGETALL h"]);
    assert_eq!(replies, "$5 value _ +OK $3 new %1 $1 f $1 v");
}
