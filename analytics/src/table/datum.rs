//! A value of a row as its column's type, and the order of such values: SQL's order, as bytes.

use std::borrow::Cow;

use datafusion::arrow::compute::kernels::cast_utils::{Parser, parse_decimal, string_to_timestamp_nanos};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type,
};
use datafusion::common::ScalarValue;

/// A value of a row, as the store has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell<'a> {
    /// There is none.
    Null,
    /// Bytes, most often the text of a value.
    Bytes(Cow<'a, [u8]>),
    /// A number of ours: an index, a time to live, a size.
    Int(i64),
    /// Milliseconds since the Unix epoch.
    Time(u64),
    /// A score.
    Float(f64),
    /// A truth value of a JSON document.
    Bool(bool),
    /// A value that no type can be read of.
    Unreadable,
}

impl Cell<'_> {
    /// The same cell, without its bytes being copied.
    pub(crate) fn borrowed(&self) -> Cell<'_> {
        match self {
            Cell::Null => Cell::Null,
            Cell::Bytes(bytes) => Cell::Bytes(Cow::Borrowed(bytes)),
            Cell::Int(number) => Cell::Int(*number),
            Cell::Time(ms) => Cell::Time(*ms),
            Cell::Float(number) => Cell::Float(*number),
            Cell::Bool(truth) => Cell::Bool(*truth),
            Cell::Unreadable => Cell::Unreadable,
        }
    }
}

/// A value of a row, as its column's type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum<'a> {
    /// NULL.
    Null,
    /// Of `BOOLEAN`.
    Bool(bool),
    /// Of a type of whole numbers, of `DATE` in days, or of `TIMESTAMP` in nanoseconds.
    Int(i64),
    /// Of `REAL` or `DOUBLE`.
    Float(f64),
    /// Of `DECIMAL`, in units of its last digit.
    Decimal(i128),
    /// Of `TEXT`.
    Text(Cow<'a, str>),
    /// Of `BYTEA`.
    Bytes(Cow<'a, [u8]>),
}

const SIGN: u64 = 1 << 63;
const SIGN_WIDE: u128 = 1 << 127;
/// Any number of so many digits fits a `BIGINT`.
const DIGITS_MAX: usize = 18;
const NANOS_IN_MS: i64 = 1_000_000;
const MS_IN_DAY: u64 = 24 * 60 * 60 * 1000;

impl<'a> Datum<'a> {
    /// Reads a cell as this type; `None`: it cannot be.
    ///
    /// REQUIRES: the type is one that a declaration allows.
    #[inline]
    pub(crate) fn read(cell: Cell<'a>, data_type: &DataType) -> Option<Datum<'a>> {
        match cell {
            Cell::Null => Some(Datum::Null),
            Cell::Unreadable => None,
            Cell::Bytes(bytes) => Datum::read_bytes(bytes, data_type),
            Cell::Int(number) => match data_type {
                DataType::Int64 => Some(Datum::Int(number)),
                DataType::Float64 => Some(Datum::Float(number as f64)),
                _ => Datum::read_written(&number, data_type),
            },
            Cell::Time(ms) => match data_type {
                DataType::Int64 => i64::try_from(ms).ok().map(Datum::Int),
                DataType::Timestamp(..) => i64::try_from(ms).ok()?.checked_mul(NANOS_IN_MS).map(Datum::Int),
                DataType::Date32 => i32::try_from(ms / MS_IN_DAY).ok().map(|days| Datum::Int(days.into())),
                _ => Datum::read_written(&ms, data_type),
            },
            Cell::Float(number) => match data_type {
                DataType::Float64 => Some(Datum::real(number)),
                DataType::Float32 => Some(Datum::real(f64::from(number as f32))),
                // A whole number reads as one; others have no place in a column of whole numbers.
                _ => Datum::read_written(&number, data_type),
            },
            Cell::Bool(truth) => match data_type {
                DataType::Boolean => Some(Datum::Bool(truth)),
                _ => Datum::read_written(&truth, data_type),
            },
        }
    }

    /// There is one zero and one NaN, so that numbers which are equal are the same in joins and groups.
    #[inline]
    fn real(number: f64) -> Datum<'a> {
        Datum::Float(if number.is_nan() { f64::NAN } else { number + 0.0 })
    }

    fn read_written(value: &impl ToString, data_type: &DataType) -> Option<Datum<'a>> {
        Datum::read_bytes(Cow::Owned(value.to_string().into_bytes()), data_type)
    }

    #[inline]
    fn read_bytes(bytes: Cow<'a, [u8]>, data_type: &DataType) -> Option<Datum<'a>> {
        match data_type {
            DataType::Binary | DataType::BinaryView => return Some(Datum::Bytes(bytes)),
            DataType::Utf8 | DataType::Utf8View => {
                return text_of(bytes).map(Datum::Text);
            }
            _ => {}
        }
        if *data_type == DataType::Int64
            && let Some(number) = digits_of(&bytes)
        {
            return Some(Datum::Int(number));
        }
        let text = std::str::from_utf8(&bytes).ok()?.trim_ascii();
        match data_type {
            DataType::Boolean => truth_of(text).map(Datum::Bool),
            DataType::Int16 => Int16Type::parse(text).map(|number| Datum::Int(i64::from(number))),
            DataType::Int32 => Int32Type::parse(text).map(|number| Datum::Int(i64::from(number))),
            DataType::Int64 => Int64Type::parse(text).map(Datum::Int),
            DataType::Float32 => Float32Type::parse(text).map(|number| Datum::real(f64::from(number))),
            DataType::Float64 => Float64Type::parse(text).map(Datum::real),
            DataType::Decimal128(precision, scale) => {
                decimal_of(text, *precision, *scale).map(Datum::Decimal)
            }
            DataType::Date32 => Date32Type::parse(text).map(|days| Datum::Int(i64::from(days))),
            DataType::Timestamp(..) => string_to_timestamp_nanos(text).ok().map(Datum::Int),
            _ => None,
        }
    }

    /// Bytes of its text.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Datum::Text(text) => text.len(),
            Datum::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// A literal of a query, if it is of the type of the column that it is compared with.
    pub(crate) fn of_scalar(scalar: &ScalarValue, data_type: &DataType) -> Option<Datum<'static>> {
        if scalar.is_null() || scalar.data_type() != *data_type {
            return None;
        }
        Some(match scalar {
            ScalarValue::Boolean(Some(truth)) => Datum::Bool(*truth),
            ScalarValue::Int16(Some(number)) => Datum::Int(i64::from(*number)),
            ScalarValue::Int32(Some(number)) | ScalarValue::Date32(Some(number)) => {
                Datum::Int(i64::from(*number))
            }
            ScalarValue::Int64(Some(number)) | ScalarValue::TimestampNanosecond(Some(number), _) => {
                Datum::Int(*number)
            }
            ScalarValue::Float32(Some(number)) => Datum::Float(f64::from(*number)),
            ScalarValue::Float64(Some(number)) => Datum::Float(*number),
            ScalarValue::Decimal128(Some(number), ..) => Datum::Decimal(*number),
            ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
                Datum::Text(Cow::Owned(text.clone()))
            }
            ScalarValue::Binary(Some(value)) | ScalarValue::BinaryView(Some(value)) => {
                Datum::Bytes(Cow::Owned(value.clone()))
            }
            _ => return None,
        })
    }

    /// Hands bytes whose order is that of the values to `work`; `None` for NULL. Values of one type only can
    /// be compared so.
    #[inline]
    pub(crate) fn in_order<T>(&self, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        Some(match self {
            Datum::Null => return None,
            Datum::Bool(truth) => work(&[u8::from(*truth)]),
            Datum::Int(number) => work(&(*number as u64 ^ SIGN).to_be_bytes()),
            Datum::Float(number) => {
                // As the operators compare: NaN sorts after all others, and both zeros are the same: adding
                // makes the negative one positive. Negative numbers grow towards zero while their bits fall.
                let bits = (number + 0.0).to_bits();
                work(&(if bits & SIGN == 0 { bits | SIGN } else { !bits }).to_be_bytes())
            }
            Datum::Decimal(number) => work(&(*number as u128 ^ SIGN_WIDE).to_be_bytes()),
            Datum::Text(text) => work(text.as_bytes()),
            Datum::Bytes(bytes) => work(bytes),
        })
    }
}

/// The number of which these bytes are the order, if they are that of a whole number.
pub(crate) fn number_of_order(order: &[u8]) -> Option<i64> {
    Some((u64::from_be_bytes(order.try_into().ok()?) ^ SIGN) as i64)
}

fn text_of(bytes: Cow<'_, [u8]>) -> Option<Cow<'_, str>> {
    match bytes {
        Cow::Borrowed(bytes) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
        Cow::Owned(bytes) => String::from_utf8(bytes).ok().map(Cow::Owned),
    }
}

/// A whole number that is nothing but some digits, as most are; `None` if it may be another one.
#[inline]
pub(crate) fn digits_of(bytes: &[u8]) -> Option<i64> {
    let zeros = bytes.iter().take_while(|byte| **byte == b'0').count();
    let digits = &bytes[zeros..];
    if bytes.is_empty() || digits.len() > DIGITS_MAX || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0')))
}

/// The texts that PostgreSQL reads as a boolean.
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A number has one value, whichever way it is read.
        #[test]
        fn digits_are_read_as_the_number_that_they_are(
            text in "[0-9]{1,20}|0{0,30}[0-9]{0,20}|[-+ ]?[0-9]{0,3}[.a ]?",
        ) {
            let read = digits_of(text.as_bytes());
            prop_assert!(read.is_none() || read == Int64Type::parse(&text), "{text:?}: {read:?}");
            let digits = text.trim_start_matches('0');
            let are_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
            let is_plain = digits.len() <= DIGITS_MAX && are_digits;
            prop_assert_eq!(read.is_some(), is_plain && !text.is_empty());
        }
    }
}
