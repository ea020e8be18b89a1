//! Tests of compressed blocks: where they stand, beside which others, what damage makes of them, and forged
//! ones. On the simulated disk, without the threads of the log.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;

use super::flusher::Flight;
use super::pipeline::{Pipeline, Taken};
use super::rescue::Rescue;
use crate::io::{Crash, Disk, Fault, SimDisk, SimOptions};
use crate::log::block::{BlockHeader, padded_length, seal};
use crate::log::format::{
    BLOCK_ALIGN_BYTES, BLOCK_BEGIN, BLOCK_HEADER_BYTES, BLOCK_LZ4, FILE_HEADER_BYTES, put_varint,
};
use crate::log::handle::begin;
use crate::log::open::reader::Reader;
use crate::log::packed::{Packed, RAW_BYTES_MAX, body_of, bounded};
use crate::log::{
    Appender, Compression, FormatError, Group, Keeper, LogError, LogOptions, OpenError, Sizes, SyncMode,
};
use crate::record::{Change, Lsn, Write};

const FILE: &str = "/a/0000000001.tarnlog";

/// Needs every record.
struct NeedsAll;

impl Keeper for NeedsAll {
    fn settle(&mut self, _: &Appender, _: Lsn) -> Result<(), LogError> {
        Ok(())
    }

    fn needs(&mut self, _: Lsn, _: &Write<'_>) -> bool {
        true
    }

    fn moved(&mut self, _: u64) -> bool {
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
    let mut group = Group::new();
    let change = Change::Put { value: value(number).into(), expiry: None };
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
    // This one is the last: those that follow stand directly behind what is left of it.
    assert!(flight().write(&pipeline, second));
    pipeline.write_alone(take(&pipeline, 3));
    let flags: Vec<u32> = blocks_of(&disk).iter().map(|(_, header)| header.flags & BLOCK_LZ4).collect();
    assert_eq!(flags, [0, BLOCK_LZ4, BLOCK_LZ4]);
    let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::No).unwrap().1, 3);
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
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    assert_eq!(open(&disk, SyncMode::No).unwrap().1, count);
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
    let mut lengths = Vec::new();
    for kind in [Compression::Lz4, Compression::No, Compression::Lz4] {
        pipeline.set_compression(kind);
        let files = log.closed_files();
        log.compact(&files, Lsn(3), Lsn::ZERO, &mut NeedsAll).unwrap();
        let found = blocks_of(&disk);
        assert!(
            found.iter().all(|(_, header)| (header.flags & BLOCK_LZ4 != 0) == (kind == Compression::Lz4))
        );
        lengths.push(log.closed_files()[0].bytes());
        assert_eq!(log.verify(&log.closed_files()[0], |_| true).unwrap(), Some(Vec::new()));
        assert_eq!(open(&copy_of(&disk), SyncMode::No).unwrap().1, 3, "{kind:?}");
    }
    assert!(lengths[0] == lengths[2] && lengths[0] < lengths[1] / 4, "{lengths:?}");
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

/// Puts a block with this body in the place of the last of `three(false)`, checksums and all, and opens it.
fn forged(body: &[u8], flags: u32) -> Result<u64, OpenError> {
    let disk = three(false);
    let (at, header) = *blocks_of(&disk).last().unwrap();
    let mut bytes = vec![0; BLOCK_HEADER_BYTES];
    bytes.extend_from_slice(body);
    let length = padded_length(bytes.len(), at as u64, BLOCK_ALIGN_BYTES);
    seal(&mut bytes, BlockHeader { flags, length, ..header });
    let file = disk.open(Path::new(FILE)).unwrap();
    file.set_len(at as u64).unwrap();
    file.write_all_at(&bytes, at as u64).unwrap();
    open(&disk, SyncMode::EverySec).map(|(_, last)| last)
}

/// A body that says these lengths of these bytes.
fn body(raw: u64, packed: u64, lz4: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    put_varint(&mut body, raw);
    put_varint(&mut body, packed);
    body.extend_from_slice(lz4);
    body
}

/// The body of a compressed block that is whole: both lengths, and the bytes.
fn whole() -> (u64, Vec<u8>) {
    let mut group = Group::new();
    let change = Change::Put { value: value(3).into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".into(), change });
    let mut records = Vec::new();
    group.copy_to(&mut records);
    (records.len() as u64, lz4_flex::block::compress(&records))
}

#[test]
fn forged_lengths_are_refused_before_there_is_memory_for_them() {
    let (raw, lz4) = whole();
    let packed = lz4.len() as u64;
    assert_eq!(forged(&body(raw, packed, &lz4), BLOCK_LZ4).unwrap(), 3, "the one that is right is read");
    for (raw, packed) in [
        (raw + 1, packed),
        (raw - 1, packed),
        (0, packed),
        (raw, packed - 1),
        (raw, packed + 1000),
        (raw, u64::MAX),
        (u64::MAX, packed),
        (u64::MAX, u64::MAX),
        (1 << 50, packed),
        (RAW_BYTES_MAX as u64 + 1, packed),
        (packed * 255 + 1, packed),
        (raw, 0),
        (1 << 20, 0),
    ] {
        let outcome = forged(&body(raw, packed, &lz4), BLOCK_LZ4);
        let refused = matches!(&outcome, Err(OpenError::TooNew { .. }));
        assert!(refused, "{raw} of {packed} bytes: {outcome:?}");
    }
    // Flags that do not fit the body, either way.
    assert!(matches!(forged(&body(raw, packed, &lz4), 0), Err(OpenError::TooNew { .. })));
    assert!(matches!(forged(&lz4, BLOCK_LZ4), Err(OpenError::TooNew { .. })));
    assert!(matches!(forged(&[], BLOCK_LZ4), Err(OpenError::TooNew { .. })));
}

#[test]
fn a_body_is_decompressed_up_to_a_bound() {
    assert_eq!(
        [bounded(255, 1), bounded(256, 1), bounded(0, 0), bounded(1, 0)],
        [Some(255), None, Some(0), None]
    );
    assert_eq!(bounded(u64::MAX, u64::MAX), None);
    for raw in [RAW_BYTES_MAX, RAW_BYTES_MAX + 1] {
        let zeros = vec![0; raw];
        let lz4 = lz4_flex::block::compress(&zeros);
        let outcome = body_of(&header(BLOCK_LZ4), &body(raw as u64, lz4.len() as u64, &lz4)).map(|_| ());
        let expected = if raw > RAW_BYTES_MAX { Err(FormatError::BadPacking) } else { Ok(()) };
        assert_eq!(outcome, expected, "{raw}");
        let block = [&[0; BLOCK_HEADER_BYTES], &zeros[..]].concat();
        let length = padded_length(block.len(), 0, BLOCK_ALIGN_BYTES);
        let packed = Packed::shorter(&block, length, 0, BLOCK_ALIGN_BYTES);
        assert_eq!(packed.is_some(), raw <= RAW_BYTES_MAX, "no block is written that no reader takes");
    }
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
            let body = &bytes[BLOCK_HEADER_BYTES..bytes.len() - 8];
            prop_assert_eq!(&body_of(&header(BLOCK_LZ4), body).unwrap()[..], &block[BLOCK_HEADER_BYTES..]);
            prop_assert_eq!(&body_of(&header(0), body).unwrap()[..], body);
        }
    }

    #[test]
    fn a_body_of_any_bytes_is_decompressed_or_refused(
        raw in prop_oneof![0_u64..2_000, any::<u64>()],
        packed in prop::option::of(any::<u64>()),
        lz4 in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        bit in 0_u8..8,
        is_whole in any::<bool>(),
    ) {
        let (whole_raw, whole_lz4) = whole();
        let (raw, mut lz4) = if is_whole { (whole_raw, whole_lz4) } else { (raw, lz4) };
        if !lz4.is_empty() {
            let at = at.index(lz4.len());
            lz4[at] ^= 1 << bit;
        }
        let packed = packed.filter(|_| !is_whole).unwrap_or(lz4.len() as u64);
        match body_of(&header(BLOCK_LZ4), &body(raw, packed, &lz4)) {
            Ok(bytes) => prop_assert_eq!(bytes.len() as u64, raw),
            Err(error) => {
                let known = [FormatError::BadPacking, FormatError::CutOff, FormatError::BadNumber];
                prop_assert!(known.contains(&error));
            }
        }
    }
}
