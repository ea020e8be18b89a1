//! The log as its owner sees it: with its threads, on the real file system, and on one that fails.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::io::{Crash, Disk, Fault, OsDisk, SimDisk, SimOptions};
use crate::record::{Change, Lsn, Write};

/// A thread that has not ended by then never will.
const END_LIMIT: Duration = Duration::from_secs(60);

fn put(number: u64) -> Write<'static> {
    let value = format!("value of {number}").into_bytes().into();
    Write::Key {
        db: 0,
        key: number.to_le_bytes().to_vec().into(),
        change: Change::Put { value, expiry: None },
    }
}

fn one(number: u64) -> Group {
    let mut group = Group::new();
    group.push(&put(number));
    group
}

/// Opens a log of which record `n` is `put(n)`, checks that, and says how many there are.
fn open(disk: &Arc<dyn Disk>, options: &LogOptions) -> Result<(u64, Log, Recovered), OpenError> {
    let mut reader = Log::open(disk.clone(), options.clone())?;
    let mut next = 1;
    while let Some(block) = reader.next_block()? {
        for record in block.records() {
            let record = record.map_err(|error| block.not_understood(error))?;
            assert_eq!((record.lsn, record.write), (Lsn(next), put(next)));
            next += 1;
        }
    }
    let progress = reader.progress();
    assert_eq!(progress.bytes_read(), progress.bytes_total);
    let (log, recovered) = reader.into_log()?;
    assert_eq!(recovered.last, Lsn(next - 1));
    Ok((next - 1, log, recovered))
}

fn os() -> Arc<dyn Disk> {
    Arc::new(OsDisk)
}

fn directories(place: &tempfile::TempDir, count: usize) -> Vec<PathBuf> {
    (0..count).map(|index| place.path().join(format!("log{index}"))).collect()
}

fn append(log: &Log, numbers: std::ops::RangeInclusive<u64>) {
    let appender = log.appender();
    for number in numbers {
        assert_eq!(appender.append(&one(number)).unwrap(), Lsn(number));
    }
}

#[test]
fn what_was_appended_is_read_back_after_a_close() {
    for (mode, count) in [(SyncMode::Always, 1), (SyncMode::EverySec, 3), (SyncMode::No, 2)] {
        let place = tempfile::tempdir().unwrap();
        let mut options = LogOptions::new(directories(&place, count));
        options.mode = mode;
        options.file_bytes = 64 << 10;
        let mut expected = 0;
        for round in 0..4 {
            let (back, log, recovered) = open(&os(), &options).unwrap();
            assert_eq!((back, recovered.bytes_cut), (expected, 0), "{mode:?}, round {round}");
            assert_eq!((recovered.closed, recovered.created), (round > 0, round == 0));
            let mut group = Group::new();
            for step in 0..2_000 {
                group.clear();
                let first = expected + 1;
                for _ in 0..1 + step % 3 {
                    expected += 1;
                    group.push(&put(expected));
                }
                assert_eq!(log.appender().append(&group).unwrap(), Lsn(first));
            }
            assert_eq!(log.sync().unwrap(), Lsn(expected));
            assert_eq!(log.durable().lsn(), Lsn(expected));
            log.close().unwrap();
        }
    }
}

#[test]
fn what_was_dropped_without_a_close_is_there_all_the_same() {
    let place = tempfile::tempdir().unwrap();
    let options = LogOptions::new(directories(&place, 2));
    let (_, log, _) = open(&os(), &options).unwrap();
    append(&log, 1..=5_000);
    drop(log);
    let (back, _, recovered) = open(&os(), &options).unwrap();
    assert_eq!((back, recovered.closed), (5_000, false));
}

#[test]
fn a_log_that_is_dropped_while_records_gather_ends() {
    let (_, disk, options) = simulated(SyncMode::No);
    for number in 1..=300 {
        let (back, log, _) = open(&disk, &options).unwrap();
        assert_eq!(back, number - 1);
        append(&log, number..=number);
        // One flight lets records gather, the others wait for it; all have to hear of the end.
        let (sender, ended) = mpsc::channel();
        thread::spawn(move || {
            drop(log);
            let _ = sender.send(());
        });
        ended.recv_timeout(END_LIMIT).unwrap_or_else(|_| panic!("log {number} does not end"));
    }
}

#[test]
fn under_always_the_watermark_follows_and_wakes_those_who_wait() {
    let place = tempfile::tempdir().unwrap();
    let mut options = LogOptions::new(directories(&place, 2));
    options.mode = SyncMode::Always;
    let (_, log, _) = open(&os(), &options).unwrap();
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    log.durable().subscribe(Box::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let next = AtomicU64::new(1);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let appender = log.appender();
                    let lsn = appender.append(&one(next.fetch_add(1, Ordering::SeqCst))).unwrap();
                    log.durable().wait_for(lsn).unwrap();
                    assert!(log.durable().lsn() >= lsn);
                }
            });
        }
    });
    assert_eq!(log.durable().lsn(), Lsn(160));
    assert!(woken.load(Ordering::SeqCst) > 0);
}

#[test]
fn the_mode_can_change_while_records_come() {
    let place = tempfile::tempdir().unwrap();
    let mut options = LogOptions::new(directories(&place, 2));
    options.mode = SyncMode::No;
    let (_, log, _) = open(&os(), &options).unwrap();
    let mut last = 0;
    for mode in [SyncMode::Always, SyncMode::EverySec, SyncMode::No, SyncMode::Always] {
        append(&log, last + 1..=last + 100);
        log.set_mode(mode);
        append(&log, last + 101..=last + 200);
        last += 200;
        assert_eq!(log.mode(), mode);
    }
    log.durable().wait_for(Lsn(last)).unwrap();
    log.close().unwrap();
    assert_eq!(open(&os(), &options).unwrap().0, last);
}

#[test]
fn a_record_larger_than_a_file_is_logged() {
    let place = tempfile::tempdir().unwrap();
    let mut options = LogOptions::new(directories(&place, 1));
    options.file_bytes = 64 << 10;
    let big = Write::Key {
        db: 5,
        key: b"big"[..].into(),
        change: Change::Put { value: vec![7; 9 << 20].into(), expiry: Some(1) },
    };
    let (_, log, _) = open(&os(), &options).unwrap();
    append(&log, 1..=10);
    log.sync().unwrap();
    let mut group = Group::new();
    group.push(&big);
    log.appender().append(&group).unwrap();
    log.close().unwrap();
    let mut reader = Log::open(os(), options).unwrap();
    let mut last = None;
    while let Some(block) = reader.next_block().unwrap() {
        last = block.records().last().map(|record| record.unwrap().write == big).or(last);
    }
    assert_eq!(last, Some(true));
}

#[test]
fn without_a_log_records_are_numbered_and_count_as_durable() {
    let (appender, durable) = Appender::unlogged(Lsn(7));
    let mut group = one(1);
    group.push(&put(2));
    assert_eq!(appender.append(&group).unwrap(), Lsn(7));
    assert_eq!(appender.append(&group).unwrap(), Lsn(9));
    assert_eq!(appender.last(), Lsn(10));
    assert!(durable.lsn() >= Lsn(10) && appender.has_room());
    durable.wait_for(Lsn(10)).unwrap();
}

#[test]
fn a_log_that_is_open_is_not_opened_again() {
    let place = tempfile::tempdir().unwrap();
    let mut options = LogOptions::new(directories(&place, 1));
    let (_, log, _) = open(&os(), &options).unwrap();
    let error = open(&os(), &options).unwrap_err();
    assert!(error.to_string().ends_with("log0 is in use by another server"), "{error}");
    drop(log);
    let other_name = place.path().join(".").join("log0/.");
    options.directories.push(other_name.clone());
    let error = open(&os(), &options).unwrap_err();
    assert!(matches!(&error, OpenError::NamedTwice(path) if *path == other_name), "{error}");
    options.directories[1] = place.path().join("log1");
    std::fs::create_dir(&options.directories[1]).unwrap();
    let held = os().lock(&options.directories[1].join("tarnlog.lock")).unwrap();
    let error = open(&os(), &options).unwrap_err();
    assert!(held.is_some() && matches!(error, OpenError::InUse(_)), "{error}");
    options.directories.pop();
    open(&os(), &options).unwrap();
}

#[test]
fn a_directory_that_joined_while_its_name_could_not_be_synced_is_not_missed_later() {
    let options = |count: usize| LogOptions::new((0..count).map(|n| format!("/log{n}").into()).collect());
    for call in 1.. {
        let disk = SimDisk::new(call, SimOptions::default());
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        open(&shared, &options(1)).unwrap().1.close().unwrap();
        let faults_per_mille = vec![(Fault::SyncDirError, 1000)];
        disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
        assert!(open(&shared, &options(2)).is_err(), "a name cannot be synced");
        disk.set_options(SimOptions { crash_at: Some(disk.calls() + call), ..SimOptions::default() });
        let joined = open(&shared, &options(2)).and_then(|(_, log, _)| Ok(log.close()?));
        let left: Arc<dyn Disk> = Arc::new(disk.crash(Crash::PowerLoss, call, SimOptions::default()));
        open(&left, &options(2)).unwrap_or_else(|error| panic!("crashed at call {call}: {error}"));
        if joined.is_ok() {
            break;
        }
    }
}

#[test]
fn directories_may_be_added_but_not_left_out_or_mixed_up() {
    let place = tempfile::tempdir().unwrap();
    let all = directories(&place, 4);
    let with = |paths: &[usize]| LogOptions::new(paths.iter().map(|index| all[*index].clone()).collect());
    let (_, log, _) = open(&os(), &with(&[0])).unwrap();
    append(&log, 1..=100);
    log.close().unwrap();
    let (back, log, _) = open(&os(), &with(&[1, 0, 2])).unwrap();
    assert_eq!(back, 100);
    append(&log, 101..=3_000);
    log.close().unwrap();
    assert_eq!(open(&os(), &with(&[2, 1, 0])).unwrap().0, 3_000);
    for (given, expected) in [
        (&[0, 1][..], "log0: it is one of 3 directories of a log, and only 2 are given"),
        (&[0, 2], "it is one of 3 directories of a log, and number 1 is not given"),
        (&[1], "number 0 is not given"),
    ] {
        let error = open(&os(), &with(given)).unwrap_err().to_string();
        assert!(error.contains(&format!("{expected}; to go on with fewer, ")), "{error}");
    }
    for given in [&[0, 3][..], &[0, 3, 2]] {
        let error = open(&os(), &with(given)).unwrap_err().to_string();
        assert!(error.contains("log3: there is no log in it, and "), "{error}");
        assert!(error.contains(" is one of 3 directories of a log: restore it"), "{error}");
    }
    open(&os(), &with(&[3])).unwrap();
    let error = open(&os(), &with(&[0, 1, 2, 3])).unwrap_err().to_string();
    assert!(error.contains("it belongs to another log than"), "{error}");
    fs::remove_file(all[3].join("tarnlog.id")).unwrap();
    let error = open(&os(), &with(&[3])).unwrap_err().to_string();
    assert!(error.contains("tarnlog.id at byte 0: it is missing where there are log files"), "{error}");
}

/// A log of three closed epochs in one directory, and its first file.
fn three_epochs(place: &tempfile::TempDir) -> (LogOptions, PathBuf) {
    let options = LogOptions::new(directories(place, 1));
    for round in 0..3 {
        let (back, log, _) = open(&os(), &options).unwrap();
        assert_eq!(back, round * 10);
        append(&log, back + 1..=back + 10);
        log.close().unwrap();
    }
    let first = options.directories[0].join("0000000001.tarnlog");
    (options, first)
}

#[test]
fn damage_is_refused_with_place_and_remedy() {
    let place = tempfile::tempdir().unwrap();
    let (options, first) = three_epochs(&place);
    let mut bytes = fs::read(&first).unwrap();
    bytes[600] ^= 1;
    fs::write(&first, bytes).unwrap();
    let error = open(&os(), &options).unwrap_err();
    let OpenError::Damaged(damage) = &error else { panic!("{error}") };
    assert_eq!((&damage.path, damage.offset), (&first, 512));
    let directory = options.directories[0].display();
    let remedy = format!("or give up everything from there on with: tarn log repair --truncate {directory}");
    assert!(error.to_string().contains("0000000001.tarnlog at byte 512: a block's checksum"), "{error}");
    assert!(error.to_string().ends_with(&remedy), "{error}");
}

#[test]
fn a_missing_file_or_a_spoilt_header_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let (options, first) = three_epochs(&place);
    let bytes = fs::read(&first).unwrap();
    fs::remove_file(&first).unwrap();
    let error = open(&os(), &options).unwrap_err().to_string();
    assert!(error.contains("(block 1 is missing, "), "{error}");
    fs::write(&first, &bytes[..300]).unwrap();
    let error = open(&os(), &options).unwrap_err().to_string();
    assert!(error.contains("the file ends within its header"), "{error}");
    let mut spoilt = bytes.clone();
    spoilt[60] ^= 4;
    fs::write(&first, &spoilt).unwrap();
    let error = open(&os(), &options).unwrap_err().to_string();
    assert!(error.contains("at byte 0: the file's header is spoilt"), "{error}");
    fs::write(&first, &bytes).unwrap();
    fs::rename(&first, first.with_file_name("0000000009.tarnlog")).unwrap();
    let error = open(&os(), &options).unwrap_err().to_string();
    assert!(error.contains("is called 0000000009.tarnlog and has number 1"), "{error}");
}

#[test]
fn a_torn_tail_is_cut_off_and_counted() {
    let place = tempfile::tempdir().unwrap();
    let options = LogOptions::new(directories(&place, 1));
    let (_, log, _) = open(&os(), &options).unwrap();
    append(&log, 1..=10);
    drop(log);
    let file = options.directories[0].join("0000000001.tarnlog");
    let mut bytes = fs::read(&file).unwrap();
    bytes.extend_from_slice(&[9; 100]);
    fs::write(&file, bytes).unwrap();
    let (back, log, recovered) = open(&os(), &options).unwrap();
    assert_eq!((back, recovered.bytes_cut), (10, 100));
    assert_eq!(recovered.cut.unwrap().0, file);
    log.close().unwrap();
    assert_eq!(open(&os(), &options).unwrap().2.bytes_cut, 0);
}

/// A log with threads on a simulated disk.
fn simulated(mode: SyncMode) -> (SimDisk, Arc<dyn Disk>, LogOptions) {
    let sim = SimDisk::new(1, SimOptions::default());
    let mut options = LogOptions::new(vec!["/a".into(), "/b".into()]);
    options.mode = mode;
    options.file_bytes = 16 << 10;
    (sim.clone(), Arc::new(sim), options)
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        thread::sleep(Duration::from_millis(2));
    }
    panic!("it never came about that {what}");
}

#[test]
fn a_disk_that_fails_stops_appends_until_it_works_again() {
    for fault in [Fault::SyncError, Fault::WriteError] {
        let (sim, disk, options) = simulated(SyncMode::Always);
        let (_, log, _) = open(&disk, &options).unwrap();
        append(&log, 1..=50);
        log.durable().wait_for(Lsn(50)).unwrap();
        sim.set_options(SimOptions { faults_per_mille: vec![(fault, 1000)], ..SimOptions::default() });
        let mut appended = 50;
        wait_until("an append is refused", || {
            log.status().failed.is_some() || {
                let _ = log.appender().append(&one(log.appender().last().0 + 1));
                false
            }
        });
        appended += log.appender().last().0 - appended;
        let error = log.appender().append(&one(appended + 1)).unwrap_err().to_string();
        assert!(error.starts_with("the log cannot be written: cannot "), "{error}");
        assert!(log.durable().lsn() >= Lsn(50) && log.status().failures > 0);
        sim.set_options(SimOptions::default());
        wait_until("appends are taken again", || log.status().failed.is_none());
        append(&log, appended + 1..=appended + 50);
        log.durable().wait_for(Lsn(appended + 50)).unwrap();
        let next = sim.crash(Crash::PowerLoss, 3, SimOptions::default());
        drop(log);
        let (back, ..) = open(&(Arc::new(next) as Arc<dyn Disk>), &options).unwrap();
        assert_eq!(back, appended + 50, "{fault:?}");
    }
}

#[test]
fn a_full_disk_stops_appends_until_there_is_room() {
    let (sim, disk, options) = simulated(SyncMode::EverySec);
    let (_, log, _) = open(&disk, &options).unwrap();
    let capacity_bytes = Some(100_000);
    sim.set_options(SimOptions { capacity_bytes, ..SimOptions::default() });
    let mut appended = 0;
    wait_until("the disk is full", || {
        log.status().failed.is_some() || {
            let last = log.appender().last().0;
            (last + 1..last + 100).for_each(|number| drop(log.appender().append(&one(number))));
            false
        }
    });
    appended += log.appender().last().0;
    assert!(appended > 1_000);
    let (_, error) = log.status().failed.unwrap();
    let LogError::Failed(cause) = error else { panic!("{error}") };
    assert!(cause.is_full(), "{cause}");
    sim.set_options(SimOptions::default());
    wait_until("there is room", || log.status().failed.is_none());
    append(&log, appended + 1..=appended + 50);
    log.close().unwrap();
    assert_eq!(open(&disk, &options).unwrap().0, appended + 50);
}

#[test]
fn a_disk_that_cannot_follow_is_noticed_and_then_refused() {
    let (sim, disk, mut options) = simulated(SyncMode::No);
    options.backlog_bytes_limit = 4_000;
    let (_, log, _) = open(&disk, &options).unwrap();
    let freed = Arc::new(AtomicU64::new(0));
    let count = freed.clone();
    log.appender().subscribe_room(Box::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let appender = log.appender();
    let mut number = 0;
    // The flights are kept away from the buffer by the lock of the file system.
    sim.pause(|| {
        while appender.has_room() {
            appender.append(&one(number + 1)).unwrap();
            number += 1;
        }
        while appender.append(&one(number + 1)).is_ok() {
            number += 1;
        }
        assert!(appender.backlog_bytes() > 4_000);
        assert!(matches!(appender.append(&one(number + 1)), Err(LogError::Backlogged)));
    });
    wait_until("there is room again", || freed.load(Ordering::SeqCst) > 0);
    append(&log, number + 1..=number + 10);
    log.close().unwrap();
    assert_eq!(open(&disk, &options).unwrap().0, number + 10);
}

#[test]
fn a_file_is_made_ready_in_small_syncs() {
    let (sim, disk, mut options) = simulated(SyncMode::Always);
    options.file_bytes = 6 << 20;
    let (_, log, _) = open(&disk, &options).unwrap();
    // Closed at once, the log may never have made the second files.
    let second = |directory: &PathBuf| directory.join("0000000002.tarnlog");
    wait_until("each directory has a file ready", || {
        options.directories.iter().all(|directory| sim.contents(&second(directory)).is_some())
    });
    log.close().unwrap();
    for directory in &options.directories {
        assert_eq!(sim.contents(&second(directory)).unwrap().len(), 6 << 20);
    }
    assert!(sim.synced_bytes_max() <= 1 << 20, "{}", sim.synced_bytes_max());
}

#[test]
fn who_waits_for_room_hears_that_the_disk_has_failed() {
    let (sim, disk, mut options) = simulated(SyncMode::No);
    options.backlog_bytes_limit = 4_000;
    let (_, log, _) = open(&disk, &options).unwrap();
    sim.set_options(SimOptions {
        faults_per_mille: vec![(Fault::WriteError, 1000)],
        ..SimOptions::default()
    });
    let woken = Arc::new(AtomicU64::new(0));
    let count = woken.clone();
    log.appender().subscribe_room(Box::new(move || {
        count.fetch_add(1, Ordering::SeqCst);
    }));
    let appender = log.appender();
    let mut number = 0;
    sim.pause(|| {
        while appender.has_room() {
            number += 1;
            appender.append(&one(number)).unwrap();
        }
    });
    wait_until("the waker is called", || woken.load(Ordering::SeqCst) > 0);
    wait_until("the log has failed", || log.status().failed.is_some());
    assert!(appender.has_room(), "there is nothing to wait for");
    assert!(matches!(appender.append(&one(number + 1)), Err(LogError::Failed(_))));
}
