//! Judges whether our figures have the orders and shapes that the study printed, and why not where they do
//! not (`reasons.rs`).

use super::super::cell::{Algorithm, Cell, Figures};
use super::super::plan::Figure;
use super::data::{Series, Study, TAKEN_US_SHORT, exponent, of};
use super::noise::{ALIKE, Noise};
use super::reasons::{Measured, UNKNOWN};
use super::shapes::{Shape, Statement};
use super::{Verdict, add, checkpoints, published, spikes};
use crate::report::short;
use Algorithm::{Fork, Hourglass, Piggyback};

/// Values that grow with a smaller exponent do not grow.
const GROWS: f64 = 0.3;
/// Means whose ends lie no further apart are level. The authors' own repeats of a cell differ by up to 20 %.
const MEANS_ALIKE: f64 = 1.2;
/// The same for taken phases.
const TAKEN_ALIKE: f64 = 1.5;

/// All verdicts that the measurements permit.
pub(crate) fn judge(study: &Study<'_>) -> Vec<Verdict> {
    let mut all = Vec::new();
    spikes::judge(study, Figure::Trace, &mut all);
    for figure in [Figure::Dataset, Figure::Row, Figure::Updates, Figure::Skew] {
        let printed = "mean: NS and Fork lowest, then HG, PB and COU, then ZZ, PP highest";
        let found = order(figure, printed, published::MEAN_ORDER, &Measured::means(study, figure));
        add(&mut all, figure, printed, found);
    }
    curves(study, &mut all);
    taken(study, &mut all);
    checkpoints::judge(study, Figure::Dataset, &mut all);
    huge_pages(study, &mut all);
    transactions(study, &mut all);
    let flood = Measured::alone(study.series(Figure::Flood, |_, figures| figures.updates_per_s));
    let printed = "table 2: the maximum throughput of HG, PB and Fork is high, that of COU and ZZ in the \
                   middle, that of NS and PP low";
    let found = order(Figure::Flood, printed, published::FLOOD_ORDER, &flood);
    add(&mut all, Figure::Flood, printed, found);
    all
}

/// Judges whether each algorithm of an earlier group is below each of a later one, wherever both were
/// measured.
pub(crate) fn order(
    figure: Figure,
    printed: &'static str,
    groups: &[&[Algorithm]],
    measured: &Measured,
) -> Option<Verdict> {
    let values = &measured.values;
    let of_one = values.iter().all(|series| series.points.len() == 1);
    let place = |xs: &str| if of_one { String::new() } else { format!(" at {xs}") };
    let lower =
        groups.iter().enumerate().flat_map(|(place, group)| group.iter().map(move |low| (place, *low)));
    let pairs = lower.flat_map(|(place, low)| {
        groups[place + 1..].iter().flat_map(|group| group.iter()).map(move |high| (low, *high))
    });
    let pairs = pairs.filter_map(|(low, high)| Some((of(values, low)?, of(values, high)?)));
    compare(figure, printed, pairs, place, measured)
}

/// Judges whether the first of each pair is below the second, wherever both were measured. `place` says where
/// it is not.
fn compare<'s>(
    figure: Figure,
    printed: &'static str,
    pairs: impl IntoIterator<Item = (&'s Series, &'s Series)>,
    place: impl Fn(&str) -> String,
    measured: &Measured,
) -> Option<Verdict> {
    let mut compared = false;
    // Pairs that differ for the same reason share a line. Those within the noise have none.
    let mut by_reason: Vec<(Option<&str>, Vec<String>)> = Vec::new();
    let mut within_noise = Vec::new();
    for (low, high) in pairs {
        let mut places: Vec<(Option<&str>, Vec<String>)> = Vec::new();
        for (x, times) in low.points.iter().filter_map(|(x, y)| Some((*x, y / high.at(*x)?))) {
            compared = true;
            if times > ALIKE {
                let why = measured.why(figure, (x, times), low.algorithm, high.algorithm);
                within_noise.extend([low, high].iter().filter(|_| why.is_none()).map(|own| own.algorithm));
                push(&mut places, why, short(x));
            }
        }
        for (why, xs) in places {
            let text = format!("{} is above {}{}", low.name, high.name, place(&xs.join(", ")));
            push(&mut by_reason, why, text);
        }
    }
    let mut verdict = Verdict::new(figure, printed, Vec::new());
    for (why, pairs) in by_reason {
        let pairs = pairs.join("; ");
        match why {
            Some(why) => verdict.differences.push(format!("{pairs}: {why}")),
            None => verdict.unclear.push(format!("{pairs}: {}", measured.noise.text(&within_noise))),
        }
    }
    compared.then_some(verdict)
}

/// Adds a value to those of a key.
fn push<K: PartialEq>(all: &mut Vec<(K, Vec<String>)>, key: K, value: String) {
    match all.iter_mut().find(|(other, _)| *other == key) {
        Some((_, values)) => values.push(value),
        None => all.push((key, vec![value])),
    }
}

/// Lines about the algorithms whose values grow, or do not, contrary to the printed results.
fn growth(series: &[Series], of: &[Algorithm], what: &str, odd: impl Fn(f64) -> bool) -> Option<Vec<String>> {
    let own = series.iter().filter(|series| of.contains(&series.algorithm));
    let exponents: Vec<_> = own.filter_map(|own| Some((own.algorithm, exponent(&own.points)?))).collect();
    let differences = exponents.iter().filter(|(_, exponent)| odd(*exponent)).map(|(algorithm, exponent)| {
        format!("{}: {what} grows with exponent {exponent:.2}: {UNKNOWN}", algorithm.name())
    });
    (!exponents.is_empty()).then(|| differences.collect())
}

/// Figures 10 a to d and f to l: the shapes of the curves that the text tells. Maxima are judged by the taken
/// phase, as one unlucky tick can spoil a maximum.
pub(super) fn curves(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let mean = |_: &Cell, figures: &Figures| figures.mean_us();
    let taken = |_: &Cell, figures: &Figures| figures.taken_us_median().max(TAKEN_US_SHORT);
    let overhead = |_: &Cell, figures: &Figures| figures.overhead_ms();
    let noise = Noise::of(study, mean);
    let mut judge = |printed, figure, of: &[Algorithm], shape, series: Vec<Series>, noise: &Noise| {
        add(all, figure, printed, Statement { figure, printed, of, shape }.judge(&series, noise));
    };
    let means: [(_, _, &[Algorithm], _); 5] = [
        ("10a: every mean rises with the data", Figure::Dataset, &Algorithm::PHYSICAL, Shape::Rises),
        (
            "10b: the means of NS, COU, HG and PB rise with the row",
            Figure::Row,
            published::RISES,
            Shape::Rises,
        ),
        ("10b: those of ZZ and PP do not", Figure::Row, published::LEVEL, Shape::Level(MEANS_ALIKE)),
        ("10c: every mean rises with the updates", Figure::Updates, &Algorithm::PHYSICAL, Shape::Rises),
        ("10d: every mean falls with the skew", Figure::Skew, &Algorithm::PHYSICAL, Shape::Falls),
    ];
    for (printed, figure, of, shape) in means {
        judge(printed, figure, of, shape, study.series(figure, mean), &noise);
    }
    let drawn = &Algorithm::PHYSICAL[1..];
    let maxima: [(_, _, &[Algorithm]); 3] = [
        (
            "10f: the row has no effect on Fork's maximum (judged by the median taken phase)",
            Figure::Row,
            &[Fork],
        ),
        (
            "10g: updates have no effect on the maxima but NS's (judged by the median taken phase)",
            Figure::Updates,
            drawn,
        ),
        (
            "10h: skew has no effect on the maxima but NS's (judged by the median taken phase)",
            Figure::Skew,
            drawn,
        ),
    ];
    for (printed, figure, of) in maxima {
        let series = study.series(figure, taken);
        judge(printed, figure, of, Shape::Level(TAKEN_ALIKE), series, &Noise::default());
    }
    let overheads = [
        ("10j: the row has no effect on the time of a checkpoint", Figure::Row),
        ("10k: nor have updates", Figure::Updates),
        ("10l: nor has skew", Figure::Skew),
    ];
    for (printed, figure) in overheads {
        let series = study.series(figure, overhead);
        let shape = Shape::Level(checkpoints::OVERHEADS_ALIKE);
        judge(printed, figure, &Algorithm::PHYSICAL, shape, series, &Noise::default());
    }
}

/// Figures 10 e and f, by the taken phase: one unlucky tick cannot spoil it.
fn taken(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let taken = |_: &Cell, figures: &Figures| figures.taken_us_median().max(TAKEN_US_SHORT);
    let by_data = study.series(Figure::Dataset, taken);
    let what = "the taken phase";
    let printed =
        "the spikes of COU, Fork and ZZ (and NS) grow with the data (judged by the median taken phase)";
    let found = growth(&by_data, published::SPIKES, what, |exponent| exponent < GROWS);
    let mut judge = |figure, printed, found: Option<Vec<String>>| {
        add(all, figure, printed, found.map(|found| Verdict::new(figure, printed, found)));
    };
    judge(Figure::Dataset, printed, found);
    let printed = "those of PP, HG and PB do not";
    let found = growth(&by_data, published::FLAT, what, |exponent| exponent >= GROWS);
    judge(Figure::Dataset, printed, found);
    let by_row = study.series(Figure::Row, taken);
    let printed = "longer rows make the spikes of COU and ZZ smaller (judged by the median taken phase)";
    let found = growth(&by_row, published::FALLS_WITH_ROW, what, |exponent| exponent > -GROWS);
    judge(Figure::Row, printed, found);
}

/// Figure 11. Its cells have the noise of the default parameters, huge pages or not.
fn huge_pages(study: &Study<'_>, all: &mut Vec<Verdict>) {
    let measured = |of: fn(&Figures) -> f64| {
        let of = |_: &Cell, figures: &Figures| of(figures);
        Measured { noise: Noise::of(study, of), ..Measured::alone(study.series(Figure::HugePages, of)) }
    };
    let (max, mean) = (measured(Figures::max_us), measured(Figures::mean_us));
    let mut judge = |printed, measured, low, high| {
        add(all, Figure::HugePages, printed, huge_page_order(printed, measured, low, high));
    };
    judge("huge pages lower Fork's maximum", &max, (Fork, true), (Fork, false));
    judge("it stays above HG's", &max, (Hourglass, false), (Fork, true));
    judge("it stays above PB's", &max, (Piggyback, false), (Fork, true));
    judge("huge pages raise Fork's mean", &mean, (Fork, false), (Fork, true));
}

/// Judges whether an algorithm, with huge pages or without, is below another.
fn huge_page_order(
    printed: &'static str,
    measured: &Measured,
    low: (Algorithm, bool),
    high: (Algorithm, bool),
) -> Option<Verdict> {
    let of = |(algorithm, second): (Algorithm, bool)| {
        measured.values.iter().find(|series| series.algorithm == algorithm && series.second == second)
    };
    let place = |xs: &str| format!(" at {xs} GB");
    compare(Figure::HugePages, printed, [(of(low)?, of(high)?)], place, measured)
}

/// Figure 12.
fn transactions(study: &Study<'_>, all: &mut Vec<Verdict>) {
    use Algorithm::{Calc, VirtualHourglass, VirtualPiggyback};
    let rate = study.series(Figure::Transactions, |_, figures| figures.transactions_per_s);
    let groups: &[&[Algorithm]] = &[&[Calc], &[VirtualHourglass, VirtualPiggyback]];
    let unknown = without_restarts(study).unwrap_or_else(|| UNKNOWN.to_owned());
    let unknown = unknown + "; docs/algorithms/virtual-hourglass.md has what is counted";
    let measured = Measured { unknown, ..Measured::alone(rate.clone()) };
    let printed = "vHG and vPB are above CALC";
    add(all, Figure::Transactions, printed, order(Figure::Transactions, printed, groups, &measured));
    let past: Vec<_> =
        rate.iter().filter_map(|series| Some((series, series.at(16.0)? / series.at(8.0)?))).collect();
    let odd = past.iter().filter(|(_, times)| !(0.8..=1.25).contains(times));
    let differences = odd.map(|(series, times)| {
        format!("{}: 16 threads reach {} times what 8 do: {UNKNOWN}", series.name, short(*times))
    });
    let printed = "more than 8 threads change little";
    let found = Verdict::new(Figure::Transactions, printed, differences.collect());
    add(all, Figure::Transactions, printed, (!past.is_empty()).then_some(found));
}

/// Says that transactions that begin again are too few to be the reason, where they are.
fn without_restarts(study: &Study<'_>) -> Option<String> {
    let again = study.measured(Figure::Transactions).into_iter().map(|(point, figures)| {
        let cell = point.cell;
        // A snapshot at a fixed rate; a run may be longer, and have more transactions.
        let seconds = cell.checkpoints as f64 * cell.ticks_between as f64 * cell.tick_us as f64 / 1e6;
        (figures.conflicts + figures.restarts) as f64 / (figures.transactions_per_s * seconds)
    });
    let most = again.fold(f64::NAN, f64::max);
    (most < ALIKE - 1.0).then(|| {
        let percent = short(most * 100.0);
        format!("{UNKNOWN}; no more than {percent} % of the transactions began again, too few to be it")
    })
}

/// The statement of table 4.
pub(crate) const MISSES: &str = "cache misses: NS and Fork least, ZZ and PP most";

/// Table 4, where the machine counts.
pub(crate) fn misses(series: Vec<Series>) -> Option<Verdict> {
    order(Figure::Trace, MISSES, published::MISSES_ORDER, &Measured::alone(series))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Algorithm::{Naive, PingPong, Zigzag};

    fn series(values: &[(Algorithm, &[(f64, f64)])]) -> Vec<Series> {
        let one = |(algorithm, points): &(Algorithm, &[(f64, f64)])| {
            Series::invented(*algorithm, points.iter().copied())
        };
        values.iter().map(one).collect()
    }

    fn differences(values: &[(Algorithm, &[(f64, f64)])]) -> Option<Vec<String>> {
        let measured = Measured::alone(series(values));
        order(Figure::Row, "", published::MEAN_ORDER, &measured).map(|verdict| verdict.differences)
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
        // Values that were not measured at the same place are not compared.
        assert_eq!(differences(&[(Naive, &[(1.0, 9.0)]), (PingPong, &[(2.0, 3.0)])]), None);
    }

    #[test]
    fn a_difference_that_repeats_have_too_is_not_one() {
        let values = series(&[
            (Naive, &[(1.0, 3.9), (2.0, 4.1)]),
            (Hourglass, &[(1.0, 2.0), (2.0, 2.0)]),
            (Zigzag, &[(1.0, 3.0), (2.0, 9.0)]),
        ]);
        let noise = Noise::known(&[(Naive, 1.6), (Hourglass, 2.5), (Zigzag, 1.1)]);
        let measured = Measured { noise, ..Measured::alone(values) };
        let verdict = order(Figure::Row, "", published::MEAN_ORDER, &measured).expect("all were measured");
        // NS and HG are distinguished from 2 times on, NS and ZZ from 1.33 times.
        assert_eq!(verdict.differences, [format!("NS is above HG at 2: {UNKNOWN}")]);
        assert_eq!(
            verdict.unclear,
            ["NS is above HG at 1; NS is above ZZ at 1: within the noise of this run: repeats of the \
              default parameters differ by up to 150 %"]
        );
    }

    #[test]
    fn huge_pages_are_told_apart_by_the_noise_too() {
        let mut all = series(&[(Fork, &[(1.0, 14.0), (2.0, 19.0)]), (Fork, &[(1.0, 10.0), (2.0, 10.0)])]);
        all[0].second = true;
        let found = |noise| {
            let measured = Measured { noise, ..Measured::alone(all.clone()) };
            huge_page_order("", &measured, (Fork, true), (Fork, false)).expect("it was measured")
        };
        let clear = found(Noise::default());
        assert_eq!((clear.differences.len(), clear.unclear.len()), (1, 0));
        let noisy = found(Noise::known(&[(Fork, 1.5)]));
        assert_eq!(noisy.differences, [format!("Fork is above Fork at 2 GB: {UNKNOWN}")]);
        assert!(noisy.unclear[0].starts_with("Fork is above Fork at 1 GB: within the noise"), "{noisy:?}");
    }

    #[test]
    fn transactions_that_begin_again_are_a_reason_only_if_there_are_many() {
        use super::super::super::{fixture, plan::Scale};
        let mut results = fixture::results(&[Figure::Transactions], Scale::Default);
        let said = |results: &_| {
            let scales = super::super::super::study::scales(crate::experiment::Wanted::default());
            without_restarts(&Study::newest(results, scales).expect("measured"))
        };
        results.lines[0].figures.conflicts = 2_000;
        // 100,000 transactions a second for 2.4 s, and one restart.
        let expected =
            format!("{UNKNOWN}; no more than 0.83 % of the transactions began again, too few to be it");
        assert_eq!(said(&results), Some(expected));
        results.lines[0].figures.conflicts = 20_000;
        assert_eq!(said(&results), None);
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
