//! Switching the log on and off while the server runs (`CONFIG SET appendonly`).
//!
//! ```text
//!   on:   read to its end what is in the directories ── begin behind it and behind the newest change ── gate
//!         closed: from now on changes are logged ── a checkpoint: now the log counts, what it replaces goes
//!   off:  gate closed: from now on changes are not logged ── what was is made durable ── close
//! ```
//!
//! Until the checkpoint is on disk a start finds what it found before the switch, as the log alone does not
//! have what was in the store when it began. No client waits: the thread that takes checkpoints does it.

use crate::apply;
use crate::config::{AppendFsync, Config};
use crate::shared::{OpenLog, Shared, Store};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tarn_engine::backup;
use tarn_engine::checkpoint::Source;
use tarn_engine::io::{DiskError, OsDisk};
use tarn_engine::record::Lsn;
use tarn_engine::{Log, LogError, LogOptions, OpenError};
use thiserror::Error;

/// Why the log could not be switched on, or was not closed in order.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// What is in the directories is in the way.
    #[error("the log cannot be switched on: {0}; appendonly stays in vain until it can")]
    Open(#[from] OpenError),
    /// The log is off, but what was written last may not be on disk.
    #[error("the log was switched off, but not closed in order: {0}")]
    Close(#[from] LogError),
}

/// The options of a log.
pub fn options(config: &Config) -> LogOptions {
    let mut options = LogOptions::new(config.log_dirs());
    options.mode = apply::sync_mode(config.appendfsync);
    options.flushes_in_flight = config.log_flushes_in_flight;
    options.backlog_bytes_limit = config.log_backlog_limit_bytes;
    options.file_bytes = config.log_file_bytes as u64;
    options
}

/// Whether there is a log that was switched on and waits for its checkpoint.
pub fn is_pending(store: &Store) -> bool {
    store.log.load().as_ref().is_some_and(|open| open.pending.load(Ordering::Relaxed))
}

/// Has a log if `appendonly` says so, and none if not. Waits for the disk.
pub fn follow_config(server: &Shared, store: &Store) -> Result<(), SwitchError> {
    let config = server.config.snapshot();
    match (config.appendonly, store.log.load_full()) {
        (true, None) => switch_on(server, store, &config),
        (false, Some(open)) => switch_off(store, &open),
        _ => Ok(()),
    }
}

/// Lets a log count that was switched on. REQUIRES: a checkpoint was taken since.
pub fn confirm(store: &Store) -> Result<(), DiskError> {
    let Some(open) = store.log.load_full() else { return Ok(()) };
    // Without the lock, which others wait for: what is removed may be long.
    let replaced = open.log.lock().as_ref().map(Log::replaced);
    replaced.map_or(Ok(()), |replaced| replaced.confirm())?;
    if open.pending.swap(false, Ordering::Relaxed) {
        tracing::info!("The log is on: a start finds every change from now on");
    }
    Ok(())
}

fn switch_on(server: &Shared, store: &Store, config: &Config) -> Result<(), SwitchError> {
    let directories: Vec<PathBuf> = config.log_dirs();
    directories.iter().try_for_each(|directory| backup::refuse_copies(&OsDisk, directory))?;
    tracing::info!("Switching the log on, in {} directories", directories.len());
    loop {
        let base = store.checkpoints.current().map_or(Lsn::ZERO, |checkpoint| checkpoint.cut);
        let mut reader = Log::open(Arc::new(OsDisk), LogOptions { base, ..options(config) })?;
        while reader.next_block()?.is_some() {}
        let (log, _) = reader.into_log_behind(store.engine.newest())?;
        let appender = log.appender();
        let open = OpenLog::new(log, config.appendfsync == AppendFsync::Always, &server.wakers);
        if store.engine.start_logging(&appender) {
            // With the settings of now.
            server.config.apply_current(|config| {
                store.log.store(Some(Arc::new(open)));
                apply::set_sync_mode(store, config.appendfsync);
            });
            return Ok(());
        }
        // More changes were made meanwhile than the log left room for; dropped, it is closed.
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
