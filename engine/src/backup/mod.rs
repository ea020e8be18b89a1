//! Backups: copies a running log into a directory of its own, and restores data directories from such
//! copies.
//!
//! ```text
//!   log, checkpoint ──take──> DIR: backup.unfinished ... files ... backup.manifest     a full one
//!                     take──> DIR2: what the former cannot have, and a list of all     an increment
//!   DIR, DIR2 ──restore──> a data directory, as of the end of DIR2
//! ```
//!
//! `docs/design/0016` says what is consistent about it, `docs/format/backup.md` has the bytes.

mod copy;
mod error;
mod manifest;
mod restore;
mod take;

use std::io;
use std::path::Path;

pub use copy::Progress;
pub use error::BackupError;
pub use restore::{Chain, Restored, Target};
pub use take::{Request, Taken, take};

use crate::io::{Disk, DiskResult};
use crate::log::OpenError;

/// Says that a directory holds a finished backup, and which files it has.
const MANIFEST: &str = "backup.manifest";
/// Stands in a directory until its backup is finished.
const UNFINISHED: &str = "backup.unfinished";
/// Stands in a data directory until all that is restored is there.
const RESTORING: &str = "restore.unfinished";

/// Refuses to work on a directory that holds a backup, or less than was to be restored.
pub fn refuse_copies(disk: &dyn Disk, directory: &Path) -> Result<(), OpenError> {
    let has = |names: &[String], wanted: &str| names.iter().any(|name| name == wanted);
    let names = names_in(disk, directory)?;
    let reason = if has(&names, MANIFEST) {
        "it holds a backup, which is not worked on: restore it with tarn restore"
    } else if has(&names, UNFINISHED) {
        "it holds a backup that was not finished, and nothing else"
    } else if has(&names, RESTORING) {
        "a backup was being restored to it and is not all there: empty it, and restore once more"
    } else {
        return Ok(());
    };
    Err(OpenError::WrongDirectories { path: directory.to_path_buf(), reason: reason.to_owned() })
}

/// Whether a directory with these names in it holds a backup, finished or not.
pub fn is_backup(names: &[String]) -> bool {
    names.iter().any(|name| name == MANIFEST || name == UNFINISHED)
}

/// The names in a directory; none if there is no such directory.
fn names_in(disk: &dyn Disk, directory: &Path) -> DiskResult<Vec<String>> {
    match disk.list(directory) {
        Err(error) if error.source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        answer => answer,
    }
}
