//! Files of checkpoints that are whole, and still not the checkpoint: of another time, of changes alone, or
//! with numbers of records newer than their cut. A start refuses each; the next checkpoint reads the store.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tarn_engine::checkpoint::{CheckpointError, CheckpointMode, Checkpoints, Loaded, Pace, TakeOptions};
use tarn_engine::io::{Disk, Fault, ManualClock, SimDisk, SimOptions};
use tarn_engine::log::Group;
use tarn_engine::record::{Batch, Change, Lsn, Side, Write};
use tarn_engine::recovery::empty;
use tarn_engine::session::Access;
use tarn_engine::table::KeyHash;
use tarn_engine::{Background, Engine};

const DIRECTORY: &str = "/data";
const FAST: TakeOptions = TakeOptions { pace: Pace::Fast, writers: 1 };
const HEADER_BYTES: usize = 64;
const BLOCK_HEADER_BYTES: usize = 28;
/// Where the header has what; see `docs/format/checkpoint.md`.
const KIND_AT: usize = 12;
const BASE_AT: usize = 32;

/// A store with its checkpoints.
struct Scene {
    engine: Arc<Engine>,
    _background: Background,
    disk: SimDisk,
    checkpoints: Checkpoints,
}

impl Scene {
    fn new() -> Scene {
        Scene::behind(Lsn::ZERO)
    }

    /// Its first record is the one after `cut`.
    fn behind(cut: Lsn) -> Scene {
        let loaded = Loaded { tables: empty(1), cut, keys: 0 };
        let (engine, background) = Engine::loaded(loaded, 1, Arc::new(ManualClock::new(1_000)));
        engine.expiry().set_active(false);
        let disk = SimDisk::new(1, SimOptions::default());
        let checkpoints = Checkpoints::open(Arc::new(disk.clone()), Path::new(DIRECTORY)).unwrap();
        Scene { engine, _background: background, disk, checkpoints }
    }

    fn commit(&self, key: &[u8], change: Change<'_>) {
        let session = self.engine.enter(0);
        let mut latched = session.latch_places(&[(0, KeyHash::of(key))], Access::Write, 0);
        let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
        latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
    }

    fn put(&self, keys: std::ops::Range<usize>) {
        for number in keys {
            let change = Change::Put { value: b"value"[..].into(), expiry: None };
            self.commit(format!("key:{number}").as_bytes(), change);
        }
    }

    /// Takes a checkpoint; its file.
    fn take(&self, mode: CheckpointMode, unix_ms: u64) -> PathBuf {
        self.checkpoints.take(&*self.engine, mode, FAST, unix_ms).unwrap();
        let number = self.checkpoints.current().unwrap().number;
        Path::new(DIRECTORY).join(format!("checkpoint-{number}.tarn"))
    }

    fn bytes(&self, path: &Path) -> Vec<u8> {
        self.disk.contents(path).unwrap()
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        let file = self.disk.open(path).unwrap();
        file.set_len(0).unwrap();
        file.write_all_at(bytes, 0).unwrap();
    }

    /// How many keys a start would load, or why it would not.
    fn load(&self) -> Result<u64, String> {
        let loaded = self.checkpoints.load(empty(1), 1, &|_, _| {});
        loaded.map(|loaded| loaded.unwrap().keys).map_err(|error| {
            assert!(matches!(error, CheckpointError::Damaged { .. }), "{error}");
            error.to_string()
        })
    }

    /// The result of reading the file again.
    fn verify(&self) -> Result<(), String> {
        let (_, outcome) = self.checkpoints.verify(|_| true).unwrap();
        outcome.map_err(|error| error.to_string())
    }

    /// Both a start and reading again refuse the file, and say why.
    fn assert_refused(&self, why: &str) {
        for outcome in [self.load().map(drop), self.verify()] {
            let error = outcome.expect_err(why);
            assert!(error.contains(why), "{error}");
        }
    }
}

/// Puts right the checksum of the header.
fn seal_header(file: &mut [u8]) {
    let crc = crc32c::crc32c(&file[..HEADER_BYTES - 4]);
    file[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// Puts right the checksums of all blocks.
fn seal_blocks(file: &mut [u8]) {
    let mut at = HEADER_BYTES;
    while at < file.len() {
        let length = u64::from_le_bytes(*file[at + 16..].first_chunk().unwrap()) as usize;
        let body = at + BLOCK_HEADER_BYTES;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&file[at..at + 24]), &file[body..body + length]);
        file[at + 24..body].copy_from_slice(&crc.to_le_bytes());
        at = body + length;
    }
}

#[test]
fn a_file_of_another_time_is_not_the_checkpoint() {
    let scene = Scene::new();
    scene.put(0..20);
    let older = scene.bytes(&scene.take(CheckpointMode::Full, 1));
    scene.put(20..60);
    let path = scene.take(CheckpointMode::Full, 2);
    let newer = scene.bytes(&path);
    scene.write(&path, &older);
    scene.assert_refused("MANIFEST is of another file");
    // The next one finds it by itself.
    scene.put(60..70);
    scene.take(CheckpointMode::Incremental, 3);
    assert_eq!(scene.load(), Ok(70));

    // The manifest may be the older one of the two.
    let scene = Scene::new();
    scene.put(0..20);
    let path = scene.take(CheckpointMode::Full, 1);
    scene.write(&path, &newer);
    scene.assert_refused("MANIFEST is of another file");
}

#[test]
fn a_file_of_the_same_cut_is_not_the_checkpoint_if_another_store_or_moment_made_it() {
    let scene = Scene::new();
    scene.put(0..20);
    let earlier = scene.bytes(&scene.take(CheckpointMode::Full, 1));
    let path = scene.take(CheckpointMode::Full, 2);
    scene.write(&path, &earlier);
    scene.assert_refused("MANIFEST is of another file");

    let other = Scene::new();
    other.put(0..10);
    other.put(0..10);
    let fewer = other.bytes(&other.take(CheckpointMode::Full, 2));
    scene.write(&path, &fewer);
    scene.assert_refused("MANIFEST is of another file");
    scene.put(20..21);
    scene.take(CheckpointMode::Incremental, 3);
    assert_eq!(scene.load(), Ok(21));
}

#[test]
fn a_file_of_changes_is_not_the_checkpoint() {
    for (at, value) in [(KIND_AT, 1), (BASE_AT, 7)] {
        let scene = Scene::new();
        scene.put(0..20);
        let path = scene.take(CheckpointMode::Full, 1);
        let mut bytes = scene.bytes(&path);
        bytes[at] = value;
        seal_header(&mut bytes);
        scene.write(&path, &bytes);
        scene.assert_refused("a file of changes");
        scene.put(20..21);
        scene.take(CheckpointMode::Incremental, 2);
        assert_eq!(scene.load(), Ok(21));
    }
}

/// Records of one key, of which the last but one has the number that is forged.
fn histories() -> Vec<(&'static str, Vec<Change<'static>>)> {
    let hash = |field: usize, value: usize| Change::HashPut {
        field: format!("field:{field}").into_bytes().into(),
        value: format!("{value}").into_bytes().into(),
    };
    let set = |member: usize| Change::SetAdd { member: format!("member:{member}").into_bytes().into() };
    let zset = |member: usize| Change::ZSetPut {
        member: format!("member:{member}").into_bytes().into(),
        score: member as f64,
    };
    let push = |_| Change::ListPush { side: Side::Back, element: b"element"[..].into() };
    let put = || Change::Put { value: b"value"[..].into(), expiry: None };
    // Of this many elements a collection is in nodes.
    let many = 5_000;
    vec![
        ("a field", vec![hash(1, 1), hash(2, 1)]),
        ("a member", vec![set(1), set(2)]),
        ("a scored member", vec![zset(1), zset(2)]),
        ("a field in nodes", (0..many).map(|field| hash(field, 1)).collect()),
        ("a member in nodes", (0..many).map(set).collect()),
        ("a scored member in nodes", (0..many).map(zset).collect()),
        // The base.
        ("a list", [1, 2].map(push).into()),
        ("a list in nodes", (0..many).map(push).collect()),
        // The record of the expiry.
        (
            "an expiry",
            vec![put(), Change::Expire(Some(99_999)), Change::Patch { offset: 0, bytes: b"x"[..].into() }],
        ),
    ]
}

#[test]
fn an_entry_with_a_part_newer_than_the_checkpoint_is_refused() {
    const FORGED: u64 = 0x7E57_0000_1234;
    for (what, changes) in histories() {
        // The six bytes of such a number stand nowhere else in the file.
        let scene = Scene::behind(Lsn(0x0102_0304_0500));
        let (records, key) = (changes.len() as u64, b"key");
        changes.into_iter().for_each(|change| scene.commit(key, change));
        let path = scene.take(CheckpointMode::Full, 1);
        assert_eq!(scene.load(), Ok(1), "{what}");
        let cut = scene.checkpoints.current().unwrap().cut;
        // The first record of those that are still needed, and not the newest of the entry.
        let lsns = (cut.0 - records + 1..cut.0).map(|lsn| lsn.to_le_bytes());
        let mut bytes = scene.bytes(&path);
        let place = lsns
            .filter_map(|lsn| bytes[HEADER_BYTES..].windows(6).position(|at| *at == lsn[..6]))
            .next_back();
        let at = HEADER_BYTES + place.unwrap_or_else(|| panic!("{what}: the file has none of its records"));
        bytes[at..at + 6].copy_from_slice(&FORGED.to_le_bytes()[..6]);
        seal_blocks(&mut bytes);
        scene.write(&path, &bytes);
        let error = scene.load().expect_err(what);
        assert!(error.contains("newer than the checkpoint"), "{what}: {error}");
    }
}

#[test]
fn after_a_bulk_load_into_a_small_store_the_checkpoint_has_all_keys() {
    const MANY: usize = 100_000;
    let scene = Scene::new();
    scene.put(0..20);
    scene.take(CheckpointMode::Full, 1);
    scene.put(10..MANY);
    scene.take(CheckpointMode::Incremental, 2);
    assert_eq!(scene.load(), Ok(MANY as u64));
    assert_eq!(scene.disk.list(Path::new(DIRECTORY)).unwrap().len(), 2, "the manifest and the file");
    // The next one is merged again.
    scene.put(MANY - 50..MANY + 50);
    scene.take(CheckpointMode::Incremental, 3);
    assert_eq!(scene.load(), Ok(MANY as u64 + 50));
}

#[test]
fn a_checkpoint_that_could_not_be_removed_goes_with_the_next() {
    let scene = Scene::new();
    scene.put(0..20);
    scene.take(CheckpointMode::Full, 1);
    let files = || scene.disk.list(Path::new(DIRECTORY)).unwrap().len();
    let faults_per_mille = vec![(Fault::NameError, 300)];
    scene.disk.set_options(SimOptions { faults_per_mille, ..SimOptions::default() });
    // Until it is the removal that fails.
    let fails = |unix_ms| {
        scene.checkpoints.take(&*scene.engine, CheckpointMode::Full, FAST, unix_ms).is_ok() && files() > 2
    };
    assert!((2..100).any(fails));
    scene.disk.set_options(SimOptions::default());
    scene.take(CheckpointMode::Full, 100);
    assert_eq!(files(), 2, "the manifest and the file");
}
