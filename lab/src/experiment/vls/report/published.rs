//! The numbers that the paper printed, and the measurements that they are compared with.

use super::super::Results;
use super::super::cell::{Cell, FULL, Figures, Measured, Part, Variant};
use super::super::goals::query_by;
use crate::drawing::{Statement, change, factor};
use crate::report::median;

const MEMORY: &str = "ours is in memory, the paper's store reads its records from disk";
const ONE_CORE: &str = "ours has one core for all queries, the paper's machine 64 cores";
const SHARED: &str = "the paper's sizes are hundreds of seconds of scans, ours fractions of one";
const MASKS: &str = "the paper's form in a store of its own, without the rest of a database";

/// The measurements at one scale.
struct Own<'r> {
    results: &'r Results,
    quick: bool,
}

impl Own<'_> {
    fn cells(&self, part: Part, wanted: impl Fn(&Cell) -> bool) -> Vec<(&Cell, &Figures)> {
        let quick = self.quick;
        self.results.of(move |cell| cell.quick == quick && cell.part == part && wanted(cell))
    }

    /// Each ratio of a part in the cells that are wanted: the least and the most of them, as changes.
    fn range(&self, part: Part, wanted: impl Fn(&Cell) -> bool, of: impl Fn(&Figures) -> f64) -> String {
        let ratios: Vec<f64> =
            self.cells(part, wanted).into_iter().map(|(_, figures)| of(figures) - 1.0).collect();
        let ratios: Vec<f64> = ratios.into_iter().filter(|ratio| ratio.is_finite()).collect();
        let (least, most) = (
            ratios.iter().copied().fold(f64::NAN, f64::min),
            ratios.iter().copied().fold(f64::NAN, f64::max),
        );
        if ratios.len() < 2 { change(most) } else { format!("{} … {}", change(least), change(most)) }
    }

    fn apart(&self, queries: usize) -> String {
        let cells = self.cells(Part::Remset, |cell| cell.queries == queries);
        let times = cells.into_iter().map(|(_, figures)| figures.remset.most());
        factor(median(times.map(|(shared, apart)| apart as f64 / shared as f64)))
    }
}

/// All numbers of the paper, beside the measurements.
pub fn statements(results: &Results, quick: bool) -> Vec<Statement> {
    let own = Own { results, quick };
    let mut all = Vec::new();
    let mut add = |figure, what, printed, measured, remark| {
        all.push(Statement { figure, what, printed, measured, remark });
    };
    let full = |cell: &Cell| cell.share_percent == FULL;
    let index = |cell: &Cell| cell.share_percent < FULL;
    let query = |figures: &Figures| query_by(figures, Variant::Vls, Variant::Live);
    let by_live =
        |of: fn(&Measured) -> f64| move |figures: &Figures| figures.by(Variant::Vls, Variant::Live, of);
    let updates = by_live(|turn| turn.updates_per_s);
    let p95 = by_live(|turn| turn.latency_p95);
    add(
        "7a",
        "time of a full scan, without updates",
        "+1 … +5 %",
        own.range(Part::Alone, full, query),
        MEMORY,
    );
    add("7a", "time of a scan by index", "< +10 %", own.range(Part::Alone, index, query), MEMORY);
    add("7b", "time of a query beside updates", "negligible", own.range(Part::Updates, |_| true, query), "");
    let rate = own.range(Part::Updates, full, updates);
    add("8a", "updates a second, full scans", "-2.84 … -16.36 %", rate, ONE_CORE);
    let rate = own.range(Part::Updates, index, updates);
    add("9", "updates a second, scans by index", "-0.70 … -16.28 %", rate, ONE_CORE);
    let latency = own.range(Part::Latency, full, p95);
    add(
        "8b",
        "p95 of an update, full scans",
        "+1.6 … +27 %",
        latency,
        "microseconds here, milliseconds there",
    );
    add("10", "p95 of an update, scans by index", "< +18 %", own.range(Part::Latency, index, p95), "");
    add("11", "versions apart by shared, 8 queries", "7.9x", own.apart(8), SHARED);
    add("11", "versions apart by shared, 16 queries", "15.9x", own.apart(16), SHARED);
    add("11", "versions apart by shared, 64 queries", "about 60x", own.apart(64), SHARED);
    let wide = |figures: &Figures| query_by(figures, Variant::Masks128, Variant::Masks64);
    let beside = |cell: &Cell| cell.queries > 0;
    let idle = |cell: &Cell| cell.queries == 0;
    add("text", "128 bits: time of a query", "+9 %", own.range(Part::Masks, idle, wide), MASKS);
    add("text", "128 bits: the same beside updates", "+6 %", own.range(Part::Masks, beside, wide), MASKS);
    let wide = |figures: &Figures| figures.by(Variant::Masks128, Variant::Masks64, |turn| turn.updates_per_s);
    let closed = |cell: &Cell| cell.queries > 0 && cell.rate == 0;
    add("text", "128 bits: updates a second", "≥ -9 %", own.range(Part::Masks, closed, wide), MASKS);
    let wide = |figures: &Figures| figures.by(Variant::Masks128, Variant::Masks64, |turn| turn.latency_p95);
    let open = |cell: &Cell| cell.rate > 0;
    add("text", "128 bits: p95 of an update", "≤ +30 %", own.range(Part::Masks, open, wide), MASKS);
    all
}
