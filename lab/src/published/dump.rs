//! The thread that dumps: it writes an RDB file under another name, syncs it and renames it, as
//! redis-server's child does.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender};

use super::options::Settings;
use crate::process::Pinned;
use mio::Waker;
use tarn_rdb::{Kind, Writer};
use tarn_study::paired::{Shown, SnapRow, Snapshot};

/// The file, in the directory of the settings.
const FILE: &str = "dump.rdb";
const UNFINISHED: &str = "dump.rdb.unfinished";

/// Dumps all snapshots that come, and tells how each ended.
pub(super) fn dump_all<R: SnapRow>(
    settings: &Settings,
    snapshots: Receiver<Snapshot<R>>,
    ended: Sender<io::Result<()>>,
    waker: &Waker,
) {
    let pinned = Pinned::to(&settings.dumping_cores);
    if let Err(error) = &pinned {
        tell!("the thread that dumps runs on all cores: {error}");
    }
    for snapshot in snapshots {
        if ended.send(dump(&settings.dir, snapshot)).is_err() || waker.wake().is_err() {
            // The thread that serves has gone.
            return;
        }
    }
}

/// Dumps a snapshot.
pub(super) fn dump<R: SnapRow>(dir: &Path, snapshot: Snapshot<R>) -> io::Result<()> {
    let unfinished = dir.join(UNFINISHED);
    let written = write(&unfinished, snapshot).and_then(|()| fs::rename(&unfinished, dir.join(FILE)));
    match written {
        Ok(()) => File::open(dir)?.sync_all(),
        Err(error) => {
            // It may not be there.
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

fn write<R: SnapRow>(path: &Path, snapshot: Snapshot<R>) -> io::Result<()> {
    let mut writer = Writer::new(File::create(path)?)?;
    writer.field("tarn-lab", R::NAME)?;
    writer.begin_database(0, snapshot.keys() as u64, 0)?;
    snapshot.dump(|shown| match shown {
        Shown::Hash { key, fields } => {
            let mut hash = writer.begin_value(key, None, Kind::Hash, fields.len() as u64)?;
            fields.iter().try_for_each(|(name, value)| hash.field(name, value))?;
            hash.finish();
            Ok::<(), io::Error>(())
        }
        Shown::Set { key, members } => {
            let mut set = writer.begin_value(key, None, Kind::ZSet, members.len() as u64)?;
            members.each(|member, score| set.scored(member, score))?;
            set.finish();
            Ok(())
        }
    })?;
    writer.finish()?.sync_all()
}
