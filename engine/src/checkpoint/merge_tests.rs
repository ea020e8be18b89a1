//! Tests that a merge keeps few keys in memory, however many have changed, and that it asks whether to go on.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::error::CheckpointError;
use super::format::{FileHeader, FileKind};
use super::merge::{KEYS_MAX, Merged, merge};
use super::pace::{Pace, TakeOptions};
use super::reader::FileReader;
use super::writer::{Blocks, write};
use crate::io::{Disk, DiskFile, SimDisk, SimOptions};
use crate::record::{Change, Lsn};
use crate::table::{END, Entry, KeyHash};

/// Keys in a group, as a dump makes them.
const GROUP: usize = 128;
const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };

/// Keys `0..count` by position.
fn keys(count: usize) -> Vec<(u64, Vec<u8>)> {
    let key = |number| format!("key:{number}").into_bytes();
    let mut keys: Vec<_> = (0..count).map(key).map(|key| (KeyHash::of(&key).position(), key)).collect();
    keys.sort();
    keys
}

/// Puts keys into groups of so many.
fn put(blocks: &mut Blocks<'_>, db: u8, keys: &[(u64, Vec<u8>)], group: usize, whole: bool, lsn: Lsn) {
    let starts = keys.chunks(group).map(|keys| keys[0].0).skip(1);
    let ends: Vec<u64> = starts.chain([END]).collect();
    let mut from = 0;
    for (keys, end) in keys.chunks(group).zip(ends) {
        blocks.range(db, whole, from, end);
        for (_, key) in keys {
            let change = Change::Put { value: b"value"[..].into(), expiry: None };
            blocks.entry(&Entry::create(key, &change, lsn).unwrap());
        }
        blocks.settle();
        from = end;
    }
}

struct Files {
    disk: SimDisk,
}

impl Files {
    fn new() -> Files {
        Files { disk: SimDisk::new(1, SimOptions::default()) }
    }

    fn create(&self, name: &str) -> Arc<dyn DiskFile> {
        self.disk.create(Path::new(name)).unwrap()
    }

    fn write(&self, name: &str, fill: impl FnOnce(&mut Blocks<'_>)) {
        let header =
            FileHeader { kind: FileKind::Full, databases: 2, cut: Lsn(9), base: Lsn::ZERO, unix_ms: 0 };
        let fill = |blocks: &mut Blocks<'_>| {
            fill(blocks);
            Ok::<(), CheckpointError>(())
        };
        write(&self.create(name), &header, FAST, &AtomicU64::new(0), fill).unwrap();
    }

    /// How the two files were merged, how many keys there are then, and how often it was asked to go on.
    fn merge(&self) -> (Merged, u64, usize) {
        let open = |name: &str| FileReader::open(&self.disk, Path::new(name)).unwrap();
        let (mut full, mut changes) = (open("full"), open("changes"));
        let (mut merged, mut asked) = (None, 0);
        self.write("merged", |blocks| {
            let goes_on = || {
                asked += 1;
                Ok(())
            };
            merged = Some(merge(&mut full, &mut changes, blocks, goes_on).unwrap());
        });
        let mut reader = open("merged");
        while reader.next_block(Vec::new()).unwrap().is_some() {}
        (merged.unwrap(), reader.keys(), asked)
    }
}

#[test]
fn a_bulk_load_into_a_small_store_is_given_up_before_many_keys_are_kept() {
    let (files, many) = (Files::new(), keys(3 * KEYS_MAX));
    files.write("full", |blocks| put(blocks, 0, &keys(50), GROUP, true, Lsn(1)));
    files.write("changes", |blocks| put(blocks, 0, &many, GROUP, false, Lsn(2)));
    let (merged, ..) = files.merge();
    assert!(merged.keys_max <= KEYS_MAX + GROUP, "{merged:?}");
    assert!(!merged.is_complete);
}

#[test]
fn of_a_store_that_did_not_grow_a_merge_keeps_some_groups() {
    let (files, many) = (Files::new(), keys(3 * KEYS_MAX));
    files.write("full", |blocks| put(blocks, 0, &many, GROUP, true, Lsn(1)));
    files.write("changes", |blocks| put(blocks, 0, &many, GROUP + 7, false, Lsn(2)));
    let (merged, keys, _) = files.merge();
    assert!(merged.is_complete && merged.keys_max <= 3 * GROUP, "{merged:?}");
    assert_eq!(keys, many.len() as u64);
}

#[test]
fn of_changes_that_no_older_entry_can_meet_no_keys_are_kept() {
    let many = keys(3 * KEYS_MAX);
    // What is written to another database lies behind all that there was; what is whole needs no keys.
    for (db, whole) in [(1, false), (0, true)] {
        let files = Files::new();
        files.write("full", |blocks| put(blocks, 0, &keys(50), GROUP, true, Lsn(1)));
        files.write("changes", |blocks| put(blocks, db, &many, GROUP, whole, Lsn(2)));
        let (merged, found, asked) = files.merge();
        assert!(merged.is_complete && merged.keys_max <= GROUP, "{merged:?}");
        assert_eq!(found, many.len() as u64 + if whole { 0 } else { 50 });
        assert!(asked >= many.len() / GROUP, "it neither rests nor can be stopped: {asked}");
    }
}
