//! From the bytes of a value to a column of a type.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryBuilder, BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder,
    Float32Builder, Float64Builder, Int16Builder, Int32Builder, Int64Builder, StringBuilder,
    StringViewBuilder, TimestampNanosecondBuilder,
};
use datafusion::arrow::compute::kernels::cast_utils::{Parser, parse_decimal, string_to_timestamp_nanos};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type,
};

/// A value of a row, as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell<'a> {
    /// There is none.
    Null,
    /// Bytes, most often the text of a value.
    Bytes(Cow<'a, [u8]>),
    /// A number of ours: an index, a time to live, a size.
    Int(i64),
    /// A score.
    Float(f64),
    /// A truth value of a JSON document.
    Bool(bool),
}

/// A column that is being filled.
pub enum Column {
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
    /// Of `DECIMAL`, with precision and scale.
    Decimal(Decimal128Builder, u8, i8),
    /// Of `TEXT`.
    Text(StringViewBuilder),
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

impl Column {
    /// An empty column with room for so many rows.
    ///
    /// REQUIRES: the type is one that a declaration allows.
    pub fn of(data_type: &DataType, rows: usize) -> Column {
        match data_type {
            DataType::Boolean => Column::Bool(BooleanBuilder::with_capacity(rows)),
            DataType::Int16 => Column::Int16(Int16Builder::with_capacity(rows)),
            DataType::Int32 => Column::Int32(Int32Builder::with_capacity(rows)),
            DataType::Int64 => Column::Int64(Int64Builder::with_capacity(rows)),
            DataType::Float32 => Column::Float32(Float32Builder::with_capacity(rows)),
            DataType::Float64 => Column::Float64(Float64Builder::with_capacity(rows)),
            DataType::Decimal128(precision, scale) => {
                let builder = Decimal128Builder::with_capacity(rows).with_data_type(data_type.clone());
                Column::Decimal(builder, *precision, *scale)
            }
            DataType::Utf8 => Column::PlainText(StringBuilder::with_capacity(rows, rows * 8)),
            DataType::Binary => Column::PlainBytes(BinaryBuilder::with_capacity(rows, rows * 8)),
            DataType::BinaryView => Column::Bytes(BinaryViewBuilder::with_capacity(rows)),
            DataType::Date32 => Column::Date(Date32Builder::with_capacity(rows)),
            DataType::Timestamp(_, zone) => Column::Timestamp(
                TimestampNanosecondBuilder::with_capacity(rows).with_timezone_opt(zone.clone()),
            ),
            _ => Column::Text(StringViewBuilder::with_capacity(rows)),
        }
    }

    /// Adds a row. `false`: the cell cannot be read as this type, and NULL stands for it.
    #[inline]
    pub fn push(&mut self, cell: &Cell<'_>) -> bool {
        match cell {
            Cell::Null => {
                self.push_null();
                true
            }
            Cell::Bytes(bytes) => self.push_bytes(bytes),
            Cell::Int(number) => self.push_int(*number),
            Cell::Float(number) => self.push_float(*number),
            Cell::Bool(truth) => self.push_bool(*truth),
        }
    }

    fn push_null(&mut self) {
        match self {
            Column::Bool(column) => column.append_null(),
            Column::Int16(column) => column.append_null(),
            Column::Int32(column) => column.append_null(),
            Column::Int64(column) => column.append_null(),
            Column::Float32(column) => column.append_null(),
            Column::Float64(column) => column.append_null(),
            Column::Decimal(column, ..) => column.append_null(),
            Column::Text(column) => column.append_null(),
            Column::PlainText(column) => column.append_null(),
            Column::Bytes(column) => column.append_null(),
            Column::PlainBytes(column) => column.append_null(),
            Column::Date(column) => column.append_null(),
            Column::Timestamp(column) => column.append_null(),
        }
    }

    /// Adds what these bytes say.
    fn push_bytes(&mut self, bytes: &[u8]) -> bool {
        match self {
            Column::Bytes(column) => {
                column.append_value(bytes);
                return true;
            }
            Column::PlainBytes(column) => {
                column.append_value(bytes);
                return true;
            }
            _ => {}
        }
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.push_null();
            return false;
        };
        match self {
            Column::Text(column) => {
                column.append_value(text);
                return true;
            }
            Column::PlainText(column) => {
                column.append_value(text);
                return true;
            }
            _ => {}
        }
        let text = text.trim_ascii();
        macro_rules! append {
            ($column:expr, $value:expr) => {{
                let value = $value;
                let is_read = value.is_some();
                $column.append_option(value);
                is_read
            }};
        }
        match self {
            Column::Bool(column) => append!(column, truth_of(text)),
            Column::Int16(column) => append!(column, Int16Type::parse(text)),
            Column::Int32(column) => append!(column, Int32Type::parse(text)),
            Column::Int64(column) => append!(column, Int64Type::parse(text)),
            Column::Float32(column) => append!(column, Float32Type::parse(text)),
            Column::Float64(column) => append!(column, Float64Type::parse(text)),
            Column::Decimal(column, precision, scale) => {
                append!(column, decimal_of(text, *precision, *scale))
            }
            Column::Date(column) => append!(column, Date32Type::parse(text)),
            Column::Timestamp(column) => append!(column, string_to_timestamp_nanos(text).ok()),
            Column::Text(_) | Column::PlainText(_) | Column::Bytes(_) | Column::PlainBytes(_) => {
                unreachable!("texts and bytes were added above")
            }
        }
    }

    fn push_int(&mut self, number: i64) -> bool {
        match self {
            Column::Int64(column) => column.append_value(number),
            Column::Float64(column) => column.append_value(number as f64),
            _ => return self.push_text(|text| write!(text, "{number}")),
        }
        true
    }

    fn push_float(&mut self, number: f64) -> bool {
        match self {
            Column::Float64(column) => column.append_value(number),
            Column::Float32(column) => column.append_value(number as f32),
            // A whole number reads as one; others have no place in a column of whole numbers.
            _ => return self.push_text(|text| write!(text, "{number}")),
        }
        true
    }

    fn push_bool(&mut self, truth: bool) -> bool {
        match self {
            Column::Bool(column) => column.append_value(truth),
            _ => return self.push_text(|text| write!(text, "{truth}")),
        }
        true
    }

    fn push_text(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) -> bool {
        let mut text = String::new();
        write(&mut text).expect("writing to a string does not fail");
        self.push_bytes(text.as_bytes())
    }

    /// The column, and an empty one in its place.
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Bool(column) => Arc::new(column.finish()),
            Column::Int16(column) => Arc::new(column.finish()),
            Column::Int32(column) => Arc::new(column.finish()),
            Column::Int64(column) => Arc::new(column.finish()),
            Column::Float32(column) => Arc::new(column.finish()),
            Column::Float64(column) => Arc::new(column.finish()),
            Column::Decimal(column, ..) => Arc::new(column.finish()),
            Column::Text(column) => Arc::new(column.finish()),
            Column::PlainText(column) => Arc::new(column.finish()),
            Column::Bytes(column) => Arc::new(column.finish()),
            Column::PlainBytes(column) => Arc::new(column.finish()),
            Column::Date(column) => Arc::new(column.finish()),
            Column::Timestamp(column) => Arc::new(column.finish()),
        }
    }
}

/// What PostgreSQL reads as a truth value.
fn truth_of(text: &str) -> Option<bool> {
    let is = |words: &[&str]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(&["true", "t", "yes", "y", "on", "1"]) {
        Some(true)
    } else if is(&["false", "f", "no", "n", "off", "0"]) {
        Some(false)
    } else {
        None
    }
}

/// A decimal number, rounded to the scale as PostgreSQL does: half away from zero.
fn decimal_of(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let Ok(finer) = parse_decimal::<Decimal128Type>(text, DECIMAL128_MAX_PRECISION, scale + 1) else {
        // There is no room for a digit more, so none can be rounded.
        return parse_decimal::<Decimal128Type>(text, precision, scale).ok();
    };
    let rounded = (finer + 5 * finer.signum()) / 10;
    (rounded.unsigned_abs() < 10u128.pow(u32::from(precision))).then_some(rounded)
}
