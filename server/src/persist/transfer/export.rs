//! Writes what a server would load to an RDB file.
//!
//! ```text
//!   checkpoint, log ──> tables ──view──> tarn_rdb::Writer ──> dump.rdb.tmp ──sync, rename──> dump.rdb
//! ```

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tarn_engine::Engine;
use tarn_engine::ViewOptions;
use tarn_engine::checkpoint::Loaded;
use tarn_engine::io::{Clock, SystemClock};
use tarn_engine::recovery::{self, Progress};
use tarn_rdb::VERSION_WITH_FUNCTIONS;

use super::{Place, Stage, TransferError, disk};
use crate::persist::log_switch::{self, Tail};
use crate::persist::rdb_file::{self, Counts, Form, NewFile};

/// How often it is told how far reading has come.
const REPORT_EVERY: Duration = Duration::from_millis(100);

/// The outcome of an export.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Keys in the file.
    pub keys: u64,
    /// Those that are JSON documents, which a Redis without the module RedisJSON does not load.
    pub documents: u64,
    /// Its length.
    pub bytes: u64,
    /// How long reading the data took.
    pub read: Duration,
    /// How long it took in all.
    pub all: Duration,
    /// Messages about parts of the log that the file lacks, or that the checkpoint replaced, and about a
    /// version that is not the one that was asked for.
    pub warnings: Vec<String>,
}

/// Writes what a server would load from a data directory to the RDB file `path` of this version, one that is
/// written, in the place of one that is there; with functions the version is at least 10, with times of
/// fields 12. Without `appendonly` that is the checkpoint alone.
pub fn export(
    place: &Place,
    appendonly: bool,
    version: u16,
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
    let (warn, warnings) = mpsc::channel();
    let loaded = reading(report, warn, |progress| {
        recovery::read(disk.clone(), log_dirs, &checkpoints, place.databases, place.threads, progress)
    })?;
    let read = clock.monotonic() - began;
    let functions = place.functions()?.unwrap_or_default();
    let functions: Vec<&[u8]> = functions.iter().map(Vec::as_slice).collect();
    // Compressed, as Redis does unless it is told not to.
    let form = Form { functions: &functions, compresses: true, version, unix_ms: clock.unix_ms() };
    let Counts { keys, documents, version: written } = write(loaded, form, &clock, &mut file, report)?;
    let bytes = file.publish()?;
    let all = clock.monotonic() - began;
    let warnings = warnings.try_iter().chain(newer(version, written)).collect();
    Ok(Exported { keys, documents, bytes, read, all, warnings })
}

/// The message of a file whose contents need a newer version than the one that was asked for.
fn newer(asked: u16, written: u16) -> Option<String> {
    let reason = match written {
        _ if written == asked => return None,
        VERSION_WITH_FUNCTIONS => "there are functions: Redis 7.0 and later loads it",
        _ => {
            "fields of hashes have times: Redis 7.4 and later loads it. HPERSIST takes times away, and \
             Valkey 9 loads a file of version 80"
        }
    };
    Some(format!("the file has version {written}, not {asked}, as {reason}"))
}

/// Reads the data, and reports progress. Sends a message for each part of the log that is not read.
fn reading<E: Send>(
    report: &mut dyn FnMut(Stage),
    warn: mpsc::Sender<String>,
    read: impl FnOnce(&Progress) -> Result<Loaded, E> + Send,
) -> Result<Loaded, E> {
    let progress = Progress::default();
    progress.found.get_or_init(|| {
        Box::new(move |recovered| {
            let torn = log_switch::torn_tail(recovered, Tail::LeftOut);
            // Nobody listens after a failed export.
            torn.into_iter()
                .chain(log_switch::covered_damage(recovered))
                .for_each(|one| drop(warn.send(one)));
        })
    });
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

/// Writes all keys; how many.
fn write(
    loaded: Loaded,
    form: Form<'_>,
    clock: &Arc<SystemClock>,
    file: &mut NewFile,
    report: &mut dyn FnMut(Stage),
) -> Result<Counts, TransferError> {
    let keys_total = loaded.keys;
    let (engine, _background) = Engine::loaded(loaded, 1, clock.clone());
    // The counts that stand before the keys of a database are to be right.
    engine.expiry().set_active(false);
    rdb_file::write(&engine, ViewOptions::once("export"), form, file, &mut |_| {}, &mut |keys, _| {
        report(Stage::Writing { keys, keys_total });
        Ok(())
    })
}
