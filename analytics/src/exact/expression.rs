//! Expressions as PostgreSQL has them: functions of ours replace the library's operators, casts and
//! aggregates.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Operator, WindowFrameBound, WindowFunctionDefinition,
};

use super::mixed::{is_decimal, is_float};
use super::{aggregates, arithmetic, casting, mixed, sets, spans};

fn call(function: datafusion::logical_expr::ScalarUDF, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), args))
}

/// An expression as PostgreSQL has it.
pub(super) fn exact(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(binary) => operator(binary, schema),
        Expr::Negative(inner) => {
            let data_type = inner.get_type(schema)?;
            if matches!(*inner, Expr::Literal(..)) || !arithmetic::is_number(&data_type) {
                return Ok(Transformed::no(Expr::Negative(inner)));
            }
            let function = arithmetic::function_of(Operator::Minus);
            let zero = Expr::Literal(ScalarValue::new_zero(&data_type)?, None);
            Ok(match function {
                Some(function) => Transformed::yes(call(function, vec![zero, *inner])),
                None => Transformed::no(Expr::Negative(inner)),
            })
        }
        Expr::Cast(cast) => {
            let cast = sets::recurring(cast, schema)?;
            let from = cast.expr.get_type(schema)?;
            let is_of_bytes = matches!(from, DataType::Binary | DataType::BinaryView);
            if is_of_bytes && is_text(cast.field.data_type()) {
                return Ok(Transformed::yes(call(casting::to_text(), vec![*cast.expr])));
            }
            match casting::function_of(&from, cast.field.data_type()) {
                // Coercion comes back to texts.
                Some(function) if !is_text(cast.field.data_type()) => {
                    Ok(Transformed::yes(call(function, vec![*cast.expr])))
                }
                _ => Ok(Transformed::no(Expr::Cast(cast))),
            }
        }
        Expr::Between(between) => mixed::between(between, schema),
        Expr::InList(list) => mixed::in_list(list, schema),
        Expr::InSubquery(member) => mixed::in_subquery(member, schema),
        Expr::Case(case) => mixed::case(case, schema),
        Expr::ScalarFunction(function) => mixed::function(function, schema),
        Expr::AggregateFunction(aggregate) => of_all(aggregate, schema),
        Expr::WindowFunction(window) => of_window(window, schema),
        other => Ok(Transformed::no(other)),
    }
}

fn is_moment(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..))
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8)
}

fn operator(mut binary: BinaryExpr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let (left, right) = (binary.left.get_type(schema)?, binary.right.get_type(schema)?);
    if let Some(function) = arithmetic::function_of(binary.op) {
        let numbers =
            [&left, &right].into_iter().filter(|data_type| arithmetic::is_number(data_type)).count();
        let nulls = [&left, &right].into_iter().filter(|data_type| **data_type == DataType::Null).count();
        if numbers > 0 && numbers + nulls == 2 {
            return Ok(Transformed::yes(call(function, vec![*binary.left, *binary.right])));
        }
        let (day, span) = (DataType::Date32, DataType::Interval(IntervalUnit::MonthDayNano));
        let moment = DataType::Timestamp(TimeUnit::Nanosecond, None);
        match binary.op {
            Operator::Plus | Operator::Minus if (&left, &right) == (&day, &span) => {
                binary.left = Box::new(Expr::Cast(Cast::new(binary.left, moment)));
                return Ok(Transformed::yes(Expr::BinaryExpr(binary)));
            }
            // Of one unit each, and with a time zone both or none.
            Operator::Minus if is_moment(&left) && is_moment(&right) => {
                let plain = |expr: Expr| expr.cast_to(&moment, schema);
                let args = vec![plain(*binary.left)?, plain(*binary.right)?];
                return Ok(Transformed::yes(call(spans::between(), args)));
            }
            Operator::Multiply if left == span && arithmetic::digits_of(&right).is_some() => {
                let times = binary.right.cast_to(&DataType::Int64, schema)?;
                return Ok(Transformed::yes(call(spans::times(), vec![*binary.left, times])));
            }
            Operator::Multiply if right == span && arithmetic::digits_of(&left).is_some() => {
                let times = binary.left.cast_to(&DataType::Int64, schema)?;
                return Ok(Transformed::yes(call(spans::times(), vec![*binary.right, times])));
            }
            Operator::Plus if (&left, &right) == (&span, &day) => {
                binary.right = Box::new(Expr::Cast(Cast::new(binary.right, moment)));
                return Ok(Transformed::yes(Expr::BinaryExpr(binary)));
            }
            _ => {}
        }
        return Ok(Transformed::no(Expr::BinaryExpr(binary)));
    }
    let compares = matches!(
        binary.op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    );
    if compares && let Some(to) = mixed::compared_as(&[left, right]) {
        let left = mixed::cast_number(*binary.left, &to, schema)?;
        let right = mixed::cast_number(*binary.right, &to, schema)?;
        return Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(
            Box::new(left),
            binary.op,
            Box::new(right),
        ))));
    }
    Ok(Transformed::no(Expr::BinaryExpr(binary)))
}

fn of_all(mut aggregate: AggregateFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let name = aggregate.func.name().to_owned();
    let Some(of) = aggregate.params.args.first().map(|arg| arg.get_type(schema)).transpose()? else {
        return Ok(Transformed::no(Expr::AggregateFunction(aggregate)));
    };
    let is_exact = is_decimal(&of) || arithmetic::digits_of(&of).is_some();
    match name.as_str() {
        "avg" if is_exact && aggregate.params.distinct => {
            let arg = aggregate.params.args.remove(0);
            aggregate.params.args.insert(0, arg.cast_to(&DataType::Float64, schema)?);
        }
        "avg" if is_exact => aggregate.func = Arc::new(aggregates::average()),
        "sum" if is_wide(&of) => {
            let arg = aggregate.params.args.remove(0);
            aggregate.params.args.insert(0, arg.cast_to(&DataType::Decimal128(20, 0), schema)?);
        }
        _ => return Ok(Transformed::no(Expr::AggregateFunction(aggregate))),
    }
    Ok(Transformed::yes(Expr::AggregateFunction(aggregate)))
}

/// Whether sums of such numbers leave the range of `BIGINT`.
fn is_wide(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}

fn of_window(mut window: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let function = match &window.fun {
        WindowFunctionDefinition::AggregateUDF(function) => function,
        WindowFunctionDefinition::WindowUDF(function) if matches!(function.name(), "lag" | "lead") => {
            return mixed::neighbour(window, schema);
        }
        _ => return Ok(Transformed::no(Expr::WindowFunction(window))),
    };
    let name = function.name().to_owned();
    let Some(of) = window.params.args.first().map(|arg| arg.get_type(schema)).transpose()? else {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    };
    let moves = match &window.params.window_frame.start_bound {
        WindowFrameBound::Preceding(from) => !from.is_null(),
        _ => true,
    };
    let is_exact = is_decimal(&of) || arithmetic::digits_of(&of).is_some();
    match name.as_str() {
        "avg" if is_exact => {
            window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(aggregates::average()))
        }
        "sum" | "avg" if is_float(&of) && moves => {
            let arg = window.params.args.remove(0);
            window.params.args.insert(0, arg.cast_to(&DataType::Float64, schema)?);
            let moving = aggregates::moving(name == "avg");
            window.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(moving));
        }
        "sum" if is_wide(&of) => {
            let arg = window.params.args.remove(0);
            window.params.args.insert(0, arg.cast_to(&DataType::Decimal128(20, 0), schema)?);
        }
        // They take from what they keep what has left the frame, and what is left of 1e17 is wrong.
        "stddev" | "stddev_pop" | "var" | "var_pop" | "corr" | "covar_samp" | "covar_pop" if moves => {
            return not_impl_err!("{name} over a frame whose start moves");
        }
        // A count can be decremented without an error.
        regression if moves && regression.starts_with("regr_") && regression != "regr_count" => {
            return not_impl_err!("{name} over a frame whose start moves");
        }
        _ => return Ok(Transformed::no(Expr::WindowFunction(window))),
    }
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}

/// `p IS TRUE` and the like as the comparison that they are run as. The library says that they are never
/// NULL, and of the comparison that it may be; a plan that has both is refused as a fault of the planner.
fn truth(expr: Expr) -> Transformed<Expr> {
    let (inner, op, value) = match expr {
        Expr::IsTrue(inner) => (inner, Operator::IsNotDistinctFrom, true),
        Expr::IsNotTrue(inner) => (inner, Operator::IsDistinctFrom, true),
        Expr::IsFalse(inner) => (inner, Operator::IsNotDistinctFrom, false),
        Expr::IsNotFalse(inner) => (inner, Operator::IsDistinctFrom, false),
        Expr::IsUnknown(inner) => return Transformed::yes(Expr::IsNull(inner)),
        Expr::IsNotUnknown(inner) => return Transformed::yes(Expr::IsNotNull(inner)),
        expr => return Transformed::no(expr),
    };
    let value = Expr::Literal(ScalarValue::Boolean(Some(value)), None);
    Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(inner, op, Box::new(value))))
}

/// An expression after coercion: casts to text, and tests of truth.
pub(super) fn written(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let cast = match expr {
        Expr::Cast(cast) => cast,
        expr => return Ok(truth(expr)),
    };
    let to = cast.field.data_type();
    if !is_text(to) {
        return Ok(Transformed::no(Expr::Cast(cast)));
    }
    let to = to.clone();
    let from = cast.expr.get_type(schema)?;
    if matches!(from, DataType::Interval(_) | DataType::Duration(_)) {
        return not_impl_err!("an interval as text");
    }
    match casting::function_of(&from, &to) {
        Some(function) => {
            let text = call(function, vec![*cast.expr]);
            Ok(Transformed::yes(if to == DataType::Utf8 { text } else { text.cast_to(&to, schema)? }))
        }
        None => Ok(Transformed::no(Expr::Cast(cast))),
    }
}
