//! The invariants of every tree; for tests.

use std::collections::HashSet;
use std::sync::Arc;

use super::leaf::{Edges, GROWN_BYTES_MIN};
use super::{FANOUT, LEAF_COUNT_MAX, LeafBytes, Link, Order, Tree};
use crate::value::packed::{self, Items};

impl<O: Order> Tree<O> {
    /// Checks counts, depths, limits and, by `sound`, that a separator stands rightly between two leaves.
    pub(crate) fn assert_invariants(&self, sound: &impl Fn(Items<'_>, &O::Separator, Items<'_>) -> bool) {
        if let Link::Branch(root) = &self.root {
            assert!(root.children.len() > 1, "a root has more than one child");
        }
        check(&self.root, self.count, Edges { first: true, last: true }, sound);
    }

    /// The addresses of all nodes.
    pub(crate) fn addresses(&self) -> HashSet<usize> {
        let mut addresses = HashSet::new();
        collect(&self.root, &mut addresses);
        addresses
    }
}

fn collect<O: Order>(link: &Link<O>, addresses: &mut HashSet<usize>) {
    match link {
        Link::Leaf(leaf) => _ = addresses.insert(leaf.address()),
        Link::Branch(branch) => {
            addresses.insert(Arc::as_ptr(branch) as usize);
            branch.children.iter().for_each(|child| collect(&child.link, addresses));
        }
    }
}

/// The depth, the first leaf and the last leaf below a link.
fn check<'a, O: Order>(
    link: &'a Link<O>,
    count: usize,
    edges: Edges,
    sound: &impl Fn(Items<'_>, &O::Separator, Items<'_>) -> bool,
) -> (usize, &'a LeafBytes<O>, &'a LeafBytes<O>) {
    let branch = match link {
        Link::Leaf(leaf) => {
            assert_eq!(leaf.items().count(), count, "a leaf has as many elements as said");
            let items = O::arrange(leaf.layout(), leaf);
            let parted = items.windows(2).any(|pair| O::separate(&pair[0], &pair[1]).is_some());
            let fits = leaf.len() <= O::LEAF_BYTES_MAX && count <= LEAF_COUNT_MAX;
            assert!(fits || count == 1 || !parted, "a leaf of {} bytes, {count} elements", leaf.len());
            check_room(leaf, edges);
            return (0, leaf, leaf);
        }
        Link::Branch(branch) => branch,
    };
    let len = branch.children.len();
    assert!((1..=FANOUT).contains(&len), "a branch of {len} children");
    assert_eq!(branch.counts.len(), len);
    assert_eq!(branch.counts.iter().sum::<usize>(), count, "the counts add up");
    assert!(!branch.children.spilled() && !branch.counts.spilled());
    let below: Vec<_> = branch
        .children
        .iter()
        .zip(&branch.counts)
        .enumerate()
        .map(|(i, (child, count))| {
            let edges = Edges { first: edges.first && i == 0, last: edges.last && i + 1 == len };
            check(&child.link, *count, edges, sound)
        })
        .collect();
    for (i, pair) in below.windows(2).enumerate() {
        assert_eq!(pair[0].0, pair[1].0, "all leaves are equally deep");
        assert!(
            sound(pair[0].2.items(), &branch.children[i + 1].separator, pair[1].1.items()),
            "a separator separates"
        );
    }
    (below[0].0 + 1, below[0].1, below[len - 1].2)
}

/// Checks that a leaf has little room, and only at an end of the tree, and that its mark is one.
fn check_room<O: Order>(leaf: &LeafBytes<O>, edges: Edges) {
    let (front, back) = leaf.room();
    assert!(front == 0 || edges.first, "{front} bytes of room in front of a leaf that is not the first");
    assert!(back == 0 || edges.last, "{back} bytes of room behind a leaf that is not the last");
    let len = leaf.len();
    let most = len.max(GROWN_BYTES_MIN);
    assert!(front + back <= most, "{front} and {back} bytes of room for {len} of elements");
    assert_eq!(leaf.bytes(), leaf.bytes_exact() + front + back, "all bytes are counted");
    let mark = leaf.mark();
    assert_eq!(
        packed::items(leaf.layout(), &leaf[..mark.at]).count(),
        mark.count,
        "elements before {mark:?}"
    );
}
