//! A server on trial, as its model says.

use std::time::Duration;

use super::cell::{Cell, Model, Part};
use crate::checkpoint::{Ask, Trial, log_file_bytes};
use crate::error::Result;
use crate::process;
use crate::setting::Setting;
use crate::shortage::{Means, ShortMemory};

/// The rule by which the study takes a checkpoint: after 60 s with 1000 changes …
const SAVE_S: u64 = 60;
const SAVE_CHANGES: u64 = 1000;
/// … while this many records are loaded; the time shrinks in proportion to fewer records.
const SAVE_RECORDS: u64 = 4_000_000;
/// A start where memory is short may take this time, as in the thesis on validity tracking.
const PATIENCE: Duration = Duration::from_secs(600);
/// The study's smallest store, in records.
const RECORDS_LEAST: u64 = 1_000_000;

/// The rule of the model `snapshot`, in proportion to the study's.
pub(super) fn save_rule(records: u64) -> String {
    format!("{} {SAVE_CHANGES}", (SAVE_S * records / SAVE_RECORDS).clamp(1, SAVE_S))
}

/// The directives that make a model, each with its value, but for `appendonly` and `appendfsync`.
pub(super) fn directives(cell: &Cell) -> Vec<(&'static str, String)> {
    let mut own = Vec::new();
    if !cell.model.logs() {
        return own;
    }
    let bytes = log_file_bytes(cell.records, RECORDS_LEAST).to_string();
    if cell.is_tarn {
        let how = if cell.shortens { "vtc" } else { "none" };
        own.push(("log-compaction", how.to_owned()));
        own.push(("log-file-size", bytes.clone()));
        own.push(("log-compaction-min-size", bytes));
    } else {
        let percent = if cell.shortens && cell.part == Part::Load { "100" } else { "0" };
        own.push(("auto-aof-rewrite-percentage", percent.to_owned()));
        own.push(("auto-aof-rewrite-min-size", bytes));
    }
    own
}

/// Starts a server as its model says; in the part `load` under its limit of memory from the beginning.
pub(super) fn start(setting: &Setting, cell: &Cell, limit: Option<ShortMemory>) -> Result<Trial> {
    let (mut plan, dir) = setting.plan_for(cell.product(), cell.peer, cell.model.persistence())?;
    plan.directives = directives(cell);
    // The directives say themselves how the log is made shorter.
    plan.compacts = true;
    match cell.part {
        Part::Load => setting.keep_off_the_generator(&mut plan),
        Part::Recovery | Part::Compression => plan.threads = process::cores_allowed().len(),
    }
    match cell.compression().filter(|_| cell.compresses) {
        Some((name, value)) => plan.directives.push((name, value.to_owned())),
        None if cell.is_tarn => {}
        None => plan.directives.push(("rdbcompression", "no".to_owned())),
    }
    if let Some(limit) = cell.limit().filter(|limit| limit.by == Means::Maxmemory) {
        plan.directives.push(("maxmemory", limit.limit_bytes(cell.raw_bytes()).to_string()));
    }
    let ask = if cell.model.logs() { Ask::Rewrite } else { Ask::Save };
    let mut trial = Trial::start(&plan, vec![dir], Some(ask), plan.subject.forks)?;
    match (limit, cell.part) {
        (Some(limit), Part::Load) => trial.restrict(limit)?,
        // It is for the start.
        (limit, _) => trial.limit = limit,
    }
    trial.patience = cell.limit().map(|_| PATIENCE);
    if cell.model == Model::Snapshot && cell.part == Part::Load {
        trial.server.client()?.call(&["CONFIG", "SET", "save", &save_rule(cell.records)])?;
    }
    Ok(trial)
}
