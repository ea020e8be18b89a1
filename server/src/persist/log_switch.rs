//! Switching the log on and off while the server runs (`CONFIG SET appendonly`).
//!
//! ```text
//!   on:   read to its end what is in the directories ── begin behind it and behind the newest change ── gate
//!         closed: from now on changes are logged ── a checkpoint: now the log counts, what it replaces goes
//!   off:  gate closed: from now on changes are not logged ── what was is made durable ── close ── the next
//!         checkpoint, or RDB file, takes the place of what is in the directories, which is put aside
//! ```
//!
//! Until the checkpoint is on disk a start finds what it found before the switch, as the log alone does not
//! have what was in the store when it began. The thread that takes checkpoints does it, and `CONFIG SET` does
//! not wait for it. Under `appendfsync always` replies do that reveal changes made behind `CONFIG SET`: they
//! leave when the log counts, or when `appendonly` or `appendfsync` says otherwise. If the log cannot be
//! switched on, they wait for the next attempt.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tarn_engine::backup;
use tarn_engine::checkpoint::Source;
use tarn_engine::io::{DiskError, OnOneLine, OsDisk};
use tarn_engine::record::Lsn;
use tarn_engine::{Compression, Log, LogError, LogOptions, OpenError, Recovered, SyncMode};
use thiserror::Error;

use crate::config::{AppendFsync, Config, LogCompression};
use crate::shared::Shared;
use crate::store::{OpenLog, Store};

/// Why the log could not be switched on, or was not closed in order.
#[derive(Debug, Error)]
pub(crate) enum SwitchError {
    /// Files in the directories prevent it.
    #[error("the log cannot be switched on: {0}; appendonly stays in vain until it can")]
    Open(#[from] OpenError),
    /// The log is off, but what was written last may not be on disk.
    #[error("the log was switched off, but not closed in order: {0}")]
    Close(#[from] LogError),
}

/// The options of a log.
pub(crate) fn options(config: &Config) -> LogOptions {
    let mut options = LogOptions::new(config.log_dirs());
    options.mode = sync_mode(config.appendfsync);
    options.compression = compression(config.log_compression);
    options.flushes_in_flight = config.log_flushes_in_flight;
    options.backlog_bytes_limit = config.log_backlog_limit_bytes;
    options.file_bytes = config.log_file_bytes as u64;
    options
}

/// The mode of the log for a value of `appendfsync`.
fn sync_mode(appendfsync: AppendFsync) -> SyncMode {
    match appendfsync {
        AppendFsync::Always => SyncMode::Always,
        AppendFsync::EverySec => SyncMode::EverySec,
        AppendFsync::No => SyncMode::No,
    }
}

/// How blocks are written for a value of `log-compression`.
fn compression(log_compression: LogCompression) -> Compression {
    match log_compression {
        LogCompression::No => Compression::No,
        LogCompression::Lz4 => Compression::Lz4,
    }
}

/// Brings `log-compression` into force.
pub(crate) fn set_compression(store: &Store, log_compression: LogCompression) {
    let Some(open) = &*store.log.load() else { return };
    if let Some(log) = open.log.lock().as_ref() {
        log.set_compression(compression(log_compression));
    }
}

/// Brings `appendfsync` into force.
pub(crate) fn set_sync_mode(store: &Store, appendfsync: AppendFsync) {
    let Some(open) = &*store.log.load() else { return };
    if let Some(log) = open.log.lock().as_ref() {
        log.set_mode(sync_mode(appendfsync));
    }
    open.always.store(appendfsync == AppendFsync::Always, Ordering::Relaxed);
}

/// Whether there is a log that was switched on and waits for its checkpoint.
pub(crate) fn is_pending(store: &Store) -> bool {
    store.log.load().as_ref().is_some_and(|open| open.pending.load(Ordering::Relaxed))
}

/// Has a log if `appendonly` says so, and none if not. Waits for the disk.
pub(crate) fn follow_config(server: &Shared, store: &Store) -> Result<(), SwitchError> {
    let config = server.config.snapshot();
    match (config.appendonly, store.log.load_full()) {
        (true, None) => switch_on(server, store, &config),
        (false, Some(open)) => switch_off(store, &open),
        _ => Ok(()),
    }
}

/// Has replies wait for a log that is about to be switched on, if they would wait for it when it is on; or
/// lets go those that did. Waits for nothing.
pub(crate) fn hold_for_log(server: &Shared, store: &Store, config: &Config) {
    let holds = config.appendonly && config.appendfsync == AppendFsync::Always && store.log.load().is_none();
    if !holds {
        store.held_from.store(u64::MAX, Ordering::Release);
        server.wakers.iter().for_each(|waker| waker.notify_one());
    } else if store.held_from.load(Ordering::Acquire) == u64::MAX {
        store.held_from.store(store.engine.newest_unlogged().0, Ordering::Release);
    }
}

/// Lets a log count that was switched on. REQUIRES: a checkpoint was taken since.
pub(crate) fn confirm(store: &Store) -> Result<(), DiskError> {
    let Some(open) = store.log.load_full() else { return Ok(()) };
    // Without the lock, which others wait for: what is removed may be long.
    let replaced = open.log.lock().as_ref().map(Log::replaced);
    replaced.map_or(Ok(()), |replaced| replaced.confirm())?;
    if open.counts() {
        tracing::info!("The log is on: a start finds every change from now on");
    }
    Ok(())
}

/// Puts the log aside that is in the directories, if any is, as what was just saved has all of it and nothing
/// is logged now. Until then a start goes on from the log.
pub(crate) fn retire(config: &Config) {
    match Log::retire(&OsDisk, &config.log_dirs()) {
        Ok(retired) => tell_retired(&retired),
        Err(error) => tracing::error!(
            "The log is off, what was saved has all of it that a start would load, and it cannot be put \
             aside: {error}; a start with appendonly yes would find the log, which is older"
        ),
    }
}

/// Tells where a log is that was put aside.
pub(crate) fn tell_retired(retired: &[PathBuf]) {
    for path in retired {
        tracing::info!(
            "What was saved has all that a start would load of the log, so its files were put aside in {}; \
             nothing reads them, and they may be removed",
            path.display()
        );
    }
}

/// The fate of the end of a log that cannot be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// It is cut off the files.
    Cut,
    /// The files keep it, and what is loaded does not have it.
    LeftOut,
}

/// Logs what a log lost: its torn tail, and damage that a checkpoint makes good.
pub(crate) fn tell_recovered(recovered: &Recovered, tail: Tail) {
    if let Some(torn) = torn_tail(recovered, tail) {
        tracing::warn!("{torn}");
    }
    for damage in covered_damage(recovered) {
        tracing::error!("{damage}");
    }
}

/// A message that says which end of a log was not kept, if any.
pub(crate) fn torn_tail(recovered: &Recovered, tail: Tail) -> Option<String> {
    let place = recovered.place_of_cut()?;
    let cause = match recovered.blocks_cut {
        0 => "The log ended in the middle of a write",
        _ => "A block of the log is missing, and nothing says that it was on disk",
    };
    let end = match tail {
        Tail::Cut => "are cut off",
        Tail::LeftOut => "are left out, and the files keep them",
    };
    let (bytes, last, blocks) = (recovered.bytes_cut, recovered.last, recovered.blocks_cut_in_words());
    Some(format!("{cause}: {bytes} bytes after record {last}{blocks}, {place}, {end}"))
}

/// A message for each damaged place whose records the checkpoint has.
pub(crate) fn covered_damage(recovered: &Recovered) -> impl Iterator<Item = String> {
    recovered.covered.iter().map(|damage| {
        let (path, offset, what) = (OnOneLine(&damage.path), damage.offset, &damage.what);
        format!(
            "Damage in the log was passed over, as the checkpoint has all that was there: {path} at byte \
             {offset}: {what}"
        )
    })
}

fn switch_on(server: &Shared, store: &Store, config: &Config) -> Result<(), SwitchError> {
    let directories: Vec<PathBuf> = config.log_dirs();
    directories.iter().try_for_each(|directory| backup::refuse_copies(&OsDisk, directory))?;
    tracing::info!("Switching the log on, in {} directories", directories.len());
    loop {
        server.config.apply_current(|config| hold_for_log(server, store, config));
        let base = store.checkpoints.current().map_or(Lsn::ZERO, |checkpoint| checkpoint.cut);
        let mut reader = Log::open(Arc::new(OsDisk), LogOptions { base, ..options(config) })?;
        while reader.next_block()?.is_some() {}
        tell_recovered(reader.recovered(), Tail::Cut);
        let (log, _) = reader.into_log_behind(store.engine.newest())?;
        let appender = log.appender();
        let held_from = store.held_from.load(Ordering::Acquire);
        let held_from = Lsn(held_from).min(store.engine.newest_unlogged());
        let always = config.appendfsync == AppendFsync::Always;
        let open = Arc::new(OpenLog::new(log, always, held_from, &server.wakers));
        // Before anything is logged: no reply that waits for the log leaves in between. With the settings of
        // now.
        server.config.apply_current(|config| {
            store.log.store(Some(open.clone()));
            set_sync_mode(store, config.appendfsync);
            set_compression(store, config.log_compression);
        });
        if store.engine.start_logging(&appender) {
            return Ok(());
        }
        // More changes were made meanwhile than the log left room for; dropped, it is closed.
        store.log.store(None);
        // Without the lock: its threads are awaited.
        let log = open.log.lock().take();
        drop(log);
    }
}

fn switch_off(store: &Store, open: &OpenLog) -> Result<(), SwitchError> {
    store.engine.stop_logging();
    // Replies that wait for the disk go on waiting until it is there; if the disk fails, closing says so.
    let _ = open.appender.sync_up_to(open.appender.last());
    store.log.store(None);
    tracing::info!("The log is off: changes from now on are lost when the server ends, but for checkpoints");
    let log = open.log.lock().take();
    log.map_or(Ok(()), Log::close)?;
    Ok(())
}
