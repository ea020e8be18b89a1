//! The values of keys, as data structures: no log, no latch, no I/O.
//!
//! A small string stands in the one allocation of its entry, and so does a small collection, which is
//! *packed*: its elements stand one behind the other. Large ones live in trees of bounded copy-on-write
//! nodes, so that a clone costs nothing until one of the two is written to, and then a path of nodes. The
//! leaves of collections hold the bytes that packed ones do: one set of functions serves both.

pub(crate) mod block;
#[cfg(test)]
mod block_tests;
pub(crate) mod body;
pub(crate) mod chunks;
pub(crate) mod form;
pub mod geohash;
pub mod hash;
pub mod image;
pub(crate) mod left;
pub mod limits;
pub mod list;
mod making;
#[cfg(test)]
mod models;
pub(crate) mod nodes;
pub(crate) mod packed;
#[cfg(test)]
mod promises;
pub(crate) mod run;
pub(crate) mod scattered;
pub mod set;
pub(crate) mod stored;
pub mod stream;
pub(crate) mod string;
pub(crate) mod thin;
pub(crate) mod timed;
#[cfg(test)]
mod timed_models;
pub(crate) mod tree;
pub mod usage;
pub mod zset;

pub use hash::HashRef;
pub use image::{ImageBuilder, ImageError, elements_of};
pub use limits::EncodingLimits;
pub use list::ListRef;
pub use making::Making;
pub use nodes::Garbage;
pub use packed::is_same;
pub use set::SetRef;
pub use stream::StreamRef;
pub use string::StringRef;
pub use zset::ZSetRef;

use crate::record::UnixMs;
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

/// A value, borrowed from its entry.
#[derive(Clone, Copy)]
pub enum ValueRef<'a> {
    /// A string.
    String(StringRef<'a>),
    /// A list.
    List(ListRef<'a>),
    /// A set.
    Set(SetRef<'a>),
    /// A sorted set.
    ZSet(ZSetRef<'a>),
    /// A hash.
    Hash(HashRef<'a>),
    /// The text of a JSON document.
    Json(StringRef<'a>),
    /// A stream.
    Stream(StreamRef<'a>),
}

impl<'a> ValueRef<'a> {
    /// The value without the fields of a hash whose time is over at `now`.
    pub fn at(self, now: UnixMs) -> ValueRef<'a> {
        match self {
            ValueRef::Hash(hash) => ValueRef::Hash(hash.at(now)),
            other => other,
        }
    }

    /// The bytes of a value that is one run of them.
    pub fn bytes(self) -> Option<StringRef<'a>> {
        match self {
            ValueRef::String(bytes) | ValueRef::Json(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// One step of a scan: the cursor to go on with, 0 at the end, and what was found.
pub type Scanned<T> = (u64, Vec<T>);

static SEED: LazyLock<foldhash::quality::RandomState> =
    LazyLock::new(foldhash::quality::RandomState::default);

/// The 64-bit hash of a key or an element; seeded once a process.
pub fn hash_of(bytes: &[u8]) -> u64 {
    let mut hasher = SEED.build_hasher();
    hasher.write(bytes);
    hasher.finish()
}

/// Bits of a [`position_of`]: few enough for a cursor to survive clients that keep numbers as doubles.
pub(crate) const POSITION_BITS: u32 = 53;

/// Where an element stands in the order of its large hash or set, and in the order of scans: the top bits of
/// its hash.
pub(crate) fn position_of(element: &[u8]) -> u64 {
    hash_of(placed_part(element)) >> (64 - POSITION_BITS)
}

/// The part of an element that decides its position: all of it.
#[cfg(not(test))]
#[inline]
fn placed_part(element: &[u8]) -> &[u8] {
    element
}

/// In tests, what stands behind a NUL does not count, so that a test can put many elements at one position.
#[cfg(test)]
fn placed_part(element: &[u8]) -> &[u8] {
    element.split(|byte| *byte == 0).next().unwrap_or(element)
}

/// A uniform random number scaled to `0..count`.
pub(crate) fn scale(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}
