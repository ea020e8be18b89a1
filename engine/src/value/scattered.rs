//! Trees in the order of the elements' hashes: large sets and hashes, and the index of large sorted sets.
//!
//! An element stands at its [`position_of`], which never changes, so the position is also the cursor of a
//! scan: whatever comes, goes, or is parted and joined meanwhile, an element that stays is passed exactly
//! once. Within a leaf the elements are in no order; elements at one position are never parted.

use super::packed::{self, HASH, Item, Layout, SET, ZSET};
use super::position_of;
use super::tree::{Branch, LeafItems, Order, Probe, Tree, Walk};
use crate::record::Lsn;

/// The order by hash, for elements with this layout.
pub(crate) struct Scattered<const PREFIX: usize, const PAIR: bool>;

/// Members of a set.
pub(crate) type SetOrder = Scattered<{ SET.prefix }, { SET.pair }>;
/// Fields of a hash.
pub(crate) type HashOrder = Scattered<{ HASH.prefix }, { HASH.pair }>;
/// Members of a sorted set with their scores.
pub(crate) type ScoreOrder = Scattered<{ ZSET.prefix }, { ZSET.pair }>;

impl<const PREFIX: usize, const PAIR: bool> Order for Scattered<PREFIX, PAIR> {
    const LAYOUT: Layout = Layout::wide(PREFIX, PAIR);
    const LEAF_BYTES_MAX: usize = 1008;
    const SORTED: bool = false;
    type Separator = u64;

    fn arrange(layout: Layout, bytes: &[u8]) -> LeafItems<'_> {
        let mut items: LeafItems<'_> = packed::items(layout, bytes).collect();
        items.sort_by_cached_key(|item| position_of(item.name));
        items
    }

    fn separate(left: &Item<'_>, right: &Item<'_>) -> Option<u64> {
        let position = position_of(right.name);
        (position_of(left.name) < position).then_some(position)
    }
}

/// The way to a position.
pub(crate) struct ByPosition(pub(crate) u64);

impl ByPosition {
    /// To the element called `name`.
    pub(crate) fn of(name: &[u8]) -> ByPosition {
        ByPosition(position_of(name))
    }
}

impl<O: Order<Separator = u64>> Probe<O> for ByPosition {
    #[inline]
    fn pick(&mut self, branch: &Branch<O>) -> usize {
        // No early end: so the compiler compares several at once, and their cache lines are fetched together.
        branch.children[1..].iter().map(|child| usize::from(child.separator <= self.0)).sum()
    }
}

impl<const PREFIX: usize, const PAIR: bool> Tree<Scattered<PREFIX, PAIR>> {
    /// The element called `name`.
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<Item<'_>> {
        let leaf = self.seek(&mut ByPosition::of(name));
        packed::fetch(leaf);
        packed::find(Scattered::<PREFIX, PAIR>::LAYOUT, leaf, name)
    }

    /// Takes out an element; the `Lsn` that it had.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Lsn> {
        self.edit(&mut ByPosition::of(name), |leaf, _| {
            packed::remove(Scattered::<PREFIX, PAIR>::LAYOUT, leaf, name)
        })
    }

    /// The tree of these elements, in any order; of those with one name, the last counts.
    pub(crate) fn build_scattered<'a>(items: impl Iterator<Item = Item<'a>>) -> Self {
        let mut items: Vec<_> = items.map(|item| (position_of(item.name), item)).collect();
        items.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(b.1.name)));
        items.dedup_by(|later, kept| {
            let same = later.1.name == kept.1.name;
            if same {
                *kept = *later;
            }
            same
        });
        Tree::build(items.into_iter().map(|(_, item)| item))
    }

    /// The tree of these elements and more, in their order: of those with one name the last counts.
    /// `replaced` is told the `Lsn`s of the others, `made` the names that are new.
    pub(crate) fn with_scattered<'a>(
        &self,
        more: impl Iterator<Item = Item<'a>>,
        mut replaced: impl FnMut(Lsn),
        mut made: impl FnMut(&'a [u8]),
    ) -> Self {
        let more: Vec<Item<'a>> = more.collect();
        let old = self.walk_from(0).map(|item| (item, None));
        let items: Vec<_> = old.chain(more.iter().map(|item| (*item, Some(item.name)))).collect();
        let placed = items.iter().enumerate().map(|(turn, (item, _))| (position_of(item.name), turn));
        let mut placed: Vec<(u64, usize)> = placed.collect();
        let name = |turn: usize| items[turn].0.name;
        placed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| (name(a.1), a.1).cmp(&(name(b.1), b.1))));
        let mut kept = placed.iter().peekable();
        let mut first = true;
        let newest = std::iter::from_fn(|| {
            loop {
                let &(position, turn) = kept.next()?;
                let (item, new) = items[turn];
                if let Some(name) = new.filter(|_| first) {
                    made(name);
                }
                first = !kept.peek().is_some_and(|next| next.0 == position && name(next.1) == item.name);
                if first {
                    return Some(item);
                }
                replaced(item.lsn());
            }
        });
        Tree::build(newest)
    }

    /// About `count` elements from position `cursor` on, those of one position always together, and the
    /// position to go on from; 0 at the end.
    pub(crate) fn scan(&self, cursor: u64, count: usize) -> (u64, Vec<Item<'_>>) {
        let mut found: Vec<(u64, Item<'_>)> = Vec::new();
        let mut walk: Walk<'_, Scattered<PREFIX, PAIR>> = self.walk_leaves_from(&mut ByPosition(cursor));
        loop {
            let begin = found.len();
            let items = packed::items(Scattered::<PREFIX, PAIR>::LAYOUT, walk.leaf());
            let placed = items.map(|item| (position_of(item.name), item));
            found.extend(placed.filter(|(position, _)| *position >= cursor));
            found[begin..].sort_unstable_by_key(|(position, _)| *position);
            // Enough is `count` elements, those beside the last of them, and one from which to go on.
            let goes_on = found
                .get(count.max(1) - 1)
                .is_some_and(|enough| found.last().is_some_and(|last| enough.0 < last.0));
            if goes_on || !walk.next_leaf() {
                break;
            }
        }
        let mut len = count.max(1);
        while len < found.len() && found[len].0 == found[len - 1].0 {
            len += 1;
        }
        let next = found.get(len).map_or(0, |(position, _)| *position);
        (next, found.into_iter().take(len).map(|(_, item)| item).collect())
    }
}
