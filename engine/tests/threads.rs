//! Several threads write, each to keys of its own, while files are compacted and checkpoints taken, calls of
//! the disk overlap and fail, and the machine dies: a start finds of each key what its thread wrote last up
//! to the last record that came back, and all that was acknowledged.
//!
//! The order in which threads act is the system's, so a seed does not tell the same story twice.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::Engine;
use tarn_engine::KeyHash;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Clock, Crash, Fault, SimDisk, SimOptions, SystemClock};
use tarn_engine::log::{Group, Log, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Lsn, Write};
use tarn_engine::session::Access;

use histories::{NOW, Store, contents_of, options, seed_count};

const WRITERS: usize = 3;
const KEYS_EACH: usize = 3;
const MEMBERS: u32 = 400;
const LIFE_MAX: Duration = Duration::from_secs(2);
const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };

/// A key's members with their scores, of a sorted set; or one without a name, of a string. Empty: it is gone.
type State = BTreeMap<String, u32>;
/// The writes of a thread: its last record, the key, and the key's value then.
type Written = Vec<(Lsn, String, State)>;

fn put(engine: &Engine, key: &str, changes: Vec<Change<'static>>) -> Option<Lsn> {
    let key = key.as_bytes().to_vec();
    let session = engine.enter(0);
    let mut latched = session.latch_places(&[(0, KeyHash::of(&key))], Access::Write, NOW);
    let writes = changes.into_iter().map(|change| Write::Key { db: 0, key: key.clone().into(), change });
    let lsn = latched.commit(&Batch::from_iter(writes), &mut Group::new()).ok();
    latched.release();
    lsn
}

/// Changes a key of a thread, and notes what it holds then; says whether the log took it.
fn change(engine: &Engine, writer: usize, rng: &mut SmallRng, written: &mut Written) -> bool {
    let number = rng.random_range(0..KEYS_EACH);
    let key = format!("w{writer}:{number}");
    let (mut state, mut changes) = (State::new(), Vec::new());
    if number == 0 {
        let before = written.iter().rev().find(|(_, other, _)| *other == key);
        state = before.map(|(.., state)| state.clone()).unwrap_or_default();
        if rng.random_bool(0.02) && !state.is_empty() {
            state.clear();
            changes.push(Change::Delete);
        } else {
            for _ in 0..if rng.random_bool(0.1) { 100 } else { 1 } {
                let (member, score) = (rng.random_range(0..MEMBERS), rng.random_range(0..100));
                let member = format!("member{member}");
                let name = member.clone().into_bytes().into();
                changes.push(Change::ZSetPut { member: name, score: f64::from(score) });
                state.insert(member, score);
            }
        }
    } else {
        let value: u32 = rng.random();
        changes.push(Change::Put { value: value.to_string().into_bytes().into(), expiry: None });
        state.insert(String::new(), value);
    }
    let Some(lsn) = put(engine, &key, changes) else { return false };
    written.push((lsn, key, state));
    true
}

/// All keys of a thread, as `contents_of` shows them.
fn shown(written: &Written) -> BTreeMap<String, String> {
    let mut shown = BTreeMap::new();
    for (_, key, state) in written {
        let mut all: Vec<String> = state
            .iter()
            .map(
                |(name, number)| {
                    if name.is_empty() { number.to_string() } else { format!("{name}:{number}") }
                },
            )
            .collect();
        all.sort();
        if all.is_empty() {
            shown.remove(key);
        } else {
            shown.insert(key.clone(), all.concat() + " None");
        }
    }
    shown
}

/// Compacts a file, or some that follow each other.
fn compact_any(engine: &Arc<Engine>, log: &Log, rng: &mut SmallRng) {
    let files = log.appender().closed_files();
    if files.is_empty() {
        return;
    }
    let first = rng.random_range(0..files.len());
    let mut end = first + 1;
    while end < files.len() && files[end - 1].is_followed_by(&files[end]) && rng.random_bool(0.5) {
        end += 1;
    }
    // Whatever the disk refused, all is as it was.
    let _ = engine.compactor().compact_files(engine.store(), &files[first..end]);
}

fn any_faults(rng: &mut SmallRng) -> SimOptions {
    let mut faults = SimOptions { overlaps: true, drops_unsynced: rng.random(), ..SimOptions::default() };
    if rng.random_bool(0.5) {
        faults.faults_per_mille = Fault::ALL.into_iter().map(|fault| (fault, 10)).collect();
    }
    faults
}

fn live(seed: u64) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let options =
        LogOptions { mode: [SyncMode::Always, SyncMode::EverySec][seed as usize % 2], ..options(&mut rng) };
    let mut disk = SimDisk::new(seed, SimOptions::default());
    let mut all_written: Vec<Written> = vec![Vec::new(); WRITERS];
    let mut acknowledged = Lsn::ZERO;
    for life in 0..3 {
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/data")).unwrap();
        let store = Store::open_on(&disk, &options, Some(&checkpoints))
            .unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"));
        assert!(
            store.last >= acknowledged,
            "seed {seed}, life {life}: {acknowledged} is lost, {} is there",
            store.last
        );
        // What did not come back never was.
        all_written.iter_mut().for_each(|written| written.retain(|(lsn, ..)| *lsn <= store.last));
        let expected: BTreeMap<String, String> = all_written.iter().flat_map(shown).collect();
        let found: BTreeMap<String, String> = contents_of(&store.engine).swap_remove(0).into_iter().collect();
        assert_eq!(found, expected, "seed {seed}, life {life}, at {}", store.last);
        disk.set_options(any_faults(&mut rng));
        let (commits, ends) = (AtomicU64::new(0), AtomicBool::new(false));
        let enough = rng.random_range(50..400);
        let (crash, seeds) = (if rng.random() { Crash::Kill } else { Crash::PowerLoss }, rng.random::<u64>());
        let left = thread::scope(|scope| {
            for (writer, written) in all_written.iter_mut().enumerate() {
                let (engine, commits, ends) = (&*store.engine, &commits, &ends);
                let mut rng = SmallRng::seed_from_u64(seeds ^ writer as u64);
                scope.spawn(move || {
                    while !ends.load(Ordering::SeqCst) {
                        if change(engine, writer, &mut rng, written) {
                            commits.fetch_add(1, Ordering::SeqCst);
                        } else {
                            thread::yield_now();
                        }
                    }
                });
            }
            let (engine, log, checkpoints, ends) = (&store.engine, &store.log, &checkpoints, &ends);
            let mut rng = SmallRng::seed_from_u64(!seeds);
            scope.spawn(move || {
                while !ends.load(Ordering::SeqCst) {
                    compact_any(engine, log, &mut rng);
                    if rng.random_bool(0.2) {
                        let mode =
                            [CheckpointMode::Full, CheckpointMode::Incremental][rng.random_range(0..2)];
                        let _ = checkpoints.take(&**engine, mode, FAST, NOW);
                        let cut = checkpoints.current().map(|checkpoint| checkpoint.cut);
                        engine.compactor().checkpoint_ended(cut);
                    }
                    thread::yield_now();
                }
            });
            // A log that has failed takes nothing for a second, or longer.
            let clock = SystemClock::new();
            while commits.load(Ordering::SeqCst) < enough && clock.monotonic() < LIFE_MAX {
                thread::yield_now();
            }
            acknowledged = acknowledged.max(store.log.durable().lsn());
            let left = disk.crash(crash, seeds, SimOptions::default());
            ends.store(true, Ordering::SeqCst);
            left
        });
        drop(checkpoints);
        drop(store);
        disk = left;
    }
}

#[test]
fn what_threads_wrote_comes_back_whenever_the_machine_dies() {
    tarn_engine::io::seeds(seed_count() / 8).for_each(live);
}
