//! Tests streams, and the trees that hold them, against plain models.

#![allow(clippy::unwrap_used)]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;

use super::super::image::elements_of;
use super::super::models::{Subject, reported, through_a_file};
use super::super::packed;
use super::super::tree::{FANOUT, Link, Tree};
use super::element::{self, StreamId};
use super::order::StreamOrder;
use super::{Consumer, GroupState, Idempotence, Pending, StreamEntry, StreamHead, StreamRef};
use crate::record::{Change, Kind, Lsn};
use crate::table::Entry;
use crate::value::ValueRef;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// A value with its newest record.
type Said<T> = (T, Lsn);

#[derive(Clone, Default)]
struct Group {
    state: Option<Said<GroupState>>,
    /// When they asked and got something last.
    consumers: BTreeMap<Vec<u8>, Said<(u64, Option<u64>)>>,
    /// For whom, when, how often.
    pending: BTreeMap<StreamId, Said<(Vec<u8>, u64, u64)>>,
}

impl Group {
    fn lsns(&self) -> impl Iterator<Item = Lsn> {
        let state = self.state.iter().map(|state| state.1);
        let consumers = self.consumers.values().map(|consumer| consumer.1);
        state.chain(consumers).chain(self.pending.values().map(|pending| pending.1))
    }
}

/// A producer, and its name of a message.
type Sender = (Vec<u8>, Vec<u8>);

#[derive(Clone, Default)]
struct Model {
    head: Option<Said<StreamHead>>,
    entries: BTreeMap<StreamId, Said<(u64, Fields)>>,
    groups: BTreeMap<Vec<u8>, Group>,
    idempotence: Option<Said<Idempotence>>,
    /// The ordinal, and the entry.
    messages: BTreeMap<Sender, Said<(u64, StreamId)>>,
    /// The image that the stream began with.
    base: Option<Lsn>,
}

impl Model {
    fn lsns(&self) -> Vec<Lsn> {
        let entries = self.entries.values().map(|entry| entry.1);
        let groups = self.groups.values().flat_map(Group::lsns);
        let messages = self.messages.values().map(|message| message.1);
        let alone = self.head.iter().map(|head| head.1).chain(self.idempotence.iter().map(|how| how.1));
        alone.chain(messages).chain(entries).chain(groups).collect()
    }

    fn group(&mut self, number: u8) -> &mut Group {
        self.groups.entry(group_name(number)).or_default()
    }

    fn last_id(&self) -> StreamId {
        self.entries.last_key_value().map_or(StreamId::MIN, |(id, _)| *id)
    }

    fn is_empty(&self) -> bool {
        self.lsns().is_empty()
    }

    fn head(&self) -> StreamHead {
        let head = self.head.map(|head| head.0).unwrap_or_default();
        match self.entries.last_key_value() {
            Some((id, ((ordinal, _), _))) if *id > head.last_id => {
                StreamHead { last_id: *id, entries_added: *ordinal, ..head }
            }
            _ => head,
        }
    }
}

/// Names of which some are the beginning of others, or look like what stands behind a name.
fn group_name(number: u8) -> Vec<u8> {
    let long = vec![b'g'; 200];
    [&b"group"[..], b"", b"g", b"group\0", b"\x02", &long, b"\x01\x01g\x02"][usize::from(number % 7)].to_vec()
}

fn consumer_name(number: u8) -> Vec<u8> {
    let long = vec![b'c'; 150];
    [&b"c"[..], b"", b"consumer", b"c\0", &long, b"\xff"][usize::from(number % 6)].to_vec()
}

/// An operation on a stream, in short.
#[derive(Clone, Debug)]
enum Step {
    /// So many entries behind the last, each so much later.
    Append {
        count: u8,
        later: u8,
        len: u16,
    },
    /// An entry anywhere.
    PutEntry(StreamId, u16),
    RemoveEntry(StreamId),
    /// The entry before which stands this share.
    RemoveNth(u16),
    Trim(StreamId),
    TrimTo(u16),
    Head(StreamId, u64),
    RemoveHead,
    Group(u8, StreamId, Option<u64>),
    /// The group's own element alone goes.
    RemoveGroupAlone(u8),
    RemoveGroup(u8),
    Consumer(u8, u8, u64),
    RemoveConsumer(u8, u8),
    Pending(u8, u8, StreamId),
    /// So many IDs from one on.
    Deliver(u8, u8, StreamId, u8),
    RemovePending(u8, StreamId),
    Idempotence(Idempotence),
    /// A message of a producer, with its ordinal and its entry.
    Remember(u8, u8, u64, StreamId),
    Forget(u8, u8),
    Expire,
    /// The value is one of an image from now on.
    Image,
    Keep,
}

fn id() -> impl Strategy<Value = StreamId> {
    prop_oneof![
        20 => (0..3_000u64, 0..3u64).prop_map(|(ms, seq)| StreamId::new(ms, seq)),
        1 => Just(StreamId::MIN),
        1 => Just(StreamId::MAX),
        1 => any::<(u64, u64)>().prop_map(|(ms, seq)| StreamId::new(ms, seq)),
    ]
}

/// Steps of which more append the higher `grow` is.
fn step(grow: u32) -> impl Strategy<Value = Step> {
    let number = any::<u8>;
    let groups = prop_oneof![
        2 => (number(), id(), any::<Option<u64>>()).prop_map(|(group, id, read)| {
            Step::Group(group, id, read.filter(|read| *read < u64::MAX))
        }),
        1 => number().prop_map(Step::RemoveGroupAlone),
        1 => number().prop_map(Step::RemoveGroup),
        3 => (number(), number(), any::<u64>()).prop_map(|(g, c, at)| Step::Consumer(g, c, at)),
        2 => (number(), number()).prop_map(|(g, c)| Step::RemoveConsumer(g, c)),
        8 => (number(), number(), id()).prop_map(|(g, c, id)| Step::Pending(g, c, id)),
        4 => (number(), number(), id(), number()).prop_map(|(g, c, id, n)| Step::Deliver(g, c, id, n)),
        8 => (number(), id()).prop_map(|(g, id)| Step::RemovePending(g, id)),
    ];
    let producers = prop_oneof![
        16 => (number(), number(), 0..40u64, id())
            .prop_map(|(producer, name, ordinal, id)| Step::Remember(producer, name, ordinal, id)),
        8 => (number(), number()).prop_map(|(producer, name)| Step::Forget(producer, name)),
        1 => (0..5u64, 0..6u64, any::<u64>(), 0..40u64).prop_map(|numbers| {
            let (duration_s, messages_max, added, forgotten) = numbers;
            let duplicates = added / 2;
            Step::Idempotence(Idempotence { duration_s, messages_max, added, duplicates, forgotten })
        }),
    ];
    prop_oneof![
        4 * grow => (number(), number(), any::<u16>())
            .prop_map(|(count, later, len)| Step::Append { count, later, len }),
        20 => (id(), any::<u16>()).prop_map(|(id, len)| Step::PutEntry(id, len)),
        10 => id().prop_map(Step::RemoveEntry),
        10 => any::<u16>().prop_map(Step::RemoveNth),
        1 => id().prop_map(Step::Trim),
        3 => any::<u16>().prop_map(Step::TrimTo),
        2 => (id(), any::<u64>()).prop_map(|(id, added)| Step::Head(id, added)),
        60 => groups,
        25 => producers,
        1 => Just(Step::RemoveHead),
        1 => Just(Step::Expire),
        1 => Just(Step::Image),
        2 => Just(Step::Keep),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    (1..12u32, 1..250usize).prop_flat_map(|(grow, len)| vec(step(grow), len))
}

/// Fields of which the bytes are mostly few.
fn fields(len: u16) -> Fields {
    let value = if len.is_multiple_of(173) { usize::from(len) % 6000 } else { usize::from(len % 60) };
    (0..len % 4).map(|number| (format!("field{number}").into_bytes(), vec![b'v'; value])).collect()
}

/// A stream and its model, side by side.
#[derive(Default)]
struct Both {
    subject: Subject,
    model: Model,
    expiry: Option<Lsn>,
    kept: Vec<(Option<Entry>, Model)>,
}

impl Both {
    /// Applies a change that takes away, or replaces, what has these records.
    fn apply(&mut self, change: &Change<'_>, mut gone: Vec<Lsn>) {
        if self.subject.entry.is_none() && !matches!(change, Change::StreamPut { .. }) {
            assert!(gone.is_empty());
            return;
        }
        let retired = self.subject.apply(change);
        if let Some(base) = self.model.base {
            gone.retain(|lsn| *lsn > base);
        }
        if self.model.is_empty() {
            assert!(self.subject.entry.is_none(), "an empty stream is no entry");
            gone.extend(self.model.base.take().into_iter().chain(self.expiry.take()));
        }
        gone.sort_unstable();
        assert_eq!(reported(&retired), gone, "{change:?}");
    }

    fn next(&self) -> Lsn {
        self.subject.lsn.after(1)
    }

    fn put_entry(&mut self, id: StreamId, ordinal: u64, fields: Fields) {
        let pairs: Vec<(&[u8], &[u8])> =
            fields.iter().map(|(field, value)| (&field[..], &value[..])).collect();
        let change = element::put_entry(id, ordinal, pairs.into_iter());
        let old = self.model.entries.insert(id, ((ordinal, fields), self.next()));
        self.apply(&change, old.iter().map(|old| old.1).collect());
    }

    fn remove_entry(&mut self, id: StreamId) {
        let old = self.model.entries.remove(&id);
        self.apply(&element::remove_entry(id), old.iter().map(|old| old.1).collect());
    }

    fn trim(&mut self, below: StreamId) {
        let stays = self.model.entries.split_off(&below);
        let gone = std::mem::replace(&mut self.model.entries, stays);
        self.apply(&Change::StreamTrim { below }, gone.values().map(|entry| entry.1).collect());
    }

    /// The ID of the entry before which stands this share of them.
    fn nth(&self, share: u16) -> Option<StreamId> {
        let at = usize::from(share) * self.model.entries.len() / (1 << 16);
        self.model.entries.keys().nth(at).copied()
    }

    fn put_pending(&mut self, group: u8, consumer: u8, id: StreamId) {
        let (name, consumer, lsn) = (group_name(group), consumer_name(consumer), self.next());
        let (delivered, deliveries) = (lsn.0 * 3, lsn.0 % 5);
        let pending = Pending { id, consumer: &consumer, delivered, deliveries };
        let change = element::put_pending(&name, &pending);
        let said = ((consumer.clone(), delivered, deliveries), lsn);
        let old = self.model.group(group).pending.insert(id, said);
        self.apply(&change, old.iter().map(|old| old.1).collect());
    }

    fn step(&mut self, step: &Step) {
        let lsn = self.next();
        match *step {
            Step::Append { count, later, len } => {
                for number in 0..count % 80 {
                    let (last, added) = (self.model.last_id(), self.model.head().entries_added);
                    let ms = last.ms.saturating_add(u64::from(later % 3));
                    let next = if ms > last.ms { StreamId::new(ms, 0) } else { last.next().unwrap_or(last) };
                    self.put_entry(next, added.wrapping_add(1), fields(len.wrapping_add(number.into())));
                }
            }
            Step::PutEntry(id, len) => self.put_entry(id, u64::from(len), fields(len)),
            Step::RemoveEntry(id) => self.remove_entry(id),
            Step::RemoveNth(share) => self.nth(share).into_iter().for_each(|id| self.remove_entry(id)),
            Step::Trim(below) => self.trim(below),
            Step::TrimTo(share) => self.nth(share / 3).into_iter().for_each(|id| self.trim(id)),
            Step::Head(last_id, entries_added) => {
                let head = StreamHead { last_id, entries_added, max_deleted_id: self.model.last_id() };
                let old = self.model.head.replace((head, lsn));
                self.apply(&element::put_head(&head), old.iter().map(|old| old.1).collect());
            }
            Step::RemoveHead => {
                let old = self.model.head.take();
                let change = Change::StreamRemove { name: Cow::Borrowed(&element::HEAD_NAME) };
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::Group(group, last_id, entries_read) => {
                let state = GroupState { last_id, entries_read };
                let old = self.model.group(group).state.replace((state, lsn));
                let change = element::put_group(&group_name(group), &state);
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::RemoveGroupAlone(group) => {
                let old = self.model.group(group).state.take();
                let name = element::group_name(&group_name(group)).into_vec().into();
                let change = Change::StreamRemove { name };
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::RemoveGroup(group) => {
                let gone = self.model.groups.remove(&group_name(group)).unwrap_or_default();
                let change = Change::StreamGroupRemove { group: group_name(group).into() };
                self.apply(&change, gone.lsns().collect());
            }
            Step::Consumer(group, consumer, seen) => {
                let (name, active) = (consumer_name(consumer), (seen % 2 == 0).then_some(seen / 2));
                let consumer = Consumer { name: &name, seen, active };
                let change = element::put_consumer(&group_name(group), &consumer);
                let said = ((seen, active), lsn);
                let old = self.model.group(group).consumers.insert(name.clone(), said);
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::RemoveConsumer(group, consumer) => {
                let name = consumer_name(consumer);
                let old = self.model.group(group).consumers.remove(&name);
                let change = element::remove_consumer(&group_name(group), &name);
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::Pending(group, consumer, id) => self.put_pending(group, consumer, id),
            Step::Deliver(group, consumer, from, count) => {
                let ids: Vec<StreamId> = self.model.entries.range(from..).map(|(id, _)| *id).collect();
                for id in ids.into_iter().take(usize::from(count)) {
                    self.put_pending(group, consumer, id);
                }
            }
            Step::RemovePending(group, from) => {
                let pending = &mut self.model.group(group).pending;
                let id = pending.range(from..).next().map_or(from, |(id, _)| *id);
                let old = pending.remove(&id);
                let change = element::remove_pending(&group_name(group), id);
                self.apply(&change, old.iter().map(|old| old.1).collect());
            }
            Step::Idempotence(_) | Step::Remember(..) | Step::Forget(..) => self.step_of_producers(step),
            Step::Expire if self.subject.entry.is_some() => {
                let old = self.expiry.replace(lsn);
                self.apply(&Change::Expire(Some(9)), old.into_iter().collect());
            }
            Step::Image if self.subject.entry.is_some() => self.become_an_image(),
            Step::Expire | Step::Image => {}
            Step::Keep => self.kept.push((self.subject.entry.clone(), self.model.clone())),
        }
        self.model.groups.retain(|_, group| group.lsns().next().is_some());
    }

    fn step_of_producers(&mut self, step: &Step) {
        let lsn = self.next();
        let (change, old) = match *step {
            Step::Remember(producer, name, ordinal, id) => {
                let names = (group_name(producer), consumer_name(name));
                let change = element::put_message(&names.0, &names.1, ordinal, id);
                (change, self.model.messages.insert(names, ((ordinal, id), lsn)).map(|old| old.1))
            }
            Step::Forget(producer, name) => {
                let names = (group_name(producer), consumer_name(name));
                let old = self.model.messages.remove(&names).map(|old| old.1);
                (element::remove_message(&names.0, &names.1), old)
            }
            Step::Idempotence(how) => {
                let old = self.model.idempotence.replace((how, lsn)).map(|old| old.1);
                (element::put_idempotence(&how), old)
            }
            _ => return,
        };
        self.apply(&change, old.into_iter().collect());
    }

    /// All elements come with one image, in the place of what was there.
    fn become_an_image(&mut self) {
        let elements = elements_of(self.subject.value().unwrap());
        let mut gone = self.model.lsns();
        gone.retain(|lsn| self.model.base.is_none_or(|base| *lsn > base));
        gone.extend(self.model.base.into_iter().chain(self.expiry.take()));
        gone.sort_unstable();
        let change =
            Change::Image { kind: Kind::Stream, elements: elements.into(), expiry: None, sticky: false };
        assert_eq!(reported(&self.subject.apply(&change)), gone);
        let (model, lsn) = (&mut self.model, self.subject.lsn);
        model.base = Some(lsn);
        model.head.iter_mut().for_each(|head| head.1 = lsn);
        model.idempotence.iter_mut().for_each(|how| how.1 = lsn);
        model.messages.values_mut().for_each(|message| message.1 = lsn);
        model.entries.values_mut().for_each(|entry| entry.1 = lsn);
        for group in model.groups.values_mut() {
            group.state.iter_mut().for_each(|state| state.1 = lsn);
            group.consumers.values_mut().for_each(|consumer| consumer.1 = lsn);
            group.pending.values_mut().for_each(|pending| pending.1 = lsn);
        }
    }
}

fn is_entry(entry: StreamEntry<'_>, id: StreamId, said: &Said<(u64, Fields)>) -> bool {
    let ((ordinal, fields), _) = said;
    let there: Fields = entry.fields.iter().map(|(field, value)| (field.to_vec(), value.to_vec())).collect();
    entry.id == id && entry.ordinal == *ordinal && entry.fields.len() == fields.len() && there == *fields
}

fn are_entries<'m>(
    there: impl Iterator<Item = StreamEntry<'m>>,
    model: impl Iterator<Item = (&'m StreamId, &'m Said<(u64, Fields)>)>,
) -> bool {
    let (there, model): (Vec<_>, Vec<_>) = (there.collect(), model.collect());
    there.len() == model.len()
        && there.into_iter().zip(model).all(|(one, (id, said))| is_entry(one, *id, said))
}

fn check_stream(entry: Option<&Entry>, model: &Model) {
    let Some(entry) = entry else {
        assert!(model.is_empty());
        return;
    };
    if let Some(nodes) = entry.nodes() {
        super::super::models::assert_nodes(nodes);
    }
    let ValueRef::Stream(stream) = entry.value() else { panic!("it is a stream") };
    assert!(stream.is_sound());
    assert_eq!(stream.len(), model.entries.len());
    assert_eq!(stream.head(), model.head());
    assert!(are_entries(stream.iter_from(StreamId::MIN), model.entries.iter()));
    assert!(are_entries(stream.rev_iter_from(StreamId::MAX), model.entries.iter().rev()));
    assert!(are_entries(stream.first().into_iter(), model.entries.iter().take(1)));
    assert!(are_entries(stream.last().into_iter(), model.entries.iter().rev().take(1)));
    let step = model.entries.len() / 40 + 1;
    for (rank, (id, said)) in model.entries.iter().enumerate().step_by(step) {
        assert!(is_entry(stream.get(*id).unwrap(), *id, said));
        assert!(is_entry(stream.nth(rank).unwrap(), *id, said));
        assert_eq!(stream.rank(*id), rank);
    }
    assert!(stream.nth(model.entries.len()).is_none());
    let ids = [StreamId::MIN, StreamId::new(700, 1), StreamId::new(1500, 0), StreamId::MAX];
    for id in ids {
        assert_eq!(stream.get(id).is_some(), model.entries.contains_key(&id));
        assert_eq!(stream.rank(id), model.entries.range(..id).count());
        assert!(are_entries(stream.iter_from(id), model.entries.range(id..)));
        assert!(are_entries(stream.rev_iter_from(id), model.entries.range(..=id).rev()));
    }
    check_groups(stream, model, &ids);
    check_producers(stream, model);
}

fn check_producers(stream: StreamRef<'_>, model: &Model) {
    assert_eq!(stream.idempotence(), model.idempotence.map(|how| how.0));
    let names: BTreeSet<&Vec<u8>> = model.messages.keys().map(|(producer, _)| producer).collect();
    let there: BTreeSet<Vec<u8>> = stream.producers().map(|producer| producer.name().to_vec()).collect();
    assert_eq!(stream.producers().count(), names.len(), "each comes once");
    if let Some(first) = stream.producers().next() {
        let mut at = first;
        names.iter().for_each(|_| at = at.following_around().unwrap());
        assert_eq!(at.name(), first.name());
    }
    assert!(there.iter().eq(names));
    let other = Idempotence { duration_s: 2, messages_max: 3, added: 0, duplicates: 0, forgotten: 5 };
    let (how, now) = (stream.idempotence().unwrap_or(other), 2_500);
    for number in 0..7 {
        let name = group_name(number);
        let producer = stream.producer(&name);
        let mut messages: Vec<(u64, u64, &[u8], StreamId)> = Vec::new();
        for ((of, message), ((ordinal, id), _)) in &model.messages {
            messages.extend((*of == name).then_some((*ordinal, id.ms, &message[..], *id)));
        }
        messages.sort_unstable();
        assert_eq!(producer.count(), messages.len());
        let by_age = producer.messages().map(|one| (one.ordinal, one.ms, one.name));
        assert!(by_age.eq(messages.iter().map(|one| (one.0, one.1, one.2))));
        let is_young = |one: &(u64, u64, &[u8], StreamId)| {
            one.0 > how.forgotten && one.1.saturating_add(how.duration_s * 1000) > now
        };
        for one in &messages {
            let with_newer = messages.iter().filter(|other| other.0 >= one.0).count() as u64;
            let expected = (is_young(one) && with_newer <= how.messages_max).then_some(one.3);
            assert_eq!(producer.entry_of(one.2, &how, now), expected);
        }
        assert_eq!(producer.entry_of(b"none", &how, now), None);
        let first = messages.iter().find(|one| is_young(one));
        let young = first.map_or(0, |first| messages.iter().filter(|one| one.0 >= first.0).count());
        let old = messages.iter().take_while(|one| !is_young(one)).count();
        let expected = Some(((young as u64).min(how.messages_max), old));
        assert_eq!(producer.remembered(&how, now, old), expected);
        assert_eq!(producer.remembered(&how, now, usize::MAX), expected);
        if let Some(fewer) = old.checked_sub(1) {
            assert_eq!(producer.remembered(&how, now, fewer), None);
        }
    }
}

fn check_groups(stream: StreamRef<'_>, model: &Model, ids: &[StreamId]) {
    let groups = stream.groups();
    let with_state = model.groups.iter().filter(|(_, group)| group.state.is_some());
    assert!(groups.iter().map(|group| group.name()).eq(with_state.map(|(name, _)| name)));
    for number in 0..7 {
        let name = group_name(number);
        let there = stream.group(&name);
        let group = model.groups.get(&name).cloned().unwrap_or_default();
        assert_eq!(there.map(|there| there.state()), group.state.map(|state| state.0));
        let Some(there) = there else { continue };
        let consumer =
            |(name, said): (&'_ Vec<u8>, &Said<(u64, Option<u64>)>)| (name.clone(), said.0.0, said.0.1);
        let consumers = there.consumers().map(|one| (one.name.to_vec(), one.seen, one.active));
        assert!(consumers.eq(group.consumers.iter().map(consumer)));
        assert_eq!(there.consumer_count(), group.consumers.len());
        assert_eq!(there.pending_count(), group.pending.len());
        let plain = |one: Pending<'_>| (one.id, (one.consumer.to_vec(), one.delivered, one.deliveries));
        for id in ids {
            let model = group.pending.range(id..).map(|(id, said)| (*id, said.0.clone()));
            assert!(there.pending_from(*id).map(plain).eq(model));
            let rank = there.pending_rank(*id);
            assert_eq!(rank, group.pending.range(..*id).count());
            assert!(there.pending_at(rank).map(plain).eq(there.pending_from(*id).map(plain)));
            let one = group.pending.get(id).map(|said| (*id, said.0.clone()));
            assert_eq!(there.pending(*id).map(plain), one);
        }
        let last = group.pending.last_key_value().map(|(id, said)| (*id, said.0.clone()));
        assert_eq!(there.last_pending().map(plain), last);
        for number in 0..6 {
            let name = consumer_name(number);
            let one = there.consumer(&name).map(|one| (one.seen, one.active));
            assert_eq!(one, group.consumers.get(&name).map(|said| said.0));
            let of_consumer = || group.pending.iter().filter(|(_, said)| said.0.0 == name);
            assert_eq!(there.owned_count(&name), of_consumer().count());
            for id in ids {
                let owned = of_consumer().map(|(id, _)| *id).filter(|one| one >= id);
                assert!(there.owned_from(&name, *id).eq(owned));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn streams_are_as_their_model_and_what_a_view_keeps_stays(phases in vec(steps(), 1..5)) {
        let mut both = Both::default();
        for phase in &phases {
            phase.iter().for_each(|step| both.step(step));
            check_stream(both.subject.entry.as_ref(), &both.model);
        }
        if let Some(entry) = &both.subject.entry {
            check_stream(Some(&through_a_file(entry)), &both.model);
            let elements = elements_of(entry.value()).into();
            let image = Change::Image { kind: Kind::Stream, elements, expiry: None, sticky: false };
            check_stream(Some(&Entry::create(b"other", &image, Lsn(9)).unwrap()), &both.model);
        }
        for (entry, model) in &both.kept {
            check_stream(entry.as_ref(), model);
        }
        let mut lsns = both.model.lsns();
        lsns.retain(|lsn| both.model.base.is_none_or(|base| *lsn > base));
        lsns.extend(both.model.base.into_iter().chain(both.expiry));
        lsns.sort_unstable();
        prop_assert_eq!(both.subject.retire(), lsns);
    }

    #[test]
    fn a_cut_takes_a_range_out_of_a_tree_and_leaves_a_sound_one(
        lens in vec(prop_oneof![Just(1_500usize), Just(400), 0..90usize], 2..2_500),
        grown in any::<bool>(),
        spread in prop_oneof![Just(1u64), Just(30), Just(3_000), Just(1 << 22), Just(1 << 36)],
        cuts in vec((0.0..1.0f64, 0.0..1.0f64, 1..40u32), 1..12),
    ) {
        let name = |number: usize| format!("{number:06}").into_bytes();
        let lsn = |number: usize| Lsn(number as u64 * spread + 1);
        let mut model: Vec<usize> = (0..lens.len()).collect();
        let mut tree = Tree::<StreamOrder>::of(Vec::new());
        if grown {
            for at in 0..lens.len() {
                // From both ends and the middle.
                let number = [at, lens.len() - 1 - at, at * 7919 % lens.len()][at % 3];
                tree.put(&name(number), &vec![b'v'; lens[number]], lsn(number));
            }
            model.retain(|number| tree_has(&tree, &name(*number)));
        } else {
            let mut bytes = Vec::new();
            for (number, len) in lens.iter().enumerate() {
                bytes.extend_from_slice(&packed::lsn_bytes(lsn(number)));
                bytes.extend_from_slice(packed::Varint::new(6).as_slice());
                bytes.extend_from_slice(&name(number));
                bytes.extend_from_slice(packed::Varint::new(*len).as_slice());
                bytes.resize(bytes.len() + len, b'v');
            }
            tree = Tree::build_sorted(packed::items(packed::HASH, &bytes));
        }
        for (from, share, divisor) in cuts {
            let clone = (tree.clone(), model.clone());
            let range = range_of(from, share / f64::from(divisor), model.len());
            if range.len() >= model.len() {
                continue;
            }
            let mut cut = Vec::new();
            tree.cut(range.clone(), &mut cut);
            let gone: Vec<usize> = model.drain(range).collect();
            prop_assert_eq!(numbers(&cut, spread), gone);
            for (tree, model) in [(&tree, &model), (&clone.0, &clone.1)] {
                prop_assert_eq!(tree.len(), model.len());
                prop_assert_eq!(&numbers(std::slice::from_ref(&tree.root), spread), model);
                tree.assert_invariants(&|mut left, separator, mut right| {
                    left.all(|item| *item.name < **separator)
                        && right.all(|item| *item.name >= **separator)
                });
            }
            // What is sought is found, and what comes where others went finds its place.
            prop_assert!(model.iter().step_by(17).all(|number| tree_has(&tree, &name(*number))));
            if let Some(number) = (0..lens.len()).find(|number| !model.contains(number)) {
                tree.put(&name(number), b"again", lsn(number));
                model.insert(model.partition_point(|one| *one < number), number);
            }
        }
    }
}

/// A range that often begins at the front, or ends at the back.
fn range_of(from: f64, share: f64, len: usize) -> Range<usize> {
    let count = (share * len as f64) as usize;
    let start = match from {
        0.0..0.2 => 0,
        0.2..0.4 => len - count,
        _ => (from * len as f64) as usize,
    };
    start..(start + count).min(len)
}

fn tree_has(tree: &Tree<StreamOrder>, name: &[u8]) -> bool {
    super::Form::Tree(tree).find(name).is_some()
}

/// The numbers of the elements below these nodes, as their `Lsn`s tell.
fn numbers(links: &[Link<StreamOrder>], spread: u64) -> Vec<usize> {
    let mut numbers = Vec::new();
    for link in links {
        link.for_each_leaf(&mut |leaf| {
            numbers.extend(leaf.items().map(|item| ((item.lsn().0 - 1) / spread) as usize));
        });
    }
    numbers
}

#[test]
fn a_checkpoint_has_long_names_and_whole_lsns_whatever_the_length_of_an_element() {
    let mut tree = Tree::<StreamOrder>::of(Vec::new());
    let mut expected = Vec::new();
    let group = element::group_name(&[b'g'; 9_000]);
    let names = (0..200).map(|number| element::entry_name(StreamId::new(number / 3, number % 3 * 300)));
    for (number, name) in [group].into_iter().chain(names).enumerate() {
        let len = [10, 0, 30, 4_000, 60, 4_200, 20_000, 100][number % 8];
        let lsn = Lsn(1 + number as u64 * number as u64 * 1_000);
        let value = vec![number as u8; len];
        tree.put(&name, &value, lsn);
        expected.extend_from_slice(&packed::lsn_bytes(lsn));
        for part in [&name[..], &value] {
            expected.extend_from_slice(packed::Varint::new(part.len()).as_slice());
            expected.extend_from_slice(part);
        }
    }
    let mut stored = Vec::new();
    super::order::for_each_long(&tree, &mut |run| stored.extend_from_slice(run));
    assert!(stored == expected, "{} bytes, {} expected", stored.len(), expected.len());
    let built = Tree::build_sorted(packed::items(packed::HASH, &stored));
    stored.clear();
    super::order::for_each_long(&built, &mut |run| stored.extend_from_slice(run));
    assert!(stored == expected, "a tree that is built of it has the same");
}

#[test]
fn branches_stay_full_where_entries_are_appended() {
    let mut tree = Tree::<StreamOrder>::of(Vec::new());
    for number in 0..60_000 {
        tree.put(&element::entry_name(StreamId::new(number, 0)), &[b'v'; 16], Lsn(number + 1));
    }
    let Link::Branch(root) = &tree.root else { panic!("there are many leaves") };
    let lens: Vec<usize> = root
        .children
        .iter()
        .map(|child| match &child.link {
            Link::Branch(branch) => branch.children.len(),
            Link::Leaf(_) => panic!("there are two levels of branches"),
        })
        .collect();
    let (_, full) = lens.split_last().unwrap();
    assert!(full.len() > 10 && full.iter().all(|len| *len == FANOUT), "{lens:?}");
}

#[test]
fn an_entry_takes_two_bytes_of_an_lsn_in_leaves_that_were_filled_or_built_and_more_where_it_has_to() {
    let width_of = |spread: u64| {
        let mut tree = Tree::<StreamOrder>::of(Vec::new());
        for number in 0..2_000 {
            let name = element::entry_name(StreamId::new(number, 0));
            tree.put(&name, &[b'v'; 16], Lsn((1 << 40) + number * spread));
        }
        let widths = |tree: &Tree<StreamOrder>| {
            let mut widths = BTreeSet::new();
            tree.for_each_leaf(&mut |leaf| _ = widths.insert(leaf.layout().width()));
            widths.into_iter().max()
        };
        let mut stored = Vec::new();
        super::order::for_each_long(&tree, &mut |run| stored.extend_from_slice(run));
        let built = Tree::build_sorted(packed::items(packed::HASH, &stored));
        (widths(&tree), widths(&built))
    };
    for spread in [1, 100] {
        assert_eq!(width_of(spread), (Some(2), Some(2)), "{spread} records apart");
    }
    assert_eq!(width_of(100_000), (Some(3), Some(3)));
    assert_eq!(width_of(1 << 27).1, Some(5));
}

#[test]
fn records_that_are_ever_farther_apart_lay_leaves_out_again_and_change_nothing_else() {
    let (mut tree, mut model) = (Tree::<StreamOrder>::of(Vec::new()), BTreeMap::new());
    let mut kept = Vec::new();
    let mut lsn = 1u64;
    for number in 0..600u64 {
        // Nearly always behind the others; else in the place of one, or between two.
        let id = match number % 7 {
            3 => StreamId::new(number / 2, 0),
            5 => StreamId::new(number / 3, 300 + number),
            _ => StreamId::new(number, 0),
        };
        lsn += 1 << (number % 200 / 5);
        tree.put(&element::entry_name(id), &[b'v'; 9], Lsn(lsn));
        model.insert(id, Lsn(lsn));
        if number % 50 == 49 {
            kept.push((tree.clone(), model.clone()));
            tree.remove(&element::entry_name(StreamId::new(number, 0)));
            model.remove(&StreamId::new(number, 0));
        }
        for (tree, model) in
            [(&tree, &model)].into_iter().chain(kept.iter().map(|(tree, model)| (tree, model)))
        {
            tree.assert_invariants(&|mut left, separator, mut right| {
                left.all(|item| *item.name < **separator) && right.all(|item| *item.name >= **separator)
            });
            let there =
                tree.walk_from(0).map(|item| (super::spelling::id_of(item.name).unwrap(), item.lsn()));
            assert!(there.eq(model.iter().map(|(id, lsn)| (*id, *lsn))), "step {number}");
        }
    }
}

#[test]
fn a_leaf_is_within_its_limit_after_a_record_that_is_far_from_the_others() {
    for distance in [0, 1 << 20, 1 << 22, 5_000_000, 1 << 30, 1 << 38] {
        for value_len in 8..40 {
            let mut tree = Tree::<StreamOrder>::of(Vec::new());
            for number in 0..400u64 {
                let lsn = 1 + number + if number % 100 == 99 { distance * (1 + number / 100) } else { 0 };
                let name = element::entry_name(StreamId::new(1_790_000_000_000 + number, 0));
                tree.put(&name, &vec![b'v'; value_len], Lsn(lsn));
                tree.assert_invariants(&|mut left, separator, _| left.all(|item| *item.name < **separator));
            }
        }
    }
}

fn as_name(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[test]
fn a_name_is_written_in_one_way_only() {
    let id = [7; 16];
    let group = element::put_group(b"g", &GroupState { last_id: StreamId::MIN, entries_read: None });
    let Change::StreamPut { name, value } = group else { panic!("it is a put") };
    assert!(element::is_sound(&name, &value));
    assert!(!element::is_sound(&as_name(&[b"\x01\x81\x00g\x00"]), &value), "a length of two bytes for one");
    let owned = |len: &[u8]| as_name(&[b"\x01\x01g\x03", len, b"c", &id]);
    assert!(element::is_derived(&owned(b"\x01")) && !element::is_derived(&owned(b"\x81\x00")));
}

#[test]
fn what_is_no_element_is_refused_and_changes_nothing() {
    let head = StreamHead { last_id: StreamId::new(5, 5), ..StreamHead::default() };
    let mut subject = Subject::default();
    subject.apply(&element::put_head(&head));
    let id = [0; 16];
    let put = |name: &[&[u8]], value: &[u8]| Change::StreamPut {
        name: Cow::Owned(name.concat()),
        value: Cow::Owned(value.to_vec()),
    };
    let remove = |name: &[&[u8]]| Change::StreamRemove { name: Cow::Owned(name.concat()) };
    let unfit = [
        put(&[b""], b""),
        put(&[b"\x00"], &[0; 39]),
        put(&[b"\x00\x00"], &[0; 40]),
        put(&[b"\x01\x01g\x00"], &[0; 23]),
        put(&[b"\x01\x02g\x00"], &[0; 24]),
        put(&[b"\x01\x01g\x01c"], &[0; 15]),
        put(&[b"\x01\x01g\x02", &id], &[0; 15]),
        put(&[b"\x01\x01g\x02", &id[1..]], &[0; 16]),
        put(&[b"\x01\x01g\x03\x01c", &id], b""),
        put(&[b"\x01\x01g\x04"], b""),
        put(&[b"\x02", &id], b""),
        put(&[b"\x02", &id], b"\x01\x01\x01f"),
        put(&[b"\x02", &id], b"\x01\x01\x01f\x01v\x01f"),
        put(&[b"\x02", &id], b"\x01\x02\x01f\x01v"),
        put(&[b"\x02", &id], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f\x00"),
        put(&[b"\x03"], b""),
        put(&[b"\x00\x01"], &[0; 39]),
        put(&[b"\x00\x01\x00"], &[0; 40]),
        put(&[b"\x00\x02\x01p\x00m"], &[0; 23]),
        put(&[b"\x00\x02\x81\x00p\x00m"], &[0; 24]),
        put(&[b"\x00\x02\x01p\x01", &id, b"m"], b""),
        put(&[b"\x00\x02\x01p\x02"], &[0; 24]),
        put(&[b"\x00\x02\x01p"], &[0; 24]),
        put(&[b"\x00\x03"], b""),
        remove(&[b"\x00\x02\x01p\x01", &id, b"m"]),
        remove(&[b""]),
        remove(&[b"\x01\x01g\x03\x01c", &id]),
    ];
    for change in unfit {
        let applied = subject.entry.as_mut().unwrap().apply(&change, Lsn(9), &mut Default::default());
        assert!(applied.is_err(), "{change:?}");
        let Some(ValueRef::Stream(stream)) = subject.value() else { panic!("it is a stream") };
        assert!(stream.head() == head && stream.elements().count() == 1 && stream.len() == 0);
        assert!(Entry::create(b"key", &change, Lsn(1)).is_none(), "{change:?}");
    }
}
