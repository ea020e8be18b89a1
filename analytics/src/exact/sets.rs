//! Columns of several queries or rows beside each other: `UNION`, `INTERSECT`, `EXCEPT`, `VALUES`, `USING`.
//!
//! A column that is made of several has their common type. The steps above get it here, because the library
//! finds it only when types are coerced.
//!
//! The planner casts the cells of `VALUES` and the columns of the recursive part of a query when it reads
//! them. `dialect` marks both by [`CELL`], so that written casts can be distinguished from those.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, DFSchemaRef, ExprSchema, NullEquality, Result, not_impl_err, plan_err};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Distinct, Expr, ExprSchemable, Join, JoinConstraint, JoinType, LogicalPlan,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Union, Values, Volatility,
};

use super::arithmetic::is_number;
use super::mixed::{is_decimal, is_float, made_of, retyped};
use super::rewrite::Rewrite;
use crate::dialect::CELL;

/// Puts right a step that has several inputs, or rows of its own if it `is_new`; `exact`
/// rewrites the cells of those.
pub(super) fn put_right(plan: LogicalPlan, is_new: bool, exact: Rewrite) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Union(union) => united(union),
        LogicalPlan::Join(join) if is_of_sets(&join) => beside(join),
        LogicalPlan::Join(join) if join.join_constraint == JoinConstraint::Using => using(join),
        LogicalPlan::Values(values) if is_new => listed(values, exact),
        other => Ok(other),
    }
}

/// A schema with other types of columns.
fn with_types(schema: &DFSchemaRef, types: &[Option<DataType>]) -> Result<DFSchemaRef> {
    let is_same =
        |(field, to): (&FieldRef, &Option<DataType>)| to.as_ref().is_none_or(|to| field.data_type() == to);
    if schema.fields().iter().zip(types).all(is_same) {
        return Ok(schema.clone());
    }
    let fields = schema.iter().zip(types).map(|((relation, field), to)| {
        let field: Field = field.as_ref().clone();
        let field = match to {
            Some(to) => field.with_data_type(to.clone()),
            None => field,
        };
        (relation.cloned(), Arc::new(field))
    });
    let made = DFSchema::new_with_metadata(fields.collect(), schema.as_arrow().metadata().clone())?;
    Ok(Arc::new(made.with_functional_dependencies(schema.functional_dependencies().clone())?))
}

/// The type of each column that these plans have in common: that of all, or one of numbers.
fn types_of(plans: &[&LogicalPlan]) -> Vec<Option<DataType>> {
    let columns = plans.iter().map(|plan| plan.schema().fields().len()).min().unwrap_or(0);
    let at = |column: usize| {
        let types: Vec<_> =
            plans.iter().map(|plan| plan.schema().field(column).data_type().clone()).collect();
        match types.split_first() {
            Some((first, rest)) if rest.iter().all(|other| other == first) => Some(first.clone()),
            _ => made_of(&types),
        }
    };
    (0..columns).map(at).collect()
}

fn united(mut union: Union) -> Result<LogicalPlan> {
    let types = types_of(&union.inputs.iter().map(|input| &**input).collect::<Vec<_>>());
    union.inputs = union.inputs.into_iter().map(|input| retyped(input, &types)).collect::<Result<_>>()?;
    union.schema = with_types(&union.schema, &types)?;
    Ok(LogicalPlan::Union(union))
}

/// Whether a join is what the planner makes of `INTERSECT` and `EXCEPT`.
fn is_of_sets(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
}

fn beside(mut join: Join) -> Result<LogicalPlan> {
    let types = types_of(&[&join.left, &join.right]);
    // Rows that differ may be the same when they are cast.
    join.left = match &*join.left {
        LogicalPlan::Distinct(Distinct::All(rows)) => {
            Arc::new(LogicalPlan::Distinct(Distinct::All(retyped(rows.clone(), &types)?)))
        }
        _ => retyped(join.left, &types)?,
    };
    join.right = retyped(join.right, &types)?;
    LogicalPlan::Join(join).recompute_schema()
}

/// Whole numbers, decimals, floating-point numbers.
fn class_of(data_type: &DataType) -> Option<u8> {
    match data_type {
        data_type if is_float(data_type) => Some(2),
        data_type if is_decimal(data_type) => Some(1),
        data_type => is_number(data_type).then_some(0),
    }
}

/// A column of `USING` is both that are joined; here it is the left one.
fn using(join: Join) -> Result<LogicalPlan> {
    if matches!(join.join_type, JoinType::Right | JoinType::Full) {
        return not_impl_err!("{} JOIN with USING or NATURAL; join ON a condition", join.join_type);
    }
    for (left, right) in &join.on {
        let left = left.get_type(join.left.schema())?;
        let right = right.get_type(join.right.schema())?;
        if class_of(&left) != class_of(&right) {
            return not_impl_err!("JOIN with USING or NATURAL of {left} and {right}; join ON a condition");
        }
    }
    Ok(LogicalPlan::Join(join))
}

/// An expression as written, without the cast that the planner has put around it.
fn cell(expr: Expr) -> Expr {
    let expr = match expr {
        Expr::Cast(cast) if is_marked(&cast.expr) || matches!(*cast.expr, Expr::Literal(..)) => *cast.expr,
        expr => expr,
    };
    match expr {
        Expr::ScalarFunction(mut function) if function.name() == CELL && function.args.len() == 1 => {
            function.args.remove(0)
        }
        expr => expr,
    }
}

fn is_marked(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == CELL)
}

fn listed(mut values: Values, exact: Rewrite) -> Result<LogicalPlan> {
    let schema = DFSchema::empty();
    let mut types = Vec::with_capacity(values.schema.fields().len());
    for (at, field) in values.schema.fields().iter().enumerate() {
        let mut found = Vec::with_capacity(values.values.len());
        for row in &mut values.values {
            let written = cell(std::mem::take(&mut row[at]));
            row[at] = written.transform_up(|expr| exact(expr, &schema))?.data;
            found.push(match &row[at] {
                Expr::Literal(value, _) if value.is_null() => DataType::Null,
                expr => expr.get_type(&schema)?,
            });
        }
        let to = made_of(&found).unwrap_or_else(|| field.data_type().clone());
        for row in &mut values.values {
            let written = std::mem::take(&mut row[at]);
            row[at] = match &written {
                Expr::Literal(value, _) if value.data_type() != to => {
                    Expr::Literal(value.cast_to(&to)?, None)
                }
                _ => written.cast_to(&to, &schema)?,
            };
        }
        types.push(Some(to));
    }
    values.schema = with_types(&values.schema, &types)?;
    Ok(LogicalPlan::Values(values))
}

/// The expression that the planner has cast to a column of the recursive part, if the cast loses nothing.
pub(super) fn recurring(cast: Cast, schema: &DFSchema) -> Result<Cast> {
    if !is_marked(&cast.expr) {
        return Ok(cast);
    }
    let (from, to) = (cast.expr.get_type(schema)?, cast.field.data_type());
    let loses = match (&from, to) {
        (DataType::Decimal128(_, from), DataType::Decimal128(_, to)) => from > to,
        (from, to) => class_of(from) > class_of(to),
    };
    match loses && is_number(&from) && is_number(to) {
        true => not_impl_err!(
            "WITH RECURSIVE of a column that is {to} first and {from} later; cast what is first"
        ),
        false => Ok(cast),
    }
}

/// Tells subqueries the types that columns further out have now. Says whether there was news.
pub(super) fn told(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.map_subqueries(|inner| told_of(inner, &schema))
    })
}

fn told_of(plan: LogicalPlan, outer: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::OuterReferenceColumn(field, column) => match outer.field_from_column(&column) {
                    Ok(now) if now.data_type() != field.data_type() => {
                        Ok(Transformed::yes(Expr::OuterReferenceColumn(now.clone(), column)))
                    }
                    _ => Ok(Transformed::no(Expr::OuterReferenceColumn(field, column))),
                },
                other => Ok(Transformed::no(other)),
            })
        })
    })
}

/// The mark: what it is given.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Mark(Signature);

/// The mark as a function, which answers what it is given.
pub(super) fn mark() -> ScalarUDF {
    ScalarUDF::new_from_impl(Mark(Signature::any(1, Volatility::Immutable)))
}

impl ScalarUDFImpl for Mark {
    fn name(&self) -> &str {
        CELL
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type is that of the argument")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(args.arg_fields[0].as_ref().clone().with_name(CELL)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}
