//! A server on trial: started, asked for checkpoints, killed and started again from its files.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::device;
use crate::error::{LabError, Result};
use crate::interrupt::{self, wait_for};
use crate::server::{Info, Plan, Server};
use crate::shortage::ShortMemory;
use tarn_resp::client::Client;

/// The longest that a start may take.
const PATIENCE: Duration = Duration::from_secs(1800);
/// The longest time until the whole log is with the system.
const WRITING: Duration = Duration::from_secs(60);
/// The interval between two questions for that.
const ASK_AGAIN: Duration = Duration::from_millis(20);

/// The size of a log file, and the length up to which a log is left alone, by default.
const LOG_FILE_BYTES: u64 = 64 << 20;
/// No smaller files than this.
const LOG_FILE_BYTES_MIN: u64 = 256 << 10;

/// The size of a log file of a store, and the length up to which its log is left alone: the defaults, smaller
/// in proportion for a store that has fewer than `least` records.
pub fn log_file_bytes(records: u64, least: u64) -> u64 {
    let bytes = u128::from(LOG_FILE_BYTES) * u128::from(records) / u128::from(least);
    (bytes as u64).clamp(LOG_FILE_BYTES_MIN, LOG_FILE_BYTES)
}

/// The command for a checkpoint of a server, or for its equivalent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// `BGSAVE`: it has ended when `LASTSAVE` changes.
    Save,
    /// `BGREWRITEAOF`, a rewritten or compacted log: it has ended when `aof_rewrite_in_progress` is 0.
    Rewrite,
}

/// A checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// From the request for it until it showed that it has ended.
    pub seconds: f64,
    /// The server's time for the cut: opening a view, or the call of `fork`; in microseconds.
    pub cut_us: Option<f64>,
    /// Bytes of the files in the data directory afterwards.
    pub file_bytes: u64,
    /// Its start, in milliseconds since the start of the load.
    pub from_ms: f64,
    /// True if it had not ended when the patience with it was over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_cut_off: bool,
}

/// A server whose checkpoints are watched.
#[derive(Debug)]
pub struct Trial {
    /// Its version.
    pub version: String,
    /// The server. Declared before its limit and its files, because it must end before they are removed.
    pub server: Server,
    /// The command for a checkpoint; `None` if it has none.
    pub ask: Option<Ask>,
    /// True if a child process takes it, which shares its memory with the server's.
    pub forks: bool,
    /// The section of `INFO` and the name there that have the time of the last cut, in microseconds.
    pub cut: Option<(&'static str, &'static str)>,
    /// The limit of its memory: from [`restrict`](Trial::restrict) on, or from the next start.
    pub limit: Option<ShortMemory>,
    /// A checkpoint under a load that takes longer is cut off, and a start that does fails. `None`: both fail
    /// after half an hour.
    pub patience: Option<Duration>,
    dirs: Vec<TempDir>,
}

impl Trial {
    /// Starts a server that has its files in some directories.
    pub fn start(plan: &Plan, dirs: Vec<TempDir>, ask: Option<Ask>, forks: bool) -> Result<Trial> {
        let server = plan.start()?;
        let version = server.version()?;
        Ok(Trial { version, server, ask, forks, cut: None, limit: None, patience: None, dirs })
    }

    /// Puts the server under a limit of memory. What it has already does not count.
    pub fn restrict(&mut self, limit: ShortMemory) -> Result<()> {
        limit.group.admit(self.server.pid())?;
        self.limit = Some(limit);
        Ok(())
    }

    /// The processes that the kernel has ended at the limit of memory.
    pub fn kills(&self) -> u64 {
        self.limit.as_ref().map_or(0, |limit| limit.group.kills())
    }

    /// Bytes of all its files, once all of its log is in them. Nothing may write to it meanwhile.
    pub fn file_bytes(&self) -> Result<u64> {
        self.wait_until_written()?;
        Ok(device::data_files(&self.dirs).1)
    }

    /// The figures of the checkpoint that has just ended, without its times.
    pub(super) fn tell(&self, client: &mut Client) -> Result<Taken> {
        let cut_us = match self.cut {
            Some((section, name)) => Info::read(client, section)?.number(name),
            None => None,
        };
        Ok(Taken { cut_us, file_bytes: device::data_files(&self.dirs).1, ..Taken::default() })
    }

    /// Waits until the server has given all of its log to the system, which a kill does not take from it:
    /// under `everysec` and `no` ours answers before.
    fn wait_until_written(&self) -> Result<()> {
        let written = wait_for(ASK_AGAIN, WRITING, || {
            let left = self.server.info_number("persistence", "log_backlog_bytes")?;
            Ok((left.unwrap_or(0) == 0).then_some(()))
        })?;
        written.ok_or_else(|| self.server.complaint(format!("its log was not written within {WRITING:?}")))
    }

    /// Kills the server and starts it again. Returns the seconds until it answers with as many keys.
    pub fn recover(&mut self) -> Result<f64> {
        let keys = self.relaunch()?;
        self.wait_until_back(keys)
    }

    /// Kills the server and launches it again as it was started, under its limit of memory. Its files are
    /// read before, so that they are in the page cache; under a limit they are taken out of it, because its
    /// pages would not count. Returns the number of keys that must come back.
    pub fn relaunch(&mut self) -> Result<u64> {
        let keys = self.server.key_count()?;
        self.wait_until_written()?;
        self.server.kill()?;
        let files = device::data_files(&self.dirs).0;
        match &self.limit {
            Some(_) => _ = device::forget(&files)?,
            None => _ = device::read_through(&files)?,
        }
        interrupt::check()?;
        self.server = self.server.plan.launch()?;
        if let Some(limit) = &self.limit {
            limit.group.admit(self.server.pid())?;
        }
        Ok(keys)
    }

    /// Waits until a server that was launched answers with so many keys. Returns the seconds since then.
    pub fn wait_until_back(&mut self, keys: u64) -> Result<f64> {
        let took = self.server.wait_until_ready(self.patience.unwrap_or(PATIENCE))?;
        let back = self.server.key_count()?;
        if back != keys {
            return Err(self.server.complaint(format!("came back with {back} of {keys} keys")));
        }
        Ok(took.as_secs_f64())
    }

    /// The reason of an error while it was measured: that the server ended by itself, if it did.
    pub fn reason(&mut self, error: LabError) -> LabError {
        // Ctrl-C ends the server too.
        match interrupt::check() {
            Err(interrupted) => interrupted,
            Ok(()) => self.server.ended().map_or(error, |status| LabError::Ended { status }),
        }
    }
}
