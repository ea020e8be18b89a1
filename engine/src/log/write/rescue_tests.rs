//! Tests disk-failure recovery that meets a second failure, or a disk that has dropped written bytes: on the
//! simulated disk, without the threads of the log.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::durable::Progress;
use super::flusher::Flight;
use super::pipeline::{Pipeline, Taken};
use super::rescue::Rescue;
use crate::io::{Crash, Disk, DiskResult, Fault, SimDisk, SimOptions, Tap, TappedDisk};
use crate::log::handle::begin;
use crate::log::open::reader::Reader;
use crate::log::{Appender, Group, Keeper, LogError, LogOptions, OpenError, Sizes, SyncMode};
use crate::record::{Change, Lsn, Write};

const KEPT_BYTES_MAX: usize = Sizes::SMALL.kept_bytes;

/// Needs nothing.
struct NeedsNothing;

impl Keeper for NeedsNothing {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        Ok(())
    }

    fn needs(&mut self, _: Lsn, _: &Write<'_>) -> bool {
        false
    }

    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

fn options(mode: SyncMode) -> LogOptions {
    let mut options = LogOptions::new(vec!["/a".into(), "/b".into()]);
    (options.mode, options.file_bytes, options.sizes) = (mode, 1 << 20, Sizes::SMALL);
    options
}

fn open(disk: &SimDisk, mode: SyncMode) -> Result<(Arc<Pipeline>, Lsn), OpenError> {
    open_on(Arc::new(disk.clone()), mode)
}

fn open_on(disk: Arc<dyn Disk>, mode: SyncMode) -> Result<(Arc<Pipeline>, Lsn), OpenError> {
    let mut reader = Reader::open(disk, options(mode))?;
    while reader.next_block()?.is_some() {}
    let finished = reader.finish()?;
    let last = finished.recovered.last;
    Ok((Arc::new(begin(finished)?.0), last))
}

/// Appends a record of so many bytes.
fn append(pipeline: &Arc<Pipeline>, bytes: usize) {
    let mut group = Group::new();
    let change = Change::Put { value: vec![7; bytes].into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".into(), change });
    Appender { pipeline: pipeline.clone() }.append(&group).unwrap();
}

/// Appends a record of so many bytes and takes it as a block of a directory.
fn take(pipeline: &Arc<Pipeline>, lane: usize, bytes: usize) -> Taken {
    append(pipeline, bytes);
    pipeline.take(&mut pipeline.active.lock(), lane, 0).unwrap()
}

fn flight(lane: usize) -> Flight {
    Flight { lane, handle: 0 }
}

/// Lets every call fail that a fault fits.
fn failing(faults: &[Fault]) -> SimOptions {
    let faults_per_mille = faults.iter().map(|fault| (*fault, 1000)).collect();
    SimOptions { faults_per_mille, ..SimOptions::default() }
}

#[test]
fn attempts_agree_about_where_the_new_epoch_begins() {
    for seed in 0..50 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let (pipeline, _) = open(&disk, SyncMode::Always).unwrap();
        pipeline.write_alone(take(&pipeline, 0, 10));
        let straggling = take(&pipeline, 0, 10);
        let (file, first) = (straggling.file.clone(), straggling.sequence);
        assert!(flight(0).write(&pipeline, straggling));
        let failed = take(&pipeline, 1, 10);
        let other = failed.file.clone();
        assert!(flight(1).write(&pipeline, failed));
        disk.set_options(failing(&[Fault::SyncError]));
        flight(1).sync(&pipeline, &other);
        assert!(pipeline.failed());
        // The name of the new file is there, and nobody knows whether it lasts.
        disk.set_options(failing(&[Fault::SyncDirError]));
        assert_eq!(pipeline.rescue(), Rescue::Failed);
        // Only now the sync of a block comes to its end that the new file has as well.
        disk.set_options(SimOptions::default());
        flight(0).sync_listed(&pipeline, &file, &[first]);
        assert_eq!(pipeline.durable.lsn(), Lsn(2));
        assert_eq!(pipeline.rescue(), Rescue::Done);
        assert_eq!(pipeline.durable.lsn(), Lsn(3));
        // Of the old file and the block in it nothing is left but what its header says.
        let log = Appender { pipeline: pipeline.clone() };
        let files = log.closed_files();
        log.compact(&files[..1], Lsn(3), Lsn::ZERO, &mut NeedsNothing).unwrap();
        for crash in [Crash::Kill, Crash::PowerLoss] {
            let disk = disk.crash(crash, seed, SimOptions::default());
            let opened = open(&disk, SyncMode::Always);
            let (_, last) = opened.unwrap_or_else(|error| panic!("seed {seed}, {crash:?}: {error}"));
            assert_eq!(last, Lsn(3), "seed {seed}, {crash:?}");
        }
    }
}

#[test]
fn attempts_that_fail_leave_no_files() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::Always).unwrap();
    let names = disk.paths();
    let taken = take(&pipeline, 0, 10);
    let file = taken.file.clone();
    flight(0).write(&pipeline, taken);
    disk.set_options(failing(&[Fault::SyncError]));
    flight(0).sync(&pipeline, &file);
    disk.set_options(failing(&[Fault::SyncDirError]));
    (0..5).for_each(|_| assert_eq!(pipeline.rescue(), Rescue::Failed));
    assert_eq!(disk.paths(), names);
    disk.set_options(SimOptions::default());
    assert_eq!(pipeline.rescue(), Rescue::Done);
}

#[test]
fn a_rescue_needs_nothing_from_a_disk_that_has_dropped_what_was_written() {
    for (seed, mode) in [(1, SyncMode::Always), (2, SyncMode::EverySec), (3, SyncMode::No)] {
        let disk = SimDisk::new(seed, SimOptions::default());
        let (pipeline, _) = open(&disk, mode).unwrap();
        let blocks: Vec<Taken> = (0..6).map(|index| take(&pipeline, index % 2, 900)).collect();
        let files = [blocks[0].file.clone(), blocks[1].file.clone()];
        for (index, block) in blocks.into_iter().enumerate() {
            assert!(flight(index % 2).write(&pipeline, block));
        }
        disk.set_options(SimOptions { drops_unsynced: true, ..failing(&[Fault::SyncError]) });
        files.iter().enumerate().for_each(|(lane, file)| flight(lane).sync(&pipeline, file));
        disk.set_options(SimOptions::default());
        assert_eq!(pipeline.rescue(), Rescue::Done, "{mode:?}: {:?}", pipeline.status());
        assert_eq!(pipeline.durable.lsn(), Lsn(6));
        let disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
        assert_eq!(open(&disk, mode).unwrap().1, Lsn(6), "{mode:?}");
    }
}

#[test]
fn what_is_kept_until_it_is_durable_has_a_limit() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::EverySec).unwrap();
    let kept = || {
        let pending = pipeline.durable.standing().pending;
        let bytes = pending.iter().filter_map(|block| block.bytes.as_ref());
        (bytes.clone().map(|bytes| bytes.len()).sum::<usize>(), bytes.count(), pending.len())
    };
    for _ in 0..20 {
        flight(0).write(&pipeline, take(&pipeline, 0, KEPT_BYTES_MAX / 10));
    }
    let (bytes, count, pending) = kept();
    assert!(bytes <= KEPT_BYTES_MAX && count >= 5, "{bytes} bytes of {count} blocks");
    assert_eq!(pending, 20);
    // What is not kept is read back.
    pipeline.fail(crate::io::DiskError::new("sync", "/a".as_ref(), std::io::Error::other("a test")));
    assert_eq!(pipeline.rescue(), Rescue::Done, "{:?}", pipeline.status());
    assert_eq!(kept(), (0, 0, 0));
    // Somebody waits: all are kept, of as many as are on their way.
    pipeline.set_mode(SyncMode::Always);
    for _ in 0..20 {
        flight(0).write(&pipeline, take(&pipeline, 0, KEPT_BYTES_MAX / 10));
    }
    assert_eq!(kept().1, 20);
    let standing = pipeline.durable.standing();
    assert!(standing.pending.iter().all(|block| matches!(block.progress, Progress::Written)));
    pipeline.sync_all();
    assert_eq!(kept(), (0, 0, 0));
}

#[test]
fn what_is_kept_behind_a_sync_that_hangs_has_a_limit() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::Always).unwrap();
    // Its sync does not come back, and all others wait for it.
    let hanging = take(&pipeline, 0, KEPT_BYTES_MAX / 10);
    assert!(flight(0).write(&pipeline, hanging));
    for _ in 0..40 {
        let taken = take(&pipeline, 1, KEPT_BYTES_MAX / 10);
        let file = taken.file.clone();
        assert!(flight(1).write(&pipeline, taken));
        flight(1).sync(&pipeline, &file);
        let pending = pipeline.durable.standing().pending;
        let kept: usize =
            pending.iter().filter_map(|block| block.bytes.as_ref()).map(|bytes| bytes.len()).sum();
        // And what a flight has under way.
        assert!(kept <= KEPT_BYTES_MAX + KEPT_BYTES_MAX / 5, "{kept} bytes of {} blocks", pending.len());
    }
    // What is not kept is durable, and is read back.
    pipeline.fail(crate::io::DiskError::new("sync", "/a".as_ref(), std::io::Error::other("a test")));
    assert_eq!(pipeline.rescue(), Rescue::Done, "{:?}", pipeline.status());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::Always).unwrap().1, Lsn(41));
}

#[test]
fn what_is_kept_behind_a_write_that_hangs_has_a_limit() {
    for mode in [SyncMode::No, SyncMode::EverySec] {
        let disk = SimDisk::new(1, SimOptions::default());
        let (pipeline, _) = open(&disk, mode).unwrap();
        let write = |lane, taken| {
            assert!(flight(lane).write(&pipeline, taken));
            let pending = pipeline.durable.standing().pending;
            let kept = pending.iter().filter_map(|block| block.bytes.as_ref()).map(|bytes| bytes.len());
            let kept: usize = kept.sum();
            assert!(kept <= KEPT_BYTES_MAX, "{mode:?}: {kept} bytes of {} blocks", pending.len());
        };
        let hanging = take(&pipeline, 0, KEPT_BYTES_MAX / 10);
        (0..40).for_each(|_| write(1, take(&pipeline, 1, KEPT_BYTES_MAX / 10)));
        // It comes back late, and newer ones are kept already.
        write(0, hanging);
        assert!(pipeline.durable.standing().pending[0].bytes.is_none());
        (0..5).for_each(|_| write(0, take(&pipeline, 0, KEPT_BYTES_MAX / 10)));
        // What is not kept is read back.
        pipeline.fail(crate::io::DiskError::new("sync", "/a".as_ref(), std::io::Error::other("a test")));
        assert_eq!(pipeline.rescue(), Rescue::Done, "{:?}", pipeline.status());
        let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
        assert_eq!(open(&disk, mode).unwrap().1, Lsn(46));
    }
}

/// Lets the log fail without a disk that does.
fn fail(pipeline: &Pipeline) {
    pipeline.fail(crate::io::DiskError::new("sync", "/a".as_ref(), std::io::Error::other("a test")));
}

#[test]
fn no_flight_hands_on_what_a_failed_log_does_not_write() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::Always).unwrap();
    append(&pipeline, 10);
    // Another flight has nothing to do.
    pipeline.active.lock().lanes[1].idle = 1;
    let can_take = || pipeline.can_take(&pipeline.active.lock(), true);
    assert!(can_take());
    fail(&pipeline);
    assert!(!can_take(), "they would wake each other again and again");
    assert_eq!(pipeline.rescue(), Rescue::Done);
    pipeline.active.lock().lanes[0].idle = 1;
    assert!(can_take());
}

#[test]
fn a_file_that_cannot_be_cut_yet_is_looked_at_again_a_moment_later() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::EverySec).unwrap();
    let slow = take(&pipeline, 0, 10);
    let pause = |is_stuck| pipeline.active.lock().pause_of_syncer(0, is_stuck);
    let usual = pause(false).unwrap();
    assert!(pipeline.prepare(0));
    assert!(!pipeline.begin_to_leave(Lsn(1)));
    assert_eq!(pause(false), None, "it is cut at once");
    assert!(!pipeline.leave_files(), "a block is on its way to it");
    assert!(pause(true).is_some_and(|pause| pause < usual), "the thread would spin");
    assert!(flight(0).write(&pipeline, slow));
    assert!(pipeline.leave_files());
    assert_eq!(pause(false), Some(usual));
}

/// Has the log fail and be rescued while a file is made.
#[derive(Debug, Default)]
struct RescuedMeanwhile {
    pipeline: OnceLock<Weak<Pipeline>>,
    happened: AtomicBool,
}

impl Tap for RescuedMeanwhile {
    fn before_sync(&self, _: &Path) -> DiskResult<()> {
        let pipeline = self.pipeline.get().and_then(Weak::upgrade);
        if let Some(pipeline) = pipeline.filter(|_| !self.happened.swap(true, Ordering::SeqCst)) {
            fail(&pipeline);
            assert_eq!(pipeline.rescue(), Rescue::Done);
        }
        Ok(())
    }
}

#[test]
fn a_rescue_leaves_no_file_that_was_made_ready_before() {
    for is_meanwhile in [false, true] {
        let disk = SimDisk::new(1, SimOptions::default());
        let tap = Arc::new(RescuedMeanwhile::default());
        let tapped = TappedDisk::new(Arc::new(disk.clone()), tap.clone());
        let (pipeline, _) = open_on(Arc::new(tapped), SyncMode::EverySec).unwrap();
        let mut names = disk.paths();
        if is_meanwhile {
            tap.pipeline.set(Arc::downgrade(&pipeline)).unwrap();
            assert!(pipeline.prepare(1));
        } else {
            assert!(pipeline.prepare(0) && pipeline.prepare(1));
            fail(&pipeline);
            assert_eq!(pipeline.rescue(), Rescue::Done);
        }
        assert!(pipeline.active.lock().lanes.iter().all(|lane| lane.next.is_none()));
        let active = pipeline.active.lock();
        names.push(active.lanes[0].current.as_ref().unwrap().keeper_handle().path().into());
        names.sort();
        assert_eq!(disk.paths(), names, "{is_meanwhile}");
    }
}

#[test]
fn a_log_whose_first_directory_has_no_file_is_closed_cleanly() {
    let mut cases = 0;
    for seed in 0..40 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let (pipeline, _) = open(&disk, SyncMode::EverySec).unwrap();
        assert!(flight(1).write(&pipeline, take(&pipeline, 1, 10)));
        let faults_per_mille = vec![(Fault::NameError, 500)];
        disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
        fail(&pipeline);
        while pipeline.rescue() != Rescue::Done {}
        disk.set_options(SimOptions::default());
        if pipeline.active.lock().lanes[0].current.is_some() {
            continue;
        }
        cases += 1;
        pipeline.claim();
        assert!(pipeline.active.lock().claimed, "seed {seed}");
        pipeline.stop();
        pipeline.close().unwrap();
        let mut reader = Reader::open(Arc::new(disk.clone()), options(SyncMode::No)).unwrap();
        while reader.next_block().unwrap().is_some() {}
        assert!(reader.recovered().closed, "seed {seed}");
        assert_eq!(reader.last(), Lsn(1));
    }
    assert!(cases > 0);
}

#[test]
fn the_mark_of_a_clean_close_says_that_all_before_it_is_durable() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::EverySec).unwrap();
    // Appended when the log had been synced to be closed.
    assert!(flight(1).write(&pipeline, take(&pipeline, 1, 10)));
    pipeline.stop();
    pipeline.close().unwrap();
    let mut reader = Reader::open(Arc::new(disk.clone()), options(SyncMode::No)).unwrap();
    while reader.next_block().unwrap().is_some() {}
    assert!(reader.recovered().closed);
    assert_eq!(reader.durable_sequence(), 1);
}
