//! Reading while the log is replayed: the replay is held between two blocks, and whatever is told is
//! something that the key once was.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::KeyHash;
use tarn_engine::early::Early;
use tarn_engine::io::{Crash, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{Block, Group, Log, LogOptions, OpenError, SyncMode};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::recovery::{empty, replay};
use tarn_engine::session::Access;
use tarn_engine::value::ImageBuilder;
use tarn_engine::{Background, Engine};

use histories::*;

/// Keys that are written last in a step: there are some among the share of each replayer.
const MARKS: usize = 32;

/// Who reads: `Early` and the empty store that it borrows the clock of.
struct Eyes {
    early: Early,
    engine: Arc<Engine>,
    _background: Background,
}

impl Eyes {
    fn new() -> Eyes {
        let (engine, _background) =
            Engine::unlogged(usize::from(DATABASES), 1, Arc::new(ManualClock::new(NOW)));
        Eyes { early: Early::default(), engine, _background }
    }

    /// The value of the key, its expiry, its `Lsn`, and whether it may be served. `None`: it is not there.
    fn look(&self, db: u8, key: &str) -> Option<(String, Lsn, bool)> {
        let session = self.early.enter(self.engine.store())?;
        let place = (db, KeyHash::of(key.as_bytes()));
        let latched = session.latch_places(&[place], Access::Read, NOW);
        let entry = latched.get(db, key.as_bytes())?;
        let text = format!("{} {:?}", text_of(entry.value()), entry.expiry());
        Some((text, entry.lsn(), self.early.tells(entry)))
    }

    fn told(&self, db: u8, key: &str) -> Option<String> {
        self.look(db, key).filter(|(.., told)| *told).map(|(text, ..)| text.replace(" None", ""))
    }
}

/// A replay with two threads that goes on by a block when it is let.
struct Held<'h> {
    eyes: &'h Eyes,
    let_go: SyncSender<()>,
}

impl Held<'_> {
    /// Lets the next block be replayed, which ends with the marks of this step, and waits until it has been.
    fn step(&self, step: usize) {
        // Who has let all blocks go before has nobody to tell.
        let _ = self.let_go.send(());
        let is_there = |mark| self.eyes.look(2, &mark_of(step, mark)).is_some();
        while !(0..MARKS).all(is_there) {
            std::thread::yield_now();
        }
    }
}

fn mark_of(step: usize, mark: usize) -> String {
    format!("mark {step} {mark}")
}

/// Replays the log of `disk`, and has `work` done beside it.
fn hold(disk: &SimDisk, options: &LogOptions, work: impl FnOnce(&Held<'_>)) {
    let eyes = Eyes::new();
    let mut reader = Log::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let (tables, relied_on) = (empty(usize::from(DATABASES)), reader.relied_on());
    // Who lets go waits until the block is asked for, so that nobody gets far ahead of whom he watches.
    let (let_go, may_go) = sync_channel(0);
    eyes.early.begin(&tables, Lsn::ZERO);
    let early = &eyes.early;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let next = || {
                // Who has let go of the sender lets all go.
                let _ = may_go.recv();
                let block = reader.next_block()?;
                early.note_sure(reader.sure());
                Ok(block.map(Arc::new))
            };
            replay(next, tables, (Lsn::ZERO, Lsn::ZERO), 2, (early, relied_on), |_| {}).unwrap();
        });
        let held = Held { eyes: &eyes, let_go };
        work(&held);
        drop(held);
    });
    eyes.early.end();
    assert_eq!(eyes.look(2, &mark_of(0, 0)), None, "after the end nothing is shown");
}

fn one_directory(file_bytes: u64) -> LogOptions {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::Always;
    options.file_bytes = file_bytes;
    options
}

fn key(db: u8, key: &'static str, change: Change<'static>) -> Write<'static> {
    Write::Key { db, key: key.as_bytes().into(), change }
}

fn put(value: &'static str) -> Change<'static> {
    Change::Put { value: value.as_bytes().into(), expiry: None }
}

fn hash_put(field: &'static str, value: &'static str) -> Change<'static> {
    Change::HashPut { field: field.as_bytes().into(), value: value.as_bytes().into() }
}

/// Commits the writes and the marks of a step, which become one block.
fn block_of(store: &Store, step: usize, writes: impl IntoIterator<Item = Write<'static>>) {
    let marks = (0..MARKS).map(|mark| Write::Key {
        db: 2,
        key: mark_of(step, mark).into_bytes().into(),
        change: put("mark"),
    });
    let batch: Batch<'_> = writes.into_iter().chain(marks).collect();
    store.engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
    store.log.sync().unwrap();
}

#[test]
fn what_is_there_already_is_told_as_it_was_and_nothing_else_is() {
    let options = one_directory(1 << 20);
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let expired = Change::Put { value: b"old"[..].into(), expiry: Some(NOW - 1) };
    let steps: Vec<Vec<Write<'_>>> = vec![
        vec![
            key(0, "string", put("one")),
            key(0, "hash", hash_put("a", "1")),
            key(0, "list", Change::ListPush { side: Side::Back, element: b"x"[..].into() }),
            key(0, "set", Change::SetAdd { member: b"m"[..].into() }),
            key(0, "zset", Change::ZSetPut { member: b"m"[..].into(), score: 1.5 }),
            key(0, "expired", expired),
        ],
        vec![key(0, "string", put("two")), key(0, "hash", hash_put("b", "2")), key(0, "set", Change::Delete)],
        vec![Write::Swap { a: 0, b: 1 }, key(0, "string", put("other"))],
        vec![Write::Flush { db: Some(1) }, key(1, "new", put("behind the flush"))],
        vec![Write::Flush { db: None }],
    ];
    for (step, writes) in steps.into_iter().enumerate() {
        block_of(&store, step, writes);
    }
    // The next start says that all was durable.
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    drop(Store::open(&disk, &options).unwrap());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    hold(&disk, &options, |held| {
        let told = |db, key| held.eyes.told(db, key);
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(told(0, "string"), None, "before the first block");
        held.step(0);
        assert_eq!(told(0, "string"), text("one"));
        assert_eq!(told(0, "hash"), text("a=1"));
        assert_eq!(told(0, "list"), text("x,"));
        assert_eq!(told(0, "set"), text("m"));
        assert_eq!(told(0, "zset"), text("m:1.5"));
        assert_eq!(told(0, "expired"), None);
        assert_eq!(told(0, "never"), None);
        assert_eq!(told(1, "string"), None);
        held.step(1);
        assert_eq!(told(0, "string"), text("two"));
        assert_eq!(told(0, "hash"), text("a=1b=2"));
        assert_eq!(told(0, "set"), None);
        held.step(2);
        assert_eq!((told(0, "string"), told(1, "string")), (text("other"), text("two")), "swapped");
        assert_eq!((told(0, "hash"), told(1, "hash")), (None, text("a=1b=2")));
        held.step(3);
        assert_eq!((told(0, "string"), told(1, "string")), (text("other"), None), "one is flushed");
        assert_eq!(told(1, "new"), text("behind the flush"));
        held.step(4);
        assert_eq!((told(0, "string"), told(1, "new")), (None, None), "all are flushed");
    });
}

#[test]
fn a_command_that_puts_many_members_is_told_as_a_whole_or_not_at_all() {
    /// So many are large, and so many more are not collected any further.
    const MEMBERS: [usize; 3] = [300, 1_300, 5_000];
    let options = one_directory(1 << 20);
    let disk = SimDisk::new(4, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    for (step, end) in MEMBERS.into_iter().enumerate() {
        let begin = step.checked_sub(1).map_or(0, |before| MEMBERS[before]);
        let put = |number| {
            let member = format!("m{number}").into_bytes().into();
            key(0, "zset", Change::ZSetPut { member, score: 1.0 })
        };
        block_of(&store, step, (begin..end).map(put));
    }
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    drop(Store::open(&disk, &options).unwrap());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    hold(&disk, &options, |held| {
        for step in 0..MEMBERS.len() {
            held.step(step);
            let told = held.eyes.told(0, "zset").unwrap().matches('m').count();
            assert!(MEMBERS[..=step].contains(&told), "step {step}: {told} members");
        }
    });
}

#[test]
fn what_a_loss_of_power_could_take_is_not_told() {
    let options = one_directory(1 << 20);
    let disk = SimDisk::new(2, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    for step in 0..3 {
        block_of(&store, step, [key(0, if step == 2 { "last" } else { "earlier" }, put("value"))]);
    }
    // What was synced is there; that it was, no later block says of the last.
    let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
    hold(&disk, &options, |held| {
        (0..3).for_each(|step| held.step(step));
        assert_eq!(held.eyes.told(0, "earlier").as_deref(), Some("value"));
        assert!(held.eyes.look(0, "last").is_some());
        assert_eq!(held.eyes.told(0, "last"), None);
    });
}

#[test]
fn what_a_compaction_has_left_of_a_collection_is_not_told_before_the_rest_is_there() {
    let options = one_directory(4_000);
    let disk = SimDisk::new(3, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let mut image = ImageBuilder::new(Kind::Hash);
    image.push_field(b"f", b"image");
    let elements = image.finish().into();
    block_of(&store, 0, [key(0, "string", put("one")), key(0, "hash", hash_put("a", "1"))]);
    fill_on(&store);
    block_of(
        &store,
        1,
        [
            key(0, "hash", hash_put("b", "1")),
            key(0, "image", Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false }),
            key(0, "patched", Change::Patch { offset: 1, bytes: b"x"[..].into() }),
        ],
    );
    // Long enough for somebody to look.
    (0..4).for_each(|_| fill_on(&store));
    block_of(&store, 2, [key(0, "hash", hash_put("a", "2"))]);
    fill_on(&store);
    store.engine.compactor().compact_files(store.engine.store(), &store.files()[..1]).unwrap();
    block_of(&store, 3, [key(0, "new", hash_put("a", "1"))]);
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    drop(Store::open(&disk, &options).unwrap());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    hold(&disk, &options, |held| {
        let (mut is_fiction, mut passes) = (false, 0);
        while held.eyes.look(0, "new").is_none() {
            let _ = held.let_go.send(());
            std::thread::yield_now();
            let string = held.eyes.told(0, "string");
            let told = ["image", "patched", "hash"].map(|key| held.eyes.told(0, key));
            let hash = held.eyes.look(0, "hash").map(|(text, ..)| text).unwrap_or_default();
            is_fiction |= hash.starts_with("b=1 ");
            if told.iter().any(Option::is_some) {
                // All that compacted files rely on has been replayed by then, and this is of it.
                assert!(hash.starts_with("a=2b=1"), "{told:?}, and then {hash}");
                assert!(told[2].as_deref() != Some("b=1"));
            } else {
                passes += u64::from(string.as_deref() == Some("one"));
            }
        }
        held.step(3);
        assert!(is_fiction && passes > 0, "there was a time at which the hash lacked what it always had");
        assert_eq!(held.eyes.told(0, "hash").as_deref(), Some("a=2b=1"));
        assert_eq!(held.eyes.told(0, "patched").as_deref(), Some("\\x00x"));
    });
}

/// Replays a log, and reads all keys beside it, again and again between two blocks. Returns what was told.
fn read_all(disk: &SimDisk, options: &LogOptions, threads: usize) -> BTreeSet<(u8, String, String, Lsn)> {
    let eyes = Eyes::new();
    let mut reader = Log::open(Arc::new(disk.clone()), options.clone()).unwrap();
    let (tables, unfit, relied_on) = (empty(usize::from(DATABASES)), reader.unfit(), reader.relied_on());
    eyes.early.begin(&tables, Lsn::ZERO);
    let (passes, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let mut all = BTreeSet::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let next = || -> Result<Option<Arc<Block>>, OpenError> {
                let enough = passes.load(Ordering::Acquire) + 2;
                while passes.load(Ordering::Acquire) < enough {
                    std::thread::yield_now();
                }
                let block = reader.next_block()?;
                eyes.early.note_sure(reader.sure());
                Ok(block.map(Arc::new))
            };
            replay(next, tables, (Lsn::ZERO, unfit), threads, (&eyes.early, relied_on), |_| {}).unwrap();
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            for (db, number) in (0..DATABASES).flat_map(|db| (0..12).map(move |number| (db, number))) {
                let name = format!("k{number}");
                if let Some((text, lsn, true)) = eyes.look(db, &name) {
                    all.insert((db, name, text, lsn));
                }
            }
            passes.fetch_add(1, Ordering::Release);
        }
    });
    all
}

#[test]
fn whatever_was_compacted_what_is_told_is_what_the_key_once_was() {
    let (mut compactions, mut told, mut collections) = (0, 0, 0);
    let seeds = seed_count() / 4;
    for seed in tarn_engine::io::seeds(seeds) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        let mut disk = SimDisk::new(seed, SimOptions::default());
        let mut history: BTreeMap<Lsn, Contents> = BTreeMap::new();
        let mut durable = Lsn::ZERO;
        for _ in 0..rng.random_range(1..4) {
            let store = Store::open(&disk, &options).unwrap();
            history.split_off(&store.last.after(1));
            for _ in 0..rng.random_range(0..150) {
                if rng.random_bool(0.06) {
                    compactions += u64::from(store.compact_any(&mut rng));
                } else if store.commit(&mut rng) {
                    history.insert(store.log.appender().last(), contents_of(&store.engine));
                }
                if rng.random_bool(0.2) {
                    store.log.sync().unwrap();
                }
            }
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
            let left = disk.crash(crash, rng.random(), SimOptions::default());
            // What the disk that is left says can be no more than is known a little later.
            durable = durable.max(log.durable().lsn());
            drop(log);
            disk = left;
        }
        let mut once: BTreeSet<(u8, &str, &str)> = BTreeSet::new();
        for contents in history.values() {
            for (db, keys) in (0..).zip(contents) {
                once.extend(keys.iter().map(|(key, text)| (db, key.as_str(), text.as_str())));
            }
        }
        for (db, key, text, lsn) in read_all(&disk, &options, rng.random_range(1..3)) {
            assert!(
                once.contains(&(db, key.as_str(), text.as_str())),
                "seed {seed}: {key} of {db} was never {text:?}, told at {lsn}; the log:\n{}",
                story(&disk, &options)
            );
            assert!(lsn <= durable, "seed {seed}: {key} of {db} at {lsn}, durable was {durable}");
            told += 1;
            collections += u64::from(text.contains(['=', ':', ',']));
        }
    }
    assert!(compactions > seeds && told > seeds && collections > seeds / 4, "{told}, {collections}");
}
