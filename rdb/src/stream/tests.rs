//! Streams made by hand, item by item; what contradicts itself; and limits.
#![allow(clippy::unwrap_used)]

use super::parts::{Consumer, Group, Pending, StreamHead, StreamId};
use crate::blob::listpack::Builder;
use crate::error::{Damage, ReadError};
use crate::fixtures::{file, read as read_file, string};
use crate::format::Kind;
use crate::payload;
use crate::reader::Unsupported;

/// A listpack of items, which stand in a text: what looks like a number is one.
fn listpack(items: &str) -> Vec<u8> {
    let mut builder = Builder::new();
    items.split_whitespace().for_each(|item| builder.push(item.as_bytes()));
    builder.finish()
}

fn id(ms: u64, seq: u64) -> StreamId {
    StreamId { ms, seq }
}

/// A node as in a file.
fn node(ms: u64, seq: u64, items: &str) -> Vec<u8> {
    [string(&id(ms, seq).to_bytes()), string(&listpack(items))].concat()
}

/// Entries 5-1 with fields a and b, 5-2 (deleted), 7-0 with other fields, 9-3 in another node.
fn nodes() -> Vec<u8> {
    let first = node(5, 1, "2 1 2 a b 0   2 0 0 1 2 5   3 0 1 3 4 5   0 2 -1 3 c x a y b z 10");
    let second = node(9, 0, "1 0 1 f 0   2 0 3 7 4");
    [&[2][..], &first, &second].concat()
}

/// Lengths of a head: count, last ID; first ID, greatest removed ID, entries added.
fn head(form: u8) -> Vec<u8> {
    let all = [3, 10, 0, 5, 1, 5, 2, 8];
    all[..if form >= 2 { 8 } else { 3 }].to_vec()
}

/// ID, time, deliveries.
fn delivered(ms: u64, seq: u64) -> Vec<u8> {
    [&id(ms, seq).to_bytes()[..], &1000_u64.to_le_bytes(), &[3]].concat()
}

/// A consumer for whom this is pending.
fn consumer(form: u8, name: &str, pending: &[StreamId]) -> Vec<u8> {
    let times = [2000_u64.to_le_bytes(), 1500_u64.to_le_bytes()].concat();
    let times = &times[..if form >= 3 { 16 } else { 8 }];
    let ids: Vec<u8> = pending.iter().flat_map(|id| id.to_bytes()).collect();
    [&string(name.as_bytes()), times, &[pending.len() as u8], &ids].concat()
}

/// A group with these parts.
fn group(form: u8, name: &str, delivered: &[Vec<u8>], consumers: &[Vec<u8>]) -> Vec<u8> {
    let numbers: &[u8] = if form >= 2 { &[7, 0, 4] } else { &[7, 0] };
    let (delivered_count, consumers_count) = ([delivered.len() as u8], [consumers.len() as u8]);
    let (delivered, consumers) = (delivered.concat(), consumers.concat());
    [&string(name.as_bytes()), numbers, &delivered_count, &delivered, &consumers_count, &consumers].concat()
}

fn two_groups(form: u8) -> Vec<u8> {
    let alice = consumer(form, "alice", &[id(5, 1), id(7, 0)]);
    let bob = consumer(form, "bob", &[id(5, 2)]);
    let pending = [delivered(5, 1), delivered(5, 2), delivered(7, 0)];
    [&[2][..], &group(form, "g", &pending, &[alice, bob]), &group(form, "h", &[], &[])].concat()
}

/// Two messages of one producer, and another that has none left.
fn producers() -> Vec<u8> {
    let messages = [&string(b"a")[..], &[5, 1], &string(b"b"), &[7, 0]].concat();
    [&[50, 20, 2][..], &string(b"p"), &[2], &messages, &string(b"q"), &[0, 9, 3]].concat()
}

/// A stream in the form of Redis 5 (1), 7.0 (2), 7.2 (3) or 8.6 (4).
pub(crate) fn stream(form: u8) -> Vec<u8> {
    let producers = if form >= 4 { producers() } else { Vec::new() };
    [nodes(), head(form), two_groups(form), producers].concat()
}

const TYPES: [(u8, u8); 4] = [(1, 15), (2, 19), (3, 21), (4, 26)];

/// Reads a stream of this form.
fn read(form: u8, value: &[u8]) -> Result<String, Damage> {
    let number = TYPES[usize::from(form) - 1].1;
    let key = [&[number][..], &string(b"k"), value].concat();
    match read_file(&file(13, &key), Unsupported::Refuse) {
        Ok((keys, _)) => Ok(keys[0].strip_prefix("0 k: stream ").unwrap().to_owned()),
        Err(ReadError::Damaged { damage, .. }) => Err(damage),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn all_forms_are_read() {
    let entries = "5-1(a=1,b=2) 7-0(c=x,a=y,b=z) 9-3(f=7)";
    let pending = " g/alice:5-1,1000,3 g/alice:7-0,1000,3";
    for (form, head, read_count, alice_active) in [
        (1, "last:10-0 added:3 deleted:0-0", "?", 2000),
        (2, "last:10-0 added:8 deleted:5-2", "4", 2000),
        (3, "last:10-0 added:8 deleted:5-2", "4", 1500),
        (4, "last:10-0 added:8 deleted:5-2", "4", 1500),
    ] {
        let producers = if form == 4 { " p:a=5-1 p:b=7-0 remembers:50,20,9,3" } else { "" };
        let expected = format!(
            "{entries} {head} group:g,7-0,{read_count} g/alice,2000,{alice_active}{pending} \
             g/bob,2000,{alice_active} g/bob:5-2,1000,3 group:h,7-0,{read_count}{producers}"
        );
        assert_eq!(read(form, &stream(form)).as_deref(), Ok(&expected[..]), "form {form}");
    }
}

#[test]
fn a_stream_without_entries_is_one() {
    let expected = "last:0-0 added:0 deleted:0-0";
    assert_eq!(read(1, &[0, 0, 0, 0, 0]).as_deref(), Ok(expected));
    assert_eq!(read(2, &[0, 0, 7, 1, 0, 0, 6, 0, 9, 0]).as_deref(), Ok("last:7-1 added:9 deleted:6-0"));
    // A node of deleted entries.
    let gone = [&[1][..], &node(5, 0, "0 1 0 0 3 0 0 3"), &[0, 7, 1, 0]].concat();
    assert_eq!(read(1, &gone).as_deref(), Ok("last:7-1 added:0 deleted:0-0"));
}

#[test]
fn unknown_counts_and_times_are_none() {
    let never = [&string(b"c")[..], &(-5_i64).to_le_bytes(), &(-1_i64).to_le_bytes(), &[0]].concat();
    let unknown = [&[1, 1, b'g', 7, 0, 0x81][..], &[0xff; 8], &[0, 1], &never].concat();
    let read = read(3, &[&[0, 0, 7, 1, 0, 0, 6, 0, 9][..], &unknown].concat());
    assert_eq!(read.as_deref(), Ok("last:7-1 added:9 deleted:6-0 group:g,7-0,? g/c,0,?"));
}

#[test]
fn entries_read_are_told_where_ids_say_them() {
    let of = |last: &[u8]| {
        let group = [&[1, 1, b'g'][..], last, &[0, 0]].concat();
        read(1, &[nodes(), head(1), group].concat()).unwrap().rsplit(',').next().unwrap().to_owned()
    };
    let told = [[0, 0], [5, 0], [5, 1], [5, 2], [9, 3], [10, 0], [10, 1]].map(|last| of(&last));
    assert_eq!(told, ["0", "0", "1", "?", "?", "3", "?"]);
}

/// A stream of one node and one group, whose parts may be replaced.
struct Parts {
    nodes: Vec<u8>,
    head: Vec<u8>,
    groups: Vec<u8>,
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { nodes: nodes(), head: head(2), groups: two_groups(2) }
    }
}

impl Parts {
    fn read(&self) -> Result<String, Damage> {
        read(2, &[&self.nodes[..], &self.head, &self.groups].concat())
    }
}

#[test]
fn a_node_that_contradicts_itself_is_refused() {
    let at = |items: &str| {
        let nodes = [&[1][..], &node(5, 1, items)].concat();
        let count = items.as_bytes()[0] - b'0';
        Parts { nodes, head: vec![count, 10, 0, 5, 1, 5, 2, 8], groups: vec![0] }.read()
    };
    assert!(at("2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6").is_ok());
    for items in [
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4",
        "2 0 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "1 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 1   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 0 v 5   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 3   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 7",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 -1 f v 6",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 9 f v 6",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 9223372036854775807 f v 6",
        "2 1 1 f 0   x 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 x 0 v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 x v 4   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 0 v x   3 1 0 v 4   0 1 1 1 f v 6",
        "2 1 1 f 0   2 0 0 v 4   3 1 0 v 4   0 1 1 1 f v 6 9",
        "2 x 1 f 0   2 0 0 v 4",
        "2 -1 1 f 0   2 0 0 v 4",
        "1 0 -1 f 0   2 0 0 v 4",
        "1 0 9 f 0   2 0 0 v 4",
        "1 0 9223372036854775807 f 0   2 0 0 v 4",
        "1 0 1",
        "1 0",
        "1",
    ] {
        let damage = at(items).unwrap_err();
        assert!(matches!(damage, Damage::Blob { form: "node of a stream", .. }), "{items}: {damage}");
    }
}

#[test]
fn a_stream_that_contradicts_itself_is_refused() {
    assert!(Parts::default().read().is_ok());
    let nodes = |nodes: &[Vec<u8>]| Parts {
        nodes: [&[nodes.len() as u8][..], &nodes.concat()].concat(),
        head: vec![2, 10, 0, 5, 1, 5, 2, 8],
        groups: vec![0],
    };
    let one = |ms: u64, items: &str| node(ms, 0, items);
    let entry = "1 0 0 0 2 0 0 3";
    let heads = |head: &[u8]| Parts { head: head.to_vec(), groups: vec![0], ..Parts::default() };
    let groups = |groups: &[Vec<u8>]| Parts {
        groups: [&[groups.len() as u8][..], &groups.concat()].concat(),
        ..Parts::default()
    };
    let with = |delivered: &[Vec<u8>], consumers: &[Vec<u8>]| groups(&[group(2, "g", delivered, consumers)]);
    let (five, seven) = (delivered(5, 1), delivered(7, 0));
    let alice = |pending: &[StreamId]| consumer(2, "alice", pending);
    assert!(nodes(&[one(5, entry), one(6, entry)]).read().is_ok());
    for (parts, problem) in [
        (nodes(&[one(5, entry), one(5, entry)]), "the IDs of its entries do not ascend"),
        (nodes(&[one(6, entry), one(5, entry)]), "the IDs of its entries do not ascend"),
        (nodes(&[one(0, entry), one(5, entry)]), "the IDs of its entries do not ascend"),
        (nodes(&[one(5, "2 0 0 0 2 0 0 3 2 0 0 3")]), "the IDs of its entries do not ascend"),
        (nodes(&[one(5, "2 0 0 0 2 0 0 3 2 -1 0 3")]), "the IDs of its entries do not ascend"),
        (
            nodes(&[[string(b"fifteen bytes.."), string(&listpack(entry))].concat()]),
            "the ID of a node has not 16 bytes",
        ),
        (nodes(&[one(5, entry), one(11, entry)]), "the ID of an entry is greater than its last ID"),
        (heads(&[3, 9, 2, 5, 1, 5, 2, 8]), "the ID of an entry is greater than its last ID"),
        (heads(&[2, 10, 0, 5, 1, 5, 2, 8]), "it has another number of entries than it says"),
        (heads(&[4, 10, 0, 5, 1, 5, 2, 8]), "it has another number of entries than it says"),
        (heads(&[3, 10, 0, 5, 1, 5, 2, 2]), "it has more entries than were added to it"),
        (groups(&vec![group(2, "g", &[], &[]); 2]), "two of its groups have the same name"),
        (with(&[], &vec![alice(&[]); 2]), "two consumers of a group have the same name"),
        (
            with(&[seven.clone(), five.clone()], &[alice(&[id(5, 1), id(7, 0)])]),
            "the IDs of what is pending do not ascend",
        ),
        (
            with(&[five.clone(), five.clone()], &[alice(&[id(5, 1)])]),
            "the IDs of what is pending do not ascend",
        ),
        (
            with(std::slice::from_ref(&five), &[alice(&[id(7, 0)])]),
            "what is pending for a consumer is not so in its group",
        ),
        (
            with(std::slice::from_ref(&five), &[alice(&[id(5, 1), id(5, 1)])]),
            "the same entry is pending for two consumers, or twice for one",
        ),
        (
            with(std::slice::from_ref(&five), &[alice(&[id(5, 1)]), consumer(2, "bob", &[id(5, 1)])]),
            "the same entry is pending for two consumers, or twice for one",
        ),
        (
            with(&[five, seven], &[alice(&[id(5, 1)])]),
            "what is pending in a group is pending for none of its consumers",
        ),
        (
            groups(&[[&[1, b'g', 7, 0, 0x81][..], &(1_u64 << 63).to_be_bytes(), &[0, 0]].concat()]),
            "a group has read less than no entry",
        ),
    ] {
        assert_eq!(parts.read(), Err(Damage::Stream(problem)));
    }
}

#[test]
fn producers_and_messages_of_each_come_once() {
    let of = |producers: &[u8]| read(4, &[&nodes()[..], &head(4), &[0], producers].concat()).map(|_| ());
    assert_eq!(of(b"\x01\x01\x02\x01p\x01\x01a\x05\x01\x01q\x01\x01a\x06\x01\x02\x00"), Ok(()));
    let twice = "two of its producers have the same name";
    assert_eq!(of(b"\x01\x01\x02\x01p\x00\x01p\x00\x00\x00"), Err(Damage::Stream(twice)));
    let twice = "a producer has two messages of the same name";
    let same = b"\x01\x01\x01\x01p\x02\x01a\x05\x01\x01a\x06\x01\x02\x00";
    assert_eq!(of(same), Err(Damage::Stream(twice)));
}

#[test]
fn the_same_consumer_may_be_in_two_groups() {
    let of = |name| group(2, name, &[delivered(5, 1)], &[consumer(2, "alice", &[id(5, 1)])]);
    let parts = Parts { groups: [&[2][..], &of("g"), &of("alice")].concat(), ..Parts::default() };
    assert!(parts.read().is_ok());
}

#[test]
fn names_that_repeat_too_often_are_refused() {
    // A long name of a field, which many entries share.
    let shared = |count: usize, len: usize| {
        let mut builder = Builder::new();
        builder.push_int(count as i64);
        builder.push_int(0);
        builder.push_int(1);
        builder.push(&vec![b'f'; len]);
        builder.push_int(0);
        for seq in 0..count {
            [2, 0, seq as i64, 1, 4].into_iter().for_each(|number| builder.push_int(number));
        }
        let listpack = builder.finish();
        let mut value = [&[1][..], &string(&id(5, 1).to_bytes()), &string(&listpack), &[0x80]].concat();
        value.extend((count as u32).to_be_bytes());
        value.extend([5, 0x80]);
        value.extend((count as u32 + 1).to_be_bytes());
        value.push(0);
        read(1, &value).map(|_| ())
    };
    // As many as Redis puts in a node by default; more, of which the names are short; more.
    assert_eq!(shared(100, 100_000), Ok(()));
    assert_eq!(shared(20_000, 100), Ok(()));
    assert_eq!(shared(2000, 100_000), Err(Damage::Repeats(128)));

    let pending = |len: usize| {
        let all: Vec<Vec<u8>> = (1..=60).map(|seq| delivered(5, seq)).collect();
        let ids: Vec<StreamId> = (1..=60).map(|seq| id(5, seq)).collect();
        let group = group(2, &"g".repeat(len), &all, &[consumer(2, "alice", &ids)]);
        Parts { groups: [&[1][..], &group].concat(), ..Parts::default() }.read().map(|_| ())
    };
    assert_eq!(pending(10_000), Ok(()));
    assert_eq!(pending(50_000), Err(Damage::Repeats(128)));
}

/// A payload of entries with these fields and values, one after the other.
fn written(entries: &[&[(&str, &str)]]) -> Vec<u8> {
    let count = entries.len() as u64;
    payload::write(Kind::Stream, count + 1, |mut out| {
        let head = StreamHead { last_id: id(9, count), entries_added: count, max_deleted_id: id(0, 0) };
        out.entries(&head, 0, || {
            entries.iter().enumerate().map(|(index, fields)| {
                (id(9, 1 + index as u64), fields.iter().map(|(f, v)| (f.as_bytes(), v.as_bytes())))
            })
        })?;
        out.finish();
        Ok(())
    })
}

#[test]
fn nodes_are_as_full_as_those_of_redis_and_share_fields() {
    let payload = written(&vec![&[("f", "v")][..]; 250]);
    assert_eq!((payload[0], payload[1]), (19, 3), "100, 100 and 50 entries");
    let footer = payload.len() - 10;
    assert_eq!(payload[footer..footer + 2], [10, 0], "the version");
    let wide = "v".repeat(1000);
    assert_eq!(written(&[&[("f", &wide[..])][..]; 5])[1], 2, "three entries are more than 4096 bytes");
    let entry = listpack("1 0 2 a b 0   2 0 0 1 2 5");
    let other = listpack("3 0 2 a b 0   2 0 0 1 2 5   2 0 1 3 4 5   0 0 2 2 a 5 c 6 8");
    let found = |payload: &[u8], part: &[u8]| payload.windows(part.len()).any(|window| window == part);
    let same = [("a", "1"), ("b", "2")];
    assert!(found(&written(&[&same]), &entry));
    assert!(found(&written(&[&same, &[("a", "3"), ("b", "4")], &[("a", "5"), ("c", "6")]]), &other));
}

#[test]
#[should_panic(expected = "as many entries as it was begun with")]
fn a_stream_with_other_entries_than_told_is_the_writers_mistake() {
    payload::write(Kind::Stream, 3, |mut out| {
        let entry = [(id(1, 1), [(&b"f"[..], &b"v"[..])].into_iter())];
        out.entries(&StreamHead::default(), 0, || entry.clone().into_iter())
    });
}

#[test]
#[should_panic(expected = "as many elements as it was begun with")]
fn a_stream_with_fewer_groups_than_told_is_the_writers_mistake() {
    payload::write(Kind::Stream, 1, |mut out| {
        out.entries(&StreamHead::default(), 2, std::iter::empty::<(StreamId, std::iter::Empty<_>)>)?;
        let group = Group { name: b"g", last_id: id(0, 0), entries_read: None };
        out.group(&group, (0, std::iter::empty::<Pending<'_>>()), 1)?;
        let consumer = Consumer { name: b"c", seen_ms: 1, active_ms: None };
        out.consumer(&consumer, (0, std::iter::empty()))?;
        out.finish();
        Ok(())
    });
}
