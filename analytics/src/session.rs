//! Sessions: run statements one after the other, each as of one instant, or a block of them as of one.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::datasource::source_as_provider;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::physical_plan::execute_stream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use futures::StreamExt;
use tarn_engine::checkpoint::Source;
use tarn_engine::lock::Mutex;

use crate::analytics::Analytics;
use crate::catalog::infer::Proposed;
use crate::dialect::mended_any;
use crate::error::QueryError;
use crate::export::{self, ExportFile};
use crate::guard::complexity::{check_plan, check_text};
use crate::guard::expansion::check_names_of;
use crate::guard::growth::rows_of_batch;
use crate::guard::join_watch::watched;
use crate::guard::window_memory::reserving;
use crate::plan::access::parts_of;
use crate::plan::key_table::{KeyTable, keys_of};
use crate::rights::{Grant, TableKeys, User, Whose, Wish};
use crate::statement::activity;
use crate::statement::instant::Instant;
use crate::statement::outcome::Outcome;
use crate::statement::query::{Fetching, Owner, Query, Running};
use crate::statement::scan_context::ScanContext;
use crate::statement::work::{Work, refuse_writes, work_of};
use crate::table::index;
use crate::table::rows::BATCH_ROWS;

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

impl Analytics {
    /// A new session of the server itself, which may do everything.
    pub fn session(self: &Arc<Self>) -> Arc<Session> {
        self.session_that_is(Whose::Server)
    }

    /// A new session of a user.
    pub fn session_of(self: &Arc<Self>, user: Arc<dyn User>) -> Arc<Session> {
        self.session_that_is(Whose::Client(OnceLock::from(user)))
    }

    /// A new session of a client, which may do nothing before [`Session::log_in`].
    pub(crate) fn session_of_client(self: &Arc<Self>) -> Arc<Session> {
        self.session_that_is(Whose::Client(OnceLock::new()))
    }

    fn session_that_is(self: &Arc<Self>, whose: Whose) -> Arc<Session> {
        let context = Arc::new(SessionContext::new_with_state(self.state.clone()));
        let owner = self.queries.owner(whose);
        context.register_udf(activity::backend_pid(owner.pid));
        context.register_udf(activity::session_user(owner.clone()));
        context.register_udf(activity::cancel_backend(self.queries.clone(), owner.clone()));
        Arc::new(Session {
            analytics: self.clone(),
            owner,
            context,
            block: Mutex::new(None),
            newest: Mutex::default(),
        })
    }
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

    /// The warning about the statements that have ended, once.
    pub fn warning(&self) -> Option<String> {
        let words = match self.owner.take_unreadable() {
            0 => return None,
            1 => "1 value cannot be read as the type of its column, and is".to_owned(),
            many => format!("{many} values cannot be read as the types of their columns, and are"),
        };
        Some(format!("{words} NULL; declare the table with OPTIONS (strict 'true') to have an error instead"))
    }

    /// The context that its statements are planned in.
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

    /// A client has said who it is. REQUIRES: it is called once.
    pub(crate) fn log_in(&self, user: Arc<dyn User>) {
        self.owner.whose.log_in(user);
    }

    /// Whether its user is there, and may be connected.
    pub(crate) fn is_there(&self) -> bool {
        self.owner.whose.is_there()
    }

    /// Whether its user may run statements at all.
    pub(crate) fn check_statements(&self) -> Result<(), QueryError> {
        self.grant(Wish::default()).map(drop)
    }

    /// Whether its user may declare something, or have a file written.
    fn check_declaring(&self) -> Result<(), QueryError> {
        self.grant(Wish { declares: true, ..Wish::default() }).map(drop)
    }

    fn grant(&self, wish: Wish) -> Result<Arc<Grant>, QueryError> {
        Ok(Arc::new(Grant::of(&self.owner.whose, wish)?))
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
        if to.is_some() {
            self.check_declaring()?;
        }
        check_names_of(&statement)?;
        refuse_writes(&statement)?;
        let statement = mended_any(statement)?;
        let running = self.begin_query(sql, timeout, Fetching::AtOnce);
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
        refuse_writes(&statement)?;
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
        // A plan that cannot be analyzed fails when it is run.
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
        fetching: Fetching,
    ) -> Result<Outcome, QueryError> {
        self.run_plan(plan, self.begin_query(sql, timeout, fetching)).await
    }

    /// Opens a cursor of the block.
    pub(crate) async fn open_cursor(
        self: &Arc<Self>,
        sql: &str,
        plan: LogicalPlan,
    ) -> Result<Outcome, QueryError> {
        self.run_plan(plan, self.begin_query(sql, None, Fetching::ByCursor)).await
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
        outcome.check()?;
        file.finish()?;
        let rows: ArrayRef = Arc::new(Int64Array::from(vec![count as i64]));
        let told = RecordBatch::try_from_iter([("rows", rows)]).map_err(DataFusionError::from)?;
        Ok(Outcome { count: Some(count), ..Outcome::of("COPY", told) })
    }

    fn begin_query(&self, sql: &str, timeout: Option<Duration>, fetching: Fetching) -> Running {
        if fetching != Fetching::ByCursor {
            self.owner.take_unreadable();
        }
        let running = self.analytics.queries.begin(&self.owner, sql, timeout, fetching);
        *self.newest.lock() = Arc::downgrade(running.query());
        running
    }

    /// Does the work of a statement, unless it is stopped.
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
                Some(self.check_declaring().and_then(|()| self.drop_indexes(names, *if_exists)))
            }
            _ => None,
        }
    }

    /// Runs a statement that is no query of tables; `None` for a query.
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
        self.analytics.queries.begin_block(&self.owner, &holds);
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
        self.analytics.declared.make_indexes();
        let work = work_of(&plan)?;
        let grant = self.grant(Wish { declares: work == Work::Declares, tables: tables_of(&plan)? })?;
        query.is_allowed(&grant);
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
        // A plan in parts costs more: it pays off where a walk is long, and cores are idle.
        let idle = store.engine().filter(|engine| !engine.clients_wait());
        let databases = idle.map_or_else(Vec::new, |engine| engine.keyspace());
        let keys = databases.iter().map(|counts| counts.keys).max().unwrap_or(0);
        let parts = match query.is_read_at_once() {
            // Parts would read ahead of what is fetched, and keep their views until the rest is.
            false => 1,
            true => parts_of(keys, bits.for_each(scans_of(&plan)?, state.config().target_partitions())),
        };
        let turns = self.analytics.turns.clone();
        let context = ScanContext { instant, query: query.clone(), turns, grant: grant.clone() };
        let config = state.config().clone();
        *state.config_mut() = config.with_target_partitions(parts).with_extension(Arc::new(context));
        let plan = state.optimize(&plan)?;
        let rows = rows_of_batch(&plan, BATCH_ROWS, self.analytics.memory_bytes)?;
        *state.config_mut() = state.config().clone().with_batch_size(rows);
        let context = state.task_ctx();
        let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
        let plan = reserving(watched(plan, &query)?)?;
        if explains && let Some(engine) = store.engine() {
            // A plan reveals the numbers of keys that it was chosen by.
            store.until_shown(engine.newest()).await?;
        }
        let rows = execute_stream(plan, context)?;
        Ok(Outcome { tag: "SELECT", count: None, schema: rows.schema(), rows, grant: Some(grant) })
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
        // This does not wait: a status that reveals changes that must not be shown yet is left out.
        let shown = engine.filter(|(_, newest)| store.may_show(*newest) == Ok(true));
        let statuses = shown.map_or_else(Vec::new, |(statuses, _)| statuses);
        let mut indexes = self.analytics.declared.indexes();
        indexes.retain(|index| self.owner.whose.may_read(keys_of_index(index)));
        let shown = index::shown(&indexes, &statuses);
        Ok(Outcome::of("SHOW", shown.map_err(DataFusionError::from)?))
    }

    /// The statements that run.
    pub(crate) fn show_queries(&self) -> Result<Outcome, QueryError> {
        let shown = activity::show(&self.analytics.queries, self.analytics.engine().as_deref(), &self.owner)?;
        Ok(Outcome::of("SHOW", shown))
    }
}

/// The tables over keys in a plan, with those of its subqueries.
fn tables_of(plan: &LogicalPlan) -> Result<Vec<TableKeys>, DataFusionError> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        // What a rule of the planner brings in later is no table over keys, or its scan is refused.
        if let LogicalPlan::TableScan(scan) = node
            && let Ok(provider) = source_as_provider(&scan.source)
        {
            tables.extend(provider.downcast_ref::<KeyTable>().map(KeyTable::keys));
            tables.extend(provider.downcast_ref::<Proposed>().map(Proposed::keys));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

/// The keys of the table of an index.
fn keys_of_index(index: &index::TableIndex) -> TableKeys {
    let keys = keys_of(index.declaration());
    TableKeys { table: index.table.clone(), keys, database: index.database() }
}

/// Scans of tables in a plan, with those of its subqueries.
fn scans_of(plan: &LogicalPlan) -> Result<usize, DataFusionError> {
    let mut scans = 0;
    plan.apply_with_subqueries(|node| {
        scans += usize::from(matches!(node, LogicalPlan::TableScan(_)));
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(scans)
}

/// The query that lists the tables.
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
