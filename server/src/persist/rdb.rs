//! Between the store and Redis's RDB format: what an entry is written as, and what a value that was read
//! becomes.
//!
//! ```text
//!   Entry ──write_elements──> tarn_rdb::ValueWriter
//!   tarn_rdb::Reader ──elements──> ChangeBuilder ──finish──> Change
//! ```

use std::io::{self, Write};

use tarn_engine::Entry;
use tarn_engine::record::{Change, FIELD_TIME_MAX, Kind, UnixMs};
use tarn_engine::value::stream::{
    Consumer, GroupRef, GroupState, Idempotence, Pending, StreamHead, StreamId, element,
};
use tarn_engine::value::{ImageBuilder, StreamRef, ValueRef};
use tarn_rdb::stream::Fields;
use tarn_rdb::{ValueWriter, Visitor, payload};

use crate::json::document;

/// The format's word for a kind.
pub const fn rdb_kind(kind: Kind) -> tarn_rdb::Kind {
    match kind {
        Kind::String => tarn_rdb::Kind::String,
        Kind::List => tarn_rdb::Kind::List,
        Kind::Set => tarn_rdb::Kind::Set,
        Kind::ZSet => tarn_rdb::Kind::ZSet,
        Kind::Hash => tarn_rdb::Kind::Hash,
        Kind::Json => tarn_rdb::Kind::Json,
        Kind::Stream => tarn_rdb::Kind::Stream,
    }
}

const fn engine_kind(kind: tarn_rdb::Kind) -> Kind {
    match kind {
        tarn_rdb::Kind::String => Kind::String,
        tarn_rdb::Kind::List => Kind::List,
        tarn_rdb::Kind::Set => Kind::Set,
        tarn_rdb::Kind::ZSet => Kind::ZSet,
        tarn_rdb::Kind::Hash => Kind::Hash,
        tarn_rdb::Kind::Json => Kind::Json,
        tarn_rdb::Kind::Stream => Kind::Stream,
    }
}

/// The first time of a field, of a hash whose fields have times.
pub fn first_time(value: ValueRef<'_>) -> Option<UnixMs> {
    if let ValueRef::Hash(hash) = value { hash.first_time() } else { None }
}

/// A value by itself as `DUMP` replies it, without fields whose time is over at `now`; `None` if all are.
/// `version` is that of RDB files: with one of Valkey, a hash whose fields have times is as Valkey has it.
pub fn payload_of(entry: &Entry, now: UnixMs, version: u16) -> Option<Vec<u8>> {
    let value = entry.value().at(now);
    let len = value_len(value);
    let write = |out: ValueWriter<'_, Vec<u8>>| write_elements(value, out);
    Some(match first_time(value) {
        _ if len == 0 => return None,
        Some(first) => payload::write_timed_hash(version, len, first, write),
        None => payload::write(rdb_kind(entry.kind()), len, write),
    })
}

/// How many elements a value is written with; 0 if there is nothing to show of it.
pub fn value_len(value: ValueRef<'_>) -> u64 {
    let len = match value {
        ValueRef::String(_) | ValueRef::Json(_) => 1,
        ValueRef::List(list) => list.len(),
        ValueRef::Set(set) => set.len(),
        ValueRef::ZSet(zset) => zset.len(),
        ValueRef::Hash(hash) => hash.len(),
        // It is a value without entries, too.
        ValueRef::Stream(stream) => stream.len() + 1,
    };
    len as u64
}

/// Writes a value that was begun with its kind and length, and with its first time if it has one.
pub fn write_elements<W: Write>(value: ValueRef<'_>, mut out: ValueWriter<'_, W>) -> io::Result<()> {
    match value {
        ValueRef::String(string) | ValueRef::Json(string) => match string.whole() {
            Some(bytes) => out.element(bytes)?,
            None => out.long_element(string.len(), string.pieces(0..string.len()))?,
        },
        ValueRef::List(list) => list.iter_from(0).try_for_each(|element| out.element(element))?,
        ValueRef::Set(set) => set.iter().try_for_each(|member| out.element(member))?,
        ValueRef::ZSet(zset) => {
            zset.iter_from(0).try_for_each(|(member, score)| out.scored(member, score))?
        }
        ValueRef::Hash(hash) if hash.has_times() => {
            hash.iter_timed().try_for_each(|(field, value, time)| out.timed_field(field, value, time))?;
        }
        ValueRef::Hash(hash) => hash.iter().try_for_each(|(field, value)| out.field(field, value))?,
        ValueRef::Stream(stream) => write_stream(stream, &mut out)?,
    }
    out.finish();
    Ok(())
}

fn write_stream<W: Write>(stream: StreamRef<'_>, out: &mut ValueWriter<'_, W>) -> io::Result<()> {
    let (head, groups) = (stream.head(), stream.groups());
    let head = tarn_rdb::stream::StreamHead {
        last_id: rdb_id(head.last_id),
        entries_added: head.entries_added,
        max_deleted_id: rdb_id(head.max_deleted_id),
    };
    out.entries(&head, groups.len() as u64, || {
        stream.iter_from(StreamId::MIN).map(|entry| (rdb_id(entry.id), entry.fields.iter()))
    })?;
    groups.into_iter().try_for_each(|group| write_group(group, out))
}

fn write_group<W: Write>(group: GroupRef<'_>, out: &mut ValueWriter<'_, W>) -> io::Result<()> {
    let GroupState { last_id, entries_read } = group.state();
    let written = tarn_rdb::stream::Group { name: group.name(), last_id: rdb_id(last_id), entries_read };
    let pending = group.pending_from(StreamId::MIN).map(|pending| tarn_rdb::stream::Pending {
        id: rdb_id(pending.id),
        consumer: pending.consumer,
        delivered_ms: pending.delivered,
        deliveries: pending.deliveries,
    });
    let consumers = group.consumers().count() as u64;
    out.group(&written, (group.pending_count() as u64, pending), consumers)?;
    for Consumer { name, seen, active } in group.consumers() {
        let written = tarn_rdb::stream::Consumer { name, seen_ms: seen, active_ms: active };
        let owned = group.owned_from(name, StreamId::MIN).map(rdb_id);
        out.consumer(&written, (group.owned_count(name) as u64, owned))?;
    }
    Ok(())
}

fn rdb_id(id: StreamId) -> tarn_rdb::stream::StreamId {
    tarn_rdb::stream::StreamId { ms: id.ms, seq: id.seq }
}

fn engine_id(id: tarn_rdb::stream::StreamId) -> StreamId {
    StreamId::new(id.ms, id.seq)
}

/// The text of a document is no JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotJson;

/// Makes a change of a value while it is read: a string, or the image of a collection, each in the memory in
/// which the change carries it; or a document.
#[derive(Default)]
pub struct ChangeBuilder {
    built: Option<Built>,
    /// Fields and values of an entry, and where each ends.
    texts: Vec<u8>,
    ends: Vec<usize>,
    /// Messages of producers so far.
    messages: u64,
}

enum Built {
    String(Vec<u8>),
    /// The text, as it is kept.
    Document(Result<Vec<u8>, NotJson>),
    Collection(Kind, ImageBuilder),
}

impl ChangeBuilder {
    /// The change that puts the value, with this expiry; `None` for an empty collection, which is no value.
    pub fn finish(self, expiry: Option<UnixMs>) -> Result<Option<Change<'static>>, NotJson> {
        let (kind, elements) = match self.built {
            Some(Built::String(value)) => return Ok(Some(Change::Put { value: value.into(), expiry })),
            Some(Built::Document(text)) => (Kind::Json, text?),
            Some(Built::Collection(kind, image)) if !image.is_empty() => (kind, image.finish()),
            _ => return Ok(None),
        };
        Ok(Some(Change::Image { kind, elements: elements.into(), expiry, sticky: false }))
    }

    /// The image to which elements of the value that was begun are added.
    fn image(&mut self) -> &mut ImageBuilder {
        match &mut self.built {
            Some(Built::Collection(_, image)) => image,
            _ => unreachable!("a reader hands out elements of collections that it has begun"),
        }
    }

    /// Adds an element of a stream, in the form of the change that puts it.
    fn push_put(&mut self, put: &Change<'_>) {
        let Change::StreamPut { name, value } = put else {
            unreachable!("an element of a stream is put by a change of its own")
        };
        self.image().push_field(name, value);
    }
}

impl Visitor for ChangeBuilder {
    fn begin(&mut self, kind: tarn_rdb::Kind) {
        let kind = engine_kind(kind);
        self.built = Some(match kind {
            Kind::String => Built::String(Vec::new()),
            Kind::Json => Built::Document(Err(NotJson)),
            kind => Built::Collection(kind, ImageBuilder::new(kind)),
        });
    }

    fn string(&mut self, string: &[u8]) {
        self.built = Some(match self.built {
            Some(Built::Document(_)) => Built::Document(document::kept(string).ok_or(NotJson)),
            _ => Built::String(string.to_vec()),
        });
    }

    fn element(&mut self, element: &[u8]) {
        self.image().push_element(element);
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.image().push_field(field, value);
    }

    fn timed_field(&mut self, field: &[u8], value: &[u8], time: u64) {
        self.image().push_timed(field, value, Some(time.min(FIELD_TIME_MAX)));
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        self.image().push_scored(member, score);
    }

    fn entry(&mut self, id: tarn_rdb::stream::StreamId, fields: Fields<'_>) {
        let (mut texts, mut ends) = (std::mem::take(&mut self.texts), std::mem::take(&mut self.ends));
        texts.clear();
        ends.clear();
        fields.for_each(|field, value| {
            for text in [field, value] {
                texts.extend_from_slice(text);
                ends.push(texts.len());
            }
        });
        let pairs = (0..ends.len() / 2).map(|pair| {
            let start = if pair == 0 { 0 } else { ends[2 * pair - 1] };
            let (middle, end) = (ends[2 * pair], ends[2 * pair + 1]);
            (&texts[start..middle], &texts[middle..end])
        });
        // The head, which comes behind the entries and is no older than they, says how many were added.
        let ordinal = self.image().len() as u64 + 1;
        let put = element::put_entry(engine_id(id), ordinal, pairs);
        self.push_put(&put);
        (self.texts, self.ends) = (texts, ends);
    }

    fn stream(&mut self, head: &tarn_rdb::stream::StreamHead) {
        self.push_put(&element::put_head(&StreamHead {
            last_id: engine_id(head.last_id),
            entries_added: head.entries_added,
            max_deleted_id: engine_id(head.max_deleted_id),
        }));
    }

    fn group(&mut self, group: &tarn_rdb::stream::Group<'_>) {
        let state = GroupState { last_id: engine_id(group.last_id), entries_read: group.entries_read };
        self.push_put(&element::put_group(group.name, &state));
    }

    fn consumer(&mut self, group: &[u8], consumer: &tarn_rdb::stream::Consumer<'_>) {
        let tarn_rdb::stream::Consumer { name, seen_ms: seen, active_ms: active } = *consumer;
        self.push_put(&element::put_consumer(group, &Consumer { name, seen, active }));
    }

    fn pending(&mut self, group: &[u8], pending: &tarn_rdb::stream::Pending<'_>) {
        let tarn_rdb::stream::Pending { id, consumer, delivered_ms: delivered, deliveries } = *pending;
        let pending = Pending { id: engine_id(id), consumer, delivered, deliveries };
        self.push_put(&element::put_pending(group, &pending));
    }

    fn message(&mut self, producer: &[u8], message: &tarn_rdb::stream::Message<'_>) {
        // Their order tells their age, of each producer.
        self.messages += 1;
        let id = engine_id(message.id);
        self.push_put(&element::put_message(producer, message.name, self.messages, id));
    }

    fn idempotence(&mut self, how: &tarn_rdb::stream::Idempotence) {
        // Redis says so of each stream: also of those that never had to remember anything.
        const UNUSED: tarn_rdb::stream::Idempotence =
            tarn_rdb::stream::Idempotence { duration_s: 100, messages_max: 100, added: 0, duplicates: 0 };
        if self.messages > 0 || *how != UNUSED {
            let tarn_rdb::stream::Idempotence { duration_s, messages_max, added, duplicates } = *how;
            // As `XCFGSET` bounds them.
            let (duration_s, messages_max) = (duration_s.clamp(1, 86_400), messages_max.clamp(1, 10_000));
            let added = added.max(self.messages);
            let how = Idempotence { duration_s, messages_max, added, duplicates, forgotten: 0 };
            self.push_put(&element::put_idempotence(&how));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_engine::record::Lsn;
    use tarn_engine::value::elements_of;
    use tarn_rdb::{VERSION_OF_VALKEY, VERSION_WRITTEN};

    fn image(kind: Kind, len: usize) -> Change<'static> {
        let mut image = ImageBuilder::new(kind);
        for number in 0..len {
            let name = format!("name {number}");
            match kind {
                Kind::Hash => image.push_field(name.as_bytes(), b"value"),
                Kind::ZSet => image.push_scored(name.as_bytes(), number as f64 / 8.0),
                _ => image.push_element(name.as_bytes()),
            }
        }
        Change::Image { kind, elements: image.finish().into(), expiry: Some(7), sticky: false }
    }

    #[test]
    fn an_entry_comes_back_through_the_format_as_it_was() {
        let string = |value: &[u8]| Change::Put { value: value.to_vec().into(), expiry: Some(7) };
        let strings = [string(b"text"), string(&[b'x'; 100_000])];
        let document = |text: Vec<u8>| {
            let elements = text.into();
            Change::Image { kind: Kind::Json, elements, expiry: Some(7), sticky: false }
        };
        let long = format!("[\"{}\"]", "x".repeat(100_000)).into_bytes();
        let documents = [document(b"42".to_vec()), document(b"{\"a\":[]}".to_vec()), document(long)];
        let kinds = [Kind::List, Kind::Set, Kind::ZSet, Kind::Hash];
        let collections = kinds.into_iter().flat_map(|kind| [1, 20, 3000].map(|len| image(kind, len)));
        for change in collections.chain(strings).chain(documents) {
            let entry = Entry::create(b"key", &change, Lsn(1)).unwrap();
            let value = entry.value();
            let bytes = payload_of(&entry, 0, VERSION_WRITTEN).unwrap();
            let mut builder = ChangeBuilder::default();
            assert_eq!(payload::read(&bytes, &mut builder).unwrap(), value_len(value));
            let read = Entry::create(b"key", &builder.finish(Some(7)).unwrap().unwrap(), Lsn(1)).unwrap();
            assert_eq!((read.kind(), read.expiry()), (entry.kind(), Some(7)));
            assert_eq!(elements_of(read.value()), elements_of(value));
            if let (ValueRef::String(read), ValueRef::String(was)) = (read.value(), value) {
                assert_eq!(read.to_bytes(), was.to_bytes());
            }
        }
    }

    #[test]
    fn times_of_fields_come_back_and_what_is_over_is_left_out() {
        for len in [1_u64, 20, 3000] {
            let mut image = ImageBuilder::new(Kind::Hash);
            for number in 0..len {
                let time = (number % 3 != 1).then_some(1_000 + number);
                image.push_timed(format!("name {number}").as_bytes(), b"value", time);
            }
            let elements = image.finish().into();
            let change = Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false };
            let entry = Entry::create(b"key", &change, Lsn(1)).unwrap();
            let all = |entry: &Entry, now| {
                let ValueRef::Hash(hash) = entry.value().at(now) else { panic!("a hash was made") };
                let all = hash.iter_timed().map(|(field, _, time)| (field.to_vec(), time));
                all.collect::<std::collections::BTreeMap<_, _>>()
            };
            let versions = [VERSION_WRITTEN, VERSION_OF_VALKEY];
            for (now, version) in
                [0, 1_001, 1_001 + len].into_iter().flat_map(|now| versions.map(|v| (now, v)))
            {
                let shown = all(&entry, now);
                let Some(bytes) = payload_of(&entry, now, version) else {
                    assert!(shown.is_empty(), "{now}");
                    continue;
                };
                let is_of_valkey = bytes[bytes.len() - 10..].starts_with(&VERSION_OF_VALKEY.to_le_bytes());
                assert_eq!(
                    is_of_valkey,
                    version == VERSION_OF_VALKEY && first_time(entry.value().at(now)).is_some()
                );
                let mut builder = ChangeBuilder::default();
                assert_eq!(payload::read(&bytes, &mut builder).unwrap(), shown.len() as u64);
                let read = Entry::create(b"key", &builder.finish(None).unwrap().unwrap(), Lsn(1)).unwrap();
                assert_eq!(all(&read, 0), shown);
            }
        }
    }

    #[test]
    fn a_time_that_is_too_late_is_the_last_one() {
        let mut builder = ChangeBuilder::default();
        builder.begin(tarn_rdb::Kind::Hash);
        builder.timed_field(b"field", b"value", u64::MAX);
        let change = builder.finish(None).unwrap().unwrap();
        let entry = Entry::create(b"key", &change, Lsn(1)).unwrap();
        assert_eq!(first_time(entry.value()), Some(FIELD_TIME_MAX));
    }

    /// A stream whose head is not the newest, with groups.
    fn stream(entries: u64) -> Change<'static> {
        let id = |ms| StreamId::new(ms, 7);
        let mut image = ImageBuilder::new(Kind::Stream);
        let mut push = |put: Change<'_>| match put {
            Change::StreamPut { name, value } => image.push_field(&name, &value),
            other => panic!("{other:?}"),
        };
        let head = StreamHead { last_id: id(40), entries_added: 50, max_deleted_id: id(3) };
        push(element::put_head(&head));
        for number in 0..entries {
            let value = number.to_string().into_bytes();
            let fields = [(&b"field"[..], &value[..]), (b"", b"v"), (b"field", b"again")];
            push(element::put_entry(id(100 + number), 51 + number, fields.into_iter()));
        }
        for (group, read) in [(&b"one"[..], Some(4)), (b"other", None)] {
            push(element::put_group(group, &GroupState { last_id: id(60), entries_read: read }));
            for name in [&b"alice"[..], b"bob", b"carol"] {
                push(element::put_consumer(group, &Consumer { name, seen: 9, active: Some(9) }));
            }
            for number in 0..entries {
                let consumer = if number % 3 == 0 { &b"alice"[..] } else { b"bob" };
                let pending = Pending { id: id(90 + number), consumer, delivered: 8, deliveries: number };
                push(element::put_pending(group, &pending));
            }
        }
        Change::Image { kind: Kind::Stream, elements: image.finish().into(), expiry: Some(7), sticky: false }
    }

    #[test]
    fn a_stream_comes_back_through_the_format_as_it_was() {
        for entries in [0, 1, 20, 3000] {
            let entry = Entry::create(b"key", &stream(entries), Lsn(1)).unwrap();
            let ValueRef::Stream(was) = entry.value() else { panic!("a stream was made") };
            let bytes = payload_of(&entry, 0, VERSION_WRITTEN).unwrap();
            let mut builder = ChangeBuilder::default();
            assert_eq!(payload::read(&bytes, &mut builder).unwrap(), entries + 1);
            let change = builder.finish(Some(7)).unwrap().expect("a stream without entries is one");
            let read = Entry::create(b"key", &change, Lsn(2)).unwrap();
            let ValueRef::Stream(stream) = read.value() else { panic!("a stream was read") };
            assert_eq!((stream.head(), stream.len(), read.expiry()), (was.head(), was.len(), Some(7)));
            let entries_of = |stream: StreamRef<'_>| {
                let all = stream.iter_from(StreamId::MIN).map(|entry| {
                    let pairs = entry.fields.iter().map(|(field, value)| [field.to_vec(), value.to_vec()]);
                    (entry.id, pairs.collect::<Vec<_>>())
                });
                all.collect::<Vec<_>>()
            };
            assert_eq!(entries_of(stream), entries_of(was));
            assert_eq!(stream.groups().len(), 2);
            for (group, was) in stream.groups().into_iter().zip(was.groups()) {
                assert_eq!((group.name(), group.state()), (was.name(), was.state()));
                assert!(group.consumers().eq(was.consumers()));
                assert!(group.pending_from(StreamId::MIN).eq(was.pending_from(StreamId::MIN)));
                let owned = |group: GroupRef<'_>| group.owned_from(b"bob", StreamId::MIN).collect::<Vec<_>>();
                assert_eq!(owned(group), owned(was));
            }
        }
    }

    #[test]
    fn messages_of_producers_are_remembered_as_a_file_has_them() {
        let id = |ms| tarn_rdb::stream::StreamId { ms, seq: 1 };
        let read = |messages: &[(&[u8], &[u8], u64)], how: (u64, u64, u64, u64)| {
            let mut builder = ChangeBuilder::default();
            builder.begin(tarn_rdb::Kind::Stream);
            let (last_id, max_deleted_id) = (id(9), id(0));
            builder.stream(&tarn_rdb::stream::StreamHead { last_id, entries_added: 9, max_deleted_id });
            for (producer, name, ms) in messages {
                builder.message(producer, &tarn_rdb::stream::Message { name, id: id(*ms) });
            }
            let (duration_s, messages_max, added, duplicates) = how;
            let how = tarn_rdb::stream::Idempotence { duration_s, messages_max, added, duplicates };
            builder.idempotence(&how);
            Entry::create(b"key", &builder.finish(None).unwrap().unwrap(), Lsn(1)).unwrap()
        };
        let (p, q, a, b) = (&b"p"[..], &b"q"[..], &b"a"[..], &b"b"[..]);
        let entry = read(&[(p, a, 5), (p, b, 6), (q, a, 4)], (7, 2, 1, 4));
        let ValueRef::Stream(stream) = entry.value() else { panic!("a stream was read") };
        let how = stream.idempotence().unwrap();
        assert_eq!((how.duration_s, how.messages_max, how.added, how.duplicates), (7, 2, 3, 4));
        for (producer, name, expected) in [(p, a, Some(5)), (p, b, Some(6)), (q, a, Some(4)), (q, b, None)] {
            let found = stream.producer(producer).entry_of(name, &how, 0);
            assert_eq!(found, expected.map(|ms| StreamId::new(ms, 1)));
        }
        assert!(stream.producer(p).messages().map(|message| message.name).eq([a, b]));
        for (how, is_said) in [((100, 100, 0, 0), false), ((100, 100, 5, 0), true), ((9, 100, 0, 0), true)] {
            let entry = read(&[], how);
            let ValueRef::Stream(stream) = entry.value() else { panic!("a stream was read") };
            assert_eq!(stream.idempotence().is_some(), is_said, "{how:?}");
        }
        for (number, bounds) in [(0, (1, 1)), (u64::MAX, (86_400, 10_000))] {
            let entry = read(&[], (number, number, 0, 0));
            let ValueRef::Stream(stream) = entry.value() else { panic!("a stream was read") };
            let how = stream.idempotence().unwrap();
            assert_eq!((how.duration_s, how.messages_max), bounds);
        }
    }

    #[test]
    fn nothing_and_an_empty_collection_are_no_change() {
        assert_eq!(ChangeBuilder::default().finish(None), Ok(None));
        let mut empty = ChangeBuilder::default();
        empty.begin(tarn_rdb::Kind::Set);
        assert_eq!(empty.finish(None), Ok(None));
    }

    #[test]
    fn a_document_that_is_none_is_refused_and_blanks_are_not_kept() {
        let read = |text: &[u8]| {
            let bytes = payload::write(tarn_rdb::Kind::Json, 1, |mut out| {
                out.element(text)?;
                out.finish();
                Ok(())
            });
            let mut builder = ChangeBuilder::default();
            assert_eq!(payload::read(&bytes, &mut builder).unwrap(), 1);
            builder.finish(None).map(|change| match change {
                Some(Change::Image { kind: Kind::Json, elements, .. }) => elements.into_owned(),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(read(b" [ 1, 2 ] ").as_deref(), Ok(&b"[1,2]"[..]));
        for text in [&b""[..], b"{", b"\xff", "[".repeat(1_000_000).as_bytes()] {
            assert_eq!(read(text), Err(NotJson));
        }
    }
}
