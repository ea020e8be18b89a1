//! The looks of the algorithms' lines, and their traces.

use plotters::style::RGBColor;

use super::super::cell::{Algorithm, Figures};
use super::data::Series;
use crate::drawing::{Curve, Look, Words, decades, trace};

/// The look of an algorithm.
pub const fn look(algorithm: Algorithm) -> Look {
    let colour = match algorithm {
        Algorithm::Naive => RGBColor(128, 128, 128),
        Algorithm::CopyOnUpdate | Algorithm::Calc => RGBColor(213, 94, 0),
        Algorithm::Fork => RGBColor(214, 70, 130),
        Algorithm::Zigzag => RGBColor(184, 134, 11),
        Algorithm::PingPong => RGBColor(0, 158, 115),
        Algorithm::Hourglass | Algorithm::VirtualHourglass => RGBColor(45, 130, 200),
        Algorithm::Piggyback | Algorithm::VirtualPiggyback => RGBColor(142, 91, 208),
    };
    let sign = match algorithm {
        Algorithm::Naive | Algorithm::Zigzag | Algorithm::Hourglass | Algorithm::VirtualHourglass => '●',
        Algorithm::CopyOnUpdate | Algorithm::PingPong | Algorithm::Calc => '▲',
        Algorithm::Fork | Algorithm::Piggyback | Algorithm::VirtualPiggyback => '×',
    };
    Look { colour, sign }
}

impl Curve for Series {
    fn look(&self) -> Look {
        look(self.algorithm)
    }

    fn points(&self) -> &[(f64, f64)] {
        &self.points
    }

    fn is_second(&self) -> bool {
        self.second
    }
}

/// The update stages of runs by time, each on a panel, all with the same scale of latencies; the ground is
/// shaded while a snapshot was in progress. Returns panels with their captions.
pub fn traces(runs: &[(Algorithm, &Figures)]) -> Vec<(String, String)> {
    let all: Vec<_> = runs.iter().map(|(algorithm, figures)| (*algorithm, figures, ticks(figures))).collect();
    let latencies = || all.iter().flat_map(|(_, _, ticks)| ticks).map(|tick| tick.1);
    let (min, max) = (latencies().fold(f64::NAN, f64::min), latencies().fold(f64::NAN, f64::max));
    let panels = all.iter().filter_map(|(algorithm, figures, ticks)| {
        let words = Words { caption: algorithm.name(), x: "time [ms]", y: "latency [ms]" };
        let drawn = trace(words, look(*algorithm), ticks, &figures.snapshots_ms, &decades(min, max))?;
        Some((algorithm.name().to_owned(), drawn))
    });
    panels.collect()
}

/// The start and the duration of each tick, in milliseconds.
fn ticks(figures: &Figures) -> Vec<(f64, f64)> {
    figures
        .trace
        .iter()
        .map(|(ms, us)| (f64::from(*ms), f64::from(*us) / 1e3))
        .filter(|(at, took)| at.is_finite() && took.is_finite() && *took > 0.0)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_leave_out_what_is_no_number() {
        assert_eq!(traces(&[(Algorithm::Fork, &Figures::default())]), []);
        let odd = Figures { trace: vec![(0.0, f32::NAN), (1.0, 0.0), (2.0, 7.0)], ..Figures::default() };
        assert_eq!(traces(&[(Algorithm::Fork, &odd), (Algorithm::Naive, &Figures::default())]).len(), 1);
    }
}
