//! The measurements as rows: one for each variant, view or store of a cell.

use serde_json::{Value, json};

use super::cell::{Cell, FULL, Figures, Part, Variant};
use super::references::{REDIS, TARN};
use crate::experiment::row;
use crate::page::{Row, with};

/// The rows of a cell.
pub(super) fn of(cell: &Cell, figures: &Figures) -> Vec<Row> {
    let (variants, separate, references) = Default::default();
    let base = Figures { variants, separate, references, ..figures.clone() };
    let scan = match cell.share_percent {
        FULL => "full scans".to_owned(),
        share => format!("{share} % by index"),
    };
    let with = |more: Value| with(with(row(cell, &base), json!({ "scan": scan })), more);
    match cell.part {
        Part::Remset => {
            let of = |of: fn(&super::cell::Moment) -> f64| {
                json!(figures.remset.moments.iter().map(of).collect::<Vec<_>>())
            };
            vec![with(json!({
                "at_ms": of(|at| at.ms), "shared": of(|at| at.shared as f64),
                "apart": of(|at| at.apart as f64),
            }))]
        }
        Part::Separate => {
            let row =
                |own: &super::cell::Separate| with(json!({ "variant": own.variant.name(), "kept": own }));
            figures.separate.iter().map(row).collect()
        }
        Part::Opening => {
            [("a view", figures.opening.plain), ("a view that reads indexes", figures.opening.indexed)]
                .map(|(view, took)| with(json!({ "view": view, "took": took })))
                .into()
        }
        Part::References => {
            let row = |own: &super::cell::Reference| {
                let key = match &*own.what {
                    TARN => "sql",
                    REDIS => "scan",
                    other => other,
                };
                let super::cell::Reference { what, query, seconds } = own;
                with(json!({ "key": key, "what": what, "query": query, "seconds": seconds }))
            };
            figures.references.iter().map(row).collect()
        }
        _ => {
            let row = |own: &super::cell::Turns| {
                let reads = !matches!(own.variant, Variant::None | Variant::ServedNone);
                let ms: Vec<f64> =
                    own.turns.iter().filter(|_| reads).map(|turn| turn.query_ms(cell)).collect();
                with(json!({ "variant": own.variant.name(), "turns": own.turns, "query_ms": ms }))
            };
            figures.variants.iter().map(row).collect()
        }
    }
}
