//! A server on trial, with its records and with its log in three directories.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::Options;
use super::cell::{Cell, Part};
use crate::checkpoint::{Trial, log_file_bytes};
use crate::error::{IoContext, Result};
use crate::interrupt;
use crate::load::Mix;
use crate::server::{Persistence, Product};
use crate::setting::{Setting, fill_silently};
use crate::ycsb;

/// Directories of the log.
const LOG_DIRS: usize = 3;
/// Records of the thesis's smallest store.
const RECORDS_LEAST: u64 = 2_000_000;
/// The thesis looks no longer at a checkpoint where memory is short.
const PATIENCE: Duration = Duration::from_secs(600);
/// A log shorter than this, which none is, is not compacted unless asked.
const NEVER: &str = "1099511627776";

/// The size of a log file of a store.
pub(super) fn file_bytes(records: u64) -> u64 {
    log_file_bytes(records, RECORDS_LEAST)
}

/// Starts a server, with its log in directories of its own, and puts it under its limit of memory.
pub(super) fn start(setting: &Setting, own: &Options, cell: &Cell) -> Result<Trial> {
    let traits = cell.variant.traits();
    let (mut plan, dir) = setting.plan_for(traits.product, cell.peer, traits.persistence)?;
    let mut dirs = vec![dir];
    plan.directives = traits.directives.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    if traits.product == Product::Tarn && traits.persistence != Persistence::None {
        dirs.extend(own_dirs(dirs[0].path(), own)?);
        plan.log_dirs = dirs[1..].iter().map(|dir| dir.path().to_owned()).collect();
        let bytes = file_bytes(cell.records).to_string();
        // Where checkpoints are measured, none is made unasked.
        let is_asked = matches!(cell.part, Part::Checkpoints | Part::Short | Part::Alone | Part::Latency);
        let least = if is_asked { NEVER.to_owned() } else { bytes.clone() };
        plan.directives.extend([("log-file-size", bytes), ("log-compaction-min-size", least)]);
        plan.directives.push(("log-compaction", traits.compaction.to_owned()));
    }
    if traits.product == Product::RedisServer && cell.part == Part::Writes {
        let least = file_bytes(cell.records).to_string();
        plan.directives.push(("auto-aof-rewrite-percentage", "100".to_owned()));
        plan.directives.push(("auto-aof-rewrite-min-size", least));
    }
    setting.keep_off_the_generator(&mut plan);
    // The laboratory says itself how the log is compacted.
    plan.compacts = true;
    let mut trial =
        Trial::start(&plan, dirs, traits.ask, traits.forks && (cell.peer.is_none() || plan.subject.forks))?;
    if let Some(shortage) = cell.shortage {
        let limit = shortage.make(cell.value_bytes(), &setting.dir)?;
        limit.map_or(Ok(()), |limit| trial.restrict(limit))?;
        trial.patience = Some(if own.full { PATIENCE } else { setting.time(0.3, 2.0) * 30 });
    }
    Ok(trial)
}

/// Inserts the records.
pub(super) fn fill(setting: &Setting, trial: &Trial, cell: &Cell) -> Result<()> {
    fill_silently(&trial.server, cell.records, Mix::in_order(ycsb::insert(), cell.records), setting.seed)
}

/// A directory in each of those that are asked for, or three below that of the data.
fn own_dirs(dir: &Path, own: &Options) -> Result<Vec<TempDir>> {
    let parents = if own.log_dirs.is_empty() { vec![dir.to_owned(); LOG_DIRS] } else { own.log_dirs.clone() };
    let make = |parent: &Path| {
        std::fs::create_dir_all(parent)
            .and_then(|()| interrupt::temporary("tarn-lab-log-", parent))
            .doing(|| format!("make a directory in {}", parent.display()))
    };
    parents.iter().map(|parent| make(parent)).collect()
}
