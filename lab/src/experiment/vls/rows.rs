//! The measurements as rows: one for each variant, view or store of a cell.

use serde_json::{Value, json};

use super::cell::{Cell, FULL, Figures, Part, Variant};
use super::references::{REDIS, TARN};
use crate::experiment::row;
use crate::page::Row;

/// The rows of a cell.
pub(super) fn of(cell: &Cell, figures: &Figures) -> Vec<Row> {
    let base = Figures { variants: Vec::new(), references: Vec::new(), ..figures.clone() };
    let with = |more: &[(&str, Value)]| {
        let mut row = row(cell, &base);
        let scan = match cell.share_percent {
            FULL => "full scans".to_owned(),
            share => format!("{share} % by index"),
        };
        row.insert("scan".to_owned(), scan.into());
        row.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        row
    };
    match cell.part {
        Part::Remset => {
            let of = |of: fn(&super::cell::Moment) -> f64| {
                json!(figures.remset.moments.iter().map(of).collect::<Vec<_>>())
            };
            vec![with(&[
                ("at_ms", of(|at| at.ms)),
                ("shared", of(|at| at.shared as f64)),
                ("apart", of(|at| at.apart as f64)),
            ])]
        }
        Part::Opening => {
            [("a view", figures.opening.plain), ("a view that reads indexes", figures.opening.indexed)]
                .map(|(view, took)| with(&[("view", view.into()), ("took", json!(took))]))
                .into()
        }
        Part::References => {
            let row = |own: &super::cell::Reference| {
                let key = match &*own.what {
                    TARN => "sql",
                    REDIS => "scan",
                    other => other,
                };
                let seconds = json!(own.seconds);
                with(&[
                    ("key", key.into()),
                    ("what", own.what.clone().into()),
                    ("query", own.query.clone().into()),
                    ("seconds", seconds),
                ])
            };
            figures.references.iter().map(row).collect()
        }
        _ => {
            let row = |own: &super::cell::Turns| {
                let reads = own.variant != Variant::None;
                let ms: Vec<f64> =
                    own.turns.iter().filter(|_| reads).map(|turn| turn.query_ms(cell)).collect();
                with(&[
                    ("variant", own.variant.name().into()),
                    ("turns", json!(own.turns)),
                    ("query_ms", json!(ms)),
                ])
            };
            figures.variants.iter().map(row).collect()
        }
    }
}
