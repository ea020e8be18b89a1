//! Entries as bytes of a file: the very bytes of memory, and the checks with which they come back.
//!
//! ```text
//!   in one allocation   the block (see `block.rs`), payload included
//!   in nodes            the block without payload; the leaves, one behind the other; of a sorted set those
//!                       of the index, from which the ranking follows; of a string pieces of any length
//! ```
//!
//! A checksum of the file says that the bytes are those that were written; the checks here are for files that
//! somebody else made: nothing read from a file may make the store panic later.

use super::block::{Block, packed_parts};
use super::body::Body;
use super::chunks::Chunks;
use super::nodes::Nodes;
use super::packed::{self, LIST, Layout, ZSET, layout_of};
use super::run::checked_run;
use super::string::WHOLE_BYTES_MAX;
use crate::record::{BYTES_MAX, Kind};

/// How an entry is stored.
pub(crate) enum Stored<'a> {
    /// In one piece.
    Whole(&'a [u8]),
    /// The block, and the nodes with all elements, or all bytes.
    Nodes(&'a [u8], &'a Nodes),
}

impl Body {
    pub(crate) fn stored(&self) -> Stored<'_> {
        match self.nodes() {
            None => Stored::Whole(self.block().as_bytes()),
            Some(nodes) => Stored::Nodes(self.block().as_bytes(), nodes),
        }
    }

    /// The body of these bytes; `None` if they are none.
    pub(crate) fn from_stored(bytes: &[u8]) -> Option<Body> {
        let block = Block::checked(bytes)?;
        let kind = block.kind();
        if !kind.is_bytes() {
            let payload = block.payload();
            if payload.len() < 2 {
                return None;
            }
            let (count, elements) = packed_parts(payload);
            let found = check_items(layout_of(kind), elements)?;
            if count != found || count == 0 || kind == Kind::ZSet && !is_sorted(elements) {
                return None;
            }
        } else if block.payload().len() > WHOLE_BYTES_MAX {
            return Some(Body::string(&block.header(), block.key(), block.payload()));
        }
        Some(Body::Small(block))
    }

    /// The body of a block and the leaves of its nodes; `None` if they are none.
    pub(crate) fn from_stored_nodes(head: &[u8], leaves: &[&[u8]]) -> Option<Body> {
        let block = Block::checked(head)?;
        let kind = block.kind();
        if !block.payload().is_empty() {
            return None;
        }
        if kind.is_bytes() {
            let mut chunks = Chunks::default();
            for leaf in leaves {
                chunks.write(chunks.len(), leaf);
            }
            return (chunks.len() <= BYTES_MAX).then(|| Body::of_nodes(block, Nodes::String(chunks)));
        }
        let elements = leaves.concat();
        let count = check_items(layout_of(kind), &elements)?;
        let nodes = Nodes::build(kind, &elements)?;
        // A name that is there twice is no set.
        (count > 0 && nodes.count() == count).then(|| Body::of_nodes(block, nodes))
    }
}

impl Nodes {
    /// Calls `visit` with the elements of each leaf, or a string's bytes piece by piece.
    pub(crate) fn for_each_stored_leaf(&self, visit: &mut impl FnMut(&[u8])) {
        match self {
            Nodes::String(chunks) => chunks.pieces(0..chunks.len()).for_each(visit),
            Nodes::List(tree) => tree.for_each_leaf(visit),
            Nodes::Set(tree) => tree.for_each_leaf(visit),
            Nodes::ZSet(trees) => trees.index.for_each_leaf(visit),
            Nodes::Hash(tree) => tree.for_each_leaf(visit),
        }
    }
}

/// The key of a stored block; `None` if it is none.
pub(crate) fn key_of(bytes: &[u8]) -> Option<&[u8]> {
    Block::key_of(bytes)
}

/// How many elements `bytes` consists of; `None` if it does not consist of elements.
fn check_items(layout: Layout, bytes: &[u8]) -> Option<usize> {
    let (mut at, mut count) = (0, 0);
    while at < bytes.len() {
        let prefix = bytes.get(at..at + layout.prefix)?;
        if layout.prefix == ZSET.prefix && f64::from_le_bytes(*prefix.last_chunk()?).is_nan() {
            return None;
        }
        at = checked_run(bytes, at + layout.prefix)?.1;
        if layout.pair {
            at = checked_run(bytes, at)?.1;
        }
        count += 1;
    }
    Some(count)
}

fn is_sorted(elements: &[u8]) -> bool {
    let mut members = packed::items(ZSET, elements).map(|item| (item.score(), item.name));
    let Some(mut last) = members.next() else { return true };
    members.all(|member| {
        let rises = last.0 < member.0 || last.0 == member.0 && last.1 < member.1;
        last = member;
        rises
    })
}

const _: () = assert!(LIST.prefix != ZSET.prefix, "only the elements of sorted sets have a score");
