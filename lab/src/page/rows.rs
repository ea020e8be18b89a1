//! Measurements as rows of named values, and the arithmetic over them that the lists of figures use.
//!
//! ```text
//!   sum     = product { (" + " | " - ") product }     a list and a number: the number with each of the list
//!   product = factor { (" * " | " / ") factor }       two lists: pair by pair
//!   factor  = number | "(" sum ")" | function "(" sum ")" | path [ "@" key=value { "," key=value } ]
//! ```
//!
//! A path such as `taken.seconds` goes through objects and lists: of a list it takes the value of each
//! element.
//! `@` looks in another row, which differs from this one in the named keys only; the value `smallest` or
//! `largest` of a key means the end of what there is, if that is another row. A list that is asked for one
//! number gives its median.

use serde::Serialize;
use serde_json::Value;

use super::list::Where;
use crate::report::{LeftOut, median, short, thousands};

/// A measurement: parameters and figures by name.
pub(crate) type Row = serde_json::Map<String, Value>;

/// The row of a cell and its figures. Where both have a name, it is the cell's.
pub(crate) fn row(cell: &impl Serialize, figures: &impl Serialize) -> Row {
    let plain = |value: Result<Value, serde_json::Error>| match value.expect("measurements are plain data") {
        Value::Object(own) => own,
        other => Row::from_iter([("value".to_owned(), other)]),
    };
    let mut row = plain(serde_json::to_value(figures));
    row.extend(plain(serde_json::to_value(cell)));
    row
}

/// A row with more columns, the members of a JSON object.
pub(crate) fn with(mut row: Row, more: Value) -> Row {
    if let Value::Object(more) = more {
        row.extend(more);
    }
    row
}

/// Lines of results as rows: the repeats of a case on a server are one row, whose figures are lists.
pub(crate) fn merged(lines: &[Value]) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for line in lines {
        let names = ["case", "server", "parameters"];
        let place = rows.iter().position(|row| names.iter().all(|name| row[*name] == line[*name]));
        let place = place.unwrap_or_else(|| {
            let mut row = line["parameters"].as_object().cloned().unwrap_or_default();
            row.extend(names.map(|name| (name.to_owned(), line[name].clone())));
            rows.push(row);
            rows.len() - 1
        });
        line["figures"].as_object().into_iter().for_each(|figures| merge(&mut rows[place], figures));
    }
    rows
}

fn merge(row: &mut Row, figures: &Row) {
    for (name, value) in figures {
        match (row.get_mut(name), value) {
            (Some(Value::Object(own)), Value::Object(inner)) => merge(own, inner),
            (Some(Value::Array(all)), Value::Number(_)) => all.push(value.clone()),
            (_, Value::Object(inner)) => {
                let mut own = Row::new();
                merge(&mut own, inner);
                row.insert(name.clone(), own.into());
            }
            (_, Value::Number(_)) => _ = row.insert(name.clone(), Value::Array(vec![value.clone()])),
            (_, other) => _ = row.insert(name.clone(), other.clone()),
        }
    }
}

/// The reason why an expression has no value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// There is no row for an `@`.
    NoRow,
    /// No row has such a column, or the expression is malformed at these words.
    NotUnderstood(String),
}

type Evaluated = Result<Vec<f64>, Fault>;

/// All measurements.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// In the order in which they were measured.
    pub all: Vec<Row>,
    /// The columns that identify a row.
    pub same: Vec<String>,
    /// The key that an `@` without one means.
    pub pair: String,
    /// Cells that were not measured, as rows with their parameters alone.
    pub left_out: Vec<LeftOut<Row>>,
}

impl Rows {
    /// The cells of a part that were left out and may fulfil conditions: those on figures, which a cell does
    /// not have, and on places among others are not asked. A cell that does not say its part is of any part
    /// of which nothing was measured.
    pub(crate) fn left_out(&self, part: &str, conditions: &Where) -> Vec<&LeftOut<Row>> {
        let is_measured = !self.wanted(part, &Where::default()).is_empty();
        let may_be_own = |own: &&LeftOut<Row>| {
            let Some(cell) = &own.cell else { return !is_measured };
            let is_of_part = match &*text_of(cell, "part") {
                "" => part.is_empty() || !is_measured,
                own => part.is_empty() || own == part,
            };
            let is_place = |wanted: &toml::Value| {
                wanted.as_str().is_some_and(|word| ["smallest", "middle", "largest"].contains(&word))
            };
            let mut asked = conditions.clone();
            asked.retain(|column, wanted| !is_place(wanted) && find(cell, column).is_some());
            let alone = Rows { all: vec![cell.clone()], ..Rows::default() };
            is_of_part && !alone.wanted("", &asked).is_empty()
        };
        self.left_out.iter().filter(may_be_own).collect()
    }

    /// The rows of a part that fulfil conditions; an empty part means any.
    pub(crate) fn wanted(&self, part: &str, conditions: &Where) -> Vec<&Row> {
        let of_part = |row: &&Row| part.is_empty() || text_of(row, "part") == part;
        let of_part: Vec<&Row> = self.all.iter().filter(of_part).collect();
        let sorted = |column: &str| {
            let mut all: Vec<f64> = of_part.iter().map(|row| self.number(row, column)).collect();
            all.retain(|value| !value.is_nan());
            all.sort_by(f64::total_cmp);
            all.dedup();
            all
        };
        let is_place = |row: &Row, column: &str, of: fn(usize) -> usize| {
            let all = sorted(column);
            all.get(of(all.len())) == Some(&self.number(row, column))
        };
        let is_met = |row: &Row, column: &str, wanted: &toml::Value| match wanted {
            toml::Value::String(word) if word == "smallest" => is_place(row, column, |_| 0),
            toml::Value::String(word) if word == "middle" => is_place(row, column, |count| count / 2),
            toml::Value::String(word) if word == "largest" => {
                is_place(row, column, |count| count.saturating_sub(1))
            }
            toml::Value::String(word) => match word.strip_prefix('!') {
                Some("") => self.number(row, column) != 0.0 && !self.number(row, column).is_nan(),
                Some(other) => text_of(row, column) != other,
                None => text_of(row, column) == *word,
            },
            toml::Value::Boolean(wanted) => (self.number(row, column) == 1.0) == *wanted,
            toml::Value::Array(any) => any.iter().any(|one| one.as_str() == Some(&*text_of(row, column))),
            number => {
                let number = number.as_float().or_else(|| number.as_integer().map(|whole| whole as f64));
                number == Some(self.number(row, column))
            }
        };
        let all = |row: &&&Row| conditions.iter().all(|(column, wanted)| is_met(row, column, wanted));
        of_part.iter().filter(all).copied().collect()
    }

    /// The values of an expression.
    pub(crate) fn values(&self, row: &Row, expression: &str) -> Evaluated {
        let mut reader = Reader { rows: self, row, rest: expression, whole: false, by_zero: false };
        let values = reader.sum()?;
        let rest = reader.rest.trim_start();
        if rest.is_empty() { Ok(values) } else { Err(Fault::NotUnderstood(rest.to_owned())) }
    }

    /// True if an expression has no value because rows are compared, and it divides by 0: what it needs was
    /// measured. Where a row is divided by a 0 of its own, its measurement is wrong.
    pub(crate) fn divides_by_zero(&self, row: &Row, expression: &str) -> bool {
        let mut reader = Reader { rows: self, row, rest: expression, whole: false, by_zero: false };
        let values = reader.sum();
        reader.by_zero && values.is_ok_and(|values| !middle(&values).is_finite())
    }

    /// The value of an expression; `NaN` if there is none.
    pub(crate) fn number(&self, row: &Row, expression: &str) -> f64 {
        self.values(row, expression).map_or(f64::NAN, |values| middle(&values))
    }

    /// The least and the greatest of several values of an expression. A `median` in it is of values that
    /// count here one by one.
    pub(crate) fn spread(&self, row: &Row, expression: &str) -> Option<[f64; 2]> {
        let mut reader = Reader { rows: self, row, rest: expression, whole: true, by_zero: false };
        let values = reader.sum().ok()?.into_iter().filter(|value| value.is_finite());
        let values: Vec<f64> = values.collect();
        let end = |of: fn(f64, f64) -> f64| values.iter().copied().reduce(of);
        (values.len() > 1).then_some([end(f64::min)?, end(f64::max)?])
    }

    /// The value of an expression in words, or the text of a column.
    pub(crate) fn text(&self, row: &Row, expression: &str, format: &str) -> String {
        match find(row, expression).as_deref() {
            Some([Value::String(text)]) => return text.clone(),
            Some([Value::Bool(is_so)]) => return if *is_so { "yes" } else { "no" }.to_owned(),
            _ => {}
        }
        shown(&self.values(row, expression).unwrap_or_default(), format)
    }

    /// A text with `{expression:format}` replaced by values.
    pub(crate) fn fill(&self, row: &Row, template: &str) -> String {
        let mut parts = template.split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (inside, after) = part.split_once('}').unwrap_or((part, ""));
            let (expression, format) = inside.rsplit_once(':').unwrap_or((inside, ""));
            text += &self.text(row, expression, format);
            text += after;
        }
        text
    }

    /// The row that differs from another in the named keys only.
    pub(crate) fn other(&self, row: &Row, selector: &str) -> Option<&Row> {
        let keys: Vec<_> =
            selector.split(',').map(|pair| pair.split_once('=').unwrap_or((&self.pair, pair))).collect();
        let end = keys.iter().find(|(_, value)| ["smallest", "largest"].contains(value));
        let is_other = |own: &&Row| {
            keys.iter().all(|key| Some(key) == end || text_of(own, key.0) == key.1)
                && self
                    .same
                    .iter()
                    .filter(|column| !keys.iter().any(|(key, _)| key == column))
                    .all(|column| text_of(own, column) == text_of(row, column))
        };
        let Some((key, place)) = end else { return self.all.iter().find(is_other) };
        let sign = if *place == "smallest" { 1.0 } else { -1.0 };
        let number = |own: &&Row| sign * self.number(own, key);
        let own = self.all.iter().filter(|own| is_other(own) && number(own).is_finite());
        own.min_by(|a, b| number(a).total_cmp(&number(b))).filter(|own| !std::ptr::eq(*own, row))
    }

    /// The columns that identify a row, as texts.
    pub(crate) fn key(&self, row: &Row) -> Vec<String> {
        self.same.iter().map(|column| text_of(row, column)).collect()
    }

    /// A row in words: the columns that identify it, numbers with their names, without its part and without
    /// what it is not.
    pub(crate) fn name(&self, row: &Row) -> String {
        let is_word = |column: &str| matches!(find(row, column).as_deref(), Some([Value::String(_)]));
        let named = self
            .same
            .iter()
            .zip(self.key(row))
            .filter(|(column, text)| *column != "part" && !text.is_empty());
        let words = named.filter_map(|(column, text)| match &*text {
            "false" => None,
            "true" => Some(column.clone()),
            _ if is_word(column) => Some(text),
            number => Some(format!("{column} {}", number.strip_suffix(".0").unwrap_or(number))),
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

/// The names of the members of an object, nothing if there is none.
pub(super) fn members(row: &Row, path: &str) -> Vec<String> {
    match find(row, path).as_deref() {
        Some([Value::Object(own)]) => own.keys().cloned().collect(),
        _ => Vec::new(),
    }
}

/// The text of a column, or the number or truth as text; nothing if it is missing.
pub(super) fn text_of(row: &Row, path: &str) -> String {
    match find(row, path).as_deref() {
        Some([Value::String(text)]) => text.clone(),
        Some([value @ (Value::Number(_) | Value::Bool(_))]) => value.to_string(),
        _ => String::new(),
    }
}

/// The values that a path leads to; `None` if no such column is there.
fn find<'r>(row: &'r Row, path: &str) -> Option<Vec<&'r Value>> {
    let mut names = path.split('.');
    let mut found = vec![row.get(names.next()?)?];
    for name in names {
        let mut next = Vec::new();
        for value in found {
            match value {
                Value::Array(all) => match name.parse::<usize>() {
                    Ok(place) if !all.first().is_some_and(Value::is_array) => next.extend(all.get(place)),
                    _ => next.extend(all.iter().filter_map(|own| step(own, name))),
                },
                other => next.push(step(other, name)?),
            }
        }
        found = next;
    }
    let flat = |value: &'r Value| match value {
        Value::Array(all) => all.iter().collect(),
        other => vec![other],
    };
    Some(found.into_iter().flat_map(flat).collect())
}

fn step<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    match value {
        Value::Object(own) => own.get(name),
        Value::Array(own) => own.get(name.parse::<usize>().ok()?),
        // A figure that was not measured has no parts.
        Value::Null => Some(&Value::Null),
        _ => None,
    }
}

struct Reader<'r> {
    rows: &'r Rows,
    row: &'r Row,
    rest: &'r str,
    /// True if a `median` leaves its values as they are.
    whole: bool,
    /// True once a measured number was divided by a 0 of another row.
    by_zero: bool,
}

impl Reader<'_> {
    fn sum(&mut self) -> Evaluated {
        let mut left = self.product()?;
        while let Some(sign) = self.sign(&[" + ", " - "]) {
            let right = self.product()?;
            left = pairs(&left, &right, |a, b| if sign == " + " { a + b } else { a - b });
        }
        Ok(left)
    }

    fn product(&mut self) -> Evaluated {
        let mut left = self.factor()?;
        while let Some(sign) = self.sign(&[" * ", " / "]) {
            let begin = self.rest;
            let right = self.factor()?;
            let compares = begin[..begin.len() - self.rest.len()].contains('@');
            let divides = sign == " / " && right.contains(&0.0);
            self.by_zero |= compares && divides && left.iter().any(|value| value.is_finite());
            left = pairs(&left, &right, |a, b| if sign == " * " { a * b } else { a / b });
        }
        Ok(left)
    }

    fn sign<'s>(&mut self, signs: &[&'s str]) -> Option<&'s str> {
        let sign = signs.iter().find(|sign| self.rest.starts_with(**sign))?;
        self.rest = &self.rest[sign.len()..];
        Some(sign)
    }

    fn factor(&mut self) -> Evaluated {
        let length = self.rest.find([' ', '(', ')']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(length);
        self.rest = rest;
        if let Some(inner) = rest.strip_prefix('(') {
            self.rest = inner;
            let values = self.sum()?;
            self.rest = self.rest.strip_prefix(')').ok_or(Fault::NotUnderstood("(".to_owned()))?;
            let is_kept = word.is_empty() || (self.whole && word == "median");
            return if is_kept { Ok(values) } else { reduced(word, &values) };
        }
        if let Ok(number) = word.parse() {
            return Ok(vec![number]);
        }
        let (path, selector) = word.split_once('@').unwrap_or((word, ""));
        let row = if selector.is_empty() {
            self.row
        } else {
            self.rows.other(self.row, selector).ok_or(Fault::NoRow)?
        };
        let found = find(row, path).ok_or_else(|| Fault::NotUnderstood(word.to_owned()))?;
        let number = |value: &Value| match value {
            Value::Bool(is_so) => f64::from(u8::from(*is_so)),
            other => other.as_f64().unwrap_or(f64::NAN),
        };
        Ok(found.into_iter().map(number).collect())
    }
}

/// Two lists, pair by pair; a list of one value goes with each of the other.
fn pairs(left: &[f64], right: &[f64], of: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    match (left, right) {
        ([one], all) => all.iter().map(|other| of(*one, *other)).collect(),
        (all, [one]) => all.iter().map(|other| of(*other, *one)).collect(),
        (left, right) => left.iter().zip(right).map(|(one, other)| of(*one, *other)).collect(),
    }
}

fn reduced(function: &str, values: &[f64]) -> Evaluated {
    let numbers = || values.iter().copied().filter(|value| !value.is_nan());
    let one = match function {
        "median" => middle(values),
        "max" => numbers().fold(f64::NAN, f64::max),
        "min" => numbers().fold(f64::NAN, f64::min),
        "sum" => numbers().reduce(|sum, own| sum + own).unwrap_or(f64::NAN),
        "mean" => mean(&numbers().collect::<Vec<_>>()),
        "deviation" => deviation(&numbers().collect::<Vec<_>>()),
        "count" => values.len() as f64,
        "last" => values.last().copied().unwrap_or(f64::NAN),
        "positive" => return Ok(values.iter().map(|own| if *own > 0.0 { *own } else { f64::NAN }).collect()),
        "log2" => return Ok(values.iter().map(|value| value.log2()).collect()),
        other => return Err(Fault::NotUnderstood(other.to_owned())),
    };
    Ok(vec![one])
}

/// `NaN` if there are none.
fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The standard deviation of a sample; `NaN` for fewer than two values.
fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

fn middle(values: &[f64]) -> f64 {
    median(values.iter().copied().filter(|value| !value.is_nan()))
}

/// Numbers in words. A format is the number of places, `t` for thousands that stand apart, `x` for a factor,
/// `%` for a share more or less, `s` for a median with its spread, `d` for a mean with its standard
/// deviation; without one, three digits that count.
pub(super) fn shown(values: &[f64], format: &str) -> String {
    let value = middle(values);
    let finite: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    match format {
        "x" if value.is_finite() => format!("{value:.2}x"),
        "%" if value.is_finite() => format!("{:+.1} %", value * 100.0),
        "x" | "%" => "not measured".to_owned(),
        _ if !value.is_finite() => "–".to_owned(),
        "t" => thousands(value),
        "s" if finite.len() > 1 => {
            let [min, max] = [f64::min, f64::max].map(|of| finite.iter().copied().fold(f64::NAN, of));
            format!("{:.2} ({min:.2} to {max:.2})", median(finite))
        }
        "s" => format!("{value:.2}"),
        "d" if finite.len() > 1 => format!("{} ± {}", short(mean(&finite)), short(deviation(&finite))),
        "d" => short(value),
        places => places.parse().map_or_else(|_| short(value), |places: usize| format!("{value:.places$}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    fn rows() -> Rows {
        let row = |variant: &str, rate: f64| {
            let figures = json!({
                "rate": rate, "taken": [{ "s": 1.0 }, { "s": 3.0 }, { "s": 8.0 }],
                "by_time": [[0, 5], [20, 7]],
                "none": null, "is_warm": true, "empty": [],
            });
            super::row(&json!({ "part": "one", "variant": variant, "size": 10 }), &figures)
        };
        let same = ["part", "variant", "size"].map(str::to_owned).to_vec();
        let all = vec![row("a", 4.0), row("redis-b", 2.0)];
        Rows { all, same, pair: "variant".to_owned(), ..Rows::default() }
    }

    #[test]
    fn expressions_go_through_lists_and_to_other_rows() {
        let rows = rows();
        let of = |expression: &str| rows.values(&rows.all[0], expression);
        assert_eq!(of("rate / rate@redis-b + 1"), Ok(vec![3.0]));
        assert_eq!(of("(1 + 2) * taken.s"), Ok(vec![3.0, 9.0, 24.0]));
        assert_eq!(of("max(taken.s) - median(taken.s)"), Ok(vec![5.0]));
        assert_eq!(of("sum(taken.s) / mean(taken.s)"), Ok(vec![3.0]));
        assert_eq!(of("deviation(by_time.1) * deviation(by_time.1)").unwrap()[0].round(), 2.0);
        // Of nothing there is no sum, no mean and no deviation, and the number of values is 0.
        let of_nothing = ["sum(none)", "mean(none)", "sum(empty)", "mean(empty)", "deviation(rate)"];
        assert!(of_nothing.iter().all(|expression| of(expression).unwrap()[0].is_nan()));
        assert_eq!(of("count(empty)"), Ok(vec![0.0]));
        assert_eq!(of("by_time.1 / 1"), Ok(vec![5.0, 7.0]));
        assert_eq!(of("taken.1.s"), Ok(vec![3.0]));
        assert_eq!(of("is_warm"), Ok(vec![1.0]));
        assert_eq!(of("rate@other"), Err(Fault::NoRow));
        assert_eq!(of("speed"), Err(Fault::NotUnderstood("speed".to_owned())));
        assert_eq!(of("rate rate"), Err(Fault::NotUnderstood("rate".to_owned())));
        assert!(of("none").unwrap()[0].is_nan() && of("none.part").unwrap()[0].is_nan());
        let by_zero = |expression: &str| rows.divides_by_zero(&rows.all[0], expression);
        let zero = "(rate@redis-b - 2)";
        assert!(by_zero(&format!("rate / {zero}")) && by_zero(&format!("1 + {zero} / {zero}")));
        assert!(!by_zero("rate@redis-b / (rate - 4)") && !by_zero("1 + rate / (rate - 4)"));
        for other in ["rate / none", "none / 1", "rate@other / 0", "rate / rate", "none / 0"] {
            assert!(!by_zero(other), "{other}");
        }
        assert!(matches!(of("(rate"), Err(Fault::NotUnderstood(_))));
        let text = rows.fill(&rows.all[0], "{variant}: {rate / 8:%}, {none:x}, {taken.s:s}; {size}");
        assert_eq!(text, "a: +50.0 %, not measured, 3.00 (1.00 to 8.00); 10");
        assert_eq!(rows.fill(&rows.all[0], "{taken.s:d}, {rate:d}"), "4 ± 3.61, 4");
    }

    #[test]
    fn another_row_may_be_at_an_end_of_what_there_is() {
        let row = |size: u32, rate: f64| {
            let own = json!({ "part": "one", "variant": "a", "size": size, "rate": rate });
            own.as_object().unwrap().clone()
        };
        let rows = Rows { all: vec![row(9, 1.0), row(10, 2.0), row(100, 4.0)], ..rows() };
        let of = |place: usize, expression: &str| rows.values(&rows.all[place], expression);
        assert_eq!(of(1, "rate@size=smallest + rate@size=largest"), Ok(vec![5.0]));
        // A row is not compared with itself.
        assert_eq!(of(0, "rate@size=smallest"), Err(Fault::NoRow));
        assert_eq!(of(0, "rate@variant=b,size=largest"), Err(Fault::NoRow));
        assert_eq!(rows.name(&rows.all[1]), "a, size 10");
        let mut row = rows.all[1].clone();
        (row["size"], row["rate"]) = (json!(4.0), json!(true));
        let same = ["part", "variant", "size", "rate"].map(str::to_owned).to_vec();
        let mut rows = Rows { same, ..rows };
        assert_eq!(rows.name(&row), "a, size 4, rate");
        row["rate"] = json!(false);
        rows.same.remove(1);
        assert_eq!(rows.name(&row), "size 4");
    }

    #[test]
    fn repeats_of_a_case_are_one_row() {
        let line = |case: &str, rate: f64| {
            let figures = json!({ "rate": rate, "groups": { "readers": { "p99": rate * 2.0 } }, "size": 7 });
            json!({ "case": case, "server": "a", "parameters": { "size": 10 }, "figures": figures })
        };
        let all = merged(&[line("one", 1.0), line("two", 5.0), line("one", 3.0)]);
        let rows = Rows { all, ..Rows::default() };
        assert_eq!(rows.all.len(), 2);
        let of = |expression: &str| rows.values(&rows.all[0], expression);
        assert_eq!(of("rate"), Ok(vec![1.0, 3.0]));
        assert_eq!(of("groups.readers.p99"), Ok(vec![2.0, 6.0]));
        // A figure comes before a parameter of the same name.
        assert_eq!((of("size"), of("parameters.size")), (Ok(vec![7.0, 7.0]), Ok(vec![10.0])));
    }

    #[test]
    fn what_was_left_out_is_of_a_part_and_may_fulfil_conditions() {
        let mut rows = rows();
        let of = |what: &str, cell: Option<Value>| LeftOut {
            cell: cell.map(|cell| cell.as_object().unwrap().clone()),
            what: what.to_owned(),
            why: String::new(),
            failed: false,
        };
        rows.left_out = vec![
            of("a", Some(json!({ "part": "one", "variant": "c", "size": 10 }))),
            of("b", Some(json!({ "part": "two", "variant": "c" }))),
            of("c", Some(json!({ "variant": "a" }))),
            of("d", None),
        ];
        let found = |part: &str, conditions: &str| {
            let found = rows.left_out(part, &toml::from_str(conditions).unwrap());
            found.iter().map(|own| own.what.as_str()).collect::<String>()
        };
        // Of the second part nothing was measured: the last two may be the reason.
        assert_eq!([found("one", ""), found("two", "")], ["a", "bcd"]);
        assert_eq!(found("one", "variant = 'c'\nrate = 4\nsize = 'largest'"), "a");
        assert_eq!([found("one", "variant = 'a'"), found("two", "variant = 'a'")], ["", "cd"]);
    }

    #[test]
    fn rows_are_chosen_by_conditions() {
        let rows = rows();
        let count = |conditions: &str| rows.wanted("one", &toml::from_str(conditions).unwrap()).len();
        assert_eq!(["", "variant = 'a'", "variant = '!a'", "rate = 'largest'"].map(count), [2, 1, 1, 1]);
        let chosen = |place: &str| {
            let conditions = toml::from_str(&format!("rate = '{place}'")).unwrap();
            rows.wanted("one", &conditions).iter().map(|row| rows.number(row, "rate")).collect::<Vec<_>>()
        };
        assert_eq!(["smallest", "middle", "largest"].map(chosen), [[2.0], [4.0], [4.0]]);
        assert_eq!(
            ["size = 10", "size = 11", "is_warm = false", "variant = ['x', 'a']"].map(count),
            [2, 0, 0, 1]
        );
        assert_eq!(["rate = '!'", "none = '!'"].map(count), [2, 0]);
        assert!(rows.wanted("two", &Where::default()).is_empty());
    }
}
