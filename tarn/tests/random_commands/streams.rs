//! Random sequences of all commands on streams, with groups: replies and digests equal those of a real
//! `redis-server`.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::{IndexedRandom, SliceRandom};
use tarn_resp::Frame;

use crate::alike::{Family, play};

/// Greater numbers are points in time.
const NUMBER_MAX: i64 = 1_000_000_000_000;

/// Makes requests; IDs are near those of the newest entries.
struct Streams {
    rng: SmallRng,
    /// The milliseconds of the newest ID.
    top: u64,
}

impl Streams {
    fn of<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words.choose(&mut self.rng).unwrap()
    }

    fn happens(&mut self, percent: u32) -> bool {
        self.rng.random_ratio(percent, 100)
    }

    fn key(&mut self) -> String {
        let key = if self.happens(97) { self.of(&["s", "t", "u"]) } else { self.of(&["missing", "text"]) };
        key.to_owned()
    }

    fn group(&mut self) -> String {
        if self.happens(95) { self.of(&["g", "h"]) } else { "none" }.to_owned()
    }

    fn consumer(&mut self) -> String {
        self.of(&["a", "b", "c"]).to_owned()
    }

    fn id(&mut self) -> String {
        const ODD: &[&str] = &[
            "0-0",
            "-",
            "+",
            "$",
            ">",
            "x",
            "1-x",
            "-1",
            "1-",
            "(5",
            "18446744073709551616",
            "0-1",
            " 1",
            "+1",
            "01-02",
            "1-2-3",
            "",
            "1-*",
            "*",
        ];
        let seq = self.rng.random_range(0..3);
        match self.rng.random_range(0..20) {
            0..10 => format!("{}-{seq}", self.rng.random_range(1..self.top + 3)),
            10..14 => self.rng.random_range(0..self.top + 2).to_string(),
            14 => "0".to_owned(),
            15 => self.of(ODD).to_owned(),
            _ => format!("{}-0", self.rng.random_range(1..self.top + 1)),
        }
    }

    /// An ID for a read: `+` means something there since Redis 7.4.
    fn id_to_read(&mut self) -> String {
        let id = self.id();
        if id == "+" { "-".to_owned() } else { id }
    }

    fn new_id(&mut self) -> String {
        match self.rng.random_range(0..20) {
            0..12 => {
                self.top += self.rng.random_range(0..2);
                format!("{}-{}", self.top, self.rng.random_range(0..3))
            }
            12..17 => format!("{}-*", self.top),
            // An ID of the server's would be another one at each.
            _ => self.id().replace('*', "7"),
        }
    }

    fn bound(&mut self) -> String {
        match self.rng.random_range(0..10) {
            0..3 => "-".to_owned(),
            3..6 => "+".to_owned(),
            6..8 => format!("({}", self.id()),
            _ => self.id(),
        }
    }

    fn trim(&mut self, words: &mut Vec<String>) {
        let by_length = self.happens(50);
        words.push(if by_length { "MAXLEN" } else { "MINID" }.to_owned());
        if self.happens(30) {
            words.push("=".to_owned());
        }
        let bound =
            if by_length { self.of(&["0", "1", "5", "10", "50", "120", "-1"]).to_owned() } else { self.id() };
        words.push(bound);
        if self.happens(5) {
            words.extend(["LIMIT".to_owned(), self.of(&["0", "10", "x"]).to_owned()]);
        }
    }

    fn count(&mut self, words: &mut Vec<String>, percent: u32) {
        if self.happens(percent) {
            words.extend(["COUNT".to_owned(), self.of(&["0", "1", "2", "5", "-1"]).to_owned()]);
        }
    }

    fn option(&mut self, words: &mut Vec<String>, percent: u32, option: &[&str]) {
        if self.happens(percent) {
            words.extend(option.iter().map(|word| (*word).to_owned()));
        }
    }

    fn any(&mut self) -> Vec<String> {
        let key = self.key();
        match self.rng.random_range(0..22) {
            number @ 0..9 => self.of_entries(number, &key),
            number @ 9..16 => self.of_pending(number, &key),
            number => self.of_groups(number, &key),
        }
    }

    fn of_entries(&mut self, number: u32, key: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut begin = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
        match number {
            0..5 => {
                begin(&["XADD", key]);
                self.option(&mut words, 5, &["NOMKSTREAM"]);
                if self.happens(15) {
                    self.trim(&mut words);
                }
                words.push(self.new_id());
                for _ in 0..self.rng.random_range(1..4) {
                    words.push(self.of(&["a", "b", "field"]).to_owned());
                    words.push("v".repeat([0, 1, 5, 100][self.rng.random_range(0..4)]));
                }
                self.option(&mut words, 1, &["odd"]);
            }
            5 => {
                begin(&[self.of(&["XRANGE", "XREVRANGE"]), key]);
                words.extend([self.bound(), self.bound()]);
                self.count(&mut words, 50);
            }
            6 => {
                begin(&["XDEL", key]);
                words.extend((0..self.rng.random_range(1..4)).map(|_| self.id()));
            }
            7 => {
                begin(&["XTRIM", key]);
                self.trim(&mut words);
            }
            _ => {
                begin(&["XREAD"]);
                self.count(&mut words, 50);
                words.push("STREAMS".to_owned());
                let streams = self.rng.random_range(1..3);
                words.extend((0..streams).map(|_| self.key()));
                words.extend((0..streams).map(|_| self.id_to_read()));
            }
        }
        words
    }

    fn of_pending(&mut self, number: u32, key: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut begin = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
        match number {
            9..12 => {
                begin(&["XREADGROUP", "GROUP", &self.group(), &self.consumer()]);
                self.count(&mut words, 80);
                self.option(&mut words, 10, &["NOACK"]);
                words.push("STREAMS".to_owned());
                // A stream that comes twice is another matter: `docs/compatibility.md`.
                let mut keys = ["s", "t", "u"];
                keys.shuffle(&mut self.rng);
                let streams = self.rng.random_range(1..3);
                words.extend(keys[..streams].iter().map(|key| (*key).to_owned()));
                for _ in 0..streams {
                    let id = if self.happens(70) { ">".to_owned() } else { self.id_to_read() };
                    words.push(id);
                }
            }
            12 => {
                begin(&["XACK", key, &self.group()]);
                words.extend((0..self.rng.random_range(1..4)).map(|_| self.id()));
            }
            13 => {
                begin(&["XPENDING", key, &self.group()]);
                if self.happens(60) {
                    self.option(&mut words, 15, &["IDLE", "0"]);
                    words.extend([self.bound(), self.bound(), self.of(&["0", "1", "5", "100"]).to_owned()]);
                    let consumer = self.consumer();
                    self.option(&mut words, 40, &[&consumer]);
                }
            }
            14 => {
                begin(&["XCLAIM", key, &self.group(), &self.consumer(), self.of(&["0", "0", "100000", "x"])]);
                words.extend((0..self.rng.random_range(1..4)).map(|_| self.id()));
                self.option(&mut words, 20, &["FORCE"]);
                self.option(&mut words, 20, &["JUSTID"]);
                self.option(&mut words, 20, &["RETRYCOUNT", "3"]);
                self.option(&mut words, 10, &["IDLE", "5000"]);
                self.option(&mut words, 10, &["TIME", "1000"]);
                let last = self.id();
                self.option(&mut words, 10, &["LASTID", &last]);
            }
            _ => {
                begin(&["XAUTOCLAIM", key, &self.group(), &self.consumer(), self.of(&["0", "100000"])]);
                words.push(self.id());
                self.count(&mut words, 50);
                self.option(&mut words, 20, &["JUSTID"]);
            }
        }
        words
    }

    fn of_groups(&mut self, number: u32, key: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut begin = |parts: &[&str]| words.extend(parts.iter().map(|part| (*part).to_owned()));
        match number {
            16 => {
                let subcommand =
                    self.of(&["CREATE", "CREATE", "SETID", "CREATECONSUMER", "DELCONSUMER", "DESTROY"]);
                begin(&["XGROUP", subcommand, key, &self.group()]);
                match subcommand {
                    "CREATE" | "SETID" => {
                        let id = self.id();
                        words.push(self.of(&["$", "0", &id]).to_owned());
                        self.option(&mut words, 20, &["ENTRIESREAD", "3"]);
                        self.option(&mut words, 20, &["MKSTREAM"]);
                    }
                    "DESTROY" => {}
                    _ => words.push(self.consumer()),
                }
            }
            17 => {
                begin(&["XINFO", "STREAM", key]);
                self.option(&mut words, 60, &["FULL"]);
                self.count(&mut words, 30);
            }
            18 => begin(&["XINFO", "GROUPS", key]),
            19 => begin(&["XINFO", "CONSUMERS", key, &self.group()]),
            20 => {
                begin(&["XSETID", key, &self.id()]);
                self.option(&mut words, 40, &["ENTRIESADDED", "300"]);
                let deleted = self.id();
                self.option(&mut words, 30, &["MAXDELETEDID", &deleted]);
            }
            _ => match self.rng.random_range(0..10) {
                0 => begin(&["DEL", key]),
                1 => begin(&["COPY", key, &self.key(), "REPLACE"]),
                2 => begin(&["RENAME", key, &self.key()]),
                3 => begin(&["OBJECT", "ENCODING", key]),
                4 => begin(&["TYPE", key]),
                _ => begin(&["XLEN", key]),
            },
        }
        words
    }
}

impl Family for Streams {
    fn new(rng: SmallRng) -> Streams {
        Streams { rng, top: 1 }
    }

    fn request(&mut self) -> Vec<String> {
        self.any()
    }

    fn comparable(words: &[String], reply: Frame) -> Frame {
        without_times(words, reply)
    }
}

/// A reply without points in time, and without what follows from the nodes of a stream.
fn without_times(words: &[String], reply: Frame) -> Frame {
    let is_timed = |name: &Frame| {
        let Frame::Bulk(name) = name else { return false };
        name == b"idle" || name.starts_with(b"radix-tree")
    };
    let lists_pending = words[0] == "XPENDING" && words.len() > 3;
    match reply {
        Frame::Integer(number) if number > NUMBER_MAX => Frame::Integer(0),
        Frame::Array(mut frames) => {
            for at in 1..frames.len() {
                if is_timed(&frames[at - 1]) {
                    frames[at] = Frame::Null;
                }
            }
            if let ([_, _, idle @ Frame::Integer(_), _], true) = (&mut frames[..], lists_pending) {
                *idle = Frame::Null;
            }
            Frame::Array(frames.into_iter().map(|frame| without_times(words, frame)).collect())
        }
        Frame::Map(pairs) => {
            let pair = |(name, value)| {
                let value = if is_timed(&name) { Frame::Null } else { without_times(words, value) };
                (name, value)
            };
            Frame::Map(pairs.into_iter().map(pair).collect())
        }
        other => other,
    }
}

#[test]
fn streams_are_answered_as_redis_answers_them() {
    play::<Streams>(6, &["s", "t", "u"]);
}
