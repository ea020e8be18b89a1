//! Tests that records collected and put in at once have the effect of records put in one by one.

use std::collections::BTreeSet;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::collected::Collected;
use crate::log::Sizes;
use crate::record::{Change, Kind, Lsn, Stamped};
use crate::table::{KeyHash, KeyRef, Retired, Table, Waiting};
use crate::value::{ImageBuilder, ValueRef};

const KEYS: [&[u8]; 3] = [b"a", b"b", b"c"];
/// Many more puts than anything else, so that sorted sets become large.
const CHANGES: u64 = 3000;

fn member(rng: &mut SmallRng) -> Vec<u8> {
    let number = rng.random_range(0..200);
    match rng.random_range(0..500) {
        // Longer than what Redis keeps in its small encoding.
        0 => format!("{number:070}").into_bytes(),
        // So long that few make a sorted set large.
        _ => format!("{number:040}").into_bytes(),
    }
}

fn score(rng: &mut SmallRng) -> f64 {
    [-0.0, 0.0, f64::INFINITY, f64::from(rng.random_range(-9..9))][rng.random_range(0..4)]
}

fn any_change(rng: &mut SmallRng) -> Change<'static> {
    let expiry = rng.random_bool(0.5).then(|| rng.random_range(1..1000));
    match rng.random_range(0..1000) {
        0..40 => Change::ZSetRemove { member: member(rng).into() },
        40..50 => Change::Expire(expiry),
        50..54 => Change::Delete,
        54..56 => Change::Put { value: b"string".into(), expiry },
        56..60 => {
            let mut builder = ImageBuilder::new(Kind::ZSet);
            let members: BTreeSet<_> = (0..rng.random_range(1..90)).map(|_| member(rng)).collect();
            members.iter().for_each(|member| builder.push_scored(member, 1.0));
            let (elements, sticky) = (builder.finish().into(), rng.random_bool(0.1));
            Change::Image { kind: Kind::ZSet, elements, expiry, sticky }
        }
        _ => Change::ZSetPut { member: member(rng).into(), score: score(rng) },
    }
}

/// The values of the keys, which records fit, which have been replaced, and all records there are in the
/// end.
#[derive(Debug, PartialEq)]
struct Outcome {
    keys: Vec<String>,
    misfits: Vec<Lsn>,
    replaced: BTreeSet<Lsn>,
    all: BTreeSet<Lsn>,
}

fn lsns(retired: &Retired) -> BTreeSet<Lsn> {
    let mut all: BTreeSet<Lsn> = retired.lsns.iter().copied().collect();
    retired.garbage.iter().for_each(|garbage| garbage.for_each_lsn(&mut |lsn| _ = all.insert(lsn)));
    all
}

fn outcome(seed: u64, collects: bool) -> Outcome {
    let (rng, dice) = (&mut SmallRng::seed_from_u64(seed), &mut SmallRng::seed_from_u64(seed));
    let tables = [Arc::new(Table::default())];
    let (mut collected, mut retired) = (Collected::new(&Sizes::SMALL), Retired::default());
    let mut misfits = Vec::new();
    for lsn in (1..=CHANGES).map(Lsn) {
        let key = KEYS[rng.random_range(0..KEYS.len())];
        let (change, at) = (any_change(rng), KeyRef::of(0, key));
        let (_, mut segment) = tables[0].write_of(at.hash);
        let write = Stamped { lsn, change: &change };
        if !collected.takes(at, write, &mut segment, &mut retired) {
            let (_, fits) = segment.apply(at, write, Waiting::NONE, &mut retired);
            misfits.extend((!fits).then_some(lsn));
        }
        // As at the end of a command's records.
        let ends = collects && matches!(change, Change::ZSetPut { .. }) && dice.random_bool(0.7);
        let is_due_now = ends && collected.note_puts(at, &segment);
        drop(segment);
        if is_due_now {
            collected.put_in_apart(at, &tables[0], &mut retired);
        }
        let is_due = rng.random_bool(0.001);
        if is_due || collected.is_full() {
            collected.put_all_in(&tables, &mut retired);
        }
    }
    collected.put_all_in(&tables, &mut retired);
    let (replaced, mut left) = (lsns(&retired), Retired::default());
    let mut keys = Vec::new();
    for key in KEYS {
        let (_, mut segment) = tables[0].write_of(KeyHash::of(key));
        if let Some(entry) = segment.find(KeyHash::of(key), key) {
            let ranks = |member: &[u8]| match entry.value() {
                ValueRef::ZSet(zset) => zset.rank(member),
                _ => None,
            };
            let members = match entry.value() {
                ValueRef::ZSet(zset) => zset.iter_from(0).collect::<Vec<_>>(),
                _ => Vec::new(),
            };
            assert!(members.iter().enumerate().all(|(rank, (member, _))| ranks(member) == Some(rank)));
            let head = (entry.kind(), entry.encoding(), entry.lsn(), entry.base(), entry.expiry());
            let members = members.iter().map(|(member, score)| format!("{}:{score}", member.escape_ascii()));
            keys.push(format!("{head:?} {}", members.collect::<Vec<_>>().join(" ")));
        }
        let delete = Stamped { lsn: Lsn(9999), change: &Change::Delete };
        segment.apply(KeyRef::of(0, key), delete, Waiting::NONE, &mut left);
    }
    Outcome { keys, misfits, replaced, all: lsns(&left) }
}

#[test]
fn sorted_sets_built_at_once_equal_those_built_one_by_one() {
    for seed in 0..60 {
        let (at_once, one_by_one) = (outcome(seed, true), outcome(seed, false));
        assert_eq!(at_once.misfits, one_by_one.misfits, "seed {seed}");
        assert_eq!(at_once.keys, one_by_one.keys, "seed {seed}");
        assert!(at_once == one_by_one, "the records that are needed are the same, seed {seed}");
    }
}
