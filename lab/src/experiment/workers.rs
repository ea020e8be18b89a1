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

/// Keys of a worker.
const KEYS: u64 = 200_000;
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

/// The parameters of one measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    work: Work,
    workers: usize,
    /// Keys of each worker.
    keys: u64,
    quick: bool,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} workers, {} keys each", self.work.name(), self.workers, self.keys)
    }
}

impl contract::Cell for Cell {
    fn is_quick(&self) -> bool {
        self.quick
    }
}

/// The figures of each repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Requests a second of all workers together.
    requests_per_s: Vec<f64>,
    /// Processor time of the workers by requests, in nanoseconds.
    processor_ns: Vec<f64>,
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
        let of = |work| counts.iter().map(move |&workers| Cell { work, workers, keys, quick });
        Ok(works.flat_map(of).collect())
    }

    fn measure(&mut self, cell: &Cell, _: &mut Report) -> Result<Option<Measured<Figures>>> {
        let store = Store::fill(&self.setting, cell)?;
        let time = self.setting.time(0.05, 2.0);
        let mut figures = Figures { cores: process::cores_allowed().len(), ..Figures::default() };
        for repeat in 0..self.setting.repeats_or(5) {
            // The first look at all pages and the growth of buffers are nobody's cost.
            store.run(cell, time / 5, self.setting.seed)?;
            let seed = self.setting.seed.wrapping_add(1 + u64::from(repeat));
            let (requests, seconds, processor) = store.run(cell, time, seed)?;
            figures.requests_per_s.push(requests as f64 / seconds);
            figures.processor_ns.push(processor.as_secs_f64() * 1e9 / requests.max(1) as f64);
        }
        Ok(Some(Measured::here("tarn", figures)))
    }

    fn rows_of(cell: &Cell, figures: &Figures) -> Vec<Row> {
        let count = format!("workers-{}", cell.workers);
        // More workers than cores cannot have more requests.
        let scales = cell.workers > 1 && cell.workers <= figures.cores;
        let more = json!({ "part": Self::NAME, "count": count, "scales": scales.to_string() });
        vec![with(contract::row(cell, figures), more)]
    }
}

/// A store in this process, with the threads and files behind it, which end in this order.
struct Store {
    engine: Arc<Engine>,
    _background: Background,
    _log: Option<Log>,
    _dir: TempDir,
    keys: Vec<Vec<[u8; 16]>>,
}

impl Store {
    /// A store in which each worker's keys have values.
    fn fill(setting: &Setting, cell: &Cell) -> Result<Store> {
        let (dir, clock) = (setting.make_dir()?, Arc::new(SystemClock::new()));
        let (engine, _background, _log) = if cell.work == Work::Logged {
            let options = LogOptions::new(vec![dir.path().join("log")]);
            let opened = recovery::open(Arc::new(OsDisk), options, None, 1, 1, &Progress::default())
                .map_err(|error| LabError::Reply(error.to_string()))?;
            let appender = Some(opened.log.appender());
            let (engine, background) =
                Engine::new(opened.tables, cell.workers, appender, opened.validity, clock);
            (engine, background, Some(opened.log))
        } else {
            let (engine, background) = Engine::unlogged(1, cell.workers, clock);
            (engine, background, None)
        };
        let key = |worker: usize, number: u64| {
            let text = format!("w{worker:02}:{number:012}");
            text.into_bytes().try_into().expect("a key has 16 bytes")
        };
        let of = |worker| (0..cell.keys).map(|number| key(worker, number)).collect();
        let keys: Vec<Vec<[u8; 16]>> = (0..cell.workers).map(of).collect();
        let store = Store { engine, _background, _log, _dir: dir, keys };
        let mut group = Group::new();
        for key in store.keys.iter().flatten() {
            put(&store.engine, 0, key, &[b'v'; VALUE_BYTES], &mut group)?;
            store.engine.end_turn(0);
        }
        Ok(store)
    }

    /// Has the workers work for some time. Returns the requests, the seconds that they took, and the
    /// processor time of the workers.
    fn run(&self, cell: &Cell, time: Duration, seed: u64) -> Result<(u64, f64, Duration)> {
        let (is_over, shared) = (AtomicBool::new(false), AtomicU64::new(0));
        let start = Barrier::new(cell.workers + 1);
        let work = |worker: usize| {
            let mut rng = SmallRng::seed_from_u64(seed ^ (worker as u64) << 32);
            start.wait();
            let before = process::thread_cpu_time();
            let requests = self.work(cell.work, worker, &mut rng, &shared, &is_over)?;
            Ok((requests, process::thread_cpu_time() - before))
        };
        let (done, seconds) = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..cell.workers).map(|worker| scope.spawn(move || work(worker))).collect();
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
        rng: &mut SmallRng,
        shared: &AtomicU64,
        is_over: &AtomicBool,
    ) -> Result<u64> {
        let (keys, mut requests) = (&self.keys[worker], 0);
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
