//! Large values of every type, and the garbage that they leave.

use super::block::Block;
use super::chunks::Chunks;
use super::form::Form;
use super::hash::HashRef;
use super::left::Counted;
use super::list::{ListOrder, ListRef};
use super::packed::{self, HASH, Item, LIST, SET, ZSET};
use super::scattered::{HashOrder, SetOrder};
use super::set::SetRef;
use super::stream::StreamRef;
use super::stream::order::{self, STREAM, StreamOrder};
use super::string::StringRef;
use super::timed::{TimedHash, Times};
use super::tree::{Link, Order, Tree};
use super::zset::{ZSetRef, ZSetTrees};
use super::{ValueRef, scattered};
use crate::record::{Kind, Lsn, UnixMs};

/// Bytes of elements that stay packed.
pub(crate) const PACKED_BYTES_MAX: usize = 2048;
/// Elements that stay packed.
pub(crate) const PACKED_COUNT_MAX: usize = 128;

/// A large collection, or a giant string or document. Its clone is another owner of the same nodes.
#[derive(Clone)]
pub(crate) enum Nodes {
    String(Chunks),
    List(Tree<ListOrder>),
    Set(Tree<SetOrder>),
    ZSet(ZSetTrees),
    Hash(Tree<HashOrder>),
    TimedHash(TimedHash),
    Stream(Tree<StreamOrder>),
}

const _: () = assert!(
    size_of::<TimedHash>() <= size_of::<ZSetTrees>(),
    "large values without times are no larger because others have some"
);

impl Nodes {
    /// Packed elements as nodes; `None` for a string or a document, which has no elements. Of elements with
    /// one name, the last counts.
    pub(crate) fn build(kind: Kind, bytes: &[u8]) -> Option<Nodes> {
        Some(match kind {
            Kind::String | Kind::Json => return None,
            Kind::List => Nodes::List(Tree::build(packed::items(LIST, bytes))),
            Kind::Set => Nodes::Set(Tree::build_scattered(packed::items(SET, bytes))),
            Kind::ZSet => Nodes::ZSet(ZSetTrees::build(packed::items(ZSET, bytes))),
            Kind::Hash => Nodes::Hash(Tree::build_scattered(packed::items(HASH, bytes))),
            Kind::Stream => Nodes::Stream(Tree::build_sorted(packed::items(STREAM, bytes))),
        })
    }

    /// Whether these are the nodes of such a value.
    pub(crate) fn are_of(&self, kind: Kind) -> bool {
        match self {
            Nodes::String(_) => kind.is_bytes(),
            Nodes::List(_) => kind == Kind::List,
            Nodes::Set(_) => kind == Kind::Set,
            Nodes::ZSet(_) => kind == Kind::ZSet,
            Nodes::Hash(_) | Nodes::TimedHash(_) => kind == Kind::Hash,
            Nodes::Stream(_) => kind == Kind::Stream,
        }
    }

    /// Elements; a string's bytes.
    pub(crate) fn count(&self) -> usize {
        match self {
            Nodes::String(chunks) => chunks.len(),
            Nodes::List(tree) => tree.len(),
            Nodes::Set(tree) => tree.len(),
            Nodes::ZSet(trees) => trees.index.len(),
            Nodes::Hash(tree) => tree.len(),
            Nodes::TimedHash(hash) => hash.fields.len(),
            Nodes::Stream(tree) => tree.len(),
        }
    }

    /// Bytes of memory, this included; nodes that others own too count in full.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Nodes>()
            + match self {
                Nodes::String(chunks) => chunks.bytes(),
                Nodes::List(tree) => tree.bytes(),
                Nodes::Set(tree) => tree.bytes(),
                Nodes::ZSet(trees) => trees.index.bytes() + trees.ranking.bytes(),
                Nodes::Hash(tree) => tree.bytes(),
                Nodes::TimedHash(hash) => hash.fields.bytes() + hash.times.bytes(),
                Nodes::Stream(tree) => tree.bytes(),
            }
    }

    /// As `bytes`, by the number of elements and the first leaf, or by the length.
    pub(crate) fn bytes_about(&self) -> usize {
        size_of::<Nodes>()
            + match self {
                Nodes::String(chunks) => chunks.bytes_about(),
                Nodes::List(tree) => tree.bytes_about(),
                Nodes::Set(tree) => tree.bytes_about(),
                Nodes::ZSet(trees) => trees.index.bytes_about() + trees.ranking.bytes_about(),
                Nodes::Hash(tree) => tree.bytes_about(),
                Nodes::TimedHash(hash) => hash.fields.bytes_about() + hash.times.bytes_about(),
                Nodes::Stream(tree) => tree.bytes_about(),
            }
    }

    /// As `bytes`, of these nodes; about, if there are many.
    pub(crate) fn bytes_of(&self, counted: Counted) -> usize {
        size_of::<Nodes>()
            + match self {
                Nodes::String(chunks) if counted == Counted::All => chunks.bytes(),
                Nodes::String(chunks) => chunks.bytes_own(),
                Nodes::List(tree) => tree.bytes_of(counted),
                Nodes::Set(tree) => tree.bytes_of(counted),
                Nodes::ZSet(trees) => trees.index.bytes_of(counted) + trees.ranking.bytes_of(counted),
                Nodes::Hash(tree) => tree.bytes_of(counted),
                Nodes::TimedHash(hash) => hash.fields.bytes_of(counted) + hash.times.bytes_of(counted),
                Nodes::Stream(tree) => tree.bytes_of(counted),
            }
    }

    pub(crate) fn value(&self) -> ValueRef<'_> {
        match self {
            Nodes::String(chunks) => ValueRef::String(StringRef::of_chunks(chunks)),
            Nodes::List(tree) => ValueRef::List(ListRef { form: Form::Tree(tree) }),
            Nodes::Set(tree) => ValueRef::Set(SetRef { form: Form::Tree(tree) }),
            Nodes::ZSet(trees) => ValueRef::ZSet(ZSetRef {
                index: Form::Tree(&trees.index),
                ranking: Form::Tree(&trees.ranking),
            }),
            Nodes::Hash(tree) => ValueRef::Hash(HashRef::of(Form::Tree(tree))),
            Nodes::TimedHash(hash) => ValueRef::Hash(HashRef::timed(hash)),
            Nodes::Stream(tree) => ValueRef::Stream(StreamRef { form: Form::Tree(tree) }),
        }
    }

    /// The times of a hash that has some.
    #[inline]
    pub(crate) fn times(&self) -> Option<&Times> {
        match self {
            Nodes::TimedHash(hash) => Some(&hash.times),
            _ => None,
        }
    }

    /// Gives a field of a hash a time; the `Lsn` of the one that it had. REQUIRES: the field is there.
    pub(crate) fn put_time(&mut self, field: &[u8], at: UnixMs, lsn: Lsn) -> Option<Lsn> {
        match self {
            Nodes::TimedHash(hash) => hash.times.put(field, at, lsn),
            Nodes::Hash(tree) => {
                let fields = std::mem::replace(tree, Tree::of(Vec::new()));
                let times = Box::new(Times::of(field, at, lsn));
                *self = Nodes::TimedHash(TimedHash { fields, times });
                None
            }
            _ => None,
        }
    }

    /// Gives fields their times, packed as `Times::build` takes them. REQUIRES: they are there, and none has
    /// one yet.
    pub(crate) fn put_times(&mut self, packed: &[u8]) {
        let times = Times::build(packed);
        if let Nodes::Hash(tree) = self
            && times.len() > 0
        {
            let fields = std::mem::replace(tree, Tree::of(Vec::new()));
            *self = Nodes::TimedHash(TimedHash { fields, times: Box::new(times) });
        }
    }

    /// Takes away the time of a field; its `Lsn`.
    pub(crate) fn remove_time(&mut self, field: &[u8]) -> Option<Lsn> {
        let Nodes::TimedHash(hash) = self else { return None };
        let old = hash.times.remove(field);
        if hash.times.len() == 0 {
            let fields = std::mem::replace(&mut hash.fields, Tree::of(Vec::new()));
            *self = Nodes::Hash(fields);
        }
        old
    }

    /// Takes out an element by its name; the `Lsn` that it had. REQUIRES: a field has no time.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Lsn> {
        match self {
            Nodes::String(_) | Nodes::List(_) => None,
            Nodes::Set(tree) => tree.remove(name),
            Nodes::ZSet(trees) => trees.remove(name),
            Nodes::Hash(tree) => tree.remove(name),
            Nodes::TimedHash(hash) => hash.fields.remove(name),
            Nodes::Stream(tree) => tree.remove(name),
        }
    }

    fn for_each_lsn(&self, visit: &mut impl FnMut(Lsn)) {
        match self {
            Nodes::String(_) | Nodes::List(_) => {}
            Nodes::Set(tree) => visit_lsns(tree, visit),
            Nodes::ZSet(trees) => visit_lsns(&trees.index, visit),
            Nodes::Hash(tree) => visit_lsns(tree, visit),
            Nodes::TimedHash(hash) => {
                visit_lsns(&hash.fields, visit);
                hash.times.for_each_lsn(visit);
            }
            Nodes::Stream(tree) => order::for_each_lsn(std::slice::from_ref(&tree.root), visit),
        }
    }
}

fn visit_lsns<const PREFIX: usize, const PAIR: bool>(
    tree: &Tree<scattered::Scattered<PREFIX, PAIR>>,
    visit: &mut impl FnMut(Lsn),
) {
    let layout = scattered::Scattered::<PREFIX, PAIR>::LAYOUT;
    tree.for_each_leaf(&mut |leaf| packed::items(layout, leaf).for_each(|item: Item<'_>| visit(item.lsn())));
}

/// A large value on its way out: it is freed when this is dropped, which is better not done by a thread that
/// clients wait for.
pub struct Garbage(Rest);

/// The rest that is freed with it.
enum Rest {
    /// A whole value, and the record that it began with, which is reported elsewhere, and with it all older.
    Nodes { nodes: Box<Nodes>, base: Option<Lsn> },
    /// Parts of a list.
    Cut(#[allow(dead_code, reason = "held to be dropped")] Vec<Link<ListOrder>>),
    /// Elements of a stream, and the record that it began with.
    Elements { links: Vec<Link<StreamOrder>>, base: Option<Lsn> },
    /// A giant key.
    Block(#[allow(dead_code, reason = "held to be dropped")] Block),
}

impl Garbage {
    pub(crate) fn nodes(nodes: Box<Nodes>, base: Option<Lsn>) -> Garbage {
        Garbage(Rest::Nodes { nodes, base })
    }

    pub(crate) fn cut(links: Vec<Link<ListOrder>>) -> Garbage {
        Garbage(Rest::Cut(links))
    }

    pub(crate) fn elements(links: Vec<Link<StreamOrder>>, base: Option<Lsn>) -> Garbage {
        Garbage(Rest::Elements { links, base })
    }

    pub(crate) fn block(block: Block) -> Garbage {
        Garbage(Rest::Block(block))
    }

    /// Calls `visit` with each `Lsn` of an element whose record is no longer needed.
    pub fn for_each_lsn(&self, visit: &mut impl FnMut(Lsn)) {
        let (Rest::Nodes { base, .. } | Rest::Elements { base, .. }) = &self.0 else { return };
        let mut visit = |lsn| {
            if base.is_none_or(|base| lsn > base) {
                visit(lsn)
            }
        };
        match &self.0 {
            Rest::Nodes { nodes, .. } => nodes.for_each_lsn(&mut visit),
            Rest::Elements { links, .. } => order::for_each_lsn(links, &mut visit),
            Rest::Cut(_) | Rest::Block(_) => {}
        }
    }
}
