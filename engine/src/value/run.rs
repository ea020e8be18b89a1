//! A run of bytes after its length, read from untrusted bytes.

/// The run of bytes at `at`, behind its length, and where it ends; `None` if there is none.
pub(crate) fn checked_run(bytes: &[u8], mut at: usize) -> Option<(&[u8], usize)> {
    let mut len = 0;
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        len |= usize::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            let run = bytes.get(at..)?.get(..len)?;
            return Some((run, at + len));
        }
    }
    None
}
