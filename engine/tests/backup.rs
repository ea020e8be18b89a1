//! Backups of the log: whatever was written, compacted and backed up, and wherever the disk fails or the
//! machine dies, a directory with a manifest gives the store back as it was at its end.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::backup::{self, BackupError, Chain, Progress, Request, Restored, Taken, Target};
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Crash, Disk, Fault, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{LogOptions, SyncMode};
use tarn_engine::record::{Change, Lsn};
use tarn_engine::repair::Repair;

use histories::*;

const CHECKPOINTS: &str = "/data/checkpoints";
/// Stands beside the log, and goes along.
const BESIDE: &str = "/data/tables.sql";

fn checkpoints(disk: &SimDisk) -> Checkpoints {
    Checkpoints::open(Arc::new(disk.clone()), Path::new(CHECKPOINTS)).unwrap()
}

fn back_up(store: &Store, base: &Checkpoints, to: &Path, since: Lsn) -> Result<Taken, BackupError> {
    let beside = [BESIDE, "/data/never-there"].map(PathBuf::from).to_vec();
    let request = Request { directory: to.to_path_buf(), since, beside, bytes_per_second: 0 };
    backup::take(store.engine.store(), store.engine.compactor(), base, &request, &Progress::default())
}

fn restore(disk: &SimDisk, backups: &[PathBuf], to: &Path) -> Result<(Restored, Target), BackupError> {
    let chain = Chain::open(Arc::new(disk.clone()), backups)?;
    let log_dirs = (0..chain.directories()).map(|index| to.join(format!("log-{index}"))).collect();
    let target = Target { directory: to.to_path_buf(), log_dirs, checkpoint_dir: to.join("checkpoints") };
    let restored = chain.restore(&target, &ManualClock::new(NOW), &Progress::default())?;
    Ok((restored, target))
}

/// The contents that a server would find in a data directory.
fn contents_in(disk: &SimDisk, target: &Target) -> (Lsn, Contents) {
    let base = Checkpoints::open(Arc::new(disk.clone()), &target.checkpoint_dir).unwrap();
    let options = LogOptions::new(target.log_dirs.clone());
    let store = Store::open_on(disk, &options, Some(&base)).unwrap();
    (store.last, contents_of(&store.engine))
}

/// Has the file beside the log name the backup that is to be taken.
fn write_beside(disk: &SimDisk, backup: &Path) {
    let path = Path::new(BESIDE);
    if disk.contents(path).is_some() {
        disk.remove(path).unwrap();
    }
    let file = disk.create(path).unwrap();
    file.write_all_at(text_beside(backup).as_bytes(), 0).unwrap();
    file.sync_data().unwrap();
    disk.sync_dir(path.parent().unwrap()).unwrap();
}

/// As long as others are not.
fn text_beside(backup: &Path) -> String {
    let name = backup.display().to_string();
    let number: usize = name.rsplit('/').next().unwrap().parse().unwrap_or(0);
    name + &" ".repeat(number % 7)
}

/// The file beside the log that a restore made.
fn beside_in(disk: &SimDisk, data: &Path) -> Option<String> {
    disk.contents(&data.join("tables.sql")).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// A store with a history, and the backups that were taken of it.
struct World {
    rng: SmallRng,
    seed: u64,
    disk: SimDisk,
    options: LogOptions,
    history: BTreeMap<Lsn, Contents>,
    /// Directories that have a manifest, and where they end: a full one and its increments.
    chain: Vec<(PathBuf, Lsn)>,
    /// The machine died while this was being taken, or, if it says that it is there, just after.
    unsure: Option<(PathBuf, Option<Lsn>, bool)>,
    names: u32,
    tried: u32,
    taken: u32,
    omitted: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        let no_links = rng.random_bool(0.3);
        let disk = SimDisk::new(seed, SimOptions { no_links, ..SimOptions::default() });
        let history = BTreeMap::from([(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)])]);
        let (chain, unsure, names, tried, taken, omitted) = (Vec::new(), None, 0, 0, 0, 0);
        World { rng, seed, disk, options, history, chain, unsure, names, tried, taken, omitted }
    }

    fn name(&mut self, what: &str) -> PathBuf {
        self.names += 1;
        PathBuf::from(format!("/{what}/{}", self.names))
    }

    /// Switches the faults on or off.
    fn disturb(&mut self, is_on: bool) {
        let no_links = self.rng.random_bool(0.3);
        let mut options = SimOptions { no_links, ..SimOptions::default() };
        if self.disk.is_dead() {
            return;
        }
        if is_on && self.rng.random_bool(0.4) {
            options.crash_at = Some(self.disk.calls() + self.rng.random_range(1..40));
        }
        if is_on && self.rng.random_bool(0.4) {
            options.faults_per_mille = Fault::ALL.into_iter().map(|fault| (fault, 20)).collect();
        }
        self.disk.set_options(options);
    }

    fn live(&mut self, steps: u32) {
        let base = checkpoints(&self.disk);
        let store = Store::open_on(&self.disk, &self.options, Some(&base)).unwrap();
        let end = self.chain.last().map_or(Lsn::ZERO, |(_, end)| *end);
        assert!(store.last >= end, "seed {}: a backup is ahead of its log", self.seed);
        self.history.split_off(&store.last.after(1));
        assert_eq!(self.history.get(&store.last), Some(&contents_of(&store.engine)), "seed {}", self.seed);
        for _ in 0..self.rng.random_range(0..steps) {
            match self.rng.random_range(0..100) {
                0..6 => {
                    let before = store.log.appender().last();
                    store.compact_any(&mut self.rng);
                    let found = contents_of(&store.engine);
                    for lsn in before.0..=store.log.appender().last().0 {
                        self.history.insert(Lsn(lsn), found.clone());
                    }
                }
                6..8 => {
                    let options = TakeOptions { pace: Pace::Fast, writers: 1 };
                    let mode =
                        [CheckpointMode::Full, CheckpointMode::Incremental][self.rng.random_range(0..2)];
                    // The log may not have recovered from a fault yet.
                    let _ = base.take(&*store.engine, mode, options, 7);
                    store.engine.compactor().checkpoint_ended(base.current().map(|found| found.cut));
                }
                8..12 => self.back_up(&store, &base),
                _ if store.commit(&mut self.rng) => {
                    self.history.insert(store.log.appender().last(), contents_of(&store.engine));
                }
                _ => {}
            }
            if self.disk.is_dead() {
                break;
            }
        }
        let crash = if self.rng.random() { Crash::Kill } else { Crash::PowerLoss };
        let closes = !self.disk.is_dead() && self.rng.random_bool(0.3);
        let Store { engine, _background, log, .. } = store;
        drop((engine, _background));
        let mut log = Some(log);
        if closes {
            let _ = log.take().unwrap().close();
        }
        let left = self.disk.crash(crash, self.rng.random(), SimOptions::default());
        drop((log, base));
        self.disk = left;
        if let Some((path, former, is_there)) = self.unsure.take() {
            let end = self.check(&self.disk.clone(), &path, former);
            assert!(end.is_some() || !is_there, "seed {}", self.seed);
        }
    }

    fn back_up(&mut self, store: &Store, base: &Checkpoints) {
        let to = self.name("backup");
        let former = self.chain.last().map(|(_, end)| *end).filter(|end| *end > Lsn::ZERO);
        let former = former.filter(|_| self.rng.random_bool(0.7));
        write_beside(&self.disk, &to);
        self.disturb(true);
        let outcome = back_up(store, base, &to, former.unwrap_or(Lsn::ZERO));
        self.tried += 1;
        let has_failed = outcome.is_err();
        if let Ok(taken) = &outcome {
            self.taken += 1;
            self.omitted += taken.files - taken.files_here;
        }
        // The log's threads use the disk as well, so the machine may die behind the last call of the backup.
        self.disturb(false);
        if self.disk.is_dead() {
            self.unsure = Some((to, former, !has_failed));
            return;
        }
        let end = self.check(&self.disk.clone(), &to, former);
        assert!(has_failed || end == outcome.ok().map(|taken| taken.end), "seed {}", self.seed);
        // What a failed one left may be there or not after a loss of power.
        if let Some(end) = end.filter(|_| !has_failed) {
            assert_eq!(end, store.log.appender().last(), "seed {}", self.seed);
            if former.is_none() {
                self.chain.clear();
            }
            self.chain.push((to, end));
        }
    }

    /// Finds out whether a directory has a manifest, and gives back what was there at its end; or is refused.
    fn check(&mut self, disk: &SimDisk, path: &Path, former: Option<Lsn>) -> Option<Lsn> {
        let chain = if former.is_some() { &self.chain[..] } else { &[] };
        let mut paths: Vec<PathBuf> = chain.iter().map(|(path, _)| path.clone()).collect();
        paths.push(path.to_path_buf());
        let has_manifest = disk.list(path).unwrap().iter().any(|name| name == "backup.manifest");
        let to = self.name("restored");
        match restore(disk, &paths, &to) {
            Err(error) => {
                assert!(!has_manifest, "seed {}: {error}", self.seed);
                assert!(matches!(error, BackupError::NoBackup { .. }), "seed {}: {error}", self.seed);
                None
            }
            Ok((restored, target)) => {
                let (last, contents) = contents_in(disk, &target);
                assert_eq!(last, restored.end, "seed {}", self.seed);
                assert_eq!(Some(&contents), self.history.get(&last), "seed {}, at {last}", self.seed);
                assert_eq!(beside_in(disk, &to), Some(text_beside(path)), "seed {}", self.seed);
                Some(last)
            }
        }
    }
}

#[test]
fn whatever_happens_a_directory_with_a_manifest_gives_back_the_store_of_its_end() {
    let (mut tried, mut taken, mut omitted) = (0, 0, 0);
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut world = World::new(seed);
        for _ in 0..world.rng.random_range(2..6) {
            world.live(200);
        }
        // Nothing that has happened since has changed a byte of them.
        for count in 1..=world.chain.len() {
            let paths: Vec<PathBuf> = world.chain[..count].iter().map(|(path, _)| path.clone()).collect();
            let to = world.name("again");
            let (restored, _) =
                restore(&world.disk, &paths, &to).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            assert_eq!(restored.end, world.chain[count - 1].1);
            assert_eq!(
                beside_in(&world.disk, &to),
                paths.last().map(|path| text_beside(path)),
                "seed {seed}"
            );
        }
        tried += world.tried;
        taken += world.taken;
        omitted += world.omitted;
    }
    assert!(
        taken as u64 > seed_count() && tried > taken && omitted as u64 > seed_count(),
        "{tried} {taken} {omitted}"
    );
}

#[test]
fn a_restore_that_ends_anywhere_leaves_nothing_that_a_server_takes_for_all() {
    let mut completed = 0;
    for seed in 0..seed_count() / 10 {
        let mut world = World::new(seed);
        world.live(150);
        let base = checkpoints(&world.disk);
        let store = Store::open_on(&world.disk, &world.options, Some(&base)).unwrap();
        let from = PathBuf::from("/backup/whole");
        write_beside(&world.disk, &from);
        back_up(&store, &base, &from, Lsn::ZERO).unwrap();
        drop((store, base));
        let mut rng = SmallRng::seed_from_u64(seed);
        for at in 1.. {
            // Each time from the same state.
            let disk = world.disk.crash(Crash::Kill, seed, SimOptions::default());
            let crash_at = Some(disk.calls() + at);
            let faults_per_mille =
                if rng.random() { vec![] } else { Fault::ALL.into_iter().map(|fault| (fault, 30)).collect() };
            disk.set_options(SimOptions { crash_at, faults_per_mille, ..SimOptions::default() });
            let to = PathBuf::from(format!("/fresh/{at}"));
            let outcome = restore(&disk, std::slice::from_ref(&from), &to);
            let is_dead = disk.is_dead();
            let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
            let left = disk.crash(crash, rng.random(), SimOptions::default());
            let is_refused = backup::refuse_copies(&left, &to).is_err();
            let is_there = left.paths().iter().any(|path| path.starts_with(&to));
            if let Ok((restored, target)) = &outcome {
                assert!(!is_refused, "seed {seed}, call {at}");
                assert_eq!(contents_in(&left, target).0, restored.end);
                assert_eq!(beside_in(&left, &to), Some(text_beside(&from)), "seed {seed}, call {at}");
                completed += 1;
            } else if !is_refused && is_there {
                // The last call, which was to make it known, failed: all is there.
                let again = PathBuf::from(format!("/again/{at}"));
                let (restored, mut target) = restore(&left, std::slice::from_ref(&from), &again).unwrap();
                target.log_dirs.iter_mut().for_each(|path| {
                    *path = to.join(path.file_name().unwrap());
                });
                target.checkpoint_dir = to.join("checkpoints");
                assert_eq!(contents_in(&left, &target).0, restored.end, "seed {seed}, call {at}");
                assert_eq!(beside_in(&left, &to), Some(text_beside(&from)), "seed {seed}, call {at}");
            }
            if outcome.is_ok() && !is_dead {
                break;
            }
        }
    }
    assert!(completed >= seed_count() / 10);
}

#[test]
fn what_was_removed_and_compacted_away_after_the_full_backup_does_not_come_back() {
    let mut options = LogOptions::new(vec![PathBuf::from("/log")]);
    (options.mode, options.file_bytes) = (SyncMode::Always, 1_500);
    let disk = SimDisk::new(1, SimOptions::default());
    let base = checkpoints(&disk);
    let store = Store::open(&disk, &options).unwrap();
    let put = |value: &str| Change::Put { value: value.as_bytes().to_vec().into(), expiry: None };
    commit(&store, "dead", put("once"));
    commit(&store, "alive", put("always"));
    fill(&store, 2);
    let [full, increment] = ["/backup/full", "/backup/increment"].map(PathBuf::from);
    let end = back_up(&store, &base, &full, Lsn::ZERO).unwrap().end;
    commit(&store, "dead", Change::Delete);
    fill_on(&store);
    for _ in 0..2 {
        // The second time no file has an older record, and the removal goes.
        for file in store.files() {
            store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
        }
    }
    let taken = back_up(&store, &base, &increment, end).unwrap();
    assert_eq!(taken.files_here, taken.files, "all were compacted since");
    let (_, target) = restore(&disk, &[full, increment], Path::new("/restored")).unwrap();
    assert_eq!(contents_in(&disk, &target).1, contents_of(&store.engine));
    let restored = LogOptions::new(target.log_dirs.clone());
    assert_eq!(records_of(&disk, &restored, "dead"), 0, "not even its removal is there");
}

#[test]
fn what_has_a_second_name_is_not_changed_by_the_log_that_goes_on() {
    let mut options = LogOptions::new(vec![PathBuf::from("/log")]);
    (options.mode, options.file_bytes) = (SyncMode::EverySec, 1_500);
    let disk = SimDisk::new(1, SimOptions::default());
    let base = checkpoints(&disk);
    let store = Store::open(&disk, &options).unwrap();
    fill(&store, 4);
    let to = PathBuf::from("/backup");
    let taken = back_up(&store, &base, &to, Lsn::ZERO).unwrap();
    assert!(taken.files_linked > 2 && taken.files > taken.files_linked, "{taken:?}");
    let bytes = |disk: &SimDisk| -> Vec<_> {
        disk.list(&to).unwrap().into_iter().map(|name| disk.contents(&to.join(name)).unwrap()).collect()
    };
    let before = bytes(&disk);
    fill(&store, 9);
    store.engine.compactor().compact_files(store.engine.store(), &store.files()).unwrap();
    store.log.close().unwrap();
    drop((store.engine, store._background));
    Store::open(&disk, &options).unwrap();
    assert_eq!(bytes(&disk), before);
}

#[test]
fn a_repair_of_the_log_leaves_what_a_backup_shares_with_it() {
    let mut options = LogOptions::new(vec![PathBuf::from("/log0"), PathBuf::from("/log1")]);
    (options.mode, options.file_bytes) = (SyncMode::Always, 1_500);
    let mut disk = SimDisk::new(1, SimOptions::default());
    let base = checkpoints(&disk);
    let store = Store::open(&disk, &options).unwrap();
    let files_in = |directory: &str| -> Vec<PathBuf> {
        let is_file = |path: &PathBuf| {
            path.starts_with(directory) && path.extension().is_some_and(|it| it == "tarnlog")
        };
        disk.paths().into_iter().filter(is_file).collect()
    };
    while files_in("/log0").len() < 5 || files_in("/log1").len() < 5 {
        fill(&store, store.files().len() + 1);
    }
    // Files that a start has found have their end, and get a second name.
    store.log.close().unwrap();
    drop((store.engine, store._background));
    let store = Store::open(&disk, &options).unwrap();
    // Compacted files claim what a repair takes back in their headers.
    store.engine.compactor().compact_files(store.engine.store(), &store.files()[..1]).unwrap();
    let (end, contents) = (store.log.appender().last(), contents_of(&store.engine));
    let to = PathBuf::from("/backup");
    let taken = back_up(&store, &base, &to, Lsn::ZERO).unwrap();
    assert!(taken.files_linked > 4, "{taken:?}");
    drop((store, base));
    // Without a file in the middle, those of the other directory are cut there.
    disk.remove(&files_in("/log0")[2]).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let bytes = |disk: &SimDisk| -> Vec<_> {
        disk.list(&to).unwrap().into_iter().map(|name| disk.contents(&to.join(name)).unwrap()).collect()
    };
    let before = bytes(&disk);
    Repair::begin(&shared, &options.directories, 1).unwrap().truncate().unwrap();
    assert!(bytes(&disk) == before, "the repair has changed the backup");
    assert!(Store::open(&disk, &options).unwrap().last < end, "the repair has cut");
    disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let (_, target) = restore(&disk, &[to], Path::new("/restored")).unwrap();
    assert_eq!(contents_in(&disk, &target), (end, contents));
}
