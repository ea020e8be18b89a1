//! Whether our figures have the orders and shapes that the study printed, and where not, why.
//!
//! A reason is given only where a measurement or the model of cache lines (`model.rs`) shows it.

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::Figure;
use super::charts::short;
use super::data::{Series, Study, exponent};
use super::published;
use Algorithm::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};

/// Values that lie no further apart than this count as equal.
const ALIKE: f64 = 1.05;
/// What grows with an exponent below does not grow.
const GROWS: f64 = 0.3;
/// Whether a taken phase that is shorter grows, nobody can see.
pub const TAKEN_US_SHORT: f64 = 10.0;
/// A spike is so many times the median tick.
const SPIKE: f64 = 3.0;
/// Checkpoints take about the same time if the longest takes no more than this times the shortest.
const OVERHEADS_ALIKE: f64 = 1.5;

/// What the study printed about a figure, and what ours shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub figure: Figure,
    /// What was printed.
    pub printed: &'static str,
    /// Where ours differs, with the reason; nothing if it does not.
    pub differences: Vec<String>,
}

impl Verdict {
    fn new(figure: Figure, printed: &'static str, differences: Vec<String>) -> Verdict {
        Verdict { figure, printed, differences }
    }
}

struct Reason {
    figures: &'static [Figure],
    /// Who is higher than printed.
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

/// A measurement: it is not above in ticks outside of snapshots.
const ONLY_DURING: &str = "in quiet ticks it is not; the ticks during snapshots make the difference";
const UNKNOWN: &str = "the reason is not known";

/// Why one algorithm is above another in a figure, if that is known.
fn reason(figure: Figure, above: Algorithm, below: Algorithm) -> &'static str {
    let fits = |reason: &&Reason| {
        reason.figures.contains(&figure) && reason.above.contains(&above) && reason.below.contains(&below)
    };
    REASONS.iter().find(fits).map_or(UNKNOWN, |reason| reason.why)
}

/// All that can be judged of what was measured.
pub fn judge(study: &Study<'_>) -> Vec<Verdict> {
    let mut all = Vec::new();
    spikes(study, &mut all);
    for figure in [Figure::Dataset, Figure::Row, Figure::Updates, Figure::Skew] {
        let mean = study.series(figure, |_, figures| figures.mean_us() / 1e3);
        let quiet = study.series(figure, |_, figures| figures.quiet.mean / 1e3);
        let printed = "mean: NS and Fork lowest, then HG and PB, then COU and ZZ, PP highest";
        all.extend(order(figure, printed, published::MEAN_ORDER, &mean, &quiet));
    }
    taken(study, &mut all);
    overheads(study, &mut all);
    huge_pages(study, &mut all);
    transactions(study, &mut all);
    let flood = study.series(Figure::Flood, |_, figures| figures.updates_per_s);
    let printed = "HG, PB and Fork reach more updates than NS, COU, ZZ and PP";
    all.extend(order(Figure::Flood, printed, published::FLOOD_ORDER, &flood, &[]));
    all
}

/// Whether each of an earlier group is below each of a later one, wherever both were measured. `quiet` has
/// the same without the time of snapshots, where there is such a thing.
pub fn order(
    figure: Figure,
    printed: &'static str,
    groups: &[&[Algorithm]],
    series: &[Series],
    quiet: &[Series],
) -> Option<Verdict> {
    let mut compared = false;
    // Pairs that differ for the same reason share a line.
    let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
    let lower =
        groups.iter().enumerate().flat_map(|(place, group)| group.iter().map(move |low| (place, *low)));
    let pairs = lower.flat_map(|(place, low)| {
        groups[place + 1..].iter().flat_map(|group| group.iter()).map(move |high| (low, *high))
    });
    for (low, high) in pairs {
        let Some(above) = above(series, low, high) else { continue };
        compared = true;
        let above_quiet = self::above(quiet, low, high).unwrap_or_else(|| above.clone());
        let (always, only_during): (Vec<f64>, Vec<f64>) =
            above.into_iter().partition(|x| above_quiet.contains(x));
        let of_one = series.iter().all(|series| series.points.len() == 1);
        for (xs, why) in [(always, reason(figure, low, high)), (only_during, ONLY_DURING)] {
            if xs.is_empty() {
                continue;
            }
            let at = xs.iter().map(|x| short(*x)).collect::<Vec<_>>().join(", ");
            let place = if of_one { String::new() } else { format!(" at {at}") };
            let pair = format!("{} is above {}{place}", low.name(), high.name());
            match by_reason.iter_mut().find(|(other, _)| *other == why) {
                Some((_, pairs)) => pairs.push(pair),
                None => by_reason.push((why, vec![pair])),
            }
        }
    }
    let differences = by_reason.iter().map(|(why, pairs)| format!("{}: {why}", pairs.join("; ")));
    compared.then(|| Verdict::new(figure, printed, differences.collect()))
}

/// Where one algorithm is above another; `None` if they were nowhere measured both.
fn above(series: &[Series], one: Algorithm, other: Algorithm) -> Option<Vec<f64>> {
    let of = |algorithm: Algorithm| series.iter().find(|series| series.algorithm == algorithm);
    let (one, other) = (of(one)?, of(other)?);
    let both: Vec<_> = one.points.iter().filter_map(|(x, y)| Some((*x, *y, other.at(*x)?))).collect();
    let above = both.iter().filter(|(_, one, other)| *one > other * ALIKE).map(|(x, ..)| *x);
    (!both.is_empty()).then(|| above.collect())
}

/// Figure 9: who has spikes.
fn spikes(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let measured = study.measured(Figure::Trace);
    let judged = |expected: bool, of: &[Algorithm]| -> Option<Vec<String>> {
        let own: Vec<_> = measured.iter().filter(|(point, _)| of.contains(&point.cell.algorithm)).collect();
        let differences = own.iter().filter_map(|(point, figures)| {
            let name = point.cell.algorithm.name();
            let times = figures.max_us() / figures.quiet.p50;
            let odd = times.is_finite() && (times >= SPIKE) != expected;
            odd.then(|| {
                format!("{name}: the longest tick is {} times the median one: {UNKNOWN}", short(times))
            })
        });
        (!own.is_empty()).then(|| differences.collect())
    };
    let printed = "NS, COU, Fork and ZZ have spikes at the trigger";
    all.extend(judged(true, published::SPIKES).map(|found| Verdict::new(Figure::Trace, printed, found)));
    let printed = "PP, HG and PB stay flat";
    all.extend(judged(false, published::FLAT).map(|found| Verdict::new(Figure::Trace, printed, found)));
}

/// Lines about the algorithms whose values grow, or do not, against what was printed.
fn growth(series: &[Series], of: &[Algorithm], what: &str, odd: impl Fn(f64) -> bool) -> Option<Vec<String>> {
    let own = series.iter().filter(|series| of.contains(&series.algorithm));
    let exponents: Vec<_> = own.filter_map(|own| Some((own.algorithm, exponent(&own.points)?))).collect();
    let differences = exponents.iter().filter(|(_, exponent)| odd(*exponent)).map(|(algorithm, exponent)| {
        format!("{}: {what} grows with exponent {exponent:.2}: {UNKNOWN}", algorithm.name())
    });
    (!exponents.is_empty()).then(|| differences.collect())
}

/// Figures 10 e to h, by the taken phase: one unlucky tick cannot spoil it.
fn taken(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let taken = |_: &Cell, figures: &Figures| figures.taken_us_median().max(TAKEN_US_SHORT);
    let by_data = study.series(Figure::Dataset, taken);
    let what = "the taken phase";
    let printed = "the spikes of COU, Fork and ZZ (and NS) grow with the data";
    let found = growth(&by_data, published::SPIKES, what, |exponent| exponent < GROWS);
    all.extend(found.map(|found| Verdict::new(Figure::Dataset, printed, found)));
    let printed = "those of PP, HG and PB do not";
    let found = growth(&by_data, published::FLAT, what, |exponent| exponent >= GROWS);
    all.extend(found.map(|found| Verdict::new(Figure::Dataset, printed, found)));
    let by_row = study.series(Figure::Row, taken);
    let printed = "longer rows make the spikes of COU and ZZ smaller";
    let found = growth(&by_row, published::FALLS_WITH_ROW, what, |exponent| exponent > -GROWS);
    all.extend(found.map(|found| Verdict::new(Figure::Row, printed, found)));
}

/// Figures 10 i to l.
fn overheads(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let overhead = study.series(Figure::Dataset, |_, figures| figures.overhead_ms());
    let odd = |exponent: f64| !(0.7..=1.3).contains(&exponent);
    let found = growth(&overhead, &Algorithm::PHYSICAL, "the checkpoint", odd);
    let printed = "checkpoints take a time that is linear in the data";
    all.extend(found.map(|found| Verdict::new(Figure::Dataset, printed, found)));
    let xs: Vec<f64> = overhead.iter().flat_map(|series| &series.points).map(|point| point.0).collect();
    let Some(largest) = xs.into_iter().max_by(f64::total_cmp) else { return };
    let mut there: Vec<(f64, Algorithm)> =
        overhead.iter().filter_map(|series| Some((series.at(largest)?, series.algorithm))).collect();
    there.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (Some(first), Some(last)) = (there.first(), there.last()) else { return };
    let differences = (there.len() > 1 && last.0 > first.0 * OVERHEADS_ALIKE).then(|| {
        let times = short(last.0 / first.0);
        let (slow, fast) = (last.1.name(), first.1.name());
        format!("{slow} takes {times} times as long as {fast} at {} GB: {UNKNOWN}", short(largest))
    });
    let printed = "checkpoints take about the same time, whatever the algorithm";
    all.push(Verdict::new(Figure::Dataset, printed, differences.into_iter().collect()));
}

/// Figure 11.
fn huge_pages(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let max = study.series(Figure::HugePages, |_, figures| figures.max_us());
    let mean = study.series(Figure::HugePages, |_, figures| figures.mean_us());
    let mut compare = |printed, series: &[Series], low: (Algorithm, bool), high: (Algorithm, bool)| {
        let of = |(algorithm, second): (Algorithm, bool)| {
            series.iter().find(|series| series.algorithm == algorithm && series.second == second)
        };
        let (Some(low), Some(high)) = (of(low), of(high)) else { return };
        let both = low.points.iter().filter_map(|(x, y)| Some((*x, *y, high.at(*x)?)));
        let odd: Vec<_> = both.filter(|(_, low, high)| *low > high * ALIKE).map(|(x, ..)| short(x)).collect();
        let differences = (!odd.is_empty())
            .then(|| format!("{} is above {} at {} GB: {UNKNOWN}", low.name, high.name, odd.join(", ")));
        all.push(Verdict::new(Figure::HugePages, printed, differences.into_iter().collect()));
    };
    compare("huge pages lower Fork's maximum", &max, (Fork, true), (Fork, false));
    compare("it stays above HG's", &max, (Hourglass, false), (Fork, true));
    compare("it stays above PB's", &max, (Piggyback, false), (Fork, true));
    compare("huge pages raise Fork's mean", &mean, (Fork, false), (Fork, true));
}

/// Figure 12.
fn transactions(study: &Study<'_>, all: &mut Vec<Verdict>) {
    use Algorithm::{Calc, VirtualHourglass, VirtualPiggyback};
    let rate = study.series(Figure::Transactions, |_, figures| figures.transactions_per_s);
    let groups: &[&[Algorithm]] = &[&[Calc], &[VirtualHourglass, VirtualPiggyback]];
    all.extend(order(Figure::Transactions, "vHG and vPB are above CALC", groups, &rate, &[]));
    let past: Vec<_> =
        rate.iter().filter_map(|series| Some((series, series.at(16.0)? / series.at(8.0)?))).collect();
    if !past.is_empty() {
        let odd = past.iter().filter(|(_, times)| !(0.8..=1.25).contains(times));
        let differences = odd.map(|(series, times)| {
            format!("{}: 16 threads reach {} times what 8 do: {UNKNOWN}", series.name, short(*times))
        });
        let printed = "more than 8 threads change little";
        all.push(Verdict::new(Figure::Transactions, printed, differences.collect()));
    }
}

/// Table 4, where the machine counts.
pub fn misses(series: &[Series]) -> Option<Verdict> {
    let printed = "cache misses: NS and Fork least, ZZ and PP most";
    order(Figure::Trace, printed, published::MISSES_ORDER, series, &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[(Algorithm, &[(f64, f64)])]) -> Vec<Series> {
        let one = |(algorithm, points): &(Algorithm, &[(f64, f64)])| Series {
            algorithm: *algorithm,
            name: algorithm.name().to_owned(),
            second: false,
            points: points.to_vec(),
        };
        values.iter().map(one).collect()
    }

    fn differences(values: &[(Algorithm, &[(f64, f64)])]) -> Option<Vec<String>> {
        order(Figure::Row, "", published::MEAN_ORDER, &series(values), &[]).map(|verdict| verdict.differences)
    }

    #[test]
    fn the_printed_order_is_found_and_so_is_where_it_does_not_hold() {
        let same =
            differences(&[(Naive, &[(1.0, 1.0)]), (Hourglass, &[(1.0, 2.0)]), (PingPong, &[(1.0, 3.0)])]);
        assert_eq!(same, Some(vec![]));
        // Within a group any order will do, and so will a difference that is small.
        assert_eq!(differences(&[(Fork, &[(1.0, 1.0)]), (Naive, &[(1.0, 2.0)])]), None);
        assert_eq!(differences(&[(Fork, &[(1.0, 1.04)]), (Piggyback, &[(1.0, 1.0)])]), Some(vec![]));
        let known =
            differences(&[(Zigzag, &[(1.0, 1.0), (2.0, 3.0)]), (PingPong, &[(1.0, 2.0), (2.0, 2.0)])]);
        let [line] = &known.expect("both were measured")[..] else { panic!("one line") };
        assert!(line.starts_with("ZZ is above PP at 2: an update writes a whole row"), "{line}");
        let unknown = differences(&[(Hourglass, &[(1.0, 5.0)]), (Zigzag, &[(1.0, 2.0)])]);
        assert_eq!(unknown, Some(vec![format!("HG is above ZZ: {UNKNOWN}")]));
        // What was not measured at the same place is not compared.
        assert_eq!(differences(&[(Naive, &[(1.0, 9.0)]), (PingPong, &[(2.0, 3.0)])]), None);
    }

    #[test]
    fn a_difference_that_quiet_ticks_do_not_have_is_told_apart() {
        let all = series(&[(Naive, &[(1.0, 9.0), (2.0, 9.0)]), (Hourglass, &[(1.0, 5.0), (2.0, 5.0)])]);
        let quiet = series(&[(Naive, &[(1.0, 4.0), (2.0, 8.0)]), (Hourglass, &[(1.0, 4.0), (2.0, 4.0)])]);
        let verdict =
            order(Figure::Row, "", published::MEAN_ORDER, &all, &quiet).expect("both were measured");
        let expected =
            [format!("NS is above HG at 2: {UNKNOWN}"), format!("NS is above HG at 1: {ONLY_DURING}")];
        assert_eq!(verdict.differences, expected);
    }

    #[test]
    fn growth_is_held_against_what_was_printed() {
        let flat: &[(f64, f64)] = &[(1.0, 5.0), (8.0, 5.0)];
        let steep: &[(f64, f64)] = &[(1.0, 5.0), (8.0, 40.0)];
        let all = series(&[(Hourglass, flat), (Piggyback, steep), (Fork, steep)]);
        let found = growth(&all, published::FLAT, "it", |exponent| exponent >= GROWS).expect("measured");
        assert_eq!(found, [format!("PB: it grows with exponent 1.00: {UNKNOWN}")]);
        assert_eq!(growth(&all, published::SPIKES, "it", |exponent| exponent < GROWS), Some(vec![]));
        assert_eq!(growth(&[], published::FLAT, "it", |_| true), None);
    }
}
