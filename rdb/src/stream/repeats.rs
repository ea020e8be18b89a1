//! A bound for what a stream says once and a visitor is told often: the names of fields that the entries of a
//! node share, and the names of groups and consumers.

use crate::error::Damage;

/// Bytes that are told for each byte that was read. With the settings that Redis has by default a node has at
/// most 100 entries, so that it tells less than 100 times its bytes.
const FACTOR: u64 = 128;
/// Bytes that the entries of each stream may tell beyond that, and its groups as many.
const FREE: u64 = 1 << 20;

/// The bytes of repeated names that the entries or the groups of one stream may still tell.
pub(super) struct Repeats {
    left: u64,
}

impl Repeats {
    pub(super) fn new() -> Repeats {
        Repeats { left: FREE }
    }

    /// So many bytes were read.
    pub(super) fn earn(&mut self, bytes: usize) {
        self.left = self.left.saturating_add(FACTOR.saturating_mul(bytes as u64));
    }

    /// So many are told again.
    pub(super) fn spend(&mut self, bytes: u64) -> Result<(), Damage> {
        self.left = self.left.checked_sub(bytes).ok_or(Damage::Repeats(FACTOR))?;
        Ok(())
    }
}
