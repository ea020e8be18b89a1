//! Devices that silently lose, misplace or corrupt data, below a store that is compacted, takes checkpoints,
//! scrubs its files and is replayed. A start finds the store as it once was, or names the damage.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::io::{Crash, Fault, SimDisk, SimOptions};
use tarn_engine::record::Lsn;
use tarn_engine::scrub::Scrubber;

use histories::*;

const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };

/// The results of the lives.
#[derive(Debug, Default)]
struct Fates {
    /// A start has refused.
    refused: u64,
    /// The end of what was acknowledged is lost, as nothing that is left tells of it.
    shorter: u64,
    /// Nothing is lost.
    whole: u64,
    /// Damage that was found while the store ran, by reading again or by a compaction.
    found_running: u64,
}

/// Notes what the store has for all that has been numbered since.
fn note(history: &mut BTreeMap<Lsn, Contents>, store: &Store, from: Lsn) {
    let found = contents_of(&store.engine);
    for lsn in from.0..=store.log.appender().last().0 {
        history.insert(Lsn(lsn), found.clone());
    }
}

fn live(seed: u64, fault: Option<Fault>, fates: &mut Fates) {
    let mut rng = SmallRng::seed_from_u64(seed);
    let options = options(&mut rng);
    let mut disk = SimDisk::new(seed, SimOptions::default());
    let mut history = BTreeMap::from([(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)])]);
    let mut acknowledged = Lsn::ZERO;
    let mut is_shorter = false;
    for life in 0..rng.random_range(2..6) {
        let opened = Checkpoints::open(Arc::new(disk.clone()), Path::new("/data"))
            .map_err(|error| error.to_string())
            .and_then(|checkpoints| {
                let store = Store::open_on(&disk, &options, Some(&checkpoints));
                store.map(|store| (store, checkpoints)).map_err(|error| error.to_string())
            });
        let (store, checkpoints) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let names = ["/log", "/data", "files of it are missing"];
                assert!(names.iter().any(|name| error.contains(name)), "seed {seed}: {error}");
                assert!(life > 0, "seed {seed}: {error}");
                fates.refused += 1;
                return;
            }
        };
        is_shorter |= store.last < acknowledged;
        history.split_off(&store.last.after(1));
        let found = contents_of(&store.engine);
        assert_eq!(Some(&found), history.get(&store.last), "seed {seed}, life {life}, at {}", store.last);
        let faults_per_mille = fault.map(|fault| (fault, 5)).into_iter().collect();
        disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
        let scrubber = Scrubber::default();
        scrubber.set_bytes_per_second(1 << 40);
        for _ in 0..rng.random_range(0..120) {
            let before = store.log.appender().last();
            match rng.random_range(0..100) {
                0..8 => {
                    store.compact_any(&mut rng);
                    note(&mut history, &store, before);
                }
                8..11 => {
                    let mode = [CheckpointMode::Full, CheckpointMode::Incremental][rng.random_range(0..2)];
                    let _ = checkpoints.take(&*store.engine, mode, FAST, NOW);
                    let cut = checkpoints.current().map(|checkpoint| checkpoint.cut);
                    store.engine.compactor().checkpoint_ended(cut);
                }
                11..15 => disk.forget_clean_pages(),
                15 if fault.is_none() => drop(disk.rot(&mut rng)),
                16 => drop(scrubber.pass(store.scrubbed(&checkpoints), &|_| {})),
                17..21 => acknowledged = store.log.sync().unwrap_or(acknowledged),
                _ => {
                    assert!(store.commit(&mut rng), "seed {seed}: nothing fails loudly");
                    note(&mut history, &store, store.log.appender().last());
                }
            }
        }
        fates.found_running += u64::from(scrubber.status().damage > 0);
        acknowledged = acknowledged.max(store.log.durable().lsn());
        let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
        let left = disk.crash(crash, rng.random(), SimOptions::default());
        drop(checkpoints);
        drop(store);
        disk = left;
    }
    if is_shorter {
        fates.shorter += 1;
    } else {
        fates.whole += 1;
    }
}

fn fates(fault: Option<Fault>) -> Fates {
    let mut fates = Fates::default();
    tarn_engine::io::seeds(seed_count() / 2).for_each(|seed| live(seed, fault, &mut fates));
    println!("{fault:?}: {fates:?}");
    assert!(fates.refused > seed_count() / 100 && fates.whole > seed_count() / 20, "{fates:?}");
    fates
}

#[test]
fn a_write_that_the_device_has_lost_is_noticed() {
    fates(Some(Fault::LostWrite));
}

#[test]
fn a_write_that_the_device_has_put_elsewhere_is_noticed() {
    fates(Some(Fault::MisdirectedWrite));
}

#[test]
fn bits_that_rot_are_noticed() {
    let fates = fates(None);
    assert!(fates.found_running > 0, "{fates:?}");
}
