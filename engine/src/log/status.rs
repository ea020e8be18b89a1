//! What can be told about a log that is open.

use std::sync::atomic::Ordering;

use super::error::LogError;
use super::options::SyncMode;
use super::pipeline::{Pipeline, State};
use crate::record::{Lsn, UnixMs};

/// How a log is doing.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// When records become durable.
    pub mode: SyncMode,
    /// Since when, and why, no records are taken; `None` if all is well.
    pub failed: Option<(UnixMs, LogError)>,
    /// How often the log has failed since it was opened.
    pub failures: u64,
    /// Why a directory has no next file at the moment, though the log goes on.
    pub trouble: Option<String>,
    /// The newest record.
    pub last: Lsn,
    /// The newest record that is durable with all before it.
    pub durable: Lsn,
    /// The newest block that is durable with all before it.
    pub durable_sequence: u64,
    /// The newest block.
    pub last_sequence: u64,
    /// Bytes accepted and not yet written.
    pub backlog_bytes: u64,
    /// Blocks being written or synced now.
    pub in_flight: usize,
    /// Blocks written since the log was opened.
    pub blocks_written: u64,
    /// Bytes written since the log was opened.
    pub bytes_written: u64,
    /// Syncs since the log was opened.
    pub syncs: u64,
}

impl Pipeline {
    pub(super) fn status(&self) -> LogStatus {
        let active = self.active.lock();
        let failed = match &active.state {
            State::Failed(since, error) => Some((*since, error.clone())),
            _ => None,
        };
        LogStatus {
            mode: self.mode(),
            failed,
            failures: self.counters.failures.load(Ordering::Relaxed),
            trouble: active.lanes.iter().find_map(|lane| lane.trouble.as_ref().map(ToString::to_string)),
            last: Lsn(active.next.0 - 1),
            durable: self.durable.lsn(),
            durable_sequence: self.durable.sequence(),
            last_sequence: active.next_sequence - 1,
            backlog_bytes: self.backlog_bytes(),
            in_flight: self.durable.writing(),
            blocks_written: self.counters.blocks.load(Ordering::Relaxed),
            bytes_written: self.counters.bytes.load(Ordering::Relaxed),
            syncs: self.counters.syncs.load(Ordering::Relaxed),
        }
    }
}
