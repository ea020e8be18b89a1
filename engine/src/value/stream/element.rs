//! The elements of a stream: their names, which order them, and the values.
//!
//! ```text
//! name                                                 value
//! 0                                                    head: last ID, entries added, greatest removed ID
//! 0 1                                                  idempotence: how messages of producers are remembered
//! 0 2 [len][producer] 0 [message]                      message: ordinal, ID of its entry
//! 0 2 [len][producer] 1 [ordinal][ms][message]         nothing; lists messages by age; derived
//! 1 [len][group] 0                                     group: last delivered ID, entries read
//! 1 [len][group] 1 [consumer]                          consumer: last seen, last active
//! 1 [len][group] 2 [ID]                                pending: delivered at, how often, [consumer]
//! 1 [len][group] 3 [len][consumer][ID]                 nothing; lists what is pending; derived
//! 2 [ID]                                               entry: ordinal, fields, [len][field][len][value] …
//! ```
//!
//! An ID is two 64-bit numbers, big-endian, so that names stand in the order of their IDs. Other numbers are
//! little-endian with 64 bits, or varints where the length varies. Derived elements follow from others and
//! are neither logged nor in images.

use std::borrow::Cow;

use smallvec::SmallVec;

use super::super::packed::Varint;
use super::super::run::checked_run;
pub use crate::record::StreamId;
use crate::record::{BYTES_MAX, Bytes, Change};

const HEAD: u8 = 0;
pub(super) const GROUP: u8 = 1;
pub(super) const ENTRY: u8 = 2;
/// Bytes of the name of an entry.
pub(super) const ENTRY_NAME_BYTES: usize = 1 + ID_BYTES;

// Behind the head, and before all groups.
const IDEMPOTENCE: u8 = 1;
const OF_PRODUCER: u8 = 2;

const MESSAGE: u8 = 0;
const AGED: u8 = 1;
const BEHIND_AGED: u8 = 2;

const OF_GROUP: u8 = 0;
pub(super) const CONSUMER: u8 = 1;
pub(super) const PENDING: u8 = 2;
pub(super) const OWNED: u8 = 3;
const BEHIND: u8 = 4;

const ID_BYTES: usize = 16;
/// Bytes of the two numbers in front of the fields of an entry, as a rule.
const NUMBERS_BYTES: usize = 8;
/// The bytes of a pending entry before its consumer.
const PENDING_BYTES: usize = 16;
/// In the place of a number that is not known.
const UNKNOWN: u64 = u64::MAX;

/// The name of the head.
pub(super) const HEAD_NAME: [u8; 1] = [HEAD];
/// The name of what says how messages are remembered.
pub(super) const IDEMPOTENCE_NAME: [u8; 2] = [HEAD, IDEMPOTENCE];
/// Before all elements of producers.
pub(super) const BEFORE_PRODUCERS: [u8; 2] = [HEAD, OF_PRODUCER];

/// The name of an element, owned.
pub(crate) type NameBytes = SmallVec<[u8; 48]>;

pub(super) fn bytes_of_id(id: StreamId) -> [u8; ID_BYTES] {
    (u128::from(id.ms) << 64 | u128::from(id.seq)).to_be_bytes()
}

pub(super) fn id_of_bytes(bytes: &[u8]) -> Option<StreamId> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    Some(StreamId { ms: (number >> 64) as u64, seq: number as u64 })
}

/// A stream as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamHead {
    /// The ID of the entry that was added last, or a greater one that was set.
    pub last_id: StreamId,
    /// How many entries were added.
    pub entries_added: u64,
    /// The greatest ID of an entry that was removed.
    pub max_deleted_id: StreamId,
}

/// How far a group has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupState {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries the group has read, if that is known.
    pub entries_read: Option<u64>,
}

/// A consumer of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// When it asked for something last, in milliseconds since the Unix epoch.
    pub seen: u64,
    /// When it got something last.
    pub active: Option<u64>,
}

/// An entry that was delivered and is not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending<'a> {
    /// Its ID. The entry itself may be gone.
    pub id: StreamId,
    /// To whom.
    pub consumer: &'a [u8],
    /// When it was delivered last, in milliseconds since the Unix epoch.
    pub delivered: u64,
    /// How often.
    pub deliveries: u64,
}

/// The way in which a stream remembers messages of producers, so that it adds none twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Idempotence {
    /// For how many seconds.
    pub duration_s: u64,
    /// How many of each producer at most.
    pub messages_max: u64,
    /// How many messages were added, of all producers.
    pub added: u64,
    /// How many came again, and were not added.
    pub duplicates: u64,
    /// Those that were the first so many to be added are forgotten, whatever their age.
    pub forgotten: u64,
}

/// A message of a producer that is in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The name that the producer gave it.
    pub name: &'a [u8],
    /// How many messages had been added with it, of all producers.
    pub ordinal: u64,
    /// When its entry was added, by its ID, in milliseconds since the Unix epoch.
    pub ms: u64,
}

/// The fields of an entry with their values, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Fields<'a> {
    /// How many there are.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are as many as said, and nothing behind them.
    fn are_sound(&self) -> bool {
        let (mut at, mut runs) = (0, 0);
        while at < self.bytes.len() {
            let Some((_, end)) = checked_run(self.bytes, at) else { return false };
            (at, runs) = (end, runs + 1);
        }
        self.count.checked_mul(2) == Some(runs)
    }

    /// Field after field.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let (bytes, mut at) = (self.bytes, 0);
        std::iter::from_fn(move || {
            let (field, end) = checked_run(bytes, at)?;
            let (value, end) = checked_run(bytes, end)?;
            at = end;
            Some((field, value))
        })
    }
}

/// The name of an element, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Name<'a> {
    Head,
    Idempotence,
    /// A producer and what it calls a message.
    Message(&'a [u8], &'a [u8]),
    /// A message of a producer, by its age.
    Aged(&'a [u8], Message<'a>),
    Group(&'a [u8]),
    Consumer(&'a [u8], &'a [u8]),
    Pending(&'a [u8], StreamId),
    /// An entry that is pending for a consumer.
    Owned(&'a [u8], &'a [u8], StreamId),
    Entry(StreamId),
}

impl<'a> Name<'a> {
    /// The name in these bytes; `None` if they are none.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Name<'a>> {
        let (&tag, rest) = bytes.split_first()?;
        match tag {
            HEAD => Name::of_whole(rest),
            ENTRY => id_of_bytes(rest).map(Name::Entry),
            GROUP => {
                let (group, rest) = split_run(rest)?;
                let (&tag, rest) = rest.split_first()?;
                match tag {
                    OF_GROUP => rest.is_empty().then_some(Name::Group(group)),
                    CONSUMER => Some(Name::Consumer(group, rest)),
                    PENDING => id_of_bytes(rest).map(|id| Name::Pending(group, id)),
                    OWNED => {
                        let (consumer, rest) = split_run(rest)?;
                        Some(Name::Owned(group, consumer, id_of_bytes(rest)?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The name of an element that is none of a group, and no entry, of which this follows the tag.
    fn of_whole(rest: &'a [u8]) -> Option<Name<'a>> {
        let Some((&tag, rest)) = rest.split_first() else { return Some(Name::Head) };
        match tag {
            IDEMPOTENCE => rest.is_empty().then_some(Name::Idempotence),
            OF_PRODUCER => {
                let (producer, rest) = split_run(rest)?;
                let (&tag, rest) = rest.split_first()?;
                match tag {
                    MESSAGE => Some(Name::Message(producer, rest)),
                    AGED => {
                        let (age, name) = rest.split_at_checked(ID_BYTES)?;
                        // An ordinal and a time are written as an ID is.
                        let StreamId { ms: ordinal, seq: ms } = id_of_bytes(age)?;
                        Some(Name::Aged(producer, Message { name, ordinal, ms }))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The group that the element is one of.
    pub(super) fn group(&self) -> Option<&'a [u8]> {
        match self {
            Name::Group(group)
            | Name::Consumer(group, _)
            | Name::Pending(group, _)
            | Name::Owned(group, ..) => Some(group),
            Name::Head | Name::Idempotence | Name::Message(..) | Name::Aged(..) | Name::Entry(_) => None,
        }
    }

    /// The producer that the element is one of.
    pub(super) fn producer(&self) -> Option<&'a [u8]> {
        match self {
            Name::Message(producer, _) | Name::Aged(producer, _) => Some(producer),
            _ => None,
        }
    }
}

/// The run at the front and what is behind it; `None` if its length is not written as this process does:
/// an element has one name.
fn split_run(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (run, end) = checked_run(bytes, 0)?;
    let is_shortest = Varint::new(run.len()).as_slice().len() + run.len() == end;
    is_shortest.then_some((run, &bytes[end..]))
}

/// Whether this names an entry.
pub fn is_entry(name: &[u8]) -> bool {
    name.first() == Some(&ENTRY)
}

/// The group and the consumer that this names.
pub fn consumer_in(name: &[u8]) -> Option<(&[u8], &[u8])> {
    match Name::parse(name) {
        Some(Name::Consumer(group, consumer)) => Some((group, consumer)),
        _ => None,
    }
}

/// Whether an element follows from others.
pub(crate) fn is_derived(name: &[u8]) -> bool {
    matches!(Name::parse(name), Some(Name::Owned(..) | Name::Aged(..)))
}

/// Whether something follows from an element of this name.
pub(crate) fn has_derived(name: &[u8]) -> bool {
    matches!(Name::parse(name), Some(Name::Pending(..) | Name::Message(..)))
}

/// The name of what follows from an element; it has no value. `None`: nothing does.
pub(crate) fn derived_of(name: &[u8], value: &[u8]) -> Option<NameBytes> {
    match Name::parse(name)? {
        Name::Pending(group, id) => {
            read_pending(value).map(|(_, _, consumer)| owned_name(group, consumer, id))
        }
        Name::Message(producer, name) => {
            let (ordinal, StreamId { ms, .. }) = read_message(value)?;
            Some(aged_name(producer, &Message { name, ordinal, ms }))
        }
        _ => None,
    }
}

/// Whether a stream may be told to have such an element: it is one, and does not follow from others.
pub(crate) fn is_sound(name: &[u8], value: &[u8]) -> bool {
    if name.len().max(value.len()) > BYTES_MAX {
        return false;
    }
    match Name::parse(name) {
        Some(Name::Head) => read_head(value).is_some(),
        Some(Name::Idempotence) => read_idempotence(value).is_some(),
        Some(Name::Message(..)) => read_message(value).is_some(),
        Some(Name::Group(_)) => read_group(value).is_some(),
        Some(Name::Consumer(..)) => read_consumer(value).is_some(),
        Some(Name::Pending(..)) => read_pending(value).is_some(),
        Some(Name::Entry(_)) => read_entry(value).is_some_and(|(_, fields)| fields.are_sound()),
        Some(Name::Owned(..) | Name::Aged(..)) | None => false,
    }
}

/// Whether a stream may be told to lack such an element: it is one, and does not follow from others. No
/// command takes away the head, but a replay does that sees an old one, before a newer one comes.
pub(crate) fn is_removable(name: &[u8]) -> bool {
    Name::parse(name).is_some() && !is_derived(name)
}

fn of_group(group: &[u8], tag: u8) -> NameBytes {
    let mut name = NameBytes::new();
    name.push(GROUP);
    push_run(&mut name, group);
    name.push(tag);
    name
}

fn push_run(name: &mut NameBytes, bytes: &[u8]) {
    name.extend_from_slice(Varint::new(bytes.len()).as_slice());
    name.extend_from_slice(bytes);
}

fn of_producer(producer: &[u8], tag: u8) -> NameBytes {
    let mut name = NameBytes::new();
    name.extend_from_slice(&[HEAD, OF_PRODUCER]);
    push_run(&mut name, producer);
    name.push(tag);
    name
}

pub(super) fn message_name(producer: &[u8], message: &[u8]) -> NameBytes {
    let mut name = of_producer(producer, MESSAGE);
    name.extend_from_slice(message);
    name
}

pub(super) fn aged_name(producer: &[u8], message: &Message<'_>) -> NameBytes {
    let mut name = of_producer(producer, AGED);
    name.extend_from_slice(&bytes_of_id(StreamId::new(message.ordinal, message.ms)));
    name.extend_from_slice(message.name);
    name
}

/// Before the messages of a producer by age that have this ordinal or a greater one, and behind all else of
/// that producer.
pub(super) fn before_aged(producer: &[u8], ordinal: u64) -> NameBytes {
    let mut name = of_producer(producer, AGED);
    name.extend_from_slice(&ordinal.to_be_bytes());
    name
}

/// Behind all of a producer.
pub(super) fn behind_producer(producer: &[u8]) -> NameBytes {
    of_producer(producer, BEHIND_AGED)
}

pub(super) fn entry_name(id: StreamId) -> NameBytes {
    let mut name = NameBytes::new();
    name.push(ENTRY);
    name.extend_from_slice(&bytes_of_id(id));
    name
}

pub(super) fn group_name(group: &[u8]) -> NameBytes {
    of_group(group, OF_GROUP)
}

/// Behind all elements of a group.
pub(super) fn behind_group(group: &[u8]) -> NameBytes {
    of_group(group, BEHIND)
}

/// Before all elements of a group that begin with this tag.
pub(super) fn before(group: &[u8], tag: u8) -> NameBytes {
    of_group(group, tag)
}

pub(super) fn consumer_name(group: &[u8], consumer: &[u8]) -> NameBytes {
    let mut name = of_group(group, CONSUMER);
    name.extend_from_slice(consumer);
    name
}

pub(super) fn pending_name(group: &[u8], id: StreamId) -> NameBytes {
    let mut name = of_group(group, PENDING);
    name.extend_from_slice(&bytes_of_id(id));
    name
}

pub(crate) fn owned_name(group: &[u8], consumer: &[u8], id: StreamId) -> NameBytes {
    let mut name = of_group(group, OWNED);
    push_run(&mut name, consumer);
    name.extend_from_slice(&bytes_of_id(id));
    name
}

/// The names from which on, and before which, the entries below an ID stand.
pub(crate) fn entries_below(id: StreamId) -> (NameBytes, NameBytes) {
    (NameBytes::from_slice(&[ENTRY]), entry_name(id))
}

/// The same for all elements of a group.
pub(crate) fn all_of_group(group: &[u8]) -> (NameBytes, NameBytes) {
    (group_name(group), behind_group(group))
}

fn numbers<const COUNT: usize>(bytes: &[u8]) -> Option<[u64; COUNT]> {
    if bytes.len() != COUNT * 8 {
        return None;
    }
    let mut numbers = [0; COUNT];
    for (number, bytes) in numbers.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(numbers)
}

fn bytes_of(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Appends a number in groups of seven bits, lowest first; the high bit of a byte says that more follow.
fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The number at `at`, and where it ends; `None` if there is none.
fn number_at(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut number = 0;
    for (index, byte) in bytes.get(at..)?.iter().enumerate().take(10) {
        let bits = u64::from(byte & 0x7F);
        number |= bits.checked_shl(7 * index as u32).filter(|shifted| shifted >> (7 * index) == bits)?;
        if *byte < 0x80 {
            return Some((number, at + index + 1));
        }
    }
    None
}

pub(super) fn read_head(value: &[u8]) -> Option<StreamHead> {
    let [ms, seq, entries_added, deleted_ms, deleted_seq] = numbers(value)?;
    let (last_id, max_deleted_id) = (StreamId::new(ms, seq), StreamId::new(deleted_ms, deleted_seq));
    Some(StreamHead { last_id, entries_added, max_deleted_id })
}

pub(super) fn read_idempotence(value: &[u8]) -> Option<Idempotence> {
    let [duration_s, messages_max, added, duplicates, forgotten] = numbers(value)?;
    Some(Idempotence { duration_s, messages_max, added, duplicates, forgotten })
}

/// The ordinal of a message, and the ID of its entry.
pub(super) fn read_message(value: &[u8]) -> Option<(u64, StreamId)> {
    let [ordinal, ms, seq] = numbers(value)?;
    Some((ordinal, StreamId::new(ms, seq)))
}

pub(super) fn read_group(value: &[u8]) -> Option<GroupState> {
    let [ms, seq, read] = numbers(value)?;
    Some(GroupState { last_id: StreamId::new(ms, seq), entries_read: (read != UNKNOWN).then_some(read) })
}

pub(super) fn read_consumer(value: &[u8]) -> Option<(u64, Option<u64>)> {
    let [seen, active] = numbers(value)?;
    Some((seen, (active != UNKNOWN).then_some(active)))
}

pub(crate) fn read_pending(value: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (head, consumer) = value.split_at_checked(PENDING_BYTES)?;
    let [delivered, count] = numbers(head)?;
    Some((delivered, count, consumer))
}

pub(super) fn read_entry(value: &[u8]) -> Option<(u64, Fields<'_>)> {
    let (ordinal, at) = number_at(value, 0)?;
    let (count, at) = number_at(value, at)?;
    Some((ordinal, Fields { count: usize::try_from(count).ok()?, bytes: &value[at..] }))
}

fn put(name: NameBytes, value: Vec<u8>) -> Change<'static> {
    Change::StreamPut { name: owned(name), value: Cow::Owned(value) }
}

fn remove(name: NameBytes) -> Change<'static> {
    Change::StreamRemove { name: owned(name) }
}

/// A name in an allocation of its own. A short one is copied as a whole: `into_vec` would move each byte.
fn owned(name: NameBytes) -> Bytes<'static> {
    Cow::Owned(if name.spilled() { name.into_vec() } else { name.to_vec() })
}

/// The stream has this head.
pub fn put_head(head: &StreamHead) -> Change<'static> {
    let StreamHead { last_id, entries_added, max_deleted_id } = head;
    let numbers = [last_id.ms, last_id.seq, *entries_added, max_deleted_id.ms, max_deleted_id.seq];
    put(NameBytes::from_slice(&HEAD_NAME), bytes_of(&numbers))
}

/// The stream remembers messages of producers like this.
pub fn put_idempotence(how: &Idempotence) -> Change<'static> {
    let Idempotence { duration_s, messages_max, added, duplicates, forgotten } = how;
    let numbers = [*duration_s, *messages_max, *added, *duplicates, *forgotten];
    put(NameBytes::from_slice(&IDEMPOTENCE_NAME), bytes_of(&numbers))
}

/// The stream has this message of a producer, the `ordinal`th that was added, in the entry with this ID.
pub fn put_message(producer: &[u8], message: &[u8], ordinal: u64, id: StreamId) -> Change<'static> {
    put(message_name(producer, message), bytes_of(&[ordinal, id.ms, id.seq]))
}

/// The stream does not remember this message of a producer any more.
pub fn remove_message(producer: &[u8], message: &[u8]) -> Change<'static> {
    remove(message_name(producer, message))
}

/// The stream has this entry, the `ordinal`th that was added.
pub fn put_entry<'f>(
    id: StreamId,
    ordinal: u64,
    fields: impl ExactSizeIterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> Change<'static> {
    let texts: usize = fields.clone().map(|(field, text)| field.len() + text.len()).sum();
    // In one allocation, unless lengths need more than a byte.
    let mut value = Vec::with_capacity(texts + 2 * fields.len() + NUMBERS_BYTES);
    push_number(&mut value, ordinal);
    push_number(&mut value, fields.len() as u64);
    for (field, text) in fields {
        for run in [field, text] {
            value.extend_from_slice(Varint::new(run.len()).as_slice());
            value.extend_from_slice(run);
        }
    }
    put(entry_name(id), value)
}

/// The stream lacks this entry.
pub fn remove_entry(id: StreamId) -> Change<'static> {
    remove(entry_name(id))
}

/// The stream has this group.
pub fn put_group(group: &[u8], state: &GroupState) -> Change<'static> {
    let read = state.entries_read.unwrap_or(UNKNOWN);
    put(group_name(group), bytes_of(&[state.last_id.ms, state.last_id.seq, read]))
}

/// The group has this consumer.
pub fn put_consumer(group: &[u8], consumer: &Consumer<'_>) -> Change<'static> {
    let active = consumer.active.unwrap_or(UNKNOWN);
    put(consumer_name(group, consumer.name), bytes_of(&[consumer.seen, active]))
}

/// The group lacks this consumer. What is pending for it has to be removed, too.
pub fn remove_consumer(group: &[u8], consumer: &[u8]) -> Change<'static> {
    remove(consumer_name(group, consumer))
}

/// The group has this pending entry.
pub fn put_pending(group: &[u8], pending: &Pending<'_>) -> Change<'static> {
    let mut value = bytes_of(&[pending.delivered, pending.deliveries]);
    value.extend_from_slice(pending.consumer);
    put(pending_name(group, pending.id), value)
}

/// The group lacks this pending entry.
pub fn remove_pending(group: &[u8], id: StreamId) -> Change<'static> {
    remove(pending_name(group, id))
}
