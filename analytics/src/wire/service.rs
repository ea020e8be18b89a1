//! The statements of a connection.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::ParamValues;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::{DFParser, Statement as AnyStatement};
use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion_postgres::arrow_pg::datatypes::arrow_schema_to_pg_fields;
use datafusion_postgres::hooks::cursor::CursorStatementHook;
use datafusion_postgres::hooks::set_show::SetShowHook;
use datafusion_postgres::hooks::transactions::TransactionStatementHook;
use datafusion_postgres::hooks::{HookClient, QueryHook};
use datafusion_postgres::pgwire::api::portal::{Format, Portal};
use datafusion_postgres::pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use datafusion_postgres::pgwire::api::results::{FieldInfo, Response};
use datafusion_postgres::pgwire::api::stmt::QueryParser;
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::api::{
    ClientInfo, ClientPortalStore, ErrorHandler, PgWireServerHandlers, Type,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::PgWireBackendMessage;
use datafusion_postgres::pgwire::messages::response::TransactionStatus;
use datafusion_postgres::pgwire::types::format::FormatOptions;
use datafusion_postgres::{DfSessionService, Parser};
use futures::{FutureExt, Sink};
use parking_lot::Mutex;

use super::bounded::Bound;
use super::reply::{coded, recode, refusal, response};
use super::startup::{Login, Sessions, Startup};
use crate::error::QueryError;
use crate::session::{Analytics, Outcome, Session, is_queries};

/// A statement as the library keeps it: its text, and what was read of it.
type Stored = (String, Option<(Statement, LogicalPlan)>);

/// What answers a connection.
pub struct Handlers {
    service: Arc<Service>,
    startup: Arc<Startup>,
    sessions: Arc<Sessions>,
}

impl Handlers {
    /// For a new connection.
    pub fn new(analytics: &Arc<Analytics>, sessions: &Arc<Sessions>, login: Login, bound: Bound) -> Handlers {
        let session = Arc::new(analytics.session());
        let startup = Startup::new(login, session.clone(), sessions.clone(), bound);
        Handlers {
            service: Arc::new(Service::new(session)),
            startup: Arc::new(startup),
            sessions: sessions.clone(),
        }
    }
}

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        self.service.clone()
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        self.service.clone()
    }

    fn startup_handler(&self) -> Arc<impl datafusion_postgres::pgwire::api::auth::StartupHandler> {
        self.startup.clone()
    }

    fn cancel_handler(&self) -> Arc<impl datafusion_postgres::pgwire::api::cancel::CancelHandler> {
        self.sessions.clone()
    }

    fn error_handler(&self) -> Arc<impl ErrorHandler> {
        Arc::new(Coding)
    }
}

/// Gives errors their codes.
struct Coding;

impl ErrorHandler for Coding {
    fn on_error<C: ClientInfo>(&self, _: &C, error: &mut PgWireError) {
        recode(error);
    }
}

/// Runs the statements of a connection.
struct Service {
    inner: Arc<DfSessionService>,
    parser: Arc<OurParser>,
    session: Arc<Session>,
    /// How the rows of the portal that runs are wanted.
    format: Arc<Mutex<Format>>,
}

impl Service {
    fn new(session: Arc<Session>) -> Service {
        let format = Arc::new(Mutex::new(Format::UnifiedText));
        let hooks: Vec<Arc<dyn QueryHook>> = vec![
            Arc::new(Blocks(session.clone())),
            Arc::new(CursorStatementHook),
            Arc::new(SetShowHook),
            Arc::new(TransactionStatementHook),
            Arc::new(Queries { session: session.clone(), format: format.clone() }),
        ];
        let inner = Arc::new(DfSessionService::new_with_hooks(session.context().clone(), hooks));
        let parser = Arc::new(OurParser { inner: inner.query_parser(), session: session.clone() });
        Service { inner, parser, session, format }
    }
}

/// The statements of a text that has some which only our tables know; `None` if it has none.
fn declarations(text: &str) -> Option<Vec<AnyStatement>> {
    let has_word = |word: &str| {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.into_iter().any(|other| other.eq_ignore_ascii_case(word))
    };
    if !has_word("external") {
        return None;
    }
    let statements = DFParser::parse_sql_with_dialect(text, &PostgreSqlDialect {}).ok()?;
    let declares = |statement: &AnyStatement| matches!(statement, AnyStatement::CreateExternalTable(_));
    statements.iter().any(declares).then(|| statements.into())
}

#[async_trait]
impl SimpleQueryHandler for Service {
    async fn do_query<C>(&self, client: &mut C, query: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let Some(statements) = declarations(query) else {
            return SimpleQueryHandler::do_query(&*self.inner, client, query).await;
        };
        let mut responses = Vec::new();
        for statement in statements {
            let outcome =
                self.session.run_parsed(query, statement, timeout(client)).await.map_err(refusal)?;
            responses.push(text(outcome, client)?);
        }
        Ok(responses)
    }
}

#[async_trait]
impl ExtendedQueryHandler for Service {
    type Statement = Stored;
    type QueryParser = OurParser;

    fn query_parser(&self) -> Arc<OurParser> {
        self.parser.clone()
    }

    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<Stored>,
        max_rows: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Stored>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (text, read) = &portal.statement.statement;
        if read.is_none() && declarations(text).is_some() {
            let mut responses = SimpleQueryHandler::do_query(self, client, text).await?;
            return responses.pop().ok_or_else(|| coded("42601", "there is no statement"));
        }
        *self.format.lock() = portal.result_column_format.clone();
        ExtendedQueryHandler::do_query(&*self.inner, client, portal, max_rows).await
    }
}

/// Reads what is sent to be run later.
pub struct OurParser {
    inner: Arc<Parser>,
    session: Arc<Session>,
}

impl OurParser {
    /// The columns of a query.
    fn columns_of(&self, query: &str, format: Option<&Format>) -> PgWireResult<Vec<FieldInfo>> {
        let state = self.session.context().state();
        // Planning asks only for what is in memory, so it is there at once.
        let planned = state.create_logical_plan(query).now_or_never();
        let Some(Ok(plan)) = planned else { return Ok(Vec::new()) };
        arrow_schema_to_pg_fields(plan.schema().as_arrow(), format.unwrap_or(&Format::UnifiedText), None)
    }
}

#[async_trait]
impl QueryParser for OurParser {
    type Statement = Stored;

    async fn parse_sql<C>(
        &self,
        client: &C,
        sql: &str,
        types: &[Option<Type>],
    ) -> PgWireResult<Option<Stored>>
    where
        C: ClientInfo + Unpin + Send + Sync,
    {
        if declarations(sql).is_some() {
            return Ok(Some((sql.to_owned(), None)));
        }
        self.inner.parse_sql(client, sql, types).await
    }

    fn get_parameter_types(&self, stored: &Stored) -> PgWireResult<Vec<Type>> {
        self.inner.get_parameter_types(stored)
    }

    fn get_result_schema(&self, stored: &Stored, format: Option<&Format>) -> PgWireResult<Vec<FieldInfo>> {
        match stored {
            // A cursor, of which the library keeps the text alone.
            (text, None) if declarations(text).is_none() => self.columns_of(text, format),
            _ => self.inner.get_result_schema(stored, format),
        }
    }
}

/// Blocks: where they begin and end, and what an error in one means.
struct Blocks(Arc<Session>);

#[async_trait]
impl QueryHook for Blocks {
    async fn handle_simple_query(
        &self,
        statement: &Statement,
        _: &SessionContext,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        match statement {
            Statement::Rollback { savepoint: Some(_), .. } => {
                return Some(Err(refusal(QueryError::NotYet("ROLLBACK TO SAVEPOINT".to_owned()))));
            }
            Statement::Commit { .. } | Statement::Rollback { .. } => {
                // Cursors end with their block, and with them what they still read.
                client.portal_store().clear_portals();
                self.0.end();
                return None;
            }
            _ if client.transaction_status() == TransactionStatus::Error => {
                let message =
                    "current transaction is aborted, commands ignored until end of transaction block";
                return Some(Err(coded("25P02", message)));
            }
            Statement::StartTransaction { .. } => self.0.begin(),
            Statement::Declare { .. } => {
                // One message may begin the block, too.
                if !self.0.is_in_block() {
                    let message = "DECLARE CURSOR can only be used in transaction blocks";
                    return Some(Err(coded("25P01", message)));
                }
                self.0.plan_cursor(&statement.to_string());
            }
            Statement::ShowVariable { variable } if is_queries(variable) => {
                let shown = self.0.show_queries().map_err(refusal);
                return Some(shown.and_then(|shown| text(shown, client)));
            }
            _ => {}
        }
        None
    }

    async fn handle_extended_parse_query(
        &self,
        _: &Statement,
        _: &SessionContext,
        _: &(dyn ClientInfo + Send + Sync),
    ) -> Option<PgWireResult<LogicalPlan>> {
        None
    }

    async fn handle_extended_query(
        &self,
        statement: &Statement,
        _: &LogicalPlan,
        _: &ParamValues,
        context: &SessionContext,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        self.handle_simple_query(statement, context, client).await
    }
}

/// What is left: queries, and what they are not allowed to be.
struct Queries {
    session: Arc<Session>,
    format: Arc<Mutex<Format>>,
}

#[async_trait]
impl QueryHook for Queries {
    async fn handle_simple_query(
        &self,
        statement: &Statement,
        _: &SessionContext,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        let parsed = AnyStatement::Statement(Box::new(statement.clone()));
        let outcome = self.session.run_parsed(&statement.to_string(), parsed, timeout(client)).await;
        Some(outcome.map_err(refusal).and_then(|outcome| text(outcome, client)))
    }

    async fn handle_extended_parse_query(
        &self,
        _: &Statement,
        _: &SessionContext,
        _: &(dyn ClientInfo + Send + Sync),
    ) -> Option<PgWireResult<LogicalPlan>> {
        None
    }

    async fn handle_extended_query(
        &self,
        statement: &Statement,
        plan: &LogicalPlan,
        parameters: &ParamValues,
        _: &SessionContext,
        client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        let plan = match plan.clone().replace_params_with_values(parameters) {
            Ok(plan) => plan,
            Err(error) => return Some(Err(refusal(QueryError::from(error)))),
        };
        let outcome = self.session.run_planned(&statement.to_string(), plan, timeout(client)).await;
        let (format, options) = (self.format.lock().clone(), options_of(client));
        Some(outcome.map_err(refusal).and_then(|outcome| response(outcome, &format, options)))
    }
}

/// How long a statement of this client may take.
fn timeout<C: ClientInfo + ?Sized>(client: &C) -> Option<Duration> {
    let millis = client.metadata().get("statement_timeout_ms")?.parse().ok()?;
    (millis > 0).then(|| Duration::from_millis(millis))
}

/// An answer as text.
fn text<C: ClientInfo + ?Sized>(outcome: Outcome, client: &C) -> PgWireResult<Response> {
    response(outcome, &Format::UnifiedText, options_of(client))
}

fn options_of<C: ClientInfo + ?Sized>(client: &C) -> FormatOptions {
    FormatOptions::from_client_metadata(client.metadata())
}
