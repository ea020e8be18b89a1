//! A cell: the parameters of one measurement, and its results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Course;
use crate::server::Product;
use crate::ycsb;

named! {
    /// The variants of taking a checkpoint.
    pub enum Variant {
        /// Tarn with `snapshot-algorithm fork`.
        Fork = "fork",
        /// Tarn with `snapshot-algorithm hourglass`.
        Hourglass = "hourglass",
        /// Tarn with `snapshot-algorithm piggyback`.
        Piggyback = "piggyback",
        /// The real one.
        RedisServer = "redis-server",
    }
}

impl Variant {
    /// The server that it is.
    pub const fn product(self) -> Product {
        match self {
            Variant::RedisServer => Product::RedisServer,
            _ => Product::Tarn,
        }
    }

    /// True if a child process writes, which shares its memory with the server's.
    pub const fn forks(self) -> bool {
        matches!(self, Variant::Fork | Variant::RedisServer)
    }
}

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

    /// The unit of `Data::count`.
    pub const fn unit(self) -> &'static str {
        match self {
            Kind::Records => "records",
            Kind::Lists => "lists of 250 x 200 B",
            Kind::Hash500 => "hashes of 500 fields",
            Kind::Hash10k => "hashes of 10,000 fields",
            Kind::Hash5m => "fields of one hash",
            Kind::String => "MB of one string",
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
        self.count
            * match self.kind {
                Kind::Records => ycsb::VALUE_BYTES,
                Kind::Lists => 250 * 200,
                Kind::Hash500 => 500 * 100,
                Kind::Hash10k => 10_000 * 100,
                Kind::Hash5m => 100,
                Kind::String => 1 << 20,
            }
    }

    /// An upper estimate of the memory that a server needs for it, with the overhead of the values, before
    /// any checkpoint.
    pub const fn need_bytes(self) -> u64 {
        let around = match self.kind {
            // redis-server's allocator has classes of 1,280 and 1,536 bytes.
            Kind::Records => self.count * 450,
            Kind::Hash500 | Kind::Hash10k | Kind::Hash5m => self.value_bytes(),
            Kind::Lists | Kind::String => self.value_bytes() / 8,
        };
        self.value_bytes() + around + (64 << 20)
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", crate::report::thousands(self.count as f64), self.kind.unit())
    }
}

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The part.
    pub part: Part,
    /// Whose checkpoint.
    pub variant: Variant,
    /// The pace of the checkpoints.
    pub pace: Pace,
    /// The content of the store.
    pub data: Data,
    /// Updates among the requests.
    pub update_percent: u32,
    /// True if it was measured with `--quick`.
    pub quick: bool,
}

impl Cell {
    /// The share of the data that may be in memory twice.
    const fn twice(&self) -> f64 {
        match self.part {
            Part::Overwrite => 1.0,
            _ => 0.5,
        }
    }
}

impl crate::experiment::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        (self.data.need_bytes() as f64 * (1.0 + self.twice())) as u64
    }

    fn is_quick(&self) -> bool {
        self.quick
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.name(), self.variant.name())?;
        if !self.variant.forks() {
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
    /// Seconds from starts until `PING` was answered.
    pub recovered_s: Vec<f64>,
}
