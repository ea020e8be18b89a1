//! Tests that the records of dropped block ranges stay bounded by the blocks that remain, not by all that
//! ever were. After a start the same files record them.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

use super::blocks::Blocks;
use crate::io::{Disk, DiskError, DiskResult, SimDisk, SimOptions, Tap, TappedFile};
use crate::log::block::{BlockHeader, seal};
use crate::log::condensed::Table;
use crate::log::format::{
    BLOCK_ALIGN_BYTES, BLOCK_CONDENSED, BLOCK_HEADER_BYTES, BLOCK_TRAILER_BYTES, FILE_HEADER_BYTES,
    put_varint,
};
use crate::log::handle::begin;
use crate::log::open::reader::Reader;
use crate::log::voids::Voids;
use crate::log::write::pipeline::Pipeline;
use crate::log::{
    Appender, ClosedFile, CompactionError, Group, Keeper, Log, LogError, LogOptions, OpenError, Sizes,
    SyncMode,
};
use crate::record::{Change, Lsn, Write};

const DIRECTORIES: usize = 4;
/// The limit for a file without records: its header, a last block, and voids that end where it ends.
const BYTES_A_FILE: u64 = 1_000;
/// The limit for a record that is alone in its block, with the void before it.
const BYTES_A_RECORD: u64 = 200;

/// Keeps these records.
struct Keep<'l>(&'l [Lsn]);

impl Keeper for Keep<'_> {
    fn settle(&mut self, log: &Appender, lsn: Lsn) -> Result<(), LogError> {
        write(&log.pipeline, 0);
        log.pipeline.sync_all();
        if log.pipeline.durable.lsn() >= lsn { Ok(()) } else { Err(LogError::Closed) }
    }

    fn needs(&mut self, lsn: Lsn, _: &Write<'_>) -> bool {
        self.0.binary_search(&lsn).is_ok()
    }

    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

fn options() -> LogOptions {
    let directories = (0..DIRECTORIES).map(|index| PathBuf::from(format!("/log{index}"))).collect();
    let sizes = Sizes::SMALL;
    LogOptions { mode: SyncMode::No, file_bytes: 60_000, sizes, ..LogOptions::new(directories) }
}

/// Opens the log and reads it; the threads of the log are left out.
fn open(disk: &SimDisk) -> (Arc<Pipeline>, Vec<Lsn>) {
    let mut reader = Log::open(Arc::new(disk.clone()), options()).unwrap();
    let lsns = lsns_of(&mut reader);
    (Arc::new(begin(reader.finish().unwrap()).unwrap().0), lsns)
}

fn lsns_of(reader: &mut Reader) -> Vec<Lsn> {
    let mut lsns = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        lsns.extend(block.records().map(|record| record.unwrap().lsn));
    }
    lsns
}

/// Writes what was appended as one block.
fn write(pipeline: &Arc<Pipeline>, lane: usize) {
    if pipeline.active.lock().lanes[lane].next.is_none() {
        assert!(pipeline.prepare(lane));
    }
    let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0);
    taken.into_iter().for_each(|taken| pipeline.write_alone(taken));
}

/// Writes so many blocks, each to any directory, and keeps of their records `live` at most; the files are
/// closed then.
fn grow(disk: &SimDisk, rng: &mut SmallRng, blocks: u64, live: usize, kept: &mut Vec<Lsn>) {
    let (pipeline, found) = open(disk);
    assert_eq!(found, *kept);
    let appender = Appender { pipeline: pipeline.clone() };
    let mut lsns = Vec::new();
    for _ in 0..blocks {
        let mut group = Group::new();
        for _ in 0..rng.random_range(1..3) {
            let change = Change::Put { value: b"value"[..].into(), expiry: None };
            group.push(&Write::Key { db: 0, key: b"key"[..].into(), change });
        }
        lsns.push(appender.append(&group).unwrap());
        write(&pipeline, rng.random_range(0..DIRECTORIES));
    }
    lsns.shuffle(rng);
    lsns.truncate(live);
    kept.append(&mut lsns);
    kept.sort_unstable();
    pipeline.close().unwrap();
}

/// Compacts all files, in any order; with `joins` some that follow each other become one.
fn round(pipeline: &Arc<Pipeline>, rng: &mut SmallRng, kept: &[Lsn], joins: bool) {
    let appender = Appender { pipeline: pipeline.clone() };
    let mut sets: Vec<Vec<ClosedFile>> = Vec::new();
    for file in appender.closed_files() {
        match sets.last_mut() {
            Some(set) if joins && set[set.len() - 1].is_followed_by(&file) && rng.random_bool(0.7) => {
                set.push(file);
            }
            _ => sets.push(vec![file]),
        }
    }
    sets.shuffle(rng);
    for set in sets {
        appender.compact(&set, Lsn::ZERO, Lsn::ZERO, &mut Keep(kept)).unwrap();
    }
}

fn bytes_of(pipeline: &Pipeline) -> (u64, u64) {
    let closed = pipeline.closed.lock();
    (closed.iter().map(ClosedFile::bytes).sum(), closed.len() as u64)
}

fn voids_of(disk: &SimDisk) -> Voids {
    let mut reader = Log::read(Arc::new(disk.clone()), options()).unwrap();
    lsns_of(&mut reader);
    reader.finish().unwrap().voids
}

#[test]
fn what_is_said_of_blocks_that_are_gone_is_bounded_by_what_is_left() {
    for seed in 0..30 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, SimOptions::default());
        let mut kept = Vec::new();
        for life in 0..3 {
            grow(&disk, &mut rng, 3_000, 20, &mut kept);
            let (pipeline, found) = open(&disk);
            assert_eq!(found.iter().filter(|lsn| kept.contains(lsn)).count(), kept.len());
            round(&pipeline, &mut rng, &kept, true);
            round(&pipeline, &mut rng, &kept, false);
            let (bytes, files) = bytes_of(&pipeline);
            let live = kept.len() as u64;
            let bound = files * BYTES_A_FILE + live * BYTES_A_RECORD;
            let what = format!("seed {seed}, life {life}: {bytes} bytes of {files} files, {live} records");
            assert!(bytes <= bound, "{what}");
            let runs = pipeline.voids.lock().len() as u64;
            assert!(runs <= live + files, "{what}, {runs} runs");
            pipeline.close().unwrap();
            assert_eq!(voids_of(&disk).len() as u64, runs, "{what}: a start finds the same");
            // Whatever is dropped of the rest.
            kept.retain(|_| rng.random_bool(0.7));
            let (pipeline, _) = open(&disk);
            round(&pipeline, &mut rng, &kept, true);
            pipeline.close().unwrap();
        }
        assert_eq!(open(&disk).1, kept, "seed {seed}");
    }
}

/// Writes a file again as it would have been before tables told of blocks of other directories.
fn make_older(disk: &SimDisk, file: &ClosedFile) {
    let source = disk.open(file.path()).unwrap();
    let bytes = disk.contents(file.path()).unwrap();
    let mut older = bytes[..FILE_HEADER_BYTES].to_vec();
    let mut blocks = Blocks::new(&*source, file);
    while let Some((header, mut rest)) = blocks.next().unwrap() {
        let Table { own, voids, .. } = Table::of(&header, &mut rest).unwrap();
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        for number in [own.to - own.from, own.lsns, voids.len() as u64] {
            put_varint(&mut block, number);
        }
        let mut next = voids.first().map_or(0, |void| void.blocks.from);
        if next > 0 {
            put_varint(&mut block, own.from - next);
        }
        for void in voids.iter().map(|void| void.blocks) {
            for number in [void.from - next, void.to - void.from, void.lsns] {
                put_varint(&mut block, number);
            }
            next = void.to + 1;
        }
        block.extend_from_slice(rest);
        let length = (block.len() + BLOCK_TRAILER_BYTES).next_multiple_of(BLOCK_ALIGN_BYTES) as u64;
        seal(&mut block, BlockHeader { flags: BLOCK_CONDENSED, length, ..header });
        older.append(&mut block);
    }
    disk.remove(file.path()).unwrap();
    let file = disk.create(file.path()).unwrap();
    file.write_all_at(&older, 0).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn a_log_of_before_is_read_and_forgets_its_voids() {
    for seed in 0..10 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, SimOptions::default());
        let mut kept = Vec::new();
        grow(&disk, &mut rng, 6_000, 20, &mut kept);
        let (pipeline, _) = open(&disk);
        let appender = Appender { pipeline: pipeline.clone() };
        for file in appender.closed_files() {
            // Nothing is known of others.
            *pipeline.voids.lock() = Voids::default();
            appender.compact(&[file], Lsn::ZERO, Lsn::ZERO, &mut Keep(&kept)).unwrap();
        }
        let files = appender.closed_files();
        pipeline.close().unwrap();
        files.iter().for_each(|file| make_older(&disk, file));
        let older = files.iter().map(|file| disk.contents(file.path()).unwrap().len()).sum::<usize>();
        for life in 0..3 {
            let (pipeline, found) = open(&disk);
            assert_eq!(found, kept, "seed {seed}, life {life}");
            let runs = pipeline.voids.lock().len();
            let (_, files) = bytes_of(&pipeline);
            assert!(runs as u64 <= 20 + files, "seed {seed}, life {life}: {runs} runs");
            round(&pipeline, &mut rng, &kept, false);
            pipeline.close().unwrap();
        }
        let (pipeline, found) = open(&disk);
        assert_eq!(found, kept, "seed {seed}");
        let (bytes, files) = bytes_of(&pipeline);
        let bound = files * BYTES_A_FILE + 20 * BYTES_A_RECORD;
        assert!(bytes <= bound && older as u64 > bound, "seed {seed}: {bytes} bytes, {older} before");
    }
}

/// Reads a log of which something is damaged or cannot be read, on a checkpoint with all up to `cut`: its
/// records behind that, and the newest.
fn read_covered(disk: &SimDisk, cut: Lsn) -> Result<(Vec<Lsn>, Lsn), OpenError> {
    let mut reader = Log::read(Arc::new(disk.clone()), options())?;
    reader.cover(cut);
    let mut lsns = Vec::new();
    while let Some(block) = reader.next_block()? {
        lsns.extend(block.records().map(|record| record.unwrap().lsn).filter(|lsn| *lsn > cut));
    }
    Ok((lsns, reader.last()))
}

#[test]
fn what_cannot_be_read_among_voids_never_ends_the_log_early() {
    let (mut passed, mut refused) = ([0, 0], [0, 0]);
    for seed in 0..60 {
        let is_older = seed % 2 == 0;
        let mut rng = SmallRng::seed_from_u64(seed);
        let disk = SimDisk::new(seed, SimOptions::default());
        let mut kept = Vec::new();
        grow(&disk, &mut rng, 600, 80, &mut kept);
        let (pipeline, _) = open(&disk);
        if is_older {
            let appender = Appender { pipeline: pipeline.clone() };
            for file in appender.closed_files() {
                *pipeline.voids.lock() = Voids::default();
                appender.compact(&[file], Lsn::ZERO, Lsn::ZERO, &mut Keep(&kept)).unwrap();
            }
            let files = appender.closed_files();
            pipeline.close().unwrap();
            files.iter().for_each(|file| make_older(&disk, file));
        } else {
            round(&pipeline, &mut rng, &kept, true);
            pipeline.close().unwrap();
        }
        // Behind them are blocks of which nothing was dropped.
        let mut all = kept.clone();
        grow(&disk, &mut rng, 40, 40, &mut all);
        let (whole, last) = read_covered(&disk, Lsn::ZERO).unwrap();
        let files: Vec<PathBuf> = disk.paths();
        let logs = files.iter().filter(|path| path.extension().is_some_and(|name| name == "tarnlog"));
        let logs: Vec<&PathBuf> = logs.collect();
        for _ in 0..60 {
            let path = logs[rng.random_range(0..logs.len())];
            let length = disk.contents(path).unwrap().len() as u64;
            let start = if rng.random_bool(0.1) { 0 } else { rng.random_range(0..length) };
            let bad = start..start + rng.random_range(1..2_000);
            disk.set_options(SimOptions {
                bad_bytes: vec![(path.clone(), bad.clone())],
                ..SimOptions::default()
            });
            // With a checkpoint that has nearly all there is something to go on with.
            let cut =
                Lsn(last.0
                    - if rng.random() { rng.random_range(0..40) } else { rng.random_range(0..=last.0) });
            let outcome = read_covered(&disk, cut);
            disk.set_options(SimOptions::default());
            match outcome {
                Ok((lsns, found)) => {
                    let what = format!("seed {seed}, {bad:?} of {}, cut {cut}", path.display());
                    assert_eq!(found, last, "{what}: the log ends early");
                    assert!(lsns.iter().eq(whole.iter().filter(|lsn| **lsn > cut)), "{what}");
                    passed[usize::from(is_older)] += 1;
                }
                Err(_) => refused[usize::from(is_older)] += 1,
            }
        }
    }
    println!("newer, older: {passed:?} passed, {refused:?} refused");
    assert!(passed.iter().chain(&refused).all(|count| *count > 20), "{passed:?} passed, {refused:?} refused");
}

/// Counts how often a file is read, and gives nothing.
#[derive(Debug, Default)]
struct Dying {
    reads: AtomicU64,
}

impl Tap for Dying {
    fn before_read(&self, path: &Path) -> DiskResult<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        Err(DiskError::new("read", path, std::io::Error::other("a test")))
    }
}

#[test]
fn a_file_of_a_device_that_is_gone_is_not_tried_for_ever() {
    let disk = SimDisk::new(1, SimOptions::default());
    let mut rng = SmallRng::seed_from_u64(1);
    grow(&disk, &mut rng, 3_000, 0, &mut Vec::new());
    let (pipeline, _) = open(&disk);
    let closed = (Appender { pipeline }).closed_files();
    let file = closed.iter().max_by_key(|file| file.bytes()).unwrap();
    assert!(file.bytes() > 100 * Sizes::SMALL.skipped_bytes as u64);
    let dying = Arc::new(Dying::default());
    let gone = TappedFile::new(disk.open(file.path()).unwrap(), dying.clone());
    let mut blocks = Blocks::new(&gone, file).sized(&Sizes::SMALL);
    let mut damages = 0;
    while let Err(error) = blocks.next() {
        let (_, up_to) = blocks.pass_any(error, Lsn(7));
        assert_eq!(up_to, Lsn(7), "all of the file may have gone");
        damages += 1;
    }
    let reads = dying.reads.load(Ordering::SeqCst);
    assert!(damages == 1 && reads <= 17, "{damages} damages, {reads} reads");
}

#[test]
fn a_block_that_a_device_has_put_elsewhere_is_damage() {
    let mut found = 0;
    for seed in 0..20 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let mut rng = SmallRng::seed_from_u64(seed);
        grow(&disk, &mut rng, 100, 0, &mut Vec::new());
        let (pipeline, _) = open(&disk);
        let log = Appender { pipeline };
        let file = log.closed_files().into_iter().max_by_key(ClosedFile::bytes).unwrap();
        let source = disk.open(file.path()).unwrap();
        let mut places = Vec::new();
        let mut blocks = Blocks::new(&*source, &file);
        while let Some((header, _)) = blocks.next().unwrap() {
            places.push((blocks.offset - header.length, header.length));
        }
        let (from, to) = (rng.random_range(0..places.len()), rng.random_range(0..places.len()));
        if from == to || places[from].1 != places[to].1 {
            continue;
        }
        let bytes = disk.contents(file.path()).unwrap();
        let block = &bytes[places[from].0 as usize..][..places[from].1 as usize];
        source.write_all_at(block, places[to].0).unwrap();
        let outcome = log.compact(std::slice::from_ref(&file), Lsn::ZERO, Lsn::ZERO, &mut Keep(&[]));
        assert!(matches!(outcome, Err(CompactionError::Uncovered { .. })), "seed {seed}: {outcome:?}");
        found += 1;
    }
    assert!(found > 3, "{found} found");
}
