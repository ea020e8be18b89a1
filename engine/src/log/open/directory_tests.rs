//! Tests that a loss of power at any time keeps the directories of a new log.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::Reader;
use crate::io::{Crash, Disk, SimDisk, SimOptions};
use crate::log::handle::begin;
use crate::log::write::pipeline::Pipeline;
use crate::log::{Appender, Group, Log, LogOptions, OpenError, SyncMode};
use crate::record::{Change, Lsn, Write};

fn options() -> LogOptions {
    let mut options = LogOptions::new(vec![PathBuf::from("/srv/data/log0"), PathBuf::from("/device/log1")]);
    options.mode = SyncMode::Always;
    options.file_bytes = 4096;
    options
}

fn open(disk: &SimDisk) -> Result<(Pipeline, Lsn), OpenError> {
    let mut reader = Reader::open(Arc::new(disk.clone()), options())?;
    while reader.next_block()?.is_some() {}
    let finished = reader.finish()?;
    let last = finished.recovered.last;
    Ok((begin(finished)?.0, last))
}

/// Writes a record to each directory, durably.
fn log_some(pipeline: Pipeline) -> Lsn {
    let pipeline = Arc::new(pipeline);
    let appender = Appender { pipeline: pipeline.clone() };
    for lane in 0..2 {
        let mut group = Group::new();
        let change = Change::Put { value: b"value".to_vec().into(), expiry: None };
        group.push(&Write::Key { db: 0, key: b"key".to_vec().into(), change });
        appender.append(&group).unwrap();
        let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0).unwrap();
        pipeline.write_alone(taken);
    }
    assert_eq!(pipeline.durable.lsn(), appender.last());
    pipeline.durable.lsn()
}

#[test]
fn a_loss_of_power_keeps_the_directories_that_a_log_was_made_in() {
    for seed in 0..100 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let durable = log_some(open(&disk).unwrap().0);
        let disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
        assert_eq!(open(&disk).unwrap().1, durable, "seed {seed}");
    }
}

#[test]
fn directories_whose_maker_was_killed_are_kept_too() {
    for seed in 0..20 {
        for crash_at in 1.. {
            let options = SimOptions { crash_at: Some(crash_at), ..SimOptions::default() };
            let disk = SimDisk::new(seed, options);
            let is_made = open(&disk).is_ok();
            let disk = disk.crash(Crash::Kill, seed, SimOptions::default());
            let durable = log_some(open(&disk).unwrap().0);
            let disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
            assert_eq!(open(&disk).unwrap().1, durable, "seed {seed}, killed at call {crash_at}");
            if is_made {
                break;
            }
        }
    }
}

#[test]
fn what_others_have_put_beside_a_log_stays() {
    let disk = SimDisk::new(1, SimOptions::default());
    let directory = Path::new("/srv/data/log0");
    let theirs = ["notes.unfinished", "1.tarnlog.unfinished", "tarnlog.txt.unfinished"];
    let ours = ["0000000007.tarnlog.unfinished", "tarnlog.id.unfinished", "tarnlog.pending.unfinished"];
    for name in theirs.iter().chain(&ours) {
        disk.create(&directory.join(name)).unwrap();
    }
    let reader = Log::open(Arc::new(disk.clone()), options()).unwrap();
    let names = disk.list(directory).unwrap();
    assert!(theirs.iter().all(|name| names.iter().any(|other| other == name)), "{names:?}");
    assert!(ours.iter().all(|name| names.iter().all(|other| other != name)), "{names:?}");
    drop(reader);
}
