//! Tests of packed elements whose `Lsn`s are distances.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::block::{Block, Header};
use super::body::Body;
use super::packed::{Varint, lsn_bytes};
use super::stored::{NotStored, Stored};
use super::stream::spelling::short;
use super::stream::{StreamId, element};
use super::{ImageBuilder, ValueRef, elements_of};
use crate::record::{Change, Kind, Lsn};

const KEY: &[u8] = b"key";

fn hash() -> Body {
    Body::empty(&Header::new(Kind::Hash, Lsn::ZERO), KEY)
}

fn bytes_of(body: &Body) -> &[u8] {
    match body.stored() {
        Stored::Whole(bytes) => bytes,
        Stored::Nodes(..) => panic!("it is in one allocation"),
    }
}

fn field(number: u8) -> Vec<u8> {
    format!("field{number}").into_bytes()
}

/// Puts or takes out what the step says, at this `Lsn`; what it had before is returned, as the body says.
fn play(body: &mut Body, kind: Kind, number: u8, lsn: Lsn, removes: bool) -> Option<Lsn> {
    let mut name = field(number);
    let entry = element::put_entry(StreamId::new(number.into(), 0), 1, std::iter::empty());
    let Change::StreamPut { name: of_entry, value } = entry else { panic!("it is a put") };
    if kind == Kind::Stream {
        name = of_entry.into_owned();
    }
    match kind {
        _ if removes => body.remove(&name),
        Kind::Hash => body.hash_put(&name, b"value", lsn),
        Kind::Set => body.set_add(&name, lsn),
        Kind::Stream => body.stream_put(&name, &value, lsn),
        // Some change their place.
        _ => body.zset_put(&name, (lsn.0 % 7) as f64, lsn),
    }
}

proptest! {
    #[test]
    fn records_of_elements_are_known_however_far_apart(
        kind in prop_oneof![Just(Kind::Hash), Just(Kind::Set), Just(Kind::ZSet), Just(Kind::Stream)],
        first in 1u64..1 << 40,
        steps in vec((0..20u8, 0..40u32, proptest::bool::weighted(0.1)), 1..60),
    ) {
        let mut body = Body::empty(&Header::new(kind, Lsn::ZERO), KEY);
        let (mut model, mut lsn) = (BTreeMap::new(), Lsn(first));
        for (number, distance, removes) in steps {
            // Not even that is needed: that they rise.
            lsn = if distance % 8 == 7 { Lsn(lsn.0 - (lsn.0 >> 3)) } else { lsn.after(1 << distance) };
            let expected = if removes { model.remove(&number) } else { model.insert(number, lsn) };
            prop_assert_eq!(play(&mut body, kind, number, lsn, removes), expected);
            prop_assert_eq!(body.count(), model.len());
            let (mut there, mut all): (Vec<_>, Vec<_>) =
                (body.packed_lsns().collect(), model.values().copied().collect());
            there.sort_unstable();
            all.sort_unstable();
            prop_assert_eq!(&there, &all);
            let Some(newest) = all.last() else { continue };
            let read = Body::from_stored(bytes_of(&body), *newest).unwrap();
            prop_assert!(read.packed_lsns().eq(body.packed_lsns()));
            prop_assert_eq!(elements_of(read.value()), elements_of(body.value()));
            let older = Body::from_stored(bytes_of(&body), Lsn(newest.0 - 1));
            prop_assert_eq!(older.err(), Some(NotStored::Newer));
        }
    }
}

#[test]
fn fields_that_were_written_together_have_few_bytes_of_lsn() {
    let lsn_bytes_of = |body: &Body| {
        let each = 1 + field(0).len() + 1 + b"value".len();
        let bare = Block::new(&Header::new(Kind::Hash, Lsn::ZERO), KEY, &[]).len() + 8 + 8 * each;
        bytes_of(body).len() - bare
    };
    let mut image = ImageBuilder::new(Kind::Hash);
    (0..8).for_each(|number| image.push_field(&field(number), b"value"));
    let header = Header::new(Kind::Hash, Lsn(1 << 40));
    let mut of_image = Body::from_image(KEY, &header, &image.finish()).unwrap();
    assert_eq!(lsn_bytes_of(&of_image), 0, "one record said all of them");
    assert_eq!(of_image.hash_put(&field(3), b"other", Lsn((1 << 40) + 9)), Some(Lsn(1 << 40)));
    assert_eq!(lsn_bytes_of(&of_image), 8);
    let put_all = |lsn_of: &dyn Fn(u8) -> Lsn| {
        let mut body = hash();
        (0..8).for_each(|number| _ = body.hash_put(&field(number), b"value", lsn_of(number)));
        lsn_bytes_of(&body)
    };
    assert_eq!(put_all(&|number| Lsn((1 << 40) + u64::from(number))), 8, "a command made them");
    assert_eq!(put_all(&|number| Lsn((1 << 40) + (u64::from(number) << 20))), 8 * 3);
    assert_eq!(put_all(&|number| Lsn(1 << (number * 6))), 8 * 6);
}

/// The block of an older version of the program: whole `Lsn`s.
fn wide(fields: &[(&[u8], Lsn)]) -> Block {
    let mut payload = (fields.len() as u16).to_le_bytes().to_vec();
    for (name, lsn) in fields {
        payload.extend_from_slice(&lsn_bytes(*lsn));
        for run in [name, &b"value"[..]] {
            payload.extend_from_slice(Varint::new(run.len()).as_slice());
            payload.extend_from_slice(run);
        }
    }
    Block::new(&Header::new(Kind::Hash, Lsn(9)), KEY, &payload)
}

#[test]
fn elements_with_whole_lsns_are_read() {
    let block = wide(&[(b"a", Lsn(3)), (b"b", Lsn(9)), (b"c", Lsn(5))]);
    let mut body = Body::from_stored(block.as_bytes(), Lsn(9)).unwrap();
    assert!(bytes_of(&body).len() < block.len(), "they are distances now");
    assert!(body.packed_lsns().eq([Lsn(3), Lsn(9), Lsn(5)]));
    let ValueRef::Hash(hash) = body.value() else { panic!("it is a hash") };
    assert!(hash.iter().eq([&b"a"[..], b"b", b"c"].map(|name| (name, &b"value"[..]))));
    assert_eq!(body.hash_put(b"b", b"other", Lsn(1 << 30)), Some(Lsn(9)));
    assert!(body.packed_lsns().eq([Lsn(3), Lsn(1 << 30), Lsn(5)]));
    assert_eq!(Body::from_stored(block.as_bytes(), Lsn(8)).err(), Some(NotStored::Newer));
    let names: Vec<Vec<u8>> = (0..=200).map(|number| vec![number]).collect();
    let many: Vec<(&[u8], Lsn)> = names.iter().map(|name| (&name[..], Lsn(7))).collect();
    let large = Body::from_stored(wide(&many).as_bytes(), Lsn(9)).unwrap();
    assert!(large.nodes().is_some() && large.count() == many.len());
}

#[test]
fn blocks_with_lsns_of_impossible_width_are_refused() {
    let mut body = hash();
    body.hash_put(b"a", b"value", Lsn(3));
    body.hash_put(b"b", b"value", Lsn(4));
    let sound = bytes_of(&body).to_vec();
    let width_at = sound.len() - 2 * (1 + 1 + 1 + 1 + 5) - 7;
    assert_eq!(sound[width_at], 1);
    for width in (0..=u8::MAX).filter(|width| *width != 1) {
        let mut bytes = sound.clone();
        bytes[width_at] = width;
        assert!(Body::from_stored(&bytes, Lsn(1 << 47)).is_err(), "{width}");
    }
    for cut in 0..sound.len() {
        assert!(Body::from_stored(&sound[..cut], Lsn(9)).is_err(), "{cut} bytes");
    }
    // The sum of origin and distance is no `Lsn`, whatever the file says of its cut.
    let mut bytes = sound.clone();
    bytes[width_at + 1..][..6].fill(u8::MAX);
    assert!(Body::from_stored(&bytes, Lsn(u64::MAX)).is_err());
    // Only collections whose elements have an `Lsn` have distances.
    for kind in [Kind::String, Kind::List, Kind::Json] {
        let header = Header { narrow: true, ..Header::new(kind, Lsn(1)) };
        let block = Block::new(&header, KEY, &[1, 1, 0, 0, 0, 0, 0, 0, 1, 1, b'a']);
        assert!(Body::from_stored(block.as_bytes(), Lsn(9)).is_err(), "{kind:?}");
    }
    let no_payload = Block::new(&Header { narrow: true, ..Header::new(Kind::Hash, Lsn(1)) }, KEY, &[]);
    assert!(Body::from_stored(no_payload.as_bytes(), Lsn(9)).is_err());
    assert!(Body::from_stored_nodes(no_payload.as_bytes(), &[], &[], Lsn(9)).is_err());
}

#[test]
fn elements_that_are_read_stay_as_they_are_laid_out() {
    let mut body = hash();
    // Their distances need one byte, and two with the room that a new layout has.
    for (field, lsn) in [(b"a", 3), (b"b", 80)] {
        body.hash_put(field, b"value", Lsn(lsn));
    }
    let read = Body::from_stored(bytes_of(&body), Lsn(80)).unwrap();
    assert_eq!(bytes_of(&read), bytes_of(&body));
}

#[test]
fn a_stream_of_a_file_has_entries_by_their_long_names_only() {
    let id = StreamId::new(1_790_000_000_000, 5);
    let Change::StreamPut { name, value } = element::put_entry(id, 1, std::iter::empty()) else {
        panic!("it is a put");
    };
    let element = |name: &[u8]| {
        let lsn = lsn_bytes(Lsn(3));
        let (name_len, value_len) = (Varint::new(name.len()), Varint::new(value.len()));
        [&lsn[..], name_len.as_slice(), name, value_len.as_slice(), &value].concat()
    };
    let header = Header::new(Kind::Stream, Lsn(1));
    let head = Block::new(&header, KEY, &[]);
    let short = short(&name);
    for (name, is_long) in [(&name[..], true), (&short[..], false)] {
        let element = element(name);
        let whole = Block::new(&header, KEY, &[&[1, 0], &element[..]].concat());
        assert_eq!(Body::from_stored(whole.as_bytes(), Lsn(9)).is_ok(), is_long, "in one piece: {name:?}");
        let nodes = Body::from_stored_nodes(head.as_bytes(), &[&element], &[], Lsn(9));
        assert_eq!(nodes.is_ok(), is_long, "in nodes: {name:?}");
    }
}
