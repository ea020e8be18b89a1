//! Made-up results for tests: computed by formulas, with the shapes that the study found.

use super::cell::{Algorithm, Cell, Distribution, Figures, Results, Task};
use super::plan::{Figure, Scale, points};
use super::study::Snapshots;
use crate::experiment::Experiment;

/// The file of results that the fixture seems to come from.
pub(super) const PATH: &str = "results.jsonl";

/// Nanoseconds of an update of 64 bytes, microseconds of the taken phase by gigabyte, and copies of the data.
const fn costs(algorithm: Algorithm) -> (f64, f64, f64) {
    match algorithm {
        Algorithm::Naive => (20.0, 20_000.0, 2.0),
        Algorithm::CopyOnUpdate | Algorithm::PublishedCopyOnUpdate => (80.0, 2_000.0, 2.0),
        Algorithm::Fork => (21.0, 5_000.0, 1.5),
        Algorithm::HotColdFork => (21.0, 500.0, 1.2),
        Algorithm::ReturningFork => (21.0, 5_000.0, 1.2),
        Algorithm::Zigzag => (100.0, 1_000.0, 2.0),
        Algorithm::PingPong => (120.0, 0.0, 3.0),
        Algorithm::Hourglass => (23.0, 0.0, 2.0),
        Algorithm::Piggyback => (24.0, 0.0, 2.0),
        Algorithm::PublishedHourglass | Algorithm::PublishedPiggyback => (40.0, 0.0, 2.0),
        Algorithm::WriteProtection | Algorithm::AsyncWriteProtection => (21.0, 5_000.0, 2.0),
        _ => (0.0, 0.0, 2.0),
    }
}

/// The figures of a cell by formulas.
pub(super) fn figures(cell: &Cell) -> Figures {
    let (update_ns, gigabyte_us, copies) = costs(cell.algorithm);
    let gigabytes = cell.data_bytes() as f64 / 1e9;
    let by_row = match cell.algorithm {
        Algorithm::CopyOnUpdate | Algorithm::Zigzag => 64.0 / cell.row_bytes as f64,
        _ => 1.0,
    };
    // In the arXiv text's setting the size has no effect, and locks make COU slower than ZZ.
    let by_data = if cell.fields { 1.0 } else { (gigabytes / 1.024).powf(0.1) };
    let by_row_bytes = match cell.algorithm {
        Algorithm::CopyOnUpdate if cell.fields => 1.5,
        Algorithm::Zigzag | Algorithm::PingPong => 1.0,
        _ if cell.fields => 1.0,
        _ => (cell.row_bytes as f64 / 64.0).sqrt(),
    };
    let by_skew = 1.0 - cell.skew / 4.0;
    let tick_us = update_ns * cell.updates_per_tick as f64 / 1e3 * by_row_bytes * by_data * by_skew;
    let taken_us = 2.0 + gigabyte_us * gigabytes * by_row;
    if cell.task == Task::Transactions {
        let rate = if cell.algorithm == Algorithm::Calc { 1e5 } else { 1.2e5 };
        return Figures { transactions_per_s: rate, conflicts: 3, restarts: 1, ..Figures::default() };
    }
    let quiet = Distribution::of(vec![tick_us; 50]);
    let mut during = vec![tick_us; 1000];
    during[0] += taken_us;
    Figures {
        quiet,
        during: Distribution::of(during),
        reads_quiet: quiet,
        reads_during: quiet,
        from_intended: quiet,
        waits_us: vec![taken_us + 1.0],
        taken_us: vec![taken_us],
        overhead_us: vec![gigabytes * 1e6],
        updates_per_s: 1e9 / update_ns - gigabyte_us * 50.0,
        resident_bytes: cell.data_bytes(),
        resident_bytes_max: (cell.data_bytes() as f64 * copies) as u64 + (64 << 20),
        updates: 90,
        trace: (0..90).map(|tick| (tick as f32 * 10.0, tick_us as f32)).collect(),
        snapshots_ms: vec![(500.0, 900.0)],
        ..Figures::default()
    }
}

/// All cells of the figures at a scale.
pub(super) fn results(of: &[Figure], scale: Scale) -> Results {
    let cells = of.iter().flat_map(|figure| points(*figure, scale, 1));
    let measured: Vec<_> = cells.map(|point| (point.cell.clone(), figures(&point.cell))).collect();
    Results { path: PATH.into(), ..Results::invented(Snapshots::NAME, &measured) }
}
