//! A cell: the parameters of one measurement, its variants in turns, and its results.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::store;
use crate::report::thousands;
use crate::snapshots::cell::Distribution;

named! {
    /// The way in which the records are read.
    pub enum Variant {
        /// Not at all: the updates are alone.
        None = "none",
        /// As they are when they are met.
        Live = "live",
        /// Through a view.
        Vls = "vls",
        /// By a child process.
        Fork = "fork",
        /// The paper's literal form, which keeps nothing.
        MasksOff = "masks-off",
        /// The paper's literal form, with masks of 64 bits.
        Masks64 = "masks-64",
        /// The same with 128 bits.
        Masks128 = "masks-128",
        /// The same with 256 bits.
        Masks256 = "masks-256",
        /// The same with 512 bits.
        Masks512 = "masks-512",
        /// The paper's literal form with a remset for each scan.
        PerScan = "per-scan",
        /// The same with a shared remset from which nothing is freed before its scans end.
        ToTheEnd = "to-the-end",
        /// A multi-version store that keeps every version beside a scan.
        Chains = "chains",
        /// One that keeps the versions that began before the newest scan.
        ChainsSeen = "chains-seen",
        /// Not at all: updates by a server's protocol are alone.
        ServedNone = "served-none",
        /// By SQL, which a server answers.
        Served = "served",
    }
}

named! {
    /// The parts of the experiment.
    pub enum Part {
        /// Figure 7a: one query, nothing else.
        Alone = "alone",
        /// Figures 7b, 8a and 9: queries beside as many updates as there can be.
        Updates = "updates",
        /// Figures 8b and 10: queries beside updates in an open loop.
        Latency = "latency",
        /// Figure 11: the kept versions, by time.
        Remset = "remset",
        /// Figure 11 with separate remsets, with shared ones to the end, and with version chains.
        Separate = "separate",
        /// The text on masks of 64 and of 128 bits, and wider ones.
        Masks = "masks",
        /// Version chains beside the paper's literal form.
        Versions = "versions",
        /// Updates that move records in the index, insert and remove them.
        Moves = "moves",
        /// The time until a view is open, and whether it sees what was acknowledged before.
        Opening = "opening",
        /// Figures 8 to 10 with the paper's load, over a server and in this process.
        Served = "served",
        /// Other stores, through their clients.
        References = "references",
    }
}

named! {
    /// The work of an update.
    pub enum Work {
        /// Writes a field that is not indexed.
        Field = "field",
        /// Writes the indexed field: the record moves in the index.
        Move = "move",
        /// Of ten updates six write a field, two move a record, one removes a record, one inserts it again.
        Mixed = "mixed",
    }
}

/// The share of the records that a full scan reads, in percent.
pub(super) const FULL: u32 = 100;

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// The part.
    pub part: Part,
    /// Records in the store.
    pub records: u64,
    /// Queries at the same time.
    pub queries: usize,
    /// The share of the records that a query reads, in percent; by an index unless it is [`FULL`].
    pub share_percent: u32,
    /// Updates a second that are attempted; 0: as many as there can be.
    pub rate: u32,
    /// The work of an update.
    #[serde(default = "field")]
    pub work: Work,
    /// Threads that update.
    #[serde(default = "one")]
    pub writers: usize,
    /// Threads that run the queries.
    #[serde(default = "one")]
    pub threads: usize,
    /// True if it was measured with `--quick`.
    pub quick: bool,
}

const fn field() -> Work {
    Work::Field
}

const fn one() -> usize {
    1
}

impl Cell {
    /// True if a query reads all records.
    pub const fn is_full(&self) -> bool {
        self.share_percent == FULL
    }
}

impl crate::experiment::Cell for Cell {
    fn is_quick(&self) -> bool {
        self.quick
    }

    fn need_bytes(&self) -> u64 {
        // The record with its entry, as much again for versions; some parts have several stores.
        let stores = match self.part {
            Part::Masks => 5,
            Part::Versions | Part::Served => 4,
            _ => 2,
        };
        self.records * store::RECORD_BYTES * 2 * stores + (128 << 20)
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} records", self.part.name(), thousands(self.records as f64))?;
        match self.queries {
            0 => {}
            1 => write!(f, ", 1 query")?,
            queries => write!(f, ", {queries} queries")?,
        }
        match self.share_percent {
            0 | FULL => {}
            share => write!(f, ", {share} % by index")?,
        }
        match self.work {
            Work::Field => {}
            Work::Move => write!(f, ", updates that move")?,
            Work::Mixed => write!(f, ", mixed updates")?,
        }
        if self.rate > 0 {
            write!(f, ", {} updates/s", thousands(f64::from(self.rate)))?;
        }
        match (self.writers, self.threads) {
            (1, 1) => Ok(()),
            (writers, threads) => write!(f, ", {writers} writers, {threads} threads of queries"),
        }
    }
}

/// The figures of a variant in one turn. Times in microseconds; zero if not measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Measured {
    /// Rows that queries read, a second.
    pub rows_per_s: f64,
    /// Queries that ended.
    pub queries: u64,
    /// The durations of the queries.
    pub query: Distribution,
    /// Updates a second.
    pub updates_per_s: f64,
    /// From the moment when an update should have begun until it was done.
    pub latency: Distribution,
    /// 95 of 100 took no longer.
    pub latency_p95: f64,
    /// Versions that were kept at most.
    pub versions: u64,
    /// Those that were kept when no query ran any more.
    pub versions_left: u64,
}

impl Measured {
    /// The time of a query at the speed at which rows were read, in milliseconds: queries that did not end
    /// count too.
    pub fn query_ms(&self, cell: &Cell) -> f64 {
        let rows = cell.records as f64 * f64::from(cell.share_percent) / 100.0;
        rows * cell.queries as f64 / self.rows_per_s * 1e3
    }
}

/// The turns of a variant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Turns {
    /// The variant.
    pub variant: Variant,
    /// The figures of each turn.
    pub turns: Vec<Measured>,
}

/// The kept versions at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Moment {
    /// Milliseconds since the queries began.
    pub ms: f64,
    /// Versions that all queries share.
    pub shared: u64,
    /// Versions that there were if each query had its own.
    pub apart: u64,
    /// The bytes of those that are shared.
    pub bytes: u64,
}

/// The versions that were kept while some queries ran that began at the same time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Remset {
    /// By time.
    pub moments: Vec<Moment>,
    /// The same where nothing is given back until a query has ended.
    pub to_the_end: Vec<Moment>,
    /// Versions kept when the last had ended.
    pub left: u64,
    /// Updates a second meanwhile.
    pub updates_per_s: f64,
}

/// The versions that a store of the study kept while some queries ran that began together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Separate {
    /// The way in which it keeps them.
    pub variant: Variant,
    /// By time; all versions count as shared.
    pub moments: Vec<Moment>,
    /// Versions kept when the last query had ended.
    pub left: u64,
    /// Updates a second meanwhile.
    pub updates_per_s: f64,
    /// True if updates ceased, as the versions had taken the memory that there was.
    pub is_cut: bool,
}

/// The figures of opening views.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Opening {
    /// The time of a view that reads tables, in microseconds.
    pub plain: Distribution,
    /// One that reads indexes as well.
    pub indexed: Distribution,
    /// Views that were asked for a write acknowledged before they were opened.
    pub asked: u64,
    /// Those that did not see it.
    pub stale: u64,
}

/// The figures of another store, or of ours through its clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The name, such as `redis-server, SCAN + HGETALL`.
    pub what: String,
    /// The query: `count`, `sum`, `texts`, `range`.
    pub query: String,
    /// Seconds of each turn.
    pub seconds: Vec<f64>,
}

/// The results of a cell. Fields that do not concern its part stay empty.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// The variants, each with its turns.
    pub variants: Vec<Turns>,
    /// The kept versions by time.
    pub remset: Remset,
    /// The kept versions of stores of the study by time.
    pub separate: Vec<Separate>,
    /// Of opening views.
    pub opening: Opening,
    /// Others, and ours through clients.
    pub references: Vec<Reference>,
    /// True if the threads had priority on their cores.
    pub preferred: bool,
}

impl Figures {
    /// True if versions outlived their last reader, or a view did not see a write acknowledged before it was
    /// opened.
    pub fn is_broken(&self) -> bool {
        let turns = self.variants.iter().flat_map(|own| &own.turns);
        let left: u64 = turns.map(|turn| turn.versions_left).sum();
        let separate: u64 = self.separate.iter().map(|own| own.left).sum();
        left + separate + self.remset.left + self.opening.stale > 0
    }
}
