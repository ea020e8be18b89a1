//! Who asks: a session runs statements one after the other, each as of one instant, or a block of them.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProvider, Session as PlannerSession, TableProviderFactory,
};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::{FairSpillPool, TrackConsumersPool};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{DdlStatement, Expr, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
use futures::StreamExt;
use tarn_engine::checkpoint::Source;
use tarn_engine::declared::WantedIndexes;
use tarn_engine::lock::Mutex;
use tarn_engine::record::Lsn;
use tarn_engine::{Engine, IndexError};

use super::activity;
use super::by_index::ByIndex;
use super::catalog::Declared;
use super::complexity::{check_plan, check_text};
use super::compute::Compute;
use super::declaration::Shape;
use super::dialect::mended_any;
use super::error::QueryError;
use super::exact;
use super::expansion::check_names_of;
use super::export::{self, ExportFile, remove_unfinished};
use super::extremes::Extremes;
use super::figures::{Connections, figures};
use super::growth::{bounded, rows_of_batch};
use super::held::reserving;
use super::index::{self, TableIndex};
use super::infer::Infer;
use super::instant::{Bits, Instant};
use super::json;
use super::keyspace::Keyspace;
use super::query::{Owner, Queries, Query, Running};
use super::rows::BATCH_ROWS;
use super::search::Search;
use super::shown::{MayShow, until_shown};
use super::system::System;
use super::table::KeyTables;
use super::watch::watched;

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
    may_show: OnceLock<Box<MayShow>>,
    databases: usize,
    wanted: WantedIndexes<TableIndex>,
}

impl Store {
    /// The store, unless it is being loaded.
    pub fn engine(&self) -> Option<Arc<Engine>> {
        self.find.get().and_then(|find| find())
    }

    /// Whether changes up to `lsn` may be shown; an error: why they are not going to be durable for now.
    pub fn may_show(&self, lsn: Lsn) -> Result<bool, String> {
        self.may_show.get().map_or(Ok(true), |may_show| may_show(lsn))
    }

    /// Waits until changes up to `lsn` may be shown.
    pub async fn until_shown(&self, lsn: Lsn) -> Result<(), QueryError> {
        match self.may_show.get() {
            Some(may_show) => until_shown(may_show, lsn).await,
            None => Ok(()),
        }
    }

    /// Number of logical databases.
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Has an index made, or remembers it until the store is there.
    pub fn want_index(&self, index: Arc<TableIndex>) -> Result<(), QueryError> {
        self.make_indexes();
        Ok(self.wanted.want(index, || self.engine())?)
    }

    /// Drops an index.
    pub fn drop_index(&self, index: &TableIndex) {
        self.wanted.want_no_more(index, || self.engine());
    }

    /// Has the indexes made that were wanted before the store was there, if it is there now.
    pub fn make_indexes(&self) {
        let failed = |index: &TableIndex, error: IndexError| {
            tracing::error!("The index {} is not there: {error}", index.name);
        };
        self.wanted.make_all(|| self.engine(), failed);
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
    /// Where `COPY … TO` writes; `None`: nowhere.
    pub export_directory: Option<PathBuf>,
}

/// The analytics of a server.
pub struct Analytics {
    store: Arc<Store>,
    state: SessionState,
    declared: Arc<Declared>,
    bits: Arc<Bits>,
    queries: Arc<Queries>,
    search: Search,
    compute: Compute,
    connections: Arc<Connections>,
    memory_bytes: usize,
    export_directory: Option<PathBuf>,
}

impl Analytics {
    /// Reads what has been declared. Nothing can be asked until [`Analytics::read_from`].
    pub async fn open(options: AnalyticsOptions) -> Result<Arc<Analytics>, QueryError> {
        if let Some(directory) = &options.export_directory
            && let Err(error) = remove_unfinished(directory)
        {
            tracing::warn!("What a crash may have left in {} stays: {error}", directory.display());
        }
        let compute = Compute::start(options.threads).map_err(QueryError::Threads)?;
        let store = Arc::new(Store {
            find: OnceLock::new(),
            may_show: OnceLock::new(),
            databases: options.databases,
            wanted: WantedIndexes::default(),
        });
        let config = SessionConfig::new()
            .with_default_catalog_and_schema(DATABASE, "public")
            .with_information_schema(true)
            .with_create_default_catalog_and_schema(false)
            .with_target_partitions(options.threads.max(1))
            .with_batch_size(BATCH_ROWS)
            // A constant such as 0.1 is a decimal, as in PostgreSQL.
            .set_bool("datafusion.sql_parser.parse_float_as_decimal", true)
            // Whether a column may be NULL is not said alike in all steps of a plan, which harms nothing.
            .set_bool("datafusion.execution.skip_physical_aggregate_schema_check", true)
            // `ByIndex` does it, where few rows are wanted.
            .set_bool("datafusion.optimizer.enable_sort_pushdown", false);
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
            .with_analyzer_rules(exact::rules())
            .with_optimizer_rule(Arc::new(Extremes))
            .with_physical_optimizer_rules(exact::physical_rules())
            .with_physical_optimizer_rule(Arc::new(ByIndex))
            .build();
        let context = SessionContext::new_with_state(state);
        let catalog = Arc::new(MemoryCatalogProvider::new());
        context.register_catalog(DATABASE, catalog.clone());
        let declared = Arc::new(Declared::read(options.directory.as_deref(), &store, &context).await?);
        catalog.register_schema("public", declared.clone())?;
        catalog.register_schema("keyspace", Arc::new(Keyspace(store.clone())))?;
        let queries = Arc::<Queries>::default();
        setup_pg_catalog(&context, DATABASE, EmptyContextProvider).map_err(|error| *error)?;
        if let Some(system) = catalog.schema("pg_catalog") {
            catalog.register_schema("pg_catalog", Arc::new(System(system, queries.clone())))?;
        }
        super::functions::register(&context);
        exact::register(&context);
        json::register(&context);
        context.register_udtf("infer", Arc::new(Infer(store.clone())));
        context.register_udf(activity::cancel_backend(queries.clone()));
        Ok(Arc::new(Analytics {
            store,
            state: bounded(context.state(), options.memory_bytes)?,
            declared,
            bits: Arc::default(),
            search: Search::open(options.directory.as_deref())?,
            queries,
            compute,
            connections: Arc::default(),
            memory_bytes: options.memory_bytes,
            export_directory: options.export_directory,
        }))
    }

    /// Says where the store is found, as soon as it is there; to be called once.
    pub fn read_from(&self, find: impl Fn() -> Option<Arc<Engine>> + Send + Sync + 'static) {
        let is_first = self.store.find.set(Box::new(find)).is_ok();
        debug_assert!(is_first, "there is one store");
    }

    /// Says what may be shown, if not everything; to be called once.
    pub fn show_by(&self, may_show: impl Fn(Lsn) -> Result<bool, String> + Send + Sync + 'static) {
        let is_first = self.store.may_show.set(Box::new(may_show)).is_ok();
        debug_assert!(is_first, "one decides what is shown");
    }

    /// Has the declared indexes made, if the store is there; it is asked for anyway when a statement comes.
    pub fn make_indexes(&self) {
        self.store.make_indexes();
    }

    /// The store.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The indexes and cursors of search.
    pub(crate) fn search_state(&self) -> &Search {
        &self.search
    }

    /// The statements that run.
    pub fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }

    /// The clients of the wire.
    pub(crate) fn connections(&self) -> &Arc<Connections> {
        &self.connections
    }

    /// The store, unless it is being loaded.
    pub(crate) fn engine(&self) -> Option<Arc<Engine>> {
        self.store.engine()
    }

    /// What `INFO analytics` shows, each with its name.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        figures(self)
    }

    /// How many tables are declared. Waits for nobody.
    pub fn tables(&self) -> usize {
        self.declared.count()
    }

    /// Statements that wait for views.
    pub fn waiting(&self) -> usize {
        self.bits.waiting()
    }

    /// Bytes that operators use now.
    pub fn memory_bytes(&self) -> usize {
        self.state.runtime_env().memory_pool.reserved()
    }

    /// Bytes that operators may use.
    pub fn memory_bytes_max(&self) -> usize {
        self.memory_bytes
    }

    /// A new session.
    pub fn session(self: &Arc<Self>) -> Arc<Session> {
        let context = Arc::new(SessionContext::new_with_state(self.state.clone()));
        let owner = self.queries.owner();
        context.register_udf(activity::backend_pid(owner.pid));
        Arc::new(Session {
            analytics: self.clone(),
            owner,
            context,
            block: Mutex::new(None),
            newest: Mutex::default(),
        })
    }
}

/// What scans are planned for.
pub struct Current {
    /// What they see.
    pub instant: Arc<Instant>,
    /// Whose they are.
    pub query: Arc<Query>,
}

impl Current {
    /// What a scan is planned for.
    pub fn of(session: &dyn PlannerSession) -> Result<Arc<Current>, QueryError> {
        let current = session.config().get_extension::<Current>();
        current.ok_or_else(|| QueryError::NotYet("reading a table outside of a statement".to_owned()))
    }
}

/// What a statement answers.
pub struct Outcome {
    /// What was done, for those who are told so: `SELECT`, `CREATE TABLE` …
    pub tag: &'static str,
    /// To how many rows, where they are not the answer itself.
    pub count: Option<usize>,
    /// The columns.
    pub schema: SchemaRef,
    /// The rows, made while they are asked for.
    pub rows: SendableRecordBatchStream,
}

/// A session.
pub struct Session {
    analytics: Arc<Analytics>,
    owner: Arc<Owner>,
    context: Arc<SessionContext>,
    /// The instant of the block that has begun.
    block: Mutex<Option<Arc<Instant>>>,
    /// The statement that began last.
    newest: Mutex<Weak<Query>>,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.analytics.queries.end_block(self.owner.pid);
    }
}

impl Session {
    /// The number by which its statements are cancelled.
    pub fn pid(&self) -> i32 {
        self.owner.pid
    }

    /// What is to be told of the statements that have ended, once.
    pub fn warning(&self) -> Option<String> {
        let words = match self.owner.take_unreadable() {
            0 => return None,
            1 => "1 value cannot be read as the type of its column, and is".to_owned(),
            many => format!("{many} values cannot be read as the types of their columns, and are"),
        };
        Some(format!("{words} NULL; declare the table with OPTIONS (strict 'true') to have an error instead"))
    }

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
    pub async fn run(self: &Arc<Self>, sql: &str, timeout: Option<Duration>) -> Result<Outcome, QueryError> {
        check_text(sql, &GenericDialect {})?;
        let dialect = self.context.state().config_options().sql_parser.dialect;
        let statement = self.context.state().sql_to_statement(sql, &dialect)?;
        self.run_parsed(sql, statement, timeout).await
    }

    /// Runs a statement whose text has been read.
    pub(crate) async fn run_parsed(
        self: &Arc<Self>,
        sql: &str,
        statement: Statement,
        timeout: Option<Duration>,
    ) -> Result<Outcome, QueryError> {
        if let Some(outcome) = self.own(&statement)? {
            return Ok(outcome);
        }
        let statement = match statement {
            Statement::Statement(statement) => Statement::Statement(Box::new(listed(*statement))),
            other => other,
        };
        let (statement, to) = export::of_statement(statement)?;
        check_names_of(&statement)?;
        let statement = mended_any(statement)?;
        let running = self.begin_query(sql, timeout, false);
        let (session, query) = (self.clone(), running.query().clone());
        self.unless_stopped(running, async move {
            match to {
                Some(to) => session.copy(statement, &to, query).await,
                None => {
                    let plan = session.context.state().statement_to_plan(statement).await?;
                    session.execute(plan, query).await
                }
            }
        })
        .await
    }

    /// Plans a statement that is run later.
    pub(crate) async fn plan(self: &Arc<Self>, statement: Statement) -> Result<LogicalPlan, QueryError> {
        let session = self.clone();
        let statement = mended_any(statement)?;
        let planning = async move {
            let plan = session.context.state().statement_to_plan(statement).await?;
            check_plan(&plan)?;
            Ok(plan)
        };
        self.analytics.compute.run(planning, std::future::pending()).await
    }

    /// The columns of a plan that has not been given its parameters, with the types that they will have.
    pub(crate) fn typed(&self, plan: &LogicalPlan) -> Schema {
        let state = self.context.state();
        let analyzed = || -> Result<LogicalPlan, DataFusionError> {
            let types = plan.get_parameter_types()?;
            let number = |name: &String| name.strip_prefix('$')?.parse::<usize>().ok();
            let last = types.keys().filter_map(number).max().unwrap_or(0);
            let nulls = (1..=last).map(|number| match types.get(&format!("${number}")) {
                Some(Some(data_type)) => ScalarValue::try_from(data_type),
                _ => Ok(ScalarValue::Utf8(None)),
            });
            let nulls = nulls.collect::<Result<Vec<_>, _>>()?;
            let plan = match nulls.is_empty() {
                true => plan.clone(),
                false => plan.clone().replace_params_with_values(&ParamValues::from(nulls))?,
            };
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
        };
        // What cannot be analyzed says so when it is run.
        match analyzed() {
            Ok(analyzed) => analyzed.schema().as_arrow().clone(),
            Err(_) => plan.schema().as_arrow().clone(),
        }
    }

    /// Runs what has been planned.
    pub(crate) async fn run_planned(
        self: &Arc<Self>,
        sql: &str,
        plan: LogicalPlan,
        timeout: Option<Duration>,
    ) -> Result<Outcome, QueryError> {
        self.run_plan(plan, self.begin_query(sql, timeout, false)).await
    }

    /// Opens a cursor of the block.
    pub(crate) async fn open_cursor(
        self: &Arc<Self>,
        sql: &str,
        plan: LogicalPlan,
    ) -> Result<Outcome, QueryError> {
        self.run_plan(plan, self.begin_query(sql, None, true)).await
    }

    async fn run_plan(self: &Arc<Self>, plan: LogicalPlan, running: Running) -> Result<Outcome, QueryError> {
        let (session, query) = (self.clone(), running.query().clone());
        self.unless_stopped(running, async move { session.execute(plan, query).await }).await
    }

    /// Writes what a query answers to a file.
    async fn copy(&self, query: Statement, to: &str, running: Arc<Query>) -> Result<Outcome, QueryError> {
        let mut file = ExportFile::create(self.analytics.export_directory.as_deref(), to, running.id)?;
        let plan = self.context.state().statement_to_plan(query).await?;
        let mut outcome = self.execute(plan, running).await?;
        let count = file.write(&mut outcome).await?;
        file.finish()?;
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![count as i64]));
        let told = RecordBatch::try_from_iter([("rows", rows)]).map_err(DataFusionError::from)?;
        Ok(Outcome { count: Some(count), ..Outcome::of("COPY", told) })
    }

    fn begin_query(&self, sql: &str, timeout: Option<Duration>, is_cursor: bool) -> Running {
        if !is_cursor {
            self.owner.take_unreadable();
        }
        let running = self.analytics.queries.begin(&self.owner, sql, timeout, is_cursor);
        *self.newest.lock() = Arc::downgrade(running.query());
        running
    }

    /// Does the work of a statement, until somebody stops it.
    async fn unless_stopped(
        &self,
        running: Running,
        work: impl Future<Output = Result<Outcome, QueryError>> + Send + 'static,
    ) -> Result<Outcome, QueryError> {
        match self.analytics.compute.run(work, running.query().stop()).await {
            Ok(outcome) => {
                let rows = stoppable(outcome.rows, running, self.analytics.clone());
                Ok(Outcome { rows, ..outcome })
            }
            Err(error) => {
                self.analytics.queries.note_failed(running.query());
                Err(error)
            }
        }
    }

    /// A statement about what is declared or running, which reads no table.
    pub(crate) fn aside(&self, statement: &ast::Statement) -> Option<Result<Outcome, QueryError>> {
        match statement {
            ast::Statement::ShowVariable { variable } => match variable.as_slice() {
                [word] if word.value.eq_ignore_ascii_case("queries") => Some(self.show_queries()),
                [word] if word.value.eq_ignore_ascii_case("indexes") => Some(self.show_indexes()),
                _ => None,
            },
            ast::Statement::Drop { object_type: ast::ObjectType::Index, if_exists, names, .. } => {
                Some(self.drop_indexes(names, *if_exists))
            }
            _ => None,
        }
    }

    /// What is no query of tables.
    fn own(&self, statement: &Statement) -> Result<Option<Outcome>, QueryError> {
        let Statement::Statement(statement) = statement else { return Ok(None) };
        if let Some(outcome) = self.aside(statement) {
            return outcome.map(Some);
        }
        match &**statement {
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
        let instant = Instant::new(self.analytics.bits.clone(), self.analytics.store.clone(), true);
        let holds = instant.holds().clone();
        let mut block = self.block.lock();
        if block.is_some() {
            return;
        }
        *block = Some(instant);
        drop(block);
        self.analytics.queries.begin_block(self.owner.pid, &holds);
    }

    /// Whether a block has begun.
    pub fn is_in_block(&self) -> bool {
        self.block.lock().is_some()
    }

    /// The block is over.
    pub fn end(&self) {
        let ended = self.block.lock().take();
        // It may give back the last view that read it, so not under the lock.
        drop(ended);
        self.analytics.queries.end_block(self.owner.pid);
    }

    async fn execute(&self, plan: LogicalPlan, query: Arc<Query>) -> Result<Outcome, QueryError> {
        check_plan(&plan)?;
        self.analytics.store.make_indexes();
        let work = work_of(&plan)?;
        let explains = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
        if let LogicalPlan::Ddl(DdlStatement::CreateIndex(statement)) = &plan {
            self.analytics.declared.create_index(statement)?;
            return Ok(Outcome::nothing("CREATE INDEX"));
        }
        if work == Work::Declares {
            self.context.execute_logical_plan(plan.clone()).await?;
            return Ok(Outcome::nothing(match plan {
                LogicalPlan::Ddl(DdlStatement::DropTable(_)) => "DROP TABLE",
                _ => "CREATE TABLE",
            }));
        }
        let block = self.block.lock().clone();
        let Analytics { bits, store, .. } = &*self.analytics;
        let again = work == Work::ReadsAgain;
        let instant = block.unwrap_or_else(|| Instant::new(bits.clone(), store.clone(), again));
        query.reads(instant.holds());
        let mut state = self.context.state();
        state.config_mut().set_extension(Arc::new(Current { instant, query: query.clone() }));
        let plan = state.optimize(&plan)?;
        let rows = rows_of_batch(&plan, BATCH_ROWS, self.analytics.memory_bytes)?;
        *state.config_mut() = state.config().clone().with_batch_size(rows);
        let context = state.task_ctx();
        let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
        let plan = reserving(watched(plan, &query)?)?;
        if explains && let Some(engine) = store.engine() {
            // A plan tells of the numbers of keys that it was chosen by.
            store.until_shown(engine.newest()).await?;
        }
        let rows = execute_stream(plan, context)?;
        Ok(Outcome { tag: "SELECT", count: None, schema: rows.schema(), rows })
    }

    pub(crate) fn drop_indexes(
        &self,
        names: &[ast::ObjectName],
        if_exists: bool,
    ) -> Result<Outcome, QueryError> {
        for name in names {
            let name = name.0.last().and_then(|part| part.as_ident());
            let name = name.map_or_else(String::new, |ident| match ident.quote_style {
                Some(_) => ident.value.clone(),
                None => ident.value.to_lowercase(),
            });
            if !self.analytics.declared.drop_index(&name)? && !if_exists {
                return Err(QueryError::NoIndex(name));
            }
        }
        Ok(Outcome::nothing("DROP INDEX"))
    }

    /// The indexes, and how they are doing.
    pub(crate) fn show_indexes(&self) -> Result<Outcome, QueryError> {
        let store = &self.analytics.store;
        let engine = store.engine().map(|engine| (engine.indexes(), engine.newest()));
        // Nobody waits for these: what tells of changes that must not be shown yet is left open.
        let shown = engine.filter(|(_, newest)| store.may_show(*newest) == Ok(true));
        let statuses = shown.map_or_else(Vec::new, |(statuses, _)| statuses);
        let shown = index::shown(&self.analytics.declared.indexes(), &statuses);
        Ok(Outcome::of("SHOW", shown.map_err(DataFusionError::from)?))
    }

    /// The statements that run.
    pub(crate) fn show_queries(&self) -> Result<Outcome, QueryError> {
        let shown = activity::show(&self.analytics.queries, self.analytics.engine().as_deref())?;
        Ok(Outcome::of("SHOW", shown))
    }
}

impl Outcome {
    fn of(tag: &'static str, batch: RecordBatch) -> Outcome {
        let schema = batch.schema();
        let rows = futures::stream::once(async { Ok(batch) });
        Outcome {
            tag,
            count: None,
            rows: Box::pin(RecordBatchStreamAdapter::new(schema.clone(), rows)),
            schema,
        }
    }

    fn nothing(tag: &'static str) -> Outcome {
        Outcome::of(tag, RecordBatch::new_empty(Arc::new(Schema::empty())))
    }
}

/// What lists the tables.
const TABLES: &str = "SELECT table_schema, table_name, table_type FROM information_schema.tables \
     WHERE table_schema IN ('public', 'keyspace') ORDER BY table_schema DESC, table_name";

/// A statement, or what it stands for: `SHOW TABLES` shows those of users, and not the catalog.
pub(crate) fn listed(statement: ast::Statement) -> ast::Statement {
    match statement {
        ast::Statement::ShowTables { .. } => {
            let mut parsed = Parser::parse_sql(&GenericDialect {}, TABLES).expect("it is SQL");
            parsed.remove(0)
        }
        other => other,
    }
}

/// Rows until the statement is stopped, each batch made when it is asked for.
fn stoppable(
    rows: SendableRecordBatchStream,
    running: Running,
    analytics: Arc<Analytics>,
) -> SendableRecordBatchStream {
    let schema = rows.schema();
    let rows = futures::stream::unfold(Some((rows, running, analytics)), |state| async move {
        let (mut rows, running, analytics) = state?;
        let work = async move {
            let next = rows.next().await.transpose()?;
            Ok(next.map(|batch| (batch, rows)))
        };
        match analytics.compute.run(work, running.query().stop()).await {
            Ok(next) => next.map(|(batch, rows)| (Ok(batch), Some((rows, running, analytics)))),
            Err(error) => {
                running.queries().note_failed(running.query());
                Some((Err(error.into()), None))
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
    /// Declares a table or an index, or drops a table.
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
        LogicalPlan::Ddl(DdlStatement::DropTable(_) | DdlStatement::CreateIndex(_)) => {
            return Ok(Work::Declares);
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
            LogicalPlan::Window(window) => check_window(&window.window_expr)?,
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    refused.map_or(Ok(work), |what| Err(QueryError::Writes(what)))
}

/// A list for each row, of all the rows before it, has no end.
fn check_window(exprs: &[Expr]) -> Result<(), QueryError> {
    const LISTS: [&str; 2] = ["array_agg", "string_agg"];
    let name = |expr: &Expr| match expr.clone().unalias() {
        Expr::WindowFunction(function) => Some(function.fun.name().to_owned()),
        _ => None,
    };
    match exprs.iter().filter_map(name).find(|name| LISTS.contains(&name.as_str())) {
        Some(name) => Err(QueryError::NotYet(format!("{name} as a window function"))),
        None => Ok(()),
    }
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
