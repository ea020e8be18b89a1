//! The same random sequences twice: inside `MULTI` and outside of it, on Tarn and on `redis-server`.

use crate::running::redis::Redis;
use crate::{Connection, Running, commands};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The number of random sequences that are tried, unless `TARN_SEEDS` says otherwise.
fn seed_count() -> u64 {
    tarn_engine::io::seed_count(300)
}

#[test]
fn a_transaction_replies_and_leaves_what_the_same_commands_would_one_by_one() {
    let (inside, outside) = (Running::start(&["--threads", "1"]), Running::start(&["--threads", "1"]));
    let (mut inside, mut outside) = (inside.connect(), outside.connect());
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        for client in [&mut inside, &mut outside] {
            assert_eq!(client.ask("FLUSHALL"), "+OK");
            assert_eq!(client.ask("SELECT 0"), "+OK");
            commands::large().iter().for_each(|command| assert!(!client.ask(command).starts_with('-')));
        }
        for _ in 0..5 {
            let commands: Vec<String> =
                (0..rng.random_range(1..30)).map(|_| commands::any(&mut rng)).collect();
            assert_eq!(inside.ask("MULTI"), "+OK");
            for command in &commands {
                assert_eq!(inside.ask(command), "+QUEUED", "{command}");
            }
            let replies: Vec<String> = commands.iter().map(|command| outside.whole(command)).collect();
            let expected = format!("*[{}]", replies.join(" "));
            assert_eq!(inside.whole("EXEC"), expected, "seed {seed}: {commands:#?}");
            assert_eq!(
                inside.whole("DEBUG DIGEST"),
                outside.whole("DEBUG DIGEST"),
                "seed {seed}: {commands:#?}"
            );
        }
    }
}

/// The next command of a connection. Outside of a transaction it also watches.
fn next(rng: &mut SmallRng, in_transaction: bool) -> String {
    match (rng.random_range(0..100), in_transaction) {
        (0..15, false) => "MULTI".to_owned(),
        (15..35, false) => {
            let key = |rng: &mut SmallRng| format!("k{}", rng.random_range(0..9));
            format!("WATCH {} {}", key(rng), key(rng))
        }
        (35..37, false) => ["UNWATCH", "EXEC", "DISCARD"][rng.random_range(0..3)].to_owned(),
        (0..20, true) => "EXEC".to_owned(),
        (20..22, true) => "DISCARD".to_owned(),
        (22..25, true) => {
            ["NOSUCH", "SET k0", "MULTI", "WATCH k1", "UNWATCH", "RESET"][rng.random_range(0..6)].to_owned()
        }
        _ => loop {
            let command = if in_transaction { commands::any_in_transaction(rng) } else { commands::any(rng) };
            // One that changes no bit makes the string raw, which is a change to Tarn alone; a `SORT` changes
            // the encoding of a sorted set, which it does in Redis alone.
            if !command.starts_with("SETBIT") && !command.starts_with("OBJECT ENCODING") {
                break command;
            }
        },
    }
}

#[test]
fn connections_that_watch_and_change_the_same_keys_get_the_replies_of_redis() {
    let Some(redis) = Redis::start() else {
        eprintln!("redis-server is not on the PATH: nothing to compare with");
        return;
    };
    let tarn = Running::start(&["--threads", "2"]);
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let mut pairs: Vec<(Connection, Connection)> =
            (0..3).map(|_| (tarn.connect(), redis.connect())).collect();
        let mut in_transaction = [false; 3];
        let mut told = Vec::new();
        for command in ["FLUSHALL".to_owned()].into_iter().chain(commands::large()) {
            assert_eq!(pairs[0].0.whole(&command), pairs[0].1.whole(&command));
        }
        for _ in 0..300 {
            let number = rng.random_range(0..pairs.len());
            let command = next(&mut rng, in_transaction[number]);
            in_transaction[number] = match command.as_str() {
                "MULTI" => true,
                "EXEC" | "DISCARD" | "RESET" => false,
                _ => in_transaction[number],
            };
            let (tarn, redis) = &mut pairs[number];
            let (reply, expected) = (tarn.whole(&command), redis.whole(&command));
            told.push(format!("{number}: {command} -> {expected}"));
            if reply != expected {
                let before = told[told.len().saturating_sub(60)..].join("\n");
                panic!("seed {seed}: {reply} instead of the last reply here\n{before}");
            }
        }
        for (tarn, redis) in &mut pairs {
            assert_eq!(tarn.whole("RESET"), redis.whole("RESET"));
        }
        let (tarn, redis) = &mut pairs[0];
        assert_eq!(tarn.whole("DEBUG DIGEST"), redis.whole("DEBUG DIGEST"), "seed {seed}");
    }
}
