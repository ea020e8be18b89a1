//! The noise of a run: the spread of measurements of one thing.
//!
//! ```text
//!   repeats of A     |------a------|           a = longest / shortest, as a factor
//!   value of A                     |-----A-----|          A·√a is its end
//!   value of B           |--B--|                          B·√b is its end
//!                                   told apart: the values' intervals do not meet, A / B > √(a·b)
//! ```
//!
//! The default parameters are measured several times, with different seeds. The spread of these repeats of an
//! algorithm, as a factor, is the noise of its values everywhere, half of it to each side. Three repeats
//! cannot say more, and the noise at other parameters was not measured.

use super::super::cell::{Algorithm, Cell, Figures};
use super::data::Study;

/// Values that lie no further apart than this count as equal, noise or not.
pub(super) const ALIKE: f64 = 1.05;

/// For each algorithm, the longest repeat divided by the shortest. The noise of an algorithm without repeats
/// is not known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noise(Vec<(Algorithm, f64)>);

impl Noise {
    /// The noise of `of` over the repeats of a cell.
    pub(crate) fn of(study: &Study<'_>, of: impl Fn(&Cell, &Figures) -> f64) -> Noise {
        let spread = |algorithm: Algorithm| {
            let repeats = study.defaults_of(algorithm);
            Some((algorithm, spread(repeats.iter().map(|(cell, figures)| of(cell, figures)))?))
        };
        Noise(Algorithm::PHYSICAL.into_iter().filter_map(spread).collect())
    }

    fn spread(&self, algorithm: Algorithm) -> f64 {
        self.0.iter().find(|own| own.0 == algorithm).map_or(1.0, |own| own.1)
    }

    /// Values of two algorithms differ if one is more than this many times the other.
    pub(crate) fn of_pair(&self, one: Algorithm, other: Algorithm) -> f64 {
        (self.spread(one) * self.spread(other)).sqrt()
    }

    /// Says that values of these algorithms cannot be distinguished.
    pub(crate) fn text(&self, of: &[Algorithm]) -> String {
        let most = of.iter().map(|algorithm| self.spread(*algorithm)).fold(1.0, f64::max);
        let percent = (most - 1.0) * 100.0;
        format!(
            "within the noise of this run: repeats of the default parameters differ by up to {percent:.0} %"
        )
    }

    #[cfg(test)]
    pub(crate) fn known(spreads: &[(Algorithm, f64)]) -> Noise {
        Noise(spreads.to_vec())
    }
}

/// The largest divided by the smallest; `None` for fewer than two values, or for values without such a ratio.
fn spread(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.filter(|value| value.is_finite() && *value > 0.0).collect();
    let (min, max) =
        values.iter().fold((f64::MAX, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
    (values.len() > 1).then(|| max / min)
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::super::super::plan::{Figure, Scale};
    use super::super::super::study::scales;
    use super::*;
    use crate::experiment::Wanted;

    #[test]
    fn noise_is_how_far_the_repeats_of_an_algorithm_lie_apart() {
        let mut results = fixture::results(&[Figure::Trace, Figure::Repeats], Scale::Quick);
        for line in results.lines.iter_mut().filter(|line| line.cell.algorithm == Algorithm::Hourglass) {
            line.figures.quiet.mean = line.cell.seed as f64 * 100.0;
        }
        results.lines.retain(|line| line.cell.algorithm != Algorithm::Naive || line.cell.seed == 1);
        let study = Study::newest(&results, scales(Wanted::default())).expect("there are results");
        let noise = Noise::of(&study, |_, figures| figures.quiet.mean);
        // 100 to 300 µs; the fixture's others are all the same, and one repeat says nothing.
        assert_eq!(noise.spread(Algorithm::Hourglass), 3.0);
        assert_eq!(noise.of_pair(Algorithm::Piggyback, Algorithm::Hourglass), 3_f64.sqrt());
        assert_eq!(noise.of_pair(Algorithm::Hourglass, Algorithm::Hourglass), 3.0);
        assert!(noise.0.iter().all(|own| own.0 != Algorithm::Naive), "{noise:?}");
        let text = noise.text(&[Algorithm::Piggyback, Algorithm::Hourglass]);
        assert!(text.ends_with("differ by up to 200 %"), "{text}");
    }
}
