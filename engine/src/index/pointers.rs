//! The pointers of an index: the current ones in order, and the removed ones that a view can still see.
//!
//! Invariants:
//! - a value and a key are in force at most once; what was removed was inserted before;
//! - of a value and a key at most one pointer is seen at any cut.

use super::value::IndexValue;
use crate::record::Lsn;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Where a pointer stands among those of its value. Only those at their key are stored; the others say where
/// the value begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Edge {
    /// Before all keys.
    Begin,
    /// At its key.
    Key,
    /// Behind all keys.
    End,
}

/// From a value to a key that has it. In the order of values, then of keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Pointer {
    /// The first bytes of the value, so that most comparisons look at nothing else.
    head: u64,
    /// The value, and behind it the key.
    bytes: Box<[u8]>,
    value_len: u32,
    edge: Edge,
}

/// Bytes of a pointer beside those of its value and key, about: its slot in a node that is two thirds full,
/// and what the allocator adds.
const POINTER_BYTES: usize = (size_of::<Pointer>() + size_of::<Lsn>()) * 3 / 2 + 16;
/// Pointers that are looked at in one go, at most, whether they are seen or not.
const LOOKS_MAX: usize = 1024;

impl Pointer {
    pub(super) fn new(value: &IndexValue, key: &[u8]) -> Pointer {
        Pointer::at(value, key, Edge::Key)
    }

    /// A place before or behind all keys of a value.
    pub(super) fn edge(value: &IndexValue, edge: Edge) -> Pointer {
        Pointer::at(value, &[], edge)
    }

    fn at(value: &IndexValue, key: &[u8], edge: Edge) -> Pointer {
        let value = value.as_bytes();
        let mut head = [0; 8];
        let len = value.len().min(8);
        head[..len].copy_from_slice(&value[..len]);
        let value_len = u32::try_from(value.len()).expect("values are cut long before");
        Pointer { head: u64::from_be_bytes(head), bytes: [value, key].concat().into(), value_len, edge }
    }

    /// The value, as bytes in its order.
    pub fn value_bytes(&self) -> &[u8] {
        &self.bytes[..self.value_len as usize]
    }

    /// The value.
    pub fn value(&self) -> IndexValue {
        IndexValue::of_bytes(self.value_bytes())
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[self.value_len as usize..]
    }

    fn memory(&self) -> usize {
        self.bytes.len() + POINTER_BYTES
    }
}

impl Ord for Pointer {
    fn cmp(&self, other: &Pointer) -> Ordering {
        // Heads are filled up with zeros, so those of a value and of one that it begins with may be equal,
        // but never in the wrong order.
        self.head.cmp(&other.head).then_with(|| {
            let here = (self.value_bytes(), self.edge, self.key());
            here.cmp(&(other.value_bytes(), other.edge, other.key()))
        })
    }
}

impl PartialOrd for Pointer {
    fn partial_cmp(&self, other: &Pointer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Debug for Pointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} -> {}", self.value(), self.key().escape_ascii())
    }
}

/// A view as an index knows it.
#[derive(Clone, Copy, Debug)]
struct Reader {
    bit: u8,
    /// `None`: it is being opened, and may come to see anything.
    cut: Option<Lsn>,
}

/// How many pointers were removed and are kept, or are kept no more, with their bytes.
pub(super) type Kept = crate::table::Retained;

/// Pointers of which nobody needs any: to be dropped without the lock.
#[derive(Default)]
pub(super) struct Purged {
    pub(super) kept: Kept,
    removed: Vec<Pointer>,
    all: BTreeMap<(Pointer, Lsn), Lsn>,
}

/// Some pointers that a scan sees.
pub(super) struct Batch {
    pub(super) seen: Vec<Pointer>,
    /// The last that was looked at; `None` if there is no other behind it.
    pub(super) last: Option<Pointer>,
}

/// All pointers of an index, and the views that read it. What its lock protects.
#[derive(Default)]
pub(super) struct Pointers {
    /// Those in force, with the `Lsn` of the write that inserted each; zero if it was there before.
    live: BTreeMap<Pointer, Lsn>,
    /// Those that were removed, each with when it was inserted: with when it was removed.
    removed: BTreeMap<(Pointer, Lsn), Lsn>,
    readers: Vec<Reader>,
    live_bytes: usize,
    removed_bytes: usize,
}

impl Pointers {
    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// How many were removed and are kept.
    pub(super) fn removed(&self) -> usize {
        self.removed.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.live_bytes + self.removed_bytes
    }

    pub(super) fn first(&self) -> Option<&Pointer> {
        self.live.first_key_value().map(|(pointer, _)| pointer)
    }

    pub(super) fn last(&self) -> Option<&Pointer> {
        self.live.last_key_value().map(|(pointer, _)| pointer)
    }

    /// Puts a pointer in force, if it is not.
    pub(super) fn insert(&mut self, pointer: Pointer, lsn: Lsn) {
        let memory = pointer.memory();
        self.live.entry(pointer).or_insert_with(|| {
            self.live_bytes += memory;
            lsn
        });
    }

    /// Takes a pointer out of force, if it is, and keeps it if a view sees it. Returns what is kept.
    pub(super) fn remove(&mut self, pointer: &Pointer, lsn: Lsn) -> Kept {
        let mut kept = Kept::default();
        let Some((pointer, inserted)) = self.live.remove_entry(pointer) else { return kept };
        let memory = pointer.memory();
        self.live_bytes -= memory;
        if self.is_seen(inserted, lsn) {
            self.removed_bytes += memory;
            kept.add(memory);
            self.removed.insert((pointer, inserted), lsn);
        }
        kept
    }

    /// Whether a view sees, or may come to see, what was there from `inserted` until `removed`.
    fn is_seen(&self, inserted: Lsn, removed: Lsn) -> bool {
        let sees = |cut: Lsn| inserted <= cut && cut < removed;
        self.readers.iter().any(|reader| reader.cut.is_none_or(sees))
    }

    /// A view is being opened: nothing that is removed from now on is lost to it.
    pub(super) fn begin(&mut self, bit: u8) {
        debug_assert!(self.readers.iter().all(|reader| reader.bit != bit), "a bit has one view");
        self.readers.push(Reader { bit, cut: None });
    }

    /// It has got its cut.
    pub(super) fn settle(&mut self, bit: u8, cut: Lsn) {
        let reader = self.readers.iter_mut().find(|reader| reader.bit == bit);
        reader.expect("the view is being opened").cut = Some(cut);
    }

    /// It needs nothing any more.
    pub(super) fn end(&mut self, bit: u8) {
        self.readers.retain(|reader| reader.bit != bit);
    }

    /// Takes out pointers that were removed and that no view sees, from behind `from` on: looks at some.
    /// Returns where to go on; `None` at the end.
    pub(super) fn purge(
        &mut self,
        from: Option<(Pointer, Lsn)>,
        purged: &mut Purged,
    ) -> Option<(Pointer, Lsn)> {
        if self.readers.is_empty() {
            purged.kept.records += self.removed.len();
            purged.kept.bytes += std::mem::take(&mut self.removed_bytes);
            purged.all = std::mem::take(&mut self.removed);
            return None;
        }
        let lower = from.map_or(Bound::Unbounded, Bound::Excluded);
        let mut looked = self.removed.range((lower, Bound::Unbounded)).take(LOOKS_MAX);
        let (mut unseen, mut last, mut looks) = (Vec::new(), None, 0);
        for (removed @ (_, inserted), until) in looked.by_ref() {
            looks += 1;
            last = Some(removed);
            if !self.is_seen(*inserted, *until) {
                unseen.push(removed.clone());
            }
        }
        let next = last.filter(|_| looks == LOOKS_MAX).cloned();
        for key in unseen {
            let ((pointer, _), _) = self.removed.remove_entry(&key).expect("it was just there");
            self.removed_bytes -= pointer.memory();
            purged.kept.add(pointer.memory());
            purged.removed.push(pointer);
        }
        next
    }

    /// The pointers that are seen at `cut` between these bounds, from the lower one on, or from the upper one
    /// backwards: `most` of them, or fewer if many others are between them.
    pub(super) fn seen_at(
        &self,
        cut: Lsn,
        (lower, upper): (&Bound<Pointer>, &Bound<Pointer>),
        is_backward: bool,
        most: usize,
    ) -> Batch {
        if is_empty(lower, upper) {
            return Batch { seen: Vec::new(), last: None };
        }
        let bounds = (lower.as_ref(), upper.as_ref());
        let live = self.live.range::<Pointer, _>(bounds).map(|(at, from)| (at, *from, Lsn(u64::MAX)));
        let of_removed = (
            lower.clone().map(|at| if is_excluded(lower) { (at, Lsn(u64::MAX)) } else { (at, Lsn::ZERO) }),
            upper.clone().map(|at| if is_excluded(upper) { (at, Lsn::ZERO) } else { (at, Lsn(u64::MAX)) }),
        );
        let removed = self.removed.range(of_removed).map(|((at, from), until)| (at, *from, *until));
        match is_backward {
            false => gather(merge(live, removed, Ordering::is_le), cut, most),
            true => gather(merge(live.rev(), removed.rev(), Ordering::is_ge), cut, most),
        }
    }

    /// How many are in force between these bounds, `most` at most, and the last of them; `None` if it is the
    /// last.
    pub(super) fn count(
        &self,
        (lower, upper): (&Bound<Pointer>, &Bound<Pointer>),
        most: usize,
    ) -> (usize, Option<Pointer>) {
        if is_empty(lower, upper) {
            return (0, None);
        }
        let mut live = self.live.range::<Pointer, _>((lower.as_ref(), upper.as_ref()));
        let mut last = None;
        let count =
            live.by_ref().take(most.min(LOOKS_MAX)).inspect(|(pointer, _)| last = Some(*pointer)).count();
        (count, live.next().and(last).cloned())
    }

    /// Checks the invariants; for tests.
    pub(super) fn assert_invariants(&self) {
        let bytes =
            |pointers: &mut dyn Iterator<Item = &Pointer>| pointers.map(Pointer::memory).sum::<usize>();
        assert_eq!(bytes(&mut self.live.keys()), self.live_bytes);
        assert_eq!(bytes(&mut self.removed.keys().map(|(pointer, _)| pointer)), self.removed_bytes);
        for ((pointer, inserted), until) in &self.removed {
            assert!(inserted < until, "{pointer:?} was inserted before it was removed");
            let next =
                self.removed.range((Bound::Excluded((pointer.clone(), *inserted)), Bound::Unbounded)).next();
            if let Some(((other, since), _)) = next
                && other == pointer
            {
                assert!(until <= since, "{pointer:?} is seen once");
            }
            assert!(self.live.get(pointer).is_none_or(|since| until <= since), "{pointer:?} is seen once");
        }
        assert!(self.removed.is_empty() || !self.readers.is_empty(), "nothing is kept for nobody");
    }
}

/// A pointer, since when it is there, and until when.
type Span<'a> = (&'a Pointer, Lsn, Lsn);

/// Both in order: the first of one comes before that of the other if `is_first` says so.
fn merge<'a>(
    live: impl Iterator<Item = Span<'a>>,
    removed: impl Iterator<Item = Span<'a>>,
    is_first: impl Fn(Ordering) -> bool,
) -> impl Iterator<Item = Span<'a>> {
    let (mut live, mut removed) = (live.peekable(), removed.peekable());
    std::iter::from_fn(move || match (live.peek(), removed.peek()) {
        (Some((of_live, ..)), Some((of_removed, ..))) if !is_first(of_live.cmp(of_removed)) => removed.next(),
        (None, _) => removed.next(),
        _ => live.next(),
    })
}

fn gather<'a>(spans: impl Iterator<Item = Span<'a>>, cut: Lsn, most: usize) -> Batch {
    let mut seen = Vec::with_capacity(most.min(LOOKS_MAX));
    let (mut last, mut has_more) = (None, false);
    for (looks, (pointer, inserted, until)) in spans.enumerate() {
        // Never between two of one value and key, as the second may be the one that is seen.
        if seen.len() == most || looks >= LOOKS_MAX && last != Some(pointer) {
            has_more = true;
            break;
        }
        last = Some(pointer);
        if inserted <= cut && cut < until {
            seen.push(pointer);
        }
    }
    // Their bytes come into the processor's cache side by side.
    let first = |pointer: &&Pointer| pointer.bytes.first().map_or(0, |byte| usize::from(*byte));
    std::hint::black_box(seen.iter().map(first).sum::<usize>());
    Batch { seen: seen.into_iter().cloned().collect(), last: last.filter(|_| has_more).cloned() }
}

fn is_excluded(bound: &Bound<Pointer>) -> bool {
    matches!(bound, Bound::Excluded(_))
}

/// Whether nothing can be between the bounds. Those that are included are edges, where no pointer stands.
fn is_empty(lower: &Bound<Pointer>, upper: &Bound<Pointer>) -> bool {
    use Bound::{Excluded, Included};
    match (lower, upper) {
        (Included(lower) | Excluded(lower), Included(upper) | Excluded(upper)) => lower >= upper,
        _ => false,
    }
}
