//! Replies as redis-cli shows them on a terminal, without its last line end.
//!
//! ```text
//! 1) "a"
//! 2) 1) (integer) 1
//!    2) (nil)
//! ```
//!
//! Maps are numbered `1#` with `=>` between key and value, sets `1~`, attributes `1|` on the lines before
//! their reply.

use std::fmt::{self, Display, Formatter, Write};

use super::types::Frame;

impl Display for Frame {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        show(self, "", f)
    }
}

/// Shows a frame whose first line comes after `margin`, where its further lines begin with that margin.
fn show(frame: &Frame, margin: &str, f: &mut Formatter<'_>) -> fmt::Result {
    match frame {
        Frame::Simple(text) | Frame::Verbatim(_, text) => lossy(text, f),
        Frame::Error(text) | Frame::BulkError(text) => {
            f.write_str("(error) ")?;
            lossy(text, f)
        }
        Frame::Integer(number) => write!(f, "(integer) {number}"),
        Frame::Bulk(bytes) => quoted(bytes, f),
        Frame::NullBulk | Frame::NullArray | Frame::Null => f.write_str("(nil)"),
        Frame::Boolean(truth) => write!(f, "({truth})"),
        Frame::Double(text) => {
            f.write_str("(double) ")?;
            lossy(text, f)
        }
        Frame::BigNumber(text) => {
            f.write_str("(big number) ")?;
            lossy(text, f)
        }
        Frame::Array(frames) => list(frames, ')', "(empty array)", margin, f),
        Frame::Set(frames) => list(frames, '~', "(empty set)", margin, f),
        Frame::Push(frames) => list(frames, ')', "(empty push)", margin, f),
        Frame::Map(pairs) => map(pairs, '#', "(empty hash)", margin, f),
        Frame::Attributed(pairs, reply) => {
            map(pairs, '|', "(no attributes)", margin, f)?;
            write!(f, "\n{margin}")?;
            show(reply, margin, f)
        }
    }
}

fn list(frames: &[Frame], mark: char, empty: &str, margin: &str, f: &mut Formatter<'_>) -> fmt::Result {
    if frames.is_empty() {
        return f.write_str(empty);
    }
    let width = digits(frames.len());
    let inner = format!("{margin}{:1$}", "", width + 2);
    for (index, frame) in frames.iter().enumerate() {
        number(index, width, mark, margin, f)?;
        show(frame, &inner, f)?;
    }
    Ok(())
}

fn map(
    pairs: &[(Frame, Frame)],
    mark: char,
    empty: &str,
    margin: &str,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    if pairs.is_empty() {
        return f.write_str(empty);
    }
    let width = digits(pairs.len());
    let inner = format!("{margin}{:1$}", "", width + 2);
    for (index, (key, value)) in pairs.iter().enumerate() {
        number(index, width, mark, margin, f)?;
        show(key, &inner, f)?;
        f.write_str(" => ")?;
        // Values of several lines begin on one of their own.
        let shown = fmt::from_fn(|f| show(value, &inner, f)).to_string();
        if shown.contains('\n') {
            write!(f, "\n{inner}")?;
        }
        f.write_str(&shown)?;
    }
    Ok(())
}

/// Begins the line of an element. The outer element has already written the first one's margin.
fn number(index: usize, width: usize, mark: char, margin: &str, f: &mut Formatter<'_>) -> fmt::Result {
    if index > 0 {
        write!(f, "\n{margin}")?;
    }
    write!(f, "{:width$}{mark} ", index + 1)
}

fn digits(count: usize) -> usize {
    count.checked_ilog10().unwrap_or(0) as usize + 1
}

fn lossy(text: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_str(&String::from_utf8_lossy(text))
}

/// Bytes in double quotes, all that is not printable ASCII escaped.
fn quoted(bytes: &[u8], f: &mut Formatter<'_>) -> fmt::Result {
    f.write_char('"')?;
    for &byte in bytes {
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            0x07 => f.write_str("\\a")?,
            0x08 => f.write_str("\\b")?,
            b' '..=b'~' => f.write_char(char::from(byte))?,
            _ => write!(f, "\\x{byte:02x}")?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn replies_look_as_in_redis_cli() {
        let nested = Frame::Array(vec![
            Frame::bulk("a\n\x00\"\u{e9}"),
            Frame::Array(vec![Frame::Integer(1), Frame::NullBulk, Frame::Array(vec![])]),
            Frame::error("ERR no"),
            Frame::simple("OK"),
        ]);
        let shown = r#"1) "a\n\x00\"\xc3\xa9"
2) 1) (integer) 1
   2) (nil)
   3) (empty array)
3) (error) ERR no
4) OK"#;
        assert_eq!(nested.to_string(), shown);
    }

    #[test]
    fn maps_show_keys_with_values_and_numbers_are_aligned() {
        let pairs = (1..=10).map(|number| (Frame::Integer(number), Frame::Boolean(true))).collect();
        let shown = Frame::Map(pairs).to_string();
        assert!(shown.starts_with(" 1# (integer) 1 => (true)\n 2# "), "{shown}");
        assert!(shown.ends_with("\n10# (integer) 10 => (true)"), "{shown}");
        let two = Frame::Array(vec![Frame::Integer(1), Frame::Integer(2)]);
        let map = Frame::Map(vec![(Frame::simple("a"), two), (Frame::simple("b"), Frame::Set(vec![]))]);
        let shown = ["1# a => ", "   1) (integer) 1", "   2) (integer) 2", "2# b => (empty set)"].join("\n");
        assert_eq!(map.to_string(), shown);
        let set = Frame::Set(vec![Frame::Double(b"1.5".to_vec())]);
        let attributed = Frame::Attributed(vec![(Frame::bulk("ttl"), Frame::Integer(3))], Box::new(set));
        assert_eq!(attributed.to_string(), "1| \"ttl\" => (integer) 3\n1~ (double) 1.5");
    }
}
