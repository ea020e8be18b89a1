//! Judges the statements of the papers about a curve by itself: it rises, falls or stays level.
//!
//! A curve is judged by its ends, as the value at the largest parameter by that at the smallest:
//!
//! ```text
//!   falls    |  noise  |    level    |  noise  |    rises
//!   ─────────┴─────────┴──────1──────┴─────────┴──────────► last / first
//! ```
//!
//! Within the noise nothing is told apart.

use super::super::cell::Algorithm;
use super::super::plan::Figure;
use super::Verdict;
use super::data::Series;
use super::noise::{ALIKE, Noise};
use super::reasons::UNKNOWN;
use crate::report::short;

/// The shape of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Shape {
    /// The last value is above the first.
    Rises,
    /// The last value is below the first.
    Falls,
    /// Neither is more than this many times the other.
    Level(f64),
}

/// A statement about curves.
pub(super) struct Statement<'s> {
    /// Where it was printed.
    pub figure: Figure,
    /// Its words.
    pub printed: &'static str,
    /// The algorithms that it is about.
    pub of: &'s [Algorithm],
    /// The printed shape.
    pub shape: Shape,
}

impl Statement<'_> {
    /// The verdict on our curves; `None` if none of them was measured at two places.
    pub(super) fn judge(&self, series: &[Series], noise: &Noise) -> Option<Verdict> {
        let own = series.iter().filter(|series| self.of.contains(&series.algorithm) && !series.second);
        let ends: Vec<_> = own
            .filter_map(|series| match series.points[..] {
                [first, .., last] => Some((series.algorithm, first, last)),
                _ => None,
            })
            .collect();
        let mut verdict = Verdict::new(self.figure, self.printed, Vec::new());
        for (algorithm, first, last) in &ends {
            let times = last.1 / first.1;
            let noise = noise.of_pair(*algorithm, *algorithm).max(ALIKE);
            let (is_so, is_noise) = match self.shape {
                Shape::Rises => (times > noise, times > 1.0 / noise),
                Shape::Falls => (times < 1.0 / noise, times < noise),
                Shape::Level(most) => (is_within(times, most), is_within(times, noise)),
            };
            if is_so {
                continue;
            }
            let (name, times) = (algorithm.name(), short(times));
            let text =
                format!("{name}: at {} it is {times} times what it is at {}", short(last.0), short(first.0));
            match is_noise {
                true => verdict.unclear.push(format!("{text}: within the noise of this run")),
                false => verdict.differences.push(format!("{text}: {UNKNOWN}")),
            }
        }
        (!ends.is_empty()).then_some(verdict)
    }
}

fn is_within(times: f64, most: f64) -> bool {
    (1.0 / most..=most).contains(&times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Fork, Naive, Zigzag};

    /// The number of differences, and of those within the noise.
    fn judged(shape: Shape, last: f64, noise: f64) -> (usize, usize) {
        let series = [Series::invented(Naive, [(1.0, 1.0), (2.0, 9.0), (3.0, last)])];
        let statement = Statement { figure: Figure::Row, printed: "", of: &[Naive], shape };
        let found = statement.judge(&series, &Noise::known(&[(Naive, noise)])).expect("it was measured");
        (found.differences.len(), found.unclear.len())
    }

    #[test]
    fn a_curve_is_judged_by_its_ends_and_by_the_noise() {
        let level = Shape::Level(1.15);
        let all = |shape, noise| [0.5, 0.97, 1.03, 2.0].map(|last| judged(shape, last, noise));
        assert_eq!(all(Shape::Rises, 1.0), [(1, 0), (0, 1), (0, 1), (0, 0)]);
        assert_eq!(all(Shape::Falls, 1.0), [(0, 0), (0, 1), (0, 1), (1, 0)]);
        assert_eq!(all(level, 1.0), [(1, 0), (0, 0), (0, 0), (1, 0)]);
        assert_eq!(all(level, 2.5), [(0, 1), (0, 0), (0, 0), (0, 1)]);
    }

    #[test]
    fn a_statement_is_about_its_algorithms_alone_and_needs_two_points() {
        let series =
            [Series::invented(Fork, [(1.0, 1.0), (2.0, 9.0)]), Series::invented(Zigzag, [(1.0, 1.0)])];
        let judged = |of: &[Algorithm]| {
            let statement = Statement { figure: Figure::Row, printed: "", of, shape: Shape::Falls };
            statement.judge(&series, &Noise::default())
        };
        assert_eq!(judged(&[Zigzag]), None);
        let line = format!("Fork: at 2 it is 9 times what it is at 1: {UNKNOWN}");
        assert_eq!(judged(&[Fork, Zigzag]).expect("Fork was measured").differences, [line]);
    }
}
