//! Entries as bytes of a file: the same bytes as in memory, and the checks when they are read.
//!
//! ```text
//!   in one allocation   the block (see `block.rs`), payload included
//!   in nodes            the block without payload; the leaves, one behind the other; of a sorted set those
//!                       of the index, from which the ranking follows; of a string pieces of any length;
//!                       of a hash whose fields have times also the leaves of these, as of a sorted set
//! ```
//!
//! A checksum of the file says that the bytes are those that were written; the checks here are for files that
//! somebody else made: nothing read from a file may make the store panic later, or take a later write for a
//! record that was replaced. So no `Lsn` of an entry, of its parts too, is newer than the file's cut.

use super::ValueRef;
use super::block::Block;
use super::body::Body;
use super::chunks::Chunks;
use super::nodes::Nodes;
use super::packed::{self, Layout, SCORE_BYTES, ZSET, layout_of};
use super::run::checked_run;
use super::stream::order;
use super::string::WHOLE_BYTES_MAX;
use crate::record::{BYTES_MAX, FIELD_TIME_MAX, Kind, Lsn};

/// How an entry is stored.
pub(crate) enum Stored<'a> {
    /// In one piece.
    Whole(&'a [u8]),
    /// The block, and the nodes with all elements, or all bytes.
    Nodes(&'a [u8], &'a Nodes),
}

/// Why bytes of a checkpoint do not become an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotStored {
    /// They are no entry.
    #[error("this is no entry")]
    NoEntry,
    /// The entry, or a part of it, has an `Lsn` above the cut.
    #[error("an entry is newer than the checkpoint")]
    Newer,
}

impl Body {
    pub(crate) fn stored(&self) -> Stored<'_> {
        match self.nodes() {
            None => Stored::Whole(self.block().as_bytes()),
            Some(nodes) => Stored::Nodes(self.block().as_bytes(), nodes),
        }
    }

    /// The body of these bytes, with nothing newer than `cut`.
    pub(crate) fn from_stored(bytes: &[u8], cut: Lsn) -> Result<Body, NotStored> {
        let block = checked_block(bytes, cut)?;
        let kind = block.kind();
        if !kind.is_bytes() {
            let (layout, count, elements) = block.checked_elements().ok_or(NotStored::NoEntry)?;
            let found = check_items(layout, elements, cut)?;
            let is_in_order = match kind {
                Kind::ZSet => is_sorted(layout, elements),
                Kind::Stream => order::is_sorted(layout, elements) && order::are_long(layout, elements),
                _ => true,
            };
            if count != found || count == 0 || !is_in_order {
                return Err(NotStored::NoEntry);
            }
            return checked_stream(Body::of_packed(block));
        }
        if block.payload().len() > WHOLE_BYTES_MAX {
            return Ok(Body::string(&block.header(), block.key(), block.payload()));
        }
        Ok(Body::of_block(block))
    }

    /// The body of a block, the leaves of its nodes, and those of the times of fields, with nothing newer
    /// than `cut`.
    pub(crate) fn from_stored_nodes(
        head: &[u8],
        leaves: &[&[u8]],
        times: &[&[u8]],
        cut: Lsn,
    ) -> Result<Body, NotStored> {
        let block = checked_block(head, cut)?;
        let kind = block.kind();
        if !block.payload().is_empty() || kind != Kind::Hash && !times.is_empty() {
            return Err(NotStored::NoEntry);
        }
        if kind.is_bytes() {
            let mut chunks = Chunks::default();
            for leaf in leaves {
                chunks.write(chunks.len(), leaf);
            }
            let is_string = chunks.len() <= BYTES_MAX;
            return is_string.then(|| Body::of_nodes(block, Nodes::String(chunks))).ok_or(NotStored::NoEntry);
        }
        let elements = leaves.concat();
        let count = check_items(layout_of(kind), &elements, cut)?;
        if kind == Kind::Stream && !order::are_long(layout_of(kind), &elements) {
            return Err(NotStored::NoEntry);
        }
        let mut nodes = Nodes::build(kind, &elements).ok_or(NotStored::NoEntry)?;
        // A name that is there twice is no set.
        if count == 0 || nodes.count() != count {
            return Err(NotStored::NoEntry);
        }
        if !times.is_empty() {
            put_times(&mut nodes, &times.concat(), cut)?;
        }
        checked_stream(Body::of_nodes(block, nodes))
    }
}

/// Gives fields of a hash the times that a file has of them.
fn put_times(nodes: &mut Nodes, times: &[u8], cut: Lsn) -> Result<(), NotStored> {
    let count = check_items(ZSET, times, cut)?;
    let ValueRef::Hash(hash) = nodes.value() else { return Err(NotStored::NoEntry) };
    let is_sound = |item: packed::Item<'_>| {
        let at = item.score();
        let is_time = at.trunc() == at && (0.0..=FIELD_TIME_MAX as f64).contains(&at);
        // A record of the time that is older than that of the field would have been ended by it.
        is_time && hash.form.find(item.name).is_some_and(|field| field.lsn() <= item.lsn())
    };
    if count == 0 || !packed::items(ZSET, times).all(is_sound) {
        return Err(NotStored::NoEntry);
    }
    nodes.put_times(times);
    let is_each_once = nodes.times().is_some_and(|times| times.len() == count);
    is_each_once.then_some(()).ok_or(NotStored::NoEntry)
}

impl Nodes {
    /// Calls `visit` with the elements of each leaf, or a string's bytes piece by piece.
    pub(crate) fn for_each_stored_leaf(&self, visit: &mut impl FnMut(&[u8])) {
        match self {
            Nodes::String(chunks) => chunks.pieces(0..chunks.len()).for_each(visit),
            Nodes::List(tree) => tree.for_each_leaf(&mut |leaf| visit(leaf)),
            Nodes::Set(tree) => tree.for_each_leaf(&mut |leaf| visit(leaf)),
            Nodes::ZSet(trees) => trees.index.for_each_leaf(&mut |leaf| visit(leaf)),
            Nodes::Hash(tree) => tree.for_each_leaf(&mut |leaf| visit(leaf)),
            Nodes::TimedHash(hash) => hash.fields.for_each_leaf(&mut |leaf| visit(leaf)),
            Nodes::Stream(tree) => order::for_each_long(tree, visit),
        }
    }

    /// Calls `visit` with the times of fields leaf by leaf, if there are any.
    pub(crate) fn for_each_stored_time(&self, visit: &mut impl FnMut(&[u8])) {
        if let Some(times) = self.times() {
            times.for_each_leaf(visit);
        }
    }
}

/// The key of a stored block; `None` if it is none.
pub(crate) fn key_of(bytes: &[u8]) -> Option<&[u8]> {
    Block::key_of(bytes)
}

/// The block of these bytes, its `Lsn`s checked.
fn checked_block(bytes: &[u8], cut: Lsn) -> Result<Block, NotStored> {
    let block = Block::checked(bytes).ok_or(NotStored::NoEntry)?;
    let header = block.header();
    if !block.has_sound_width() {
        return Err(NotStored::NoEntry);
    }
    let newest = [Some(header.lsn), header.base, header.expiry_lsn].into_iter().flatten().max();
    // Views, and so the next checkpoint, would take it for a write that came after them.
    if newest > Some(cut) { Err(NotStored::Newer) } else { Ok(block) }
}

/// How many elements `bytes` consists of, all of records up to `cut`.
fn check_items(layout: Layout, bytes: &[u8], cut: Lsn) -> Result<usize, NotStored> {
    let no_entry = || NotStored::NoEntry;
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let prefix = bytes.get(at..at + layout.prefix).ok_or_else(no_entry)?;
        if layout.prefix >= SCORE_BYTES
            && prefix.last_chunk().is_none_or(|score| f64::from_le_bytes(*score).is_nan())
        {
            return Err(NotStored::NoEntry);
        }
        // A later write of the same number would be taken for replaced with the element.
        let lsn = layout.lsn_in(prefix);
        if lsn > cut || lsn >= Lsn::END {
            return Err(NotStored::Newer);
        }
        at = checked_run(bytes, at + layout.prefix).ok_or_else(no_entry)?.1;
        if layout.pair {
            at = checked_run(bytes, at).ok_or_else(no_entry)?.1;
        }
        count += 1;
    }
    Ok(count)
}

/// The body, if it is no stream, or one of sound elements.
fn checked_stream(body: Body) -> Result<Body, NotStored> {
    match body.value() {
        ValueRef::Stream(stream) if !stream.is_sound() => Err(NotStored::NoEntry),
        _ => Ok(body),
    }
}

fn is_sorted(layout: Layout, elements: &[u8]) -> bool {
    let mut members = packed::items(layout, elements).map(|item| (item.score(), item.name));
    let Some(mut last) = members.next() else { return true };
    members.all(|member| {
        let rises = last.0 < member.0 || last.0 == member.0 && last.1 < member.1;
        last = member;
        rises
    })
}
