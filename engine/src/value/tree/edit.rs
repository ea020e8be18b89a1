//! Changes a tree: one leaf changes, and the branches above it follow.
//!
//! On the way down, [`Arc::make_mut`] copies the branches that a clone of the tree still holds; `leaf` says
//! which leaves are written in place. On the way up, a leaf or branch that grew too large is parted, and one
//! that shrank is joined with a neighbour if both together are well below the limit.

use std::ops::Range;
use std::sync::Arc;

use super::build::{Filler, group};
use super::leaf::{Edges, Mark};
use super::{Branch, Child, FANOUT, LEAF_COUNT_MAX, LeafBytes, Link, Order, Piece, Probe, Tree};
use crate::record::{Lsn, Side};
use crate::value::left;
use crate::value::packed::{self, Buffer, Layout};

/// Children below which a branch looks for a neighbour to join.
const FANOUT_MIN: usize = FANOUT / 4;
/// Children of two joined branches at most.
const FANOUT_JOINED: usize = FANOUT - FANOUT / 4;
/// Elements of two joined leaves at most.
const LEAF_COUNT_JOINED: usize = LEAF_COUNT_MAX / 2;

/// The elements of one leaf, to be changed.
pub(crate) struct Leaf<'a, O: Order> {
    bytes: &'a mut LeafBytes<O>,
    /// How many they are; only known where leaves have room.
    count: usize,
    /// Whether it is at an end of the tree.
    edges: Edges,
    /// Elements that came, less those that went.
    grown: isize,
    /// Where the last change was.
    touched: Range<usize>,
}

impl<'a, O: Order> Leaf<'a, O> {
    fn new(bytes: &'a mut LeafBytes<O>, count: usize, edges: Edges) -> Self {
        Leaf { bytes, count, edges, grown: 0, touched: 0..0 }
    }

    fn put(&mut self, at: Range<usize>, parts: &[&[u8]], mark: Option<Mark>) {
        let added: usize = parts.iter().map(|part| part.len()).sum();
        self.touched = at.start..at.start + added;
        self.bytes.splice(at, parts, self.edges, mark);
    }
}

impl<O: Order> Buffer for Leaf<'_, O> {
    fn bytes(&self) -> &[u8] {
        self.bytes
    }

    fn near_last(&self) -> usize {
        self.bytes.near_last()
    }

    fn layout(&self, _wide: Layout) -> Layout {
        self.bytes.layout()
    }

    fn admit(&mut self, _wide: Layout, lsn: Lsn) -> Layout {
        self.bytes.admit(lsn)
    }

    fn grow(&mut self, by: isize) {
        self.grown += by;
        self.count = self.count.wrapping_add_signed(by);
    }

    fn splice(&mut self, at: Range<usize>, parts: &[&[u8]]) {
        self.put(at, parts, None);
    }

    fn insert(&mut self, at: usize, parts: &[&[u8]]) {
        let mut mark = self.bytes.mark();
        if at == self.bytes.len() {
            mark = Mark { at, count: self.count };
        } else if at < mark.at {
            let added: usize = parts.iter().map(|part| part.len()).sum();
            mark = Mark { at: mark.at + added, count: mark.count + 1 };
        }
        self.put(at..at, parts, Some(mark));
        self.grow(1);
    }

    fn remove(&mut self, at: Range<usize>, count: usize) {
        let mark = self.bytes.mark();
        let before = Mark { at: mark.at.wrapping_sub(at.len()), count: mark.count.wrapping_sub(count) };
        let mark = (mark.at >= at.end).then_some(before);
        self.put(at, &[], mark);
        self.grow(-(count as isize));
    }
}

/// The result of an edit for a node.
enum Fate<O: Order> {
    /// It is within its limits.
    Fits,
    /// It shrank below its lower limit.
    Small,
    /// These stand in its place now; none if it is empty.
    Parted(Vec<Piece<O>>),
}

impl<O: Order> Tree<O> {
    /// Changes the leaf that a probe leads to.
    pub(crate) fn edit<P: Probe<O>, R>(
        &mut self,
        probe: &mut P,
        change: impl FnOnce(&mut Leaf<'_, O>, &P) -> R,
    ) -> R {
        let edges = Edges { first: true, last: true };
        let (result, _, fate) = edit_link(&mut self.root, &mut self.count, edges, probe, change);
        if let Fate::Parted(pieces) = fate {
            *self = Tree::of(pieces);
        }
        self.shorten();
        result
    }

    /// Takes `count` elements from an end; subtrees that go as a whole are left in `cut`. REQUIRES: there are
    /// more.
    pub(crate) fn trim(&mut self, side: Side, count: usize, cut: &mut Vec<Link<O>>) {
        assert!(count < self.count, "something is left of a trimmed tree");
        trim_link(&mut self.root, self.count, side, count, cut);
        self.count -= count;
        self.shorten();
    }

    /// Takes out the elements of a range, and leaves them in `cut`. REQUIRES: there are more.
    pub(crate) fn cut(&mut self, range: Range<usize>, cut: &mut Vec<Link<O>>) {
        assert!(range.len() < self.count, "something is left of a cut tree");
        self.count -= range.len();
        cut_link(&mut self.root, range, Edges { first: true, last: true }, cut);
        self.shorten();
    }

    /// Takes away roots with one child.
    fn shorten(&mut self) {
        while let Link::Branch(branch) = &self.root
            && let [child] = &branch.children[..]
        {
            self.root = child.link.clone();
        }
    }
}

/// Changes the leaf; `count` is what the parent knows, and is looked at only if it matters: its cache line
/// may be far.
fn edit_link<O: Order, P: Probe<O>, R>(
    link: &mut Link<O>,
    count: &mut usize,
    edges: Edges,
    probe: &mut P,
    change: impl FnOnce(&mut Leaf<'_, O>, &P) -> R,
) -> (R, isize, Fate<O>) {
    let branch = match link {
        Link::Leaf(bytes) => {
            let len = bytes.len();
            let known = if O::ROOM { *count } else { 0 };
            let mut leaf = Leaf::new(bytes, known, edges);
            let result = change(&mut leaf, probe);
            let grown = leaf.grown;
            add(count, grown);
            return (result, grown, leaf_fate(&leaf, count, len));
        }
        Link::Branch(branch) => {
            left::note(branch);
            Arc::make_mut(branch)
        }
    };
    let child = probe.pick(branch);
    let edges =
        Edges { first: edges.first && child == 0, last: edges.last && child + 1 == branch.children.len() };
    let (result, grown, fate) =
        edit_link(&mut branch.children[child].link, &mut branch.counts[child], edges, probe, change);
    add(count, grown);
    let fate = match fate {
        Fate::Fits => Fate::Fits,
        Fate::Small => branch.join_around(child),
        Fate::Parted(pieces) => branch.put(child, pieces, edges),
    };
    (result, grown, fate)
}

fn add(count: &mut usize, grown: isize) {
    if grown != 0 {
        *count = count.checked_add_signed(grown).expect("a count is not below 0");
    }
}

fn leaf_fate<O: Order>(leaf: &Leaf<'_, O>, count: &usize, len_before: usize) -> Fate<O> {
    let len = leaf.bytes.len();
    if len == 0 {
        return Fate::Parted(Vec::new());
    }
    let over = len > O::LEAF_BYTES_MAX || leaf.grown > 0 && *count > LEAF_COUNT_MAX;
    if over && *count > 1 {
        let pieces = part_at_end(leaf, *count).unwrap_or_else(|| part(leaf));
        // One piece is smaller where its `Lsn`s take fewer bytes than they did with a more distant one in
        // mind.
        let is_smaller = match &pieces[..] {
            [Piece { link: Link::Leaf(bytes), .. }] => bytes.len() < len,
            _ => true,
        };
        return if is_smaller { Fate::Parted(pieces) } else { Fate::Fits };
    }
    if len < len_before && len < O::LEAF_BYTES_MAX / 4 { Fate::Small } else { Fate::Fits }
}

/// The pieces of a leaf that a new element at an end of the tree made too large; `None` if none did. More
/// tend to come there, so the new element stands alone, and the full leaf stays full.
fn part_at_end<O: Order>(leaf: &Leaf<'_, O>, count: usize) -> Option<Vec<Piece<O>>> {
    if !O::SORTED || leaf.grown != 1 {
        return None;
    }
    let elements: &[u8] = leaf.bytes;
    let (at, left_count) = match leaf.touched {
        Range { start, end } if leaf.edges.last && end == elements.len() => (start, count - 1),
        Range { start: 0, end } if leaf.edges.first => (end, 1),
        _ => return None,
    };
    let ((left, right), layout) = (elements.split_at(at), leaf.bytes.layout());
    if left.len().max(right.len()) > O::LEAF_BYTES_MAX && count > 2 {
        // The new element had all others laid out again, or is too large for a leaf.
        return None;
    }
    let (last, next) = (packed::nth(layout, left, left_count - 1)?, packed::nth(layout, right, 0)?);
    let separator = O::separate(&last, &next)?;
    let piece = |separator: O::Separator, count: usize, elements: &[u8]| -> Piece<O> {
        // The one that stands alone begins a leaf.
        let leaf = if count == 1 { LeafBytes::narrow } else { LeafBytes::exact };
        Piece { separator, count, link: Link::Leaf(leaf(layout, elements)) }
    };
    Some(vec![piece(O::Separator::default(), left_count, left), piece(separator, count - left_count, right)])
}

/// Parts a leaf that is too large.
fn part<O: Order>(leaf: &Leaf<'_, O>) -> Vec<Piece<O>> {
    let edges = leaf.edges;
    let layout = leaf.bytes.layout();
    let items = O::arrange(layout, leaf.bytes);
    let total = leaf.bytes.len();
    // The same for an element that was put in the place of another at an end.
    let target = if O::SORTED && edges.last && leaf.touched.end == total {
        leaf.touched.start
    } else if O::SORTED && edges.first && leaf.touched.start == 0 {
        leaf.touched.end
    } else {
        total / 2
    };
    let mut filler = Filler::new(layout, target.min(O::LEAF_BYTES_MAX), O::LEAF_BYTES_MAX);
    items.into_iter().for_each(|item| filler.push(item));
    filler.finish()
}

impl<O: Order> Branch<O> {
    /// Puts `pieces` in the place of a child, which stood at these ends of the tree.
    fn put(&mut self, child: usize, pieces: Vec<Piece<O>>, edges: Edges) -> Fate<O> {
        let added = pieces.len();
        if self.children.len() - 1 + added > FANOUT {
            return Fate::Parted(self.part(child, pieces, edges));
        }
        let mut pieces = pieces.into_iter();
        let Some(first) = pieces.next() else {
            self.remove(child);
            return match self.children.len() {
                0 => Fate::Parted(Vec::new()),
                len if len < FANOUT_MIN => Fate::Small,
                _ => Fate::Fits,
            };
        };
        self.counts[child] = first.count;
        self.children[child].link = first.link;
        for (at, piece) in (child + 1..).zip(pieces) {
            self.children.insert(at, Child { separator: piece.separator, link: piece.link });
            self.counts.insert(at, piece.count);
        }
        Fate::Fits
    }

    /// Two or more branches of the children, with `pieces` in the place of one. Where elements come at
    /// the ends, more tend to come there: so a branch at an end, as a leaf there, stays full.
    fn part(&mut self, child: usize, pieces: Vec<Piece<O>>, edges: Edges) -> Vec<Piece<O>> {
        let columns = self.children.drain(..).zip(self.counts.drain(..));
        let mut all = Vec::with_capacity(FANOUT + pieces.len());
        all.extend(columns.map(|(Child { separator, link }, count)| Piece { separator, count, link }));
        let separator = all[child].separator.clone();
        all.splice(child..=child, pieces);
        all[child].separator = separator;
        let full = match edges {
            Edges { last: true, .. } if O::ROOM => FANOUT,
            Edges { first: true, .. } if O::ROOM => all.len() - FANOUT,
            _ => return group(all, FANOUT),
        };
        let behind = all.split_off(full);
        let mut parts = group(all, FANOUT);
        parts.append(&mut group(behind, FANOUT));
        parts
    }

    fn remove(&mut self, child: usize) {
        self.children.remove(child);
        self.counts.remove(child);
    }

    /// Joins a child that became small with a neighbour, if one is small enough.
    fn join_around(&mut self, child: usize) -> Fate<O> {
        let joined =
            (child > 0 && self.join(child - 1)) || (child + 1 < self.children.len() && self.join(child));
        if joined && self.children.len() < FANOUT_MIN { Fate::Small } else { Fate::Fits }
    }

    /// Joins a child with the next one, if both are small enough together.
    fn join(&mut self, child: usize) -> bool {
        let count = self.counts[child] + self.counts[child + 1];
        let joined = match (&self.children[child].link, &self.children[child + 1].link) {
            (Link::Leaf(left), Link::Leaf(right)) => {
                if count > LEAF_COUNT_JOINED || left.len() + right.len() > O::LEAF_BYTES_MAX / 4 * 3 {
                    return false;
                }
                let joined = left.joined(right);
                if joined.len() > O::LEAF_BYTES_MAX {
                    return false;
                }
                Link::Leaf(joined)
            }
            (Link::Branch(left), Link::Branch(right)) => {
                if left.children.len() + right.children.len() > FANOUT_JOINED {
                    return false;
                }
                let mut joined = Branch::clone(left);
                joined.children.extend(right.children.iter().cloned());
                joined.children[left.children.len()].separator = self.children[child + 1].separator.clone();
                joined.counts.extend_from_slice(&right.counts);
                Link::Branch(Arc::new(joined))
            }
            _ => return false,
        };
        self.remove(child + 1);
        self.counts[child] = count;
        self.children[child].link = joined;
        true
    }
}

fn trim_link<O: Order>(
    link: &mut Link<O>,
    total: usize,
    side: Side,
    mut count: usize,
    cut: &mut Vec<Link<O>>,
) {
    let branch = match link {
        Link::Leaf(bytes) => {
            match side {
                Side::Front => {
                    let end = packed::offset_of(bytes.layout(), bytes, count);
                    Leaf::new(bytes, total, Edges { first: true, last: false }).remove(0..end, count);
                }
                Side::Back => bytes.cut_behind(total - count),
            }
            return;
        }
        Link::Branch(branch) => {
            left::note(branch);
            Arc::make_mut(branch)
        }
    };
    let edge = loop {
        let edge = if side == Side::Front { 0 } else { branch.children.len() - 1 };
        if count < branch.counts[edge] {
            break edge;
        }
        count -= branch.counts[edge];
        cut.push(branch.children[edge].link.clone());
        branch.remove(edge);
    };
    if count > 0 {
        trim_link(&mut branch.children[edge].link, branch.counts[edge], side, count, cut);
        branch.counts[edge] -= count;
        branch.join_around(edge);
    }
}

/// Takes out the elements of a range below a node. REQUIRES: there are more.
fn cut_link<O: Order>(link: &mut Link<O>, range: Range<usize>, edges: Edges, cut: &mut Vec<Link<O>>) {
    let branch = match link {
        _ if range.is_empty() => return,
        Link::Leaf(bytes) => {
            let layout = bytes.layout();
            let start = packed::offset_of(layout, bytes, range.start);
            let end = start + packed::offset_of(layout, &bytes[start..], range.len());
            cut.push(Link::Leaf(LeafBytes::exact(layout, &bytes[start..end])));
            // How many there are is of no matter where none comes.
            Leaf::new(bytes, 0, edges).remove(start..end, range.len());
            return;
        }
        Link::Branch(branch) => {
            left::note(branch);
            Arc::make_mut(branch)
        }
    };
    let (mut child, mut passed) = (0, 0);
    let mut edge = None;
    while child < branch.children.len() && passed < range.end {
        let count = branch.counts[child];
        let (from, to) = (range.start.saturating_sub(passed).min(count), (range.end - passed).min(count));
        passed += count;
        if to - from == count {
            cut.push(branch.children[child].link.clone());
            branch.remove(child);
            continue;
        }
        if from < to {
            // What went before it is no longer there.
            let last = edges.last && child + 1 == branch.children.len();
            let edges = Edges { first: edges.first && child == 0, last };
            cut_link(&mut branch.children[child].link, from..to, edges, cut);
            branch.counts[child] -= to - from;
            edge.get_or_insert(child);
        }
        child += 1;
    }
    if let Some(edge) = edge {
        let before = branch.children.len();
        branch.join_around(edge);
        // The other edge, if there is one and the two were not joined.
        if branch.children.len() == before && edge + 1 < before {
            branch.join_around(edge + 1);
        }
    }
}
