//! Random sequences of all commands on HyperLogLogs: replies equal those of a real `redis-server`, and so do
//! the bytes of values.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;

use crate::alike::{Family, play};

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
