//! The reader reads any keys and values as the writer wrote them.
//!
//! A failure prints the smallest input that fails. `PROPTEST_RNG_SEED` draws other inputs, the same ones each
//! time; `PROPTEST_CASES` says how many.
#![allow(clippy::unwrap_used)]

mod model;

use model::{Collected, Key, Value, write};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::prelude::*;
use std::time::{SystemTime, UNIX_EPOCH};
use tarn_rdb::{Head, Kind, Reader, Skipped, Unsupported, Visitor, Writer, crc64, payload};

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

/// Any value.
fn value() -> impl Strategy<Value = model::Value> {
    prop_oneof![
        bytes().prop_map(Value::String),
        bytes().prop_map(Value::Json),
        vec(bytes(), 1..20).prop_map(Value::List),
        btree_set(bytes(), 1..20).prop_map(Value::Set),
        btree_map(bytes(), score(), 1..20).prop_map(Value::ZSet),
        btree_map(bytes(), bytes(), 1..20).prop_map(Value::Hash),
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
    fn a_file_comes_back_as_it_was_written(keys in keys()) {
        let mut writer = Writer::new(Vec::new()).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        writer.about("7.0.15", now.as_secs(), 1 << 20).unwrap();
        writer.field("anything", "else").unwrap();
        write(&mut writer, &keys);
        let file = writer.finish().unwrap();
        prop_assert!(file.starts_with(b"REDIS0009\xfa"));
        prop_assert_eq!(read(&file), keys);
    }

    #[test]
    fn a_payload_comes_back_as_it_was_written(value in value()) {
        let bytes = payload::write(value.kind(), value.len(), |out| value.write(out));
        let mut collected = Collected::default();
        prop_assert_eq!(payload::read(&bytes, &mut collected).unwrap(), value.len());
        prop_assert_eq!(collected.0, Some(value));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        version in 1..=11,
    ) {
        let file = [format!("REDIS{version:04}").as_bytes(), &bytes].concat();
        let mut reader = Reader::new(&file[..], Unsupported::Skip).unwrap();
        while let Ok(Some(_)) = reader.next_key() {}
        let framed = [&bytes[..], &11_u16.to_le_bytes()].concat();
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
    let mut writer = Writer::new(Vec::new()).unwrap();
    write(&mut writer, &keys);
    assert_eq!(read(&writer.finish().unwrap()), keys);
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
    assert_eq!(refused(&framed(body, 12)), "a payload of version 12; versions up to 11 are read");
    assert_eq!(payload::read(&framed(body, 0), &mut ()).unwrap(), 1);
    assert_eq!(
        refused(&[&framed(body, 9)[..good.len() - 8], &[0; 8]].concat()),
        "the checksum of a payload is wrong"
    );
    assert_eq!(refused(&framed(b"", 9)), "a payload ends at byte 0, within the type of a value");
    assert_eq!(refused(&framed(b"\x00\x01vx", 9)), "a payload goes on behind its end, at byte 3");
    assert_eq!(payload::read(&framed(b"\x01\x00", 9), &mut ()).unwrap(), 0, "an empty list");
    assert!(refused(&framed(b"\x0f\x00", 9)).contains("a stream"));
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
