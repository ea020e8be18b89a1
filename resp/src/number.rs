//! Integers as Redis reads them: one spelling for one number.

/// Reads a signed decimal integer in its only accepted spelling: no plus sign, no leading zero, no `-0`, no
/// spaces.
///
/// Returns `None` for any other text and for numbers that do not fit 64 bits.
pub fn parse_i64(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // Nineteen digits always fit an unsigned 64-bit number.
    let mut magnitude = 0u64;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit);
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

/// Reads a whole line of up to four digits at `at`, the usual case: the number and the offset after the line.
/// `None` says nothing about the line; it must be read the careful way.
#[inline(always)]
pub(crate) fn short_count(request: &[u8], at: usize) -> Option<(u16, usize)> {
    let mut count = 0;
    for digits in 0..5 {
        let byte = *request.get(at + digits)?;
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            let ends = digits > 0 && byte == b'\r' && at + digits + 1 < request.len();
            return ends.then_some((count, at + digits + 2));
        }
        // A zero must be the only digit.
        if digits > 0 && count == 0 || digits == 4 {
            return None;
        }
        count = count * 10 + u16::from(digit);
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::{parse_i64, short_count};
    use proptest::prelude::*;

    #[test]
    fn only_the_canonical_spelling_is_a_number() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "-0",
            "-01",
            "00",
            " 1",
            "1 ",
            "1a",
            "0x1",
            "1.0",
            "\u{661}",
            "--1",
            "99999999999999999999",
        ] {
            assert_eq!(parse_i64(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn the_range_ends_where_sixty_four_bits_end() {
        assert_eq!(parse_i64(b"9223372036854775807"), Some(i64::MAX));
        assert_eq!(parse_i64(b"9223372036854775808"), None);
        assert_eq!(parse_i64(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(parse_i64(b"-9223372036854775809"), None);
        assert_eq!(parse_i64(b"0"), Some(0));
    }

    #[test]
    fn short_lines_are_read_at_once_and_others_left_to_the_careful_way() {
        for (line, count) in
            [("0\r\n", 0), ("7\r\n", 7), ("10\r\n", 10), ("999\r\n", 999), ("9999\r\n", 9999)]
        {
            assert_eq!(short_count(line.as_bytes(), 0), Some((count, line.len())), "{line:?}");
            assert_eq!(short_count(&line.as_bytes()[..line.len() - 1], 0), None);
        }
        for line in ["\r\n", "00\r\n", "01\r\n", "-1\r\n", "10000\r\n", "1x\r\n", "1\n\n", "", "12"] {
            assert_eq!(short_count(line.as_bytes(), 0), None, "{line:?}");
        }
        assert_eq!(short_count(b"$3\r\n", 1), Some((3, 4)));
        assert_eq!(short_count(b"", 1), None);
    }

    proptest! {
        #[test]
        fn every_number_is_read_from_its_own_text(number: i64) {
            prop_assert_eq!(parse_i64(number.to_string().as_bytes()), Some(number));
        }

        #[test]
        fn text_that_reads_as_a_number_is_that_number_s_text(text in "[-0-9]{0,21}") {
            if let Some(number) = parse_i64(text.as_bytes()) {
                prop_assert_eq!(number.to_string(), text);
            }
        }
    }
}
