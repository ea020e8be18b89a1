//! The cells of the study's figures, at each scale.

use super::cell::{Algorithm, Cell, Task};

/// The size and length of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// A 256th of the paper's data and one checkpoint, for a look and for the tests.
    Quick,
    /// A quarter of the paper's data, three checkpoints.
    Default,
    /// The paper's data, five checkpoints.
    Full,
}

named! {
    /// A figure or table of the study.
    pub enum Figure {
        /// 9: tick latency around checkpoints.
        Trace = "trace",
        /// The default parameters twice more, so that the goals are judged by medians.
        Repeats = "repeats",
        /// 12: transactions by threads, for CALC, vHG and vPB.
        Transactions = "transactions",
        /// Reads beside the updates; not in the study.
        Reads = "reads",
        /// Updates of a field of a row, where the rest of it must be brought along; not in the study.
        Fields = "fields",
        /// 16 of the earlier text: most updates a second.
        Flood = "flood",
        /// The wait at the trigger, 1 GB and 8 GB.
        Trigger = "trigger",
        /// 10 a, e, i: by size of the data.
        Dataset = "dataset",
        /// 10 b, f, j: by size of a row.
        Row = "row",
        /// 10 c, g, k: by updates in a tick.
        Updates = "updates",
        /// 10 d, h, l: by skew of the access.
        Skew = "skew",
        /// 11: huge pages.
        HugePages = "huge-pages",
    }
}

/// A cell and where in a figure it belongs.
#[derive(Debug, Clone)]
pub(super) struct Point {
    /// The parameter that the figure varies.
    pub x: f64,
    /// The measured cell.
    pub cell: Cell,
}

impl Scale {
    /// The data, as a share of the paper's.
    pub const fn data(self) -> f64 {
        match self {
            Scale::Quick => 1.0 / 256.0,
            Scale::Default => 0.25,
            Scale::Full => 1.0,
        }
    }

    const fn checkpoints(self) -> usize {
        match self {
            Scale::Quick => 1,
            Scale::Default => 3,
            Scale::Full => 5,
        }
    }

    const fn ticks_between(self) -> u64 {
        match self {
            Scale::Quick => 5,
            Scale::Default => 40,
            Scale::Full => 500,
        }
    }

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Scale::Quick => "quick: 1/256 of the paper's data",
            Scale::Default => "1/4 of the paper's data",
            Scale::Full => "the paper's sizes",
        }
    }

    /// Its flag on the command line.
    pub const fn flag(self) -> &'static str {
        match self {
            Scale::Quick => " --quick",
            Scale::Default => "",
            Scale::Full => " --full",
        }
    }

    /// The cell with the study's default parameters.
    fn cell(self, algorithm: Algorithm, seed: u64) -> Cell {
        Cell {
            task: Task::Ticks,
            algorithm,
            rows: self.rows(DATASET_GB, ROW_BYTES),
            row_bytes: ROW_BYTES,
            updates_per_tick: UPDATES,
            skew: 0.0,
            tick_us: TICK_US,
            checkpoints: self.checkpoints(),
            ticks_between: self.ticks_between(),
            huge_pages: false,
            fields: false,
            dump: true,
            threads: 1,
            seed,
        }
    }

    /// Rows of the paper's dataset, whose gigabyte is 16 million rows of 64 bytes.
    fn rows(self, gigabytes: f64, row_bytes: usize) -> usize {
        (gigabytes * self.data() * 1.024e9 / row_bytes as f64) as usize
    }
}

const DATASET_GB: f64 = 4.0;
const ROW_BYTES: usize = 64;
const UPDATES: usize = 32_000;
const TICK_US: u64 = 10_000;

/// The values that each figure varies.
pub(super) const DATASETS_GB: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
const ROWS_BYTES: [usize; 5] = [64, 128, 256, 512, 1024];
const UPDATES_PER_TICK: [usize; 5] = [16_000, 32_000, 64_000, 128_000, 256_000];
const SKEWS: [f64; 6] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9];
const THREADS: [usize; 5] = [1, 2, 4, 8, 16];
/// The data of figure 12.
const TRANSACTIONS_BYTES: usize = 100_000_000;

/// The cells of a figure, in the order in which they are measured.
pub(super) fn points(figure: Figure, scale: Scale, seed: u64) -> Vec<Point> {
    let point = |x: f64, cell: Cell| Point { x, cell };
    let all = |x: f64, change: &dyn Fn(Cell) -> Cell| -> Vec<Point> {
        Algorithm::PHYSICAL.map(|algorithm| point(x, change(scale.cell(algorithm, seed)))).into()
    };
    let some = |algorithms: &[Algorithm], x: f64, change: &dyn Fn(Cell) -> Cell| -> Vec<Point> {
        algorithms.iter().map(|algorithm| point(x, change(scale.cell(*algorithm, seed)))).collect()
    };
    match figure {
        Figure::Trace => all(0.0, &|cell| cell),
        Figure::Dataset => DATASETS_GB
            .iter()
            .flat_map(|&gb| all(gb * scale.data(), &|cell| Cell { rows: scale.rows(gb, ROW_BYTES), ..cell }))
            .collect(),
        Figure::Row => ROWS_BYTES
            .iter()
            .flat_map(|&row_bytes| {
                let rows = scale.rows(DATASET_GB, row_bytes);
                all(row_bytes as f64, &|cell| Cell { rows, row_bytes, ..cell })
            })
            .collect(),
        Figure::Updates => UPDATES_PER_TICK
            .iter()
            .flat_map(|&updates| all(updates as f64, &|cell| Cell { updates_per_tick: updates, ..cell }))
            .collect(),
        Figure::Skew => SKEWS.iter().flat_map(|&skew| all(skew, &|cell| Cell { skew, ..cell })).collect(),
        Figure::Trigger => [1.0, 8.0]
            .iter()
            .flat_map(|&gb| {
                let gb = if scale == Scale::Quick { gb * scale.data() } else { gb };
                let rows = (gb * 1.024e9 / ROW_BYTES as f64) as usize;
                let checkpoints = if scale == Scale::Quick { 3 } else { 6 };
                let o1 = [Algorithm::PingPong, Algorithm::Hourglass, Algorithm::Piggyback];
                some(&o1, gb, &|cell| Cell { rows, checkpoints, dump: false, ..cell })
            })
            .collect(),
        Figure::HugePages => DATASETS_GB
            .iter()
            .flat_map(|&gb| {
                let three = [Algorithm::Fork, Algorithm::Hourglass, Algorithm::Piggyback];
                [false, true].map(|huge_pages| {
                    let rows = scale.rows(gb, ROW_BYTES);
                    some(&three, gb * scale.data(), &|cell| Cell { rows, huge_pages, ..cell })
                })
            })
            .flatten()
            .collect(),
        Figure::Transactions => THREADS
            .iter()
            .flat_map(|&threads| {
                let bytes = if scale == Scale::Quick { TRANSACTIONS_BYTES / 64 } else { TRANSACTIONS_BYTES };
                let (task, rows) = (Task::Transactions, bytes / ROW_BYTES);
                // Snapshots at a fixed rate, however long one takes.
                let (checkpoints, ticks_between) = if scale == Scale::Quick { (3, 5) } else { (12, 20) };
                let virtuals =
                    |cell| Cell { task, rows, threads, checkpoints, ticks_between, dump: false, ..cell };
                some(&Algorithm::VIRTUAL, threads as f64, &virtuals)
            })
            .collect(),
        Figure::Flood => {
            let rows = scale.rows(8.0, ROW_BYTES);
            all(0.0, &|cell| Cell {
                task: Task::Flood,
                rows,
                ticks_between: scale.ticks_between() * 2,
                ..cell
            })
        }
        Figure::Repeats => [1, 2]
            .iter()
            .flat_map(|&more| all(more as f64, &|cell| Cell { seed: seed + more, ..cell }))
            .collect(),
        Figure::Fields => all(0.0, &|cell| Cell { fields: true, ..cell }),
        Figure::Reads => all(0.0, &|cell| Cell { task: Task::Reads, ..cell }),
    }
}
