//! Words of a command line, quoted as redis-cli reads and prints them: `SET k "a\x00b"`.

/// Splits a line into its words. Double quotes know `\n \r \t \a \b \\ \" \xHH`, single quotes only `\'`.
pub(crate) fn split(line: &str) -> Result<Vec<Vec<u8>>, String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start().as_bytes();
    while let Some(&first) = rest.first() {
        let (word, after) = match first {
            b'"' => double_quoted(&rest[1..]).ok_or("a double quote is not closed")?,
            b'\'' => single_quoted(&rest[1..]).ok_or("a single quote is not closed")?,
            _ => {
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                (rest[..end].to_vec(), &rest[end..])
            }
        };
        if after.first().is_some_and(|byte| !byte.is_ascii_whitespace()) {
            return Err("a closing quote is followed by more than a blank".to_owned());
        }
        words.push(word);
        rest = after.trim_ascii_start();
    }
    Ok(words)
}

/// The word up to the closing quote with its escapes resolved, and the rest after it.
fn double_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut at = 0;
    loop {
        match *text.get(at)? {
            b'"' => return Some((word, &text[at + 1..])),
            b'\\' => {
                let escaped = *text.get(at + 1)?;
                at += 1;
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'a' => 7,
                    b'b' => 8,
                    b'x' => {
                        let digits = std::str::from_utf8(text.get(at + 1..at + 3)?).ok()?;
                        at += 2;
                        u8::from_str_radix(digits, 16).ok()?
                    }
                    other => other,
                });
            }
            byte => word.push(byte),
        }
        at += 1;
    }
}

fn single_quoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut word = Vec::new();
    let mut at = 0;
    loop {
        match (*text.get(at)?, text.get(at + 1)) {
            (b'\'', _) => return Some((word, &text[at + 1..])),
            (b'\\', Some(b'\'')) => {
                word.push(b'\'');
                at += 1;
            }
            (byte, _) => word.push(byte),
        }
        at += 1;
    }
}

/// The bytes in double quotes, all but printable ASCII escaped.
pub(crate) fn quote(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for &byte in bytes {
        match byte {
            b'"' => text.push_str("\\\""),
            b'\\' => text.push_str("\\\\"),
            b'\n' => text.push_str("\\n"),
            b'\r' => text.push_str("\\r"),
            b'\t' => text.push_str("\\t"),
            7 => text.push_str("\\a"),
            8 => text.push_str("\\b"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text.push('"');
    text
}
