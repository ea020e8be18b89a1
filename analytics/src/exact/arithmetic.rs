//! `+ - * / %` as PostgreSQL has them: a result out of the range of its type is an error, and so is a
//! division by zero; a quotient of decimals has at least twenty digits after the point.
//!
//! There is no negative zero and one NaN, so numbers that are equal are the same in joins, groups and orders.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::compute::kernels::arity::{try_binary, try_unary};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, i256,
};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// Digits that a decimal has at most.
pub(super) const DIGITS_MAX: u8 = 38;
/// The minimum number of digits after the point of a quotient.
const QUOTIENT_SCALE: i8 = 20;
/// The maximum number of digits after the point of a product, unless a factor has more.
const PRODUCT_SCALE_MAX: i8 = 24;

/// An operator as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Arithmetic {
    op: Operator,
    name: &'static str,
    signature: Signature,
}

/// The function that an operator of numbers is.
pub(super) fn function_of(op: Operator) -> Option<ScalarUDF> {
    let name = match op {
        Operator::Plus => "plus",
        Operator::Minus => "minus",
        Operator::Multiply => "times",
        Operator::Divide => "divided_by",
        Operator::Modulo => "mod",
        _ => return None,
    };
    let signature = Signature::user_defined(Volatility::Immutable);
    Some(ScalarUDF::new_from_impl(Arithmetic { op, name, signature }))
}

/// Digits of whole numbers of a type.
pub(super) fn digits_of(whole: &DataType) -> Option<u8> {
    Some(match whole {
        DataType::Int8 | DataType::UInt8 => 3,
        DataType::Int16 | DataType::UInt16 => 5,
        DataType::Int32 | DataType::UInt32 => 10,
        DataType::Int64 => 19,
        DataType::UInt64 => 20,
        _ => return None,
    })
}

/// Whether something is a number that is computed with here.
pub(super) fn is_number(data_type: &DataType) -> bool {
    let is_float = matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..));
    is_float || digits_of(data_type).is_some()
}

/// The types that two numbers are computed in.
fn common(left: &DataType, right: &DataType) -> Result<[DataType; 2]> {
    use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64, Null, UInt32, UInt64};
    let both = |data_type: DataType| Ok([data_type.clone(), data_type]);
    match (left, right) {
        (Null, Null) => both(Int32),
        (Null, other) | (other, Null) => common(other, other),
        (Float32, Float32) => both(Float32),
        (Float32 | Float64, other) | (other, Float32 | Float64) if is_number(other) => both(Float64),
        (Decimal128(..) | UInt64, _) | (_, Decimal128(..) | UInt64) => {
            let decimal = |data_type: &DataType| match (data_type, digits_of(data_type)) {
                (_, Some(digits)) => Ok(Decimal128(digits, 0)),
                (Decimal128(..), _) => Ok(data_type.clone()),
                (other, _) => plan_err!("there is no arithmetic of {other}"),
            };
            Ok([decimal(left)?, decimal(right)?])
        }
        _ => match (digits_of(left), digits_of(right)) {
            (Some(_), Some(_)) => both(match (left, right) {
                (Int64 | UInt32, _) | (_, Int64 | UInt32) => Int64,
                (Int32 | DataType::UInt16, _) | (_, Int32 | DataType::UInt16) => Int32,
                _ => Int16,
            }),
            _ => plan_err!("there is no arithmetic of {left} and {right}"),
        },
    }
}

/// The decimals that a computation with two kinds of them makes.
fn decimal_of(op: Operator, (p1, s1): (u8, i8), (p2, s2): (u8, i8)) -> (u8, i8) {
    let (whole1, whole2) = (p1 as i16 - i16::from(s1), p2 as i16 - i16::from(s2));
    let (digits, scale) = match op {
        Operator::Plus | Operator::Minus => {
            let scale = s1.max(s2);
            (whole1.max(whole2) + 1 + i16::from(scale), scale)
        }
        Operator::Multiply => {
            let scale = (s1 + s2).min(PRODUCT_SCALE_MAX.max(s1).max(s2));
            (whole1 + whole2 + i16::from(scale), scale)
        }
        Operator::Divide => (i16::from(DIGITS_MAX as i8), QUOTIENT_SCALE.max(s1).max(s2)),
        _ => {
            let scale = s1.max(s2);
            (whole1.max(whole2) + i16::from(scale), scale)
        }
    };
    (digits.clamp(1, i16::from(DIGITS_MAX as i8)) as u8, scale)
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return plan_err!("{} takes two numbers", self.name) };
        common(left, right).map(Vec::from)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return plan_err!("{} takes two numbers", self.name) };
        let [left, right] = common(left, right)?;
        Ok(match (&left, &right) {
            (DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
                let (digits, scale) = decimal_of(self.op, (*p1, *s1), (*p2, *s2));
                DataType::Decimal128(digits, scale)
            }
            _ => left,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let op = self.op;
        let [left, right] = args.args.as_slice() else { return exec_err!("two numbers") };
        match (left.data_type(), right.data_type()) {
            (DataType::Int16, _) => pairs::<Int16Type>(left, right, |a, b| {
                whole(op, i64::from(a), i64::from(b))
                    .and_then(|it| it.try_into().map_err(|_| out("smallint")))
            }),
            (DataType::Int32, _) => pairs::<Int32Type>(left, right, |a, b| {
                whole(op, i64::from(a), i64::from(b)).and_then(|it| it.try_into().map_err(|_| out("integer")))
            }),
            (DataType::Int64, _) => pairs::<Int64Type>(left, right, |a, b| whole(op, a, b)),
            (DataType::Float32, _) => pairs::<Float32Type>(left, right, |a, b| {
                let it = float(op, f64::from(a), f64::from(b))? as f32;
                within(f64::from(it), a.is_finite() && b.is_finite()).map(|_| it)
            }),
            (DataType::Float64, _) => pairs::<Float64Type>(left, right, |a, b| float(op, a, b)),
            (DataType::Decimal128(_, s1), DataType::Decimal128(_, s2)) => {
                let DataType::Decimal128(digits, scale) = *args.return_field.data_type() else {
                    return exec_err!("decimals make decimals");
                };
                let made = pairs::<Decimal128Type>(left, right, |a, b| {
                    decimal(op, (a, s1), (b, s2), (digits, scale))
                })?;
                Ok(match made {
                    ColumnarValue::Array(array) => {
                        let numbers = array.as_primitive::<Decimal128Type>().clone();
                        ColumnarValue::Array(std::sync::Arc::new(
                            numbers.with_precision_and_scale(digits, scale)?,
                        ))
                    }
                    ColumnarValue::Scalar(ScalarValue::Decimal128(number, ..)) => {
                        ColumnarValue::Scalar(ScalarValue::Decimal128(number, digits, scale))
                    }
                    other => other,
                })
            }
            (left, right) => exec_err!("there is no arithmetic of {left} and {right}"),
        }
    }
}

fn out(name: &str) -> ArrowError {
    ArrowError::ArithmeticOverflow(format!("{name} out of range"))
}

/// Computes with what is in each row of both.
fn pairs<T: ArrowPrimitiveType>(
    left: &ColumnarValue,
    right: &ColumnarValue,
    compute: impl Fn(T::Native, T::Native) -> Result<T::Native, ArrowError>,
) -> Result<ColumnarValue> {
    let one = |value: &ScalarValue| -> Result<Option<T::Native>> {
        let array = value.to_array()?;
        let array = array.as_primitive::<T>();
        Ok(array.is_valid(0).then(|| array.value(0)))
    };
    let nulls = |array: &ArrayRef| {
        ColumnarValue::Array(std::sync::Arc::new(PrimitiveArray::<T>::new_null(array.len())))
    };
    let made = match (left, right) {
        (ColumnarValue::Array(left), ColumnarValue::Array(right)) => {
            try_binary::<_, _, _, T>(left.as_primitive::<T>(), right.as_primitive::<T>(), compute)?
        }
        (ColumnarValue::Array(left), ColumnarValue::Scalar(right)) => match one(right)? {
            Some(right) => try_unary::<T, _, T>(left.as_primitive::<T>(), |left| compute(left, right))?,
            None => return Ok(nulls(left)),
        },
        (ColumnarValue::Scalar(left), ColumnarValue::Array(right)) => match one(left)? {
            Some(left) => try_unary::<T, _, T>(right.as_primitive::<T>(), |right| compute(left, right))?,
            None => return Ok(nulls(right)),
        },
        (ColumnarValue::Scalar(left), ColumnarValue::Scalar(right)) => {
            let made = match (one(left)?, one(right)?) {
                (Some(left), Some(right)) => Some(compute(left, right)?),
                _ => None,
            };
            let made = PrimitiveArray::<T>::from_iter([made]);
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
        }
    };
    Ok(ColumnarValue::Array(std::sync::Arc::new(made)))
}

fn whole(op: Operator, left: i64, right: i64) -> Result<i64, ArrowError> {
    if right == 0 && matches!(op, Operator::Divide | Operator::Modulo) {
        return Err(ArrowError::DivideByZero);
    }
    let made = match op {
        Operator::Plus => left.checked_add(right),
        Operator::Minus => left.checked_sub(right),
        Operator::Multiply => left.checked_mul(right),
        Operator::Divide => left.checked_div(right),
        _ => Some(left.checked_rem(right).unwrap_or(0)),
    };
    made.ok_or_else(|| out("bigint"))
}

fn float(op: Operator, left: f64, right: f64) -> Result<f64, ArrowError> {
    if right == 0.0 && matches!(op, Operator::Divide | Operator::Modulo) && !left.is_nan() {
        return Err(ArrowError::DivideByZero);
    }
    let made = match op {
        Operator::Plus => left + right,
        Operator::Minus => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        _ => left % right,
    };
    let is_lost = made == 0.0 && left != 0.0 && matches!(op, Operator::Multiply | Operator::Divide);
    if is_lost && right != 0.0 && right.is_finite() {
        return Err(ArrowError::ArithmeticOverflow("value out of range: underflow".to_owned()));
    }
    within(made, left.is_finite() && right.is_finite())
}

/// A result that is not negative zero nor another NaN, and not infinite if what it was made of was not.
pub(super) fn within(made: f64, is_of_finite: bool) -> Result<f64, ArrowError> {
    if is_of_finite && made.is_infinite() {
        return Err(ArrowError::ArithmeticOverflow("value out of range: overflow".to_owned()));
    }
    Ok(if made.is_nan() { f64::NAN } else { made + 0.0 })
}

/// A decimal with another number of digits after the point, rounded half away from zero.
pub(super) fn rescaled(number: i256, from: i8, to: i8) -> Option<i256> {
    let factor = i256::from_i128(10).checked_pow(u32::from(from.abs_diff(to)))?;
    if to >= from {
        return number.checked_mul(factor);
    }
    quotient(number, factor)
}

/// A quotient rounded half away from zero.
fn quotient(number: i256, divisor: i256) -> Option<i256> {
    let (whole, rest) = (number.checked_div(divisor)?, number.checked_rem(divisor)?);
    let is_half = rest.wrapping_abs() >= divisor.wrapping_abs().checked_sub(rest.wrapping_abs())?;
    let away = if number.is_negative() == divisor.is_negative() { i256::ONE } else { i256::MINUS_ONE };
    if is_half { whole.checked_add(away) } else { Some(whole) }
}

/// A decimal, if it has no more digits than it may.
pub(super) fn fitting(number: Option<i256>, digits: u8) -> Result<i128, ArrowError> {
    let number = number
        .and_then(i256::to_i128)
        .filter(|number| number.unsigned_abs() < 10_u128.saturating_pow(u32::from(digits.min(DIGITS_MAX))));
    number.ok_or_else(|| {
        ArrowError::ArithmeticOverflow(format!(
            "a numeric of more than {digits} digits: numeric field overflow"
        ))
    })
}

fn decimal(
    op: Operator,
    (left, s1): (i128, i8),
    (right, s2): (i128, i8),
    (digits, scale): (u8, i8),
) -> Result<i128, ArrowError> {
    if right == 0 && matches!(op, Operator::Divide | Operator::Modulo) {
        return Err(ArrowError::DivideByZero);
    }
    let (left, right) = (i256::from_i128(left), i256::from_i128(right));
    let made = match op {
        Operator::Multiply => left.checked_mul(right).and_then(|made| rescaled(made, s1 + s2, scale)),
        Operator::Divide => {
            // left / 10^s1 / (right / 10^s2), times 10^scale.
            let up = scale as i16 + i16::from(s2) - i16::from(s1);
            let factor = i256::from_i128(10).checked_pow(u32::from(up.unsigned_abs()));
            factor.and_then(|factor| match up >= 0 {
                true => quotient(left.checked_mul(factor)?, right),
                false => quotient(left, right.checked_mul(factor)?),
            })
        }
        _ => {
            let (left, right) = (rescaled(left, s1, scale), rescaled(right, s2, scale));
            left.zip(right).and_then(|(left, right)| match op {
                Operator::Plus => left.checked_add(right),
                Operator::Minus => left.checked_sub(right),
                _ => left.checked_rem(right),
            })
        }
    };
    fitting(made, digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_stay_in_their_range() {
        assert!(whole(Operator::Plus, i64::MAX, 1).is_err());
        assert!(whole(Operator::Divide, i64::MIN, -1).is_err());
        assert_eq!(whole(Operator::Modulo, i64::MIN, -1).expect("a rest"), 0);
        assert!(matches!(whole(Operator::Modulo, 1, 0), Err(ArrowError::DivideByZero)));
    }

    #[test]
    fn decimals_are_rounded_half_away_from_zero() {
        let third = decimal(Operator::Divide, (1, 0), (3, 0), (38, 20)).expect("a quotient");
        assert_eq!(third, 33_333_333_333_333_333_333);
        assert_eq!(decimal(Operator::Divide, (-2, 0), (3, 0), (38, 2)).expect("a quotient"), -67);
        assert_eq!(decimal(Operator::Divide, (1, 0), (-8, 0), (38, 2)).expect("a quotient"), -13);
        assert_eq!(rescaled(i256::from_i128(25), 1, 0), Some(i256::from_i128(3)));
        assert_eq!(rescaled(i256::from_i128(-25), 1, 0), Some(i256::from_i128(-3)));
        assert_eq!(decimal(Operator::Modulo, (-75, 1), (2, 0), (38, 1)).expect("a rest"), -15);
    }

    #[test]
    fn there_is_no_negative_zero() {
        assert!(float(Operator::Multiply, -1.0, 0.0).expect("zero").is_sign_positive());
        assert!(float(Operator::Divide, 1.0, 0.0).is_err());
        assert!(float(Operator::Multiply, 1e300, 1e300).is_err());
        let nan = float(Operator::Minus, f64::INFINITY, f64::INFINITY).expect("NaN");
        assert!(nan.is_nan() && nan.is_sign_positive());
    }
}
