//! Reads a checkpoint, and checks what it reads.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::{CheckpointError, io_error};
use super::format::{HEADER_BYTES, Layout};
use crate::shape::Shape;

/// An open checkpoint. Its header and its checksums are whole; the rows are checked when they are read.
#[derive(Debug)]
pub struct CheckpointReader {
    path: PathBuf,
    file: File,
    layout: Layout,
    sums: Vec<u32>,
}

impl CheckpointReader {
    /// Opens a checkpoint.
    pub fn open(path: impl AsRef<Path>) -> Result<CheckpointReader, CheckpointError> {
        let path = path.as_ref();
        let damaged = |(offset, what)| CheckpointError::Damaged { path: path.to_owned(), offset, what };
        let file = File::open(path).map_err(io_error("open", path))?;
        let bytes = file.metadata().map_err(io_error("look at", path))?.len();
        if bytes < HEADER_BYTES as u64 {
            return Err(damaged((bytes, "it ends within the header")));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(io_error("read", path))?;
        let layout = Layout::of_header(&header).map_err(damaged)?;
        if bytes != layout.file_bytes() {
            return Err(damaged((bytes.min(layout.file_bytes()), "it is not as long as its rows")));
        }
        let end = layout.row_offset(layout.shape.rows);
        let mut trailer = vec![0; layout.trailer_bytes()];
        file.read_exact_at(&mut trailer, end).map_err(io_error("read", path))?;
        let sums = Layout::of_trailer(&trailer);
        let sums = sums.ok_or_else(|| damaged((end, "the checksum of the checksums does not fit")))?;
        Ok(CheckpointReader { path: path.to_owned(), file, layout, sums })
    }

    /// The shape of the array.
    pub fn shape(&self) -> Shape {
        self.layout.shape
    }

    /// Shows all rows in order.
    pub fn rows(&self, mut visit: impl FnMut(usize, &[u64])) -> Result<(), CheckpointError> {
        let mut fields = vec![0; self.shape().fields];
        let mut bytes = Vec::new();
        for piece in 0..self.layout.pieces() {
            self.read_piece(piece, &mut bytes)?;
            let (first, _) = self.layout.piece(piece);
            for (row, bytes) in bytes.chunks_exact(self.shape().row_bytes()).enumerate() {
                for (field, bytes) in fields.iter_mut().zip(bytes.as_chunks().0) {
                    *field = u64::from_le_bytes(*bytes);
                }
                visit(first + row, &fields);
            }
        }
        Ok(())
    }

    /// Reads the rows that share a checksum; `bytes` is as long as they are afterwards.
    pub(super) fn read_piece(&self, piece: usize, bytes: &mut Vec<u8>) -> Result<(), CheckpointError> {
        let (first, rows) = self.layout.piece(piece);
        let offset = self.layout.row_offset(first);
        bytes.resize(rows * self.shape().row_bytes(), 0);
        self.file.read_exact_at(bytes, offset).map_err(io_error("read", &self.path))?;
        if crc32c::crc32c(bytes) != self.sums[piece] {
            let what = "the checksum of the rows that begin here does not fit";
            return Err(CheckpointError::Damaged { path: self.path.clone(), offset, what });
        }
        Ok(())
    }
}
