//! Derives a declaration from a sample of keys.
//!
//! A column gets the first of these types that reads all values of the sample, by the code that reads tables:
//! `BIGINT`, `DOUBLE`, `BOOLEAN`, `DATE`, `TIMESTAMP`, `TEXT`, `BYTEA`. Numbers that would not come out as
//! they went in (`007`, or more digits than a `BIGINT` has) are texts.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use serde_json::Value;
use tarn_engine::Entry;
use tarn_engine::record::Kind;
use tarn_engine::value::ValueRef;
use tarn_engine::value::stream::StreamRef;

use crate::table::datum::{Cell, Datum};
use crate::table::declaration::{Pattern, Source, literal, quoted};
use crate::table::rows::cell_of;

/// Fields that are looked at, of all keys together.
const FIELDS_MAX: usize = 500;
/// Elements that are looked at, of one key; of a stream, fields of its first entries.
const ELEMENTS_MAX: usize = 256;
/// Longer texts are no documents, as far as a sample goes.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// A field of fewer keys, or entries of streams, in a hundred is rare.
const RARE_PERCENT: f64 = 10.0;

/// A type that values may be of.
const TYPES: [(&str, DataType); 5] = [
    ("BIGINT", DataType::Int64),
    ("DOUBLE", DataType::Float64),
    ("BOOLEAN", DataType::Boolean),
    ("DATE", DataType::Date32),
    ("TIMESTAMP", DataType::Timestamp(TimeUnit::Nanosecond, None)),
];
const DATE: usize = 3;
const TIMESTAMP: usize = 4;
const NUMBERS: usize = 2;

/// Which types read a value, as bits.
fn types_reading(cell: &Cell<'_>) -> u8 {
    let text = match cell {
        Cell::Bytes(bytes) => String::from_utf8_lossy(bytes),
        _ => Cow::Borrowed(""),
    };
    let mut bits = 0;
    for (at, (_, data_type)) in TYPES.iter().enumerate() {
        let would_lose = match at {
            at if at < NUMBERS => is_code(&text),
            // A date is read of a time, too.
            DATE => text.trim().len() > 10,
            _ => false,
        };
        let is_read = Datum::read(cell.borrowed(), data_type).is_some();
        bits |= u8::from(is_read && !would_lose) << at;
    }
    bits
}

/// Digits that are no number: they would not come out as they went in.
fn is_code(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_whole = !digits.is_empty() && digits.bytes().all(|letter| letter.is_ascii_digit());
    let has_zeros = digits.len() > 1 && digits.starts_with('0') && digits.as_bytes()[1].is_ascii_digit();
    text.starts_with('+') || has_zeros || is_whole && text.parse::<i64>().is_err()
}

/// The properties that the values of a column share.
#[derive(Clone, Debug)]
struct Values {
    /// In how many keys, or entries of streams, there is one.
    keys: u64,
    /// Types that read all of them.
    types: u8,
    /// Whether all are texts.
    is_text: bool,
    /// Whether there was any but NULL.
    any: bool,
}

impl Default for Values {
    fn default() -> Values {
        Values { keys: 0, types: u8::MAX, is_text: true, any: false }
    }
}

impl Values {
    fn add(&mut self, cell: &Cell<'_>) {
        if *cell == Cell::Null {
            return;
        }
        self.any = true;
        // A column that no type reads is not tried again.
        if self.types != 0 {
            self.types &= types_reading(cell);
        }
        if let Cell::Bytes(bytes) = cell {
            self.is_text &= std::str::from_utf8(bytes).is_ok();
        }
    }

    fn sql_type(&self) -> &'static str {
        let first = TYPES.iter().enumerate().find(|(at, _)| self.any && self.types & 1 << at != 0);
        match first {
            Some((_, (name, _))) => name,
            None if self.is_text => "TEXT",
            None => "BYTEA",
        }
    }
}

/// A column of a proposal: its name, its type, and what is said of it.
type ProposedColumn = (String, &'static str, Option<String>);

/// Keys of a pattern, as far as they were looked at.
pub(crate) struct Sample {
    text: String,
    pattern: Pattern,
    database: u8,
    /// Keys by what they hold.
    kinds: HashMap<Kind, u64>,
    keys: Values,
    /// The fields of hashes and of entries of streams, and the members of documents.
    hashes: Fields,
    streams: Fields,
    documents: Fields,
    /// Entries of streams that were looked at, and the times in their IDs.
    entries: u64,
    times: Values,
    /// Strings that are objects of JSON.
    objects: u64,
    /// The elements of collections and the texts of strings, by kind.
    elements: HashMap<Kind, Values>,
}

/// Fields by their names.
#[derive(Default)]
struct Fields {
    by_name: HashMap<String, Values>,
    /// Whether there were more than are looked at.
    more: bool,
    /// Names that are no text.
    unnamed: u64,
}

impl Fields {
    fn add(&mut self, name: &[u8], cell: &Cell<'_>) {
        let Ok(name) = std::str::from_utf8(name) else {
            self.unnamed += 1;
            return;
        };
        if !self.by_name.contains_key(name) {
            if self.by_name.len() >= FIELDS_MAX {
                self.more = true;
                return;
            }
            self.by_name.insert(name.to_owned(), Values::default());
        }
        let values = self.by_name.get_mut(name).expect("it was put there");
        values.keys += 1;
        values.add(cell);
    }
}

impl Sample {
    /// Nothing of these keys was seen yet.
    pub(crate) fn new(text: &str, pattern: Pattern, database: u8) -> Sample {
        Sample {
            text: text.to_owned(),
            pattern,
            database,
            kinds: HashMap::new(),
            keys: Values::default(),
            hashes: Fields::default(),
            streams: Fields::default(),
            documents: Fields::default(),
            entries: 0,
            times: Values::default(),
            objects: 0,
            elements: HashMap::new(),
        }
    }

    /// Keys that were seen.
    pub(crate) fn len(&self) -> u64 {
        self.kinds.values().sum()
    }

    /// Looks at a key of the pattern.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let Some(varying) = self.pattern.varying(entry.key()) else { return };
        *self.kinds.entry(entry.kind()).or_default() += 1;
        self.keys.add(&Cell::Bytes(Cow::Borrowed(varying)));
        let elements = self.elements.entry(entry.kind()).or_default();
        let bytes = |bytes| Cell::Bytes(Cow::Borrowed(bytes));
        match entry.value() {
            ValueRef::Stream(stream) => self.add_stream(stream),
            // Names and kinds of values are looked for, so a field whose time is over tells as much.
            ValueRef::Hash(hash) => {
                for (name, value) in hash.iter().take(ELEMENTS_MAX) {
                    self.hashes.add(name, &bytes(value));
                }
                self.hashes.more |= hash.len() > ELEMENTS_MAX;
            }
            ValueRef::String(text) | ValueRef::Json(text) => {
                let text = text.to_bytes();
                let is_short = text.len() <= DOCUMENT_BYTES_MAX;
                if is_short && let Ok(Value::Object(document)) = serde_json::from_slice(&text) {
                    self.objects += 1;
                    for (name, value) in document.iter().take(ELEMENTS_MAX) {
                        self.documents.add(name.as_bytes(), &cell_of(Some(value)));
                    }
                    self.documents.more |= document.len() > ELEMENTS_MAX;
                }
                elements.add(&Cell::Bytes(text));
            }
            ValueRef::List(list) => {
                let first = list.iter_from(0).take(ELEMENTS_MAX);
                first.for_each(|value| elements.add(&bytes(value)));
            }
            ValueRef::Set(set) => {
                let first = set.iter_from(0).take(ELEMENTS_MAX);
                first.for_each(|member| elements.add(&bytes(member)));
            }
            ValueRef::ZSet(zset) => {
                let first = zset.iter_from(0).take(ELEMENTS_MAX);
                first.for_each(|(member, _)| elements.add(&bytes(member)));
            }
        }
    }

    fn add_stream(&mut self, stream: StreamRef<'_>) {
        let mut looked_at = 0;
        for entry in stream.iter_at(0) {
            if looked_at >= ELEMENTS_MAX {
                self.streams.more = true;
                break;
            }
            self.entries += 1;
            self.times.add(&Cell::Time(entry.id.ms));
            let mut names = HashSet::new();
            for (name, value) in entry.fields.iter().take(ELEMENTS_MAX) {
                looked_at += 1;
                // A column shows the first of that name.
                if names.insert(name) {
                    self.streams.add(name, &Cell::Bytes(Cow::Borrowed(value)));
                }
            }
            self.streams.more |= entry.fields.len() > ELEMENTS_MAX;
        }
    }

    /// The type of value of most keys.
    fn shape(&self) -> Option<(&'static str, u64)> {
        let count = |kind| self.kinds.get(&kind).copied().unwrap_or(0);
        // Strings are documents if nearly all of them are.
        let strings = count(Kind::String);
        let are_objects =
            self.objects > 0 && (self.objects - self.objects.min(count(Kind::Json))) * 10 >= strings * 9;
        let documents = count(Kind::Json) + if are_objects { strings } else { 0 };
        let texts = if are_objects { 0 } else { strings };
        let shapes = [
            ("HASH", count(Kind::Hash)),
            ("JSON", documents),
            ("STRING", texts),
            ("ZSET", count(Kind::ZSet)),
            ("LIST", count(Kind::List)),
            ("SET", count(Kind::Set)),
            ("STREAM", count(Kind::Stream)),
        ];
        shapes.into_iter().filter(|(_, keys)| *keys > 0).rev().max_by_key(|(_, keys)| *keys)
    }

    /// The statement that declares a table of what was seen, with what there is to know of it; `said` are the
    /// first lines, without their marks.
    pub(crate) fn proposal(&self, said: &[String]) -> String {
        let mut lines: Vec<String> = said.to_vec();
        let Some((shape, of_shape)) = self.shape() else {
            return comment(&lines);
        };
        let others = self.len() - of_shape;
        if others > 0 {
            lines.push(format!(
                "{others} of them hold something else than {shape}, and are not in this table"
            ));
        }
        let of_fields = match shape {
            "HASH" => Some(&self.hashes),
            "JSON" => Some(&self.documents),
            "STREAM" => Some(&self.streams),
            _ => None,
        };
        if let Some(fields) = of_fields {
            if fields.more {
                lines.push(format!(
                    "there are more fields than were looked at, which is {FIELDS_MAX} in all, \
                     {ELEMENTS_MAX} of a key"
                ));
            }
            if fields.unnamed > 0 {
                lines.push(format!("{} names of fields are not UTF-8, and have no columns", fields.unnamed));
            }
        }
        let (columns, mut options) = self.columns(shape, of_shape);
        let name = self.table_name();
        let mut text = comment(&lines);
        let _ = writeln!(text, "CREATE EXTERNAL TABLE {} (", quoted(&name));
        for (at, (name, sql_type, note)) in columns.iter().enumerate() {
            let comma = if at + 1 < columns.len() { "," } else { "" };
            let note = note.as_ref().map_or(String::new(), |note| format!("  -- {note}"));
            let _ = writeln!(text, "  {} {sql_type}{comma}{note}", quoted(name));
        }
        let _ = write!(text, ") STORED AS {shape} LOCATION {}", literal(&self.text));
        if self.database > 0 {
            options.insert(0, format!("database '{}'", self.database));
        }
        if !options.is_empty() {
            let _ = write!(text, " OPTIONS ({})", options.join(", "));
        }
        text
    }

    /// The columns with their types, and what is said of them; and options that name their fields.
    fn columns(&self, shape: &str, keys: u64) -> (Vec<ProposedColumn>, Vec<String>) {
        let of_kind = |kind| self.elements.get(&kind).map_or("TEXT", Values::sql_type);
        let fields = match shape {
            "HASH" => &self.hashes,
            "JSON" => &self.documents,
            "STREAM" => &self.streams,
            _ => {
                let rest: &[(&str, &'static str)] = match shape {
                    "STRING" => &[("value", of_kind(Kind::String))],
                    "ZSET" => &[("member", of_kind(Kind::ZSet)), ("score", "DOUBLE")],
                    "LIST" => &[("index", "BIGINT"), ("value", of_kind(Kind::List))],
                    _ => &[("member", of_kind(Kind::Set))],
                };
                let key = ("key".to_owned(), self.keys.sql_type(), None);
                let rest = rest.iter().map(|(name, sql_type)| ((*name).to_owned(), *sql_type, None));
                return (std::iter::once(key).chain(rest).collect(), Vec::new());
            }
        };
        let mut named: Vec<_> = fields.by_name.iter().collect();
        named.sort_by(|a, b| b.1.keys.cmp(&a.1.keys).then_with(|| a.0.cmp(b.0)));
        let is_of_id = |name: &str| shape == "STREAM" && Source::of_id(name).is_some();
        let free = |name: &String| !fields.by_name.contains_key(name) && !is_of_id(name);
        let numbered = |name: &'static str| (1..).map(move |number| format!("{name}_{number}"));
        let key = ["id", "key"].into_iter().map(str::to_owned).chain(numbered("key"));
        let key = key.into_iter().find(free).expect("there are endless names");
        let mut columns = vec![(key, self.keys.sql_type(), None)];
        let (all, of_all) = if shape == "STREAM" { (self.entries, "entries") } else { (keys, "keys") };
        if shape == "STREAM" {
            let is_time = self.times.types & 1 << TIMESTAMP != 0;
            columns.push(("id".to_owned(), "TEXT", None));
            columns.push(("ms".to_owned(), if is_time { "TIMESTAMP" } else { "DECIMAL(20, 0)" }, None));
        }
        let mut options = Vec::new();
        for (name, values) in named {
            let percent = 100.0 * values.keys as f64 / all.max(1) as f64;
            let note = (percent < RARE_PERCENT).then(|| format!("rare: in {percent:.1} % of the {of_all}"));
            let mut column = name.clone();
            if is_of_id(name) {
                // A column of that name shows a part of the ID.
                column = format!("field_{name}");
                while !free(&column) {
                    column.push('_');
                }
                options.push(format!("{} {}", literal(&format!("column.{column}")), literal(name)));
            }
            columns.push((column, values.sql_type(), note));
        }
        (columns, options)
    }

    /// The text before the part that varies, as far as it is a name.
    fn table_name(&self) -> String {
        let name = self.text.split('*').next().unwrap_or_default();
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let words: Vec<&str> =
            name.split(|letter| !is_part(letter)).filter(|word| !word.is_empty()).collect();
        let name = words.join("_").to_lowercase();
        if name.is_empty() { "keys".to_owned() } else { name }
    }
}

/// Lines as comments.
fn comment(lines: &[String]) -> String {
    let plain = |line: &String| line.replace(|letter: char| letter.is_control(), " ");
    lines.iter().map(|line| format!("-- {}\n", plain(line))).collect()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn type_of(values: &[&str]) -> &'static str {
        let mut seen = Values::default();
        values.iter().for_each(|value| seen.add(&Cell::Bytes(value.as_bytes().into())));
        seen.sql_type()
    }

    #[test]
    fn a_type_reads_all_values_and_loses_nothing() {
        for (values, sql_type) in [
            (&["1", "-20", "9000000000"][..], "BIGINT"),
            (&["1", "2.5"], "DOUBLE"),
            (&["1", "0", "1"], "BIGINT"),
            (&["true", "f", "no"], "BOOLEAN"),
            (&["2026-11-23"], "DATE"),
            (&["2026-11-23", "2026-11-23 10:11:12"], "TIMESTAMP"),
            (&["2026-11-23T10:11:12Z"], "TIMESTAMP"),
            (&["007", "008"], "TEXT"),
            (&["12345678901234567890"], "TEXT"),
            (&["+4712345"], "TEXT"),
            (&["0", "0.5", "-0.25"], "DOUBLE"),
            (&["1", ""], "TEXT"),
            (&[], "TEXT"),
        ] {
            assert_eq!(type_of(values), sql_type, "{values:?}");
        }
        let many: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
        let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(type_of(&many), "BIGINT");
        many.push("x");
        assert_eq!(type_of(&many), "TEXT");
    }

    #[test]
    fn names_are_quoted_and_comments_stay_comments() {
        let sample = Sample::new("a'b:*", "a'b:*".parse().unwrap(), 0);
        assert_eq!(sample.table_name(), "a_b");
        assert_eq!(sample.proposal(&["x\nDROP TABLE y".to_owned()]), "-- x DROP TABLE y\n");
    }
}
