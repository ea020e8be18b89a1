//! Compaction of the log: whatever is compacted, in whatever order, and wherever the machine dies, what comes
//! back is the store as it was after the last record that came back.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use tarn_engine::Compression;
use tarn_engine::compactor::CompactionOptions;
use tarn_engine::io::{Crash, Fault, SimDisk, SimOptions};
use tarn_engine::log::{ClosedFile, LogOptions, SyncMode};
use tarn_engine::record::{Change, Kind, Lsn, Side};
use tarn_engine::value::ImageBuilder;

use histories::*;

#[test]
fn whatever_is_compacted_the_store_comes_back_as_it_was() {
    let (mut compactions, mut crashes) = (0, 0);
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        // A key alone is many things, one after the other, and each of its records meets many compactions.
        let (keys, compacts) = [(KEYS, 0.08), (1, 0.3)][seed as usize % 2];
        let mut disk = SimDisk::new(seed, SimOptions::default());
        let mut history: BTreeMap<Lsn, Contents> = BTreeMap::new();
        history.insert(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)]);
        let mut acknowledged = Lsn::ZERO;
        for life in 0..rng.random_range(2..7) {
            let puts = puts_in(&disk, &options);
            let store = Store::open(&disk, &options)
                .unwrap_or_else(|error| panic!("seed {seed}: {error}; the log:\n{}", story(&disk, &options)));
            store.keys.set(keys);
            if seed % 4 == 3 {
                store.favourite_elements.set(500);
                *store.favourite.borrow_mut() = Some((0, b"k0".to_vec()));
            }
            assert!(store.last >= acknowledged, "seed {seed}, life {life}: {} is lost", acknowledged);
            history.split_off(&store.last.after(1));
            let found = contents_of(&store.engine);
            assert_eq!(Some(&found), history.get(&store.last), "seed {seed}, life {life}, at {}", store.last);
            let untold = puts.iter().find(|put| !store.is_told(put));
            assert_eq!(untold, None, "seed {seed}, life {life}: it is gone, and not marked");
            if rng.random_bool(0.6) {
                let crash_at = Some(disk.calls() + rng.random_range(1..150));
                let mut faults = SimOptions { crash_at, ..SimOptions::default() };
                if rng.random_bool(0.3) {
                    faults.faults_per_mille = Fault::ALL.into_iter().map(|fault| (fault, 5)).collect();
                }
                disk.set_options(faults);
                crashes += 1;
            }
            for _ in 0..rng.random_range(0..200) {
                if rng.random_bool(compacts) {
                    let before = store.log.appender().last();
                    compactions += u64::from(store.compact_any(&mut rng));
                    // Entries may have been written again, as what they were.
                    let found = contents_of(&store.engine);
                    for lsn in before.0..=store.log.appender().last().0 {
                        history.insert(Lsn(lsn), found.clone());
                    }
                } else if rng.random_bool(0.05) && store.commit_many(&mut rng) || store.commit(&mut rng) {
                    history.insert(store.log.appender().last(), contents_of(&store.engine));
                }
                if disk.is_dead() {
                    break;
                }
            }
            disk.set_options(SimOptions { crash_at: disk.is_dead().then_some(1), ..SimOptions::default() });
            let ending = rng.random_range(0..3);
            if ending == 0 && !disk.is_dead() {
                acknowledged = store.log.sync().unwrap_or(acknowledged);
            }
            acknowledged = acknowledged.max(store.log.durable().lsn());
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            if ending == 1 && !disk.is_dead() {
                if log.close().is_ok() {
                    acknowledged = *history.last_key_value().unwrap().0;
                }
                disk = disk.crash(Crash::Kill, rng.random(), SimOptions::default());
            } else {
                let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
                let left = disk.crash(crash, rng.random(), SimOptions::default());
                drop(log);
                disk = left;
            }
        }
    }
    assert!(
        compactions > seed_count() * 3 && crashes > seed_count(),
        "{compactions} compactions, {crashes} crashes"
    );
}

#[test]
fn an_image_that_a_replay_sees_empty_is_not_forgotten() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 2_000;
    let field = |name: &str| name.as_bytes().to_vec().into();
    let mut disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let mut builder = ImageBuilder::new(Kind::Hash);
    builder.push_field(b"gone", b"image");
    let elements = builder.finish().into();
    commit(&store, "k", Change::Image { kind: Kind::Hash, elements, expiry: None, sticky: false });
    commit(&store, "k", Change::HashPut { field: field("b"), value: field("1") });
    fill_on(&store);
    commit(&store, "k", Change::HashRemove { field: field("gone") });
    commit(&store, "k", Change::HashPut { field: field("b"), value: field("2") });
    fill_on(&store);
    // Without the first `b`, the next start sees the key empty between the removal and the second.
    store.engine.compactor().compact_files(store.engine.store(), &store.files()[..1]).unwrap();
    disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    for file in &store.files()[1..] {
        store.engine.compactor().compact_files(store.engine.store(), std::slice::from_ref(file)).unwrap();
    }
    disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let found = contents_of(&store.engine).swap_remove(0);
    assert!(found.contains(&("k".to_owned(), "b=2 None".to_owned())), "{found:?}");
}

#[test]
fn what_a_replay_could_not_apply_does_not_come_back_without_what_took_it_away() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 2_000;
    let member = |name: &str| Change::SetAdd { member: name.as_bytes().to_vec().into() };
    let mut disk = SimDisk::new(1, SimOptions::default());
    let mut store = Store::open(&disk, &options).unwrap();
    let mut builder = ImageBuilder::new(Kind::Set);
    builder.push_element(b"image");
    let elements = builder.finish().into();
    let image = Change::Image { kind: Kind::Set, elements, expiry: None, sticky: false };
    let mut begins = Vec::new();
    // In a file each: a list; a set in its place; a member of it, and the end of it; another set.
    for changes in [
        vec![Change::ListPush { side: Side::Back, element: b"x".to_vec().into() }],
        vec![image],
        vec![member("dead"), Change::Delete],
        vec![member("alive")],
    ] {
        begins.push(store.log.appender().last().after(1));
        changes.into_iter().for_each(|change| commit(&store, "k", change));
        fill_on(&store);
    }
    let compact = |store: &Store, file: &ClosedFile| {
        store.engine.compactor().compact_files(store.engine.store(), std::slice::from_ref(file)).unwrap();
    };
    let has = |file: &ClosedFile, at: Lsn| file.lsns().is_some_and(|(first, last)| first <= at && at <= last);
    let file_of = |store: &Store, at: Lsn| store.files().into_iter().find(|file| has(file, at)).unwrap();
    // Without the first set, the next start finds a list where the member was put.
    compact(&store, &file_of(&store, begins[1]));
    for is_last in [false, true] {
        disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
        store = Store::open(&disk, &options).unwrap();
        let found = contents_of(&store.engine).swap_remove(0);
        assert!(found.contains(&("k".to_owned(), "alive None".to_owned())), "{found:?}");
        if !is_last {
            compact(&store, &file_of(&store, begins[2]));
            store.files().iter().filter(|file| !has(file, begins[2])).for_each(|file| compact(&store, file));
            // All other files have been compacted since, so it loses the record of the end.
            compact(&store, &file_of(&store, begins[2]));
        }
    }
    drop(store);
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    assert_eq!(records_of(&disk, &options, "k"), 1);
}

#[test]
fn deleted_keys_stay_dead_in_every_order_of_files() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 2_000;
    for seed in 0..60 {
        let disk = SimDisk::new(seed, SimOptions::default());
        let store = Store::open(&disk, &options).unwrap();
        // Put, put again, changed in part, deleted: each in a file of its own.
        commit(&store, "k", Change::Put { value: b"one".to_vec().into(), expiry: None });
        fill_on(&store);
        commit(&store, "k", Change::Put { value: b"two".to_vec().into(), expiry: None });
        fill_on(&store);
        commit(&store, "k", Change::Patch { offset: 1, bytes: b"x".to_vec().into() });
        fill_on(&store);
        commit(&store, "k", Change::Delete);
        fill_on(&store);
        // Files are closed a little later, so there may be more.
        let mut order: Vec<usize> = (0..store.files().len()).collect();
        order.shuffle(&mut SmallRng::seed_from_u64(seed));
        let (mut disk, mut store) = (disk, store);
        for round in 0..2 {
            for at in &order {
                let file = store.files()[*at].clone();
                store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
                disk = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
                store = Store::open(&disk, &options).unwrap();
                let found = contents_of(&store.engine);
                assert!(found[0].iter().all(|(key, _)| key != "k"), "{order:?}, round {round}: {found:?}");
            }
        }
        drop(store);
        let left = disk.crash(Crash::PowerLoss, seed, SimOptions::default());
        assert_eq!(records_of(&left, &options, "k"), 0, "{order:?}: after two rounds nothing is left of it");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_told_of_and_does_not_stop_the_others() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    fill(&store, 8);
    let bad = store.files()[3].path().to_path_buf();
    disk.set_options(SimOptions { unreadable: Some(bad.clone()), ..SimOptions::default() });
    // Neighbours of which nothing is left become one, so it takes them along at first.
    let (compactor, off) = (store.engine.compactor(), CompactionOptions::default());
    let eager = CompactionOptions { bytes_per_second: 0, min_bytes: 0, file_bytes: 4_000, ..off };
    compactor.set_options(eager);
    let others =
        || store.files().iter().filter(|file| file.path() != bad).map(|file| file.records()).sum::<u64>();
    for _ in 0..20 {
        store.clock.advance(31_000);
        while compactor.step(store.engine.store()) {}
    }
    // The newest record of each of the keys may be in one that is closed.
    assert!(others() <= 4, "{} records are left of files that can be read", others());
    let status = compactor.status();
    let told = status.last_error.map(|(_, error)| error).unwrap_or_default();
    assert!(told.contains(bad.to_str().unwrap()) && status.failures > 1, "{told:?}");
    assert!(store.files().iter().any(|file| file.path() == bad && file.records() > 4));
    // When it can be read again, it is compacted like any other.
    disk.set_options(SimOptions::default());
    store.clock.advance(31_000);
    while compactor.step(store.engine.store()) {}
    assert!(store.files().iter().all(|file| file.records() <= 4));
    assert_eq!(compactor.status().error, None);
}

#[test]
fn a_round_in_which_a_file_failed_is_made_again_and_not_at_once() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    fill(&store, 3);
    let bad = store.files()[1].path().to_path_buf();
    disk.set_options(SimOptions { unreadable: Some(bad), ..SimOptions::default() });
    // Nothing but a round compacts a file.
    let off = CompactionOptions::default();
    let only_rounds = CompactionOptions { file_percent: 101, log_percent: 1 << 30, ..off };
    let compactor = store.engine.compactor();
    compactor.set_options(CompactionOptions { bytes_per_second: 0, min_bytes: 0, ..only_rounds });
    let look = |after_ms: u64| {
        store.clock.advance(after_ms);
        while compactor.step(store.engine.store()) {}
        compactor.status().rounds
    };
    let first = (0..10).find(|_| look(1_100) == 1);
    assert!(first.is_some() && compactor.status().failures > 0, "{:?}", compactor.status());
    assert_eq!(compactor.status().round_failures, 1);
    disk.set_options(SimOptions::default());
    assert_eq!(look(5_000), 1, "the disk has its time");
    assert_eq!(look(31_000), 2, "the log is as long as it was, so another round is due");
    assert_eq!((compactor.status().error, compactor.status().round_failures), (None, 0));
    assert_eq!(look(31_000), 2, "the log is no longer than after that round");
}

#[test]
fn rounds_go_by_the_length_before_compression() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    options.compression = Compression::Lz4;
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    fill(&store, 8);
    let bytes: u64 = store.files().iter().map(ClosedFile::bytes).sum();
    let raw: u64 = store.files().iter().map(ClosedFile::raw_bytes).sum();
    assert!(raw > 2 * bytes, "{bytes} of {raw}");
    // Nothing but a round compacts a file. One is due from twice this length on.
    let min_bytes = (bytes + raw) / 4;
    let off = CompactionOptions::default();
    let only_rounds = CompactionOptions { file_percent: 101, log_percent: 1 << 30, ..off };
    let compactor = store.engine.compactor();
    compactor.set_options(CompactionOptions { bytes_per_second: 0, min_bytes, ..only_rounds });
    let look = || {
        store.clock.advance(1_100);
        while compactor.step(store.engine.store()) {}
        compactor.status().rounds
    };
    assert!((0..10).any(|_| look() == 1), "{:?}", compactor.status());
    assert_eq!(look(), 1, "the log is no longer than after that round");
}

#[test]
fn no_bits_are_left_of_files_of_which_no_record_is() {
    let mut options = LogOptions::new(vec!["/log0".into(), "/log1".into()]);
    options.mode = SyncMode::Always;
    let mut disk = SimDisk::new(1, SimOptions::default());
    // Files without a range: each record lay before a gap, and a mark that all is durable came last.
    let mut without_range = 0;
    for life in 0..200 {
        let store = Store::open(&disk, &options).unwrap();
        for number in 0..4 {
            let value = format!("{life} {number}").into_bytes().into();
            commit(&store, "k", Change::Put { value, expiry: None });
            store.log.sync().unwrap();
        }
        for file in store.files() {
            store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
        }
        let files = store.files();
        assert_eq!(files.iter().map(|file| file.records()).sum::<u64>(), 0);
        without_range += files.iter().filter(|file| file.lsns().is_none()).count();
        let bits = store.engine.store().validity().invalid_in(Lsn::ZERO..=store.last);
        assert_eq!(bits, 0, "life {life}: files that are closed have no record");
        if without_range > 3 {
            return;
        }
        let Store { engine, _background, log, .. } = store;
        drop((engine, _background));
        log.close().unwrap();
        disk = disk.crash(Crash::Kill, life, SimOptions::default());
    }
    panic!("there were only {without_range} such files");
}
