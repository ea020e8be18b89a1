//! The errors of the store.

use thiserror::Error;

use crate::error::SnapshotError;

/// Why a store cannot be made, or something not be done in it. Nothing has been changed then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// Every bit belongs to a scan that runs. End one, or take wider masks.
    #[error("{limit} scans are running already, as many as a mask has bits; end one first")]
    Scans {
        /// Bits of a mask.
        limit: usize,
    },
    /// The field does not exist, or a row of another length was given.
    #[error("a row has {fields} fields; field or length {given} does not fit")]
    Fields {
        /// Fields of a row.
        fields: usize,
        /// The number that was given.
        given: usize,
    },
    /// The store was made without an index.
    #[error("the store has no index to scan")]
    NoIndex,
    /// A batch reaches only the keys that it was opened with.
    #[error("the batch was not opened for key {key}")]
    NotLatched {
        /// The key.
        key: u64,
    },
    /// The memory for the rows that are expected is not to be had.
    #[error(transparent)]
    Memory(#[from] SnapshotError),
    /// A table has at most as many buckets as a part of a key's hash can distinguish.
    #[error("no table is for {rows} rows; make it smaller")]
    Rows {
        /// The rows that were expected.
        rows: usize,
    },
    /// The operating system refuses the thread that resets bits.
    #[error("cannot start the thread that resets bits: {reason}")]
    Thread {
        /// The error of the operating system.
        reason: String,
    },
}
