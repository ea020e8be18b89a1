//! The log is switched on and off while the store has data, checkpoints are taken, and the machine dies at
//! any call: a start finds the store as it was after the last record that came back, and nothing is lost that
//! counted.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, Source, TakeOptions};
use tarn_engine::compactor::{CompactionOptions, Scope};
use tarn_engine::io::{Crash, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions, OpenError, SyncMode};
use tarn_engine::record::{Batch, Change, Lsn, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::value::ValueRef;
use tarn_engine::{Background, Engine};
use tarn_engine::{ScanBudget, recovery::Opened};

const NOW: u64 = 1_000;
/// How many random histories are tried, unless `TARN_SEEDS` says so.
fn seed_count() -> u64 {
    tarn_engine::io::seed_count(150)
}

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents_of(engine: &Engine) -> Contents {
    let session = engine.enter(0);
    let latched = session.latch(&[], Access::Read, NOW);
    let mut all = Contents::new();
    let scanned = latched.scan(0, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
        let ValueRef::String(value) = entry.value() else { panic!("there are only strings") };
        all.insert(entry.key().to_vec(), value.to_vec());
    });
    scanned.unwrap();
    all
}

/// A store, with or without a log.
struct Store {
    engine: Arc<Engine>,
    _background: Background,
    checkpoints: Arc<Checkpoints>,
    log: Option<Log>,
    last: Lsn,
}

impl Store {
    /// As a start with `appendonly yes` opens it.
    fn open(disk: &SimDisk, options: &LogOptions, rewrites: bool) -> Result<Store, OpenError> {
        let disk: Arc<SimDisk> = Arc::new(disk.clone());
        let checkpoints = Checkpoints::open(disk.clone(), Path::new("/checkpoints")).unwrap();
        let progress = Progress::default();
        let opened = recovery::open(disk, options.clone(), Some(&checkpoints), 1, 2, &progress)?;
        let Opened { tables, log, validity, recovered, .. } = opened;
        let clock = Arc::new(ManualClock::new(NOW));
        let (engine, background) = Engine::new(tables, 1, Some(log.appender()), validity, clock);
        let options = CompactionOptions {
            bytes_per_second: 0,
            enabled: !rewrites,
            rewrites,
            // Renewals are in pieces.
            part_bytes: 20,
            ..CompactionOptions::default()
        };
        engine.compactor().set_options(options);
        engine.compactor().checkpoint_ended(checkpoints.current().map(|checkpoint| checkpoint.cut));
        let (checkpoints, log) = (Arc::new(checkpoints), Some(log));
        Ok(Store { engine, _background: background, checkpoints, log, last: recovered.last })
    }

    fn switch_off(&mut self) -> bool {
        self.engine.stop_logging();
        self.log.take().unwrap().close().is_ok()
    }

    fn switch_on(&mut self, disk: &SimDisk, options: &LogOptions) -> Result<(), OpenError> {
        let base = self.checkpoints.current().map_or(Lsn::ZERO, |checkpoint| checkpoint.cut);
        let mut reader = Log::open(Arc::new(disk.clone()), LogOptions { base, ..options.clone() })?;
        while reader.next_block()?.is_some() {}
        let (log, _) = reader.into_log_behind(self.engine.newest())?;
        assert!(self.engine.start_logging(&log.appender()), "nothing was written meanwhile");
        self.log = Some(log);
        Ok(())
    }

    /// Takes a checkpoint; says whether a log that was switched on counts now.
    fn save(&self) -> bool {
        let taken = self.checkpoints.take(
            &*self.engine,
            CheckpointMode::Full,
            TakeOptions { pace: Pace::Fast, writers: 1 },
            NOW,
        );
        self.engine.compactor().checkpoint_ended(self.checkpoints.current().map(|checkpoint| checkpoint.cut));
        taken.is_ok() && self.log.as_ref().is_some_and(|log| log.replaced().confirm().is_ok())
    }

    /// The record of a change, if it was made.
    fn write(&self, rng: &mut SmallRng) -> Option<Lsn> {
        let key = format!("k{}", rng.random_range(0..30)).into_bytes().into();
        let value = format!("{:?}", rng.random::<[u8; 12]>()).into_bytes().into();
        let change = match rng.random_range(0..10) {
            0..2 => Change::Delete,
            2..6 => Change::Patch { offset: rng.random_range(0..40), bytes: value },
            _ => Change::Put { value, expiry: None },
        };
        let batch = Batch::from_iter([Write::Key { db: 0, key, change }]);
        self.engine.close_gate().commit(&batch, &mut Group::new()).ok()
    }
}

#[test]
fn whenever_the_log_is_switched_a_start_finds_a_state_that_was() {
    let mut switched = 0;
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let directories = (0..rng.random_range(1..4)).map(|number| format!("/log{number}").into()).collect();
        let mut options = LogOptions::new(directories);
        options.mode = [SyncMode::Always, SyncMode::EverySec, SyncMode::No][rng.random_range(0..3)];
        options.file_bytes = rng.random_range(1_000..8_000);
        let rewrites = rng.random();
        let mut disk = SimDisk::new(seed, SimOptions::default());
        let mut history = BTreeMap::from([(Lsn::ZERO, Contents::new())]);
        // What a start must find at least.
        let mut floor = Lsn::ZERO;
        for life in 0..rng.random_range(2..6) {
            let mut store = match Store::open(&disk, &options, rewrites) {
                Ok(store) => store,
                Err(error) => panic!("seed {seed}, life {life}: {error}"),
            };
            assert!(
                store.last >= floor,
                "seed {seed}, life {life}: {floor} is lost, there is {}",
                store.last
            );
            history.split_off(&store.last.after(1));
            let expected = history.last_key_value().unwrap().1;
            assert_eq!(&contents_of(&store.engine), expected, "seed {seed}, life {life}, at {}", store.last);
            if rng.random_bool(0.7) {
                let crash_at = Some(disk.calls() + rng.random_range(1..200));
                disk.set_options(SimOptions { crash_at, ..SimOptions::default() });
            }
            // Whether the log counts that is written to.
            let mut counts = true;
            for _ in 0..rng.random_range(0..150) {
                match rng.random_range(0..20) {
                    0 if store.log.is_some() => {
                        floor = floor.max(if counts {
                            store.log.as_ref().unwrap().durable().lsn()
                        } else {
                            floor
                        });
                        let last = store.engine.newest();
                        if store.switch_off() && counts {
                            floor = last;
                        }
                        counts = false;
                    }
                    1 | 2 if store.log.is_none() => {
                        if store.switch_on(&disk, &options).is_err() {
                            break;
                        }
                        history.insert(store.engine.newest(), contents_of(&store.engine));
                        switched += 1;
                    }
                    3 if store.log.is_some() && (counts || rng.random_bool(0.5)) => {
                        let base = store.log.as_ref().unwrap().base();
                        if store.save() && !counts {
                            (counts, floor) = (true, base);
                        }
                    }
                    4 if store.log.is_some() => store.engine.compactor().ask(Scope::All),
                    _ => {
                        // Behind it there may be records already of what is written again.
                        if let Some(lsn) = store.write(&mut rng) {
                            history.insert(lsn, contents_of(&store.engine));
                        }
                    }
                }
                if disk.is_dead() {
                    break;
                }
            }
            if let Some(log) = store.log.as_ref().filter(|_| counts) {
                if rng.random_bool(0.3) {
                    let _ = log.sync();
                }
                floor = floor.max(log.durable().lsn());
            }
            let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
            let left = disk.crash(crash, rng.random(), SimOptions::default());
            drop(store);
            disk = left;
        }
    }
    assert!(switched > seed_count() as usize / 2, "{switched} switches");
}

#[test]
fn a_log_that_is_switched_off_while_it_waits_for_a_checkpoint_leaves_nothing_to_do() {
    let mut options = LogOptions::new(vec!["/log0".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 1_000);
    let disk = SimDisk::new(1, SimOptions::default());
    let mut store = Store::open(&disk, &options, true).unwrap();
    let engine = store.engine.clone();
    let compactor = engine.compactor();
    compactor.set_options(CompactionOptions { min_bytes: 1_000, ..compactor.options() });
    let mut rng = SmallRng::seed_from_u64(1);
    while !compactor.status().wants_checkpoint {
        assert!(store.write(&mut rng).is_some());
        assert!(!compactor.step(engine.store()), "without a checkpoint nothing can go");
    }
    assert!(store.switch_off());
    assert!(!compactor.status().wants_checkpoint);
    // The checkpoint is taken nevertheless, and its taker asks for the round.
    store.save();
    compactor.ask(Scope::All);
    for _ in 0..3 {
        assert!(!compactor.step(engine.store()), "there is no log");
        let status = compactor.status();
        assert!(
            !status.round && !status.wants_checkpoint,
            "as long as it is asked, the thread does not wait"
        );
    }
    store.switch_on(&disk, &options).unwrap();
    assert!(
        !compactor.step(engine.store()) && !compactor.status().round && !compactor.status().wants_checkpoint
    );
}
