//! Question: what do the parts of this machine cost, on which all other figures rest?
//!
//! Variables: none but the machine. Each quantity is measured alone, for the time of a repeat: memory
//! (copying, a write at a random place, the first touch of a page), what threads share (a lock, a test of a
//! bit, waking another thread), the kernel (a fork, a round trip through the loopback interface) and the disk
//! (flushes, writing). The first four are the ones that the comparative study's arXiv text gives of its
//! server (5.1). Expected: nothing; two machines whose figures differ here differ in the other experiments
//! too.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tarn_study::{Array, Fork, Shape};

use super::contract::{self, Experiment, Measured};
use crate::device;
use crate::error::{IoContext, Result};
use crate::page::{Row, with};
use crate::process;
use crate::report::Report;
use crate::setting::{Setting, is_asked};

/// Bytes of a line of the cache, and of a row of the study.
const LINE: usize = 64;
/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes of one write to the disk.
const WRITE_BYTES: usize = 1 << 20;
/// Steps between two looks at the clock.
const STEPS: u64 = 1 << 12;

named! {
    /// A quantity that is measured.
    pub enum Quantity {
        /// Gigabytes a second that are copied from one place in memory to another.
        Copy = "copy",
        /// Nanoseconds of a write of a line at a random place in memory.
        Write = "write",
        /// Nanoseconds of a lock that nobody else holds, and its release.
        Lock = "lock",
        /// Nanoseconds of a test of a bit that is in the cache.
        Bit = "bit",
        /// Nanoseconds of the first write to a page of 4 KB.
        Touch = "touch",
        /// Microseconds from waking another thread until it has woken this one.
        Wake = "wake",
        /// Microseconds of a byte through the loopback interface and back.
        Loopback = "loopback",
        /// Milliseconds of a fork by gigabyte of memory.
        Fork = "fork",
        /// Kilobytes of page tables by gigabyte of memory.
        PageTables = "page-tables",
        /// Flushes of 4 KB a second, one after the other.
        Flushes = "flushes",
        /// Megabytes a second that are written to a file and flushed.
        DiskWrite = "disk-write",
    }
}

impl Quantity {
    const fn unit(self) -> &'static str {
        match self {
            Quantity::Copy => "GB/s",
            Quantity::Write | Quantity::Lock | Quantity::Bit | Quantity::Touch => "ns",
            Quantity::Wake | Quantity::Loopback => "µs",
            Quantity::Fork => "ms/GB",
            Quantity::PageTables => "kB/GB",
            Quantity::Flushes => "1/s",
            Quantity::DiskWrite => "MB/s",
        }
    }
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Measure these quantities only.
    #[arg(long, value_name = "QUANTITY", value_delimiter = ',')]
    pub only: Vec<Quantity>,
}

/// The parameters of one measurement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    quantity: Quantity,
    /// Bytes of memory that are worked on.
    bytes: u64,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} MB of memory", self.quantity.name(), self.bytes >> 20)
    }
}

impl contract::Cell for Cell {
    fn need_bytes(&self) -> u64 {
        2 * self.bytes
    }

    fn is_quick(&self) -> bool {
        self.quick
    }
}

/// The figures of a cell.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// The quantity, in each repeat.
    value: Vec<f64>,
    /// Its unit.
    unit: String,
}

/// The experiment.
pub struct MachineCosts {
    setting: Setting,
    own: Options,
}

impl MachineCosts {
    /// Prepares it.
    pub fn new(setting: Setting, own: Options) -> MachineCosts {
        MachineCosts { setting, own }
    }
}

impl Experiment for MachineCosts {
    const NAME: &'static str = "machine";
    const QUESTION: &'static str =
        "What do memory, locks, forks, the network and the disk of this machine cost?";
    const FIGURES: &'static str = include_str!("../../figures/machine.toml");
    const HAS_SERVERS: bool = false;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let quick = self.setting.options.quick;
        let bytes = if quick { 64 << 20 } else { 1 << 30 };
        let all = Quantity::ALL.into_iter().filter(|quantity| is_asked(&self.own.only, quantity));
        Ok(all.map(|quantity| Cell { quantity, bytes, quick }).collect())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let time = self.setting.time(0.05, 1.0);
        let once = || measure(cell, &self.setting.dir, self.setting.seed, time);
        let value = (0..self.setting.repeats_or(5)).map(|_| once()).collect::<Result<Vec<f64>>>()?;
        let figures = Figures { value, unit: cell.quantity.unit().to_owned() };
        Ok(Some(Measured::here("machine", figures)))
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        vec![with(contract::row(cell, figures), json!({ "part": "machine" }))]
    }
}

fn measure(cell: &Cell, dir: &Path, seed: u64, time: Duration) -> Result<f64> {
    let bytes = cell.bytes as usize;
    Ok(match cell.quantity {
        Quantity::Copy => {
            let (from, mut to) = (vec![1_u8; bytes / 2], vec![2_u8; bytes / 2]);
            let seconds = of_each(time, 1, || black_box(&mut to).copy_from_slice(black_box(&from)));
            from.len() as f64 / seconds / 1e9
        }
        Quantity::Write => {
            let mut memory = vec![1_u8; bytes];
            let mut rng = SmallRng::seed_from_u64(seed);
            let places: Vec<usize> = (0..1 << 20).map(|_| rng.random_range(0..bytes / LINE) * LINE).collect();
            let (line, mut next) = ([7; LINE], 0);
            of_each(time, STEPS, || {
                let place = places[next];
                next = (next + 1) & ((1 << 20) - 1);
                black_box(&mut memory[place..place + LINE]).copy_from_slice(black_box(&line));
            }) * 1e9
        }
        Quantity::Lock => {
            let lock = Mutex::new(0_u64);
            // Nobody panics while holding it.
            of_each(time, STEPS, || *black_box(&lock).lock().expect("it is not poisoned") += 1) * 1e9
        }
        Quantity::Bit => {
            let words: Vec<AtomicU64> =
                (0..64_u64).map(|word| AtomicU64::new(word.wrapping_mul(0x9E37))).collect();
            let (mut bit, mut found) = (0, 0_u64);
            let seconds = of_each(time, STEPS, || {
                bit = (bit + 1) & 4095;
                found += black_box(&words)[bit >> 6].load(Ordering::Acquire) >> (bit & 63) & 1;
            });
            black_box(found);
            seconds * 1e9
        }
        Quantity::Touch => {
            let begun = Instant::now();
            // A large allocation comes from the kernel, without pages.
            let mut memory = vec![0_u8; bytes];
            (0..bytes).step_by(PAGE).for_each(|place| memory[place] = 1);
            black_box(&memory);
            begun.elapsed().as_secs_f64() * 1e9 / (bytes / PAGE) as f64
        }
        Quantity::Wake => wake(time) * 1e6,
        Quantity::Loopback => loopback(time).doing(|| "go through the loopback interface".to_owned())? * 1e6,
        Quantity::Fork => fork(bytes, |snapshotter| {
            let begun = Instant::now();
            let snapshot = snapshotter.take()?;
            let took = begun.elapsed();
            drop(snapshot);
            Ok(took.as_secs_f64() * 1e3)
        })?,
        Quantity::PageTables => {
            fork(bytes, |_| Ok(process::page_table_bytes(std::process::id()) as f64 / 1e3))?
        }
        Quantity::Flushes => device::flush_rates(dir, time)?.one,
        Quantity::DiskWrite => write_rate(dir, time).at(dir)? / 1e6,
    })
}

/// Seconds of a step, which is done again and again for some time.
fn of_each(time: Duration, steps: u64, mut step: impl FnMut()) -> f64 {
    let (begun, mut count) = (Instant::now(), 0);
    while begun.elapsed() < time || count == 0 {
        (0..steps).for_each(|_| step());
        count += steps;
    }
    begun.elapsed().as_secs_f64() / count as f64
}

/// Seconds from waking another thread until it has woken this one.
fn wake(time: Duration) -> f64 {
    let ((to, asked), (answer, back)) = (mpsc::channel::<()>(), mpsc::channel::<()>());
    let other = std::thread::spawn(move || while asked.recv().is_ok() && answer.send(()).is_ok() {});
    let seconds = of_each(time, 16, || {
        // It ends only when this end of the channel does.
        let _ = to.send(()).map(|()| back.recv());
    });
    drop(to);
    other.join().expect("it does not panic");
    seconds
}

/// Seconds of a byte to another thread's socket and back.
fn loopback(time: Duration) -> std::io::Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, _) = listener.accept()?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let other = std::thread::spawn(move || {
        let mut byte = [0];
        while server.read_exact(&mut byte).is_ok() && server.write_all(&byte).is_ok() {}
    });
    let (mut byte, mut failed) = ([7], None);
    let seconds = of_each(time, 16, || {
        let went = client.write_all(&byte).and_then(|()| client.read_exact(&mut byte));
        failed = went.err().or(failed.take());
    });
    drop(client);
    other.join().expect("it does not panic");
    failed.map_or(Ok(seconds), Err)
}

/// Something of a process with an array of so many bytes that can be forked, by gigabyte.
fn fork(bytes: usize, of: impl FnOnce(&mut tarn_study::Snapshotter<Fork>) -> Result<f64>) -> Result<f64> {
    let (mut clients, mut snapshotter) = Array::<Fork>::new(Shape::new(bytes / LINE, LINE)?, 1)?;
    // Each page is written to, so that it is there.
    let mut turn = clients[0].turn();
    for row in (0..bytes / LINE).step_by(PAGE / LINE) {
        turn.write_field(row, 0, 1)?;
    }
    drop(turn);
    Ok(of(&mut snapshotter)? / (bytes as f64 / 1e9))
}

/// Bytes a second into a file of its own, which is flushed at the end.
fn write_rate(dir: &Path, time: Duration) -> std::io::Result<f64> {
    let file: File = tempfile::tempfile_in(dir)?;
    let block = vec![0xA5; WRITE_BYTES];
    let (begun, mut bytes) = (Instant::now(), 0);
    while begun.elapsed() < time || bytes == 0 {
        file.write_all_at(&block, bytes)?;
        bytes += block.len() as u64;
    }
    file.sync_data()?;
    Ok(bytes as f64 / begun.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_quantity_of_this_machine_is_a_number() {
        let dir = tempfile::tempdir().expect("there is room");
        for quantity in Quantity::ALL {
            let cell = Cell { quantity, bytes: 4 << 20, quick: true };
            let value = measure(&cell, dir.path(), 1, Duration::from_millis(1)).expect("it can be measured");
            assert!(value.is_finite() && value > 0.0, "{}: {value}", quantity.name());
        }
    }
}
