//! `DEBUG RELOAD`: a thread writes all keys to an RDB file and reads them again, as a worker does not wait
//! for the disk.
//!
//! ```text
//!   DEBUG RELOAD ──> tarn-reload: write debug-reload.rdb, read it to its checksum
//!   the request looks again ── has nothing changed meanwhile? ──> flush, and put all keys, as one group
//! ```
//!
//! Nothing changes before all of the file is known to be right.

use std::fmt::Display;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use tarn_engine::Engine;
use tarn_engine::checkpoint::{Pace, Progress};
use tarn_engine::io::Clock;
use tarn_engine::record::{Lsn, UnixMs, Write};
use tarn_rdb::{Head, Reader, Unsupported, VERSION_WRITTEN_MAX};

use crate::error::CommandError;
use crate::net::handle::ClientHandle;
use crate::persist::rdb::{ChangeBuilder, NotJson};
use crate::persist::rdb_file::{self, Form};
use crate::shared::Shared;

/// The file in the data directory. It is no dump of the server's: a start does not look at it.
const FILE: &str = "debug-reload.rdb";

/// The writes that put the keys of a file, or why there are none.
type Outcome = Result<Vec<Write<'static>>, String>;

/// A reload that was begun.
#[derive(Debug)]
pub(crate) struct Reload {
    /// The newest change when it was begun.
    pub newest: Lsn,
    /// The times that it was begun.
    pub attempts: u32,
    outcome: Arc<OnceLock<Outcome>>,
}

/// The turn of the one that runs.
struct Turn(Arc<AtomicBool>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// The work of the thread, and all that it needs.
struct Task {
    /// Whose keys are written first; `None`: none are.
    engine: Option<Arc<Engine>>,
    /// The file that is written.
    own: PathBuf,
    /// The file of the server, which is read if none is written.
    dump: PathBuf,
    databases: usize,
    /// Bytes of memory of all writes that are made of what is read, at most.
    bytes_max: u64,
    clock: Arc<dyn Clock>,
}

impl Reload {
    /// Begins a reload: writes the keys to a file, if `saves`, and reads that or the file of the server.
    /// Waits for nothing; the client is woken when it is done.
    pub(crate) fn begin(
        server: &Shared,
        client: Arc<ClientHandle>,
        saves: bool,
        newest: Lsn,
        attempts: u32,
    ) -> Result<Reload, CommandError> {
        if server.reloading.swap(true, Ordering::Acquire) {
            return Err(CommandError::text("ERR another DEBUG RELOAD runs"));
        }
        let turn = Turn(server.reloading.clone());
        let config = server.config.snapshot();
        let task = Task {
            engine: if saves { server.shared_engine() } else { None },
            own: config.dir.join(FILE),
            dump: config.rdb_path(),
            databases: server.databases,
            bytes_max: server.live.query_buffer_limit_bytes(),
            clock: server.clock.clone(),
        };
        if saves && task.own == task.dump {
            return Err(CommandError::text(
                "ERR DEBUG RELOAD would overwrite the file that dbfilename names",
            ));
        }
        let outcome = Arc::new(OnceLock::new());
        let shared = outcome.clone();
        let work = move || {
            let done = task.run();
            drop(turn);
            let is_first = shared.set(done).is_ok();
            debug_assert!(is_first, "a file is read once");
            client.wake();
        };
        let started = std::thread::Builder::new().name("tarn-reload".to_owned()).spawn(work);
        started.map_err(|error| CommandError::owned(format!("ERR cannot start a thread: {error}")))?;
        Ok(Reload { newest, attempts, outcome })
    }

    /// The outcome, once there is one.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }
}

impl Task {
    fn run(&self) -> Outcome {
        let now = self.clock.unix_ms();
        if let Some(engine) = &self.engine {
            // In the version that loses least: the messages of producers that streams remember.
            let form = Form { functions: &[], compresses: false, version: VERSION_WRITTEN_MAX, unix_ms: now };
            let saved = rdb_file::save(engine, form, &self.own, Pace::Fast, &Progress::default());
            saved.map_err(|error| error.to_string())?;
        }
        let path = if self.engine.is_none() && self.dump.exists() { &self.dump } else { &self.own };
        read(path, self.databases, self.bytes_max, now)
    }
}

/// Reads the keys of a file, without those that have expired.
fn read(path: &Path, databases: usize, bytes_max: u64, now: UnixMs) -> Outcome {
    let failed = |error: &dyn Display| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let mut reader = Reader::new(file, Unsupported::Refuse).map_err(|error| failed(&error))?;
    let (mut writes, mut bytes) = (Vec::new(), 0);
    while let Some(Head { database, expiry_ms, .. }) = reader.next_key().map_err(|error| failed(&error))? {
        let db = u8::try_from(database).ok().filter(|db| usize::from(*db) < databases);
        let db = db.ok_or_else(|| failed(&format_args!("tells of database {database}")))?;
        let mut value = ChangeBuilder::default();
        reader.read_value(&mut value).map_err(|error| failed(&error))?;
        if expiry_ms.is_some_and(|expiry_ms| expiry_ms <= now) {
            continue;
        }
        let change = value.finish(expiry_ms).map_err(|NotJson| failed(&"a document is no JSON"))?;
        let Some(change) = change else { continue };
        let write = Write::Key { db, key: reader.key().to_vec().into(), change };
        bytes += (size_of::<Write<'static>>() + write.owned_bytes()) as u64;
        if bytes > bytes_max {
            return Err(failed(&"holds more than client-query-buffer-limit says"));
        }
        writes.push(write);
    }
    reader.expect_end().map_err(|error| failed(&error))?;
    Ok(writes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use tarn_engine::record::Change;
    use tarn_rdb::{Kind, Writer};

    /// A file of a string in each of these databases, with this expiry.
    fn file(keys: &[(u64, Option<u64>)]) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).unwrap();
        for (database, expiry_ms) in keys {
            writer.begin_database(*database, 1, 0).unwrap();
            let mut out = writer.begin_value(b"key", *expiry_ms, Kind::String, 1).unwrap();
            out.element(b"value").unwrap();
            out.finish();
        }
        writer.finish().unwrap()
    }

    #[test]
    fn a_file_is_read_as_a_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.rdb");
        let read_of = |bytes: &[u8], bytes_max: u64| {
            std::fs::write(&path, bytes).unwrap();
            read(&path, 2, bytes_max, 100)
        };
        let put = |db: u8, expiry: Option<u64>| Write::Key {
            db,
            key: b"key".to_vec().into(),
            change: Change::Put { value: b"value".to_vec().into(), expiry },
        };
        let whole = file(&[(0, None), (1, Some(500)), (1, Some(100))]);
        assert_eq!(read_of(&whole, 1000), Ok(vec![put(0, None), put(1, Some(500))]));
        assert_eq!(read_of(&file(&[]), 1000), Ok(Vec::new()));
        for (bytes, bytes_max, why) in [
            (file(&[(2, None)]), 1000, "tells of database 2"),
            (whole.clone(), 10, "client-query-buffer-limit"),
            (whole[..whole.len() - 1].to_vec(), 1000, "ends at byte"),
            ([&whole[..], b"x"].concat(), 1000, "goes on behind its end"),
            (b"REDIS9999".to_vec(), 1000, "version 9999"),
        ] {
            let error = read_of(&bytes, bytes_max).unwrap_err();
            assert!(error.starts_with(path.to_str().unwrap()) && error.contains(why), "{error}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read(&path, 2, 1000, 100).is_err());
    }
}
