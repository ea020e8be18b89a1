//! A replay mismatch: a record that does not fit the state that the records before it made.

use crate::log::{Block, Damage};
use crate::record::Lsn;

/// A record that does not fit what it meets, and nothing behind it logs the key again. A command checks what
/// is there before it decides on a change, under the same latch, so no history has one: records before it are
/// not those that were written. Where the key is logged again, a compaction may have dropped what it was made
/// of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// Its number.
    pub lsn: Lsn,
    /// The block that it is in.
    pub sequence: u64,
    /// Where that is.
    pub damage: Damage,
}

impl Misfit {
    /// Record `lsn` of a block does not fit.
    pub(super) fn of(lsn: Lsn, block: &Block) -> Misfit {
        let what = format!("record {lsn} in this block does not fit what the records before it made");
        let damage = Damage::new(block.path().to_path_buf(), block.offset(), what);
        Misfit { lsn, sequence: block.sequence(), damage }
    }
}
