//! Entries that are written again in pieces: whatever happens in between, to them, to their databases, to the
//! log and to the machine, what comes back is the store as it was after the last record that came back.

#![allow(clippy::unwrap_used)]

mod histories;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use histories::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions};
use tarn_engine::compactor::{CompactionOptions, Scope};
use tarn_engine::io::{Clock, Crash, SimDisk, SimOptions, SystemClock};
use tarn_engine::log::{Group, LogOptions, SyncMode};
use tarn_engine::record::{Batch, Change, Kind, Lsn, Side, Write};
use tarn_engine::renewal::{Renewal, Step};
use tarn_engine::session::Access;
use tarn_engine::value::stream::{GroupState, Pending, StreamHead, StreamId, element};
use tarn_engine::value::{ImageBuilder, ValueRef};
use tarn_engine::{Compression, Engine, KeyHash};

/// Counts of what the histories did, so that a test can say that it was enough.
#[derive(Debug, Default)]
struct Done {
    renewals: u64,
    parts: u64,
    given_up: u64,
    cut_short: u64,
    compactions: u64,
    checkpoints: u64,
    moved_away: u64,
}

/// Begins a renewal, or goes on with the one that is under way.
fn renew<'e>(
    engine: &'e Engine,
    store: &Store,
    renewal: &mut Option<Renewal<'e>>,
    rng: &mut SmallRng,
    done: &mut Done,
) {
    match renewal.as_mut().map(Renewal::step) {
        None => {
            let favourite = store.favourite.borrow().clone().filter(|_| rng.random_bool(0.7));
            let any = || {
                let number = rng.random_range(0..store.keys.get());
                (rng.random_range(0..DATABASES), format!("k{number}").into_bytes())
            };
            let (db, name) = favourite.unwrap_or_else(any);
            *renewal = Renewal::begin(engine.store(), db, &name, rng.random_range(1..6));
            *store.favourite.borrow_mut() = renewal.is_some().then_some((db, name));
        }
        Some(Step::Goes(_)) => done.parts += 1,
        Some(step) => {
            done.renewals += u64::from(step == Step::Ended);
            done.given_up += u64::from(step == Step::GivenUp);
            *renewal = None;
            if rng.random_bool(0.1) {
                *store.favourite.borrow_mut() = None;
            }
        }
    }
}

fn save(store: &Store, checkpoints: &Checkpoints) -> bool {
    let options = TakeOptions { pace: Pace::Fast, writers: 1 };
    let taken = checkpoints.take(&*store.engine, CheckpointMode::Full, options, NOW).is_ok();
    let cut = checkpoints.current().map(|checkpoint| checkpoint.cut);
    store.engine.compactor().checkpoint_ended(cut);
    taken
}

/// How often what happens in a random history.
#[derive(Clone, Copy, Default)]
struct Odds {
    /// That a checkpoint is taken, in a step.
    saves: f64,
    /// That the machine dies, in a life.
    crashes: f64,
    /// That the checkpoint is moved away before a start.
    moves_away: f64,
}

/// Random histories.
fn play(Odds { saves, crashes, moves_away }: Odds) -> Done {
    let mut done = Done::default();
    for seed in tarn_engine::io::seeds(seed_count()) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let options = options(&mut rng);
        let rewrites = saves > 0.0 && moves_away == 0.0 && rng.random_bool(0.3);
        let (keys, mut moved_away) = ([3, KEYS][seed as usize % 2], 0);
        let mut disk = SimDisk::new(seed, SimOptions::default());
        let mut history: BTreeMap<Lsn, Contents> = BTreeMap::new();
        history.insert(Lsn::ZERO, vec![Vec::new(); usize::from(DATABASES)]);
        let mut acknowledged = Lsn::ZERO;
        for life in 0..rng.random_range(2..7) {
            let shared = Arc::new(disk.clone());
            moved_away += u64::from(rng.random_bool(moves_away));
            let directory = PathBuf::from(format!("/checkpoints{moved_away}"));
            let checkpoints = (saves > 0.0).then(|| Checkpoints::open(shared, &directory).unwrap());
            let puts = if saves > 0.0 { Vec::new() } else { puts_in(&disk, &options) };
            let store = Store::open_on(&disk, &options, checkpoints.as_ref())
                .unwrap_or_else(|error| panic!("seed {seed}: {error}; the log:\n{}", story(&disk, &options)));
            store.keys.set(keys);
            let told = CompactionOptions { rewrites, ..store.engine.compactor().options() };
            store.engine.compactor().set_options(told);
            assert!(store.last >= acknowledged, "seed {seed}, life {life}: {acknowledged} is lost");
            history.split_off(&store.last.after(1));
            let found = contents_of(&store.engine);
            let at = store.last;
            if Some(&found) != history.get(&at) {
                drop(store);
                let log = story(&disk, &options);
                let expected = history.get(&at);
                panic!("seed {seed}, life {life}, at {at}\nfound {found:?}\nnot   {expected:?}\n{log}");
            }
            let untold = puts.iter().find(|put| !store.is_told(put));
            assert_eq!(untold, None, "seed {seed}, life {life}: it is gone, and not marked");
            if rng.random_bool(crashes) {
                let crash_at = Some(disk.calls() + rng.random_range(1..250));
                disk.set_options(SimOptions { crash_at, ..SimOptions::default() });
            }
            let engine = store.engine.clone();
            let mut renewal = None;
            for _ in 0..rng.random_range(0..250) {
                let before = store.log.appender().last();
                let is_silent = match rng.random_range(0..100) {
                    0..8 => {
                        done.compactions += u64::from(store.compact_any(&mut rng));
                        true
                    }
                    8..45 => {
                        renew(&engine, &store, &mut renewal, &mut rng, &mut done);
                        true
                    }
                    _ if rng.random_bool(saves) => {
                        done.checkpoints += u64::from(save(&store, checkpoints.as_ref().unwrap()));
                        true
                    }
                    _ => !store.commit(&mut rng),
                };
                let (found, last) = (contents_of(&store.engine), store.log.appender().last());
                if is_silent {
                    assert_eq!(Some(&found), history.get(&before), "seed {seed}: nothing was changed");
                    (before.0..=last.0).for_each(|lsn| _ = history.insert(Lsn(lsn), found.clone()));
                }
                history.insert(last, found);
                if disk.is_dead() {
                    break;
                }
            }
            done.cut_short += u64::from(renewal.is_some());
            drop(renewal);
            drop(engine);
            disk.set_options(SimOptions { crash_at: disk.is_dead().then_some(1), ..SimOptions::default() });
            if rng.random_bool(0.3) && !disk.is_dead() {
                acknowledged = store.log.sync().unwrap_or(acknowledged);
            }
            acknowledged = acknowledged.max(store.log.durable().lsn());
            let Store { engine, _background, log, .. } = store;
            drop((engine, _background));
            let crash = if rng.random() { Crash::Kill } else { Crash::PowerLoss };
            if rng.random_bool(0.3) && !disk.is_dead() && log.close().is_ok() {
                acknowledged = *history.last_key_value().unwrap().0;
                disk = disk.crash(Crash::Kill, rng.random(), SimOptions::default());
            } else {
                disk = disk.crash(crash, rng.random(), SimOptions::default());
            }
        }
        done.moved_away += moved_away;
    }
    println!("{done:?}");
    done
}

#[test]
fn whatever_is_renewed_in_pieces_the_store_comes_back_as_it_was() {
    let done = play(Odds { crashes: 0.5, ..Odds::default() });
    let enough = [done.renewals / 10, done.parts / 10, done.given_up, done.cut_short, done.compactions];
    assert!(enough.iter().all(|count| *count > seed_count() / 2), "{done:?}");
}

#[test]
fn checkpoints_may_be_taken_within_a_renewal() {
    let done = play(Odds { saves: 0.03, crashes: 0.3, ..Odds::default() });
    assert!(done.renewals > 5 * seed_count() && done.checkpoints > seed_count(), "{done:?}");
}

#[test]
fn the_log_alone_tells_the_same_when_its_checkpoint_is_moved_away() {
    let done = play(Odds { saves: 0.03, crashes: 0.1, moves_away: 0.4 });
    let enough = [done.renewals, done.compactions, done.checkpoints, done.moved_away];
    assert!(enough.iter().all(|count| *count > seed_count()), "{done:?}");
}

/// The total bytes of the log.
fn log_bytes(store: &Store, disk: &SimDisk) -> u64 {
    let is_log = |path: &&PathBuf| path.extension().is_some_and(|ending| ending == "tarnlog");
    let _ = store.log.sync();
    disk.paths().iter().filter(is_log).map(|path| disk.contents(path).unwrap().len() as u64).sum()
}

/// How long the key is latched at most, and the renewal of it takes in all.
fn print_longest_step(engine: &Engine) {
    let clock = SystemClock::default();
    let mut renewal = Renewal::begin(engine.store(), 0, b"queue", 64 << 10).unwrap();
    let (began, mut longest) = (clock.monotonic(), Duration::ZERO);
    loop {
        let before = clock.monotonic();
        let step = renewal.step();
        longest = longest.max(clock.monotonic() - before);
        if !matches!(step, Step::Goes(_)) {
            break;
        }
    }
    println!("the longest step took {longest:?} of {:?}", clock.monotonic() - began);
}

#[test]
fn the_log_of_a_large_queue_does_not_grow_for_ever() {
    const ELEMENTS: u64 = 80_000;
    const ELEMENT_BYTES: usize = 100;
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 1 << 20;
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    let compactor = store.engine.compactor();
    compactor.set_options(CompactionOptions { part_bytes: 64 << 10, ..compactor.options() });
    let element = |number: u64| -> std::borrow::Cow<'static, [u8]> {
        let mut bytes = number.to_le_bytes().to_vec();
        bytes.resize(ELEMENT_BYTES, b'x');
        bytes.into()
    };
    let push =
        |number| commit(&store, "queue", Change::ListPush { side: Side::Front, element: element(number) });
    (0..ELEMENTS).for_each(push);
    let live = ELEMENTS * ELEMENT_BYTES as u64;
    let (mut longest, mut written) = (0, ELEMENTS);
    for _ in 0..12 {
        for _ in 0..ELEMENTS / 4 {
            push(written);
            written += 1;
            commit(&store, "queue", Change::ListPop { side: Side::Back, count: 1 });
        }
        longest = longest.max(log_bytes(&store, &disk));
        compactor.ask(Scope::All);
        while compactor.step(store.engine.store()) {}
        longest = longest.max(log_bytes(&store, &disk));
    }
    let status = compactor.status();
    let last = log_bytes(&store, &disk);
    println!(
        "{live} bytes of elements; the log was {longest} bytes long at most, and is {last}; {} renewals, {} \
         bytes written by compactions",
        status.renewed, status.bytes_written
    );
    // All that was ever pushed is more than four times that.
    assert!(status.renewed > 0 && longest < 3 * live, "{longest} of {live}, {status:?}");
    print_longest_step(&store.engine);
    let before = contents_of(&store.engine);
    let disk = {
        let Store { engine, _background, log, .. } = store;
        drop((engine, _background));
        log.close().unwrap();
        disk.crash(Crash::Kill, 1, SimOptions::default())
    };
    let store = Store::open(&disk, &options).unwrap();
    assert!(contents_of(&store.engine) == before, "the queue is as it was");
}

#[test]
fn an_entry_is_not_written_again_because_all_else_was_compressed() {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.compression) = (SyncMode::No, Compression::Lz4);
    let disk = SimDisk::new(1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    for number in 0..100 {
        push(&store, 0, &format!("element {number}"));
        commit(&store, &format!("{number}"), Change::Put { value: vec![b'x'; 1_000].into(), expiry: None });
    }
    store.log.sync().unwrap();
    let compactor = store.engine.compactor();
    compactor.ask(Scope::All);
    // The thread in the background may take the round on itself.
    while compactor.status().rounds == 0 {
        compactor.step(store.engine.store());
        std::thread::yield_now();
    }
    // The pushes have a thirtieth of all bytes, and of those on disk about all.
    let files = store.files();
    let raw: u64 = files.iter().map(|file| file.raw_bytes()).sum();
    let bytes: u64 = files.iter().map(|file| file.bytes()).sum();
    assert!(raw > 100_000 && bytes < 10_000, "{bytes} of {raw}");
    let status = compactor.status();
    assert_eq!((status.rounds, status.renewed), (1, 0));
}

/// Renews a key to the end, `between` being called after the first part.
fn renew_all(store: &Store, key: &str, part_bytes: usize, between: impl FnOnce()) {
    let mut renewal = Renewal::begin(store.engine.store(), 0, key.as_bytes(), part_bytes).unwrap();
    assert!(matches!(renewal.step(), Step::Goes(_)));
    between();
    let end = std::iter::repeat_with(|| renewal.step()).find(|step| !matches!(step, Step::Goes(_)));
    assert_eq!(end, Some(Step::Ended));
}

/// Compacts all files, and starts once more without a checkpoint; the database 0 then.
fn after_compactions(store: Store, disk: &SimDisk, options: &LogOptions) -> Vec<(String, String)> {
    fill_on(&store);
    for file in store.files() {
        store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
    }
    let Store { engine, _background, log, .. } = store;
    drop((engine, _background));
    log.close().unwrap();
    let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
    contents_of(&Store::open(&disk, options).unwrap().engine).swap_remove(0)
}

fn small_files() -> LogOptions {
    let mut options = LogOptions::new(vec!["/log".into()]);
    (options.mode, options.file_bytes) = (SyncMode::No, 2_000);
    options
}

fn push(store: &Store, db: u8, element: &str) {
    let change = Change::ListPush { side: Side::Front, element: element.as_bytes().to_vec().into() };
    let write = Write::Key { db, key: b"list".into(), change };
    store.engine.close_gate().commit(&Batch::from_iter([write]), &mut Group::new()).unwrap();
}

/// The image of a stream of so many entries, of which some are pending.
fn stream_image(entries: u64, rng: &mut SmallRng) -> Change<'static> {
    let mut image = ImageBuilder::new(Kind::Stream);
    let mut push = |change| match change {
        Change::StreamPut { name, value } => image.push_field(&name, &value),
        other => panic!("{other:?} is no put"),
    };
    push(element::put_head(&StreamHead { entries_added: entries, ..StreamHead::default() }));
    push(element::put_group(b"g0", &GroupState { last_id: StreamId::MAX, entries_read: None }));
    for number in 0..entries {
        let id = StreamId::new(number, 0);
        push(element::put_entry(id, number + 1, [(&b"field"[..], &b"value"[..])].into_iter()));
        if rng.random_bool(0.2) {
            let consumer = [b'c', b'0' + rng.random_range(0..3u8)];
            let pending = Pending { id, consumer: &consumer, delivered: number, deliveries: 1 };
            push(element::put_pending(b"g0", &pending));
        }
    }
    Change::Image {
        kind: Kind::Stream,
        elements: image.finish().into(),
        expiry: Some(NOW + 1_000),
        sticky: false,
    }
}

#[test]
fn a_large_stream_is_renewed_while_clients_append_and_trim() {
    for seed in tarn_engine::io::seeds(tarn_engine::io::seed_count(8)) {
        let mut rng = SmallRng::seed_from_u64(seed);
        let (disk, mut options) = (SimDisk::new(seed, SimOptions::default()), small_files());
        options.file_bytes = 20_000;
        let store = Store::open(&disk, &options).unwrap();
        let entries = rng.random_range(200..3_000);
        commit(&store, "k", stream_image(entries, &mut rng));
        let (mut last, mut trimmed) = (entries, 0);
        let mut renewal = Renewal::begin(store.engine.store(), 0, b"k", rng.random_range(20..3_000)).unwrap();
        let end = loop {
            match renewal.step() {
                Step::Goes(_) => {}
                end => break end,
            }
            for _ in 0..rng.random_range(0..4) {
                let change = match rng.random_range(0..10) {
                    0..5 => {
                        last += 1;
                        element::put_entry(StreamId::new(last, 0), last, std::iter::empty())
                    }
                    5 => {
                        trimmed += rng.random_range(0..entries / 20);
                        Change::StreamTrim { below: StreamId::new(trimmed, 0) }
                    }
                    6 if rng.random_bool(0.02) => Change::StreamGroupRemove { group: b"g0"[..].into() },
                    // Anywhere, passed already or not.
                    _ => stream_change(last as u16, &mut rng),
                };
                commit(&store, "k", change);
            }
        };
        assert_eq!(end, Step::Ended, "seed {seed}");
        drop(renewal);
        let live = {
            let session = store.engine.enter(0);
            let latched = session.latch_places(&[(0, KeyHash::of(b"k"))], Access::Read, NOW);
            let ValueRef::Stream(stream) = latched.get(0, b"k").unwrap().value() else { panic!("a stream") };
            stream.elements().count()
        };
        let before = contents_of(&store.engine);
        for _ in 0..3 {
            fill_on(&store);
            for file in store.files() {
                store.engine.compactor().compact_files(store.engine.store(), &[file]).unwrap();
            }
        }
        let Store { engine, _background, log, .. } = store;
        drop((engine, _background));
        log.close().unwrap();
        let disk = disk.crash(Crash::Kill, seed, SimOptions::default());
        // The elements, the expiry, the two ends of the renewal.
        let kept = records_of(&disk, &options, "k");
        assert!((live..=live + 3).contains(&kept), "seed {seed}: {kept} records of {live} elements are kept");
        let after = contents_of(&Store::open(&disk, &options).unwrap().engine);
        let of_key = |all: &Contents| all[0].iter().find(|(key, _)| key == "k").cloned();
        assert!(of_key(&after) == of_key(&before), "seed {seed}");
    }
}

#[test]
fn a_list_of_the_same_name_in_another_database_moves_no_part() {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), small_files());
    let store = Store::open(&disk, &options).unwrap();
    ["a", "b", "c", "d", "e"].iter().for_each(|element| push(&store, 0, element));
    push(&store, 1, "other");
    fill_on(&store);
    renew_all(&store, "list", 1, || {
        push(&store, 0, "new");
        ["f", "g", "h"].iter().for_each(|element| push(&store, 1, element));
    });
    let found = after_compactions(store, &disk, &options);
    assert!(found.contains(&("list".to_owned(), "new,e,d,c,b,a, None".to_owned())), "{found:?}");
}

#[test]
fn an_expiry_that_a_start_found_in_a_checkpoint_is_logged_again() {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), small_files());
    let open = |disk: &SimDisk| {
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new("/checkpoints")).unwrap();
        (Store::open_on(disk, &options, Some(&checkpoints)).unwrap(), checkpoints)
    };
    let (store, checkpoints) = open(&disk);
    push(&store, 0, "a");
    commit(&store, "list", Change::Expire(Some(NOW + 1_000)));
    fill_on(&store);
    assert!(save(&store, &checkpoints));
    let disk = disk.crash(Crash::Kill, 1, SimOptions::default());
    drop(store);
    let (store, _) = open(&disk);
    renew_all(&store, "list", 1, || {});
    let found = after_compactions(store, &disk, &options);
    assert!(found.contains(&("list".to_owned(), format!("a, {:?}", Some(NOW + 1_000)))), "{found:?}");
}

#[test]
fn a_string_stays_dead_of_whose_renewal_only_the_end_is_left() {
    let (disk, options) = (SimDisk::new(1, SimOptions::default()), small_files());
    let store = Store::open(&disk, &options).unwrap();
    let bytes = |bytes: &[u8]| bytes.to_vec().into();
    commit(&store, "k", Change::Put { value: bytes(b"old"), expiry: None });
    fill_on(&store);
    let first = store.files().len();
    commit(&store, "k", Change::Patch { offset: 3, bytes: bytes(b"er") });
    let mut renewal = Renewal::begin(store.engine.store(), 0, b"k", 100).unwrap();
    assert!(matches!(renewal.step(), Step::Goes(_)));
    fill_on(&store);
    let end = store.files().len();
    assert_eq!(renewal.step(), Step::Ended);
    commit(&store, "k", Change::Delete);
    drop(renewal);
    fill_on(&store);
    let compact = |store: &Store, files: std::ops::Range<usize>| {
        for file in &store.files()[files] {
            store.engine.compactor().compact_files(store.engine.store(), std::slice::from_ref(file)).unwrap();
        }
    };
    compact(&store, first..end);
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let store = Store::open(&disk, &options).unwrap();
    // The file of the put, which nothing has told but the replay; then that of what took it away.
    compact(&store, 0..store.files().len());
    let disk = disk.crash(Crash::PowerLoss, 1, SimOptions::default());
    let found = contents_of(&Store::open(&disk, &options).unwrap().engine).swap_remove(0);
    assert!(found.iter().all(|(key, _)| key != "k"), "{found:?}");
}
