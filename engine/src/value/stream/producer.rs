//! Producers: which of their messages a stream remembers, so that one that comes again is not added twice.
//!
//! ```text
//!   oldest ── forgotten: too old, or before `Idempotence::forgotten` ──┬── the newest: remembered ──> newest
//!                 taken away by and by                                └─ at most `messages_max`
//! ```
//!
//! Messages that are forgotten may still be there: who adds messages takes some away each time.

use super::StreamRef;
use super::element::{self, Idempotence, Message, Name, StreamId};

impl Idempotence {
    /// Whether a message is young enough to be remembered at this time, in milliseconds since the Unix epoch.
    /// It is forgotten all the same if its producer has added enough others since.
    pub fn is_young(&self, message: &Message<'_>, now: u64) -> bool {
        let ends = message.ms.saturating_add(self.duration_s.saturating_mul(1000));
        message.ordinal > self.forgotten && ends > now
    }
}

/// A producer of a stream, borrowed from it.
#[derive(Clone, Copy)]
pub struct ProducerRef<'a> {
    stream: StreamRef<'a>,
    name: &'a [u8],
}

impl<'a> ProducerRef<'a> {
    pub(super) fn of(stream: StreamRef<'a>, name: &'a [u8]) -> ProducerRef<'a> {
        ProducerRef { stream, name }
    }

    /// The first producer of which an element does not stand before this name.
    pub(super) fn first_from(stream: StreamRef<'a>, name: &[u8]) -> Option<ProducerRef<'a>> {
        let item = stream.form.get(stream.form.lower_bound(name))?;
        let producer = Name::parse(item.name)?.producer()?;
        Some(ProducerRef::of(stream, producer))
    }

    /// Its name.
    pub fn name(&self) -> &'a [u8] {
        self.name
    }

    /// The producer behind this one.
    pub fn following(&self) -> Option<ProducerRef<'a>> {
        ProducerRef::first_from(self.stream, &element::behind_producer(self.name))
    }

    /// The producer behind this one, or the first one behind the last. It may be this one.
    pub fn following_around(&self) -> Option<ProducerRef<'a>> {
        self.following().or_else(|| ProducerRef::first_from(self.stream, &element::BEFORE_PRODUCERS))
    }

    /// How many messages there are, remembered or not.
    pub fn count(&self) -> usize {
        self.count_from(0)
    }

    /// How many messages have this ordinal or a greater one.
    fn count_from(&self, ordinal: u64) -> usize {
        let at = |name: &[u8]| self.stream.form.lower_bound(name);
        at(&element::behind_producer(self.name)) - at(&element::before_aged(self.name, ordinal))
    }

    /// The messages, the oldest first, remembered or not.
    pub fn messages(&self) -> impl Iterator<Item = Message<'a>> + use<'a> {
        let at = self.stream.form.lower_bound(&element::before_aged(self.name, 0));
        let producer = self.name;
        self.stream.form.walk_from(at).map_while(move |item| match Name::parse(item.name) {
            Some(Name::Aged(of, message)) if of == producer => Some(message),
            _ => None,
        })
    }

    /// The ID of the entry of the message of this name, if it is remembered at this time.
    pub fn entry_of(&self, name: &[u8], how: &Idempotence, now: u64) -> Option<StreamId> {
        let item = self.stream.form.find(&element::message_name(self.name, name))?;
        let (ordinal, id) = element::read_message(item.value)?;
        let is_young = how.is_young(&Message { name, ordinal, ms: id.ms }, now);
        // It counts itself.
        let with_newer = self.count_from(ordinal) as u64;
        (is_young && with_newer <= how.messages_max).then_some(id)
    }

    /// The number of messages that are remembered at this time, and of those that stand before the first
    /// young one. Looks at these; `None` if there are more of them than `most`.
    pub fn remembered(&self, how: &Idempotence, now: u64, most: usize) -> Option<(u64, usize)> {
        let mut old = 0;
        let first = self.messages().take(most.saturating_add(1)).find(|message| {
            let is_young = how.is_young(message, now);
            old += usize::from(!is_young);
            is_young
        });
        let young = first.map_or(0, |first| self.count_from(first.ordinal) as u64);
        (old <= most).then_some((young.min(how.messages_max), old))
    }
}
