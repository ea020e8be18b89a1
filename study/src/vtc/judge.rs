//! Random histories of a store, with crashes: a start must find the model at the last block of the log, and
//! no durable block may come after that one.
//!
//! ```text
//!   put, delete, write, sync, a step of a compaction … crash: unsynced bytes are cut or torn ─► open
//!     │                                                                                          │ last
//!     └─► model: what was written up to that block ──────────────────────────────── the same? ◄──┘
//! ```
//!
//! All is done by one thread in an order that a seed decides, so a compaction stops at any of its steps.
//! `TARN_SEED=7` tries one seed alone. Stores without one of the rules of a [`Form`] must be rejected.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::device::copy_of;
use super::*;

const SEEDS: u64 = 150;
/// Seeds until a mutant must be rejected.
const SEEDS_OF_MUTANTS: u64 = 1000;
const STEPS: usize = 1500;

/// A write: the timestamp of its block, a key, and a value or none.
struct Written {
    timestamp: u64,
    key: u64,
    value: Option<Vec<u8>>,
}

type Model = BTreeMap<u64, Vec<u8>>;

fn model(history: &[Written]) -> Model {
    let mut model = Model::new();
    for written in history {
        match &written.value {
            Some(value) => model.insert(written.key, value.clone()),
            None => model.remove(&written.key),
        };
    }
    model
}

fn content<P: Positions>(store: &Store<P>) -> Model {
    let mut content = Model::new();
    store.for_each(|key, value| _ = content.insert(key, value.to_vec()));
    content
}

/// A directory in memory if there is one: a crash is simulated, so the device does not matter.
fn dir() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// Ends the store as a loss of power does: of what is not synced, a part is there, or torn.
fn crash<P: Positions>(store: Store<P>, rng: &mut StdRng) {
    for device in &store.devices {
        let device = device.lock().unwrap();
        let unsynced = device.written - device.synced;
        let kept = rng.random_range(0..=unsynced);
        let file = fs::OpenOptions::new().write(true).open(&device.path).unwrap();
        file.set_len(device.synced + kept).unwrap();
        if kept > 0 && rng.random_bool(0.3) {
            let zeros = vec![0; rng.random_range(1..=kept as usize)];
            let at = rng.random_range(0..=kept - zeros.len() as u64);
            file.write_all_at(&zeros, device.synced + at).unwrap();
        }
    }
}

/// Does what one of the steps of a history may be, but for the end of the store.
fn act<'s, P: Positions>(
    store: &'s Store<P>,
    compaction: &mut Option<Compaction<'s, P>>,
    keys: u64,
    history: &mut Vec<Written>,
    rng: &mut StdRng,
) {
    let file = rng.random_range(0..store.files());
    match rng.random_range(0..100) {
        0..30 => {
            let key = rng.random_range(0..keys);
            let value: Vec<u8> = (0..rng.random_range(0..30)).map(|_| rng.random()).collect();
            let timestamp = store.put(key, &value).unwrap();
            history.push(Written { timestamp, key, value: Some(value) });
        }
        30..42 => {
            let key = rng.random_range(0..keys);
            if let Some(timestamp) = store.delete(key).unwrap() {
                history.push(Written { timestamp, key, value: None });
            }
        }
        42..60 => _ = store.write(file, rng.random_range(1..4)).unwrap(),
        60..75 => store.sync(file).unwrap(),
        _ => match compaction {
            Some(running) => {
                if running.step().unwrap() == Step::Done {
                    *compaction = None;
                }
            }
            None => *compaction = Some(store.compact(file).unwrap()),
        },
    }
}

/// One history. Returns the complaint, if there is one, and counts compactions that were complete.
fn history<P: Positions>(seed: u64) -> Result<u64, String> {
    let (dir, mut rng) = (dir(), StdRng::seed_from_u64(seed));
    let dirs: Vec<_> =
        (0..rng.random_range(1..=3)).map(|number| dir.path().join(number.to_string())).collect();
    dirs.iter().for_each(|dir| fs::create_dir(dir).unwrap());
    let (block_bytes, entries) = (rng.random_range(1..200), rng.random_range(1..2000));
    let options = Options { block_bytes, entries, ..Options::new(dirs) };
    let keys = rng.random_range(1..60);
    let (mut written, mut compacted) = (Vec::new(), 0);
    let mut left = STEPS;
    while left > 0 {
        let store = Store::<P>::open(&options).unwrap();
        let last = store.durable();
        written.retain(|written: &Written| written.timestamp <= last);
        if content(&store) != model(&written) {
            return Err(format!("seed {seed}: a start finds another state than that of block {last}"));
        }
        let mut compaction = None;
        let steps = rng.random_range(1..left.clamp(2, 400));
        left = left.saturating_sub(steps);
        for _ in 0..steps {
            let was_running = compaction.is_some();
            act(&store, &mut compaction, keys, &mut written, &mut rng);
            compacted += u64::from(was_running && compaction.is_none());
        }
        if content(&store) != model(&written) {
            return Err(format!("seed {seed}: the store has another state than was written"));
        }
        let durable = store.durable();
        drop(compaction);
        crash(store, &mut rng);
        let found = Store::<P>::open(&options).unwrap().durable();
        if found < durable {
            return Err(format!("seed {seed}: block {durable} was durable, and the log ends with {found}"));
        }
    }
    Ok(compacted)
}

/// All seeds, or the one that is asked for.
fn seeds(count: u64) -> std::ops::Range<u64> {
    match std::env::var("TARN_SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..count,
    }
}

fn holds<P: Positions>() {
    let compacted =
        seeds(SEEDS).map(|seed| history::<P>(seed).unwrap_or_else(|why| panic!("{}: {why}", P::NAME)));
    println!("{}: {} compactions", P::NAME, compacted.sum::<u64>());
}

/// Some history ends with a complaint, of the judge or of an assertion in the store.
fn is_rejected<P: Positions>() {
    let complaint = |seed| {
        let ended = catch_unwind(AssertUnwindSafe(|| history::<P>(seed)));
        ended.map_or_else(|panic| panic.downcast::<String>().ok().map(|own| *own), Result::err)
    };
    let complaint = (0..SEEDS_OF_MUTANTS).find_map(complaint);
    println!("{}: {}", std::any::type_name::<P>(), complaint.expect("the mutant passes"));
}

#[test]
fn ordinals_find_what_was_written() {
    holds::<Ordinals>();
}

#[test]
fn lsns_find_what_was_written() {
    holds::<Lsns>();
}

/// A form without one rule.
macro_rules! mutants {
    ($($test:ident: $positions:ident without $rule:ident;)+) => {
        $(#[test]
        fn $test() {
            #[derive(Debug)]
            struct Mutant;
            impl Form for Mutant {
                const NAME: &'static str = stringify!($test);
                const $rule: bool = false;
            }
            is_rejected::<$positions<Mutant>>();
        })+
    };
}

mutants! {
    ordinals_that_do_not_defer_are_rejected: Ordinals without DEFERS;
    ordinals_that_defer_behind_the_walk_are_rejected: Ordinals without KNOWS_WALKED;
    ordinals_that_skip_an_entry_are_rejected: Ordinals without REMAPS_ALL;
    ordinals_that_do_not_wait_are_rejected: Ordinals without WAITS_UNTIL_DURABLE;
    ordinals_that_drop_a_delete_of_that_block_are_rejected: Ordinals without KEEPS_DELETES_OF_THAT_BLOCK;
    ordinals_that_drop_a_delete_early_are_rejected: Ordinals without REGARDS_ALL_FILES;
    lsns_that_do_not_wait_are_rejected: Lsns without WAITS_UNTIL_DURABLE;
    lsns_that_drop_a_delete_early_are_rejected: Lsns without REGARDS_ALL_FILES;
    lsns_that_clear_all_bits_are_rejected: Lsns without KEEPS_BITS;
}

#[test]
fn the_published_form_is_rejected() {
    is_rejected::<Ordinals<Published>>();
}

/// Writes and syncs what waits for the files.
fn flush<P: Positions>(store: &Store<P>) {
    for file in 0..store.files() {
        store.write(file, usize::MAX).unwrap();
        store.sync(file).unwrap();
    }
}

/// Ends a compaction, while others flush.
fn finish<P: Positions>(store: &Store<P>, mut compaction: Compaction<'_, P>) {
    while compaction.step().unwrap() != Step::Done {
        flush(store);
    }
}

/// Two files, each record in a block of its own, and a crash that loses what is not synced. Returns what is
/// found then.
fn played<P: Positions>(play: impl FnOnce(&Store<P>)) -> Model {
    let dir = dir();
    let options = Options { block_bytes: 1, ..Options::new(vec![dir.path().to_owned()]) };
    let store = Store::<P>::open(&options).unwrap();
    play(&store);
    for device in &store.devices {
        let device = device.lock().unwrap();
        fs::OpenOptions::new().write(true).open(&device.path).unwrap().set_len(device.synced).unwrap();
    }
    drop(store);
    content(&Store::<P>::open(&options).unwrap())
}

/// The new record is in a buffer, and the old one is gone.
fn replaced_and_not_durable<P: Positions>(store: &Store<P>) {
    store.put(1, b"old").unwrap();
    flush(store);
    store.put(1, b"new").unwrap();
    let mut compaction = store.compact(0).unwrap();
    (0..20).for_each(|_| _ = compaction.step().unwrap());
}

/// A key is deleted after the walk has seen its entry, and before the compaction ends.
fn deleted_behind_the_walk<P: Positions>(store: &Store<P>) {
    store.put(1, b"old").unwrap();
    flush(store);
    let mut compaction = store.compact(0).unwrap();
    // Settle, copy the block, end the copy, walk over the first shards.
    (0..3 + 4).for_each(|_| assert_eq!(compaction.step().unwrap(), Step::Part));
    store.delete(1).unwrap();
    finish(store, compaction);
    [0, 1, 1].into_iter().for_each(|file| finish(store, store.compact(file).unwrap()));
}

/// A key is deleted in the block in which a compaction of its file began.
fn deleted_as_it_began<P: Positions>(store: &Store<P>) {
    store.put(1, b"old").unwrap();
    flush(store);
    let compaction = store.compact(0).unwrap();
    store.delete(1).unwrap();
    finish(store, compaction);
    [1, 1].into_iter().for_each(|file| finish(store, store.compact(file).unwrap()));
}

#[test]
fn the_published_form_loses_a_key_whose_new_record_is_not_durable() {
    assert_eq!(played::<Ordinals<Published>>(replaced_and_not_durable), Model::new());
    let old = Model::from([(1, b"old".to_vec())]);
    assert_eq!(played::<Ordinals>(replaced_and_not_durable), old);
    assert_eq!(played::<Lsns>(replaced_and_not_durable), old);
}

#[test]
fn the_published_form_revives_a_key_that_is_deleted_behind_the_walk() {
    let old = Model::from([(1, b"old".to_vec())]);
    assert_eq!(played::<Ordinals<Published>>(deleted_behind_the_walk), old);
    assert_eq!(played::<Ordinals>(deleted_behind_the_walk), Model::new());
}

#[test]
fn the_published_form_revives_a_key_that_is_deleted_as_a_compaction_begins() {
    let old = Model::from([(1, b"old".to_vec())]);
    assert_eq!(played::<Ordinals<Published>>(deleted_as_it_began), old);
    assert_eq!(played::<Ordinals>(deleted_as_it_began), Model::new());
    assert_eq!(played::<Lsns>(deleted_as_it_began), Model::new());
}

#[test]
fn a_file_is_due_when_both_thresholds_are_reached() {
    played::<Ordinals>(|store| {
        (0..4).for_each(|key| _ = store.put(key, b"").unwrap());
        assert_eq!(store.due(1, 0.1), None);
        // The records of the keys 0 and 2 are in file 0, that of key 1 in file 1.
        [0, 2, 1].into_iter().for_each(|key| _ = store.put(key, b"").unwrap());
        assert_eq!((store.records_of(0), store.records_of(1)), ((4, 2), (3, 1)));
        assert_eq!(store.due(1, 0.1), Some(0));
        assert_eq!((store.due(3, 0.1), store.due(1, 0.6)), (None, None));
    });
}

#[test]
fn a_block_that_is_being_written_is_waited_for() {
    played::<Ordinals>(|store| {
        store.put(1, b"old").unwrap();
        // As a thread does that flushes, and is not done.
        assert!(store.lock_log().take_block(0).is_some());
        let mut compaction = store.compact(0).unwrap();
        assert_eq!(compaction.step().unwrap(), Step::Waits);
    });
}

#[test]
fn one_file_is_compacted_at_a_time() {
    played::<Lsns>(|store| {
        let first = store.compact(0).unwrap();
        assert!(matches!(store.compact(1), Err(VtcError::Busy)));
        finish(store, first);
        finish(store, store.compact(1).unwrap());
        // Without its end the bits belong to no file.
        drop(store.compact(0).unwrap());
        assert!(matches!(store.put(1, b""), Err(VtcError::Failed)));
    });
}

#[test]
fn a_file_that_is_damaged_is_refused() {
    let dir = dir();
    let options = Options { block_bytes: 1, ..Options::new(vec![dir.path().to_owned()]) };
    let path = options.file(0);
    let damage = |at| {
        let file = fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };
    let store = Store::<Lsns>::open(&options).unwrap();
    store.put(1, b"value").unwrap();
    flush(&store);
    damage(30);
    let mut compaction = store.compact(0).unwrap();
    let end = (0..3).find_map(|_| compaction.step().err());
    assert_eq!(end.unwrap().to_string(), format!("{} is damaged: a block is torn", path.display()));
    drop(compaction);
    drop(store);
    damage(9);
    let end = Store::<Lsns>::open(&options).unwrap_err();
    assert_eq!(end.to_string(), format!("{} is damaged: its header does not fit", path.display()));
}

#[test]
fn a_log_that_lacks_a_file_is_refused_and_left_as_it_is() {
    let dir = dir();
    let options = Options { block_bytes: 1, ..Options::new(vec![dir.path().to_owned()]) };
    let store = Store::<Lsns>::open(&options).unwrap();
    for key in 0..4 {
        store.put(key, b"value").unwrap();
        flush(&store);
    }
    drop(store);
    let (missing, away) = (options.file(0), dir.path().join("away"));
    fs::rename(&missing, &away).unwrap();
    let end = Store::<Lsns>::open(&options).unwrap_err().to_string();
    let what = "it is missing, and other files of the log have records";
    assert_eq!(end, format!("{} is damaged: {what}", missing.display()));
    fs::rename(&away, &missing).unwrap();
    let store = Store::<Lsns>::open(&options).unwrap();
    assert_eq!(content(&store).len(), 4);
    // A file that nothing is left in is not one of a log that begins.
    for key in 0..4 {
        store.delete(key).unwrap();
        flush(&store);
    }
    (0..store.files()).chain(0..store.files()).for_each(|file| {
        store.compact(file).unwrap().run().unwrap();
    });
    drop(store);
    fs::remove_file(&missing).unwrap();
    assert!(Store::<Lsns>::open(&options).is_err());
}

#[test]
fn a_crash_while_a_log_begins_leaves_one_that_opens() {
    let dir = dir();
    let options = Options::new(vec![dir.path().to_owned()]);
    drop(Store::<Lsns>::open(&options).unwrap());
    // The second file did not get its name.
    let second = options.file(1);
    fs::rename(&second, copy_of(&second)).unwrap();
    fs::OpenOptions::new().write(true).open(copy_of(&second)).unwrap().set_len(3).unwrap();
    Store::<Lsns>::open(&options).unwrap().put(1, b"value").unwrap();
}

/// A writer, flushers and a compactor on threads of their own, then a start.
fn runs_on_threads<P: Positions + Sync>() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options { block_bytes: 1 << 18, entries: 3000, ..Options::new(vec![dir.path().to_owned()]) };
    let store = Store::<P>::open(&options).unwrap();
    let (mut expected, is_over) = (Model::new(), AtomicBool::new(false));
    let (store_ref, is_over_ref) = (&store, &is_over);
    let compacted = std::thread::scope(|scope| {
        for file in 0..store.files() {
            scope.spawn(move || while store_ref.flush(file).unwrap() {});
        }
        let compactor = scope.spawn(move || {
            let mut rounds = Vec::new();
            while !is_over_ref.load(Ordering::Relaxed) {
                match store_ref.due(100, 0.3) {
                    Some(file) => rounds.push(store_ref.compact(file).unwrap().run().unwrap()),
                    None => std::thread::yield_now(),
                }
            }
            rounds
        });
        let mut rng = StdRng::seed_from_u64(1);
        for number in 0..30_000_u64 {
            let key = rng.random_range(0..3000);
            if rng.random_bool(0.2) {
                assert_eq!(store.delete(key).unwrap().is_some(), expected.remove(&key).is_some());
            } else {
                // Long enough for blocks to be on their way to a file when its compaction begins.
                let value = number.to_le_bytes().repeat(100);
                store.put(key, &value).unwrap();
                expected.insert(key, value);
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let compacted = compactor.join().unwrap();
        store.close();
        compacted
    });
    assert!(compacted.iter().any(|done| done.dropped > 0), "{compacted:?}");
    assert!(content(&store) == expected, "{}: in memory", P::NAME);
    let (use_before, durable) = (store.memory_use(), store.durable());
    assert_eq!(use_before.positions, expected.len() * 8);
    let records: Vec<_> = (0..store.files()).map(|file| store.records_of(file)).collect();
    drop(store);
    let store = Store::<P>::open(&options).unwrap();
    assert!(content(&store) == expected && store.durable() == durable, "{}: from the files", P::NAME);
    // A start sets the same bits as the store had set: no record is forgotten, and none is taken for another.
    let found: Vec<_> = (0..store.files()).map(|file| store.records_of(file)).collect();
    assert_eq!(found, records, "{}", P::NAME);
}

#[test]
fn ordinals_run_on_threads() {
    runs_on_threads::<Ordinals>();
}

#[test]
fn lsns_run_on_threads() {
    runs_on_threads::<Lsns>();
}

#[test]
fn a_log_that_has_failed_makes_nothing_durable() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::<Lsns>::open(&Options::new(vec![dir.path().to_owned()])).unwrap();
    let too_long = store.put(1, &vec![0; (256 << 20) + 1]).unwrap_err();
    assert_eq!(too_long.to_string(), "the value has 268435457 bytes: a record has 268435456 at most");
    store.put(1, b"one").unwrap();
    store.close();
    for file in 0..store.files() {
        store.write(file, usize::MAX).unwrap();
    }
    // As a thread whose file could not be written says.
    store.fail();
    for file in 0..store.files() {
        assert!(matches!(store.sync(file), Err(VtcError::Failed)));
        assert!(matches!(store.write(file, 1), Err(VtcError::Failed)));
    }
    assert_eq!(store.durable(), 0);
}
