//! All fields of a hash in one cell: name and value in turn, each after its length.
//!
//! ```text
//!   4 bytes, little-endian: length of the name ─ name ─ 4 bytes: length of the value ─ value ─ …
//! ```

/// The fields as one cell.
pub(crate) fn of_hash<'h>(fields: impl Iterator<Item = (&'h [u8], &'h [u8])>) -> Vec<u8> {
    let mut cell = Vec::new();
    for part in fields.flat_map(|(name, value)| [name, value]) {
        // The store holds no value of 4 GB.
        cell.extend_from_slice(&(part.len() as u32).to_le_bytes());
        cell.extend_from_slice(part);
    }
    cell
}

/// The fields of a cell that [`of_hash`] made.
pub(crate) fn fields(cell: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let mut rest = cell;
    std::iter::from_fn(move || Some((part(&mut rest)?, part(&mut rest)?)))
}

fn part<'c>(rest: &mut &'c [u8]) -> Option<&'c [u8]> {
    let (len, behind) = rest.split_first_chunk::<4>()?;
    let (part, behind) = behind.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *rest = behind;
    Some(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_as_they_were() {
        let hash: [(&[u8], &[u8]); 3] = [(b"a", b"1"), (b"", b""), (b"\xff\0", b"a longer value")];
        let cell = of_hash(hash.into_iter());
        assert_eq!(fields(&cell).collect::<Vec<_>>(), hash);
        assert_eq!(fields(b"").count(), 0);
        assert_eq!(fields(&cell[..cell.len() - 1]).count(), 2);
    }
}
