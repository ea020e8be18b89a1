//! A key that loses its last element is deleted in the log, right behind the record that took it: so that a
//! replay without some of the records before it knows where the key ended.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::Engine;
use tarn_engine::KeyHash;
use tarn_engine::io::{ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;

const DATABASES: u8 = 2;
const NOW: u64 = 1_000;

/// The values of the keys of all databases, as far as they can become empty.
#[derive(Default)]
struct Model {
    keys: BTreeMap<(u8, Vec<u8>), Elements>,
}

#[derive(Clone)]
enum Elements {
    Members(BTreeSet<Vec<u8>>),
    Length(u64),
}

impl Elements {
    fn is_empty(&self) -> bool {
        match self {
            Elements::Members(members) => members.is_empty(),
            Elements::Length(length) => *length == 0,
        }
    }
}

impl Model {
    /// Plays a write; whether a key became empty by it.
    fn play(&mut self, write: &Write<'_>) -> bool {
        let (db, key, change) = match write {
            Write::Key { db, key, change } => (*db, key.to_vec(), change),
            Write::Flush { db } => {
                self.keys.retain(|(of, _), _| db.is_some_and(|db| db != *of));
                return false;
            }
            Write::Swap { a, b } => {
                let keys = std::mem::take(&mut self.keys);
                let other = |db| if db == *a { *b } else { *a };
                self.keys = keys.into_iter().map(|((db, key), held)| ((other(db), key), held)).collect();
                return false;
            }
        };
        let place = (db, key);
        let members = || Elements::Members(BTreeSet::new());
        match change {
            Change::Delete => {
                self.keys.remove(&place);
                return false;
            }
            Change::SetAdd { member: element } | Change::HashPut { field: element, .. } => {
                if let Elements::Members(members) = self.keys.entry(place).or_insert_with(members) {
                    members.insert(element.to_vec());
                }
                return false;
            }
            Change::ListPush { .. } => {
                if let Elements::Length(length) = self.keys.entry(place).or_insert(Elements::Length(0)) {
                    *length += 1;
                }
                return false;
            }
            _ => {}
        }
        let Some(held) = self.keys.get_mut(&place) else { return false };
        match (held, change) {
            (Elements::Members(members), Change::SetRemove { member: element })
            | (Elements::Members(members), Change::HashRemove { field: element }) => {
                members.remove(&**element);
            }
            (Elements::Length(length), Change::ListPop { count, .. }) => {
                *length = length.saturating_sub(*count);
            }
            (Elements::Length(length), Change::ListRemove { .. }) => *length -= 1,
            _ => {}
        }
        let is_empty = self.keys[&place].is_empty();
        if is_empty {
            self.keys.remove(&place);
        }
        is_empty
    }

    fn length(&self, db: u8, key: &str) -> u64 {
        match self.keys.get(&(db, key.as_bytes().to_vec())) {
            Some(Elements::Length(length)) => *length,
            _ => 0,
        }
    }

    /// A write that fits; keys are small, so that they become empty often.
    fn any_write(&self, rng: &mut SmallRng) -> Write<'static> {
        let db = rng.random_range(0..DATABASES);
        let kind = ["list", "set", "hash"][rng.random_range(0..3)];
        let name = format!("{kind}{}", rng.random_range(0..2));
        let number: u8 = rng.random_range(0..3);
        let element = || number.to_string().into_bytes().into();
        let length = self.length(db, &name);
        let change = match (kind, rng.random_range(0..5)) {
            (_, 0) if rng.random_bool(0.2) => Change::Delete,
            ("list", 0..2) if length > 0 => {
                Change::ListPop { side: Side::Back, count: rng.random_range(1..=length) }
            }
            ("list", 2) if length > 0 => Change::ListRemove { index: rng.random_range(0..length) },
            ("list", _) => Change::ListPush { side: Side::Front, element: element() },
            ("set", 0..3) => Change::SetRemove { member: element() },
            ("set", _) => Change::SetAdd { member: element() },
            (_, 0..3) => Change::HashRemove { field: element() },
            _ => Change::HashPut { field: element(), value: b"value".to_vec().into() },
        };
        Write::Key { db, key: name.into_bytes().into(), change }
    }
}

/// Commits random batches in each of the ways there are.
fn commit_some(engine: &Engine, rng: &mut SmallRng) {
    let mut model = Model::default();
    for _ in 0..200 {
        let mut batch = Batch::new();
        let way = rng.random_range(0..4);
        for _ in 0..rng.random_range(1..6) {
            let write = match rng.random_range(0..20) {
                0 if way == 3 => Write::Flush { db: Some(0) },
                1 if way == 3 => Write::Swap { a: 0, b: 1 },
                _ => model.any_write(rng),
            };
            model.play(&write);
            batch.push(write);
        }
        let place = |write: &Write<'_>| match write {
            Write::Key { db, key, .. } => Some((*db, KeyHash::of(key))),
            _ => None,
        };
        let keys: Vec<_> = batch.iter().filter_map(place).collect();
        let mut group = Group::new();
        match way {
            0 => {
                let session = engine.enter(0);
                session.latch_places(&keys, Access::Write, NOW).commit(&batch, &mut group).unwrap();
            }
            1 => drop(engine.close_gate().commit(&batch, &mut group).unwrap()),
            2 => {
                let session = engine.enter(0);
                let mut latched = session.latch_places(&keys, Access::Write, NOW);
                let mut staged = Batch::new();
                latched.begin();
                batch.into_iter().for_each(|write| latched.stage(Batch::from_iter([write]), &mut staged));
                latched.end();
                latched.commit(&staged, &mut group).unwrap();
            }
            _ => {
                let mut alone = engine.close_gate();
                let mut latched = alone.transact(NOW);
                let mut staged = Batch::new();
                batch.into_iter().for_each(|write| latched.stage(Batch::from_iter([write]), &mut staged));
                latched.release();
                alone.commit(&staged, &mut group).unwrap();
            }
        }
    }
}

#[test]
fn a_key_that_becomes_empty_is_deleted_right_behind() {
    for seed in 0..60 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = Arc::new(SimDisk::new(seed, SimOptions::default()));
        let options = || {
            let options = LogOptions::new(vec![Path::new("log").to_path_buf()]);
            LogOptions { mode: SyncMode::No, ..options }
        };
        let opened =
            recovery::open(disk.clone(), options(), None, DATABASES.into(), 1, &Progress::default()).unwrap();
        let appender = Some(opened.log.appender());
        let clock = Arc::new(ManualClock::new(NOW));
        let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock);
        commit_some(&engine, &mut rng);
        drop((engine, background));
        opened.log.close().unwrap();

        let mut reader = Log::read(disk, options()).unwrap();
        let (mut model, mut emptied, mut deletes) = (Model::default(), None, 0);
        while let Some(block) = reader.next_block().unwrap() {
            for record in block.records() {
                let write = record.unwrap().write;
                if let Some(place) = emptied.take() {
                    let Write::Key { db, key, change: Change::Delete } = &write else {
                        panic!("seed {seed}: {place:?} is empty and not deleted, but {write:?}");
                    };
                    assert_eq!(place, (*db, key.to_vec()), "seed {seed}");
                    deletes += 1;
                }
                if model.play(&write)
                    && let Write::Key { db, key, .. } = &write
                {
                    emptied = Some((*db, key.to_vec()));
                }
            }
        }
        assert_eq!(emptied, None, "seed {seed}");
        assert!(deletes > 20, "seed {seed}: {deletes} keys became empty");
    }
}
