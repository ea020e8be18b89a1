//! Keys and values as plain data, written and collected.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use tarn_rdb::stream::{self, Fields, StreamHead, StreamId};
use tarn_rdb::{Kind, ValueWriter, Visitor, Writer, payload};

/// A value; scores by their bits, so that they can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
    ZSet(BTreeMap<Vec<u8>, u64>),
    /// Fields, each with its value and its time.
    Hash(BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>),
    Json(Vec<u8>),
    Stream(Stream),
}

/// Fields with their values, in order.
pub(crate) type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// A stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stream {
    pub head: StreamHead,
    pub entries: BTreeMap<StreamId, Pairs>,
    pub groups: BTreeMap<Vec<u8>, Group>,
}

/// A group of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub last_id: StreamId,
    pub entries_read: Option<u64>,
    /// When they were seen and active.
    pub consumers: BTreeMap<Vec<u8>, (u64, Option<u64>)>,
    /// For whom, since when, how often.
    pub pending: BTreeMap<StreamId, (Vec<u8>, u64, u64)>,
}

impl Stream {
    /// As it comes back from type 19, which does not say when consumers were active.
    pub(crate) fn after_type_19(mut self) -> Stream {
        for group in self.groups.values_mut() {
            group.consumers.values_mut().for_each(|(seen, active)| *active = Some(*seen));
        }
        self
    }

    /// As it comes back from type 15, which does not say what is gone; how much groups have read is not
    /// looked at.
    pub(crate) fn after_type_15(self) -> Stream {
        let mut stream = self.after_type_19();
        stream.head.entries_added = stream.entries.len() as u64;
        stream.head.max_deleted_id = StreamId::default();
        stream.groups.values_mut().for_each(|group| group.entries_read = None);
        stream
    }

    fn write<W: Write>(&self, out: &mut ValueWriter<'_, W>) -> io::Result<()> {
        out.entries(&self.head, self.groups.len() as u64, || {
            self.entries
                .iter()
                .map(|(id, fields)| (*id, fields.iter().map(|(field, value)| (&field[..], &value[..]))))
        })?;
        for (name, group) in &self.groups {
            let Group { last_id, entries_read, consumers, pending } = group;
            let written = stream::Group { name, last_id: *last_id, entries_read: *entries_read };
            let all = pending.iter().map(|(id, (consumer, delivered_ms, deliveries))| stream::Pending {
                id: *id,
                consumer,
                delivered_ms: *delivered_ms,
                deliveries: *deliveries,
            });
            out.group(&written, (pending.len() as u64, all), consumers.len() as u64)?;
            for (name, (seen_ms, active_ms)) in consumers {
                let owned = pending.iter().filter(|(_, (consumer, ..))| consumer == name).map(|(id, _)| *id);
                let consumer = stream::Consumer { name, seen_ms: *seen_ms, active_ms: *active_ms };
                out.consumer(&consumer, (owned.clone().count() as u64, owned))?;
            }
        }
        Ok(())
    }
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub database: u64,
    pub name: Vec<u8>,
    pub expiry_ms: Option<u64>,
    pub value: Value,
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Value::String(_) => Kind::String,
            Value::List(_) => Kind::List,
            Value::Set(_) => Kind::Set,
            Value::ZSet(_) => Kind::ZSet,
            Value::Hash(_) => Kind::Hash,
            Value::Json(_) => Kind::Json,
            Value::Stream(_) => Kind::Stream,
        }
    }

    pub(crate) fn len(&self) -> u64 {
        (match self {
            Value::String(_) | Value::Json(_) => 1,
            Value::List(elements) => elements.len(),
            Value::Set(members) => members.len(),
            Value::ZSet(members) => members.len(),
            Value::Hash(fields) => fields.len(),
            Value::Stream(stream) => stream.entries.len() + 1,
        }) as u64
    }

    pub(crate) fn write<W: Write>(&self, mut out: ValueWriter<'_, W>) -> io::Result<()> {
        match self {
            Value::String(string) | Value::Json(string) => out.element(string)?,
            Value::List(elements) => elements.iter().try_for_each(|element| out.element(element))?,
            Value::Set(members) => members.iter().try_for_each(|member| out.element(member))?,
            Value::ZSet(members) => {
                members.iter().try_for_each(|(member, score)| out.scored(member, f64::from_bits(*score)))?;
            }
            Value::Hash(fields) => {
                fields.iter().try_for_each(|(field, (value, time))| out.timed_field(field, value, *time))?;
            }
            Value::Stream(stream) => stream.write(&mut out)?,
        }
        out.finish();
        Ok(())
    }

    /// The first time of a field.
    fn first_time(&self) -> Option<u64> {
        let Value::Hash(fields) = self else { return None };
        fields.values().filter_map(|(_, time)| *time).min()
    }

    /// Begins a key with this value.
    pub(crate) fn begin<'w, W: Write>(
        &self,
        writer: &'w mut Writer<W>,
        name: &[u8],
        expiry_ms: Option<u64>,
    ) -> io::Result<ValueWriter<'w, W>> {
        match self.first_time() {
            Some(first) => writer.begin_timed_hash(name, expiry_ms, self.len(), first),
            None => writer.begin_value(name, expiry_ms, self.kind(), self.len()),
        }
    }

    /// As a payload.
    pub(crate) fn payload(&self) -> Vec<u8> {
        match self.first_time() {
            Some(first) => {
                payload::write_timed_hash(tarn_rdb::VERSION_WRITTEN, self.len(), first, |out| self.write(out))
            }
            None => payload::write(self.kind(), self.len(), |out| self.write(out)),
        }
    }

    fn with_times(self, of: impl Fn(u64) -> Option<u64>) -> Value {
        match self {
            Value::Hash(mut fields) => {
                fields.values_mut().for_each(|(_, time)| *time = time.and_then(&of));
                Value::Hash(fields)
            }
            value => value,
        }
    }

    /// As it is written to a file whose fields have times, or have none.
    pub(crate) fn for_file(self, has_field_times: bool) -> Value {
        self.with_times(|time| has_field_times.then_some(time))
    }

    /// As it comes back from a file of this version.
    pub(crate) fn after_version(self, version: u16) -> Value {
        match self.for_file(version >= 12) {
            Value::Stream(stream) if version < 10 => Value::Stream(stream.after_type_15()),
            Value::Stream(stream) if version < 11 => Value::Stream(stream.after_type_19()),
            value if version < 80 => value.with_times(|time| Some(time.min((1 << 48) - 1))),
            value => value,
        }
    }

    /// As it comes back from a payload.
    pub(crate) fn after_payload(self) -> Value {
        let version = if self.kind() == Kind::Hash { 12 } else { 10 };
        self.after_version(version)
    }
}

/// Writes keys, which come database by database.
pub(crate) fn write<W: Write>(writer: &mut Writer<W>, keys: &[Key]) {
    for group in keys.chunk_by(|one, other| one.database == other.database) {
        let expiring = group.iter().filter(|key| key.expiry_ms.is_some()).count();
        writer.begin_database(group[0].database, group.len() as u64, expiring as u64).unwrap();
        for Key { name, expiry_ms, value, .. } in group {
            let value = value.clone().for_file(writer.has_field_times());
            let out = value.begin(writer, name, *expiry_ms).unwrap();
            value.write(out).unwrap();
        }
    }
}

/// A visitor that keeps a value.
#[derive(Default)]
pub(crate) struct Collected(pub Option<Value>);

impl Visitor for Collected {
    fn begin(&mut self, kind: Kind) {
        self.0 = Some(match kind {
            Kind::String => Value::String(Vec::new()),
            Kind::List => Value::List(Vec::new()),
            Kind::Set => Value::Set(BTreeSet::new()),
            Kind::ZSet => Value::ZSet(BTreeMap::new()),
            Kind::Hash => Value::Hash(BTreeMap::new()),
            Kind::Json => Value::Json(Vec::new()),
            Kind::Stream => Value::Stream(Stream::default()),
        });
    }

    fn string(&mut self, string: &[u8]) {
        let string = string.to_vec();
        self.0 = Some(match self.0 {
            Some(Value::Json(_)) => Value::Json(string),
            _ => Value::String(string),
        });
    }

    fn element(&mut self, element: &[u8]) {
        match &mut self.0 {
            Some(Value::List(elements)) => elements.push(element.to_vec()),
            Some(Value::Set(members)) => assert!(members.insert(element.to_vec())),
            other => panic!("an element of {other:?}"),
        }
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.put_field(field, value, None);
    }

    fn timed_field(&mut self, field: &[u8], value: &[u8], time: u64) {
        self.put_field(field, value, Some(time));
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        let Some(Value::ZSet(members)) = &mut self.0 else { panic!("a score of no sorted set") };
        assert!(!score.is_nan() && members.insert(member.to_vec(), score.to_bits()).is_none());
    }

    fn entry(&mut self, id: StreamId, fields: Fields<'_>) {
        let mut pairs = Vec::new();
        fields.for_each(|field, value| pairs.push((field.to_vec(), value.to_vec())));
        let entries = &mut self.stream_mut().entries;
        assert!(entries.last_key_value().is_none_or(|(last, _)| *last < id) && id > StreamId::default());
        entries.insert(id, pairs);
    }

    fn stream(&mut self, head: &StreamHead) {
        self.stream_mut().head = *head;
    }

    fn group(&mut self, group: &stream::Group<'_>) {
        let (last_id, entries_read) = (group.last_id, group.entries_read);
        let read = Group { last_id, entries_read, ..Group::default() };
        assert!(self.stream_mut().groups.insert(group.name.to_vec(), read).is_none());
    }

    fn consumer(&mut self, group: &[u8], consumer: &stream::Consumer<'_>) {
        let consumers = &mut self.group_mut(group).consumers;
        let times = (consumer.seen_ms, consumer.active_ms);
        assert!(consumers.insert(consumer.name.to_vec(), times).is_none());
    }

    fn pending(&mut self, group: &[u8], pending: &stream::Pending<'_>) {
        let group = self.group_mut(group);
        assert!(group.consumers.contains_key(pending.consumer));
        let value = (pending.consumer.to_vec(), pending.delivered_ms, pending.deliveries);
        assert!(group.pending.insert(pending.id, value).is_none());
    }
}

impl Collected {
    fn put_field(&mut self, field: &[u8], value: &[u8], time: Option<u64>) {
        let Some(Value::Hash(fields)) = &mut self.0 else { panic!("a field of no hash") };
        assert!(fields.insert(field.to_vec(), (value.to_vec(), time)).is_none());
    }

    fn stream_mut(&mut self) -> &mut Stream {
        match &mut self.0 {
            Some(Value::Stream(stream)) => stream,
            other => panic!("a part of a stream of {other:?}"),
        }
    }

    fn group_mut(&mut self, name: &[u8]) -> &mut Group {
        self.stream_mut().groups.get_mut(name).expect("a group comes before its parts")
    }
}
