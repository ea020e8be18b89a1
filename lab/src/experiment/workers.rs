//! Question: what does a worker of the engine cost the others?
//!
//! Variables: workers (1, 2, 4, 8) in this process, each with keys of its own; what they do (read, write
//! without a log, write with one); and whether each request also counts in one number that all share.
//! Expected: processor time a request that does not grow with the workers, as they have no work in common;
//! and twice the requests with two workers on two cores. The requests that count in a shared number show what
//! one line of the cache costs that goes to and fro between cores, so a path without such a line can be told
//! from one that has it, also where the processor's counters cannot be read.
//!
//! There are no sockets and no commands: a worker hashes a key, enters the gate, latches, reads or commits.
//! Where there are fewer cores than workers, they take turns, and only the processor time tells anything.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tarn_engine::io::{OsDisk, SystemClock};
use tarn_engine::record::{Batch, Change, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Background, Engine, Group, KeyRef, Log, LogOptions};
use tempfile::TempDir;

use super::contract::{self, Experiment, Measured};
use crate::error::{LabError, Result};
use crate::page::{Row, with};
use crate::process;
use crate::report::Report;
use crate::setting::{Setting, is_asked};

/// Keys of all workers together: the store is as large with one worker as with many.
const KEYS: u64 = 400_000;
/// Bytes of a value.
const VALUE_BYTES: usize = 64;
/// Requests of a turn: a worker looks at the clock, and sends off what it wrote, after so many.
const TURN: u32 = 16;
/// Workers at most.
const WORKERS_MAX: usize = 64;

named! {
    /// The work of a request.
    pub enum Work {
        /// It reads the value of a key.
        Read = "read",
        /// It reads it, and counts itself in a number that all workers share.
        SharedRead = "shared-read",
        /// It gives a key a value, without a log.
        Write = "write",
        /// It gives a key a value, and a log with `everysec` has it.
        Logged = "logged",
    }
}

/// The experiment's own options.
#[derive(Debug, Clone, Default, clap::Args)]
#[group(skip)]
pub struct Options {
    /// Measure these kinds of work only.
    #[arg(long, value_name = "WORK", value_delimiter = ',')]
    pub only: Vec<Work>,
    /// So many workers; by default 1, 2, 4 and 8. One is always measured, as the others are compared with it.
    #[arg(long, value_name = "COUNT", value_delimiter = ',', value_parser = workers)]
    pub workers: Vec<usize>,
}

fn workers(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=WORKERS_MAX).contains(count));
    count.ok_or_else(|| format!("from 1 to {WORKERS_MAX}"))
}

/// The parameters of one measurement: a kind of work, by so many workers in turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    work: Work,
    counts: Vec<usize>,
    /// Keys of all workers together.
    keys: u64,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?} workers, {} keys", self.work.name(), self.counts, self.keys)
    }
}

impl contract::Cell for Cell {
    fn is_quick(&self) -> bool {
        self.quick
    }
}

/// The figures of so many workers, in each repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
struct OfCount {
    workers: usize,
    /// Requests a second of all workers together.
    requests_per_s: Vec<f64>,
    /// Processor time of the workers by requests, in nanoseconds.
    processor_ns: Vec<f64>,
}

/// The figures of all numbers of workers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    counts: Vec<OfCount>,
    /// Cores that the workers could use.
    cores: usize,
}

/// The experiment.
pub struct Workers {
    pub(crate) setting: Setting,
    pub(crate) own: Options,
}

impl Experiment for Workers {
    const NAME: &'static str = "workers";
    const QUESTION: &'static str =
        "What does a worker of the engine cost the others? (1 to 8 workers in this process; read, write)";
    const FIGURES: &'static str = include_str!("../../figures/workers.toml");
    const HAS_SERVERS: bool = false;
    type Cell = Cell;
    type Figures = Figures;

    fn plan(&mut self) -> Result<Vec<Cell>> {
        let Workers { setting, own } = self;
        let mut counts = if own.workers.is_empty() { vec![1, 2, 4, 8] } else { own.workers.clone() };
        counts.push(1);
        counts.sort_unstable();
        counts.dedup();
        let (keys, quick) = (setting.scaled(KEYS), setting.options.quick);
        let works = Work::ALL.into_iter().filter(|work| is_asked(&own.only, work));
        Ok(works.map(|work| Cell { work, counts: counts.clone(), keys, quick }).collect())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let store = Store::fill(&self.setting, cell)?;
        let time = self.setting.time(0.05, 2.0);
        let of = |&workers: &usize| OfCount { workers, ..OfCount::default() };
        let mut counts: Vec<OfCount> = cell.counts.iter().map(of).collect();
        for repeat in 0..self.setting.repeats_or(5) {
            // By turns, as the machine may be faster at one time than at another.
            for own in &mut counts {
                let seed = self.setting.seed.wrapping_add(u64::from(repeat));
                store.run(cell.work, own.workers, time / 5, !seed)?;
                let (requests, seconds, processor) = store.run(cell.work, own.workers, time, seed)?;
                own.requests_per_s.push(requests as f64 / seconds);
                own.processor_ns.push(processor.as_secs_f64() * 1e9 / requests.max(1) as f64);
            }
        }
        let cores = process::cores_allowed().len();
        Ok(Some(Measured::here("tarn", Figures { counts, cores })))
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        let of = |own: &OfCount| {
            // More workers than cores cannot have more requests.
            let scales = own.workers > 1 && own.workers <= figures.cores;
            let count = format!("workers-{}", own.workers);
            let more = json!({ "part": Self::NAME, "count": count, "scales": scales.to_string() });
            with(contract::row(cell, own), more)
        };
        figures.counts.iter().map(of).collect()
    }
}

/// A store in this process, with the threads and files behind it, which end in this order.
struct Store {
    engine: Arc<Engine>,
    _background: Background,
    _log: Option<Log>,
    _dir: TempDir,
    keys: Vec<[u8; 16]>,
}

impl Store {
    /// A store in which all keys have values.
    fn fill(setting: &Setting, cell: &Cell) -> Result<Store> {
        let (dir, clock) = (setting.make_dir()?, Arc::new(SystemClock::new()));
        let workers = cell.counts.iter().copied().max().unwrap_or(1);
        let (engine, _background, _log) = if cell.work == Work::Logged {
            let options = LogOptions::new(vec![dir.path().join("log")]);
            let opened = recovery::open(Arc::new(OsDisk), options, None, 1, 1, &Progress::default())
                .map_err(|error| LabError::Reply(error.to_string()))?;
            let appender = Some(opened.log.appender());
            let (engine, background) = Engine::new(opened.tables, workers, appender, opened.validity, clock);
            (engine, background, Some(opened.log))
        } else {
            let (engine, background) = Engine::unlogged(1, workers, clock);
            (engine, background, None)
        };
        let key = |number: u64| {
            let text = format!("key:{number:012}");
            text.into_bytes().try_into().expect("a key has 16 bytes")
        };
        let keys: Vec<[u8; 16]> = (0..cell.keys).map(key).collect();
        let store = Store { engine, _background, _log, _dir: dir, keys };
        let mut group = Group::new();
        for key in &store.keys {
            put(&store.engine, 0, key, &[b'v'; VALUE_BYTES], &mut group)?;
            store.engine.end_turn(0);
        }
        Ok(store)
    }

    /// Has workers work for some time, each on its share of the keys. Returns the requests, the seconds that
    /// they took, and the processor time of the workers.
    fn run(&self, work: Work, workers: usize, time: Duration, seed: u64) -> Result<(u64, f64, Duration)> {
        let (is_over, shared) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Barrier::new(workers + 1);
        let shares: Vec<_> = self.keys.chunks((self.keys.len() / workers).max(1)).collect();
        let one = |worker: usize| {
            let mut rng = SmallRng::seed_from_u64(seed ^ (worker as u64) << 32);
            start.wait();
            let before = process::thread_cpu_time();
            let requests = self.work(work, worker, shares[worker], &mut rng, (&shared, &is_over))?;
            Ok((requests, process::thread_cpu_time() - before))
        };
        let (done, seconds) = std::thread::scope(|scope| {
            let one = &one;
            let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || one(worker))).collect();
            start.wait();
            let began = Instant::now();
            std::thread::sleep(time);
            is_over.store(true, Ordering::Relaxed);
            let join = |worker: std::thread::ScopedJoinHandle<'_, Result<(u64, Duration)>>| {
                worker.join().expect("a worker does not panic")
            };
            let done: Result<Vec<_>> = workers.into_iter().map(join).collect();
            (done, began.elapsed().as_secs_f64())
        });
        let done = done?;
        let requests = done.iter().map(|(requests, _)| requests).sum();
        Ok((requests, seconds, done.iter().map(|(_, processor)| *processor).sum()))
    }

    /// One worker's turns. Returns the number of its requests.
    fn work(
        &self,
        work: Work,
        worker: usize,
        keys: &[[u8; 16]],
        rng: &mut SmallRng,
        (shared, is_over): (&AtomicU64, &AtomicBool),
    ) -> Result<u64> {
        let mut requests = 0;
        let (mut value, mut group) = ([b'v'; VALUE_BYTES], Group::new());
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..TURN {
                let key = &keys[rng.random_range(0..keys.len())];
                match work {
                    Work::Read | Work::SharedRead => read(&self.engine, worker, key)?,
                    Work::Write | Work::Logged => {
                        value[..8].copy_from_slice(&rng.random::<u64>().to_le_bytes());
                        put(&self.engine, worker, key, &value, &mut group)?;
                    }
                }
                if work == Work::SharedRead {
                    shared.fetch_add(1, Ordering::Relaxed);
                }
            }
            self.engine.end_turn(worker);
            requests += u64::from(TURN);
        }
        Ok(requests)
    }
}

fn read(engine: &Engine, worker: usize, key: &[u8]) -> Result<()> {
    let keys = [KeyRef::of(0, key)];
    let session = engine.enter_in_turn(worker);
    let latched = session.latch(&keys, Access::Read, 0);
    let bytes = match latched.get(0, key).map(|entry| entry.value()) {
        Some(ValueRef::String(value)) => value.len(),
        _ => 0,
    };
    latched.release();
    if bytes == VALUE_BYTES { Ok(()) } else { Err(LabError::Reply("a value is not there".to_owned())) }
}

fn put(engine: &Engine, worker: usize, key: &[u8], value: &[u8], group: &mut Group) -> Result<()> {
    let keys = [KeyRef::of(0, key)];
    let session = engine.enter_in_turn(worker);
    let mut latched = session.latch(&keys, Access::Write, 0);
    let change = Change::Put { value: value.into(), expiry: None };
    let committed = latched.commit(&Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]), group);
    latched.release();
    committed.map(|_| ()).map_err(LabError::refused)
}
