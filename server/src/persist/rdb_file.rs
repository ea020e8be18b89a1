//! A whole store as an RDB file, through a view: what `checkpoint-format rdb` and `tarn export` write.
//!
//! ```text
//!   view ──part, copied──> tarn_rdb::Writer ──> dump.rdb.tmp ──sync, rename──> dump.rdb
//! ```

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointError, Pace, Pacer, Progress, Source, Taken};
use tarn_engine::io::{Disk, DiskError, OsDisk};
use tarn_engine::record::{Kind, UnixMs};
use tarn_engine::view::{Cancelled, View};
use tarn_engine::{Entry, ViewOptions};
use tarn_rdb::{VERSION_WITH_FUNCTIONS, Writer};

use crate::observe::process::Heap;
use crate::persist::rdb::{rdb_kind, value_len, write_value};
use crate::version::REDIS_VERSION;

/// The contents of a file beside the keys, and its form.
#[derive(Clone, Copy)]
pub(crate) struct Form<'f> {
    /// The sources of libraries of functions.
    pub functions: &'f [&'f [u8]],
    /// Whether strings are compressed.
    pub compresses: bool,
    /// The version of the format, 9 to 11; with functions at least 10.
    pub version: u16,
    /// When it is written.
    pub unix_ms: UnixMs,
}

/// Writes the store as of now to `path`, in the place of what is there. On an error that is as it was.
pub(crate) fn save(
    engine: &Engine,
    form: Form<'_>,
    path: &Path,
    pace: Pace,
    progress: &Progress,
) -> Result<Taken, CheckpointError> {
    let clock = Source::clock(engine);
    let began = clock.monotonic();
    let elapsed = || clock.monotonic().saturating_sub(began);
    let mut file = NewFile::create(path)?;
    let view = engine.open_view(ViewOptions::once("RDB file"))?;
    let cut = elapsed();
    progress.begin((0..view.databases()).map(|db| view.keys(db as u8) as u64).sum());
    let mut pacer = Pacer::new(pace, progress, engine);
    let Counts { keys, .. } = write(view, form, &mut file, &mut |keys, bytes| {
        progress.keys.store(keys, Ordering::Relaxed);
        progress.bytes.store(bytes, Ordering::Relaxed);
        pacer.rest_if_due()
    })?;
    let read = elapsed();
    let bytes = file.publish()?;
    Ok(Taken { keys, bytes, cut, read, all: elapsed(), child_bytes: None })
}

/// The numbers of what was written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Keys.
    pub keys: u64,
    /// Those that are JSON documents, which a Redis without the module RedisJSON does not load.
    pub documents: u64,
}

/// Writes libraries of functions and all keys of a view; how many of these. `after_part` is told how many
/// keys and bytes there are so far, while nothing is latched. Expired keys that nobody has deleted are among
/// them: who loads the file deletes them.
pub(crate) fn write<E: From<Cancelled> + From<DiskError>>(
    mut view: View,
    form: Form<'_>,
    file: &mut NewFile,
    after_part: &mut dyn FnMut(u64, u64) -> Result<(), E>,
) -> Result<Counts, E> {
    let unfinished = file.unfinished.clone();
    let failed = |error| DiskError::new("write", &unfinished, error);
    let bytes = AtomicU64::new(0);
    let counted = Counted { file: &mut file.file, bytes: &bytes };
    let Form { functions, compresses, version, unix_ms } = form;
    let version = if functions.is_empty() { version } else { version.max(VERSION_WITH_FUNCTIONS) };
    let mut writer = Writer::of_version(counted, version).map_err(failed)?.compressing(compresses);
    writer.about(REDIS_VERSION, unix_ms / 1000, Heap::now().allocated).map_err(failed)?;
    functions.iter().try_for_each(|source| writer.function(source)).map_err(failed)?;
    let (mut counts, mut selected) = (Counts::default(), None);
    let mut part: Vec<Entry> = Vec::new();
    while let Some(db) = view.next_db() {
        // Written behind the part: a disk may be slow, and a view cannot be cancelled within one.
        view.step(&mut |entry: &Entry| part.push(entry.clone()))?;
        if !part.is_empty() && selected.replace(db) != Some(db) {
            let (keys, expiring) = (view.keys(db) as u64, view.expiring(db) as u64);
            writer.begin_database(u64::from(db), keys, expiring).map_err(failed)?;
        }
        for entry in part.drain(..) {
            put(&mut writer, &entry).map_err(failed)?;
            counts.keys += 1;
            counts.documents += u64::from(entry.kind() == Kind::Json);
        }
        after_part(counts.keys, bytes.load(Ordering::Relaxed))?;
    }
    writer.finish().map_err(failed)?;
    Ok(counts)
}

fn put<W: io::Write>(writer: &mut Writer<W>, entry: &Entry) -> io::Result<()> {
    let (kind, value) = (rdb_kind(entry.kind()), entry.value());
    write_value(value, writer.begin_value(entry.key(), entry.expiry(), kind, value_len(value))?)
}

/// A file, and how many bytes have gone to it; atomic, because the writer has it meanwhile.
struct Counted<'f> {
    file: &'f mut File,
    bytes: &'f AtomicU64,
}

impl io::Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.bytes.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// A file that has its name when it is whole and durable; until then it ends in `.tmp`, and is removed if it
/// does not come to that.
pub(crate) struct NewFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
}

impl NewFile {
    /// Creates it. Starts again if an unfinished one is there.
    pub(crate) fn create(path: &Path) -> Result<NewFile, DiskError> {
        let mut name = path.as_os_str().to_owned();
        name.push(".tmp");
        let unfinished = PathBuf::from(name);
        let file = File::create(&unfinished).map_err(|error| DiskError::new("create", &unfinished, error))?;
        Ok(NewFile { path: path.to_path_buf(), unfinished, file })
    }

    /// Writes to its end.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), DiskError> {
        let written = io::Write::write_all(&mut self.file, bytes);
        written.map_err(|error| DiskError::new("write", &self.unfinished, error))
    }

    /// Gives it its name; how long it is.
    pub(crate) fn publish(self) -> Result<u64, DiskError> {
        let synced = self.file.sync_all().and_then(|()| self.file.metadata());
        let bytes = synced.map_err(|error| DiskError::new("write", &self.unfinished, error))?.len();
        OsDisk.rename(&self.unfinished, &self.path)?;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        OsDisk.sync_dir(folder.unwrap_or(Path::new(".")))?;
        Ok(bytes)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Without effect once it has its name; a part of a file that cannot be removed harms nobody.
        let _ = std::fs::remove_file(&self.unfinished);
    }
}
