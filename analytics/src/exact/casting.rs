//! Casts as PostgreSQL has them: numbers are rounded, not truncated, and texts have its format.

use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{NaiveDateTime, Offset};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Int64Array, StringArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Float32Type, Float64Type, TimeUnit, TimestampNanosecondType,
    i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::temporal_conversions::as_datetime_with_timezone;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arithmetic::{DIGITS_MAX, digits_of, fitting, rescaled};

/// Digits after the point of a decimal that is read from a text or a float without a declared scale.
const SCALE: i8 = 15;

/// The target of a cast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Target {
    /// A whole number of this type, from a number that need not be one.
    Whole(DataType),
    /// A decimal, from a floating-point number.
    Decimal(u8, i8),
    /// `NUMERIC` with as many digits as there are.
    Numeric,
    /// A text.
    Text,
}

/// A cast as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Cast {
    target: Target,
    signature: Signature,
}

/// The function that a cast is, if it is not as the planner has it.
pub(super) fn function_of(from: &DataType, to: &DataType) -> Option<ScalarUDF> {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp, Utf8, Utf8View};
    let target = match (from, to) {
        (Float32 | Float64 | Decimal128(..), Int8 | Int16 | Int32 | Int64) => Target::Whole(to.clone()),
        (Float32 | Float64, Decimal128(digits, scale)) => Target::Decimal(*digits, *scale),
        (Float32 | Float64 | Timestamp(TimeUnit::Nanosecond, _), Utf8 | Utf8View | DataType::LargeUtf8) => {
            Target::Text
        }
        _ => return None,
    };
    Some(made(target))
}

/// `to_numeric(x)`: what `x::numeric` is.
pub(super) fn to_numeric() -> ScalarUDF {
    made(Target::Numeric)
}

/// A cast to text.
pub(super) fn to_text() -> ScalarUDF {
    made(Target::Text)
}

fn made(target: Target) -> ScalarUDF {
    ScalarUDF::new_from_impl(Cast { target, signature: Signature::any(1, Volatility::Immutable) })
}

impl ScalarUDFImpl for Cast {
    fn name(&self) -> &str {
        match &self.target {
            Target::Whole(_) => "to_whole",
            Target::Decimal(..) => "to_decimal",
            Target::Numeric => "to_numeric",
            Target::Text => "to_text",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type is that of the argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let given = args.arg_fields[0].data_type();
        let to = match &self.target {
            Target::Whole(whole) => whole.clone(),
            Target::Decimal(digits, scale) => DataType::Decimal128(*digits, *scale),
            Target::Text => DataType::Utf8,
            Target::Numeric => match (given, digits_of(given)) {
                (DataType::Decimal128(..), _) => given.clone(),
                (_, Some(digits)) => DataType::Decimal128(digits, 0),
                (DataType::Float32 | DataType::Float64 | DataType::Null, _) => {
                    DataType::Decimal128(DIGITS_MAX, SCALE)
                }
                (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, _) => {
                    let text = args.scalar_arguments.first().copied().flatten();
                    let text = text.and_then(|text| text.try_as_str().flatten());
                    let scale = text.and_then(read).map_or(SCALE, |(_, scale)| scale);
                    DataType::Decimal128(DIGITS_MAX, scale.clamp(0, DIGITS_MAX as i8))
                }
                (other, _) => return plan_err!("cannot cast type {other} to numeric"),
            },
        };
        Ok(Arc::new(Field::new(self.name(), to, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = matches!(args.args[0], ColumnarValue::Scalar(_));
        let array = args.args[0].to_array(if is_one { 1 } else { args.number_rows })?;
        let to = args.return_field.data_type();
        let made: ArrayRef = match (&self.target, to) {
            (Target::Whole(_), _) => whole(&array, to)?,
            (Target::Text, _) => Arc::new(texts(&array)?),
            (_, &DataType::Decimal128(digits, scale)) => decimals(&array, digits, scale)?,
            _ => return exec_err!("it is a decimal"),
        };
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn name_of(whole: &DataType) -> &'static str {
    match whole {
        DataType::Int16 | DataType::Int8 => "smallint",
        DataType::Int32 => "integer",
        _ => "bigint",
    }
}

fn whole(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let out = || ArrowError::ArithmeticOverflow(format!("{} out of range", name_of(to)));
    let numbers: Int64Array = match array.data_type() {
        DataType::Decimal128(_, scale) => {
            let numbers = array.as_primitive::<Decimal128Type>();
            let each = numbers.iter().map(|number| {
                let whole = |number| rescaled(i256::from_i128(number), *scale, 0)?.to_i128();
                number
                    .map(|number| whole(number).and_then(|it| i64::try_from(it).ok()).ok_or_else(out))
                    .transpose()
            });
            each.collect::<Result<_, _>>()?
        }
        _ => {
            let numbers = cast(array, &DataType::Float64)?;
            let each = numbers.as_primitive::<Float64Type>().iter().map(|number| {
                let whole = |number: f64| {
                    let number = number.round_ties_even();
                    // 2^63 is the first that is too large.
                    let fits = (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&number);
                    if fits { Ok(number as i64) } else { Err(out()) }
                };
                number.map(whole).transpose()
            });
            each.collect::<Result<_, _>>()?
        }
    };
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    Ok(cast_with_options(&numbers, to, &strict).map_err(|_| out())?)
}

/// The digits of a number that is written, and how many of them are after the point.
fn read(text: &str) -> Option<(i256, i8)> {
    let text = text.trim();
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (before, behind) = digits.split_once('.').unwrap_or((digits, ""));
    let is_written = !(before.is_empty() && behind.is_empty());
    if !is_written || !before.bytes().chain(behind.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let mut number = i256::ZERO;
    for byte in before.bytes().chain(behind.bytes()) {
        number =
            number.checked_mul(i256::from_i128(10))?.checked_add(i256::from_i128(i128::from(byte - b'0')))?;
    }
    let scale = i32::try_from(behind.len()).ok()?.checked_sub(exponent)?;
    number = number.checked_mul(i256::from_i128(sign))?;
    if scale < 0 {
        number = number.checked_mul(i256::from_i128(10).checked_pow(scale.unsigned_abs())?)?;
    }
    Some((number, i8::try_from(scale.max(0)).ok()?))
}

fn decimals(array: &ArrayRef, digits: u8, scale: i8) -> Result<ArrayRef> {
    let of_text = |text: &str| -> Result<i128, ArrowError> {
        let (number, from) = read(text).ok_or_else(|| {
            ArrowError::CastError(format!("invalid input syntax for type numeric: \"{text}\""))
        })?;
        fitting(rescaled(number, from, scale), digits)
    };
    let numbers: Decimal128Array = match array.data_type() {
        DataType::Decimal128(..) => return Ok(array.clone()),
        // As many digits of a floating-point number count as it certainly has.
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>().iter();
            let of = |number: f32| of_float(f64::from(number), &format!("{number:.5e}"), of_text);
            numbers.map(|number| number.map(of).transpose()).collect::<Result<_, _>>()?
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>().iter();
            let of = |number: f64| of_float(number, &format!("{number:.14e}"), of_text);
            numbers.map(|number| number.map(of).transpose()).collect::<Result<_, _>>()?
        }
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => {
            let texts = cast(array, &DataType::Utf8)?;
            let texts = texts.as_string::<i32>().iter();
            texts.map(|text| text.map(of_text).transpose()).collect::<Result<_, _>>()?
        }
        _ => {
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            return Ok(cast_with_options(array, &DataType::Decimal128(digits, scale), &strict)?);
        }
    };
    Ok(Arc::new(numbers.with_precision_and_scale(digits, scale)?))
}

fn of_float(
    number: f64,
    written: &str,
    read: impl Fn(&str) -> Result<i128, ArrowError>,
) -> Result<i128, ArrowError> {
    match number.is_finite() {
        true => read(written),
        false => {
            Err(ArrowError::ArithmeticOverflow("cannot convert NaN or infinity to numeric here".to_owned()))
        }
    }
}

fn texts(array: &ArrayRef) -> Result<StringArray> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            let numbers = array.as_primitive::<Float32Type>().iter();
            numbers.map(|number| number.map(|number| number_text(&format!("{number:e}"), 6))).collect()
        }
        DataType::Float64 => {
            let numbers = array.as_primitive::<Float64Type>().iter();
            numbers.map(|number| number.map(|number| number_text(&format!("{number:e}"), 15))).collect()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            let moments = array.as_primitive::<TimestampNanosecondType>();
            let text = |row: usize| Some(moment_text(&moments.value_as_datetime(row)?));
            (0..moments.len()).map(|row| moments.is_valid(row).then(|| text(row)).flatten()).collect()
        }
        DataType::Timestamp(TimeUnit::Nanosecond, Some(zone)) => {
            let zone = zone.parse::<Tz>()?;
            let moments = array.as_primitive::<TimestampNanosecondType>();
            let text = |row: usize| {
                let moment = as_datetime_with_timezone::<TimestampNanosecondType>(moments.value(row), zone)?;
                let seconds = moment.offset().fix().local_minus_utc();
                let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
                let minutes = match seconds / 60 % 60 {
                    0 => String::new(),
                    minutes => format!(":{minutes:02}"),
                };
                Some(format!("{}{sign}{:02}{minutes}", moment_text(&moment.naive_local()), seconds / 3600))
            };
            (0..moments.len()).map(|row| moments.is_valid(row).then(|| text(row)).flatten()).collect()
        }
        DataType::Binary | DataType::BinaryView => {
            let bytes = cast(array, &DataType::Binary)?;
            let hex = |bytes: &[u8]| {
                bytes.iter().fold(String::from("\\x"), |mut text, byte| {
                    let _ = write!(text, "{byte:02x}");
                    text
                })
            };
            bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(hex)).collect()
        }
        _ => cast(array, &DataType::Utf8)?.as_string::<i32>().clone(),
    })
}

/// Moments as PostgreSQL writes them; `None` of what is none, or further away than nanoseconds reach.
pub(crate) fn moment_texts(array: &ArrayRef) -> Option<StringArray> {
    let DataType::Timestamp(_, zone) = array.data_type() else { return None };
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let nanos = DataType::Timestamp(TimeUnit::Nanosecond, zone.clone());
    texts(&cast_with_options(array, &nanos, &strict).ok()?).ok()
}

fn moment_text(moment: &NaiveDateTime) -> String {
    let mut text = moment.format("%Y-%m-%d %H:%M:%S").to_string();
    let micros = moment.and_utc().timestamp_subsec_micros();
    if micros > 0 {
        let digits = format!("{micros:06}");
        let _ = write!(text, ".{}", digits.trim_end_matches('0'));
    }
    text
}

/// A number of the form `1.25e-7` as PostgreSQL writes it: with an exponent only where it is small, or has
/// more than `digits` digits before the point.
pub(crate) fn number_text(scientific: &str, digits: i32) -> String {
    let (sign, rest) = scientific.split_at(usize::from(scientific.starts_with('-')));
    let Some((mantissa, exponent)) = rest.split_once('e') else {
        return if rest == "inf" { format!("{sign}Infinity") } else { rest.to_owned() };
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if exponent < -4 || exponent >= digits {
        let mark = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{mantissa}e{mark}{:02}", exponent.abs());
    }
    let figures = mantissa.replace('.', "");
    if exponent < 0 {
        return format!("{sign}0.{}{figures}", "0".repeat((-exponent - 1) as usize));
    }
    let whole = exponent as usize + 1;
    if figures.len() <= whole {
        return format!("{sign}{figures}{}", "0".repeat(whole - figures.len()));
    }
    format!("{sign}{}.{}", &figures[..whole], &figures[whole..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_postgresql_writes_them() {
        let cases = [
            (300.0, "300"),
            (0.0, "0"),
            (-0.0, "-0"),
            (120.5, "120.5"),
            (-1.25, "-1.25"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.1 + 0.2, "0.30000000000000004"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (-1.5e300, "-1.5e+300"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (number, text) in cases {
            assert_eq!(number_text(&format!("{number:e}"), 15), text);
        }
        assert_eq!(number_text(&format!("{:e}", 1e6_f32), 6), "1e+06");
        assert_eq!(number_text(&format!("{:e}", 1.1_f32), 6), "1.1");
    }

    #[test]
    fn numbers_are_read_with_their_digits() {
        let read = |text| read(text).map(|(number, scale)| (number.to_i128().expect("small"), scale));
        assert_eq!(read(" -5.50 "), Some((-550, 2)));
        assert_eq!(read("1.5e3"), Some((1500, 0)));
        assert_eq!(read("2e-3"), Some((2, 3)));
        assert!([".", "", "1.2.3", "x", "1e", "--1"].iter().all(|text| read(text).is_none()));
    }
}
