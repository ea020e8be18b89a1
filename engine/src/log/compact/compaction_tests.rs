//! A compaction that fails when the copy has its name already, or meets bytes that it cannot read: on the
//! simulated disk, without the threads of the log.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::io::{Fault, SimDisk, SimOptions};
use crate::log::handle::begin;
use crate::log::open::reader::Reader;
use crate::log::write::pipeline::Pipeline;
use crate::log::{Appender, CompactionError, Group, Keeper, LogError, LogOptions, Sizes, SyncMode};
use crate::record::{Change, Lsn, Write};

/// Needs nothing that is not newer.
struct NeedsBehind(Lsn);

impl Keeper for NeedsBehind {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        Ok(())
    }

    fn needs(&mut self, lsn: Lsn, _: &Write<'_>) -> bool {
        lsn > self.0
    }

    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

/// Needs all, and a checkpoint has all up to a record; and the blocks that it was told of.
struct Covered(Lsn, Vec<u64>);

impl Keeper for Covered {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        Ok(())
    }

    fn covered(&self) -> Lsn {
        self.0
    }

    fn begin(&mut self, first: Lsn, _: Lsn) {
        self.1.push(first.0);
    }

    fn needs(&mut self, _: Lsn, _: &Write<'_>) -> bool {
        true
    }

    fn moved(&mut self, _: u64) -> bool {
        true
    }
}

/// Appends a record and writes it to a directory.
fn write_to(pipeline: &Arc<Pipeline>, lane: usize) {
    let mut group = Group::new();
    group.push(&Write::Key { db: 0, key: b"key".into(), change: Change::Delete });
    Appender { pipeline: pipeline.clone() }.append(&group).unwrap();
    let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0).unwrap();
    pipeline.write_alone(taken);
}

fn open(sim: &SimDisk, options: LogOptions) -> Arc<Pipeline> {
    let mut reader = Reader::open(Arc::new(sim.clone()), options).unwrap();
    while reader.next_block().unwrap().is_some() {}
    Arc::new(begin(reader.finish().unwrap()).unwrap().0)
}

#[test]
fn a_copy_whose_name_may_not_last_counts_as_what_it_was_made_of() {
    let sim = SimDisk::new(1, SimOptions::default());
    let pipeline = open(&sim, LogOptions::new(vec!["/a".into(), "/b".into()]));
    [0, 1, 0].iter().for_each(|lane| write_to(&pipeline, *lane));
    pipeline.leave_all_files();
    let log = Appender { pipeline };
    let compact = || {
        let files = &log.closed_files()[..1];
        log.compact(files, Lsn(3), Lsn::ZERO, &mut NeedsBehind(Lsn(1)))
    };
    let found = || {
        let file = &log.closed_files()[0];
        (file.lsns(), file.records(), file.timestamp())
    };
    assert_eq!(found(), (Some((Lsn(1), Lsn(3))), 2, Lsn::ZERO));
    // The first record may be back after a loss of power, and its removal must not be gone by then.
    let faults_per_mille = vec![(Fault::SyncDirError, 1000)];
    sim.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    compact().unwrap_err();
    assert_eq!(found(), (Some((Lsn(1), Lsn(3))), 1, Lsn::ZERO));
    sim.set_options(SimOptions::default());
    compact().unwrap();
    assert_eq!(found(), (Some((Lsn(3), Lsn(3))), 1, Lsn(3)));
}

#[test]
fn what_cannot_be_read_is_passed_over_when_a_second_attempt_meets_it_and_nothing_before_it_is() {
    let sim = SimDisk::new(1, SimOptions::default());
    let mut options = LogOptions::new(vec!["/a".into()]);
    options.sizes = Sizes { read_bytes: 64 << 10, condensed_bytes: 1, ..Sizes::SMALL };
    let pipeline = open(&sim, options);
    (0..100).for_each(|_| write_to(&pipeline, 0));
    pipeline.leave_all_files();
    let log = Appender { pipeline };
    let path = log.closed_files()[0].path().to_path_buf();
    let block_bytes = || (log.closed_files()[0].bytes() - 512) / 100;
    let spoil = |blocks: &[u64]| {
        let bad = blocks.iter().map(|number| 512 + (number - 1) * block_bytes() + 70);
        let bad_bytes = bad.map(|at| (path.clone(), at..at + 1)).collect();
        sim.set_options(SimOptions { bad_bytes, ..SimOptions::default() });
    };
    let compact = || {
        let mut keeper = Covered(Lsn(1_000), Vec::new());
        let outcome = log.compact(&log.closed_files(), Lsn::ZERO, Lsn::ZERO, &mut keeper);
        outcome.map(|compacted| (compacted.damage.len(), keeper.1))
    };
    let fails = || assert!(matches!(compact(), Err(CompactionError::Disk(_))));
    // A moment later all is there.
    spoil(&[50]);
    fails();
    spoil(&[]);
    assert_eq!(compact().unwrap(), (0, (1..=100).collect()));
    // What was met in the file before says nothing of the one in its place.
    let block = block_bytes();
    spoil(&[30, 50]);
    fails();
    // Now the first place is known, and the second one is not.
    fails();
    let (damages, blocks) = compact().unwrap();
    assert_eq!(damages, 2);
    // As much as is passed over behind a place that gives nothing, and the block in which that ends.
    let skipped = Sizes::SMALL.skipped_bytes as u64 / block + 2;
    let kept = |number: &u64| !(30..30 + skipped).contains(number) && !(50..50 + skipped).contains(number);
    assert!((1..=100).filter(kept).all(|number| blocks.contains(&number)), "{blocks:?}");
    assert!(!blocks.contains(&30) && !blocks.contains(&50), "{blocks:?}");
}

#[test]
fn zeros_in_place_of_a_block_are_damage_beside_other_damage() {
    let sim = SimDisk::new(1, SimOptions::default());
    let options = LogOptions { mode: SyncMode::No, ..LogOptions::new(vec!["/a".into()]) };
    let pipeline = open(&sim, options);
    (0..100).for_each(|_| write_to(&pipeline, 0));
    pipeline.sync_all();
    pipeline.leave_all_files();
    let log = Appender { pipeline };
    let path = log.closed_files()[0].path().to_path_buf();
    let block = (log.closed_files()[0].bytes() as usize - 512) / 100;
    // Behind a block that ends with a sector an epoch might have begun.
    let gone = (10..99).find(|number| (number * block).is_multiple_of(512)).unwrap();
    assert!(block < 512);
    sim.spoil(&path, 512 + block + 66, |byte| byte ^ 4);
    (0..block).for_each(|at| sim.spoil(&path, 512 + (gone - 1) * block + at, |_| 0));
    let compact = |covered| {
        let mut keeper = Covered(Lsn(covered), Vec::new());
        log.compact(&log.closed_files(), Lsn::ZERO, Lsn::ZERO, &mut keeper)
    };
    let outcome = compact(gone as u64 - 1);
    assert!(matches!(outcome, Err(CompactionError::Uncovered { up_to: Lsn(100), .. })), "{outcome:?}");
    assert_eq!(compact(100).unwrap().damage.len(), 2);
}
