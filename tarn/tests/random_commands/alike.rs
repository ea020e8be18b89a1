//! Plays random sequences of one family of commands on the program and on a real `redis-server`.

use rand::SeedableRng;
use rand::rngs::SmallRng;
use tarn_resp::Frame;

use crate::client::Client;
use crate::running::Running;
use crate::running::redis::Redis;

/// Requests of a sequence.
const STEPS: usize = 3_000;

/// A family of commands.
pub(crate) trait Family {
    /// The requests of a seed.
    fn new(rng: SmallRng) -> Self;

    /// The next request.
    fn request(&mut self) -> Vec<String>;

    /// A reply without what each server may answer in its own way.
    fn comparable(_words: &[String], reply: Frame) -> Frame {
        reply
    }
}

/// Has both servers answer so many sequences, each on a string `text` alone, in both protocols by turns.
/// Replies are the same, and at the end the values at `keys`.
pub(crate) fn play<F: Family>(sequences: u64, keys: &[&str]) {
    let Some(redis) = Redis::start() else {
        eprintln!("left out: redis-server is not on the PATH");
        return;
    };
    let tarn = Running::start(&["--threads", "2"]);
    let (mut ours, mut theirs) = (Client::connect(tarn.port), Client::connect(redis.port));
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(sequences)) {
        let mut family = F::new(SmallRng::seed_from_u64(seed));
        let protocol = if seed.is_multiple_of(2) { "2" } else { "3" };
        for client in [&mut ours, &mut theirs] {
            client.ask(&["FLUSHALL"]);
            client.ask(&["HELLO", protocol]);
            client.ask(&["SET", "text", "x"]);
        }
        let mut told = Vec::new();
        for _ in 0..STEPS {
            let words = family.request();
            let [reply, expected] =
                [&mut ours, &mut theirs].map(|client| F::comparable(&words, client.ask(&words)));
            told.push(format!("{words:?} -> {expected}"));
            let before = || told[told.len().saturating_sub(12)..].join("\n");
            assert!(reply == expected, "seed {seed}: {reply}\ninstead of the last reply here\n{}", before());
        }
        let digests = [&["DEBUG", "DIGEST-VALUE"], keys].concat();
        assert_eq!(ours.ask(&digests), theirs.ask(&digests), "seed {seed}");
    }
}
