//! LZF, the compression of strings; reading only.
//!
//! ```text
//!   000lllll                              l + 1 bytes as they are
//!   lllooooo oooooooo                     l + 2 bytes (l from 1 to 6) that stand o + 1 bytes back
//!   111ooooo llllllll oooooooo            l + 9 bytes that stand o + 1 bytes back
//! ```
//!
//! A copy may overlap the text that it makes: one byte back repeats a byte.

/// The most that one byte can become.
pub(crate) const EXPANSION_MAX: u64 = 88;

/// Unpacks `len` bytes of `packed`, and appends them to `out`. `None` if the result is not exactly that long;
/// then `out` has any part of it.
///
/// `out` grows as bytes are made, never by `len` alone.
pub(crate) fn decompress(packed: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    let mut rest = packed;
    while let Some((&control, tail)) = rest.split_first() {
        rest = tail;
        let made = out.len() - start;
        if control < 32 {
            let (literal, tail) = rest.split_at_checked(usize::from(control) + 1)?;
            rest = tail;
            if literal.len() > len - made {
                return None;
            }
            out.extend_from_slice(literal);
            continue;
        }
        let mut count = usize::from(control >> 5);
        if count == 7 {
            let (&more, tail) = rest.split_first()?;
            rest = tail;
            count += usize::from(more);
        }
        let (&low, tail) = rest.split_first()?;
        rest = tail;
        let (count, back) = (count + 2, (usize::from(control & 31) << 8 | usize::from(low)) + 1);
        if back > made || count > len - made {
            return None;
        }
        repeat(out, back, count);
    }
    (out.len() - start == len).then_some(())
}

/// Appends `count` bytes, each a copy of the one that is `back` bytes before it.
fn repeat(out: &mut Vec<u8>, back: usize, count: usize) {
    let from = out.len() - back;
    let mut left = count;
    while left > 0 {
        // Copied bytes can be copied from: the piece doubles each time.
        let piece = left.min(out.len() - from);
        out.extend_from_within(from..from + piece);
        left -= piece;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(packed: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = b"before".to_vec();
        decompress(packed, len, &mut out)?;
        assert!(out.starts_with(b"before"));
        Some(out.split_off(6))
    }

    #[test]
    fn literals_and_copies_become_what_they_stand_for() {
        assert_eq!(made(b"", 0), Some(vec![]));
        assert_eq!(made(b"\x02abc", 3), Some(b"abc".to_vec()));
        // Three bytes from three back, then one that repeats itself ten times.
        assert_eq!(made(b"\x02abc\x20\x02", 6), Some(b"abcabc".to_vec()));
        assert_eq!(made(b"\x00a\xe0\x01\x00", 11), Some(b"a".repeat(11)));
        // Seven bytes from two back.
        assert_eq!(made(b"\x01ab\xa0\x01", 9), Some(b"ababababa".to_vec()));
        // The longest copy, from the farthest place.
        let mut packed = Vec::new();
        (0..256).for_each(|number| packed.extend([&[31][..], &[number as u8; 32]].concat()));
        packed.extend(b"\xff\xff\xff");
        let whole = made(&packed, 8192 + 264).expect("it is whole");
        assert_eq!(whole[8192..], whole[..264]);
    }

    #[test]
    fn a_byte_becomes_at_most_what_is_said() {
        let packed = [b"\x00a".to_vec(), b"\xe0\xff\x00".repeat(100)].concat();
        let len = 1 + 264 * 100;
        assert_eq!(made(&packed, len).map(|whole| whole.len()), Some(len));
        assert!(len as u64 <= packed.len() as u64 * EXPANSION_MAX);
    }

    #[test]
    fn anything_else_is_refused() {
        for (packed, len) in [
            (&b"\x02ab"[..], 3),     // cut within a literal
            (b"\x02abc", 2),         // more than said
            (b"\x02abc", 4),         // less than said
            (b"\x02abc\x20", 6),     // cut within a copy
            (b"\x02abc\xe0", 12),    // cut within the length of a copy
            (b"\x02abc\x20\x03", 6), // from before the beginning
            (b"\x20\x00", 3),        // nothing to copy from
            (b"\x02abc\x20\x02", 5), // a copy beyond what is said
        ] {
            assert_eq!(made(packed, len), None, "{packed:?}");
        }
    }
}
