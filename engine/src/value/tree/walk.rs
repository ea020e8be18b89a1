//! Iteration over a tree, or over packed elements as over a tree of one leaf.

use smallvec::SmallVec;

use super::{Branch, ByIndex, LeafBytes, Link, Order, Probe, Tree};
use crate::value::packed::{self, Item, Items, ItemsBack, Layout};

/// Branches on the way down, each with the child that was taken.
type Path<'a, O> = SmallVec<[(&'a Branch<O>, usize); 6]>;

/// Elements in order.
pub(crate) struct Walk<'a, O: Order> {
    path: Path<'a, O>,
    items: Items<'a>,
}

/// Elements from the back.
pub(crate) struct WalkBack<'a, O: Order> {
    path: Path<'a, O>,
    items: ItemsBack<'a>,
}

impl<O: Order> Tree<O> {
    /// The elements from `index` on.
    pub(crate) fn walk_from(&self, index: usize) -> Walk<'_, O> {
        if index >= self.count {
            return Walk::packed(O::LAYOUT, &[], 0);
        }
        let mut probe = ByIndex::at(index);
        let (path, leaf) = self.descend(&mut probe);
        let mut walk = Walk { path, items: leaf.items() };
        walk.items.skip_items(probe.index);
        walk
    }

    /// The elements from the leaf on that a probe leads to.
    pub(crate) fn walk_leaves_from(&self, probe: &mut impl Probe<O>) -> Walk<'_, O> {
        let (path, leaf) = self.descend(probe);
        Walk { path, items: leaf.items() }
    }

    /// The elements from `index` to the front; from the last one if there are not so many.
    pub(crate) fn walk_back_from(&self, index: usize) -> WalkBack<'_, O> {
        if self.count == 0 {
            return WalkBack::packed(O::LAYOUT, &[], 0);
        }
        let mut probe = ByIndex::at(index.min(self.count - 1));
        let (path, leaf) = self.descend(&mut probe);
        WalkBack { path, items: packed::items_back(leaf.layout(), leaf, probe.index + 1) }
    }

    fn descend(&self, probe: &mut impl Probe<O>) -> (Path<'_, O>, &LeafBytes<O>) {
        let mut path = Path::new();
        let mut link = &self.root;
        loop {
            match link {
                Link::Leaf(leaf) => return (path, leaf),
                Link::Branch(branch) => {
                    let child = probe.pick(branch);
                    path.push((branch, child));
                    link = &branch.children[child].link;
                }
            }
        }
    }
}

impl<'a, O: Order> Walk<'a, O> {
    /// Packed elements from `index` on.
    pub(crate) fn packed(layout: Layout, bytes: &'a [u8], index: usize) -> Walk<'a, O> {
        let mut items = packed::items(layout, bytes);
        items.skip_items(index);
        Walk { path: Path::new(), items }
    }

    /// The bytes of the leaf that the walk is in.
    pub(crate) fn leaf(&self) -> &'a [u8] {
        self.items.bytes
    }

    /// Goes to the next leaf, if there is one.
    pub(crate) fn next_leaf(&mut self) -> bool {
        while let Some((branch, child)) = self.path.pop() {
            if child + 1 < branch.children.len() {
                self.path.push((branch, child + 1));
                let mut link = &branch.children[child + 1].link;
                while let Link::Branch(branch) = link {
                    self.path.push((branch, 0));
                    link = &branch.children[0].link;
                }
                if let Link::Leaf(leaf) = link {
                    self.items = leaf.items();
                }
                return true;
            }
        }
        false
    }
}

impl<'a, O: Order> Iterator for Walk<'a, O> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            if !self.next_leaf() {
                return None;
            }
        }
    }
}

impl<'a, O: Order> WalkBack<'a, O> {
    /// The first `count` packed elements, the last of them first.
    pub(crate) fn packed(layout: Layout, bytes: &'a [u8], count: usize) -> WalkBack<'a, O> {
        WalkBack { path: Path::new(), items: packed::items_back(layout, bytes, count) }
    }

    fn previous_leaf(&mut self) -> bool {
        while let Some((branch, child)) = self.path.pop() {
            if child > 0 {
                self.path.push((branch, child - 1));
                let mut link = &branch.children[child - 1].link;
                while let Link::Branch(branch) = link {
                    let last = branch.children.len() - 1;
                    self.path.push((branch, last));
                    link = &branch.children[last].link;
                }
                if let Link::Leaf(leaf) = link {
                    self.items = packed::items_back(leaf.layout(), leaf, usize::MAX);
                }
                return true;
            }
        }
        false
    }
}

impl<'a, O: Order> Iterator for WalkBack<'a, O> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            if !self.previous_leaf() {
                return None;
            }
        }
    }
}
