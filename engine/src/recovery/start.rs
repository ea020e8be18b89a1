//! Checks which logs and checkpoints belong together; its errors say what to do where they do not.

use crate::checkpoint::{Checkpoint, Checkpoints};
use crate::io::Disk;
use crate::log::{Log, OpenError, Reader};
use crate::record::Lsn;
use std::path::PathBuf;

/// Where a log would begin that is made now.
pub(super) fn base_of(checkpoints: Option<&Checkpoints>) -> Lsn {
    checkpoints.and_then(Checkpoints::current).map_or(Lsn::ZERO, |checkpoint| checkpoint.cut)
}

/// A checkpoint that was taken with a log is older than the store was, so no new log begins at it unasked.
pub(super) fn refuse_without_its_log(
    disk: &dyn Disk,
    directories: &[PathBuf],
    checkpoints: Option<&Checkpoints>,
) -> Result<(), OpenError> {
    let Some(checkpoints) = checkpoints else { return Ok(()) };
    let had_log = checkpoints.current().is_some_and(|checkpoint| checkpoint.log.is_some());
    if !had_log || Log::is_in(disk, directories)? {
        return Ok(());
    }
    let directories: Vec<_> = directories.iter().map(|path| path.display().to_string()).collect();
    Err(OpenError::Unrelated(format!(
        "the checkpoint in {} was taken with a log, and there is none in {}: restore it (is the device \
         mounted?), or start with --appendonly no to use the checkpoint alone; after a SAVE there, a new log \
         can go on from it",
        checkpoints.directory().display(),
        directories.join(", ")
    )))
}

/// Whether a log goes on from the checkpoint; an error if they do not belong together.
pub(super) fn is_continued(
    reader: &Reader,
    checkpoint: Option<&Checkpoint>,
    checkpoints: &Checkpoints,
) -> Result<bool, OpenError> {
    let directory = checkpoints.directory().display();
    match checkpoint {
        None if reader.base() == Lsn::ZERO => Ok(false),
        None => Err(OpenError::Unrelated(format!(
            "the log goes on from a checkpoint with all up to record {}, and there is none in {directory}: \
             restore it",
            reader.base()
        ))),
        Some(checkpoint) if checkpoint.cut < reader.base() => Err(OpenError::Unrelated(format!(
            "the checkpoint in {directory} has all up to record {}, and the log goes on from one with all up \
             to {}: restore that or a newer one",
            checkpoint.cut,
            reader.base()
        ))),
        Some(checkpoint) if checkpoint.cut < reader.checkpoint_wanted() => {
            Err(OpenError::Unrelated(format!(
                "the checkpoint in {directory} has all up to record {}, and the log was compacted with \
                 one with all up to {}: restore that or a newer one, or move it away to use the log alone",
                checkpoint.cut,
                reader.checkpoint_wanted()
            )))
        }
        Some(checkpoint) if checkpoint.log == Some(reader.log_id()) => Ok(true),
        // A new log, or one whose first start ended before it could say so in the manifest.
        Some(checkpoint) if checkpoint.log.is_none() && reader.base() == checkpoint.cut => Ok(true),
        Some(_) => Err(OpenError::Unrelated(format!(
            "the checkpoint in {directory} was not taken with this log, so one of the two is older: move the \
             log away to use the checkpoint alone, or move the checkpoint away to use the log alone"
        ))),
    }
}
