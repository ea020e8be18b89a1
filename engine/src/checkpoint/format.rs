//! The byte format of a checkpoint: see `docs/format/checkpoint.md`.
//!
//! ```text
//! file:    [header 64] [block] [block] … [last block: totals]
//! header:  magic 8 | version 4 | kind 4 | databases 4 | 0 4 | cut 8 | base 8 | unix ms 8 | 0 12 | crc 4
//! block:   mark 4 | sequence 4 | flags 1 | database 1 | 0 2 | records 4 | body length 8
//!          | crc of these and the body 4 | body
//! ```

use crate::record::{Lsn, UnixMs};

pub(super) const FILE_MAGIC: [u8; 8] = *b"TARNCKP\n";
pub(super) const FORMAT_VERSION: u32 = 3;
/// The oldest version that is read.
const FORMAT_VERSION_OLDEST: u32 = 1;
pub(super) const FILE_HEADER_BYTES: usize = 64;
pub(super) const BLOCK_MARK: [u8; 4] = *b"CKB\n";
pub(super) const BLOCK_HEADER_BYTES: usize = 28;
/// A block is sealed when its body has so many bytes.
pub(super) const BLOCK_BYTES: usize = 1 << 20;
/// The longest body that is believed: one entry of 512 MB with its key, and what was gathered before it.
pub(super) const BODY_BYTES_MAX: u64 = 3 << 30;

/// The last block of a file.
pub(super) const LAST: u8 = 1;
/// The large value at the end of this block goes on in the next.
pub(super) const CONTINUES: u8 = 1 << 1;

/// The kinds of records in a block.
pub(super) mod tag {
    /// `[db 1][whole 1][first position 8][position behind the last 8]`: what follows is of this range.
    pub(crate) const RANGE: u8 = 1;
    /// `[length varint][block]`: an entry in one piece.
    pub(crate) const ENTRY: u8 = 2;
    /// `[length varint][block]`: a value in nodes, of which the leaves follow.
    pub(crate) const NODES: u8 = 3;
    /// `[length varint][elements]`: a leaf.
    pub(crate) const LEAF: u8 = 4;
    /// There are no more leaves.
    pub(crate) const END: u8 = 5;
    /// `[length varint][elements]`: a leaf of the times of fields, behind the leaves of their hash.
    pub(crate) const TIMES: u8 = 6;
}

/// The contents of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    /// Everything.
    Full = 0,
    /// The changes since another cut.
    Changes = 1,
}

/// The head of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    pub(super) kind: FileKind,
    pub(super) databases: u32,
    /// The cut: the file has the state as of this `Lsn`.
    pub(super) cut: Lsn,
    /// The cut of the checkpoint that has everything else; 0 for a full one.
    pub(super) base: Lsn,
    pub(super) unix_ms: UnixMs,
}

/// A head that cannot be read.
pub(super) enum HeaderError {
    Damaged(&'static str),
    Version(u32),
}

impl FileHeader {
    pub(super) fn encode(&self) -> [u8; FILE_HEADER_BYTES] {
        let mut bytes = [0; FILE_HEADER_BYTES];
        bytes[..8].copy_from_slice(&FILE_MAGIC);
        bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[16..20].copy_from_slice(&self.databases.to_le_bytes());
        for (at, number) in [(24, self.cut.0), (32, self.base.0), (40, self.unix_ms)] {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<FileHeader, HeaderError> {
        let bytes: &[u8; FILE_HEADER_BYTES] =
            bytes.first_chunk().ok_or(HeaderError::Damaged("the file is shorter than its header"))?;
        if bytes[..8] != FILE_MAGIC || u32_at(bytes, 60) != crc32c::crc32c(&bytes[..60]) {
            return Err(HeaderError::Damaged("no header of a checkpoint"));
        }
        if !(FORMAT_VERSION_OLDEST..=FORMAT_VERSION).contains(&u32_at(bytes, 8)) {
            return Err(HeaderError::Version(u32_at(bytes, 8)));
        }
        let kind = match u32_at(bytes, 12) {
            0 => FileKind::Full,
            1 => FileKind::Changes,
            _ => return Err(HeaderError::Damaged("an unknown kind of checkpoint")),
        };
        let (cut, base) = (Lsn(u64_at(bytes, 24)), Lsn(u64_at(bytes, 32)));
        Ok(FileHeader { kind, databases: u32_at(bytes, 16), cut, base, unix_ms: u64_at(bytes, 40) })
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BlockHead {
    pub(super) sequence: u32,
    pub(super) flags: u8,
    /// The database of its first records.
    pub(super) db: u8,
    pub(super) records: u32,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub(super) head: BlockHead,
    pub(super) body_bytes: u64,
    crc: u32,
}

impl BlockHead {
    /// Writes the head of the block that is `bytes`, of which the first [`BLOCK_HEADER_BYTES`] are room for
    /// it, and `tail` behind them.
    pub(super) fn seal(self, bytes: &mut [u8], tail: &[u8]) {
        let BlockHead { sequence, flags, db, records } = self;
        let body_bytes = (bytes.len() - BLOCK_HEADER_BYTES + tail.len()) as u64;
        bytes[..4].copy_from_slice(&BLOCK_MARK);
        bytes[4..8].copy_from_slice(&sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&[flags, db, 0, 0]);
        bytes[12..16].copy_from_slice(&records.to_le_bytes());
        bytes[16..24].copy_from_slice(&body_bytes.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&bytes[..24]), &bytes[BLOCK_HEADER_BYTES..]);
        let crc = crc32c::crc32c_append(crc, tail);
        bytes[24..28].copy_from_slice(&crc.to_le_bytes());
    }
}

impl BlockHeader {
    pub(super) fn decode(bytes: &[u8; BLOCK_HEADER_BYTES]) -> Option<BlockHeader> {
        let [flags, db, ..] = u32_at(bytes, 8).to_le_bytes();
        let header = BlockHeader {
            head: BlockHead { sequence: u32_at(bytes, 4), flags, db, records: u32_at(bytes, 12) },
            body_bytes: u64_at(bytes, 16),
            crc: u32_at(bytes, 24),
        };
        (bytes[..4] == BLOCK_MARK && header.body_bytes <= BODY_BYTES_MAX).then_some(header)
    }

    /// Whether these are the bytes that were sealed.
    pub(super) fn fits(&self, head: &[u8; BLOCK_HEADER_BYTES], body: &[u8]) -> bool {
        self.crc == crc32c::crc32c_append(crc32c::crc32c(&head[..24]), body)
    }
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("the caller has so many bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("the caller has so many bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_versions_before_are_read() {
        let header =
            FileHeader { kind: FileKind::Full, databases: 16, cut: Lsn(7), base: Lsn::ZERO, unix_ms: 9 };
        let mut bytes = header.encode();
        for (version, is_known) in [(0u32, false), (1, true), (2, true), (3, true), (4, false)] {
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
            let crc = crc32c::crc32c(&bytes[..60]);
            bytes[60..].copy_from_slice(&crc.to_le_bytes());
            assert_eq!(FileHeader::decode(&bytes).is_ok_and(|read| read == header), is_known, "{version}");
        }
    }
}
