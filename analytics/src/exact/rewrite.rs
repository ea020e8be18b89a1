//! Rewrites the expressions of a plan.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Rewrites one expression, whose inputs are rewritten already.
pub(super) type Rewrite = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// A plan with its expressions rewritten, from the leaves up.
pub(super) fn rewritten(plan: LogicalPlan, rewrite: Rewrite) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let names = NamePreserver::new(&plan);
    let done = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let done = expr.transform_up(|expr| rewrite(expr, &schema))?;
        Ok(if done.transformed { done.update_data(|expr| name.restore(expr)) } else { done })
    })?;
    // Types below may have changed, also where nothing changed here.
    done.map_data(LogicalPlan::recompute_schema)
}
