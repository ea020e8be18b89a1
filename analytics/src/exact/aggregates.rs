//! Aggregates as PostgreSQL has them. The average of integers and of decimals is a decimal with all its
//! digits. Sums and averages of floating-point numbers over a moving frame forget the values that have left
//! it.

use std::collections::VecDeque;
use std::mem::size_of;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type, i256};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::arithmetic::{DIGITS_MAX, digits_of, fitting, within};

/// The minimum number of digits after the point of an average.
const SCALE: i8 = 16;

/// `avg` of whole numbers and decimals.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Average(Signature);

/// `avg` of whole numbers and decimals.
pub(super) fn average() -> AggregateUDF {
    AggregateUDF::new_from_impl(Average(Signature::user_defined(Volatility::Immutable)))
}

impl AggregateUDFImpl for Average {
    fn name(&self) -> &str {
        "numeric_avg"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [decimal @ DataType::Decimal128(..)] => Ok(vec![decimal.clone()]),
            [other] => match digits_of(other) {
                Some(digits) => Ok(vec![DataType::Decimal128(digits, 0)]),
                None => plan_err!("there is no average of {other}"),
            },
            _ => plan_err!("an average is of one argument"),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [DataType::Decimal128(_, scale)] => Ok(DataType::Decimal128(DIGITS_MAX, SCALE.max(*scale))),
            _ => Ok(DataType::Decimal128(DIGITS_MAX, SCALE)),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let scale = scale_of(args.input_fields[0].data_type());
        let sum = Field::new(format!("{}[sum]", args.name), DataType::Decimal128(DIGITS_MAX, scale), true);
        let count = Field::new(format!("{}[count]", args.name), DataType::Int64, true);
        Ok(vec![sum.into(), count.into()])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let scale = scale_of(args.expr_fields[0].data_type());
        let DataType::Decimal128(_, made) = *args.return_field.data_type() else {
            return exec_err!("an average of decimals is one");
        };
        Ok(Box::new(Averaging { sum: 0, count: 0, scale, made }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }
}

fn scale_of(data_type: &DataType) -> i8 {
    match data_type {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

#[derive(Debug)]
struct Averaging {
    sum: i128,
    count: i64,
    scale: i8,
    made: i8,
}

impl Averaging {
    fn add(&mut self, values: &ArrayRef, sign: i128) -> Result<()> {
        for number in values.as_primitive::<Decimal128Type>().iter().flatten() {
            let sum = number.checked_mul(sign).and_then(|number| self.sum.checked_add(number));
            let Some(sum) = sum else { return exec_err!("a sum is out of range: numeric field overflow") };
            self.sum = sum;
            self.count += sign as i64;
        }
        Ok(())
    }
}

impl Accumulator for Averaging {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], 1)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.add(&values[0], -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::Decimal128(None, DIGITS_MAX, self.made));
        }
        let up = i256::from_i128(10).checked_pow(u32::from(self.made.abs_diff(self.scale)));
        let sum = up.and_then(|up| i256::from_i128(self.sum).checked_mul(up));
        let count = i256::from_i128(i128::from(self.count));
        let average = sum.and_then(|sum| {
            let (whole, rest) = (sum.checked_div(count)?, sum.checked_rem(count)?);
            let is_half = rest.wrapping_abs() >= count.checked_sub(rest.wrapping_abs())?;
            let away = if sum.is_negative() { i256::MINUS_ONE } else { i256::ONE };
            if is_half { whole.checked_add(away) } else { Some(whole) }
        });
        Ok(ScalarValue::Decimal128(Some(fitting(average, DIGITS_MAX)?), DIGITS_MAX, self.made))
    }

    fn size(&self) -> usize {
        size_of::<Averaging>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![
            ScalarValue::Decimal128(
                Some(fitting(Some(i256::from_i128(self.sum)), DIGITS_MAX)?),
                DIGITS_MAX,
                self.scale,
            ),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let sums = states[0].as_primitive::<Decimal128Type>();
        let counts = states[1].as_primitive::<Int64Type>();
        for row in 0..sums.len() {
            if sums.is_valid(row) && counts.is_valid(row) {
                let Some(sum) = self.sum.checked_add(sums.value(row)) else {
                    return exec_err!("a sum is out of range: numeric field overflow");
                };
                self.sum = sum;
                self.count += counts.value(row);
            }
        }
        Ok(())
    }
}

/// `sum` or `avg` of floating-point numbers over a frame that moves.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Moving {
    is_average: bool,
    signature: Signature,
}

/// `sum` or `avg` of floating-point numbers over a frame that moves.
pub(super) fn moving(is_average: bool) -> AggregateUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Immutable);
    AggregateUDF::new_from_impl(Moving { is_average, signature })
}

impl AggregateUDFImpl for Moving {
    fn name(&self) -> &str {
        if self.is_average { "moving_avg" } else { "moving_sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { is_average: self.is_average, ..Frame::default() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }
}

/// The numbers of a frame in two parts: of those that leave next, the sum from each to the last of them is
/// known; of those that came since, the sum of all. Nothing is ever taken from a sum.
#[derive(Debug, Default)]
struct Frame {
    is_average: bool,
    /// Sums, that of the number which leaves next last.
    front: Vec<f64>,
    back: VecDeque<f64>,
    back_sum: f64,
}

impl Frame {
    fn pop(&mut self) {
        if self.front.is_empty() {
            let mut sum = 0.0;
            while let Some(number) = self.back.pop_back() {
                sum += number;
                self.front.push(sum);
            }
            self.back_sum = 0.0;
        }
        self.front.pop();
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for number in values[0].as_primitive::<Float64Type>().iter().flatten() {
            self.back.push_back(number);
            self.back_sum += number;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len() - values[0].null_count()).for_each(|_| self.pop());
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let count = self.front.len() + self.back.len();
        if count == 0 {
            return Ok(ScalarValue::Float64(None));
        }
        let sum = self.front.last().copied().unwrap_or_default() + self.back_sum;
        let made = if self.is_average { sum / count as f64 } else { sum };
        Ok(ScalarValue::Float64(Some(within(made, false)?)))
    }

    fn size(&self) -> usize {
        size_of::<Frame>() + (self.front.capacity() + self.back.capacity()) * size_of::<f64>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        exec_err!("a moving frame is in one part")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        exec_err!("a moving frame is in one part")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::Float64Array;

    use super::*;

    #[test]
    fn a_frame_forgets_what_has_left_it() {
        let mut frame = Frame::default();
        let batch = |numbers: &[f64]| -> [ArrayRef; 1] { [Arc::new(Float64Array::from(numbers.to_vec()))] };
        frame.update_batch(&batch(&[1e17, f64::NAN, 3.0])).expect("it takes numbers");
        frame.retract_batch(&batch(&[1e17, f64::NAN])).expect("they leave");
        frame.update_batch(&batch(&[4.0])).expect("it takes numbers");
        assert_eq!(frame.evaluate().expect("a sum"), ScalarValue::Float64(Some(7.0)));
        frame.retract_batch(&batch(&[3.0, 4.0])).expect("they leave");
        assert_eq!(frame.evaluate().expect("nothing"), ScalarValue::Float64(None));
    }
}
