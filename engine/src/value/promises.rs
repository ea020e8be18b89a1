//! Tests the guarantees that views, scans and memory rest on: clones do not change, few nodes are copied, a
//! scan loses nothing, values take few bytes.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::HashSet;

use super::chunks::{CHUNK_BYTES, Chunks};
use super::nodes::Nodes;
use super::stream::{Pending, StreamHead, StreamId, element};
use super::string::WHOLE_BYTES_MAX;
use super::{Scanned, ValueRef, elements_of};
use crate::record::{Change, Lsn, Side};
use crate::table::{Entry, Retired};

fn cow(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytes)
}

fn apply(entry: &mut Option<Entry>, change: &Change<'_>) {
    match entry {
        None => *entry = Entry::create(b"key", change, Lsn(1)),
        Some(there) => _ = there.apply(change, there.lsn().after(1), &mut Retired::default()).unwrap(),
    }
}

fn hash_of_len(len: usize) -> Entry {
    let mut entry = None;
    for number in 0..len {
        let field = format!("field:{number}");
        apply(&mut entry, &Change::HashPut { field: cow(field.as_bytes()), value: cow(&[b'v'; 32]) });
    }
    entry.unwrap()
}

fn zset_of_len(len: usize) -> Entry {
    let mut entry = None;
    for number in 0..len {
        let member = format!("member:{number}");
        let score = (number * 7919 % len) as f64;
        apply(&mut entry, &Change::ZSetPut { member: cow(member.as_bytes()), score });
    }
    entry.unwrap()
}

fn list_of_len(len: usize) -> Entry {
    let mut entry = None;
    for number in 0..len {
        let element = format!("element:{number}");
        apply(&mut entry, &Change::ListPush { side: Side::Back, element: cow(element.as_bytes()) });
    }
    entry.unwrap()
}

/// An entry of a stream with one field, as a sensor or a queue appends it.
fn put_entry(number: usize) -> Change<'static> {
    let id = StreamId::new(1_700_000_000_000 + number as u64, 0);
    let value = format!("value:{number}");
    element::put_entry(id, number as u64 + 1, [(&b"field"[..], value.as_bytes())].into_iter())
}

fn stream_of_len(len: usize) -> Entry {
    let mut entry = None;
    apply(&mut entry, &element::put_head(&StreamHead::default()));
    (0..len).for_each(|number| apply(&mut entry, &put_entry(number)));
    entry.unwrap()
}

fn addresses(entry: &Entry) -> HashSet<usize> {
    match entry.nodes().unwrap() {
        Nodes::String(chunks) => chunks.nodes().into_keys().collect(),
        Nodes::List(tree) => tree.addresses(),
        Nodes::Set(tree) => tree.addresses(),
        Nodes::Hash(tree) => tree.addresses(),
        Nodes::TimedHash(hash) => {
            let times = hash.times.trees();
            &(&hash.fields.addresses() | &times.index.addresses()) | &times.ranking.addresses()
        }
        Nodes::ZSet(trees) => &trees.index.addresses() | &trees.ranking.addresses(),
        Nodes::Stream(tree) => tree.addresses(),
    }
}

#[test]
fn a_write_leaves_a_clone_as_it_was_and_copies_only_its_paths() {
    let value = cow(b"another value");
    let id = |number: u64| StreamId::new(1_700_000_000_000 + number, 0);
    let pending = Pending { id: id(3), consumer: b"c", delivered: 1, deliveries: 1 };
    let cases: [(Entry, Vec<Change<'_>>, usize); 4] = [
        (
            hash_of_len(20_000),
            vec![
                Change::HashPut { field: cow(b"field:77"), value: value.clone() },
                Change::HashPut { field: cow(b"new"), value: value.clone() },
                Change::HashRemove { field: cow(b"field:4321") },
            ],
            // The new one may have nodes of its path split.
            6,
        ),
        (
            zset_of_len(20_000),
            vec![
                Change::ZSetPut { member: cow(b"member:77"), score: 1e9 },
                Change::ZSetPut { member: cow(b"new"), score: 500.5 },
                Change::ZSetRemove { member: cow(b"member:4321") },
            ],
            14,
        ),
        (
            list_of_len(50_000),
            vec![
                Change::ListPush { side: Side::Front, element: value.clone() },
                Change::ListInsert { index: 25_000, element: value.clone() },
                Change::ListPut { index: 12_345, element: value.clone() },
                Change::ListRemove { index: 33_333 },
                Change::ListPop { side: Side::Back, count: 1 },
            ],
            5,
        ),
        (
            stream_of_len(20_000),
            vec![
                put_entry(20_000),
                element::put_entry(id(777), 7, std::iter::empty()),
                element::remove_entry(id(4_321)),
                element::put_pending(b"group", &pending),
                Change::StreamTrim { below: id(1) },
                // Whole leaves and branches go, with no look at them.
                Change::StreamTrim { below: id(12_345) },
            ],
            6,
        ),
    ];
    for (entry, changes, copied_max) in cases {
        let before = addresses(&entry);
        let image = elements_of(entry.value());
        for change in &changes {
            let mut writer = entry.clone();
            assert_eq!(addresses(&writer), before, "a clone shares all nodes");
            let lsn = writer.lsn().after(1);
            writer.apply(change, lsn, &mut Retired::default()).unwrap();
            let copied = addresses(&writer).difference(&before).count();
            assert!(
                (1..=copied_max).contains(&copied),
                "{change:?} copied {copied} of {} nodes",
                before.len()
            );
            assert!(elements_of(writer.value()) != image, "the writer sees {change:?}");
            assert!(elements_of(entry.value()) == image, "the clone does not see {change:?}");
            assert_eq!(addresses(&entry), before);
        }
    }
}

#[test]
fn elements_that_come_and_go_at_an_end_of_a_large_value_move_few_leaves() {
    let push = |side| Change::ListPush { side, element: cow(b"element:1234567") };
    let pop = |side| Change::ListPop { side, count: 1 };
    let entries = (20_000..20_100).map(put_entry).collect();
    let cases: [(Entry, Vec<Change<'_>>); 5] = [
        (list_of_len(20_000), vec![push(Side::Front); 100]),
        (list_of_len(20_000), vec![push(Side::Back); 100]),
        (list_of_len(20_000), vec![pop(Side::Front); 100]),
        (list_of_len(20_000), vec![pop(Side::Back); 100]),
        (stream_of_len(20_000), entries),
    ];
    for (mut entry, changes) in cases {
        let mut moved = 0;
        let apply = |entry: &mut Entry, change: &Change<'_>| {
            let lsn = entry.lsn().after(1);
            entry.apply(change, lsn, &mut Retired::default()).unwrap();
        };
        for change in &changes {
            let before = addresses(&entry);
            apply(&mut entry, change);
            moved += usize::from(addresses(&entry) != before);
        }
        assert!(moved <= 40, "{moved} of {} changes moved a leaf, as {:?} did", changes.len(), changes[0]);
        let (clone, image) = (entry.clone(), elements_of(entry.value()));
        changes.iter().for_each(|change| apply(&mut entry, change));
        assert!(elements_of(clone.value()) == image, "the clone does not see {:?}", changes[0]);
    }
}

fn chunks(entry: &Entry) -> &Chunks {
    match entry.nodes() {
        Some(Nodes::String(chunks)) => chunks,
        _ => panic!("a giant string is in chunks"),
    }
}

#[test]
fn a_write_to_a_giant_string_copies_a_bounded_path_if_a_clone_is_there_and_else_nothing() {
    let patch =
        |offset: usize, len: usize| Change::Patch { offset: offset as u64, bytes: vec![b'x'; len].into() };
    for chunk_count in [5, 31, 32, 33, 1_500] {
        let len = chunk_count * CHUNK_BYTES - 100;
        let put = Change::Put { value: vec![b'v'; len].into(), expiry: None };
        let entry = Entry::create(b"key", &put, Lsn(1)).unwrap();
        let before = chunks(&entry).nodes();
        let middle = len / 2;
        let across = CHUNK_BYTES - 50;
        let cases =
            [(0, 1, 1), (middle, 100, 2), (across, 100, 2), (len - 1, 1, 1), (len, 100, 1), (len, 0, 0)];
        for (offset, bytes, paths) in cases {
            let mut writer = entry.clone();
            assert_eq!(chunks(&writer).nodes(), before, "a clone shares all nodes");
            let mut write = || writer.apply(&patch(offset, bytes), Lsn(2), &mut Retired::default()).unwrap();
            write();
            write();
            let after = chunks(&writer).nodes();
            let copied: usize =
                after.iter().filter(|(at, _)| !before.contains_key(at)).map(|(_, bytes)| bytes).sum();
            let bound = paths * chunks(&entry).bytes_of_path();
            assert!(copied <= bound && bound < 40_000, "{copied} bytes for {bytes} at {offset} of {len}");
            assert!((copied > 0) == (paths > 0), "{copied} bytes for {bytes} at {offset} of {len}");
            let ValueRef::String(kept) = entry.value() else { panic!("it is a string") };
            assert!(kept.to_bytes() == vec![b'v'; len]);
            assert_eq!(chunks(&entry).nodes(), before);
        }
        // With no clone, what is overwritten stays where it is.
        let mut alone = entry;
        alone.apply(&patch(across, 3 * CHUNK_BYTES / 4), Lsn(2), &mut Retired::default()).unwrap();
        assert_eq!(chunks(&alone).nodes(), before);
        alone.apply(&put, Lsn(3), &mut Retired::default()).unwrap();
        assert_eq!(chunks(&alone).nodes(), before, "nor does a whole value of the same length move");
    }
}

#[test]
fn a_gap_of_zeros_takes_no_memory_and_appended_bytes_find_room() {
    let mut entry = None;
    apply(&mut entry, &Change::Patch { offset: (512 << 20) - 1, bytes: cow(b"x") });
    let mut entry = entry.unwrap();
    let ValueRef::String(string) = entry.value() else { panic!("it is a string") };
    assert_eq!((string.len(), string.get(0), string.get((512 << 20) - 1)), (512 << 20, Some(0), Some(b'x')));
    assert!(entry.bytes() < 3 * CHUNK_BYTES, "{} bytes", entry.bytes());

    let put = Change::Put { value: vec![b'v'; WHOLE_BYTES_MAX + 10].into(), expiry: None };
    entry.apply(&put, Lsn(2), &mut Retired::default()).unwrap();
    let mut moved = 0;
    for number in 0..CHUNK_BYTES - 100 {
        let before = chunks(&entry).nodes();
        let patch = Change::Patch { offset: (WHOLE_BYTES_MAX + 10 + number) as u64, bytes: cow(b"x") };
        entry.apply(&patch, Lsn(3 + number as u64), &mut Retired::default()).unwrap();
        moved += usize::from(chunks(&entry).nodes() != before);
    }
    assert_eq!(moved, 1, "the last chunk grew to its full size at once");
}

/// Scans a set to the end; between the steps, `meanwhile` changes it.
fn scan_set(entry: &mut Option<Entry>, mut meanwhile: impl FnMut(&mut Option<Entry>)) -> Vec<Vec<u8>> {
    let (mut cursor, mut seen) = (0, Vec::new());
    loop {
        let Some(ValueRef::Set(set)) = entry.as_ref().map(Entry::value) else { return seen };
        let (next, members) = set.scan(cursor, 10);
        seen.extend(members.into_iter().map(<[u8]>::to_vec));
        if next == 0 {
            return seen;
        }
        assert!(next > cursor, "a cursor only rises");
        cursor = next;
        meanwhile(entry);
    }
}

#[test]
fn a_scan_returns_each_member_that_stays_once_while_others_come_and_go() {
    let member = |number: usize| format!("member:{number}").into_bytes();
    for staying in [1, 5, 100, 500, 3000] {
        let (mut entry, mut came) = (None, 1_000_000);
        for number in 0..staying {
            apply(&mut entry, &Change::SetAdd { member: cow(&member(number)) });
        }
        let mut seen = scan_set(&mut entry, |entry| {
            // Growth parts leaves, the removals behind it join them.
            for number in came..came + 200 {
                apply(entry, &Change::SetAdd { member: cow(&member(number)) });
            }
            for number in came - 100..came + 90 {
                apply(entry, &Change::SetRemove { member: cow(&member(number)) });
            }
            came += 200;
        });
        let len = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), len, "no member is returned twice");
        let seen: HashSet<Vec<u8>> = seen.into_iter().collect();
        assert!((0..staying).all(|number| seen.contains(&member(number))), "of {staying} all are returned");
    }
}

/// Scans to the end with steps of `count`; what the steps returned.
fn steps<'a>(count: usize, scan: &dyn Fn(u64, usize) -> Scanned<&'a [u8]>) -> Vec<Vec<&'a [u8]>> {
    let (mut cursor, mut steps) = (0, Vec::new());
    loop {
        let (next, found) = scan(cursor, count);
        steps.push(found);
        if next == 0 {
            return steps;
        }
        cursor = next;
    }
}

#[test]
fn a_scan_neither_ends_nor_pauses_among_elements_of_one_position() {
    // What stands behind the NUL does not count for the position: see `placed_part`.
    let member = |place: usize, number: usize| format!("place {place}\0{number}").into_bytes();
    for (places, beside) in [(1_000, 2), (1_000, 3), (100, 40), (10, 300), (1, 3_000)] {
        let all: HashSet<Vec<u8>> =
            (0..places).flat_map(|place| (0..beside).map(move |number| member(place, number))).collect();
        let (mut set, mut hash, mut zset) = (None, None, None);
        for name in &all {
            apply(&mut set, &Change::SetAdd { member: cow(name) });
            apply(&mut hash, &Change::HashPut { field: cow(name), value: cow(&[b'v'; 80]) });
            apply(&mut zset, &Change::ZSetPut { member: cow(name), score: 1.0 });
        }
        for entry in [set, hash, zset].map(Option::unwrap) {
            let scan = |cursor, count| match entry.value() {
                ValueRef::Set(set) => set.scan(cursor, count),
                ValueRef::Hash(hash) => names(hash.scan(cursor, count)),
                ValueRef::ZSet(zset) => names(zset.scan(cursor, count)),
                _ => panic!("a set, a hash and a sorted set were made"),
            };
            for count in [1, 2, 7, 10, beside, 10 * beside, 100_000] {
                let case = format!("{:?}, {beside} beside each other, steps of {count}", entry.kind());
                let steps = steps(count, &scan);
                let seen: Vec<Vec<u8>> = steps.iter().flatten().map(|name| name.to_vec()).collect();
                assert_eq!(seen.len(), all.len(), "{case}");
                assert_eq!(seen.into_iter().collect::<HashSet<_>>(), all, "{case}");
                assert!(steps.iter().all(|step| step.len() < count + beside), "{case}");
            }
        }
    }
}

/// A step's names without what they stand for.
fn names<T>((next, found): Scanned<(&[u8], T)>) -> Scanned<&[u8]> {
    (next, found.into_iter().map(|(name, _)| name).collect())
}

#[test]
fn small_values_cost_few_bytes_beyond_their_own() {
    let put = Change::Put { value: cow(&[b'v'; 32]), expiry: None };
    let entry = Entry::create(&[b'k'; 16], &put, Lsn(1)).unwrap();
    assert_eq!(size_of::<Entry>(), 8);
    assert_eq!(entry.bytes(), 8 + 4 + 8 + 16 + 32);

    let mut record = None;
    for number in 0..10 {
        let field = format!("field{number}");
        apply(&mut record, &Change::HashPut { field: cow(field.as_bytes()), value: cow(&[b'v'; 100]) });
    }
    let raw = 3 + 10 * (6 + 100);
    let bytes = record.unwrap().bytes();
    assert!(bytes * 100 <= raw * 112, "{bytes} bytes for {raw}");
}

#[test]
fn large_collections_cost_less_than_half_as_much_again_as_their_bytes() {
    let len = 100_000;
    let hash = hash_of_len(len);
    let raw: usize = (0..len).map(|number| format!("field:{number}").len() + 32).sum();
    let overhead = hash.bytes() - raw - 9 * len;
    assert!(overhead * 100 <= raw * 40, "a hash of {raw} bytes has {overhead} over its Lsns and lengths");
    let stream = stream_of_len(len);
    println!("a stream of {len} small entries has {} bytes an entry", stream.bytes() as f64 / len as f64);
    // The Lsn, tag and ID without zeros, and eight bytes of lengths, ordinal and number of fields.
    let raw: usize = (0..len).map(|number| "field".len() + format!("value:{number}").len() + 2 + 7 + 8).sum();
    assert!(stream.bytes() * 100 <= raw * 106, "a stream of {raw} bytes has {}", stream.bytes());
    let list = list_of_len(len);
    let raw: usize = (0..len).map(|number| format!("element:{number}").len()).sum();
    assert!(list.bytes() * 100 <= raw * 115, "a list of {raw} bytes has {}", list.bytes());
}
