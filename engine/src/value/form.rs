//! The two forms of a collection, packed and tree, read as one.

use super::packed::{self, Item, Layout};
use super::scattered::Scattered;
use super::tree::{Order, Tree, Walk, WalkBack};
use super::{Scanned, scale};

/// A collection, borrowed from its entry.
pub(crate) enum Form<'a, O: Order> {
    /// `count` elements one behind the other.
    Packed { layout: Layout, count: usize, bytes: &'a [u8] },
    /// Elements in nodes.
    Tree(&'a Tree<O>),
}

impl<O: Order> Clone for Form<'_, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<O: Order> Copy for Form<'_, O> {}

impl<'a, O: Order> Form<'a, O> {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Form::Packed { count, .. } => *count,
            Form::Tree(tree) => tree.len(),
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<Item<'a>> {
        match *self {
            Form::Packed { layout, bytes, .. } => packed::nth(layout, bytes, index),
            Form::Tree(tree) => tree.get(index),
        }
    }

    /// The element that a uniform random number chooses.
    pub(crate) fn sample(&self, random: u64) -> Option<Item<'a>> {
        self.get(scale(random, self.len()))
    }

    pub(crate) fn walk_from(&self, index: usize) -> Walk<'a, O> {
        match *self {
            Form::Packed { layout, bytes, .. } => Walk::packed(layout, bytes, index),
            Form::Tree(tree) => tree.walk_from(index),
        }
    }

    pub(crate) fn walk_back_from(&self, index: usize) -> WalkBack<'a, O> {
        match *self {
            Form::Packed { layout, bytes, count } => {
                WalkBack::packed(layout, bytes, index.saturating_add(1).min(count))
            }
            Form::Tree(tree) => tree.walk_back_from(index),
        }
    }
}

impl<'a, const PREFIX: usize, const PAIR: bool> Form<'a, Scattered<PREFIX, PAIR>> {
    #[inline]
    pub(crate) fn find(&self, name: &[u8]) -> Option<Item<'a>> {
        match *self {
            Form::Packed { layout, bytes, .. } => packed::find(Layout { pair: PAIR, ..layout }, bytes, name),
            Form::Tree(tree) => tree.find(name),
        }
    }

    /// One step of a scan. A packed collection is passed in one step: so none is ever left half passed when
    /// it grows into a tree, which never becomes packed again.
    pub(crate) fn scan<T>(&self, cursor: u64, count: usize, read: impl Fn(Item<'a>) -> T) -> Scanned<T> {
        match *self {
            Form::Packed { .. } => (0, self.walk_from(0).map(read).collect()),
            Form::Tree(tree) => {
                let (next, items) = tree.scan(cursor, count);
                (next, items.into_iter().map(read).collect())
            }
        }
    }
}
