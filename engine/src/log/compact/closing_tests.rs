//! Tests that files which a compaction has replaced are closed a moment later, and that those who need their
//! space wait.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::io::{Disk, Fault, SimDisk, SimOptions};
use crate::log::handle::begin;
use crate::log::write::pipeline::Pipeline;
use crate::log::*;
use crate::record::{Change, Lsn, Write};

const FILE_BYTES: u64 = 16 << 10;

/// Needs one record of four.
struct OneOfFour;

impl Keeper for OneOfFour {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        // All is durable that is there.
        Ok(())
    }

    fn needs(&mut self, lsn: Lsn, _: &Write<'_>) -> bool {
        lsn.0.is_multiple_of(4)
    }

    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

fn open(sim: &SimDisk) -> Reader {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, FILE_BYTES);
    let mut reader = Log::open(Arc::new(sim.clone()), options).unwrap();
    while reader.next_block().unwrap().is_some() {}
    reader
}

/// A log with so many full files or more.
fn log_of(sim: &SimDisk, files: usize) -> Log {
    let (log, _) = open(sim).into_log().unwrap();
    let mut group = Group::new();
    let change = Change::Put { value: vec![7; 500].into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".to_vec().into(), change });
    while log.appender().closed_files().len() < files {
        log.appender().append(&group).unwrap();
        log.sync().unwrap();
    }
    log
}

fn compact(appender: &Appender, files: &[ClosedFile]) -> Result<Compacted, CompactionError> {
    appender.compact(files, Lsn::ZERO, Lsn::ZERO, &mut OneOfFour)
}

#[test]
fn when_the_log_is_closed_all_that_was_replaced_is() {
    let sim = SimDisk::new(1, SimOptions::default());
    let log = log_of(&sim, 12);
    let (appender, files) = (log.appender(), log.appender().closed_files());
    files[..8].chunks(2).for_each(|two| assert!(compact(&appender, two).is_ok()));
    files[8..12].chunks(1).for_each(|one| assert!(compact(&appender, one).is_ok()));
    log.close().unwrap();
    assert_eq!(sim.nameless_bytes(), 0);
}

/// Leaves the disk with so little room.
fn leave(sim: &SimDisk, room: u64) {
    let with = |capacity| SimOptions { capacity_bytes: Some(capacity), ..SimOptions::default() };
    sim.set_options(with(1 << 40));
    let used = (1 << 40) - sim.bytes_free(Path::new("/log")).unwrap();
    sim.set_options(with(used + room));
}

/// Does something that needs room while a replaced file waits to be closed, which happens only when it waits
/// for that, or has ended.
fn while_a_file_waits<T: Send>(
    sim: &SimDisk,
    pipeline: &Arc<Pipeline>,
    act: impl FnOnce(&[ClosedFile]) -> T + Send,
) -> T {
    let appender = Appender { pipeline: pipeline.clone() };
    let mut files = appender.closed_files();
    files.retain(|file| file.bytes() > FILE_BYTES / 2);
    pipeline.closer.hold();
    compact(&appender, &files[..1]).unwrap();
    assert!(sim.nameless_bytes() > FILE_BYTES / 2);
    leave(sim, 1_000);
    thread::scope(|scope| {
        let acting = scope.spawn(|| act(&files[1..2]));
        // Who does not wait has ended long before.
        (0..100).take_while(|_| !acting.is_finished()).for_each(|_| thread::sleep(Duration::from_millis(2)));
        pipeline.closer.end();
        pipeline.closer.run();
        acting.join().unwrap()
    })
}

#[test]
fn who_finds_no_room_waits_until_what_was_replaced_is_closed() {
    let sim = SimDisk::new(1, SimOptions::default());
    log_of(&sim, 6).close().unwrap();
    for prepares in [false, true] {
        sim.set_options(SimOptions::default());
        let pipeline = Arc::new(begin(open(&sim).finish().unwrap()).unwrap().0);
        let appender = Appender { pipeline: pipeline.clone() };
        let found_room = while_a_file_waits(&sim, &pipeline, |file| match prepares {
            true => pipeline.prepare(0),
            false => compact(&appender, file).is_ok(),
        });
        assert!(found_room, "for a new file: {prepares}");
        assert_eq!(sim.nameless_bytes(), 0);
    }
}

#[test]
fn files_that_could_not_be_removed_are_removed_at_the_next_compaction() {
    let mut cases = 0;
    for seed in 0..40 {
        let sim = SimDisk::new(seed, SimOptions::default());
        log_of(&sim, 6).close().unwrap();
        let pipeline = Arc::new(begin(open(&sim).finish().unwrap()).unwrap().0);
        let appender = Appender { pipeline: pipeline.clone() };
        let files = appender.closed_files();
        let faults_per_mille = vec![(Fault::NameError, 300)];
        sim.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
        let outcome = compact(&appender, &files[..4]);
        sim.set_options(SimOptions::default());
        let is_replaced = !appender.closed_files()[0].is_same_file(&files[0]);
        let left = || files[..3].iter().filter(|file| sim.contents(file.path()).is_some()).count();
        if !is_replaced || left() == 0 {
            continue;
        }
        cases += 1;
        assert!(outcome.is_ok(), "seed {seed}: it has done its work: {outcome:?}");
        let status = pipeline.status();
        assert!(status.last_error.is_some() && status.directories[0].failures > 0);
        compact(&appender, &files[4..5]).unwrap();
        assert_eq!(left(), 0, "seed {seed}");
    }
    assert!(cases > 0);
}
