//! The operator that reads a table: some columns of the rows that meet some conditions, through a view.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::sort_pushdown::SortOrderPushdownResult;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use futures::stream::{self, StreamExt, TryStreamExt};
use tarn_engine::{Engine, IndexScan, Pointer};

use crate::error::QueryError;
use crate::plan::access::{Access, Lookup};
use crate::plan::estimate;
use crate::plan::scan_stats::ScanStats;
use crate::rights::VisibleKeys;
use crate::statement::constants::new_turn;
use crate::statement::instant::{Needs, Planned, Reading};
use crate::statement::query::Query;
use crate::statement::scan_context::ScanContext;
use crate::statement::turns::Turns;
use crate::table::condition::Condition;
use crate::table::declaration::Declaration;
use crate::table::index::TableIndex;
use crate::table::rows::{Rows, Unreadable};

/// Keys that are looked up before the next look at whether the statement goes on.
const KEYS_AT_ONCE: usize = 256;

/// Steps of a turn: parts of a segment, or of [`KEYS_AT_ONCE`] keys.
const STEPS_OF_TURN: usize = 32;

/// One row of this many meets a condition, if nothing else is known.
const ROWS_FOR_ONE: usize = 5;

/// The part of a table that is read.
#[derive(Clone)]
pub(crate) struct Wanted {
    /// The name of the table.
    pub table: String,
    /// Its declaration.
    pub declaration: Arc<Declaration>,
    /// The keys that have rows; `None`: all of the table.
    pub visible: Option<VisibleKeys>,
    /// Its columns, by number.
    pub projection: Vec<usize>,
    /// The conditions that its rows must meet.
    pub conditions: Vec<Condition>,
    /// Rows that suffice.
    pub limit: Option<usize>,
    /// How they are found.
    pub access: Access,
    /// Its indexes.
    pub indexes: Arc<[Arc<TableIndex>]>,
}

impl Wanted {
    /// How many rows it is, about.
    fn estimate(&self, engine: &Engine) -> usize {
        let rows = match &self.access {
            Access::Keys(keys) => keys.len(),
            Access::Index(lookup) => lookup.keys,
            Access::Walk(_) => {
                let rows = estimate::rows_of(&self.declaration, &self.indexes, engine);
                if self.conditions.is_empty() { rows } else { rows / ROWS_FOR_ONE }
            }
        };
        self.limit.map_or(rows, |limit| rows.min(limit)).max(1)
    }
}

/// Reads a table through a view.
#[derive(Clone)]
pub(crate) struct KeyScan {
    engine: Arc<Engine>,
    /// For each part.
    planned: Arc<[Arc<Planned>]>,
    query: Arc<Query>,
    turns: Arc<Turns>,
    wanted: Wanted,
    /// How many rows there are, about, for the order of joins.
    rows: usize,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl KeyScan {
    /// A scan that has been planned for the instant of a statement.
    pub(crate) fn new(engine: Arc<Engine>, context: &ScanContext, wanted: Wanted) -> Result<KeyScan> {
        let ScanContext { instant, query, turns, .. } = context;
        let schema = Arc::new(wanted.declaration.schema.project(&wanted.projection)?);
        let needs = wanted.access.needs();
        let database = wanted.declaration.database;
        let planned: Arc<[_]> = needs.into_iter().map(|it| Arc::new(instant.plan(database, it))).collect();
        query.note_scan();
        Ok(KeyScan {
            rows: wanted.estimate(&engine),
            engine,
            properties: properties(EquivalenceProperties::new(schema.clone()), planned.len()),
            planned,
            query: query.clone(),
            turns: turns.clone(),
            wanted,
            schema,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// The same rows in this order, if an index has it.
    fn in_order(&self, order: &PhysicalSortExpr) -> Option<KeyScan> {
        let column = order.expr.downcast_ref::<Column>()?;
        let at = *self.wanted.projection.get(column.index())?;
        let access = self.wanted.access.in_order_of(
            at,
            order.options.descending,
            order.options.nulls_first,
            &self.wanted.conditions,
            &self.wanted.indexes,
            &self.engine,
        )?;
        let database = self.wanted.declaration.database;
        if access.asks_for_missing_fields() && self.planned[0].may_be_timed(database) {
            return None;
        }
        let planned = self.planned[0].again(database, Needs::Index);
        let ordered = EquivalenceProperties::new_with_orderings(self.schema.clone(), [vec![order.clone()]]);
        Some(KeyScan {
            planned: Arc::new([Arc::new(planned)]),
            properties: properties(ordered, 1),
            wanted: Wanted { access, ..self.wanted.clone() },
            ..self.clone()
        })
    }
}

fn properties(equivalences: EquivalenceProperties, parts: usize) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(parts);
    let (emission, boundedness) = (EmissionType::Incremental, Boundedness::Bounded);
    Arc::new(PlanProperties::new(equivalences, partitioning, emission, boundedness))
}

impl fmt::Debug for KeyScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyScan: {}", self.wanted.table)
    }
}

impl DisplayAs for KeyScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let Wanted { table, declaration, conditions, access, .. } = &self.wanted;
        write!(f, "KeyScan: table={table}, columns=[{}], by={access}", names.join(", "))?;
        if !conditions.is_empty() {
            let column = |it: &Condition| declaration.schema.field(it.column).name().clone();
            let columns: Vec<_> = conditions.iter().map(column).collect();
            write!(f, ", conditions on [{}]", columns.join(", "))?;
        }
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

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch = context.session_config().batch_size();
        let planned = self.planned[partition].clone();
        let (engine, query, turns) = (self.engine.clone(), self.query.clone(), self.turns.clone());
        let (wanted, schema) = (self.wanted.clone(), self.schema.clone());
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let counted = ScanStats::new(&self.metrics, partition, &self.query);
        let batches = stream::once(async move {
            let reading = planned.read(&engine).await?;
            let Wanted { declaration, visible, projection, conditions, .. } = &wanted;
            let rows = Rows::new(declaration.clone(), projection, conditions, schema, reading.now, batch)
                .of_visible(visible.clone());
            let scan = Scan::new(reading, planned, query, wanted, rows, metrics, counted)?;
            let batches = stream::try_unfold((scan, engine, turns), |(mut scan, engine, turns)| async move {
                loop {
                    let turn = turns.next(&engine).await;
                    // A part runs in a task of its own, where nothing else says so.
                    new_turn();
                    let next = scan.next()?;
                    let gives_way = turn.is_some() || matches!(next, Next::Pause);
                    drop(turn);
                    if gives_way {
                        // The next scan has the turn now, and may wait for this thread; or another statement.
                        tokio::task::yield_now().await;
                    }
                    break match next {
                        Next::Rows(batch) => Ok::<_, DataFusionError>(Some((batch, (scan, engine, turns)))),
                        Next::Pause => continue,
                        Next::End => Ok(None),
                    };
                }
            });
            Ok::<_, QueryError>(batches)
        });
        let batches = batches.map_err(DataFusionError::from).try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), batches.boxed())))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        arguments: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let parts = if arguments.partition().is_some() { self.planned.len() } else { 1 };
        let mut statistics = Statistics::new_unknown(&self.schema);
        if self.wanted.visible.is_some() {
            // The estimate counts keys that are left out, and `EXPLAIN VERBOSE` shows it.
            return Ok(Arc::new(statistics));
        }
        statistics.num_rows = Precision::Inexact(self.rows.div_ceil(parts));
        statistics.calculate_total_byte_size(&self.schema);
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn fetch(&self) -> Option<usize> {
        self.wanted.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(KeyScan { wanted: Wanted { limit, ..self.wanted.clone() }, ..self.clone() }))
    }

    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
    ) -> Result<SortOrderPushdownResult<Arc<dyn ExecutionPlan>>> {
        let [order] = order else { return Ok(SortOrderPushdownResult::Unsupported) };
        Ok(match self.in_order(order) {
            Some(ordered) => SortOrderPushdownResult::Exact { inner: Arc::new(ordered) },
            None => SortOrderPushdownResult::Unsupported,
        })
    }
}

/// A scan that is under way.
struct Scan {
    reading: Reading,
    /// Keeps the view's number its own.
    #[expect(dead_code, reason = "held to be dropped with the scan")]
    planned: Arc<Planned>,
    query: Arc<Query>,
    database: u8,
    limit: Option<usize>,
    rows: Rows,
    /// Rows that were made and not given out.
    rest: Option<RecordBatch>,
    metrics: BaselineMetrics,
    counted: ScanStats,
    way: Way,
    /// Rows given out.
    given: usize,
    /// Values that could not be read, as far as the query knows.
    told: u64,
}

/// The result of a turn of a scan.
enum Next {
    /// Rows.
    Rows(RecordBatch),
    /// There are too few yet, and the turn is over.
    Pause,
    /// There are no more.
    End,
}

/// Where a scan goes on.
enum Way {
    /// Position after position; of a pinned view these.
    Walk(Range<u64>),
    /// These keys, from here on.
    Keys(Arc<[Vec<u8>]>, usize),
    /// These parts of an index.
    Index(VecDeque<IndexScan>, Arc<Lookup>),
}

impl Way {
    fn of(access: &Access, reading: &Reading, planned: &Planned) -> Result<Way, QueryError> {
        let lookup = match access {
            Access::Walk(_) => return Ok(Way::Walk(planned.positions())),
            Access::Keys(keys) => return Ok(Way::Keys(keys.clone(), 0)),
            Access::Index(lookup) => lookup,
        };
        let Lookup { index, places, direction, in_order, .. } = &**lookup;
        // By the plan no field had a time, but the view may see one.
        let misses = access.asks_for_missing_fields() && reading.view().may_be_timed(index.database());
        let scan = |place| reading.view().scan_index(index.database(), &index.name, place, *direction);
        match places.iter().map(scan).collect() {
            Some(scans) if !misses => Ok(Way::Index(scans, lookup.clone())),
            _ if *in_order => Err(QueryError::IndexGone(index.name.clone())),
            // Between planning and opening it was dropped, or another table came to this database.
            _ => Ok(Way::Walk(planned.positions())),
        }
    }
}

impl Scan {
    fn new(
        reading: Reading,
        planned: Arc<Planned>,
        query: Arc<Query>,
        wanted: Wanted,
        rows: Rows,
        metrics: BaselineMetrics,
        counted: ScanStats,
    ) -> Result<Scan, QueryError> {
        let Wanted { declaration, limit, access, .. } = wanted;
        let database = declaration.database;
        let way = Way::of(&access, &reading, &planned)?;
        let rows = if matches!(way, Way::Walk(_)) { rows } else { rows.in_order() };
        let (rest, given, told) = (None, 0, 0);
        Ok(Scan { reading, planned, query, database, limit, rows, rest, metrics, counted, way, given, told })
    }

    /// Reads for one turn.
    fn next(&mut self) -> Result<Next, QueryError> {
        let made = match self.rest.take() {
            Some(rest) => rest,
            None => match self.make()? {
                Next::Rows(made) => made,
                other => return Ok(other),
            },
        };
        let batch = self.rows.batch();
        if made.num_rows() < batch * 2 {
            return Ok(Next::Rows(made));
        }
        // A read may return more rows than a batch takes.
        self.rest = Some(made.slice(batch, made.num_rows() - batch));
        Ok(Next::Rows(made.slice(0, batch)))
    }

    fn make(&mut self) -> Result<Next, QueryError> {
        let _timer = self.metrics.elapsed_compute().clone();
        let _timer = _timer.timer();
        let batch = self.rows.batch();
        let enough = self.limit.map_or(batch, |limit| batch.min(limit - self.given));
        let mut steps = 0;
        while enough > 0 && self.rows.len() < enough && !self.rows.is_heavy() {
            if let Some(reason) = self.query.stopped() {
                return Err(reason);
            }
            if steps == STEPS_OF_TURN {
                return Ok(Next::Pause);
            }
            steps += 1;
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
            self.tell(0);
            return Ok(Next::End);
        }
        let mut batch = self.rows.finish().map_err(DataFusionError::from)?;
        if let Some(limit) = self.limit {
            count = count.min(limit - self.given);
            batch = batch.slice(0, count);
        }
        self.given += count;
        self.tell(count);
        self.metrics.record_output(count);
        Ok(Next::Rows(batch))
    }

    /// Tells the query of rows, and of values that could not be read.
    fn tell(&mut self, rows: usize) {
        let unreadable = self.rows.failures();
        self.query.count(rows as u64, unreadable - self.told);
        self.told = unreadable;
    }

    /// Reads the next part of the table; `false` at its end.
    fn step(&mut self) -> Result<bool, QueryError> {
        let pointers;
        let keys: Vec<&[u8]> = match &mut self.way {
            Way::Walk(positions) => {
                let mut taking = self.counted.visitor(&mut self.rows);
                if let Some(view) = self.reading.once() {
                    return Ok(view.step(&mut taking)?.is_some());
                }
                if positions.is_empty() {
                    return Ok(false);
                }
                let rest = self.reading.view().read_at(self.database, positions.clone(), &mut taking)?;
                positions.start = rest.unwrap_or(positions.end);
                return Ok(true);
            }
            Way::Keys(keys, at) => {
                let from = *at;
                *at = keys.len().min(from + KEYS_AT_ONCE);
                keys[from..*at].iter().map(Vec::as_slice).collect()
            }
            Way::Index(scans, lookup) => {
                let Some(scan) = scans.front_mut() else { return Ok(false) };
                let view = self.reading.view();
                pointers = lookup.next_pointers(view, scan, KEYS_AT_ONCE)?;
                if pointers.is_empty() {
                    scans.pop_front();
                    return Ok(true);
                }
                if lookup.has_cut(&pointers) {
                    let entries = lookup.in_full_order(view, &pointers)?;
                    entries.iter().for_each(|entry| self.rows.take(entry));
                    self.counted.note(entries.len() as u64, 0);
                    return Ok(true);
                }
                pointers.iter().map(Pointer::key).collect()
            }
        };
        if keys.is_empty() {
            return Ok(false);
        }
        let before = self.rows.taken();
        let reach = self.rows.reach();
        let rows = &mut self.rows;
        let kept = self.reading.view().read_keys(self.database, &keys, reach, |_, entry| rows.take(entry))?;
        // Of a key that the user must not read, nothing tells that it has changed.
        let kept = if self.rows.leaves_out() { 0 } else { kept as u64 };
        self.counted.note(self.rows.taken() - before, kept);
        Ok(true)
    }
}
