//! The errors of this package.

use std::ops::Range;

use thiserror::Error;

/// Why an array cannot be made, or a row not be reached.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// Rows consist of fields of 8 bytes.
    #[error("a row of {0} bytes is no run of 8-byte fields; take a multiple of 8, at least 8")]
    RowBytes(usize),
    /// There is nothing to take a snapshot of.
    #[error("an array needs at least one row")]
    NoRows,
    /// Every client owns rows.
    #[error(
        "{clients} clients cannot share {rows} rows: each gets whole groups of 64 rows, and at least one"
    )]
    Clients {
        /// The number that was asked for.
        clients: usize,
        /// The rows of the array.
        rows: usize,
    },
    /// The memory for all copies of the rows is not to be had.
    #[error("the array needs {need_bytes} bytes of memory, {}; make it smaller", limit(*have_bytes))]
    Memory {
        /// Bytes of the rows, in all copies that the algorithm may come to have.
        need_bytes: u128,
        /// Bytes that can be had, unless it is the allocator that refuses.
        have_bytes: Option<u64>,
    },
    /// The operating system refused a request of the algorithm, or the algorithm's child process has failed.
    #[error("cannot {action}: {reason}")]
    System {
        /// The attempted action.
        action: &'static str,
        /// The error of the operating system.
        reason: String,
    },
    /// The row is not the client's.
    #[error("row {row} is not among the client's rows {} to {}", range.start, range.end - 1)]
    ForeignRow {
        /// The row that was asked for.
        row: usize,
        /// The rows that the client owns.
        range: Range<usize>,
    },
    /// The row does not exist.
    #[error("there is no row {row}: the rows are 0 to {}", rows - 1)]
    NoSuchRow {
        /// The row that was asked for.
        row: usize,
        /// The rows there are.
        rows: usize,
    },
    /// The field does not exist, or a row of another length was given.
    #[error("a row has {fields} fields; field or length {given} does not fit")]
    Fields {
        /// Fields of a row.
        fields: usize,
        /// The number that was given.
        given: usize,
    },
}

fn limit(have_bytes: Option<u64>) -> String {
    have_bytes.map_or("which the system refuses".to_owned(), |have| format!("and {have} can be had"))
}
