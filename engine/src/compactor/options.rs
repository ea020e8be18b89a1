//! Options of compaction: when it runs, and how fast. All bytes are raw ones: those of compressed blocks
//! before they were compressed.

use crate::renewal::PART_BYTES;

/// When compactions are made, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompactionOptions {
    /// Whether any is made unasked.
    pub enabled: bool,
    /// Whether what a checkpoint has is dropped, too, which a start needs from then on; and
    /// `CompactionStatus::wants_checkpoint` asks for one when the log has become long.
    pub rewrites: bool,
    /// Bytes read and written in a second at most; 0 for no limit.
    pub bytes_per_second: u64,
    /// Whether it rests while clients wait.
    pub rests: bool,
    /// The share of obsolete records from which a file is compacted, in percent.
    pub file_percent: u64,
    /// How long the log may be, in percent of what is needed of it.
    pub log_percent: u64,
    /// A log that is shorter is left alone.
    pub min_bytes: u64,
    /// The most bytes that files have which become one.
    pub file_bytes: u64,
    /// The most bytes of an entry that is written again as one record, and about those of a part of a larger
    /// one: so much is done under one latch.
    pub part_bytes: usize,
}

impl Default for CompactionOptions {
    fn default() -> CompactionOptions {
        CompactionOptions {
            enabled: true,
            rewrites: false,
            bytes_per_second: 128 << 20,
            rests: true,
            file_percent: 75,
            log_percent: 170,
            min_bytes: 64 << 20,
            file_bytes: 64 << 20,
            part_bytes: PART_BYTES,
        }
    }
}

impl CompactionOptions {
    /// How fast a log of so many bytes is compacted of which `live_bytes` are needed: faster than
    /// `bytes_per_second` where it is longer than it may be, four times as fast ten percent above that, as it
    /// would grow without end under those who write faster.
    pub(super) fn bytes_per_second_for(&self, bytes: u64, live_bytes: u64) -> u64 {
        let percent = bytes.saturating_mul(100) / live_bytes.max(1);
        let above = percent.saturating_sub(self.log_percent).min(1_000);
        self.bytes_per_second.saturating_mul(10 + 3 * above) / 10
    }
}
