//! Measures the cost of the log, compared with the limits of the device.
//!
//! ```text
//! cargo run --release -p tarn-engine --example log_bench [-- DIRECTORY [SECONDS]]
//! ```
//!
//! Three questions: how many syncs a second does the device take at 1, 2 and 4 in flight; how much does a
//! busy worker lose to the log when both share one core (`everysec`, `no`); how many records a second become
//! durable for 64 clients that wait (`always`).

#![allow(clippy::disallowed_methods)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tarn_engine::io::{Disk, OsDisk};
use tarn_engine::log::{Appender, Durable, Group, Log, LogOptions, SyncMode, Validity};
use tarn_engine::record::{Change, Lsn, Write};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let place = PathBuf::from(arguments.next().unwrap_or_else(|| "target/log_bench".to_string()));
    let seconds = arguments.next().map_or(Ok(2.0), |text| text.parse())?;
    let duration = Duration::from_secs_f64(seconds);
    OsDisk.create_dir_all(&place)?;

    println!("device: overwrites of 4 KiB, each synced");
    for in_flight in [1, 2, 4] {
        println!("  {in_flight} in flight      {:>10.0} syncs/s", device_syncs(&place, in_flight, duration)?);
    }
    println!(
        "one worker, ~1 µs of other work a write, records of 64 B, everything on one core; \
         a second is one of this core's time"
    );
    pin_to_one_core();
    let (unlogged, _) = Appender::unlogged(Lsn(1));
    let bare = worker(&unlogged, duration);
    println!("  no log           {bare:>10.0} writes/s");
    for (name, mode) in [("everysec", SyncMode::EverySec), ("no", SyncMode::No)] {
        let log = open(&place.join(name), mode)?;
        let rate = worker(&log.appender(), duration);
        let share = 100.0 * rate / bare;
        println!("  {name:<16} {rate:>10.0} writes/s  {share:.1} % of no log");
        log.close()?;
    }
    println!("reading back and checking, warm; a second is one of a core's time");
    let (megabytes, busy_seconds) = read_back(&place.join("back"))?;
    println!("  {megabytes:>4} MB          {:>10.0} MB/s", megabytes / busy_seconds);
    println!("marking replaced records, at random");
    for (name, records) in [("of 1 M", 1_000_000), ("of 100 M", 100_000_000)] {
        println!("  {name:<16} {:>10.1} ns", invalidations(records, duration));
    }
    pin_to_all_cores();
    println!("64 clients that wait for their record to be durable");
    for in_flight in [1, 2, 4, 8] {
        let log = open_with(&place.join("always"), SyncMode::Always, in_flight)?;
        let busy_before = busy();
        let (rate, waited) = clients(&log.appender(), &log.durable(), 64, duration)?;
        let used = (busy() - busy_before).div_f64(rate * seconds);
        let syncs =
            log.status().directories.iter().map(|directory| directory.syncs).sum::<u64>() as f64 / seconds;
        print!("  {in_flight} in flight      {rate:>10.0} writes/s  {syncs:.0} syncs/s");
        println!(", a write waits {waited:.0?} and takes {used:.1?} of a core");
        log.close()?;
    }
    std::fs::remove_dir_all(&place)?;
    Ok(())
}

fn open(directory: &Path, mode: SyncMode) -> Outcome<Log> {
    open_with(directory, mode, 4)
}

fn open_with(directory: &Path, mode: SyncMode, flushes_in_flight: usize) -> Outcome<Log> {
    // A directory that is not there need not be removed.
    let _ = std::fs::remove_dir_all(directory);
    let mut options = LogOptions::new(vec![directory.to_path_buf()]);
    (options.mode, options.flushes_in_flight) = (mode, flushes_in_flight);
    Ok(Log::open(Arc::new(OsDisk), options)?.into_log()?.0)
}

/// Syncs a second that the device takes from so many threads.
fn device_syncs(place: &Path, in_flight: usize, duration: Duration) -> Outcome<f64> {
    let path = place.join("syncs");
    let _ = OsDisk.remove(&path);
    let file = OsDisk.create(&path)?;
    file.write_all_at(&vec![0; 16 << 20], 0)?;
    file.sync_data()?;
    let (syncs, next) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Instant::now();
    thread::scope(|scope| {
        for _ in 0..in_flight {
            scope.spawn(|| {
                while started.elapsed() < duration {
                    let page = next.fetch_add(1, Ordering::Relaxed) % 4096;
                    let written = file.write_all_at(&[7; 4096], page * 4096).and_then(|()| file.sync_data());
                    if written.is_err() {
                        return;
                    }
                    syncs.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    Ok(syncs.into_inner() as f64 / started.elapsed().as_secs_f64())
}

/// Writes of a worker that also does something else, in a second of processor time of all threads: what other
/// processes take from the core does not count, what the log's threads take does.
fn worker(appender: &Appender, duration: Duration) -> f64 {
    let mut group = Group::new();
    let mut other_work = 1_u64;
    let mut writes = 0_u64;
    let (started, busy_before) = (Instant::now(), busy());
    while started.elapsed() < duration {
        for _ in 0..256 {
            for _ in 0..800 {
                other_work = std::hint::black_box(other_work.wrapping_mul(6_364_136_223_846_793_005) + 1);
            }
            append(appender, &mut group, writes);
            writes += 1;
        }
        while !appender.has_room() {
            thread::yield_now();
        }
    }
    writes as f64 / (busy() - busy_before).as_secs_f64()
}

/// Processor time that this process has had so far, of all its threads, ended ones too.
fn busy() -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything, the 12th and 13th fields are hundredths of a second in user
    // and in system mode.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(fields.map(|field| field.parse().unwrap_or(0) * 10).sum())
}

/// Megabytes of a log of four million records, and the processor time in seconds that reading and checking
/// them takes.
fn read_back(directory: &Path) -> Outcome<(f64, f64)> {
    let log = open(directory, SyncMode::No)?;
    let (appender, mut group) = (log.appender(), Group::new());
    for number in 0..4_000_000 {
        append(&appender, &mut group, number);
        while !appender.has_room() {
            thread::yield_now();
        }
    }
    log.close()?;
    let busy_before = busy();
    let mut reader = Log::open(Arc::new(OsDisk), LogOptions::new(vec![directory.to_path_buf()]))?;
    while reader.next_block()?.is_some() {}
    Ok(((reader.progress().bytes_total >> 20) as f64, (busy() - busy_before).as_secs_f64()))
}

/// Nanoseconds that it takes to mark a record.
fn invalidations(records: u64, duration: Duration) -> f64 {
    let validity = Validity::new();
    let (mut lsn, mut count) = (1_u64, 0_u64);
    let (started, busy_before) = (Instant::now(), busy());
    while started.elapsed() < duration {
        for _ in 0..1024 {
            lsn = lsn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            validity.invalidate(&[Lsn((lsn >> 32) % records)]);
            count += 1;
        }
    }
    (busy() - busy_before).as_nanos() as f64 / count as f64
}

fn append(appender: &Appender, group: &mut Group, number: u64) -> Lsn {
    let key = number.to_le_bytes();
    let change = Change::Put { value: (&[b'v'; 64][..]).into(), expiry: None };
    group.clear();
    group.push(&Write::Key { db: 0, key: (&key[..]).into(), change });
    appender.append(group).unwrap_or(Lsn::ZERO)
}

/// Writes a second of so many clients, each of which waits for its last one; and how long one waits.
fn clients(
    appender: &Appender,
    durable: &Durable,
    clients: usize,
    duration: Duration,
) -> Outcome<(f64, Duration)> {
    let worker = thread::current();
    let moved = Arc::new(AtomicBool::new(false));
    let flag = moved.clone();
    durable.subscribe(Box::new(move || {
        if !flag.swap(true, Ordering::SeqCst) {
            worker.unpark();
        }
    }));
    let mut group = Group::new();
    let mut waiting: Vec<Lsn> = vec![Lsn::ZERO; clients];
    let mut writes = 0_u64;
    let started = Instant::now();
    while started.elapsed() < duration {
        moved.store(false, Ordering::SeqCst);
        let watermark = durable.lsn();
        for lsn in waiting.iter_mut().filter(|lsn| **lsn <= watermark) {
            *lsn = append(appender, &mut group, writes);
            if *lsn == Lsn::ZERO {
                return Err("the log failed".into());
            }
            writes += 1;
        }
        while !moved.load(Ordering::SeqCst) {
            thread::park_timeout(Duration::from_millis(100));
        }
    }
    let elapsed = started.elapsed();
    Ok((writes as f64 / elapsed.as_secs_f64(), elapsed * clients as u32 / writes.max(1) as u32))
}

fn pin_to_one_core() {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(0);
    // Where threads cannot be pinned the figures say less.
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}

fn pin_to_all_cores() {
    let mut cores = rustix::thread::CpuSet::new();
    for core in 0..thread::available_parallelism().map_or(1, usize::from).max(2) {
        cores.set(core);
    }
    let _ = rustix::thread::sched_setaffinity(None, &cores);
}
