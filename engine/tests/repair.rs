//! Damaged logs: the start refuses, a repair keeps everything before the damage and saves the rest, and the
//! start works again; also when the repair is killed at any call.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tarn_engine::OpenError;
use tarn_engine::io::{Crash, Disk, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions};
use tarn_engine::record::{Change, Lsn, Write};
use tarn_engine::recovery::{self, Opened, Progress};
use tarn_engine::repair::{Repair, check};

/// Records of a log, by now many blocks in several files and epochs.
const RECORDS: u64 = 120;
const EPOCHS: u64 = 3;

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn directories(count: usize) -> Vec<PathBuf> {
    (0..count).map(|index| PathBuf::from(format!("/log{index}"))).collect()
}

fn open(disk: &SimDisk, count: usize) -> Result<Opened, OpenError> {
    let mut options = LogOptions::new(directories(count));
    options.file_bytes = 2 << 10;
    recovery::open(Arc::new(disk.clone()), options, None, 16, 2, &Progress::default())
}

fn begin(disk: &SimDisk, count: usize) -> Result<Repair, OpenError> {
    Repair::begin(&(Arc::new(disk.clone()) as Arc<dyn Disk>), &directories(count), 2)
}

fn append(log: &Log, change: Change<'_>) {
    let mut group = Group::new();
    let key = log.appender().last().0.to_le_bytes().to_vec();
    group.push(&Write::Key { db: 0, key: key.into(), change });
    log.appender().append(&group).unwrap();
}

/// A block as it stands in a file; `docs/format/log.md` has the places.
struct Place {
    path: PathBuf,
    offset: usize,
    sequence: u64,
    /// Records in the log before it.
    before: u64,
}

/// The files of a log in so many directories, and its blocks in order.
fn whole_log(count: usize) -> (Files, Vec<Place>) {
    let disk = SimDisk::new(1, SimOptions::default());
    for _ in 0..EPOCHS {
        let log = open(&disk, count).unwrap().log;
        for number in 0..RECORDS / EPOCHS {
            append(&log, Change::Put { value: vec![7; 100].into(), expiry: None });
            if number % 3 == 0 {
                log.sync().unwrap();
            }
        }
        log.close().unwrap();
    }
    let mut reader = Log::examine(Arc::new(disk.clone()), &directories(count), true).unwrap();
    let survey = reader.survey().unwrap();
    assert!(survey.damage.is_empty() && survey.recovered.last == Lsn(RECORDS));
    let records: u64 = survey.files.iter().map(|file| file.records).sum();
    assert_eq!((records, survey.lost.bytes), (RECORDS, 0));
    let files = files_of(&disk);
    let blocks = blocks_of(&files);
    (files, blocks)
}

fn blocks_of(files: &Files) -> Vec<Place> {
    let mut blocks = Vec::new();
    for (path, bytes) in files.iter().filter(|(path, _)| is_log(path)) {
        let mut offset = 512;
        while bytes.get(offset..offset + 8) == Some(b"\xF5TarnBk\n") {
            let u64_at = |at: usize| u64::from_le_bytes(*bytes[offset + at..].first_chunk().unwrap());
            let (sequence, before) = (u64_at(16), u64_at(32) - 1);
            blocks.push(Place { path: path.clone(), offset, sequence, before });
            offset += u64_at(48) as usize;
        }
    }
    blocks.sort_by_key(|block| block.sequence);
    assert!(blocks.iter().zip(1..).all(|(block, sequence)| block.sequence == sequence));
    blocks
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|name| name == "tarnlog")
}

fn files_of(disk: &SimDisk) -> Files {
    loop {
        let contents = |path: PathBuf| disk.contents(&path).map(|bytes| (path, bytes));
        // A file may get its name between the look at the names and that at the bytes.
        if let Some(files) = disk.paths().into_iter().map(contents).collect() {
            return files;
        }
    }
}

/// A disk that has these files durably.
fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(2, SimOptions::default());
    for (path, bytes) in files {
        let file = disk.create(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }
    disk
}

/// Damages to a log at these blocks, each with the number of records before it.
fn damages(files: &Files, blocks: &[Place], at: &[usize]) -> Vec<(String, Files, u64)> {
    let mut damages = Vec::new();
    for block in at.iter().map(|at| &blocks[*at]) {
        let path = &block.path;
        let mut flipped = files.clone();
        flipped.get_mut(path).unwrap()[block.offset + 20] ^= 4;
        damages.push((format!("a bit of block {} is flipped", block.sequence), flipped, block.before));
        let before = blocks.iter().find(|other| other.path == *path).unwrap().before;
        let mut headless = files.clone();
        headless.get_mut(path).unwrap()[60] ^= 4;
        damages.push((format!("{} has a spoilt header", path.display()), headless, before));
        if *path != blocks.last().unwrap().path {
            let mut fewer = files.clone();
            fewer.remove(path);
            damages.push((format!("{} is missing", path.display()), fewer, before));
        }
    }
    let mut nameless = files.clone();
    nameless.get_mut(Path::new("/log0/tarnlog.id")).unwrap()[20] ^= 4;
    damages.push(("an identity is spoilt".to_string(), nameless, RECORDS));
    damages
}

fn assert_refused(disk: &SimDisk, count: usize, what: &str) {
    let before = files_of(disk);
    let Err(error) = open(disk, count) else { panic!("{what}: the start is not refused") };
    let given: String = directories(count).iter().map(|path| format!(" {}", path.display())).collect();
    assert!(error.to_string().ends_with(&format!("tarn log repair --truncate{given}")), "{what}: {error}");
    let logs = |files: Files| -> Files { files.into_iter().filter(|(path, _)| is_log(path)).collect() };
    assert!(logs(before) == logs(files_of(disk)), "{what}: a refused log is as it was");
}

/// A start finds the first `records` records and goes on.
fn assert_opens(disk: &SimDisk, count: usize, records: u64, what: &str) {
    for more in 0..2 {
        let opened = open(disk, count).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(opened.recovered.last, Lsn(records + more), "{what}");
        assert_eq!(opened.tables[0].len() as u64, records + more, "{what}");
        append(&opened.log, Change::Put { value: vec![8; 9].into(), expiry: None });
        opened.log.close().unwrap();
    }
}

/// Asserts that bytes that are gone from a file have been put beside it.
fn assert_nothing_is_lost(disk: &SimDisk, damaged: &Files, what: &str) {
    let now = files_of(disk);
    for (path, bytes) in damaged {
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let name = path.file_name().unwrap();
        let saved = now.iter().any(|(other, saved)| {
            let is_saved = other.ancestors().nth(2) == path.parent() && other.file_name() == Some(name);
            is_saved && saved == bytes
        });
        let is_there = now.get(path).is_some_and(|now| now.starts_with(&bytes[..used]));
        // A file that holds nothing but its header is removed by every start.
        assert!(saved || is_there || used <= 512, "{what}: {} is lost", path.display());
    }
}

#[test]
fn a_damaged_log_is_refused_and_repaired_up_to_the_damage() {
    for count in [1, 3] {
        let (files, blocks) = whole_log(count);
        let at = [0, 7, blocks.len() / 2, blocks.len() - 2];
        for (what, damaged, before) in damages(&files, &blocks, &at) {
            let what = format!("{count} directories, {what}");
            let disk = disk_of(&damaged);
            assert_refused(&disk, count, &what);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let untouched = disk_of(&damaged);
            let survey = check(&shared, &directories(count), 2).unwrap();
            assert!(!survey.damage.is_empty() && survey.recovered.last == Lsn(before), "{what}: {survey:?}");
            let repair = begin(&disk, count).unwrap();
            assert!(repair.is_needed(), "{what}");
            let later = repair.survey.lost;
            let logs = |disk: &SimDisk| files_of(disk).into_iter().filter(|(_, bytes)| !bytes.is_empty());
            assert!(logs(&disk).eq(logs(&untouched)), "{what}: looking changes nothing");
            let folders = repair.truncate().unwrap();
            assert!(later.bytes > 0 || before == RECORDS, "{what}: {later:?}");
            let is_missing = what.ends_with("is missing");
            assert!(!folders.is_empty() || is_missing, "{what}");
            assert_nothing_is_lost(&disk, &damaged, &what);
            let survey = check(&shared, &directories(count), 2).unwrap();
            assert!(survey.damage.is_empty() && survey.lost.bytes == 0, "{what}: {survey:?}");
            assert!(!begin(&disk, count).unwrap().is_needed(), "{what}");
            assert_opens(&disk, count, before, &what);
        }
    }
}

#[test]
fn a_repair_that_is_killed_at_any_call_is_run_again() {
    let mut interrupted = 0;
    for count in [1, 3] {
        let (files, blocks) = whole_log(count);
        for (what, damaged, before) in damages(&files, &blocks, &[blocks.len() / 3]) {
            for call in 1.. {
                let crash = if call % 2 == 0 { Crash::Kill } else { Crash::PowerLoss };
                let what = format!("{count} directories, {what}, {crash:?} at call {call}");
                let disk = disk_of(&damaged);
                let crash_at = Some(disk.calls() + call);
                disk.set_options(SimOptions { crash_at, ..SimOptions::default() });
                let completed = begin(&disk, count).and_then(Repair::truncate).is_ok();
                let disk = disk.crash(crash, call, SimOptions::default());
                // Somebody starts the server in between.
                let is_under_repair = disk.paths().iter().any(|path| path.ends_with("tarnlog.repair"));
                match (is_under_repair, open(&disk, count)) {
                    (true, Err(OpenError::UnderRepair { .. })) => interrupted += 1,
                    (true, _) => panic!("{what}: what is not saved yet could be cut off"),
                    (false, _) => assert_nothing_is_lost(&disk, &damaged, &what),
                }
                let repair = begin(&disk, count).unwrap_or_else(|error| panic!("{what}: {error}"));
                // Without the first file nobody knows where the log began.
                let recovered = &repair.survey.recovered;
                let kept = if recovered.blocks > 0 { recovered.last } else { Lsn::ZERO };
                assert_eq!(kept, Lsn(before), "{what}");
                if repair.is_needed() {
                    repair.truncate().unwrap();
                } else {
                    drop(repair);
                }
                assert_nothing_is_lost(&disk, &damaged, &what);
                assert_opens(&disk, count, before, &what);
                if completed {
                    break;
                }
            }
        }
    }
    assert!(interrupted > 0);
}

#[test]
fn a_log_in_use_and_one_that_is_not_there_are_not_repaired() {
    let disk = disk_of(&whole_log(1).0);
    let opened = open(&disk, 1).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    for refusal in [begin(&disk, 1).err(), check(&shared, &directories(1), 1).err()] {
        assert!(matches!(refusal, Some(OpenError::InUse(_))), "{refusal:?}");
    }
    opened.log.close().unwrap();
    assert!(check(&shared, &directories(1), 1).unwrap().damage.is_empty());
    let Err(error) = begin(&disk, 2) else { panic!("/log1 is no log") };
    assert_eq!(error.to_string(), "/log1: there is no log in it");
}

#[test]
fn a_record_that_does_not_fit_refuses_the_start_until_it_is_cut_off() {
    let element = || b"element"[..].into();
    let misfits = [
        Change::ListPut { index: 0, element: element() },
        Change::ListInsert { index: 1, element: element() },
        Change::ListRemove { index: 0 },
        Change::ListPop { side: tarn_engine::record::Side::Back, count: 1 },
        Change::Expire(Some(7)),
    ];
    for misfit in misfits {
        let disk = SimDisk::new(1, SimOptions::default());
        let log = open(&disk, 1).unwrap().log;
        let put = || Change::Put { value: b"value"[..].into(), expiry: None };
        append(&log, put());
        log.sync().unwrap();
        append(&log, misfit.clone());
        log.sync().unwrap();
        append(&log, put());
        log.close().unwrap();
        let Err(error) = open(&disk, 1) else { panic!("{misfit:?} fits") };
        let OpenError::Damaged(damage) = &error else { panic!("{error}") };
        assert_eq!(damage.path, Path::new("/log0/0000000001.tarnlog"));
        assert_eq!(damage.what, "record 2 in this block does not fit what the records before it made");
        assert_refused(&disk, 1, "a misfit");
        let repair = begin(&disk, 1).unwrap();
        assert_eq!((repair.survey.recovered.last, repair.survey.lost.records), (Lsn(1), 2));
        assert_eq!(repair.survey.damage[0].offset, damage.offset);
        repair.truncate().unwrap();
        assert_opens(&disk, 1, 1, "a misfit");
    }
}
