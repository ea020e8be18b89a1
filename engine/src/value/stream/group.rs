//! Consumer groups: what was delivered to whom, and is not acknowledged yet.

use super::StreamRef;
use super::element::{self, CONSUMER, Consumer, GroupState, Name, OWNED, PENDING, Pending, StreamId};

/// A consumer group, borrowed from its stream.
#[derive(Clone, Copy)]
pub struct GroupRef<'a> {
    stream: StreamRef<'a>,
    name: &'a [u8],
    state: GroupState,
}

impl<'a> GroupRef<'a> {
    pub(super) fn find(stream: StreamRef<'a>, name: &'a [u8]) -> Option<GroupRef<'a>> {
        let item = stream.form.find(&element::group_name(name))?;
        let state = element::read_group(item.value)?;
        Some(GroupRef { stream, name, state })
    }

    /// Its name.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// How far it has read.
    pub fn state(&self) -> GroupState {
        self.state
    }

    /// How many elements with this tag there are.
    fn count(&self, tag: u8) -> usize {
        let at = |tag| self.stream.form.lower_bound(&element::before(self.name, tag));
        at(tag + 1) - at(tag)
    }

    /// How many consumers there are.
    pub fn consumer_count(&self) -> usize {
        self.count(CONSUMER)
    }

    /// The consumers, sorted by name.
    pub fn consumers(&self) -> impl Iterator<Item = Consumer<'a>> + use<'a> {
        let at = self.stream.form.lower_bound(&element::before(self.name, CONSUMER));
        let group = self.name;
        self.stream.form.walk_from(at).map_while(move |item| match Name::parse(item.name) {
            Some(Name::Consumer(of, name)) if of == group => {
                element::read_consumer(item.value).map(|(seen, active)| Consumer { name, seen, active })
            }
            _ => None,
        })
    }

    /// The consumer of this name.
    pub fn consumer(&self, name: &'a [u8]) -> Option<Consumer<'a>> {
        let item = self.stream.form.find(&element::consumer_name(self.name, name))?;
        element::read_consumer(item.value).map(|(seen, active)| Consumer { name, seen, active })
    }

    /// How many entries are pending.
    pub fn pending_count(&self) -> usize {
        self.count(PENDING)
    }

    /// The pending entry with this ID.
    pub fn pending(&self, id: StreamId) -> Option<Pending<'a>> {
        let item = self.stream.form.find(&element::pending_name(self.name, id))?;
        pending_of(id, item.value)
    }

    /// The pending entries with this ID and greater ones.
    pub fn pending_from(&self, id: StreamId) -> impl Iterator<Item = Pending<'a>> + use<'a> {
        self.pending_behind(self.stream.form.lower_bound(&element::pending_name(self.name, id)))
    }

    /// The number of pending entries that have smaller IDs.
    pub fn pending_rank(&self, id: StreamId) -> usize {
        let first = self.stream.form.lower_bound(&element::before(self.name, PENDING));
        self.stream.form.lower_bound(&element::pending_name(self.name, id)) - first
    }

    /// The pending entries behind the first `rank` of them. REQUIRES: there are as many.
    pub fn pending_at(&self, rank: usize) -> impl Iterator<Item = Pending<'a>> + use<'a> {
        self.pending_behind(self.stream.form.lower_bound(&element::before(self.name, PENDING)) + rank)
    }

    /// The pending entries behind the first `at` elements of the stream, if one comes next.
    fn pending_behind(&self, at: usize) -> impl Iterator<Item = Pending<'a>> + use<'a> {
        let group = self.name;
        self.stream.form.walk_from(at).map_while(move |item| match Name::parse(item.name) {
            Some(Name::Pending(of, id)) if of == group => pending_of(id, item.value),
            _ => None,
        })
    }

    /// The last pending entry.
    pub fn last_pending(&self) -> Option<Pending<'a>> {
        let behind = self.stream.form.lower_bound(&element::before(self.name, PENDING + 1));
        let item = self.stream.form.get(behind.checked_sub(1)?)?;
        match Name::parse(item.name) {
            Some(Name::Pending(of, id)) if of == self.name => pending_of(id, item.value),
            _ => None,
        }
    }

    /// How many entries are pending for a consumer.
    pub fn owned_count(&self, consumer: &[u8]) -> usize {
        let at = |id| self.stream.form.lower_bound(&element::owned_name(self.name, consumer, id));
        let last = element::owned_name(self.name, consumer, StreamId::MAX);
        at(StreamId::MAX) - at(StreamId::MIN) + usize::from(self.stream.form.find(&last).is_some())
    }

    /// The IDs of the entries that are pending for a consumer, from this one on.
    pub fn owned_from(&self, consumer: &'a [u8], id: StreamId) -> impl Iterator<Item = StreamId> + use<'a> {
        let at = self.stream.form.lower_bound(&element::owned_name(self.name, consumer, id));
        let group = self.name;
        self.stream.form.walk_from(at).map_while(move |item| match Name::parse(item.name) {
            Some(Name::Owned(of, by, id)) if of == group && by == consumer => Some(id),
            _ => None,
        })
    }
}

const _: () = assert!(OWNED == PENDING + 1, "what is pending for consumers stands behind what is pending");

fn pending_of(id: StreamId, value: &[u8]) -> Option<Pending<'_>> {
    let (delivered, deliveries, consumer) = element::read_pending(value)?;
    Some(Pending { id, consumer, delivered, deliveries })
}
