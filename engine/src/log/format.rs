//! The numbers of the log's format: marks, record types, flags, and how integers are written.
//! `docs/format/log.md` has the pictures.

use thiserror::Error;

/// First bytes of a file.
pub(super) const FILE_MAGIC: [u8; 8] = *b"TARNLOG\n";
/// Version of everything in a file.
pub(super) const FORMAT_VERSION: u32 = 1;
/// Length of a file's header: one sector, so that a disk writes it whole or not.
pub(super) const FILE_HEADER_BYTES: usize = 512;

/// First bytes of a block.
pub(super) const BLOCK_BEGIN: [u8; 8] = *b"\xF5TarnBk\n";
/// Last bytes of a block.
pub(super) const BLOCK_END: [u8; 8] = *b"\nkBnraT\xF5";
/// Length of a block's header.
pub(super) const BLOCK_HEADER_BYTES: usize = 64;
/// Length of what follows a block's body.
pub(super) const BLOCK_TRAILER_BYTES: usize = BLOCK_END.len();
/// Blocks begin at multiples of this.
pub(super) const BLOCK_ALIGN_BYTES: usize = 8;

/// The block was written by a clean close: it is empty and the last one of its time.
pub(super) const BLOCK_CLOSED: u32 = 1;
/// The block is empty; it was written to say what is durable.
pub(super) const BLOCK_CLAIM: u32 = 2;
/// The block has what a compaction left of one block or several: see `condensed`.
pub(super) const BLOCK_CONDENSED: u32 = 4;
/// The table of a condensed block tells of blocks of all directories; older software does not know that.
pub(super) const BLOCK_TELLS: u32 = 8;
/// Of the blocks that a condensed block stands for nothing is left, and others may tell so, too.
pub(super) const BLOCK_VOID: u32 = 16;
/// The body of the block is compressed: see `packed`.
pub(super) const BLOCK_LZ4: u32 = 32;
/// All flags of a block that this version knows.
pub(super) const BLOCK_FLAGS_KNOWN: u32 =
    BLOCK_CLOSED | BLOCK_CLAIM | BLOCK_CONDENSED | BLOCK_TELLS | BLOCK_VOID | BLOCK_LZ4;

/// The kinds of records; the second byte holds the flags.
pub(super) mod kind {
    pub(crate) const PUT: u8 = 1;
    pub(crate) const PATCH: u8 = 2;
    pub(crate) const DELETE: u8 = 3;
    pub(crate) const EXPIRE: u8 = 4;
    pub(crate) const HASH_PUT: u8 = 5;
    pub(crate) const HASH_REMOVE: u8 = 6;
    pub(crate) const SET_ADD: u8 = 7;
    pub(crate) const SET_REMOVE: u8 = 8;
    pub(crate) const ZSET_PUT: u8 = 9;
    pub(crate) const ZSET_REMOVE: u8 = 10;
    pub(crate) const LIST_PUSH_FRONT: u8 = 11;
    pub(crate) const LIST_PUSH_BACK: u8 = 12;
    pub(crate) const LIST_POP_FRONT: u8 = 13;
    pub(crate) const LIST_POP_BACK: u8 = 14;
    pub(crate) const LIST_PUT: u8 = 15;
    pub(crate) const LIST_INSERT: u8 = 16;
    pub(crate) const LIST_REMOVE: u8 = 17;
    pub(crate) const IMAGE: u8 = 18;
    pub(crate) const FLUSH: u8 = 19;
    pub(crate) const FLUSH_ALL: u8 = 20;
    pub(crate) const SWAP: u8 = 21;
    pub(crate) const RENEWAL_BEGIN: u8 = 22;
    pub(crate) const RENEWAL_PART: u8 = 23;
    pub(crate) const RENEWAL_END: u8 = 24;
    pub(crate) const PREPARED_PART: u8 = 25;
    pub(crate) const PREPARED: u8 = 26;
    pub(crate) const STREAM_PUT: u8 = 27;
    pub(crate) const STREAM_REMOVE: u8 = 28;
    pub(crate) const STREAM_TRIM: u8 = 29;
    pub(crate) const STREAM_GROUP_REMOVE: u8 = 30;
    pub(crate) const HASH_EXPIRE: u8 = 31;
}

/// A group of more than one record begins here: their number follows as a varint.
pub(super) const FLAG_GROUP: u8 = 1;
/// The `Lsn` is not the last one + 1: how many are left out follows as a varint.
pub(super) const FLAG_LSN: u8 = 2;
/// The database is not 0: it follows as one byte.
pub(super) const FLAG_DB: u8 = 4;
/// An expiry follows as a varint, in milliseconds since the Unix epoch.
pub(super) const FLAG_EXPIRY: u8 = 8;
/// The collection has passed a limit of Redis's small encodings.
pub(super) const FLAG_STICKY: u8 = 16;
/// All flags of a record that this version knows.
pub(super) const FLAGS_KNOWN: u8 = FLAG_GROUP | FLAG_LSN | FLAG_DB | FLAG_EXPIRY | FLAG_STICKY;

/// Bytes that are whole by their checksum, or came from elsewhere, and yet are no records of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The bytes end inside a record.
    #[error("a record is cut off")]
    CutOff,
    /// The first byte of a record is none that this version knows.
    #[error("record type {0} is unknown to this version")]
    UnknownType(u8),
    /// The flags of a record are none that this version knows, or do not fit its type.
    #[error("record flags {flags:#04x} do not fit record type {kind}")]
    BadFlags {
        /// The type.
        kind: u8,
        /// The flags.
        flags: u8,
    },
    /// A number is longer than 64 bits.
    #[error("a number is longer than 64 bits")]
    BadNumber,
    /// A field has a value that it never has.
    #[error("a record has an impossible {0}")]
    BadField(&'static str),
    /// The records do not end where the block does.
    #[error("the block holds other records than its header says")]
    BadCount,
}

/// Appends an integer in groups of seven bits, lowest first, the high bit of a byte saying that more follow.
pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Takes what [`put_varint`] wrote from the front of `bytes`.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> Result<u64, FormatError> {
    let mut number = 0;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        if index == 9 && byte > 1 {
            return Err(FormatError::BadNumber);
        }
        number |= u64::from(byte & 0x7F) << (7 * index);
        if byte < 0x80 {
            *bytes = &bytes[index + 1..];
            return Ok(number);
        }
    }
    Err(if bytes.len() < 10 { FormatError::CutOff } else { FormatError::BadNumber })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn varints_round_trip_at_every_length() {
        for shift in 0..64 {
            for number in [1_u64 << shift, (1_u64 << shift) - 1, u64::MAX >> shift] {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, number);
                bytes.push(7);
                let mut rest = &bytes[..];
                assert_eq!(take_varint(&mut rest), Ok(number));
                assert_eq!(rest, [7]);
            }
        }
    }

    #[test]
    fn hostile_varints_are_refused() {
        assert_eq!(take_varint(&mut &[][..]), Err(FormatError::CutOff));
        assert_eq!(take_varint(&mut &[0x80, 0x80][..]), Err(FormatError::CutOff));
        assert_eq!(take_varint(&mut &[0xFF; 11][..]), Err(FormatError::BadNumber));
        let mut too_big = [0xFF; 10];
        too_big[9] = 2;
        assert_eq!(take_varint(&mut &too_big[..]), Err(FormatError::BadNumber));
    }
}
