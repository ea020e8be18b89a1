//! Predicts the costs of an algorithm, from the cells that were measured nearest to a workload.
//!
//! The cost of an update is that of the workload's size of data, times how it changes with the row and with
//! the rate. Times and memory that grow with the data are taken as straight lines between the measured sizes,
//! and beyond them.

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::compare::data::{Study, TAKEN_US_SHORT, exponent};
use super::super::plan::Figure;
use super::Options;
use super::curve::Curve;

/// A taken phase that grows with a smaller exponent does not grow.
const GROWS: f64 = 0.3;

/// The predicted costs of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Prediction {
    pub algorithm: Algorithm,
    /// The mean, over ticks in and out of snapshots.
    pub update_ns: f64,
    /// The share of a core that the updates take.
    pub core_share: f64,
    /// The taken phase, for which clients wait.
    pub spike_us: f64,
    /// True if it grows with the data.
    pub spike_grows: bool,
    /// The most memory.
    pub memory_bytes: f64,
    /// The access phase with the dump.
    pub checkpoint_s: f64,
}

/// The measurements of an algorithm, by the parameters that they depend on.
pub(super) struct Measured<'s> {
    cells: Vec<(Figure, Cell, &'s Figures)>,
}

impl<'s> Measured<'s> {
    pub(super) fn new(study: &Study<'s>, algorithm: Algorithm) -> Measured<'s> {
        let figures = [Figure::Trace, Figure::Dataset, Figure::Row, Figure::Updates, Figure::Trigger];
        let of =
            |figure| study.measured(figure).into_iter().map(move |(point, own)| (figure, point.cell, own));
        let mut cells: Vec<_> = figures.into_iter().flat_map(of).collect();
        cells.retain(|(_, cell, _)| cell.algorithm == algorithm);
        Measured { cells }
    }

    fn curve(&self, figures: &[Figure], x: fn(&Cell) -> f64, y: fn(&Cell, &Figures) -> f64) -> Curve {
        let own = self.cells.iter().filter(|(figure, ..)| figures.contains(figure));
        Curve::new(own.map(|(_, cell, figures)| (x(cell), y(cell, figures))))
    }

    /// The cost of an update by the size of the data, of a row, and by updates a second.
    pub(super) fn costs(&self) -> [Curve; 3] {
        let cost = |cell: &Cell, figures: &Figures| figures.mean_us() * 1e3 / cell.updates_per_tick as f64;
        [
            self.curve(&[Figure::Trace, Figure::Dataset], |cell| cell.data_bytes() as f64, cost),
            self.curve(&[Figure::Trace, Figure::Row], |cell| cell.row_bytes as f64, cost),
            self.curve(&[Figure::Trace, Figure::Updates], updates_per_s, cost),
        ]
    }

    /// `None` if the algorithm was not measured.
    pub(super) fn predict(&self, workload: &Options) -> Option<Prediction> {
        let (_, cell, _) = self.cells.iter().find(|(figure, ..)| *figure == Figure::Trace)?;
        let data_bytes = workload.data_bytes();
        let [by_data, by_row, by_rate] = self.costs();
        // How much more an update costs than in the default cell, which all three curves have.
        let row = by_row.linear((workload.row_bytes as f64).max(by_row.ends()?.0))?;
        let by_row = row / by_row.clamped(cell.row_bytes as f64)?;
        let by_rate =
            by_rate.clamped(workload.updates_per_s as f64)? / by_rate.clamped(updates_per_s(cell))?;
        let update_ns = by_data.clamped(data_bytes)? * by_row * by_rate;

        let sizes = [Figure::Trace, Figure::Dataset];
        let bytes = |cell: &Cell| cell.data_bytes() as f64;
        let (spike_us, spike_grows) = self.spike(workload)?;
        let memory = self.curve(&sizes, bytes, |_, figures| figures.resident_bytes_max as f64);
        let checkpoint = self.curve(&sizes, bytes, |_, figures| figures.overhead_ms() / 1e3);
        Some(Prediction {
            algorithm: cell.algorithm,
            update_ns,
            core_share: update_ns * workload.updates_per_s as f64 / 1e9,
            spike_us,
            spike_grows,
            memory_bytes: memory.linear(data_bytes)?,
            checkpoint_s: checkpoint.linear(data_bytes)?,
        })
    }

    /// The taken phase, and whether it grows. For algorithms that invert bits it grows with the rows, for
    /// those that copy with the bytes.
    fn spike(&self, workload: &Options) -> Option<(f64, bool)> {
        let (_, Cell { algorithm, .. }, _) = self.cells.first()?;
        let by_rows = matches!(algorithm, Algorithm::CopyOnUpdate | Algorithm::Zigzag);
        let size: fn(&Cell) -> f64 =
            if by_rows { |cell| cell.rows as f64 } else { |cell| cell.data_bytes() as f64 };
        let figures = [Figure::Trace, Figure::Dataset, Figure::Trigger];
        let taken = self.curve(&figures, size, |_, figures| figures.taken_us_median());
        let visible: Vec<_> = taken.points().iter().map(|(x, y)| (*x, y.max(TAKEN_US_SHORT))).collect();
        let grows = exponent(&visible).is_some_and(|exponent| exponent >= GROWS);
        let spike_us = if grows {
            taken.linear(if by_rows { workload.rows as f64 } else { workload.data_bytes() })?
        } else {
            taken.points().iter().map(|point| point.1).max_by(f64::total_cmp)?
        };
        Some((spike_us, grows))
    }
}

fn updates_per_s(cell: &Cell) -> f64 {
    cell.updates_per_tick as f64 / cell.tick_us as f64 * 1e6
}
