//! The manifest that names the current checkpoint: a few lines of text, replaced atomically.
//!
//! ```text
//!   tarn checkpoint 1
//!   file checkpoint-7.tarn
//!   cut 120045
//!   keys 100000
//!   unix_ms 1763760000000
//!   log 00112233445566778899aabbccddeeff      or -, if nothing was logged
//!   crc32c 1a2b3c4d
//! ```

use std::path::Path;

use super::error::{CheckpointError, damaged};
use crate::io::{Disk, DiskResult};
use crate::record::{Lsn, UnixMs};

const MANIFEST: &str = "MANIFEST";
const MANIFEST_NEW: &str = "MANIFEST.new";
const FIRST_LINE: &str = "tarn checkpoint 1";
/// More than any manifest has.
const BYTES_MAX: u64 = 4096;

/// The checkpoint that a start would load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Number of the file.
    pub number: u64,
    /// It holds the store as of here.
    pub cut: Lsn,
    /// Keys in all.
    pub keys: u64,
    /// When its cut was taken.
    pub unix_ms: UnixMs,
    /// The log whose records go on behind the cut; `None` if nothing was logged.
    pub log: Option<u128>,
}

impl Checkpoint {
    /// That of a directory, if it has one; changes nothing and takes no lock.
    pub(crate) fn of(disk: &dyn Disk, directory: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
        Checkpoint::read(disk, directory)
    }

    /// The name of its file.
    pub(crate) fn file_name(&self) -> String {
        file_name(self.number)
    }

    fn text(&self) -> String {
        let Checkpoint { cut, keys, unix_ms, .. } = self;
        let name = self.file_name();
        let log = self.log.map_or("-".to_owned(), |id| format!("{id:032x}"));
        let lines =
            format!("{FIRST_LINE}\nfile {name}\ncut {cut}\nkeys {keys}\nunix_ms {unix_ms}\nlog {log}\n");
        let crc = crc32c::crc32c(lines.as_bytes());
        format!("{lines}crc32c {crc:08x}\n")
    }

    /// Puts this in the place of the manifest. REQUIRES: the file is durable, and so is its name.
    pub(crate) fn publish(&self, disk: &dyn Disk, directory: &Path) -> DiskResult<()> {
        self.prepare(disk, directory)?;
        Checkpoint::publish_prepared(disk, directory)
    }

    /// Writes the next manifest beside the manifest, durably.
    pub(super) fn prepare(&self, disk: &dyn Disk, directory: &Path) -> DiskResult<()> {
        let new = directory.join(MANIFEST_NEW);
        if disk.list(directory)?.iter().any(|name| name == MANIFEST_NEW) {
            disk.remove(&new)?;
        }
        let file = disk.create(&new)?;
        file.write_all_at(self.text().as_bytes(), 0)?;
        file.sync_data()
    }

    /// Puts what was prepared in the place of the manifest. After an error either of them may be there.
    pub(super) fn publish_prepared(disk: &dyn Disk, directory: &Path) -> DiskResult<()> {
        disk.rename(&directory.join(MANIFEST_NEW), &directory.join(MANIFEST))?;
        disk.sync_dir(directory)
    }

    /// The checkpoint of a directory, if it has one.
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Option<Checkpoint>, CheckpointError> {
        let path = directory.join(MANIFEST);
        if !disk.list(directory)?.iter().any(|name| name == MANIFEST) {
            return Ok(None);
        }
        let file = disk.open(&path)?;
        let len = file.len()?;
        if len > BYTES_MAX {
            return Err(damaged(&path, 0, "no manifest is as long"));
        }
        let mut bytes = vec![0; len as usize];
        let read = file.read_full_at(&mut bytes, 0)?;
        bytes.truncate(read);
        match std::str::from_utf8(&bytes).ok().and_then(Checkpoint::parse) {
            Some(checkpoint) => Ok(Some(checkpoint)),
            None if bytes.starts_with(b"tarn checkpoint ") && !bytes.starts_with(FIRST_LINE.as_bytes()) => {
                Err(CheckpointError::TooNew { path, reason: "its first line is not known here".to_owned() })
            }
            None => Err(damaged(&path, 0, "no manifest, or its checksum is wrong")),
        }
    }

    fn parse(text: &str) -> Option<Checkpoint> {
        let lines = text.strip_suffix('\n')?;
        let (lines, crc) = lines.rsplit_once('\n')?;
        let lines = format!("{lines}\n");
        let crc = u32::from_str_radix(crc.strip_prefix("crc32c ")?, 16).ok()?;
        if crc32c::crc32c(lines.as_bytes()) != crc {
            return None;
        }
        let mut lines = lines.lines();
        (lines.next()? == FIRST_LINE).then_some(())?;
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned);
        let number = number_of(&field("file")?)?;
        let cut = Lsn(field("cut")?.parse().ok()?);
        let keys = field("keys")?.parse().ok()?;
        let unix_ms = field("unix_ms")?.parse().ok()?;
        let log = match &*field("log")? {
            "-" => None,
            id => Some(u128::from_str_radix(id, 16).ok()?),
        };
        Some(Checkpoint { number, cut, keys, unix_ms, log })
    }
}

pub(super) fn file_name(number: u64) -> String {
    format!("checkpoint-{number}.tarn")
}

/// The number in the name of a checkpoint's file.
pub(super) fn number_of(name: &str) -> Option<u64> {
    let number = name.strip_prefix("checkpoint-")?.strip_suffix(".tarn")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// Whether a file of this name is the manifest of an attempt that did not come to its end.
pub(super) fn is_unfinished(name: &str) -> bool {
    name == MANIFEST_NEW
}
