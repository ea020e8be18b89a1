//! The reasons why one algorithm is above another where the study has it below.
//!
//! ```text
//!   by no more than the repeats lie apart (`noise.rs`)? ─► within the noise: not told apart
//!   mostly gone without the waits at the trigger?       ─► these make the difference
//!   in quiet ticks? in the median of the quiet ones?    ─► the other ticks make it
//!   does the model of cache lines (`model.rs`) say so?  ─► the model's words
//!   else                                                ─► the reason is not known
//! ```
//!
//! A reason is given only where a measurement or the model shows it. A difference within the noise needs
//! none, so noise is checked first. A circumstance makes a difference if without it less than half of the
//! difference is left, and that is within the noise.

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::Figure;
use super::data::{Series, Study, of};
use super::noise::{ALIKE, Noise};
use Algorithm::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};

struct Reason {
    figures: &'static [Figure],
    /// The algorithms that are higher than printed.
    above: &'static [Algorithm],
    /// Than whom.
    below: &'static [Algorithm],
    why: &'static str,
}

const MEANS: &[Figure] = &[Figure::Trace, Figure::Dataset, Figure::Row, Figure::Updates, Figure::Skew];

const REASONS: &[Reason] = &[
    Reason {
        figures: MEANS,
        above: &[CopyOnUpdate, Zigzag],
        below: &[PingPong],
        why: "an update writes a whole row: Ping-Pong stores it twice, with a mark, and reads nothing, while \
              this one reads bits of the row before it can store (the model of cache lines)",
    },
    Reason {
        figures: &[Figure::Flood],
        above: &[Naive, CopyOnUpdate, Zigzag, PingPong],
        below: &[Fork],
        why: "after each snapshot the first update of every page is a fault and a copy of 4 KiB (the model \
              of cache lines)",
    },
    Reason {
        figures: &[Figure::Flood],
        above: &[Naive],
        below: &[Hourglass, Piggyback],
        why: "an update of Naive touches the row and no mark (the model of cache lines)",
    },
];

/// The text where no reason is found.
pub(super) const UNKNOWN: &str = "the reason is not known";

/// The same values without something.
pub(crate) struct Without {
    values: Vec<Series>,
    noise: Noise,
    why: &'static str,
}

/// The measurements that an order is judged by.
pub(crate) struct Measured {
    pub values: Vec<Series>,
    pub noise: Noise,
    /// Circumstances that may make a difference, the narrowest first.
    pub without: Vec<Without>,
    /// The text where no reason is found.
    pub unknown: String,
}

impl Measured {
    /// Values that nothing more is known of.
    pub(crate) fn alone(values: Vec<Series>) -> Measured {
        Measured { values, noise: Noise::default(), without: Vec::new(), unknown: UNKNOWN.to_owned() }
    }

    /// The mean ticks of a figure.
    pub(crate) fn means(study: &Study<'_>, figure: Figure) -> Measured {
        let without = |of: fn(&Cell, &Figures) -> f64, why| Without {
            values: study.series(figure, of),
            noise: Noise::of(study, of),
            why,
        };
        let mean = |_: &Cell, figures: &Figures| figures.mean_us();
        Measured {
            values: study.series(figure, mean),
            noise: Noise::of(study, mean),
            without: vec![
                without(
                    |_, figures| figures.mean_unwaited_us(),
                    "what ticks wait at the trigger makes the difference",
                ),
                without(
                    |_, figures| figures.quiet.mean,
                    "the ticks during snapshots make the difference, not the quiet ones",
                ),
                without(
                    |_, figures| figures.quiet.p50,
                    "the ticks during snapshots make the difference, and the longest of the quiet ones",
                ),
            ],
            unknown: UNKNOWN.to_owned(),
        }
    }

    /// The reason why one algorithm is `times` times as high as another at `x`; `None`: noise.
    pub(crate) fn why(
        &self,
        figure: Figure,
        (x, times): (f64, f64),
        above: Algorithm,
        below: Algorithm,
    ) -> Option<&str> {
        if times <= self.noise.of_pair(above, below) {
            return None;
        }
        let not_without = |without: &&Without| {
            let (one, other) = (at(&without.values, above, x), at(&without.values, below, x));
            let still = one.zip(other).map(|(one, other)| one / other);
            let noise = without.noise.of_pair(above, below).max(ALIKE);
            still.is_some_and(|still| still <= noise && still - 1.0 <= (times - 1.0) / 2.0)
        };
        let fits = |reason: &&Reason| {
            reason.figures.contains(&figure) && reason.above.contains(&above) && reason.below.contains(&below)
        };
        let without = self.without.iter().find(not_without).map(|without| without.why);
        let modelled = || REASONS.iter().find(fits).map(|reason| reason.why);
        Some(without.or_else(modelled).unwrap_or(&self.unknown))
    }
}

fn at(series: &[Series], algorithm: Algorithm, x: f64) -> Option<f64> {
    of(series, algorithm)?.at(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NS and HG at the places 1, 2 and so on.
    fn series(naive: &[f64], hourglass: &[f64]) -> Vec<Series> {
        let one = |algorithm: Algorithm, values: &[f64]| {
            let values = values.iter().enumerate();
            Series::invented(algorithm, values.map(|(place, value)| (place as f64 + 1.0, *value)))
        };
        vec![one(Naive, naive), one(Hourglass, hourglass)]
    }

    #[test]
    fn what_makes_a_difference_is_what_most_of_it_is_gone_without() {
        let all = Measured::alone(series(&[9.0, 9.0, 5.5], &[5.0, 5.0, 5.0]));
        let quiet = series(&[4.0, 8.0, 5.3], &[4.0, 4.0, 5.0]);
        let without = |noise: Noise| vec![Without { values: quiet.clone(), noise, why: "not when quiet" }];
        let mut measured = Measured { without: without(Noise::default()), ..all };
        let whys = |measured: &Measured| {
            [(1.0, 1.8), (2.0, 1.8), (3.0, 1.1)]
                .map(|place| measured.why(Figure::Row, place, Naive, Hourglass).map(str::to_owned))
        };
        let expected = ["not when quiet", UNKNOWN, UNKNOWN].map(|why| Some(why.to_owned()));
        assert_eq!(whys(&measured), expected);
        // Quiet ticks that cannot be distinguished at all: where they have most of the difference, they are
        // no reason.
        measured.without = without(Noise::known(&[(Naive, 2.0), (Hourglass, 2.0)]));
        assert_eq!(whys(&measured), expected);
        // Within the noise, half of the difference left.
        let quiet = series(&[1.3, 1.5, 1.04], &[1.0, 1.0, 1.0]);
        let noise = Noise::known(&[(Naive, 1.4), (Hourglass, 1.4)]);
        measured.without = vec![Without { values: quiet, noise, why: "mostly when quiet" }];
        assert_eq!(
            whys(&measured),
            ["mostly when quiet", UNKNOWN, "mostly when quiet"].map(|why| Some(why.to_owned()))
        );
        // The noise of the values themselves comes first.
        measured.noise = Noise::known(&[(Naive, 1.8), (Hourglass, 1.8)]);
        assert_eq!(whys(&measured), [None, None, None]);
    }
}
