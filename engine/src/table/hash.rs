//! The hash of a key, and the order of positions that follows from it.

use crate::value::POSITION_BITS;

/// The last position of a scan.
pub(super) const LAST_POSITION: u64 = (1 << POSITION_BITS) - 1;
/// The number of positions: where a walk ends.
pub const END: u64 = LAST_POSITION + 1;

/// The seeded hash of a key, computed once a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Hashes `key` with the seed of this process.
    #[inline]
    pub fn of(key: &[u8]) -> KeyHash {
        KeyHash(crate::value::hash_of(key))
    }

    /// The order in which scans go: segments divide it into contiguous ranges however often they split.
    /// `POSITION_BITS` bits, as clients may keep cursors as doubles.
    pub const fn position(self) -> u64 {
        self.0.reverse_bits() >> (64 - POSITION_BITS)
    }

    /// A hash that stands at `position`.
    pub const fn at(position: u64) -> KeyHash {
        KeyHash((position << (64 - POSITION_BITS)).reverse_bits())
    }

    /// The bits for the table inside a segment. The directory spends the low bits, so they are turned away.
    pub(super) const fn inner(self) -> u64 {
        self.0.rotate_left(32)
    }
}
