//! Files of Redis in the data directory: an RDB file is taken over where there is nothing else, and an
//! append-only file is refused there. Nothing is passed over without a word, and no file is touched.
//!
//! ```text
//!   neither checkpoint nor log:  append-only file? refused ── RDB file? ──import──> checkpoint ── loaded
//!   checkpoint or log:           an RDB file newer than the checkpoint is refused; else a line tells of it
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use tarn_engine::Log;
use tarn_engine::checkpoint::{CheckpointError, Checkpoints};
use tarn_engine::io::OsDisk;

use crate::config::{CheckpointFormat, Config};
use crate::persist::log_switch;
use crate::persist::transfer::{self, Imported, Place, Stage};
use crate::serve::error::ServeError;
use crate::shared::Shared;

/// Opens the checkpoints, behind what a Redis has left. With them comes the RDB file that is to be loaded in
/// the place of a checkpoint, if one is.
pub(super) fn open_checkpoints(
    server: &Shared,
    config: &Config,
) -> Result<(Checkpoints, Option<PathBuf>), ServeError> {
    let checkpoints = open(config)?;
    // What a crash left of a log that was being put aside is no log.
    log_switch::tell_retired(&Log::finish_retiring(&OsDisk, &config.log_dirs())?);
    let has_log = Log::is_in(&OsDisk, &config.log_dirs()).map_err(CheckpointError::from)?;
    let rdb = Some(config.rdb_path()).filter(|path| path.try_exists().unwrap_or(true));
    let is_rdb = config.checkpoint_format == CheckpointFormat::Rdb;
    let has_checkpoint = checkpoints.current().is_some();
    if let Some(path) = aof(config) {
        if !has_checkpoint && !has_log {
            return Err(ServeError::Aof { path });
        }
        tracing::warn!("{} is not loaded: this directory has data of Tarn", path.display());
    }
    if has_log && !config.appendonly {
        tracing::warn!(
            "'appendonly no': what the log in {} has is loaded, and nothing is logged from now on; the next \
             checkpoint takes its place",
            shown(&config.log_dirs())
        );
    }
    let Some(path) = rdb else { return Ok((checkpoints, None)) };
    if !has_checkpoint && !has_log && !config.appendonly && is_rdb {
        return Ok((checkpoints, Some(path)));
    }
    if !has_checkpoint && !has_log {
        // The import takes the lock of the directory.
        drop(checkpoints);
        take_over(server, config, &path)?;
        return Ok((open(config)?, None));
    }
    let checkpoint_ms = checkpoints.current().map(|checkpoint| checkpoint.unix_ms);
    if !has_log && checkpoint_ms.is_some() && saved_ms(&path) > checkpoint_ms {
        // A log that was switched on for a while has left the checkpoint.
        return Err(ServeError::NewerRdb { checkpoints: config.checkpoint_dir(), rdb: path });
    }
    tracing::warn!(
        "{path} is not loaded: this directory has data of Tarn; to begin with the file: tarn import --dir \
         NEW-DIRECTORY {path}",
        path = path.display()
    );
    Ok((checkpoints, None))
}

fn open(config: &Config) -> Result<Checkpoints, CheckpointError> {
    Checkpoints::open(Arc::new(OsDisk), &config.checkpoint_dir())
}

fn shown(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// When the file was written, in milliseconds; `None` where nobody knows.
fn saved_ms(path: &Path) -> Option<u64> {
    let age = path.metadata().and_then(|metadata| metadata.modified()).ok()?.duration_since(UNIX_EPOCH);
    age.ok().map(|age| age.as_millis() as u64)
}

/// The append-only file of a Redis: a directory with a manifest, or one file.
fn aof(config: &Config) -> Option<PathBuf> {
    let [directory, file] = config.redis_aof_paths();
    let is_part = |name: &str| name.ends_with(".manifest") || name.contains(".aof");
    let has_parts = match std::fs::read_dir(&directory) {
        Ok(entries) => entries.flatten().any(|entry| entry.file_name().to_str().is_some_and(is_part)),
        // What must not be looked at is there all the same.
        Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    };
    if has_parts { Some(directory) } else { Some(file).filter(|file| file.try_exists().unwrap_or(true)) }
}

/// Makes a checkpoint of the RDB file, which is there wholly or not at all.
fn take_over(server: &Shared, config: &Config, path: &Path) -> Result<(), ServeError> {
    let place = Place {
        dir: config.dir.clone(),
        log_dirs: config.log_dirs(),
        databases: config.databases,
        threads: config.threads(),
    };
    tracing::info!("Taking over {}", path.display());
    let Imported { keys, expired, all, .. } = transfer::import(&place, path, false, &mut |stage| {
        if let Stage::Reading { bytes, bytes_total, .. } = stage {
            server.loading.note(bytes, bytes_total);
        }
    })?;
    tracing::info!(
        "Took over {keys} keys of {} as a checkpoint in {:.3} s, {expired} had expired; the file stays as it \
         is, and is not read again",
        path.display(),
        all.as_secs_f64()
    );
    Ok(())
}
