//! A run of bytes after its length, read from untrusted bytes.

/// The run of bytes at `at`, behind its length, and where it ends; `None` if there is none.
#[inline]
pub(crate) fn checked_run(bytes: &[u8], at: usize) -> Option<(&[u8], usize)> {
    let (len, at) = checked_length(bytes, at)?;
    let run = bytes.get(at..)?.get(..len)?;
    Some((run, at + len))
}

/// The length at `at`, and where it ends; `None` if there is none. There may be fewer bytes behind it.
#[inline]
pub(crate) fn checked_length(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut len = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        len |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some((len, at));
        }
    }
    None
}
