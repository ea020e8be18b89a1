//! Packed elements, one after the other in a run of bytes: the form of small collections and of leaves of
//! large ones.
//!
//! ```text
//! element:  [fixed prefix][varint length][name] and, in a hash, [varint length][value]
//! prefix:   list: none   set, hash: Lsn   sorted set: Lsn, score, 8 bytes   its order: score
//! ```
//!
//! An `Lsn` has 6 bytes in leaves. In a small collection all have the same number of bytes, 0 to 6, and are
//! counted from an *origin*: see `block.rs`. So have those in a leaf of a stream: see `tree/leaf.rs`.
//!
//! All integers are little-endian. The functions are generic over [`Buffer`], so that they work on the
//! payload of an entry's block and on a leaf alike.

use std::ops::Range;

use smallvec::SmallVec;

use crate::record::{Kind, Lsn};

/// Bytes of a stored `Lsn`.
pub(crate) const LSN_BYTES: usize = 6;

/// Bytes of a score.
pub(crate) const SCORE_BYTES: usize = 8;

/// How the elements of one kind of collection are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes in front of the name: those of an `Lsn`, fewer than 8, and of a score.
    pub(crate) prefix: usize,
    /// Whether a value follows the name.
    pub(crate) pair: bool,
    /// Where `Lsn`s are counted from.
    pub(crate) origin: Lsn,
}

impl Layout {
    /// With whole `Lsn`s.
    pub(crate) const fn wide(prefix: usize, pair: bool) -> Layout {
        Layout { prefix, pair, origin: Lsn::ZERO }
    }

    /// As this, with `Lsn`s of so many bytes, counted from `origin`.
    #[inline]
    pub(crate) const fn narrow(self, width: usize, origin: Lsn) -> Layout {
        Layout { prefix: self.prefix - self.width() + width, pair: self.pair, origin }
    }

    /// Bytes of an `Lsn`.
    #[inline]
    pub(crate) const fn width(self) -> usize {
        self.prefix % SCORE_BYTES
    }

    /// Whether an element with this `Lsn` can be laid out so.
    #[inline]
    pub(crate) fn holds(self, lsn: Lsn) -> bool {
        lsn.0.checked_sub(self.origin.0).is_some_and(|distance| distance >> (8 * self.width()) == 0)
    }

    /// The stored form of an `Lsn` in this layout. REQUIRES: it holds it.
    #[inline]
    pub(crate) fn lsn_bytes(self, lsn: Lsn) -> LsnBytes {
        assert!(self.holds(lsn), "the layout was chosen for the Lsn");
        LsnBytes { bytes: (lsn.0 - self.origin.0).to_le_bytes(), width: self.width() }
    }

    /// The `Lsn` that these bytes of an element begin with.
    #[inline]
    pub(crate) fn lsn_in(self, element: &[u8]) -> Lsn {
        let distance = match element.first_chunk() {
            Some(front) => u64::from_le_bytes(*front) & ((1 << (8 * self.width())) - 1),
            None => element[..self.width()].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)),
        };
        Lsn(self.origin.0 + distance)
    }
}

/// The stored form of an `Lsn`.
pub(crate) struct LsnBytes {
    bytes: [u8; 8],
    width: usize,
}

impl LsnBytes {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.width]
    }
}

/// Bytes that the distance between two `Lsn`s needs.
pub(crate) const fn width_of(distance: u64) -> usize {
    (u64::BITS - distance.leading_zeros()).div_ceil(8) as usize
}

/// Elements of a list.
pub(crate) const LIST: Layout = Layout::wide(0, false);
/// Members of a set.
pub(crate) const SET: Layout = Layout::wide(LSN_BYTES, false);
/// Fields of a hash.
pub(crate) const HASH: Layout = Layout::wide(LSN_BYTES, true);
/// Members of a sorted set.
pub(crate) const ZSET: Layout = Layout::wide(LSN_BYTES + SCORE_BYTES, false);
/// Members of a large sorted set in the tree that keeps their order.
pub(crate) const RANKED: Layout = Layout::wide(SCORE_BYTES, false);

/// The layout of packed elements; that of a list for strings and documents, which have none.
#[inline]
pub(crate) const fn layout_of(kind: Kind) -> Layout {
    match kind {
        Kind::String | Kind::List | Kind::Json => LIST,
        Kind::Set => SET,
        Kind::ZSet => ZSET,
        Kind::Hash | Kind::Stream => HASH,
    }
}

/// Bytes that elements stand in, to be changed.
pub(crate) trait Buffer {
    fn bytes(&self) -> &[u8];
    /// Where an element begins from which the last one is not far, if that is known; else the front.
    fn near_last(&self) -> usize {
        0
    }
    /// How they stand there, where leaves have them as in `wide`.
    fn layout(&self, wide: Layout) -> Layout {
        wide
    }
    /// The same, after it was changed to one that holds an `Lsn` if it did not.
    fn admit(&mut self, wide: Layout, lsn: Lsn) -> Layout {
        debug_assert!(wide.holds(lsn), "an Lsn fits 48 bits");
        wide
    }
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
    /// Where its `Lsn` is counted from.
    origin: Lsn,
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

    /// Its newest record. REQUIRES: the layout has one.
    pub(crate) fn lsn(&self) -> Lsn {
        Layout { prefix: self.prefix.len(), pair: false, origin: self.origin }.lsn_in(self.whole)
    }

    /// Its bytes after the `Lsn`.
    pub(crate) fn behind_lsn(&self) -> &[u8] {
        &self.whole[self.prefix.len() % SCORE_BYTES..]
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
        let (whole, prefix) = (&self.bytes[at..end], &self.bytes[at..prefix_end]);
        Some(Item { at, end, whole, prefix, origin: self.layout.origin, name, value })
    }

    #[inline]
    fn nth(&mut self, count: usize) -> Option<Item<'a>> {
        self.at = passed(self.layout, self.bytes, self.at, count);
        self.next()
    }
}

/// Elements of a list that are passed at once where they are equally long.
const RUN: usize = 8;

/// Where the element begins that is `count` behind the one at `at`; the end of `bytes` if there are not so
/// many.
pub(crate) fn passed(layout: Layout, bytes: &[u8], mut at: usize, mut count: usize) -> usize {
    let is_plain = layout.prefix == 0 && !layout.pair;
    while count > 0 && at < bytes.len() {
        if is_plain && count >= RUN {
            // The length of each stands where the one before it would end if they were equal. So the
            // processor reads them side by side, not one after the other.
            let stride = usize::from(bytes[at]) + 1;
            let is_short = bytes[at] < 0x80 && at + RUN * stride <= bytes.len();
            if is_short && (1..RUN).all(|step| bytes[at + step * stride] == bytes[at]) {
                (at, count) = (at + RUN * stride, count - RUN);
                continue;
            }
        }
        let (len, start) = varint_at(bytes, at + layout.prefix);
        at = start + len;
        if layout.pair {
            let (len, start) = varint_at(bytes, at);
            at = start + len;
        }
        count -= 1;
    }
    at
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
pub(crate) fn remove(wide: Layout, buffer: &mut impl Buffer, name: &[u8]) -> Option<Lsn> {
    let layout = buffer.layout(wide);
    let (range, lsn) = find(layout, buffer.bytes(), name).map(|item| (item.range(), item.lsn()))?;
    buffer.remove(range, 1);
    Some(lsn)
}

/// Elements of one layout, laid out in another. REQUIRES: this one holds their `Lsn`s.
pub(crate) fn recode(from: Layout, bytes: &[u8], to: Layout) -> Vec<u8> {
    let more = items(from, bytes).count() * to.width();
    let mut recoded = Vec::with_capacity(bytes.len() + more);
    for item in items(from, bytes) {
        recoded.extend_from_slice(to.lsn_bytes(item.lsn()).as_slice());
        recoded.extend_from_slice(item.behind_lsn());
    }
    recoded
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

        #[test]
        fn the_nth_element_is_the_one_that_so_many_steps_lead_to(
            lens in vec(prop_oneof![20 => Just(3usize), 1 => 0..300usize], 0..80),
            from in 0..80usize,
            count in 0..90usize,
        ) {
            let mut bytes = Vec::new();
            for len in &lens {
                bytes.extend_from_slice(Varint::new(*len).as_slice());
                // As lengths look, so that one that is read at a wrong place leads astray.
                bytes.extend(std::iter::repeat_n(3, *len));
            }
            let mut one = items(LIST, &bytes);
            (0..from).for_each(|_| _ = one.next());
            let mut other = one.clone();
            let nth = one.nth(count).map(|item| item.at);
            let stepped = (0..=count).map(|_| other.next()).last().flatten().map(|item| item.at);
            prop_assert_eq!((nth, one.at), (stepped, other.at));
        }
    }
}
