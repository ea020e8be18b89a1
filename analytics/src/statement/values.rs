//! Rows as plain values, for callers without Arrow.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::DataFusionError;
use futures::StreamExt;

use crate::error::QueryError;
use crate::statement::outcome::Outcome;

/// Bytes that a value takes beside its contents, about.
const VALUE_BYTES: usize = 32;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// Everything else, as text or as bytes.
    Bytes(Vec<u8>),
}

impl Value {
    fn bytes(&self) -> usize {
        VALUE_BYTES
            + match self {
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            }
    }
}

impl Outcome {
    /// The names of the columns, and all rows; an error if they take more than `bytes_max` bytes, or if the
    /// right to them has ended meanwhile.
    pub async fn collect(mut self, bytes_max: usize) -> Result<(Vec<String>, Vec<Vec<Value>>), QueryError> {
        let columns = self.schema.fields().iter().map(|field| field.name().clone()).collect();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(batch) = self.rows.next().await {
            let batch = batch?;
            let from = rows.len();
            rows.resize_with(from + batch.num_rows(), || Vec::with_capacity(batch.num_columns()));
            for column in batch.columns() {
                for (at, value) in values_of(column)?.into_iter().enumerate() {
                    bytes += value.bytes();
                    rows[from + at].push(value);
                }
            }
            if bytes > bytes_max {
                return Err(QueryError::TooLong { bytes_max });
            }
        }
        self.check()?;
        Ok((columns, rows))
    }
}

/// The values of a column.
pub(crate) fn values_of(column: &ArrayRef) -> Result<Vec<Value>, QueryError> {
    macro_rules! integers {
        ($kind:ty) => {
            column
                .as_primitive::<$kind>()
                .iter()
                .map(|number| number.map(|it| Value::Integer(it as i64)))
                .map(OrNull::or_null)
                .collect()
        };
    }
    macro_rules! doubles {
        ($kind:ty) => {
            column
                .as_primitive::<$kind>()
                .iter()
                .map(|number| number.map(|it| Value::Double(f64::from(it))))
                .map(OrNull::or_null)
                .collect()
        };
    }
    Ok(match column.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 if column.as_primitive::<UInt64Type>().iter().flatten().all(|it| it >> 63 == 0) => {
            integers!(UInt64Type)
        }
        DataType::Decimal128(_, 0)
            if column.as_primitive::<Decimal128Type>().iter().flatten().all(is_small) =>
        {
            integers!(Decimal128Type)
        }
        DataType::Float32 => doubles!(Float32Type),
        DataType::Float64 => doubles!(Float64Type),
        DataType::Boolean => {
            column.as_boolean().iter().map(|truth| truth.map(Value::Boolean)).map(OrNull::or_null).collect()
        }
        DataType::Binary => bytes_of(column.as_binary::<i32>().iter()),
        DataType::BinaryView => bytes_of(column.as_binary_view().iter()),
        _ => {
            let options = FormatOptions::default();
            let texts = ArrayFormatter::try_new(column, &options).map_err(DataFusionError::from)?;
            let text = |at| match column.is_null(at) {
                true => Value::Null,
                false => Value::Bytes(texts.value(at).to_string().into_bytes()),
            };
            (0..column.len()).map(text).collect()
        }
    })
}

/// Whether a number is one of 64 bits.
fn is_small(number: i128) -> bool {
    i64::try_from(number).is_ok()
}

fn bytes_of<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Value> {
    values.map(|bytes| bytes.map(|bytes| Value::Bytes(bytes.to_vec()))).map(OrNull::or_null).collect()
}

/// NULL for what is not there.
trait OrNull {
    fn or_null(self) -> Value;
}

impl OrNull for Option<Value> {
    fn or_null(self) -> Value {
        self.unwrap_or(Value::Null)
    }
}
