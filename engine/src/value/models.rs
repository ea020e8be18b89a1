//! Tests values against plain models. Random changes cross the bound between one allocation and nodes, in
//! both directions.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};

use proptest::collection::vec;
use proptest::prelude::*;

use super::chunks::CHUNK_BYTES;
use super::nodes::Nodes;
use super::stored::Stored;
use super::stream::{Pending, StreamId, element};
use super::string::WHOLE_BYTES_MAX;
use super::zset::{ZSetTrees, compare};
use super::{ValueRef, elements_of, packed, position_of};
use crate::record::{Change, Kind, Lsn, Side};
use crate::table::{Applied, Entry, Retired};

/// A name out of `0..1000`; some are long.
fn name(number: u16) -> Vec<u8> {
    let number = number % 1000;
    let padding = if number.is_multiple_of(97) { usize::from(number) * 3 } else { usize::from(number % 7) };
    format!("{number}{}", "x".repeat(padding)).into_bytes()
}

fn value(len: u16) -> Vec<u8> {
    let len = if len.is_multiple_of(199) { usize::from(len) % 9000 } else { usize::from(len % 90) };
    vec![b'v'; len]
}

fn cow(bytes: &[u8]) -> Cow<'_, [u8]> {
    Cow::Borrowed(bytes)
}

/// The entry of one key and what it has reported; checks what `apply` returns.
#[derive(Default)]
pub(super) struct Subject {
    pub(super) entry: Option<Entry>,
    pub(super) lsn: Lsn,
}

impl Subject {
    pub(super) fn apply(&mut self, change: &Change<'_>) -> Retired {
        let mut retired = Retired::default();
        self.lsn = self.lsn.after(1);
        match &mut self.entry {
            None => self.entry = Entry::create(b"key", change, self.lsn),
            Some(entry) => match entry.apply(change, self.lsn, &mut retired).unwrap() {
                Applied::Kept => assert_eq!(entry.lsn(), self.lsn),
                Applied::Emptied => self.entry = None,
            },
        }
        retired
    }

    pub(super) fn value(&self) -> Option<ValueRef<'_>> {
        self.entry.as_ref().map(Entry::value)
    }

    pub(super) fn check(&self) {
        if let Some(nodes) = self.entry.as_ref().and_then(Entry::nodes) {
            assert_nodes(nodes);
        }
    }

    /// All that is reported when the key is deleted.
    pub(super) fn retire(self) -> Vec<Lsn> {
        let mut retired = Retired::default();
        if let Some(entry) = self.entry {
            entry.retire(&mut retired);
        }
        reported(&retired)
    }
}

/// The `Lsn`s that are reported, sorted.
pub(super) fn reported(retired: &Retired) -> Vec<Lsn> {
    let mut lsns = retired.lsns.to_vec();
    retired.garbage.iter().for_each(|garbage| garbage.for_each_lsn(&mut |lsn| lsns.push(lsn)));
    lsns.sort_unstable();
    lsns
}

pub(crate) fn assert_nodes(nodes: &Nodes) {
    fn by_position(mut left: packed::Items<'_>, separator: &u64, mut right: packed::Items<'_>) -> bool {
        left.all(|item| position_of(item.name) < *separator)
            && right.all(|item| position_of(item.name) >= *separator)
    }
    match nodes {
        Nodes::String(_) => {}
        Nodes::List(tree) => tree.assert_invariants(&|_, (), _| true),
        Nodes::Set(tree) => tree.assert_invariants(&by_position),
        Nodes::Hash(tree) => tree.assert_invariants(&by_position),
        Nodes::Stream(tree) => tree.assert_invariants(&|mut left, separator, mut right| {
            left.all(|item| *item.name < **separator) && right.all(|item| *item.name >= **separator)
        }),
        Nodes::ZSet(trees) => assert_ranked(trees),
        Nodes::TimedHash(hash) => {
            hash.fields.assert_invariants(&by_position);
            assert_ranked(hash.times.trees());
            assert!(hash.times.len() > 0, "a hash without times has no place for them");
            for (field, at) in hash.times.iter() {
                let (found, lsn) = hash.times.get(field).unwrap();
                assert_eq!(at, found, "both trees have the same times");
                let of_field = hash.fields.find(field).expect("a time is of a field that is there").lsn();
                assert!(lsn >= of_field, "a time is not older than its field");
            }
        }
    }
}

fn assert_ranked(trees: &ZSetTrees) {
    trees.index.assert_invariants(&|mut left, separator, mut right| {
        left.all(|item| position_of(item.name) < *separator)
            && right.all(|item| position_of(item.name) >= *separator)
    });
    trees.ranking.assert_invariants(&|mut left, separator, mut right| {
        let against =
            |item: packed::Item<'_>| compare((item.score(), item.name), (separator.score, &separator.member));
        left.all(|item| against(item).is_lt()) && right.all(|item| against(item).is_ge())
    });
}

fn hash_check(subject: &Subject, model: &HashMap<Vec<u8>, (Vec<u8>, Lsn)>) {
    subject.check();
    let Some(ValueRef::Hash(hash)) = subject.value() else {
        assert!(model.is_empty());
        return;
    };
    assert_eq!(hash.len(), model.len());
    assert_eq!(hash.iter().count(), model.len());
    assert!(hash.iter().all(|(field, value)| model[field].0 == value));
    for number in 0..1000 {
        assert_eq!(hash.get(&name(number)), model.get(&name(number)).map(|(value, _)| &value[..]));
    }
    let sampled = hash.sample(0x8000_0000_0000_0000).unwrap();
    assert_eq!(model[sampled.0].0, sampled.1);
}

fn zset_check(subject: &Subject, model: &HashMap<Vec<u8>, f64>) {
    subject.check();
    let Some(ValueRef::ZSet(zset)) = subject.value() else {
        assert!(model.is_empty());
        return;
    };
    let mut sorted: Vec<(&[u8], f64)> = model.iter().map(|(member, score)| (&member[..], *score)).collect();
    sorted.sort_by(|a, b| compare((a.1, a.0), (b.1, b.0)));
    assert_eq!(zset.len(), sorted.len());
    assert!(zset.iter_from(0).eq(sorted.iter().copied()));
    assert!(zset.rev_iter_from(usize::MAX).eq(sorted.iter().rev().copied()));
    for (index, (member, score)) in sorted.iter().enumerate() {
        assert_eq!(zset.get(index), Some((*member, *score)));
        assert_eq!((zset.rank(member), zset.score(member)), (Some(index), Some(*score)));
    }
    let middle = sorted.len() / 2;
    assert!(zset.iter_from(middle).eq(sorted[middle..].iter().copied()));
    assert!(zset.rev_iter_from(middle).eq(sorted[..=middle].iter().rev().copied()));
    for score in [f64::NEG_INFINITY, -3.0, -0.0, 0.0, 1.5, 7.0, f64::INFINITY] {
        let below = sorted.iter().filter(|(_, s)| *s < score).count();
        let through = sorted.iter().filter(|(_, s)| *s <= score).count();
        assert_eq!(zset.lower_bound_score(score, false), below);
        assert_eq!(zset.lower_bound_score(score, true), through);
    }
    let score = sorted[0].1;
    for bound in [&b""[..], b"3", b"31", b"5xxx", b"999", b"zz"] {
        let below = sorted.iter().filter(|(m, s)| *s == score && *m < bound).count();
        let through = sorted.iter().filter(|(m, s)| *s == score && *m <= bound).count();
        assert_eq!(zset.lower_bound_lex(bound, false), below);
        assert_eq!(zset.lower_bound_lex(bound, true), through);
    }
    assert_eq!((zset.get(sorted.len()), zset.rank(b"no member")), (None, None));
}

fn list_check(subject: &Subject, model: &VecDeque<Vec<u8>>) {
    subject.check();
    let Some(ValueRef::List(list)) = subject.value() else {
        assert!(model.is_empty());
        return;
    };
    assert_eq!(list.len(), model.len());
    assert!(list.iter_from(0).eq(model.iter()));
    assert!(list.rev_iter_from(model.len() - 1).eq(model.iter().rev()));
    let middle = model.len() / 2;
    assert!(list.iter_from(middle).eq(model.iter().skip(middle)));
    assert!(list.rev_iter_from(middle).eq(model.iter().take(middle + 1).rev()));
    (0..=model.len()).for_each(|i| assert_eq!(list.get(i), model.get(i).map(|element| &element[..])));
}

/// A number of bytes, often about that of some chunks.
fn string_len() -> impl Strategy<Value = usize> {
    let about =
        |chunks: usize| (0..5usize).prop_map(move |more| (chunks * CHUNK_BYTES + more).saturating_sub(2));
    prop_oneof![
        4 => 0..200usize,
        2 => about(0),
        4 => about(1),
        2 => about(2),
        2 => about(3),
        1 => (32..35usize).prop_flat_map(about),
        2 => 0..4 * CHUNK_BYTES,
        1 => 0..40 * CHUNK_BYTES,
    ]
}

/// The operations on a string.
#[derive(Clone, Debug)]
enum StringStep {
    Put(usize),
    /// At this offset.
    Patch(usize, usize),
    Append(usize),
    /// An expiry: the value stays.
    Expire,
    /// Keeps a clone, as a view does.
    Keep,
}

fn string_steps() -> impl Strategy<Value = Vec<StringStep>> {
    let step = prop_oneof![
        1 => string_len().prop_map(StringStep::Put),
        4 => (string_len(), string_len()).prop_map(|(at, len)| StringStep::Patch(at, len)),
        3 => string_len().prop_map(StringStep::Append),
        1 => Just(StringStep::Expire),
        2 => Just(StringStep::Keep),
    ];
    vec(step, 1..30)
}

/// Bytes of which no two runs are alike.
fn text(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (number * 31 + at % 251 + at / 251 + 1) as u8).collect()
}

fn string_check(entry: &Entry, model: &[u8], marks: &[usize]) {
    let ValueRef::String(string) = entry.value() else { panic!("it is a string") };
    assert_eq!(string.len(), model.len());
    assert!(string.to_vec() == model && string.to_bytes() == model);
    assert_eq!(string.whole().is_some(), entry.nodes().is_none());
    assert!(entry.nodes().is_some() || model.len() <= WHOLE_BYTES_MAX, "what is giant is in chunks");
    let mut marks: Vec<usize> = marks.iter().map(|mark| mark % (model.len() + 1)).collect();
    marks.extend([0, model.len()]);
    marks.sort_unstable();
    for pair in marks.windows(2) {
        assert_eq!(string.get(pair[0]), model.get(pair[0]).copied());
        let pieces: Vec<&[u8]> = string.pieces(pair[0]..pair[1]).collect();
        assert!(pieces.iter().all(|piece| (1..=WHOLE_BYTES_MAX).contains(&piece.len())));
        assert!(pieces.concat() == model[pair[0]..pair[1]], "{pair:?}");
    }
    assert_eq!(string.get(model.len()), None);
}

/// The entry as a file of a checkpoint gives it back.
pub(super) fn through_a_file(entry: &Entry) -> Entry {
    match entry.stored() {
        Stored::Whole(bytes) => Entry::from_stored(bytes, entry.lsn()).unwrap(),
        Stored::Nodes(head, nodes) => {
            let mut leaves = Vec::new();
            nodes.for_each_stored_leaf(&mut |leaf| leaves.push(leaf.to_vec()));
            let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
            let mut times = Vec::new();
            nodes.for_each_stored_time(&mut |leaf| times.push(leaf.to_vec()));
            let times: Vec<&[u8]> = times.iter().map(Vec::as_slice).collect();
            Entry::from_stored_nodes(head, &leaves, &times, entry.lsn()).unwrap()
        }
    }
}

/// A choice and two numbers to make a change of; where `grow` is high, most changes add.
fn steps() -> impl Strategy<Value = Vec<(bool, u8, u16, u16)>> {
    (0.2..0.95f64, 1..1500usize).prop_flat_map(|(grow, len)| {
        vec((proptest::bool::weighted(grow), any::<u8>(), any::<u16>(), any::<u16>()), len)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn hashes_are_as_their_model(phases in vec(steps(), 1..4)) {
        let (mut subject, mut model) = (Subject::default(), HashMap::new());
        for phase in phases {
            for (grow, _, a, b) in phase {
                let (field, value) = (name(a), value(b));
                let change = if grow {
                    Change::HashPut { field: cow(&field), value: cow(&value) }
                } else {
                    Change::HashRemove { field: cow(&field) }
                };
                let retired = subject.apply(&change);
                let old: Option<(Vec<u8>, Lsn)> = if grow {
                    model.insert(field, (value, subject.lsn))
                } else {
                    model.remove(&field)
                };
                let old: Vec<Lsn> = old.into_iter().map(|(_, lsn)| lsn).collect();
                prop_assert_eq!(&retired.lsns[..], &old[..]);
            }
            hash_check(&subject, &model);
        }
        let mut lsns: Vec<Lsn> = model.into_values().map(|(_, lsn)| lsn).collect();
        lsns.sort_unstable();
        prop_assert_eq!(subject.retire(), lsns);
    }

    #[test]
    fn sets_are_as_their_model(phases in vec(steps(), 1..4)) {
        let (mut subject, mut model) = (Subject::default(), HashMap::new());
        for phase in phases {
            for (grow, _, a, _) in phase {
                let member = name(a);
                let (change, old) = if grow {
                    let next = subject.lsn.after(1);
                    (Change::SetAdd { member: cow(&member) }, model.insert(member.clone(), next))
                } else {
                    (Change::SetRemove { member: cow(&member) }, model.remove(&member))
                };
                prop_assert_eq!(&subject.apply(&change).lsns[..], old.as_slice());
            }
            subject.check();
            match subject.value() {
                Some(ValueRef::Set(set)) => {
                    prop_assert_eq!((set.len(), set.iter().count()), (model.len(), model.len()));
                    prop_assert!((0..1000).all(|i| set.contains(&name(i)) == model.contains_key(&name(i))));
                    prop_assert!(model.contains_key(set.sample(u64::MAX).unwrap()));
                }
                _ => prop_assert!(model.is_empty()),
            }
        }
        let mut lsns: Vec<Lsn> = model.into_values().collect();
        lsns.sort_unstable();
        prop_assert_eq!(subject.retire(), lsns);
    }

    #[test]
    fn sorted_sets_are_as_their_model(phases in vec(steps(), 1..4), scores in 1..40u8) {
        let (mut subject, mut model) = (Subject::default(), HashMap::new());
        for phase in phases {
            for (grow, score, a, _) in phase {
                let member = name(a);
                if grow {
                    let score = f64::from(score % scores) - 4.0;
                    subject.apply(&Change::ZSetPut { member: cow(&member), score });
                    model.insert(member, score);
                } else {
                    subject.apply(&Change::ZSetRemove { member: cow(&member) });
                    model.remove(&member);
                }
            }
            zset_check(&subject, &model);
        }
        prop_assert_eq!(subject.retire().len(), model.len());
    }

    #[test]
    fn lists_are_as_their_model_and_what_a_view_keeps_stays(phases in vec(steps(), 1..4)) {
        let (mut subject, mut model) = (Subject::default(), VecDeque::new());
        let mut kept = VecDeque::new();
        let check_kept = |(entry, model): (Option<Entry>, VecDeque<Vec<u8>>)| {
            list_check(&Subject { entry, lsn: Lsn::ZERO }, &model);
        };
        for phase in phases {
            for (grow, choice, a, b) in phase {
                let element = value(b);
                let at = usize::from(a) % (model.len() + 1);
                let side = if a % 2 == 0 { Side::Front } else { Side::Back };
                let there = model.len().saturating_sub(1).min(at);
                let change = match (grow, choice % 4) {
                    (true, 0 | 1) => Change::ListPush { side, element: cow(&element) },
                    (true, 2) if model.is_empty() => continue,
                    (true, 2) => Change::ListInsert { index: at as u64, element: cow(&element) },
                    _ if model.is_empty() => continue,
                    (true, _) => Change::ListPut { index: there as u64, element: cow(&element) },
                    (false, 0) => Change::ListPop { side, count: 1 + u64::from(choice / 3) },
                    (false, 1) => Change::ListPop { side, count: 1 },
                    (false, _) => Change::ListRemove { index: there as u64 },
                };
                subject.apply(&change);
                model_list(&mut model, &change);
                if a.is_multiple_of(61) {
                    kept.push_back((subject.entry.clone(), model.clone()));
                }
                if kept.len() > 3 {
                    // Its leaves are the list's alone from now on.
                    kept.pop_front().into_iter().for_each(check_kept);
                }
            }
            list_check(&subject, &model);
        }
        kept.into_iter().for_each(check_kept);
    }

    #[test]
    fn strings_are_as_their_model_and_what_a_view_keeps_stays(
        steps in string_steps(),
        marks in vec(0..80 * CHUNK_BYTES, 8),
    ) {
        let (mut subject, mut model, mut kept) = (Subject::default(), Vec::new(), Vec::new());
        for (number, step) in steps.iter().enumerate() {
            let patch = match *step {
                StringStep::Keep => {
                    kept.extend(subject.entry.clone().map(|entry| (entry, model.clone())));
                    continue;
                }
                StringStep::Expire if subject.entry.is_none() => continue,
                StringStep::Expire => {
                    subject.apply(&Change::Expire(Some(9)));
                    continue;
                }
                StringStep::Put(len) => {
                    model = text(number, len);
                    subject.apply(&Change::Put { value: cow(&model), expiry: None });
                    continue;
                }
                StringStep::Patch(at, len) => (at, text(number, len)),
                StringStep::Append(len) => (model.len(), text(number, len)),
            };
            let (at, bytes) = patch;
            subject.apply(&Change::Patch { offset: at as u64, bytes: cow(&bytes) });
            model.resize(model.len().max(at + bytes.len()), 0);
            model[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        kept.extend(subject.entry.map(|entry| (entry, model)));
        for (entry, model) in &kept {
            string_check(entry, model, &marks);
            let read = through_a_file(entry);
            string_check(&read, model, &marks);
            let header = |entry: &Entry| (entry.lsn(), entry.base(), entry.expiry());
            prop_assert_eq!(header(&read), header(entry));
            prop_assert_eq!(read.encoding(), entry.encoding());
        }
    }

    #[test]
    fn images_build_what_they_were_taken_of(steps in steps(), kind in 1..7u8, twice in any::<bool>()) {
        let kind = Kind::from_u8(kind).filter(|kind| *kind != Kind::Json).unwrap_or(Kind::List);
        let mut subject = Subject::default();
        for (_, score, a, b) in steps {
            let (name, value) = (name(a), value(b));
            subject.apply(&match kind {
                Kind::Set => Change::SetAdd { member: cow(&name) },
                Kind::ZSet => Change::ZSetPut { member: cow(&name), score: f64::from(score) },
                Kind::Hash => Change::HashPut { field: cow(&name), value: cow(&value) },
                Kind::Stream if score < 20 => {
                    let consumer = [score % 5];
                    let (id, deliveries) = (StreamId::new(a.into(), 0), score.into());
                    let pending = Pending { id, consumer: &consumer, delivered: b.into(), deliveries };
                    element::put_pending(&name, &pending)
                }
                Kind::Stream => {
                    let fields = [(&name[..], &value[..])];
                    element::put_entry(StreamId::new(a.into(), b.into()), 7, fields.into_iter())
                }
                _ => Change::ListPush { side: Side::Back, element: cow(&value) },
            });
        }
        let one = elements_of(subject.value().unwrap());
        let twice = twice && kind != Kind::List;
        let elements = if twice { [&one[..], &one].concat() } else { one.clone() };
        let image = Change::Image { kind, elements: cow(&elements), expiry: Some(5), sticky: false };
        let entry = Entry::create(b"other", &image, Lsn(9)).unwrap();
        prop_assert_eq!(sorted_items(kind, &elements_of(entry.value())), sorted_items(kind, &one));
        prop_assert_eq!((entry.lsn(), entry.base(), entry.expiry()), (Lsn(9), Lsn(9), Some(5)));
        if let Some(nodes) = entry.nodes() {
            assert_nodes(nodes);
        }
        let copy = Subject { entry: Some(entry), lsn: Lsn(9) };
        prop_assert_eq!(copy.retire(), vec![Lsn(9)]);
        subject.apply(&image);
        prop_assert_eq!(sorted_items(kind, &elements_of(subject.value().unwrap())), sorted_items(kind, &one));
    }

    #[test]
    fn hostile_images_are_errors(kind in 0..6u8, bytes in vec(any::<u8>(), 0..60)) {
        // A document may be any bytes.
        let kind = Kind::from_u8(kind).filter(|kind| *kind != Kind::Json).unwrap_or(Kind::Stream);
        let sound = super::image::decode(kind, &bytes).all(|item| item.is_ok());
        let change = Change::Image { kind, elements: cow(&bytes), expiry: None, sticky: false };
        let made = Entry::create(b"key", &change, Lsn(1)).is_some();
        prop_assert_eq!(made, sound && !bytes.is_empty());
        let mut subject = Subject::default();
        subject.apply(&Change::SetAdd { member: cow(b"member") });
        let applied = subject.entry.as_mut().unwrap().apply(&change, Lsn(2), &mut Retired::default());
        prop_assert_eq!(applied.is_ok(), made);
        prop_assert!(made || matches!(subject.value(), Some(ValueRef::Set(set)) if set.contains(b"member")));
    }
}

fn sorted_items(kind: Kind, image: &[u8]) -> Vec<(Vec<u8>, Vec<u8>, u64)> {
    let items = super::image::decode(kind, image).map(Result::unwrap);
    let mut items: Vec<_> =
        items.map(|item| (item.name.to_vec(), item.value.to_vec(), item.score.to_bits())).collect();
    if kind != Kind::List {
        items.sort_unstable();
    }
    items
}

fn model_list(model: &mut VecDeque<Vec<u8>>, change: &Change<'_>) {
    match change {
        Change::ListPush { side: Side::Front, element } => model.push_front(element.to_vec()),
        Change::ListPush { side: Side::Back, element } => model.push_back(element.to_vec()),
        Change::ListInsert { index, element } => model.insert(*index as usize, element.to_vec()),
        Change::ListPut { index, element } => model[*index as usize] = element.to_vec(),
        Change::ListRemove { index } => _ = model.remove(*index as usize),
        Change::ListPop { side, count } => {
            let count = (*count as usize).min(model.len());
            match side {
                Side::Front => _ = model.drain(..count),
                Side::Back => model.truncate(model.len() - count),
            }
        }
        _ => unreachable!("lists take no other change"),
    }
}
