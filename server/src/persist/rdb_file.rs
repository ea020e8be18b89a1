//! A whole store as an RDB file, through a view: what `checkpoint-format rdb` and `tarn export` write.
//!
//! ```text
//!   view ──part, copied──> tarn_rdb::Writer ──> dump.rdb.tmp ──sync, rename──> dump.rdb
//! ```

use std::fs::File;
use std::io::{self, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tarn_engine::Engine;
use tarn_engine::checkpoint::{CheckpointError, Pace, Pacer, Progress, Source, Taken};
use tarn_engine::io::{Disk, DiskError, OsDisk};
use tarn_engine::record::{Kind, UnixMs};
use tarn_engine::view::{Cancelled, View, ViewError};
use tarn_engine::{Entry, ViewOptions};
use tarn_rdb::{VERSION_WITH_FIELD_TIMES, VERSION_WITH_FUNCTIONS, Writer};

use crate::observe::process::Heap;
use crate::persist::rdb::{first_time, rdb_kind, value_len, write_elements};
use crate::version::REDIS_VERSION;

/// The contents of a file beside the keys, and its form.
#[derive(Clone, Copy)]
pub(crate) struct Form<'f> {
    /// The sources of libraries of functions.
    pub functions: &'f [&'f [u8]],
    /// Whether strings are compressed.
    pub compresses: bool,
    /// The version of the format, one that is written; with functions at least 10, with times of fields 12.
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
    let mut cut = Duration::ZERO;
    let mut opened = |view: &View| {
        cut = elapsed();
        progress.begin((0..view.databases()).map(|db| view.keys(db as u8) as u64).sum());
    };
    let mut pacer = Pacer::new(pace, progress, engine);
    let mut after_part = |keys, bytes| {
        progress.keys.store(keys, Ordering::Relaxed);
        progress.bytes.store(bytes, Ordering::Relaxed);
        pacer.rest_if_due()
    };
    let options = ViewOptions::once("RDB file");
    let Counts { keys, .. } = write(engine, options, form, &mut file, &mut opened, &mut after_part)?;
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
    /// The version of the format.
    pub version: u16,
}

/// Writes libraries of functions and all keys of a view of the store; how many of these. `opened` gets the
/// view before it is read. `after_part` is told how many keys and bytes there are so far, while nothing is
/// latched. Expired keys that nobody has deleted are among them: who loads the file deletes them. Fields
/// whose time is over are not, nor are hashes that have no others.
pub(crate) fn write<E: From<ViewError> + From<Cancelled> + From<DiskError>>(
    engine: &Engine,
    options: ViewOptions,
    mut form: Form<'_>,
    file: &mut NewFile,
    opened: &mut dyn FnMut(&View),
    after_part: &mut dyn FnMut(u64, u64) -> Result<(), E>,
) -> Result<Counts, E> {
    if !form.functions.is_empty() {
        form.version = form.version.max(VERSION_WITH_FUNCTIONS);
    }
    loop {
        let view = engine.open_view(options)?;
        opened(&view);
        if (0..view.databases()).any(|db| view.timed(db as u8) > 0) {
            form.version = form.version.max(VERSION_WITH_FIELD_TIMES);
        }
        if let Some(counts) = write_view(view, form, file, after_part)? {
            return Ok(counts);
        }
        // The last hash with times has lost them since the view was opened, or the first one got them just
        // then.
        form.version = form.version.max(VERSION_WITH_FIELD_TIMES);
        file.begin_again()?;
    }
}

/// As `write`, of a view, in this version; `None` if fields have times, which this version has not.
fn write_view<E: From<Cancelled> + From<DiskError>>(
    mut view: View,
    form: Form<'_>,
    file: &mut NewFile,
    after_part: &mut dyn FnMut(u64, u64) -> Result<(), E>,
) -> Result<Option<Counts>, E> {
    let unfinished = file.unfinished.clone();
    let failed = |error| DiskError::new("write", &unfinished, error);
    let bytes = AtomicU64::new(0);
    let counted = Counted { file: &mut file.file, bytes: &bytes };
    let Form { functions, compresses, version, unix_ms } = form;
    let mut writer = Writer::of_version(counted, version).map_err(failed)?.compressing(compresses);
    writer.about(REDIS_VERSION, unix_ms / 1000, Heap::now().allocated).map_err(failed)?;
    functions.iter().try_for_each(|source| writer.function(source)).map_err(failed)?;
    let (mut counts, mut selected) = (Counts { version, ..Counts::default() }, None);
    let mut part: Vec<Entry> = Vec::new();
    while let Some(db) = view.next_db() {
        // Written behind the part: a disk may be slow, and a view cannot be cancelled within one.
        view.step(&mut |entry: &Entry| part.push(entry.clone()))?;
        if !part.is_empty() && selected.replace(db) != Some(db) {
            let (keys, expiring) = (view.keys(db) as u64, view.expiring(db) as u64);
            writer.begin_database(u64::from(db), keys, expiring).map_err(failed)?;
        }
        for entry in part.drain(..) {
            match put(&mut writer, &entry, unix_ms).map_err(failed)? {
                Put::Written => counts.keys += 1,
                Put::AllOver => continue,
                Put::HasTimes => return Ok(None),
            }
            counts.documents += u64::from(entry.kind() == Kind::Json);
        }
        after_part(counts.keys, bytes.load(Ordering::Relaxed))?;
    }
    writer.finish().map_err(failed)?;
    Ok(Some(counts))
}

/// The outcome of writing a key.
enum Put {
    Written,
    /// Nothing was written: the times of all its fields are over.
    AllOver,
    /// Nothing was written: its fields have times, and those in the file have none.
    HasTimes,
}

fn put<W: io::Write>(writer: &mut Writer<W>, entry: &Entry, now: UnixMs) -> io::Result<Put> {
    let (key, expiry, value) = (entry.key(), entry.expiry(), entry.value().at(now));
    let len = value_len(value);
    let out = match first_time(value) {
        _ if len == 0 => return Ok(Put::AllOver),
        Some(_) if !writer.has_field_times() => return Ok(Put::HasTimes),
        Some(first) => writer.begin_timed_hash(key, expiry, len, first)?,
        None => writer.begin_value(key, expiry, rdb_kind(entry.kind()), len)?,
    };
    write_elements(value, out)?;
    Ok(Put::Written)
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

    /// Takes back all that was written.
    fn begin_again(&mut self) -> Result<(), DiskError> {
        let emptied = self.file.rewind().and_then(|()| self.file.set_len(0));
        emptied.map_err(|error| DiskError::new("write", &self.unfinished, error))
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;

    use tarn_engine::io::ManualClock;
    use tarn_engine::record::{Batch, Change, Write};
    use tarn_engine::session::Access;
    use tarn_engine::{Group, KeyHash};
    use tarn_rdb::{Reader, Unsupported};

    use super::*;

    const NOW: UnixMs = 1_000;

    fn change(engine: &Engine, key: &'static str, change: Change<'static>) {
        let session = engine.enter(0);
        let key = key.as_bytes();
        let mut latched = session.latch_places(&[(0, KeyHash::of(key))], Access::Write, NOW);
        let batch = Batch::from_iter([Write::Key { db: 0, key: key.into(), change }]);
        latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
    }

    fn put(engine: &Engine, key: &'static str, field: &'static str, time: Option<UnixMs>) {
        let field = field.as_bytes();
        change(engine, key, Change::HashPut { field: field.into(), value: b"value"[..].into() });
        if time.is_some() {
            change(engine, key, Change::HashExpire { field: field.into(), at: time });
        }
    }

    /// Writes a file that is asked for in version 9; how many keys it has, and its bytes.
    fn written(engine: &Engine, opened: &mut dyn FnMut(&View)) -> (u64, Vec<u8>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump.rdb");
        let mut file = NewFile::create(&path).unwrap();
        let form = Form { functions: &[], compresses: false, version: 9, unix_ms: NOW };
        let options = ViewOptions::once("test");
        let counts = write::<CheckpointError>(engine, options, form, &mut file, opened, &mut |_, _| Ok(()));
        file.publish().unwrap();
        (counts.unwrap().keys, std::fs::read(&path).unwrap())
    }

    /// How many fields each key of a file has.
    fn fields_of(file: &[u8]) -> Vec<u64> {
        let mut reader = Reader::new(file, Unsupported::Refuse).unwrap();
        let mut fields = Vec::new();
        while reader.next_key().unwrap().is_some() {
            fields.push(reader.read_value(&mut ()).unwrap());
        }
        reader.expect_end().unwrap();
        fields
    }

    #[test]
    fn fields_whose_time_is_over_and_hashes_without_others_are_left_out() {
        let (engine, _background) = Engine::unlogged(1, 1, Arc::new(ManualClock::new(NOW)));
        engine.expiry().set_active(false);
        put(&engine, "plain", "a", None);
        assert!(written(&engine, &mut |_| {}).1.starts_with(b"REDIS0009"));
        put(&engine, "over", "a", Some(NOW - 1));
        put(&engine, "part", "a", Some(NOW - 1));
        put(&engine, "part", "b", Some(NOW + 1));
        put(&engine, "part", "c", None);
        let (keys, file) = written(&engine, &mut |_| {});
        assert!(keys == 2 && file.starts_with(b"REDIS0012"));
        let mut fields = fields_of(&file);
        fields.sort_unstable();
        assert_eq!(fields, [1, 2]);
    }

    #[test]
    fn a_file_is_begun_again_where_a_time_turns_up() {
        let (engine, _background) = Engine::unlogged(1, 1, Arc::new(ManualClock::new(NOW)));
        put(&engine, "h", "a", Some(NOW + 1_000));
        let mut views = 0;
        let (keys, file) = written(&engine, &mut |_| {
            views += 1;
            // The view has the time still.
            change(&engine, "h", Change::HashExpire { field: b"a"[..].into(), at: None });
        });
        assert!((views, keys) == (2, 1) && file.starts_with(b"REDIS0012"));
        assert_eq!(fields_of(&file), [1]);
    }
}
