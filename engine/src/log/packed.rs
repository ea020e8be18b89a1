//! Blocks whose body is compressed by LZ4 ([`BLOCK_LZ4`]).
//!
//! ```text
//!  body:  | raw length | packed length | LZ4 block | zeros |
//!           varints                      packed      padding
//! ```
//!
//! - A block is compressed as a whole, table and records, when that makes it shorter on disk. Its checksums
//!   cover what is on disk, so nobody decompresses what is damaged.
//! - The raw length is bounded by the packed one and by [`RAW_BYTES_MAX`] before there is memory for it.

use std::borrow::Cow;

use super::block::{BlockHeader, padded_length};
use super::format::{BLOCK_HEADER_BYTES, BLOCK_LZ4, FormatError, put_varint, take_varint};

/// A longer body is written as it is, and no reader makes one.
pub(super) const RAW_BYTES_MAX: usize = 64 << 20;
/// LZ4 makes at most so many bytes of one.
const EXPANSION_MAX: u64 = 255;

/// A block that is shorter than the one that it was made of.
pub(super) struct Packed {
    /// Room for the header, and the compressed body.
    pub(super) bytes: Vec<u8>,
    /// Length with padding and end mark.
    pub(super) length: u64,
}

impl Packed {
    /// Compresses a block, room for the header and body, that has `length` bytes at `offset` of a file where
    /// the next one begins at a multiple of `align`. `None` if that does not make it shorter.
    pub(super) fn shorter(block: &[u8], length: u64, offset: u64, align: usize) -> Option<Packed> {
        let body = &block[BLOCK_HEADER_BYTES..];
        if body.len() > RAW_BYTES_MAX || length <= align as u64 {
            return None;
        }
        let lz4 = lz4_flex::block::compress(body);
        let mut bytes = Vec::with_capacity(block.len().min(lz4.len() + BLOCK_HEADER_BYTES + 20));
        bytes.resize(BLOCK_HEADER_BYTES, 0);
        put_varint(&mut bytes, body.len() as u64);
        put_varint(&mut bytes, lz4.len() as u64);
        bytes.extend_from_slice(&lz4);
        let packed = Packed { length: padded_length(bytes.len(), offset, align), bytes };
        (packed.length < length).then_some(packed)
    }
}

/// The body of a block as it was before it was compressed, if it is; else as it stands there.
pub(super) fn body_of<'b>(header: &BlockHeader, body: &'b [u8]) -> Result<Cow<'b, [u8]>, FormatError> {
    if header.flags & BLOCK_LZ4 == 0 { Ok(Cow::Borrowed(body)) } else { unpack(body).map(Cow::Owned) }
}

/// The raw length, if so many packed bytes can make it, and a block may have it.
pub(super) fn bounded(raw: u64, packed: u64) -> Option<usize> {
    let is_possible = raw <= packed.saturating_mul(EXPANSION_MAX);
    usize::try_from(raw).ok().filter(|raw| is_possible && *raw <= RAW_BYTES_MAX)
}

fn unpack(mut body: &[u8]) -> Result<Vec<u8>, FormatError> {
    let (raw, packed) = (take_varint(&mut body)?, take_varint(&mut body)?);
    let split = usize::try_from(packed).ok().and_then(|packed| body.split_at_checked(packed));
    let (lz4, padding) = split.ok_or(FormatError::BadPacking)?;
    let mut bytes = vec![0; bounded(raw, packed).ok_or(FormatError::BadPacking)?];
    let made = lz4_flex::block::decompress_into(lz4, &mut bytes);
    let is_whole = made.is_ok_and(|made| made == bytes.len()) && padding.iter().all(|byte| *byte == 0);
    if is_whole { Ok(bytes) } else { Err(FormatError::BadPacking) }
}
