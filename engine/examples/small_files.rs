//! Question: how long does a compaction take, and how long does who asks for its status wait, where the log
//! has very many small files? 10,000 of 16 KB in four directories, or as many as the first argument says.
//!
//! ```text
//! cargo run --release -p tarn-engine --example small_files -- 10000
//! ```

#![allow(clippy::disallowed_methods)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tarn_engine::Engine;
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::io::{OsDisk, SystemClock};
use tarn_engine::log::{Group, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::recovery::{self, Progress};

const FILE_BYTES: u64 = 16 << 10;
const DIRECTORIES: usize = 4;
const TIME: Duration = Duration::from_secs(15);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let wanted = std::env::args().nth(1).map_or(Ok(10_000), |count| count.parse::<usize>())?;
    let root: PathBuf = std::env::temp_dir().join(format!("small-files-{}", std::process::id()));
    let mut options = LogOptions::new((0..DIRECTORIES).map(|number| root.join(number.to_string())).collect());
    (options.mode, options.file_bytes) = (SyncMode::No, FILE_BYTES);
    let disk = Arc::new(OsDisk);
    let opened = recovery::open(disk, options, None, 1, 2, &Progress::default())?;
    let log = opened.log.appender();
    let clock = Arc::new(SystemClock::new());
    let (engine, background) = Engine::new(opened.tables, 1, Some(log.clone()), opened.validity, clock);
    let compactor = engine.compactor();
    let off = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    compactor.set_options(off);
    // Half of what is written is written again.
    let mut count = 0_u64;
    while log.closed_files().len() < wanted {
        for _ in 0..wanted {
            count += 1;
            let key = if count.is_multiple_of(2) { count } else { count / 3 };
            let (value, key) = (vec![b'x'; 300].into(), key.to_string().into_bytes().into());
            let write = Write::Key { db: 0, key, change: Change::Put { value, expiry: None } };
            engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::new())?;
        }
    }
    opened.log.sync()?;
    println!("{} files, {} records", log.closed_files().len(), count);
    let eager = CompactionOptions { file_percent: 5, file_bytes: FILE_BYTES, min_bytes: 0, ..off };
    compactor.set_options(CompactionOptions { enabled: true, bytes_per_second: 0, ..eager });
    let (began, mut waited_max) = (Instant::now(), Duration::ZERO);
    while began.elapsed() < TIME {
        let asked = Instant::now();
        compactor.status();
        waited_max = waited_max.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    let status = compactor.status();
    let each_ms = TIME.as_secs_f64() * 1e3 / status.compactions.max(1) as f64;
    println!(
        "{} compactions, {each_ms:.2} ms each; {waited_max:?} the longest that somebody waited",
        status.compactions
    );
    println!(
        "{} bytes read, {} written, {} failures",
        status.bytes_read, status.bytes_written, status.failures
    );
    drop((engine, background));
    drop(opened.log);
    std::fs::remove_dir_all(&root)?;
    Ok(())
}
