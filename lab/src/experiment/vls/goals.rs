//! The goals of the design for consistent queries, compared with the measurements.

use super::Results;
use super::cell::{Cell, FULL, Figures, Measured, Part, Variant};
use super::references;
use crate::report::{Bound, Goal, thousands};

const FULL_BY_LIVE: f64 = 1.03;
const INDEX_BY_LIVE: f64 = 1.05;
const FULL_BY_INDEX: f64 = 8.0;
/// The share of the records for which that is said, in percent.
const SHARE: u32 = 5;
const UPDATES_BY_LIVE: f64 = 0.95;
const P95_BY_LIVE: f64 = 1.1;
const P999_BY_LIVE: f64 = 1.3;
/// Of as many as there are queries.
const SHARED: f64 = 0.95;
const OPENING_US: f64 = 100.0;
const BY_CLIENT: f64 = 20.0;

/// Judges the results; unmeasured goals are left out.
pub fn judge(results: &Results, quick: bool) -> Vec<Goal> {
    let mut goals = Vec::new();
    for (cell, figures) in results.of(|cell| cell.quick == quick) {
        match cell.part {
            Part::Alone => alone(results, cell, figures, &mut goals),
            Part::Updates => updates(cell, figures, &mut goals),
            Part::Latency => latency(cell, figures, &mut goals),
            Part::Remset => remset(cell, figures, &mut goals),
            Part::Opening => opening(cell, figures, &mut goals),
            Part::References => by_client(cell, figures, &mut goals),
            Part::Masks => {}
        }
    }
    goals.retain(|goal| goal.figure.is_finite());
    goals
}

/// Cells with a fault: versions that outlived their last reader, or a view that did not see a write
/// acknowledged before it was opened.
pub fn broken(results: &Results, quick: bool) -> usize {
    let is_broken = |figures: &Figures| {
        let turns = figures.variants.iter().flat_map(|own| &own.turns);
        let left: u64 = turns.map(|turn| turn.versions_left).sum();
        left + figures.remset.left + figures.opening.stale > 0
    };
    results.of(|cell| cell.quick == quick).into_iter().filter(|(_, figures)| is_broken(figures)).count()
}

fn name(cell: &Cell) -> String {
    cell.to_string()
}

/// The query time of one variant by that of another.
pub fn query_by(figures: &Figures, one: Variant, other: Variant) -> f64 {
    figures.by(other, one, |turn| turn.rows_per_s)
}

fn alone(results: &Results, cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let ms = |variant| figures.of(variant, |turn| turn.query_ms(cell));
    let bound = if cell.is_full() { FULL_BY_LIVE } else { INDEX_BY_LIVE };
    goals.push(Goal {
        what: format!("query time, view / live: {}", name(cell)),
        figure: query_by(figures, Variant::Vls, Variant::Live),
        unit: "x",
        bound: Bound::AtMost(bound),
        note: format!("{:.2} ms and {:.2} ms", ms(Variant::Vls), ms(Variant::Live)),
    });
    let full = results.find(&Cell { share_percent: FULL, ..*cell });
    if let Some(full) = full.filter(|_| cell.share_percent == SHARE) {
        let full = full.of(Variant::Vls, |turn| 1e3 * cell.records as f64 / turn.rows_per_s);
        goals.push(Goal {
            what: format!("full scan / scan by index, in the engine: {}", name(cell)),
            figure: full / ms(Variant::Vls),
            unit: "x",
            bound: Bound::AtLeast(FULL_BY_INDEX),
            note: format!("{full:.2} ms and {:.2} ms", ms(Variant::Vls)),
        });
    }
}

fn updates(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let rate = |variant| thousands(figures.of(variant, |turn| turn.updates_per_s));
    goals.push(Goal {
        what: format!("updates/s, view / live: {}", name(cell)),
        figure: figures.by(Variant::Vls, Variant::Live, |turn| turn.updates_per_s),
        unit: "x",
        bound: Bound::AtLeast(UPDATES_BY_LIVE),
        note: format!("{} and {}{}", rate(Variant::Vls), rate(Variant::Live), without(figures, rate)),
    });
}

/// The figure without a query, where that was measured.
fn without(figures: &Figures, figure: impl Fn(Variant) -> String) -> String {
    let is_measured = figures.variants.iter().any(|own| own.variant == Variant::None);
    if is_measured { format!("; without a query {}", figure(Variant::None)) } else { String::new() }
}

fn latency(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let mut add = |what: &str, bound: f64, of: &dyn Fn(&Measured) -> f64| {
        let us = |variant| format!("{:.2} µs", figures.of(variant, of));
        goals.push(Goal {
            what: format!("{what} of an update, view / live: {}", name(cell)),
            figure: figures.by(Variant::Vls, Variant::Live, of),
            unit: "x",
            bound: Bound::AtMost(bound),
            note: format!("{} and {}{}", us(Variant::Vls), us(Variant::Live), without(figures, us)),
        });
    };
    add("p95", P95_BY_LIVE, &|turn| turn.latency_p95);
    add("p99.9", P999_BY_LIVE, &|turn| turn.latency.p999);
}

fn remset(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let (shared, apart) = figures.remset.most();
    if cell.queries > 1 {
        goals.push(Goal {
            what: format!("versions apart / shared / queries: {}", name(cell)),
            figure: apart as f64 / shared as f64 / cell.queries as f64,
            unit: "x",
            bound: Bound::AtLeast(SHARED),
            note: format!("{} and {} at most", thousands(apart as f64), thousands(shared as f64)),
        });
    }
    goals.push(Goal {
        what: format!("versions left when the last query has ended: {}", name(cell)),
        figure: figures.remset.left as f64,
        unit: "",
        bound: Bound::AtMost(0.0),
        note: format!("{} at most", thousands(shared as f64)),
    });
}

fn opening(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let opening = &figures.opening;
    for (what, took) in [("a view", opening.plain), ("a view that reads indexes", opening.indexed)] {
        goals.push(Goal {
            what: format!("opening of {what}, 99 of 100: {}", name(cell)),
            figure: took.p99,
            unit: " µs",
            bound: Bound::AtMost(OPENING_US),
            note: format!("median {:.1} µs, longest {:.0} µs, beside a writer", took.p50, took.max),
        });
    }
    goals.push(Goal {
        what: format!("views that missed an acknowledged write: {}", name(cell)),
        figure: opening.stale as f64,
        unit: "",
        bound: Bound::AtMost(0.0),
        note: format!("of {}", thousands(opening.asked as f64)),
    });
}

fn by_client(cell: &Cell, figures: &Figures, goals: &mut Vec<Goal>) {
    let time = |what: &str| {
        let found = figures.references.iter().find(|own| own.what == what && own.query == references::SUM);
        found.map(super::cell::Reference::median_s)
    };
    let (Some(ours), Some(theirs)) = (time(references::TARN), time(references::REDIS)) else { return };
    goals.push(Goal {
        what: format!("sum of a field, redis-server by SCAN + HGETALL / SQL: {}", name(cell)),
        figure: theirs / ours,
        unit: "x",
        bound: Bound::AtLeast(BY_CLIENT),
        note: format!("{theirs:.3} s and {ours:.3} s, each through one client"),
    });
}
