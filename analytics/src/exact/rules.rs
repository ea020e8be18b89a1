//! The rules of the analyzer and of the physical optimizer, and the functions that they use.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{LogicalPlan, Operator};
use datafusion::optimizer::{Analyzer, AnalyzerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionContext;

use super::documents::Documents;
use super::expression::{exact, written};
use super::rewrite::rewritten;
use super::{arithmetic, casting, membership, numbers, sets, spans, to_char};

/// The rules of the analyzer, ours among them.
pub(crate) fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    let mut rules = Analyzer::new().rules;
    rules.insert(0, Arc::new(Documents));
    rules.insert(1, Arc::new(Exact));
    rules.push(Arc::new(Written));
    rules
}

/// The rules that choose how a plan runs, but for one that takes columns of the same name for each other, so
/// that a condition is asked of the wrong side of a join. The planner pushes conditions down without it.
pub(crate) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules = PhysicalOptimizer::new().rules;
    rules.retain(|rule| !rule.name().starts_with("FilterPushdown"));
    rules
}

/// Makes the functions known that stand in for the library's.
pub(crate) fn register(context: &SessionContext) {
    numbers::functions().into_iter().for_each(|function| context.register_udf(function));
    for name in numbers::PARTIAL {
        if let Ok(inner) = context.udf(name) {
            context.register_udf(numbers::refusing(inner));
        }
    }
    context.register_udf(sets::mark());
    context.register_udf(casting::to_numeric());
    context.register_udf(to_char::to_char());
    context.register_udf(spans::age());
    let modulo = arithmetic::function_of(Operator::Modulo);
    modulo.into_iter().for_each(|function| context.register_udf(function));
}

/// Subqueries within each other that may ask about each other's types.
const ROUNDS_MAX: usize = 8;

/// Puts functions of ours where the library computes otherwise.
#[derive(Debug)]
struct Exact;

impl AnalyzerRule for Exact {
    fn name(&self) -> &str {
        "exact"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut plan = plan;
        for round in 0..ROUNDS_MAX {
            let done = plan.transform_up_with_subqueries(|plan| {
                let done = rewritten(sets::put_right(plan, round == 0, exact)?, exact)?;
                done.transform_data(|plan| Ok(Transformed::yes(membership::put_right(plan)?)))?
                    .map_data(LogicalPlan::recompute_schema)
            })?;
            // Types that subqueries ask about may have changed further out.
            let told = sets::told(done.data)?;
            plan = told.data;
            if !told.transformed {
                break;
            }
        }
        Ok(plan)
    }
}

/// Puts right what coercion casts to texts, and tests of truth.
#[derive(Debug)]
struct Written;

impl AnalyzerRule for Written {
    fn name(&self) -> &str {
        "written"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(plan.transform_up_with_subqueries(|plan| rewritten(plan, written))?.data)
    }
}
