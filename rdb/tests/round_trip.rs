//! The reader reads any keys and values as the writer wrote them.
//!
//! A failure prints the smallest input that fails. `PROPTEST_RNG_SEED` draws other inputs, the same ones each
//! time; `PROPTEST_CASES` says how many.
#![allow(clippy::unwrap_used)]

mod model;

use model::{Collected, Group, Key, Pairs, Stream, Value, write};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};
use tarn_rdb::stream::{StreamHead, StreamId};
use tarn_rdb::{Head, Kind, Reader, Skipped, Unsupported, VERSIONS_WRITTEN, Visitor, Writer, crc64, payload};

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..12),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        (-200_i64..200).prop_map(|number| number.to_string().into_bytes()),
        (any::<u8>(), 0..100_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

fn score() -> impl Strategy<Value = u64> {
    let number = any::<f64>().prop_filter("NaN is no score", |score| !score.is_nan());
    prop_oneof![number, Just(f64::INFINITY), Just(-0.0), Just(7.0)].prop_map(f64::to_bits)
}

/// An ID, but `0-0`.
fn id() -> impl Strategy<Value = StreamId> {
    let number = || prop_oneof![0..5_u64, 1_600_000_000_000..1_600_000_000_100_u64, any::<u64>()];
    let id = (number(), number()).prop_map(|(ms, seq)| StreamId { ms, seq });
    id.prop_filter("no entry has the ID 0-0", |id| *id > StreamId::default())
}

fn fields() -> impl Strategy<Value = Pairs> {
    let value = || vec(any::<u8>(), 0..70);
    let usual =
        (value(), value()).prop_map(|(one, other)| vec![(b"a".to_vec(), one), (b"7".to_vec(), other)]);
    prop_oneof![4 => usual, 1 => vec((bytes(), bytes()), 1..3), 1 => vec((value(), value()), 1..4)]
}

/// The name of a group or a consumer. One of more than some kilobytes may be told too often to be read.
fn name() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(any::<u8>(), 0..12), (any::<u8>(), 0..1000_usize).prop_map(|(byte, len)| vec![byte; len])]
}

fn group() -> impl Strategy<Value = Group> {
    let time = || 0..i64::MAX as u64;
    let entries_read = prop::option::of(0..i64::MAX as u64);
    let consumers = btree_map(name(), (time(), prop::option::of(time())), 0..4);
    let pending = btree_map(id(), (any::<usize>(), time(), any::<u64>()), 0..20);
    (id(), entries_read, consumers, pending).prop_map(|(last_id, entries_read, consumers, pending)| {
        let names: Vec<&Vec<u8>> = consumers.keys().collect();
        let pending = pending.into_iter().filter(|_| !names.is_empty());
        let pending = pending
            .map(|(id, (owner, time, count))| (id, (names[owner % names.len()].clone(), time, count)))
            .collect();
        Group { last_id, entries_read, consumers, pending }
    })
}

/// Any stream.
fn stream() -> impl Strategy<Value = Stream> {
    let entries = btree_map(id(), fields(), 0..300);
    let groups = btree_map(name(), group(), 0..4);
    (entries, groups, id(), 0..u64::MAX / 2, id()).prop_map(|(entries, groups, last, more, deleted)| {
        let last_id = entries.last_key_value().map_or(last, |(id, _)| last.max(*id));
        let entries_added = entries.len() as u64 + more;
        Stream { head: StreamHead { last_id, entries_added, max_deleted_id: deleted }, entries, groups }
    })
}

/// Keys as they come back from a file of this version.
fn all_of(keys: Vec<Key>, version: u16) -> Vec<Key> {
    keys.into_iter().map(|key| Key { value: key.value.after_version(version), ..key }).collect()
}

/// The time of a field.
fn time() -> impl Strategy<Value = Option<u64>> {
    let time = prop_oneof![0..5_u64, 1_600_000_000_000..1_600_000_000_100_u64, 0..=i64::MAX as u64];
    prop::option::of(time)
}

/// Any value.
fn value() -> impl Strategy<Value = model::Value> {
    prop_oneof![
        bytes().prop_map(Value::String),
        bytes().prop_map(Value::Json),
        vec(bytes(), 1..20).prop_map(Value::List),
        btree_set(bytes(), 1..20).prop_map(Value::Set),
        btree_map(bytes(), score(), 1..20).prop_map(Value::ZSet),
        btree_map(bytes(), (bytes(), Just(None)), 1..20).prop_map(Value::Hash),
        btree_map(bytes(), (bytes(), time()), 1..20).prop_map(Value::Hash),
        stream().prop_map(Value::Stream),
    ]
}

/// Any keys, database by database.
fn keys() -> impl Strategy<Value = Vec<Key>> {
    let expiry = prop::option::of(0..i64::MAX as u64);
    let key = (prop_oneof![0..16_u64, any::<u64>()], bytes(), expiry, value());
    vec(key, 0..12).prop_map(|mut keys| {
        keys.sort_by_key(|(database, ..)| *database);
        let key = |(database, name, expiry_ms, value)| Key { database, name, expiry_ms, value };
        keys.into_iter().map(key).collect()
    })
}

fn read(file: &[u8]) -> Vec<Key> {
    let mut reader = Reader::new(file, Unsupported::Refuse).unwrap();
    let mut keys = Vec::new();
    while let Some(Head { database, expiry_ms, .. }) = reader.next_key().unwrap() {
        let name = reader.key().to_vec();
        let mut collected = Collected::default();
        let count = reader.read_value(&mut collected).unwrap();
        let value = collected.0.unwrap();
        assert_eq!(count, value.len());
        keys.push(Key { database, name, expiry_ms, value });
    }
    reader.expect_end().unwrap();
    assert_eq!(reader.skipped(), Skipped::default());
    keys
}

proptest! {
    #[test]
    fn a_file_comes_back_as_it_was_written(keys in keys(), compresses in any::<bool>()) {
        let mut writer = Writer::new(Vec::new()).unwrap().compressing(compresses);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        writer.about("7.0.15", now.as_secs(), 1 << 20).unwrap();
        writer.field("anything", "else").unwrap();
        write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        prop_assert!(file.starts_with(b"REDIS0009\xfa"));
        prop_assert_eq!(all_of(read(&file), 9), all_of(keys, 9));
    }

    #[test]
    fn a_file_with_functions_comes_back_as_it_was_written(keys in keys(), compresses in any::<bool>()) {
        let mut writer = Writer::with_functions(Vec::new()).unwrap().compressing(compresses);
        writer.function(b"a library").unwrap();
        write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        prop_assert!(file.starts_with(b"REDIS0010\xf5"));
        prop_assert_eq!(read(&file), all_of(keys, 10));
    }

    #[test]
    fn a_file_of_any_version_comes_back_as_it_was(
        keys in keys(),
        version in prop::sample::select(VERSIONS_WRITTEN[1..].to_vec()),
        compresses in any::<bool>(),
    ) {
        let mut writer = Writer::of_version(Vec::new(), version).unwrap().compressing(compresses);
        writer.function(b"a library").unwrap();
        write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        let magic = if version < 80 { format!("REDIS{version:04}") } else { format!("VALKEY{version:03}") };
        prop_assert!(file.starts_with(magic.as_bytes()) && file[magic.len()] == 0xf5);
        prop_assert_eq!(read(&file), all_of(keys, version));
    }

    #[test]
    fn a_payload_comes_back_as_it_was_written(value in value()) {
        let mut collected = Collected::default();
        prop_assert_eq!(payload::read(&value.payload(), &mut collected).unwrap(), value.len());
        prop_assert_eq!(collected.0, Some(value.after_payload()));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![1..=13_u16, 80..=81_u16],
    ) {
        let header = if version < 80 { format!("REDIS{version:04}") } else { format!("VALKEY{version:03}") };
        let file = [header.as_bytes(), &bytes].concat();
        let mut reader = Reader::new(&file[..], Unsupported::Skip).unwrap();
        while let Ok(Some(_)) = reader.next_key() {}
        let framed = [&bytes[..], &version.to_le_bytes()].concat();
        let framed = [&framed[..], &crc64(&framed).to_le_bytes()].concat();
        let _ = payload::read(&framed, &mut ());
    }
}

#[test]
fn strings_of_every_length_and_numbers_at_every_edge_come_back() {
    let lengths = [0, 1, 63, 64, 0x3fff, 0x4000, 65_535, 65_536, 65_537, 200_000];
    let edges = [0_i64, 127, 128, 32_767, 32_768, i64::from(i32::MAX), i64::from(i32::MAX) + 1];
    let numbers =
        edges.iter().flat_map(|edge| [edge.to_string(), format!("-{edge}"), (-edge - 1).to_string()]);
    let others = ["+1", "01", "-", " 1", "1 ", "1.0"].map(str::to_owned);
    let strings = lengths.iter().map(|len| "x".repeat(*len)).chain(numbers).chain(others);
    let keys: Vec<Key> = strings
        .map(|text| {
            let value = Value::List(vec![text.clone().into_bytes(); 2]);
            Key { database: 0, name: text.into_bytes(), expiry_ms: None, value }
        })
        .collect();
    let mut lengths = Vec::new();
    for compresses in [false, true] {
        let mut writer = Writer::new(Vec::new()).unwrap().compressing(compresses);
        write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        assert_eq!(read(&file), keys);
        lengths.push(file.len());
    }
    assert!(lengths[1] < lengths[0] / 20, "{lengths:?}");
}

#[test]
fn strings_are_compressed_up_to_a_length() {
    let longest = 16 << 20;
    for (len, is_packed) in [(longest, true), (longest + 1, false)] {
        let string = vec![b'x'; len];
        for is_in_pieces in [false, true] {
            let mut writer = Writer::new(Vec::new()).unwrap().compressing(true);
            let mut value = writer.begin_value(b"k", None, Kind::String, 1).unwrap();
            match is_in_pieces {
                true => value.long_element(len, string.chunks(1 << 20)).unwrap(),
                false => value.element(&string).unwrap(),
            }
            value.finish();
            let bytes = writer.finish().unwrap().len();
            assert!(if is_packed { bytes < len / 20 } else { bytes > len }, "{bytes} bytes of {len}");
        }
    }
}

#[test]
fn an_empty_file_is_a_file() {
    let file = Writer::new(Vec::new()).unwrap().finish().unwrap();
    assert_eq!(&file[..10], b"REDIS0009\xff");
    assert_eq!(read(&file), []);
}

#[test]
fn payloads_that_are_not_whole_are_refused() {
    let good = payload::write(Kind::Set, 1, |mut out| {
        out.element(b"member")?;
        out.finish();
        Ok(())
    });
    let refused = |bytes: &[u8]| payload::read(bytes, &mut ()).unwrap_err().to_string();
    for len in 0..good.len() {
        refused(&good[..len]);
    }
    for at in 0..good.len() {
        let mut turned = good.clone();
        turned[at] ^= 1;
        refused(&turned);
    }
    assert_eq!(refused(b"123456789"), "a payload of 9 bytes is too short");
    let framed = |body: &[u8], version: u16| {
        let bytes = [body, &version.to_le_bytes()].concat();
        [&bytes[..], &crc64(&bytes).to_le_bytes()].concat()
    };
    let body = &good[..good.len() - 10];
    assert_eq!(framed(body, 9), good);
    for version in [14, 79, 82, u16::MAX] {
        let expected = "versions up to 13 of Redis, and 80 and 81 of Valkey, are read";
        assert_eq!(refused(&framed(body, version)), format!("a payload of version {version}; {expected}"));
    }
    for version in [0, 1, 12, 13, 80, 81] {
        assert_eq!(payload::read(&framed(body, version), &mut ()).unwrap(), 1);
    }
    for (number, version) in [(22, 13), (23, 12)] {
        let error = refused(&framed(&[number, 1], version));
        assert!(error.starts_with("a payload holds a hash whose fields expire"), "{error}");
    }
    assert_eq!(refused(&framed(&[24, 1], 80)), "a payload is damaged at byte 0: there is no type 24");
    assert_eq!(
        refused(&[&framed(body, 9)[..good.len() - 8], &[0; 8]].concat()),
        "the checksum of a payload is wrong"
    );
    assert_eq!(refused(&framed(b"", 9)), "a payload ends at byte 0, within the type of a value");
    assert_eq!(refused(&framed(b"\x00\x01vx", 9)), "a payload goes on behind its end, at byte 3");
    assert_eq!(payload::read(&framed(b"\x01\x00", 9), &mut ()).unwrap(), 0, "an empty list");
    assert_eq!(
        payload::read(&framed(b"\x0f\x00\x00\x00\x00\x00", 9), &mut ()).unwrap(),
        1,
        "an empty stream"
    );
    assert!(refused(&framed(b"\x0f\x00\x01\x00\x00\x00", 9)).contains("a stream makes no sense"));
    assert!(refused(&framed(b"\x07\x01", 9)).contains("a value of the module type"));
}

#[test]
#[should_panic(expected = "fields have times in a file of this version")]
fn a_time_in_a_file_that_has_none_is_the_writers_mistake() {
    let mut writer = Writer::of_version(Vec::new(), 11).unwrap();
    assert!(!writer.has_field_times());
    let _ = writer.begin_timed_hash(b"k", None, 1, 7);
}

#[test]
#[should_panic(expected = "as many elements as it was begun with")]
fn a_value_with_too_few_elements_is_the_writers_mistake() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let mut list = writer.begin_value(b"k", None, Kind::List, 2).unwrap();
    list.element(b"one").unwrap();
    list.finish();
}

/// A lent value lasts for the call, and a visitor may ignore everything but kinds.
#[test]
fn visitors_take_what_they_like() {
    struct Kinds(Vec<Kind>);
    impl Visitor for Kinds {
        fn begin(&mut self, kind: Kind) {
            self.0.push(kind);
        }
    }
    let bytes = payload::write(Kind::Hash, 1, |mut out| {
        out.field(b"f", b"v")?;
        out.finish();
        Ok(())
    });
    let mut kinds = Kinds(Vec::new());
    assert_eq!(payload::read(&bytes, &mut kinds).unwrap(), 1);
    assert_eq!(kinds.0, [Kind::Hash]);
}
