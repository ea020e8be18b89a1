//! Transactions over sockets: sums that every reader sees whole, random sequences inside `MULTI` and outside
//! of it, against a real `redis-server`, and what a restart finds.

#![allow(clippy::unwrap_used)]

#[path = "../running/mod.rs"]
mod running;

mod commands;
mod differential;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use running::{Connection, LIMIT, Running};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

const ACCOUNTS: usize = 20;
const BALANCE: i64 = 100;
const SUM: i64 = ACCOUNTS as i64 * BALANCE;

fn account(number: usize) -> String {
    format!("account:{number}")
}

/// The integers in a reply that is an array.
fn integers(reply: &str) -> Vec<i64> {
    let inside = reply.strip_prefix("*[").and_then(|reply| reply.strip_suffix(']'));
    let inside = inside.unwrap_or_else(|| panic!("not an array: {reply}"));
    inside.split(' ').map(|element| element[1..].parse().unwrap()).collect()
}

/// One transfer, in one of the ways in which clients do it.
fn transfer(client: &mut Connection, rng: &mut SmallRng) {
    let (from, to) = (rng.random_range(0..ACCOUNTS), rng.random_range(0..ACCOUNTS));
    let (from, to, amount) = (account(from), account(to), rng.random_range(1..10));
    match rng.random_range(0..4) {
        0 => {
            client.ask("MULTI");
            client.ask(&format!("DECRBY {from} {amount}"));
            client.ask(&format!("INCRBY {to} {amount}"));
            client.whole("EXEC");
        }
        1 if from != to => {
            client.ask(&format!("WATCH {from} {to}"));
            let balances = integers(&client.whole(&format!("MGET {from} {to}")));
            client.ask("MULTI");
            client.ask(&format!("SET {from} {}", balances[0] - amount));
            client.ask(&format!("SET {to} {}", balances[1] + amount));
            client.whole("EXEC");
        }
        2 if from != to => {
            client.ask(&format!("WATCH {from} {to}"));
            let balances = integers(&client.whole(&format!("MGET {from} {to}")));
            client.ask("MULTI");
            client.ask(&format!("MSET {from} {} {to} {}", balances[0] - amount, balances[1] + amount));
            client.whole("EXEC");
        }
        // Moves one account's balance to the other by several commands, each of which sees the last.
        _ if from != to => {
            client.ask("MULTI");
            client.ask(&format!("DECRBY {from} {amount}"));
            client.ask(&format!("RENAME {from} between:{}", client.0.get_ref().local_addr().unwrap().port()));
            client.ask(&format!("RENAME between:{} {from}", client.0.get_ref().local_addr().unwrap().port()));
            client.ask(&format!("INCRBY {to} {amount}"));
            client.whole("EXEC");
        }
        _ => {}
    }
}

fn sum_in_transaction(client: &mut Connection, alone: bool) -> i64 {
    client.ask("MULTI");
    if alone {
        client.ask("DBSIZE");
    }
    for number in 0..ACCOUNTS {
        client.ask(&format!("GET {}", account(number)));
    }
    let mut numbers = integers(&client.whole("EXEC"));
    if alone {
        assert_eq!(numbers.remove(0), ACCOUNTS as i64, "no key is seen between two names");
    }
    numbers.iter().sum()
}

fn sum_of_many(client: &mut Connection) -> i64 {
    let accounts: Vec<String> = (0..ACCOUNTS).map(account).collect();
    integers(&client.whole(&format!("MGET {}", accounts.join(" ")))).iter().sum()
}

#[test]
fn transfers_by_any_means_keep_the_sum_for_every_reader_and_over_a_kill() {
    let mut running = Running::start(&["--threads", "3", "--appendfsync", "always"]);
    let mut first = running.connect();
    for number in 0..ACCOUNTS {
        assert_eq!(first.ask(&format!("SET {} {BALANCE}", account(number))), "+OK");
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..6)
            .map(|seed| {
                let mut client = running.connect();
                scope.spawn(move || {
                    let mut rng = SmallRng::seed_from_u64(seed);
                    (0..250).for_each(|_| transfer(&mut client, &mut rng));
                })
            })
            .collect();
        for kind in 0..3 {
            let (mut client, done) = (running.connect(), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let sum = match kind {
                        0 => sum_in_transaction(&mut client, false),
                        1 => sum_in_transaction(&mut client, true),
                        _ => sum_of_many(&mut client),
                    };
                    assert_eq!(sum, SUM, "reader {kind}");
                }
            });
        }
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::Relaxed);
    });
    let before = first.whole("DEBUG DIGEST");
    running.restart();
    assert_eq!(sum_of_many(&mut running.connect()), SUM);
    assert_eq!(running.connect().whole("DEBUG DIGEST"), before);
}

#[test]
fn a_kill_amid_transfers_leaves_the_sum() {
    let mut running = Running::start(&["--threads", "2", "--appendfsync", "no"]);
    let mut first = running.connect();
    for number in 0..ACCOUNTS {
        first.ask(&format!("SET {} {BALANCE}", account(number)));
    }
    // The initial data of every life is on disk.
    for command in ["CONFIG SET appendfsync always", "SET x 0", "CONFIG SET appendfsync no"] {
        assert_eq!(first.ask(command), "+OK");
    }
    let began = Instant::now();
    for life in 0..4 {
        let mut clients: Vec<Connection> = (0..4).map(|_| running.connect()).collect();
        // Many transactions are in progress when the server dies.
        for (number, client) in clients.iter_mut().enumerate() {
            for i in 0..400 {
                let (from, to) = (account((i * 7 + number) % ACCOUNTS), account((i * 13 + life) % ACCOUNTS));
                client.send(&format!("MULTI\r\nDECRBY {from} 3\r\nSET x {i}\r\nINCRBY {to} 3\r\nEXEC"));
            }
        }
        assert_eq!(clients[0].reply(), "+OK");
        running.restart();
        assert_eq!(sum_of_many(&mut running.connect()), SUM, "life {life}");
        assert!(began.elapsed() < LIMIT);
    }
}

#[test]
fn databases_flushed_and_swapped_in_a_transaction_stay_so_after_a_kill() {
    let mut running = Running::start(&["--appendfsync", "always"]);
    let mut client = running.connect();
    for command in ["SET old 1", "MULTI", "SET within 1", "FLUSHDB", "RPUSH l a b", "SWAPDB 0 1", "SET k v"] {
        client.ask(command);
    }
    client.ask("SELECT 1");
    client.ask("LPUSH l c");
    assert_eq!(client.whole("EXEC"), "*[+OK +OK :2 +OK +OK +OK :3]");
    let digest = client.whole("DEBUG DIGEST");
    running.restart();
    let mut client = running.connect();
    assert_eq!(client.whole("DEBUG DIGEST"), digest);
    assert_eq!(client.whole("KEYS *"), "*[$k]");
    client.ask("SELECT 1");
    assert_eq!(client.whole("LRANGE l 0 -1"), "*[$c $a $b]");
}

#[test]
fn what_was_a_string_may_become_a_list_and_lose_it_within_a_transaction() {
    let mut running = Running::start(&["--appendfsync", "always"]);
    let mut client = running.connect();
    for string in ["1", "12", "123", &"long".repeat(10_000)] {
        assert_eq!(client.ask(&format!("SET k {string}")), "+OK");
        for command in ["MULTI", "SPOP k", "DEL k", "RPUSH k a b", "LPOP k", "LPOP k", "EXISTS k"] {
            client.ask(command);
        }
        let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
        assert_eq!(client.whole("EXEC"), format!("*[{wrong_type} :1 :2 $a $b :0]"));
    }
    running.restart();
    assert_eq!(running.connect().whole("KEYS *"), "*[]");
}

#[test]
fn a_transaction_longer_than_the_query_buffer_limit_closes_its_connection() {
    let running = Running::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = running.connect();
    assert_eq!(client.ask("MULTI"), "+OK");
    let command = format!("SET k {}", "v".repeat(50_000));
    let queued = (0..50).take_while(|_| client.ask(&command) == "+QUEUED").count();
    assert!((10..=20).contains(&queued), "{queued} requests of 50 kB were queued");
    assert!(running.folder.messages().contains("longer than client-query-buffer-limit"));
    let mut client = running.connect();
    assert_eq!(client.ask("EXISTS k"), ":0");
    let mut keys = 0;
    while client.ask(&format!("WATCH {}{keys}", "k".repeat(50_000))) == "+OK" && keys < 100 {
        keys += 1;
    }
    assert!((10..=20).contains(&keys), "{keys} keys of 50 kB were watched");
}

#[test]
fn the_keys_that_a_script_looks_at_without_declaring_them_are_bounded() {
    let running = Running::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = running.connect();
    let script = "local n = 0 while true do n = n + 1 redis.call('EXISTS', 'undeclared:' .. n) end";
    let refused = client.ask(&format!("EVAL_RO \"{script}\" 0"));
    assert!(
        refused.starts_with("-ERR the script uses keys of more than client-query-buffer-limit"),
        "{refused}"
    );
    // Keys that it declares are latched, and not copied.
    let script = "for n = 1, 1000 do redis.call('EXISTS', KEYS[1]) end return 1";
    assert_eq!(client.ask(&format!("EVAL_RO \"{script}\" 1 k")), ":1");
}

#[test]
fn what_transactions_and_scripts_change_at_once_is_bounded_but_for_one_request() {
    let running = Running::start(&["--client-query-buffer-limit", "1mb"]);
    let mut client = running.connect();
    assert_eq!(client.ask("SETRANGE k 600000 x"), ":600001");
    let queue = |client: &mut Connection, requests: &[String]| {
        assert_eq!(client.ask("MULTI"), "+OK");
        requests.iter().for_each(|request| assert_eq!(client.ask(request), "+QUEUED"));
        client.whole("EXEC")
    };
    let copies: Vec<String> = (0..10).map(|number| format!("BITOP NOT d{number} k")).collect();
    let refused = queue(&mut client, &copies);
    assert!(refused.starts_with("-EXECABORT") && refused.contains("client-query-buffer-limit"), "{refused}");
    assert_eq!(client.ask("DBSIZE"), ":1", "nothing of it has happened");
    let script = "for i = 1, 10 do redis.call('BITOP', 'NOT', KEYS[2], KEYS[1]) end";
    let refused = client.ask(&format!("EVAL \"{script}\" 2 k d"));
    assert!(refused.contains("client-query-buffer-limit"), "{refused}");
    assert_eq!(client.ask("STRLEN d"), ":600001", "as of any script that fails");
    // The scripts of a transaction, together.
    let script = |number| format!("EVAL \"redis.call('BITOP', 'NOT', KEYS[2], KEYS[1])\" 2 k e{number}");
    let refused = queue(&mut client, &(0..10).map(script).collect::<Vec<_>>());
    assert!(refused.starts_with("-EXECABORT") && refused.contains("client-query-buffer-limit"), "{refused}");
    assert_eq!(client.ask("DBSIZE"), ":2");

    // One request that is longer runs, as it does by itself, and others beside it.
    assert_eq!(client.ask("SETRANGE k 3000000 x"), ":3000001");
    let both = "redis.call('BITOP', 'NOT', KEYS[2], KEYS[1]) redis.call('SET', KEYS[3], 1)";
    assert_eq!(client.ask(&format!("EVAL \"{both} return 1\" 3 k long s")), ":1");
    let requests = ["SET t 1", "RENAME long longer", "SET t 2"].map(String::from);
    assert_eq!(queue(&mut client, &requests), "*[+OK +OK +OK]");
    assert_eq!(client.whole("MGET s t"), "*[$1 $2]");
    assert_eq!(client.ask("STRLEN longer"), ":3000001");
    // Who may not change more still reads.
    let script = "while redis.pcall('BITOP', 'NOT', KEYS[2], KEYS[1]) == 3000001 do end \
                  return redis.call('STRLEN', KEYS[2])";
    assert_eq!(client.ask(&format!("EVAL \"{script}\" 2 k d")), ":3000001");
}

#[test]
fn who_leaves_amid_a_transaction_leaves_nothing_behind() {
    let running = Running::start(&[]);
    let mut other = running.connect();
    for _ in 0..50 {
        let mut client = running.connect();
        client.ask("WATCH missing");
        client.ask("MULTI");
        client.ask("SET k v");
    }
    assert_eq!(other.ask("EXISTS k"), ":0");
    running::eventually(|| (other.ask("CLIENT LIST").lines().count() == 1).then_some(()));
    assert_eq!(other.ask("SET missing v"), "+OK");
}

#[test]
fn unblocking_within_a_transaction_waits_for_nobody() {
    let running = Running::start(&["--threads", "3"]);
    let mut other = running.connect();
    for round in 0..200 {
        let mut waiting = running.connect();
        let id = waiting.ask("CLIENT ID")[1..].to_owned();
        waiting.send("BLPOP l 0");
        running::eventually(|| {
            other.ask(&format!("CLIENT LIST ID {id}")).contains(" flags=b ").then_some(())
        });
        let mut pusher = running.connect();
        pusher.send("RPUSH l a");
        other.ask("MULTI");
        other.ask("LLEN l");
        other.ask(&format!("CLIENT UNBLOCK {id}"));
        other.ask("DEL l");
        other.whole("EXEC");
        assert_eq!(pusher.reply(), ":1", "round {round}");
        let reply = waiting.reply();
        assert!(reply == "*[$l $a]" || reply == "*-1", "round {round}: {reply}");
        other.ask("DEL l");
    }
}
