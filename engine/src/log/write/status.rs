//! The status of an open log.
//!
//! All of it is counted once a block or a sync, never once a record.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::pipeline::{Active, Pipeline, State};
use crate::io::{DiskError, DiskResult};
use crate::log::error::LogError;
use crate::log::file::LogFile;
use crate::log::options::{Compression, SyncMode};
use crate::record::{Lsn, UnixMs};

/// How a log is doing.
#[derive(Clone, Debug)]
pub struct LogStatus {
    /// When records become durable.
    pub mode: SyncMode,
    /// How blocks are written.
    pub compression: Compression,
    /// Blocks written compressed since the log was opened, by flushes and compactions.
    pub packed_blocks: u64,
    /// Their bytes on disk, had they not been compressed.
    pub packed_bytes_before: u64,
    /// Their bytes on disk.
    pub packed_bytes_after: u64,
    /// Blocks that compression made no shorter, or hardly. After them others are not tried, and not counted.
    pub packing_misses: u64,
    /// Blocks that were compressed in vain, as another one had been placed behind them meanwhile. After them
    /// others are not tried, either.
    pub packing_overtaken: u64,
    /// Since when, and why, no records are taken; `None` if all is well.
    pub failed: Option<(UnixMs, LogError)>,
    /// How often the log has failed since it was opened.
    pub failures: u64,
    /// The last error of a disk and its time, even if the log goes on or has recovered since.
    pub last_error: Option<(UnixMs, String)>,
    /// The newest record.
    pub last: Lsn,
    /// The newest record that is durable with all before it.
    pub durable: Lsn,
    /// How long the oldest record that is not durable has been waiting; zero if all are. Counted from when
    /// its block was taken for writing: what it waited in memory before, some milliseconds or one flush, is
    /// left out.
    pub lag: Duration,
    /// The newest block that is durable with all before it.
    pub durable_sequence: u64,
    /// The newest block.
    pub last_sequence: u64,
    /// Bytes of records taken since the log was opened.
    pub bytes_accepted: u64,
    /// Bytes accepted and not yet written.
    pub backlog_bytes: u64,
    /// Blocks being written or synced now.
    pub in_flight: usize,
    /// The directories, in the order of the configuration.
    pub directories: Vec<DirectoryStatus>,
}

impl LogStatus {
    /// How many records can still be numbered.
    pub fn records_left(&self) -> u64 {
        Lsn::LIMIT.0.saturating_sub(self.last.0)
    }

    /// Whether less than an eighth of all numbers is left: at a million records a second, for a year.
    pub fn ends_soon(&self) -> bool {
        self.records_left() < Lsn::LIMIT.0 / 8
    }

    /// Records that are not durable.
    pub fn lag_records(&self) -> u64 {
        self.last.0.saturating_sub(self.durable.0)
    }

    /// Bytes of blocks written to all directories since the log was opened.
    pub fn bytes_written(&self) -> u64 {
        self.directories.iter().map(|directory| directory.bytes_written).sum()
    }
}

/// How one directory of a log is doing. What is counted is counted since the log was opened.
#[derive(Clone, Debug)]
pub struct DirectoryStatus {
    /// Where it is.
    pub path: PathBuf,
    /// Its files that are written to no more.
    pub closed_files: usize,
    /// Its files that are written to, or not cut to their length yet.
    pub open_files: usize,
    /// Bytes in use of all files.
    pub bytes: u64,
    /// Blocks written.
    pub blocks_written: u64,
    /// Bytes written by flushes, with headers and padding.
    pub bytes_written: u64,
    /// Syncs that went well.
    pub syncs: u64,
    /// How long they took together.
    pub sync_time: Duration,
    /// How long the longest took.
    pub sync_time_max: Duration,
    /// Writes, syncs and new files that the disk refused, each attempt counted.
    pub failures: u64,
    /// Why it has no next file at the moment, though the log may go on.
    pub trouble: Option<String>,
}

impl Pipeline {
    /// Syncs a file through one of its handles, and counts that.
    pub(in crate::log) fn sync_file(&self, file: &LogFile, handle: usize) -> DiskResult<()> {
        let lane = file.lane();
        let began = self.clock.monotonic();
        let outcome = file.sync(handle);
        match &outcome {
            Ok(()) => self.counters[lane].note_sync(self.clock.monotonic().saturating_sub(began)),
            Err(error) => self.note_error(lane, error),
        }
        outcome
    }

    /// Notes that the disk of a directory refused something.
    pub(in crate::log) fn note_error(&self, lane: usize, error: &DiskError) {
        self.counters[lane].failures.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock() = Some((self.clock.unix_ms(), error.to_string()));
    }

    pub(in crate::log) fn status(&self) -> LogStatus {
        let last_error = self.last_error.lock().clone();
        let mut status = self.status_of(&self.active.lock(), last_error);
        // Without the lock of those who append: there may be thousands.
        for file in self.closed.lock().iter() {
            let directory = &mut status.directories[file.directory()];
            directory.closed_files += 1;
            directory.bytes += file.bytes();
        }
        status
    }

    fn status_of(&self, active: &Active, last_error: Option<(UnixMs, String)>) -> LogStatus {
        let failed = match &active.state {
            State::Failed(since, error) => Some((*since, error.clone())),
            _ => None,
        };
        // The watermark first: it never passes what is read after it.
        let durable = self.durable.lsn();
        LogStatus {
            mode: self.mode(),
            compression: self.compression(),
            packed_blocks: self.packing.blocks.load(Ordering::Relaxed),
            packed_bytes_before: self.packing.bytes_before.load(Ordering::Relaxed),
            packed_bytes_after: self.packing.bytes_after.load(Ordering::Relaxed),
            packing_misses: self.packing.misses.load(Ordering::Relaxed),
            packing_overtaken: self.packing.overtaken.load(Ordering::Relaxed),
            failed,
            failures: self.failures.load(Ordering::Relaxed),
            last_error,
            last: Lsn(active.next.0 - 1),
            durable,
            lag: self.lag(active),
            durable_sequence: self.durable.sequence(),
            last_sequence: active.next_sequence - 1,
            bytes_accepted: self.bytes_accepted(),
            backlog_bytes: self.backlog_bytes(),
            in_flight: self.durable.writing(),
            directories: (0..active.lanes.len()).map(|lane| self.directory_status(active, lane)).collect(),
        }
    }

    fn lag(&self, active: &Active) -> Duration {
        let since = self.durable.oldest_taken_at().or(active.kept_back_since.filter(|_| active.count > 0));
        since.map_or(Duration::ZERO, |since| self.clock.monotonic().saturating_sub(since))
    }

    fn directory_status(&self, active: &Active, index: usize) -> DirectoryStatus {
        let (lane, counters) = (&active.lanes[index], &self.counters[index]);
        let leaving = active.leaving.iter().filter(|leaving| leaving.file.lane() == index);
        let (mut open_files, mut bytes) = (usize::from(lane.current.is_some()), lane.offset);
        for file in leaving {
            open_files += 1;
            bytes += file.length;
        }
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        DirectoryStatus {
            path: lane.directory.clone(),
            closed_files: 0,
            open_files,
            bytes,
            blocks_written: load(&counters.blocks),
            bytes_written: load(&counters.bytes),
            syncs: load(&counters.syncs),
            sync_time: Duration::from_nanos(load(&counters.sync_nanos)),
            sync_time_max: Duration::from_nanos(load(&counters.sync_nanos_max)),
            failures: load(&counters.failures),
            trouble: lane.trouble.as_ref().map(ToString::to_string),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use super::*;
    use crate::io::{Disk, Fault, ManualClock, SimDisk, SimOptions};
    use crate::log::{Group, Log, LogOptions};
    use crate::record::{Change, Write};

    fn open(sim: &SimDisk, mode: SyncMode, directories: usize) -> (Log, Arc<ManualClock>) {
        let paths = (0..directories).map(|number| PathBuf::from(format!("/log{number}"))).collect();
        let clock = Arc::new(ManualClock::new(7_000));
        let mut options = LogOptions { mode, clock: clock.clone(), ..LogOptions::new(paths) };
        options.file_bytes = 16 << 10;
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        (Log::open(disk, options).unwrap().into_log().unwrap().0, clock)
    }

    fn append(log: &Log) -> Result<Lsn, LogError> {
        let mut group = Group::new();
        let change = Change::Put { value: b"value".to_vec().into(), expiry: None };
        group.push(&Write::Key { db: 0, key: b"key".to_vec().into(), change });
        log.appender().append(&group)
    }

    fn wait_until(what: &str, log: &Log, condition: impl Fn(&LogStatus) -> bool) -> LogStatus {
        for _ in 0..10_000 {
            let status = log.status();
            if condition(&status) {
                return status;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        panic!("it never came about that {what}: {:?}", log.status());
    }

    #[test]
    fn a_record_grows_old_until_it_is_durable() {
        let sim = SimDisk::new(1, SimOptions::default());
        let (log, clock) = open(&sim, SyncMode::No, 2);
        assert_eq!((log.status().lag, log.status().lag_records()), (Duration::ZERO, 0));
        append(&log).unwrap();
        let status = wait_until("it is written", &log, |status| status.bytes_written() > 0);
        assert_eq!((status.lag, status.lag_records()), (Duration::ZERO, 1));
        clock.advance(1_500);
        append(&log).unwrap();
        let status = wait_until("both are written", &log, |status| status.backlog_bytes == 0);
        assert_eq!(
            (status.lag, status.lag_records()),
            (Duration::from_millis(1_500), 2),
            "the oldest counts"
        );
        log.sync().unwrap();
        assert_eq!((log.status().lag, log.status().lag_records()), (Duration::ZERO, 0));
        assert!(log.status().bytes_written() > log.status().bytes_accepted);
    }

    #[test]
    fn what_a_disk_refused_is_told_of_its_directory_and_remembered() {
        let sim = SimDisk::new(2, SimOptions::default());
        let (log, clock) = open(&sim, SyncMode::Always, 1);
        let lsn = append(&log).unwrap();
        log.durable().wait_for(lsn).unwrap();
        let before = log.status();
        assert_eq!((before.last_error, before.directories[0].failures), (None, 0));
        assert!(before.directories[0].syncs > 0 && before.directories[0].blocks_written > 0);
        clock.advance(500);
        sim.set_options(SimOptions {
            faults_per_mille: vec![(Fault::SyncError, 1000)],
            ..SimOptions::default()
        });
        append(&log).unwrap();
        let status = wait_until("the log has failed", &log, |status| {
            status.failed.is_some() && status.last_error.is_some()
        });
        let (at, error) = status.last_error.unwrap();
        assert!(at == 7_500 && error.contains("/log0/"), "{at}: {error}");
        assert!(status.directories[0].failures > 0 && status.failures == 1);
        sim.set_options(SimOptions::default());
        clock.advance(10_000);
        let status = wait_until("it works again", &log, |status| {
            status.failed.is_none() && status.directories[0].trouble.is_none()
        });
        assert!(status.last_error.is_some());
    }
}
