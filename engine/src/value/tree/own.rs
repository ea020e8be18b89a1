//! Measures the memory of a tree: all of it, or what nobody else has, which is given back when it goes, or
//! which a view alone still has.
//!
//! Of a tree of few levels all nodes are looked at. From a larger one some elements are drawn, each of which
//! stands for its part of its leaf. So the time is bounded, and one giant element does not count for others,
//! wherever it stands.

use std::sync::Arc;

use super::{Branch, Link, Order, Tree};
use crate::value::left::{ARC_BYTES, Counted};
use crate::value::{scale, usage};

/// Levels of branches above the leaves of a tree of which all nodes are looked at: about a thousand at most.
const LEVELS_MAX: usize = 2;
/// Elements that are drawn from a larger one.
const DRAWN: usize = 64;
/// A drawn element counts as so many times the one in the middle at most: a giant that is drawn by chance
/// does not stand for others.
const TIMES_MIDDLE_MAX: u64 = 8;
/// Parts of a byte, by which elements are measured.
const PARTS: u64 = 256;

impl<O: Order> Tree<O> {
    /// Bytes of memory below the root, about; exact if the tree has few levels.
    pub(crate) fn bytes_of(&self, counted: Counted) -> usize {
        if self.root.counts(counted) { self.root.bytes_below(self.count, counted) } else { 0 }
    }
}

impl<O: Order> Link<O> {
    /// Whether this node counts: it is asked for all, or nobody else has it.
    fn counts(&self, counted: Counted) -> bool {
        counted == Counted::All
            || match self {
                Link::Leaf(leaf) => !leaf.is_shared(),
                Link::Branch(branch) => Arc::strong_count(branch) == 1,
            }
    }

    /// How many branches are above a leaf.
    fn levels(&self) -> usize {
        let (mut link, mut levels) = (self, 0);
        while let Link::Branch(branch) = link {
            (link, levels) = (&branch.children[0].link, levels + 1);
        }
        levels
    }

    /// Bytes of this node, shared or not, and of those below it that count; about, if these may be many.
    /// `count` elements are below it.
    pub(super) fn bytes_below(&self, count: usize, counted: Counted) -> usize {
        let is_small = self.levels() <= LEVELS_MAX;
        if is_small { self.sum_below(counted) } else { self.estimate_below(count, counted) }
    }

    fn sum_below(&self, counted: Counted) -> usize {
        match self {
            Link::Leaf(leaf) => leaf.bytes(),
            Link::Branch(branch) => {
                let links = branch.children.iter().map(|child| &child.link);
                let below = links.filter(|link| link.counts(counted)).map(|link| link.sum_below(counted));
                ARC_BYTES + size_of::<Branch<O>>() + below.sum::<usize>()
            }
        }
    }

    fn estimate_below(&self, count: usize, counted: Counted) -> usize {
        let drawn = (0..DRAWN).filter_map(|_| self.parts_at(scale(usage::random(), count), counted));
        let mut drawn: Vec<u64> = drawn.collect();
        drawn.sort_unstable();
        let Some(middle) = drawn.get(drawn.len() / 2).copied() else { return 0 };
        let most = middle.saturating_mul(TIMES_MIDDLE_MAX);
        let sum: u128 = drawn.into_iter().map(|parts| u128::from(parts.min(most))).sum();
        let bytes = sum * count as u128 / (DRAWN as u128 * u128::from(PARTS));
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Parts of bytes of the element at `index`: those of each node on the way to it, this one included, by
    /// the number of elements below that. `None` if one behind this one does not count.
    fn parts_at(&self, mut index: usize, counted: Counted) -> Option<u64> {
        let (mut link, mut parts) = (self, 0);
        let share = |bytes: usize, elements: usize| bytes as u64 * PARTS / elements.max(1) as u64;
        loop {
            match link {
                Link::Leaf(leaf) => {
                    return Some(parts + share(leaf.bytes(), leaf.items().count()));
                }
                Link::Branch(branch) => {
                    parts += share(ARC_BYTES + size_of::<Branch<O>>(), branch.counts.iter().sum());
                    let mut child = 0;
                    while child + 1 < branch.counts.len() && index >= branch.counts[child] {
                        index -= branch.counts[child];
                        child += 1;
                    }
                    link = &branch.children[child].link;
                    if !link.counts(counted) {
                        return None;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::value::left::Counted::{All, Own};
    use crate::value::list::ListOrder;
    use crate::value::packed::{self, LIST};
    use crate::value::tree::Tree;

    /// A list of elements of these lengths.
    fn list_of(lengths: impl Iterator<Item = usize>) -> Tree<ListOrder> {
        let mut bytes = Vec::new();
        for length in lengths {
            bytes.extend_from_slice(packed::Varint::new(length).as_slice());
            bytes.resize(bytes.len() + length, b'x');
        }
        Tree::build(packed::items(LIST, &bytes))
    }

    #[test]
    fn a_tree_is_measured_as_it_is_wherever_a_giant_element_stands() {
        const GIANT: usize = 1 << 20;
        for count in [100, 1_000, 200_000] {
            for giant in [0, count / 2, count - 1] {
                let tree = list_of((0..count).map(|index| if index == giant { GIANT } else { 100 }));
                let (own, others) = (tree.bytes_of(Own), tree.bytes() - GIANT);
                assert!(own > others / 4 * 3, "{own} of {others} and the giant at {giant} of {count}");
                // In a large tree the one may be left out, or count for some.
                assert!(own < tree.bytes() + GIANT, "{own} of {others} and the giant at {giant} of {count}");
            }
        }
    }

    #[test]
    fn shared_nodes_are_of_nobody() {
        for count in [10, 1_000, 200_000] {
            let mut tree = list_of((0..count).map(|_| 100));
            let (all, clone) = (tree.bytes_of(Own), tree.clone());
            assert_eq!((tree.bytes_of(Own), clone.bytes_of(Own)), (0, 0), "{count} elements");
            let whole = clone.bytes_of(All);
            assert!(whole.abs_diff(all) < all / 4, "{whole} are not {all} in {count} elements");
            tree.put(count / 2, b"x");
            let own = tree.bytes_of(Own);
            assert!(own <= all / 4 + 8_000, "{own} of {all} are of one path in {count} elements");
            drop(tree);
            let left = clone.bytes_of(Own);
            assert!(left > all / 4 * 3, "{left} of {all} are left in {count} elements");
        }
    }
}
