//! The bytes of a leaf: its elements, and room for more at the two ends of a collection.
//!
//! ```text
//!   lists          [room in front 2][behind 2][mark 2][elements before it 2][room][elements][room]
//!   streams        the same, and in front of the room   [origin 6][bytes of an Lsn 1][0 1]
//!   other orders   [elements]
//! ```
//!
//! Elements of a list or a stream come and go at its ends as a rule, so the first leaf may have room in
//! front, and the last one behind. A change that fits there is made in place if nobody else has the leaf, and
//! elements that are taken away leave room. Else a new leaf is made.
//!
//! To find an element, all before it have to be passed. The mark is a place between two elements, and how
//! many stand before it: a search for one of the last need not begin at the front. An append puts it before
//! the new element, and a pop at the back near the end.
//!
//! The elements of a stream that stand together came one soon after the other, as a rule. So a leaf has their
//! `Lsn`s as distances from its origin, all in as few bytes as the longest needs, but for [`WIDTH_MIN`]. One
//! that does not fit has the leaf laid out again.
//!
//! Invariants: a leaf has room only at an end of its tree, and at most as much as it has elements, or about
//! [`GROWN_BYTES_MIN`]; a leaf that is parted, joined or built has none. The front is a mark, too.

use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::Arc;

use super::Order;
use crate::record::Lsn;
use crate::value::left::{self, ARC_BYTES};
use crate::value::packed::{self, Item, Items, LSN_BYTES, Layout, width_of};

/// Bytes in front of all else in a leaf that may have room.
pub(crate) const ROOM_HEAD_BYTES: usize = 8;
/// The same, of one that says how it has `Lsn`s, too.
pub(crate) const NARROW_HEAD_BYTES: usize = 16;
/// Bytes of an `Lsn` in such a leaf, at least: what comes next is hardly less far.
const WIDTH_MIN: usize = 2;
/// A leaf that is laid out again has room for `Lsn`s so many times as far as its own.
const FARTHER: u64 = 4;
/// Bytes of the allocation of a leaf that grows, at least.
pub(super) const GROWN_BYTES_MIN: usize = 128;

/// Elements that stand between the mark and the end, at most, after a pop at the back.
const MARKED: usize = 8;

/// The bytes that a new leaf begins with, where they are not more.
static ZEROS: [u8; 2048] = [0; 2048];

/// Whether a node is the first, and the last, of its level.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    pub(super) first: bool,
    pub(super) last: bool,
}

/// A place between two elements, or at an end. The default is the front, which is always one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    /// Bytes of the elements in front of it.
    pub(super) at: usize,
    /// How many they are.
    pub(super) count: usize,
}

/// The bytes in front of the elements, by use; all is 0 in a leaf that never has room.
#[derive(Clone, Copy, Default)]
struct Head {
    /// Bytes not used in front of the elements.
    front: usize,
    /// Bytes not used behind them.
    back: usize,
    /// From where one of the last elements is found.
    mark: Mark,
}

impl Head {
    #[inline]
    fn of<O: Order>(bytes: &[u8]) -> Head {
        match bytes.first_chunk::<ROOM_HEAD_BYTES>() {
            Some(&[front, front_high, back, back_high, at, at_high, count, count_high]) if O::ROOM => {
                let number = |low: u8, high: u8| usize::from(u16::from_le_bytes([low, high]));
                Head {
                    front: number(front, front_high),
                    back: number(back, back_high),
                    mark: Mark { at: number(at, at_high), count: number(count, count_high) },
                }
            }
            _ => Head::default(),
        }
    }

    fn write(self, bytes: &mut [u8]) {
        debug_assert!(self.front.max(self.back) <= usize::from(u16::MAX), "room is less than a leaf");
        let number = |number: usize| u16::try_from(number).unwrap_or_default().to_le_bytes();
        // A mark that is so far behind is not noted.
        let is_near = self.mark.at.max(self.mark.count) <= usize::from(u16::MAX);
        let mark = if is_near { self.mark } else { Mark::default() };
        let (front, back) = (number(self.front), number(self.back));
        packed::fill(&mut bytes[..ROOM_HEAD_BYTES], &[&front, &back, &number(mark.at), &number(mark.count)]);
    }
}

/// The bytes of a leaf, which clones of its tree share. It dereferences to its elements.
pub(crate) struct LeafBytes<O: Order> {
    bytes: Arc<[u8]>,
    order: PhantomData<O>,
}

impl<O: Order> Clone for LeafBytes<O> {
    fn clone(&self) -> Self {
        LeafBytes::of(Arc::clone(&self.bytes))
    }
}

impl<O: Order> Deref for LeafBytes<O> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        let head = Head::of::<O>(&self.bytes);
        &self.bytes[Self::HEAD_BYTES + head.front..self.bytes.len() - head.back]
    }
}

impl<O: Order> LeafBytes<O> {
    /// Whether a leaf says how it has `Lsn`s.
    pub(super) const NARROW: bool = O::ROOM && O::LAYOUT.width() > 0;
    /// Bytes in front of the room and the elements.
    const HEAD_BYTES: usize = match O::ROOM {
        true if Self::NARROW => NARROW_HEAD_BYTES,
        true => ROOM_HEAD_BYTES,
        false => 0,
    };

    fn of(bytes: Arc<[u8]>) -> Self {
        const { assert!(O::LEAF_BYTES_MAX <= u16::MAX as usize, "the head can say how much room there is") };
        LeafBytes { bytes, order: PhantomData }
    }

    /// The leaf of these elements, without room. REQUIRES: they are laid out so, and where leaves do not
    /// say how, as the order says.
    pub(crate) fn exact(layout: Layout, elements: &[u8]) -> Self {
        if !O::ROOM {
            return LeafBytes::of(Arc::from(elements));
        }
        let mut bytes = zeroed(Self::HEAD_BYTES + elements.len());
        let whole = fresh(&mut bytes);
        Self::write_layout(whole, layout);
        whole[Self::HEAD_BYTES..].copy_from_slice(elements);
        LeafBytes::of(bytes)
    }

    /// The leaf of these elements, without room, where their `Lsn`s take as few bytes as can be.
    pub(super) fn narrow(layout: Layout, elements: &[u8]) -> Self {
        if !Self::NARROW {
            return LeafBytes::exact(layout, elements);
        }
        let lsns = packed::items(layout, elements).map(|item| item.lsn());
        let (oldest, newest) = (lsns.clone().min().unwrap_or_default(), lsns.max().unwrap_or_default());
        let narrow = O::LAYOUT.narrow(Self::width(newest.0 - oldest.0), oldest);
        LeafBytes::exact(narrow, &packed::recode(layout, elements, narrow))
    }

    /// Bytes of an `Lsn` in a leaf of which the oldest and the newest are so far apart.
    pub(super) fn width(distance: u64) -> usize {
        if Self::NARROW { width_of(distance).clamp(WIDTH_MIN, LSN_BYTES) } else { O::LAYOUT.width() }
    }

    /// The leaf of the elements of two, the other's behind its own, without room.
    pub(super) fn joined(&self, other: &Self) -> Self {
        let layout = self.layout();
        if layout == other.layout() {
            return LeafBytes::exact(layout, &[&self[..], &other[..]].concat());
        }
        let wide = |leaf: &Self| packed::recode(leaf.layout(), leaf, O::LAYOUT);
        LeafBytes::narrow(O::LAYOUT, &[wide(self), wide(other)].concat())
    }

    /// How the elements are laid out.
    #[inline]
    pub(crate) fn layout(&self) -> Layout {
        match self.bytes.get(ROOM_HEAD_BYTES..NARROW_HEAD_BYTES) {
            Some(head) if Self::NARROW => {
                O::LAYOUT.narrow(usize::from(head[LSN_BYTES]), packed::lsn_at(head))
            }
            _ => O::LAYOUT,
        }
    }

    fn write_layout(bytes: &mut [u8], layout: Layout) {
        if Self::NARROW {
            let width = [layout.width() as u8, 0];
            let origin = packed::lsn_bytes(layout.origin);
            packed::fill(&mut bytes[ROOM_HEAD_BYTES..NARROW_HEAD_BYTES], &[&origin, &width]);
        }
    }

    /// The elements.
    #[inline]
    pub(crate) fn items(&self) -> Items<'_> {
        packed::items(self.layout(), self)
    }

    /// How the elements are laid out, after they were laid out again if an element with this `Lsn` would not
    /// have fitted in.
    #[inline]
    pub(super) fn admit(&mut self, lsn: Lsn) -> Layout {
        let layout = self.layout();
        if layout.holds(lsn) && !(Self::NARROW && self.is_empty()) { layout } else { self.widen(lsn) }
    }

    #[cold]
    fn widen(&mut self, lsn: Lsn) -> Layout {
        let (layout, mark) = (self.layout(), self.mark());
        let lsns = || self.items().map(|item| item.lsn()).chain([lsn]);
        let (oldest, newest) = (lsns().min().unwrap_or_default(), lsns().max().unwrap_or_default());
        let width = Self::width((newest.0 - oldest.0).saturating_mul(FARTHER));
        let wider = O::LAYOUT.narrow(width, oldest);
        left::note(&self.bytes);
        *self = LeafBytes::exact(wider, &packed::recode(layout, self, wider));
        let at = mark.at + mark.count * width - mark.count * layout.width();
        Head { mark: Mark { at, count: mark.count }, ..Head::default() }.write(fresh(&mut self.bytes));
        wider
    }

    /// Bytes of memory, with room.
    pub(crate) fn bytes(&self) -> usize {
        ARC_BYTES + self.bytes.len()
    }

    /// Bytes of memory that it had without room.
    pub(crate) fn bytes_exact(&self) -> usize {
        ARC_BYTES + Self::HEAD_BYTES + self.len()
    }

    /// Whether somebody else has it, too.
    pub(super) fn is_shared(&self) -> bool {
        Arc::strong_count(&self.bytes) > 1
    }

    /// Bytes of room, in front and behind.
    #[cfg(test)]
    pub(crate) fn room(&self) -> (usize, usize) {
        let head = Head::of::<O>(&self.bytes);
        (head.front, head.back)
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn address(&self) -> usize {
        self.bytes.as_ptr().addr()
    }

    /// Notes what a write that takes this out of a tree leaves to its clones.
    pub(crate) fn note_left(&self) {
        left::note(&self.bytes);
    }

    /// The mark.
    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Head::of::<O>(&self.bytes).mark
    }

    /// Where an element begins from which the last one is not far, if the mark is in front of one.
    #[inline]
    pub(super) fn near_last(&self) -> usize {
        let mark = self.mark();
        if mark.at < self.len() { mark.at } else { 0 }
    }

    /// The element at `index`.
    #[inline]
    pub(crate) fn nth(&self, index: usize) -> Option<Item<'_>> {
        let mark = self.mark_up_to(index);
        Items { bytes: self, at: mark.at, layout: self.layout() }.nth(index - mark.count)
    }

    /// The mark, or the front, where no more than so many elements stand before it.
    #[inline]
    fn mark_up_to(&self, count: usize) -> Mark {
        let mark = self.mark();
        if mark.count <= count { mark } else { Mark::default() }
    }

    /// Takes away all elements but the first `stays`, from the last leaf of a tree. REQUIRES: there are so
    /// many.
    pub(super) fn cut_behind(&mut self, stays: usize) {
        let mut mark = self.mark_up_to(stays);
        let behind = stays - mark.count;
        if behind > MARKED {
            let at = packed::passed(self.layout(), self, mark.at, behind - MARKED);
            mark = Mark { at, count: stays - MARKED };
        }
        let end = packed::passed(self.layout(), self, mark.at, stays - mark.count);
        self.splice(end..self.len(), &[], Edges { first: false, last: true }, Some(mark));
    }

    /// Puts `parts` in the place of the elements' bytes at `at`; the mark is where the caller says, if so.
    /// A leaf that others have too stays as it is, and this becomes another one.
    pub(super) fn splice(&mut self, at: Range<usize>, parts: &[&[u8]], edges: Edges, mark: Option<Mark>) {
        left::note(&self.bytes);
        let added: usize = parts.iter().map(|part| part.len()).sum();
        if added == at.len() && Arc::strong_count(&self.bytes) > 1 {
            // All else stays where it is in the leaf, so it may as well be copied as it is.
            Arc::make_mut(&mut self.bytes);
        }
        let mark = mark.unwrap_or_else(|| self.mark_after(&at));
        if !self.splice_in_place(&at, parts, added, edges, mark) {
            *self = self.spliced(&at, parts, added, edges, mark);
        }
    }

    /// A mark after any change there.
    fn mark_after(&self, at: &Range<usize>) -> Mark {
        let mark = self.mark();
        if mark.at <= at.start { mark } else { Mark::default() }
    }

    /// The change in the memory that there is; `false`, and nothing has changed, if it does not fit, if
    /// another has the leaf, or if more room would be left than may be.
    fn splice_in_place(
        &mut self,
        at: &Range<usize>,
        parts: &[&[u8]],
        added: usize,
        edges: Edges,
        mark: Mark,
    ) -> bool {
        if !O::ROOM && added != at.len() {
            return false;
        }
        let Some(bytes) = Arc::get_mut(&mut self.bytes) else { return false };
        let head = Head::of::<O>(bytes);
        let (start, end) = (Self::HEAD_BYTES + head.front, bytes.len() - head.back);
        let (before, behind) = (at.start, end - start - at.end);
        let len = before + added + behind;
        let Some(room) = (bytes.len() - Self::HEAD_BYTES).checked_sub(len) else { return false };
        // The room in front if what stands before the change moves, and that behind if the rest does.
        let (front, back) = match added.checked_sub(at.len()) {
            Some(more) => (head.front.checked_sub(more), head.back.checked_sub(more)),
            None if room <= len.min(O::LEAF_BYTES_MAX) => {
                let less = at.len() - added;
                (edges.first.then_some(head.front + less), edges.last.then_some(head.back + less))
            }
            None => (None, None),
        };
        let (to, head) = match (front, back) {
            _ if added == at.len() => (start + before, Head { mark, ..head }),
            (Some(front), back) if back.is_none() || before <= behind => {
                let to = Self::HEAD_BYTES + front;
                bytes.copy_within(start..start + before, to);
                (to + before, Head { front, mark, ..head })
            }
            (_, Some(back)) => {
                bytes.copy_within(start + at.end..end, start + before + added);
                (start + before, Head { back, mark, ..head })
            }
            _ => return false,
        };
        packed::fill(&mut bytes[to..to + added], parts);
        if O::ROOM {
            head.write(bytes);
        }
        true
    }

    /// The leaf with the change, with room at the end where it has grown.
    fn spliced(&self, at: &Range<usize>, parts: &[&[u8]], added: usize, edges: Edges, mark: Mark) -> Self {
        let old: &[u8] = self;
        if !O::ROOM && added == 0 && (at.start == 0 || at.end == old.len()) {
            // What is left stands in one piece.
            let left = if at.start == 0 { at.end..old.len() } else { 0..at.start };
            return LeafBytes::exact(O::LAYOUT, &old[left]);
        }
        let len = old.len() - at.len() + added;
        let room = if added > at.len() { Self::room_for(len) } else { 0 };
        let back = if edges.last && at.end == old.len() { room } else { 0 };
        let front = if edges.first && at.start == 0 && back == 0 { room } else { 0 };
        let start = Self::HEAD_BYTES + front;
        let mut bytes = zeroed(start + len + back);
        let whole = fresh(&mut bytes);
        if O::ROOM {
            Head { front, back, mark }.write(whole);
            Self::write_layout(whole, self.layout());
        }
        let (before, behind) = whole[start..start + len].split_at_mut(at.start + added);
        before[..at.start].copy_from_slice(&old[..at.start]);
        packed::fill(&mut before[at.start..], parts);
        behind.copy_from_slice(&old[at.end..]);
        LeafBytes::of(bytes)
    }

    /// Bytes of room that a leaf gets when it has grown to so many bytes of elements: a fifth to a half of
    /// what it takes without room, so that the whole is a size of the allocator, and not above a full leaf.
    fn room_for(len: usize) -> usize {
        if !O::ROOM {
            return 0;
        }
        let needed = ARC_BYTES + Self::HEAD_BYTES + len;
        let full = ARC_BYTES + Self::HEAD_BYTES + O::LEAF_BYTES_MAX;
        size_within((needed + needed / 2).max(GROWN_BYTES_MIN)).min(full).saturating_sub(needed)
    }
}

/// The largest size of an allocation up to `bytes`, where sizes are four between a power of two and the next.
/// REQUIRES: at least 4.
fn size_within(bytes: usize) -> usize {
    let step = (1usize << bytes.ilog2()) / 4;
    bytes - bytes % step
}

/// So many zeros.
fn zeroed(len: usize) -> Arc<[u8]> {
    match ZEROS.get(..len) {
        Some(zeros) => Arc::from(zeros),
        None => std::iter::repeat_n(0, len).collect(),
    }
}

fn fresh(bytes: &mut Arc<[u8]>) -> &mut [u8] {
    Arc::get_mut(bytes).expect("nobody shares what was just made")
}
