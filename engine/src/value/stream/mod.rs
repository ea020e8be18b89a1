//! Streams: entries in the order of their IDs, and the consumer groups that read them.
//!
//! A stream is an ordered collection of *elements*, each a name with a value and the `Lsn` of its newest
//! record, as the fields of a hash are. See [`element`] for what they are and `order` for how they stand.
//! Commands never take away the *head*, so a stream that lost its last entry stays, as in Redis.
//!
//! What a stream knows of its newest entry is derived: an entry says how many were added up to it, so that an
//! append is one record. A head that is as new as the newest entry, or newer, counts instead of it; a command
//! that removes entries writes one first.

pub mod element;
mod group;
#[cfg(test)]
mod model_tests;
pub(crate) mod order;
mod producer;
pub(crate) mod spelling;

pub use element::{Consumer, Fields, GroupState, Idempotence, Message, Pending, StreamHead, StreamId};
pub use group::GroupRef;
pub use producer::ProducerRef;
pub use spelling::Spelled;

use std::ops::Range;

use super::form::Form;
use super::packed::Item;
use element::{ENTRY, Name};
use order::StreamOrder;

/// A stream, borrowed from its entry.
#[derive(Clone, Copy)]
pub struct StreamRef<'a> {
    pub(crate) form: Form<'a, StreamOrder>,
}

/// An entry of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamEntry<'a> {
    /// Its ID.
    pub id: StreamId,
    /// How many entries had been added to the stream with it.
    pub ordinal: u64,
    /// Its fields.
    pub fields: Fields<'a>,
}

impl<'a> StreamEntry<'a> {
    fn of(item: Item<'a>) -> Option<StreamEntry<'a>> {
        let id = spelling::id_of(item.name)?;
        let (ordinal, fields) = element::read_entry(item.value)?;
        Some(StreamEntry { id, ordinal, fields })
    }
}

impl<'a> StreamRef<'a> {
    /// Where the entries begin among the elements.
    fn entries_at(&self) -> usize {
        self.form.lower_bound(&[ENTRY])
    }

    /// How many entries there are; there may be none.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.form.len() - self.entries_at()
    }

    /// The entry with this ID.
    pub fn get(&self, id: StreamId) -> Option<StreamEntry<'a>> {
        self.form.find(&element::entry_name(id)).and_then(StreamEntry::of)
    }

    /// The first entry.
    pub fn first(&self) -> Option<StreamEntry<'a>> {
        self.iter_from(StreamId::MIN).next()
    }

    /// The last entry.
    pub fn last(&self) -> Option<StreamEntry<'a>> {
        self.form.last().and_then(StreamEntry::of)
    }

    /// The entries with this ID and greater ones.
    pub fn iter_from(&self, id: StreamId) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        let at = self.form.lower_bound(&element::entry_name(id));
        self.form.walk_from(at).map_while(StreamEntry::of)
    }

    /// The entries with this ID and smaller ones, the greatest first.
    pub fn rev_iter_from(&self, id: StreamId) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        let end = match id.next() {
            Some(next) => self.form.lower_bound(&element::entry_name(next)),
            None => self.form.len(),
        };
        let walk = end.checked_sub(1).map(|last| self.form.walk_back_from(last));
        walk.into_iter().flatten().map_while(StreamEntry::of)
    }

    /// How many entries have smaller IDs.
    pub fn rank(&self, id: StreamId) -> usize {
        self.form.lower_bound(&element::entry_name(id)) - self.entries_at()
    }

    /// The entries behind the first `rank` of them.
    pub fn iter_at(&self, rank: usize) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        self.form.walk_from(self.entries_at() + rank).map_while(StreamEntry::of)
    }

    /// The entry before which stand `rank` others, and those before it, the greatest first. REQUIRES: there
    /// are more than `rank`.
    pub fn rev_iter_at(&self, rank: usize) -> impl Iterator<Item = StreamEntry<'a>> + use<'a> {
        self.form.walk_back_from(self.entries_at() + rank).map_while(StreamEntry::of)
    }

    /// The entry before which stand `rank` entries.
    pub fn nth(&self, rank: usize) -> Option<StreamEntry<'a>> {
        self.form.get(self.entries_at() + rank).and_then(StreamEntry::of)
    }

    /// The stream as a whole.
    pub fn head(&self) -> StreamHead {
        // No name stands before that of the head.
        let written = self.form.get(0).filter(|item| item.name == &element::HEAD_NAME[..]);
        let written = written.and_then(|item| element::read_head(item.value));
        let head = written.unwrap_or_default();
        match self.last() {
            Some(last) if last.id > head.last_id => {
                StreamHead { last_id: last.id, entries_added: last.ordinal, ..head }
            }
            _ => head,
        }
    }

    /// The consumer group of this name.
    pub fn group(&self, name: &'a [u8]) -> Option<GroupRef<'a>> {
        GroupRef::find(*self, name)
    }

    /// How messages of producers are remembered, if they ever were, or somebody has said how.
    pub fn idempotence(&self) -> Option<Idempotence> {
        let item = self.form.find(&element::IDEMPOTENCE_NAME)?;
        element::read_idempotence(item.value)
    }

    /// The producer of this name, of which there may be no messages.
    pub fn producer(&self, name: &'a [u8]) -> ProducerRef<'a> {
        ProducerRef::of(*self, name)
    }

    /// The producers with messages, each after a search for it.
    pub fn producers(&self) -> impl Iterator<Item = ProducerRef<'a>> + use<'a> {
        let first = ProducerRef::first_from(*self, &element::BEFORE_PRODUCERS);
        std::iter::successors(first, ProducerRef::following)
    }

    /// The consumer groups, sorted by name.
    pub fn groups(&self) -> Vec<GroupRef<'a>> {
        self.some_groups(usize::MAX)
    }

    /// As `groups`; `None` if there are more than `most`, which is found without a look at all of them.
    pub fn groups_within(&self, most: usize) -> Option<Vec<GroupRef<'a>>> {
        Some(self.some_groups(most.saturating_add(1))).filter(|groups| groups.len() <= most)
    }

    /// So many of the groups, or all if there are fewer, by their names.
    fn some_groups(&self, wanted: usize) -> Vec<GroupRef<'a>> {
        let mut groups = Vec::new();
        let mut at = self.form.lower_bound(&[element::GROUP]);
        while groups.len() < wanted
            && let Some(item) = self.form.get(at)
            && let Some(group) = Name::parse(item.name).and_then(|name| name.group())
        {
            groups.extend(GroupRef::find(*self, group));
            at = self.form.lower_bound(&element::behind_group(group));
        }
        groups.sort_by(|a, b| a.name().cmp(b.name()));
        groups
    }

    /// Whether all elements are sound, and those that follow from others are there, and only they.
    pub(crate) fn is_sound(&self) -> bool {
        let (mut derived, mut sources) = (0, 0);
        let are_sound = self.form.walk_from(0).all(|item| {
            if element::is_derived(item.name) {
                derived += 1;
                return item.value.is_empty();
            }
            element::is_sound(&spelling::long(item.name), item.value)
                && element::derived_of(item.name, item.value).is_none_or(|name| {
                    sources += 1;
                    self.form.find(&name).is_some()
                })
        });
        are_sound && derived == sources
    }

    /// The elements that a copy of the stream needs: all but what follows from others. Their names are as the
    /// log has them.
    pub fn elements(&self) -> impl Iterator<Item = (Spelled<'a>, &'a [u8])> + use<'a> {
        let own = self.form.walk_from(0).filter(|item| !element::is_derived(item.name));
        own.map(|item| (spelling::long(item.name), item.value))
    }
}

/// The places of the elements that a removal takes away.
pub(crate) fn places(form: &Form<'_, StreamOrder>, from: &[u8], to: &[u8]) -> Range<usize> {
    let start = form.lower_bound(from);
    start..form.lower_bound(to).max(start)
}
