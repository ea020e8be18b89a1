//! The order of the elements of a stream: by their names, in one run of bytes or in nodes. In nodes the names
//! of entries are short ([`spelling`]); who asks for an element, or changes one, need not know it.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::super::form::Form;
use super::super::packed::{self, Buffer, HASH, Item, Items, Layout, Varint};
use super::super::tree::{Branch, Child, Link, NARROW_HEAD_BYTES, Order, Probe, Tree};
use super::element::Name;
use super::spelling::{self, is_behind_others};
use crate::record::Lsn;

/// Elements of a stream: a name with a value, as a field of a hash.
pub(crate) const STREAM: Layout = HASH;

/// The order by name.
pub(crate) struct StreamOrder;

/// Not above what is right of it, and above all that is left of it: as short as will do.
type Separator = SmallVec<[u8; 24]>;

impl Order for StreamOrder {
    const LAYOUT: Layout = STREAM;
    const LEAF_BYTES_MAX: usize = 2032 - NARROW_HEAD_BYTES;
    const SORTED: bool = true;
    const ROOM: bool = true;
    type Separator = Separator;

    fn separate(left: &Item<'_>, right: &Item<'_>) -> Option<Separator> {
        let same = left.name.iter().zip(right.name).take_while(|(a, b)| a == b).count();
        Some(Separator::from_slice(&right.name[..same + 1]))
    }
}

/// The way to the leaf where an element of this name is, or would be.
struct ByName<'a>(&'a [u8]);

impl Probe<StreamOrder> for ByName<'_> {
    fn pick(&mut self, branch: &Branch<StreamOrder>) -> usize {
        let before = |child: &Child<StreamOrder>| *child.separator <= *self.0;
        let children = &branch.children[1..];
        // Most entries are added behind all others; the head, groups, consumers and what is pending stand
        // before all entries.
        match children {
            [.., last] if before(last) => children.len(),
            [first, ..] if !before(first) => 0,
            _ => children.partition_point(before),
        }
    }
}

/// The same, counting what stands before it.
struct Before<'a> {
    name: &'a [u8],
    /// Elements left of the node that was reached.
    passed: usize,
}

impl Probe<StreamOrder> for Before<'_> {
    fn pick(&mut self, branch: &Branch<StreamOrder>) -> usize {
        let child = ByName(self.name).pick(branch);
        self.passed += branch.counts[..child].iter().sum::<usize>();
        child
    }
}

/// How many elements stand before this name.
fn front_len(layout: Layout, bytes: &[u8], name: &[u8]) -> usize {
    packed::items(layout, bytes).take_while(|item| item.name < name).count()
}

impl<'a> Form<'a, StreamOrder> {
    /// The element called `name`.
    pub(crate) fn find(&self, name: &[u8]) -> Option<Item<'a>> {
        match *self {
            Form::Packed { layout, bytes, .. } => packed::find(layout, bytes, name),
            Form::Tree(tree) => {
                let name = spelling::short(name);
                let leaf = tree.seek(&mut ByName(&name));
                packed::find(leaf.layout(), leaf, &name)
            }
        }
    }

    /// How many elements stand before this name.
    pub(crate) fn lower_bound(&self, name: &[u8]) -> usize {
        match *self {
            Form::Packed { layout, bytes, .. } => front_len(layout, bytes, name),
            Form::Tree(tree) => {
                let name = spelling::short(name);
                let mut probe = Before { name: &name, passed: 0 };
                let leaf = tree.seek(&mut probe);
                probe.passed + front_len(leaf.layout(), leaf, &name)
            }
        }
    }

    /// The last element.
    pub(crate) fn last(&self) -> Option<Item<'a>> {
        self.len().checked_sub(1).and_then(|last| self.get(last))
    }
}

/// Gives an element a value; the `Lsn` that it had.
pub(crate) fn put(buffer: &mut impl Buffer, name: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
    let (name_len, value_len) = (Varint::new(name.len()), Varint::new(value.len()));
    let layout = buffer.admit(STREAM, lsn);
    let lsn = layout.lsn_bytes(lsn);
    let parts = [lsn.as_slice(), name_len.as_slice(), name, value_len.as_slice(), value];
    let mut at = buffer.bytes().len();
    // An entry is behind all else as a rule: then no name but the last is compared with its own.
    let items = Items { bytes: buffer.bytes(), at: buffer.near_last(), layout };
    let last = is_behind_others(name).then(|| items.last()).flatten();
    if last.is_some_and(|last| last.name < name) {
        buffer.insert(at, &parts);
        return None;
    }
    let mut found = None;
    for item in packed::items(layout, buffer.bytes()) {
        match item.name.cmp(name) {
            Ordering::Less => {}
            Ordering::Equal => {
                found = Some((item.range(), item.lsn()));
                break;
            }
            Ordering::Greater => {
                at = item.at;
                break;
            }
        }
    }
    match found {
        Some((range, old)) => {
            buffer.splice(range, &parts);
            Some(old)
        }
        None => {
            buffer.insert(at, &parts);
            None
        }
    }
}

impl Tree<StreamOrder> {
    /// Gives an element a value; the `Lsn` that it had.
    pub(crate) fn put(&mut self, name: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
        let name = spelling::short(name);
        self.edit(&mut ByName(&name), |leaf, _| put(leaf, &name, value, lsn))
    }

    /// Takes out an element; the `Lsn` that it had.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Lsn> {
        let name = spelling::short(name);
        self.edit(&mut ByName(&name), |leaf, _| packed::remove(STREAM, leaf, &name))
    }

    /// The tree of these elements, in any order; of those with one name, the last counts.
    pub(crate) fn build_sorted<'a>(items: impl Iterator<Item = Item<'a>>) -> Self {
        let mut bytes = Vec::new();
        for item in items {
            let (name, value_len) = (spelling::short(item.name), Varint::new(item.value.len()));
            let name_len = Varint::new(name.len());
            let lsn = packed::lsn_bytes(item.lsn());
            let parts = [&lsn[..], name_len.as_slice(), &name, value_len.as_slice(), item.value];
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
        }
        let items = packed::items(STREAM, &bytes);
        if items.clone().is_sorted_by(|a, b| a.name < b.name) {
            // As a checkpoint has them: then no list of them is needed.
            return Tree::build(items);
        }
        let mut items: Vec<Item<'_>> = items.collect();
        items.sort_by(|a, b| a.name.cmp(b.name));
        items.dedup_by(|later, kept| {
            let same = later.name == kept.name;
            if same {
                *kept = *later;
            }
            same
        });
        Tree::build(items)
    }
}

/// Bytes of elements that are spelled again together; a leaf with whole names is within them as a rule.
const SPELLED_BYTES: usize = 4096;

/// Elements of nodes on their way to a checkpoint. Takes no memory: a child of a fork uses it.
struct Spelling<'v, V: FnMut(&[u8])> {
    visit: &'v mut V,
    run: [u8; SPELLED_BYTES],
    len: usize,
}

impl<V: FnMut(&[u8])> Spelling<'_, V> {
    fn push(&mut self, part: &[u8]) {
        if part.len() > SPELLED_BYTES - self.len {
            self.flush();
        }
        if part.len() > SPELLED_BYTES {
            return (self.visit)(part);
        }
        self.run[self.len..self.len + part.len()].copy_from_slice(part);
        self.len += part.len();
    }

    fn flush(&mut self) {
        if self.len > 0 {
            (self.visit)(&self.run[..self.len]);
            self.len = 0;
        }
    }
}

/// Calls `visit` with runs of bytes that are, one behind the other, the elements of a tree as a checkpoint
/// has them: with long names and whole `Lsn`s. A run may end within an element.
pub(crate) fn for_each_long(tree: &Tree<StreamOrder>, visit: &mut impl FnMut(&[u8])) {
    let mut spelling = Spelling { visit, run: [0; SPELLED_BYTES], len: 0 };
    tree.for_each_leaf(&mut |leaf| {
        for item in leaf.items() {
            let (lsn, name) = (packed::lsn_bytes(item.lsn()), spelling::long(item.name));
            let (name_len, value_len) = (Varint::new(name.len()), Varint::new(item.value.len()));
            let parts = [&lsn[..], name_len.as_slice(), &name, value_len.as_slice(), item.value];
            parts.iter().for_each(|part| spelling.push(part));
        }
    });
    spelling.flush();
}

/// Whether the elements stand in their order, each once.
pub(crate) fn is_sorted(layout: Layout, bytes: &[u8]) -> bool {
    let names = packed::items(layout, bytes).map(|item| item.name);
    names.clone().zip(names.skip(1)).all(|(one, next)| one < next)
}

/// Whether all names are as checkpoints have them: no entry has the name that it has in nodes.
pub(crate) fn are_long(layout: Layout, bytes: &[u8]) -> bool {
    packed::items(layout, bytes).all(|item| Name::parse(item.name).is_some())
}

/// Calls `visit` with the `Lsn` of each element below these nodes that has a record of its own.
pub(crate) fn for_each_lsn(links: &[Link<StreamOrder>], visit: &mut impl FnMut(Lsn)) {
    for link in links {
        link.for_each_leaf(&mut |leaf| lsns_of(leaf.layout(), leaf).for_each(&mut *visit));
    }
}

/// The `Lsn`s of the elements that have records of their own.
pub(crate) fn lsns_of(layout: Layout, bytes: &[u8]) -> impl Iterator<Item = Lsn> {
    let own = packed::items(layout, bytes).filter(|item| !super::element::is_derived(item.name));
    own.map(|item| item.lsn())
}
