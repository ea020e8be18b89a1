//! Files made by hand, byte by byte: one of each encoding that a Redis has ever written, and one of each
//! opcode between keys.
#![allow(clippy::unwrap_used)]

use crate::blob::{intset, listpack, ziplist};
use crate::crc::crc64;
use crate::error::{Damage, ReadError};
use crate::format::Kind;
use crate::reader::{Head, Reader, Skipped, Unsupported};
use crate::stream::{Consumer, Fields, Group, Idempotence, Message, Pending, StreamHead, StreamId};
use crate::visitor::Visitor;

/// The calls that a visitor got, a word for each call. What comes behind the head of a stream is added to it.
#[derive(Default)]
pub(crate) struct Told(pub(crate) Vec<String>);

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

impl Visitor for Told {
    fn begin(&mut self, kind: Kind) {
        self.0.push(format!("{kind:?}").to_lowercase());
    }

    fn string(&mut self, string: &[u8]) {
        self.0.push(text(string));
    }

    fn element(&mut self, element: &[u8]) {
        self.0.push(text(element));
    }

    fn field(&mut self, field: &[u8], value: &[u8]) {
        self.0.push(format!("{}={}", text(field), text(value)));
    }

    fn timed_field(&mut self, field: &[u8], value: &[u8], time: u64) {
        self.0.push(format!("{}={}@{time}", text(field), text(value)));
    }

    fn scored(&mut self, member: &[u8], score: f64) {
        self.0.push(format!("{}:{score}", text(member)));
    }

    fn entry(&mut self, id: StreamId, fields: Fields<'_>) {
        let mut words = Vec::new();
        fields.for_each(|field, value| words.push(format!("{}={}", text(field), text(value))));
        assert_eq!(words.len() as u64, fields.len());
        self.0.push(format!("{id}({})", words.join(",")));
    }

    fn stream(&mut self, head: &StreamHead) {
        let StreamHead { last_id, entries_added, max_deleted_id } = head;
        self.0.push(format!("last:{last_id} added:{entries_added} deleted:{max_deleted_id}"));
    }

    fn group(&mut self, group: &Group<'_>) {
        let read = group.entries_read.map_or("?".to_owned(), |read| read.to_string());
        self.more(&format!(" group:{},{},{read}", text(group.name), group.last_id));
    }

    fn consumer(&mut self, group: &[u8], consumer: &Consumer<'_>) {
        let active = consumer.active_ms.map_or("?".to_owned(), |active| active.to_string());
        self.more(&format!(" {}/{},{},{active}", text(group), text(consumer.name), consumer.seen_ms));
    }

    fn pending(&mut self, group: &[u8], pending: &Pending<'_>) {
        let Pending { id, consumer, delivered_ms, deliveries } = pending;
        self.more(&format!(" {}/{}:{id},{delivered_ms},{deliveries}", text(group), text(consumer)));
    }

    fn message(&mut self, producer: &[u8], message: &Message<'_>) {
        self.more(&format!(" {}:{}={}", text(producer), text(message.name), message.id));
    }

    fn idempotence(&mut self, how: &Idempotence) {
        let Idempotence { duration_s, messages_max, added, duplicates } = how;
        self.more(&format!(" remembers:{duration_s},{messages_max},{added},{duplicates}"));
    }
}

impl Told {
    fn more(&mut self, word: &str) {
        self.0.last_mut().expect("the head of a stream comes before its groups").push_str(word);
    }
}

/// A file of this version, of Valkey from 80 on: header, `body`, end, checksum.
pub(crate) fn file(version: u16, body: &[u8]) -> Vec<u8> {
    let header = if version < 80 { format!("REDIS{version:04}") } else { format!("VALKEY{version:03}") };
    let mut file = [header.as_bytes(), body, &[255]].concat();
    if version >= 5 {
        file.extend(crc64(&file).to_le_bytes());
    }
    file
}

/// A string as in a file.
pub(crate) fn string(bytes: &[u8]) -> Vec<u8> {
    match bytes.len() {
        len @ 0..=63 => [&[len as u8], bytes].concat(),
        len => [&[0x80][..], &(len as u32).to_be_bytes(), bytes].concat(),
    }
}

/// Reads a file. The keys are in the form `database kind expiry key: elements`.
pub(crate) fn read(file: &[u8], unsupported: Unsupported) -> Result<(Vec<String>, Skipped), ReadError> {
    let mut reader = Reader::new(file, unsupported)?;
    let mut keys = Vec::new();
    while let Some(Head { database, kind, expiry_ms }) = reader.next_key()? {
        let key = text(reader.key());
        let mut told = Told::default();
        let count = reader.read_value(&mut told)?;
        assert_eq!(told.0[0], format!("{kind:?}").to_lowercase());
        assert_eq!(count, told.0.len() as u64 - 1);
        let expiry = expiry_ms.map_or(String::new(), |ms| format!(" until {ms}"));
        keys.push(format!("{database} {key}{expiry}: {}", told.0.join(" ")));
    }
    reader.expect_end()?;
    Ok((keys, reader.skipped()))
}

/// Reads one value of this type, in a file of a version that has it.
fn value(number: u8, bytes: &[u8]) -> Result<String, Damage> {
    value_of(if number < 24 { 6 } else { 12 }, number, bytes)
}

fn value_of(version: u16, number: u8, value: &[u8]) -> Result<String, Damage> {
    let key = [&[number][..], &string(b"k"), value].concat();
    match read(&file(version, &key), Unsupported::Refuse) {
        Ok((keys, _)) => Ok(keys[0].strip_prefix("0 k: ").unwrap().to_owned()),
        Err(ReadError::Damaged { damage, .. }) => Err(damage),
        Err(error) => panic!("{error}"),
    }
}

fn told(number: u8, bytes: &[u8]) -> String {
    value(number, bytes).unwrap()
}

#[test]
fn every_form_of_a_string_is_read() {
    let long = [b'x'; 300];
    let packed = b"\xc3\x05\x0b\x00a\xe0\x01\x00";
    for (bytes, expected) in [
        (&b"\x03abc"[..], "abc"),
        (b"\x00", ""),
        (b"\x40\x03abc", "abc"),
        (b"\x80\x00\x00\x00\x03abc", "abc"),
        (b"\x81\x00\x00\x00\x00\x00\x00\x00\x03abc", "abc"),
        (b"\xc0\x80", "-128"),
        (b"\xc1\x00\x80", "-32768"),
        (b"\xc2\xff\xff\xff\x7f", "2147483647"),
        (packed, "aaaaaaaaaaa"),
    ] {
        assert_eq!(told(0, bytes), format!("string {expected}"));
    }
    assert_eq!(told(0, &[&b"\x41\x2c"[..], &long].concat()), format!("string {}", "x".repeat(300)));
}

#[test]
fn plain_collections_are_read() {
    assert_eq!(told(1, b"\x03\x01a\xc0\x07\x01a"), "list a 7 a");
    assert_eq!(told(2, b"\x02\x01a\xc0\x07"), "set a 7");
    assert_eq!(
        told(3, b"\x04\x01a\x031.5\x01b\xff\x01c\xfe\x01d\x051e-05"),
        "zset a:1.5 b:-inf c:inf d:0.00001"
    );
    assert_eq!(told(4, b"\x02\x01a\x01v\xc0\x07\x00"), "hash a=v 7=");
    let scores = [&b"\x02\x01a"[..], &1.5_f64.to_le_bytes(), b"\x01b", &f64::INFINITY.to_le_bytes()].concat();
    assert_eq!(told(5, &scores), "zset a:1.5 b:inf");
}

#[test]
fn collections_in_one_string_are_read() {
    let zip = ziplist::tests::ziplist(&[b"\x01a", b"\xf8", b"\x01b", b"\x03\x31\x2e\x35"]);
    let listpack = listpack::tests::listpack(&[b"\x81a", b"\x07", b"\x81b", b"\x83\x31\x2e\x35"]);
    assert_eq!(told(9, &string(b"\x02\x01a\x01\x00v\x01b\x00\x01?\xff")), "hash a=v b=");
    assert_eq!(told(10, &string(&zip)), "list a 7 b 1.5");
    assert_eq!(told(11, &string(&intset::tests::intset(2, &[-5, 1, 7]))), "set -5 1 7");
    assert_eq!(told(12, &string(&zip)), "zset a:7 b:1.5");
    assert_eq!(told(13, &string(&zip)), "hash a=7 b=1.5");
    assert_eq!(told(16, &string(&listpack)), "hash a=7 b=1.5");
    assert_eq!(told(17, &string(&listpack)), "zset a:7 b:1.5");
    assert_eq!(told(20, &string(&listpack)), "set a 7 b 1.5");
}

#[test]
fn hashes_whose_fields_have_times_are_read() {
    let first = 1000_u64.to_le_bytes();
    let since = [&first[..], b"\x03\x00\x01a\x01v\x01\x01b\x01w\x42\x00\xc0\x07\x00"].concat();
    assert_eq!(told(24, &since), "hash a=v b=w@1000 7=@1511");
    // None has a time: the first is one behind the last that there can be.
    assert_eq!(told(24, &[&(1_u64 << 48).to_le_bytes()[..], b"\x01\x00\x01a\x01v"].concat()), "hash a=v");
    assert_eq!(told(24, &[&first[..], b"\x00"].concat()), "hash");
    let items: [&[u8]; 6] = [b"\x81b", b"\x81w", b"\xf1\xe8\x03", b"\x81a", b"\x07", b"\x00"];
    let pack = string(&listpack::tests::listpack(&items));
    assert_eq!(told(25, &[&first[..], &pack].concat()), "hash b=w@1000 a=7");
    let (none, late) = ((-1_i64).to_le_bytes(), i64::MAX.to_le_bytes());
    let behind = [&b"\x02\x01a\x01v"[..], &none, b"\x01b\x01w", &late].concat();
    for version in [80, 81] {
        let read = value_of(version, 22, &behind).unwrap();
        assert_eq!(read, "hash a=v b=w@9223372036854775807");
    }
}

#[test]
fn times_of_fields_that_are_none_are_refused() {
    let (first, last) = (1000_u64.to_le_bytes(), ((1_u64 << 48) - 1).to_le_bytes());
    let pack = |items: &[&[u8]]| [&first[..], &string(&listpack::tests::listpack(items))].concat();
    for (number, bytes, damage) in [
        (24, [&first[..], b"\x02\x00\x01a\x011\x00\x01a\x012"].concat(), Damage::Duplicate),
        (24, [&last[..], b"\x01\x02\x01a\x011"].concat(), Damage::FieldTime),
        (24, [&[0xff; 8][..], b"\x01\x02\x01a\x011"].concat(), Damage::FieldTime),
        (25, pack(&[b"\x81a", b"\x01", b"\x00", b"\x81a", b"\x01", b"\x00"]), Damage::Duplicate),
        (25, pack(&[b"\x81a", b"\x01", b"\x00", b"\x81b", b"\x01"]), Damage::Unpaired),
        (25, pack(&[b"\x81a", b"\x01", b"\x00", b"\x81b"]), Damage::Unpaired),
        (25, pack(&[b"\x81a", b"\x01", b"\xdf\xff"]), Damage::FieldTime),
        (25, pack(&[b"\x81a", b"\x01", b"\x81x"]), Damage::FieldTime),
    ] {
        assert_eq!(value(number, &bytes), Err(damage), "type {number}");
    }
    let before = [&b"\x01\x01a\x01v"[..], &(-2_i64).to_le_bytes()].concat();
    assert_eq!(value_of(80, 22, &before), Err(Damage::FieldTime));
    assert_eq!(told(24, &[&last[..], b"\x01\x01\x01a\x011"].concat()), "hash a=1@281474976710655");
}

#[test]
fn lists_of_nodes_are_read() {
    let (zip, empty) = (ziplist::tests::ziplist(&[b"\x01a", b"\xf8"]), ziplist::tests::ziplist(&[]));
    let nodes = [&[3][..], &string(&zip), &string(&empty), &string(&zip)].concat();
    assert_eq!(told(14, &nodes), "list a 7 a 7");
    let listpack = listpack::tests::listpack(&[b"\x81a", b"\x07"]);
    let nodes = [&b"\x03\x02"[..], &string(&listpack), b"\x01\x05plain\x02", &string(&listpack)].concat();
    assert_eq!(told(18, &nodes), "list a 7 plain a 7");
}

#[test]
fn what_is_there_twice_unpaired_or_no_score_is_refused() {
    let nan = f64::NAN.to_le_bytes();
    let score = 1.0_f64.to_le_bytes();
    let pairs = listpack::tests::listpack(&[b"\x07", b"\x01", b"\x817", b"\x02"]);
    let odd = listpack::tests::listpack(&[b"\x81a", b"\x01", b"\x81b"]);
    let words = listpack::tests::listpack(&[b"\x81a", b"\x81x"]);
    let (zip_pairs, zip_odd) = (
        ziplist::tests::ziplist(&[b"\x01a", b"\xf8", b"\x01a", b"\xf8"]),
        ziplist::tests::ziplist(&[b"\x01a"]),
    );
    for (number, bytes, damage) in [
        (2, b"\x02\x017\xc0\x07".to_vec(), Damage::Duplicate),
        (3, b"\x02\x01a\x011\x01a\x012".to_vec(), Damage::Duplicate),
        (4, b"\x02\x01a\x011\x01a\x012".to_vec(), Damage::Duplicate),
        (5, [&b"\x02\x01a"[..], &score, b"\x01a", &score].concat(), Damage::Duplicate),
        (9, string(b"\x02\x01a\x00\x00\x01a\x00\x00\xff"), Damage::Duplicate),
        (13, string(&zip_pairs), Damage::Duplicate),
        (16, string(&pairs), Damage::Duplicate),
        (17, string(&pairs), Damage::Duplicate),
        (20, string(&pairs), Damage::Duplicate),
        (12, string(&zip_odd), Damage::Unpaired),
        (13, string(&zip_odd), Damage::Unpaired),
        (16, string(&odd), Damage::Unpaired),
        (17, string(&odd), Damage::Unpaired),
        (3, b"\x01\x01a\xfd".to_vec(), Damage::Score),
        (3, b"\x01\x01a\x03nan".to_vec(), Damage::Score),
        (3, b"\x01\x01a\x031.x".to_vec(), Damage::Score),
        (5, [&b"\x01\x01a"[..], &nan].concat(), Damage::Score),
        (17, string(&words), Damage::Score),
        (18, b"\x01\x03\x01a".to_vec(), Damage::Node(3)),
        (18, b"\x01\x01\x00".to_vec(), Damage::EmptyNode),
        (14, b"\x01\x00".to_vec(), Damage::EmptyNode),
        (0, b"\xc4".to_vec(), Damage::StringForm(0xc4)),
        (0, b"\x82".to_vec(), Damage::Length(0x82)),
        (1, b"\xc0\x01".to_vec(), Damage::NoNumber(0xc0)),
        (0, b"\xc3\x05\x0c\x00a\xe0\x01\x00".to_vec(), Damage::Compressed(12)),
        (0, b"\xc3\x01\x40\x59\x00".to_vec(), Damage::Compressed(89)),
        // Half a gigabyte of six megabytes, less one byte: refused before any of them is read.
        (0, b"\xc3\x80\x00\x5d\x17\x45\x80\x20\x00\x00\x00".to_vec(), Damage::Compressed(512 << 20)),
        (0, b"\x80\x20\x00\x00\x01".to_vec(), Damage::StringTooLong((512 << 20) + 1)),
        (8, b"".to_vec(), Damage::Type(8)),
        (22, b"".to_vec(), Damage::Type(22)),
    ] {
        assert_eq!(value(number, &bytes), Err(damage), "type {number}");
    }
}

#[test]
fn a_list_may_hold_an_element_twice_and_scores_may_be_equal() {
    let listpack = listpack::tests::listpack(&[b"\x81a", b"\x07", b"\x81b", b"\x07"]);
    assert_eq!(told(17, &string(&listpack)), "zset a:7 b:7");
    assert_eq!(told(16, &string(&listpack)), "hash a=7 b=7");
    let nodes = [&b"\x01\x02"[..], &string(&listpack)].concat();
    assert_eq!(told(18, &nodes), "list a 7 b 7");
}

#[test]
fn empty_collections_are_left_out_and_counted() {
    let (zip, pack) = (string(&ziplist::tests::ziplist(&[])), string(&listpack::tests::listpack(&[])));
    let mut body = Vec::new();
    for (number, value) in [
        (1, b"\x00".to_vec()),
        (2, b"\x00".to_vec()),
        (3, b"\x00".to_vec()),
        (4, b"\x00".to_vec()),
        (5, b"\x00".to_vec()),
        (14, b"\x00".to_vec()),
        (14, [&[1], &zip[..]].concat()),
        (10, zip.clone()),
        (12, zip.clone()),
        (13, zip.clone()),
        (16, pack.clone()),
        (17, pack.clone()),
        (18, [&[1, 2], &pack[..]].concat()),
        (20, pack.clone()),
    ] {
        body.extend([&[number], &string(b"k")[..], &value].concat());
    }
    let (keys, skipped) = read(&file(11, &body), Unsupported::Refuse).unwrap();
    assert!(keys.iter().all(|key| key.split(' ').count() == 3), "{keys:?}");
    assert_eq!((keys.len(), skipped), (14, Skipped { empty: 14, ..Skipped::default() }));
}

#[test]
fn numbers_that_depend_on_the_version_are_read_as_it_says() {
    let of = |version: u16, number: u8| {
        let key = [&[number][..], &string(b"k"), b"\x01"].concat();
        read(&file(version, &key), Unsupported::Skip).unwrap_err()
    };
    for (version, number) in [(12, 22), (12, 23), (13, 22), (13, 23), (80, 23), (81, 23)] {
        let error = of(version, number);
        assert!(
            matches!(error, ReadError::Unsupported { number: told, offset: 9, .. } if told == number),
            "type {number} of version {version}: {error}"
        );
    }
    assert_eq!(
        of(12, 22).to_string(),
        "holds a hash whose fields expire, as before Redis 7.4.0, at byte 9 (type 22), key \"k\", which Tarn \
         cannot hold; have a later Redis load it, and save again"
    );
    for (version, number) in [(11, 22), (11, 25), (12, 26), (11, 26), (13, 27), (80, 24), (81, 26), (13, 8)] {
        let error = of(version, number);
        assert!(
            matches!(error, ReadError::Damaged { damage: Damage::Type(told), .. } if told == number),
            "type {number} of version {version}: {error}"
        );
    }
}

/// A key of a string, with the bytes before it.
fn key(before: &[u8], name: &str) -> Vec<u8> {
    [before, &[0], &string(name.as_bytes()), &string(b"v")].concat()
}

#[test]
fn what_stands_between_keys_is_read() {
    let body = [
        key(b"\xfa\x09redis-ver\x067.0.15\xfa\x05ctime\xc2\x01\x02\x03\x04\xfe\x00\xfb\x02\x01", "a"),
        key(b"\xfc\x10\x27\x00\x00\x00\x00\x00\x00", "b"),
        key(b"\xfe\x41\x00\xfd\x10\x27\x00\x00\xf8\x05", "c"),
        key(b"\xf9\x05\xfc\xff\xff\xff\xff\xff\xff\xff\xff", "d"),
        key(b"\xf4\x01\x02\x03\xfd\xff\xff\xff\xff", "e"),
        key(b"\xfd\x10\x27\x00\x00\xfc\x01\x00\x00\x00\x00\x00\x00\x00", "f"),
        key(b"", "g"),
    ]
    .concat();
    let expected = [
        "0 a: string v",
        "0 b until 10000: string v",
        "256 c until 10000000: string v",
        "256 d until 0: string v",
        "256 e until 0: string v",
        "256 f until 1: string v",
        "256 g: string v",
    ];
    let file = file(11, &body);
    assert_eq!(read(&file, Unsupported::Refuse).unwrap().0, expected);
    let mut reader = Reader::new(&file[..], Unsupported::Refuse).unwrap();
    assert!(reader.made_by().is_none());
    while reader.next_key().unwrap().is_some() {}
    assert_eq!((reader.made_by(), reader.version()), (Some("7.0.15"), 11));
    assert_eq!(reader.offset(), file.len() as u64);
}

#[test]
fn what_stands_between_keys_since_redis_8_and_valkey_9_is_read_or_refused_by_name() {
    // Two modules know something of the key.
    let meta = [&b"\xf3\x02...."[..], PARTS, b"....", PARTS].concat();
    let body = [key(b"\xf4\x01\x02\x03", "a"), key(&meta, "b")].concat();
    let (keys, skipped) = read(&file(13, &body), Unsupported::Refuse).unwrap();
    assert_eq!(keys, ["0 a: string v", "0 b: string v"]);
    assert_eq!(skipped, Skipped { module_fields: 2, ..Skipped::default() });
    // Slots 0 to 5 were being imported.
    let import = [&b"\xf3"[..], &string(&[b'x'; 40]), b"\x01\x00\x05"].concat();
    for (part, number) in [(&import[..], 243), (b"\xf2\x01", 242)] {
        let error = read(&file(80, &key(part, "a")), Unsupported::Skip).unwrap_err();
        assert!(
            matches!(error, ReadError::UnsupportedPart { number: told, offset: 9, .. } if told == number),
            "{error}"
        );
    }
    let error = read(&file(13, &key(b"\xf2\x01", "a")), Unsupported::Skip).unwrap_err();
    assert!(matches!(error, ReadError::Damaged { damage: Damage::Type(242), .. }), "{error}");
}

/// The parts of a module's data: two numbers, a float, a double, a string, the end.
const PARTS: &[u8] = b"\x01\x05\x02\x41\x00\x03....\x04........\x05\x03abc\x00";

fn module_id() -> Vec<u8> {
    [&[0x81][..], &(0x1234_5678_9abc_def0_u64).to_be_bytes()].concat()
}

#[test]
fn modules_and_early_functions_are_passed_over_and_counted() {
    let body = [
        &b"\xf5\x05#!lua"[..],
        b"\xf6\x03lib\x03lua\x01\x04desc\x04code",
        b"\xf6\x03lib\x03lua\x00\x04code\xf7",
        &module_id(),
        b"\x02\x01",
        PARTS,
        &key(b"", "a"),
    ]
    .concat();
    let (keys, skipped) = read(&file(10, &body), Unsupported::Refuse).unwrap();
    assert_eq!(keys, ["0 a: string v"]);
    assert_eq!(skipped, Skipped { functions: 2, module_fields: 1, ..Skipped::default() });
}

#[test]
fn modules_are_refused_by_name_or_passed_over_and_counted() {
    let value = [module_id(), PARTS.to_vec()].concat();
    let foreign = [&[7][..], &string(b"the \"key\""), &value].concat();
    let whole = file(11, &[key(b"", "a"), foreign, key(b"", "z")].concat());
    let error = read(&whole, Unsupported::Refuse).unwrap_err().to_string();
    assert_eq!(
        error,
        "holds a value of the module type EjRWeJq83 at byte 14 (type 7), key \"the \\\"key\\\"\", which Tarn \
         cannot hold; delete the key and save again, or have such keys left out"
    );
    let (keys, skipped) = read(&whole, Unsupported::Skip).unwrap();
    assert_eq!(keys, ["0 a: string v", "0 z: string v"]);
    assert_eq!(skipped, Skipped { modules: 1, ..Skipped::default() });
    let old = file(8, &[&[6][..], &string(b"k"), &value].concat());
    for unsupported in [Unsupported::Refuse, Unsupported::Skip] {
        let error = read(&old, unsupported).unwrap_err();
        assert!(matches!(error, ReadError::Unsupported { number: 6, offset: 9, .. }), "{error}");
    }
}

#[test]
fn an_expiry_of_a_key_that_is_left_out_is_not_that_of_the_next() {
    let foreign = [&b"\xfc\x01\x00\x00\x00\x00\x00\x00\x00\x07\x01k"[..], &module_id(), PARTS].concat();
    let (keys, _) = read(&file(9, &[foreign, key(b"", "z")].concat()), Unsupported::Skip).unwrap();
    assert_eq!(keys, ["0 z: string v"]);
}

#[test]
fn versions_1_to_13_and_those_of_valkey_are_read_and_no_others() {
    for version in (1..=13).chain(80..=81) {
        let (keys, _) = read(&file(version, &key(b"", "a")), Unsupported::Refuse).unwrap();
        assert_eq!(keys, ["0 a: string v"], "version {version}");
    }
    for (start, is_version) in [
        ("REDIS0000", true),
        ("REDIS0014", true),
        ("REDIS0080", true),
        ("REDIS9999", true),
        ("REDIS 011", false),
        ("VALKEY011", true),
        ("VALKEY079", true),
        ("VALKEY082", true),
        ("VALKEY 80", false),
        ("VALKEY-80", false),
    ] {
        match Reader::new(start.as_bytes(), Unsupported::Refuse).err() {
            Some(ReadError::Version(_)) => assert!(is_version, "{start}"),
            Some(ReadError::Foreign) => assert!(!is_version, "{start}"),
            other => panic!("{start}: {other:?}"),
        }
    }
    for start in [&b"REDIS00"[..], b"VALKEY08", b""] {
        assert!(matches!(Reader::new(start, Unsupported::Refuse), Err(ReadError::Foreign)));
    }
}

#[test]
fn a_checksum_is_checked_unless_it_is_zero_and_nothing_may_follow() {
    let good = file(9, &key(b"", "a"));
    let mut bad = good.clone();
    let end = good.len();
    bad[end - 8] ^= 1;
    let error = read(&bad, Unsupported::Refuse).unwrap_err();
    let expected = end as u64 - 8;
    assert!(matches!(error, ReadError::Checksum { offset, .. } if offset == expected), "{error}");
    bad[end - 8..].fill(0);
    assert!(read(&bad, Unsupported::Refuse).is_ok(), "no checksum was computed");
    let error = read(&[&good[..], b"*1\r\n"].concat(), Unsupported::Refuse).unwrap_err();
    assert!(matches!(error, ReadError::Trailing { offset } if offset == end as u64), "{error}");
}

#[test]
fn values_that_nobody_reads_are_passed_over() {
    let list = b"\x01\x01l\x02\x01a\x01b";
    let body = [&list[..], &key(b"", "a"), list].concat();
    let bytes = file(9, &body);
    let mut reader = Reader::new(&bytes[..], Unsupported::Refuse).unwrap();
    let mut kinds = Vec::new();
    while let Some(head) = reader.next_key().unwrap() {
        kinds.push(head.kind);
    }
    assert_eq!(kinds, [Kind::List, Kind::String, Kind::List]);
    assert_eq!(reader.read_value(&mut ()).unwrap(), 0);
}
