//! LZF, the compression of strings.
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

/// The farthest that a copy can be taken from, and the longest that it can be.
const BACK_MAX: usize = 1 << 13;
const COPY_MAX: usize = 264;
/// The longest run of bytes as they are.
const LITERAL_MAX: usize = 32;
/// Bytes that a copy stands for at least.
const COPY_MIN: usize = 3;
const PLACES_BITS: u32 = 14;

/// Compresses strings, one after the other, in memory that is used again.
pub(crate) struct Compressor {
    /// For the hash of three bytes, where they stood last. Places are counted on from string to string, so
    /// that nothing has to be cleared before the next.
    places: Vec<u32>,
    /// The place of the first byte of the next string; 0 is none.
    begins: u32,
    packed: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new() -> Compressor {
        Compressor { places: vec![0; 1 << PLACES_BITS], begins: 1, packed: Vec::new() }
    }

    /// The string, compressed; `None` unless that saves `saved_min` bytes at least.
    pub(crate) fn compress(&mut self, string: &[u8], saved_min: usize) -> Option<&[u8]> {
        let len_max = string.len().checked_sub(saved_min)?;
        let len = u32::try_from(string.len()).ok()?;
        if self.begins.checked_add(len).is_none() {
            self.places.fill(0);
            self.begins = 1;
        }
        let base = self.begins;
        self.begins = base.checked_add(len)?;
        self.packed.clear();
        let (mut at, mut literal) = (0, 0);
        while at + COPY_MIN <= string.len() {
            let place = base + at as u32;
            let before = std::mem::replace(&mut self.places[hash(&string[at..])], place);
            // What stood in a string before this one is nothing that a copy can be taken from.
            let from = before.checked_sub(base).map(|from| from as usize);
            let same = |from: &usize| {
                at - from <= BACK_MAX && string[*from..from + COPY_MIN] == string[at..at + COPY_MIN]
            };
            let Some(from) = from.filter(same) else {
                at += 1;
                continue;
            };
            let end = string.len().min(at + COPY_MAX);
            let further = string[from + COPY_MIN..].iter().zip(&string[at + COPY_MIN..end]);
            let count = COPY_MIN + further.take_while(|(old, new)| old == new).count();
            self.put_literal(&string[literal..at]);
            self.put_copy(at - from, count);
            if self.packed.len() > len_max {
                return None;
            }
            at += count;
            literal = at;
        }
        self.put_literal(&string[literal..]);
        (self.packed.len() <= len_max).then_some(&self.packed)
    }

    fn put_literal(&mut self, bytes: &[u8]) {
        for run in bytes.chunks(LITERAL_MAX) {
            self.packed.push(run.len() as u8 - 1);
            self.packed.extend_from_slice(run);
        }
    }

    fn put_copy(&mut self, back: usize, count: usize) {
        let (back, count) = (back - 1, count - 2);
        let high = (back >> 8) as u8;
        match count {
            0..7 => self.packed.push((count as u8) << 5 | high),
            _ => self.packed.extend_from_slice(&[7 << 5 | high, (count - 7) as u8]),
        }
        self.packed.push(back as u8);
    }
}

/// Of the first three bytes.
fn hash(bytes: &[u8]) -> usize {
    let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
    (number.wrapping_mul(0x9E37_79B1) >> (32 - PLACES_BITS)) as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_repeats_itself_becomes_copies() {
        let mut compressor = Compressor::new();
        let mut compressed = |string: &[u8]| compressor.compress(string, 1).map(<[u8]>::to_vec);
        assert_eq!(compressed(&b"a".repeat(11)), Some(b"\x00a\xe0\x01\x00".to_vec()));
        assert_eq!(compressed(b"abcabc"), None, "a literal and a copy take as many bytes");
        assert_eq!(compressed(b"abcabcabc"), Some(b"\x02abc\x80\x02".to_vec()));
        // The second string does not refer to the first.
        assert_eq!(compressed(b"abcabcabc"), Some(b"\x02abc\x80\x02".to_vec()));
        assert_eq!(compressed(b"abcdefgh"), None);
        assert_eq!(compressed(b""), None);
        assert_eq!(compressor.compress(&b"a".repeat(11), 7), None, "six bytes are saved, not seven");
        assert!(compressor.compress(&b"a".repeat(11), 6).is_some());
    }

    #[test]
    fn places_begin_again_when_they_are_used_up() {
        let mut compressor = Compressor::new();
        let string = b"abc".repeat(100);
        let expected = compressor.compress(&string, 4).map(<[u8]>::to_vec);
        compressor.begins = u32::MAX - 100;
        assert_eq!(compressor.compress(&string, 4).map(<[u8]>::to_vec), expected);
        assert_eq!(compressor.begins, 301);
    }

    proptest! {
        #[test]
        fn what_is_compressed_comes_back(
            strings in prop::collection::vec(
                prop::collection::vec((0..5_u8, any::<u8>(), 1..400_usize), 0..40), 1..4),
            saved_min in 0..6_usize,
        ) {
            let mut compressor = Compressor::new();
            for pieces in strings {
                let mut string: Vec<u8> = Vec::new();
                for (kind, byte, count) in pieces {
                    match kind {
                        0 => string.extend((0..count).map(|at| ((at * (usize::from(byte) | 1)) >> 3) as u8)),
                        1 => string.extend(std::iter::repeat_n(byte, count)),
                        2 => string.push(byte),
                        3 => string.extend(b"the same words ".iter().cycle().take(count)),
                        _ => string.extend((0..9_000_u32).map(|at| (at.wrapping_mul(7_919) >> 9) as u8)),
                    }
                }
                let Some(packed) = compressor.compress(&string, saved_min) else { continue };
                prop_assert!(packed.len() + saved_min <= string.len());
                let mut out = Vec::new();
                prop_assert!(decompress(packed, string.len(), &mut out).is_some());
                prop_assert!(out == string);
            }
        }
    }

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
