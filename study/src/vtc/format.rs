//! The bytes of a file of the log.
//!
//! ```text
//!   file     signature 8, compaction timestamp 8, CRC32C 4; blocks
//!   block    begin mark 1, timestamp 8, LSN of the first record 8, records 4, bytes of the body 4,
//!            CRC32C of all that and the body 4; body; end mark 1
//!   record   type 1, length of the whole 4, [LSN relative to the block's first 2,] key 8, value
//! ```
//!
//! paper: vtc §3.2. Ours differ from it in the checksums, without which a block of which some pages are
//! missing would look whole; in keys of a fixed length; and in the LSNs, which only [`super::Lsns`] has.

use std::io::{self, Read};

pub(super) const FILE_HEADER_BYTES: usize = 20;
const SIGNATURE: &[u8; 8] = b"TARNVTC\n";
const BLOCK_HEADER_BYTES: usize = 29;
const BEGIN: u8 = 0xb0;
const END: u8 = 0xe0;
const PUT: u8 = 1;
const DELETE: u8 = 2;
/// More records than the LSNs of a block can tell apart.
pub(super) const BLOCK_RECORDS_LIMIT: u32 = u16::MAX as u32;
/// No value is longer: a block with one, beside smaller records, keeps to its limit.
pub(super) const VALUE_BYTES_LIMIT: usize = 256 << 20;
/// No block has a longer body; what claims to is torn.
const BODY_BYTES_LIMIT: u32 = 1 << 30;

/// The header of a file that was compacted last at this timestamp, or with 0 never.
pub(super) fn file_header(timestamp: u64) -> [u8; FILE_HEADER_BYTES] {
    let mut bytes = [0; FILE_HEADER_BYTES];
    bytes[..8].copy_from_slice(SIGNATURE);
    bytes[8..16].copy_from_slice(&timestamp.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..16]);
    bytes[16..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The compaction timestamp of a file, if that is its header.
pub(super) fn timestamp_of(header: &[u8; FILE_HEADER_BYTES]) -> Option<u64> {
    let timestamp = u64_at(header, 8);
    (file_header(timestamp) == *header).then_some(timestamp)
}

/// Records that are flushed together.
#[derive(Debug)]
pub(super) struct Block {
    /// Rises by one from block to block over the whole log.
    pub timestamp: u64,
    /// The LSN of its first record, as it was first written.
    pub first: u64,
    pub records: u32,
    pub body: Vec<u8>,
}

impl Block {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let from = out.len();
        out.push(BEGIN);
        out.extend_from_slice(&self.timestamp.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&(self.body.len() as u32).to_le_bytes());
        let sum = crc32c::crc32c_append(crc32c::crc32c(&out[from..]), &self.body);
        out.extend_from_slice(&sum.to_le_bytes());
        out.extend_from_slice(&self.body);
        out.push(END);
    }

    pub(super) fn encoded_bytes(&self) -> usize {
        BLOCK_HEADER_BYTES + self.body.len() + 1
    }

    /// Reads the next block; `None` at the end, or where a block is torn.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Block>> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        if !fill(from, &mut header)? || header[0] != BEGIN {
            return Ok(None);
        }
        let bytes = u32_at(&header, 21);
        if bytes > BODY_BYTES_LIMIT {
            return Ok(None);
        }
        let mut body = vec![0; bytes as usize + 1];
        if !fill(from, &mut body)? || body.pop() != Some(END) {
            return Ok(None);
        }
        let sum = crc32c::crc32c_append(crc32c::crc32c(&header[..25]), &body);
        let (timestamp, first, records) = (u64_at(&header, 1), u64_at(&header, 9), u32_at(&header, 17));
        Ok((sum == u32_at(&header, 25)).then_some(Block { timestamp, first, records, body }))
    }

    /// Its records.
    pub(super) fn records(&self, numbered: bool) -> impl Iterator<Item = Record<'_>> {
        let mut rest = &self.body[..];
        std::iter::from_fn(move || {
            let bytes;
            (bytes, rest) = rest.split_at(u32_at(rest.get(..5)?, 1) as usize);
            let key_at = if numbered { 7 } else { 5 };
            let offset = if numbered { u64::from(u16::from_le_bytes([bytes[5], bytes[6]])) } else { 0 };
            let value = (bytes[0] == PUT).then_some(&bytes[key_at + 8..]);
            Some(Record { lsn: self.first + offset, key: u64_at(bytes, key_at), value, bytes })
        })
    }
}

/// A record of a block.
#[derive(Debug)]
pub(super) struct Record<'b> {
    /// Its LSN, where records have some.
    pub lsn: u64,
    pub key: u64,
    /// The value; `None` of a delete.
    pub value: Option<&'b [u8]>,
    /// The record as it is in the block.
    pub bytes: &'b [u8],
}

/// Appends a record to the body of a block; `offset` is its LSN relative to the block's first, if records
/// have LSNs.
pub(super) fn put_record(body: &mut Vec<u8>, offset: Option<u16>, key: u64, value: Option<&[u8]>) {
    let from = body.len();
    body.push(if value.is_some() { PUT } else { DELETE });
    body.extend_from_slice(&[0; 4]);
    body.extend(offset.into_iter().flat_map(u16::to_le_bytes));
    body.extend_from_slice(&key.to_le_bytes());
    body.extend_from_slice(value.unwrap_or_default());
    let bytes = (body.len() - from) as u32;
    body[from + 1..from + 5].copy_from_slice(&bytes.to_le_bytes());
}

/// Fills `bytes`; false if the file ends before.
fn fill(from: &mut impl Read, bytes: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(bytes) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
