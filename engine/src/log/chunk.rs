//! Pooled buffers for parts of files: memory is reused once its last reference is dropped. And bodies that
//! were made of them, no more at a time than an [`Allowance`] has.

use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

/// Memory that goes back to where it came from.
pub(super) struct Buffer {
    pub(super) bytes: Vec<u8>,
    /// Where it goes; `None`: it is freed.
    pub(super) home: Option<Sender<Vec<u8>>>,
    /// Its share of an allowance, if it was made of other bytes.
    pub(super) _share: Option<Share>,
}

/// How many bytes may be made of others and not be given back, by one thread.
pub(super) struct Allowance {
    bytes: usize,
    taken: usize,
    home: Sender<usize>,
    returned: Receiver<usize>,
}

/// Bytes of an allowance, which go back to it.
pub(super) struct Share {
    pub(super) bytes: usize,
    home: Sender<usize>,
}

impl Allowance {
    pub(super) fn new(bytes: usize) -> Allowance {
        let (home, returned) = unbounded();
        Allowance { bytes, taken: 0, home, returned }
    }

    /// Whether so many bytes can be taken now. More than there are in all can be if none are taken.
    pub(super) fn has(&mut self, bytes: usize) -> bool {
        self.taken -= self.returned.try_iter().sum::<usize>();
        self.taken == 0 || self.taken + bytes <= self.bytes
    }

    /// Takes so many bytes; waits until there are.
    pub(super) fn take(&mut self, bytes: usize) -> Share {
        while !self.has(bytes) {
            self.taken -= self.returned.recv().expect("the way home is open as long as this is");
        }
        self.taken += bytes;
        Share { bytes, home: self.home.clone() }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Nobody is there any more when all has been read.
        let _ = self.home.send(self.bytes);
    }
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
    /// Bytes that were made of others, with what they have of an allowance.
    pub(super) fn made(bytes: Vec<u8>, share: Share) -> Chunk {
        let range = 0..bytes.len();
        Chunk { buffer: Some(Arc::new(Buffer { bytes, home: None, _share: Some(share) })), range }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is_unless_it_is_alone() {
        let mut allowance = Allowance::new(10);
        let (share, other) = (allowance.take(4), allowance.take(6));
        assert!(!allowance.has(1));
        let chunk = Chunk::made(vec![0; 4], share);
        let part = chunk.part(1..2);
        drop(chunk);
        assert!(!allowance.has(1), "a part of it holds all of it");
        drop(part);
        assert!(allowance.has(4) && !allowance.has(5));
        drop(other);
        let alone = allowance.take(11);
        assert!(!allowance.has(0));
        drop(alone);
        assert!(allowance.has(1_000));
    }

    #[test]
    fn who_takes_more_than_there_is_waits_for_what_comes_back() {
        let mut allowance = Allowance::new(10);
        let (sender, receiver) = unbounded();
        let taken = (0..1_000).map(|number| number % 11);
        let longest = std::thread::scope(|scope| {
            let held = scope.spawn(move || receiver.iter().map(|share: Share| share.bytes).sum::<usize>());
            for bytes in taken.clone() {
                let share = allowance.take(bytes);
                assert!(allowance.taken <= 10);
                let _ = sender.send(share);
            }
            drop(sender);
            held.join()
        });
        assert_eq!(longest.ok(), Some(taken.sum()));
        assert!(allowance.has(10));
    }
}
