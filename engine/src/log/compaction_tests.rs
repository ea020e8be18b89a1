//! A compaction that fails when the copy has its name already: on the simulated disk, without the threads of
//! the log.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::handle::begin;
use super::pipeline::Pipeline;
use super::reader::Reader;
use super::{Appender, Group, Keeper, LogError, LogOptions};
use crate::io::{Fault, SimDisk, SimOptions};
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

/// Appends a record and writes it to a directory.
fn write_to(pipeline: &Arc<Pipeline>, lane: usize) {
    let mut group = Group::new();
    group.push(&Write::Key { db: 0, key: b"key".into(), change: Change::Delete });
    Appender { pipeline: pipeline.clone() }.append(&group).unwrap();
    let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0).unwrap();
    pipeline.write_alone(taken);
}

#[test]
fn a_copy_whose_name_may_not_last_counts_as_what_it_was_made_of() {
    let sim = SimDisk::new(1, SimOptions::default());
    let options = LogOptions::new(vec!["/a".into(), "/b".into()]);
    let mut reader = Reader::open(Arc::new(sim.clone()), options).unwrap();
    while reader.next_block().unwrap().is_some() {}
    let (pipeline, _locks) = begin(reader.finish().unwrap()).unwrap();
    let pipeline = Arc::new(pipeline);
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
