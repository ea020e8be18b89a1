//! The changes of a transaction or of a script, until all of them are committed as one group.

use tarn_engine::record::{Batch, Write};
use tarn_resp::OwnedArgs;

/// The changes that requests have staged, one request after the other.
#[derive(Default)]
pub(super) struct Staging<'a> {
    /// The changes in their order.
    pub(super) writes: Batch<'a>,
    /// Bytes of memory that they take, and the requests of scripts which they refer to. Queued requests are
    /// not among them: these have a limit of their own.
    bytes: u64,
    /// Bytes of the changes that one request has made, the most.
    largest: u64,
}

impl<'a> Staging<'a> {
    /// Counts the changes of one request.
    pub(super) fn note(&mut self, batch: &Batch<'a>) {
        let bytes =
            batch.iter().map(|write| size_of::<Write<'_>>() + write.owned_bytes()).sum::<usize>() as u64;
        self.bytes += bytes;
        self.largest = self.largest.max(bytes);
    }

    /// Counts a request that is kept until all of them are committed.
    pub(super) fn note_kept(&mut self, request: &OwnedArgs) {
        self.bytes += request.memory_bytes() as u64;
    }

    /// Whether no request may stage more, as `limit` bytes are. The largest request is not counted: it may be
    /// a `RENAME` of something large, which would run by itself, too.
    pub(super) fn is_over(&self, limit: u64) -> bool {
        self.bytes - self.largest > limit
    }
}
