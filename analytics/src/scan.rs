//! The operator that reads a table: some columns of it, through a view.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::{self, StreamExt, TryStreamExt};
use tarn_engine::{Engine, Entry};

use super::declaration::Declaration;
use super::error::QueryError;
use super::instant::{Planned, Reading};
use super::query::Query;
use super::rows::{BATCH_ROWS, Rows, Unreadable};

/// What is read of a table.
#[derive(Clone)]
pub struct Wanted {
    /// The table.
    pub declaration: Arc<Declaration>,
    /// Its columns, by number.
    pub projection: Vec<usize>,
    /// Rows that suffice.
    pub limit: Option<usize>,
}

/// Reads a table through a view.
pub struct KeyScan {
    name: String,
    engine: Arc<Engine>,
    planned: Arc<Planned>,
    query: Arc<Query>,
    wanted: Wanted,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyScan {
    /// A scan that has been planned for the instant of a statement.
    pub fn new(
        name: String,
        engine: Arc<Engine>,
        planned: Planned,
        query: Arc<Query>,
        wanted: Wanted,
    ) -> Result<KeyScan> {
        let schema = Arc::new(wanted.declaration.schema.project(&wanted.projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(KeyScan {
            name,
            engine,
            planned: Arc::new(planned),
            query,
            wanted,
            schema,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }
}

impl fmt::Debug for KeyScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyScan: {}", self.name)
    }
}

impl DisplayAs for KeyScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "KeyScan: table={}, columns=[{}]", self.name, names.join(", "))?;
        match self.wanted.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for KeyScan {
    fn name(&self) -> &'static str {
        "KeyScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (engine, planned, query) = (self.engine.clone(), self.planned.clone(), self.query.clone());
        let (wanted, schema) = (self.wanted.clone(), self.schema.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let batches = stream::once(async move {
            let reading = planned.read(&engine).await?;
            let rows = Rows::new(wanted.declaration.clone(), &wanted.projection, schema, reading.now);
            let scan =
                Scan { reading, planned, query, wanted, rows, metrics, at: Some(0), given: 0, told: 0 };
            let batches = stream::try_unfold(scan, |mut scan| async move {
                Ok::<_, DataFusionError>(scan.next()?.map(|batch| (batch, scan)))
            });
            Ok::<_, QueryError>(batches)
        });
        let batches = batches.map_err(DataFusionError::from).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// A scan that is under way.
struct Scan {
    reading: Reading,
    /// Keeps the view's number its own.
    #[expect(dead_code, reason = "held to be dropped with the scan")]
    planned: Arc<Planned>,
    query: Arc<Query>,
    wanted: Wanted,
    rows: Rows,
    metrics: BaselineMetrics,
    /// Where a pinned view goes on; `None` at the end.
    at: Option<u64>,
    /// Rows given out.
    given: usize,
    /// Values that could not be read, as far as the query knows.
    told: u64,
}

impl Scan {
    /// The next rows; `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let _timer = self.metrics.elapsed_compute().clone();
        let _timer = _timer.timer();
        let enough = self.wanted.limit.map_or(BATCH_ROWS, |limit| BATCH_ROWS.min(limit - self.given));
        while enough > 0 && self.rows.len() < enough {
            if let Some(reason) = self.query.stopped() {
                return Err(reason);
            }
            if !self.rows.waits() && !self.step()? {
                break;
            }
            self.rows.settle();
            if let Some(Unreadable { column, key }) = self.rows.refused() {
                return Err(QueryError::Unreadable { column, key });
            }
        }
        let mut count = self.rows.len();
        if count == 0 {
            return Ok(None);
        }
        let mut batch = self.rows.finish().map_err(DataFusionError::from)?;
        if let Some(limit) = self.wanted.limit {
            count = count.min(limit - self.given);
            batch = batch.slice(0, count);
        }
        self.given += count;
        let unreadable = self.rows.failures();
        self.query.count(count as u64, unreadable - self.told);
        self.told = unreadable;
        self.metrics.record_output(count);
        Ok(Some(batch))
    }

    /// Reads the next part of the table; `false` at its end.
    fn step(&mut self) -> Result<bool, QueryError> {
        let rows = &mut self.rows;
        let mut take = |entry: &Entry| rows.take(entry);
        if let Some(view) = self.reading.once() {
            return Ok(view.step(&mut take)?.is_some());
        }
        let Some(at) = self.at else { return Ok(false) };
        self.at = self.reading.view().read_at(self.wanted.declaration.database, at, &mut take)?;
        Ok(true)
    }
}
