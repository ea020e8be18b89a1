//! A block: the bytes that one flush writes, and the unit that is valid or invalid as a whole.
//!
//! ```text
//!  0        8         16         24        32          40      44      48          56       60      64
//!  | begin  | file id | sequence | durable | first lsn | count | flags | length    | body   | header |
//!  | mark   |         |          |         |           | u32   | u32   | of all    | crc32c | crc32c |
//!  +--------+---------+----------+---------+-----------+-------+-------+-----------+--------+--------+
//!  | body: records                                                     | 0-511 zeros   | end mark    |
//!  +-------------------------------------------------------------------+---------------+-------------+
//! ```
//!
//! - `sequence` rises by one a block over the whole log, `first lsn` by the `count` of the block before; for
//!   what a compaction has left, see `condensed`.
//! - `durable` is the highest sequence such that it and all below were durable when this block was sealed;
//!   `durable < sequence`.
//! - The body's checksum covers everything between the header and the end mark; the header's everything
//!   before itself.
//! - The file id is drawn by lot for each file, so no bytes of a user can be taken for the start of a block.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::chunk::Chunk;
use super::error::OpenError;
use super::file::{LSN_END, NUMBERS_END};
use super::format::{
    BLOCK_ALIGN_BYTES, BLOCK_BEGIN, BLOCK_END, BLOCK_FLAGS_KNOWN, BLOCK_HEADER_BYTES, BLOCK_TRAILER_BYTES,
    FormatError,
};
use super::records::Records;
use crate::record::Lsn;

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) file_id: u64,
    pub(super) sequence: u64,
    pub(super) durable: u64,
    pub(super) first: Lsn,
    pub(super) count: u32,
    pub(super) flags: u32,
    /// Length of everything from the begin mark to the end mark.
    pub(super) length: u64,
    pub(super) body_crc: u32,
}

/// Blocks that follow each other, and how many records they had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) lsns: u64,
}

/// Why bytes are not a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockFault {
    /// The header is whole and has flags that this version does not know.
    UnknownFlags,
    /// The header is whole, what follows is not.
    BadBody,
}

impl BlockHeader {
    /// Reads a header from the front of `bytes`; `None` if none of this file stands there.
    pub(super) fn parse(bytes: &[u8], file_id: u64) -> Option<BlockHeader> {
        let header: &[u8; BLOCK_HEADER_BYTES] = bytes.first_chunk()?;
        let u64_at =
            |at: usize| u64::from_le_bytes(*header[at..].first_chunk().expect("8 bytes in the header"));
        let u32_at =
            |at: usize| u32::from_le_bytes(*header[at..].first_chunk().expect("4 bytes in the header"));
        if header[..8] != BLOCK_BEGIN || u64_at(8) != file_id || u32_at(60) != crc32c::crc32c(&header[..60]) {
            return None;
        }
        let parsed = BlockHeader {
            file_id,
            sequence: u64_at(16),
            durable: u64_at(24),
            first: Lsn(u64_at(32)),
            count: u32_at(40),
            flags: u32_at(44),
            length: u64_at(48),
            body_crc: u32_at(56),
        };
        let length_min = (BLOCK_HEADER_BYTES + BLOCK_TRAILER_BYTES) as u64;
        let lsns = 1..LSN_END - u64::from(parsed.count);
        let possible = lsns.contains(&parsed.first.0) && parsed.sequence < NUMBERS_END;
        (parsed.length >= length_min && parsed.durable < parsed.sequence && possible).then_some(parsed)
    }

    fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES);
        bytes.extend_from_slice(&BLOCK_BEGIN);
        for number in [self.file_id, self.sequence, self.durable, self.first.0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.count, self.flags] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.body_crc.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes.try_into().expect("the header has its length")
    }

    /// Whether `block`, header to end mark, is what this header describes.
    pub(super) fn check(&self, block: &[u8]) -> Result<(), BlockFault> {
        debug_assert_eq!(block.len() as u64, self.length, "the block is cut out by its header's length");
        if self.flags & !BLOCK_FLAGS_KNOWN != 0 {
            return Err(BlockFault::UnknownFlags);
        }
        let (rest, end) = block.split_at(block.len() - BLOCK_TRAILER_BYTES);
        let body = &rest[BLOCK_HEADER_BYTES..];
        if end != BLOCK_END || crc32c::crc32c(body) != self.body_crc {
            return Err(BlockFault::BadBody);
        }
        Ok(())
    }
}

/// Length of a block at `offset` whose header and body are `bytes` long, when the next one shall begin at a
/// multiple of `align`.
pub(super) fn padded_length(bytes: usize, offset: u64, align: usize) -> u64 {
    debug_assert!(align.is_multiple_of(BLOCK_ALIGN_BYTES));
    (offset + (bytes + BLOCK_TRAILER_BYTES) as u64).next_multiple_of(align as u64) - offset
}

/// Completes a block. `bytes` holds room for the header and the body; the body's checksum is filled in.
pub(super) fn seal(bytes: &mut Vec<u8>, mut header: BlockHeader) {
    bytes.resize(header.length as usize - BLOCK_TRAILER_BYTES, 0);
    header.body_crc = crc32c::crc32c(&bytes[BLOCK_HEADER_BYTES..]);
    bytes.extend_from_slice(&BLOCK_END);
    bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode());
}

/// Turns a whole block into one of another file, sealed when `durable` was durable.
pub(super) fn reseal(bytes: &mut [u8], file_id: u64, durable: u64) {
    let old_id = u64::from_le_bytes(*bytes[8..].first_chunk().expect("a block has a header"));
    let header = BlockHeader::parse(bytes, old_id).expect("the caller has checked the block");
    let header = BlockHeader { file_id, durable, ..header };
    bytes[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode());
}

/// A whole block read back from the log, its checksums verified. Cheap to clone and to send: the bytes are
/// shared.
#[derive(Clone)]
pub struct Block {
    pub(super) header: BlockHeader,
    pub(super) path: Arc<PathBuf>,
    pub(super) offset: u64,
    /// Its records, and padding.
    pub(super) body: Chunk,
    /// The blocks of the log that it stands for: itself, unless it is a condensed one.
    pub(super) own: Stretch,
    /// Whether nothing is left of them, and others may tell so, too.
    pub(super) is_void: bool,
    /// The bytes that compression saves, but for padding.
    pub(super) saved: u64,
    /// How many bytes of the log come behind it, once it is known where it stands.
    pub(super) behind: u64,
}

impl Block {
    /// Its number; of a condensed block, the first of those that it stands for.
    pub fn sequence(&self) -> u64 {
        self.own.from
    }

    /// The number of its first record, or of the first that was there before it was condensed.
    pub fn first(&self) -> Lsn {
        self.header.first
    }

    /// How many records it has.
    pub fn count(&self) -> u32 {
        self.header.count
    }

    /// Its length on disk.
    pub fn bytes_len(&self) -> u64 {
        self.header.length
    }

    /// How many bytes of the log come behind it, at most; some of them may hold nothing.
    pub fn bytes_behind(&self) -> u64 {
        self.behind
    }

    /// The file that it was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where in the file it begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Its records in order. An error means that another version wrote them, for the bytes themselves are
    /// whole: give up with [`Block::not_understood`].
    pub fn records(&self) -> Records<'_> {
        Records::new(&self.body, self.header.first, self.header.count)
    }

    /// The error to give up with when [`Block::records`] ends with one.
    pub fn not_understood(&self, error: FormatError) -> OpenError {
        let reason = format!("the block at byte {}: {error}", self.offset);
        OpenError::TooNew { path: self.path.to_path_buf(), reason }
    }

    /// The error to give up with when its records name a database that is not among `databases`.
    pub fn too_few_databases(&self, db: u8, databases: usize) -> OpenError {
        OpenError::TooFewDatabases { path: self.path.to_path_buf(), offset: self.offset, db, databases }
    }

    pub(super) fn last(&self) -> Lsn {
        Lsn(self.header.first.0 + self.own.lsns - 1)
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Block")
            .field("header", &self.header)
            .field("path", &self.path)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}
