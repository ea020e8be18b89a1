//! Verifies that a closed file is still as it was written, as the device has it.

use super::blocks::Blocks;
use crate::io::{DiskError, Verified};
use crate::log::closed::ClosedFile;
use crate::log::condensed::Table;
use crate::log::error::{CompactionError, Damage, OpenError};
use crate::log::file::FileHeader;
use crate::log::format::FILE_HEADER_BYTES;
use crate::log::write::appender::Appender;
use crate::record::Lsn;

/// Damage of a file, and up to which record what was there may have gone.
pub type FoundDamage = (Damage, Lsn);

impl Appender {
    /// Reads a closed file past the operating system's cache and checks all that can be checked; `pace` is
    /// told how many bytes were read and says whether to go on. What is damaged, in the order of the file;
    /// `None` if it was given up, or the file has no name any more.
    pub fn verify(
        &self,
        file: &ClosedFile,
        mut pace: impl FnMut(u64) -> bool,
    ) -> Result<Option<Vec<FoundDamage>>, DiskError> {
        let disk = &**self.disk();
        let handle = match Verified::open(disk, file.path()) {
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            handle => handle?,
        };
        let last = self.end_of(file);
        let mut found = Vec::new();
        match FileHeader::read(file.path(), &*handle) {
            // A compacted file has taken its place.
            Ok(header) if header.file_id != file.header.file_id => return Ok(None),
            Ok(_) => {}
            Err(error) => {
                let what = match error {
                    OpenError::Damaged(damage) => damage.what,
                    error => error.to_string(),
                };
                found.push((Damage::new(file.path().to_path_buf(), 0, what), last));
            }
        }
        if !pace(FILE_HEADER_BYTES as u64) {
            return Ok(None);
        }
        let mut blocks = Blocks::new(&*handle, file).sized(&self.pipeline.sizes);
        loop {
            let before = blocks.offset;
            let error = match blocks.next() {
                Ok(Some((header, mut body))) => match Table::of(&header, &mut body) {
                    Ok(_) => None,
                    Err(error) => Some(CompactionError::Damaged(Damage::new(
                        file.path().to_path_buf(),
                        before,
                        error.to_string(),
                    ))),
                },
                Ok(None) => break,
                Err(error) => {
                    found.push(blocks.pass_any(error, last));
                    None
                }
            };
            if let Some(CompactionError::Damaged(damage)) = error {
                found.push((damage, last));
            }
            if !pace(blocks.offset - before) {
                return Ok(None);
            }
        }
        if let Err(CompactionError::Damaged(damage)) = blocks.assert_complete() {
            found.push((damage, last));
        }
        Ok(Some(found))
    }
}
