//! The kinds of loaded data, and the way to check them.

use clap::ValueEnum;

use crate::load::{Arg, Request, key_text};
use crate::setting::Setting;
use crate::ycsb;

/// Sorted sets that members are added to in turn.
const SETS: u64 = 100;

/// The parts of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// 10 M strings of 26 bytes, warm cache.
    Warm,
    /// 100 sorted sets of 100,000 members, warm cache.
    Sets,
    /// 1 M records of 1 KB, cold disk.
    Cold,
}

/// A kind of loaded data, and the way to check one record of it.
pub(super) struct Kind {
    pub(super) part: Part,
    pub(super) name: &'static str,
    pub(super) request: Request,
    pub(super) records: u64,
    /// In how many keys they are.
    pub(super) keys: u64,
    /// The request that reads record `number`, and the length of its reply.
    pub(super) sample: fn(u64) -> Vec<String>,
    pub(super) sample_bytes: usize,
}

impl Kind {
    pub(super) fn is_cold(&self) -> bool {
        self.part == Part::Cold
    }
}

fn set_of(number: u64) -> u64 {
    number % SETS
}

/// Spread over all numbers of nine digits.
fn score_of(number: u64) -> u64 {
    100_000_000 + number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 900_000_000
}

pub(super) fn kinds(setting: &Setting) -> [Kind; 4] {
    let small = Arg::Key { prefix: "k", digits: 9, scattered: false };
    let key = Arg::Key { prefix: "key:", digits: 12, scattered: false };
    let member = Arg::Key { prefix: "m", digits: 9, scattered: false };
    let board = Arg::Derived { prefix: "board", digits: 2, of: set_of };
    let score = Arg::Derived { prefix: "", digits: 9, of: score_of };
    let (many, fewer) = (setting.scaled(10_000_000), setting.scaled(1_000_000));
    [
        Kind {
            part: Part::Warm,
            name: "strings of 16 B",
            request: Request::new(&[Arg::Text("SET"), small, Arg::Value(16)]),
            records: many,
            keys: many,
            sample: |number| vec!["GET".to_owned(), key_text("k", 9, false, number)],
            sample_bytes: 16,
        },
        Kind {
            part: Part::Sets,
            name: "members of 100 sorted sets",
            request: Request::new(&[Arg::Text("ZADD"), board, score, member]),
            records: many,
            keys: many.min(SETS),
            sample: |number| {
                let key = format!("board{:02}", set_of(number));
                vec!["ZSCORE".to_owned(), key, key_text("m", 9, false, number)]
            },
            sample_bytes: 9,
        },
        Kind {
            part: Part::Cold,
            name: "strings of 1 KB",
            request: Request::new(&[Arg::Text("SET"), key, Arg::Value(1000)]),
            records: fewer,
            keys: fewer,
            sample: |number| vec!["GET".to_owned(), key_text("key:", 12, false, number)],
            sample_bytes: 1000,
        },
        Kind {
            part: Part::Cold,
            name: "hashes of 1 KB",
            request: ycsb::write(),
            records: fewer,
            keys: fewer,
            sample: |number| {
                vec!["HGET".to_owned(), ycsb::key(number), format!("field{}", number % ycsb::FIELDS)]
            },
            sample_bytes: ycsb::FIELD_BYTES,
        },
    ]
}
