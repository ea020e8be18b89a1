//! Splits an inline command, a line as a person types it, into arguments.
//!
//! Words are separated by white space. Inside double quotes `\n \r \t \b \a \xHH` have their meaning in C and
//! any other `\c` means `c`; inside single quotes only `\'` is special. A closing quote must end the word.
//! Where Redis would stop at a NUL byte, it is an ordinary byte here.

use super::args::ArgRange;
use super::error::ProtocolError;

/// Appends the words of `line`, unescaped, to `text` and their places to `ranges`.
pub(super) fn split(
    line: &[u8],
    text: &mut Vec<u8>,
    ranges: &mut Vec<ArgRange>,
) -> Result<(), ProtocolError> {
    let mut rest = line;
    loop {
        while let [byte, tail @ ..] = rest
            && is_space(*byte)
        {
            rest = tail;
        }
        if rest.is_empty() {
            return Ok(());
        }
        let start = text.len();
        rest = word(rest, text)?;
        // An inline command is at most 64 KiB and unescaping only shortens.
        ranges.push(ArgRange { start: start as u32, len: (text.len() - start) as u32 });
    }
}

/// Appends the first word of `rest` to `text` and returns the rest after it.
fn word<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match rest {
            [] => return Ok(rest),
            [b' ' | b'\t' | b'\r' | b'\n', ..] => return Ok(rest),
            [b'"', tail @ ..] => return closed(double_quoted(tail, text)?),
            [b'\'', tail @ ..] => return closed(single_quoted(tail, text)?),
            [byte, tail @ ..] => {
                text.push(*byte);
                rest = tail;
            }
        }
    }
}

/// Checks that a closing quote has ended the word.
fn closed(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(ProtocolError::UnbalancedQuotes),
        _ => Ok(rest),
    }
}

/// Appends the text before the closing `"` and returns the rest after it.
fn double_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', tail @ ..] => return Ok(tail),
            [b'\\', b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                (hex(*high) << 4 | hex(*low), tail)
            }
            [b'\\', byte, tail @ ..] => (control(*byte), tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        text.push(byte);
        rest = tail;
    }
}

/// Appends the text before the closing `'` and returns the rest after it.
fn single_quoted<'a>(mut rest: &'a [u8], text: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        let (byte, tail) = match rest {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', tail @ ..] => return Ok(tail),
            [b'\\', b'\'', tail @ ..] => (b'\'', tail),
            [byte, tail @ ..] => (*byte, tail),
        };
        text.push(byte);
        rest = tail;
    }
}

/// The byte of the escape `\c`.
fn control(escaped: u8) -> u8 {
    match escaped {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'a' => 0x07,
        other => other,
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit.to_ascii_uppercase().wrapping_sub(b'A').wrapping_add(10),
    }
}

/// White space as C's `isspace` has it: vertical tab and form feed count before a word, not inside one.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn words(line: &[u8]) -> Result<Vec<Vec<u8>>, ProtocolError> {
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        split(line, &mut text, &mut ranges)?;
        Ok(ranges.iter().map(|r| text[r.start as usize..(r.start + r.len) as usize].to_vec()).collect())
    }

    #[test]
    fn words_and_quotes_mean_what_they_mean_in_redis() {
        let cases: &[(&[u8], &[&[u8]])] = &[
            (b"", &[]),
            (b" \t ", &[]),
            (b"PING", &[b"PING"]),
            (b"  set  a\tb ", &[b"set", b"a", b"b"]),
            (br#"set a "b c""#, &[b"set", b"a", b"b c"]),
            (br#"set a """#, &[b"set", b"a", b""]),
            (br#"set a ''"#, &[b"set", b"a", b""]),
            (br#""\x00\xfF\n\r\t\b\a\q\"\\""#, &[b"\x00\xff\n\r\t\x08\x07q\"\\"]),
            (br#""\xg0\x1""#, &[b"xg0x1"]),
            (br"'it\'s \n'", &[br"it's \n"]),
            (br#"ab"cd" e"#, &[b"abcd", b"e"]),
            (br"a\nb", &[br"a\nb"]),
            (b"a\x0bb \x0bc", &[b"a\x0bb", b"c"]),
            (b"a\0b", &[b"a\0b"]),
            (b"a\rb", &[b"a", b"b"]),
        ];
        for (line, expected) in cases {
            assert_eq!(words(line).unwrap(), *expected, "{}", line.escape_ascii());
        }
    }

    #[test]
    fn quotes_that_do_not_close_or_do_not_end_the_word_are_refused() {
        for line in [r#"""#, r#"a "b"#, r#""a"b"#, "'", "'a'b", r#""a\""#, r#""\"#, r"'\'", r#""a"'b'"#] {
            assert_eq!(words(line.as_bytes()), Err(ProtocolError::UnbalancedQuotes), "{line}");
        }
    }
}
