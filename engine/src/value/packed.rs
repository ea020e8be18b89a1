//! Packed elements, one after the other in a run of bytes: the form of small collections and of leaves of
//! large ones.
//!
//! ```text
//! element:  [fixed prefix][varint length][name] and, in a hash, [varint length][value]
//! prefix:   list: none   set, hash: Lsn, 6 bytes   sorted set: Lsn, score, 8 bytes   its order: score
//! ```
//!
//! All integers are little-endian. The functions are generic over [`Buffer`], so that they work on the
//! payload of an entry's block and on a leaf alike.

use std::ops::Range;

use smallvec::SmallVec;

use crate::record::{Kind, Lsn};

/// Bytes of a stored `Lsn`.
pub(crate) const LSN_BYTES: usize = 6;

/// How the elements of one kind of collection are laid out.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// Bytes in front of the name.
    pub(crate) prefix: usize,
    /// Whether a value follows the name.
    pub(crate) pair: bool,
}

/// Elements of a list.
pub(crate) const LIST: Layout = Layout { prefix: 0, pair: false };
/// Members of a set.
pub(crate) const SET: Layout = Layout { prefix: LSN_BYTES, pair: false };
/// Fields of a hash.
pub(crate) const HASH: Layout = Layout { prefix: LSN_BYTES, pair: true };
/// Members of a sorted set.
pub(crate) const ZSET: Layout = Layout { prefix: LSN_BYTES + 8, pair: false };
/// Members of a large sorted set in the tree that keeps their order.
pub(crate) const RANKED: Layout = Layout { prefix: 8, pair: false };

/// The layout of packed elements; that of a list for strings and documents, which have none.
pub(crate) const fn layout_of(kind: Kind) -> Layout {
    match kind {
        Kind::String | Kind::List | Kind::Json => LIST,
        Kind::Set => SET,
        Kind::ZSet => ZSET,
        Kind::Hash => HASH,
    }
}

/// Bytes that elements stand in, to be changed.
pub(crate) trait Buffer {
    fn bytes(&self) -> &[u8];
    /// Notes that there are so many elements more.
    fn grow(&mut self, by: isize);
    /// Puts `parts` in the place of the bytes at `at`.
    fn splice(&mut self, at: Range<usize>, parts: &[&[u8]]);

    /// Puts `parts`, an element that was not there, at `at`.
    fn insert(&mut self, at: usize, parts: &[&[u8]]) {
        self.splice(at..at, parts);
        self.grow(1);
    }

    /// Takes out the bytes at `at`, which hold `count` elements.
    fn remove(&mut self, at: Range<usize>, count: usize) {
        self.splice(at, &[]);
        self.grow(-(count as isize));
    }
}

/// One element, borrowed.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    /// Where it begins.
    pub(crate) at: usize,
    /// Where the next one begins.
    pub(crate) end: usize,
    /// All its bytes.
    pub(crate) whole: &'a [u8],
    pub(crate) prefix: &'a [u8],
    pub(crate) name: &'a [u8],
    /// Empty where the layout has none.
    pub(crate) value: &'a [u8],
}

impl Item<'_> {
    pub(crate) fn range(&self) -> Range<usize> {
        self.at..self.end
    }

    /// Its bytes in all.
    pub(crate) fn len(&self) -> usize {
        self.end - self.at
    }

    /// Appends the element as it stands.
    pub(crate) fn append_to(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self.whole);
    }

    /// The `Lsn` at the front of the prefix. REQUIRES: the layout has one.
    pub(crate) fn lsn(&self) -> Lsn {
        lsn_at(self.prefix)
    }

    /// The score at the back of the prefix. REQUIRES: the layout has one.
    pub(crate) fn score(&self) -> f64 {
        let (_, score) =
            self.prefix.split_last_chunk::<8>().expect("a sorted set's prefix ends with a score");
        f64::from_le_bytes(*score)
    }
}

/// The elements of `bytes` from the front.
#[derive(Clone)]
pub(crate) struct Items<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
    pub(crate) layout: Layout,
}

/// The elements of `bytes`.
#[inline]
pub(crate) fn items(layout: Layout, bytes: &[u8]) -> Items<'_> {
    Items { bytes, at: 0, layout }
}

impl Items<'_> {
    /// Leaves out the next `count` elements.
    pub(crate) fn skip_items(&mut self, count: usize) {
        if let Some(last) = count.checked_sub(1) {
            self.nth(last);
        }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    #[inline(always)]
    fn next(&mut self) -> Option<Item<'a>> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let at = self.at;
        let prefix_end = at + self.layout.prefix;
        let (name, mut end) = run_at(self.bytes, prefix_end);
        let mut value = &self.bytes[..0];
        if self.layout.pair {
            (value, end) = run_at(self.bytes, end);
        }
        self.at = end;
        Some(Item { at, end, whole: &self.bytes[at..end], prefix: &self.bytes[at..prefix_end], name, value })
    }
}

/// Reads a byte of each line of the processor's cache, so that they are fetched side by side.
#[inline]
pub(crate) fn fetch(bytes: &[u8]) {
    let sum = bytes.iter().step_by(64).fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    std::hint::black_box(sum);
}

/// The element called `name`.
#[inline]
pub(crate) fn find<'a>(layout: Layout, bytes: &'a [u8], name: &[u8]) -> Option<Item<'a>> {
    let mut at = 0;
    while at < bytes.len() {
        let (len, start) = varint_at(bytes, at + layout.prefix);
        let mut end = start + len;
        if is_same(&bytes[start..end], name) {
            return Items { bytes, at, layout }.next();
        }
        if layout.pair {
            let (value_len, value_start) = varint_at(bytes, end);
            end = value_start + value_len;
        }
        at = end;
    }
    None
}

/// Whether two names are the same, without a call for short ones. Names of one length tend to differ at
/// their end: `field0`, `field1` …
#[inline]
pub fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() || one.last() != other.last() {
        return false;
    }
    match (one.len(), one.first_chunk::<8>(), other.first_chunk::<8>()) {
        (9..=16, Some(one_front), Some(other_front)) => {
            one_front == other_front && one.last_chunk::<8>() == other.last_chunk::<8>()
        }
        (0..=8, ..) => one.iter().zip(other).all(|(one, other)| one == other),
        _ => one == other,
    }
}

/// Takes out the element called `name`; the `Lsn` that it had.
pub(crate) fn remove(layout: Layout, buffer: &mut impl Buffer, name: &[u8]) -> Option<Lsn> {
    let (range, lsn) = find(layout, buffer.bytes(), name).map(|item| (item.range(), item.lsn()))?;
    buffer.remove(range, 1);
    Some(lsn)
}

/// The element at `index`.
pub(crate) fn nth(layout: Layout, bytes: &[u8], index: usize) -> Option<Item<'_>> {
    items(layout, bytes).nth(index)
}

/// Where the element at `index` begins; the end of `bytes` if there are only so many.
pub(crate) fn offset_of(layout: Layout, bytes: &[u8], index: usize) -> usize {
    nth(layout, bytes, index).map_or(bytes.len(), |item| item.at)
}

/// Elements from the back.
pub(crate) struct ItemsBack<'a> {
    bytes: &'a [u8],
    layout: Layout,
    /// Where the elements begin that are still to come.
    starts: SmallVec<[usize; 64]>,
}

/// The first `count` elements of `bytes`, the last of them first.
pub(crate) fn items_back(layout: Layout, bytes: &[u8], count: usize) -> ItemsBack<'_> {
    let starts = items(layout, bytes).take(count).map(|item| item.at).collect();
    ItemsBack { bytes, layout, starts }
}

impl<'a> Iterator for ItemsBack<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let at = self.starts.pop()?;
        Items { bytes: self.bytes, at, layout: self.layout }.next()
    }
}

/// Writes `parts` one behind the other over `into`. REQUIRES: the lengths agree.
pub(crate) fn fill(into: &mut [u8], parts: &[&[u8]]) {
    let mut at = 0;
    for part in parts {
        into[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
}

/// Reads a stored `Lsn` from the front of `bytes`.
#[inline]
pub(crate) fn lsn_at(bytes: &[u8]) -> Lsn {
    let mut wide = [0; 8];
    wide[..LSN_BYTES].copy_from_slice(&bytes[..LSN_BYTES]);
    Lsn(u64::from_le_bytes(wide))
}

/// The stored form of an `Lsn`.
#[inline]
pub(crate) fn lsn_bytes(lsn: Lsn) -> [u8; LSN_BYTES] {
    assert!(lsn.0 < 1 << 48, "an Lsn fits 48 bits");
    let wide = lsn.0.to_le_bytes();
    [wide[0], wide[1], wide[2], wide[3], wide[4], wide[5]]
}

/// A length in its stored form: 7 bits a byte, low bits first, the top bit set on all bytes but the last.
pub(crate) struct Varint {
    bytes: [u8; 5],
    len: usize,
}

impl Varint {
    #[inline]
    pub(crate) fn new(mut number: usize) -> Varint {
        let mut varint = Varint { bytes: [0; 5], len: 0 };
        loop {
            assert!(varint.len < 5, "lengths fit 35 bits");
            let low = (number & 0x7f) as u8;
            number >>= 7;
            varint.bytes[varint.len] = low | if number > 0 { 0x80 } else { 0 };
            varint.len += 1;
            if number == 0 {
                return varint;
            }
        }
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads a [`Varint`] that this process wrote: its value and where it ends.
#[inline]
pub(crate) fn varint_at(bytes: &[u8], at: usize) -> (usize, usize) {
    let first = bytes[at];
    if first < 0x80 {
        return (usize::from(first), at + 1);
    }
    let mut number = usize::from(first & 0x7f);
    let mut end = at + 1;
    let mut shift = 7;
    loop {
        let byte = bytes[end];
        end += 1;
        number |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (number, end);
        }
        shift += 7;
    }
}

/// Reads a length and as many bytes: the bytes and where they end.
#[inline]
fn run_at(bytes: &[u8], at: usize) -> (&[u8], usize) {
    let (len, at) = varint_at(bytes, at);
    (&bytes[at..at + len], at + len)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_the_same_if_all_their_bytes_are(one in vec(any::<u8>(), 0..40), at: usize, to: u8) {
            let mut other = one.clone();
            prop_assert!(is_same(&one, &other));
            if !one.is_empty() {
                other[at % one.len()] = to;
                prop_assert_eq!(is_same(&one, &other), one == other);
                prop_assert!(!is_same(&one, &one[1..]) && !is_same(&one, &one[..one.len() - 1]));
            }
        }
    }
}
