//! Tests of compressed blocks: where they stand, beside which others, what damage makes of them, and forged
//! ones. On the simulated disk, without the threads of the log.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use proptest::prelude::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::flusher::Flight;
use super::pipeline::{Pipeline, Taken};
use super::rescue::Rescue;
use crate::io::{Crash, Disk, Fault, SimDisk, SimOptions, Tap, TappedDisk};
use crate::log::block::{BlockHeader, padded_length, seal};
use crate::log::file::FileHeader;
use crate::log::format::{
    BLOCK_ALIGN_BYTES, BLOCK_BEGIN, BLOCK_CONDENSED, BLOCK_HEADER_BYTES, BLOCK_LZ4, BLOCK_TELLS,
    BLOCK_TRAILER_BYTES, FILE_HEADER_BYTES, put_varint,
};
use crate::log::handle::begin;
use crate::log::open::ahead::{BUFFERS, StreamFile};
use crate::log::open::reader::Reader;
use crate::log::open::stream::{Found, Message, read_ahead};
use crate::log::packed::{Body, Packed, RAW_BYTES_MAX, raw_length};
use crate::log::{
    Appender, CompactionError, Compression, Group, Keeper, LogError, LogOptions, OpenError, Sizes, SyncMode,
};
use crate::record::{Change, Lsn, Write};

const FILE: &str = "/a/0000000001.tarnlog";

/// Needs every record behind `obsolete`. A checkpoint has all up to `covered`.
#[derive(Default)]
struct Needs {
    obsolete: Lsn,
    covered: Lsn,
    moved: u64,
}

impl Keeper for Needs {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        Ok(())
    }

    fn covered(&self) -> Lsn {
        self.covered
    }

    fn needs(&mut self, lsn: Lsn, _: &Write<'_>) -> bool {
        lsn > self.obsolete
    }

    fn moved(&mut self, bytes: u64) -> bool {
        self.moved += bytes;
        true
    }
}

fn options(mode: SyncMode) -> LogOptions {
    let mut options = LogOptions::new(vec!["/a".into()]);
    (options.mode, options.file_bytes, options.sizes) = (mode, 1 << 20, Sizes::SMALL);
    options.compression = Compression::Lz4;
    options
}

/// The value of record `number`.
fn value(number: u64) -> Vec<u8> {
    format!("{number} is the value of {number}; ").repeat(60).into_bytes()
}

/// Opens the log, of which record `n` has `value(n)`; and the newest record.
fn open(disk: &SimDisk, mode: SyncMode) -> Result<(Arc<Pipeline>, u64), OpenError> {
    let mut reader = Reader::open(Arc::new(disk.clone()), options(mode))?;
    let mut last = 0;
    while let Some(block) = reader.next_block()? {
        for record in block.records() {
            let record = record.map_err(|error| block.not_understood(error))?;
            last += 1;
            let change = Change::Put { value: value(last).into(), expiry: None };
            let write = Write::Key { db: 0, key: b"key".into(), change };
            assert_eq!((record.lsn, record.write), (Lsn(last), write));
        }
    }
    Ok((Arc::new(begin(reader.finish()?)?.0), last))
}

/// Appends record `number` and takes it as a block.
fn take(pipeline: &Arc<Pipeline>, number: u64) -> Taken {
    take_value(pipeline, number, value(number))
}

fn take_value(pipeline: &Arc<Pipeline>, number: u64, value: Vec<u8>) -> Taken {
    let mut group = Group::new();
    let change = Change::Put { value: value.into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".into(), change });
    assert_eq!(Appender { pipeline: pipeline.clone() }.append(&group).unwrap(), Lsn(number));
    pipeline.take(&mut pipeline.active.lock(), 0, 0).unwrap()
}

fn flight() -> Flight {
    Flight { lane: 0, handle: 0 }
}

/// The blocks of a file: where each begins, and its header.
fn blocks(bytes: &[u8]) -> Vec<(usize, BlockHeader)> {
    let id = u64::from_le_bytes(*bytes[48..].first_chunk().unwrap());
    let begins = memchr::memmem::find_iter(bytes, &BLOCK_BEGIN);
    begins.filter_map(|at| Some((at, BlockHeader::parse(&bytes[at..], id)?))).collect()
}

fn blocks_of(disk: &SimDisk) -> Vec<(usize, BlockHeader)> {
    blocks(&disk.contents(Path::new(FILE)).unwrap())
}

#[test]
fn blocks_are_compressed_and_stand_behind_each_other() {
    for mode in [SyncMode::Always, SyncMode::EverySec, SyncMode::No] {
        let disk = SimDisk::new(1, SimOptions::default());
        let (pipeline, _) = open(&disk, mode).unwrap();
        for number in 1..=5 {
            // Both kinds in one file.
            let is_packed = number != 3;
            pipeline.set_compression(if is_packed { Compression::Lz4 } else { Compression::No });
            pipeline.write_alone(take(&pipeline, number));
        }
        let found = blocks_of(&disk);
        let mut end = FILE_HEADER_BYTES;
        for (index, (at, header)) in found.iter().enumerate() {
            assert_eq!((*at, header.flags & BLOCK_LZ4 != 0), (end, index != 2), "{mode:?}");
            end += header.length as usize;
        }
        assert!(found.len() == 5 && found[0].1.length < found[2].1.length);
        let status = pipeline.status();
        assert_eq!((status.packed_blocks, status.compression), (4, Compression::Lz4));
        assert_eq!(status.packed_bytes_before, 4 * found[2].1.length, "{mode:?}");
        assert_eq!(status.bytes_written(), found.iter().map(|(_, header)| header.length).sum::<u64>());
        let packed = found.iter().filter(|(_, header)| header.flags & BLOCK_LZ4 != 0);
        assert_eq!(status.packed_bytes_after, packed.map(|(_, header)| header.length).sum::<u64>());
        assert_eq!(status.backlog_bytes, 0);
        let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
        assert_eq!(open(&disk, mode).unwrap().1, 5, "{mode:?}");
    }
}

#[test]
fn a_block_that_another_stands_behind_is_written_as_it_is() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let first = take(&pipeline, 1);
    let second = take(&pipeline, 2);
    assert!(flight().write(&pipeline, first));
    // After an attempt in vain one is not tried.
    assert!(flight().write(&pipeline, second));
    // This one is the last: those that follow stand directly behind what is left of it.
    pipeline.write_alone(take(&pipeline, 3));
    pipeline.write_alone(take(&pipeline, 4));
    let flags: Vec<u32> = blocks_of(&disk).iter().map(|(_, header)| header.flags & BLOCK_LZ4).collect();
    assert_eq!(flags, [0, 0, BLOCK_LZ4, BLOCK_LZ4]);
    let status = pipeline.status();
    assert_eq!((status.packed_blocks, status.packing_overtaken, status.packing_misses), (2, 1, 0));
    let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::No).unwrap().1, 4);
}

#[test]
fn where_others_are_placed_behind_all_blocks_few_are_tried() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let mut taken = take(&pipeline, 1);
    for number in 2..=301 {
        let behind = take(&pipeline, number);
        assert!(flight().write(&pipeline, std::mem::replace(&mut taken, behind)));
    }
    let status = pipeline.status();
    // 1, 3, 6, 11, 20, 37, 70, 135, 200 and 265.
    assert_eq!((status.packed_blocks, status.packing_overtaken, status.packing_misses), (0, 10, 0));
}

#[test]
fn a_block_of_a_file_that_has_been_left_is_written_as_it_is() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let first = take(&pipeline, 1);
    assert!(pipeline.prepare(0));
    pipeline.begin_to_leave(Lsn(1));
    assert!(flight().write(&pipeline, first));
    pipeline.write_alone(take(&pipeline, 2));
    pipeline.leave_files();
    assert_eq!(blocks_of(&disk)[0].1.flags, 0);
    pipeline.close().unwrap();
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::No).unwrap().1, 2);
}

#[test]
fn a_block_that_is_not_written_is_counted_once_a_rescue_has_written_it() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    pipeline.write_alone(take(&pipeline, 1));
    let faults_per_mille = vec![(Fault::WriteError, 1000)];
    disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    assert!(!flight().write(&pipeline, take(&pipeline, 2)));
    let (status, found) = (pipeline.status(), blocks_of(&disk));
    let first = found[0].1.length;
    assert_eq!((status.packed_blocks, status.packed_bytes_after, status.bytes_written()), (1, first, first));
    disk.set_options(SimOptions::default());
    assert_eq!(pipeline.rescue(), Rescue::Done);
    // It moves both, of which the first was counted.
    let status = pipeline.status();
    assert_eq!(status.packed_blocks, 2);
    assert!(status.packed_bytes_after.abs_diff(2 * first) < 100, "{status:?}");
}

/// Bytes that cannot be compressed.
fn noise(rng: &mut SmallRng, length: usize) -> Vec<u8> {
    (0..length).map(|_| rng.random()).collect()
}

#[test]
fn blocks_that_cannot_be_compressed_are_counted_and_soon_not_tried() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let mut rng = SmallRng::seed_from_u64(1);
    for number in 1..=300 {
        pipeline.write_alone(take_value(&pipeline, number, noise(&mut rng, 1_000)));
    }
    let status = pipeline.status();
    assert_eq!(status.packed_blocks, 0);
    // 1, 3, 6, 11, 20, 37, 70, 135, 200 and 265.
    assert_eq!(status.packing_misses, 10);
    // What can be compressed again is tried again soon, and each time from then on.
    for number in 301..=400 {
        pipeline.write_alone(take(&pipeline, number));
    }
    assert!(pipeline.status().packed_blocks >= 100 - 64);
    let found = blocks_of(&disk);
    let first = found.iter().position(|(_, header)| header.flags & BLOCK_LZ4 != 0).unwrap();
    assert!(found[first..].iter().all(|(_, header)| header.flags & BLOCK_LZ4 != 0));
}

#[test]
fn a_block_that_gets_hardly_shorter_is_not_compressed() {
    let mut rng = SmallRng::seed_from_u64(1);
    for (zeros, is_packed) in [(500, false), (1_500, true)] {
        let block = [vec![0; BLOCK_HEADER_BYTES], noise(&mut rng, 16_000), vec![0; zeros]].concat();
        let length = padded_length(block.len(), 0, BLOCK_ALIGN_BYTES);
        assert_eq!(Packed::shorter(&block, length, 0, BLOCK_ALIGN_BYTES).is_some(), is_packed, "{zeros}");
    }
}

#[test]
fn a_rescue_reads_compressed_blocks_back_that_memory_has_no_more() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    // More bytes than are kept.
    let count = 2 * Sizes::SMALL.kept_bytes as u64 / 200;
    for number in 1..=count {
        let taken = take(&pipeline, number);
        assert!(flight().write(&pipeline, taken));
    }
    let standing = pipeline.durable.standing();
    assert!(standing.pending.iter().any(|block| block.bytes.is_none()), "some must be read back");
    let faults_per_mille = vec![(Fault::SyncError, 1000)];
    disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    pipeline.sync_all();
    assert!(pipeline.failed());
    disk.set_options(SimOptions::default());
    assert_eq!(pipeline.rescue(), Rescue::Done);
    assert_eq!(pipeline.durable.lsn(), Lsn(count));
    pipeline.leave_all_files();
    let rescued = Appender { pipeline: pipeline.clone() }.closed_files().pop().unwrap();
    assert!(rescued.raw_bytes() > 1_000 * rescued.records(), "{} bytes", rescued.raw_bytes());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::No).unwrap().1, count);
}

#[test]
fn a_rescue_counts_what_compression_saves_where_the_blocks_are() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    (1..=50).for_each(|number| pipeline.write_alone(take(&pipeline, number)));
    pipeline.sync_all();
    assert_eq!(pipeline.durable.lsn(), Lsn(50));
    let raw_bytes = || {
        let active = pipeline.active.lock();
        active.lanes[0].offset + active.lanes[0].contents.saved
    };
    let durable = raw_bytes();
    for number in 51..=100 {
        assert!(flight().write(&pipeline, take(&pipeline, number)));
    }
    let all = raw_bytes();
    let faults_per_mille = vec![(Fault::SyncError, 1000)];
    disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    pipeline.sync_all();
    assert!(pipeline.failed());
    disk.set_options(SimOptions::default());
    assert_eq!(pipeline.rescue(), Rescue::Done);
    pipeline.leave_all_files();
    let files = Appender { pipeline }.closed_files();
    assert_eq!((files.len(), files[0].raw_bytes()), (2, durable));
    let moved = files[1].raw_bytes() - FILE_HEADER_BYTES as u64;
    assert!(moved.abs_diff(all - durable) < 512, "{moved} bytes of {all} were moved");
}

/// Another disk with the same files.
fn copy_of(disk: &SimDisk) -> SimDisk {
    let copy = SimDisk::new(1, SimOptions::default());
    for path in disk.paths() {
        copy.create(&path).unwrap().write_all_at(&disk.contents(&path).unwrap(), 0).unwrap();
    }
    copy
}

#[test]
fn compaction_compresses_what_was_not_and_the_reverse() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let kinds = [Compression::No, Compression::Lz4, Compression::No];
    for (number, kind) in (1..=3).zip(kinds) {
        pipeline.set_compression(kind);
        pipeline.write_alone(take(&pipeline, number));
    }
    pipeline.leave_all_files();
    let log = Appender { pipeline: pipeline.clone() };
    let (mut lengths, mut raw_lengths) = (Vec::new(), vec![log.closed_files()[0].raw_bytes()]);
    for kind in [Compression::Lz4, Compression::No, Compression::Lz4] {
        pipeline.set_compression(kind);
        let files = log.closed_files();
        let mut keeper = Needs::default();
        let compacted = log.compact(&files, Lsn(3), Lsn::ZERO, &mut keeper).unwrap();
        let found = blocks_of(&disk);
        assert!(
            found.iter().all(|(_, header)| (header.flags & BLOCK_LZ4 != 0) == (kind == Compression::Lz4))
        );
        let file = &log.closed_files()[0];
        lengths.push(file.bytes());
        raw_lengths.extend([file.raw_bytes(), compacted.raw_bytes_after]);
        // It is read and written, whatever there is of it on disk.
        let moved = 2 * (file.raw_bytes() - FILE_HEADER_BYTES as u64);
        assert!(keeper.moved.abs_diff(moved) < 100, "{} bytes were moved, not {moved}", keeper.moved);
        assert_eq!(log.verify(&log.closed_files()[0], |_| true).unwrap(), Some(Vec::new()));
        let (copy, last) = open(&copy_of(&disk), SyncMode::No).unwrap();
        assert_eq!(last, 3, "{kind:?}");
        raw_lengths.push(Appender { pipeline: copy }.closed_files()[0].raw_bytes());
    }
    // But for padding, and the tables of condensed blocks, each of them counts the same.
    assert!(raw_lengths.iter().all(|length| length.abs_diff(lengths[1]) < 100), "{raw_lengths:?}");
    assert!(lengths[0] == lengths[2] && lengths[0] < lengths[1] / 4, "{lengths:?}");
}

/// A new log, of which all blocks go to one file, and small ones are left for the next by a compaction.
fn in_one_file(disk: &SimDisk) -> Arc<Pipeline> {
    let sizes = Sizes { condensed_bytes: 256 << 10, ..Sizes::SMALL };
    let options = LogOptions { file_bytes: 64 << 20, sizes, ..options(SyncMode::No) };
    let mut reader = Reader::open(Arc::new(disk.clone()), options).unwrap();
    assert!(reader.next_block().unwrap().is_none());
    Arc::new(begin(reader.finish().unwrap()).unwrap().0)
}

#[test]
fn compaction_makes_no_block_that_is_too_long_to_be_compressed() {
    let disk = SimDisk::new(1, SimOptions::default());
    let pipeline = in_one_file(&disk);
    // A small block, and one that with it is longer than can be compressed; then all in one.
    let lengths = [100_000, RAW_BYTES_MAX - 50_000, 100_000, 100_000];
    for (number, length) in (1..).zip(lengths) {
        pipeline.write_alone(take_value(&pipeline, number, vec![b'x'; length]));
    }
    pipeline.leave_all_files();
    let log = Appender { pipeline };
    let before = log.closed_files();
    let compacted = log.compact(&before, Lsn(4), Lsn::ZERO, &mut Needs::default()).unwrap();
    assert_eq!((compacted.records_after, before.len()), (4, 1));
    let found = blocks_of(&disk);
    assert!(found.iter().all(|(_, header)| header.flags & BLOCK_LZ4 != 0), "{found:?}");
    assert_eq!(found.iter().map(|(_, header)| header.count).collect::<Vec<_>>(), [1, 1, 2]);
    assert!(compacted.bytes_after < RAW_BYTES_MAX as u64 / 200);
    assert_eq!(log.verify(&log.closed_files()[0], |_| true).unwrap(), Some(Vec::new()));
}

#[test]
fn the_longest_block_that_is_compressed_is_so_in_its_copy_too() {
    let disk = SimDisk::new(1, SimOptions::default());
    let pipeline = in_one_file(&disk);
    let nearly = RAW_BYTES_MAX - 1_000;
    let first = take_value(&pipeline, 1, vec![b'x'; nearly]);
    // Without padding, in whose place the table could come.
    let missing = RAW_BYTES_MAX - raw_length(first.body_bytes as usize) as usize;
    pipeline.write_alone(first);
    let longest = take_value(&pipeline, 2, vec![b'x'; nearly + missing]);
    assert_eq!(longest.length, RAW_BYTES_MAX as u64);
    pipeline.write_alone(longest);
    pipeline.leave_all_files();
    let log = Appender { pipeline };
    let before = log.closed_files();
    let compacted = log.compact(&before, Lsn(2), Lsn::ZERO, &mut Needs::default()).unwrap();
    assert_eq!((compacted.records_after, before.len()), (2, 1));
    let found = blocks_of(&disk);
    assert!(found.len() == 2 && found.iter().all(|(_, header)| header.flags & BLOCK_LZ4 != 0), "{found:?}");
    assert_eq!(log.verify(&log.closed_files()[0], |_| true).unwrap(), Some(Vec::new()));
}

#[test]
fn a_copy_stays_compressed_without_room_for_more_and_what_is_obsolete_goes() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let count = 100;
    (1..=count).for_each(|number| pipeline.write_alone(take(&pipeline, number)));
    pipeline.leave_all_files();
    let log = Appender { pipeline: pipeline.clone() };
    let lengths = || (log.closed_files()[0].bytes(), log.closed_files()[0].raw_bytes());
    let (bytes, raw) = lengths();
    assert!(bytes < raw / 5, "{bytes} of {raw}");
    let with_room = |free: u64, kind: Compression, obsolete: Lsn| {
        let with = |capacity| SimOptions { capacity_bytes: Some(capacity), ..SimOptions::default() };
        disk.set_options(with(u64::MAX));
        let used = u64::MAX - disk.bytes_free(Path::new("/a")).unwrap();
        disk.set_options(with(used + free));
        pipeline.set_compression(kind);
        let mut keeper = Needs { obsolete, ..Needs::default() };
        log.compact(&log.closed_files(), Lsn(count), Lsn::ZERO, &mut keeper).unwrap()
    };
    let are_packed = || blocks_of(&disk).iter().all(|(_, header)| header.flags & BLOCK_LZ4 != 0);
    // Not even so much that those who append would find the disk full.
    let rooms: [fn(u64) -> u64; 3] = [|_| 0, |raw| raw, |raw| raw + (1 << 20) - 1];
    for room in rooms {
        let (bytes, raw) = lengths();
        let compacted = with_room(room(raw).max(2 * bytes), Compression::No, Lsn::ZERO);
        let lack = compacted.lack.expect("there is no room");
        assert!(lack.contains("log-compression"), "{lack}");
        assert!(are_packed() && compacted.records_after == count);
    }
    let compacted = with_room(raw + (1 << 20) + 10_000, Compression::No, Lsn::ZERO);
    assert_eq!(compacted.lack, None);
    assert!(!are_packed() && log.closed_files()[0].bytes() > 5 * bytes);
    let compacted = with_room(2 * bytes, Compression::Lz4, Lsn::ZERO);
    assert_eq!(compacted.lack, None, "it is compressed as it is to be");
    // Garbage goes, whatever the length of all that was there.
    let compacted = with_room(2 * bytes, Compression::No, Lsn(count - 1));
    assert!(compacted.lack.is_some() && are_packed());
    assert!(compacted.records_after == 1 && log.closed_files()[0].bytes() < bytes / 2);
    assert!(!pipeline.failed());
}

/// A log of three records in compressed blocks, and whether a later one says that all are durable.
fn three(claims: bool) -> SimDisk {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::EverySec).unwrap();
    for number in 1..=3 {
        pipeline.write_alone(take(&pipeline, number));
    }
    if claims {
        pipeline.claim();
    }
    disk.crash(Crash::Kill, 1, SimOptions::default())
}

#[test]
fn each_spoilt_byte_of_a_compressed_block_is_damage_or_the_end_of_the_log() {
    for claims in [false, true] {
        let disk = three(claims);
        let found = blocks_of(&disk);
        assert!(found[..3].iter().all(|(_, header)| header.flags == BLOCK_LZ4));
        for (index, (at, header)) in found[..3].iter().enumerate() {
            for offset in 0..header.length as usize {
                let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
                disk.spoil(Path::new(FILE), at + offset, |byte| byte ^ 0x11);
                // Block `n` says that all before it were durable when it was sealed.
                let is_known = claims || index < 2;
                match open(&disk, SyncMode::EverySec) {
                    Err(OpenError::Damaged(damage)) => {
                        assert!(is_known && damage.offset == *at as u64, "block {index}, byte {offset}");
                    }
                    Ok((_, last)) => assert!(!is_known && last == index as u64, "block {index}"),
                    Err(error) => panic!("block {index}, byte {offset}: {error}"),
                }
            }
        }
    }
}

#[test]
fn a_compressed_block_that_is_cut_off_anywhere_is_a_torn_tail() {
    let disk = three(false);
    let (at, header) = *blocks_of(&disk).last().unwrap();
    for length in 0..header.length {
        let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
        disk.open(Path::new(FILE)).unwrap().set_len(at as u64 + length).unwrap();
        assert_eq!(open(&disk, SyncMode::EverySec).unwrap().1, 2, "{length} bytes");
    }
}

/// Puts a block with this body in the place of the third of `three(claims)`, checksums and all.
fn forged(body: &[u8], flags: u32, claims: bool) -> SimDisk {
    let disk = three(claims);
    let before = disk.contents(Path::new(FILE)).unwrap();
    let (at, header) = blocks_of(&disk)[2];
    let mut bytes = vec![0; BLOCK_HEADER_BYTES];
    bytes.extend_from_slice(body);
    let length = padded_length(bytes.len(), at as u64, BLOCK_ALIGN_BYTES);
    seal(&mut bytes, BlockHeader { flags, length, ..header });
    bytes.extend_from_slice(&before[at + header.length as usize..]);
    let file = disk.open(Path::new(FILE)).unwrap();
    file.set_len(at as u64).unwrap();
    file.write_all_at(&bytes, at as u64).unwrap();
    disk
}

/// The newest record that a start finds after [`forged`].
fn opened(body: &[u8], flags: u32, claims: bool) -> Result<u64, OpenError> {
    open(&forged(body, flags, claims), SyncMode::EverySec).map(|(_, last)| last)
}

/// A body that says these lengths and this checksum of these bytes.
fn body(raw: u32, packed: u32, crc: u32, lz4: &[u8]) -> Vec<u8> {
    let numbers = [raw, packed, crc].map(u32::to_le_bytes);
    [&numbers.concat()[..], lz4].concat()
}

/// The contents of the third block of `three`: its records as they were, and compressed.
fn whole() -> (Vec<u8>, Vec<u8>) {
    let mut group = Group::new();
    let change = Change::Put { value: value(3).into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".into(), change });
    let mut records = Vec::new();
    group.copy_to(&mut records);
    let lz4 = lz4_flex::block::compress(&records);
    (records, lz4)
}

#[test]
fn a_block_that_does_not_hold_what_was_compressed_is_damage_or_a_torn_tail() {
    let (records, lz4) = whole();
    let (raw, packed, crc) = (records.len() as u32, lz4.len() as u32, crc32c::crc32c(&records));
    let right = body(raw, packed, crc, &lz4);
    for claims in [false, true] {
        assert_eq!(opened(&right, BLOCK_LZ4, claims).unwrap(), 3, "the one that is right is read");
    }
    let mut other = lz4.clone();
    // A byte of the text that the block begins with.
    other[4] ^= 1;
    let mut bodies: Vec<Vec<u8>> = [
        (raw + 1, packed, crc),
        (raw - 1, packed, crc),
        (0, packed, crc),
        (raw, packed - 1, crc),
        (raw, packed + 1_000, crc),
        (raw, u32::MAX, crc),
        (u32::MAX, packed, crc),
        (u32::MAX, u32::MAX, crc),
        (RAW_BYTES_MAX as u32 + 1, packed, crc),
        (packed * 255 + 1, packed, crc),
        (raw, 0, crc),
        (1 << 20, 0, crc),
        (raw, packed, crc ^ 1),
    ]
    .iter()
    .map(|(raw, packed, crc)| body(*raw, *packed, *crc, &lz4))
    .collect();
    bodies.extend([body(raw, packed, crc, &other), lz4, right[..11].to_vec(), Vec::new()]);
    // Padding that is not zero.
    bodies.push([&right[..], &[1]].concat());
    for forged in &bodies {
        // Nothing says that it was durable; and then the block behind it does.
        assert_eq!(opened(forged, BLOCK_LZ4, false).unwrap(), 2, "{forged:?}");
        match opened(forged, BLOCK_LZ4, true) {
            Err(OpenError::Damaged(damage)) => assert!(damage.what.contains("compressed"), "{damage}"),
            outcome => panic!("{outcome:?}: {forged:?}"),
        }
    }
    // A compressed body that is not said to be one holds no records.
    assert!(matches!(opened(&right, 0, false), Err(OpenError::TooNew { .. })));
}

#[test]
fn a_block_that_does_not_hold_what_was_compressed_is_found_and_compacted_away() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    (1..=3).for_each(|number| pipeline.write_alone(take(&pipeline, number)));
    pipeline.leave_all_files();
    let (at, header) = blocks_of(&disk)[1];
    let bytes = disk.contents(Path::new(FILE)).unwrap();
    let mut block = bytes[at..at + header.length as usize - BLOCK_TRAILER_BYTES].to_vec();
    // Of the raw checksum.
    block[BLOCK_HEADER_BYTES + 8] ^= 1;
    seal(&mut block, header);
    disk.open(Path::new(FILE)).unwrap().write_all_at(&block, at as u64).unwrap();
    let log = Appender { pipeline };
    let found = log.verify(&log.closed_files()[0], |_| true).unwrap().unwrap();
    assert_eq!(
        found.iter().map(|(damage, last)| (damage.offset, *last)).collect::<Vec<_>>(),
        [(at as u64, Lsn(2))]
    );
    let compact = |covered| {
        let mut keeper = Needs { covered, ..Needs::default() };
        log.compact(&log.closed_files(), Lsn(3), Lsn::ZERO, &mut keeper)
    };
    let outcome = compact(Lsn(1));
    assert!(matches!(outcome, Err(CompactionError::Uncovered { up_to: Lsn(2), .. })), "{outcome:?}");
    let compacted = compact(Lsn(2)).unwrap();
    assert_eq!((compacted.damage.len(), compacted.records_after), (1, 2));
    assert_eq!(log.verify(&log.closed_files()[0], |_| true).unwrap(), Some(Vec::new()));
}

#[test]
fn a_body_is_decompressed_up_to_a_bound() {
    let raw_of = |raw: usize, packed: usize| {
        let bytes = body(raw as u32, packed as u32, 0, &vec![0; packed]);
        Body::of(&bytes).map(|body| body.raw)
    };
    assert_eq!(
        [raw_of(255, 1), raw_of(256, 1), raw_of(0, 0), raw_of(1, 0)],
        [Some(255), None, Some(0), None]
    );
    for (raw, is_read) in [(RAW_BYTES_MAX, true), (RAW_BYTES_MAX + 1, false)] {
        let zeros = vec![0; raw];
        let lz4 = lz4_flex::block::compress(&zeros);
        let bytes = body(raw as u32, lz4.len() as u32, crc32c::crc32c(&zeros), &lz4);
        let unpacked = Body::of(&bytes).and_then(|body| body.unpack(&mut Vec::new()));
        assert_eq!(unpacked.is_some(), is_read, "{raw}");
    }
    let length = RAW_BYTES_MAX as u64;
    assert!(Packed::is_tried(length, 8) && !Packed::is_tried(length + 8, 8), "no reader takes a longer one");
    assert!(!Packed::is_tried(512, 512) && Packed::is_tried(1_024, 512));
}

#[test]
fn a_block_that_is_compressed_takes_little_more_memory_than_it_has() {
    let block = vec![0; BLOCK_HEADER_BYTES + 100_000];
    let length = padded_length(block.len(), 0, BLOCK_ALIGN_BYTES);
    let packed = Packed::shorter(&block, length, 0, BLOCK_ALIGN_BYTES).unwrap();
    assert!(packed.bytes.capacity() < 115_000, "{} bytes", packed.bytes.capacity());
}

/// Starts to read the first `bytes` bytes of the log's file.
fn read_file(disk: Arc<dyn Disk>, bytes: u64) -> Receiver<Message> {
    let (path, file) = (Arc::new(FILE.into()), disk.open(Path::new(FILE)).unwrap());
    let header = FileHeader::read(Path::new(FILE), &*file).unwrap();
    let file = StreamFile { path, file, header, index: 0, bytes, sequence_limit: u64::MAX };
    read_ahead(disk, vec![file], Arc::default(), Sizes::SMALL)
}

/// Is there as long as a thread has the disk.
#[derive(Debug)]
struct Used {
    _by: Sender<()>,
}

impl Tap for Used {}

#[test]
fn a_reading_that_is_given_up_while_its_threads_wait_for_memory_ends() {
    // One of them waits until what was decompressed is replayed, or both until buffers come back, or one
    // until a block that fits no buffer is replayed.
    let long = 3 * Sizes::SMALL.piece_bytes;
    for (kind, length, ahead) in
        [(Compression::Lz4, 2_000, 1), (Compression::No, 2_000, BUFFERS), (Compression::No, long, 1)]
    {
        let disk = SimDisk::new(1, SimOptions::default());
        let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
        pipeline.set_compression(kind);
        let count = 400_000 / length as u64;
        (1..=count).for_each(|number| {
            pipeline.write_alone(take_value(&pipeline, number, vec![b'x'; length]));
        });
        let (at, last) = *blocks_of(&disk).last().unwrap();
        let (by, used) = crossbeam_channel::unbounded();
        let tapped = TappedDisk::new(Arc::new(disk.clone()), Arc::new(Used { _by: by }));
        let messages = read_file(Arc::new(tapped), at as u64 + last.length);
        for _ in 0..10_000 {
            if messages.len() >= ahead {
                break;
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        assert!(messages.len() >= ahead, "{kind:?}: {} messages are ahead", messages.len());
        drop(messages);
        let ended = used.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected), "{kind:?}");
    }
}

#[test]
fn a_start_has_no_more_long_blocks_ahead_than_it_may() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    pipeline.set_compression(Compression::No);
    let (may, count) = (BUFFERS * Sizes::SMALL.piece_bytes, 30);
    // They fit no buffer, and one of them is more than all.
    let length = |number| if number == 20 { 2 * may } else { 2 * Sizes::SMALL.piece_bytes };
    for number in 1..=count {
        pipeline.write_alone(take_value(&pipeline, number, vec![b'x'; length(number)]));
    }
    let (at, last) = *blocks_of(&disk).last().unwrap();
    let messages = read_file(Arc::new(disk), at as u64 + last.length);
    let mut blocks = 0;
    while let Some(found) = messages.recv().unwrap().unwrap() {
        // Held for long enough that all that may is read meanwhile.
        (0..20).for_each(|_| std::thread::park_timeout(Duration::from_millis(1)));
        assert!(messages.len() <= BUFFERS / 2, "{} messages are ahead", messages.len());
        blocks += found.len();
    }
    assert_eq!(blocks, count as usize);
}

#[test]
fn a_start_has_no_more_decompressed_than_it_may() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    let may = BUFFERS * Sizes::SMALL.piece_bytes;
    let mut written = 0;
    for number in 1..=400 {
        // One of them is longer than all may be.
        let value = if number == 200 { vec![b'x'; may + 1_000] } else { value(number) };
        written += value.len();
        pipeline.write_alone(take_value(&pipeline, number, value));
    }
    let (at, last) = *blocks_of(&disk).last().unwrap();
    let bytes = at as u64 + last.length;
    assert!(bytes < 10 * Sizes::SMALL.piece_bytes as u64 && written > 10 * may, "{bytes} of {written} bytes");
    let messages = read_file(Arc::new(disk), bytes);
    let (mut blocks, mut longer) = (0, 0);
    while let Some(found) = messages.recv().unwrap().unwrap() {
        let lengths = found.iter().map(|found| match found {
            Found::Block { block, .. } => block.body.len(),
            found => panic!("{found:?}"),
        });
        let lengths: Vec<usize> = lengths.collect();
        blocks += lengths.len();
        let sum: usize = lengths.iter().sum();
        longer += usize::from(sum > may);
        assert!(sum <= may || lengths.len() == 1, "{} blocks of {sum} bytes are ahead", lengths.len());
    }
    assert_eq!((blocks, longer), (400, 1));
}

#[test]
fn what_cannot_be_read_in_a_chunk_that_is_delivered_in_parts_comes_where_it_stands() {
    let disk = SimDisk::new(1, SimOptions::default());
    let (pipeline, _) = open(&disk, SyncMode::No).unwrap();
    // Some of them are all that may be decompressed at once, and many more go into a piece.
    (1..=400).for_each(|number| pipeline.write_alone(take_value(&pipeline, number, vec![b'x'; 5_000])));
    let (at, last) = *blocks_of(&disk).last().unwrap();
    let (bytes, step) = (at as u64 + last.length, Sizes::SMALL.unread_bytes as u64);
    assert!(bytes > 10 * step && 20 * last.length < step, "{bytes} bytes");
    for bad in [2 * step, 3 * step] {
        let sector = (Path::new(FILE).to_path_buf(), bad + 1_024..bad + 1_536);
        disk.set_options(SimOptions { bad_bytes: vec![sector], ..SimOptions::default() });
        let messages = read_file(Arc::new(disk.clone()), bytes);
        let (mut places, mut unread) = (Vec::new(), Vec::new());
        while let Some(found) = messages.recv().unwrap().unwrap() {
            for found in found {
                places.push(match found {
                    Found::Block { block, .. } => block.offset,
                    Found::Fault(fault) => fault.offset,
                    Found::Unread(its) => {
                        unread.push(its.offset);
                        its.offset
                    }
                    found => panic!("{found:?}"),
                });
            }
        }
        assert_eq!(unread, [bad]);
        assert!(places.is_sorted(), "{bad}: {places:?}");
        assert!(places.len() > 300);
    }
}

#[test]
fn the_voids_of_a_table_take_no_more_memory_than_their_bytes() {
    let (disk, count) = (three(false), 300_000);
    let (at, header) = blocks_of(&disk)[2];
    // Each directly behind the one before, and of no records.
    let mut block = vec![0; BLOCK_HEADER_BYTES];
    [0, 1, count, count, 0].into_iter().for_each(|number| put_varint(&mut block, number));
    block.resize(block.len() + 4 * count as usize, 0);
    let offset = at as u64;
    let length = padded_length(block.len(), offset, BLOCK_ALIGN_BYTES);
    let packed = Packed::shorter(&block, length, offset, BLOCK_ALIGN_BYTES).unwrap();
    let flags = BLOCK_CONDENSED | BLOCK_TELLS | BLOCK_LZ4;
    let (sequence, length) = (3 + count, packed.length);
    let mut bytes = packed.bytes;
    seal(&mut bytes, BlockHeader { sequence, count: 0, flags, length, ..header });
    disk.open(Path::new(FILE)).unwrap().write_all_at(&bytes, offset).unwrap();
    let messages = read_file(Arc::new(disk), offset + length);
    let (mut blocks, mut voids) = (0, Vec::new());
    while let Some(found) = messages.recv().unwrap().unwrap() {
        for found in found {
            match found {
                Found::Block { .. } => blocks += 1,
                Found::Voids { tells, .. } => voids.push(tells),
                found => panic!("{found:?}"),
            }
        }
    }
    assert_eq!((blocks, voids.len()), (3, 1));
    let mut froms = vec![voids[0].next.blocks.from];
    while voids[0].advance() {
        froms.push(voids[0].next.blocks.from);
    }
    assert!(froms.into_iter().eq(3..3 + count));
}

fn header(flags: u32) -> BlockHeader {
    let (file_id, sequence, durable, first, count) = (1, 1, 0, Lsn(1), 1);
    BlockHeader { file_id, sequence, durable, first, count, flags, length: 1 << 30, body_crc: 0 }
}

proptest! {
    #[test]
    fn a_body_that_is_compressed_comes_back(
        pieces in prop::collection::vec((any::<u8>(), 1_usize..400, any::<bool>()), 0..40),
        offset in (0_u64..100).prop_map(|offset| offset * 8),
        sector in any::<bool>(),
    ) {
        let mut block = vec![0; BLOCK_HEADER_BYTES];
        for (byte, count, is_run) in pieces {
            let next = |at: usize| if is_run { byte } else { (at * (usize::from(byte) + 3) % 251) as u8 };
            block.extend((0..count).map(next));
        }
        let align = if sector { 512 } else { 8 };
        let length = padded_length(block.len(), offset, align);
        if let Some(packed) = Packed::shorter(&block, length, offset, align) {
            prop_assert!(packed.length < length && (offset + packed.length).is_multiple_of(align as u64));
            let mut bytes = packed.bytes;
            seal(&mut bytes, BlockHeader { length: packed.length, ..header(BLOCK_LZ4) });
            let mut body = b"what was there before".to_vec();
            Body::of(&bytes[BLOCK_HEADER_BYTES..bytes.len() - 8]).unwrap().unpack(&mut body).unwrap();
            prop_assert_eq!(&body[..], &block[BLOCK_HEADER_BYTES..]);
        }
    }

    #[test]
    fn a_body_of_any_bytes_is_what_was_compressed_or_refused(
        raw in prop_oneof![0_u32..2_000, any::<u32>()],
        packed in prop::option::of(any::<u32>()),
        crc in any::<u32>(),
        lz4 in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        is_whole in any::<bool>(),
    ) {
        let (records, whole) = whole();
        let crc = if is_whole { crc32c::crc32c(&records) } else { crc };
        let (raw, mut lz4) = if is_whole { (records.len() as u32, whole) } else { (raw, lz4) };
        if !lz4.is_empty() {
            let at = at.index(lz4.len());
            lz4[at] ^= 1 << bit;
        }
        let packed = packed.filter(|_| !is_whole).unwrap_or(lz4.len() as u32);
        let bytes = body(raw, packed, crc, &lz4);
        let mut out = Vec::new();
        if Body::of(&bytes).and_then(|body| body.unpack(&mut out)).is_some() {
            prop_assert_eq!((out.len(), crc32c::crc32c(&out)), (raw as usize, crc));
            prop_assert!(!is_whole || out == records);
        }
    }
}
