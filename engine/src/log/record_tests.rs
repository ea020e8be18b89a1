//! Round trips of records: every kind of write, and arbitrary bytes.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::{FormatError, Group, Record, Records};
use crate::record::{
    Bytes, Change, FIELD_TIME_MAX, Kind, Lsn, Made, RENEWED_LENGTH_MAX, Side, StreamId, Write,
};

fn bytes() -> impl Strategy<Value = Bytes<'static>> {
    prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..40),
        1 => prop::collection::vec(any::<u8>(), 100..300),
        1 => Just(vec![0; 20_000]),
    ]
    .prop_map(Bytes::from)
}

fn side() -> impl Strategy<Value = Side> {
    prop_oneof![Just(Side::Front), Just(Side::Back)]
}

fn kind() -> impl Strategy<Value = Kind> {
    let kinds = [Kind::List, Kind::Set, Kind::ZSet, Kind::Hash, Kind::Stream, Kind::Json];
    (0..kinds.len()).prop_map(move |index| kinds[index])
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop_oneof![4 => kind(), 1 => Just(Kind::String)]
}

fn change() -> impl Strategy<Value = Change<'static>> {
    let number = || prop_oneof![0..300_u64, any::<u64>()];
    let score = any::<f64>().prop_filter("no score is NaN", |score| !score.is_nan());
    prop_oneof![
        (bytes(), any::<Option<u64>>()).prop_map(|(value, expiry)| Change::Put { value, expiry }),
        (number(), bytes()).prop_map(|(offset, bytes)| Change::Patch { offset, bytes }),
        Just(Change::Delete),
        any::<Option<u64>>().prop_map(Change::Expire),
        (bytes(), bytes()).prop_map(|(field, value)| Change::HashPut { field, value }),
        bytes().prop_map(|field| Change::HashRemove { field }),
        (bytes(), proptest::option::of(0..=FIELD_TIME_MAX))
            .prop_map(|(field, at)| Change::HashExpire { field, at }),
        bytes().prop_map(|member| Change::SetAdd { member }),
        bytes().prop_map(|member| Change::SetRemove { member }),
        (bytes(), score).prop_map(|(member, score)| Change::ZSetPut { member, score }),
        bytes().prop_map(|member| Change::ZSetRemove { member }),
        (side(), bytes()).prop_map(|(side, element)| Change::ListPush { side, element }),
        (side(), 1..u64::MAX).prop_map(|(side, count)| Change::ListPop { side, count }),
        (number(), bytes()).prop_map(|(index, element)| Change::ListPut { index, element }),
        (number(), bytes()).prop_map(|(index, element)| Change::ListInsert { index, element }),
        number().prop_map(|index| Change::ListRemove { index }),
        (bytes(), bytes()).prop_map(|(name, value)| Change::StreamPut { name, value }),
        bytes().prop_map(|name| Change::StreamRemove { name }),
        (number(), number()).prop_map(|(ms, seq)| Change::StreamTrim { below: StreamId::new(ms, seq) }),
        bytes().prop_map(|group| Change::StreamGroupRemove { group }),
        (any_kind(), 0..=RENEWED_LENGTH_MAX)
            .prop_map(|(kind, length)| Change::RenewalBegins { kind, length }),
        (0..3_usize, number(), bytes()).prop_map(|(kind, at, bytes)| Change::RenewalPart {
            kind: [Kind::List, Kind::String, Kind::Json][kind],
            at,
            bytes,
        }),
        // Before the first record that is written here.
        (any_kind(), 0..100_u64).prop_map(|(kind, begun)| Change::RenewalEnds { kind, begun: Lsn(begun) }),
        (any_kind(), 0..100_u64, bytes()).prop_map(|(kind, begun, bytes)| Change::PreparedPart {
            kind,
            begun: Lsn(begun),
            bytes
        }),
        (any_kind(), (0..100_u64, number()), any::<Option<u64>>(), any::<bool>()).prop_map(
            |(kind, (begun, parts), expiry, sticky)| {
                let (begun, value) = (Lsn(begun), Made::default());
                Change::Prepared { kind, begun, parts, expiry, sticky, value }
            }
        ),
        (kind(), bytes(), any::<Option<u64>>(), any::<bool>())
            .prop_map(|(kind, elements, expiry, sticky)| Change::Image { kind, elements, expiry, sticky }),
    ]
}

fn write() -> impl Strategy<Value = Write<'static>> {
    prop_oneof![
        30 => (any::<u8>(), bytes(), change()).prop_map(|(db, key, change)| Write::Key { db, key, change }),
        1 => any::<Option<u8>>().prop_map(|db| Write::Flush { db }),
        1 => any::<(u8, u8)>().prop_map(|(a, b)| Write::Swap { a, b }),
    ]
}

/// A body that holds these groups.
fn body(groups: &[Vec<Write<'_>>]) -> (Vec<u8>, u32) {
    let (mut body, mut count) = (Vec::new(), 0);
    let mut group = Group::new();
    for writes in groups {
        group.clear();
        writes.iter().for_each(|write| group.push(write));
        group.copy_to(&mut body);
        count += group.count();
    }
    (body, count)
}

fn read(body: &[u8], count: u32) -> Result<Vec<Record<'_>>, FormatError> {
    Records::new(body, Lsn(100), count).collect()
}

proptest! {
    #[test]
    fn every_write_comes_back_as_it_was(
        groups in prop::collection::vec(prop::collection::vec(write(), 1..6), 1..6),
        padding in 0..600_usize,
    ) {
        let (mut body, count) = body(&groups);
        body.resize(body.len() + padding, 0);
        let records = read(&body, count).unwrap();
        let mut expected = Vec::new();
        for writes in &groups {
            for (index, write) in writes.iter().enumerate() {
                let group = if index == 0 { writes.len() as u32 } else { 0 };
                let lsn = Lsn(100 + expected.len() as u64);
                expected.push(Record { lsn, group, write: write.clone() });
            }
        }
        prop_assert_eq!(records, expected);
    }

    #[test]
    fn a_body_that_is_cut_anywhere_is_refused(
        groups in prop::collection::vec(prop::collection::vec(write(), 1..4), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let (body, count) = body(&groups);
        let cut = cut.index(body.len());
        prop_assert!(read(&body[..cut], count).is_err());
    }

    #[test]
    fn any_bytes_are_records_or_an_error(
            body in prop::collection::vec(any::<u8>(), 0..200),
            count in 0..20_u32,
        ) {
        // Small bytes are more often types, flags and lengths that make sense.
        let small: Vec<u8> = body.iter().map(|byte| byte % 27).collect();
        for body in [&body, &small] {
            if let Ok(records) = read(body, count) {
                prop_assert_eq!(records.len(), count as usize);
            }
        }
    }
}

fn put(value: &'static [u8]) -> Write<'static> {
    Write::Key { db: 0, key: b"key"[..].into(), change: Change::Put { value: value.into(), expiry: None } }
}

#[test]
fn what_no_writer_writes_is_refused_by_name() {
    let cases: &[(&[u8], u32, FormatError)] = &[
        (&[], 1, FormatError::CutOff),
        (&[0, 0], 1, FormatError::UnknownType(0)),
        (&[32, 0], 1, FormatError::UnknownType(32)),
        (&[25, 0, 0, 7, 0], 1, FormatError::BadField("kind of a prepared value")),
        (&[25, 16, 0, 0, 0, 0], 1, FormatError::BadFlags { kind: 25, flags: 16 }),
        (&[3, 0x10, 0], 1, FormatError::BadFlags { kind: 3, flags: 0x10 }),
        (&[3, 8, 1, 0], 1, FormatError::BadFlags { kind: 3, flags: 8 }),
        (&[20, 4, 1], 1, FormatError::BadFlags { kind: 20, flags: 4 }),
        (&[3, 1, 1, 0], 1, FormatError::BadField("group of fewer than two")),
        (&[3, 1, 2, 0], 1, FormatError::BadCount),
        (&[3, 1, 2, 0, 3, 1, 2, 0], 2, FormatError::BadField("group inside a group")),
        (&[3, 0, 0, 3, 0, 0], 1, FormatError::BadCount),
        (&[3, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F], 1, FormatError::CutOff),
        (&[13, 0, 0, 0], 1, FormatError::BadField("count of elements")),
        (&[18, 0, 0, 0, 0], 1, FormatError::BadField("kind of an image")),
        (&[22, 0, 0, 7, 0], 1, FormatError::BadField("kind of a rewritten value")),
        (&[23, 0, 0, 2, 0, 0], 1, FormatError::BadField("kind of a rewritten value")),
        (
            &[22, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x1F],
            1,
            FormatError::BadField("length of a rewritten value"),
        ),
        (&[9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xF8, 0x7F], 1, FormatError::BadField("score")),
        (
            &[3, 2, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0],
            1,
            FormatError::BadField("Lsn"),
        ),
        // 2^48: an entry has no room for it.
        (&[3, 2, 0x9C, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x3F, 0], 1, FormatError::BadField("Lsn")),
    ];
    for (body, count, expected) in cases {
        assert_eq!(read(body, *count).unwrap_err(), *expected, "{body:?}");
    }
}

#[test]
fn a_record_may_leave_numbers_out() {
    let body = [3, 0, 0, 3, 2, 5, 0, 3, 0, 0];
    let lsns: Vec<Lsn> = read(&body, 3).unwrap().iter().map(|record| record.lsn).collect();
    assert_eq!(lsns, [Lsn(100), Lsn(106), Lsn(107)]);
}

#[test]
fn a_cleared_group_gives_big_memory_back() {
    let mut group = Group::new();
    group.push(&put(&[7; 3 << 20]));
    group.clear();
    assert!(group.is_empty() && group.bytes_len() == 0);
    group.push(&put(b"x"));
    let mut body = Vec::new();
    group.copy_to(&mut body);
    assert_eq!(read(&body, 1).unwrap()[0].write, put(b"x"));
}

/// The page's example is not prose: it is what this code writes.
#[test]
fn the_example_of_the_format_page_is_what_is_written() {
    let page = include_str!("../../../docs/format/log.md");
    let example = page.split("An example, ").nth(1).unwrap().split("## Reading").next().unwrap();
    let hex_lines = example.lines().filter(|line| line.starts_with("    "));
    let mut expected = Vec::new();
    for line in hex_lines {
        let tokens = line.split_whitespace().take_while(|token| token.len() == 2);
        expected.extend(tokens.map(|token| u8::from_str_radix(token, 16).unwrap()));
    }
    let field = |field: &'static [u8], value: &'static [u8]| Write::Key {
        db: 0,
        key: b"k"[..].into(),
        change: Change::HashPut { field: field.into(), value: value.into() },
    };
    let expiry = Some(1_723_000_030_208);
    let string =
        Write::Key { db: 3, key: b"s"[..].into(), change: Change::Put { value: b"abc"[..].into(), expiry } };
    let (body, count) = body(&[vec![field(b"a", b"12"), field(b"b", b"")], vec![string]]);
    assert_eq!(count, 3);
    assert_eq!(body, expected);
    assert!(example.starts_with(&format!("{} bytes", body.len())));
}

#[test]
fn a_renewal_that_began_behind_its_end_is_refused() {
    for (begun, is_right) in [(99, true), (100, false), (1 << 60, false)] {
        let change = Change::RenewalEnds { kind: Kind::List, begun: Lsn(begun) };
        let (body, count) = body(&[vec![Write::Key { db: 0, key: b"k".into(), change }]]);
        assert_eq!(read(&body, count).is_ok(), is_right, "{begun}");
    }
}
