//! Compaction of the log: whatever is compacted, in whatever order, and wherever the machine dies, what comes
//! back is the store as it was after the last record that came back.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::engine::{Background, Engine};
use tarn_engine::io::{Crash, Fault, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{ClosedFile, Group, Log, LogOptions, OpenError, SyncMode};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::value::{ImageBuilder, ValueRef};
use tarn_engine::{KeyHash, ScanBudget};

const DATABASES: u8 = 3;
const NOW: u64 = 1_000;

/// How many random histories are tried, unless `TARN_SEEDS` says so.
const SEEDS: u64 = 150;

fn seeds() -> u64 {
    std::env::var("TARN_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("TARN_SEEDS is a number"))
}

/// The first of them, unless `TARN_FIRST_SEED` says so.
fn first_seed() -> u64 {
    std::env::var("TARN_FIRST_SEED").map_or(0, |seed| seed.parse().expect("TARN_FIRST_SEED is a number"))
}

type Contents = Vec<Vec<(String, String)>>;

/// All keys with their values and expiries.
fn contents_of(engine: &Engine) -> Contents {
    let session = engine.enter(0);
    let latched = session.latch(&[], Access::Read, NOW);
    let shown = |db| {
        let mut all = Vec::new();
        latched.scan(db, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            let text = format!("{} {:?}", text_of(entry.value()), entry.expiry());
            all.push((String::from_utf8_lossy(entry.key()).into_owned(), text));
        });
        all.sort();
        all
    };
    (0..DATABASES).map(shown).collect()
}

fn text_of(value: ValueRef<'_>) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    let mut all = match value {
        ValueRef::String(value) => return text(&value.to_vec()),
        ValueRef::List(list) => return list.iter_from(0).map(|element| text(element) + ",").collect(),
        ValueRef::Set(set) => set.iter().map(text).collect::<Vec<_>>(),
        ValueRef::ZSet(zset) => {
            zset.iter_from(0).map(|(member, score)| format!("{}:{score}", text(member))).collect()
        }
        ValueRef::Hash(hash) => {
            hash.iter().map(|(field, value)| format!("{}={}", text(field), text(value))).collect()
        }
    };
    all.sort();
    all.concat()
}

struct Store {
    engine: Arc<Engine>,
    _background: Background,
    log: Log,
    last: Lsn,
}

impl Store {
    fn open(disk: &SimDisk, options: &LogOptions) -> Result<Store, OpenError> {
        let disk = Arc::new(disk.clone());
        let databases = usize::from(DATABASES);
        let opened = recovery::open(disk, options.clone(), None, databases, 2, &Progress::default())?;
        let appender = Some(opened.log.appender());
        let clock = Arc::new(ManualClock::new(NOW));
        let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock);
        let options =
            CompactionOptions { enabled: false, bytes_per_second: 0, ..CompactionOptions::default() };
        engine.compactor().set_options(options);
        Ok(Store { engine, _background: background, log: opened.log, last: opened.recovered.last })
    }

    fn files(&self) -> Vec<ClosedFile> {
        self.log.appender().closed_files()
    }

    /// What a key holds, and how many elements of a list.
    fn found(&self, db: u8, key: &[u8]) -> Option<(Kind, u64)> {
        let session = self.engine.enter(0);
        let latched = session.latch(&[(db, KeyHash::of(key))], Access::Read, NOW);
        let entry = latched.get(db, key)?;
        let length = if let ValueRef::List(list) = entry.value() { list.len() as u64 } else { 1 };
        Some((entry.kind(), length))
    }

    /// A write that fits. Keys change their kinds, and small ones become empty often.
    fn any_write(&self, rng: &mut SmallRng) -> Write<'static> {
        let db = rng.random_range(0..DATABASES);
        match rng.random_range(0..400) {
            0..4 => return Write::Flush { db: Some(db) },
            4 => return Write::Flush { db: None },
            5..9 => return Write::Swap { a: db, b: (db + 1) % DATABASES },
            _ => {}
        }
        let name = format!("k{}", rng.random_range(0..12)).into_bytes();
        let found = self.found(db, &name);
        let any_kind = [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash][rng.random_range(0..5)];
        let (kind, length) = found.unwrap_or((any_kind, 0));
        let number = rng.random();
        let element = || rng_element(number);
        let expiry = rng.random_bool(0.3).then(|| NOW + rng.random_range(1_000..2_000u64));
        let change = match (kind, rng.random_range(0..12)) {
            (_, 0) => Change::Delete,
            (_, 1) if length > 0 => Change::Expire(expiry),
            (_, 2) if any_kind != Kind::String => image(any_kind, expiry, rng),
            (Kind::String, 3..6) => Change::Patch { offset: rng.random_range(0..9), bytes: element() },
            (Kind::String, _) => Change::Put { value: element(), expiry },
            (Kind::List, 3 | 4) if length > 0 => {
                Change::ListPop { side: any_side(rng), count: rng.random_range(1..=length) }
            }
            (Kind::List, 5) if length > 0 => Change::ListRemove { index: rng.random_range(0..length) },
            (Kind::List, 6) if length > 0 => {
                Change::ListPut { index: rng.random_range(0..length), element: element() }
            }
            (Kind::List, 7) if length > 0 => {
                Change::ListInsert { index: rng.random_range(0..=length), element: element() }
            }
            (Kind::List, _) => Change::ListPush { side: any_side(rng), element: element() },
            (Kind::Set, 3..7) => Change::SetRemove { member: element() },
            (Kind::Set, _) => Change::SetAdd { member: element() },
            (Kind::Hash, 3..7) => Change::HashRemove { field: element() },
            (Kind::Hash, _) => {
                Change::HashPut { field: element(), value: rng.random::<[u8; 3]>().to_vec().into() }
            }
            (Kind::ZSet, 3..7) => Change::ZSetRemove { member: element() },
            (Kind::ZSet, _) => {
                Change::ZSetPut { member: element(), score: f64::from(rng.random_range(0..100)) }
            }
        };
        Write::Key { db, key: name.into(), change }
    }

    /// Commits a write, or several that fit whatever the others do. Returns whether that went well.
    fn commit(&self, rng: &mut SmallRng) -> bool {
        let mut batch = Batch::new();
        for _ in 0..if rng.random_bool(0.2) { 3 } else { 1 } {
            let write = self.any_write(rng);
            if batch.is_empty() || batch.iter().all(|other| are_apart(other, &write)) {
                batch.push(write);
            }
        }
        self.engine.close_gate().commit(&batch, &mut Group::new()).is_ok()
    }

    /// Compacts a file, or some that follow each other.
    fn compact_any(&self, rng: &mut SmallRng) -> bool {
        let files = self.files();
        if files.is_empty() {
            return true;
        }
        let first = rng.random_range(0..files.len());
        let mut end = first + 1;
        while end < files.len() && files[end - 1].is_followed_by(&files[end]) && rng.random_bool(0.5) {
            end += 1;
        }
        self.engine.compactor().compact_files(&self.engine, &files[first..end]).is_ok()
    }
}

/// Whether each of two writes fits without the other.
fn are_apart(one: &Write<'_>, other: &Write<'_>) -> bool {
    let place = |write: &Write<'_>| match write {
        Write::Key { db, key, .. } => Some((*db, key.to_vec())),
        _ => None,
    };
    let places = [place(one), place(other)];
    places.iter().all(Option::is_some) && places[0] != places[1]
}

fn rng_element(number: u8) -> std::borrow::Cow<'static, [u8]> {
    (number % 4).to_string().into_bytes().into()
}

fn any_side(rng: &mut SmallRng) -> Side {
    if rng.random() { Side::Front } else { Side::Back }
}

fn image(kind: Kind, expiry: Option<u64>, rng: &mut SmallRng) -> Change<'static> {
    let mut builder = ImageBuilder::new(kind);
    for number in 0..rng.random_range(1..4u8) {
        let element = number.to_string().into_bytes();
        match kind {
            Kind::Hash => builder.push_field(&element, b"image"),
            Kind::ZSet => builder.push_scored(&element, f64::from(number)),
            _ => builder.push_element(&element),
        }
    }
    Change::Image { kind, elements: builder.finish().into(), expiry, sticky: false }
}

fn options(rng: &mut SmallRng) -> LogOptions {
    let directories =
        (0..rng.random_range(1..=3)).map(|index| PathBuf::from(format!("/log{index}"))).collect();
    let mut options = LogOptions::new(directories);
    options.mode = [SyncMode::Always, SyncMode::EverySec, SyncMode::No][rng.random_range(0..3)];
    options.file_bytes = rng.random_range(900..4_000);
    options
}

#[test]
fn whatever_is_compacted_the_store_comes_back_as_it_was() {
    let (mut compactions, mut crashes) = (0, 0);
    for seed in first_seed()..first_seed() + seeds() {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        let mut disk = SimDisk::new(seed, SimOptions::default());
        let mut history: BTreeMap<Lsn, Contents> = BTreeMap::new();
        history.insert(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)]);
        let mut acknowledged = Lsn::ZERO;
        for life in 0..rng.random_range(2..7) {
            let store = Store::open(&disk, &options)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}; the log:\n{}", story(&disk, &options)));
            assert!(store.last >= acknowledged, "seed {seed}, life {life}: {} is lost", acknowledged);
            history.split_off(&store.last.after(1));
            let found = contents_of(&store.engine);
            assert_eq!(Some(&found), history.get(&store.last), "seed {seed}, life {life}, at {}", store.last);
            if rng.random_bool(0.6) {
                let crash_at = Some(disk.calls() + rng.random_range(1..150));
                let mut faults = SimOptions { crash_at, ..SimOptions::default() };
                if rng.random_bool(0.3) {
                    faults.faults_per_mille = Fault::ALL.into_iter().map(|fault| (fault, 5)).collect();
                }
                disk.set_options(faults);
                crashes += 1;
            }
            for _ in 0..rng.random_range(0..200) {
                if rng.random_bool(0.08) {
                    let before = store.log.appender().last();
                    compactions += u64::from(store.compact_any(&mut rng));
                    // Entries may have been written anew, as what they were.
                    let found = contents_of(&store.engine);
                    for lsn in before.0..=store.log.appender().last().0 {
                        history.insert(Lsn(lsn), found.clone());
                    }
                } else if store.commit(&mut rng) {
                    history.insert(store.log.appender().last(), contents_of(&store.engine));
                }
                if disk.is_dead() {
                    break;
                }
            }
            disk.set_options(SimOptions { crash_at: disk.is_dead().then_some(1), ..SimOptions::default() });
            let ending = rng.random_range(0..3);
            if ending == 0 && !disk.is_dead() {
                acknowledged = store.log.sync().unwrap_or(acknowledged);
            }
            acknowledged = acknowledged.max(store.log.durable().lsn());
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            if ending == 1 && !disk.is_dead() {
                if log.close().is_ok() {
                    acknowledged = *history.last_key_value().unwrap().0;
                }
                disk = disk.crash(Crash::Kill, rng.random(), SimOptions::default());
            } else {
                let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
                let left = disk.crash(crash, rng.random(), SimOptions::default());
                drop(log);
                disk = left;
            }
        }
    }
    assert!(compactions > seeds() * 3 && crashes > seeds(), "{compactions} compactions, {crashes} crashes");
}

/// All records that are in a log, a line each.
fn story(disk: &SimDisk, options: &LogOptions) -> String {
    let mut reader = Log::read(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut lines = String::new();
    while let Some(block) = reader.next_block().unwrap() {
        for record in block.records() {
            let record = record.unwrap();
            lines += &format!("{} {:?} {}\n", record.lsn, record.write, block.path().display());
        }
    }
    lines
}

/// Fills files with records of other keys, until there are `count` closed ones.
fn fill(store: &Store, count: usize) {
    while store.files().len() < count {
        for number in 0..4 {
            let change = Change::Put { value: vec![b'x'; 100].into(), expiry: None };
            let key = format!("filler{number}").into_bytes().into();
            let batch = Batch::from_iter([Write::Key { db: 0, key, change }]);
            store.engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
        }
        store.log.sync().unwrap();
    }
}

fn commit(store: &Store, key: &str, change: Change<'static>) {
    let write = Write::Key { db: 0, key: key.as_bytes().to_vec().into(), change };
    store.engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::new()).unwrap();
}

fn records_of(disk: &SimDisk, options: &LogOptions, wanted: &str) -> usize {
    let mut reader = Log::read(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut count = 0;
    while let Some(block) = reader.next_block().unwrap() {
        for record in block.records() {
            count += match record.unwrap().write {
                Write::Key { key, .. } => usize::from(*key == *wanted.as_bytes()),
                _ => 0,
            };
        }
    }
    count
}

#[test]
fn an_image_that_a_replay_sees_empty_is_not_forgotten() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 2_000;
    let field = |name: &str| name.as_bytes().to_vec().into();
    let mut disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let mut builder = ImageBuilder::new(Kind::Hash);
    builder.push_field(b"gone", b"image");
    let elements = builder.finish().into();
    commit(&store, "k", Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false });
    commit(&store, "k", Change::HashPut { field: field("b"), value: field("1") });
    fill(&store, 1);
    commit(&store, "k", Change::HashRemove { field: field("gone") });
    commit(&store, "k", Change::HashPut { field: field("b"), value: field("2") });
    let count = store.files().len();
    fill(&store, count + 2);
    // Without the first `b`, the next start sees the key empty between the removal and the second.
    store.engine.compactor().compact_files(&store.engine, &store.files()[..1]).unwrap();
    disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    for file in &store.files()[1..] {
        store.engine.compactor().compact_files(&store.engine, std::slice::from_ref(file)).unwrap();
    }
    disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let found = contents_of(&store.engine).swap_remove(0);
    assert!(found.contains(&("k".to_owned(), "b=2 None".to_owned())), "{found:?}");
}

#[test]
fn deleted_keys_stay_dead_in_every_order_of_files() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 2_000;
    for seed in 0..60 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let store = Store::open(&disk, &options).unwrap();
        // Put, put again, changed in part, deleted: each in a file of its own.
        commit(&store, "k", Change::Put { value: b"one".to_vec().into(), expiry: None });
        fill(&store, 1);
        commit(&store, "k", Change::Put { value: b"two".to_vec().into(), expiry: None });
        fill(&store, 2);
        commit(&store, "k", Change::Patch { offset: 1, bytes: b"x".to_vec().into() });
        fill(&store, 3);
        commit(&store, "k", Change::Delete);
        fill(&store, 5);
        // Files are closed a little later, so there may be more.
        let mut order: Vec<usize> = (0..store.files().len()).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(seed));
        let (mut disk, mut store) = (disk, store);
        for round in 0..2 {
            for at in &order {
                let file = store.files()[*at].clone();
                store.engine.compactor().compact_files(&store.engine, &[file]).unwrap();
                disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
                store = Store::open(&disk, &options).unwrap();
                let found = contents_of(&store.engine);
                assert!(found[0].iter().all(|(key, _)| key != "k"), "{order:?}, round {round}: {found:?}");
            }
        }
        drop(store);
        let left = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
        assert_eq!(records_of(&left, &options, "k"), 0, "{order:?}: after two rounds nothing is left of it");
    }
}
