//! Random lives of a log on the simulated disk. A seed decides every step, every kind of fault occurs, and a
//! crash comes at any call. Then the recovered state must be legal.
//!
//! The threads of the log are left out; their steps are taken here one by one, in an order that chance
//! chooses, so that a seed always tells the same story. What must hold when a log is opened again:
//!
//! - what comes back is a prefix of the groups that were appended, each whole;
//! - it has everything below the durable watermark; after a mere kill, everything that was written;
//! - but for records that a compaction was told to drop: of those all may lack, if what took their place,
//!   which is all that had been appended when the file was copied, is there;
//! - the disk's faults never pass for damage.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::file::LogFile;
use super::handle::begin;
use super::open::reader::{Reader, Recovered};
use super::write::durable::Progress;
use super::write::flusher::Flight;
use super::write::pipeline::{Pipeline, State, Taken};
use super::write::rescue::Rescue;
use super::{
    Appender, Compression, Group, Keeper, Log, LogError, LogOptions, Lost, OpenError, Sizes, SyncMode,
    give_identity,
};
use crate::io::{Crash, Disk, Fault, SimDisk, SimOptions, seeds};
use crate::record::{Change, Lsn, Write};

/// How many random lives are lived, unless `TARN_SEEDS` says so.
fn seed_count() -> u64 {
    crate::io::seed_count(5_000)
}

/// A group as it was appended.
#[derive(Clone, Debug, PartialEq)]
struct Appended {
    first: Lsn,
    writes: Vec<Write<'static>>,
}

impl Appended {
    fn last(&self) -> Lsn {
        Lsn(self.first.0 + self.writes.len() as u64 - 1)
    }
}

/// A flight's work, as far as it has come.
enum Under {
    Write(Taken),
    /// Compressed, if it can be.
    Put(Taken),
    List(Arc<LogFile>),
    Sync(Arc<LogFile>, Vec<u64>),
}

/// Drops some records, and drives the log by itself.
struct Dropper<'w> {
    world: &'w mut World,
    pipeline: &'w Arc<Pipeline>,
    salt: u64,
    /// So many records of 64 are dropped.
    share: u64,
    /// The newest record when one was dropped last.
    reason: Lsn,
}

impl Keeper for Dropper<'_> {
    fn settle(&mut self, _: &Appender, lsn: Lsn) -> Result<(), LogError> {
        for _ in 0..20 {
            if self.pipeline.durable.lsn() >= lsn {
                return Ok(());
            }
            if self.pipeline.failed() || self.world.disk.is_dead() {
                break;
            }
            self.world.push_on(self.pipeline);
        }
        Err(LogError::Closed)
    }

    fn needs(&mut self, lsn: Lsn, _: &Write<'_>) -> bool {
        let appender = Appender { pipeline: self.pipeline.clone() };
        self.reason = appender.last();
        let drops = (lsn.0 ^ self.salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58 < self.share;
        if drops {
            let reason = self.world.dropped.entry(lsn).or_insert(self.reason);
            *reason = (*reason).min(self.reason);
        }
        // Others append while a file is copied.
        if self.world.rng.random_bool(0.02) {
            self.world.append(self.pipeline);
        }
        !drops
    }

    fn moved(&mut self, _: u64) -> bool {
        self.world.rng.random_bool(0.995)
    }
}

/// A log and what is known about it.
struct World {
    seed: u64,
    rng: SmallRng,
    disk: SimDisk,
    options: LogOptions,
    groups: Vec<Appended>,
    /// Records that a compaction dropped, and the newest record at that time: they may lack if that is there.
    dropped: BTreeMap<Lsn, Lsn>,
    /// Must come back whatever happens.
    acknowledged: Lsn,
    /// Must come back if the operating system lives on.
    written: Lsn,
    /// The operating system may have dropped what was written in this life.
    drops: bool,
    /// The silent faults of the device, which may lose acknowledged writes: this many calls of a thousand.
    breaks: Option<Broken>,
    /// A start has refused the log.
    is_refused: bool,
    /// Lives in which something came back that lacked what was acknowledged.
    losses: u64,
    /// Blocks that were written compressed.
    packed: u64,
}

/// How a device breaks its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broken {
    /// It tears sectors that hold what was durable.
    Tears,
    Silent(Fault),
    /// Bits flip by themselves.
    Rots,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = SmallRng::seed_from_u64(seed);
        let directories =
            (0..rng.random_range(1..=3)).map(|index| PathBuf::from(format!("/log{index}"))).collect();
        let mut options = LogOptions::new(directories);
        options.mode = any_mode(&mut rng);
        options.compression = any_compression(&mut rng);
        options.file_bytes = rng.random_range(1_024..24_000);
        options.sizes = Sizes::SMALL;
        options.flushes_in_flight = rng.random_range(1..=4);
        let disk = SimDisk::new(rng.random(), SimOptions::default());
        let (groups, dropped) = (Vec::new(), BTreeMap::new());
        let (acknowledged, written, drops) = (Lsn::ZERO, Lsn::ZERO, false);
        let (breaks, is_refused, losses) = (None, false, 0);
        World {
            seed,
            rng,
            disk,
            options,
            groups,
            dropped,
            acknowledged,
            written,
            drops,
            breaks,
            is_refused,
            losses,
            packed: 0,
        }
    }

    /// One life: opened, lived, ended; the next may begin.
    fn live(&mut self, seed: u64) {
        let faults = self.any_faults();
        if self.rng.random_bool(0.2) {
            self.disk.set_options(faults.clone());
        }
        let Some((pipeline, _)) = self.open(seed) else {
            // A fault or a crash during the opening; the next one goes undisturbed.
            self.end(None);
            return;
        };
        self.disk
            .set_options(SimOptions { crash_at: faults.crash_at.map(|at| at + self.disk.calls()), ..faults });
        let pipeline = Arc::new(pipeline);
        let mut under = Vec::new();
        for _ in 0..self.rng.random_range(0..150) {
            self.step(&pipeline, &mut under);
            self.acknowledged = self.acknowledged.max(pipeline.durable.lsn());
            if self.disk.is_dead() {
                break;
            }
        }
        if !self.disk.is_dead() && self.rng.random_bool(0.3) {
            self.settle(seed, &pipeline, under);
        }
        self.end(Some(&pipeline));
    }

    /// Opens the log and checks what comes back; `None` if a fault prevented it.
    fn open(&mut self, seed: u64) -> Option<(Pipeline, Recovered)> {
        let opened = Reader::open(Arc::new(self.disk.clone()), self.options.clone());
        let (reader, back) = match opened.and_then(read) {
            Ok(read) => read,
            Err(OpenError::Disk(_)) => return None,
            Err(error) => return self.refuse(&error),
        };
        let last = reader.last();
        let whole = self.groups.partition_point(|group| group.first <= last);
        let end = self.groups[..whole].last().map_or(Lsn::ZERO, Appended::last);
        assert_eq!(last, end, "seed {seed}: half a group came back");
        self.assert_back(seed, &back, last);
        let promised = self.acknowledged.max(self.written);
        assert!(
            last >= promised || self.breaks.is_some(),
            "seed {seed}: {last} came back, {promised} was promised"
        );
        self.losses += u64::from(last < promised);
        let opened = reader.finish().and_then(|finished| {
            let recovered = finished.recovered.clone();
            begin(finished).map(|(pipeline, _)| (pipeline, recovered))
        });
        match opened {
            Ok(opened) => {
                self.groups.truncate(whole);
                // Numbers are given again.
                self.dropped.retain(|lsn, _| *lsn <= last);
                self.acknowledged = last;
                assert_eq!(opened.1.last, last, "seed {seed}");
                Some(opened)
            }
            Err(OpenError::Disk(_)) => None,
            Err(error) => self.refuse(&error),
        }
    }

    /// A start refuses the log, which only a device that breaks its word gives it reason to.
    fn refuse<T>(&mut self, error: &OpenError) -> Option<T> {
        assert!(self.breaks.is_some(), "seed {}: {error}", self.seed);
        self.is_refused = true;
        None
    }

    /// Checks that what came back is all that was appended up to `last`, but for what was dropped.
    fn assert_back(&self, seed: u64, back: &[(Lsn, Write<'static>)], last: Lsn) {
        let appended = self.groups.iter().flat_map(|group| {
            group.writes.iter().enumerate().map(|(index, write)| (group.first.after(index as u64), write))
        });
        let mut back = back.iter().peekable();
        for (lsn, write) in appended.take_while(|(lsn, _)| *lsn <= last) {
            if back.next_if(|(other, _)| *other == lsn).is_some_and(|(_, found)| found == write) {
                continue;
            }
            let reason = self.dropped.get(&lsn);
            assert!(reason.is_some(), "seed {seed}: record {lsn} is not there, or another");
            assert!(reason <= Some(&last), "seed {seed}: {lsn} was dropped for {reason:?}, {last} came back");
        }
        assert_eq!(back.next(), None, "seed {seed}: something else came back");
    }

    /// Compacts a file, or some that follow each other.
    fn compact(&mut self, pipeline: &Arc<Pipeline>) {
        let appender = Appender { pipeline: pipeline.clone() };
        let files = appender.closed_files();
        if files.is_empty() {
            return;
        }
        let first = self.rng.random_range(0..files.len());
        let mut end = first + 1;
        while end < files.len() && files[end - 1].is_followed_by(&files[end]) && self.rng.random() {
            end += 1;
        }
        let salt = self.rng.random();
        // Of most blocks nothing is left, or of few.
        let share = if self.rng.random() { 16 } else { 60 };
        let mut dropper = Dropper { world: self, pipeline, salt, share, reason: Lsn::ZERO };
        // Whatever went wrong, everything is as it was.
        let outcome = appender.compact(&files[first..end], Lsn::ZERO, Lsn::ZERO, &mut dropper);
        let damage = outcome.err().filter(|error| matches!(error, super::CompactionError::Damaged { .. }));
        assert!(damage.is_none() || self.breaks.is_some(), "nothing is damaged while it is open: {damage:?}");
    }

    fn step(&mut self, pipeline: &Arc<Pipeline>, under: &mut Vec<Under>) {
        match self.rng.random_range(0..100) {
            0..40 => self.append(pipeline),
            40..60 => {
                let lanes = self.options.directories.len();
                let lane = self.rng.random_range(0..lanes);
                if under.len() < lanes * self.options.flushes_in_flight {
                    under.extend(pipeline.take(&mut pipeline.active.lock(), lane, 0).map(Under::Write));
                }
            }
            60..85 if !under.is_empty() => {
                let index = self.rng.random_range(0..under.len());
                let work = under.swap_remove(index);
                under.extend(self.advance(pipeline, work));
            }
            85..88 => pipeline.sync_all(),
            88..90 => _ = pipeline.leave_files(),
            91 if self.rng.random_bool(0.5) => {
                let last = (Appender { pipeline: pipeline.clone() }).last();
                _ = pipeline.begin_to_leave(last);
            }
            90..92 => pipeline.set_mode(any_mode(&mut self.rng)),
            97 if self.rng.random_bool(0.3) => pipeline.set_compression(any_compression(&mut self.rng)),
            92..93 => pipeline.claim(),
            93..94 if under.is_empty() => {
                (0..self.rng.random_range(1..4)).for_each(|_| self.compact(pipeline));
            }
            94 => {
                let mut options = self.any_faults();
                options.crash_at = None;
                self.disk.set_options(options);
            }
            95 if self.rng.random_bool(0.3) && self.breaks.is_none() => self.pin(pipeline),
            96 if self.breaks.is_some() => {
                self.disk.forget_clean_pages();
                if self.breaks == Some(Broken::Rots) && self.rng.random_bool(0.3) {
                    _ = self.disk.rot(&mut self.rng);
                }
            }
            _ => self.keep(pipeline),
        }
    }

    /// Pins the log, with flights under way, and finds out what a start makes of its files up to where they
    /// are pinned: all that is durable with all before it, and nothing else.
    fn pin(&mut self, pipeline: &Arc<Pipeline>) {
        let Ok(pinned) = (Appender { pipeline: pipeline.clone() }).pin() else { return };
        let copy = SimDisk::new(1, SimOptions::default());
        for (index, directory) in self.options.directories.iter().enumerate() {
            give_identity(&copy, directory, pinned.log_id, index as u32, pinned.directories).unwrap();
        }
        for mut file in pinned.files {
            let path = file.path().to_path_buf();
            let Ok(is_settled) = file.look(&self.disk) else { return };
            let bytes = self.disk.contents(&path).unwrap();
            let copied = copy.create(&path).unwrap();
            copied.write_all_at(&bytes[..file.bytes() as usize], 0).unwrap();
            let before = file.bytes();
            file.measure(&copy, &path).unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
            assert!(file.bytes() == before || !is_settled, "seed {}: a file that will be cut", self.seed);
            copied.set_len(file.bytes()).unwrap();
        }
        let reader = Log::read(Arc::new(copy), self.options.clone()).and_then(read);
        let (mut reader, back) = reader.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed));
        let survey = reader.survey().unwrap();
        assert_eq!((reader.last(), survey.lost), (pinned.last, Lost::default()), "seed {}", self.seed);
        assert!(pinned.last >= self.acknowledged, "seed {}", self.seed);
        self.assert_back(self.seed, &back, pinned.last);
    }

    /// The work of the preparer and the syncer on files and failures.
    fn keep(&mut self, pipeline: &Pipeline) {
        let lane = self.rng.random_range(0..self.options.directories.len());
        let wanted = pipeline.active.lock().lanes[lane].next.is_none();
        if pipeline.failed() {
            pipeline.rescue();
        } else if wanted {
            pipeline.prepare(lane);
            let stuck = pipeline.stuck(&pipeline.active.lock());
            if let Some(error) = stuck {
                pipeline.fail(error);
            }
        }
    }

    fn append(&mut self, pipeline: &Arc<Pipeline>) {
        let mut group = Group::new();
        let mut writes = Vec::new();
        for _ in 0..self.rng.random_range(1..=4) {
            let length = match self.rng.random_range(0..40) {
                0 => 9_000,
                1..5 => 700,
                _ => 20,
            };
            let mut bytes: Vec<u8> = (0..length).map(|_| self.rng.random()).collect();
            if self.rng.random() {
                // These can be compressed.
                bytes.fill(b'x');
            }
            let change = Change::Put { value: bytes.into(), expiry: None };
            writes.push(Write::Key { db: 0, key: self.rng.random::<[u8; 8]>().to_vec().into(), change });
            group.push(writes.last().unwrap());
        }
        let appender = Appender { pipeline: pipeline.clone() };
        if let Ok(first) = appender.append(&group) {
            let expected = self.groups.last().map_or(Lsn(1), |group| group.last().after(1));
            assert_eq!(first, expected);
            self.groups.push(Appended { first, writes });
        }
    }

    /// Takes a flight's next step.
    fn advance(&mut self, pipeline: &Pipeline, work: Under) -> Option<Under> {
        let flight = |file: &LogFile, chance: usize| Flight {
            lane: file.header.stream as usize,
            handle: chance % self.options.flushes_in_flight,
        };
        let chance = self.rng.random_range(0..4);
        match work {
            Under::Write(mut taken) => {
                pipeline.compress(&mut taken);
                // Others take blocks, files are left, and disks fail before it is written.
                Some(Under::Put(taken))
            }
            Under::Put(taken) => {
                let file = taken.file.clone();
                let written = flight(&file, chance).put(pipeline, taken);
                (written && pipeline.mode() == SyncMode::Always).then_some(Under::List(file))
            }
            Under::List(file) => {
                let listed = pipeline.durable.written_in(&file);
                Some(Under::Sync(file, listed))
            }
            Under::Sync(file, listed) => {
                flight(&file, chance).sync_listed(pipeline, &file, &listed);
                None
            }
        }
    }

    /// With a disk that works again the log takes up its work, and everything that was accepted becomes
    /// durable.
    fn settle(&mut self, seed: u64, pipeline: &Arc<Pipeline>, mut under: Vec<Under>) {
        self.disk.set_options(SimOptions::default());
        while let Some(work) = under.pop() {
            under.extend(self.advance(pipeline, work));
        }
        for _ in 0..20 {
            if pipeline.failed() {
                let rescued = pipeline.rescue();
                let is_done = rescued == Rescue::Done || self.breaks.is_some();
                assert!(is_done, "seed {seed}: {:?}", pipeline.status());
            }
            self.push_on(pipeline);
        }
        let last = self.groups.last().map_or(Lsn::ZERO, Appended::last);
        if self.breaks.is_some() && pipeline.durable.lsn() < last {
            // What it should have read back is not there.
            return;
        }
        assert_eq!(pipeline.durable.lsn(), last, "seed {seed}: {:?}", pipeline.status());
        self.acknowledged = last;
        if self.rng.random_bool(0.5) {
            pipeline.active.lock().state = State::Closing;
            pipeline.close().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        }
    }

    /// Writes and syncs what there is.
    fn push_on(&self, pipeline: &Arc<Pipeline>) {
        for lane in 0..self.options.directories.len() {
            if pipeline.active.lock().lanes[lane].next.is_none() {
                pipeline.prepare(lane);
            }
            let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0);
            if let Some(taken) = taken {
                pipeline.write_alone(taken);
            }
        }
        pipeline.sync_all();
        pipeline.leave_files();
    }

    /// The machine dies, in one way or the other.
    fn end(&mut self, pipeline: Option<&Pipeline>) {
        let crash = if self.rng.random_bool(0.3) { Crash::Kill } else { Crash::PowerLoss };
        if let Some(pipeline) = pipeline {
            let pending = pipeline.durable.standing().pending;
            let written = pending
                .iter()
                .take_while(|block| matches!(block.progress, Progress::Written | Progress::Durable));
            self.written = self.written.max(written.last().map_or(Lsn::ZERO, |block| block.last));
            self.packed += pipeline.status().packed_blocks;
        }
        if crash == Crash::PowerLoss || std::mem::take(&mut self.drops) {
            self.written = Lsn::ZERO;
        }
        self.disk = self.disk.crash(crash, self.rng.random(), SimOptions::default());
    }

    fn any_faults(&mut self) -> SimOptions {
        let mut options = SimOptions::default();
        if self.rng.random_bool(0.5) {
            for fault in Fault::ALL {
                if self.rng.random_bool(0.4) {
                    options.faults_per_mille.push((fault, [2, 20, 200][self.rng.random_range(0..3)]));
                }
            }
        }
        match self.breaks {
            Some(Broken::Tears) => options.tears_sectors = true,
            Some(Broken::Silent(fault)) => options.faults_per_mille.push((fault, 5)),
            Some(Broken::Rots) | None => {}
        }
        options.drops_unsynced = self.rng.random();
        self.drops |= options.drops_unsynced;
        if self.rng.random_bool(0.1) {
            options.capacity_bytes = Some(self.rng.random_range(10_000..200_000));
        }
        if self.rng.random_bool(0.7) {
            options.crash_at = Some(self.rng.random_range(1..200));
        }
        options
    }
}

fn any_compression(rng: &mut SmallRng) -> Compression {
    if rng.random_bool(0.7) { Compression::Lz4 } else { Compression::No }
}

fn any_mode(rng: &mut SmallRng) -> SyncMode {
    [SyncMode::Always, SyncMode::EverySec, SyncMode::No][rng.random_range(0..3)]
}

/// Reads all records of a log.
fn read(mut reader: Reader) -> Result<(Reader, Vec<(Lsn, Write<'static>)>), OpenError> {
    let mut records = Vec::new();
    while let Some(block) = reader.next_block()? {
        let mut missing = 0;
        for record in block.records() {
            let record = record.expect("what was written is understood");
            if record.group > 0 {
                assert_eq!(missing, 0, "a group is whole");
                missing = record.group;
            }
            missing -= 1;
            records.push((record.lsn, owned(record.write)));
        }
        assert_eq!(missing, 0, "a group is whole");
    }
    Ok((reader, records))
}

fn owned(write: Write<'_>) -> Write<'static> {
    match write {
        Write::Key { db, key, change: Change::Put { value, expiry } } => {
            let change = Change::Put { value: value.into_owned().into(), expiry };
            Write::Key { db, key: key.into_owned().into(), change }
        }
        other => panic!("{other:?} was never written"),
    }
}

#[test]
fn whatever_happens_a_legal_state_comes_back() {
    let (mut lives, mut packed) = (0, 0);
    for seed in seeds(seed_count()) {
        let mut world = World::new(seed);
        for _ in 0..world.rng.random_range(2..6) {
            world.live(seed);
            lives += 1;
        }
        world.disk.set_options(SimOptions::default());
        assert!(world.open(seed).is_some(), "seed {seed}: an undisturbed opening succeeds");
        packed += world.packed;
    }
    println!("{lives} lives, {packed} compressed blocks");
    assert!(packed > lives, "{packed} blocks in {lives} lives were compressed");
}

/// The results of worlds whose device loses acknowledged writes.
#[derive(Debug, Default)]
struct Fates {
    refused: u64,
    /// The end of what was acknowledged is lost, as nothing that is left tells of it.
    shorter: u64,
    whole: u64,
}

/// Lives on devices that break their word: what comes back is a prefix of what was appended, each group whole
/// and every record as it was, or the start refuses the log.
fn fates(breaks: Broken) -> Fates {
    let mut fates = Fates::default();
    for seed in seeds(seed_count() / 5) {
        let mut world = World::new(seed);
        world.breaks = Some(breaks);
        for _ in 0..world.rng.random_range(2..6) {
            world.live(seed);
            if world.is_refused {
                break;
            }
        }
        world.disk.set_options(SimOptions::default());
        if !world.is_refused {
            _ = world.open(seed);
        }
        match (world.is_refused, world.losses) {
            (true, _) => fates.refused += 1,
            (_, 0) => fates.whole += 1,
            _ => fates.shorter += 1,
        }
    }
    eprintln!("{breaks:?}: {fates:?}");
    fates
}

#[test]
fn a_sector_that_is_torn_with_what_was_durable_is_noticed_or_ends_the_log() {
    let Fates { refused, whole, .. } = fates(Broken::Tears);
    assert!(refused > seed_count() / 200 && whole > seed_count() / 50, "{refused} refused, {whole} whole");
}

#[test]
fn lost_writes_are_noticed_or_end_the_log() {
    let Fates { refused, whole, .. } = fates(Broken::Silent(Fault::LostWrite));
    assert!(refused > seed_count() / 200 && whole > seed_count() / 50, "{refused} refused, {whole} whole");
}

#[test]
fn misdirected_writes_are_noticed_or_end_the_log() {
    let Fates { refused, whole, .. } = fates(Broken::Silent(Fault::MisdirectedWrite));
    assert!(refused > seed_count() / 200 && whole > seed_count() / 50, "{refused} refused, {whole} whole");
}

#[test]
fn bits_that_rot_while_files_are_compacted_are_noticed_or_end_the_log() {
    let Fates { refused, whole, .. } = fates(Broken::Rots);
    assert!(refused > seed_count() / 200 && whole > seed_count() / 50, "{refused} refused, {whole} whole");
}

#[test]
fn a_spoilt_byte_is_noticed_or_lies_where_nothing_was_promised() {
    let mut refused = 0;
    for seed in seeds(seed_count() / 2) {
        let mut world = World::new(seed);
        for _ in 0..2 {
            let Some((pipeline, _)) = world.open(seed) else { panic!("seed {seed}") };
            let pipeline = Arc::new(pipeline);
            let mut under = Vec::new();
            for _ in 0..80 {
                world.step_without_faults(&pipeline, &mut under);
            }
            if world.rng.random_bool(0.5) {
                world.settle(seed, &pipeline, under);
            }
            world.disk = world.disk.crash(Crash::Kill, seed, SimOptions::default());
        }
        let promised = promised(&world);
        if !world.spoil() {
            continue;
        }
        let outcome = Log::open(Arc::new(world.disk.clone()), world.options.clone()).and_then(read);
        match outcome {
            Err(OpenError::Damaged(_) | OpenError::TooNew { .. }) => refused += 1,
            Err(error) => panic!("seed {seed}: {error}"),
            Ok((reader, back)) => {
                let last = reader.last();
                world.assert_back(seed, &back, last);
                assert!(last >= promised, "seed {seed}: {last} came back, {promised} was promised");
            }
        }
    }
    assert!(refused > 0, "some damage hits what was promised");
}

#[test]
fn a_repaired_log_goes_on_and_is_compacted() {
    let mut repairs = 0;
    'lives: for seed in seeds(seed_count() / 2) {
        let mut world = World::new(seed);
        for _ in 0..4 {
            let Some((pipeline, _)) = world.open(seed) else { panic!("seed {seed}") };
            let pipeline = Arc::new(pipeline);
            let mut under = Vec::new();
            for _ in 0..80 {
                world.step_without_faults(&pipeline, &mut under);
            }
            world.settle(seed, &pipeline, under);
            (0..world.rng.random_range(0..6)).for_each(|_| world.compact(&pipeline));
            world.disk = world.disk.crash(Crash::PowerLoss, world.rng.random(), SimOptions::default());
            if world.rng.random() {
                world.spoil();
                // Nothing says of the last blocks that they were durable.
                (world.acknowledged, world.written) = (Lsn::ZERO, Lsn::ZERO);
            }
            let disk = Arc::new(world.disk.clone());
            match Log::open(disk.clone(), world.options.clone()).and_then(read) {
                Ok(_) => continue,
                Err(OpenError::Damaged(_)) => {}
                // Not everything that is refused can be repaired.
                Err(_) => continue 'lives,
            }
            let mut reader = Log::examine(disk, &world.options.directories, true).unwrap();
            if reader.survey().unwrap().recovered.blocks == 0 {
                // Nobody knows where the log began if its first file is gone.
                continue 'lives;
            }
            reader.truncate().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            repairs += 1;
            // What they were dropped for is cut off.
            world.dropped.values_mut().for_each(|reason| *reason = Lsn::ZERO);
        }
        assert!(world.open(seed).is_some(), "seed {seed}");
    }
    assert!(repairs > seed_count() / 20, "{repairs} repairs");
}

impl World {
    /// Changes a bit somewhere; `false` if nothing is there.
    fn spoil(&mut self) -> bool {
        let paths: Vec<PathBuf> = self.disk.paths();
        let path = &paths[self.rng.random_range(0..paths.len())];
        let bytes = self.disk.contents(path).unwrap_or_default();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        let flip = 1 << self.rng.random_range(0..8);
        if !bytes.is_empty() {
            self.disk.spoil(path, self.rng.random_range(0..=used), |byte| byte ^ flip);
        }
        !bytes.is_empty()
    }

    fn step_without_faults(&mut self, pipeline: &Arc<Pipeline>, under: &mut Vec<Under>) {
        self.step(pipeline, under);
        self.disk.set_options(SimOptions::default());
    }
}

/// The newest record of which the log itself says that it was durable.
fn promised(world: &World) -> Lsn {
    let mut reader = Log::open(Arc::new(world.disk.clone()), world.options.clone()).unwrap();
    let mut ends = Vec::new();
    while let Some(block) = reader.next_block().unwrap() {
        ends.push((block.sequence(), block.last().after(1)));
    }
    let durable = reader.durable_sequence();
    let last = ends.iter().rev().find(|(sequence, _)| *sequence <= durable);
    last.map_or(Lsn::ZERO, |(_, end)| Lsn(end.0 - 1))
}
