//! Writes a checkpoint. Rows go in order, and missing rows come from the checkpoint before. It gets its final
//! name only when all is durable.
//!
//! While rows are written a thread of its own syncs those before, so that the disk is busy from the start.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use super::error::{CheckpointError, io_error};
use super::format::Layout;
use super::reader::CheckpointReader;
use super::{CheckpointDir, State};
use crate::shape::Shape;

/// Bytes after which those written so far are synced.
const SYNC_BYTES: usize = 32 << 20;

/// A checkpoint that is being written. Dropped, it removes its file, and the checkpoint before stays.
pub struct CheckpointWriter<'d> {
    dir: &'d mut CheckpointDir,
    layout: Layout,
    unfinished: Unfinished,
    base: Option<CheckpointReader>,
    /// The piece that is being filled, or the number of pieces.
    piece: usize,
    bytes: Vec<u8>,
    /// The next row, if the rows of the piece so far were given without a gap or came from the base.
    next: usize,
    sums: Vec<u32>,
    unsynced_bytes: usize,
}

impl<'d> CheckpointWriter<'d> {
    /// Rows that are not given are as in `base`.
    pub(super) fn new(
        dir: &'d mut CheckpointDir,
        base: Option<CheckpointReader>,
    ) -> Result<CheckpointWriter<'d>, CheckpointError> {
        let layout = Layout { shape: dir.shape };
        let unfinished = Unfinished::create(dir.unfinished())?;
        let sums = Vec::with_capacity(layout.pieces());
        let mut writer = CheckpointWriter {
            dir,
            layout,
            unfinished,
            base,
            piece: 0,
            bytes: Vec::new(),
            next: 0,
            sums,
            unsynced_bytes: 0,
        };
        writer.begin_piece()?;
        Ok(writer)
    }

    /// The shape of the array.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Takes a row. Rows come in order; rows between them are the same as in the checkpoint before.
    #[inline]
    pub fn put(&mut self, row: usize, fields: &[u64]) -> Result<(), CheckpointError> {
        if row < self.next || row >= self.shape().rows || fields.len() != self.shape().fields {
            return Err(CheckpointError::Row { row, fields: fields.len(), shape: self.shape() });
        }
        if row > self.next {
            self.skip_to(row)?;
        }
        let row_bytes = self.shape().row_bytes();
        let (first, rows) = self.layout.piece(self.piece);
        let to = &mut self.bytes[(row - first) * row_bytes..][..row_bytes];
        for (to, field) in to.as_chunks_mut().0.iter_mut().zip(fields) {
            *to = field.to_le_bytes();
        }
        self.next = row + 1;
        if self.next == first + rows { self.end_piece() } else { Ok(()) }
    }

    /// Ends the checkpoint: it is whole and durable under its name, and has `state`.
    pub(crate) fn finish(mut self, state: &State) -> Result<(), CheckpointError> {
        let rows = self.shape().rows;
        if self.next < rows {
            self.skip_to(rows)?;
        }
        self.unfinished.write(&Layout::trailer(&self.sums), self.layout.row_offset(rows))?;
        // Last, so that an unfinished file is no checkpoint.
        self.unfinished.write(&self.layout.header(), 0)?;
        self.unfinished.rename(&self.dir.file(), self.dir.path())?;
        self.dir.has = Some(state.clone());
        Ok(())
    }

    /// The unfinished file, for another writer of the rows, and the offset at which they begin. The other
    /// writer's rows are then recorded with [`CheckpointWriter::written_elsewhere`], piece by piece.
    #[cfg(not(loom))]
    pub(crate) fn elsewhere(&self) -> (&Path, u64) {
        (&self.unfinished.path, self.layout.row_offset(0))
    }

    /// The first row of the piece that is to be written next, and how many rows it has.
    #[cfg(not(loom))]
    pub(crate) fn next_piece(&self) -> Option<(usize, usize)> {
        (self.piece < self.layout.pieces()).then(|| self.layout.piece(self.piece))
    }

    /// The next piece has been written by somebody else, with this checksum.
    #[cfg(not(loom))]
    pub(crate) fn written_elsewhere(&mut self, sum: u32) {
        let (first, rows) = self.layout.piece(self.piece);
        self.next = first + rows;
        self.written(sum, rows * self.shape().row_bytes());
    }

    /// Takes all rows before `row` from the base.
    #[cold]
    fn skip_to(&mut self, row: usize) -> Result<(), CheckpointError> {
        if self.base.is_none() {
            return Err(CheckpointError::NoBase { row: self.next });
        }
        while self.piece < self.layout.pieces() {
            let (first, rows) = self.layout.piece(self.piece);
            if row < first + rows {
                break;
            }
            self.end_piece()?;
        }
        self.next = row;
        Ok(())
    }

    fn begin_piece(&mut self) -> Result<(), CheckpointError> {
        if self.piece == self.layout.pieces() {
            return Ok(());
        }
        match &self.base {
            Some(base) => base.read_piece(self.piece, &mut self.bytes),
            None => {
                self.bytes.resize(self.layout.piece(self.piece).1 * self.shape().row_bytes(), 0);
                Ok(())
            }
        }
    }

    fn end_piece(&mut self) -> Result<(), CheckpointError> {
        self.unfinished.write(&self.bytes, self.layout.row_offset(self.layout.piece(self.piece).0))?;
        self.written(crc32c::crc32c(&self.bytes), self.bytes.len());
        self.begin_piece()
    }

    fn written(&mut self, sum: u32, bytes: usize) {
        self.sums.push(sum);
        self.piece += 1;
        self.unsynced_bytes += bytes;
        if self.unsynced_bytes >= SYNC_BYTES && self.unfinished.sync_soon() {
            self.unsynced_bytes = 0;
        }
    }
}

/// A file that goes away unless it is renamed.
struct Unfinished {
    path: PathBuf,
    file: Arc<File>,
    /// Asks the thread below to sync; taken when there is nothing more to sync.
    requests: Option<SyncSender<()>>,
    /// Syncs when asked to; ends with the first error.
    syncing: Option<JoinHandle<io::Result<()>>>,
}

impl Unfinished {
    fn create(path: PathBuf) -> Result<Unfinished, CheckpointError> {
        let file = Arc::new(File::create(&path).map_err(io_error("create", &path))?);
        let (requests, asked) = sync_channel(1);
        let synced = file.clone();
        let syncing = std::thread::Builder::new()
            .name("checkpoint-sync".to_owned())
            .spawn(move || asked.iter().try_for_each(|()| synced.sync_data()))
            .map_err(io_error("start a thread that syncs", &path));
        let mut unfinished = Unfinished { path, file, requests: Some(requests), syncing: None };
        unfinished.syncing = Some(syncing?);
        Ok(unfinished)
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), CheckpointError> {
        self.file.write_all_at(bytes, offset).map_err(io_error("write", &self.path))
    }

    /// Requests a sync of the written bytes in the background; `false` if there is enough to sync already.
    fn sync_soon(&self) -> bool {
        self.requests.as_ref().is_some_and(|requests| requests.try_send(()).is_ok())
    }

    /// Waits until nothing is synced any more, which may have failed.
    fn sync_no_more(&mut self) -> io::Result<()> {
        self.requests = None;
        match self.syncing.take() {
            Some(syncing) => syncing.join().expect("syncing does not panic"),
            None => Ok(()),
        }
    }

    /// Makes the file durable, and known by its final name.
    fn rename(mut self, to: &Path, dir: &Path) -> Result<(), CheckpointError> {
        self.sync_no_more().and_then(|()| self.file.sync_all()).map_err(io_error("sync", &self.path))?;
        fs::rename(&self.path, to).map_err(io_error("rename", &self.path))?;
        // From here on there is nothing to remove.
        self.path = PathBuf::new();
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(io_error("sync", dir))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // The caller that drops it has had an error already, or wants none.
        let _ = self.sync_no_more();
        if self.path != Path::new("") {
            let _ = fs::remove_file(&self.path);
        }
    }
}
