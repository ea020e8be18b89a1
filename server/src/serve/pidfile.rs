//! The file that says which process serves.

use std::path::{Path, PathBuf};

/// A file with the id of this process; dropping it removes it.
#[derive(Debug)]
pub(super) struct PidFile {
    path: PathBuf,
}

impl PidFile {
    /// Writes the file. As with Redis, a server that cannot write it serves nevertheless.
    pub(super) fn write(path: PathBuf) -> Option<PidFile> {
        match std::fs::write(&path, content()) {
            Ok(()) => Some(PidFile { path }),
            Err(error) => {
                tracing::warn!("cannot write the process id to {}: {error}", path.display());
                None
            }
        }
    }
}

impl PidFile {
    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Removes the file.
pub(super) fn remove(path: &Path) {
    // Another server may have written its own id since.
    if std::fs::read_to_string(path).is_ok_and(|text| text == content()) {
        let _ = std::fs::remove_file(path);
    }
}

impl Drop for PidFile {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn content() -> String {
    format!("{}\n", std::process::id())
}
