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
        /// 12: transactions by threads, for CALC, vHG and vPB, and for pCALC and CPR, which the study lacks.
        Transactions = "transactions",
        /// Reads beside the updates; not in the study.
        Reads = "reads",
        /// Updates of a field of a row, where the rest of it must be brought along; not in the study.
        Fields = "fields",
        /// Algorithms that the study has not measured, beside its own, by size of the data; not in the study.
        Others = "others",
        /// Table 2: most updates a second, with the default parameters.
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
        /// Pages of two sizes, which the study names as future work: by skew of the access.
        HotCold = "hot-cold",
        /// 10, 12, 13, 15 and 18 of the arXiv text, in its setting: by updates in a tick.
        ArxivUpdates = "arxiv-updates",
        /// 11, 14, 17 and 19 of the arXiv text, in its setting: by size of the data.
        ArxivDataset = "arxiv-dataset",
        /// 16 of the arXiv text, in its setting: most updates a second.
        ArxivFlood = "arxiv-flood",
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

    /// Checkpoints, and ticks between two.
    const fn checkpoints(self) -> (usize, u64) {
        match self {
            Scale::Quick => (1, 5),
            Scale::Default => (3, 40),
            Scale::Full => (5, 500),
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
        let (checkpoints, ticks_between) = self.checkpoints();
        Cell {
            task: Task::Ticks,
            algorithm,
            rows: rows(DATASET_GB * self.data(), ROW_BYTES),
            row_bytes: ROW_BYTES,
            updates_per_tick: UPDATES,
            skew: 0.0,
            tick_us: TICK_US,
            checkpoints,
            ticks_between,
            huge_pages: false,
            by_popularity: false,
            fields: false,
            items: false,
            dump: true,
            threads: 1,
            seed,
        }
    }
}

impl Scale {
    /// The cell with the default parameters of the arXiv text: pages of 4 KB, long ticks, few hot pages, and
    /// updates of an item of a page.
    fn arxiv_cell(self, algorithm: Algorithm, seed: u64) -> Cell {
        // Checkpoints begin 10 s apart at least.
        let (checkpoints, ticks_between) = match self {
            Scale::Quick => (1, 2),
            Scale::Default => (3, 20),
            Scale::Full => (10, 100),
        };
        Cell {
            rows: rows(ARXIV_DATASET_GB * self.data(), ARXIV_ROW_BYTES),
            row_bytes: ARXIV_ROW_BYTES,
            updates_per_tick: ARXIV_UPDATES,
            skew: ARXIV_SKEW,
            tick_us: ARXIV_TICK_US,
            checkpoints,
            ticks_between,
            fields: true,
            items: true,
            ..self.cell(algorithm, seed)
        }
    }
}

/// Rows of data whose gigabyte is 16 million rows of 64 bytes, as the paper's.
fn rows(gigabytes: f64, row_bytes: usize) -> usize {
    (gigabytes * 1.024e9 / row_bytes as f64) as usize
}

const DATASET_GB: f64 = 4.0;
const ROW_BYTES: usize = 64;
const UPDATES: usize = 32_000;
const TICK_US: u64 = 10_000;

const ARXIV_DATASET_GB: f64 = 1.0;
const ARXIV_ROW_BYTES: usize = 4096;
const ARXIV_UPDATES: usize = 256_000;
const ARXIV_SKEW: f64 = 2.0;
const ARXIV_TICK_US: u64 = 100_000;

/// The values that each figure varies.
const DATASETS_GB: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
const ROWS_BYTES: [f64; 5] = [64.0, 128.0, 256.0, 512.0, 1024.0];
const UPDATES_PER_TICK: [f64; 5] = [16e3, 32e3, 64e3, 128e3, 256e3];
const ARXIV_DATASETS_GB: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
const SKEWS: [f64; 6] = [0.0, 0.1, 0.3, 0.5, 0.7, 0.9];
/// One is the study's; with the other, the arXiv text's, hardly an update meets a cold row.
const HOT_COLD_SKEWS: [f64; 2] = [0.9, 2.0];
const THREADS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];
/// The data of figure 16 of the arXiv text.
const FLOOD_GB: f64 = 8.0;
/// The data of figure 12.
const TRANSACTIONS_BYTES: usize = 100_000_000;

/// The cell with more data, and updates without a pause.
fn flood(cell: Cell, scale: Scale) -> Cell {
    let rows = rows(FLOOD_GB * scale.data(), cell.row_bytes);
    Cell { task: Task::Flood, rows, ticks_between: cell.ticks_between * 2, ..cell }
}

/// The first value and the last, or all.
fn ends_if(only_ends: bool, values: &[f64]) -> Vec<f64> {
    if only_ends { vec![values[0], values[values.len() - 1]] } else { values.to_vec() }
}

/// The cells of a figure, in the order in which they are measured.
pub(super) fn points(figure: Figure, scale: Scale, seed: u64) -> Vec<Point> {
    // For each value the cells of some algorithms, changed as the value says.
    let some = |algorithms: &[Algorithm], values: &[f64], change: &dyn Fn(Cell, f64) -> Cell| {
        let at = |x: f64| {
            let point = move |algorithm| Point { x, cell: change(scale.cell(algorithm, seed), x) };
            algorithms.iter().copied().map(point)
        };
        values.iter().copied().flat_map(at).collect::<Vec<_>>()
    };
    let all = |values: &[f64], change: &dyn Fn(Cell, f64) -> Cell| some(&Algorithm::PHYSICAL, values, change);
    // The arXiv text's figures have the published forms, too.
    let arxiv = |values: &[f64], change: &dyn Fn(Cell, f64) -> Cell| {
        let both = [&Algorithm::PHYSICAL[..], &Algorithm::PUBLISHED].concat();
        some(&both, values, &|cell, x| change(scale.arxiv_cell(cell.algorithm, seed), x))
    };
    let is_quick = scale == Scale::Quick;
    let gigabytes = DATASETS_GB.map(|gb| gb * scale.data());
    match figure {
        Figure::Trace => all(&[0.0], &|cell, _| cell),
        Figure::Repeats => all(&[1.0, 2.0], &|cell, more| Cell { seed: seed + more as u64, ..cell }),
        Figure::Fields => all(&[0.0], &|cell, _| Cell { fields: true, ..cell }),
        Figure::Reads => all(&[0.0], &|cell, _| Cell { task: Task::Reads, ..cell }),
        Figure::Dataset => all(&gigabytes, &|cell, gb| Cell { rows: rows(gb, ROW_BYTES), ..cell }),
        Figure::Others => {
            let both = [&Algorithm::PHYSICAL[..], &Algorithm::OTHERS].concat();
            let sizes = [gigabytes[0], gigabytes[2], gigabytes[4]];
            some(&both, &sizes, &|cell, gb| Cell { rows: rows(gb, ROW_BYTES), ..cell })
        }
        Figure::Row => all(&ROWS_BYTES, &|cell, bytes| {
            let row_bytes = bytes as usize;
            Cell { rows: rows(DATASET_GB * scale.data(), row_bytes), row_bytes, ..cell }
        }),
        Figure::Updates => {
            all(&UPDATES_PER_TICK, &|cell, updates| Cell { updates_per_tick: updates as usize, ..cell })
        }
        Figure::Skew => all(&SKEWS, &|cell, skew| Cell { skew, ..cell }),
        Figure::Flood => all(&[0.0], &|cell, _| flood(cell, scale)),
        Figure::ArxivFlood => arxiv(&[0.0], &|cell, _| flood(cell, scale)),
        Figure::Trigger => {
            let o1 = [Algorithm::PingPong, Algorithm::Hourglass, Algorithm::Piggyback];
            let share = if is_quick { scale.data() } else { 1.0 };
            let checkpoints = if is_quick { 3 } else { 6 };
            some(&o1, &[1.0, 8.0].map(|gb| gb * share), &|cell, gb| Cell {
                rows: rows(gb, ROW_BYTES),
                checkpoints,
                dump: false,
                ..cell
            })
        }
        Figure::HugePages => {
            let three = [Algorithm::Fork, Algorithm::Hourglass, Algorithm::Piggyback];
            let sizes = gigabytes.iter().flat_map(|gb| [(*gb, false), (*gb, true)]);
            let points = sizes.flat_map(|(gb, huge_pages)| {
                some(&three, &[gb], &|cell, gb| Cell { rows: rows(gb, ROW_BYTES), huge_pages, ..cell })
            });
            points.collect()
        }
        Figure::HotCold => {
            let points = HOT_COLD_SKEWS.into_iter().flat_map(|skew| {
                let forks =
                    [(Algorithm::Fork, false), (Algorithm::Fork, true), (Algorithm::HotColdFork, false)];
                let cell = move |(algorithm, huge_pages)| Cell {
                    huge_pages,
                    skew,
                    by_popularity: true,
                    ..scale.cell(algorithm, seed)
                };
                forks.map(|fork| Point { x: skew, cell: cell(fork) })
            });
            points.collect()
        }
        Figure::ArxivUpdates => arxiv(&ends_if(is_quick, &UPDATES_PER_TICK), &|cell, updates| Cell {
            updates_per_tick: updates as usize,
            ..cell
        }),
        Figure::ArxivDataset => {
            let gigabytes = ARXIV_DATASETS_GB.map(|gb| gb * scale.data());
            arxiv(&ends_if(is_quick, &gigabytes), &|cell, gb| Cell {
                rows: rows(gb, ARXIV_ROW_BYTES),
                ..cell
            })
        }
        Figure::Transactions => some(&Algorithm::VIRTUAL, &THREADS, &|cell, threads| {
            let bytes = if is_quick { TRANSACTIONS_BYTES / 64 } else { TRANSACTIONS_BYTES };
            let (task, rows, threads) = (Task::Transactions, bytes / ROW_BYTES, threads as usize);
            // Snapshots at a fixed rate, however long one takes.
            let (checkpoints, ticks_between) = if is_quick { (3, 5) } else { (12, 20) };
            Cell { task, rows, threads, checkpoints, ticks_between, dump: false, ..cell }
        }),
    }
}
