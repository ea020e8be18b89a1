//! A cell: the parameters of one measurement, and its results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::Stretch;
use crate::device::Forgetting;
use crate::report::thousands;
use crate::resources::Usage;
use crate::server::{PeerName, Persistence, Product};
use crate::shortage::{Means, Shortage};
use crate::ycsb;

named! {
    /// The study's models of persistence.
    pub enum Model {
        /// Nothing is kept.
        NoSave = "no-save",
        /// A checkpoint after some time and some changes.
        Snapshot = "snapshot",
        /// A log that the operating system writes when it likes.
        LogDeferred = "log-deferred",
        /// A log that is on the device within a second.
        LogPeriodical = "log-periodical",
        /// A log that is on the device before a reply.
        LogImmediate = "log-immediate",
    }
}

impl Model {
    /// The treatment of a write by the log.
    pub const fn persistence(self) -> Persistence {
        match self {
            Model::NoSave | Model::Snapshot => Persistence::None,
            Model::LogDeferred => Persistence::No,
            Model::LogPeriodical => Persistence::Everysec,
            Model::LogImmediate => Persistence::Always,
        }
    }

    /// True if it has a log.
    pub fn logs(self) -> bool {
        self.persistence() != Persistence::None
    }
}

named! {
    /// The parts of the experiment.
    pub enum Part {
        /// Figures 2 to 9: records are loaded, then updated.
        Load = "load",
        /// Figures 10 to 15: a start from files.
        Recovery = "recovery",
        /// Files that are compressed, beside files that are not, and starts from both.
        Compression = "compression",
        /// Figures 10 and 11 as the study has them: files of inserts alone.
        Inserts = "inserts",
        /// Starts from files that are not in the page cache.
        Cold = "cold",
        /// Files that are flushed while they are written, beside files that are flushed at their end.
        Fsync = "fsync",
    }
}

named! {
    /// The memory that the server may have.
    pub enum Memory {
        /// All.
        Ample = "ample",
        /// Less than the raw data.
        Short = "short",
    }
}

/// The limit of results that do not have theirs.
const SHORTAGE_OF_BEFORE: Shortage = Shortage { percent: 75, by: Means::Group };
/// Memory that is left to the page tables and the sockets of a server under a limit.
const LIMIT_SPARE: u64 = 128 << 20;

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The part.
    pub part: Part,
    /// Whose server: `tarn` or not.
    pub is_tarn: bool,
    /// The peer, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// The model of persistence.
    pub model: Model,
    /// True if its log is rewritten or compacted.
    pub shortens: bool,
    /// Client threads: connections that each wait for their reply.
    pub threads: u32,
    /// Records in the store.
    pub records: u64,
    /// Memory.
    pub memory: Memory,
    /// The limit where it is short. Results of before have none there ([`Cell::limit`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// True if the files are compressed.
    #[serde(default)]
    pub compresses: bool,
    /// True if files are flushed while they are written; of the part that asks for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub incremental_fsync: bool,
    /// The content of values.
    #[serde(default)]
    pub values: ycsb::Values,
    /// The requests to records.
    pub ycsb: ycsb::Requests,
    /// True if it was measured with `--quick`.
    pub quick: bool,
}

impl Cell {
    /// The server.
    pub const fn product(&self) -> Product {
        if self.is_tarn { Product::Tarn } else { Product::RedisServer }
    }

    /// Its name.
    pub fn server(&self) -> &str {
        self.peer.as_ref().map_or(self.product().name(), PeerName::as_str)
    }

    /// Bytes of the raw data.
    pub const fn raw_bytes(&self) -> u64 {
        self.records * ycsb::VALUE_BYTES
    }

    /// The limit of memory, if it is short: until 2026-11-29 always the same.
    pub fn limit(&self) -> Option<Shortage> {
        (self.memory == Memory::Short).then(|| self.shortage.unwrap_or(SHORTAGE_OF_BEFORE))
    }

    /// The directive by which the server compresses the files of the model, with its value; `None` if it
    /// compresses none of them.
    pub const fn compression(&self) -> Option<(&'static str, &'static str)> {
        match (self.model, self.is_tarn) {
            // Tarn takes it for RDB files, and a checkpoint of its own format is as it was.
            (Model::Snapshot, _) => Some(("rdbcompression", "yes")),
            (Model::LogPeriodical, true) => Some(("log-compression", "lz4")),
            _ => None,
        }
    }

    /// The model, with the treatment of its log.
    pub fn model_name(&self) -> String {
        let what = match (self.is_tarn, self.shortens) {
            (_, false) => "",
            (true, true) => ", compacted",
            (false, true) => ", rewritten",
        };
        format!("{}{what}", self.model.name())
    }

    /// The directive by which files are compressed, in words.
    pub fn compressed(&self) -> String {
        match self.compression().filter(|_| self.compresses) {
            Some((name, value)) => format!("{name} {value}"),
            None => "not compressed".to_owned(),
        }
    }

    /// The directive by which the server flushes the file of the model while it writes it, with its value.
    /// Tarn takes both, and ignores them.
    pub const fn flushes(&self) -> (&'static str, &'static str) {
        let name = match self.model {
            Model::Snapshot => "rdb-save-incremental-fsync",
            _ => "aof-rewrite-incremental-fsync",
        };
        (name, if self.incremental_fsync { "yes" } else { "no" })
    }

    /// The same in words.
    pub fn flushed(&self) -> String {
        let (name, value) = self.flushes();
        format!("{name} {value}")
    }

    /// The kind of file that a start reads.
    pub const fn file_name(&self) -> &'static str {
        match (self.model, self.shortens) {
            (Model::Snapshot, _) => "snapshot",
            (_, true) => "log, shortened",
            (_, false) => "log, whole",
        }
    }
}

impl crate::experiment::Cell for Cell {
    fn is_quick(&self) -> bool {
        self.quick
    }

    fn is_of_peer(&self) -> bool {
        self.peer.is_some()
    }

    fn need_bytes(&self) -> u64 {
        if let (Part::Load, Some(limit)) = (self.part, self.shortage) {
            return limit.limit_bytes(self.raw_bytes()) + LIMIT_SPARE;
        }
        // A child may have all of it twice.
        let once = ycsb::need_bytes(self.records);
        if self.is_tarn { once } else { once * 2 }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (part, server, model) = (self.part.name(), self.server(), self.model_name());
        let (records, memory) = (thousands(self.records as f64), self.memory.name());
        write!(f, "{part}: {server}, {model}, {records} records, {memory} memory")?;
        if let Some(shortage) = &self.shortage {
            write!(f, " ({shortage})")?;
        }
        match self.part {
            Part::Load => write!(f, ", {} threads", self.threads),
            Part::Recovery | Part::Inserts | Part::Cold => Ok(()),
            Part::Fsync => write!(f, ", {}", self.flushed()),
            Part::Compression => {
                write!(f, ", {} values, {}", self.values.name(), self.compressed())
            }
        }
    }
}

/// The results of a cell. A field that does not concern its part, or that was not measured because the server
/// ended before, stays empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The limit of memory, if there was one.
    pub limit_bytes: Option<u64>,
    /// The way in which the lack of memory ended the measurement, if it did.
    pub ended: Option<String>,
    /// Processes of the server that the kernel ended at the limit.
    pub kills: u64,
    /// Records that were acknowledged.
    pub loaded: u64,
    /// Error replies, which refused for lack of memory.
    pub errors: u64,
    /// One of them.
    pub first_error: Option<String>,
    /// Processor time of the server in seconds, until all records were loaded, and written to its log.
    pub loading_cpu_s: Option<f64>,
    /// The load of the records.
    pub load: Option<Stretch>,
    /// Updates and reads afterwards, half and half.
    pub updates: Option<Stretch>,
    /// The start of these, in seconds since the start.
    pub updates_from_s: Option<f64>,
    /// `used_memory` after the records were loaded.
    pub used_bytes: Option<u64>,
    /// Resident memory then.
    pub resident_bytes: Option<u64>,
    /// Bytes of the files then.
    pub file_bytes: Option<u64>,
    /// Bytes of the files at the end, or of those of a start.
    pub last_file_bytes: Option<u64>,
    /// Seconds in which the files of a start were written: a snapshot, or a log that was made shorter.
    pub saved_s: Option<f64>,
    /// Seconds of a start until all keys were there.
    pub started_s: Option<f64>,
    /// The way in which the files were taken out of the page cache before it, if they were.
    pub forgotten: Option<Forgetting>,
    /// Processor time of a start by its time.
    pub cores_busy: Option<f64>,
    /// By time: seconds at the end of an interval, and requests a second in it.
    pub throughput: Vec<(f32, f32)>,
    /// The use of the machine by time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub usage: Vec<Usage>,
}
