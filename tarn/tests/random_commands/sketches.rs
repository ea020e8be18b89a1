//! Random sequences of all commands on HyperLogLogs: replies equal those of a real `redis-server`, and so do
//! the bytes of values. And HyperLogLogs of many elements: their bytes, and the error of their counts.
//!
//! `TARN_ELEMENTS=10000000 cargo test --release -p tarn --test random_commands sketch -- --nocapture` does
//! the latter with ten million elements, and prints the errors.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use tarn_resp::Frame;

use crate::alike::{Family, play};
use crate::client::Client;
use crate::running::Running;
use crate::running::redis::Redis;

/// Elements that are added in all, unless the environment says how many.
const ELEMENTS: u64 = 800_000;
/// Elements of a request.
const AT_ONCE: u64 = 250;
/// HyperLogLogs whose errors are taken together.
const SKETCHES: u64 = 40;
/// The published standard error of a count: 1.04 by the root of the number of registers.
const ERROR: f64 = 1.04 / 128.0;

struct Sketches(SmallRng);

impl Sketches {
    fn key(&mut self) -> String {
        (*["a", "b", "c", "d", "e", "text"]
            .choose_weighted(&mut self.0, |key| if *key == "text" { 1 } else { 20 })
            .unwrap())
        .to_owned()
    }

    fn keys(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.key()).collect()
    }

    /// One of few elements, or of many: so that runs of registers are joined, and sparse values become dense.
    fn element(&mut self) -> String {
        let below = *[10, 1_000, 100_000, 10_000_000].choose(&mut self.0).unwrap();
        self.0.random_range(0..below).to_string()
    }
}

impl Family for Sketches {
    fn new(rng: SmallRng) -> Sketches {
        Sketches(rng)
    }

    fn request(&mut self) -> Vec<String> {
        let named = |name: &str, keys: Vec<String>| [vec![name.to_owned()], keys].concat();
        match self.0.random_range(0..100) {
            0..60 => {
                let count = *[1, 1, 2, 5, 50].choose(&mut self.0).unwrap();
                let elements = (0..count).map(|_| self.element()).collect();
                [named("PFADD", self.keys(1)), elements].concat()
            }
            60..70 => named("PFCOUNT", self.keys(1)),
            70..75 => named("PFCOUNT", self.keys(3)),
            75..80 => {
                let count = self.0.random_range(1..4);
                named("PFMERGE", self.keys(count))
            }
            80..82 => named(
                "DEL",
                self.keys(1).into_iter().filter(|key| key != "text").chain(["f".into()]).collect(),
            ),
            82 => [vec!["PFDEBUG".into(), "TODENSE".into()], self.keys(1)].concat(),
            83 => [vec!["PFDEBUG".into(), "DECODE".into()], self.keys(1)].concat(),
            _ => named("GET", self.keys(1)),
        }
    }
}

#[test]
fn sketches_are_answered_as_redis_answers_them() {
    play::<Sketches>(4, &["a", "b", "c", "d", "e"]);
}

fn elements() -> u64 {
    std::env::var("TARN_ELEMENTS").map_or(ELEMENTS, |number| number.parse().unwrap())
}

/// The requests that add so many elements to a key, each with how many there are then. No other key has these
/// elements.
fn additions(key: &str, elements: u64) -> impl Iterator<Item = (u64, Vec<String>)> {
    (0..elements).step_by(AT_ONCE as usize).map(move |from| {
        let to = (from + AT_ONCE).min(elements);
        let own = (from..to).map(|number| format!("{key}:{number}"));
        (to, ["PFADD", key].map(str::to_owned).into_iter().chain(own).collect())
    })
}

#[test]
fn a_sketch_of_many_elements_has_the_bytes_and_the_count_of_redis() {
    let Some(redis) = Redis::start() else {
        eprintln!("left out: redis-server is not on the PATH");
        return;
    };
    let tarn = Running::start(&["--threads", "2"]);
    let mut clients = [Client::connect(tarn.port), Client::connect(redis.port)];
    let (all, mut next) = (elements(), AT_ONCE);
    for (there, words) in additions("grown", all) {
        let [ours, theirs] = clients.each_mut().map(|client| client.ask(&words));
        assert_eq!(ours, theirs, "of {there} elements");
        if there < next && there < all {
            continue;
        }
        next *= 2;
        // The count is kept in the value from the first question on.
        for name in ["GET", "PFCOUNT", "GET"] {
            let [ours, theirs] = clients.each_mut().map(|client| client.ask(&[name, "grown"]));
            assert!(ours == theirs, "{name} of {there} elements: {ours}\ninstead of {theirs}");
            if let Frame::Integer(count) = ours {
                let error = count as f64 / there as f64 - 1.0;
                println!("{there} elements: {count}, off by {:.3} %", error * 100.0);
                assert!(error.abs() < 5.0 * ERROR, "{there} elements: {count}");
            }
        }
    }
}

#[test]
fn counts_of_sketches_have_the_published_error() {
    let tarn = Running::start(&["--threads", "2"]);
    let mut client = Client::connect(tarn.port);
    let each = elements() / SKETCHES;
    let mut errors = Vec::new();
    for number in 0..SKETCHES {
        let key = format!("sketch{number}");
        for (_, words) in additions(&key, each) {
            assert!(!client.ask(&words).is_error(), "{key}");
        }
        let reply = client.ask(&["PFCOUNT", &key]);
        let Frame::Integer(count) = reply else { panic!("PFCOUNT answers with a number: {reply}") };
        errors.push(count as f64 / each as f64 - 1.0);
    }
    let mean = errors.iter().sum::<f64>() / SKETCHES as f64;
    let of_all = (errors.iter().map(|error| error * error).sum::<f64>() / SKETCHES as f64).sqrt();
    let told = format!(
        "{SKETCHES} sketches of {each} elements: off by {:.3} %, {:.3} % in the mean",
        of_all * 100.0,
        mean * 100.0
    );
    println!("{told}");
    // The error of so few is itself off by a ninth, and their mean by a sixth of the error of one.
    assert!(of_all < 1.5 * ERROR && mean.abs() < 0.8 * ERROR, "{told}");
}
