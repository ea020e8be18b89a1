//! The words by which commands say which entries of a stream are to go, and what becomes of what groups know
//! of them.

use tarn_engine::value::StreamRef;
use tarn_engine::value::stream::StreamId;

/// Entries of a node in Redis, of which `~` removes whole ones, where `stream-node-max-entries` does not say.
const NODE_ENTRIES: usize = 100;

/// Entries of a node, if `stream-node-max-entries` is this.
pub(super) fn node_entries(setting: usize) -> usize {
    if setting == 0 { NODE_ENTRIES } else { setting }
}

/// The fate of what is pending of an entry that is to be removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Refs {
    /// It stays.
    #[default]
    Keep,
    /// It goes, too.
    Remove,
    /// The entry stays as long as a group has not read it, or something of it is pending.
    Acked,
}

impl Refs {
    /// The word for it, if this is one.
    pub(super) fn parse(word: &[u8]) -> Option<Refs> {
        let is = |option: &str| word.eq_ignore_ascii_case(option.as_bytes());
        match () {
            () if is("keepref") => Some(Refs::Keep),
            () if is("delref") => Some(Refs::Remove),
            () if is("acked") => Some(Refs::Acked),
            () => None,
        }
    }
}

/// The entries that a trim leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    /// So many entries.
    Length(u64),
    /// Entries with this ID or greater ones.
    Id(StreamId),
}

/// How a stream is trimmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trim {
    pub(super) bound: Bound,
    /// Whether it is enough to remove whole nodes, and how many entries at most; 0: no matter how many.
    pub(super) about: Option<u64>,
    /// Entries of a node.
    pub(super) node_entries: usize,
    pub(super) refs: Refs,
}

impl Trim {
    /// Whether the first entry of a new stream goes at once.
    pub(super) fn takes_the_only(&self, id: StreamId) -> bool {
        match self.bound {
            Bound::Length(most) => most == 0,
            Bound::Id(least) => id < least,
        }
    }

    /// How many entries go at most, and how many of the first may, of a stream to which the entry `added` is
    /// about to be added.
    pub(super) fn most_and_reach(&self, stream: StreamRef<'_>, added: Option<StreamId>) -> (usize, usize) {
        let len = stream.len() + usize::from(added.is_some());
        match self.bound {
            Bound::Length(most) => (len.saturating_sub(usize::try_from(most).unwrap_or(usize::MAX)), len),
            Bound::Id(least) => {
                let reach = stream.rank(least) + usize::from(added.is_some_and(|added| added < least));
                (reach, reach)
            }
        }
    }

    /// How many entries go at most, whatever the bound is.
    pub(super) fn limit(&self) -> usize {
        match self.about {
            None | Some(0) => usize::MAX,
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }
}
