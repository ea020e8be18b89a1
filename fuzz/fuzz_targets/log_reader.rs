//! Log files from any bytes: no panic, no more memory than the files are long, and what comes back is a
//! prefix of what was written.
//!
//! ```text
//!  input:  | shape | bit 0: repair first, bit 1: threads | operation | its arguments | operation | …
//! ```
//!
//! A log of that shape, written by the product's own writer, is changed by one operation after the other. An
//! operation that makes a checksum fit is a *forgery*; behind one no more is asserted than that the log is
//! refused and left as it was, or opened and then stays as it is.
#![no_main]

#[path = "log_reader/changes.rs"]
mod changes;
#[path = "log_reader/input.rs"]
mod input;
#[path = "log_reader/written.rs"]
mod written;

use std::path::PathBuf;
use std::sync::Arc;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_engine::ScanBudget;
use tarn_engine::io::{Disk, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions, OpenError};
use tarn_engine::record::{Change, Kind, Lsn, UnixMs, Write};
use tarn_engine::recovery::{self, Opened, Progress};
use tarn_engine::repair::Repair;
use tarn_engine::table::Table;
use tarn_engine::value::{ValueRef, elements_of};

use input::Input;
use written::{DATABASES, Files, SHAPES, Written};

/// A length that a file only tells must not be allocated: beyond this the process is aborted.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 256 << 20);

/// A patch fills a string with zeros up to its place, half a gigabyte if it says so, and rightly; forged ones
/// are tried up to here.
const PATCH_OFFSET_MAX: u64 = 1 << 16;

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let written = &SHAPES[usize::from(input.byte()) % SHAPES.len()];
    let choices = input.byte();
    let mut files = written.files.clone();
    let mut forged = false;
    while !input.0.is_empty() {
        forged |= changes::change(&mut files, &mut input);
    }
    let disk = disk_of(&files);
    let options = written.options.clone();
    let threads = 1 + usize::from(choices >> 1 & 1);
    let repaired = choices & 1 == 1 && !forged && repair(&disk, &options, threads);
    let read = read(&disk, &options, (!forged).then_some(written));
    assert!(!repaired || read.is_ok(), "a repaired log is read");
    if matches!(&read, Ok(read) if read.patch_offset_max > PATCH_OFFSET_MAX) {
        return;
    }
    let before = log_files(&disk);
    match open(&disk, &options, threads) {
        Ok(opened) => {
            let read = read.expect("the replay reads what the reader refuses");
            assert_eq!(opened.replayed.records, read.records);
            stays(&disk, &options, opened);
        }
        Err(error) => {
            assert!(forged || read.is_err(), "whole records are refused: {error}");
            assert_eq!(log_files(&disk), before, "a refused log is changed: {error}");
        }
    }
});

fn open(disk: &SimDisk, options: &LogOptions, threads: usize) -> Result<Opened, OpenError> {
    recovery::open(Arc::new(disk.clone()), options.clone(), None, DATABASES, threads, &Progress::default())
}

/// Repairs what can be repaired; says whether a start takes the log now.
fn repair(disk: &SimDisk, options: &LogOptions, threads: usize) -> bool {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let Ok(repair) = Repair::begin(&disk, &options.directories, threads) else { return false };
    if repair.is_needed() {
        repair.truncate().expect("the disk has no faults");
    }
    true
}

fn disk_of(files: &Files) -> SimDisk {
    let disk = SimDisk::new(1, SimOptions::default());
    for (path, bytes) in files {
        let file = disk.create(path).expect("the names differ");
        file.write_all_at(bytes, 0).expect("the disk has no faults");
    }
    disk
}

fn log_files(disk: &SimDisk) -> Files {
    let logs = disk.paths().into_iter().filter(|path| path.extension().is_some_and(|name| name == "tarnlog"));
    logs.map(|path: PathBuf| (path.clone(), disk.contents(&path).unwrap_or_default())).collect()
}

/// The counts of a log's records.
#[derive(Default)]
struct Read {
    records: u64,
    patch_offset_max: u64,
}

/// Reads all records and, if they must be a prefix of what was written, compares.
fn read(disk: &SimDisk, options: &LogOptions, prefix_of: Option<&Written>) -> Result<Read, OpenError> {
    let mut reader = Log::open(Arc::new(disk.clone()), options.clone())?;
    let mut read = Read::default();
    let mut expected = prefix_of.map(|written| written.groups.iter());
    let mut group = [].iter();
    while let Some(block) = reader.next_block()? {
        for record in block.records() {
            let record = record.map_err(|error| block.not_understood(error))?;
            read.records += 1;
            // Both make room for what they tell of.
            if let Write::Key {
                change: Change::Patch { offset, .. } | Change::RenewalBegins { length: offset, .. },
                ..
            } = record.write
            {
                read.patch_offset_max = read.patch_offset_max.max(offset);
            }
            let Some(groups) = &mut expected else { continue };
            if record.group > 0 {
                assert_eq!(group.len(), 0, "a group is whole");
                group = groups.next().expect("no more groups than were written").iter();
            }
            assert_eq!((record.lsn, Some(&record.write)), (Lsn(read.records), group.next()));
        }
    }
    assert_eq!(group.len(), 0, "the last group is whole");
    Ok(read)
}

/// A log that was opened goes on, and is the same when it is opened again.
fn stays(disk: &SimDisk, options: &LogOptions, opened: Opened) {
    let mut last = opened.recovered.last;
    let mut contents = contents(&opened.tables);
    let mut group = Group::new();
    let (key, value) = (b"afterwards".to_vec(), b"one more".to_vec());
    let change = Change::Put { value: value.clone().into(), expiry: None };
    group.push(&Write::Key { db: 3, key: key.clone().into(), change });
    let first = opened.log.appender().append(&group).expect("the disk has no faults");
    assert_eq!(first, last.after(1));
    last = first;
    contents.retain(|entry| (entry.0, &entry.1) != (3, &key));
    contents.push((3, key, Kind::String.name(), value, None));
    contents.sort();
    opened.log.close().expect("the disk has no faults");
    let again = open(disk, options, 2).expect("what was opened and closed is opened again");
    assert_eq!((again.recovered.last, again.recovered.bytes_cut, again.recovered.closed), (last, 0, true));
    assert_eq!(self::contents(&again.tables), contents);
}

/// An entry: database, key, kind, elements or value, expiry.
type Contents = (usize, Vec<u8>, &'static str, Vec<u8>, Option<UnixMs>);

/// Everything in the tables, in order.
fn contents(tables: &[Arc<Table>]) -> Vec<Contents> {
    let mut all = Vec::new();
    for (db, table) in tables.iter().enumerate() {
        table.scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            let value = match entry.value() {
                ValueRef::String(value) => value.to_vec(),
                other => elements_of(other),
            };
            all.push((db, entry.key().to_vec(), entry.kind().name(), value, entry.expiry()));
            false
        });
    }
    all.sort();
    all
}
