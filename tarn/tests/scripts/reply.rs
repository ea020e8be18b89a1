//! A reply as it came over the wire, and the notation in which scripts write it.
//!
//! The reader is deliberately not the one of `tarn-resp`: a server and a client that share a mistake would
//! agree.

use crate::words::quote;
use std::io::{BufRead, Error, ErrorKind, Result};

/// Up to here a reply is written on one line.
const COLUMNS_MAX: usize = 100;

/// One RESP2 or RESP3 value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Simple(String),
    Error(String),
    Integer(String),
    Double(String),
    Boolean(bool),
    BigNumber(String),
    Bulk(Vec<u8>),
    /// The format (`txt`), then the text.
    Verbatim(String, Vec<u8>),
    /// RESP2's null bulk string, `$-1`.
    NullBulk,
    /// RESP2's null array, `*-1`.
    NullArray,
    /// RESP3's only null, `_`.
    Null,
    Array(Vec<Reply>),
    Set(Vec<Reply>),
    Push(Vec<Reply>),
    /// Keys and values in turn.
    Map(Vec<Reply>),
    /// Not of the wire: this number of any elements.
    Elements(usize),
    /// The server closed the connection instead of answering.
    Closed,
}

/// The order of the elements of arrays before they are compared and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// As they came.
    Kept,
    /// The innermost arrays are sorted: the server may choose their order.
    Sorted,
    /// The innermost arrays are sorted as pairs of a field and its value.
    SortedPairs,
    /// Only how many there are: chance chooses which.
    Counted,
}

impl Reply {
    /// Reads one value.
    pub(crate) fn read(from: &mut impl BufRead) -> Result<Reply> {
        let Some(line) = read_line(from)? else { return Ok(Reply::Closed) };
        let (kind, text) = (line[0], String::from_utf8_lossy(&line[1..]).into_owned());
        Ok(match kind {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(text),
            b',' => Reply::Double(text),
            b'#' => Reply::Boolean(text == "t"),
            b'(' => Reply::BigNumber(text),
            b'_' => Reply::Null,
            b'$' if text == "-1" => Reply::NullBulk,
            b'*' if text == "-1" => Reply::NullArray,
            b'$' => Reply::Bulk(read_bytes(from, &text)?),
            b'=' => {
                let bytes = read_bytes(from, &text)?;
                let (format, rest) =
                    bytes.split_at_checked(4).ok_or_else(|| malformed("a verbatim string", &text))?;
                Reply::Verbatim(String::from_utf8_lossy(&format[..3]).into_owned(), rest.to_vec())
            }
            b'*' => Reply::Array(read_values(from, count(&text)?)?),
            b'~' => Reply::Set(read_values(from, count(&text)?)?),
            b'>' => Reply::Push(read_values(from, count(&text)?)?),
            b'%' => Reply::Map(read_values(from, 2 * count(&text)?)?),
            _ => return Err(malformed("a reply", &String::from_utf8_lossy(&line))),
        })
    }

    /// The same reply with its arrays ordered as asked.
    pub(crate) fn ordered(self, order: Order) -> Reply {
        match (self, order) {
            (reply, Order::Kept) => reply,
            (Reply::Array(values) | Reply::Set(values), Order::Counted) => Reply::Elements(values.len()),
            (Reply::Array(values), _) => Reply::Array(ordered(values, order, order == Order::SortedPairs)),
            (Reply::Set(values), _) => Reply::Set(ordered(values, order, false)),
            (Reply::Push(values), _) => Reply::Push(ordered(values, order, false)),
            (Reply::Map(values), _) => {
                let values = values.into_iter().map(|value| value.ordered(order)).collect();
                Reply::Map(sorted(values, true))
            }
            (reply, _) => reply,
        }
    }

    /// On one line.
    pub(crate) fn line(&self) -> String {
        match self {
            Reply::Error(text) if is_visible(text) => format!("(error) {text}"),
            Reply::Simple(text) if is_plain(text) => text.clone(),
            _ => self.nested(),
        }
    }

    /// As scripts have it: on one line if that is short, else broken at the elements.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = self.line();
        if line.len() <= COLUMNS_MAX {
            return vec![line];
        }
        let mut lines = Vec::new();
        self.push_lines("", "", &mut lines);
        lines
    }

    fn push_lines(&self, indent: &str, end: &str, lines: &mut Vec<String>) {
        let line = if indent.is_empty() { self.line() } else { self.nested() };
        let Some((open, values, close)) = self.elements() else {
            lines.push(format!("{indent}{line}{end}"));
            return;
        };
        if indent.len() + line.len() <= COLUMNS_MAX {
            lines.push(format!("{indent}{line}{end}"));
            return;
        }
        lines.push(format!("{indent}{open}"));
        let deeper = format!("{indent}  ");
        let mut is_fillable = false;
        for (index, value) in values.iter().enumerate() {
            let is_map_key = matches!(self, Reply::Map(_)) && index % 2 == 0;
            let end = match (index + 1 == values.len(), is_map_key) {
                (true, _) => "",
                (false, true) => ":",
                (false, false) => ",",
            };
            let (text, is_small) = (value.nested(), !value.holds_others());
            match lines.last_mut() {
                Some(last) if is_fillable && is_small && last.len() + text.len() < COLUMNS_MAX => {
                    last.push_str(&format!(" {text}{end}"));
                }
                _ => value.push_lines(&deeper, end, lines),
            }
            is_fillable = is_small;
        }
        lines.push(format!("{indent}{close}{end}"));
    }

    /// True if there is anything inside of it.
    fn holds_others(&self) -> bool {
        self.elements().is_some_and(|(_, values, _)| !values.is_empty())
    }

    /// Opening bracket, elements and closing bracket of a reply with other replies inside.
    fn elements(&self) -> Option<(&'static str, &[Reply], &'static str)> {
        match self {
            Reply::Array(values) => Some(("[", values, "]")),
            Reply::Set(values) => Some(("(set) [", values, "]")),
            Reply::Push(values) => Some(("(push) [", values, "]")),
            Reply::Map(values) => Some(("{", values, "}")),
            _ => None,
        }
    }

    /// As an element of an array, where free text has to be quoted.
    fn nested(&self) -> String {
        if let Some((open, values, close)) = self.elements() {
            let mut text = String::from(open);
            for (index, value) in values.iter().enumerate() {
                let is_map_value = matches!(self, Reply::Map(_)) && index % 2 == 1;
                text.push_str(if index == 0 {
                    ""
                } else if is_map_value {
                    ": "
                } else {
                    ", "
                });
                text.push_str(&value.nested());
            }
            text.push_str(close);
            return text;
        }
        match self {
            Reply::Simple(text) if is_plain(text) && !text.contains(' ') => text.clone(),
            Reply::Simple(text) => format!("(simple) {}", quote(text.as_bytes())),
            Reply::Error(text) => format!("(error) {}", quote(text.as_bytes())),
            Reply::Integer(text) => format!("(integer) {text}"),
            Reply::Double(text) => format!("(double) {text}"),
            Reply::BigNumber(text) => format!("(big) {text}"),
            Reply::Boolean(value) => format!("(boolean) {value}"),
            Reply::Bulk(bytes) => quote(bytes),
            Reply::Verbatim(format, bytes) => format!("(verbatim {format}) {}", quote(bytes)),
            Reply::NullBulk => "(nil)".to_owned(),
            Reply::NullArray => "(nil array)".to_owned(),
            Reply::Null => "(null)".to_owned(),
            Reply::Elements(count) => format!("({count} elements)"),
            Reply::Closed => "(closed)".to_owned(),
            Reply::Array(_) | Reply::Set(_) | Reply::Push(_) | Reply::Map(_) => unreachable!("has elements"),
        }
    }
}

/// True if a simple string can be written without quotes: a word or a few, like `OK` or `Background saving
/// started`.
fn is_plain(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic())
        && text.chars().all(|one| one.is_ascii_alphanumeric() || " -_@.".contains(one))
}

/// True if a text can be read on a line of its own: no blank at an end, nothing that cannot be printed.
fn is_visible(text: &str) -> bool {
    text.trim() == text && text.chars().all(|one| (' '..='~').contains(&one))
}

fn ordered(values: Vec<Reply>, order: Order, in_pairs: bool) -> Vec<Reply> {
    let is_innermost = values.iter().all(|value| value.elements().is_none());
    let values = values.into_iter().map(|value| value.ordered(order)).collect();
    if is_innermost { sorted(values, in_pairs) } else { values }
}

fn sorted(values: Vec<Reply>, in_pairs: bool) -> Vec<Reply> {
    let mut groups: Vec<Vec<Reply>> =
        values.chunks(if in_pairs { 2 } else { 1 }).map(<[Reply]>::to_vec).collect();
    groups.sort_by_key(|group| group.iter().map(Reply::nested).collect::<Vec<_>>());
    groups.concat()
}

/// The line without its end; `None` if the connection is at its end.
fn read_line(from: &mut impl BufRead) -> Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    match from.read_until(b'\n', &mut line) {
        Ok(0) => return Ok(None),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(error),
    }
    if !line.ends_with(b"\r\n") || line.len() < 3 {
        return Err(malformed("the head of a reply", &String::from_utf8_lossy(&line)));
    }
    line.truncate(line.len() - 2);
    Ok(Some(line))
}

fn read_bytes(from: &mut impl BufRead, length: &str) -> Result<Vec<u8>> {
    let mut bytes = vec![0; count(length)? + 2];
    from.read_exact(&mut bytes)?;
    if !bytes.ends_with(b"\r\n") {
        return Err(malformed("a bulk string without its end", length));
    }
    bytes.truncate(bytes.len() - 2);
    Ok(bytes)
}

fn read_values(from: &mut impl BufRead, count: usize) -> Result<Vec<Reply>> {
    (0..count).map(|_| Reply::read(from)).collect()
}

fn count(text: &str) -> Result<usize> {
    text.parse().map_err(|_| malformed("a length", text))
}

fn malformed(what: &str, text: &str) -> Error {
    Error::new(
        ErrorKind::InvalidData,
        format!("the server sent {what} that is none: {}", quote(text.as_bytes())),
    )
}
