//! A server on trial: started with its log in three directories, filled, checked, started again.

use std::path::Path;

use tempfile::TempDir;

use super::Options;
use super::cell::{Cell, Part, Variant};
use crate::checkpoint::{Ask, Subject, Taken};
use crate::error::{IoContext, Result};
use crate::load::{KeyChoice, Keys, Mix};
use crate::restart;
use crate::server::{Persistence, Product, Server};
use crate::setting::{Setting, fill_silently};
use crate::ycsb;
use tarn_resp::client::{self, Client};

/// Directories of the log.
const LOG_DIRS: usize = 3;
/// `log-file-size` and `log-compaction-min-size` by default, which are for …
const LOG_FILE_BYTES: u64 = 64 << 20;
/// … the thesis's smallest store.
const RECORDS: u64 = 2_000_000;
/// No smaller files than this.
const LOG_FILE_BYTES_MIN: u64 = 256 << 10;
/// A log shorter than this, which none is, is not compacted unless asked.
const NEVER: &str = "1099511627776";

/// The size of a log file, and the length up to which the log is left alone: the defaults, smaller in
/// proportion for a store that is smaller than the thesis's smallest.
pub(super) fn log_file_bytes(records: u64) -> u64 {
    let bytes = (u128::from(LOG_FILE_BYTES) * u128::from(records) / u128::from(RECORDS)) as u64;
    bytes.clamp(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES)
}

/// A server with its records.
#[derive(Debug)]
pub(super) struct Trial {
    /// The variant.
    pub variant: Variant,
    /// Its version.
    pub version: String,
    /// The server. Declared before the directories, because it must end before its files are removed.
    pub server: Server,
    dir: TempDir,
    log_dirs: Vec<TempDir>,
}

impl Trial {
    /// Starts a server and fills it.
    pub(super) fn start(setting: &Setting, own: &Options, cell: &Cell) -> Result<Trial> {
        let traits = cell.variant.traits();
        let (mut plan, dir) = setting.plan(traits.product, traits.persistence)?;
        let mut log_dirs = Vec::new();
        plan.directives =
            traits.directives.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        if traits.product == Product::Tarn && traits.persistence != Persistence::None {
            log_dirs = own_dirs(dir.path(), own)?;
            plan.log_dirs = log_dirs.iter().map(|dir| dir.path().to_owned()).collect();
            let bytes = log_file_bytes(cell.records).to_string();
            // Where checkpoints are measured, none is made unasked.
            let is_asked = matches!(cell.part, Part::Checkpoints | Part::Alone | Part::Latency);
            let least = if is_asked { NEVER.to_owned() } else { bytes.clone() };
            plan.directives.extend([("log-file-size", bytes), ("log-compaction-min-size", least)]);
            plan.directives.push(("log-compaction", traits.compaction.to_owned()));
        }
        if traits.product == Product::RedisServer && cell.part == Part::Writes {
            let least = log_file_bytes(cell.records).to_string();
            plan.directives.push(("auto-aof-rewrite-percentage", "100".to_owned()));
            plan.directives.push(("auto-aof-rewrite-min-size", least));
        }
        setting.keep_off_the_generator(&mut plan);
        // The laboratory says itself how the log is compacted.
        plan.compacts = true;
        let server = plan.start()?;
        let version = server.version()?;
        let trial = Trial { variant: cell.variant, version, server, dir, log_dirs };
        trial.fill(cell, KeyChoice::Sequential, setting.seed)?;
        Ok(trial)
    }

    /// Writes as many whole records as there are.
    pub(super) fn fill(&self, cell: &Cell, choice: KeyChoice, seed: u64) -> Result<()> {
        let mix = Mix::of(ycsb::insert(), Keys::new(choice, cell.records));
        fill_silently(&self.server, cell.records, mix, seed)
    }

    fn dirs(&self) -> Vec<&Path> {
        let log_dirs = self.log_dirs.iter().map(TempDir::path);
        std::iter::once(self.dir.path()).chain(log_dirs).collect()
    }

    /// Bytes of all its files.
    pub(super) fn file_bytes(&self) -> u64 {
        restart::data_files(&self.dirs()).1
    }

    /// Kills it and starts it again from its files. Returns the seconds until all keys are there.
    pub(super) fn recover(&mut self) -> Result<f64> {
        let dirs: Vec<_> = self.dirs().into_iter().map(Path::to_owned).collect();
        let dirs: Vec<_> = dirs.iter().map(|dir| &**dir).collect();
        restart::after_kill(&mut self.server, &dirs, |_| Ok(()))
    }

    /// Numbers of a section of `INFO`; 0 for those that are missing.
    pub(super) fn numbers<const N: usize>(
        client: &mut Client,
        section: &str,
        names: [&str; N],
    ) -> Result<[u64; N]> {
        let info = client::text(&client.call(&["INFO", section])?)?;
        let number = |name: &str| {
            let rest = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            rest.trim().parse().ok()
        };
        Ok(names.map(|name| number(name).unwrap_or(0)))
    }
}

/// A directory in each of those that are asked for, or three below that of the data.
fn own_dirs(dir: &Path, own: &Options) -> Result<Vec<TempDir>> {
    let parents = if own.log_dirs.is_empty() { vec![dir.to_owned(); LOG_DIRS] } else { own.log_dirs.clone() };
    let make = |parent: &Path| {
        std::fs::create_dir_all(parent)
            .and_then(|()| tempfile::Builder::new().prefix("tarn-lab-log-").tempdir_in(parent))
            .doing(|| format!("make a directory in {}", parent.display()))
    };
    parents.iter().map(|parent| make(parent)).collect()
}

impl Subject for Trial {
    fn server(&self) -> &Server {
        &self.server
    }

    fn ask(&self) -> Ask {
        self.variant.traits().ask.expect("only who has checkpoints is asked for them")
    }

    fn forks(&self) -> bool {
        self.variant.traits().forks
    }

    fn tell(&self, _: &mut Client) -> Result<Taken> {
        Ok(Taken { file_bytes: self.file_bytes(), ..Taken::default() })
    }
}
