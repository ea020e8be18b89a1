//! Kills at random moments while checkpoints are taken under a load of writers.
//!
//! ```text
//!   writers: MULTI … EXEC, MULTI … EXEC, …                                     kill
//!   saver:   epoch 1, BGSAVE, epoch 2, BGSAVE finished 1 …, epoch 4, BGSAVE finished 3 │
//!   restart: epoch 3 or 4, every transaction whole, one checkpoint and nothing else
//! ```

use super::running::{Connection, Running, eventually};
use super::{assert_one_checkpoint, fill_many, number};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;

const ACCOUNTS: usize = 50;
const BALANCE: i64 = 1000;
const WRITERS: u64 = 2;
const ROUNDS: u64 = 6;
/// Pairs of keys that are made and removed together.
const PAIRS: usize = 200;

/// Writes until the connection ends, or there were as many as no round should need.
fn write(mut client: Connection, mut rng: SmallRng) {
    for _ in 0..1_000_000 {
        let (from, to) = (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
        let (amount, pair) = (rng.random_range(1..10), rng.random_range(0..PAIRS));
        let change = if rng.random_bool(0.5) {
            format!("DEL left:{pair} right:{pair}")
        } else {
            format!("SET left:{pair} {amount}\r\nSET right:{pair} {amount}")
        };
        let request = format!(
            "MULTI\r\nDECRBY account:{from} {amount}\r\n{change}\r\nINCRBY account:{to} {amount}\r\nEXEC"
        );
        // One for `MULTI`, one for each command, and as many with EXEC's and the length of its array.
        let lines = 2 * (3 + change.lines().count());
        if client.try_ask(&request).is_none() || (1..lines).any(|_| client.try_reply().is_none()) {
            return;
        }
    }
}

/// Takes checkpoints and kills the server amid the last. Returns the last that was finished.
fn save_and_kill(running: &mut Running, epoch: &mut u64, rng: &mut SmallRng) -> u64 {
    let mut client = running.connect();
    let mut finished = *epoch;
    for _ in 0..rng.random_range(1..5) {
        finished = save(&mut client, epoch);
        eventually(|| (number(&mut client, "rdb_bgsave_in_progress") == 0).then_some(()));
        let status = super::field(&mut client, "rdb_last_bgsave_status").unwrap();
        assert_eq!(status, "ok");
    }
    save(&mut client, epoch);
    std::thread::sleep(Duration::from_micros(rng.random_range(0..60_000)));
    running.server.take().unwrap().kill();
    finished
}

fn save(client: &mut Connection, epoch: &mut u64) -> u64 {
    *epoch += 1;
    assert_eq!(client.ask(&format!("SET epoch {epoch}")), "+OK");
    assert_eq!(client.ask("BGSAVE"), "+Background saving started");
    *epoch
}

fn values(client: &mut Connection, name: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| client.whole(&format!("GET {name}:{number}"))).collect()
}

fn kills_find_whole_checkpoints(mode: &str, seed: u64) {
    println!("seed {seed}");
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut running = Running::start(&["--appendonly", "no", "--save", "", "--checkpoint-mode", mode]);
    let mut client = running.connect();
    fill_many(&mut client);
    for number in 0..ACCOUNTS {
        assert_eq!(client.ask(&format!("SET account:{number} {BALANCE}")), "+OK");
    }
    assert_eq!(client.ask("SAVE"), "+OK");
    let mut epoch = 0;
    for round in 0..ROUNDS {
        let pace = if rng.random_bool(0.5) { "fast" } else { "quiet" };
        assert_eq!(running.connect().ask(&format!("CONFIG SET checkpoint-pace {pace}")), "+OK");
        let finished = std::thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (client, rng) = (running.connect(), SmallRng::seed_from_u64(seed + 10 * round + writer));
                scope.spawn(move || write(client, rng));
            }
            save_and_kill(&mut running, &mut epoch, &mut rng)
        });
        running.restart();
        assert_one_checkpoint(&running.folder);
        let mut client = running.connect();
        let found: u64 = client.whole("GET epoch")[1..].parse().unwrap();
        assert!((finished..=epoch).contains(&found), "round {round}: {finished}, {epoch}: {found}");
        let balances = values(&mut client, "account", ACCOUNTS);
        let sum: i64 = balances.iter().map(|balance| balance[1..].parse::<i64>().unwrap()).sum();
        assert_eq!(sum, ACCOUNTS as i64 * BALANCE, "round {round}");
        let pairs = (values(&mut client, "left", PAIRS), values(&mut client, "right", PAIRS));
        assert_eq!(pairs.0, pairs.1, "round {round}");
        let count = pairs.0.iter().filter(|value| *value != "$-1").count();
        let keys = super::MANY_KEYS + ACCOUNTS + 2 * count + 1;
        assert_eq!(client.ask("DBSIZE"), format!(":{keys}"), "round {round}");
        epoch = found;
    }
}

#[test]
fn a_kill_amid_a_full_checkpoint_finds_a_whole_one() {
    kills_find_whole_checkpoints("full", 20_261_121);
}

#[test]
fn a_kill_amid_an_incremental_checkpoint_finds_a_whole_one() {
    kills_find_whole_checkpoints("incremental", 20_261_122);
}

#[test]
fn a_kill_amid_a_checkpoint_by_fork_finds_a_whole_one() {
    kills_find_whole_checkpoints("fork", 20_261_123);
}
