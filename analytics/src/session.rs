//! Who asks: a session runs statements one after the other, each as of one instant, or a block of them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, Session as PlannerSession, TableProviderFactory,
};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{ColumnarValue, DdlStatement, LogicalPlan, ScalarUDF, Volatility, create_udf};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{DataFrame, SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
use futures::StreamExt;
use parking_lot::Mutex;
use tarn_engine::Engine;

use super::catalog::Declared;
use super::declaration::Shape;
use super::error::QueryError;
use super::instant::{Bits, Instant};
use super::keyspace::Keyspace;
use super::query::{Queries, Query, Running};
use super::rows::BATCH_ROWS;
use super::table::KeyTables;

/// The name of the database, for those who ask for one.
pub const DATABASE: &str = "tarn";
/// The PostgreSQL whose protocol and catalog are spoken.
pub const POSTGRESQL_VERSION: &str = "16.6";
/// Who uses the most memory is named in an error.
const CONSUMERS_NAMED: std::num::NonZeroUsize = std::num::NonZeroUsize::new(3).expect("3 is not 0");

/// Finds the store, if it is there.
type Find = Box<dyn Fn() -> Option<Arc<Engine>> + Send + Sync>;

/// The store, once it is there.
pub struct Store {
    find: OnceLock<Find>,
    databases: usize,
}

impl Store {
    /// The store, unless it is being loaded.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.find.get().and_then(|find| find())
    }

    /// Number of logical databases.
    pub fn databases(&self) -> usize {
        self.databases
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a store of {} databases", self.databases)
    }
}

/// What the analytics of a server are to be like.
#[derive(Clone, Debug)]
pub struct AnalyticsOptions {
    /// Number of logical databases.
    pub databases: usize,
    /// Bytes that operators of all queries may use.
    pub memory_bytes: usize,
    /// Threads that run queries.
    pub threads: usize,
    /// Where the declarations are kept; `None`: nowhere.
    pub directory: Option<PathBuf>,
}

/// The analytics of a server.
pub struct Analytics {
    store: Arc<Store>,
    state: SessionState,
    bits: Arc<Bits>,
    queries: Arc<Queries>,
}

impl Analytics {
    /// Reads what has been declared. Nothing can be asked until [`Analytics::read_from`].
    pub async fn open(options: AnalyticsOptions) -> Result<Arc<Analytics>, QueryError> {
        let store = Arc::new(Store { find: OnceLock::new(), databases: options.databases });
        let config = SessionConfig::new()
            .with_default_catalog_and_schema(DATABASE, "public")
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_target_partitions(options.threads.max(1))
            .with_batch_size(BATCH_ROWS);
        let pool = TrackConsumersPool::new(FairSpillPool::new(options.memory_bytes), CONSUMERS_NAMED);
        let nothing_on_disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(pool))
            .with_disk_manager_builder(nothing_on_disk)
            .build_arc()?;
        let factory: Arc<dyn TableProviderFactory> = Arc::new(KeyTables(store.clone()));
        let shapes = [Shape::Hash, Shape::String, Shape::Json, Shape::ZSet, Shape::List, Shape::Set];
        let factories: HashMap<_, _> =
            shapes.iter().map(|shape| (shape.to_string(), factory.clone())).collect();
        let state = SessionStateBuilder::new()
            .with_default_features()
            .with_config(config)
            .with_runtime_env(runtime)
            .with_table_factories(factories)
            .build();
        let context = SessionContext::new_with_state(state);
        let catalog = Arc::new(MemoryCatalogProvider::new());
        context.register_catalog(DATABASE, catalog.clone());
        let declared = Declared::read(options.directory.as_deref(), &store, &context).await?;
        catalog.register_schema("public", Arc::new(declared))?;
        catalog.register_schema("keyspace", Arc::new(Keyspace(store.clone())))?;
        setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|error| *error)?;
        context.register_udf(version());
        Ok(Arc::new(Analytics {
            store,
            state: context.state(),
            bits: Arc::default(),
            queries: Arc::default(),
        }))
    }

    /// Says where the store is found, as soon as it is there; to be called once.
    pub fn read_from(&self, find: impl Fn() -> Option<Arc<Engine>> + Send + Sync + 'static) {
        let is_first = self.store.find.set(Box::new(find)).is_ok();
        debug_assert!(is_first, "there is one store");
    }

    /// The statements that run.
    pub fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    /// Statements that wait for views.
    pub fn waiting(&self) -> usize {
        self.bits.waiting()
    }

    /// Bytes that operators use now.
    pub fn memory_bytes(&self) -> usize {
        self.state.runtime_env().memory_pool.reserved()
    }

    /// A new session.
    pub fn session(self: &Arc<Self>) -> Session {
        let current = Arc::new(Current::default());
        let config = self.state.config().clone().with_extension(current.clone());
        let state = SessionStateBuilder::new_from_existing(self.state.clone()).with_config(config).build();
        Session {
            analytics: self.clone(),
            context: Arc::new(SessionContext::new_with_state(state)),
            current,
            block: Mutex::new(None),
            cursors: Mutex::default(),
            newest: Mutex::default(),
        }
    }
}

/// `version()`, in the words from which clients of PostgreSQL read how new the server is.
fn version() -> ScalarUDF {
    let text = format!("PostgreSQL {POSTGRESQL_VERSION} (Tarn {})", env!("CARGO_PKG_VERSION"));
    let answer = move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(ScalarValue::from(text.as_str())));
    create_udf("version", Vec::new(), DataType::Utf8, Volatility::Immutable, Arc::new(answer))
}

/// The statement that a session is planning.
#[derive(Default)]
pub struct Current(Mutex<Option<(Arc<Instant>, Arc<Query>)>>);

impl Current {
    /// What scans are planned for.
    pub fn of(session: &dyn PlannerSession) -> Result<(Arc<Instant>, Arc<Query>), QueryError> {
        let current = session.config().get_extension::<Current>();
        let found = current.and_then(|current| current.0.lock().clone());
        found.ok_or_else(|| QueryError::NotYet("reading a table outside of a statement".to_owned()))
    }
}

/// What a statement answers.
pub struct Outcome {
    /// What was done, for those who are told so: `SELECT`, `CREATE TABLE` …
    pub tag: &'static str,
    /// The columns.
    pub schema: SchemaRef,
    /// The rows, made while they are asked for.
    pub rows: SendableRecordBatchStream,
}

/// A session.
pub struct Session {
    analytics: Arc<Analytics>,
    context: Arc<SessionContext>,
    current: Arc<Current>,
    /// The instant of the block that has begun.
    block: Mutex<Option<Arc<Instant>>>,
    /// The cursors of the block.
    cursors: Mutex<Vec<Running>>,
    /// The statement that began last.
    newest: Mutex<Weak<Query>>,
}

/// Ends the planning of a statement.
struct Planning<'s>(&'s Current);

impl Drop for Planning<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = None;
    }
}

impl Session {
    /// What its statements are planned with.
    pub(crate) fn context(&self) -> &Arc<SessionContext> {
        &self.context
    }

    /// Whether the store is there.
    pub fn is_ready(&self) -> bool {
        self.analytics.store.engine().is_some()
    }

    /// Stops the statement that runs.
    pub fn cancel(&self) {
        let newest = self.newest.lock().upgrade();
        newest.iter().for_each(|query| query.cancel());
    }

    /// Runs a statement.
    pub async fn run(&self, sql: &str, timeout: Option<Duration>) -> Result<Outcome, QueryError> {
        let dialect = self.context.state().config_options().sql_parser.dialect;
        let statement = self.context.state().sql_to_statement(sql, &dialect)?;
        self.run_parsed(sql, statement, timeout).await
    }

    /// Runs a statement whose text has been read.
    pub(crate) async fn run_parsed(
        &self,
        sql: &str,
        statement: Statement,
        timeout: Option<Duration>,
    ) -> Result<Outcome, QueryError> {
        if let Some(outcome) = self.own(&statement)? {
            return Ok(outcome);
        }
        let running = self.begin_query(sql, timeout);
        let query = running.query().clone();
        self.unless_stopped(&query, async {
            let plan = self.context.state().statement_to_plan(statement).await?;
            self.execute(plan, running).await
        })
        .await
    }

    /// Runs what has been planned.
    pub(crate) async fn run_planned(
        &self,
        sql: &str,
        plan: LogicalPlan,
        timeout: Option<Duration>,
    ) -> Result<Outcome, QueryError> {
        let running = self.begin_query(sql, timeout);
        let query = running.query().clone();
        self.unless_stopped(&query, self.execute(plan, running)).await
    }

    fn begin_query(&self, sql: &str, timeout: Option<Duration>) -> Running {
        let running = self.analytics.queries.begin(sql, timeout);
        *self.newest.lock() = Arc::downgrade(running.query());
        running
    }

    async fn unless_stopped(
        &self,
        query: &Query,
        work: impl Future<Output = Result<Outcome, QueryError>>,
    ) -> Result<Outcome, QueryError> {
        let outcome = tokio::select! {
            biased;
            outcome = work => outcome,
            reason = query.stop() => Err(reason),
        };
        outcome.inspect_err(|_| self.analytics.queries.note_failed())
    }

    /// The scans that are planned next are those of a cursor of the block.
    pub(crate) fn plan_cursor(&self, sql: &str) {
        let Some(instant) = self.block.lock().clone() else { return };
        let running = self.begin_query(sql, None);
        *self.current.0.lock() = Some((instant, running.query().clone()));
        self.cursors.lock().push(running);
    }

    /// What is no query of tables.
    fn own(&self, statement: &Statement) -> Result<Option<Outcome>, QueryError> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        match &**statement {
            ast::Statement::ShowVariable { variable } if is_queries(variable) => {
                self.show_queries().map(Some)
            }
            ast::Statement::StartTransaction { .. } => {
                self.begin();
                Ok(Some(Outcome::nothing("BEGIN")))
            }
            ast::Statement::Commit { .. } => {
                self.end();
                Ok(Some(Outcome::nothing("COMMIT")))
            }
            ast::Statement::Rollback { .. } => {
                self.end();
                Ok(Some(Outcome::nothing("ROLLBACK")))
            }
            _ => Ok(None),
        }
    }

    /// From here on all statements see the same instant, until [`Session::end`].
    pub fn begin(&self) {
        let mut block = self.block.lock();
        if block.is_none() {
            *block = Some(Instant::new(self.analytics.bits.clone(), true));
        }
    }

    /// Whether a block has begun.
    pub fn is_in_block(&self) -> bool {
        self.block.lock().is_some()
    }

    /// The block is over.
    pub fn end(&self) {
        *self.block.lock() = None;
        *self.current.0.lock() = None;
        self.cursors.lock().clear();
    }

    async fn execute(&self, plan: LogicalPlan, running: Running) -> Result<Outcome, QueryError> {
        let work = work_of(&plan)?;
        if work == Work::Declares {
            self.context.execute_logical_plan(plan.clone()).await?;
            return Ok(Outcome::nothing(match plan {
                LogicalPlan::Ddl(DdlStatement::DropTable(_)) => "DROP TABLE",
                _ => "CREATE TABLE",
            }));
        }
        let block = self.block.lock().clone();
        let instant =
            block.unwrap_or_else(|| Instant::new(self.analytics.bits.clone(), work == Work::ReadsAgain));
        *self.current.0.lock() = Some((instant, running.query().clone()));
        let rows = {
            let _planning = Planning(&self.current);
            DataFrame::new(self.context.state(), plan).execute_stream().await?
        };
        Ok(Outcome { tag: "SELECT", schema: rows.schema(), rows: stoppable(rows, running) })
    }

    /// The statements that run.
    pub(crate) fn show_queries(&self) -> Result<Outcome, QueryError> {
        let running = self.analytics.queries.running();
        let number = |of: fn(&Query) -> i64| -> ArrayRef {
            Arc::new(running.iter().map(|query| Some(of(query))).collect::<Int64Array>())
        };
        let age = running.iter().map(|query| Some(query.age().as_secs_f64() * 1e3)).collect::<Float64Array>();
        let sql = running.iter().map(|query| Some(query.sql.as_str())).collect::<StringViewArray>();
        let shown = RecordBatch::try_from_iter([
            ("id", number(|query| query.id as i64)),
            ("age_ms", Arc::new(age) as ArrayRef),
            ("rows", number(|query| query.rows() as i64)),
            ("query", Arc::new(sql) as ArrayRef),
        ]);
        Ok(Outcome::of("SHOW", shown.map_err(DataFusionError::from)?))
    }
}

impl Outcome {
    fn of(tag: &'static str, batch: RecordBatch) -> Outcome {
        let schema = batch.schema();
        let rows = futures::stream::once(async { Ok(batch) });
        Outcome { tag, rows: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows)), schema }
    }

    fn nothing(tag: &'static str) -> Outcome {
        Outcome::of(tag, RecordBatch::new_empty(Arc::new(Schema::empty())))
    }
}

/// Whether `SHOW` is to show the statements that run.
pub(crate) fn is_queries(variable: &[ast::Ident]) -> bool {
    matches!(variable, [word] if word.value.eq_ignore_ascii_case("queries"))
}

/// Rows until the statement is stopped.
fn stoppable(rows: SendableRecordBatchStream, running: Running) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = futures::stream::unfold(Some((rows, running)), |state| async move {
        let (mut rows, running) = state?;
        let next = tokio::select! {
            biased;
            reason = running.query().stop() => Some(Err(reason.into())),
            next = rows.next() => next,
        };
        match next? {
            Ok(batch) => Some((Ok(batch), Some((rows, running)))),
            Err(error) => {
                running.queries().note_failed();
                Some((Err(error), None))
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, rows))
}

/// What a plan does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Reads,
    /// Reads tables again and again while it runs.
    ReadsAgain,
    /// Declares a table, or drops one.
    Declares,
}

/// What a plan does; refuses what writes.
fn work_of(plan: &LogicalPlan) -> Result<Work, QueryError> {
    match plan {
        LogicalPlan::Ddl(DdlStatement::CreateExternalTable(statement)) => {
            // What there is no factory for would be refused with less helpful words.
            statement.file_type.parse::<Shape>()?;
            return Ok(Work::Declares);
        }
        LogicalPlan::Ddl(DdlStatement::DropTable(_)) => return Ok(Work::Declares),
        LogicalPlan::Ddl(DdlStatement::CreateIndex(_)) => {
            return Err(QueryError::NotYet("CREATE INDEX".to_owned()));
        }
        _ => {}
    }
    let mut work = Work::Reads;
    let mut refused = None;
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Ddl(ddl) => refused = Some(words_of(ddl.name())),
            LogicalPlan::Dml(dml) => refused = Some(dml.op.name().to_uppercase()),
            LogicalPlan::Copy(_) => refused = Some("COPY".to_owned()),
            LogicalPlan::Statement(statement) => refused = Some(words_of(statement.name())),
            LogicalPlan::RecursiveQuery(_) => work = Work::ReadsAgain,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    refused.map_or(Ok(work), |what| Err(QueryError::Writes(what)))
}

/// `CreateView` as `CREATE VIEW`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_uppercase());
    }
    words
}
