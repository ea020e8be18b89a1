//! Trees from elements that are in order already, and leaves from elements.

use std::sync::Arc;

use smallvec::SmallVec;

use super::{Branch, Child, FANOUT, LEAF_COUNT_MAX, LeafBytes, Link, Order, Piece, Tree};
use crate::record::Lsn;
use crate::value::packed::{Item, Layout};

/// Children that a branch gets when a tree is built: some room for what comes.
const FANOUT_BUILT: usize = FANOUT - FANOUT / 8;

impl<O: Order> Tree<O> {
    /// The tree of these elements. REQUIRES: they are in order, each once, and laid out as the order says.
    pub(crate) fn build<'a>(items: impl IntoIterator<Item = Item<'a>>) -> Tree<O> {
        // A full leaf of an order in which elements come anywhere would be parted by the next insertion.
        let limit = if O::SORTED { O::LEAF_BYTES_MAX } else { O::LEAF_BYTES_MAX / 8 * 7 };
        let mut filler = Filler::new(O::LAYOUT, limit, limit);
        items.into_iter().for_each(|item| filler.push(item));
        Tree::of(filler.finish())
    }

    /// The tree over equally deep nodes.
    pub(crate) fn of(mut pieces: Vec<Piece<O>>) -> Tree<O> {
        while pieces.len() > 1 {
            pieces = group(pieces, FANOUT_BUILT);
        }
        match pieces.pop() {
            Some(piece) => Tree { root: piece.link, count: piece.count },
            None => Tree { root: Link::Leaf(LeafBytes::exact(O::LAYOUT, &[])), count: 0 },
        }
    }
}

/// Puts nodes under as few branches as can be, with `fanout` children at most, evenly.
pub(crate) fn group<O: Order>(pieces: Vec<Piece<O>>, fanout: usize) -> Vec<Piece<O>> {
    let (total, groups) = (pieces.len(), pieces.len().div_ceil(fanout));
    let mut pieces = pieces.into_iter();
    (0..groups)
        .map(|number| {
            let len = (number + 1) * total / groups - number * total / groups;
            branch_of(pieces.by_ref().take(len))
        })
        .collect()
}

fn branch_of<O: Order>(pieces: impl Iterator<Item = Piece<O>>) -> Piece<O> {
    let mut branch = Branch { children: SmallVec::new(), counts: SmallVec::new() };
    for piece in pieces {
        branch.children.push(Child { separator: piece.separator, link: piece.link });
        branch.counts.push(piece.count);
    }
    let separator = branch.children.first().map(|child| child.separator.clone()).unwrap_or_default();
    Piece { separator, count: branch.counts.iter().sum(), link: Link::Branch(Arc::new(branch)) }
}

/// Fills leaves from the left.
pub(crate) struct Filler<'a, O: Order> {
    layout: Layout,
    /// Bytes that the leaf being filled takes.
    limit: usize,
    /// Bytes that the leaves behind it take.
    limit_later: usize,
    separator: O::Separator,
    bytes: Vec<u8>,
    count: usize,
    /// The oldest and the newest record of them, where a leaf says how it has `Lsn`s.
    lsns: Option<(Lsn, Lsn)>,
    last: Option<Item<'a>>,
    pieces: Vec<Piece<O>>,
}

impl<'a, O: Order> Filler<'a, O> {
    /// Leaves of at most `limit` bytes for the first one and `limit_later` for the others, but for single
    /// elements and those that must stay together. The elements are laid out so.
    pub(crate) fn new(layout: Layout, limit: usize, limit_later: usize) -> Self {
        Filler {
            layout,
            limit,
            limit_later,
            separator: O::Separator::default(),
            bytes: Vec::new(),
            count: 0,
            lsns: None,
            last: None,
            pieces: Vec::new(),
        }
    }

    pub(crate) fn push(&mut self, item: Item<'a>) {
        let full = self.len_with(&item) > self.limit || self.count >= LEAF_COUNT_MAX;
        let cut = self.last.as_ref().filter(|_| full).and_then(|last| O::separate(last, &item));
        if let Some(separator) = cut {
            self.close();
            self.separator = separator;
            self.limit = self.limit_later;
        }
        item.append_to(&mut self.bytes);
        self.lsns = self.lsns_with(&item);
        self.count += 1;
        self.last = Some(item);
    }

    fn lsns_with(&self, item: &Item<'_>) -> Option<(Lsn, Lsn)> {
        if !LeafBytes::<O>::NARROW {
            return None;
        }
        let lsn = item.lsn();
        let (oldest, newest) = self.lsns.unwrap_or((lsn, lsn));
        Some((oldest.min(lsn), newest.max(lsn)))
    }

    /// Bytes of the elements in a leaf of theirs, with one more.
    fn len_with(&self, item: &Item<'_>) -> usize {
        let len = self.bytes.len() + item.len();
        let Some((oldest, newest)) = self.lsns_with(item) else { return len };
        let width = LeafBytes::<O>::width(newest.0 - oldest.0);
        len + (self.count + 1) * width - (self.count + 1) * self.layout.width()
    }

    /// The leaves.
    pub(crate) fn finish(mut self) -> Vec<Piece<O>> {
        if self.count > 0 {
            self.close();
        }
        self.pieces
    }

    fn close(&mut self) {
        let separator = std::mem::take(&mut self.separator);
        let link = Link::Leaf(LeafBytes::narrow(self.layout, &self.bytes));
        self.pieces.push(Piece { separator, count: self.count, link });
        self.bytes.clear();
        (self.count, self.lsns) = (0, None);
    }
}
