//! Two questions, where each directory of the log is a device of its own: how many more writes are durable a
//! second (`always`) if the devices are the limit? And what do those who wait feel of a compaction?
//!
//! The devices are simulated: each does one thing after the other, a sync of one millisecond and 100 MB/s.
//! Clients write over some keys; first large values, many at once; then small ones, while files are compacted
//! all the time, or never. Expected: two devices take nearly twice as much; with several, the tail of the
//! latency is nearly that without compactions.
//!
//! `cargo run --release -p tarn-engine --example compaction_bench [seconds]`

#![allow(clippy::disallowed_methods)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::io::{Disk, DiskFile, DiskLock, DiskResult, SimDisk, SimOptions, SystemClock};
use tarn_engine::log::{LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::{Engine, Group, KeyHash};

const KEYS: u64 = 4_000;
const SYNC: Duration = Duration::from_millis(1);
const BYTES_PER_SECOND: f64 = 100e6;

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let seconds = std::env::args().nth(1).map_or(Ok(10), |text| text.parse())?;
    let time = Duration::from_secs(seconds);
    println!("the devices are the limit: 256 clients, values of 16 KB, nothing is compacted");
    println!("dirs   writes/s   of one directory's");
    let mut alone = None;
    for directories in [1, 2, 4] {
        let load = Load { clients: 256, value_bytes: 16_000, compacts: false, file_bytes: 16 << 20 };
        let rate = run(directories, load, time)?.times.len() as f64 / time.as_secs_f64();
        println!("{directories:>4} {rate:>10.0} {:>10.2}x", rate / *alone.get_or_insert(rate));
    }
    println!("\nwho waits meanwhile: 16 clients, values of 1 KB");
    println!("dirs  compacts   writes    p50     p99   p99.9     max (ms)");
    for directories in [1, 2, 4] {
        for compacts in [false, true] {
            let load = Load { clients: 16, value_bytes: 1_000, compacts, file_bytes: 2 << 20 };
            let Outcome { times, compactions } = run(directories, load, time)?;
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
            let (count, p50, p99, p999, max) = (times.len(), at(0.5), at(0.99), at(0.999), at(1.0));
            println!(
                "{directories:>4} {compactions:>9} {count:>8} {p50:>6.2} {p99:>7.2} {p999:>7.2} {max:>7.2}"
            );
        }
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Load {
    clients: usize,
    value_bytes: usize,
    compacts: bool,
    file_bytes: u64,
}

struct Outcome {
    /// How long each write took until it was durable, the shortest first.
    times: Vec<Duration>,
    compactions: u64,
}

fn run(directories: usize, load: Load, time: Duration) -> Result<Outcome, Failure> {
    let Load { clients, value_bytes, compacts, file_bytes } = load;
    let disk = Arc::new(Devices {
        inner: SimDisk::new(1, SimOptions::default()),
        devices: (0..directories).map(|_| Arc::default()).collect(),
    });
    let mut options = LogOptions::new((0..directories).map(|number| format!("/{number}").into()).collect());
    (options.mode, options.file_bytes) = (SyncMode::Always, file_bytes);
    let opened = recovery::open(disk, options, None, 1, 2, &Progress::default())?;
    let (log, clock) = (opened.log.appender(), Arc::new(SystemClock::new()));
    let (engine, _background) = Engine::new(opened.tables, clients, Some(log), opened.validity, clock);
    engine.compactor().set_options(CompactionOptions {
        enabled: compacts,
        bytes_per_second: 16 << 20,
        file_percent: 30,
        min_bytes: 0,
        file_bytes,
        ..CompactionOptions::default()
    });
    let (ends, durable) = (AtomicBool::new(false), opened.log.durable());
    let mut times: Vec<Duration> = thread::scope(|scope| {
        let client = |client: usize| {
            let (engine, ends, durable) = (&engine, &ends, &durable);
            scope.spawn(move || {
                let (mut times, mut number) = (Vec::new(), client as u64);
                while !ends.load(Ordering::Relaxed) {
                    number =
                        number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
                    let (key, start) = (format!("key:{}", (number >> 33) % KEYS), Instant::now());
                    let session = engine.enter(client);
                    let mut latched =
                        session.latch_places(&[(0, KeyHash::of(key.as_bytes()))], Access::Write, 1);
                    let change = Change::Put { value: vec![b'v'; value_bytes].into(), expiry: None };
                    let write = Write::Key { db: 0, key: key.into_bytes().into(), change };
                    let lsn = latched.commit(&Batch::from_iter([write]), &mut Group::default())?;
                    latched.release();
                    drop(session);
                    durable.wait_for(lsn)?;
                    times.push(start.elapsed());
                }
                Ok::<_, Failure>(times)
            })
        };
        let clients: Vec<_> = (0..clients).map(client).collect();
        thread::sleep(time);
        ends.store(true, Ordering::Relaxed);
        let all = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
        Ok::<_, Failure>(all.collect::<Result<Vec<_>, _>>()?.concat())
    })?;
    times.sort_unstable();
    Ok(Outcome { times, compactions: engine.compactor().status().compactions })
}

/// Bytes of each file that are not synced; held while the device does something, in the order of coming.
type Device = Mutex<HashMap<PathBuf, u64>>;

/// A file system whose directories are devices.
#[derive(Debug)]
struct Devices {
    inner: SimDisk,
    devices: Vec<Arc<Device>>,
}

impl Devices {
    fn file(&self, inner: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let directory =
            inner.path().parent().and_then(|path| path.to_str()).expect("a file is in a directory");
        let number: usize = directory[1..].parse().expect("directories have numbers");
        Arc::new(DeviceFile { inner, device: self.devices[number].clone() })
    }
}

impl Disk for Devices {
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.create(path)?))
    }

    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(self.file(self.inner.open(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        self.inner.rename(from, to)
    }

    fn link(&self, path: &Path, name: &Path) -> DiskResult<()> {
        self.inner.link(path, name)
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        self.inner.remove(path)
    }

    fn list(&self, directory: &Path) -> DiskResult<Vec<String>> {
        self.inner.list(directory)
    }

    fn create_dir(&self, directory: &Path) -> DiskResult<()> {
        self.inner.create_dir(directory)
    }

    fn sync_dir(&self, directory: &Path) -> DiskResult<()> {
        self.inner.sync_dir(directory)
    }

    fn lock(&self, path: &Path) -> DiskResult<Option<Box<dyn DiskLock>>> {
        self.inner.lock(path)
    }

    fn bytes_free(&self, directory: &Path) -> DiskResult<u64> {
        self.inner.bytes_free(directory)
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

#[derive(Debug)]
struct DeviceFile {
    inner: Arc<dyn DiskFile>,
    device: Arc<Device>,
}

fn moving(bytes: u64) -> Duration {
    Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND)
}

impl DiskFile for DeviceFile {
    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn len(&self) -> DiskResult<u64> {
        self.inner.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let device = self.device.lock();
        let count = self.inner.read_at(buffer, offset);
        thread::sleep(moving(count.as_ref().map_or(0, |count| *count as u64)));
        MutexGuard::unlock_fair(device);
        count
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize> {
        let mut device = self.device.lock();
        *device.entry(self.path().to_path_buf()).or_default() += bytes.len() as u64;
        MutexGuard::unlock_fair(device);
        self.inner.write_at(bytes, offset)
    }

    fn sync_data(&self) -> DiskResult<()> {
        let mut device = self.device.lock();
        let bytes = device.remove(self.path()).unwrap_or_default();
        thread::sleep(SYNC + moving(bytes));
        let outcome = self.inner.sync_data();
        MutexGuard::unlock_fair(device);
        outcome
    }

    fn reserve(&self, bytes: u64) -> DiskResult<()> {
        self.inner.reserve(bytes)
    }

    fn set_len(&self, bytes: u64) -> DiskResult<()> {
        self.inner.set_len(bytes)
    }

    fn is_shared(&self) -> DiskResult<bool> {
        self.inner.is_shared()
    }
}
