//! What a server would load becomes an RDB file.
//!
//! ```text
//!   checkpoint, log ──> tables ──view──> tarn_rdb::Writer ──> dump.rdb.tmp ──sync, rename──> dump.rdb
//! ```

use super::{Place, Stage, TransferError, disk, file_failed};
use crate::commands::connection::REDIS_VERSION;
use crate::process::Heap;
use crate::rdb::{rdb_kind, value_len, write_value};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tarn_engine::checkpoint::Loaded;
use tarn_engine::engine::Engine;
use tarn_engine::io::{Clock, SystemClock};
use tarn_engine::recovery::{self, Progress};
use tarn_engine::session::Access;
use tarn_engine::{Entry, ViewOptions};
use tarn_rdb::Writer;

/// How often it is told how far reading has come.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// What was exported.
#[derive(Clone, Copy, Debug)]
pub struct Exported {
    /// Keys in the file.
    pub keys: u64,
    /// Its length.
    pub bytes: u64,
    /// How long reading the data took.
    pub read: Duration,
    /// How long it took in all.
    pub all: Duration,
}

/// Writes what a server would load from a data directory to the RDB file `path`, in the place of one that is
/// there. Without `appendonly` that is the checkpoint alone.
pub fn export(
    place: &Place,
    appendonly: bool,
    path: &Path,
    report: &mut dyn FnMut(Stage),
) -> Result<Exported, TransferError> {
    place.check()?;
    let disk = disk();
    let holds_log = appendonly && place.holds_log(&disk)?;
    let nothing = || TransferError::Empty { path: place.dir.clone() };
    if !holds_log && !place.checkpoint_dir().exists() {
        return Err(nothing());
    }
    let clock = Arc::new(SystemClock::new());
    let began = clock.monotonic();
    // Locked to the end, so that nobody takes the data for newer than it is.
    let checkpoints = place.open_checkpoints(&disk)?;
    if !holds_log && checkpoints.current().is_none() {
        return Err(nothing());
    }
    // Before the data is read, which may take long: a file that cannot be made is told at once.
    let mut file = NewFile::create(path)?;
    let log_dirs = if appendonly { place.log_dirs() } else { Vec::new() };
    let loaded = reading(report, |progress| {
        recovery::read(disk.clone(), log_dirs, &checkpoints, place.databases, place.threads, progress)
    })?;
    let read = clock.monotonic() - began;
    let keys = write(loaded, &clock, &mut file, report)?;
    let bytes = file.publish()?;
    Ok(Exported { keys, bytes, read, all: clock.monotonic() - began })
}

/// Reads the data, and tells how far it has come.
fn reading<E: Send>(
    report: &mut dyn FnMut(Stage),
    read: impl FnOnce(&Progress) -> Result<Loaded, E> + Send,
) -> Result<Loaded, E> {
    let progress = Progress::default();
    let waiting = std::thread::current();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let loaded = read(&progress);
            waiting.unpark();
            loaded
        });
        while !reading.is_finished() {
            let bytes = progress.bytes_read.load(Ordering::Relaxed);
            report(Stage::Reading { keys: 0, bytes, bytes_total: progress.bytes.load(Ordering::Relaxed) });
            std::thread::park_timeout(REPORT_EVERY);
        }
        reading.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Writes all keys; how many. Expired ones that nobody has deleted are among them: who loads the file deletes
/// them.
fn write(
    loaded: Loaded,
    clock: &Arc<SystemClock>,
    file: &mut NewFile,
    report: &mut dyn FnMut(Stage),
) -> Result<u64, TransferError> {
    let keys_total = loaded.keys;
    let databases = loaded.tables.len();
    let (engine, _background) = Engine::loaded(loaded, 1, clock.clone());
    // The counts that stand before the keys of a database are to be right.
    engine.set_active_expire(false);
    let counts: Vec<(u64, u64)> = {
        let session = engine.enter(0);
        let latched = session.latch(&[], Access::Read, clock.unix_ms());
        let counts = |db| (latched.keys(db) as u64, latched.expiring(db) as u64);
        (0..databases).map(|db| counts(db as u8)).collect()
    };
    let failed = file_failed("write", &file.unfinished);
    let mut view = engine.open_view(ViewOptions::once("export"))?;
    let written = (|| {
        let mut writer = Writer::new(&mut file.file)?;
        writer.about(REDIS_VERSION, clock.unix_ms() / 1000, Heap::now().allocated)?;
        let (mut keys, mut selected) = (0, None);
        while let Some(db) = view.next_db() {
            let mut outcome = Ok(());
            let walked = view.step(&mut |entry: &Entry| {
                if outcome.is_err() {
                    return;
                }
                if selected.replace(db) != Some(db) {
                    let (keys, expiring) = counts[usize::from(db)];
                    outcome = writer.begin_database(u64::from(db), keys, expiring);
                }
                keys += 1;
                outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| put(&mut writer, entry));
            });
            outcome?;
            if let Err(cancelled) = walked {
                return Ok(Err(cancelled));
            }
            report(Stage::Writing { keys, keys_total });
        }
        writer.finish()?;
        Ok(Ok(keys))
    })();
    Ok(written.map_err(failed)??)
}

fn put<W: io::Write>(writer: &mut Writer<W>, entry: &Entry) -> io::Result<()> {
    let (kind, value) = (rdb_kind(entry.kind()), entry.value());
    write_value(value, writer.begin_value(entry.key(), entry.expiry(), kind, value_len(value))?)
}

/// A file that has its name when it is whole and durable; until then it ends in `.tmp`, and is removed if it
/// does not come to that.
struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl NewFile {
    fn create(path: &Path) -> Result<NewFile, TransferError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let unfinished = PathBuf::from(name);
        let file = File::create(&unfinished).map_err(file_failed("create", &unfinished))?;
        Ok(NewFile { path: path.to_path_buf(), unfinished, file })
    }

    /// Gives it its name; how long it is.
    fn publish(self) -> Result<u64, TransferError> {
        let synced = self.file.sync_all().and_then(|()| self.file.metadata());
        let bytes = synced.map_err(file_failed("write", &self.unfinished))?.len();
        std::fs::rename(&self.unfinished, &self.path).map_err(file_failed("replace", &self.path))?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        disk().sync_dir(folder.unwrap_or(Path::new(".")))?;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Without effect once it has its name; a part of a file that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}
