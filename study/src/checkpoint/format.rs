//! The bytes of a checkpoint file; `docs/format/rows.md` is their page.
//!
//! ```text
//!   0        header, HEADER_BYTES
//!   4096     row 0, row 1, …           row r is at HEADER_BYTES + r * row_bytes
//!            a CRC32C for each piece of rows, then the CRC32C of those
//! ```

use crate::shape::Shape;

/// Rows begin here: at a page, so that they may be mapped.
pub(super) const HEADER_BYTES: usize = 4096;
/// Bytes of the rows that share a checksum, unless a row is longer.
const PIECE_BYTES: usize = 1 << 20;
const MAGIC: &[u8; 8] = b"TARNROW\n";
const VERSION: u32 = 1;
/// The header's fields; zeros follow.
const FIELDS_BYTES: usize = 36;

/// Where things are in the file of an array of a certain shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) shape: Shape,
}

impl Layout {
    /// Rows that share a checksum.
    pub(super) fn rows_per_piece(&self) -> usize {
        (PIECE_BYTES / self.shape.row_bytes()).max(1)
    }

    pub(super) fn pieces(&self) -> usize {
        self.shape.rows.div_ceil(self.rows_per_piece())
    }

    /// The rows of a piece: the first, and how many.
    pub(super) fn piece(&self, piece: usize) -> (usize, usize) {
        let first = piece * self.rows_per_piece();
        (first, self.rows_per_piece().min(self.shape.rows - first))
    }

    pub(super) fn row_offset(&self, row: usize) -> u64 {
        HEADER_BYTES as u64 + row as u64 * self.shape.row_bytes() as u64
    }

    /// Bytes of the checksums and their own.
    pub(super) fn trailer_bytes(&self) -> usize {
        (self.pieces() + 1) * 4
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.row_offset(self.shape.rows) + self.trailer_bytes() as u64
    }

    pub(super) fn header(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&(self.shape.row_bytes() as u64).to_le_bytes());
        bytes.extend_from_slice(&(self.shape.rows as u64).to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        debug_assert_eq!(bytes.len(), FIELDS_BYTES);
        bytes.resize(HEADER_BYTES, 0);
        bytes
    }

    /// The layout that a header describes, or the offset and the kind of its fault.
    pub(super) fn of_header(header: &[u8; HEADER_BYTES]) -> Result<Layout, (u64, &'static str)> {
        let u32_at = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        if &header[..8] != MAGIC {
            return Err((0, "this is no checkpoint of rows"));
        }
        if crc32c::crc32c(&header[..32]) != u32_at(32) {
            return Err((32, "the header's checksum does not fit"));
        }
        if u32_at(8) != VERSION {
            return Err((8, "its version is not 1; read it with a newer release"));
        }
        let shape = Shape::new(u64_at(24) as usize, u64_at(16) as usize).ok();
        // So that no later sum overflows.
        let shape = shape.filter(|shape| shape.rows.checked_mul(shape.row_bytes() * 2).is_some());
        shape.map(|shape| Layout { shape }).ok_or((16, "no array has rows like these"))
    }

    /// The trailer, from the checksum of each piece.
    pub(super) fn trailer(sums: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The checksums that a trailer has, unless it is damaged.
    pub(super) fn of_trailer(bytes: &[u8]) -> Option<Vec<u32>> {
        let (sums, [own]) = bytes.as_chunks::<4>().0.split_last_chunk::<1>()?;
        (crc32c::crc32c(sums.as_flattened()) == u32::from_le_bytes(*own))
            .then(|| sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect())
    }
}
