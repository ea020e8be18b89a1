//! The answer to a statement, in a form in which two answers can be compared.
//!
//! By design (`docs/sql.md`) these differ: the kind of number of a column, the number of digits of a numeric
//! and its digits from the fifteenth on, the sign of zero, and that a value out of range for PostgreSQL's
//! type may have an answer here.

use crate::running::postgres::{Postgres, extended, message};

/// A column's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number,
    Text,
    Truth,
    Day,
    Moment,
    Other(u32),
}

/// An answer: its columns and rows, or its error.
#[derive(Debug)]
pub(crate) struct Seen {
    pub kinds: Vec<Kind>,
    pub rows: Vec<Vec<Option<String>>>,
    pub error: Option<(String, String)>,
}

fn kind(oid: u32) -> Kind {
    match oid {
        20 | 21 | 23 | 700 | 701 | 1700 => Kind::Number,
        25 | 1043 | 19 | 1042 | 705 => Kind::Text,
        16 => Kind::Truth,
        1082 => Kind::Day,
        1114 | 1184 => Kind::Moment,
        other => Kind::Other(other),
    }
}

/// The way in which a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Simple,
    Binary,
    Cursor,
}

/// Asks, and reads the answer.
pub(crate) fn ask(postgres: &mut Postgres, sql: &str, values: &[String], way: Way) -> Seen {
    let given: Vec<_> = values.iter().map(|value| Some(value.as_bytes().to_vec())).collect();
    match way {
        Way::Simple if values.is_empty() => {
            postgres.send(&message(b'Q', &[sql.as_bytes(), b"\0"].concat()));
            read(postgres, false)
        }
        Way::Simple => {
            postgres.send(&extended(sql, &[], &[], &given, &[]));
            read(postgres, false)
        }
        Way::Binary => {
            postgres.send(&extended(sql, &[], &[], &given, &[1]));
            read(postgres, true)
        }
        Way::Cursor => {
            postgres.ask("BEGIN READ ONLY");
            postgres.send(&extended(&format!("DECLARE chance CURSOR FOR {sql}"), &[], &[], &given, &[]));
            let mut seen = read(postgres, false);
            if seen.error.is_none() {
                // Some in one format, the rest in the other.
                postgres.send(&extended("FETCH 2 FROM chance", &[], &[], &[], &[1]));
                seen = read(postgres, true);
                if seen.error.is_none() {
                    postgres.send(&message(b'Q', b"FETCH ALL FROM chance\0"));
                    let rest = read(postgres, false);
                    seen.rows.extend(rest.rows);
                    seen.error = rest.error;
                }
            }
            postgres.ask("ROLLBACK");
            seen
        }
    }
}

fn read(postgres: &mut Postgres, is_binary: bool) -> Seen {
    let mut seen = Seen { kinds: Vec::new(), rows: Vec::new(), error: None };
    let mut oids = Vec::new();
    while let Some((tag, body)) = postgres.receive() {
        match tag {
            b'T' => {
                oids = oids_of(&body);
                seen.kinds = oids.iter().map(|oid| kind(*oid)).collect();
            }
            b'D' => seen.rows.push(row_of(&body, &oids, is_binary)),
            b'E' => {
                let field = |wanted: u8| {
                    let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&wanted));
                    found.map_or(String::new(), |field| String::from_utf8_lossy(&field[1..]).into_owned())
                };
                seen.error = Some((field(b'C'), field(b'M')));
            }
            b'Z' => return seen,
            _ => {}
        }
    }
    seen.error = Some(("gone".to_owned(), "the server closed the connection".to_owned()));
    seen
}

fn oids_of(body: &[u8]) -> Vec<u32> {
    let (mut oids, mut rest) = (Vec::new(), &body[2..]);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| *byte == 0).unwrap();
        oids.push(u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap()));
        rest = &rest[end + 19..];
    }
    oids
}

fn row_of(body: &[u8], oids: &[u32], is_binary: bool) -> Vec<Option<String>> {
    let (mut row, mut rest) = (Vec::new(), &body[2..]);
    while !rest.is_empty() {
        let length = i32::from_be_bytes(rest[..4].try_into().unwrap());
        let end = 4 + length.max(0) as usize;
        let oid = oids.get(row.len()).copied().unwrap_or_default();
        let value = |bytes: &[u8]| match is_binary {
            true => decoded(bytes, oid),
            false => String::from_utf8_lossy(bytes).into_owned(),
        };
        row.push((length >= 0).then(|| value(&rest[4..end])));
        rest = &rest[end..];
    }
    row
}

/// A value in the binary format as text. A wrong length is text that no answer has.
fn decoded(bytes: &[u8], oid: u32) -> String {
    let day = |days: i64| {
        // Days since 2000 as a date, by the calendar of 400 years.
        let days = days + 730_485;
        let (mut year, mut rest) = (days.div_euclid(146_097) * 400, days.rem_euclid(146_097));
        let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        while rest >= if is_leap(year) { 366 } else { 365 } {
            rest -= if is_leap(year) { 366 } else { 365 };
            year += 1;
        }
        let months = [31, if is_leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let mut month = 0;
        while rest >= months[month] {
            rest -= months[month];
            month += 1;
        }
        format!("{year:04}-{:02}-{:02}", month + 1, rest + 1)
    };
    let decoded = || -> Option<String> {
        Some(match oid {
            16 => if bytes == [1] { "t" } else { "f" }.to_owned(),
            21 => i16::from_be_bytes(bytes.try_into().ok()?).to_string(),
            23 => i32::from_be_bytes(bytes.try_into().ok()?).to_string(),
            20 => i64::from_be_bytes(bytes.try_into().ok()?).to_string(),
            700 => f32::from_be_bytes(bytes.try_into().ok()?).to_string(),
            701 => f64::from_be_bytes(bytes.try_into().ok()?).to_string(),
            1700 => numeric(bytes)?,
            1082 => day(i64::from(i32::from_be_bytes(bytes.try_into().ok()?))),
            1114 => {
                let micros = i64::from_be_bytes(bytes.try_into().ok()?);
                let (days, micros) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
                let seconds = micros / 1_000_000;
                let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
                let mut text = format!("{} {hour:02}:{minute:02}:{second:02}", day(days));
                if micros % 1_000_000 > 0 {
                    text += &format!(".{:06}", micros % 1_000_000);
                }
                text
            }
            _ => String::from_utf8(bytes.to_vec()).ok()?,
        })
    };
    decoded().unwrap_or_else(|| format!("bytes that are none of type {oid}: {bytes:?}"))
}

fn numeric(bytes: &[u8]) -> Option<String> {
    let shorts: Vec<i16> = bytes.chunks(2).map(|pair| i16::from_be_bytes([pair[0], pair[1]])).collect();
    let (head, groups) = shorts.split_at_checked(4)?;
    let [count, weight, sign, scale] = *head else { return None };
    if groups.len() != count as usize {
        return None;
    }
    match sign as u16 {
        0xC000 => return Some("NaN".to_owned()),
        0xD000 => return Some("Infinity".to_owned()),
        0xF000 => return Some("-Infinity".to_owned()),
        _ => {}
    }
    let group = |at: i16| usize::try_from(at).ok().and_then(|at| groups.get(at)).copied().unwrap_or(0);
    let mut text = String::from(if sign == 0x4000 { "-" } else { "" });
    text += &(0..=weight.max(0))
        .map(|at| format!("{:04}", group(if weight < 0 { -1 } else { at })))
        .collect::<String>();
    let behind: String = (0..scale / 4 + 1).map(|at| format!("{:04}", group(weight + 1 + at))).collect();
    text += ".";
    text += &behind[..scale as usize];
    Some(text)
}

/// Why two answers differ, if they do.
pub(crate) fn difference(ours: &Seen, theirs: &Seen, is_ordered: bool) -> Option<String> {
    if ours.kinds.len() != theirs.kinds.len() {
        return Some(format!("{} columns, {} there", ours.kinds.len(), theirs.kinds.len()));
    }
    let kinds = ours.kinds.iter().zip(&theirs.kinds).enumerate();
    for (at, (ours, theirs)) in kinds {
        if ours != theirs {
            return Some(format!("column {at} is of {ours:?}, of {theirs:?} there"));
        }
    }
    if ours.rows.len() != theirs.rows.len() {
        return Some(format!("{} rows, {} there", ours.rows.len(), theirs.rows.len()));
    }
    let same = |one: &Vec<Option<String>>, other: &Vec<Option<String>>| {
        let cells = one.iter().zip(other).zip(&ours.kinds);
        one.len() == other.len() && { cells }.all(|((one, other), kind)| same(one, other, *kind))
    };
    let said = |row: &Vec<Option<String>>| {
        row.iter().map(|cell| cell.as_deref().unwrap_or("NULL")).collect::<Vec<_>>().join("|")
    };
    if is_ordered {
        let differs =
            ours.rows.iter().zip(&theirs.rows).enumerate().find(|(_, (one, other))| !same(one, other));
        return differs.map(|(at, (one, other))| format!("row {at}: {} / {}", said(one), said(other)));
    }
    let mut left: Vec<_> = theirs.rows.iter().collect();
    for row in &ours.rows {
        match left.iter().position(|other| same(row, other)) {
            Some(at) => drop(left.swap_remove(at)),
            None => {
                let theirs = left.iter().take(3).map(|row| said(row)).collect::<Vec<_>>().join("; ");
                return Some(format!("row {} is not among {theirs} …", said(row)));
            }
        }
    }
    None
}

fn same(one: &Option<String>, other: &Option<String>, kind: Kind) -> bool {
    let (one, other) = match (one, other) {
        (None, None) => return true,
        (Some(one), Some(other)) => (one, other),
        _ => return false,
    };
    if one == other {
        return true;
    }
    match kind {
        Kind::Number => {
            let (Ok(one), Ok(other)) = (one.parse::<f64>(), other.parse::<f64>()) else { return false };
            let distance = (one - other).abs();
            one == other
                || one.is_nan() && other.is_nan()
                || distance <= 1e-13 * one.abs().max(other.abs()).max(1e-4)
        }
        Kind::Moment => {
            let plain = |text: &str| match text.split_once('.') {
                Some((whole, behind)) => {
                    let behind = behind.trim_end_matches('0');
                    if behind.is_empty() { whole.to_owned() } else { format!("{whole}.{behind}") }
                }
                None => text.to_owned(),
            };
            plain(one) == plain(other)
        }
        _ => false,
    }
}
