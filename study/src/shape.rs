//! The shape of an array: the number of its rows and their length.

use crate::error::SnapshotError;

/// The number of rows of an array, and their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Rows.
    pub rows: usize,
    /// Fields of a row, each of 8 bytes.
    pub fields: usize,
}

impl Shape {
    /// `rows` rows of `row_bytes` bytes each, a multiple of 8.
    pub fn new(rows: usize, row_bytes: usize) -> Result<Shape, SnapshotError> {
        if rows == 0 {
            return Err(SnapshotError::NoRows);
        }
        if row_bytes == 0 || !row_bytes.is_multiple_of(8) {
            return Err(SnapshotError::RowBytes(row_bytes));
        }
        Ok(Shape { rows, fields: row_bytes / 8 })
    }

    /// Bytes of a row.
    pub const fn row_bytes(&self) -> usize {
        self.fields * 8
    }
}
