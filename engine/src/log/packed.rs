//! Blocks whose body is compressed by LZ4 ([`BLOCK_LZ4`]).
//!
//! ```text
//!  body:  | raw length | packed length | raw crc32c | LZ4 block | zeros |
//!           u32          u32             u32          packed      padding
//! ```
//!
//! - A block is compressed as a whole, table and records, when that makes it enough shorter on disk. Its
//!   checksums cover what is on disk, so nobody decompresses what is damaged.
//! - The raw length is bounded by the packed one and by [`RAW_BYTES_MAX`] before there is memory for it.
//! - What does not come out as it was put in is damage, as is a block whose checksum does not fit.

use super::block::{BlockHeader, padded_length};
use super::format::{BLOCK_HEADER_BYTES, BLOCK_LZ4, BLOCK_TRAILER_BYTES};

/// A longer body is written as it is, and no reader makes one.
pub(super) const RAW_BYTES_MAX: usize = 16 << 20;
/// LZ4 makes at most so many bytes of one.
const EXPANSION_MAX: usize = 255;
/// A block is compressed if that saves one byte of so many.
const SAVED_MIN: u64 = 16;
/// Both lengths and the checksum.
const HEAD_BYTES: usize = 12;
/// A description of the damage.
pub(super) const NOT_AS_PACKED: &str = "a compressed block does not hold what was compressed";

/// A block that is shorter than the one that it was made of.
pub(super) struct Packed {
    /// Room for the header, and the compressed body.
    pub(super) bytes: Vec<u8>,
    /// Length with padding and end mark.
    pub(super) length: u64,
}

impl Packed {
    /// Whether a block of `length` bytes, in a file where the next one begins at a multiple of `align`, is
    /// worth the attempt.
    pub(super) fn is_tried(length: u64, align: usize) -> bool {
        length > align as u64 && length <= RAW_BYTES_MAX as u64
    }

    /// Compresses a block, room for the header and body, that has `length` bytes at `offset` of a file.
    /// `None` if that saves little.
    pub(super) fn shorter(block: &[u8], length: u64, offset: u64, align: usize) -> Option<Packed> {
        let body = &block[BLOCK_HEADER_BYTES..];
        let begins = BLOCK_HEADER_BYTES + HEAD_BYTES;
        let mut bytes = vec![0; begins + lz4_flex::block::get_maximum_output_size(body.len())];
        let packed = lz4_flex::block::compress_into(body, &mut bytes[begins..]).ok()?;
        bytes.truncate(begins + packed);
        let numbers = [u32::try_from(body.len()).ok()?, u32::try_from(packed).ok()?, crc32c::crc32c(body)];
        for (place, number) in bytes[BLOCK_HEADER_BYTES..begins].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let packed = Packed { length: padded_length(bytes.len(), offset, align), bytes };
        (packed.length + length / SAVED_MIN < length).then_some(packed)
    }
}

/// A compressed body, as far as it says what it is.
pub(super) struct Body<'b> {
    /// Its length when it is decompressed.
    pub(super) raw: usize,
    crc: u32,
    lz4: &'b [u8],
}

impl<'b> Body<'b> {
    /// Whether the body of a block is one.
    pub(super) fn is_of(header: &BlockHeader) -> bool {
        header.flags & BLOCK_LZ4 != 0
    }

    /// Takes a body apart; `None` if it is none that anybody writes.
    pub(super) fn of(body: &'b [u8]) -> Option<Body<'b>> {
        let (head, rest) = body.split_at_checked(HEAD_BYTES)?;
        let number = |at: usize| head[at..].first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
        let (raw, packed, crc) = (number(0)? as usize, number(4)? as usize, number(8)?);
        let (lz4, padding) = rest.split_at_checked(packed)?;
        let is_possible = raw <= RAW_BYTES_MAX && raw <= packed.saturating_mul(EXPANSION_MAX);
        let is_whole = is_possible && padding.iter().all(|byte| *byte == 0);
        is_whole.then_some(Body { raw, crc, lz4 })
    }

    /// Decompresses it, in place of what is in `out`; `None` if it is not what was compressed.
    pub(super) fn unpack(&self, out: &mut Vec<u8>) -> Option<()> {
        out.clear();
        out.resize(self.raw, 0);
        let made = lz4_flex::block::decompress_into(self.lz4, out);
        (made.is_ok_and(|made| made == self.raw) && crc32c::crc32c(out) == self.crc).then_some(())
    }
}

/// Length of a block with a body of so many bytes, were it not compressed, but for padding.
pub(super) fn raw_length(body: usize) -> u64 {
    (BLOCK_HEADER_BYTES + body + BLOCK_TRAILER_BYTES) as u64
}
