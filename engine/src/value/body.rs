//! All that one key holds, block and nodes: the operations on either form, and the move from one allocation
//! to nodes.
//!
//! A collection moves when it outgrows [`PACKED_BYTES_MAX`] or [`PACKED_COUNT_MAX`], and stays in nodes until
//! the key goes: what shrank tends to grow again, and a scan that began in nodes can go on. A string moves
//! when it becomes longer than [`WHOLE_BYTES_MAX`], and a new one that is put in its place may be small
//! again.

use super::block::{Block, EMPTY_LIST, Header};
use super::chunks::Chunks;
use super::form::Form;
use super::left::Counted;
use super::nodes::{Garbage, Nodes, PACKED_BYTES_MAX, PACKED_COUNT_MAX};
use super::packed::{self, Buffer, LIST};
use super::stream::{self, element, order};
use super::string::WHOLE_BYTES_MAX;
use super::thin::Either;
use super::thin::Which::{Large, Small};
use super::timed::Times;
use super::tree::{Link, Order, Tree};
use super::zset::ZSetTrees;
use super::{
    HashRef, ListRef, SetRef, StreamRef, ValueRef, ZSetRef, elements_of, hash, image, limits, list, set, zset,
};
use crate::record::{BYTES_MAX, Kind, Lsn, Made, Side, UnixMs};

/// Bytes from which on an allocation is freed elsewhere: giving it back to the system takes time.
const BLOCK_BYTES_LARGE: usize = 256 << 10;

/// Block and nodes, in 8 bytes: all is in the block, or it is a large collection or a giant string. The kind
/// is the block's; string operations are for strings, and so on.
#[derive(Clone)]
pub(crate) struct Body(Either<Parts>);

const _: () = assert!(size_of::<Option<Body>>() == 8, "the two forms are told apart by the pointer");

/// A collection of which the elements are in nodes, or a string in chunks; the block's payload is empty.
#[derive(Clone)]
struct Parts {
    block: Block,
    nodes: Nodes,
}

impl Body {
    #[inline]
    pub(crate) fn block(&self) -> &Block {
        match self.0.get() {
            Small(block) => block,
            Large(large) => &large.block,
        }
    }

    #[inline]
    pub(crate) fn block_mut(&mut self) -> &mut Block {
        self.parts_mut().0
    }

    #[inline]
    fn parts_mut(&mut self) -> (&mut Block, Option<&mut Nodes>) {
        match self.0.get_mut() {
            Small(block) => (block, None),
            Large(large) => (&mut large.block, Some(&mut large.nodes)),
        }
    }

    /// The nodes of a large value.
    #[inline]
    pub(crate) fn nodes(&self) -> Option<&Nodes> {
        match self.0.get() {
            Small(_) => None,
            Large(large) => Some(&large.nodes),
        }
    }

    /// A value of these nodes. REQUIRES: the block has no payload.
    pub(crate) fn of_nodes(block: Block, nodes: Nodes) -> Body {
        Body(Either::large(Box::new(Parts { block, nodes })))
    }

    /// A value of which all is in the block.
    pub(crate) fn of_block(block: Block) -> Body {
        Body(Either::small(block))
    }

    /// A collection of packed elements, as a file has it: many become nodes, and whole `Lsn`s distances.
    pub(crate) fn of_packed(block: Block) -> Body {
        let mut body = Body::of_block(block);
        body.unpack_if_large();
        let has_lsns = packed::layout_of(body.block().kind()).width() > 0;
        if body.nodes().is_none() && has_lsns && !body.block().is_narrow() {
            body.block_mut().packed().narrow(None);
        }
        body
    }

    /// A string, or a document.
    pub(crate) fn string(header: &Header, key: &[u8], value: &[u8]) -> Body {
        if value.len() <= WHOLE_BYTES_MAX {
            return Body::of_block(Block::new(header, key, value));
        }
        let mut chunks = Chunks::default();
        chunks.write(0, value);
        Body::of_nodes(Block::new(header, key, &[]), Nodes::String(chunks))
    }

    /// Nothing yet.
    pub(crate) fn empty(header: &Header, key: &[u8]) -> Body {
        match header.kind {
            kind if kind.is_bytes() => Body::string(header, key, &[]),
            _ => Body::of_block(Block::empty(header, key)),
        }
    }

    /// The collection of an image, all elements with the header's `Lsn`, or a document; `None` if it is no
    /// image of that kind, or empty.
    pub(crate) fn from_image(key: &[u8], header: &Header, image: &[u8]) -> Option<Body> {
        let (kind, lsn) = (header.kind, header.lsn);
        if kind == Kind::Json {
            return (1..=BYTES_MAX).contains(&image.len()).then(|| Body::string(header, key, image));
        }
        let (count, packed, has_times) = image::pack(kind, image, lsn).ok()?;
        if kind == Kind::Stream {
            return Body::stream(key, header, image);
        }
        let mut body = Body::of_elements(key, header, image, (count, packed))?;
        if has_times {
            for item in image::decode(kind, image).flatten() {
                match item.time {
                    Some(at) => _ = body.put_time(item.name, at, lsn),
                    // The last of those with one name counts.
                    None => _ = body.remove_time(item.name),
                }
            }
        }
        Some(body)
    }

    /// The collection of an image, without the times of fields; `packed` are its elements, and how many they
    /// are. `None` as `from_image`.
    fn of_elements(
        key: &[u8],
        header: &Header,
        image: &[u8],
        (count, packed): (usize, Vec<u8>),
    ) -> Option<Body> {
        let (kind, lsn) = (header.kind, header.lsn);
        let mut body = Body::empty(header, key);
        let items = image::decode(kind, image).flatten();
        if count > PACKED_COUNT_MAX || packed.len() > PACKED_BYTES_MAX {
            body.set_nodes(Nodes::build(kind, &packed)?);
            let (count, limits) = (body.count(), limits::current());
            if items.into_iter().any(|item| limits.passed(kind, count, item.name, item.value)) {
                body.block_mut().set_sticky();
            }
            return Some(body);
        }
        for item in items {
            match kind {
                Kind::String | Kind::Json | Kind::Stream => return None,
                Kind::List => body.list_insert(body.count(), item.name),
                Kind::Set => _ = body.set_add(item.name, lsn),
                Kind::ZSet => _ = body.zset_put(item.name, item.score, lsn),
                Kind::Hash => _ = body.hash_put(item.name, item.value, lsn),
            }
        }
        if body.nodes().is_none() && packed::layout_of(kind).width() > 0 {
            // One record says all of them.
            body.block_mut().packed().narrow(None);
        }
        (kind != Kind::String && body.count() > 0).then_some(body)
    }

    /// The stream of an image, all elements with the header's `Lsn`; `None` if it is empty.
    fn stream(key: &[u8], header: &Header, image: &[u8]) -> Option<Body> {
        let mut body = Body::empty(header, key);
        for item in image::decode(Kind::Stream, image).flatten() {
            body.stream_put(item.name, item.value, header.lsn);
        }
        if body.nodes().is_none() {
            // One record says all of them.
            body.block_mut().packed().narrow(None);
        }
        (body.count() > 0).then_some(body)
    }

    /// The value that is made already, as `to_made` or a replay gives it: nodes, or the bytes of its parts.
    /// `None` if it is not of the header's kind, or no value. REQUIRES: the header has a base.
    pub(crate) fn made(header: &Header, key: &[u8], made: &Made) -> Option<Body> {
        if let Some(nodes) = made.as_form::<Nodes>() {
            return nodes
                .are_of(header.kind)
                .then(|| Body::of_nodes(Block::new(header, key, &[]), nodes.clone()));
        }
        let bytes = made.as_form::<Vec<u8>>()?;
        if header.kind == Kind::String {
            return Some(Body::string(header, key, bytes));
        }
        // Its elements are as old as its first part.
        let mut body = Body::from_image(key, &Header { lsn: header.base?, ..*header }, bytes)?;
        body.block_mut().set_lsn(header.lsn);
        Some(body)
    }

    /// The value, in the form that `made` takes.
    pub(crate) fn to_made(&self) -> Made {
        match (self.nodes(), self.value()) {
            (Some(nodes), _) => Made::of(nodes.clone()),
            (None, ValueRef::String(value)) => Made::of(value.to_vec()),
            (None, value) => Made::of(elements_of(value)),
        }
    }

    /// Makes this string another one in the memory that it has; `false`, and nothing has changed, if that is
    /// not to be done.
    pub(crate) fn overwrite(&mut self, header: &Header, value: &[u8]) -> bool {
        let (block, nodes) = self.parts_mut();
        let len = block.payload().len();
        match nodes {
            Some(Nodes::String(chunks)) if chunks.len() == value.len() => chunks.write(0, value),
            None if block.kind().is_bytes()
                && value.len() <= WHOLE_BYTES_MAX
                && (len == value.len() || block.len() <= BLOCK_BYTES_LARGE) =>
            {
                block.splice_payload(0..len, &[value]);
            }
            _ => return false,
        }
        block.set_header(header);
        true
    }

    /// Writes `bytes` at `offset` of this string; zeros come between them and an end that is before.
    pub(crate) fn patch(&mut self, offset: usize, bytes: &[u8]) {
        let (block, nodes) = self.parts_mut();
        if let Some(Nodes::String(chunks)) = nodes {
            return chunks.write(offset, bytes);
        }
        let (len, end) = (block.payload().len(), offset + bytes.len());
        if end > WHOLE_BYTES_MAX {
            let mut chunks = Chunks::default();
            chunks.write(0, block.payload());
            chunks.write(offset, bytes);
            self.set_nodes(Nodes::String(chunks));
        } else if end > len {
            let zeros = vec![0; offset.saturating_sub(len)];
            block.splice_payload(offset.min(len)..len, &[&zeros, bytes]);
        } else {
            block.payload_mut()[offset..end].copy_from_slice(bytes);
        }
    }

    /// Whether a part takes long to free, so that another thread does it.
    pub(crate) fn is_slow_to_free(&self) -> bool {
        match self.0.get() {
            Large(large) => match &large.nodes {
                Nodes::String(chunks) => chunks.len() > BLOCK_BYTES_LARGE,
                _ => true,
            },
            Small(block) => block.len() > BLOCK_BYTES_LARGE,
        }
    }

    /// The part that takes long to free, if there is one.
    pub(crate) fn discard(self) -> Option<Garbage> {
        if !self.is_slow_to_free() {
            return None;
        }
        Some(match self.0.into_inner() {
            Large(large) => Garbage::nodes(Box::new(large.nodes), large.block.header().base),
            Small(block) => Garbage::block(block),
        })
    }

    /// Bytes of memory, this included.
    pub(crate) fn bytes(&self) -> usize {
        let large = self.nodes().map_or(0, |nodes| size_of::<Parts>() + nodes.bytes());
        size_of::<Body>() + self.block().bytes() + large
    }

    /// As `bytes`, but those of nodes are estimated by what one look tells.
    pub(crate) fn bytes_about(&self) -> usize {
        let large = self.nodes().map_or(0, |nodes| size_of::<Parts>() + nodes.bytes_about());
        size_of::<Body>() + self.block().bytes() + large
    }

    /// As `bytes`, of these nodes; about, if there are many.
    pub(crate) fn bytes_of(&self, counted: Counted) -> usize {
        let large = self.nodes().map_or(0, |nodes| size_of::<Parts>() + nodes.bytes_of(counted));
        size_of::<Body>() + self.block().bytes() + large
    }

    /// Bytes that a clone has for itself.
    pub(crate) fn bytes_of_clone(&self) -> usize {
        let times = self.times().map_or(0, |_| size_of::<Times>());
        let large = self.nodes().map_or(0, |_| size_of::<Parts>() + times);
        size_of::<Body>() + self.block().bytes() + large
    }

    /// The nodes as garbage, only for the records that it reports: others go on to use them. Those of a
    /// string have none.
    pub(crate) fn records_of_nodes(&self) -> Option<Garbage> {
        let nodes = self.nodes().filter(|nodes| !matches!(nodes, Nodes::String(_)))?.clone();
        Some(Garbage::nodes(Box::new(nodes), self.block().header().base))
    }

    /// The `Lsn`s of packed elements with records of their own, where they have any; those in nodes are
    /// reported by their [`Garbage`].
    pub(crate) fn packed_lsns(&self) -> impl Iterator<Item = Lsn> {
        let (layout, _, elements) = match self.nodes() {
            None => self.block().elements(),
            Some(_) => (LIST, 0, &[][..]),
        };
        let is_stream = self.block().kind() == Kind::Stream;
        let own =
            packed::items(layout, elements).filter(move |item| !is_stream || !element::is_derived(item.name));
        own.map(|item| item.lsn())
    }

    #[inline]
    pub(crate) fn value(&self) -> ValueRef<'_> {
        let kind = self.block().kind();
        if let Some(nodes) = self.nodes() {
            return match nodes.value() {
                ValueRef::String(text) if kind == Kind::Json => ValueRef::Json(text),
                value => value,
            };
        }
        let block = self.block();
        match kind {
            Kind::String => ValueRef::String(block.payload().into()),
            Kind::Json => ValueRef::Json(block.payload().into()),
            Kind::List => ValueRef::List(ListRef { form: packed_form(block) }),
            Kind::Set => ValueRef::Set(SetRef { form: packed_form(block) }),
            Kind::ZSet => ValueRef::ZSet(ZSetRef { index: packed_form(block), ranking: packed_form(block) }),
            Kind::Hash => ValueRef::Hash(HashRef::of(packed_form(block))),
            Kind::Stream => ValueRef::Stream(StreamRef { form: packed_form(block) }),
        }
    }

    /// The value, if it is a hash. Less to hand on than `value`: the compiler keeps it in registers.
    #[inline]
    pub(crate) fn hash(&self) -> Option<HashRef<'_>> {
        let block = self.block();
        if block.kind() != Kind::Hash {
            return None;
        }
        match self.nodes() {
            None => Some(HashRef::of(packed_form(block))),
            Some(Nodes::Hash(tree)) => Some(HashRef::of(Form::Tree(tree))),
            Some(Nodes::TimedHash(hash)) => Some(HashRef::timed(hash)),
            Some(_) => None,
        }
    }

    /// The times of fields, if this is a hash that has some.
    #[inline]
    pub(crate) fn times(&self) -> Option<&Times> {
        self.nodes().and_then(Nodes::times)
    }

    /// Whether at `now` the times of all fields are over, if this is a hash whose fields have times.
    #[inline]
    pub(crate) fn is_spent(&self, now: UnixMs) -> bool {
        matches!(self.nodes(), Some(Nodes::TimedHash(hash)) if hash.is_spent(now))
    }

    /// Gives a field a time; the `Lsn` of the one that it had. `None`, and nothing has changed, if the field
    /// is not there. REQUIRES: this is a hash.
    pub(crate) fn put_time(&mut self, field: &[u8], at: UnixMs, lsn: Lsn) -> Option<Option<Lsn>> {
        self.hash()?.form.find(field)?;
        if self.nodes().is_none() {
            self.unpack();
        }
        let (_, nodes) = self.parts_mut();
        nodes.map(|nodes| nodes.put_time(field, at, lsn))
    }

    /// Takes away the time of a field, if it has one; its `Lsn`.
    #[inline]
    pub(crate) fn remove_time(&mut self, field: &[u8]) -> Option<Lsn> {
        self.parts_mut().1?.remove_time(field)
    }

    /// Gives a field a value; the `Lsn` that it had.
    pub(crate) fn hash_put(&mut self, field: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
        let (block, nodes) = self.parts_mut();
        let old = match nodes {
            Some(Nodes::Hash(tree)) => tree.put(field, value, lsn),
            Some(Nodes::TimedHash(hash)) => hash.fields.put(field, value, lsn),
            _ => hash::put(&mut block.packed(), field, value, lsn),
        };
        self.settle(field, value);
        old
    }

    /// Adds a member, or notes its newer record; the `Lsn` that it had.
    pub(crate) fn set_add(&mut self, member: &[u8], lsn: Lsn) -> Option<Lsn> {
        let (block, nodes) = self.parts_mut();
        let old = match nodes {
            Some(Nodes::Set(tree)) => tree.add(member, lsn),
            _ => set::add(&mut block.packed(), member, lsn),
        };
        self.settle(member, &[]);
        old
    }

    /// Gives a member a score; the `Lsn` that it had.
    pub(crate) fn zset_put(&mut self, member: &[u8], score: f64, lsn: Lsn) -> Option<Lsn> {
        let (block, nodes) = self.parts_mut();
        let old = match nodes {
            Some(Nodes::ZSet(trees)) => trees.put(member, score, lsn),
            _ => zset::put(&mut block.packed(), member, score, lsn),
        };
        match old {
            None => self.settle(member, &[]),
            Some(_) => self.unpack_if_large(),
        }
        old
    }

    /// Gives packed members their scores in turn; `replaced` is told the `Lsn`s that they had. REQUIRES: a
    /// large sorted set.
    pub(crate) fn zset_put_all(&mut self, members: &[u8], replaced: impl FnMut(Lsn)) {
        if let (_, Some(Nodes::ZSet(trees))) = self.parts_mut()
            && let Some(longest) = trees.put_all(members, replaced)
        {
            self.note_limits(self.count(), longest, &[]);
        }
    }

    /// Puts trees in the place of its own, which it returns; `longest` is the longest member that is new.
    /// REQUIRES: a large sorted set.
    pub(crate) fn zset_replace(&mut self, trees: ZSetTrees, longest: Option<&[u8]>) -> Option<ZSetTrees> {
        let (_, Some(Nodes::ZSet(own))) = self.parts_mut() else { return None };
        let old = std::mem::replace(own, trees);
        if let Some(longest) = longest {
            self.note_limits(self.count(), longest, &[]);
        }
        Some(old)
    }

    /// Takes out an element by its name; the `Lsn` that it had.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Lsn> {
        let layout = packed::layout_of(self.block().kind());
        let (block, nodes) = self.parts_mut();
        match nodes {
            Some(nodes) => nodes.remove(name),
            None => packed::remove(layout, &mut block.packed(), name),
        }
    }

    /// Gives an element of a stream a value; the `Lsn` that it had. REQUIRES: it is sound.
    pub(crate) fn stream_put(&mut self, name: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
        if let Some(derived) = element::derived_of(name, value) {
            let former = self.derived_of(name);
            if former.as_ref() != Some(&derived) {
                if let Some(former) = former {
                    self.remove(&former);
                }
                self.stream_put_alone(&derived, &[], lsn);
            }
        }
        self.stream_put_alone(name, value, lsn)
    }

    fn stream_put_alone(&mut self, name: &[u8], value: &[u8], lsn: Lsn) -> Option<Lsn> {
        let (block, nodes) = self.parts_mut();
        let old = match nodes {
            Some(Nodes::Stream(tree)) => tree.put(name, value, lsn),
            _ => order::put(&mut block.packed(), name, value, lsn),
        };
        self.unpack_if_large();
        old
    }

    /// The name of what follows from the element of this name that is there.
    fn derived_of(&self, name: &[u8]) -> Option<element::NameBytes> {
        let ValueRef::Stream(stream) = self.value() else { return None };
        if !element::has_derived(name) {
            return None;
        }
        let item = stream.form.find(name)?;
        element::derived_of(name, item.value)
    }

    /// Takes out an element of a stream; the `Lsn` that it had.
    pub(crate) fn stream_remove(&mut self, name: &[u8]) -> Option<Lsn> {
        if let Some(derived) = self.derived_of(name) {
            self.remove(&derived);
        }
        self.remove(name)
    }

    /// Takes out the elements of a stream from one name to before another. Their `Lsn`s are told to
    /// `outdated` if they are few, and are in what is returned if they are many.
    pub(crate) fn stream_cut(
        &mut self,
        from: &[u8],
        to: &[u8],
        mut outdated: impl FnMut(Lsn),
    ) -> Option<Garbage> {
        let ValueRef::Stream(StreamRef { form }) = self.value() else { return None };
        let places = stream::places(&form, from, to);
        if places.is_empty() {
            return None;
        }
        let is_all = places.len() == self.count();
        let (block, nodes) = self.parts_mut();
        let Some(nodes) = nodes else {
            let (layout, _, bytes) = block.elements();
            let start = packed::offset_of(layout, bytes, places.start);
            let end = packed::offset_of(layout, bytes, places.end);
            order::lsns_of(layout, &bytes[start..end]).for_each(&mut outdated);
            block.packed().remove(start..end, places.len());
            return None;
        };
        let Nodes::Stream(tree) = nodes else { return None };
        let mut links = Vec::new();
        match is_all {
            true => links.push(std::mem::replace(tree, Tree::of(Vec::new())).root),
            false => tree.cut(places, &mut links),
        }
        links.iter().for_each(Link::note_left);
        // A thread that is woken costs more than a leaf or two.
        let are_few = links.len() <= 2 && links.iter().all(|link| matches!(link, Link::Leaf(_)));
        if are_few {
            order::for_each_lsn(&links, &mut outdated);
            return None;
        }
        Some(Garbage::elements(links, self.block().header().base))
    }

    /// Puts an element before the one at `index`, or behind the last. REQUIRES: `index` is at most the
    /// length.
    pub(crate) fn list_insert(&mut self, index: usize, element: &[u8]) {
        let (block, nodes) = self.parts_mut();
        match nodes {
            Some(Nodes::List(tree)) => tree.insert(index, element),
            _ => list::insert(&mut block.packed(), index, element),
        }
        self.unpack_if_large();
    }

    /// Puts an element in the place of the one at `index`. REQUIRES: there is one.
    pub(crate) fn list_put(&mut self, index: usize, element: &[u8]) {
        let (block, nodes) = self.parts_mut();
        match nodes {
            Some(Nodes::List(tree)) => tree.put(index, element),
            _ => list::put(&mut block.packed(), index, element),
        }
        self.unpack_if_large();
    }

    /// Takes out the element at `index`. REQUIRES: there is one.
    pub(crate) fn list_remove(&mut self, index: usize) {
        let (block, nodes) = self.parts_mut();
        match nodes {
            Some(Nodes::List(tree)) => tree.remove_at(index),
            _ => list::remove(&mut block.packed(), index, 1),
        }
    }

    /// Takes `popped` elements from an end, or all; what is left of large ones.
    pub(crate) fn list_pop(&mut self, side: Side, popped: usize) -> Option<Garbage> {
        let count = self.count();
        let (block, nodes) = self.parts_mut();
        match nodes {
            Some(Nodes::List(tree)) if popped < count => {
                let mut cut = Vec::new();
                tree.trim(side, popped, &mut cut);
                cut.iter().for_each(Link::note_left);
                let is_quick = match &cut[..] {
                    [] => true,
                    // A thread that is woken costs more.
                    [Link::Leaf(leaf)] => leaf.len() <= BLOCK_BYTES_LARGE,
                    _ => false,
                };
                (!is_quick).then(|| Garbage::cut(cut))
            }
            Some(nodes) => {
                if let Nodes::List(tree) = nodes {
                    tree.root.note_left();
                }
                block.splice_payload(0..0, &[&EMPTY_LIST]);
                let small = Body::of_block(std::mem::take(block));
                match std::mem::replace(self, small).0.into_inner() {
                    Large(large) => Some(Garbage::nodes(Box::new(large.nodes), None)),
                    Small(_) => None,
                }
            }
            None => {
                let popped = popped.min(count);
                let index = if side == Side::Front { 0 } else { count - popped };
                list::remove(&mut block.packed(), index, popped);
                None
            }
        }
    }

    /// Moves packed elements to nodes if they have become too many.
    fn unpack_if_large(&mut self) {
        if self.nodes().is_some() {
            return;
        }
        let (_, count, bytes) = self.block().elements();
        if count > PACKED_COUNT_MAX || bytes.len() > PACKED_BYTES_MAX {
            self.unpack();
        }
    }

    /// Moves packed elements to nodes. REQUIRES: there are some.
    #[cold]
    fn unpack(&mut self) {
        let (layout, _, bytes) = self.block().elements();
        let kind = self.block().kind();
        if let Some(nodes) = Nodes::build(kind, &packed::recode(layout, bytes, packed::layout_of(kind))) {
            self.set_nodes(nodes);
        }
    }

    fn set_nodes(&mut self, nodes: Nodes) {
        let mut block = std::mem::take(self.block_mut());
        block.clear_payload();
        *self = Body::of_nodes(block, nodes);
    }

    /// Notes whether Redis leaves the small encoding now that this element was put, and moves packed elements
    /// to nodes if they have become too many: one look at how many they are for both.
    #[inline]
    fn settle(&mut self, name: &[u8], value: &[u8]) {
        if self.nodes().is_some() {
            return self.note_limits(self.count(), name, value);
        }
        let (_, count, bytes) = self.block().elements();
        let is_large = count > PACKED_COUNT_MAX || bytes.len() > PACKED_BYTES_MAX;
        self.note_limits(count, name, value);
        if is_large {
            self.unpack();
        }
    }

    #[inline]
    fn note_limits(&mut self, count: usize, name: &[u8], value: &[u8]) {
        let block = self.block();
        if !block.sticky() && limits::current().passed(block.kind(), count, name, value) {
            self.block_mut().set_sticky();
        }
    }

    /// Elements of a collection.
    pub(crate) fn count(&self) -> usize {
        match self.nodes() {
            Some(nodes) => nodes.count(),
            None => self.block().elements().1,
        }
    }
}

#[inline]
fn packed_form<O: Order>(block: &Block) -> Form<'_, O> {
    let (layout, count, bytes) = block.elements();
    Form::Packed { layout, count, bytes }
}
