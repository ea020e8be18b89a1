//! Builds the columns of a batch, one cell at a time.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BinaryBuilder, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, LargeBinaryArray,
    LargeBinaryBuilder, LargeStringArray, StringBuilder, StringViewArray, TimestampNanosecondBuilder,
};
use datafusion::arrow::datatypes::DataType;

use crate::table::datum::Datum;

/// A column that is being filled.
pub(crate) enum Column {
    /// Of `BOOLEAN`.
    Bool(BooleanBuilder),
    /// Of `SMALLINT`.
    Int16(Int16Builder),
    /// Of `INT`.
    Int32(Int32Builder),
    /// Of `BIGINT`.
    Int64(Int64Builder),
    /// Of `REAL`.
    Float32(Float32Builder),
    /// Of `DOUBLE`.
    Float64(Float64Builder),
    /// Of `DECIMAL`.
    Decimal(Decimal128Builder),
    /// Of `TEXT`. Whether bytes are UTF-8 is looked at when the column is finished: of all at once, and where
    /// nobody waits for a latch. They may be more than 2 GB.
    Text(LargeBinaryBuilder),
    /// Of `TEXT`, in one buffer.
    PlainText(StringBuilder),
    /// Of `BYTEA`.
    Bytes(BinaryViewBuilder),
    /// Of `BYTEA`, in one buffer.
    PlainBytes(BinaryBuilder),
    /// Of `DATE`.
    Date(Date32Builder),
    /// Of `TIMESTAMP`, with or without a time zone.
    Timestamp(TimestampNanosecondBuilder),
}

/// Calls a method of whatever builder a column has.
macro_rules! each_builder {
    ($self:expr, $column:ident => $work:expr) => {
        match $self {
            Column::Text($column) => $work,
            Column::Bool($column) => $work,
            Column::Int16($column) => $work,
            Column::Int32($column) => $work,
            Column::Int64($column) => $work,
            Column::Float32($column) => $work,
            Column::Float64($column) => $work,
            Column::Decimal($column) => $work,
            Column::PlainText($column) => $work,
            Column::Bytes($column) => $work,
            Column::PlainBytes($column) => $work,
            Column::Date($column) => $work,
            Column::Timestamp($column) => $work,
        }
    };
}

impl Column {
    /// An empty column with room for this many rows.
    ///
    /// REQUIRES: the type is one that a declaration allows.
    pub(crate) fn of(data_type: &DataType, rows: usize) -> Column {
        match data_type {
            DataType::Boolean => Column::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => Column::Int16(Int16Builder::with_capacity(rows)),
            DataType::Int32 => Column::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => Column::Int64(Int64Builder::with_capacity(rows)),
            DataType::Float32 => Column::Float32(Float32Builder::with_capacity(rows)),
            DataType::Float64 => Column::Float64(Float64Builder::with_capacity(rows)),
            DataType::Decimal128(..) => {
                Column::Decimal(Decimal128Builder::with_capacity(rows).with_data_type(data_type.clone()))
            }
            DataType::Utf8 => Column::PlainText(StringBuilder::with_capacity(rows, rows * 8)),
            DataType::Binary => Column::PlainBytes(BinaryBuilder::with_capacity(rows, rows * 8)),
            DataType::BinaryView => Column::Bytes(BinaryViewBuilder::with_capacity(rows)),
            DataType::Date32 => Column::Date(Date32Builder::with_capacity(rows)),
            DataType::Timestamp(_, zone) => Column::Timestamp(
                TimestampNanosecondBuilder::with_capacity(rows).with_timezone_opt(zone.clone()),
            ),
            _ => Column::Text(LargeBinaryBuilder::with_capacity(rows, rows * 8)),
        }
    }

    /// Adds a row. What is of another type than the column is NULL in it.
    #[inline]
    pub(crate) fn push(&mut self, datum: &Datum<'_>) {
        match (self, datum) {
            (Column::Bool(column), Datum::Bool(truth)) => column.append_value(*truth),
            (Column::Int16(column), Datum::Int(number)) => column.append_value(*number as i16),
            (Column::Int32(column), Datum::Int(number)) => column.append_value(*number as i32),
            (Column::Int64(column), Datum::Int(number)) => column.append_value(*number),
            (Column::Float32(column), Datum::Float(number)) => column.append_value(*number as f32),
            (Column::Float64(column), Datum::Float(number)) => column.append_value(*number),
            (Column::Decimal(column), Datum::Decimal(number)) => column.append_value(*number),
            (Column::Text(column), Datum::Text(text)) => column.append_value(text.as_bytes()),
            (Column::PlainText(column), Datum::Text(text)) => column.append_value(text),
            (Column::Bytes(column), Datum::Bytes(bytes)) => column.append_value(bytes),
            (Column::PlainBytes(column), Datum::Bytes(bytes)) => column.append_value(bytes),
            (Column::Date(column), Datum::Int(days)) => column.append_value(*days as i32),
            (Column::Timestamp(column), Datum::Int(nanos)) => column.append_value(*nanos),
            (column, _) => each_builder!(column, column => column.append_null()),
        }
    }

    /// The column, and how many of its texts are not UTF-8 and NULL therefore; an empty one is in its place.
    pub(crate) fn finish(&mut self) -> (ArrayRef, u64) {
        match self {
            Column::Text(column) => {
                let (texts, unreadable) = utf8_of(column.finish());
                (Arc::new(StringViewArray::from(&texts)), unreadable)
            }
            column => (each_builder!(column, column => Arc::new(column.finish())), 0),
        }
    }
}

/// Bytes as texts, and how many are not UTF-8: they are NULL.
fn utf8_of(bytes: LargeBinaryArray) -> (LargeStringArray, u64) {
    if let Ok(texts) = LargeStringArray::try_from_binary(bytes.clone()) {
        return (texts, 0);
    }
    let text = |bytes| std::str::from_utf8(bytes).ok();
    let texts: LargeStringArray = bytes.iter().map(|bytes| bytes.and_then(text)).collect();
    let unreadable = texts.null_count() - bytes.null_count();
    (texts, unreadable as u64)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::arrow::array::AsArray;

    use super::*;

    /// A column of texts, and how many were not UTF-8.
    fn read(texts: &[Option<&[u8]>]) -> (Vec<Option<String>>, u64) {
        let mut column = Column::of(&DataType::Utf8View, 8);
        for text in texts {
            match (text, &mut column) {
                (Some(text), Column::Text(column)) => column.append_value(text),
                _ => column.push(&Datum::Null),
            }
        }
        let (column, unreadable) = column.finish();
        (column.as_string_view().iter().map(|text| text.map(str::to_owned)).collect(), unreadable)
    }

    #[test]
    fn what_is_not_utf_8_is_null_and_counted_and_its_neighbours_are_not() {
        let text = |text: &str| Some(text.to_owned());
        let long = "longer than a view, in which twelve bytes have room";
        assert_eq!(
            read(&[Some(b"a"), None, Some(long.as_bytes()), Some(b"")]),
            (vec![text("a"), None, text(long), text("")], 0)
        );
        // The parts of a letter are none, though they are one together.
        assert_eq!(
            read(&[Some(b"a"), Some(b"\xc3"), Some(b"\xa4"), None, Some(long.as_bytes()), Some(b"\xff")]),
            (vec![text("a"), None, None, None, text(long), None], 3)
        );
    }
}
