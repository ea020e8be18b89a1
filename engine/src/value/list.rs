//! Lists: sequences of byte strings.

use super::form::Form;
use super::packed::{self, Buffer, Item, LIST, Layout, Varint};
use super::tree::{ByIndex, Order, ROOM_HEAD_BYTES, Tree};

/// A list, borrowed from its entry.
#[derive(Clone, Copy)]
pub struct ListRef<'a> {
    pub(crate) form: Form<'a, ListOrder>,
}

impl<'a> ListRef<'a> {
    /// How many elements there are; never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.form.len()
    }

    /// The element at `index` from the front.
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.form.get(index).map(|item| item.name)
    }

    /// The elements from `index` to the back.
    pub fn iter_from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.form.walk_from(index).map(|item| item.name)
    }

    /// The elements from `index` to the front; from the last one if there are not so many.
    pub fn rev_iter_from(&self, index: usize) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.form.walk_back_from(index).map(|item| item.name)
    }
}

/// The order of a large list: by index alone.
pub(crate) struct ListOrder;

impl Order for ListOrder {
    const LAYOUT: Layout = LIST;
    const LEAF_BYTES_MAX: usize = 2032 - ROOM_HEAD_BYTES;
    const SORTED: bool = true;
    const ROOM: bool = true;
    type Separator = ();

    fn separate(_: &Item<'_>, _: &Item<'_>) -> Option<()> {
        Some(())
    }
}

/// Puts an element before the one at `index`.
pub(crate) fn insert(buffer: &mut impl Buffer, index: usize, element: &[u8]) {
    let at = packed::offset_of(LIST, buffer.bytes(), index);
    insert_at(buffer, at, element);
}

fn insert_at(buffer: &mut impl Buffer, at: usize, element: &[u8]) {
    buffer.insert(at, &[Varint::new(element.len()).as_slice(), element]);
}

/// Puts an element in the place of the one at `index`. REQUIRES: there is one.
pub(crate) fn put(buffer: &mut impl Buffer, index: usize, element: &[u8]) {
    let range = packed::nth(LIST, buffer.bytes(), index).expect("the index was checked").range();
    buffer.splice(range, &[Varint::new(element.len()).as_slice(), element]);
}

/// Takes out `count` elements from `index` on. REQUIRES: they are there.
pub(crate) fn remove(buffer: &mut impl Buffer, index: usize, count: usize) {
    let start = packed::offset_of(LIST, buffer.bytes(), index);
    let end = start + packed::offset_of(LIST, &buffer.bytes()[start..], count);
    buffer.remove(start..end, count);
}

impl Tree<ListOrder> {
    /// Puts an element before the one at `index`, or behind the last. REQUIRES: `index` is at most the
    /// length.
    pub(crate) fn insert(&mut self, index: usize, element: &[u8]) {
        let is_last = index == self.len();
        self.edit(&mut ByIndex::insert_at(index), |leaf, probe| {
            if is_last {
                // The elements before it need not be passed.
                let end = leaf.bytes().len();
                insert_at(leaf, end, element);
            } else {
                insert(leaf, probe.index, element);
            }
        });
    }

    /// Puts an element in the place of the one at `index`. REQUIRES: there is one.
    pub(crate) fn put(&mut self, index: usize, element: &[u8]) {
        self.edit(&mut ByIndex::at(index), |leaf, probe| put(leaf, probe.index, element));
    }

    /// Takes out the element at `index`. REQUIRES: there is one.
    pub(crate) fn remove_at(&mut self, index: usize) {
        self.edit(&mut ByIndex::at(index), |leaf, probe| remove(leaf, probe.index, 1));
    }
}
