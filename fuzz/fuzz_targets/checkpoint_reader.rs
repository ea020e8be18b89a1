//! Checkpoints from any bytes: no panic, no more memory than the file is worth, nothing newer than the cut,
//! and what is loaded is loaded the same from the checkpoint that is taken of it.
//!
//! ```text
//!  input:  | bit 0: threads, bit 1: as it is | bodies of blocks, each with its length, flags and count |
//! ```
//!
//! Checksums and the manifest fit, so that what is behind them is reached; with bit 1 the input is the file
//! itself.
#![no_main]

#[path = "log_reader/input.rs"]
mod input;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Disk, ManualClock, SimDisk, SimOptions};
use tarn_engine::record::Lsn;
use tarn_engine::recovery;
use tarn_engine::table::{Retired, ScanBudget, Table};

use input::Input;

/// A length that a file only tells must not be allocated: beyond this the process is aborted.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 256 << 20);

const DATABASES: usize = 2;
const CUT: u64 = 1_000;

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let choices = input.byte();
    let file = if choices & 2 == 2 { input.0.to_vec() } else { file_of(&mut input) };
    let disk: Arc<dyn Disk> = Arc::new(disk_of(&file));
    let directory = PathBuf::from("/checkpoints");
    let Ok(checkpoints) = Checkpoints::open(disk, &directory) else { return };
    let threads = 1 + usize::from(choices & 1);
    let Ok(Some(loaded)) = checkpoints.load(recovery::empty(DATABASES), threads, &|_, _| {}) else { return };
    let keys: usize = loaded.tables.iter().map(|table| table.len()).sum();
    assert_eq!(keys as u64, loaded.keys);
    loaded.tables.iter().for_each(|table| assert_not_newer(table, loaded.cut));
    let clock = Arc::new(ManualClock::new(1));
    let (engine, background) = Engine::loaded(loaded, 1, clock.clone());
    let options = TakeOptions { pace: Pace::Fast, writers: 1 };
    let taken = checkpoints.take(&*engine, CheckpointMode::Incremental, options, 1);
    let taken = taken.expect("the disk has no faults");
    assert_eq!(taken.keys, keys as u64);
    drop(background);
    let again = checkpoints.load(recovery::empty(DATABASES), 1, &|_, _| {}).expect("it was written right");
    assert_eq!(again.expect("it was taken").keys, keys as u64);
});

/// All records of all entries are in the checkpoint: a later write gets the number of none of them.
fn assert_not_newer(table: &Table, cut: Lsn) {
    table.scan(0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
        let mut retired = Retired::default();
        entry.clone().retire(&mut retired);
        retired.lsns.iter().for_each(|lsn| assert!(*lsn <= cut));
        retired.garbage.iter().for_each(|garbage| garbage.for_each_lsn(&mut |lsn| assert!(lsn <= cut)));
        false
    });
}

/// A file whose header, marks, sequences and checksums are right.
fn file_of(input: &mut Input<'_>) -> Vec<u8> {
    let mut file = b"TARNCKP\n".to_vec();
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&0_u32.to_le_bytes());
    file.extend_from_slice(&(DATABASES as u32).to_le_bytes());
    file.extend_from_slice(&0_u32.to_le_bytes());
    file.extend_from_slice(&CUT.to_le_bytes());
    file.extend_from_slice(&0_u64.to_le_bytes());
    file.extend_from_slice(&1_u64.to_le_bytes());
    file.extend_from_slice(&[0; 12]);
    let crc = crc32c::crc32c(&file);
    file.extend_from_slice(&crc.to_le_bytes());
    let mut sequence = 0;
    while !input.0.is_empty() && sequence < 8 {
        let (flags, count, len) = (input.byte() & 2, u32::from(input.byte()), input.below(4_096));
        let body = input.take(len).to_vec();
        block(&mut file, sequence, flags, count, &body);
        sequence += 1;
    }
    let keys = u64::from(input.byte());
    block(&mut file, sequence, 1, 0, &keys.to_le_bytes());
    file
}

fn block(file: &mut Vec<u8>, sequence: u32, flags: u8, count: u32, body: &[u8]) {
    let mut header = b"CKB\n".to_vec();
    header.extend_from_slice(&sequence.to_le_bytes());
    header.extend_from_slice(&[flags, 0, 0, 0]);
    header.extend_from_slice(&count.to_le_bytes());
    header.extend_from_slice(&(body.len() as u64).to_le_bytes());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header), body);
    file.extend_from_slice(&header);
    file.extend_from_slice(&crc.to_le_bytes());
    file.extend_from_slice(body);
}

/// A disk with the file and the manifest that belongs to it.
fn disk_of(file: &[u8]) -> SimDisk {
    let disk = SimDisk::new(1, SimOptions::default());
    let number =
        |at: Option<&[u8]>| at.and_then(<[u8]>::first_chunk).map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (cut, unix_ms, keys) = (
        number(file.get(24..)),
        number(file.get(40..)),
        number(file.last_chunk::<8>().map(|keys| &keys[..])),
    );
    let mut manifest = format!(
        "tarn checkpoint 1\nfile checkpoint-1.tarn\ncut {cut}\nkeys {keys}\nunix_ms {unix_ms}\nlog -\n"
    );
    let crc = crc32c::crc32c(manifest.as_bytes());
    manifest.push_str(&format!("crc32c {crc:08x}\n"));
    for (name, bytes) in [("checkpoint-1.tarn", file), ("MANIFEST", manifest.as_bytes())] {
        let made = disk.create(&Path::new("/checkpoints").join(name)).expect("the names differ");
        made.write_all_at(bytes, 0).expect("the disk has no faults");
    }
    disk
}
