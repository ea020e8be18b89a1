//! The machine dies in the middle of scripts: a start finds each script wholly or not at all, and those that
//! were durable.
//!
//! ```text
//!   scripts, one after the other ──> log on a simulated disk ──dies at some call──> recovery
//!   what it finds = the data after one of the scripts, no earlier than the last durable one
//! ```
//!
//! `TARN_SEEDS` says how many seeds are tried.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::checkpoint::Checkpoints;
use tarn_engine::io::{Crash, Disk, ManualClock, SimDisk, SimOptions, seed_count, seeds};
use tarn_engine::record::Lsn;
use tarn_engine::recovery::{self, Progress};
use tarn_engine::{Background, Engine, Group, LogOptions, SyncMode};
use tarn_resp::OwnedArgs;
use tarn_server::Services;
use tarn_server::commands;
use tarn_server::config::{Config, ConfigStore};
use tarn_server::execute::client::Client;
use tarn_server::execute::executor::Executor;
use tarn_server::net::address::Address;
use tarn_server::net::handle::ClientHandle;
use tarn_server::net::moves::AcceptorHandle;
use tarn_server::scripts::Workshop;
use tarn_server::store::{OpenLog, Store};

const NOW: u64 = 1_000_000;
/// Keys of strings, each of which a script counts up.
const KEYS: usize = 4;
/// Scripts between the start and the crash, at most.
const SCRIPTS: usize = 60;
/// How long a change may take to become durable before the disk is taken for dead.
const LIMIT: Duration = Duration::from_secs(20);

/// Scripts that change several keys. They get the keys and a number, at which some of them stop.
const BODIES: [&str; 5] = [
    "for i = 1, #KEYS do redis.call('INCR', KEYS[i]) end redis.call('RPUSH', 'list', ARGV[1])",
    "for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1] .. ('x'):rep(ARGV[1] * 40)) end
     for i = 1, #KEYS do redis.call('SET', KEYS[i], ARGV[1]) end",
    "for i = 1, #KEYS do if i > ARGV[1] % 3 then error('in the middle') end redis.call('INCR', KEYS[i]) end",
    "redis.call('DEL', unpack(KEYS)) for i = #KEYS, 1, -1 do redis.call('SET', KEYS[i], i) end",
    "redis.call('HSET', 'hash', ARGV[1], 'a') redis.call('MSET', KEYS[1], 1, KEYS[2], 2)
     redis.pcall('INCR', 'hash') redis.call('HDEL', 'hash', ARGV[1] - 1)",
];

/// A server on a disk, with one client.
struct Served {
    server: Services,
    client: Client,
    workshop: RefCell<Workshop>,
    _background: Background,
}

impl Served {
    /// `None` if the disk dies at the start.
    fn start(disk: &Arc<dyn Disk>) -> Option<Served> {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let server = Services::new(config, AcceptorHandle::new().0, commands::catalog());
        let checkpoints = Checkpoints::open(disk.clone(), Path::new("/checkpoints")).ok()?;
        let mode = SyncMode::Always;
        let options =
            LogOptions { mode, file_bytes: 1 << 16, ..LogOptions::new(vec![PathBuf::from("/log")]) };
        let progress = Progress::default();
        let databases = server.databases;
        let opened =
            recovery::open(disk.clone(), options, Some(&checkpoints), databases, 1, &progress).ok()?;
        let (clock, appender) = (Arc::new(ManualClock::new(NOW)), Some(opened.log.appender()));
        let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock);
        let log = OpenLog::new(opened.log, true, Lsn::ZERO, &server.wakers);
        server.note_loaded(&engine);
        server.set_store(Store::new(engine, Some(log), Arc::new(checkpoints)));
        let address = Address::Unix("test".into());
        let client = Client::new(Arc::new(ClientHandle::new(1, address.clone(), address, 0)), true);
        Some(Served { server, client, workshop: RefCell::default(), _background: background })
    }

    /// The reply to a request, and the newest change that it tells of.
    fn ask(&mut self, request: &[&str]) -> (String, Lsn) {
        let mut group = Group::default();
        let mut executor = Executor::new(&self.server, commands::table(), 0, &mut group, &self.workshop, NOW);
        let args: OwnedArgs = request.iter().copied().collect();
        let mut out = Vec::new();
        let seen = executor.run(&mut self.client, args.as_args(), &mut out);
        executor.finish();
        (String::from_utf8_lossy(&out).into_owned(), seen)
    }

    /// All data.
    fn state(&mut self) -> String {
        let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
        let mget: Vec<&str> = ["MGET"].into_iter().chain(keys.iter().map(String::as_str)).collect();
        [&mget[..], &["LRANGE", "list", "0", "-1"], &["HGETALL", "hash"]]
            .into_iter()
            .map(|request| self.ask(request).0)
            .collect()
    }

    /// Waits until a change is durable; `false` if the disk has died.
    fn settle(&self, lsn: Lsn, disk: &SimDisk) -> bool {
        let began = Instant::now();
        self.server.have_synced(lsn, true);
        while self.server.durable() < lsn {
            if disk.is_dead() {
                return false;
            }
            assert!(began.elapsed() < LIMIT, "a change is not durable after {LIMIT:?}");
            std::thread::yield_now();
        }
        true
    }
}

/// Runs scripts until the disk dies, then starts again. How many scripts have changed something; the error
/// says what is wrong with what it found.
fn play(seed: u64) -> Result<usize, String> {
    let chance = &mut SmallRng::seed_from_u64(seed);
    let crash_at = Some(chance.random_range(10..250));
    let sim = SimDisk::new(seed, SimOptions { crash_at, ..SimOptions::default() });
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    // The data after each script, with its newest change.
    let fresh: Arc<dyn Disk> = Arc::new(SimDisk::new(seed, SimOptions::default()));
    let mut states = vec![(Lsn::ZERO, Served::start(&fresh).ok_or("a new disk is refused")?.state())];
    let mut durable = Lsn::ZERO;
    if let Some(mut served) = Served::start(&disk) {
        for number in 1..=SCRIPTS {
            let body = BODIES[chance.random_range(0..BODIES.len())];
            let keys: Vec<String> = (0..KEYS).map(|number| format!("key{number}")).collect();
            let number = number.to_string();
            // Those that it does not declare make it run again, with the store for itself.
            let declared = if chance.random_bool(0.7) { KEYS } else { 2 };
            let body = body.replace("KEYS", "keys");
            let body = format!("local keys = {{'{}'}} {body}", keys.join("', '"));
            let count = declared.to_string();
            let mut request = vec!["EVAL", &body, &count];
            request.extend(keys[..declared].iter().map(String::as_str));
            request.push(&number);
            let (_, seen) = served.ask(&request);
            states.push((seen.max(states[states.len() - 1].0), served.state()));
            if chance.random_bool(0.3) && !served.settle(seen, &sim) || sim.is_dead() {
                break;
            }
        }
        durable = served.server.durable();
    }
    let crash = if chance.random_bool(0.8) { Crash::PowerLoss } else { Crash::Kill };
    let disk: Arc<dyn Disk> = Arc::new(sim.crash(crash, seed, SimOptions::default()));
    let found = Served::start(&disk).ok_or("the log is refused")?.state();
    let from = states.iter().rposition(|(lsn, _)| *lsn <= durable).unwrap_or(0);
    if states[from..].iter().any(|(_, state)| *state == found) {
        return Ok(states.windows(2).filter(|pair| pair[0].1 != pair[1].1).count());
    }
    let place = states.iter().position(|(_, state)| *state == found);
    Err(format!("{crash:?}: found {found:?}, state {place:?}, {from} of {} were durable", states.len() - 1))
}

#[test]
fn a_start_finds_whole_scripts_and_the_durable_ones() {
    let (mut plays, mut changes) = (0, 0);
    for seed in seeds(seed_count(60)) {
        match play(seed) {
            Ok(count) => (plays, changes) = (plays + 1, changes + count),
            Err(problem) => panic!("seed {seed}: {problem}"),
        }
    }
    assert!(changes > 5 * plays, "{changes} scripts of {plays} plays have changed something");
}
