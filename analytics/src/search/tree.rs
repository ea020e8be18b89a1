//! The reply of a search command, independent of the protocol that sends it.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;

use crate::error::QueryError;
use crate::statement::values::{Value, values_of};

/// The limit on the bytes of a reply.
pub(super) const REPLY_BYTES_MAX: usize = 64 << 20;

/// An answer, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub enum Tree {
    /// Nothing.
    Null,
    /// A word of the server's own.
    Simple(&'static str),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// Bytes.
    Bulk(Vec<u8>),
    /// Some in a row.
    Array(Vec<Tree>),
    /// Some in no order.
    Set(Vec<Tree>),
    /// Pairs; in RESP2 a row of both.
    Map(Vec<(Tree, Tree)>),
}

impl Tree {
    /// A text.
    pub fn text(text: impl Into<String>) -> Tree {
        Tree::Bulk(text.into().into_bytes())
    }

    /// Texts.
    pub fn texts<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Tree {
        Tree::Array(texts.into_iter().map(Tree::text).collect())
    }

    /// A set of texts.
    pub fn set<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Tree {
        Tree::Set(texts.into_iter().map(Tree::text).collect())
    }

    /// A map whose names are texts.
    pub fn map<const N: usize>(pairs: [(&str, Tree); N]) -> Tree {
        Tree::Map(pairs.into_iter().map(|(name, value)| (Tree::text(name), value)).collect())
    }

    /// A value of a row: numbers are texts too.
    fn of(value: Value) -> Tree {
        match value {
            Value::Null => Tree::Null,
            Value::Integer(number) => Tree::text(number.to_string()),
            Value::Double(number) => Tree::text(number_text(number)),
            Value::Boolean(truth) => Tree::text(if truth { "1" } else { "0" }),
            Value::Bytes(bytes) => Tree::Bulk(bytes),
        }
    }

    /// Bytes that it takes, about.
    pub fn bytes(&self) -> usize {
        const PART: usize = size_of::<Tree>();
        PART + match self {
            Tree::Bulk(bytes) => bytes.len(),
            Tree::Array(parts) | Tree::Set(parts) => parts.iter().map(Tree::bytes).sum(),
            Tree::Map(pairs) => pairs.iter().map(|(name, value)| name.bytes() + value.bytes()).sum(),
            _ => 0,
        }
    }
}

/// A reply of RESP3.
pub(super) fn results(total: i64, results: Vec<Tree>) -> Tree {
    Tree::map([
        ("attributes", Tree::Array(Vec::new())),
        ("warning", Tree::Array(Vec::new())),
        ("total_results", Tree::Integer(total)),
        ("format", Tree::text("STRING")),
        ("results", Tree::Array(results)),
    ])
}

/// The values of a column, lists as arrays.
pub(super) fn trees_of(column: &ArrayRef) -> Result<Vec<Tree>, QueryError> {
    if let DataType::List(_) = column.data_type() {
        let list = |part: Option<ArrayRef>| match part {
            Some(part) => Ok(Tree::Array(trees_of(&part)?)),
            None => Ok(Tree::Array(Vec::new())),
        };
        return column.as_list::<i32>().iter().map(list).collect();
    }
    Ok(values_of(column)?.into_iter().map(Tree::of).collect())
}

/// A number as clients read it: a whole one without a point, others in as many digits as say exactly which.
pub(super) fn number_text(number: f64) -> String {
    let is_whole = number.fract() == 0.0 && number.abs() < 1e17;
    if is_whole {
        return format!("{}", number as i64);
    }
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_finite() && !(1e-5..1e17).contains(&number.abs()) {
        return format!("{number:e}");
    }
    number.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (3.0, "3"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e16, "10000000000000000"),
            (1e300, "1e300"),
            (1e-7, "1e-7"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }
}
