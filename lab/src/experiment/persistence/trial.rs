//! A server on trial, as its model says.

use std::time::Duration;

use super::cell::{Cell, Model, Part};
use crate::checkpoint::{Ask, Trial, log_file_bytes};
use crate::error::Result;
use crate::process;
use crate::server::Plan;
use crate::setting::Setting;
use crate::shortage::{Means, ShortMemory};

/// The rules by which the study takes a checkpoint: after so many seconds with so many changes …
const SAVE: [(u64, u64); 3] = [(900, 1), (300, 10), (60, 1000)];
/// … while this many records are loaded; the time shrinks in proportion to fewer records.
const SAVE_RECORDS: u64 = 4_000_000;
/// A start where memory is short may take this time, as in the thesis on validity tracking.
const PATIENCE: Duration = Duration::from_secs(600);
/// The study's smallest store, in records.
const RECORDS_LEAST: u64 = 1_000_000;

/// The rules of the model `snapshot`, in proportion to the study's.
pub(super) fn save_rules(records: u64) -> String {
    let rule = |(seconds, changes): (u64, u64)| {
        format!("{} {changes}", (seconds * records / SAVE_RECORDS).clamp(1, seconds))
    };
    SAVE.map(rule).join(" ")
}

/// Tells a server how it works that is measured so, but for its place, its cores and its threads.
pub(super) fn tell(cell: &Cell, plan: &mut Plan) {
    plan.persistence = cell.model.persistence();
    plan.directives = logs(cell);
    // The directives say themselves how the log is made shorter.
    plan.compacts = true;
    match cell.compression().filter(|_| cell.compresses) {
        Some((name, value)) => plan.directives.push((name, value.to_owned())),
        None if cell.is_tarn => {}
        None => plan.directives.push(("rdbcompression", "no".to_owned())),
    }
    if cell.part == Part::Fsync {
        let (name, value) = cell.flushes();
        plan.directives.push((name, value.to_owned()));
    }
    if let Some(limit) = cell.limit().filter(|limit| limit.by == Means::Maxmemory) {
        plan.directives.push(("maxmemory", limit.limit_bytes(cell.raw_bytes()).to_string()));
    }
}

/// The rules by which a server takes checkpoints, which it is told once it runs; `None` if by none.
pub(super) fn rules(cell: &Cell) -> Option<String> {
    (cell.model == Model::Snapshot && cell.part == Part::Load).then(|| save_rules(cell.records))
}

/// The directives about the log, each with its value, but for `appendonly` and `appendfsync`.
fn logs(cell: &Cell) -> Vec<(&'static str, String)> {
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
    tell(cell, &mut plan);
    match cell.part {
        Part::Load => setting.keep_off_the_generator(&mut plan),
        _ => plan.threads = process::cores_allowed().len(),
    }
    let ask = if cell.model.logs() { Ask::Rewrite } else { Ask::Save };
    let mut trial = Trial::start(&plan, vec![dir], Some(ask), plan.subject.forks)?;
    match (limit, cell.part) {
        (Some(limit), Part::Load) => trial.restrict(limit)?,
        // It is for the start.
        (limit, _) => trial.limit = limit,
    }
    trial.is_cold = cell.part == Part::Cold;
    trial.patience = cell.limit().map(|_| PATIENCE);
    if let Some(rules) = rules(cell) {
        trial.server.client()?.call(&["CONFIG", "SET", "save", &rules])?;
    }
    Ok(trial)
}
