//! Damage in files of the log that are written to no more: where a checkpoint has what was there, a start
//! goes on, a compaction leaves the damage out, and nothing is lost or comes back; elsewhere both refuse.

#![allow(clippy::unwrap_used)]

mod histories;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::seq::IteratorRandom;
use rand::{Rng, SeedableRng};
use tarn_engine::OpenError;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Crash, Disk, SimDisk, SimOptions};
use tarn_engine::log::{LogOptions, SyncMode};
use tarn_engine::record::{Change, Lsn};
use tarn_engine::repair::{Places, Repair, check};
use tarn_engine::scrub::Scrubber;

use histories::*;

const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };
const FILE_HEADER: usize = 512;

fn checkpoints(disk: &SimDisk) -> Checkpoints {
    Checkpoints::open(Arc::new(disk.clone()), Path::new("/data")).unwrap()
}

fn take(store: &Store, checkpoints: &Checkpoints) {
    checkpoints.take(&*store.engine, CheckpointMode::Full, FAST, NOW).unwrap();
    store.engine.compactor().checkpoint_ended(checkpoints.current().map(|checkpoint| checkpoint.cut));
}

/// Lets go of a store, and the disk goes on after a loss of power.
fn lose_power(store: Store, disk: &SimDisk, seed: u64) -> SimDisk {
    let left = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
    drop(store);
    left
}

/// A block as it stands in a file; `docs/format/log.md` has the places.
#[derive(Clone, Debug)]
struct Place {
    path: PathBuf,
    offset: usize,
    length: usize,
    sequence: u64,
    first: Lsn,
    last: Lsn,
    is_empty: bool,
}

/// All whole blocks, in the order of their sequences.
fn blocks_of(disk: &SimDisk) -> Vec<Place> {
    let mut blocks = Vec::new();
    for path in disk.paths().into_iter().filter(|path| is_log(path)) {
        let Some(bytes) = disk.contents(&path) else { continue };
        let mut offset = FILE_HEADER;
        while bytes.get(offset..offset + 8) == Some(b"\xF5TarnBk\n") && bytes.len() >= offset + 64 {
            let u64_at = |at: usize| u64::from_le_bytes(*bytes[offset + at..].first_chunk().unwrap());
            let (sequence, first, length) = (u64_at(16), Lsn(u64_at(32)), u64_at(48) as usize);
            // A loss of power may have left the beginning of the header of a last one, and zeros behind it.
            if first == Lsn::ZERO || length == 0 {
                break;
            }
            let u32_at = |at: usize| u32::from_le_bytes(*bytes[offset + at..].first_chunk().unwrap());
            // A condensed one stands for records that are left out, too; so many begin its body's table.
            let records = match u32_at(44) & 4 {
                0 => u64::from(u32_at(40)),
                _ => varint_at(&body_of(&bytes[offset + 64..offset + length - 8], u32_at(44)), 1),
            };
            let (last, is_empty) = (Lsn(first.0 + records - 1), u32_at(40) == 0);
            blocks.push(Place { path: path.clone(), offset, length, sequence, first, last, is_empty });
            offset += length;
        }
    }
    blocks.sort_by_key(|block| block.sequence);
    blocks
}

/// The body of a block as it was before it was compressed.
fn body_of(body: &[u8], flags: u32) -> Vec<u8> {
    if flags & 32 == 0 {
        return body.to_vec();
    }
    let [raw, packed] = [0, 4].map(|at| u32::from_le_bytes(*body[at..].first_chunk().unwrap()) as usize);
    lz4_flex::block::decompress(&body[12..12 + packed], raw).unwrap()
}

/// One of the varints that follow each other in `bytes`.
fn varint_at(bytes: &[u8], index: usize) -> u64 {
    let bytes = bytes.split_inclusive(|byte| byte & 0x80 == 0).nth(index).unwrap();
    bytes.iter().rev().fold(0, |sum, byte| sum << 7 | u64::from(byte & 0x7F))
}

fn is_log(path: &Path) -> bool {
    let is_cut_off = path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("damaged-"));
    path.extension().is_some_and(|name| name == "tarnlog") && !is_cut_off
}

/// Does one of some damages to a block or its file; says which.
fn spoil(disk: &SimDisk, block: &Place, kind: u32) -> &'static str {
    let flip = |offset: usize| disk.spoil(&block.path, offset, |byte| byte ^ 4);
    match kind {
        0 => {
            flip(block.offset + 64 + (block.length - 72) / 2);
            "a bit of the body"
        }
        1 => {
            flip(block.offset + 20);
            "a bit of the header"
        }
        2 => {
            flip(60);
            "a bit of the file's header"
        }
        3 => {
            disk.remove(&block.path).unwrap();
            disk.sync_dir(block.path.parent().unwrap()).unwrap();
            "the file is gone"
        }
        // Short zeros up to a sector are taken for what a rescue leaves, where no record is missing.
        _ if block.is_empty && (block.offset + block.length).is_multiple_of(512) => {
            flip(block.offset + 20);
            "a bit of the header"
        }
        _ => {
            (0..block.length).for_each(|at| disk.spoil(&block.path, block.offset + at, |_| 0));
            "zeros"
        }
    }
}

/// A store that has lived, with its contents at each record.
struct Lived {
    options: LogOptions,
    history: BTreeMap<Lsn, Contents>,
}

impl Lived {
    fn note(&mut self, store: &Store, before: Lsn) {
        let found = contents_of(&store.engine);
        (before.0..=store.log.appender().last().0).for_each(|lsn| {
            self.history.insert(Lsn(lsn), found.clone());
        });
    }

    fn write(&mut self, store: &Store, rng: &mut SmallRng, steps: u32) {
        for _ in 0..steps {
            let before = store.log.appender().last();
            match rng.random_range(0..12) {
                0 => {
                    store.compact_any(rng);
                    self.note(store, before.after(1));
                }
                1 => store.log.sync().map(drop).unwrap(),
                _ => {
                    assert!(store.commit(rng));
                    self.history.insert(store.log.appender().last(), contents_of(&store.engine));
                }
            }
        }
        store.log.sync().unwrap();
    }

    fn open(&self, disk: &SimDisk) -> Result<(Store, Checkpoints), OpenError> {
        let checkpoints = checkpoints(disk);
        Store::open_on(disk, &self.options, Some(&checkpoints)).map(|store| (store, checkpoints))
    }

    fn assert_is_as_it_was(&self, store: &Store, what: &str) {
        let found = contents_of(&store.engine);
        assert_eq!(Some(&found), self.history.get(&store.last), "{what}, at {}", store.last);
    }
}

/// A life with a checkpoint in its middle; the disk, and the checkpoint's cut.
fn live(seed: u64, rng: &mut SmallRng) -> (Lived, SimDisk, Lsn) {
    let disk = SimDisk::new(seed, SimOptions::default());
    let mut lived = Lived { options: options(rng), history: BTreeMap::new() };
    lived.history.insert(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)]);
    let (store, checkpoints) = lived.open(&disk).unwrap();
    store.keys.set([KEYS, 1][seed as usize % 2]);
    lived.write(&store, rng, 120);
    take(&store, &checkpoints);
    let cut = checkpoints.current().unwrap().cut;
    lived.write(&store, rng, 60);
    drop(checkpoints);
    let disk = lose_power(store, &disk, seed);
    (lived, disk, cut)
}

#[test]
fn damage_before_the_checkpoints_cut_stops_no_start_and_takes_nothing_away() {
    let (mut covered, mut refused, mut left_out) = (0, 0, 0);
    for seed in tarn_engine::io::seeds(seed_count() / 2) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut lived, mut disk, cut) = live(seed, &mut rng);
        for life in 0..3 {
            let blocks = blocks_of(&disk);
            // What is damaged ends with this block or its file; what counts is the first record behind that.
            let kind = rng.random_range(0..5);
            let is_covered = |at: usize| {
                let ends = match kind {
                    2 | 3 => blocks.iter().rposition(|block| block.path == blocks[at].path).unwrap(),
                    _ => at,
                };
                blocks.get(ends + 1).is_some_and(|next| next.first.0 <= cut.0 + 1)
            };
            let mut at = rng.random_range(0..blocks.len());
            for _ in 0..if rng.random_bool(0.8) { 20 } else { 0 } {
                at = if is_covered(at) { at } else { rng.random_range(0..blocks.len()) };
            }
            let is_covered = is_covered(at);
            let is_last = matches!(kind, 2) && {
                let number = |path: &Path| (path.parent().unwrap().to_path_buf(), path.to_path_buf());
                let its = number(&blocks[at].path);
                !blocks.iter().any(|other| number(&other.path).0 == its.0 && number(&other.path).1 > its.1)
            };
            let what = spoil(&disk, &blocks[at], kind);
            let what = format!("seed {seed}, life {life}, {what} of {:?}, cut {cut}", blocks[at]);
            let opened = lived.open(&disk);
            let (store, checkpoints) = match opened {
                Ok(opened) => opened,
                Err(error) => {
                    assert!(!is_covered || is_last, "{what}: {error}");
                    refused += 1;
                    break;
                }
            };
            assert!(store.last >= cut, "{what}");
            lived.assert_is_as_it_was(&store, &what);
            covered += u64::from(is_covered);
            lived.history.split_off(&store.last.after(1));
            lived.write(&store, &mut rng, 20);
            let before = store.log.appender().last();
            // Whatever is damaged goes.
            for _ in 0..2 {
                for file in store.files() {
                    let compact = || {
                        store
                            .engine
                            .compactor()
                            .compact_files(store.engine.store(), std::slice::from_ref(&file))
                    };
                    // In its file alone, what was damaged may have been more.
                    let outcome = compact().or_else(|_| {
                        take(&store, &checkpoints);
                        compact()
                    });
                    left_out += outcome.unwrap_or_else(|error| panic!("{what}: {error}")).damage.len();
                }
            }
            lived.note(&store, before.after(1));
            store.log.sync().unwrap();
            drop(checkpoints);
            disk = lose_power(store, &disk, seed);
            let (store, checkpoints) = lived.open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            lived.assert_is_as_it_was(&store, &what);
            drop(checkpoints);
            disk = lose_power(store, &disk, seed);
        }
    }
    assert!(
        covered > seed_count() / 4 && refused > seed_count() / 16,
        "{covered} covered, {refused} refused"
    );
    assert!(left_out > 0, "{left_out} left out");
}

/// Puts a copy of a block in the place of another one.
fn put_copy(disk: &SimDisk, from: &Place, to: &Place) {
    let bytes = disk.contents(&from.path).unwrap()[from.offset..from.offset + from.length].to_vec();
    bytes.iter().enumerate().for_each(|(at, byte)| disk.spoil(&to.path, to.offset + at, |_| *byte));
}

#[test]
fn a_block_that_a_device_has_put_in_place_of_another_is_damage_of_that_place() {
    let (mut covered, mut refused, mut in_vain) = ([0, 0], 0, 0);
    for seed in tarn_engine::io::seeds(seed_count() * 2) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (mut lived, disk, cut) = live(seed, &mut rng);
        let blocks = blocks_of(&disk);
        let to = rng.random_range(0..blocks.len());
        let fits = |from: &usize| {
            let (from, to) = (&blocks[*from], &blocks[to]);
            from.path == to.path && from.length == to.length && from.offset != to.offset
        };
        let Some(from) = (0..blocks.len()).filter(fits).choose(&mut rng) else { continue };
        put_copy(&disk, &blocks[from], &blocks[to]);
        let what = format!("seed {seed}, {:?} in place of {:?}, cut {cut}", blocks[from], blocks[to]);
        // A copy of a later block is found before those in between.
        let next = if from > to { from } else { to + 1 };
        let is_covered = blocks.get(next).is_some_and(|next| next.first.0 <= cut.0 + 1);
        let (store, checkpoints) = match lived.open(&disk) {
            Ok(opened) => opened,
            Err(_) => {
                // Some that are covered are refused, too: where what is behind might be of another history.
                in_vain += u64::from(is_covered);
                refused += u64::from(!is_covered);
                continue;
            }
        };
        // Of an empty one nothing is missing; behind a later one, and before one that no other block says to
        // have been durable, the log may seem to end. Where blocks behind it are dropped, their ranges say
        // which of its records was the last.
        let ends = store.last < blocks[to].first.max(cut.after(1));
        assert!(blocks[to].last <= cut || blocks[to].is_empty || from > to || ends, "{what}");
        lived.assert_is_as_it_was(&store, &what);
        covered[usize::from(from > to)] += u64::from(is_covered);
        lived.history.split_off(&store.last.after(1));
        lived.write(&store, &mut rng, 20);
        let before = store.log.appender().last();
        take(&store, &checkpoints);
        lived.write(&store, &mut rng, 8);
        for file in store.files() {
            let outcome = store.engine.compactor().compact_files(store.engine.store(), &[file]);
            outcome.unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        lived.note(&store, before.after(1));
        store.log.sync().unwrap();
        drop(checkpoints);
        let disk = lose_power(store, &disk, seed);
        let (store, _checkpoints) = lived.open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        lived.assert_is_as_it_was(&store, &what);
    }
    println!("{covered:?} covered, {refused} refused, {in_vain} covered and refused");
    let many = seed_count() / 16;
    assert!(covered.iter().all(|count| *count > many) && refused > many, "{covered:?}, {refused} refused");
    assert!(in_vain <= many, "{in_vain} are refused although a checkpoint covers them");
}

#[test]
fn a_repair_keeps_what_is_whole_behind_damage_that_the_checkpoint_covers() {
    let (mut kept, mut cut_short) = (0, 0);
    for seed in tarn_engine::io::seeds(seed_count() / 4) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (lived, disk, cut) = live(seed, &mut rng);
        let blocks = blocks_of(&disk);
        let is_covered = |at: usize| blocks.get(at + 1).is_some_and(|next| next.first.0 <= cut.0 + 1);
        let old = (0..blocks.len()).filter(|at| is_covered(*at)).choose(&mut rng);
        // The last block may be one that nobody was told of.
        let new = (0..blocks.len() - 1).filter(|at| blocks[*at].first > cut).choose(&mut rng);
        let (Some(old), Some(new)) = (old, new) else { continue };
        let what = spoil(&disk, &blocks[old], 0);
        let what = format!("seed {seed}, {what} of {:?}", blocks[old]);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let places = || Places { log: &lived.options.directories, checkpoints: Some(Path::new("/data")) };
        let survey = check(&shared, places(), 1).unwrap();
        assert!(survey.damage.is_empty() && !survey.recovered.covered.is_empty(), "{what}: {survey:?}");
        // Who does not know of the checkpoint finds what he found before.
        assert!(!check(&shared, &lived.options.directories, 1).unwrap().damage.is_empty(), "{what}");
        spoil(&disk, &blocks[new], 0);
        if check(&shared, places(), 1).unwrap().damage.is_empty() {
            // What is cut off there is a torn tail.
            continue;
        }
        let repair = Repair::begin(&shared, places(), 1).unwrap();
        assert!(repair.is_needed());
        let last = repair.survey.recovered.last;
        repair.truncate().unwrap();
        if last < cut {
            // Nothing was left that says with which record the missing blocks up to the cut ended: all from
            // there on are cut off. A start uses the checkpoint alone if no log is left, else it refuses.
            match lived.open(&disk) {
                Ok((store, _)) => {
                    assert_eq!(store.last, cut, "{what}");
                    lived.assert_is_as_it_was(&store, &what);
                }
                Err(error) => assert!(error.to_string().contains("before the checkpoint"), "{what}: {error}"),
            }
            cut_short += 1;
            continue;
        }
        let (store, _) = lived.open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        // A condensed block may tell of blocks before it, which are cut off with it.
        assert!(store.last >= cut && store.last < blocks[new].first, "{what}: {}", store.last);
        kept += 1;
    }
    println!("{kept} repaired, {cut_short} cut before the end of the checkpoint");
    assert!(kept > seed_count() / 16 && cut_short < kept / 4, "{kept} repaired, {cut_short} cut short");
}

#[test]
fn a_running_store_leaves_damage_out_when_a_checkpoint_has_what_was_there() {
    let (mut healed, mut uncovered) = (0, 0);
    for seed in tarn_engine::io::seeds(seed_count() / 2) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, SimOptions::default());
        let mut lived = Lived { options: options(&mut rng), history: BTreeMap::new() };
        lived.history.insert(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)]);
        let (store, checkpoints) = lived.open(&disk).unwrap();
        store.keys.set([KEYS, 1][seed as usize % 2]);
        lived.write(&store, &mut rng, 120);
        if rng.random_bool(0.3) {
            take(&store, &checkpoints);
        }
        lived.write(&store, &mut rng, 20);
        let is_closed = |block: &Place| store.files().iter().any(|file| *file.path() == *block.path);
        let blocks: Vec<Place> = blocks_of(&disk).into_iter().filter(is_closed).collect();
        if blocks.is_empty() {
            continue;
        }
        let hit = blocks[rng.random_range(0..blocks.len())].clone();
        let what = spoil(&disk, &hit, [0, 1, 4][rng.random_range(0..3)]);
        let what = format!("seed {seed}, {what} of {hit:?}");
        let compact = || {
            let file = store.files().into_iter().find(|file| *file.path() == *hit.path);
            file.map(|file| store.engine.compactor().compact_files(store.engine.store(), &[file]))
        };
        let before = store.log.appender().last();
        if let Err(error) = compact().unwrap() {
            assert!(error.to_string().contains("is damaged in"), "{what}: {error}");
            uncovered += 1;
            lived.note(&store, before.after(1));
            take(&store, &checkpoints);
            // The end of the log must be told from a gap.
            lived.write(&store, &mut rng, 8);
            // It may have been compacted meanwhile, and have become one with the next.
            let compacted =
                compact().map(|compacted| compacted.unwrap_or_else(|error| panic!("{what}: {error}")));
            healed += u64::from(compacted.is_some_and(|compacted| !compacted.damage.is_empty()));
        }
        for file in store.files() {
            store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
        }
        lived.note(&store, before.after(1));
        lived.write(&store, &mut rng, 10);
        drop(checkpoints);
        let mut disk = lose_power(store, &disk, seed);
        for _ in 0..2 {
            let (store, checkpoints) = lived.open(&disk).unwrap_or_else(|error| panic!("{what}: {error}"));
            lived.assert_is_as_it_was(&store, &what);
            let before = store.log.appender().last();
            for file in store.files() {
                store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
            }
            lived.note(&store, before.after(1));
            drop(checkpoints);
            disk = lose_power(store, &disk, seed);
        }
    }
    assert!(
        uncovered > seed_count() / 8 && healed > seed_count() / 10,
        "{uncovered} uncovered, {healed} healed"
    );
}

#[test]
fn a_damaged_file_is_compacted_by_itself_behind_the_next_checkpoint() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    let disk = SimDisk::new(1, SimOptions::default());
    let taken = checkpoints(&disk);
    let store = Store::open_on(&disk, &options, Some(&taken)).unwrap();
    fill(&store, 6);
    let file = store.files()[2].clone();
    let block = blocks_of(&disk).into_iter().find(|block| *block.path == *file.path()).unwrap();
    spoil(&disk, &block, 0);
    let compactor = store.engine.compactor();
    compactor.compact_files(store.engine.store(), std::slice::from_ref(&file)).unwrap_err();
    let scrubber = Scrubber::default();
    scrubber.set_bytes_per_second(1 << 40);
    let told = RefCell::new(Vec::new());
    let tell = |what: &str| told.borrow_mut().push(what.to_owned());
    assert!(scrubber.pass(store.scrubbed(&taken), &tell));
    assert!(told.borrow()[0].contains("is damaged in /log/"), "{told:?}");
    assert!(scrubber.pass(store.scrubbed(&taken), &tell), "it is no news");
    let found = scrubber.status();
    assert_eq!((found.passes, found.damage, told.borrow().len()), (2, 1, 1), "{found:?}");
    let status = compactor.status();
    assert!(status.damage_wants_checkpoint && status.damaged.len() == 1, "{status:?}");
    while compactor.step(store.engine.store()) {}
    assert_eq!(compactor.status().damage_left_out, 0, "it waits for a checkpoint");
    take(&store, &taken);
    while compactor.step(store.engine.store()) {}
    let status = compactor.status();
    assert!(!status.damage_wants_checkpoint && status.damaged.is_empty(), "{status:?}");
    assert_eq!(status.damage_left_out, 1);
    assert!(scrubber.pass(store.scrubbed(&taken), &tell));
    assert_eq!(told.borrow().len(), 1, "{told:?}");
    drop(taken);
    let disk = lose_power(store, &disk, 1);
    let taken = checkpoints(&disk);
    let store = Store::open_on(&disk, &options, Some(&taken)).unwrap();
    assert_eq!(contents_of(&store.engine)[0].len(), 4);
}

#[test]
fn a_damaged_checkpoint_is_found_and_the_next_one_builds_on_nothing_of_it() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    let disk = SimDisk::new(1, SimOptions::default());
    let taken = checkpoints(&disk);
    let store = Store::open_on(&disk, &options, Some(&taken)).unwrap();
    commit(&store, "before", Change::Put { value: vec![b'x'; 100].into(), expiry: None });
    take(&store, &taken);
    let path = disk.paths().into_iter().find(|path| path.to_string_lossy().contains("checkpoint-")).unwrap();
    let middle = disk.contents(&path).unwrap().len() / 2;
    disk.spoil(&path, middle, |byte| byte ^ 4);
    let scrubber = Scrubber::default();
    scrubber.set_bytes_per_second(1 << 40);
    let told = RefCell::new(Vec::new());
    assert!(scrubber.pass(store.scrubbed(&taken), &|what| told.borrow_mut().push(what.to_owned())));
    assert!(told.borrow()[0].contains("the checkpoint is damaged in"), "{told:?}");
    assert!(scrubber.pass(store.scrubbed(&taken), &|what| told.borrow_mut().push(what.to_owned())));
    assert_eq!((told.borrow().len(), scrubber.status().damage), (1, 1), "it is no news");
    assert!(store.engine.compactor().status().damage_wants_checkpoint);
    commit(&store, "behind", Change::Put { value: b"y".to_vec().into(), expiry: None });
    taken.take(&*store.engine, CheckpointMode::Incremental, FAST, NOW).unwrap();
    store.engine.compactor().checkpoint_ended(taken.current().map(|checkpoint| checkpoint.cut));
    assert!(!store.engine.compactor().status().damage_wants_checkpoint);
    // One that is damaged unnoticed is read by the one that builds on it, which then reads the store instead.
    let path = disk.paths().into_iter().find(|path| path.to_string_lossy().contains("checkpoint-")).unwrap();
    let middle = disk.contents(&path).unwrap().len() / 2;
    disk.spoil(&path, middle, |byte| byte ^ 4);
    commit(&store, "last", Change::Put { value: b"z".to_vec().into(), expiry: None });
    taken.take(&*store.engine, CheckpointMode::Incremental, FAST, NOW).unwrap();
    drop(taken);
    let disk = lose_power(store, &disk, 1);
    let taken = checkpoints(&disk);
    let store = Store::open_on(&disk, &options, Some(&taken)).unwrap();
    assert_eq!(contents_of(&store.engine)[0].len(), 3);
}
