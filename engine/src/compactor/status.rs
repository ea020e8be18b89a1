//! The status of compaction, and statistics of each file, for `INFO` and metrics.

use std::path::PathBuf;
use std::time::Duration;

use crate::record::UnixMs;

use super::damaged::DamagedFile;

/// How compactions are doing.
#[derive(Clone, Debug, Default)]
pub struct CompactionStatus {
    /// Whether one is being made.
    pub running: bool,
    /// Whether a round over all files is under way, or will begin.
    pub round: bool,
    /// A checkpoint is wanted, and a round behind it.
    pub wants_checkpoint: bool,
    /// Files that are known to have damage, and wait to be compacted without it.
    pub damaged: Vec<DamagedFile>,
    /// A checkpoint is wanted, that has what was in damaged files, or in place of one that is damaged itself.
    pub damage_wants_checkpoint: bool,
    /// Damaged places that the start has passed over.
    pub damage_passed: u64,
    /// Damaged places that compactions have left out.
    pub damage_left_out: u64,
    /// Compactions so far, of one file or of several that became one.
    pub compactions: u64,
    /// Compactions that were given up.
    pub failures: u64,
    /// Entries that were written again, so that their changes could go.
    pub renewed: u64,
    /// Bytes of files that were compacted.
    pub bytes_read: u64,
    /// Bytes of files that took their place.
    pub bytes_written: u64,
    /// Rounds over all files that have ended.
    pub rounds: u64,
    /// How long the last round took.
    pub round_took: Option<Duration>,
    /// Files that could not be compacted in it.
    pub round_failures: usize,
    /// Why the last one was given up, if it was.
    pub error: Option<String>,
    /// Files that are written to no more.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// The same, were no block compressed.
    pub raw_bytes: u64,
    /// Bytes of them that are not known to be obsolete.
    pub live_bytes: u64,
    /// The same by directory of the log: files, bytes, live bytes.
    pub directories: Vec<(usize, u64, u64)>,
    /// Why the newest of those that were given up was, and when, be it that others went well since. Or why
    /// one left its file compressed although the log is not to be.
    pub last_error: Option<(UnixMs, String)>,
    /// Memory that knowing which records are obsolete takes.
    pub validity_bytes: usize,
}

/// The status of a file that is no longer written to.
#[derive(Clone, Debug)]
pub struct FileStatus {
    /// Where it is.
    pub path: PathBuf,
    /// How many records it has.
    pub records: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes of it that are not known to be obsolete.
    pub live_bytes: u64,
    /// Whether it was compacted.
    pub is_compacted: bool,
}
