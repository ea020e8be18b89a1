//! The results of one scale and seed, as series to draw and compare.

use super::super::cell::{Algorithm, Cell, Figures, Results};
use super::super::plan::{Figure, Point, Scale, points};

/// The growth of a taken phase that is shorter than this cannot be seen.
pub(crate) const TAKEN_US_SHORT: f64 = 10.0;

/// The results of one scale and seed.
pub(crate) struct Study<'r> {
    pub results: &'r Results,
    pub scale: Scale,
    pub seed: u64,
}

/// A line of a figure.
#[derive(Debug, Clone)]
pub(crate) struct Series {
    pub algorithm: Algorithm,
    /// Its name, with the difference from another line of the same algorithm.
    pub name: String,
    /// True if its points are hollow and its line thin.
    pub second: bool,
    /// In the order of `x`. Unmeasured points are missing, and so are values that are not numbers.
    pub points: Vec<(f64, f64)>,
}

/// The first line of an algorithm.
pub(crate) fn of(series: &[Series], algorithm: Algorithm) -> Option<&Series> {
    series.iter().find(|series| series.algorithm == algorithm)
}

impl Series {
    #[cfg(test)]
    pub(crate) fn invented(algorithm: Algorithm, points: impl IntoIterator<Item = (f64, f64)>) -> Series {
        let (name, points) = (algorithm.name().to_owned(), points.into_iter().collect());
        Series { algorithm, name, second: false, points }
    }

    /// The value at `x`.
    pub(crate) fn at(&self, x: f64) -> Option<f64> {
        self.points.iter().find(|point| point.0 == x).map(|point| point.1)
    }
}

impl<'r> Study<'r> {
    /// The scale of the newest result, among those that are wanted, with its seed.
    pub(crate) fn newest(results: &'r Results, wanted: &[Scale]) -> Option<Study<'r>> {
        results.lines.iter().rev().find_map(|line| {
            let seed = line.seed;
            let holds = |scale: &&Scale| {
                let mut points = Figure::ALL.into_iter().flat_map(|figure| points(figure, **scale, seed));
                points.any(|point| point.cell == line.cell)
            };
            wanted.iter().find(holds).map(|scale| Study { results, scale: *scale, seed })
        })
    }

    /// The cells of a figure that were measured, with their figures. Items had 8 bytes before 2026-11-29:
    /// such a result stands where there is none with 4.
    pub(crate) fn measured(&self, figure: Figure) -> Vec<(Point, &'r Figures)> {
        let find = |Point { x, cell }: Point| {
            let before = Cell { items: false, ..cell.clone() };
            let found = [cell, before].into_iter().find_map(|cell| Some((self.results.find(&cell)?, cell)));
            found.map(|(figures, cell)| (Point { x, cell }, figures))
        };
        points(figure, self.scale, self.seed).into_iter().filter_map(find).collect()
    }

    /// The number of measured cells of a figure, and the number of all its cells.
    pub(crate) fn coverage(&self, figure: Figure) -> (usize, usize) {
        (self.measured(figure).len(), points(figure, self.scale, self.seed).len())
    }

    /// For each algorithm, `y` of its cells, where that is a number.
    pub(crate) fn series(&self, figure: Figure, y: impl Fn(&Cell, &Figures) -> f64) -> Vec<Series> {
        let mut all: Vec<Series> = Vec::new();
        for (point, figures) in self.measured(figure) {
            let value = y(&point.cell, figures);
            if !value.is_finite() {
                continue;
            }
            let (name, Cell { algorithm, huge_pages, .. }) = (point.cell.label(), point.cell);
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push((point.x, value)),
                None => {
                    all.push(Series { algorithm, name, second: huge_pages, points: vec![(point.x, value)] });
                }
            }
        }
        all
    }

    /// The measurements of an algorithm at the study's default parameters: a cell for each repeat.
    pub(crate) fn defaults_of(&self, algorithm: Algorithm) -> Vec<(Cell, &'r Figures)> {
        let mut all = self.measured(Figure::Trace);
        all.extend(self.measured(Figure::Repeats));
        all.retain(|(point, _)| point.cell.algorithm == algorithm);
        all.into_iter().map(|(point, figures)| (point.cell, figures)).collect()
    }
}

/// The growth of values with `x`: the slope of a straight line through their logarithms, 0 for values that
/// stay and 1 for those that are proportional. `None` for fewer than two points.
pub(crate) fn exponent(points: &[(f64, f64)]) -> Option<f64> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(x, y)| positive(*x) && positive(*y)).map(|(x, y)| (x.ln(), y.ln())).collect();
    slope(&logs)
}

/// The slope of the straight line that fits points best. `None` if they have fewer than two `x`.
pub(crate) fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|point| point.0).sum::<f64>() / count;
    let mean_y = points.iter().map(|point| point.1).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let together: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (points.len() > 1 && spread > 0.0).then(|| together / spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_told_from_standing_still() {
        let near = |points: &[(f64, f64)], expected: f64| {
            let found = exponent(points).expect("there are two points");
            assert!((found - expected).abs() < 1e-9, "{found}");
        };
        near(&[(1.0, 5.0), (2.0, 10.0), (8.0, 40.0)], 1.0);
        near(&[(1.0, 5.0), (2.0, 5.0), (8.0, 5.0)], 0.0);
        near(&[(1.0, 1.0), (4.0, 2.0)], 0.5);
        assert_eq!(exponent(&[(1.0, 5.0)]), None);
        assert_eq!(exponent(&[(1.0, 5.0), (1.0, 6.0)]), None);
        assert_eq!(exponent(&[(1.0, 5.0), (2.0, f64::NAN), (3.0, 0.0)]), None);
    }
}
