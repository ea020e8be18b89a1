//! A server on trial: started, asked for checkpoints, killed and started again from its files.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use crate::device::{self, Forgetting};
use crate::error::{LabError, Result};
use crate::interrupt::{self, wait_for};
use crate::server::{Info, Plan, Server};
use crate::shortage::{ShortMemory, as_result};
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
    /// Memory that its child did not share with the server at its end, in bytes, as the server tells: a check
    /// of the measured one. `None` of a server that does not fork, or does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
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
    /// True if the files are taken out of the page cache before each start.
    pub is_cold: bool,
    /// The way in which they were before the last start, if they were.
    pub forgotten: Option<Forgetting>,
    dirs: Vec<TempDir>,
}

impl Trial {
    /// Starts a server that has its files in some directories.
    pub fn start(plan: &Plan, dirs: Vec<TempDir>, ask: Option<Ask>, forks: bool) -> Result<Trial> {
        let server = plan.start()?;
        let version = server.version()?;
        let (cut, limit, patience, is_cold, forgotten) = (None, None, None, false, None);
        Ok(Trial { version, server, ask, forks, cut, limit, patience, is_cold, forgotten, dirs })
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
        let copied = match self.ask {
            Some(Ask::Rewrite) => "aof_last_cow_size",
            _ => "rdb_last_cow_size",
        };
        let copied_bytes = if self.forks { Info::read(client, "persistence")?.number(copied) } else { None };
        Ok(Taken { cut_us, copied_bytes, file_bytes: device::data_files(&self.dirs).1, ..Taken::default() })
    }

    /// The error of a checkpoint, with the reason that the server tells, or else its last words, on one line.
    pub(super) fn failed(&self, what: &str, told: Option<&str>) -> LabError {
        let told = told.map(str::trim).filter(|why| !why.is_empty());
        let log = || format!("its log ends: {}", self.server.last_words().join(" / "));
        let why = told.map_or_else(log, str::to_owned);
        let what = format!("{}: {what}", self.server.plan.subject.name);
        LabError::Checkpoint { what, why, is_told: told.is_some() }
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
    /// read before, so that they are in the page cache. Under a limit they are taken out of it, because its
    /// pages would not count, and so they are if that is asked for. Returns the number of keys that must come
    /// back.
    pub fn relaunch(&mut self) -> Result<u64> {
        let keys = self.server.key_count()?;
        self.wait_until_written()?;
        self.server.kill()?;
        let files = device::data_files(&self.dirs).0;
        if self.limit.is_some() || self.is_cold {
            self.forgotten = Some(device::forget(&files)?);
            // Forgetting may have affected the executable, which is not to be measured.
            device::read_through(std::slice::from_ref(&self.server.plan.subject.binary))?;
        } else {
            device::read_through(&files)?;
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

    /// The words for a measurement under a limit that the lack of memory ended. Any other error stays one.
    pub fn out_of_memory(&mut self, error: LabError) -> Result<String> {
        interrupt::check()?;
        let ended = self.server.ended();
        as_result(error, ended, self.kills())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::limit::MemoryLimit;
    use crate::limit::tests::may_limit;
    use crate::server::{Product, Subject};

    /// A trial of a shell, which is no server.
    fn trial(script: &str) -> Trial {
        let dir = tempfile::tempdir().unwrap();
        let arguments = ["-c", script, "sh"].map(str::to_owned).to_vec();
        let subject = Subject { arguments, ..Subject::new(Product::RedisServer, "/bin/sh".as_ref()) };
        let server = Plan::new(subject, dir.path()).launch().unwrap();
        let (version, ask, cut, limit, patience) = (String::new(), None, None, None, None);
        let (forks, is_cold, forgotten, dirs) = (false, false, None, vec![dir]);
        Trial { version, server, ask, forks, cut, limit, patience, is_cold, forgotten, dirs }
    }

    fn failed() -> LabError {
        LabError::Reply("something else".to_owned())
    }

    #[test]
    fn a_failed_checkpoint_has_the_reason_or_the_last_words_of_the_server() {
        let trial = trial("echo before; echo no space; exec sleep 600");
        let said = || Ok((trial.server.last_words().len() == 2).then_some(()));
        assert!(wait_for(ASK_AGAIN, Duration::from_secs(60), said).unwrap().is_some());
        let failed = |told| trial.failed("it failed", told).to_string();
        let is_told = |told| matches!(trial.failed("", told), LabError::Checkpoint { is_told: true, .. });
        assert_eq!([None, Some("\r"), Some("a full disk\r")].map(is_told), [false, false, true]);
        assert_eq!(failed(None), "redis-server: it failed: its log ends: before / no space");
        assert_eq!(failed(Some("a full disk\r")), "redis-server: it failed: a full disk");
        assert_eq!(failed(Some("\r")), failed(None));
    }

    #[test]
    fn a_server_that_the_laboratory_killed_has_not_ended_by_itself() {
        let mut trial = trial("exec sleep 600");
        trial.server.kill().unwrap();
        assert!(matches!(trial.out_of_memory(failed()), Err(LabError::Reply(_))));
        assert!(matches!(trial.reason(failed()), LabError::Reply(_)));
    }

    #[test]
    fn a_server_that_the_kernel_ended_at_its_limit_lacked_memory() {
        if !may_limit() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let sign = dir.path().join("go");
        // Needs twice as much again and again, once it is under its limit.
        let script = format!(
            "until test -e {}; do :; done; exec awk 'BEGIN {{ s = \"x\"; while (1) s = s s }}'",
            sign.display()
        );
        let mut trial = trial(&script);
        let group = MemoryLimit::make(32 << 20).unwrap();
        trial.restrict(ShortMemory::of(group)).unwrap();
        std::fs::write(sign, "").unwrap();
        let (often, patience) = (ASK_AGAIN, Duration::from_secs(60));
        let ended = wait_for(often, patience, || Ok(trial.server.ended())).unwrap();
        assert!(ended.is_some(), "it ends");
        let words = trial.out_of_memory(failed()).unwrap();
        assert!(words.starts_with("the kernel ended the server for lack of memory"), "{words}");
    }

    #[test]
    fn a_server_that_somebody_else_killed_did_not_lack_memory() {
        if !may_limit() {
            return;
        }
        let mut trial = trial("kill -KILL $$");
        trial.limit = Some(ShortMemory::of(MemoryLimit::make(32 << 20).unwrap()));
        assert!(matches!(trial.out_of_memory(failed()), Err(LabError::Ended { .. })));
    }
}
