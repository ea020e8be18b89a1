//! An RDB file becomes a checkpoint.
//!
//! ```text
//!   Reader ──key, value──> Change ──some at a time──> store in memory ──Checkpoints::take──> checkpoint
//! ```

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointMode, Checkpoints, Pace, TakeOptions, Taken};
use tarn_engine::io::{Clock, Disk, SystemClock};
use tarn_engine::record::{Batch, Change, UnixMs, Write};
use tarn_engine::session::Access;
use tarn_engine::{Group, KeyHash, KeyRef};
use tarn_rdb::{Head, ReadError, Reader, Skipped, Unsupported};

use super::{Place, Stage, TransferError, disk, file_failed};
use crate::persist::libraries;
use crate::persist::rdb::{ChangeBuilder, NotJson};

/// Keys that are put into the store together.
const KEYS_AT_ONCE: usize = 32;
/// Keys between two reports of how far it has come.
const KEYS_REPORTED: u64 = 4096;
/// How often it is told how far writing has come.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Threads that write the checkpoint, beside the one that reads the store.
const WRITERS: usize = 1;

/// The outcome of an import.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Keys that the checkpoint has.
    pub keys: u64,
    /// Keys that were left out because they had expired.
    pub expired: u64,
    /// Libraries of functions.
    pub libraries: u64,
    /// The values that were left out.
    pub skipped: Skipped,
    /// The length of the checkpoint.
    pub checkpoint_bytes: u64,
    /// How long reading took.
    pub read: Duration,
    /// How long it took in all.
    pub all: Duration,
}

/// Makes a checkpoint of the RDB file `path` in a data directory that has neither a checkpoint nor a log.
/// Values of modules are left out and counted if `skips_unsupported`; else they are refused.
pub fn import(
    place: &Place,
    path: &Path,
    skips_unsupported: bool,
    report: &mut dyn FnMut(Stage),
) -> Result<Imported, TransferError> {
    place.check()?;
    let disk = disk();
    // Before the file is read, which may take long; but a directory for checkpoints is only made behind it.
    let opened = if place.checkpoint_dir().exists() { Some(open_empty(place, &disk)?) } else { None };
    refuse_log(place, &disk)?;
    if place.functions()?.is_some() {
        return Err(TransferError::NotEmpty { path: place.dir.clone(), what: "functions" });
    }
    let file = File::open(path).map_err(file_failed("open", path))?;
    let bytes_total = file.metadata().map_err(file_failed("read", path))?.len();
    let unsupported = if skips_unsupported { Unsupported::Skip } else { Unsupported::Refuse };
    let clock = Arc::new(SystemClock::new());
    let began = clock.monotonic();
    let (engine, _background) = Engine::unlogged(place.databases, 1, clock.clone());
    // A checkpoint may hold keys that expire while it is written: who loads it deletes them.
    engine.expiry().set_active(false);
    let mut import = Import {
        path,
        bytes_total,
        databases: place.databases,
        loader: Loader::new(&engine, clock.unix_ms()),
        expired: 0,
    };
    let (skipped, functions) = import.read(file, unsupported, report)?;
    libraries::read_all(&functions)
        .map_err(|error| TransferError::Functions { path: path.to_path_buf(), why: error.to_string() })?;
    let expired = import.expired;
    let read = clock.monotonic() - began;
    let checkpoints = match opened {
        Some(checkpoints) => checkpoints,
        None => open_empty(place, &disk)?,
    };
    refuse_log(place, &disk)?;
    if !functions.is_empty() {
        libraries::write_file(&place.functions_file(), functions.iter().map(Vec::as_slice))?;
    }
    let taken = take(&engine, &checkpoints, &*clock, report).inspect_err(|_| {
        if !functions.is_empty() {
            // The next attempt finds the directory as it was; where that fails, it says what is in its way.
            let _ = std::fs::remove_file(place.functions_file());
        }
    })?;
    Ok(Imported {
        keys: taken.keys,
        expired,
        libraries: functions.len() as u64,
        skipped,
        checkpoint_bytes: taken.bytes,
        read,
        all: clock.monotonic() - began,
    })
}

/// The contents of an RDB file that a server loads.
#[derive(Clone, Debug)]
pub struct FromRdb {
    /// Keys that were put into the store.
    pub keys: u64,
    /// Keys that were left out because they had expired.
    pub expired: u64,
    /// The sources of the libraries of functions.
    pub functions: Vec<Vec<u8>>,
}

/// Reads the RDB file `path` into a store that is empty. What is not supported is refused.
pub fn load(
    engine: &Engine,
    path: &Path,
    databases: usize,
    now: UnixMs,
    report: &mut dyn FnMut(Stage),
) -> Result<FromRdb, TransferError> {
    let file = File::open(path).map_err(file_failed("open", path))?;
    let bytes_total = file.metadata().map_err(file_failed("read", path))?.len();
    let mut import = Import { path, bytes_total, databases, loader: Loader::new(engine, now), expired: 0 };
    let (_, functions) = import.read(file, Unsupported::Refuse, report)?;
    Ok(FromRdb { keys: import.loader.keys, expired: import.expired, functions })
}

/// Opens the checkpoints of a data directory that has none.
fn open_empty(place: &Place, disk: &Arc<dyn Disk>) -> Result<Checkpoints, TransferError> {
    let checkpoints = place.open_checkpoints(disk)?;
    match checkpoints.current() {
        None => Ok(checkpoints),
        Some(_) => Err(TransferError::NotEmpty { path: place.dir.clone(), what: "a checkpoint" }),
    }
}

fn refuse_log(place: &Place, disk: &Arc<dyn Disk>) -> Result<(), TransferError> {
    match place.holds_log(disk)? {
        false => Ok(()),
        true => Err(TransferError::NotEmpty { path: place.dir.clone(), what: "a log" }),
    }
}

/// Takes the checkpoint, and tells how far it has come.
fn take(
    engine: &Engine,
    checkpoints: &Checkpoints,
    clock: &dyn Clock,
    report: &mut dyn FnMut(Stage),
) -> Result<Taken, TransferError> {
    let options = TakeOptions { pace: Pace::Fast, writers: WRITERS };
    let waiting = std::thread::current();
    std::thread::scope(|scope| {
        let taking = scope.spawn(|| {
            let taken = checkpoints.take(engine, CheckpointMode::Full, options, clock.unix_ms());
            waiting.unpark();
            taken
        });
        while !taking.is_finished() {
            let progress = checkpoints.progress();
            let (keys, total) = (&progress.keys, &progress.keys_total);
            let (keys, keys_total) = (keys.load(Ordering::Relaxed), total.load(Ordering::Relaxed));
            report(Stage::Writing { keys, keys_total });
            std::thread::park_timeout(REPORT_EVERY);
        }
        let taken = taking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(taken?)
    })
}

/// A file that is being read into a store.
struct Import<'i> {
    path: &'i Path,
    bytes_total: u64,
    databases: usize,
    loader: Loader<'i>,
    expired: u64,
}

impl Import<'_> {
    /// Reads the whole file. Returns what was left out, and the sources of the libraries of functions.
    fn read(
        &mut self,
        file: File,
        unsupported: Unsupported,
        report: &mut dyn FnMut(Stage),
    ) -> Result<(Skipped, Vec<Vec<u8>>), TransferError> {
        let path = self.path.to_path_buf();
        let unreadable = |error: ReadError| TransferError::Unreadable { path: path.clone(), error };
        let mut reader = Reader::new(file, unsupported).map_err(&unreadable)?;
        while let Some(head) = reader.next_key().map_err(&unreadable)? {
            self.read_key(head, &mut reader)?;
            if self.loader.keys.is_multiple_of(KEYS_REPORTED) {
                let (keys, bytes) = (self.loader.keys, reader.offset());
                report(Stage::Reading { keys, bytes, bytes_total: self.bytes_total });
            }
        }
        reader.expect_end().map_err(&unreadable)?;
        self.loader.flush()?.map_or(Ok(()), |key| Err(self.duplicate(&key, reader.offset())))?;
        Ok((reader.skipped(), reader.functions().to_vec()))
    }

    fn read_key(&mut self, head: Head, reader: &mut Reader<File>) -> Result<(), TransferError> {
        let Head { database, expiry_ms, .. } = head;
        let db = u8::try_from(database).ok().filter(|db| usize::from(*db) < self.databases);
        let Some(db) = db else {
            return Err(TransferError::TooFewDatabases {
                path: self.path.to_path_buf(),
                offset: reader.offset(),
                database,
                databases: self.databases,
            });
        };
        let mut value = ChangeBuilder::default();
        let read = reader.read_value(&mut value);
        read.map_err(|error| TransferError::Unreadable { path: self.path.to_path_buf(), error })?;
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= self.loader.now) {
            self.expired += 1;
            return Ok(());
        }
        let change = value.finish(expiry_ms).map_err(|NotJson| TransferError::NotJson {
            path: self.path.to_path_buf(),
            offset: reader.offset(),
            key: reader.key().escape_ascii().to_string(),
        })?;
        let Some(change) = change else { return Ok(()) };
        match self.loader.put(db, reader.key(), change)? {
            None => Ok(()),
            Some(key) => Err(self.duplicate(&key, reader.offset())),
        }
    }

    fn duplicate(&self, key: &[u8], offset: u64) -> TransferError {
        let key = key.escape_ascii().to_string();
        TransferError::Duplicate { path: self.path.to_path_buf(), offset, key }
    }
}

/// Puts keys into a store, some at a time.
struct Loader<'e> {
    engine: &'e Engine,
    /// The time of the import. Keys that have expired by then are not put into the store.
    now: UnixMs,
    keys: u64,
    /// The keys to put next, and their database.
    batch: Batch<'static>,
    places: Vec<(u8, KeyHash)>,
    group: Group,
}

impl<'e> Loader<'e> {
    fn new(engine: &'e Engine, now: UnixMs) -> Loader<'e> {
        let (batch, places) = (Batch::new(), Vec::with_capacity(KEYS_AT_ONCE));
        Loader { engine, now, keys: 0, batch, places, group: Group::default() }
    }

    /// Puts a key into the store, now or a little later. Returns the name of a key that was there before.
    fn put(&mut self, db: u8, key: &[u8], change: Change<'static>) -> Result<Option<Vec<u8>>, TransferError> {
        let place = (db, KeyHash::of(key));
        // Within a batch keys are not compared, so this may be the same.
        if self.batch.len() == KEYS_AT_ONCE || self.places.contains(&place) {
            let twice = self.flush()?;
            if twice.is_some() {
                return Ok(twice);
            }
        }
        self.keys += 1;
        self.places.push(place);
        self.batch.push(Write::Key { db, key: key.to_vec().into(), change });
        Ok(None)
    }

    /// Puts what has gathered into the store. Returns the name of a key that was there before.
    fn flush(&mut self) -> Result<Option<Vec<u8>>, TransferError> {
        if self.batch.is_empty() {
            return Ok(None);
        }
        let session = self.engine.enter(0);
        let placed = self.batch.iter().zip(&self.places);
        let keys: Vec<KeyRef<'_>> = placed
            .filter_map(|(write, (db, hash))| match write {
                Write::Key { key, .. } => Some(KeyRef { db: *db, hash: *hash, key }),
                _ => None,
            })
            .collect();
        let mut latched = session.latch(&keys, Access::Write, self.now);
        if let Some(twice) = keys.iter().find(|key| latched.find(**key).is_some()) {
            return Ok(Some(twice.key.to_vec()));
        }
        latched.commit(&self.batch, &mut self.group)?;
        latched.release();
        self.batch.clear();
        self.places.clear();
        Ok(None)
    }
}
