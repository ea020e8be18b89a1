//! Reserves memory for the rows that window functions hold back, because they reserve none themselves.
//!
//! ```text
//!   rows ─ in ─ window functions ─ out ─ rows         held: those that are in and not out
//! ```

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tarn_engine::lock::Mutex;

/// Rows that are held are copied together before they are measured.
const COPIES: usize = 2;

/// The same plan, whose window functions reserve what they hold back.
pub(crate) fn reserving(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    plan.transform_up(|plan| match plan.is::<WindowAggExec>() || plan.is::<BoundedWindowAggExec>() {
        true => Ok(Transformed::yes(between_gates(plan)?)),
        false => Ok(Transformed::no(plan)),
    })
    .data()
}

fn between_gates(window: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let held = Arc::<Mutex<Held>>::default();
    let gate = |input, side| Arc::new(Gate { input, side, held: held.clone() }) as Arc<dyn ExecutionPlan>;
    let inputs = window.children().into_iter().map(|input| gate(input.clone(), Side::In)).collect();
    let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    Ok(gate(window.replace_children(inputs, options)?, Side::Out))
}

/// The rows that came in and have not gone out.
#[derive(Debug, Default)]
struct Held {
    rows_in: usize,
    bytes_in: usize,
    rows_out: usize,
    reservation: Option<MemoryReservation>,
}

impl Held {
    fn pass(&mut self, side: Side, batch: &RecordBatch, context: &TaskContext) -> Result<()> {
        match side {
            Side::In => {
                self.rows_in += batch.num_rows();
                self.bytes_in += batch.columns().iter().map(bytes_of).sum::<usize>();
            }
            Side::Out => self.rows_out += batch.num_rows(),
        }
        let held = self.rows_in.saturating_sub(self.rows_out);
        let bytes = (self.bytes_in as u128 * held as u128 / self.rows_in.max(1) as u128) as usize;
        let register = || MemoryConsumer::new("window functions").register(context.memory_pool());
        self.reservation.get_or_insert_with(register).try_resize(bytes * COPIES)
    }
}

/// Bytes of the rows of a column themselves, whatever else their buffers hold.
fn bytes_of(column: &ArrayRef) -> usize {
    const VIEW: usize = size_of::<u128>();
    match column.data_type() {
        DataType::Utf8View => column.len() * VIEW + column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.len() * VIEW + column.as_binary_view().total_buffer_bytes_used(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

/// On which side of the functions it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    In,
    Out,
}

/// Lets rows through and counts them.
#[derive(Debug)]
struct Gate {
    input: Arc<dyn ExecutionPlan>,
    side: Side,
    held: Arc<Mutex<Held>>,
}

impl DisplayAs for Gate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate: {:?}", self.side)
    }
}

impl ExecutionPlan for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Gate { input: children.remove(0), side: self.side, held: self.held.clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (side, held) = (self.side, self.held.clone());
        let rows = self.input.execute(partition, context.clone())?.map(move |batch| {
            let batch = batch?;
            held.lock().pass(side, &batch, &context)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
