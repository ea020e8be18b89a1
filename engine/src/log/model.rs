//! The threads of a log beside a disk that fails, in random orders of their steps: flights, rescue and
//! watermark as they are, on the locks and atomics of shuttle, and the simulated disk.
//!
//! ```text
//!   1 that appends                      what it appended is there at the end, in order
//!   4 flights, of 2 directories         write, sync, settle; may be held up in the middle of a write or sync
//!   1 that rescues and prepares files   syncs of files and of directories fail by chance
//!   the machine dies at any time        what was durable is there; no other start refuses the log
//! ```

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use super::handle::begin;
use super::open::reader::Reader;
use super::write::flusher::Flight;
use super::write::pipeline::{Pipeline, State};
use super::{Appender, Compression, Group, LogError, LogOptions, SyncMode};
use crate::io::{Crash, Fault, ManualClock, SimDisk, SimOptions};
use crate::record::{Change, Lsn, Write};

const GROUPS: u64 = 4;
const LANES: usize = 2;
const FLIGHTS_EACH: usize = 2;

fn open(disk: &SimDisk) -> (Arc<Pipeline>, Lsn) {
    let mut options = LogOptions::new(vec!["/a".into(), "/b".into()]);
    (options.mode, options.file_bytes) = (SyncMode::Always, 8192);
    options.flushes_in_flight = FLIGHTS_EACH;
    options.compression = Compression::Lz4;
    options.clock = Arc::new(ManualClock::new(1));
    let mut reader = Reader::open(Arc::new(disk.clone()), options).unwrap();
    while reader.next_block().unwrap().is_some() {}
    let finished = reader.finish().unwrap();
    let last = finished.recovered.last;
    (Arc::new(begin(finished).unwrap().0), last)
}

/// Appends a record; waits while the log takes none. `false` when it has ended.
fn append(appender: &Appender) -> bool {
    let mut group = Group::new();
    // More than a sector, so that it is worth compressing.
    let change = Change::Put { value: vec![b'x'; 700].into(), expiry: None };
    group.push(&Write::Key { db: 0, key: b"key".into(), change });
    loop {
        match appender.append(&group) {
            Ok(_) => return true,
            Err(LogError::Closed) => return false,
            Err(_) => thread::yield_now(),
        }
    }
}

/// Rescues, and makes files ready, until the log ends.
fn keep(pipeline: &Pipeline) {
    loop {
        let wanted = {
            let active = pipeline.active.lock();
            match active.state {
                State::Failed(..) => None,
                State::Closing if active.count == 0 => return,
                State::Running | State::Closing => {
                    Some(active.lanes.iter().position(|lane| lane.next.is_none()))
                }
                State::Closed | State::Unlogged => return,
            }
        };
        match wanted {
            None => _ = pipeline.rescue(),
            Some(Some(lane)) if !pipeline.prepare(lane) => {
                let stuck = pipeline.stuck(&pipeline.active.lock());
                stuck.into_iter().for_each(|error| pipeline.fail(error));
            }
            Some(_) => {}
        }
        thread::yield_now();
    }
}

fn history() {
    let mut chance = thread_rng();
    let seed: u64 = chance.r#gen();
    let disk = SimDisk::new(seed, SimOptions::default());
    let (pipeline, _) = open(&disk);
    let faults_per_mille = vec![(Fault::SyncError, 300), (Fault::SyncDirError, 200), (Fault::WriteError, 50)];
    let (drops_unsynced, overlaps) = (chance.r#gen(), chance.r#gen());
    let works = SimOptions { drops_unsynced, overlaps, ..SimOptions::default() };
    disk.set_options(SimOptions { faults_per_mille, ..works.clone() });
    let mut threads = Vec::new();
    for index in 0..LANES * FLIGHTS_EACH {
        let flight = Flight { lane: index % LANES, handle: index / LANES };
        let pipeline = pipeline.clone();
        threads.push(thread::spawn(move || flight.run(&pipeline)));
    }
    let keeper = pipeline.clone();
    threads.push(thread::spawn(move || keep(&keeper)));
    let appender = Appender { pipeline: pipeline.clone() };
    let writer = thread::spawn(move || (0..GROUPS).take_while(|_| append(&appender)).count() as u64);
    let dies_early: bool = chance.r#gen();
    let mut durable = Lsn::ZERO;
    let mut look = || {
        let now = pipeline.durable.lsn();
        assert!(now >= durable, "the watermark rises");
        durable = now;
        thread::yield_now();
        now
    };
    for _ in 0..chance.gen_range(0..60) {
        look();
    }
    disk.set_options(works);
    if !dies_early {
        // The disk works again: all that was appended becomes durable.
        while look() < Lsn(GROUPS) {}
    }
    let promised = look();
    let crash = if chance.r#gen() { Crash::Kill } else { Crash::PowerLoss };
    let disk = disk.crash(crash, seed, SimOptions::default());
    pipeline.stop();
    let appended = writer.join().unwrap();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    let (_, last) = open(&disk);
    assert!(promised <= last && last.0 <= appended, "{promised} was promised, {last} of {appended} is there");
}

/// A flight is in the middle of a sync when the other directory fails, and the log is rescued.
fn straggler() {
    let mut chance = thread_rng();
    let seed: u64 = chance.r#gen();
    let disk = SimDisk::new(seed, SimOptions::default());
    let (pipeline, _) = open(&disk);
    let appender = Appender { pipeline: pipeline.clone() };
    let files = [0, 1].map(|lane| {
        assert!(append(&appender));
        let taken = pipeline.take(&mut pipeline.active.lock(), lane, 0).unwrap();
        let file = taken.file.clone();
        assert!(Flight { lane, handle: 0 }.write(&pipeline, taken));
        file
    });
    let faults_per_mille = vec![(Fault::SyncError, 1000)];
    disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    Flight { lane: 1, handle: 0 }.sync(&pipeline, &files[1]);
    let faults_per_mille = vec![(Fault::SyncDirError, 300)];
    disk.set_options(SimOptions { faults_per_mille, overlaps: chance.r#gen(), ..SimOptions::default() });
    let straggling = pipeline.clone();
    let file = files[0].clone();
    let flight = thread::spawn(move || Flight { lane: 0, handle: 0 }.sync(&straggling, &file));
    let (rescuing, attempts) = (pipeline.clone(), chance.gen_range(1..4));
    let rescue = thread::spawn(move || (0..attempts).for_each(|_| _ = rescuing.rescue()));
    flight.join().unwrap();
    rescue.join().unwrap();
    let promised = pipeline.durable.lsn();
    assert!(pipeline.failed() || promised == Lsn(2));
    let crash = if chance.r#gen() { Crash::Kill } else { Crash::PowerLoss };
    let (_, last) = open(&disk.crash(crash, seed, SimOptions::default()));
    assert!(promised <= last && last <= Lsn(2), "{promised} was promised, {last} is there");
}

#[test]
fn a_straggling_sync_and_a_rescue_agree_in_random_orders() {
    shuttle::check_random(straggler, 10_000);
}

#[test]
fn a_straggling_sync_and_a_rescue_agree_when_any_thread_is_held_up() {
    shuttle::check_pct(straggler, 5_000, 3);
}

#[test]
fn what_was_durable_is_there_in_random_orders() {
    shuttle::check_random(history, 10_000);
}
