//! The one allocation of an entry: header, key and payload.
//!
//! ```text
//! [kind | flags << 3][lsn 6][expiry 8]?[base 6]?[expiry's lsn 6]?[key length varint][key][payload]
//! payload:  string: its bytes   collection in nodes: nothing   list: [count 2][elements]
//!           other packed collection: [count 1][width 1][origin 6][elements]
//! ```
//!
//! The elements of a small hash, set or sorted set tend to have been written together, by records that follow
//! each other. So each has only the distance of its `Lsn` from the *origin*, in `width` bytes: none where one
//! record said all of them. The origin was the oldest when they were laid out; no element is older. A write
//! that needs more gives all of them more. A file that an older version of the program wrote may have [count
//! 2] and whole `Lsn`s there.

use std::ops::Range;

use smallvec::SmallVec;

use super::nodes::PACKED_COUNT_MAX;
use super::packed::{
    self, Buffer, LSN_BYTES, Layout, Varint, fill, layout_of, lsn_at, lsn_bytes, varint_at, width_of,
};
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
/// The flag: the `Lsn`s of packed elements are distances.
const NARROW: u8 = 1 << 7;
/// The bits that are the kind.
const KIND: u8 = 0b111;
/// Where the parts that may be missing begin.
const OPTIONAL_AT: usize = 1 + LSN_BYTES;
/// Bytes that the processor brings into its cache together.
const CACHE_LINE: usize = 64;
/// Bytes in front of the packed elements of a list.
const COUNT_BYTES: usize = 2;
/// Bytes in front of those of another collection: how many, bytes of a distance, the origin.
const NARROW_BYTES: usize = 2 + LSN_BYTES;
/// Distances of so many times the longest one fit.
const ROOM: u64 = 4;
/// The payload of an empty packed list.
pub(crate) const EMPTY_LIST: [u8; COUNT_BYTES] = [0; COUNT_BYTES];

/// The header before the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: Kind,
    pub(crate) sticky: bool,
    /// Whether the `Lsn`s of packed elements are distances.
    pub(crate) narrow: bool,
    pub(crate) lsn: Lsn,
    pub(crate) expiry: Option<UnixMs>,
    pub(crate) base: Option<Lsn>,
    pub(crate) expiry_lsn: Option<Lsn>,
}

impl Header {
    pub(crate) fn new(kind: Kind, lsn: Lsn) -> Header {
        Header { kind, sticky: false, narrow: false, lsn, expiry: None, base: None, expiry_lsn: None }
    }

    fn bytes(&self) -> SmallVec<[u8; 32]> {
        let set = |is: bool, flag: u8| if is { flag } else { 0 };
        let flags = set(self.expiry.is_some(), EXPIRY)
            | set(self.base.is_some(), BASE)
            | set(self.expiry_lsn.is_some(), EXPIRY_LSN)
            | set(self.sticky, STICKY)
            | set(self.narrow, NARROW);
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
        let narrow = layout_of(header.kind).width() > 0;
        let payload = if narrow { &[0; NARROW_BYTES][..] } else { &EMPTY_LIST };
        Block::new(&Header { narrow, ..*header }, key, payload)
    }

    /// Takes out the payload.
    pub(crate) fn clear_payload(&mut self) {
        let len = self.payload().len();
        self.splice_payload(0..len, &[]);
        self[0] &= !NARROW;
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
        Header { kind, sticky, narrow: self.is_narrow(), lsn, expiry, base, expiry_lsn }
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

    /// Whether the `Lsn`s of packed elements are distances.
    #[inline]
    pub(crate) fn is_narrow(&self) -> bool {
        self[0] & NARROW != 0
    }

    /// The packed elements of the payload: how they are laid out, how many they are, and they. REQUIRES: it
    /// has some, or is that of an empty packed collection.
    #[inline]
    pub(crate) fn elements(&self) -> (Layout, usize, &[u8]) {
        self.checked_elements().expect("packed elements follow their count")
    }

    /// The same where the payload may be anything; the elements are not looked at.
    #[inline(always)]
    pub(crate) fn checked_elements(&self) -> Option<(Layout, usize, &[u8])> {
        let (wide, payload) = (layout_of(self.kind()), self.payload());
        if !self.is_narrow() {
            let (count, elements) = payload.split_first_chunk()?;
            return Some((wide, usize::from(u16::from_le_bytes(*count)), elements));
        }
        let (&[count, width, ref origin @ ..], elements) = payload.split_first_chunk::<NARROW_BYTES>()?;
        let layout = wide.narrow(usize::from(width), lsn_at(origin));
        Some((layout, usize::from(count), elements))
    }

    /// Whether `Lsn`s of packed elements are as they may be.
    pub(crate) fn has_sound_width(&self) -> bool {
        !self.is_narrow()
            || layout_of(self.kind()).width() > 0
                && self.payload().get(1).is_some_and(|width| usize::from(*width) <= LSN_BYTES)
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
    HEAD_LENS[flags as usize] as usize
}

/// The length of a head by its flags: each look at a key needs it.
const HEAD_LENS: [u8; 256] = {
    const fn set(flags: usize, flag: u8, bytes: usize) -> usize {
        if flags & flag as usize != 0 { bytes } else { 0 }
    }
    let mut lens = [0; 256];
    let mut flags = 0;
    while flags < lens.len() {
        let optional =
            set(flags, EXPIRY, 8) + set(flags, BASE, LSN_BYTES) + set(flags, EXPIRY_LSN, LSN_BYTES);
        lens[flags] = (OPTIONAL_AT + optional) as u8;
        flags += 1;
    }
    lens
};

/// The packed elements of a block, to be changed.
pub(crate) struct PackedMut<'a> {
    block: &'a mut Block,
    /// Where the payload begins.
    start: usize,
}

impl PackedMut<'_> {
    /// Where the elements begin.
    #[inline]
    fn elements_at(&self) -> usize {
        self.start + if self.block.is_narrow() { NARROW_BYTES } else { COUNT_BYTES }
    }

    /// Sees to it that elements with this `Lsn` can be put in.
    fn lay_out_for(&mut self, wide: Layout, lsn: Lsn) -> Layout {
        if !self.block.is_narrow() || self.block[self.start] > 0 {
            return self.narrow(Some(lsn));
        }
        // More elements of the same command will follow the first.
        let (origin, head) = (self.start + 2, self.start + NARROW_BYTES);
        self.block[origin - 1] = 1;
        self.block[origin..head].copy_from_slice(&lsn_bytes(lsn));
        wide.narrow(1, lsn)
    }

    /// Has all `Lsn`s be distances in as few bytes as they and `more` need. There is room for four times the
    /// longest distance, if there is one: so the elements are not laid out again at each write.
    #[cold]
    pub(crate) fn narrow(&mut self, more: Option<Lsn>) -> Layout {
        let (layout, count, elements) = self.block.elements();
        let lsns = || packed::items(layout, elements).map(|item| item.lsn()).chain(more);
        let (origin, newest) = (lsns().min().unwrap_or_default(), lsns().max().unwrap_or_default());
        let width = width_of((newest.0 - origin.0) * ROOM).min(LSN_BYTES);
        let narrow = layout.narrow(width, origin);
        let elements = packed::recode(layout, elements, narrow);
        let head = [u8::try_from(count).expect("a packed collection is small"), width as u8];
        let len = self.block.len() - self.start;
        self.block.splice_payload(0..len, &[&head, &lsn_bytes(origin), &elements]);
        self.block[0] |= NARROW;
        narrow
    }
}

impl Buffer for PackedMut<'_> {
    fn bytes(&self) -> &[u8] {
        &self.block[self.elements_at()..]
    }

    #[inline]
    fn layout(&self, wide: Layout) -> Layout {
        if !self.block.is_narrow() {
            return wide;
        }
        let head = &self.block[self.start..self.start + NARROW_BYTES];
        wide.narrow(usize::from(head[1]), lsn_at(&head[2..]))
    }

    #[inline]
    fn admit(&mut self, wide: Layout, lsn: Lsn) -> Layout {
        let layout = self.layout(wide);
        if layout.holds(lsn) { layout } else { self.lay_out_for(wide, lsn) }
    }

    fn grow(&mut self, by: isize) {
        let start = self.start;
        if self.block.is_narrow() {
            let count = usize::from(self.block[start]).checked_add_signed(by);
            let count = count.and_then(|count| u8::try_from(count).ok());
            self.block[start] = count.expect("a packed collection is small");
        } else {
            let count = self.block.elements().1.checked_add_signed(by);
            let count = count.and_then(|count| u16::try_from(count).ok());
            let bytes = count.expect("a packed list is small").to_le_bytes();
            self.block[start..start + COUNT_BYTES].copy_from_slice(&bytes);
        }
    }

    fn splice(&mut self, at: Range<usize>, parts: &[&[u8]]) {
        let start = self.elements_at();
        splice(self.block, start + at.start..start + at.end, parts);
    }
}

const _: () = assert!(PACKED_COUNT_MAX < u8::MAX as usize, "one more than may stay can be counted");

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
