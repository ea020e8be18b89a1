//! One cell of the study: an algorithm with one choice of the parameters. It is measured in a process of its
//! own, so that no cell depends on what another has left.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::error::{IoContext, LabError, Result};
use crate::program::output_unless_asked;
use crate::report::median;
use crate::results;

named! {
    /// The algorithms of the study, with their short names there.
    pub enum Algorithm {
        /// Naive.
        Naive = "NS" | "ns",
        /// Copy-on-Update.
        CopyOnUpdate = "COU" | "cou",
        /// Fork.
        Fork = "Fork" | "fork",
        /// Zigzag.
        Zigzag = "ZZ" | "zz",
        /// Ping-Pong.
        PingPong = "PP" | "pp",
        /// Hourglass.
        Hourglass = "HG" | "hg",
        /// Piggyback.
        Piggyback = "PB" | "pb",
        /// Copy-on-Update as published, which locks the row for each write and reads in place.
        PublishedCopyOnUpdate = "COU-locks" | "cou-locks",
        /// Hourglass as published, with bits.
        PublishedHourglass = "HG-bits" | "hg-bits",
        /// Piggyback as published, with 2-bit tags.
        PublishedPiggyback = "PB-tags" | "pb-tags",
        /// Write protection of pages.
        WriteProtection = "WP" | "wp",
        /// Write protection of pages that the kernel lifts itself.
        AsyncWriteProtection = "WP-async" | "wp-async",
        /// Fork, whose child returns the pages that it has written.
        ReturningFork = "Fork-returns" | "fork-returns",
        /// Fork, with hot rows in small pages and cold rows in huge ones.
        HotColdFork = "Fork-hot-cold" | "fork-hot-cold",
        /// CALC.
        Calc = "CALC" | "calc",
        /// Virtual Hourglass.
        VirtualHourglass = "vHG" | "vhg",
        /// Virtual Piggyback.
        VirtualPiggyback = "vPB" | "vpb",
        /// CALC with partial checkpoints.
        PartialCalc = "pCALC" | "pcalc",
        /// CPR.
        Cpr = "CPR" | "cpr",
    }
}

impl Algorithm {
    /// Those that take snapshots of clients that write rows of their own, in the order of the study's tables.
    pub const PHYSICAL: [Algorithm; 7] = *Algorithm::ALL.first_chunk().expect("they come first");

    /// Those of them that improve on the published form, in that form.
    pub const PUBLISHED: [Algorithm; 3] =
        [Algorithm::PublishedCopyOnUpdate, Algorithm::PublishedHourglass, Algorithm::PublishedPiggyback];

    /// Others that take snapshots of such clients, which the study has not measured as they are here.
    pub const OTHERS: [Algorithm; 6] = [
        Algorithm::PublishedCopyOnUpdate,
        Algorithm::PublishedHourglass,
        Algorithm::PublishedPiggyback,
        Algorithm::WriteProtection,
        Algorithm::AsyncWriteProtection,
        Algorithm::ReturningFork,
    ];

    /// Those that need huge pages.
    pub const fn is_in_huge_pages(self) -> bool {
        matches!(self, Algorithm::HotColdFork)
    }

    /// Those that take snapshots of transactions.
    pub const VIRTUAL: [Algorithm; 5] = *Algorithm::ALL.last_chunk().expect("they come last");

    /// True if each checkpoint has all rows by itself, and need not be merged with those before.
    pub const fn is_full(self) -> bool {
        !matches!(
            self,
            Algorithm::PingPong
                | Algorithm::Hourglass
                | Algorithm::PublishedHourglass
                | Algorithm::AsyncWriteProtection
                | Algorithm::VirtualHourglass
                | Algorithm::PartialCalc
        )
    }

    /// Copies of the data that it keeps at most.
    pub const fn copies(self) -> u64 {
        match self {
            Algorithm::PingPong => 3,
            _ => 2,
        }
    }
}

named! {
    /// The measured task.
    pub enum Task {
        /// Updates tick by tick, checkpoints to disk.
        Ticks = "ticks",
        /// Reads tick by tick beside the updates, checkpoints to disk.
        Reads = "reads",
        /// Updates without a pause, snapshots that are traversed and not dumped.
        Flood = "flood",
        /// Transactions of several threads, snapshots that are traversed and not dumped.
        Transactions = "transactions",
    }
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The measured task.
    pub task: Task,
    /// With which algorithm.
    pub algorithm: Algorithm,
    /// Rows of the array.
    pub rows: usize,
    /// Bytes of a row.
    pub row_bytes: usize,
    /// Updates in a tick.
    pub updates_per_tick: usize,
    /// The Zipfian exponent of the access; 0: uniform.
    pub skew: f64,
    /// From the start of a tick to that of the next.
    pub tick_us: u64,
    /// Checkpoints, or snapshots, that are measured.
    pub checkpoints: usize,
    /// Ticks, or the same time, between them.
    pub ticks_between: u64,
    /// True if an update writes a field and leaves the rest of the row as it is; else it writes the row.
    pub fields: bool,
    /// True if it writes half a field instead, an item of 4 bytes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub items: bool,
    /// True if checkpoints are written; else snapshots are traversed, and nothing more.
    pub dump: bool,
    /// Clients.
    pub threads: usize,
    /// True if the rows are in huge pages.
    pub huge_pages: bool,
    /// True if rows lie in the order in which they are popular; else popular rows are far apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_popularity: bool,
    /// The seed of the random choices.
    pub seed: u64,
}

/// Where a cell is measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Place {
    /// Checkpoints go here.
    pub dir: PathBuf,
    /// The core of the client.
    pub client_core: usize,
    /// The core of the snapshotter.
    pub snapshotter_core: usize,
}

/// The results of a cell. Times in microseconds; a figure that the task does not have is absent.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Figures {
    /// Update stages of ticks while no snapshot was in progress.
    pub quiet: Distribution,
    /// Update stages of ticks while one was being taken, traversed or dumped.
    pub during: Distribution,
    /// The same for the read stages.
    pub reads_quiet: Distribution,
    /// The same for the read stages.
    pub reads_during: Distribution,
    /// From the moment that a tick should have begun to the end of its update stage, all ticks.
    pub from_intended: Distribution,
    /// The longest wait of a client for a snapshot to be taken, by snapshot.
    pub waits_us: Vec<f64>,
    /// The taken phase, by snapshot.
    pub taken_us: Vec<f64>,
    /// The access phase with the dump, until the checkpoint is durable, by snapshot.
    pub overhead_us: Vec<f64>,
    /// Updates a second.
    pub updates_per_s: f64,
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// Transactions that met a row that another one held, and began again.
    pub conflicts: u64,
    /// Transactions that met a row of a later period, and began again in it.
    pub restarts: u64,
    /// Resident memory once the rows are there.
    pub resident_bytes: u64,
    /// The most of it, with a forked child's own memory.
    pub resident_bytes_max: u64,
    /// Bytes of it in huge pages.
    pub huge_bytes: u64,
    /// Bytes of the page tables, which a fork copies.
    pub page_table_bytes: u64,
    /// Cache misses of the client while it updated; `None` where the machine does not count them.
    pub cache_misses: Option<u64>,
    /// Updates of all ticks.
    pub updates: u64,
    /// Each tick: when it began in milliseconds, and the microseconds of its update stage.
    pub trace: Vec<(f32, f32)>,
    /// The times when each snapshot was triggered and when it was durable, in milliseconds.
    pub snapshots_ms: Vec<(f64, f64)>,
}

/// All that was measured.
pub type Results = results::Results<Cell, Figures>;

/// A distribution of durations, in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The number of durations.
    pub count: usize,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 99 of 100 took no longer.
    pub p99: f64,
    /// 999 of 1000 took no longer.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl Distribution {
    /// Of these times; of none all is zero.
    pub fn of(mut times_us: Vec<f64>) -> Distribution {
        times_us.sort_by(f64::total_cmp);
        let count = times_us.len();
        let Some(&max) = times_us.last() else { return Distribution::default() };
        let at = |share: f64| times_us[((count as f64 * share).ceil() as usize).clamp(1, count) - 1];
        let mean = times_us.iter().sum::<f64>() / count as f64;
        Distribution { count, mean, p50: at(0.5), p99: at(0.99), p999: at(0.999), max }
    }
}

impl Figures {
    /// The longest update stage.
    pub fn max_us(&self) -> f64 {
        self.quiet.max.max(self.during.max)
    }

    /// The mean update stage, of all ticks.
    pub fn mean_us(&self) -> f64 {
        let [quiet, during] = [self.quiet, self.during].map(|d| d.mean * d.count as f64);
        (quiet + during) / (self.quiet.count + self.during.count).max(1) as f64
    }

    /// The same without the waits at triggers: of each snapshot, those of the tick that waited longest.
    pub fn mean_unwaited_us(&self) -> f64 {
        let waited: f64 = self.waits_us.iter().sum();
        self.mean_us() - waited / (self.quiet.count + self.during.count).max(1) as f64
    }

    /// The longest taken phase.
    pub fn taken_us_max(&self) -> f64 {
        self.taken_us.iter().copied().fold(0.0, f64::max)
    }

    /// The median taken phase, as on a machine without disturbances.
    pub fn taken_us_median(&self) -> f64 {
        if self.taken_us.is_empty() { 0.0 } else { median(self.taken_us.clone()) }
    }

    /// The longest that the client waited for a cut.
    pub fn longest_wait(&self) -> f64 {
        self.waits_us.iter().copied().fold(f64::NAN, f64::max)
    }

    /// The median access phase in milliseconds.
    pub fn overhead_ms(&self) -> f64 {
        if self.overhead_us.is_empty() { 0.0 } else { median(self.overhead_us.clone()) / 1e3 }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.data_bytes() as f64 / 1e6;
        let (algorithm, task) = (self.algorithm.name(), self.task.name());
        write!(f, "{algorithm} {task}, {megabytes:.0} MB in rows of {} B", self.row_bytes)?;
        match self.task {
            Task::Transactions => write!(f, ", {} threads", self.threads)?,
            _ => write!(f, ", {} updates a tick", self.updates_per_tick)?,
        }
        match (self.fields, self.items) {
            (_, true) => f.write_str(" of an item")?,
            (true, _) => f.write_str(" of a field")?,
            _ => {}
        }
        if self.skew > 0.0 {
            write!(f, ", skew {}", self.skew)?;
        }
        if self.by_popularity {
            f.write_str(", popular rows first")?;
        }
        f.write_str(if self.huge_pages { ", huge pages" } else { "" })
    }
}

impl crate::experiment::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        self.data_bytes() * self.algorithm.copies()
    }
}

impl Cell {
    /// The name of its line in a figure.
    pub fn label(&self) -> String {
        format!("{}{}", self.algorithm.name(), if self.huge_pages { ", huge pages" } else { "" })
    }

    /// Bytes of the data.
    pub fn data_bytes(&self) -> u64 {
        (self.rows * self.row_bytes) as u64
    }

    /// True if the kernel must give huge pages for some of the rows.
    pub const fn needs_huge_pages(&self) -> bool {
        self.huge_pages || self.algorithm.is_in_huge_pages()
    }

    /// Measures it in another process of this program, which Ctrl-C ends in the midst.
    pub fn measure_apart(&self, place: &Place) -> Result<Figures> {
        let plain = "parameters are plain data";
        let own = std::env::current_exe().doing(|| "find this program".to_owned())?;
        let words = [serde_json::to_string(self), serde_json::to_string(place)];
        let mut command = Command::new(&own);
        if self.huge_pages {
            // The C library's allocator asks for them (`madvise`) where this says so.
            command.env("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");
        }
        command.arg("cell").args(words.map(|word| word.expect(plain)));
        serde_json::from_slice(&output_unless_asked(&mut command, &self.to_string())?)
            .map_err(|error| LabError::Reply(format!("the figures of a cell: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_without_waits_is_over_the_same_ticks() {
        let figures = Figures {
            quiet: Distribution::of(vec![10.0; 2]),
            during: Distribution::of(vec![20.0, 80.0]),
            waits_us: vec![0.0, 60.0],
            ..Figures::default()
        };
        assert_eq!((figures.mean_us(), figures.mean_unwaited_us()), (30.0, 15.0));
    }
}
