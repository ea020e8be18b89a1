//! Transactions at the store's front door: what the commands of one see of each other, that the log has all
//! of it or nothing, and what watching a key tells.

#![allow(clippy::unwrap_used)]

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use tarn_engine::io::{Crash, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::{Group, Log, LogOptions, OpenError, SyncMode};
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::{Access, Latched};
use tarn_engine::value::stream::{Pending, StreamId, element};
use tarn_engine::value::{ValueRef, elements_of};
use tarn_engine::{Background, Engine};
use tarn_engine::{KeyHash, KeyRef, ScanBudget, Watch};

const DATABASES: u8 = 3;
const NOW: u64 = 1_000;

type Contents = Vec<Vec<(String, String)>>;

fn key(db: u8, key: &str, change: Change<'static>) -> Write<'static> {
    Write::Key { db, key: key.as_bytes().to_vec().into(), change }
}

fn put(value: &str, expiry: Option<u64>) -> Change<'static> {
    Change::Put { value: value.as_bytes().to_vec().into(), expiry }
}

/// Everything that is shown of a store, by a transaction if one runs.
fn contents(latched: &Latched<'_>) -> Contents {
    let shown = |db| {
        let mut all = Vec::new();
        let scanned = latched.scan(db, 0, &mut ScanBudget::UNLIMITED.clone(), |entry| {
            let value = match entry.value() {
                ValueRef::String(value) => value.to_vec(),
                other => elements_of(other),
            };
            let text = format!("{} {} {:?}", entry.encoding(), value.escape_ascii(), entry.expiry());
            all.push((String::from_utf8_lossy(entry.key()).into_owned(), text));
        });
        scanned.unwrap();
        all.sort();
        assert_eq!(latched.keys(db), all.len(), "database {db}");
        assert_eq!(latched.counts(db).expiring, all.iter().filter(|(_, text)| text.contains("Some")).count());
        all
    };
    (0..DATABASES).map(shown).collect()
}

fn contents_of(engine: &Engine) -> Contents {
    contents(&engine.enter(0).latch(&[], Access::Read, NOW))
}

fn unlogged() -> (Arc<Engine>, Background) {
    Engine::unlogged(DATABASES as usize, 2, Arc::new(ManualClock::new(NOW)))
}

/// Commits each write by itself, as outside of a transaction.
fn commit_singly(engine: &Engine, write: &Write<'static>) {
    let batch = Batch::from_iter([write.clone()]);
    engine.close_gate().commit(&batch, &mut Group::new()).unwrap();
}

/// A change that fits whatever stands at its key: the kind of a key is in its name.
fn any_write(rng: &mut SmallRng, whole_databases: bool) -> Write<'static> {
    let db = rng.random_range(0..DATABASES);
    if whole_databases && rng.random_bool(0.08) {
        return match rng.random_range(0..3) {
            0 => Write::Flush { db: Some(db) },
            1 => Write::Flush { db: None },
            _ => Write::Swap { a: db, b: (db + 1) % DATABASES },
        };
    }
    let number = rng.random_range(0..40u32);
    let text = || number.to_string().into_bytes().into();
    let kind = ["string", "list", "set", "zset", "stream", "hash"][rng.random_range(0..6)];
    let change = match (kind, rng.random_range(0..6)) {
        (_, 0) => Change::Delete,
        ("string", 1) => put("expiring", Some(NOW + 100)),
        ("string", 2..4) => Change::Patch { offset: number.into(), bytes: text() },
        ("string", _) => put(&number.to_string(), None),
        ("list", 1) => Change::ListPush { side: Side::Front, element: text() },
        ("list", _) => Change::ListPush { side: Side::Back, element: text() },
        ("set", 1..3) => Change::SetRemove { member: text() },
        ("set", _) => Change::SetAdd { member: text() },
        ("zset", 1..3) => Change::ZSetRemove { member: text() },
        ("zset", _) => Change::ZSetPut { member: text(), score: f64::from(number / 3) },
        ("stream", dice) => {
            let id = StreamId::new(number.into(), 0);
            let pending = Pending { id, consumer: b"consumer", delivered: 1, deliveries: 2 };
            match dice {
                1 if number < 20 => Change::StreamTrim { below: id },
                1 => element::remove_entry(id),
                2 => element::put_pending(b"group", &pending),
                3 if number < 30 => element::remove_pending(b"group", id),
                3 => Change::StreamGroupRemove { group: b"group"[..].into() },
                _ => element::put_entry(id, number.into(), [(&b"f"[..], &b"v"[..])].into_iter()),
            }
        }
        ("hash", 1..3) => Change::HashRemove { field: text() },
        ("hash", 3) => Change::HashExpire {
            field: text(),
            at: (number % 3 > 0).then_some(NOW + 1_000 + u64::from(number)),
        },
        _ => Change::HashPut { field: text(), value: text() },
    };
    key(db, &format!("{kind}{}", number % 3), change)
}

/// Large collections that the transactions change in part.
fn fill(engine: &Engine) {
    for number in 0..400u32 {
        let text = || number.to_string().into_bytes().into();
        commit_singly(engine, &key(0, "list0", Change::ListPush { side: Side::Back, element: text() }));
        commit_singly(engine, &key(0, "hash0", Change::HashPut { field: text(), value: text() }));
        commit_singly(engine, &key(0, "zset0", Change::ZSetPut { member: text(), score: 1.0 }));
    }
}

#[test]
fn a_transaction_shows_what_the_same_changes_one_by_one_would_have_made() {
    for seed in 0..150 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let ((engine, _background), (model, _other)) = (unlogged(), unlogged());
        fill(&engine);
        fill(&model);
        for _ in 0..6 {
            let before = contents_of(&engine);
            let mut alone = engine.close_gate();
            let mut latched = alone.transact(NOW);
            let mut staged = Batch::new();
            for _ in 0..rng.random_range(1..25) {
                let write = any_write(&mut rng, true);
                commit_singly(&model, &write);
                latched.stage(Batch::from_iter([write]), &mut staged);
                assert_eq!(contents(&latched), contents_of(&model), "seed {seed}");
            }
            latched.end();
            assert_eq!(contents(&latched), before, "seed {seed}: nothing has changed yet");
            latched.release();
            alone.commit(&staged, &mut Group::new()).unwrap();
            drop(alone);
            assert_eq!(contents_of(&engine), contents_of(&model), "seed {seed}");
        }
    }
}

#[test]
fn latched_keys_show_what_was_staged() {
    for seed in 0..150 {
        let mut rng = SmallRng::seed_from_u64(seed);
        let ((engine, _background), (model, _other)) = (unlogged(), unlogged());
        fill(&engine);
        fill(&model);
        let writes: Vec<_> = (0..40).map(|_| any_write(&mut rng, false)).collect();
        let places = writes.iter().map(|write| match write {
            Write::Key { db, key, .. } => (*db, key.to_vec()),
            _ => panic!("only keys are written"),
        });
        let places: Vec<_> = places.collect();
        let hashed: Vec<_> = places.iter().map(|(db, key)| (*db, KeyHash::of(key))).collect();
        let session = engine.enter(0);
        let mut latched = session.latch_places(&hashed, Access::Write, NOW);
        latched.begin();
        let mut staged = Batch::new();
        let shown = |latched: &Latched<'_>| -> Vec<_> {
            let values = places.iter().map(|(db, key)| {
                latched.get(*db, key).map(|entry| match entry.value() {
                    ValueRef::String(value) => value.to_vec(),
                    other => elements_of(other),
                })
            });
            values.collect()
        };
        for write in writes {
            // The model's gate is closed by another thread, as this one holds latches.
            let expected = std::thread::scope(|scope| {
                let of_model = scope.spawn(|| {
                    commit_singly(&model, &write);
                    let session = model.enter(0);
                    shown(&session.latch_places(&hashed, Access::Read, NOW))
                });
                of_model.join().unwrap()
            });
            latched.stage(Batch::from_iter([write]), &mut staged);
            assert_eq!(shown(&latched), expected, "seed {seed}");
        }
        latched.end();
        latched.commit(&staged, &mut Group::new()).unwrap();
        latched.release();
        drop(session);
        assert_eq!(contents_of(&engine), contents_of(&model), "seed {seed}");
    }
}

#[test]
fn an_expired_key_is_deleted_before_a_transaction_writes_to_it() {
    let (engine, _background) = unlogged();
    commit_singly(&engine, &key(0, "k", put("old", Some(NOW - 1))));
    let mut alone = engine.close_gate();
    let mut latched = alone.transact(NOW);
    latched.prepare(&[KeyRef::of(0, b"k")]);
    assert!(latched.get(0, b"k").is_none());
    let mut staged = Batch::new();
    let patch = |bytes: &'static [u8]| Change::Patch { offset: 0, bytes: bytes.into() };
    latched.stage(Batch::from_iter([key(0, "k", patch(b"n"))]), &mut staged);
    latched.stage(Batch::from_iter([key(0, "k", patch(b"N"))]), &mut staged);
    latched.release();
    let expected = [key(0, "k", Change::Delete), key(0, "k", patch(b"n")), key(0, "k", patch(b"N"))];
    assert_eq!(staged, Batch::from_iter(expected));
    alone.commit(&staged, &mut Group::new()).unwrap();
    drop(alone);
    assert_eq!(contents_of(&engine)[0], [("k".to_owned(), "raw N None".to_owned())]);
}

#[test]
fn a_hash_that_is_left_with_fields_whose_time_is_over_is_gone_for_the_rest_of_a_transaction() {
    let (engine, _background) = unlogged();
    engine.expiry().set_active(false);
    let field = |name: &str| name.as_bytes().to_vec().into();
    for name in ["over", "shown"] {
        commit_singly(&engine, &key(0, "k", Change::HashPut { field: field(name), value: field("v") }));
    }
    let expire = Change::HashExpire { field: field("over"), at: Some(NOW - 1) };
    commit_singly(&engine, &key(0, "k", expire));
    let remove = || key(0, "k", Change::HashRemove { field: field("shown") });
    let push = || key(0, "k", Change::ListPush { side: Side::Back, element: field("e") });
    let mut alone = engine.close_gate();
    let mut latched = alone.transact(NOW);
    let mut staged = Batch::new();
    latched.stage(Batch::from_iter([remove()]), &mut staged);
    assert!(latched.get(0, b"k").is_none());
    latched.stage(Batch::from_iter([push()]), &mut staged);
    latched.release();
    assert_eq!(staged, Batch::from_iter([remove(), key(0, "k", Change::Delete), push()]));
    alone.commit(&staged, &mut Group::new()).unwrap();
    drop(alone);
    let left = &contents_of(&engine)[0];
    assert!(left.len() == 1 && left[0].1.starts_with("quicklist"), "{left:?}");
}

fn open(disk: &SimDisk) -> Result<(Arc<Engine>, Background, Log), OpenError> {
    let mut options = LogOptions::new(vec!["/log".into()]);
    options.mode = SyncMode::No;
    options.file_bytes = 4_096;
    let disk = Arc::new(disk.clone());
    let opened = recovery::open(disk, options, None, DATABASES as usize, 2, &Progress::default())?;
    let appender = Some(opened.log.appender());
    let clock = Arc::new(ManualClock::new(NOW));
    let (engine, background) = Engine::new(opened.tables, 1, appender, opened.validity, clock);
    Ok((engine, background, opened.log))
}

/// The transactions of one life.
fn transactions(seed: u64) -> Vec<Vec<Write<'static>>> {
    let mut rng = SmallRng::seed_from_u64(seed);
    (0..8).map(|_| (0..rng.random_range(2..9)).map(|_| any_write(&mut rng, true)).collect()).collect()
}

/// The store after none, one, two … of the transactions.
fn states(transactions: &[Vec<Write<'static>>]) -> Vec<Contents> {
    let (model, _background) = unlogged();
    let mut states = vec![contents_of(&model)];
    for transaction in transactions {
        transaction.iter().for_each(|write| commit_singly(&model, write));
        states.push(contents_of(&model));
    }
    states
}

/// Commits one transaction after the other until the disk dies. Returns how many are known to be durable.
/// With `torn`, each write is a group by itself, which the test must notice.
fn live(disk: &SimDisk, transactions: &[Vec<Write<'static>>], torn: bool) -> usize {
    let Ok((engine, _background, log)) = open(disk) else { return 0 };
    for (done, transaction) in transactions.iter().enumerate() {
        for group in transaction.chunks(if torn { 1 } else { transaction.len() }) {
            let batch: Batch<'_> = group.iter().cloned().collect();
            if engine.close_gate().commit(&batch, &mut Group::new()).is_err() || log.sync().is_err() {
                return done;
            }
        }
    }
    transactions.len()
}

/// Crashes at every call. Returns the first state that is not one after a whole transaction.
fn illegal_state(seed: u64, torn: bool) -> Option<String> {
    let transactions = transactions(seed);
    let states = states(&transactions);
    let whole = SimDisk::new(seed, SimOptions::default());
    assert_eq!(live(&whole, &transactions, torn), transactions.len());
    for crash_at in 1..=whole.calls() {
        let crash_at = Some(crash_at);
        let disk = SimDisk::new(seed, SimOptions { crash_at, ..SimOptions::default() });
        let durable = live(&disk, &transactions, torn);
        for crash in [Crash::Kill, Crash::PowerLoss] {
            let left = disk.crash(crash, seed, SimOptions::default());
            let (engine, _background, _log) = open(&left).unwrap();
            let found = contents_of(&engine);
            if !states[durable..].contains(&found) {
                return Some(format!("{crash:?} at {crash_at:?}: {durable} are durable, {found:?}"));
            }
        }
    }
    None
}

#[test]
fn after_a_crash_at_any_call_a_transaction_is_there_whole_or_not_at_all() {
    for seed in 0..6 {
        assert_eq!(illegal_state(seed, false), None, "seed {seed}");
    }
}

#[test]
fn a_transaction_in_several_groups_would_be_found_torn() {
    assert!(illegal_state(0, true).is_some());
}

fn watch(engine: &Engine, db: u8, key: &str) -> Watch {
    let hash = KeyHash::of(key.as_bytes());
    engine.enter(0).latch_places(&[(db, hash)], Access::Read, NOW).watch(db, key.as_bytes())
}

fn is_unchanged(engine: &Engine, watch: &Watch) -> bool {
    let latched = engine.enter(0);
    let latched = latched.latch_places(&[(watch.db(), watch.hash())], Access::Read, NOW);
    latched.is_unchanged(watch)
}

#[test]
fn a_missing_key_that_came_and_went_has_changed_and_its_neighbours_have_not() {
    let (engine, _background) = unlogged();
    let [missing, other_db, neighbour] =
        [(0, "missing"), (1, "missing"), (0, "neighbour")].map(|(db, key)| watch(&engine, db, key));
    commit_singly(&engine, &key(0, "third", put("v", None)));
    commit_singly(&engine, &key(0, "third", Change::Delete));
    commit_singly(&engine, &key(0, "missing", Change::Delete));
    assert!(is_unchanged(&engine, &missing));
    commit_singly(&engine, &key(0, "missing", put("v", None)));
    commit_singly(&engine, &key(0, "missing", Change::Delete));
    assert!(!is_unchanged(&engine, &missing));
    assert!(is_unchanged(&engine, &other_db) && is_unchanged(&engine, &neighbour));
}

#[test]
fn a_key_that_was_there_has_changed_by_any_record() {
    let (engine, _background) = unlogged();
    commit_singly(&engine, &key(0, "k", put("v", None)));
    let first = watch(&engine, 0, "k");
    assert!(is_unchanged(&engine, &first));
    commit_singly(&engine, &key(0, "k", put("v", None)));
    assert!(!is_unchanged(&engine, &first));
    for change in [Change::Expire(Some(NOW + 5)), Change::MAKES_RAW, Change::Delete] {
        let watch = watch(&engine, 0, "k");
        commit_singly(&engine, &key(0, "k", change));
        assert!(!is_unchanged(&engine, &watch));
    }
    assert_eq!(engine.store().missing_keys_watched(), 0, "only missing keys are registered");
}

#[test]
fn what_is_no_longer_watched_is_forgotten() {
    let (engine, _background) = unlogged();
    let watches: Vec<Watch> = (0..100).map(|i| watch(&engine, i % 2, &format!("k{}", i % 7))).collect();
    assert_eq!(engine.store().missing_keys_watched(), 100);
    commit_singly(&engine, &key(0, "k1", put("v", None)));
    assert!(engine.store().missing_keys_watched() < 100, "who has been told is forgotten");
    drop(watches);
    assert_eq!(engine.store().missing_keys_watched(), 0);
}

#[test]
fn databases_that_changed_places_and_back_have_changed() {
    let (engine, _background) = unlogged();
    commit_singly(&engine, &key(0, "in 0", put("v", None)));
    commit_singly(&engine, &key(1, "in 1", put("v", None)));
    commit_singly(&engine, &key(1, "expired", put("v", Some(NOW - 1))));
    let watches = ["in 0", "in 1", "in none", "expired"].map(|key| watch(&engine, 0, key));
    let outside = watch(&engine, 2, "in 0");
    for _ in 0..2 {
        commit_singly(&engine, &Write::Swap { a: 0, b: 1 });
    }
    assert_eq!(watches.map(|watch| is_unchanged(&engine, &watch)), [false, false, true, true]);
    assert!(is_unchanged(&engine, &outside));
}

#[test]
fn a_watch_of_a_missing_key_sees_the_write_of_another() {
    let (engine, _background) = Engine::unlogged(1, 4, Arc::new(ManualClock::new(NOW)));
    let rounds = 3_000;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..rounds {
                let session = engine.enter(1);
                let mut latched = session.latch_places(&[(0, KeyHash::of(b"k"))], Access::Write, NOW);
                for change in [put("v", None), Change::Delete] {
                    latched.commit(&Batch::from_iter([key(0, "k", change)]), &mut Group::new()).unwrap();
                }
                latched.release();
            }
        });
        // Between two looks that agree on the newest removal there was no write; else there was.
        while !writer.is_finished() {
            let hash = KeyHash::of(b"k");
            let session = engine.enter(2);
            let latched = session.latch_places(&[(0, hash)], Access::Read, NOW);
            let watch = latched.watch(0, b"k");
            let before = latched.seen();
            drop(latched);
            std::thread::yield_now();
            let latched = session.latch_places(&[(0, hash)], Access::Read, NOW);
            assert!(latched.get(0, b"k").is_none());
            assert_eq!(latched.is_unchanged(&watch), latched.seen() == before);
        }
    });
}
