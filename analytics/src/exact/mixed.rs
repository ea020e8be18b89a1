//! Numbers of several types in one comparison or column, in the type that PostgreSQL gives them.
//!
//! Compared with a floating-point number every number is a double. A column or value made of several is
//! `REAL` or `DOUBLE` as soon as one of them is, else a decimal as soon as one of them is. The library makes
//! decimals of thirty digits out of doubles beside decimals.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, WindowFunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
};

use super::arithmetic::{DIGITS_MAX, digits_of, is_number};

pub(super) fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

pub(super) fn is_decimal(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal128(..))
}

/// The type that numbers of these types are compared in, if the library does not find it. What is no number
/// is left out.
pub(super) fn compared_as(types: &[DataType]) -> Option<DataType> {
    let mut numbers = types.iter().filter(|data_type| is_number(data_type));
    let first = numbers.next()?;
    let differ = numbers.clone().any(|other| other != first);
    let has_float = is_float(first) || numbers.any(is_float);
    (differ && has_float).then_some(DataType::Float64)
}

/// The type of what is made of numbers of these types, and of NULLs. `None` if something else is among them.
pub(super) fn made_of(types: &[DataType]) -> Option<DataType> {
    use DataType::{Decimal128, Float32, Float64, Int16, Int32, Int64, UInt16, UInt32, UInt64};
    let mut numbers = types.iter().filter(|data_type| **data_type != DataType::Null);
    if !numbers.clone().all(is_number) {
        return None;
    }
    let first = numbers.clone().next()?;
    if numbers.clone().all(|other| other == first) {
        return Some(first.clone());
    }
    let has = |wanted: &[DataType]| types.iter().any(|data_type| wanted.contains(data_type));
    if has(&[Float64]) {
        return Some(Float64);
    }
    if has(&[Float32]) {
        return Some(Float32);
    }
    if !has(&[UInt64]) && !numbers.any(is_decimal) {
        return Some(match () {
            () if has(&[Int64, UInt32]) => Int64,
            () if has(&[Int32, UInt16]) => Int32,
            () => Int16,
        });
    }
    let (mut whole, mut scale) = (0, 0);
    for data_type in types {
        match (data_type, digits_of(data_type)) {
            (Decimal128(digits, behind), _) => {
                whole = whole.max(*digits as i8 - behind);
                scale = scale.max(*behind);
            }
            (_, Some(digits)) => whole = whole.max(digits as i8),
            _ => {}
        }
    }
    Some(Decimal128((whole + scale).clamp(1, DIGITS_MAX as i8) as u8, scale))
}

/// A number as one of another type; what is no number stays.
pub(super) fn cast_number(expr: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    let from = expr.get_type(schema)?;
    if from == *to || !is_number(&from) {
        return Ok(expr);
    }
    match &expr {
        Expr::Literal(value, _) => Ok(Expr::Literal(value.cast_to(to)?, None)),
        _ => expr.cast_to(to, schema),
    }
}

/// A plan whose columns are cast where a type is given, under the names that they have.
pub(super) fn retyped(plan: Arc<LogicalPlan>, types: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let schema = plan.schema();
    let is_same = |(field, to): (&FieldRef, &Option<DataType>)| {
        to.as_ref().is_none_or(|to| field.data_type() == to || !is_number(field.data_type()))
    };
    if schema.fields().iter().zip(types).all(is_same) {
        return Ok(plan);
    }
    let mut columns = Vec::with_capacity(types.len());
    for ((relation, field), to) in schema.iter().zip(types) {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        columns.push(match to {
            Some(to) if to != field.data_type() => {
                cast_number(column, to, schema)?.alias_qualified(relation.cloned(), field.name())
            }
            _ => column,
        });
    }
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, plan)?)))
}

fn types_of<'e>(exprs: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) -> Result<Vec<DataType>> {
    exprs.into_iter().map(|expr| expr.get_type(schema)).collect()
}

fn numbers_of<'e>(exprs: impl IntoIterator<Item = &'e Expr>, schema: &DFSchema) -> Result<Vec<DataType>> {
    let mut types = types_of(exprs, schema)?;
    types.retain(is_number);
    Ok(types)
}

fn cast_part(part: &mut Expr, to: &DataType, schema: &DFSchema) -> Result<()> {
    *part = cast_number(std::mem::take(part), to, schema)?;
    Ok(())
}

pub(super) fn between(mut between: Between, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let types = types_of([&*between.expr, &*between.low, &*between.high], schema)?;
    let Some(to) = compared_as(&types) else { return Ok(Transformed::no(Expr::Between(between))) };
    for part in [&mut between.expr, &mut between.low, &mut between.high] {
        cast_part(part, &to, schema)?;
    }
    Ok(Transformed::yes(Expr::Between(between)))
}

pub(super) fn in_list(mut list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let types = types_of(std::iter::once(&*list.expr).chain(&list.list), schema)?;
    let Some(to) = compared_as(&types) else { return Ok(Transformed::no(Expr::InList(list))) };
    cast_part(&mut list.expr, &to, schema)?;
    list.list.iter_mut().try_for_each(|part| cast_part(part, &to, schema))?;
    Ok(Transformed::yes(Expr::InList(list)))
}

pub(super) fn in_subquery(mut member: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let plan = &member.subquery.subquery;
    let [field] = plan.schema().fields().as_ref() else {
        return Ok(Transformed::no(Expr::InSubquery(member)));
    };
    let types = [member.expr.get_type(schema)?, field.data_type().clone()];
    let Some(to) = compared_as(&types) else { return Ok(Transformed::no(Expr::InSubquery(member))) };
    cast_part(&mut member.expr, &to, schema)?;
    member.subquery.subquery = retyped(plan.clone(), &[Some(to)])?;
    Ok(Transformed::yes(Expr::InSubquery(member)))
}

/// `coalesce` and the like, whose arguments are of one type.
pub(super) fn function(mut function: ScalarFunction, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let types = numbers_of(&function.args, schema)?;
    let to = match function.name() {
        "coalesce" | "greatest" | "least" | "nvl" | "make_array" => made_of(&types),
        "nullif" => compared_as(&types).or_else(|| made_of(&types)),
        _ => None,
    };
    let Some(to) = to.filter(|to| types.iter().any(|data_type| data_type != to)) else {
        return Ok(Transformed::no(Expr::ScalarFunction(function)));
    };
    function.args.iter_mut().try_for_each(|part| cast_part(part, &to, schema))?;
    Ok(Transformed::yes(Expr::ScalarFunction(function)))
}

/// `lag` and `lead`, whose default is of the type of what they look for.
pub(super) fn neighbour(mut window: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let types = match window.params.args.as_slice() {
        [of, _, other] => types_of([of, other], schema)?,
        _ => Vec::new(),
    };
    let Some(to) = made_of(&types).filter(|to| types.iter().any(|data_type| data_type != to)) else {
        return Ok(Transformed::no(Expr::WindowFunction(window)));
    };
    for at in [0, 2] {
        cast_part(&mut window.params.args[at], &to, schema)?;
    }
    Ok(Transformed::yes(Expr::WindowFunction(window)))
}

pub(super) fn case(mut case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let is_changed = chosen(&mut case, schema)? | made(&mut case, schema)?;
    Ok(Transformed::new_transformed(Expr::Case(case), is_changed))
}

/// The values that a case may have are of one type.
fn made(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let values = case.when_then_expr.iter().map(|(_, then)| &**then);
    let types = numbers_of(values.chain(case.else_expr.as_deref()), schema)?;
    let Some(to) = made_of(&types).filter(|to| types.iter().any(|data_type| data_type != to)) else {
        return Ok(false);
    };
    for (_, then) in &mut case.when_then_expr {
        cast_part(then, &to, schema)?;
    }
    if let Some(other) = &mut case.else_expr {
        cast_part(other, &to, schema)?;
    }
    Ok(true)
}

/// `CASE x WHEN y …`: `x` is compared with each `y` in a type of theirs; the library has one for all.
fn chosen(case: &mut Case, schema: &DFSchema) -> Result<bool> {
    let Some(of) = &mut case.expr else { return Ok(false) };
    let own = of.get_type(schema)?;
    let others = types_of(case.when_then_expr.iter().map(|(when, _)| &**when), schema)?;
    let all: Vec<_> = others.iter().chain([&own]).cloned().collect();
    let Some(to) = compared_as(&all) else { return Ok(false) };
    let is_number_beside = |other: &DataType| is_number(other) && !is_float(other);
    if is_float(&own) || !others.iter().any(is_number_beside) {
        cast_part(of, &to, schema)?;
        for (when, _) in &mut case.when_then_expr {
            cast_part(when, &to, schema)?;
        }
        return Ok(true);
    }
    if !is_plain(of) {
        return not_impl_err!(
            "CASE of an expression beside exact numbers and doubles; cast it to DOUBLE PRECISION"
        );
    }
    for ((when, _), other) in case.when_then_expr.iter_mut().zip(&others) {
        let mut one = (**of).clone();
        if let Some(to) = compared_as(&[own.clone(), other.clone()]) {
            cast_part(&mut one, &to, schema)?;
            cast_part(when, &to, schema)?;
        }
        let equal = BinaryExpr::new(Box::new(one), Operator::Eq, Box::new(std::mem::take(&mut **when)));
        **when = Expr::BinaryExpr(equal);
    }
    case.expr = None;
    Ok(true)
}

/// Whether an expression may be written several times.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..) => true,
        Expr::Cast(cast) => is_plain(&cast.expr),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use DataType::{Decimal128, Float32, Float64, Int32, Int64, Null, UInt64, Utf8};

    use super::*;

    #[test]
    fn numbers_that_differ_have_a_type_in_common() {
        for (types, wanted) in [
            (vec![Int32, Decimal128(3, 1)], Some(Decimal128(11, 1))),
            (vec![Decimal128(38, 20), Decimal128(38, 0)], Some(Decimal128(38, 20))),
            (vec![Null, Int32, Int64], Some(Int64)),
            (vec![UInt64, Int64], Some(Decimal128(20, 0))),
            (vec![Float32, Decimal128(3, 1)], Some(Float32)),
            (vec![Float32, Int64, Float64], Some(Float64)),
            (vec![Utf8, Int64], None),
            (vec![Null], None),
        ] {
            assert_eq!(made_of(&types), wanted, "{types:?}");
        }
    }

    #[test]
    fn numbers_beside_floats_are_compared_as_doubles() {
        assert_eq!(compared_as(&[Float64, Decimal128(3, 1)]), Some(Float64));
        assert_eq!(compared_as(&[Float32, Int64, Null]), Some(Float64));
        assert_eq!(compared_as(&[Float32, Float32]), None);
        assert_eq!(compared_as(&[Int64, Decimal128(3, 1)]), None);
    }
}
