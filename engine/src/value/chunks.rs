//! Giant strings: bounded copy-on-write chunks below a tree of fixed shape.
//!
//! ```text
//!   Branch   child 0 | child 1 | … | child 31    each stands for 32^level chunks; what is missing behind the
//!              |         |                       last one, and a `Zeros`, stands for zeros
//!   Chunk    bytes 0 ─ 4079                      what is missing at its end stands for zeros
//! ```
//!
//! A byte's place says which way leads to it, so a string that is overwritten in part or grows at its end
//! changes the chunks that the new bytes stand in and nothing else. A gap that is to be zeros takes no memory
//! and no time. As in `tree`, nodes are shared by `Arc`: a clone copies nothing, and a write copies those
//! nodes of its paths that are shared.
//!
//! Invariant: what a chunk holds behind the end of the string is zeros, since a string never shrinks in part.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::left::{self, ARC_BYTES};
use super::tree::FANOUT;
use super::{scale, usage};

/// Bytes of a chunk; with what an `Arc` keeps beside them they fill a size of the allocator.
pub(crate) const CHUNK_BYTES: usize = (4 << 10) - ARC_BYTES;

/// The bytes read where nothing was written.
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

type Children = SmallVec<[Node; FANOUT]>;

#[derive(Clone, Default)]
enum Node {
    #[default]
    Zeros,
    Chunk(Arc<[u8]>),
    Branch(Arc<Children>),
}

/// The bytes of a giant string; the default has none.
#[derive(Clone, Default)]
pub(crate) struct Chunks {
    root: Node,
    /// How many branches are above a chunk.
    level: u32,
    len: usize,
}

impl Chunks {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Writes `bytes` at `at`; zeros come between them and an end that is before.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        while end > span(self.level) {
            if !matches!(self.root, Node::Zeros) {
                let root = std::mem::take(&mut self.root);
                self.root = Node::Branch(Arc::new(SmallVec::from_iter([root])));
            }
            self.level += 1;
        }
        if !bytes.is_empty() {
            self.root.write(self.level, at, bytes);
        }
        self.len = self.len.max(end);
    }

    /// The bytes from `at` to the end of their chunk, or of the string. REQUIRES: there is one.
    pub(crate) fn piece(&self, at: usize) -> &[u8] {
        let (mut node, mut level) = (&self.root, self.level);
        while let Node::Branch(children) = node {
            level -= 1;
            node = children.get(at / span(level) % FANOUT).unwrap_or(&Node::Zeros);
        }
        let within = at % CHUNK_BYTES;
        let end = CHUNK_BYTES.min(within + self.len - at);
        match node {
            Node::Chunk(chunk) if within < chunk.len() => &chunk[within..end.min(chunk.len())],
            _ => &ZEROS[within..end],
        }
    }

    /// The bytes of a range, piece by piece. REQUIRES: it is within the string.
    pub(crate) fn pieces(&self, range: Range<usize>) -> impl Iterator<Item = &[u8]> + Clone {
        let Range { mut start, end } = range;
        std::iter::from_fn(move || {
            let piece = (start < end).then(|| self.piece(start))?;
            let piece = &piece[..piece.len().min(end - start)];
            start += piece.len();
            Some(piece)
        })
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.root.bytes()
    }

    /// As `bytes`, as if no gap were left out.
    pub(crate) fn bytes_about(&self) -> usize {
        self.len + self.len.div_ceil(CHUNK_BYTES) * (ARC_BYTES + size_of::<Node>())
    }

    /// Bytes of memory that nobody else has, about. To look at each chunk would take long: of those that are
    /// neighbours one that is drawn tells whether somebody else has them.
    pub(crate) fn bytes_own(&self) -> usize {
        self.root.bytes_own()
    }

    /// Bytes that a write within one chunk copies at most, where all is shared.
    #[cfg(test)]
    pub(crate) fn bytes_of_path(&self) -> usize {
        ARC_BYTES + CHUNK_BYTES + self.level as usize * (ARC_BYTES + size_of::<Children>())
    }

    /// The addresses of all nodes, each with its bytes.
    #[cfg(test)]
    pub(crate) fn nodes(&self) -> std::collections::HashMap<usize, usize> {
        let mut nodes = std::collections::HashMap::new();
        self.root.collect(&mut nodes);
        nodes
    }
}

/// Bytes that a node of this level stands for.
const fn span(level: u32) -> usize {
    CHUNK_BYTES * FANOUT.pow(level)
}

impl Node {
    /// Writes to the node of this level, from `at` on of what it stands for. REQUIRES: there is something to
    /// write, and it ends in there.
    fn write(&mut self, level: u32, mut at: usize, mut bytes: &[u8]) {
        if level == 0 {
            return self.write_chunk(at, bytes);
        }
        if matches!(self, Node::Zeros) {
            *self = Node::Branch(Arc::default());
        }
        let Node::Branch(children) = self else { unreachable!("a chunk is at level 0") };
        left::note(children);
        let (children, span) = (Arc::make_mut(children), span(level - 1));
        while !bytes.is_empty() {
            let (child, within) = (at / span, at % span);
            let (here, rest) = bytes.split_at(bytes.len().min(span - within));
            if child >= children.len() {
                children.resize(child + 1, Node::Zeros);
            }
            children[child].write(level - 1, within, here);
            (at, bytes) = (at + here.len(), rest);
        }
    }

    fn write_chunk(&mut self, at: usize, bytes: &[u8]) {
        let end = at + bytes.len();
        if let Node::Chunk(chunk) = self {
            left::note(chunk);
        }
        match self {
            Node::Chunk(chunk) if end <= chunk.len() && bytes.len() < chunk.len() => {
                Arc::make_mut(chunk)[at..end].copy_from_slice(bytes);
            }
            // All of it is overwritten: where it is shared, there is nothing to copy.
            Node::Chunk(chunk) if bytes.len() == chunk.len() && at == 0 => match Arc::get_mut(chunk) {
                Some(chunk) => chunk.copy_from_slice(bytes),
                None => *chunk = Arc::from(bytes),
            },
            _ if at == 0 && !matches!(self, Node::Chunk(_)) => *self = Node::Chunk(Arc::from(bytes)),
            _ => {
                // What has grown grows again: the next bytes find room.
                let mut whole: Arc<[u8]> = Arc::from(&ZEROS[..]);
                let fresh = Arc::get_mut(&mut whole).expect("nobody shares what was just made");
                if let Node::Chunk(chunk) = self {
                    fresh[..chunk.len()].copy_from_slice(chunk);
                }
                fresh[at..end].copy_from_slice(bytes);
                *self = Node::Chunk(whole);
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Node::Zeros => 0,
            Node::Chunk(chunk) => ARC_BYTES + chunk.len(),
            Node::Branch(children) => {
                ARC_BYTES + size_of::<Children>() + children.iter().map(Node::bytes).sum::<usize>()
            }
        }
    }

    fn bytes_own(&self) -> usize {
        match self {
            Node::Zeros => 0,
            Node::Chunk(chunk) if Arc::strong_count(chunk) > 1 => 0,
            Node::Chunk(chunk) => ARC_BYTES + chunk.len(),
            Node::Branch(children) if Arc::strong_count(children) > 1 => 0,
            Node::Branch(children) => {
                let is_high = children.iter().any(|child| matches!(child, Node::Branch(_)));
                let below = match is_high {
                    true => children.iter().map(Node::bytes_own).sum::<usize>(),
                    false => bytes_own_of_chunks(children),
                };
                ARC_BYTES + size_of::<Children>() + below
            }
        }
    }

    #[cfg(test)]
    fn collect(&self, nodes: &mut std::collections::HashMap<usize, usize>) {
        match self {
            Node::Zeros => {}
            Node::Chunk(chunk) => _ = nodes.insert(chunk.as_ptr() as usize, self.bytes()),
            Node::Branch(children) => {
                nodes.insert(Arc::as_ptr(children) as usize, ARC_BYTES + size_of::<Children>());
                children.iter().for_each(|child| child.collect(nodes));
            }
        }
    }
}

/// Bytes of the chunks below a branch, all of them or none, as one says that is drawn.
fn bytes_own_of_chunks(children: &Children) -> usize {
    let chunks = children.iter().filter_map(|child| match child {
        Node::Chunk(chunk) => Some(chunk),
        Node::Zeros | Node::Branch(_) => None,
    });
    let drawn = scale(usage::random(), chunks.clone().count());
    let is_shared = chunks.clone().nth(drawn).is_some_and(|chunk| Arc::strong_count(chunk) > 1);
    if is_shared { 0 } else { chunks.map(|chunk| ARC_BYTES + chunk.len()).sum() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_take_no_memory_and_shared_chunks_are_of_nobody() {
        let mut sparse = Chunks::default();
        sparse.write((512 << 20) - 1, b"x");
        assert!(sparse.bytes_about() > 512 << 20, "as if no gap were left out");
        assert_eq!(sparse.bytes_own(), sparse.bytes());
        assert!(sparse.bytes_own() < 16 << 10, "{} bytes", sparse.bytes_own());
        for bytes in [1_000, 100_000, 10_000_000] {
            let mut chunks = Chunks::default();
            chunks.write(0, &vec![1; bytes]);
            assert_eq!(chunks.bytes_own(), chunks.bytes());
            let clone = chunks.clone();
            assert_eq!((chunks.bytes_own(), clone.bytes_own()), (0, 0));
            // The branches of the clone are not its own any more, but all chunks are shared.
            for at in (0..bytes).step_by(CHUNK_BYTES * FANOUT) {
                chunks.write(at, b"x");
            }
            // A chunk that was written to may be drawn, but not often.
            let own = (0..100).map(|_| chunks.bytes_own()).sum::<usize>() / 100;
            assert!(own <= chunks.bytes() / 2 + CHUNK_BYTES, "{own} of {bytes} bytes are its own");
            drop(clone);
            assert_eq!(chunks.bytes_own(), chunks.bytes());
        }
    }
}
