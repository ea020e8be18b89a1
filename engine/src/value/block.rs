//! The one allocation of an entry: header, key and payload.
//!
//! ```text
//! [kind | flags << 3][lsn 6][expiry 8]?[base 6]?[expiry's lsn 6]?[key length varint][key][payload]
//! payload:  string: its bytes    packed collection: [count 2][elements]    collection in nodes: nothing
//! ```

use std::ops::Range;

use smallvec::SmallVec;

use super::packed::{Buffer, LSN_BYTES, Varint, fill, lsn_at, lsn_bytes, varint_at};
use super::run::checked_run;
use super::thin::HEAD_BYTES;
use crate::record::{Kind, Lsn, UnixMs};

/// The flag: an expiry is there.
const EXPIRY: u8 = 1 << 3;
/// The flag: a base is there.
const BASE: u8 = 1 << 4;
/// The flag: the `Lsn` of the newest `Expire` record is there.
const EXPIRY_LSN: u8 = 1 << 5;
/// The flag: the value passed a limit of Redis's small encodings, or the string was changed in part.
const STICKY: u8 = 1 << 6;
/// The bits that are the kind.
const KIND: u8 = 0b111;
/// Where the parts that may be missing begin.
const OPTIONAL_AT: usize = 1 + LSN_BYTES;
/// Bytes that the processor brings into its cache together.
const CACHE_LINE: usize = 64;
/// Bytes of the count in front of packed elements.
const COUNT_BYTES: usize = 2;
/// The payload of an empty packed collection.
pub(crate) const PACKED_EMPTY: [u8; COUNT_BYTES] = [0; COUNT_BYTES];

/// The header before the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) sticky: bool,
    pub(crate) lsn: Lsn,
    pub(crate) expiry: Option<UnixMs>,
    pub(crate) base: Option<Lsn>,
    pub(crate) expiry_lsn: Option<Lsn>,
}

impl Header {
    pub(crate) fn new(kind: Kind, lsn: Lsn) -> Header {
        Header { kind, sticky: false, lsn, expiry: None, base: None, expiry_lsn: None }
    }

    fn bytes(&self) -> SmallVec<[u8; 32]> {
        let set = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = set(self.expiry.is_some(), EXPIRY)
            | set(self.base.is_some(), BASE)
            | set(self.expiry_lsn.is_some(), EXPIRY_LSN)
            | set(self.sticky, STICKY);
        let mut bytes = SmallVec::new();
        bytes.push(self.kind as u8 | flags);
        bytes.extend_from_slice(&lsn_bytes(self.lsn));
        if let Some(expiry) = self.expiry {
            bytes.extend_from_slice(&expiry.to_le_bytes());
        }
        for lsn in [self.base, self.expiry_lsn].into_iter().flatten() {
            bytes.extend_from_slice(&lsn_bytes(lsn));
        }
        bytes
    }
}

/// Header, key and payload. The default has not even a header: it stands for a block that was taken out.
pub(crate) use super::thin::Thin as Block;

impl Block {
    pub(crate) fn new(header: &Header, key: &[u8], payload: &[u8]) -> Block {
        let head = header.bytes();
        let key_len = Varint::new(key.len());
        Block::of(&[&head, key_len.as_slice(), key, payload])
    }

    /// The block of an empty packed collection.
    pub(crate) fn empty(header: &Header, key: &[u8]) -> Block {
        Block::new(header, key, &PACKED_EMPTY)
    }

    /// The block of these bytes; `None` if its head or its key is none. What the payload holds is not looked
    /// at.
    pub(crate) fn checked(bytes: &[u8]) -> Option<Block> {
        Block::key_of(bytes)?;
        Some(Block::of(&[bytes]))
    }

    /// The key of the block of these bytes; `None` if its head or its key is none.
    pub(crate) fn key_of(bytes: &[u8]) -> Option<&[u8]> {
        let flags = *bytes.first()?;
        Kind::from_u8(flags & KIND)?;
        let known = KIND | EXPIRY | BASE | EXPIRY_LSN | STICKY;
        (flags & !known == 0).then_some(())?;
        Some(checked_run(bytes, head_len(flags))?.0)
    }

    /// All its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self
    }

    /// Bytes of the allocation.
    pub(crate) fn bytes(&self) -> usize {
        HEAD_BYTES + self.len()
    }

    /// The sum of the first and the last byte.
    #[inline]
    pub(crate) fn ends(&self) -> usize {
        [self.first(), self.last()].into_iter().flatten().map(|byte| usize::from(*byte)).sum()
    }

    /// The sum of a byte in each line of the processor's cache, up to `most` bytes.
    #[inline]
    pub(crate) fn lines(&self, most: usize) -> usize {
        let bytes = &self[..self.len().min(most)];
        let last = bytes.last().map_or(0, |byte| usize::from(*byte));
        bytes.iter().step_by(CACHE_LINE).fold(last, |sum, byte| sum.wrapping_add(usize::from(*byte)))
    }

    #[inline]
    pub(crate) fn kind(&self) -> Kind {
        Kind::from_u8(self[0] & KIND).expect("a block's first byte holds a kind")
    }

    #[inline]
    pub(crate) fn lsn(&self) -> Lsn {
        lsn_at(&self[1..])
    }

    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        self[1..OPTIONAL_AT].copy_from_slice(&lsn_bytes(lsn));
    }

    #[inline]
    pub(crate) fn sticky(&self) -> bool {
        self[0] & STICKY != 0
    }

    pub(crate) fn set_sticky(&mut self) {
        self[0] |= STICKY;
    }

    #[inline]
    pub(crate) fn expiry(&self) -> Option<UnixMs> {
        if self[0] & EXPIRY == 0 {
            return None;
        }
        let bytes = self[OPTIONAL_AT..].first_chunk().expect("the flag says that an expiry follows");
        Some(UnixMs::from_le_bytes(*bytes))
    }

    pub(crate) fn header(&self) -> Header {
        let flags = self[0];
        let mut at = OPTIONAL_AT + if flags & EXPIRY != 0 { 8 } else { 0 };
        let mut lsn_if = |flag: u8| {
            (flags & flag != 0).then(|| {
                at += LSN_BYTES;
                lsn_at(&self[at - LSN_BYTES..])
            })
        };
        let base = lsn_if(BASE);
        let expiry_lsn = lsn_if(EXPIRY_LSN);
        let (kind, sticky, lsn, expiry) = (self.kind(), self.sticky(), self.lsn(), self.expiry());
        Header { kind, sticky, lsn, expiry, base, expiry_lsn }
    }

    pub(crate) fn set_header(&mut self, header: &Header) {
        let (end, head) = (self.head_len(), header.bytes());
        if head.len() == end {
            self[..end].copy_from_slice(&head);
        } else {
            splice(self, 0..end, &[&head]);
        }
    }

    /// Bytes in front of the key's length.
    #[inline]
    fn head_len(&self) -> usize {
        head_len(self[0])
    }

    #[inline]
    fn key_range(&self) -> Range<usize> {
        let (len, at) = varint_at(self, self.head_len());
        at..at + len
    }

    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        &self[self.key_range()]
    }

    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        &self[self.key_range().end..]
    }

    /// Puts `parts` in the place of the payload's bytes at `at`.
    pub(crate) fn splice_payload(&mut self, at: Range<usize>, parts: &[&[u8]]) {
        let start = self.key_range().end;
        splice(self, start + at.start..start + at.end, parts);
    }

    /// The payload's bytes, to be changed in place.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.key_range().end;
        &mut self[start..]
    }

    /// The payload's packed elements.
    pub(crate) fn packed(&mut self) -> PackedMut<'_> {
        let start = self.key_range().end;
        PackedMut { block: self, start }
    }
}

/// Bytes in front of the key's length of a block with these flags.
#[inline]
const fn head_len(flags: u8) -> usize {
    const fn set(flags: u8, flag: u8, bytes: usize) -> usize {
        if flags & flag != 0 { bytes } else { 0 }
    }
    OPTIONAL_AT + set(flags, EXPIRY, 8) + set(flags, BASE, LSN_BYTES) + set(flags, EXPIRY_LSN, LSN_BYTES)
}

/// The count and the elements of a packed payload.
pub(crate) fn packed_parts(payload: &[u8]) -> (usize, &[u8]) {
    let (count, elements) = payload.split_first_chunk().expect("packed elements follow their count");
    (usize::from(u16::from_le_bytes(*count)), elements)
}

/// The packed elements of a block, to be changed.
pub(crate) struct PackedMut<'a> {
    block: &'a mut Block,
    /// Where the payload begins.
    start: usize,
}

impl Buffer for PackedMut<'_> {
    fn bytes(&self) -> &[u8] {
        &self.block[self.start + COUNT_BYTES..]
    }

    fn grow(&mut self, by: isize) {
        let count = packed_parts(&self.block[self.start..]).0.checked_add_signed(by);
        let count = count.and_then(|count| u16::try_from(count).ok()).expect("a packed collection is small");
        self.block[self.start..self.start + COUNT_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    fn splice(&mut self, at: Range<usize>, parts: &[&[u8]]) {
        let start = self.start + COUNT_BYTES;
        splice(self.block, start + at.start..start + at.end, parts);
    }
}

/// Puts `parts` in the place of the bytes at `at`; without an allocation where the length stays.
fn splice(bytes: &mut Block, at: Range<usize>, parts: &[&[u8]]) {
    let added: usize = parts.iter().map(|part| part.len()).sum();
    let (old, new) = (bytes.len(), bytes.len() - at.len() + added);
    if new > old {
        bytes.resize(new);
        bytes.copy_within(at.end..old, at.start + added);
    } else if new < old {
        bytes.copy_within(at.end..old, at.start + added);
        bytes.resize(new);
    }
    fill(&mut bytes[at.start..at.start + added], parts);
}
