//! The words of a configuration line: splitting them, quotes and escapes undone, and quoting them again.
//!
//! A word is a run of bytes without white space. Inside double quotes `\n \r \t \b \a`, `\xHH` and `\` before
//! any other byte are escapes; inside single quotes only `\'` is. A closing quote ends its word.
//! `split_args(&join_args(words)) == words` for every list of words.

/// Splits one line into its words; `None` if a quote is left open or is not followed by white space.
pub fn split_args(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start_with_vt();
        if rest.is_empty() {
            return Some(words);
        }
        let (word, after) = take_word(rest)?;
        words.push(word);
        rest = after;
    }
}

/// Writes words as one line that [`split_args`] reads back.
pub fn join_args<T: AsRef<[u8]>>(words: &[T]) -> Vec<u8> {
    let mut line = Vec::new();
    for (i, word) in words.iter().enumerate() {
        if i > 0 {
            line.push(b' ');
        }
        line.extend_from_slice(&quote_arg(word.as_ref()));
    }
    line
}

/// One word as it stands in a file: bare where that is unambiguous, otherwise in double quotes with escapes.
pub fn quote_arg(word: &[u8]) -> Vec<u8> {
    let bare = |b: &u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\'' | b'\\' | b'#');
    if !word.is_empty() && word.iter().all(bare) {
        return word.to_vec();
    }
    let mut out = vec![b'"'];
    for &byte in word {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
    out
}

/// White space as C's `isspace` has it.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

trait TrimStart {
    fn trim_ascii_start_with_vt(&self) -> &[u8];
}

impl TrimStart for [u8] {
    fn trim_ascii_start_with_vt(&self) -> &[u8] {
        let start = self.iter().position(|&b| !is_space(b)).unwrap_or(self.len());
        &self[start..]
    }
}

/// Takes the word at the start of `line` (not empty, no leading white space) and gives what follows it.
fn take_word(line: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut at = 0;
    while at < line.len() {
        match line[at] {
            quote @ (b'"' | b'\'') => {
                let after = take_quoted(&line[at + 1..], quote, &mut word)?;
                let closed_well = after.first().is_none_or(|&b| is_space(b));
                return closed_well.then_some((word, after));
            }
            byte if is_space(byte) => break,
            byte => word.push(byte),
        }
        at += 1;
    }
    Some((word, &line[at..]))
}

/// Reads up to the closing `quote`, appends the content to `word` and gives what follows the quote.
fn take_quoted<'a>(text: &'a [u8], quote: u8, word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut at = 0;
    while at < text.len() {
        let byte = text[at];
        if byte == quote {
            return Some(&text[at + 1..]);
        }
        match (byte, text.get(at + 1)) {
            (b'\\', Some(b'\'')) if quote == b'\'' => {
                word.push(b'\'');
                at += 2;
            }
            (b'\\', Some(&escaped)) if quote == b'"' => {
                let (value, width) = unescape(escaped, &text[at + 2..]);
                word.push(value);
                at += width;
            }
            _ => {
                word.push(byte);
                at += 1;
            }
        }
    }
    None
}

/// The byte that `\` `escaped` stands for, and the width of the whole escape.
fn unescape(escaped: u8, after: &[u8]) -> (u8, usize) {
    let hex = |i: usize| after.get(i).and_then(|&b| (b as char).to_digit(16));
    match (escaped, hex(0), hex(1)) {
        (b'x', Some(high), Some(low)) => ((high * 16 + low) as u8, 4),
        (b'n', ..) => (b'\n', 2),
        (b'r', ..) => (b'\r', 2),
        (b't', ..) => (b'\t', 2),
        (b'b', ..) => (0x08, 2),
        (b'a', ..) => (0x07, 2),
        (other, ..) => (other, 2),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn split(line: &str) -> Option<Vec<String>> {
        let words = split_args(line.as_bytes())?;
        Some(words.into_iter().map(|w| String::from_utf8(w).unwrap()).collect())
    }

    #[test]
    fn words_are_parted_by_any_white_space() {
        assert_eq!(split(" save  60\t1 \r").unwrap(), ["save", "60", "1"]);
        assert_eq!(split("").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn quotes_keep_space_and_escapes_are_undone() {
        assert_eq!(split(r#"a "b c" 'd e' "" "\x41\n\"\q""#).unwrap(), ["a", "b c", "d e", "", "A\n\"q"]);
        assert_eq!(split(r"'it\'s \n'").unwrap(), [r"it's \n"]);
        assert_eq!(split(r#"pre"fix x""#).unwrap(), ["prefix x"]);
    }

    #[test]
    fn open_quotes_and_text_after_a_closing_quote_are_refused() {
        for line in [r#"a "b"#, "a 'b", r#"a "b"c"#, "'a'b", r#""\"#, "\""] {
            assert_eq!(split(line), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn joined_words_split_into_themselves(
            words in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..6),
        ) {
            prop_assert_eq!(split_args(&join_args(&words)).unwrap(), words);
        }

        #[test]
        fn splitting_never_panics(line in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = split_args(&line);
        }
    }
}
