//! Reads a stream: its entries, then what it knows of itself, then its groups and its producers.

use super::node;
use super::parts::{Consumer, Group, Idempotence, Message, Pending, StreamHead, StreamId, UNKNOWN};
use super::repeats::Repeats;
use crate::error::{Damage, ReadError};
use crate::format::{NODE_BYTES_MAX, STRING_BYTES_MAX};
use crate::names::Names;
use crate::source::{Source, damaged};
use crate::visitor::Visitor;
use std::io::Read;

const PENDING: &str = "what is pending in a stream";
const ID_BYTES: usize = 16;
/// Bytes that the name of an element has beside those of group and consumer, at most.
const NAME_BYTES: u64 = 64;
/// The length of its name, when it was seen, and how much is pending for it.
const CONSUMER_BYTES: usize = 10;
/// ID and time.
const PENDING_BYTES: usize = ID_BYTES + 8;

/// Where names of groups are remembered; the names of consumers are by the number of their group.
const GROUPS: u64 = 0;
/// The same for producers; the names of messages are by the number of their producer, from another on.
const PRODUCERS: u64 = u64::MAX;
const MESSAGES: u64 = 1 << 63;
/// The length of the name of a message, and its ID.
const MESSAGE_BYTES: usize = 3;

/// Reads a stream in the form of Redis 5 (1), 7.0 (2), 7.2 (3) or 8.6 (4); how many entries it has.
pub(crate) fn read<R: Read>(
    form: u8,
    source: &mut Source<R>,
    buffers: [&mut Vec<u8>; 2],
    names: &mut Names,
    visitor: &mut dyn Visitor,
) -> Result<u64, ReadError> {
    let [group, consumer] = buffers;
    let mut reader = Reader { form, source, names, visitor, repeats: Repeats::new(), pending: Vec::new() };
    let entries = reader.entries(group, consumer)?;
    let head = reader.head(entries)?;
    for number in 1..=reader.source.number()? {
        reader.group(number, &entries, &head, group, consumer)?;
    }
    if form >= 4 {
        reader.producers(group, consumer)?;
    }
    Ok(entries.count)
}

/// The entries that were read.
#[derive(Clone, Copy, Default)]
struct Entries {
    count: u64,
    /// The smallest ID and the greatest; `0-0` if there is no entry.
    first_id: StreamId,
    last_id: StreamId,
}

/// An entry that is pending in a group, before it is known to whom it was delivered.
#[derive(Clone, Copy)]
struct Delivered {
    id: StreamId,
    time_ms: u64,
    count: u64,
    is_owned: bool,
}

struct Reader<'r, R> {
    form: u8,
    source: &'r mut Source<R>,
    names: &'r mut Names,
    visitor: &'r mut dyn Visitor,
    /// For the names of groups and consumers.
    repeats: Repeats,
    /// The entries that are pending in the group that is read, by ID.
    pending: Vec<Delivered>,
}

impl<R: Read> Reader<'_, R> {
    fn entries(&mut self, key: &mut Vec<u8>, listpack: &mut Vec<u8>) -> Result<Entries, ReadError> {
        // Apart from that for groups: when the entries are written again, they may take fewer bytes.
        let (mut entries, mut repeats) = (Entries::default(), Repeats::new());
        for _ in 0..self.source.number()? {
            let offset = self.source.offset();
            self.source.string(key)?;
            let id = <[u8; ID_BYTES]>::try_from(&key[..])
                .map_err(|_| damaged(offset, Damage::Stream("the ID of a node has not 16 bytes")))?;
            let offset = self.source.offset();
            self.source.string_of(NODE_BYTES_MAX, listpack)?;
            repeats.earn(listpack.len());
            let visitor = &mut *self.visitor;
            let walked = node::walk(StreamId::of_bytes(id), listpack, &mut repeats, &mut |id, fields| {
                if id <= entries.last_id {
                    return Err(Damage::Stream("the IDs of its entries do not ascend"));
                }
                if entries.count == 0 {
                    entries.first_id = id;
                }
                (entries.count, entries.last_id) = (entries.count + 1, id);
                visitor.entry(id, fields);
                Ok(())
            });
            walked.map_err(|damage| damaged(offset, damage))?;
        }
        Ok(entries)
    }

    fn head(&mut self, entries: Entries) -> Result<StreamHead, ReadError> {
        let offset = self.source.offset();
        let count = self.source.number()?;
        let last_id = self.id_of_numbers()?;
        let (mut entries_added, mut max_deleted_id) = (count, StreamId::default());
        if self.form >= 2 {
            // The first entry is known.
            self.id_of_numbers()?;
            max_deleted_id = self.id_of_numbers()?;
            entries_added = self.source.number()?;
        }
        let problem = if count != entries.count {
            "it has another number of entries than it says"
        } else if entries.last_id > last_id {
            "the ID of an entry is greater than its last ID"
        } else if entries_added < count {
            "it has more entries than were added to it"
        } else if i64::try_from(entries_added).is_err() {
            "more entries were added to it than can be counted"
        } else {
            let head = StreamHead { last_id, entries_added, max_deleted_id };
            self.visitor.stream(&head);
            return Ok(head);
        };
        Err(damaged(offset, Damage::Stream(problem)))
    }

    fn group(
        &mut self,
        number: u64,
        entries: &Entries,
        head: &StreamHead,
        name: &mut Vec<u8>,
        consumer: &mut Vec<u8>,
    ) -> Result<(), ReadError> {
        let offset = self.source.offset();
        self.source.string(name)?;
        if name.len() as u64 + NAME_BYTES > STRING_BYTES_MAX {
            return Err(damaged(offset, Damage::StringTooLong(name.len() as u64)));
        }
        if !self.names.is_first_of(GROUPS, name) {
            return Err(damaged(offset, Damage::Stream("two of its groups have the same name")));
        }
        let last_id = self.id_of_numbers()?;
        let entries_read = if self.form >= 2 {
            let offset = self.source.offset();
            match self.source.number()? {
                UNKNOWN => None,
                read if i64::try_from(read).is_ok() => Some(read),
                _ => return Err(damaged(offset, Damage::Stream("a group has read less than no entry"))),
            }
        } else {
            entries_read(entries, head, last_id)
        };
        self.visitor.group(&Group { name, last_id, entries_read });
        self.delivered()?;
        for _ in 0..self.source.number()? {
            self.consumer(number, name, consumer)?;
        }
        if self.pending.iter().all(|delivered| delivered.is_owned) {
            return Ok(());
        }
        let problem = "what is pending in a group is pending for none of its consumers";
        Err(damaged(self.source.offset(), Damage::Stream(problem)))
    }

    /// Reads the entries that are pending in a group.
    fn delivered(&mut self) -> Result<(), ReadError> {
        self.pending.clear();
        for _ in 0..self.source.number()? {
            let offset = self.source.offset();
            let id = StreamId::of_bytes(self.source.array(PENDING)?);
            if self.pending.last().is_some_and(|last| id <= last.id) {
                return Err(damaged(offset, Damage::Stream("the IDs of what is pending do not ascend")));
            }
            let (time_ms, count) = (time(self.source)?.unwrap_or(0), self.source.number()?);
            self.pending.push(Delivered { id, time_ms, count, is_owned: false });
            self.repeats.earn(PENDING_BYTES);
        }
        Ok(())
    }

    fn consumer(&mut self, number: u64, group: &[u8], name: &mut Vec<u8>) -> Result<(), ReadError> {
        let offset = self.source.offset();
        self.source.string(name)?;
        let names_bytes = group.len() as u64 + name.len() as u64;
        if names_bytes + NAME_BYTES > STRING_BYTES_MAX {
            return Err(damaged(offset, Damage::StringTooLong(names_bytes)));
        }
        if !self.names.is_first_of(number, name) {
            return Err(damaged(offset, Damage::Stream("two consumers of a group have the same name")));
        }
        self.repeats.earn(name.len() + CONSUMER_BYTES);
        self.repeats.spend(names_bytes).map_err(|damage| damaged(offset, damage))?;
        let seen_ms = time(self.source)?.unwrap_or(0);
        let active_ms = if self.form >= 3 { time(self.source)? } else { Some(seen_ms) };
        self.visitor.consumer(group, &Consumer { name, seen_ms, active_ms });
        for _ in 0..self.source.number()? {
            let offset = self.source.offset();
            let id = StreamId::of_bytes(self.source.array(PENDING)?);
            self.repeats.earn(ID_BYTES);
            let owned = self.own(id).and_then(|delivered| {
                let pending = Pending {
                    id,
                    consumer: name,
                    delivered_ms: delivered.time_ms,
                    deliveries: delivered.count,
                };
                self.repeats.spend(2 * names_bytes)?;
                self.visitor.pending(group, &pending);
                Ok(())
            });
            owned.map_err(|damage| damaged(offset, damage))?;
        }
        Ok(())
    }

    /// Takes the pending entry with this ID, which is pending for one consumer, once.
    fn own(&mut self, id: StreamId) -> Result<Delivered, Damage> {
        let found = self.pending.binary_search_by_key(&id, |delivered| delivered.id);
        let place =
            found.map_err(|_| Damage::Stream("what is pending for a consumer is not so in its group"))?;
        let delivered = &mut self.pending[place];
        if std::mem::replace(&mut delivered.is_owned, true) {
            return Err(Damage::Stream("the same entry is pending for two consumers, or twice for one"));
        }
        Ok(*delivered)
    }

    fn producers(&mut self, producer: &mut Vec<u8>, message: &mut Vec<u8>) -> Result<(), ReadError> {
        let (duration_s, messages_max) = (self.source.number()?, self.source.number()?);
        for number in 0..self.source.number()? {
            let offset = self.source.offset();
            self.source.string(producer)?;
            if !self.names.is_first_of(PRODUCERS, producer) {
                return Err(damaged(offset, Damage::Stream("two of its producers have the same name")));
            }
            for _ in 0..self.source.number()? {
                self.message(MESSAGES + number, producer, message)?;
            }
        }
        let (added, duplicates) = (self.source.number()?, self.source.number()?);
        self.visitor.idempotence(&Idempotence { duration_s, messages_max, added, duplicates });
        Ok(())
    }

    fn message(&mut self, scope: u64, producer: &[u8], name: &mut Vec<u8>) -> Result<(), ReadError> {
        let offset = self.source.offset();
        self.source.string(name)?;
        let names_bytes = producer.len() as u64 + name.len() as u64;
        if names_bytes + NAME_BYTES > STRING_BYTES_MAX {
            return Err(damaged(offset, Damage::StringTooLong(names_bytes)));
        }
        if !self.names.is_first_of(scope, name) {
            return Err(damaged(offset, Damage::Stream("a producer has two messages of the same name")));
        }
        let id = self.id_of_numbers()?;
        self.repeats.earn(name.len() + MESSAGE_BYTES);
        // Tarn keeps both names with each message, and in what lists it by age.
        self.repeats.spend(2 * names_bytes).map_err(|damage| damaged(offset, damage))?;
        self.visitor.message(producer, &Message { name, id });
        Ok(())
    }

    fn id_of_numbers(&mut self) -> Result<StreamId, ReadError> {
        Ok(StreamId { ms: self.source.number()?, seq: self.source.number()? })
    }
}

/// A time; `None` if it is negative, which Redis writes in place of none.
fn time<R: Read>(source: &mut Source<R>) -> Result<Option<u64>, ReadError> {
    Ok(u64::try_from(i64::from_le_bytes(source.array("a time of a stream")?)).ok())
}

/// How many entries a group has read that was delivered `last_id`, as far as IDs say it. Nobody knows of
/// removed entries here.
fn entries_read(entries: &Entries, head: &StreamHead, last_id: StreamId) -> Option<u64> {
    match last_id {
        _ if entries.count == 0 => Some(0),
        id if id == head.last_id => Some(entries.count),
        id if id == entries.first_id => Some(1),
        id if id < entries.first_id => Some(0),
        _ => None,
    }
}
