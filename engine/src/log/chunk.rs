//! Pooled buffers for parts of files: memory is reused once its last reference is dropped.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crossbeam_channel::Sender;

/// Memory that goes back to where it came from.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// Where it goes; `None`: it is freed.
    pub(super) home: Option<Sender<Vec<u8>>>,
    /// The memory that it was made of, held as long as this, so that no more is read ahead than there are
    /// buffers for.
    pub(super) _made_of: Option<Arc<Buffer>>,
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = &self.home {
            // Nobody is there any more when the opening was given up.
            let _ = home.send(std::mem::take(&mut self.bytes));
        }
    }
}

/// Part of a file in memory. Cheap to clone: the bytes are shared.
#[derive(Clone, Default)]
pub(super) struct Chunk {
    pub(super) buffer: Option<Arc<Buffer>>,
    pub(super) range: Range<usize>,
}

impl Chunk {
    /// Memory of its own.
    pub(super) fn of(bytes: Vec<u8>) -> Chunk {
        let range = 0..bytes.len();
        Chunk { buffer: Some(Arc::new(Buffer { bytes, home: None, _made_of: None })), range }
    }

    /// The bytes that were made of this.
    pub(super) fn made_into(self, bytes: Vec<u8>) -> Chunk {
        let range = 0..bytes.len();
        Chunk { buffer: Some(Arc::new(Buffer { bytes, home: None, _made_of: self.buffer })), range }
    }

    /// Part of it.
    pub(super) fn part(&self, range: Range<usize>) -> Chunk {
        let (start, end) = (self.range.start + range.start, self.range.start + range.end);
        debug_assert!(start <= end && end <= self.range.end, "the part lies within the chunk");
        Chunk { buffer: self.buffer.clone(), range: start..end }
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer.bytes[self.range.clone()])
    }
}

impl fmt::Debug for Chunk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}
