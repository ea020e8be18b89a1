//! The numbers that the study printed, and the measurements that they are compared with.

use super::super::Results;
use super::super::cell::{Cell, Figures, Memory, Model, Part};
use crate::drawing::{Statement, factor};
use crate::report;

const ENDED: &str = "where there is no swap, a server that needs more than its limit is ended by the kernel";
const LAYOUT: &str = "records are small hashes, which servers of today keep in one piece";

fn median(figures: impl IntoIterator<Item = f64>) -> f64 {
    report::median(figures.into_iter().filter(|figure| figure.is_finite()))
}

/// All numbers of the study, beside the measurements of redis-server and of Tarn.
pub fn statements(results: &Results, quick: bool) -> Vec<Statement> {
    let starts = |is_tarn: bool, model: Model, shortens: bool| {
        results.of(move |cell: &Cell| {
            let is_own = cell.quick == quick && cell.part == Part::Recovery && cell.is_tarn == is_tarn;
            is_own && cell.memory == Memory::Ample && cell.model == model && cell.shortens == shortens
        })
    };
    let both =
        |of: &dyn Fn(bool) -> f64| format!("redis-server {}, tarn {}", factor(of(false)), factor(of(true)));
    // The factor by which a start is longer where memory is short, or that it never ended.
    let slower = |model: Model, shortens: bool| {
        let of = |is_tarn| {
            let cells = starts(is_tarn, model, shortens);
            let short = |cell: &Cell| results.find(&Cell { memory: Memory::Short, ..*cell });
            let ratio =
                |(cell, figures): &(&Cell, &Figures)| Some(short(cell)?.started_s? / figures.started_s?);
            let ratio = median(cells.iter().filter_map(ratio));
            let has_ended = cells.iter().filter_map(|(cell, _)| short(cell)).any(|own| own.ended.is_some());
            if ratio.is_nan() && has_ended { "ended".to_owned() } else { factor(ratio) }
        };
        format!("redis-server {}, tarn {}", of(false), of(true))
    };
    let by_raw = |model: Model, of: &dyn Fn(&Figures) -> u64| {
        both(&|is_tarn| {
            let ratio = |(cell, figures): (&Cell, &Figures)| of(figures) as f64 / cell.raw_bytes() as f64;
            median(starts(is_tarn, model, false).into_iter().map(ratio))
        })
    };
    let statement =
        |figure, what, printed, measured, remark| Statement { figure, what, printed, measured, remark };
    use Model::{LogPeriodical, Snapshot};
    vec![
        statement(
            "10",
            "start with short memory by ample: snapshot",
            "1.82x",
            slower(Snapshot, false),
            ENDED,
        ),
        statement("10", "the same: rewritten log", "2.09x", slower(LogPeriodical, true), ENDED),
        statement("10", "the same: log not rewritten", "2.15x", slower(LogPeriodical, false), ENDED),
        statement(
            "11a",
            "used memory by raw data",
            "2.2x",
            by_raw(LogPeriodical, &|own| own.used_bytes),
            LAYOUT,
        ),
        statement(
            "11b",
            "snapshot file by raw data",
            "1.1x",
            by_raw(Snapshot, &|own| own.last_file_bytes),
            "not compressed",
        ),
        statement(
            "11b",
            "log by raw data, after inserts",
            "1.2x",
            by_raw(LogPeriodical, &|own| own.file_bytes),
            "each field has a record of its own in Tarn's",
        ),
    ]
}
