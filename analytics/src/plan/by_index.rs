//! A rule of the planner: reads the first rows in the order of an indexed column through its index.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// `ORDER BY … LIMIT` by an index. To sort all rows takes less than to read all by an index, so there must be
/// a limit, and nothing between that may need many rows for one.
#[derive(Debug)]
pub(crate) struct ByIndex;

impl PhysicalOptimizerRule for ByIndex {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|plan| {
            let Some(sort) = plan.downcast_ref::<SortExec>() else { return Ok(Transformed::no(plan)) };
            let (Some(limit), false) = (sort.fetch(), filters(sort.input())) else {
                return Ok(Transformed::no(plan));
            };
            Ok(match sort.input().try_pushdown_sort(sort.expr())? {
                SortOrderPushdownResult::Exact { inner } => Transformed::yes(limited(inner, limit)?),
                _ => Transformed::no(plan),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "by_index"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The first rows of a plan, and no more read than is needed.
fn limited(plan: Arc<dyn ExecutionPlan>, limit: usize) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(limited) = plan.with_fetch(Some(limit)) {
        return Ok(limited);
    }
    match plan.children().as_slice() {
        [input] if plan.supports_limit_pushdown() => {
            let input = limited((*input).clone(), limit)?;
            plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
        }
        // The parts are merged above.
        _ if plan.output_partitioning().partition_count() > 1 => {
            Ok(Arc::new(LocalLimitExec::new(plan, limit)))
        }
        _ => Ok(Arc::new(GlobalLimitExec::new(plan, 0, Some(limit)))),
    }
}

/// Whether rows are left out between here and a table.
fn filters(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<FilterExec>() || plan.children().into_iter().any(filters)
}
