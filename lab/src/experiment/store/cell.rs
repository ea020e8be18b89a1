//! A cell: the parameters of one measurement, and its results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Course;
use crate::published::Algorithm;
use crate::server::{PeerName, Product};
use crate::ycsb;

named! {
    /// The variants of taking a checkpoint.
    pub enum Variant {
        /// Tarn with `checkpoint-mode fork`.
        TarnFork = "tarn-fork",
        /// Tarn with `checkpoint-mode incremental`.
        TarnIncremental = "tarn-incremental",
        /// Tarn with `checkpoint-mode full`.
        TarnFull = "tarn-full",
        /// The keyed store of the study with two copies of each value, by Hourglass.
        PublishedHourglass = "published-hourglass",
        /// The same by Piggyback.
        PublishedPiggyback = "published-piggyback",
        /// The real one.
        RedisServer = "redis-server",
    }
}

impl Variant {
    /// The kind of server that it is: the published store takes the directives of redis-server.
    pub const fn product(self) -> Product {
        if self.checkpoint_mode().is_some() { Product::Tarn } else { Product::RedisServer }
    }

    /// The algorithm, if it is the published store.
    pub const fn algorithm(self) -> Option<Algorithm> {
        match self {
            Variant::PublishedHourglass => Some(Algorithm::Hourglass),
            Variant::PublishedPiggyback => Some(Algorithm::Piggyback),
            _ => None,
        }
    }

    /// True if its checkpoints have a pace: they are Tarn's, and no child process writes them.
    pub const fn has_paces(self) -> bool {
        matches!(self, Variant::TarnIncremental | Variant::TarnFull)
    }

    /// True if a part is about it. The published store does what figures 13 to 17 and latency need: it loads
    /// no file, and has hashes of few fields only.
    pub const fn has_part(self, part: Part) -> bool {
        match self {
            Variant::PublishedHourglass | Variant::PublishedPiggyback => {
                matches!(part, Part::Latency | Part::Figures | Part::Overwrite)
            }
            // Of a store without changes, an incremental checkpoint has nothing to write.
            Variant::TarnIncremental => !matches!(part, Part::Time),
            _ => true,
        }
    }

    /// The value of `checkpoint-mode`, if it is Tarn.
    pub const fn checkpoint_mode(self) -> Option<&'static str> {
        match self {
            Variant::TarnFork => Some("fork"),
            Variant::TarnIncremental => Some("incremental"),
            Variant::TarnFull => Some("full"),
            _ => None,
        }
    }

    /// True if a child process writes, which shares its memory with the server's.
    pub const fn forks(self) -> bool {
        matches!(self, Variant::TarnFork | Variant::RedisServer)
    }
}

/// A variant, and the peer that stands in its place.
pub(super) type Who = (Variant, Option<PeerName>);

named! {
    /// The pace of a checkpoint.
    pub enum Pace {
        /// `checkpoint-pace quiet`, the default.
        Quiet = "quiet",
        /// `checkpoint-pace fast`; a forked child works so in any case.
        Fast = "fast",
    }
}

named! {
    /// The parts of the experiment.
    pub enum Part {
        /// Closed loop, 50 % updates, uniform: throughput with and without a checkpoint.
        Saturated = "saturated",
        /// Open loop at half of saturation, 50 % updates, uniform: latency with and without a checkpoint.
        Latency = "latency",
        /// Figures 13 to 17: closed loop of 256 connections, Zipfian, a checkpoint 10 s after the last.
        Figures = "figures",
        /// All records written to while a checkpoint is taken: memory.
        Overwrite = "overwrite",
        /// A checkpoint of a server that has nothing else to do, and a start from it.
        Time = "time",
        /// Giant collections: open and closed loop.
        Giants = "giants",
    }
}

named! {
    /// The kind of the store's content.
    pub enum Kind {
        /// Hashes of ten fields of 100 bytes.
        Records = "records",
        /// Lists of 250 elements of 200 bytes.
        Lists = "lists",
        /// Hashes of 500 fields of 100 bytes.
        Hash500 = "hash500",
        /// Hashes of 10,000 fields of 100 bytes.
        Hash10k = "hash10k",
        /// A hash of 5 M fields of 100 bytes.
        Hash5m = "hash5m",
        /// A string of 512 MB.
        String = "string",
    }
}

impl Kind {
    /// The giants.
    pub const GIANTS: [Kind; 5] = [Kind::Lists, Kind::Hash500, Kind::Hash10k, Kind::Hash5m, Kind::String];

    /// The unit of `Data::count`, the bytes of its values, and those that a server needs around them at most.
    const fn unit(self) -> (&'static str, u64, u64) {
        match self {
            Kind::Records => ("records", ycsb::VALUE_BYTES, ycsb::OVERHEAD_BYTES),
            Kind::Lists => ("lists of 250 x 200 B", 250 * 200, 250 * 200 / 8),
            Kind::Hash500 => ("hashes of 500 fields", 500 * 100, 500 * 100),
            Kind::Hash10k => ("hashes of 10,000 fields", 10_000 * 100, 10_000 * 100),
            Kind::Hash5m => ("fields of one hash", 100, 100),
            Kind::String => ("MB of one string", 1 << 20, (1 << 20) / 8),
        }
    }
}

/// The kind and the amount of the store's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Data {
    /// Its kind.
    pub kind: Kind,
    /// Its number of units.
    pub count: u64,
}

impl Data {
    /// Bytes of the values.
    pub const fn value_bytes(self) -> u64 {
        self.count * self.kind.unit().1
    }

    /// Bytes of the values under one key.
    pub const fn largest_bytes(self) -> u64 {
        match self.kind {
            Kind::Hash5m | Kind::String => self.value_bytes(),
            kind => kind.unit().1,
        }
    }

    /// An upper estimate of the memory that a server needs for it, with the overhead of the values, before
    /// any checkpoint.
    pub const fn need_bytes(self) -> u64 {
        self.value_bytes() + self.count * self.kind.unit().2 + (64 << 20)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", crate::report::thousands(self.count as f64), self.kind.unit().0)
    }
}

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The part.
    pub part: Part,
    /// Whose checkpoint; of a peer, which stands in the place of the real one, `RedisServer`.
    pub variant: Variant,
    /// The peer, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// The pace of the checkpoints.
    pub pace: Pace,
    /// The content of the store.
    pub data: Data,
    /// Updates among the requests.
    pub update_percent: u32,
    /// The requests to records.
    pub ycsb: ycsb::Requests,
    /// True if it was measured with `--quick`.
    pub quick: bool,
}

impl Cell {
    /// The name of the variant or of the peer.
    pub fn name(&self) -> &str {
        self.peer.as_ref().map_or(self.variant.name(), PeerName::as_str)
    }

    /// The server: cells of the same one and of the same data are measured on one process.
    pub fn who(&self) -> Who {
        (self.variant, self.peer)
    }

    /// Memory that the server needs at most while it takes no checkpoint.
    pub const fn filled_bytes(&self) -> u64 {
        let once = self.data.need_bytes();
        match self.variant.algorithm() {
            // A field has two pointers and bits, and under Piggyback two values.
            Some(Algorithm::Hourglass) => once * 3 / 2,
            Some(Algorithm::Piggyback) => once * 9 / 4,
            None => once,
        }
    }
}

impl crate::experiment::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        // All of the data may be in memory twice, or half of it.
        let once = self.data.need_bytes();
        let most = if self.part == Part::Overwrite { once * 2 } else { once * 3 / 2 };
        // Of the published store, each value twice.
        if self.variant.algorithm().is_some() { once * 9 / 4 } else { most }
    }

    fn is_quick(&self) -> bool {
        self.quick
    }

    fn is_of_peer(&self) -> bool {
        self.peer.is_some()
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.name(), self.name())?;
        if self.variant.has_paces() {
            write!(f, " {}", self.pace.name())?;
        }
        write!(f, ", {}", self.data)?;
        if self.part == Part::Figures {
            write!(f, ", {} % updates", self.update_percent)?;
        }
        Ok(())
    }
}

/// The results of a cell. Fields that do not concern its part stay empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Requests a second of the closed loop before.
    pub saturation: f64,
    /// Requests a second that were due.
    pub due_rate: f64,
    /// The load, and the checkpoints in it.
    #[serde(flatten)]
    pub course: Course,
    /// In a closed loop: requests a second without a checkpoint, stretch by stretch.
    pub rates_without: Vec<f64>,
    /// With one.
    pub rates_during: Vec<f64>,
    /// Records written to while the checkpoint was taken, by records that there are.
    pub overwritten: f64,
    /// The number of requests that ended figures 13 to 17; 0 if time ended them.
    pub operations: u64,
    /// Seconds from starts until `PING` was answered.
    pub recovered_s: Vec<f64>,
}
