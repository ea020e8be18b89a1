//! Judges figure 10 i, and figure 17 of the arXiv text: the times of checkpoints by size of the data.
//!
//! A cell takes several checkpoints of the same rows to the same disk. The spread of their times is the noise
//! of the measurement, and differences within it are not distinguished.

use super::super::cell::{Algorithm, Figures};
use super::super::plan::Figure;
use super::data::{Series, Study, exponent, of};
use super::reasons::UNKNOWN;
use super::{Verdict, add, published};
use crate::report::short;

/// A growth with an exponent in this range is linear.
const LINEAR: std::ops::RangeInclusive<f64> = 0.7..=1.3;
/// Checkpoints take about the same time if the longest takes no more than this times the shortest.
pub(super) const OVERHEADS_ALIKE: f64 = 1.5;

/// The printed statements.
const LINEARITY: &str = "checkpoints take a time that is linear in the data";
const LIKENESS: &str = "checkpoints take about the same time, whatever the algorithm (but COU, whose take \
                        1.6 times as long in the authors' own data)";
const ARXIV_LIKENESS: &str = "checkpoints take about the same time, whatever the algorithm (but Fork, whose \
                              take a third to a fifth of it in the authors' own data)";

/// For each algorithm the times of its checkpoints by size, in milliseconds.
struct Overheads {
    shortest: Vec<Series>,
    median: Vec<Series>,
    longest: Vec<Series>,
}

/// Judges their growth with the data, and whether all take the same.
pub(super) fn judge(study: &Study<'_>, figure: Figure, all: &mut Vec<Verdict>) {
    let series = |of: &dyn Fn(&Figures) -> f64| study.series(figure, |_, figures| of(figures));
    let end = |of: fn(f64, f64) -> f64| {
        series(&|figures| figures.overhead_us.iter().copied().fold(f64::NAN, of) / 1e3)
    };
    let (shortest, longest) = (end(f64::min), end(f64::max));
    let overheads = Overheads { shortest, median: series(&Figures::overhead_ms), longest };
    add(all, figure, LINEARITY, growth(figure, &overheads));
    add(all, figure, likeness(figure).0, alike(figure, &overheads));
}

fn growth(figure: Figure, overheads: &Overheads) -> Option<Verdict> {
    let growth = |series: &Series| Some((series.algorithm, exponent(&series.points)?));
    // The arXiv text's figures have the published forms, too.
    let own = overheads.median.iter().filter(|series| Algorithm::PHYSICAL.contains(&series.algorithm));
    let exponents: Vec<_> = own.filter_map(growth).collect();
    let mut verdict = Verdict::new(figure, LINEARITY, Vec::new());
    let slowest = exponents.iter().map(|own| own.1).fold(f64::INFINITY, f64::min);
    for (algorithm, exponent) in exponents.iter().filter(|own| !LINEAR.contains(&own.1)) {
        let name = algorithm.name();
        let mut line = format!("{name}: the checkpoint grows with exponent {exponent:.2}: ");
        let shared = if *exponent > 1.0 && slowest > 1.0 && exponents.len() > 1 {
            format!("; with every algorithm it is {slowest:.2} or more")
        } else {
            String::new()
        };
        match bounds(overheads, *algorithm) {
            Some((low, high)) if low <= *LINEAR.end() && high >= *LINEAR.start() => {
                line += &format!(
                    "within the noise of this run: by the longest and the shortest checkpoints of each size \
                     it is between {low:.2} and {high:.2}{shared}"
                );
                verdict.unclear.push(line);
            }
            _ => verdict.differences.push(line + UNKNOWN + &shared),
        }
    }
    (!exponents.is_empty()).then_some(verdict)
}

/// The smallest and the largest exponent that the checkpoints of an algorithm allow: by the longest of the
/// smaller sizes and the shortest of the larger ones, and the other way round.
fn bounds(overheads: &Overheads, algorithm: Algorithm) -> Option<(f64, f64)> {
    let median = of(&overheads.median, algorithm)?;
    let middle = median.points.iter().map(|point| point.0.ln()).sum::<f64>() / median.points.len() as f64;
    let tilted = |small: &Series, large: &Series| {
        let points = median.points.iter().map(|(x, y)| {
            let from = if x.ln() < middle - 1e-9 { small } else { large };
            let ends = (x.ln() - middle).abs() > 1e-9;
            (*x, if ends { from.at(*x).unwrap_or(*y) } else { *y })
        });
        exponent(&points.collect::<Vec<_>>())
    };
    let (shortest, longest) = (of(&overheads.shortest, algorithm)?, of(&overheads.longest, algorithm)?);
    Some((tilted(longest, shortest)?, tilted(shortest, longest)?))
}

/// The printed statement, and the algorithms that it is judged for.
fn likeness(figure: Figure) -> (&'static str, &'static [Algorithm]) {
    match figure {
        Figure::ArxivDataset => (ARXIV_LIKENESS, published::ARXIV_OVERHEADS_ALIKE),
        _ => (LIKENESS, published::OVERHEADS_ALIKE),
    }
}

fn alike(figure: Figure, overheads: &Overheads) -> Option<Verdict> {
    let points = || overheads.median.iter().flat_map(|series| &series.points);
    let largest = points().map(|point| point.0).max_by(f64::total_cmp)?;
    let (printed, named) = likeness(figure);
    let own = overheads.median.iter().filter(|series| named.contains(&series.algorithm));
    let mut there: Vec<(f64, Algorithm)> =
        own.filter_map(|series| Some((series.at(largest)?, series.algorithm))).collect();
    there.sort_by(|a, b| a.0.total_cmp(&b.0));
    let ((first, fast), (last, slow)) = (*there.first()?, *there.last()?);
    let mut verdict = Verdict::new(figure, printed, Vec::new());
    if last > first * OVERHEADS_ALIKE {
        let (times, gb) = (short(last / first), short(largest));
        let line = format!("{} takes {times} times as long as {} at {gb} GB: ", slow.name(), fast.name());
        let range = |algorithm: Algorithm| {
            let at = |series: &[Series]| of(series, algorithm)?.at(largest);
            Some((at(&overheads.shortest)?, at(&overheads.longest)?))
        };
        match (range(fast), range(slow)) {
            (Some(fast), Some(slow)) if slow.0 <= fast.1 => {
                let text = |(shortest, longest): (f64, f64)| {
                    format!("{} to {} s", short(shortest / 1e3), short(longest / 1e3))
                };
                let (slow, fast) = (text(slow), text(fast));
                verdict.unclear.push(format!(
                    "{line}within the noise of this run: its checkpoints there took {slow}, \
                     the other's {fast}"
                ));
            }
            _ => verdict.differences.push(line + UNKNOWN),
        }
    }
    Some(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Naive, Zigzag};

    /// A size, and the shortest, the median and the longest time.
    type Point = (f64, [f64; 3]);

    fn overheads(all: &[(Algorithm, &[Point])]) -> Overheads {
        let series = |place: usize| {
            all.iter()
                .map(|(algorithm, points)| {
                    Series::invented(*algorithm, points.iter().map(|(x, times)| (*x, times[place])))
                })
                .collect()
        };
        Overheads { shortest: series(0), median: series(1), longest: series(2) }
    }

    #[test]
    fn growth_that_the_checkpoints_of_each_size_leave_open_is_noise() {
        let noisy: &[Point] = &[(1.0, [90.0, 100.0, 200.0]), (10.0, [1500.0, 4000.0, 4000.0])];
        let steady: &[Point] = &[(1.0, [90.0, 100.0, 110.0]), (10.0, [3900.0, 4000.0, 4100.0])];
        let linear: &[Point] = &[(1.0, [90.0, 100.0, 110.0]), (10.0, [990.0, 1200.0, 1300.0])];
        let found = growth(Figure::Dataset, &overheads(&[(Naive, noisy), (Zigzag, linear)]))
            .expect("it was measured");
        assert_eq!(found.differences, Vec::<String>::new());
        assert_eq!(
            found.unclear,
            ["NS: the checkpoint grows with exponent 1.60: within the noise of this run: by the longest \
              and the shortest checkpoints of each size it is between 0.88 and 1.65; with every algorithm it \
              is 1.08 or more"]
        );
        let found = growth(Figure::Dataset, &overheads(&[(Naive, steady)])).expect("it was measured");
        assert_eq!(found.differences, [format!("NS: the checkpoint grows with exponent 1.60: {UNKNOWN}")]);
        assert_eq!(found.unclear, Vec::<String>::new());
    }

    #[test]
    fn checkpoints_of_two_algorithms_that_overlap_are_not_told_apart() {
        let slow: &[Point] = &[(4.0, [12_000.0, 12_500.0, 18_000.0])];
        let wide: &[Point] = &[(4.0, [6_000.0, 7_500.0, 17_000.0])];
        let narrow: &[Point] = &[(4.0, [6_000.0, 7_500.0, 8_000.0])];
        let found =
            alike(Figure::Dataset, &overheads(&[(Naive, slow), (Zigzag, wide)])).expect("it was measured");
        assert_eq!(
            found.unclear,
            ["NS takes 1.67 times as long as ZZ at 4 GB: within the noise of this run: its checkpoints \
              there took 12 to 18 s, the other's 6 to 17 s"]
        );
        assert!(found.differences.is_empty());
        let found =
            alike(Figure::Dataset, &overheads(&[(Naive, slow), (Zigzag, narrow)])).expect("it was measured");
        assert_eq!(found.differences, [format!("NS takes 1.67 times as long as ZZ at 4 GB: {UNKNOWN}")]);
        assert!(found.unclear.is_empty());
    }
}
