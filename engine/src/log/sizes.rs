//! The sizes of buffers, reads and writes. They do not change what a log or a store is: tests make them
//! small, so that short histories have blocks of many pieces and files of many blocks.

use crate::io::SCAN_ALIGN_BYTES;

/// The sizes of buffers, reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Bytes of blocks that are kept until they are durable, when nobody waits for that. Blocks beyond it are
    /// read back if the disk fails. More would cost more: threads that append would copy into buffers that
    /// are in no cache.
    pub kept_bytes: usize,
    /// Bytes of records at which a condensed block is left for the next one.
    pub condensed_bytes: usize,
    /// Bytes that a compaction gives the device in one go; a multiple of the alignment of scans.
    pub copied_bytes: usize,
    /// Bytes of a file that is written to no more that are read in one go.
    pub read_bytes: usize,
    /// Bytes of it that are passed over where the disk gives nothing.
    pub skipped_bytes: usize,
    /// The most bytes that a start reads in one go. Larger pieces need less copying: blocks have up to some
    /// megabytes each when the server is busy.
    pub piece_bytes: usize,
    /// Bytes that a start can carry over to the next piece.
    pub carried_bytes: usize,
    /// Bytes that a start reads in one go behind an error, and passes over where that fails, too; a multiple
    /// of the alignment of scans.
    pub unread_bytes: usize,
    /// Members of a sorted set that a replay puts in together, at least, where nothing else wants it.
    pub collected_members: usize,
    /// Bytes of members that a replayer collects, at most.
    pub collected_bytes: usize,
}

impl Sizes {
    /// As good as any on the devices that were measured.
    pub const LARGE: Sizes = Sizes {
        kept_bytes: 4 << 20,
        condensed_bytes: 256 << 10,
        copied_bytes: 1 << 20,
        read_bytes: 256 << 10,
        skipped_bytes: 64 << 10,
        piece_bytes: 8 << 20,
        carried_bytes: 4 << 20,
        unread_bytes: 64 << 10,
        collected_members: 1024,
        collected_bytes: 64 << 20,
    };

    /// So small that histories of some kilobytes go past each.
    pub const SMALL: Sizes = Sizes {
        kept_bytes: 64 << 10,
        condensed_bytes: 300,
        copied_bytes: SCAN_ALIGN_BYTES,
        read_bytes: 700,
        skipped_bytes: 512,
        piece_bytes: 2 * SCAN_ALIGN_BYTES,
        carried_bytes: 3000,
        unread_bytes: SCAN_ALIGN_BYTES,
        collected_members: 8,
        collected_bytes: 8 << 10,
    };
}

impl Default for Sizes {
    fn default() -> Sizes {
        Sizes::LARGE
    }
}
