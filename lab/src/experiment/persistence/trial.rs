//! A server on trial: started as its model says, checked, started again.

use tempfile::TempDir;

use super::cell::{Cell, Model, Part};
use crate::checkpoint::{Ask, Subject, Taken};
use crate::error::Result;
use crate::limit::MemoryLimit;
use crate::process;
use crate::restart;
use crate::server::{Product, Server};
use crate::setting::Setting;
use tarn_resp::client::Client;

/// The rule by which the study takes a checkpoint: after 60 s with 1000 changes …
const SAVE_S: u64 = 60;
const SAVE_CHANGES: u64 = 1000;
/// … while this many records are loaded; the time shrinks in proportion to fewer records.
const SAVE_RECORDS: u64 = 4_000_000;
/// `log-file-size`, `log-compaction-min-size` and `auto-aof-rewrite-min-size` by default, which are for …
const LOG_BYTES: u64 = 64 << 20;
/// … the study's smallest store, in records.
const LOG_RECORDS: u64 = 1_000_000;
/// No smaller than this.
const LOG_BYTES_MIN: u64 = 256 << 10;

/// The rule of the model `snapshot`, in proportion to the study's.
pub(super) fn save_rule(records: u64) -> String {
    format!("{} {SAVE_CHANGES}", (SAVE_S * records / SAVE_RECORDS).clamp(1, SAVE_S))
}

/// The size of a log file, and up to which a log is left alone, in proportion to the defaults.
pub(super) fn log_bytes(records: u64) -> u64 {
    (u128::from(LOG_BYTES) * u128::from(records) / u128::from(LOG_RECORDS))
        .clamp(u128::from(LOG_BYTES_MIN), u128::from(LOG_BYTES)) as u64
}

/// The directives that make a model, each with its value, but for `appendonly` and `appendfsync`.
pub(super) fn directives(cell: &Cell) -> Vec<(&'static str, String)> {
    let mut own = Vec::new();
    if !cell.model.logs() {
        return own;
    }
    let bytes = log_bytes(cell.records).to_string();
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

/// A server.
#[derive(Debug)]
pub(super) struct Trial {
    /// The cell that the server is started for.
    pub cell: Cell,
    /// Its version.
    pub version: String,
    /// The server. Declared before its files and its limit, because it must end before they are removed.
    pub server: Server,
    limit: Option<MemoryLimit>,
    dir: TempDir,
}

impl Trial {
    /// Starts a server as its model says; in the part `load` under its limit of memory from the beginning.
    pub(super) fn start(setting: &Setting, cell: &Cell, limit: Option<MemoryLimit>) -> Result<Trial> {
        let (mut plan, dir) = setting.plan(cell.product(), cell.model.persistence())?;
        plan.directives = directives(cell);
        // The directives say themselves how the log is made shorter.
        plan.compacts = true;
        match cell.part {
            Part::Load => setting.keep_off_the_generator(&mut plan),
            Part::Recovery => plan.threads = process::cores_allowed().len(),
        }
        if cell.product() == Product::RedisServer {
            plan.directives.push(("rdbcompression", "no".to_owned()));
        }
        let server = plan.start()?;
        if let Some(limit) = limit.as_ref().filter(|_| cell.part == Part::Load) {
            limit.admit(server.pid())?;
        }
        if cell.model == Model::Snapshot && cell.part == Part::Load {
            server.client()?.call(&["CONFIG", "SET", "save", &save_rule(cell.records)])?;
        }
        let version = server.version()?;
        Ok(Trial { cell: *cell, version, server, limit, dir })
    }

    /// Bytes of all its files.
    pub(super) fn file_bytes(&self) -> u64 {
        restart::data_files(&[self.dir.path()]).1
    }

    /// Kills it and starts it again under its limit of memory. Passes its process number to `launched`.
    /// Returns the seconds until all keys are there.
    pub(super) fn recover(&mut self, launched: impl FnOnce(u32)) -> Result<f64> {
        let Trial { server, limit, dir, .. } = self;
        restart::after_kill(server, &[dir.path()], |server| {
            if let Some(limit) = limit {
                limit.admit(server.pid())?;
            }
            launched(server.pid());
            Ok(())
        })
    }
}

impl Subject for Trial {
    fn server(&self) -> &Server {
        &self.server
    }

    fn ask(&self) -> Ask {
        if self.cell.model.logs() { Ask::Rewrite } else { Ask::Save }
    }

    fn forks(&self) -> bool {
        !self.cell.is_tarn
    }

    fn tell(&self, _: &mut Client) -> Result<Taken> {
        Ok(Taken { file_bytes: self.file_bytes(), ..Taken::default() })
    }
}
