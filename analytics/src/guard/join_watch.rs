//! Makes joins respond: to cancel requests, to timeouts, and to other statements that wait for the thread.
//!
//! A join that finds few rows goes through all pairs of a batch and of the rows on its other side before it
//! pauses, which may take hours. The only thing that it evaluates throughout is its condition, so the
//! condition checks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder,
};
use tarn_engine::lock::Mutex;

use crate::guard::compute::step_aside;
use crate::statement::query::Query;

/// How often others have their turn.
const TURN: Duration = Duration::from_millis(100);

/// The same plan, whose joins listen.
pub(crate) fn watched(plan: Arc<dyn ExecutionPlan>, query: &Arc<Query>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| {
        let join: Arc<dyn ExecutionPlan> = if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let (left, right) = (join.left().clone(), join.right().clone());
            let watched = NestedLoopJoinExecBuilder::new(left, right, *join.join_type())
                .with_projection_ref(join.projection().clone())
                .with_filter(join.filter().map(|filter| watched_filter(filter, query)));
            Arc::new(watched.build()?)
        } else if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            match join.filter() {
                Some(filter) => {
                    join.builder().with_filter(Some(watched_filter(filter, query))).build_exec()?
                }
                None => plan,
            }
        } else if plan.is::<CrossJoinExec>() {
            plan
        } else {
            return Ok(Transformed::no(plan));
        };
        // Where it finds many rows, it pauses now and then.
        Ok(Transformed::yes(Arc::new(CooperativeExec::new(join))))
    })
    .data()
}

fn watched_filter(filter: &JoinFilter, query: &Arc<Query>) -> JoinFilter {
    let condition = Watched {
        condition: filter.expression().clone(),
        query: query.clone(),
        turn: Arc::new(Mutex::new(Instant::now())),
    };
    JoinFilter::new(Arc::new(condition), filter.column_indices().to_vec(), filter.schema().clone())
}

/// A condition that looks, each time it is asked, at whether its statement goes on.
#[derive(Clone)]
struct Watched {
    condition: Arc<dyn PhysicalExpr>,
    query: Arc<Query>,
    /// When others had their turn last.
    turn: Arc<Mutex<Instant>>,
}

impl PhysicalExpr for Watched {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.condition.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.condition.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.condition.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        if let Some(reason) = self.query.stopped() {
            return Err(DataFusionError::from(reason));
        }
        let is_turn = self.turn.try_lock().is_some_and(|mut turn| {
            let is_turn = turn.elapsed() >= TURN;
            if is_turn {
                *turn = Instant::now();
            }
            is_turn
        });
        if is_turn {
            step_aside();
        }
        self.condition.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.condition]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(Watched { condition: children.remove(0), ..(*self).clone() }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt_sql(f)
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.condition.fmt(f)
    }
}

impl PartialEq for Watched {
    fn eq(&self, other: &Watched) -> bool {
        self.condition.eq(&other.condition) && Arc::ptr_eq(&self.query, &other.query)
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.condition.hash(state);
    }
}
