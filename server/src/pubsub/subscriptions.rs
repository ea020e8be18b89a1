//! The subscriptions of one client.

use std::collections::HashSet;

/// Bytes of memory that a subscription takes, about, beside its name: here, and among those who read it.
const NAME_BYTES: usize = 256;

/// A kind of subscriptions. Each has channels of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `SUBSCRIBE`.
    Channel,
    /// `PSUBSCRIBE`.
    Pattern,
    /// `SSUBSCRIBE`.
    Shard,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Channel, Kind::Pattern, Kind::Shard];
}

/// The subscriptions of one client.
#[derive(Debug, Default)]
pub struct Subscriptions {
    names: [HashSet<Box<[u8]>>; 3],
    bytes: usize,
}

impl Subscriptions {
    /// Adds a channel or a pattern. `false` if it is there.
    pub(super) fn add(&mut self, kind: Kind, name: &[u8]) -> bool {
        let names = &mut self.names[kind as usize];
        let is_new = !names.contains(name);
        if is_new {
            names.insert(name.into());
            self.bytes += NAME_BYTES + 2 * name.len();
        }
        is_new
    }

    /// Takes a channel or a pattern out. `false` if it is not there.
    pub(super) fn remove(&mut self, kind: Kind, name: &[u8]) -> bool {
        let was_there = self.names[kind as usize].remove(name);
        if was_there {
            self.bytes -= NAME_BYTES + 2 * name.len();
        }
        was_there
    }

    /// The channels or patterns of a kind, in no order.
    pub fn names(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        self.names[kind as usize].iter().map(|name| &**name)
    }

    /// How many of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.names[kind as usize].len()
    }

    /// Bytes of memory that the names take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.iter().all(HashSet::is_empty)
    }
}
