//! The files that may be compacted, and how much of each is obsolete.
//!
//! *Raw* bytes are those that a file would have if no block of it were compressed. The compactor goes by
//! them where it decides or keeps its pace: a file that was compacted has all its blocks compressed, one that
//! was only written perhaps few, so bytes on disk would say that little was much. The status has bytes on
//! disk.

use crate::log::ClosedFile;
use crate::record::Lsn;

use super::estimates::Estimates;
use super::status::FileStatus;

/// The files that are written to no more, by directory and number.
pub(super) struct Stock {
    pub(super) files: Vec<ClosedFile>,
    /// The share of obsolete records of each, as far as is known.
    pub(super) wastes: Vec<f64>,
}

impl Stock {
    pub(super) fn new(files: Vec<ClosedFile>, estimates: &Estimates) -> Stock {
        let wastes = files.iter().map(|file| estimates.waste(file)).collect();
        Stock { files, wastes }
    }

    /// Bytes of a file that are not known to be obsolete.
    pub(super) fn live_bytes_of(&self, at: usize) -> u64 {
        (self.files[at].bytes() as f64 * (1.0 - self.wastes[at])) as u64
    }

    /// Raw bytes of a file that are not known to be obsolete.
    pub(super) fn raw_live_bytes_of(&self, at: usize) -> u64 {
        (self.files[at].raw_bytes() as f64 * (1.0 - self.wastes[at])) as u64
    }

    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(ClosedFile::bytes).sum()
    }

    /// Bytes that are not known to be obsolete.
    pub(super) fn live_bytes(&self) -> u64 {
        (0..self.files.len()).map(|at| self.live_bytes_of(at)).sum()
    }

    pub(super) fn raw_bytes(&self) -> u64 {
        self.files.iter().map(ClosedFile::raw_bytes).sum()
    }

    /// Raw bytes that are not known to be obsolete.
    pub(super) fn raw_live_bytes(&self) -> u64 {
        (0..self.files.len()).map(|at| self.raw_live_bytes_of(at)).sum()
    }

    /// Raw bytes of files that were compacted.
    pub(super) fn raw_bytes_compacted(&self) -> u64 {
        self.files.iter().filter(|file| file.timestamp() > Lsn::ZERO).map(ClosedFile::raw_bytes).sum()
    }

    /// Files, bytes and live bytes of each directory.
    pub(super) fn by_directory(&self) -> Vec<(usize, u64, u64)> {
        let mut directories: Vec<(usize, u64, u64)> = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            directories.resize(directories.len().max(file.directory() + 1), (0, 0, 0));
            let (count, bytes, live) = &mut directories[file.directory()];
            (*count, *bytes, *live) = (*count + 1, *bytes + file.bytes(), *live + self.live_bytes_of(at));
        }
        directories
    }

    /// Those with the most obsolete bytes, at most `limit`, by directory and number.
    pub(super) fn worst(&self, limit: usize) -> Vec<FileStatus> {
        let mut order: Vec<usize> = (0..self.files.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(self.files[*at].bytes() - self.live_bytes_of(*at)));
        order.truncate(limit);
        order.sort_unstable();
        order.into_iter().map(|at| self.status_of(at)).collect()
    }

    fn status_of(&self, at: usize) -> FileStatus {
        let file = &self.files[at];
        FileStatus {
            path: file.path().to_path_buf(),
            records: file.records(),
            bytes: file.bytes(),
            live_bytes: self.live_bytes_of(at),
            is_compacted: file.timestamp() > Lsn::ZERO,
        }
    }
}
