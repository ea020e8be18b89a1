//! Arithmetic on the numbers of JSON documents.

use serde_json::{Number, Value};
use tarn_resp::Args;
use tarn_resp::Protocol;

use crate::error::CommandError;
use crate::execute::command::{Command, row};
use crate::execute::context::Context;
use crate::json::{Layout, Path};

use super::json::{ANY_SIZE, NO_KEY, UPDATE, WRITES, change_each, document, nothing_at};

const BAD_NUMBER: CommandError = CommandError::text("ERR bad input number");
const OVERFLOW: CommandError = CommandError::text("ERR numeric overflow");
const NOT_A_NUMBER: CommandError = CommandError::text("ERR result is not a number");

/// The rows of this family.
pub(super) const COMMANDS: &[Command] = &[
    row(
        "json.numincrby",
        4,
        WRITES,
        "1.0.0",
        "Adds to the numbers at a path of a JSON document.",
        |cx, args| calculate(cx, args, SUM),
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.nummultby",
        4,
        WRITES,
        "1.0.0",
        "Multiplies the numbers at a path of a JSON document.",
        |cx, args| calculate(cx, args, PRODUCT),
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
    row(
        "json.numpowby",
        4,
        WRITES,
        "1.0.0",
        "Raises the numbers at a path of a JSON document to a power.",
        |cx, args| calculate(cx, args, POWER),
    )
    .keys(UPDATE)
    .complexity(ANY_SIZE),
];

/// An operation on two numbers.
#[derive(Clone, Copy)]
struct Operation {
    /// On integers: `None` if the result is none of 64 bits.
    integers: fn(i64, i64) -> Option<i64>,
    /// On others.
    doubles: fn(f64, f64) -> f64,
    /// Whether the result of two integers is an integer.
    keeps_integers: fn(i64) -> bool,
}

const SUM: Operation =
    Operation { integers: i64::checked_add, doubles: |one, other| one + other, keeps_integers: |_| true };
const PRODUCT: Operation =
    Operation { integers: i64::checked_mul, doubles: |one, other| one * other, keeps_integers: |_| true };
const POWER: Operation =
    Operation { integers: power, doubles: f64::powf, keeps_integers: |power| power >= 0 };

/// An integer to the power of another, which is not negative.
fn power(base: i64, exponent: i64) -> Option<i64> {
    match base {
        // Not bounded by the exponent's 32 bits.
        0 | 1 => Some(if exponent == 0 { 1 } else { base }),
        -1 => Some(if exponent % 2 == 0 { 1 } else { -1 }),
        _ => base.checked_pow(u32::try_from(exponent).ok()?),
    }
}

impl Operation {
    /// Integers stay integers, except under a negative power; with another number the result is a double.
    fn apply(self, number: &Number, operand: &Number) -> Result<Number, CommandError> {
        if let (Some(number), Some(operand)) = (number.as_i64(), operand.as_i64())
            && (self.keeps_integers)(operand)
        {
            return (self.integers)(number, operand).map(Number::from).ok_or(OVERFLOW);
        }
        let operands = number.as_f64().zip(operand.as_f64());
        operands
            .and_then(|(number, operand)| Number::from_f64((self.doubles)(number, operand)))
            .ok_or(NOT_A_NUMBER)
    }
}

fn calculate<'a>(cx: &mut Context<'_, 'a>, args: Args<'a>, operation: Operation) -> Result<(), CommandError> {
    let key = args.at(1);
    let document = document(cx, key)?.ok_or(NO_KEY)?;
    let path = Path::parse(args.at(2))?;
    let Ok(Value::Number(operand)) = serde_json::from_slice(args.at(3)) else { return Err(BAD_NUMBER) };
    let results = change_each(cx, key, document, &path, |place| {
        let Value::Number(number) = place else { return Ok(None) };
        *number = operation.apply(number, &operand)?;
        Ok(Some(number.clone()))
    })?;
    match results.iter().flatten().next_back() {
        _ if cx.reply.protocol() == Protocol::Resp3 => {
            cx.reply.array(results.len());
            for result in &results {
                match result.as_ref().map(|result| (result.as_i64(), result.as_f64())) {
                    Some((Some(integer), _)) => cx.reply.integer(integer),
                    Some((None, Some(number))) => cx.reply.double(number),
                    _ => cx.reply.null(),
                }
            }
        }
        _ if !path.is_legacy => cx.reply.bulk(&Layout::default().text(&results, cx.string_len_max())?),
        Some(last) => cx.reply.bulk(last.to_string().as_bytes()),
        None => return Err(nothing_at(&path.full, " or does not contains a number")),
    }
    Ok(())
}
