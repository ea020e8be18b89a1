//! The measurements as rows, and facts about them.

use std::path::Path;

use serde_json::json;

use super::Persistence;
use super::cell::{Cell, Figures, Memory, Model, Part};
use super::trial::{rules, tell};
use crate::experiment::{LineOf, ResultsOf, row, scale_fact};
use crate::page::{Facts, Row, with};
use crate::report::LeftOut;
use crate::server::{Plan, Subject};
use crate::shortage::{self, REFUSED, Shortage};
use crate::ycsb::{Requests, Values};

/// Records of the study's largest store.
const RECORDS_MOST: f64 = 8e6;

/// A row for each cell, by model, memory and server, and one for each model.
pub(super) fn of(results: &ResultsOf<Persistence>, quick: bool) -> Vec<Row> {
    let mut cells = results.of(|cell| cell.quick == quick);
    cells.sort_by_key(|(cell, _)| (cell.model, cell.memory, !cell.is_tarn));
    // Of the machine that measured it.
    let cores = |cell: &Cell| results.line(cell).and_then(|line| line.machine["cores"].as_u64());
    let row = |(cell, figures): &(&Cell, &Figures)| of_cell(cell, figures, cores(cell));
    let mut rows: Vec<Row> = cells.iter().map(row).collect();
    let loads = cells.iter().filter(|(cell, _)| cell.part == Part::Load);
    if let Some(records) = loads.map(|(cell, _)| cell.records).min() {
        rows.extend(models(records, quick));
    }
    rows
}

fn of_cell(cell: &Cell, figures: &Figures, cores: Option<u64>) -> Row {
    let short = cell.memory == Memory::Short;
    let limit = cell.limit();
    let limit_text = limit.map_or("ample memory".to_owned(), |limit| format!("memory {limit}"));
    // A variant without a log has its first file with the snapshot.
    let has_log = figures.file_bytes.is_some_and(|bytes| bytes > 1 << 10);
    let ended = figures.ended.as_deref().unwrap_or("it went on");
    let why = match cell.model.logs() {
        true => "values that are not in memory are to be read from the log",
        false => "without a log no value can be left out of memory",
    };
    let more = json!({
        "server": cell.server(),
        "model_name": cell.model_name(),
        "file_name": cell.file_name(),
        "weight": limit.map_or("light".to_owned(), |limit| format!("heavy, {limit}")),
        "ratio": limit.map(Shortage::ratio),
        "short_by": limit.map(|limit| limit.by.name()),
        "limit": limit_text,
        "compressed": cell.compressed(),
        "incremental_fsync": cell.incremental_fsync,
        "flushed": cell.flushed(),
        "figure": figure_of(cell),
        "whole": if short { "figure 12" } else { "figure 13" },
        "by_core": if short { "figure 14" } else { "figure 15" },
        "raw_bytes": cell.raw_bytes(),
        "file": if has_log { figures.file_bytes } else { figures.last_file_bytes },
        "cores": cores,
        "went_on": format!("{ended}; {why}"),
    });
    with(row(cell, figures), more)
}

/// The study's figure with the trace of a model, as a caption begins; of logs where memory is short it has
/// none.
const fn figure_of(cell: &Cell) -> &'static str {
    match (cell.model, cell.memory) {
        (Model::NoSave, Memory::Ample) => "3: ",
        (Model::NoSave, Memory::Short) => "4: ",
        (Model::Snapshot, Memory::Ample) => "5: ",
        (Model::Snapshot, Memory::Short) => "6: ",
        (Model::LogDeferred, Memory::Ample) => "7: ",
        (Model::LogPeriodical, Memory::Ample) => "8: ",
        (Model::LogImmediate, Memory::Ample) => "9: ",
        (_, Memory::Short) => "",
    }
}

/// Table 1: what each model tells a server: on its command line, and `save` once it runs. Where the part
/// `load` differs from the others, both.
fn models(records: u64, quick: bool) -> Vec<Row> {
    let words = |is_tarn: bool, model: Model, shortens: bool| {
        let of = |part| Cell {
            part,
            is_tarn,
            peer: None,
            model,
            shortens,
            threads: 1,
            records,
            memory: Memory::Ample,
            shortage: None,
            compresses: false,
            incremental_fsync: false,
            values: Values::Random,
            ycsb: Requests::WholeRecords,
            quick,
        };
        let [load, others] = [of(Part::Load), of(Part::Recovery)].map(|cell| told(&cell));
        let word = |(name, value): &(&str, String)| {
            let other = others.iter().find(|own| own.0 == *name).map(|own| &own.1);
            match other.filter(|other| *other != value) {
                Some(other) => format!("{name} {value} (other parts than load: {other})"),
                None => format!("{name} {value}"),
            }
        };
        load.iter().map(word).collect::<Vec<_>>().join("; ")
    };
    let kinds = Model::ALL.into_iter().flat_map(|model| [(model, false), (model, true)]);
    let row = |(model, shortens): (Model, bool)| {
        let what = if shortens { ", made shorter" } else { "" };
        let words = |is_tarn| words(is_tarn, model, shortens);
        let name = format!("{}{what}", model.name());
        with(
            Row::new(),
            json!({ "part": "models", "name": name, "redis": words(false), "tarn": words(true) }),
        )
    };
    kinds.filter(|(model, shortens)| !shortens || model.logs()).map(row).collect()
}

/// The directives by which a cell is measured, with the values that count. The threads are those of the part,
/// and not of the model.
fn told(cell: &Cell) -> Vec<(&'static str, String)> {
    let mut plan = Plan::new(Subject::new(cell.product(), Path::new("")), Path::new(""));
    tell(cell, &mut plan);
    let mut words: Vec<(&str, String)> = Vec::new();
    let told = plan.told().into_iter().filter(|(name, _)| *name != "threads");
    let told = told.map(|(name, values)| (name, values.join(" ")));
    for (name, value) in told.chain(rules(cell).map(|rules| ("save", rules))) {
        let value = if value.is_empty() { "\"\"".to_owned() } else { value };
        match words.iter_mut().find(|own| own.0 == name) {
            Some(own) => own.1 = value,
            None => words.push((name, value)),
        }
    }
    words
}

/// The scale, and how memory was made short.
pub(super) fn facts(results: &ResultsOf<Persistence>, lines: &[&LineOf<Persistence>]) -> Facts {
    let scale = scale_fact(lines.iter().map(|line| line.cell.records), "study's", RECORDS_MOST);
    let swapped = lines.iter().flat_map(|line| &line.figures.usage).any(|usage| usage.swapped > 0);
    let by = shortage::words_of(lines.iter().filter_map(|line| line.cell.limit()));
    let mut texts = Vec::from_iter((!by.is_empty()).then(|| by.join("; ")));
    if !by.is_empty() && !swapped {
        texts.push("nothing was ever swapped out".to_owned());
    }
    let why = |own: &LeftOut<Cell>| {
        own.why.strip_prefix(REFUSED).map(|why| why.trim_start_matches(": ").to_owned())
    };
    let mut refused: Vec<String> = results.left_out.iter().filter_map(why).collect();
    refused.sort();
    refused.dedup();
    texts.extend(refused.iter().map(|why| format!("not possible there: {why}")));
    let memory = if texts.is_empty() { "not measured".to_owned() } else { texts.join("; ") };
    vec![scale, ("short memory", memory)]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn table_1_has_what_servers_are_told() {
        let rows = models(1_000_000, false);
        let of = |name: &str, server: &str| {
            let row = rows.iter().find(|row| row["name"] == name).unwrap();
            row[server].as_str().unwrap().to_owned()
        };
        let words = of("log-periodical, made shorter", "redis");
        for word in [
            "save \"\"; appendonly yes; appendfsync everysec; aof-use-rdb-preamble no",
            "auto-aof-rewrite-percentage 100 (other parts than load: 0)",
            "rdbcompression no",
        ] {
            assert!(words.contains(word), "{words}");
        }
        assert!(of("log-periodical", "redis").contains("auto-aof-rewrite-percentage 0; "));
        let words = of("snapshot", "redis");
        assert!(words.starts_with("save 225 1 75 10 15 1000 (other parts than load: \"\")"), "{words}");
        assert!(words.contains("appendonly no") && words.contains("rdbcompression no"), "{words}");
        let words = of("log-immediate, made shorter", "tarn");
        assert!(words.contains("appendfsync always; log-compaction vtc; log-file-size "), "{words}");
    }
}
