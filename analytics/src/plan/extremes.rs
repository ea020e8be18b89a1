//! A rule of the planner: `MIN` and `MAX` of an indexed column read the ends of its index.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::logical_plan::{Aggregate, LogicalPlan, LogicalPlanBuilder, Sort, TableScan};
use datafusion::logical_expr::{Expr, SortExpr};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::plan::key_table::KeyTable;

/// `MIN` and `MAX` of whole tables: each of them of the first row in the order of its column, which
/// [`ByIndex`](crate::plan::by_index::ByIndex) then reads by the index.
#[derive(Debug)]
pub(crate) struct Extremes;

impl OptimizerRule for Extremes {
    fn name(&self) -> &str {
        "extremes"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else { return Ok(Transformed::no(plan)) };
        match by_their_indexes(aggregate)? {
            Some(rewritten) => Ok(Transformed::yes(rewritten)),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// The same values, each from a scan of its own; `None` where one of them is not at the end of an index.
fn by_their_indexes(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::TableScan(scan) = &*aggregate.input else { return Ok(None) };
    if !aggregate.group_expr.is_empty() {
        return Ok(None);
    }
    let provider = source_as_provider(&scan.source)?;
    let Some(table) = provider.downcast_ref::<KeyTable>() else { return Ok(None) };
    let mut all: Option<LogicalPlanBuilder> = None;
    for value in &aggregate.aggr_expr {
        let Some(sorted) = first_of(value, scan, table) else { return Ok(None) };
        let value = Aggregate::try_new(Arc::new(sorted), Vec::new(), vec![value.clone()])?;
        let value = LogicalPlan::Aggregate(value);
        all = Some(match all {
            Some(others) => others.cross_join(value)?,
            None => LogicalPlanBuilder::from(value),
        });
    }
    all.map(LogicalPlanBuilder::build).transpose()
}

/// The row that has the value, if an index has its column and nothing else is asked of the rows.
fn first_of(value: &Expr, scan: &TableScan, table: &KeyTable) -> Option<LogicalPlan> {
    let Expr::AggregateFunction(function) = value else { return None };
    let AggregateFunctionParams { args, filter: None, .. } = &function.params else { return None };
    let is_ascending = match function.func.name() {
        "min" => true,
        "max" => false,
        _ => return None,
    };
    let [Expr::Column(column)] = args.as_slice() else { return None };
    let asks_others = |filter: &Expr| filter.column_refs().into_iter().any(|other| other != column);
    let is_cut = scan.fetch.is_some();
    if is_cut || scan.filters.iter().any(asks_others) || !table.has_index_on(column.name()) {
        return None;
    }
    let mut scan = scan.clone();
    scan.filters.push(Expr::Column(column.clone()).is_not_null());
    let first = SortExpr::new(Expr::Column(column.clone()), is_ascending, false);
    Some(LogicalPlan::Sort(Sort {
        expr: vec![first],
        input: Arc::new(LogicalPlan::TableScan(scan)),
        fetch: Some(1),
    }))
}
