//! A command hashes each of its keys once, from the request to the table. Requests run as a worker runs them,
//! without sockets. Builds with debug assertions count the hashes of a thread.

#![allow(clippy::unwrap_used)]
#![cfg(debug_assertions)]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;

use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
use tarn_engine::{Background, Engine};
use tarn_engine::{Group, KeyHash};
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

/// A server with one client.
struct Served {
    server: Services,
    client: Client,
    _background: Background,
}

impl Served {
    fn new() -> Served {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Services::new(config, AcceptorHandle::new().0, commands::catalog());
        let (engine, _background) = Engine::unlogged(server.databases, 1, Arc::new(ManualClock::new(NOW)));
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Arc::new(Checkpoints::open(Arc::new(disk), Path::new("/checkpoints")).unwrap());
        server.note_loaded(&engine);
        server.set_store(Store::new(engine, None, checkpoints));
        let address = Address::Unix("test".into());
        let handle = ClientHandle::new(1, address.clone(), address, 0);
        Served { server, client: Client::new(Arc::new(handle), true), _background }
    }

    /// The reply to a request on one line, and how many hashes it took.
    fn ask(&mut self, request: &str) -> (String, u64) {
        let mut group = Group::default();
        let workshop = RefCell::default();
        let mut executor = Executor::new(&self.server, commands::table(), 0, &mut group, &workshop, NOW);
        let args: OwnedArgs = request.split(' ').collect();
        let (mut out, before) = (Vec::new(), KeyHash::hashed());
        executor.run(&mut self.client, args.as_args(), &mut out);
        let hashed = KeyHash::hashed() - before;
        (String::from_utf8_lossy(&out).trim_end().replace("\r\n", " "), hashed)
    }
}

#[test]
fn a_command_hashes_each_of_its_keys_once() {
    let mut served = Served::new();
    for (request, reply, keys) in [
        ("SET a 1", "+OK", 1),
        ("GET a", "$1 1", 1),
        ("GET missing", "$-1", 1),
        ("SET a 2 NX", "$-1", 1),
        ("SET a 2 XX GET KEEPTTL", "$1 1", 1),
        ("INCR a", ":3", 1),
        ("EXPIRE a 100", ":1", 1),
        ("MSET a 1 b 2 c 3", "+OK", 3),
        ("MGET a b missing c", "*4 $1 1 $1 2 $-1 $1 3", 4),
        ("MSET a 1 a 2", "+OK", 2),
        ("RENAME c d", "+OK", 2),
        ("COPY a e", ":1", 2),
        ("COPY a e DB 3", ":1", 2),
        ("MOVE e 2", ":1", 1),
        ("DEL a b missing", ":2", 3),
        ("SADD s x y", ":2", 1),
        ("SUNIONSTORE t s missing s", ":2", 4),
        ("PING", "+PONG", 0),
    ] {
        assert_eq!(served.ask(request), (reply.to_owned(), keys), "{request}");
    }
}

#[test]
fn a_command_with_many_keys_hashes_each_once() {
    let mut served = Served::new();
    let keys: Vec<String> = (0..100).map(|number| format!("key{number}")).collect();
    let pairs: Vec<String> = keys.iter().map(|key| format!("{key} value")).collect();
    assert_eq!(served.ask(&format!("MSET {}", pairs.join(" "))), ("+OK".to_owned(), 100));
    assert_eq!(served.ask(&format!("EXISTS {}", keys.join(" "))), (":100".to_owned(), 100));
    assert_eq!(served.ask(&format!("DEL {}", keys.join(" "))), (":100".to_owned(), 100));
}

#[test]
fn a_key_that_is_expired_or_watched_is_hashed_once_by_each_command() {
    let mut served = Served::new();
    assert_eq!(served.ask("SET gone 1 PXAT 999999").1, 1);
    assert_eq!(served.ask("GET gone"), ("$-1".to_owned(), 1));
    assert_eq!(served.ask("SET gone 1 PXAT 999999").1, 1);
    assert_eq!(served.ask("SET gone 2"), ("+OK".to_owned(), 1));
    assert_eq!(served.ask("WATCH gone other"), ("+OK".to_owned(), 2));
    assert_eq!(served.ask("MULTI").1, 0);
    assert_eq!(served.ask("SET gone 3"), ("+QUEUED".to_owned(), 0));
    assert_eq!(served.ask("GET gone"), ("+QUEUED".to_owned(), 0));
    assert_eq!(served.ask("EXEC"), ("*2 +OK $1 3".to_owned(), 2));
}
