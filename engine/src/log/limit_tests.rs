//! Tests the end of the `Lsn` space: the log refuses a write before it, not at the next start.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use super::handle::begin;
use super::open::reader::Reader;
use super::write::pipeline::Pipeline;
use super::{Appender, Group, LogError, LogOptions, OpenError};
use crate::io::{SimDisk, SimOptions};
use crate::record::{Change, Lsn, Write};

fn open(disk: &SimDisk, base: Lsn) -> Result<(Arc<Pipeline>, Lsn), OpenError> {
    let options = LogOptions { base, ..LogOptions::new(vec!["/log".into()]) };
    let mut reader = Reader::open(Arc::new(disk.clone()), options)?;
    while reader.next_block()?.is_some() {}
    let finished = reader.finish()?;
    let last = finished.recovered.last;
    Ok((Arc::new(begin(finished)?.0), last))
}

fn append(appender: &Appender, records: usize) -> Result<Lsn, LogError> {
    let mut group = Group::new();
    (0..records).for_each(|_| group.push(&Write::Key { db: 0, key: b"key".into(), change: Change::Delete }));
    appender.append(&group)
}

#[test]
fn the_end_of_the_numbers_is_a_refusal_and_the_log_can_still_be_read() {
    let before = |count: u64| Lsn(Lsn::LIMIT.0 - count);
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, before(3)).unwrap();
    let appender = Appender { pipeline: pipeline.clone() };
    assert!(pipeline.status().ends_soon());
    assert_eq!(append(&appender, 1).unwrap(), before(2));
    assert!(matches!(append(&appender, 3), Err(LogError::Exhausted)));
    assert_eq!(append(&appender, 2).unwrap(), before(1));
    assert!(matches!(append(&appender, 1), Err(LogError::Exhausted)));
    assert_eq!((append(&appender, 0).unwrap(), appender.last()), (Lsn::LIMIT.after(1), Lsn::LIMIT));
    let taken = pipeline.take(&mut pipeline.active.lock(), 0, 0).unwrap();
    pipeline.write_alone(taken);
    assert_eq!(pipeline.durable.lsn(), Lsn::LIMIT);
    let disk = disk.crash(crate::io::Crash::PowerLoss, 1, SimOptions::default());
    let (pipeline, last) = open(&disk, before(3)).unwrap();
    assert_eq!((last, pipeline.status().records_left()), (Lsn::LIMIT, 0));
    assert!(matches!(append(&Appender { pipeline }, 1), Err(LogError::Exhausted)));
}

#[test]
fn a_store_without_a_log_comes_to_the_end_in_the_same_way() {
    let (appender, _) = Appender::unlogged(Lsn::LIMIT);
    assert_eq!(append(&appender, 1).unwrap(), Lsn::LIMIT);
    assert!(matches!(append(&appender, 1), Err(LogError::Exhausted)));
}
