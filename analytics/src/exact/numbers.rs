//! Functions of numbers as PostgreSQL has them: `round`, `trunc`, `ceil`, `floor`, `sign`, `div`, and
//! functions that fail if their result is not a number.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type, Int64Type, i256};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arithmetic::{DIGITS_MAX, digits_of, fitting, rescaled, within};

/// A function of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum To {
    /// The nearest.
    Round,
    /// Towards zero.
    Trunc,
    /// Up.
    Ceil,
    /// Down.
    Floor,
    /// -1, 0 or 1.
    Sign,
}

/// A function that rounds a number to a number of digits after the point.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Whole {
    to: To,
    name: &'static str,
    aliases: Vec<String>,
    signature: Signature,
}

/// All of them.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let whole = |to, name, aliases: &[&str]| {
        let aliases = aliases.iter().map(|&alias| alias.to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Whole { to, name, aliases, signature })
    };
    vec![
        whole(To::Round, "round", &[]),
        whole(To::Trunc, "trunc", &[]),
        whole(To::Ceil, "ceil", &["ceiling"]),
        whole(To::Floor, "floor", &[]),
        whole(To::Sign, "sign", &["signum"]),
    ]
}

impl Whole {
    /// Digits after the point, if they are constant.
    fn places(arg: Option<&Option<&ScalarValue>>) -> Result<Option<i64>> {
        let Some(Some(given)) = arg else { return Ok(None) };
        let given = given.cast_to(&DataType::Int64)?;
        Ok(match given {
            ScalarValue::Int64(places) => places,
            _ => None,
        })
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let takes_places = matches!(self.to, To::Round | To::Trunc);
        if types.is_empty() || types.len() > if takes_places { 2 } else { 1 } {
            return plan_err!("No function matches {} of {} arguments", self.name, types.len());
        }
        let first = match (&types[0], digits_of(&types[0])) {
            (DataType::Decimal128(..), _) => types[0].clone(),
            (_, Some(digits)) if types.len() == 2 => DataType::Decimal128(digits, 0),
            (DataType::Null | DataType::Float32 | DataType::Float64, _) | (_, Some(_)) => DataType::Float64,
            (other, _) => return plan_err!("No function matches {}({other})", self.name),
        };
        let second = match types.get(1) {
            None => None,
            Some(other) if digits_of(other).is_some() || *other == DataType::Null => Some(DataType::Int64),
            Some(other) => return plan_err!("No function matches {} of places of {other}", self.name),
        };
        Ok(std::iter::once(first).chain(second).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type is that of the arguments")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let first = self.coerce_types(&types)?.swap_remove(0);
        let made = match first {
            DataType::Decimal128(digits, scale) => {
                let kept = match args.arg_fields.len() {
                    1 => 0,
                    _ => match Whole::places(args.scalar_arguments.get(1))? {
                        Some(places) => places.clamp(0, i64::from(scale)) as i8,
                        None => scale,
                    },
                };
                DataType::Decimal128(
                    (digits + 1).saturating_sub((scale - kept) as u8).clamp(1, DIGITS_MAX),
                    kept,
                )
            }
            other => other,
        };
        Ok(Arc::new(datafusion::arrow::datatypes::Field::new(self.name, made, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let places = arrays.get(1).map(|places| places.as_primitive::<Int64Type>());
        let places_at = |row: usize| match places {
            None => Some(0),
            Some(places) => places.is_valid(row).then(|| places.value(row).clamp(-400, 400)),
        };
        let made: ArrayRef = match args.return_field.data_type() {
            &DataType::Decimal128(digits, scale) => {
                let numbers = arrays[0].as_primitive::<Decimal128Type>();
                let from = numbers.scale();
                let each = (0..numbers.len()).map(|row| match places_at(row) {
                    Some(places) if numbers.is_valid(row) => {
                        decimal(self.to, (numbers.value(row), from), places, (digits, scale)).map(Some)
                    }
                    _ => Ok(None),
                });
                let made = each.collect::<Result<Decimal128Array, ArrowError>>()?;
                Arc::new(made.with_precision_and_scale(digits, scale)?)
            }
            _ => {
                let numbers = arrays[0].as_primitive::<Float64Type>();
                let each = (0..numbers.len()).map(|row| match places_at(row) {
                    Some(places) if numbers.is_valid(row) => {
                        float(self.to, numbers.value(row), places as i32).map(Some)
                    }
                    _ => Ok(None),
                });
                Arc::new(each.collect::<Result<Float64Array, ArrowError>>()?)
            }
        };
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(made),
        })
    }
}

fn float(to: To, number: f64, places: i32) -> Result<f64, ArrowError> {
    let plain = |number: f64| match to {
        To::Round => number.round_ties_even(),
        To::Trunc => number.trunc(),
        To::Ceil => number.ceil(),
        To::Floor => number.floor(),
        To::Sign if number == 0.0 || number.is_nan() => number,
        To::Sign => number.signum(),
    };
    let factor = 10_f64.powi(places.clamp(-308, 308));
    let scaled = number * factor;
    let made = match places {
        0 => plain(number),
        _ if !scaled.is_finite() => number,
        _ => plain(scaled) / factor,
    };
    within(made, number.is_finite())
}

fn decimal(
    to: To,
    (number, from): (i128, i8),
    places: i64,
    (digits, scale): (u8, i8),
) -> Result<i128, ArrowError> {
    let wide = i256::from_i128(number);
    if to == To::Sign {
        return fitting(rescaled(i256::from_i128(number.signum()), 0, scale), digits);
    }
    // Fewer digits than none are zeros before the point.
    let places = places.clamp(-40, i64::from(from)) as i8;
    let unit = match i256::from_i128(10).checked_pow(u32::from(from.abs_diff(places))) {
        Some(unit) => unit,
        None => return Ok(0),
    };
    let rest = wide.checked_rem(unit).unwrap_or(i256::ZERO);
    let down = wide.checked_sub(rest);
    let up = |away: i256| down.and_then(|down| down.checked_add(unit.checked_mul(away)?));
    let made = match to {
        To::Round => match rescaled(wide, from, places) {
            Some(rounded) => rounded.checked_mul(unit),
            None => None,
        },
        To::Ceil if rest > i256::ZERO => up(i256::ONE),
        To::Floor if rest < i256::ZERO => up(i256::MINUS_ONE),
        _ => down,
    };
    fitting(made.and_then(|made| rescaled(made, from, scale)), digits)
}

/// A function of which a result that is no number, or none that there is, is an error.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Finite {
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

/// The functions that are undefined for some numbers.
pub(super) const PARTIAL: [&str; 17] = [
    "sqrt", "ln", "log", "log10", "log2", "exp", "power", "acos", "asin", "cbrt", "cosh", "sinh", "acosh",
    "atanh", "tan", "cot", "atan2",
];

/// A function that refuses what it is undefined for.
pub(super) fn refusing(inner: Arc<ScalarUDF>) -> ScalarUDF {
    let signature = match inner.name() {
        "power" => Signature::user_defined(Volatility::Immutable),
        _ => inner.signature().clone(),
    };
    ScalarUDF::new_from_impl(Finite { inner, signature })
}

impl ScalarUDFImpl for Finite {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if self.name() == "power" && types.len() == 2 {
            return Ok(vec![DataType::Float64; 2]);
        }
        self.inner.coerce_types(types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if self.name() == "power" {
            return Ok(DataType::Float64);
        }
        self.inner.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args.args.clone();
        let rows = args.number_rows;
        let made = self.inner.invoke_with_args(args)?;
        let array = made.to_array(rows)?;
        let numbers = match array.data_type() {
            DataType::Float32 => cast(&array, &DataType::Float64)?,
            DataType::Float64 => array,
            _ => return Ok(made),
        };
        let is_strange = |numbers: &ArrayRef, row: usize| match numbers.data_type() {
            DataType::Float64 => {
                let numbers = numbers.as_primitive::<Float64Type>();
                numbers.is_valid(row) && !numbers.value(row).is_finite()
            }
            _ => false,
        };
        if numbers.is_empty() || !(0..numbers.len()).any(|row| is_strange(&numbers, row)) {
            return Ok(made);
        }
        let given: Vec<ArrayRef> = given
            .iter()
            .map(|arg| Ok(cast(&arg.to_array(rows)?, &DataType::Float64)?))
            .collect::<Result<_>>()?;
        let is_at_fault =
            |row| is_strange(&numbers, row) && !given.iter().any(|numbers| is_strange(numbers, row));
        if (0..numbers.len()).any(is_at_fault) {
            return exec_err!("{} is undefined for a value, or its result is out of range", self.name());
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_as_postgresql_rounds_them() {
        assert_eq!(float(To::Round, 2.5, 0).expect("it"), 2.0);
        assert!(float(To::Round, -0.4, 0).expect("it").is_sign_positive());
        let round = |number, places| decimal(To::Round, (number, 2), places, (38, 2)).expect("it");
        assert_eq!((round(250, 0), round(-250, 0), round(245, 1), round(2_550, -1)), (300, -300, 250, 3_000));
        let of = |to| decimal(to, (-250, 2), 0, (38, 0)).expect("it");
        assert_eq!([To::Trunc, To::Ceil, To::Floor, To::Sign].map(of), [-2, -2, -3, -1]);
    }
}
