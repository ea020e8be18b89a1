//! Arithmetic on intervals: `interval * n`, `timestamp - timestamp`, `age`.

use std::sync::Arc;

use chrono::{Datelike, NaiveDateTime, Timelike};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, IntervalMonthDayNanoArray};
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampNanosecondType,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const DAY_NANOS: i64 = 86_400_000_000_000;
const SPAN: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const MOMENT: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// A function that makes an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Make {
    /// An interval times a number.
    Times,
    /// From one moment to another in days and hours.
    Between,
    /// The same in years, months, days and hours.
    Age,
}

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Span {
    make: Make,
    signature: Signature,
}

fn made(make: Make) -> ScalarUDF {
    let types = match make {
        Make::Times => vec![SPAN, DataType::Int64],
        Make::Between | Make::Age => vec![MOMENT, MOMENT],
    };
    ScalarUDF::new_from_impl(Span { make, signature: Signature::exact(types, Volatility::Immutable) })
}

/// An interval times a number.
pub(super) fn times() -> ScalarUDF {
    made(Make::Times)
}

/// One moment minus another.
pub(super) fn between() -> ScalarUDF {
    made(Make::Between)
}

/// `age(a, b)`.
pub(super) fn age() -> ScalarUDF {
    made(Make::Age)
}

impl ScalarUDFImpl for Span {
    fn name(&self) -> &str {
        match self.make {
            Make::Times => "span_times",
            Make::Between => "span_between",
            Make::Age => "age",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if types.len() != 2 {
            return plan_err!("No function matches {} of {} arguments", self.name(), types.len());
        }
        Ok(SPAN)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (left, right) = (&arrays[0], &arrays[1]);
        let out = || exec_datafusion_err!("interval out of range");
        let each = (0..left.len()).map(|row| {
            if left.is_null(row) || right.is_null(row) {
                return Ok(None);
            }
            self.span(left, right, row).map(Some).ok_or_else(out)
        });
        let made = each.collect::<Result<IntervalMonthDayNanoArray>>()?;
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?),
            false => ColumnarValue::Array(Arc::new(made)),
        })
    }
}

impl Span {
    fn span(&self, left: &ArrayRef, right: &ArrayRef, row: usize) -> Option<IntervalMonthDayNano> {
        if self.make == Make::Times {
            let span = left.as_primitive::<IntervalMonthDayNanoType>().value(row);
            let times = right.as_primitive::<Int64Type>().value(row);
            let short = i32::try_from(times).ok()?;
            return Some(IntervalMonthDayNano::new(
                span.months.checked_mul(short)?,
                span.days.checked_mul(short)?,
                span.nanoseconds.checked_mul(times)?,
            ));
        }
        let (left, right) =
            (left.as_primitive::<TimestampNanosecondType>(), right.as_primitive::<TimestampNanosecondType>());
        match self.make {
            Make::Between => {
                let nanos = left.value(row).checked_sub(right.value(row))?;
                Some(IntervalMonthDayNano::new(0, (nanos / DAY_NANOS) as i32, nanos % DAY_NANOS))
            }
            _ => age_of(&left.value_as_datetime(row)?, &right.value_as_datetime(row)?),
        }
    }
}

/// Field by field; what is missing is taken from the next larger one.
fn age_of(one: &NaiveDateTime, other: &NaiveDateTime) -> Option<IntervalMonthDayNano> {
    let is_back = one < other;
    let sign = if is_back { -1 } else { 1 };
    let nanos = |moment: &NaiveDateTime| {
        i64::from(moment.num_seconds_from_midnight()) * 1_000_000_000 + i64::from(moment.nanosecond())
    };
    let mut time = sign * (nanos(one) - nanos(other));
    let mut days = sign as i32 * (one.day() as i32 - other.day() as i32);
    let months = |moment: &NaiveDateTime| moment.year() * 12 + moment.month0() as i32;
    let mut months = sign as i32 * (months(one) - months(other));
    if time < 0 {
        time += DAY_NANOS;
        days -= 1;
    }
    if days < 0 {
        let of = if is_back { one } else { other };
        days += i32::from(of.date().num_days_in_month());
        months -= 1;
    }
    let sign32 = sign as i32;
    Some(IntervalMonthDayNano::new(sign32 * months, sign32 * days, sign * time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_counted_as_postgresql_counts_them() {
        let moment = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").expect("a moment");
        let age = |one: &str, other: &str| {
            let age = age_of(&moment(one), &moment(other)).expect("an age");
            (age.months, age.days, age.nanoseconds / 1_000_000_000)
        };
        assert_eq!(age("2001-04-10 00:00:00", "1957-06-13 00:00:00"), (43 * 12 + 9, 27, 0));
        assert_eq!(age("2020-03-01 00:00:00", "2020-01-31 12:00:00"), (1, 0, 43_200));
        assert_eq!(age("2020-01-31 00:00:00", "2020-03-01 00:00:00"), (-1, -1, 0));
    }
}
