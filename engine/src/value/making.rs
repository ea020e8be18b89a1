//! A collection that is made element by element, together with what the log is to say of it.

use super::block::Header;
use super::body::Body;
use super::image::ImageBuilder;
use crate::record::{Kind, Lsn, Made};

/// A collection that no key holds yet.
pub struct Making {
    kind: Kind,
    body: Body,
    part: ImageBuilder,
}

impl Making {
    /// An empty collection. REQUIRES: it is none of bytes.
    pub fn new(kind: Kind) -> Making {
        let body = Body::empty(&Header::new(kind, Lsn::ZERO), b"");
        Making { kind, body, part: ImageBuilder::new(kind) }
    }

    /// Adds an element of a list, or a member of a set that it does not have.
    pub fn push_element(&mut self, element: &[u8]) {
        match self.kind {
            Kind::Set => _ = self.body.set_add(element, Lsn::ZERO),
            _ => self.body.list_insert(self.body.count(), element),
        }
        self.part.push_element(element);
    }

    /// Adds a member of a sorted set that it does not have.
    pub fn push_scored(&mut self, member: &[u8], score: f64) {
        self.body.zset_put(member, score, Lsn::ZERO);
        self.part.push_scored(member, score);
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.body.count()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the elements that no part had yet.
    pub fn part_bytes(&self) -> usize {
        self.part.bytes_len()
    }

    /// The elements that no part had yet, in the form of an image.
    pub fn take_part(&mut self) -> Vec<u8> {
        std::mem::replace(&mut self.part, ImageBuilder::new(self.kind)).finish()
    }

    /// The collection, and whether it has passed a limit of Redis's small encodings.
    pub fn finish(self) -> (Made, bool) {
        (self.body.to_made(), self.body.block().sticky())
    }
}
