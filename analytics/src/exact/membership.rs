//! `IN (subquery)` as PostgreSQL has it wherever it stands: NULL where it is not known.
//!
//! The library joins a mark to each row, which is true or false, never NULL. So an `IN` whose NULL and false
//! lead to different results becomes a `CASE` of marks:
//!
//! ```text
//!   x IN (q)  =  CASE WHEN EXISTS (q WHERE c = x)                     THEN true
//!                     WHEN EXISTS (q WHERE c IS NULL)                 THEN NULL
//!                     WHEN x IS NULL AND EXISTS (q)                   THEN NULL
//!                     ELSE false END
//! ```
//!
//! An `IN` that is a condition by itself stays, as does an uncorrelated `NOT IN` of a column: those are joins
//! of their own.

use std::sync::Arc;

use crate::guard::complexity::check_plan;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result, ScalarValue, not_impl_err};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::Operator;
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery, binary_expr, lit, when};

/// Puts the memberships of a step right.
pub(super) fn put_right(plan: LogicalPlan) -> Result<LogicalPlan> {
    let has_any = plan.expressions().iter().any(|expr| {
        expr.exists(|expr| Ok(matches!(expr, Expr::InSubquery(_) | Expr::Exists(_)))).unwrap_or(false)
    });
    if !has_any {
        return Ok(plan);
    }
    let schema = merge_schema(&plan.inputs());
    if let LogicalPlan::Filter(mut filter) = plan {
        let parts = split_conjunction_owned(filter.predicate);
        let parts = parts.into_iter().map(|part| match &part {
            Expr::InSubquery(member) if is_a_join(member) => Ok(part),
            _ => known(part, &schema, true),
        });
        let parts = parts.collect::<Result<Vec<_>>>()?;
        filter.predicate = conjunction(parts).unwrap_or_else(|| lit(true));
        return Ok(LogicalPlan::Filter(filter));
    }
    let is_filter = matches!(plan, LogicalPlan::Join(_));
    let names = NamePreserver::new(&plan);
    let done = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        known(expr, &schema, is_filter).map(|expr| Transformed::yes(name.restore(expr)))
    })?;
    Ok(done.data)
}

/// Three-valued; in a filter by marks, elsewhere by counting.
fn known(expr: Expr, schema: &DFSchema, is_filter: bool) -> Result<Expr> {
    let done = expr.transform_up(|expr| match expr {
        Expr::InSubquery(member) => three_valued(member, schema, is_filter).map(Transformed::yes),
        Expr::Exists(exists) if !is_filter => {
            let found = counted(&exists.subquery)?;
            Ok(Transformed::yes(if exists.negated { found.eq(lit(0_i64)) } else { found.gt(lit(0_i64)) }))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}

fn three_valued(member: InSubquery, schema: &DFSchema, is_filter: bool) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = member;
    let plan = subquery.subquery.as_ref().clone();
    // It stands in three places from now on, and so does what was put right in it.
    check_plan(&plan)?;
    if plan.schema().fields().len() != 1 {
        return not_impl_err!("IN with a subquery of several columns");
    }
    if expr.exists(|expr| Ok(is_query(expr)))? {
        return not_impl_err!("a subquery IN a subquery");
    }
    // Columns with the same name in both would be confused.
    let plan = match subquery.outer_ref_columns.is_empty() {
        true => LogicalPlanBuilder::from(plan).alias(ASKED)?.build()?,
        false if !is_filter => return not_impl_err!("IN with a correlated subquery outside of WHERE"),
        false if shares_names(&expr, &plan)? => {
            return not_impl_err!(
                "IN with a correlated subquery of tables with the same name; name them by AS"
            );
        }
        false => plan,
    };
    let column = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let outer = outer(*expr.clone(), schema)?;
    let exists = |condition: Option<Expr>| -> Result<Expr> {
        let builder = LogicalPlanBuilder::from(plan.clone());
        let plan = match condition {
            Some(condition) => builder.filter(condition)?.build()?,
            None => builder.build()?,
        };
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery =
            Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() };
        match is_filter {
            true => Ok(Expr::Exists(Exists { subquery, negated: false })),
            false => Ok(counted(&subquery)?.gt(lit(0_i64))),
        }
    };
    let unknown = || Expr::Literal(ScalarValue::Boolean(None), None);
    let equal = binary_expr(outer, Operator::Eq, column.clone());
    let known = when(exists(Some(equal))?, lit(!negated))
        .when(exists(Some(column.is_null()))?, unknown())
        .when(expr.is_null().and(exists(None)?), unknown())
        .otherwise(lit(negated))?;
    Ok(known)
}

/// The name of a subquery that is asked several times.
const ASKED: &str = "__member";

fn is_query(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_))
}

/// Whether the library makes a join of it that knows NULL: a `NOT IN` needs a column for that.
fn is_a_join(member: &InSubquery) -> bool {
    let has_columns = !member.expr.column_refs().is_empty();
    let has_queries = member.expr.exists(|expr| Ok(is_query(expr))).unwrap_or(true);
    !member.negated || member.subquery.outer_ref_columns.is_empty() && has_columns && !has_queries
}

/// Whether a table of a plan has the name of one that an expression names.
fn shares_names(expr: &Expr, plan: &LogicalPlan) -> Result<bool> {
    let names: Vec<_> = expr.column_refs().into_iter().map(|column| column.relation.clone()).collect();
    let mut shares = false;
    plan.apply_with_subqueries(|node| {
        shares |= node.schema().iter().any(|(relation, _)| names.contains(&relation.cloned()));
        Ok(if shares { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(shares)
}

/// How many rows a subquery has.
fn counted(subquery: &Subquery) -> Result<Expr> {
    let plan = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), vec![count(lit(1_i64))])?
        .build()?;
    let outer_ref_columns = plan.all_out_ref_exprs();
    Ok(Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(plan),
        outer_ref_columns,
        spans: subquery.spans.clone(),
    }))
}

/// An expression as a subquery sees it.
fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let done = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = schema.field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(field.clone(), column)))
        }
        Expr::OuterReferenceColumn(..) => {
            not_impl_err!("IN (subquery) of a column of two queries further out")
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}
