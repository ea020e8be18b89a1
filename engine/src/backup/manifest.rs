//! The manifest of a backup: a few lines of text, replaced atomically. `docs/format/backup.md` has the
//! format.
//!
//! ```text
//!   tarn backup 2
//!   log 00112233445566778899aabbccddeeff
//!   since 0
//!   end 120045 block 5120
//!   base 0
//!   directories 2
//!   unix_ms 1763760000000
//!   checkpoint 7 cut 100000 keys 5000 unix_ms 1763750000000 bytes 812345 crc32c 1a2b3c4d
//!   beside tables.sql bytes 412 crc32c 1a2b3c4d
//!   file 0 12 id 0123456789abcdef bytes 65536 compacted 0 blocks 100 140 lsns 2000 2900 crc32c 1a2b3c4d
//!   file 1 9 id 89abcdef01234567 bytes 65112 compacted 1200 blocks 90 139 lsns 1800 2890 crc32c -
//!   crc32c 1a2b3c4d
//! ```

use std::path::Path;

use super::error::BackupError;
use super::{MANIFEST, RESTORING, UNFINISHED, names_in};
use crate::checkpoint::Checkpoint;
use crate::io::Disk;
use crate::log::file_name;
use crate::record::{Lsn, UnixMs};

const FIRST_LINE: &str = "tarn backup 2";
/// Of the version before, which had nothing beside the log.
const FORMER_FIRST_LINE: &str = "tarn backup 1";
/// More than the manifest of any log has: a line for each of a million files.
const BYTES_MAX: u64 = 256 << 20;
/// The name of the checkpoint.
pub(super) const CHECKPOINT: &str = "checkpoint.tarn";

/// The contents of a manifest: the description of a finished backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) log_id: u128,
    /// It has what a backup that ended here, or further on, cannot have; 0 if it has all.
    pub(super) since: Lsn,
    /// The newest record.
    pub(super) end: Lsn,
    /// The last block.
    pub(super) sequence: u64,
    /// The log begins behind this record.
    pub(super) base: Lsn,
    /// How many directories the log has.
    pub(super) directories: u32,
    /// When it was begun.
    pub(super) unix_ms: UnixMs,
    /// The checkpoint that a start builds on.
    pub(super) checkpoint: Option<SavedCheckpoint>,
    /// The other files of the data directory.
    pub(super) beside: Vec<SavedBeside>,
    /// All files of the log, by directory and number.
    pub(super) files: Vec<SavedFile>,
}

/// A file of the data directory that has the same name in a backup, and is in each one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedBeside {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

/// The checkpoint of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedCheckpoint {
    pub(super) checkpoint: Checkpoint,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

/// A file of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedFile {
    pub(super) stream: u32,
    pub(super) number: u64,
    pub(super) file_id: u64,
    pub(super) bytes: u64,
    /// As its header says; 0 if it was never compacted.
    pub(super) timestamp: Lsn,
    /// The first and the last block; 0 for none.
    pub(super) blocks: (u64, u64),
    /// The first and the last record that it has, or had before it was compacted; 0 for none.
    pub(super) lsns: (Lsn, Lsn),
    /// Of all its bytes; `None` if an earlier backup has them.
    pub(super) crc: Option<u32>,
}

impl SavedFile {
    /// Its name in a backup.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.stream, file_name(self.number))
    }

    /// Whether it is this very file, be it in another backup.
    pub(super) fn is_same(&self, other: &SavedFile) -> bool {
        let identity =
            |file: &SavedFile| (file.stream, file.number, file.file_id, file.bytes, file.timestamp);
        identity(self) == identity(other)
    }

    fn line(&self) -> String {
        let SavedFile { stream, number, file_id, bytes, timestamp, blocks, lsns, crc } = self;
        let crc = crc.map_or("-".to_owned(), |crc| format!("{crc:08x}"));
        format!(
            "file {stream} {number} id {file_id:016x} bytes {bytes} compacted {timestamp} \
             blocks {} {} lsns {} {} crc32c {crc}\n",
            blocks.0, blocks.1, lsns.0, lsns.1
        )
    }

    fn parse(words: &mut Words<'_>) -> Option<SavedFile> {
        Some(SavedFile {
            stream: words.number("file")?,
            number: words.bare()?,
            file_id: u64::from_str_radix(words.after("id")?, 16).ok()?,
            bytes: words.number("bytes")?,
            timestamp: Lsn(words.number("compacted")?),
            blocks: (words.number("blocks")?, words.bare()?),
            lsns: (Lsn(words.number("lsns")?), Lsn(words.bare()?)),
            crc: match words.after("crc32c")? {
                "-" => None,
                crc => Some(u32::from_str_radix(crc, 16).ok()?),
            },
        })
    }
}

impl SavedCheckpoint {
    fn line(&self) -> String {
        let SavedCheckpoint { checkpoint: Checkpoint { number, cut, keys, unix_ms, .. }, bytes, crc } = self;
        format!("{number} cut {cut} keys {keys} unix_ms {unix_ms} bytes {bytes} crc32c {crc:08x}")
    }

    fn parse(words: &mut Words<'_>, log_id: u128) -> Option<Option<SavedCheckpoint>> {
        let number = match words.after("checkpoint")? {
            "-" => return Some(None),
            number => number.parse().ok()?,
        };
        let (cut, keys) = (Lsn(words.number("cut")?), words.number("keys")?);
        let checkpoint =
            Checkpoint { number, cut, keys, unix_ms: words.number("unix_ms")?, log: Some(log_id) };
        let bytes = words.number("bytes")?;
        let crc = u32::from_str_radix(words.after("crc32c")?, 16).ok()?;
        Some(Some(SavedCheckpoint { checkpoint, bytes, crc }))
    }
}

impl SavedBeside {
    fn line(&self) -> String {
        let SavedBeside { name, bytes, crc } = self;
        format!("beside {name} bytes {bytes} crc32c {crc:08x}\n")
    }

    fn parse(words: &mut Words<'_>) -> Option<SavedBeside> {
        let name = words.after("beside").filter(|name| may_stand_beside(name))?.to_owned();
        let bytes = words.number("bytes")?;
        let crc = u32::from_str_radix(words.after("crc32c")?, 16).ok()?;
        Some(SavedBeside { name, bytes, crc })
    }
}

/// Whether a file of this name leads nowhere else, and is none of those that a backup or a restore makes.
pub(super) fn may_stand_beside(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_own = [MANIFEST, UNFINISHED, RESTORING, CHECKPOINT].contains(&name) || name.ends_with(".tarnlog");
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain) && !is_own
}

impl Manifest {
    pub(super) fn text(&self) -> String {
        let Manifest { log_id, since, end, sequence, base, directories, unix_ms, .. } = self;
        let Manifest { checkpoint, beside, files, .. } = self;
        let checkpoint = checkpoint.as_ref().map_or("-".to_owned(), SavedCheckpoint::line);
        let mut text = format!(
            "{FIRST_LINE}\nlog {log_id:032x}\nsince {since}\nend {end} block {sequence}\nbase {base}\n\
             directories {directories}\nunix_ms {unix_ms}\ncheckpoint {checkpoint}\n"
        );
        beside.iter().for_each(|file| text += &file.line());
        files.iter().for_each(|file| text += &file.line());
        let crc = crc32c::crc32c(text.as_bytes());
        text + &format!("crc32c {crc:08x}\n")
    }

    fn parse(text: &str) -> Option<Manifest> {
        let (lines, crc) = text.strip_suffix('\n')?.rsplit_once('\n')?;
        let lines = &text[..=lines.len()];
        let crc = u32::from_str_radix(crc.strip_prefix("crc32c ")?, 16).ok()?;
        if crc32c::crc32c(lines.as_bytes()) != crc {
            return None;
        }
        let mut lines = lines.lines();
        is_known(lines.next()?).then_some(())?;
        let mut words = || Some(Words(lines.next()?.split(' ')));
        let log_id = u128::from_str_radix(words()?.after("log")?, 16).ok()?;
        let since = Lsn(words()?.number("since")?);
        let mut end = words()?;
        let mut manifest = Manifest {
            log_id,
            since,
            end: Lsn(end.number("end")?),
            sequence: end.number("block")?,
            base: Lsn(words()?.number("base")?),
            directories: words()?.number("directories")?,
            unix_ms: words()?.number("unix_ms")?,
            checkpoint: SavedCheckpoint::parse(&mut words()?, log_id)?,
            beside: Vec::new(),
            files: Vec::new(),
        };
        while let Some(mut words) = words() {
            match SavedBeside::parse(&mut words.clone()) {
                Some(file) => manifest.beside.push(file),
                None => manifest.files.push(SavedFile::parse(&mut words)?),
            }
        }
        let places = |pair: &[SavedFile]| (pair[0].stream, pair[0].number) < (pair[1].stream, pair[1].number);
        let streams = manifest.files.iter().all(|file| file.stream < manifest.directories);
        (manifest.files.windows(2).all(places) && streams && manifest.directories > 0).then_some(manifest)
    }

    /// The manifest of a directory.
    pub(super) fn read(disk: &dyn Disk, directory: &Path) -> Result<Manifest, BackupError> {
        let names = names_in(disk, directory)?;
        let path = directory.join(MANIFEST);
        if !names.iter().any(|name| name == MANIFEST) {
            let is_begun = names.iter().any(|name| name == UNFINISHED);
            let what = if is_begun { "finished backup: it was given up or is being made" } else { "backup" };
            return Err(BackupError::NoBackup { path: directory.to_path_buf(), what });
        }
        let file = disk.open_to_scan(&path)?;
        let damaged = |what: &str| BackupError::Damaged { path: path.clone(), what: what.to_owned() };
        let len = file.len()?;
        if len > BYTES_MAX {
            return Err(damaged("no manifest is as long"));
        }
        let bytes = super::copy::whole(&*file, len as usize)?;
        let text = std::str::from_utf8(&bytes).unwrap_or_default();
        let first = text.lines().next().unwrap_or_default();
        match Manifest::parse(text) {
            Some(manifest) => Ok(manifest),
            None if first.starts_with("tarn backup ") && !is_known(first) => Err(BackupError::TooNew(path)),
            None => Err(damaged("it is no manifest, or its checksum is wrong")),
        }
    }
}

fn is_known(first_line: &str) -> bool {
    [FIRST_LINE, FORMER_FIRST_LINE].contains(&first_line)
}

/// The words of a line: names, and what follows them.
#[derive(Clone)]
struct Words<'t>(std::str::Split<'t, char>);

impl<'t> Words<'t> {
    fn after(&mut self, name: &str) -> Option<&'t str> {
        (self.0.next()? == name).then(|| self.0.next())?
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Option<T> {
        self.after(name)?.parse().ok()
    }

    fn bare<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn manifest() -> Manifest {
        let file = |stream, number, crc| SavedFile {
            stream,
            number,
            file_id: 0x0123_4567_89AB_CDEF,
            bytes: 65_536,
            timestamp: Lsn(0),
            blocks: (100, 140),
            lsns: (Lsn(2000), Lsn(2900)),
            crc,
        };
        let checkpoint = Checkpoint { number: 7, cut: Lsn(100), keys: 5, unix_ms: 17, log: Some(0xABCD) };
        Manifest {
            log_id: 0xABCD,
            since: Lsn(9),
            end: Lsn(2900),
            sequence: 140,
            base: Lsn(100),
            directories: 2,
            unix_ms: 1_763_760_000_000,
            checkpoint: Some(SavedCheckpoint { checkpoint, bytes: 99, crc: 0x1A }),
            beside: vec![SavedBeside { name: "tables.sql".to_owned(), bytes: 412, crc: 0x1A2B }],
            files: vec![file(0, 12, Some(0x1A2B)), file(1, 9, None)],
        }
    }

    #[test]
    fn what_is_written_is_read_and_no_byte_of_it_may_change() {
        for checkpoint in [manifest().checkpoint, None] {
            let manifest = Manifest { checkpoint, ..manifest() };
            let text = manifest.text();
            assert_eq!(Manifest::parse(&text), Some(manifest), "{text}");
            for at in 0..text.len() {
                let mut spoilt = text.clone().into_bytes();
                spoilt[at] ^= 1;
                let spoilt = String::from_utf8(spoilt).unwrap();
                assert_eq!(Manifest::parse(&spoilt), None, "byte {at}");
                assert_eq!(Manifest::parse(&text[..at]), None, "cut at {at}");
            }
        }
    }

    #[test]
    fn the_version_before_is_read_and_says_nothing_of_what_stands_beside() {
        let manifest = Manifest { beside: Vec::new(), ..manifest() };
        let text = manifest.text().replace(FIRST_LINE, FORMER_FIRST_LINE);
        let lines = &text[..=text.trim_end().rfind('\n').unwrap()];
        let text = format!("{lines}crc32c {:08x}\n", crc32c::crc32c(lines.as_bytes()));
        assert_eq!(Manifest::parse(&text), Some(manifest));
    }

    #[test]
    fn a_name_that_leads_elsewhere_or_is_taken_is_refused() {
        let parsed = |name: &str| {
            let beside = vec![SavedBeside { name: name.to_owned(), bytes: 0, crc: 0 }];
            Manifest::parse(&Manifest { beside, ..manifest() }.text())
        };
        assert!(parsed("search.json").is_some());
        for name in ["", ".", "..", "../tables.sql", "/etc/passwd", "a b", "a/b", "restore.unfinished"] {
            assert_eq!(parsed(name), None, "{name}");
        }
        for name in ["backup.manifest", "backup.unfinished", "checkpoint.tarn", "0-0000000012.tarnlog"] {
            assert_eq!(parsed(name), None, "{name}");
        }
    }

    #[test]
    fn a_file_that_stands_twice_or_in_no_directory_is_refused() {
        for change in [|file: &mut SavedFile| file.stream = 0, |file: &mut SavedFile| file.stream = 2] {
            let mut manifest = manifest();
            change(&mut manifest.files[1]);
            manifest.files[1].number = 12;
            assert_eq!(Manifest::parse(&manifest.text()), None);
        }
    }
}
