//! Logs whose bytes are whole and which yet cannot be replayed: the start is refused, and nothing is changed.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use tarn_engine::io::{Disk, SimDisk, SimOptions};
use tarn_engine::log::{Group, LogOptions, OpenError};
use tarn_engine::record::{Change, Write};
use tarn_engine::recovery::{self, Opened, Progress};

const FILE: &str = "/log/0000000001.tarnlog";
/// Where the first block of a file begins, and how long a block's header is: `docs/format/log.md`.
const FIRST_BLOCK: usize = 512;
const BLOCK_HEADER: usize = 64;

fn open(disk: &SimDisk, databases: usize, threads: usize) -> Result<Opened, OpenError> {
    let options = LogOptions::new(vec!["/log".into()]);
    recovery::open(Arc::new(disk.clone()), options, None, databases, threads, &Progress::default())
}

/// A log of three blocks, a put in each; the last put is to database 9.
fn three_blocks() -> SimDisk {
    let disk = SimDisk::new(1, SimOptions::default());
    let log = open(&disk, 16, 1).unwrap().log;
    for db in [0, 0, 9] {
        let mut group = Group::new();
        let change = Change::Put { value: b"value"[..].into(), expiry: None };
        group.push(&Write::Key { db, key: b"key"[..].into(), change });
        log.appender().append(&group).unwrap();
        log.sync().unwrap();
    }
    log.close().unwrap();
    disk
}

fn contents(disk: &SimDisk) -> Vec<u8> {
    disk.contents(Path::new(FILE)).unwrap()
}

fn write(disk: &SimDisk, bytes: &[u8]) {
    disk.open(Path::new(FILE)).unwrap().write_all_at(bytes, 0).unwrap();
}

/// Changes the body of the first block and makes its checksums fit.
fn forge(disk: &SimDisk, change: impl Fn(&mut [u8])) {
    let mut bytes = contents(disk);
    let block = &mut bytes[FIRST_BLOCK..];
    let length = u64::from_le_bytes(*block[48..].first_chunk().unwrap()) as usize;
    change(&mut block[BLOCK_HEADER..length - 8]);
    let body_crc = crc32c::crc32c(&block[BLOCK_HEADER..length - 8]);
    block[56..60].copy_from_slice(&body_crc.to_le_bytes());
    let header_crc = crc32c::crc32c(&block[..60]);
    block[60..64].copy_from_slice(&header_crc.to_le_bytes());
    write(disk, &bytes);
}

fn refused(disk: &SimDisk, databases: usize, threads: usize) -> String {
    let before = contents(disk);
    let Err(error) = open(disk, databases, threads) else { panic!("the log is refused") };
    assert_eq!(contents(disk), before, "a refused log is as it was");
    error.to_string()
}

#[test]
fn records_that_are_not_understood_stop_the_start() {
    let disk = three_blocks();
    let original = contents(&disk);
    let (kind, flags, key_length) = (0, 1, 2);
    for (at, byte, what) in [
        (kind, 99, "record type 99 is unknown to this version"),
        (flags, 0x80, "record flags 0x80 do not fit record type 1"),
        (key_length, 0x7F, "a record is cut off"),
    ] {
        forge(&disk, |body| body[at] = byte);
        let remedy = "another version of this program wrote it: start that one";
        for threads in [1, 3] {
            let expected = format!("{FILE}: the block at byte 512: {what}; {remedy}");
            assert_eq!(refused(&disk, 16, threads), expected);
        }
        write(&disk, &original);
    }
    assert_eq!(open(&disk, 16, 2).unwrap().replayed.records, 3);
}

#[test]
fn records_of_databases_that_shall_not_be_stop_the_start() {
    let disk = three_blocks();
    let expected = " tells of database 9, and there are only 9: start with --databases 10 or more";
    for threads in [1, 3] {
        let error = refused(&disk, 9, threads);
        assert!(error.starts_with(FILE) && error.ends_with(expected), "{error}");
    }
    assert_eq!(open(&disk, 10, 2).unwrap().replayed.records, 3);
}
