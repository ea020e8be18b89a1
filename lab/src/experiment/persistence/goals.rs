//! The goals of the design for the models and for a start, compared with the measurements.

use super::Results;
use super::cell::{Cell, Figures, Memory, Part};
use crate::process;
use crate::report::{Bound, Goal};

const MEMORY_BY_RAW: f64 = 1.25;
const LOADED_SHORT: f64 = 1.0;
/// Of all cores: the rest of a start is one thread's.
const CORES_BUSY: f64 = 0.75;

/// Judges the results of Tarn; unmeasured goals are left out.
pub fn judge(results: &Results, quick: bool) -> Vec<Goal> {
    let cells = results.of(|cell: &Cell| cell.quick == quick && cell.is_tarn);
    let mut goals = Vec::new();
    let starts = || cells.iter().filter(|(cell, _)| cell.part == Part::Recovery);
    let largest = starts().map(|(cell, _)| cell.records).max();
    for (cell, figures) in starts().filter(|(cell, _)| cell.memory == Memory::Ample) {
        if Some(cell.records) != largest {
            // The memory of a server without any data weighs too much.
            continue;
        }
        if cell.model.logs() && !cell.shortens {
            goals.push(Goal {
                what: format!("resident memory by the raw data: {}", name(cell)),
                figure: figures.resident_bytes as f64 / cell.raw_bytes() as f64,
                unit: "x",
                bound: Bound::AtMost(MEMORY_BY_RAW),
                note: format!("{:.0} MB; values of 1000 B", figures.resident_bytes as f64 / 1e6),
            });
        }
        let cores = process::cores_allowed().len() as f64;
        goals.push(Goal {
            what: format!("share of the cores that a start uses: {}", name(cell)),
            figure: figures.cores_busy / cores,
            unit: "x",
            bound: Bound::AtLeast(CORES_BUSY),
            note: format!("{:.2} of {cores:.0} cores busy; page cache warm", figures.cores_busy),
        });
    }
    let short = cells.iter().filter(|(cell, _)| cell.part == Part::Load && cell.memory == Memory::Short);
    short.for_each(|(cell, figures)| goals.push(short_of_memory(cell, figures)));
    goals
}

fn name(cell: &Cell) -> String {
    let text = cell.to_string();
    text.split_once(": ").map(|(_, rest)| rest.to_owned()).unwrap_or(text)
}

fn short_of_memory(cell: &Cell, figures: &Figures) -> Goal {
    let reason = if cell.model.logs() {
        "; values that are not in memory are to be read from the log"
    } else {
        "; without a log no value can be left out of memory"
    };
    Goal {
        what: format!("records loaded where memory is short: {}", name(cell)),
        figure: figures.loaded as f64 / cell.records as f64,
        unit: "x",
        bound: Bound::AtLeast(LOADED_SHORT),
        note: format!("{}{reason}", figures.ended.as_deref().unwrap_or("it went on")),
    }
}
