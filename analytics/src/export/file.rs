//! A file in the export directory, which appears only once it is complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use futures::StreamExt;
use rustix::fs::{CWD, RenameFlags};

use super::writer::{Format, Writer};
use crate::error::{ExportError, QueryError};
use crate::statement::outcome::Outcome;

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 200;
/// How the name of a file begins and ends that is not whole.
const UNFINISHED: (&str, &str) = (".tarn-copy-", ".tmp");

/// A file that is being written. Dropped before [`ExportFile::finish`], it is gone.
pub(crate) struct ExportFile {
    name: String,
    format: Format,
    temporary: PathBuf,
    path: PathBuf,
}

impl ExportFile {
    /// Begins a file of this name for the statement of this number.
    pub(crate) fn create(
        directory: Option<&Path>,
        name: &str,
        number: u64,
    ) -> Result<ExportFile, ExportError> {
        let directory = directory.ok_or(ExportError::NoDirectory)?;
        let is_plain = |letter: char| !letter.is_control() && !matches!(letter, '/' | '\\');
        if name.is_empty()
            || name.len() > NAME_BYTES_MAX
            || name.starts_with('.')
            || name.contains("..")
            || !name.chars().all(is_plain)
        {
            return Err(ExportError::Name(name.to_owned()));
        }
        let format = Format::of_name(name).ok_or_else(|| ExportError::Format(name.to_owned()))?;
        let path = directory.join(name);
        // A name that leads to nothing is taken as well.
        if path.symlink_metadata().is_ok() {
            return Err(ExportError::Exists(name.to_owned()));
        }
        let (begin, end) = UNFINISHED;
        let temporary = directory.join(format!("{begin}{}-{number}{end}", std::process::id()));
        Ok(ExportFile { name: name.to_owned(), format, temporary, path })
    }

    fn failed(&self, source: io::Error) -> QueryError {
        ExportError::Io { name: self.name.clone(), source }.into()
    }

    /// Writes all rows. Returns how many there were.
    pub(crate) async fn write(&mut self, outcome: &mut Outcome) -> Result<usize, QueryError> {
        let opened = OpenOptions::new().write(true).create_new(true).open(&self.temporary);
        let file = opened.map_err(|error| self.failed(error))?;
        // Marks it as being written. If the lock fails, a file that a crash leaves is not removed.
        let _ = file.try_lock();
        let to = io::BufWriter::new(file);
        let mut writer = Writer::new(self.format, &outcome.schema, to).map_err(|error| self.failed(error))?;
        let mut count = 0;
        while let Some(batch) = outcome.rows.next().await {
            let batch = batch?;
            writer.write(&batch).map_err(|error| self.failed(error))?;
            count += batch.num_rows();
        }
        let written = writer.finish().and_then(|to| to.into_inner().map_err(io::Error::from));
        let file = written.map_err(|error| self.failed(error))?;
        // Elsewhere: other queries need not wait for the disk.
        let synced = tokio::task::spawn_blocking(move || file.sync_all()).await;
        synced.map_err(io::Error::other).and_then(|done| done).map_err(|error| self.failed(error))?;
        Ok(count)
    }

    /// Gives it its name.
    pub(crate) fn finish(self) -> Result<(), QueryError> {
        match rustix::fs::renameat_with(CWD, &self.temporary, CWD, &self.path, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST) => return Err(ExportError::Exists(self.name.clone()).into()),
            Err(error) => return Err(self.failed(error.into())),
        }
        let directory = self.path.parent().expect("it was joined to one");
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(|error| {
            let _ = std::fs::remove_file(&self.path);
            self.failed(error)
        })
    }
}

/// Removes what crashes have left of files that were being written, by this server or by another one.
pub(crate) fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_ours = |name: &str| name.starts_with(UNFINISHED.0) && name.ends_with(UNFINISHED.1);
        if !name.to_str().is_some_and(is_ours) || !entry.file_type()?.is_file() {
            continue;
        }
        let path = entry.path();
        let file = OpenOptions::new().write(true).open(&path)?;
        if file.try_lock().is_ok() {
            std::fs::remove_file(&path)?;
            tracing::info!("Removed {}, which a crash had left unfinished", path.display());
        }
    }
    Ok(())
}

impl Drop for ExportFile {
    fn drop(&mut self) {
        // Once it has its name there is nothing to remove.
        let _ = std::fs::remove_file(&self.temporary);
    }
}
