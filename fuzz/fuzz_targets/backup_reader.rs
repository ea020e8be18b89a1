//! Manifests of backups from any bytes: no panic, no more memory than they are worth, and nothing outside of
//! the target is written.
//!
//! ```text
//!  input:  | number of backups | a manifest, with its length | another | …
//! ```
//!
//! The checksum at the end of a manifest fits.
#![no_main]

#[path = "log_reader/input.rs"]
mod input;

use std::path::PathBuf;
use std::sync::Arc;

use cap::Cap;
use libfuzzer_sys::fuzz_target;
use tarn_engine::backup::{Chain, Progress, Target};
use tarn_engine::io::{Disk, ManualClock, SimDisk, SimOptions};

use input::Input;

/// A length that a file only tells must not be allocated: beyond this the process is aborted.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, 64 << 20);

fuzz_target!(|input: &[u8]| {
    let mut input = Input(input);
    let count = 1 + usize::from(input.byte() % 3);
    let disk = SimDisk::new(1, SimOptions::default());
    let mut directories = Vec::new();
    for number in 0..count {
        let len = if number + 1 == count { input.0.len() } else { input.below(2_048) };
        let mut manifest = input.take(len).to_vec();
        let crc = crc32c::crc32c(&manifest);
        manifest.extend_from_slice(format!("crc32c {crc:08x}\n").as_bytes());
        let directory = PathBuf::from(format!("/backups/{number}"));
        let file = disk.create(&directory.join("backup.manifest")).expect("the names differ");
        file.write_all_at(&manifest, 0).expect("the disk has no faults");
        directories.push(directory);
    }
    let Ok(chain) = Chain::open(Arc::new(disk.clone()), &directories) else { return };
    if chain.directories() > 64 {
        return;
    }
    let before: Vec<PathBuf> = disk.paths();
    let to = PathBuf::from("/restored");
    let logs = (0..chain.directories()).map(|number| to.join(format!("log{number}"))).collect();
    let target = Target { directory: to.clone(), checkpoint_dir: to.join("checkpoints"), log_dirs: logs };
    let _ = chain.restore(&target, &ManualClock::new(1), &Progress::default());
    for path in disk.paths() {
        assert!(before.contains(&path) || path.starts_with(&to), "{} was written", path.display());
    }
});
