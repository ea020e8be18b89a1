//! Random sequences of all commands on points of the earth: replies, in their order too, equal those of a
//! real `redis-server`. And searches among many points.
//!
//! `TARN_POINTS=1000000 cargo test --release -p tarn --test random_commands points` does the latter with a
//! million points.

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::alike::{Family, play};
use crate::client::Client;
use crate::running::Running;
use crate::running::redis::Redis;

/// Points among which is searched, unless the environment says how many.
const POINTS: usize = 20_000;
/// Points of a request.
const AT_ONCE: usize = 100;
/// Searches among them.
const SEARCHES: usize = 1_000;

/// Members that are added before all else, so that each search looks into several cells of the map.
const FIRST: usize = 300;

struct Points {
    rng: SmallRng,
    requests: usize,
}

impl Points {
    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words.choose(&mut self.rng).unwrap()
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn member(&mut self) -> String {
        format!("m{}", self.rng.random_range(0..400))
    }

    /// Anywhere.
    fn anywhere(&mut self) -> [String; 2] {
        [self.rng.random_range(-180.0..180.0), self.rng.random_range(-85.0..85.0)]
            .map(|it: f64| it.to_string())
    }

    /// Anywhere, near each other, or none. No two are the same: Redis has no order for equal distances.
    fn point(&mut self) -> [String; 2] {
        match self.rng.random_range(0..20) {
            0..10 => self.anywhere(),
            10..16 => [self.rng.random_range(0.0..3.0), self.rng.random_range(-1.0..1.0)]
                .map(|it: f64| it.to_string()),
            16..19 => [self.rng.random_range(-180.0..180.0), self.rng.random_range(60.0..85.0)]
                .map(|it: f64| it.to_string()),
            _ => [self.of(&["181", "x", "0"]).into(), self.of(&["90", "x"]).into()],
        }
    }

    fn length(&mut self) -> String {
        match self.rng.random_range(0..20) {
            0..8 => self.rng.random_range(0.0..5_000.0).to_string(),
            8..14 => self.rng.random_range(0.0..100.0).to_string(),
            14..18 => 10_u64.pow(self.rng.random_range(0..8)).to_string(),
            _ => self.of(&["0", "-1", "x"]).to_owned(),
        }
    }

    fn unit(&mut self) -> String {
        if self.happens(97) { self.of(&["m", "km", "ft", "mi", "KM"]) } else { "x" }.to_owned()
    }

    fn middle(&mut self) -> Vec<String> {
        match self.happens(40) {
            true => vec!["FROMMEMBER".into(), self.member()],
            false => [vec!["FROMLONLAT".to_owned()], self.point().to_vec()].concat(),
        }
    }

    fn shape(&mut self) -> Vec<String> {
        match self.happens(50) {
            true => vec!["BYRADIUS".into(), self.length(), self.unit()],
            false => vec!["BYBOX".into(), self.length(), self.length(), self.unit()],
        }
    }

    fn options(&mut self, shown: u32, stores: &[&str]) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        for option in ["WITHDIST", "WITHCOORD", "WITHHASH"] {
            if self.happens(shown) {
                words.push(option.to_owned());
            }
        }
        if !stores.is_empty() && self.happens(30) {
            words = vec![self.of(stores).to_owned(), "stored".to_owned()];
        }
        if self.happens(40) {
            words.push(self.of(&["ASC", "DESC"]).to_owned());
        }
        if self.happens(30) {
            words.extend(["COUNT".to_owned(), self.of(&["1", "2", "5", "100", "0"]).to_owned()]);
            if self.happens(30) {
                words.push("ANY".to_owned());
            }
        }
        words
    }

    fn kilometres(&mut self) -> String {
        self.rng.random_range(1.0..1_000.0_f64).to_string()
    }

    /// A search among so many members by a shape that has few of them.
    fn search(&mut self, members: usize) -> Vec<String> {
        let middle = match self.happens(40) {
            true => vec!["FROMMEMBER".to_owned(), format!("m{}", self.rng.random_range(0..members))],
            false => [&["FROMLONLAT".to_owned()][..], &self.anywhere()].concat(),
        };
        let shape = match self.happens(50) {
            true => vec!["BYRADIUS".to_owned(), self.kilometres(), "km".to_owned()],
            false => vec!["BYBOX".to_owned(), self.kilometres(), self.kilometres(), "km".to_owned()],
        };
        let head = ["GEOSEARCH", "points"].map(str::to_owned).to_vec();
        [head, middle, shape, self.options(50, &[])].concat()
    }

    fn add(&mut self) -> Vec<String> {
        let mut words = vec!["GEOADD".to_owned(), "points".to_owned()];
        if self.happens(10) {
            words.push(self.of(&["NX", "XX", "CH"]).to_owned());
        }
        for _ in 0..self.rng.random_range(1..4) {
            words.extend(self.point());
            words.push(self.member());
        }
        words
    }
}

impl Family for Points {
    fn new(rng: SmallRng) -> Points {
        Points { rng, requests: 0 }
    }

    fn request(&mut self) -> Vec<String> {
        self.requests += 1;
        if self.requests <= FIRST {
            return self.add();
        }
        let key = if self.happens(97) { "points" } else { self.of(&["none", "text"]) }.to_owned();
        let named =
            |name: &str, parts: &[Vec<String>]| [vec![name.to_owned(), key.clone()], parts.concat()].concat();
        match self.rng.random_range(0..12) {
            0 => self.add(),
            1 => named("GEOPOS", &[vec![self.member(), self.member()]]),
            2 => named("GEOHASH", &[vec![self.member(), self.member()]]),
            3 => named("GEODIST", &[vec![self.member(), self.member(), self.unit()]]),
            4 | 5 => {
                let middle = [self.point().to_vec(), vec![self.length(), self.unit()]].concat();
                match self.happens(50) {
                    true => named("GEORADIUS", &[middle, self.options(25, &["STORE", "STOREDIST"])]),
                    false => named("GEORADIUS_RO", &[middle, self.options(25, &[])]),
                }
            }
            6 => {
                let middle = vec![self.member(), self.length(), self.unit()];
                match self.happens(50) {
                    true => named("GEORADIUSBYMEMBER", &[middle, self.options(25, &["STORE", "STOREDIST"])]),
                    false => named("GEORADIUSBYMEMBER_RO", &[middle, self.options(25, &[])]),
                }
            }
            7..11 => named("GEOSEARCH", &[self.middle(), self.shape(), self.options(25, &[])]),
            _ => {
                let distances = if self.happens(40) { vec!["STOREDIST".to_owned()] } else { Vec::new() };
                let searched = [self.middle(), self.shape(), self.options(2, &[]), distances].concat();
                [vec!["GEOSEARCHSTORE".to_owned(), "stored".to_owned(), key], searched].concat()
            }
        }
    }
}

#[test]
fn points_are_answered_as_redis_answers_them() {
    play::<Points>(4, &["points", "stored"]);
}

#[test]
fn many_points_are_kept_and_found_as_redis_keeps_and_finds_them() {
    let Some(redis) = Redis::start() else {
        eprintln!("left out: redis-server is not on the PATH");
        return;
    };
    let all = std::env::var("TARN_POINTS").map_or(POINTS, |number| number.parse().unwrap());
    let tarn = Running::start(&["--threads", "2"]);
    let mut clients = [Client::connect(tarn.port), Client::connect(redis.port)];
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(1)) {
        let mut points = Points::new(SmallRng::seed_from_u64(seed));
        let mut both = |words: &[String]| {
            let [ours, theirs] = clients.each_mut().map(|client| client.ask(words));
            assert!(ours == theirs, "seed {seed}: {words:?}: {ours}\ninstead of {theirs}");
        };
        both(&["FLUSHALL".to_owned()]);
        for from in (0..all).step_by(AT_ONCE) {
            let members = (from..all.min(from + AT_ONCE)).map(|number| format!("m{number}"));
            let names: Vec<String> = members.collect();
            let places = names.iter().flat_map(|name| {
                let [longitude, latitude] = points.anywhere();
                [longitude, latitude, name.clone()]
            });
            let head = |command: &str| [command, "points"].map(str::to_owned).to_vec();
            both(&head("GEOADD").into_iter().chain(places).collect::<Vec<_>>());
            both(&[head("GEOPOS"), names.clone()].concat());
            both(&[head("GEOHASH"), names].concat());
        }
        for _ in 0..SEARCHES {
            both(&points.search(all));
        }
        both(&["DEBUG", "DIGEST-VALUE", "points"].map(str::to_owned));
    }
}
