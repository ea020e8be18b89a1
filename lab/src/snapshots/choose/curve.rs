//! The measurements of one parameter, and the values between them.

use super::super::compare::data::slope;
use crate::report::median;

/// Points in the order of `x`, a straight line from each to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Curve {
    points: Vec<(f64, f64)>,
}

impl Curve {
    /// Of measurements that may be in any order, repeated (their median counts) or no numbers (left out).
    pub(super) fn new(points: impl IntoIterator<Item = (f64, f64)>) -> Curve {
        let mut all: Vec<(f64, f64)> =
            points.into_iter().filter(|(x, y)| x.is_finite() && y.is_finite() && *x > 0.0).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let same = all.chunk_by(|a, b| a.0 == b.0);
        let points = same.map(|same| (same[0].0, median(same.iter().map(|point| point.1))));
        Curve { points: points.collect() }
    }

    pub(super) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    /// The least and the greatest `x`.
    pub(super) fn ends(&self) -> Option<(f64, f64)> {
        Some((self.points.first()?.0, self.points.last()?.0))
    }

    /// The measured `x` that a value at `x` comes from: one or two.
    pub(super) fn around(&self, x: f64) -> Vec<f64> {
        let below = self.points.iter().rev().find(|point| point.0 <= x).map(|point| point.0);
        let above = self.points.iter().find(|point| point.0 >= x).map(|point| point.0);
        let mut both: Vec<f64> = below.into_iter().chain(above).collect();
        both.dedup();
        both
    }

    /// On the line between the nearest points; beyond the ends as at the end.
    pub(super) fn clamped(&self, x: f64) -> Option<f64> {
        let (least, greatest) = self.ends()?;
        self.between(x.clamp(least, greatest))
    }

    /// Interpolates between the nearest points. Beyond the ends the line continues with the slope of the
    /// straight line through all points, if that rises.
    pub(super) fn linear(&self, x: f64) -> Option<f64> {
        let (least, greatest) = self.ends()?;
        let end = x.clamp(least, greatest);
        let slope = slope(&self.points).unwrap_or(0.0).max(0.0);
        Some((self.between(end)? + slope * (x - end)).max(0.0))
    }

    fn between(&self, x: f64) -> Option<f64> {
        let after = self.points.iter().position(|point| point.0 >= x)?;
        let (right, value) = self.points[after];
        if right == x {
            return Some(value);
        }
        let (left, before) = self.points[after - 1];
        Some(before + (value - before) * (x - left) / (right - left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_on_lines_between_points_and_beyond_them_on_the_line_or_at_rest() {
        let curve =
            Curve::new([(4.0, 40.0), (1.0, 10.0), (2.0, 10.0), (2.0, 12.0), (2.0, 90.0), (3.0, f64::NAN)]);
        assert_eq!(curve.points(), [(1.0, 10.0), (2.0, 12.0), (4.0, 40.0)]);
        assert_eq!(curve.clamped(3.0), Some(26.0));
        assert_eq!([0.5, 1.0, 8.0].map(|x| curve.clamped(x)), [Some(10.0), Some(10.0), Some(40.0)]);
        let line = Curve::new([(1.0, 12.0), (2.0, 14.0), (4.0, 18.0)]);
        let near =
            |found: Option<f64>, expected: f64| (found.expect("there are points") - expected).abs() < 1e-9;
        assert!(near(line.linear(8.0), 26.0) && near(line.linear(0.5), 11.0) && near(line.linear(3.0), 16.0));
        assert_eq!(Curve::new([(1.0, 5.0), (2.0, 4.0)]).linear(9.0), Some(4.0));
        assert_eq!(Curve::new([(2.0, 4.0)]).linear(9.0), Some(4.0));
        assert_eq!(
            [0.5, 2.0, 3.0, 9.0].map(|x| curve.around(x)),
            [vec![1.0], vec![2.0], vec![2.0, 4.0], vec![4.0]]
        );
        assert_eq!(Curve::new([]).clamped(1.0), None);
        assert_eq!(Curve::new([]).linear(1.0), None);
    }
}
