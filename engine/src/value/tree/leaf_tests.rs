//! Tests leaves with room against plain bytes, with clones that must stay as they are.

#![allow(clippy::unwrap_used)]

use proptest::collection::vec;
use proptest::prelude::*;

use super::leaf::{Edges, GROWN_BYTES_MIN, Mark};
use super::{LeafBytes, Order, ROOM_HEAD_BYTES};
use crate::value::left::{self, ARC_BYTES};
use crate::value::packed::{self, Item, LIST, Layout};

/// An order as that of a list.
struct Ends;

impl Order for Ends {
    const LAYOUT: Layout = LIST;
    const LEAF_BYTES_MAX: usize = 2032 - ROOM_HEAD_BYTES;
    const SORTED: bool = true;
    const ROOM: bool = true;
    type Separator = ();

    fn separate(_: &Item<'_>, _: &Item<'_>) -> Option<()> {
        Some(())
    }
}

/// An order without room.
struct Anywhere;

impl Order for Anywhere {
    const LAYOUT: Layout = LIST;
    const LEAF_BYTES_MAX: usize = 1008;
    const SORTED: bool = false;
    type Separator = ();

    fn separate(_: &Item<'_>, _: &Item<'_>) -> Option<()> {
        Some(())
    }
}

const BOTH: Edges = Edges { first: true, last: true };

/// A packed element of a list.
fn element(len: usize, byte: u8) -> Vec<u8> {
    let mut element = packed::Varint::new(len).as_slice().to_vec();
    element.resize(element.len() + len, byte);
    element
}

/// The elements' bytes of so many elements of 16 bytes.
fn elements(count: usize) -> Vec<u8> {
    (0..count).flat_map(|number| element(16, number as u8)).collect()
}

fn assert_room<O: Order>(leaf: &LeafBytes<O>, edges: Edges) {
    let (front, back) = leaf.room();
    assert!((front == 0 || edges.first) && (back == 0 || edges.last), "room at an end of the tree only");
    assert!(front + back <= leaf.len().max(GROWN_BYTES_MIN), "{front}, {back} for {}", leaf.len());
    assert_eq!(leaf.bytes(), leaf.bytes_exact() + front + back);
    let mark = leaf.mark();
    assert_eq!(packed::items(LIST, &leaf[..mark.at]).count(), mark.count);
    let count = packed::items(LIST, leaf).count();
    for index in [0, count / 2, count.saturating_sub(1), count] {
        let item = packed::nth(LIST, leaf, index).map(|item| item.range());
        assert_eq!(leaf.nth(index).map(|item| item.range()), item, "{mark:?} of {count}");
    }
    assert_eq!(packed::items(LIST, &leaf[leaf.near_last()..]).last().is_some(), count > 0);
}

/// A change of a leaf: how many elements go, and the length of the one that comes.
#[derive(Clone, Debug)]
enum Step {
    PushFront(usize),
    PushBack(usize),
    PopFront(usize),
    PopBack(usize),
    Insert(usize, usize),
    Put(usize, usize),
    Remove(usize),
    /// Keeps a clone, as a view does.
    Keep,
    /// Frees all clones.
    Free,
}

fn step() -> impl Strategy<Value = Step> {
    let len =
        // Most leaves are of a size that may have room, and few have an element that is larger than a mark.
        || prop_oneof![120 => 0..60usize, 40 => Just(16usize), 10 => 100..400usize, 1 => 60_000..70_000usize];
    let at = any::<usize>;
    prop_oneof![
        6 => len().prop_map(Step::PushFront),
        6 => len().prop_map(Step::PushBack),
        3 => (1..4usize).prop_map(Step::PopFront),
        3 => (1..4usize).prop_map(Step::PopBack),
        2 => (at(), len()).prop_map(|(at, len)| Step::Insert(at, len)),
        2 => (at(), len()).prop_map(|(at, len)| Step::Put(at, len)),
        2 => at().prop_map(Step::Remove),
        1 => Just(Step::Keep),
        1 => Just(Step::Free),
    ]
}

/// Makes the change in the leaf and in its model, which has the elements in turn.
fn play<O: Order>(leaf: &mut LeafBytes<O>, model: &mut Vec<Vec<u8>>, edges: Edges, step: &Step, byte: u8) {
    let offset = |model: &[Vec<u8>], index: usize| model[..index].iter().map(Vec::len).sum::<usize>();
    let (at, gone, come) = match *step {
        Step::PushFront(len) => (0, 0, Some(len)),
        Step::PushBack(len) => (model.len(), 0, Some(len)),
        Step::PopFront(count) => (0, count.min(model.len()), None),
        Step::PopBack(count) => (model.len() - count.min(model.len()), count.min(model.len()), None),
        Step::Insert(at, len) => (at % (model.len() + 1), 0, Some(len)),
        Step::Put(at, len) if !model.is_empty() => (at % model.len(), 1, Some(len)),
        Step::Remove(at) if !model.is_empty() => (at % model.len(), 1, None),
        _ => return,
    };
    let range = offset(model, at)..offset(model, at + gone);
    let come: Vec<Vec<u8>> = come.map(|len| element(len, byte)).into_iter().collect();
    let parts: Vec<&[u8]> = come.iter().flat_map(|element| [&element[..1], &element[1..]]).collect();
    let mark = Mark { at: range.start, count: at };
    match *step {
        Step::PopBack(_) if edges.last && !range.is_empty() => leaf.cut_behind(at),
        Step::PushBack(_) => leaf.splice(range, &parts, edges, Some(mark)),
        _ => leaf.splice(range, &parts, edges, None),
    }
    model.splice(at..at + gone, come);
}

fn check<O: Order>(steps: &[Step], edges: Edges) {
    let (mut leaf, mut model) = (LeafBytes::<O>::exact(LIST, &elements(20)), Vec::new());
    model.extend((0..20).map(|number| element(16, number as u8)));
    let mut kept = Vec::new();
    for (step, byte) in steps.iter().zip(0..) {
        match step {
            Step::Keep => kept.push((leaf.clone(), leaf.address(), model.concat())),
            Step::Free => kept.clear(),
            _ => play(&mut leaf, &mut model, edges, step, byte),
        }
        assert_eq!(&leaf[..], model.concat(), "{step:?}");
        assert_room(&leaf, edges);
        for (kept, address, bytes) in &kept {
            assert!(kept.address() == *address && kept[..] == bytes[..], "{step:?} changed what a view has");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_leaf_is_as_its_model_and_its_clones_stay(
        steps in vec(step(), 1..200), first in any::<bool>(), last in any::<bool>()
    ) {
        check::<Ends>(&steps, Edges { first, last });
        check::<Anywhere>(&steps, Edges { first, last });
    }
}

/// How often the leaf moves while so many elements come at an end.
fn pushed<O: Order>(leaf: &mut LeafBytes<O>, count: usize, is_front: bool, edges: Edges) -> usize {
    let new = element(16, b'n');
    let mut moved = 0;
    for _ in 0..count {
        let at = if is_front { 0 } else { leaf.len() };
        let before = leaf.address();
        leaf.splice(at..at, &[&new], edges, None);
        moved += usize::from(leaf.address() != before);
    }
    moved
}

#[test]
fn elements_that_come_and_go_at_an_end_are_written_in_place() {
    for is_front in [true, false] {
        let edges = Edges { first: is_front, last: !is_front };
        let mut leaf = LeafBytes::<Ends>::exact(LIST, &elements(1));
        let moved = pushed(&mut leaf, 118, is_front, edges);
        assert!((1..=10).contains(&moved), "a leaf that is filled moves {moved} times");
        assert!(leaf.len() <= Ends::LEAF_BYTES_MAX && leaf.bytes() <= 2048);
        // What has just been put can be taken again, over and over.
        let (before, last) = (leaf.address(), leaf.len());
        for _ in 0..1_000 {
            let at = if is_front { 0..17 } else { last - 17..last };
            leaf.splice(at, &[], edges, None);
            pushed(&mut leaf, 1, is_front, edges);
        }
        assert_eq!(leaf.address(), before);
        let mut moved = 0;
        while leaf.len() > 17 {
            let (before, len) = (leaf.address(), leaf.len());
            leaf.splice(if is_front { 0..17 } else { len - 17..len }, &[], edges, None);
            moved += usize::from(leaf.address() != before);
            assert_room(&leaf, edges);
        }
        assert!((1..=9).contains(&moved), "a leaf that is emptied moves {moved} times");
        assert!(leaf.bytes() <= GROWN_BYTES_MIN, "room is given back: {} bytes", leaf.bytes());
    }
}

#[test]
fn only_a_leaf_at_an_end_has_room() {
    let edges = Edges { first: false, last: false };
    for is_front in [true, false] {
        let mut leaf = LeafBytes::<Ends>::exact(LIST, &elements(10));
        pushed(&mut leaf, 5, is_front, edges);
        leaf.splice(0..17, &[], edges, None);
        let len = leaf.len();
        leaf.splice(len - 17..len, &[], edges, None);
        assert_eq!((leaf.room(), leaf.bytes()), ((0, 0), ARC_BYTES + ROOM_HEAD_BYTES + 13 * 17));
    }
    let mut leaf = LeafBytes::<Anywhere>::exact(LIST, &elements(10));
    pushed(&mut leaf, 5, false, BOTH);
    assert_eq!((leaf.room(), leaf.bytes()), ((0, 0), ARC_BYTES + 15 * 17));
}

#[test]
fn a_leaf_that_another_has_is_not_written_to_and_counts_as_left() {
    let mut leaf = LeafBytes::<Ends>::exact(LIST, &elements(40));
    pushed(&mut leaf, 1, false, BOTH);
    assert!(leaf.room().1 >= 2 * 17, "there is room");
    let (kept, bytes) = (leaf.clone(), leaf.to_vec());
    left::take_bytes();
    pushed(&mut leaf, 1, false, BOTH);
    assert_eq!(left::take_bytes(), kept.bytes(), "all that a clone has, with its room");
    assert!(leaf.address() != kept.address() && kept[..] == bytes[..]);
    assert_eq!(pushed(&mut leaf, 1, false, BOTH), 0, "the new one is its own");
    assert_eq!(left::take_bytes(), 0);
    // As soon as nobody else has a leaf, it is written to again.
    let other = leaf.clone();
    drop(other);
    assert_eq!(pushed(&mut leaf, 1, false, BOTH), 0);
    assert!(kept[..] == bytes[..]);
}

#[test]
fn a_pop_at_the_back_passes_few_elements_but_for_one_in_eight() {
    let mut leaf = LeafBytes::<Ends>::exact(LIST, &elements(100));
    let mut far = 0;
    for stays in (0..100).rev() {
        let mark = leaf.mark();
        let passed = if mark.count <= stays { stays - mark.count } else { stays };
        far += usize::from(passed > 8);
        leaf.cut_behind(stays);
        assert_eq!(&leaf[..], elements(stays));
        assert_room(&leaf, BOTH);
    }
    assert!((1..=14).contains(&far), "{far} of 100 began at the front");
}

#[test]
fn a_mark_that_is_too_far_behind_is_the_front() {
    let mut leaf = LeafBytes::<Ends>::exact(LIST, &element(70_000, b'e'));
    let end = leaf.len();
    leaf.splice(end..end, &[&element(16, b'n')], BOTH, Some(Mark { at: end, count: 1 }));
    assert_eq!((leaf.mark(), leaf.near_last()), (Mark::default(), 0));
    assert_eq!(leaf.nth(1).map(|item| item.at), Some(end));
}
