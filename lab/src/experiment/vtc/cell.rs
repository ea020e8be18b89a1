//! A cell: the parameters of one measurement, and its results.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::checkpoint::{Ask, Course, Taken};
use crate::load::KeyChoice;
use crate::report::thousands;
use crate::server::{PeerName, Persistence, Product};
use crate::shortage::Shortage;
use crate::ycsb;

named! {
    /// The owner and the kind of a checkpoint, or of its equivalent.
    pub enum Variant {
        /// Tarn without a log.
        Off = "off",
        /// Tarn with a log that is never compacted.
        None = "none",
        /// Tarn with a log that is compacted by validity, at the default bound of bytes a second.
        Vtc = "vtc",
        /// The same without a bound.
        VtcFast = "vtc-fast",
        /// Tarn with a log from which a checkpoint removes the records that it has.
        Rewrite = "rewrite",
        /// Tarn without a log, with snapshots.
        Snapshot = "snapshot",
        /// The real one with RDB files.
        RedisRdb = "redis-rdb",
        /// The real one with an append-only file.
        RedisAof = "redis-aof",
        /// A small store in this process with the thesis' positions, by file and ordinal.
        Ordinals = "ordinals",
        /// The same as the thesis states it, without the repairs that keep keys.
        PublishedOrdinals = "ordinals-published",
        /// The same store with positions that never move.
        Lsns = "lsns",
    }
}

/// The properties of a variant.
#[derive(Debug, Clone, Copy)]
pub struct Traits {
    /// The server that it is.
    pub product: Product,
    /// The treatment of a write by its log.
    pub persistence: Persistence,
    /// The command for a checkpoint; `None` if it has none.
    pub ask: Option<Ask>,
    /// True if a child process writes, which shares its memory with the server's.
    pub forks: bool,
    /// `log-compaction`; `none` where there is nothing to compact.
    pub compaction: &'static str,
    /// More directives.
    pub directives: &'static [(&'static str, &'static str)],
}

/// Moments of a timeline that make one point of the throughput by time: 100 ms.
const MOMENTS: usize = 5;

const TARN: Traits = Traits {
    product: Product::Tarn,
    persistence: Persistence::None,
    ask: None,
    forks: false,
    compaction: "none",
    directives: &[],
};

const REDIS: Traits = Traits {
    product: Product::RedisServer,
    persistence: Persistence::None,
    ask: Some(Ask::Save),
    forks: true,
    compaction: "none",
    // As the thesis has it; Tarn compresses neither files nor logs.
    directives: &[("rdbcompression", "no"), ("rdb-save-incremental-fsync", "no")],
};

impl Variant {
    /// Its properties. A new variant is a row here, and a look in the report.
    pub const fn traits(self) -> Traits {
        let log = Traits { persistence: Persistence::Everysec, ..TARN };
        let vtc = Traits { ask: Some(Ask::Rewrite), compaction: "vtc", ..log };
        match self {
            // The last three are no servers.
            Variant::Off | Variant::Ordinals | Variant::PublishedOrdinals | Variant::Lsns => TARN,
            Variant::None => log,
            Variant::Vtc => vtc,
            Variant::VtcFast => Traits { directives: &[("log-compaction-bytes-per-second", "0")], ..vtc },
            Variant::Rewrite => Traits { compaction: "rewrite", ..vtc },
            Variant::Snapshot => Traits { ask: Some(Ask::Save), ..TARN },
            Variant::RedisRdb => REDIS,
            Variant::RedisAof => {
                Traits { persistence: Persistence::Everysec, ask: Some(Ask::Rewrite), ..REDIS }
            }
        }
    }

    /// True if it has a log.
    pub fn logs(self) -> bool {
        self.traits().persistence != Persistence::None
    }
}

named! {
    /// The parts of the experiment.
    pub enum Part {
        /// Figures 1.1 and 4.1 to 4.5: closed loop, checkpoints by turns.
        Checkpoints = "checkpoints",
        /// Figures 4.1b, 4.2b, 4.3b and 4.5 where memory is short: the same under a limit.
        Short = "short",
        /// A checkpoint of a server that has nothing else to do.
        Alone = "alone",
        /// Open loop at half of saturation: latency with and without a checkpoint.
        Latency = "latency",
        /// Figures 4.6 and 4.7: file sizes, and starts from them.
        Files = "files",
        /// Bytes written for each update, and the length of the log.
        Writes = "writes",
        /// Positions that a compaction moves, beside positions that never move.
        Positions = "positions",
    }
}

/// Memory that is left to the page tables and the sockets of a server under a limit.
const LIMIT_SPARE: u64 = 128 << 20;

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The part.
    pub part: Part,
    /// Whose checkpoint; of a peer, which stands in the place of the real one, one of `Redis…`.
    pub variant: Variant,
    /// The peer, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<PeerName>,
    /// Records in the store.
    pub records: u64,
    /// Updates among the requests.
    pub update_percent: u32,
    /// The distribution of the updates over the records.
    pub access: KeyChoice,
    /// The limit of memory, if it is short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortage: Option<Shortage>,
    /// The requests to them.
    pub ycsb: ycsb::Requests,
    /// True if it was measured with `--quick`.
    pub quick: bool,
}

impl Cell {
    /// The name of the variant, which begins with that of the peer if it is one.
    pub fn name(&self) -> String {
        match (self.peer, self.variant) {
            (None, variant) => variant.name().to_owned(),
            (Some(peer), Variant::RedisAof) => format!("{peer}-aof"),
            (Some(peer), _) => format!("{peer}-rdb"),
        }
    }

    /// Bytes of the values.
    pub const fn value_bytes(&self) -> u64 {
        self.records * ycsb::VALUE_BYTES
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
        // A child may have all of it twice.
        if let Some(limit) = self.shortage {
            return limit.limit_bytes(self.value_bytes()) + LIMIT_SPARE;
        }
        let once = ycsb::need_bytes(self.records);
        if self.variant.traits().forks { once * 2 } else { once * 5 / 4 }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cell { part, records, update_percent, access, .. } = self;
        let (part, variant, records) = (part.name(), self.name(), thousands(*records as f64));
        write!(f, "{part}: {variant}, {records} records, {update_percent} % updates, {}", access.name())?;
        self.shortage.map_or(Ok(()), |shortage| write!(f, ", memory {shortage}"))
    }
}

/// Files and starts from them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Files {
    /// Seconds of requests between the load and the measurement.
    pub run_s: f64,
    /// Bytes of the files after the records were loaded.
    pub loaded_bytes: u64,
    /// Bytes of the files after the requests; for a variant without a log, of a checkpoint taken then.
    pub run_bytes: u64,
    /// Seconds of starts from these.
    pub started_s: Vec<f64>,
    /// Bytes of the files after a rewrite, or a compaction of the whole log.
    pub short_bytes: Option<u64>,
    /// Seconds of starts from these.
    pub short_started_s: Vec<f64>,
}

/// The bytes that were written for updates.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Writes {
    /// Updates of a field.
    pub updates: u64,
    /// The time that they took, with the time until the log was quiet again.
    pub seconds: f64,
    /// Bytes that the server and its children had written to the device, as the kernel counts them.
    pub device_bytes: u64,
    /// Bytes that were appended to the log, as Tarn reports it.
    pub appended_bytes: Option<u64>,
    /// Bytes of files that compaction put in the place of others.
    pub compacted_bytes: Option<u64>,
    /// By time: milliseconds, bytes of the log, bytes that are needed (of redis-server: after the last
    /// rewrite).
    pub log: Vec<(u32, u64, u64)>,
}

/// Requests of the writer for some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Seconds.
    pub seconds: f64,
    /// Requests a second.
    pub rate: f64,
    /// 999 of 1000 took no longer, in microseconds: of the closed loop from the start of the request, at the
    /// fixed rate from when it was due.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// Processor time of a request, in nanoseconds; of the closed loop. At the fixed rate the writer polls.
    pub writer_ns: f64,
    /// Seconds for which writes waited until blocks had been written to the files.
    pub stalled_s: f64,
}

/// Compactions of all files, one after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Seconds.
    pub seconds: f64,
    /// Processor time of the compactor, in seconds.
    pub cpu_s: f64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Records copied.
    pub kept: u64,
    /// Records dropped.
    pub dropped: u64,
    /// Entries that walks have met.
    pub walked: u64,
    /// Memory of the array of a walk, and of entries that waited for it, at most; in bytes.
    pub job_bytes: u64,
}

/// Kinds of positions.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PositionFigures {
    /// Rounds while nobody writes, of a log of which about half is obsolete.
    pub alone: Vec<Round>,
    /// The closed loop without a compaction.
    pub closed: Vec<Stretch>,
    /// The same during a round.
    pub closed_during: Vec<Stretch>,
    /// Those rounds.
    pub closed_rounds: Vec<Round>,
    /// The fixed rate without a compaction.
    pub fixed: Vec<Stretch>,
    /// The same during a round.
    pub fixed_during: Vec<Stretch>,
    /// Those rounds.
    pub fixed_rounds: Vec<Round>,
    /// Memory of the positions in all entries, in bytes.
    pub position_bytes: u64,
    /// Memory of the bitmaps before a round while nobody writes, at most, in bytes.
    pub bitmap_bytes: u64,
    /// Bytes of records that were appended.
    pub appended_bytes: u64,
    /// Seconds of a start from the files.
    pub started_s: f64,
}

/// The results of a cell. A field that does not concern its part, or that was not measured because the server
/// ended before, stays empty, and is not written: zero is a figure.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Resident memory after the records were loaded.
    #[serde(skip_serializing_if = "is_empty")]
    pub loaded_resident: u64,
    /// `used_memory` then.
    #[serde(skip_serializing_if = "is_empty")]
    pub loaded_used: u64,
    /// `log-file-size` and `log-compaction-min-size` of this run, in bytes.
    #[serde(skip_serializing_if = "is_empty")]
    pub log_file_bytes: u64,
    /// The limit of memory, if there was one.
    pub limit_bytes: Option<u64>,
    /// Processes of the server that the kernel ended at the limit.
    pub kills: u64,
    /// The way in which the lack of memory ended the measurement, if it did.
    pub ended: Option<String>,
    /// Requests a second of the closed loop before an open one.
    #[serde(skip_serializing_if = "is_empty")]
    pub saturation: f64,
    /// The load, and the checkpoints in it.
    #[serde(skip_serializing_if = "is_empty")]
    pub course: Course,
    /// Files and starts.
    #[serde(skip_serializing_if = "is_empty")]
    pub files: Files,
    /// Bytes written.
    #[serde(skip_serializing_if = "is_empty")]
    pub writes: Writes,
    /// Kinds of positions.
    #[serde(skip_serializing_if = "is_empty")]
    pub positions: PositionFigures,
}

/// True for a figure that was not measured.
fn is_empty<T: Default + PartialEq>(figure: &T) -> bool {
    *figure == T::default()
}

impl Figures {
    /// Requests a second by time, in seconds, from the start of the load.
    pub fn requests_by_time(&self) -> Vec<(f64, f64)> {
        let moments = self.course.timeline.chunks_exact(MOMENTS);
        let point = |part: &[(u32, u32, f32, f32)]| {
            let requests: u32 = part.iter().map(|moment| moment.1).sum();
            let seconds = part.len() as f64 * 0.02;
            (f64::from(part[0].0) / 1e3 + seconds, f64::from(requests) / seconds)
        };
        moments.map(point).collect()
    }

    /// Bytes just before a checkpoint and the most during it, of the one that added most; `None` if it is not
    /// known.
    pub fn extra_bytes(&self) -> Option<(u64, u64)> {
        let peak = &self.course.peak;
        let timeline = if peak.is_known() { &peak.timeline[..] } else { &[] };
        let around = |taken: &Taken| {
            let to_ms = taken.from_ms + taken.seconds * 1e3;
            let before = timeline.iter().rev().find(|(at, _)| f64::from(*at) < taken.from_ms)?.1;
            let during = timeline.iter().filter(|(at, _)| (taken.from_ms..=to_ms).contains(&f64::from(*at)));
            Some((before, during.map(|(_, bytes)| *bytes).max()?))
        };
        let all = self.course.taken.iter().filter_map(around);
        all.max_by_key(|(before, during)| during.saturating_sub(*before))
    }

    /// Whether a checkpoint was cut off; `None` if none was taken.
    pub fn is_cut_off(&self) -> Option<bool> {
        let taken = &self.course.taken;
        (!taken.is_empty()).then(|| taken.iter().any(|own| own.is_cut_off))
    }

    /// The worst tenth of a second in the first half of a checkpoint, by the usual throughput.
    pub fn dip(&self) -> f64 {
        let Some(taken) = self.course.taken.first() else { return f64::NAN };
        let half = taken.from_ms..taken.from_ms + (taken.seconds * 500.0).max(100.0);
        let rates = self.requests_by_time();
        let during = rates.iter().filter(|(at, _)| half.contains(&(at * 1e3))).map(|(_, rate)| *rate);
        during.fold(f64::NAN, f64::min) / self.course.without_all.rate
    }

    /// The largest ratio of the log's length to its needed part, once it is long enough to be compacted.
    pub fn longest_log(&self) -> f64 {
        let long = self.writes.log.iter().filter(|(_, all, _)| *all > 2 * self.log_file_bytes);
        long.map(|(_, all, needed)| *all as f64 / (*needed).max(1) as f64).fold(f64::NAN, f64::max)
    }
}
