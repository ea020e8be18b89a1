//! Large collections: a counted B+ tree of bounded copy-on-write nodes.
//!
//! ```text
//! Branch   children  s0 s1 s2 …    separators: s(i) > all of child i-1, <= all of child i; s0 is unused
//!                    |  |  |       links to the nodes
//!          counts    n0 n1 n2 …    elements below each child
//! Leaf     packed elements (see `packed`), at most a leaf's limit unless they cannot be parted; in lists and
//!          streams with room at the two ends of the tree (see `leaf`)
//! ```
//!
//! All leaves are equally deep. Nodes are shared by `Arc`: a clone of the tree copies nothing, and a write
//! copies those nodes of its one path that are shared. What orders the elements is an [`Order`]: the bits of
//! their hashes (sets, hashes), score and member (sorted sets), or nothing but their index (lists).

mod build;
#[cfg(test)]
pub(crate) mod check;
mod edit;
mod leaf;
#[cfg(test)]
mod leaf_tests;
mod own;
mod walk;

pub(crate) use leaf::{LeafBytes, NARROW_HEAD_BYTES, ROOM_HEAD_BYTES};
pub(crate) use walk::{Walk, WalkBack};

use std::sync::Arc;

use smallvec::SmallVec;

use super::left::{self, ARC_BYTES, Counted};
use super::packed::{self, Item, Layout};

/// Children of a branch at most.
pub(crate) const FANOUT: usize = 32;
/// Elements of a leaf at most; it bounds the steps through a leaf of tiny elements.
pub(crate) const LEAF_COUNT_MAX: usize = 256;

/// Items of one leaf.
pub(crate) type LeafItems<'a> = SmallVec<[Item<'a>; 32]>;

/// The order of the elements of a tree.
pub(crate) trait Order: Sized {
    /// How the elements in the leaves are laid out; in leaves with room as [`LeafBytes::layout`] says.
    const LAYOUT: Layout;
    /// Bytes of elements in a leaf at most.
    const LEAF_BYTES_MAX: usize;
    /// Whether the elements in a leaf stand in order, too.
    const SORTED: bool;
    /// Whether elements come and go at the ends so often that the leaves there have room.
    const ROOM: bool = false;
    /// The key that separates two neighbouring children.
    type Separator: Clone + Default;

    /// The elements of a leaf in order.
    fn arrange(layout: Layout, bytes: &[u8]) -> LeafItems<'_> {
        packed::items(layout, bytes).collect()
    }

    /// The separator between two neighbours; `None` if they must stay in one leaf.
    fn separate(left: &Item<'_>, right: &Item<'_>) -> Option<Self::Separator>;
}

/// A way down a tree.
pub(crate) trait Probe<O: Order> {
    /// The child to go to.
    fn pick(&mut self, branch: &Branch<O>) -> usize;
}

/// A node and what is below it.
pub(crate) enum Link<O: Order> {
    /// Elements.
    Leaf(LeafBytes<O>),
    /// More nodes.
    Branch(Arc<Branch<O>>),
}

impl<O: Order> Clone for Link<O> {
    fn clone(&self) -> Self {
        match self {
            Link::Leaf(leaf) => Link::Leaf(leaf.clone()),
            Link::Branch(branch) => Link::Branch(Arc::clone(branch)),
        }
    }
}

/// A node below a branch, and what tells it from the one before it.
pub(crate) struct Child<O: Order> {
    pub(crate) separator: O::Separator,
    pub(crate) link: Link<O>,
}

impl<O: Order> Clone for Child<O> {
    fn clone(&self) -> Self {
        Child { separator: self.separator.clone(), link: self.link.clone() }
    }
}

/// An inner node. The two columns are equally long, 1 to [`FANOUT`]. A separator shares its cache line with
/// its link, so that the way down waits for memory once a node, not twice.
pub(crate) struct Branch<O: Order> {
    pub(crate) children: SmallVec<[Child<O>; FANOUT]>,
    pub(crate) counts: SmallVec<[usize; FANOUT]>,
}

impl<O: Order> Clone for Branch<O> {
    fn clone(&self) -> Self {
        Branch { children: self.children.clone(), counts: SmallVec::from_slice(&self.counts) }
    }
}

/// A node with what its parent knows of it.
pub(crate) struct Piece<O: Order> {
    /// In front of the node; of no meaning in the first of several pieces.
    pub(crate) separator: O::Separator,
    pub(crate) count: usize,
    pub(crate) link: Link<O>,
}

/// A large collection.
pub(crate) struct Tree<O: Order> {
    pub(crate) root: Link<O>,
    pub(crate) count: usize,
}

impl<O: Order> Clone for Tree<O> {
    fn clone(&self) -> Self {
        Tree { root: self.root.clone(), count: self.count }
    }
}

impl<O: Order> Tree<O> {
    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The leaf that a probe leads to.
    #[inline]
    pub(crate) fn seek(&self, probe: &mut impl Probe<O>) -> &LeafBytes<O> {
        let mut link = &self.root;
        loop {
            match link {
                Link::Leaf(leaf) => return leaf,
                Link::Branch(branch) => link = &branch.children[probe.pick(branch)].link,
            }
        }
    }

    /// The element at `index`.
    pub(crate) fn get(&self, index: usize) -> Option<Item<'_>> {
        let mut probe = ByIndex::at(index);
        (index < self.count).then(|| self.seek(&mut probe)).and_then(|leaf| leaf.nth(probe.index))
    }

    /// Calls `visit` with each leaf in order.
    pub(crate) fn for_each_leaf(&self, visit: &mut impl FnMut(&LeafBytes<O>)) {
        self.root.for_each_leaf(visit);
    }

    /// Bytes of memory below the root, if all elements are as those in the first leaf.
    pub(crate) fn bytes_about(&self) -> usize {
        self.root.bytes_about(self.count)
    }

    /// Bytes of memory below the root.
    pub(crate) fn bytes(&self) -> usize {
        self.root.bytes()
    }
}

impl<O: Order> Link<O> {
    /// Bytes of `count` elements, if they are as those in the first leaf.
    fn bytes_about(&self, count: usize) -> usize {
        let mut link = self;
        loop {
            match link {
                Link::Branch(branch) => link = &branch.children[0].link,
                Link::Leaf(leaf) => {
                    let elements = leaf.items().count().max(1);
                    return leaf.bytes_exact() * count.div_ceil(elements);
                }
            }
        }
    }

    /// Notes what a write that took this out of a tree leaves to its clones; an estimate where it is much.
    pub(crate) fn note_left(&self) {
        match self {
            Link::Leaf(leaf) => leaf.note_left(),
            Link::Branch(branch) if Arc::strong_count(branch) > 1 => {
                let count = branch.counts.iter().sum();
                left::note_bytes(self.bytes_below(count, Counted::Own));
            }
            Link::Branch(_) => {}
        }
    }

    pub(crate) fn for_each_leaf(&self, visit: &mut impl FnMut(&LeafBytes<O>)) {
        match self {
            Link::Leaf(leaf) => visit(leaf),
            Link::Branch(branch) => branch.children.iter().for_each(|child| child.link.for_each_leaf(visit)),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Link::Leaf(leaf) => leaf.bytes(),
            Link::Branch(branch) => {
                ARC_BYTES
                    + size_of::<Branch<O>>()
                    + branch.children.iter().map(|child| child.link.bytes()).sum::<usize>()
            }
        }
    }
}

/// The way to an element by its index.
pub(crate) struct ByIndex {
    /// The index within what is below the node that was reached.
    pub(crate) index: usize,
    /// Whether the index may be one behind the last.
    insert: bool,
}

impl ByIndex {
    /// To the element at `index`. REQUIRES: there is one.
    pub(crate) fn at(index: usize) -> ByIndex {
        ByIndex { index, insert: false }
    }

    /// To where a new element gets `index`. REQUIRES: there are at least so many.
    pub(crate) fn insert_at(index: usize) -> ByIndex {
        ByIndex { index, insert: true }
    }
}

impl<O: Order> Probe<O> for ByIndex {
    fn pick(&mut self, branch: &Branch<O>) -> usize {
        for (child, count) in branch.counts.iter().enumerate() {
            if self.index < count + usize::from(self.insert) {
                return child;
            }
            self.index -= count;
        }
        unreachable!("the index is below the count")
    }
}
