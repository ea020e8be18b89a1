//! The tables of the report: the defaults, the summary, the cache, and the restarts of transactions.

use super::super::cell::{Algorithm, Cell, Distribution, Figures};
use super::super::plan::Figure;
use super::data::{Study, TAKEN_US_SHORT, exponent};
use super::{model, published};
use crate::drawing::{Page, short};
use crate::report::Spread;

/// The text where nothing was measured.
const NONE: &str = "–";

/// True if each checkpoint has all rows by itself, and need not be merged with those before.
pub fn is_full(algorithm: Algorithm) -> bool {
    !matches!(algorithm, Algorithm::PingPong | Algorithm::Hourglass | Algorithm::VirtualHourglass)
}

/// The most memory by the data's.
pub fn memory_ratio(cell: &Cell, figures: &Figures) -> f64 {
    if figures.resident_bytes_max == 0 {
        return f64::NAN;
    }
    figures.resident_bytes_max as f64 / cell.data_bytes() as f64
}

/// The growth of a taken phase, as an order.
pub fn complexity(exponent: Option<f64>) -> String {
    match exponent {
        None => NONE.to_owned(),
        Some(exponent) if exponent < 0.3 => format!("O(1) (n^{exponent:.2})"),
        Some(exponent) if exponent > 0.7 => format!("O(n) (n^{exponent:.2})"),
        Some(exponent) => format!("between (n^{exponent:.2})"),
    }
}

fn heads(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The figures at the study's default parameters, beside the printed ones.
pub fn defaults(study: &Study<'_>, page: &mut Page) {
    let heads = heads(&[
        "algorithm",
        "mean [ms]",
        "printed mean [ms]",
        "mean of a repeat [ms]",
        "quiet mean [ms]",
        "during mean [ms]",
        "p50 [ms]",
        "p99 [ms]",
        "p99.9 [ms]",
        "longest [ms]",
        "longest from intended start [ms]",
        "taken phase [µs]",
        "wait at the trigger [µs]",
        "checkpoint [ms]",
        "memory ÷ data",
    ]);
    let row = |algorithm: Algorithm| {
        let printed = published::of(&published::MEAN_TICK_MS, algorithm).map_or(NONE.to_owned(), short);
        let repeats = study.defaults_of(algorithm);
        let median = |of: &dyn Fn(&Cell, &Figures) -> f64| {
            median(&repeats, of).map_or(NONE.to_owned(), |spread| short(spread.median))
        };
        let worse = |of: fn(&Distribution) -> f64| {
            median(&|_, figures| of(&figures.quiet).max(of(&figures.during)) / 1e3)
        };
        let mean = self::median(&repeats, &|_, figures| figures.mean_us() / 1e3);
        vec![
            algorithm.name().to_owned(),
            median(&|_, figures| figures.mean_us() / 1e3),
            printed,
            mean.map_or(NONE.to_owned(), |mean| format!("{} to {}", short(mean.min), short(mean.max))),
            median(&|_, figures| figures.quiet.mean / 1e3),
            median(&|_, figures| figures.during.mean / 1e3),
            worse(|times| times.p50),
            worse(|times| times.p99),
            worse(|times| times.p999),
            worse(|times| times.max),
            median(&|_, figures| figures.from_intended.max / 1e3),
            median(&|_, figures| figures.taken_us_max()),
            median(&|_, figures| longest_wait(figures)),
            median(&|_, figures| figures.overhead_ms()),
            median(&memory_ratio),
        ]
    };
    page.table("defaults", &heads, &Algorithm::PHYSICAL.map(row));
}

/// The median of repeats, and how far they lie apart; `None` if there is no number.
fn median(repeats: &[(Cell, &Figures)], of: &dyn Fn(&Cell, &Figures) -> f64) -> Option<Spread> {
    let values: Vec<f64> =
        repeats.iter().map(|(cell, figures)| of(cell, figures)).filter(|value| value.is_finite()).collect();
    (!values.is_empty()).then(|| Spread::of(values))
}

/// The longest that the client waited for a cut.
pub fn longest_wait(figures: &Figures) -> f64 {
    figures.waits_us.iter().copied().fold(f64::NAN, f64::max)
}

/// Table 2: each cell has our value, and in brackets the printed one.
pub fn summary(study: &Study<'_>, page: &mut Page) {
    let taken = study.series(Figure::Dataset, |_, figures| figures.taken_us_median().max(TAKEN_US_SHORT));
    let flood = study.series(Figure::Flood, |_, figures| figures.updates_per_s / 1e6);
    let units = ["ms", "µs", "", "million updates/s", "", "÷ data"];
    let mut heads = heads(&["algorithm"]);
    for (head, unit) in published::TABLE_2_HEADS.iter().zip(units) {
        heads.push(if unit.is_empty() { (*head).to_owned() } else { format!("{head} [{unit}]") });
        heads.push("printed".to_owned());
    }
    let rows = published::TABLE_2.map(|(algorithm, printed)| {
        let repeats = study.defaults_of(algorithm);
        let at_defaults = |of: &dyn Fn(&Cell, &Figures) -> f64| {
            median(&repeats, of).map_or(NONE.to_owned(), |spread| short(spread.median))
        };
        let own = taken.iter().find(|series| series.algorithm == algorithm);
        let most = flood.iter().find(|series| series.algorithm == algorithm);
        let measured = [
            at_defaults(&|_, figures| figures.mean_us() / 1e3),
            at_defaults(&|_, figures| longest_wait(figures)),
            complexity(own.and_then(|series| exponent(&series.points))),
            most.and_then(|series| series.points.first()).map_or(NONE.to_owned(), |point| short(point.1)),
            if is_full(algorithm) { "yes" } else { "no" }.to_owned(),
            at_defaults(&memory_ratio),
        ];
        let mut row = vec![algorithm.name().to_owned()];
        for (measured, printed) in measured.into_iter().zip(printed) {
            row.extend([measured, printed.to_owned()]);
        }
        row
    });
    page.table("table-2", &heads, &rows);
}

/// Table 4, with the model of cache lines.
pub fn cache(study: &Study<'_>, page: &mut Page) {
    let heads = heads(&[
        "algorithm",
        "misses an update",
        "printed misses [millions]",
        "model: lines of a first update",
        "of a later one",
        "awaited in a first one",
        "which",
    ]);
    let rows = Algorithm::PHYSICAL.map(|algorithm| {
        let found = study.defaults_of(algorithm).into_iter().next();
        let misses = found.as_ref().and_then(|(_, figures)| Some((figures.cache_misses?, figures.updates)));
        let measured = match (&found, misses) {
            (None, _) => NONE.to_owned(),
            (_, Some((misses, updates))) => short(misses as f64 / updates as f64),
            (_, None) => "not available here".to_owned(),
        };
        let row_bytes = found.as_ref().map_or(64, |(cell, _)| cell.row_bytes);
        let printed =
            published::of(&published::CACHE_MISSES_MILLIONS, algorithm).map_or(NONE.to_owned(), short);
        let mut row = vec![algorithm.name().to_owned(), measured, printed];
        match model::lines(algorithm, row_bytes) {
            Some(lines) => {
                row.extend([lines.first, lines.later, lines.awaited].map(|count| count.to_string()));
                row.push(lines.what.to_owned());
            }
            None => row.resize(heads.len(), NONE.to_owned()),
        }
        row
    });
    page.table("table-4", &heads, &rows);
}

/// The figures of transactions that figure 12 does not draw.
pub fn transactions(study: &Study<'_>, page: &mut Page) {
    let heads = heads(&["algorithm", "threads", "transactions/s", "conflicts", "restarts"]);
    let rows: Vec<Vec<String>> = study
        .measured(Figure::Transactions)
        .into_iter()
        .map(|(point, figures)| {
            vec![
                point.cell.algorithm.name().to_owned(),
                short(point.x),
                short(figures.transactions_per_s),
                figures.conflicts.to_string(),
                figures.restarts.to_string(),
            ]
        })
        .collect();
    page.table("transactions", &heads, &rows);
}

/// A table of two figures that the study does not have: reads, or updates of fields.
pub fn beside(study: &Study<'_>, figure: Figure, page: &mut Page) {
    let reads = figure == Figure::Reads;
    let heads =
        heads(&["algorithm", "quiet mean [ms]", "during mean [ms]", "longest [ms]", "÷ NS's quiet mean"]);
    let of = |figures: &Figures| {
        if reads { (figures.reads_quiet, figures.reads_during) } else { (figures.quiet, figures.during) }
    };
    let measured = study.measured(figure);
    let naive = measured.iter().find(|(point, _)| point.cell.algorithm == Algorithm::Naive);
    let base = naive.map_or(f64::NAN, |(_, figures)| of(figures).0.mean);
    let rows: Vec<Vec<String>> = measured
        .iter()
        .map(|(point, figures)| {
            let (quiet, during) = of(figures);
            vec![
                point.cell.algorithm.name().to_owned(),
                short(quiet.mean / 1e3),
                short(during.mean / 1e3),
                short(quiet.max.max(during.max) / 1e3),
                short(quiet.mean / base),
            ]
        })
        .collect();
    page.table(if reads { "reads" } else { "fields" }, &heads, &rows);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_has_a_name() {
        assert_eq!(complexity(None), "–");
        assert_eq!(complexity(Some(0.04)), "O(1) (n^0.04)");
        assert_eq!(complexity(Some(0.98)), "O(n) (n^0.98)");
        assert_eq!(complexity(Some(0.5)), "between (n^0.50)");
    }

    #[test]
    fn the_summary_says_of_each_whether_it_is_full_as_the_algorithm_does() {
        use tarn_study::{Algorithm as _, CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Zigzag};
        let full = [
            Naive::FULL,
            CopyOnUpdate::FULL,
            Fork::FULL,
            Zigzag::FULL,
            PingPong::FULL,
            Hourglass::FULL,
            Piggyback::FULL,
        ];
        assert_eq!(Algorithm::PHYSICAL.map(is_full), full);
        assert_eq!(published::TABLE_2.map(|(_, words)| words[4] == "yes"), full);
    }
}
