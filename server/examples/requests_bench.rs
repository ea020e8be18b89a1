//! Processor time of a worker for one request, without sockets and without a log: from arguments to a reply.
//!
//! ```text
//! cargo run --release -p tarn-server --example requests_bench [ROUNDS]
//! ```

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use tarn_engine::Engine;
use tarn_engine::Group;
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
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
/// Fewer than a cache holds, so that the processor does the work and not the memory.
const KEYS: usize = 1_000;
/// Requests of one batch.
const BATCH: usize = 50;

fn main() {
    let rounds: usize = std::env::args().nth(1).map_or(2_000, |rounds| rounds.parse().unwrap());
    let config = Arc::new(ConfigStore::new(Config::default(), None));
    let server = Services::new(config, AcceptorHandle::new().0, commands::catalog());
    let (engine, _background) = Engine::unlogged(server.databases, 1, Arc::new(ManualClock::new(NOW)));
    let disk = SimDisk::new(1, SimOptions::default());
    let checkpoints = Arc::new(Checkpoints::open(Arc::new(disk), Path::new("/checkpoints")).unwrap());
    server.note_loaded(&engine);
    server.set_store(Store::new(engine, None, checkpoints));
    let address = Address::Unix("bench".into());
    let handle = ClientHandle::new(1, address.clone(), address, 0);
    let mut client = Client::new(Arc::new(handle), true);
    let key = |number: usize| format!("user:{number:012}");
    let set = |number: usize| format!("SET {} some-value-of-a-few-bytes", key(number));
    let get = |number: usize| format!("GET {}", key(number));
    let mset = |number: usize| {
        let pairs: Vec<String> = (0..10).map(|more| format!("{} v", key((number + more) % KEYS))).collect();
        format!("MSET {}", pairs.join(" "))
    };
    let kinds: [(&str, &dyn Fn(usize) -> String); 3] = [("SET", &set), ("GET", &get), ("MSET of 10", &mset)];
    for (name, request) in kinds {
        let requests: Vec<OwnedArgs> = (0..KEYS).map(|number| request(number).split(' ').collect()).collect();
        let (mut group, mut out, mut best) = (Group::default(), Vec::new(), f64::INFINITY);
        for _ in 0..rounds {
            let began = Instant::now();
            for batch in requests.chunks(BATCH) {
                let workshop = RefCell::default();
                let mut executor = Executor::new(&server, commands::table(), 0, &mut group, &workshop, NOW);
                out.clear();
                for args in batch {
                    executor.run(&mut client, args.as_args(), &mut out);
                }
                executor.finish();
            }
            best = best.min(began.elapsed().as_secs_f64());
        }
        println!("{name}: {:.1} ns a request, the least of {rounds} rounds", best * 1e9 / KEYS as f64);
    }
}
