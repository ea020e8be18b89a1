//! Runs the statements of a connection.

use std::fmt::Debug;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::common::ParamValues;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as AnyStatement;
use datafusion::sql::sqlparser::ast::{CloseCursor, Declare, FetchDirection, Statement};
use datafusion_postgres::arrow_pg::datatypes::arrow_schema_to_pg_fields;
use datafusion_postgres::arrow_pg::datatypes::df::deserialize_parameters_with_server_types;
use datafusion_postgres::hooks::cursor::CursorStatementHook;
use datafusion_postgres::hooks::transactions::TransactionStatementHook;
use datafusion_postgres::hooks::{HookClient, QueryHook};
use datafusion_postgres::pgwire::api::portal::{Format, Portal};
use datafusion_postgres::pgwire::api::query::{
    ExtendedQueryHandler, SimpleQueryHandler, send_execution_response, send_query_response,
    send_ready_for_query,
};
use datafusion_postgres::pgwire::api::results::{FieldInfo, Response, Tag};
use datafusion_postgres::pgwire::api::stmt::{QueryParser, StoredStatement};
use datafusion_postgres::pgwire::api::store::PortalStore;
use datafusion_postgres::pgwire::api::{
    ClientInfo, ClientPortalStore, ErrorHandler, PgWireConnectionState, PgWireServerHandlers, Type,
};
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::extendedquery::Execute;
use datafusion_postgres::pgwire::messages::response::{EmptyQueryResponse, TransactionStatus};
use datafusion_postgres::pgwire::messages::simplequery::Query;
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use datafusion_postgres::pgwire::types::format::FormatOptions;
use futures::{Sink, SinkExt};
use tarn_engine::lock::Mutex;

use super::blocks::{Blocks, failed_block};
use super::bounded::Bound;
use super::cursors::Cursors;
use super::limits::Limits;
use super::names::described;
use super::notices::WithNotices;
use super::read::{Known, Stored};
use super::reply::{IsBinary, coded, cursor_rows, recode, refusal, response};
use super::set::{Settings, time_of};
use super::startup::{Passwords, Sessions, Startup};
use super::{empty_catalog, read, rewrite};
use crate::analytics::Analytics;
use crate::catalog::settings::STATEMENT;
use crate::error::QueryError;
use crate::session::Session;
use crate::statement::query::Fetching;

/// Rows that a client may ask for at once, other than all. The library makes room for so many before the
/// first is there.
const ROWS_MAX: usize = 1_000_000;

/// The handlers of a connection.
pub(super) struct Handlers {
    service: Arc<Service>,
    startup: Arc<Startup>,
    sessions: Arc<Sessions>,
}

impl Handlers {
    /// For a new connection, encrypted with these certificates if there are any.
    pub(super) fn new(
        analytics: &Arc<Analytics>,
        sessions: &Arc<Sessions>,
        passwords: Arc<Passwords>,
        certificate: Option<&[u8]>,
        bound: Bound,
    ) -> Handlers {
        let session = analytics.session_of_client();
        let startup = Startup::new(passwords, session.clone(), sessions.clone(), certificate, bound);
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

impl Handlers {
    /// Whether the client's user is there, and may be connected.
    pub(super) fn is_user_there(&self) -> bool {
        self.service.session.is_there()
    }

    /// Sees a message before it is processed: its user must still be one who may run statements, and what the
    /// connection keeps is counted.
    pub(super) fn see<C>(&self, message: &PgWireFrontendMessage, client: &C) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore,
        C::PortalStore: PortalStore,
    {
        let limits = &self.service.limits;
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Ok(());
        }
        let runs = matches!(
            message,
            PgWireFrontendMessage::Query(_)
                | PgWireFrontendMessage::Parse(_)
                | PgWireFrontendMessage::Bind(_)
                | PgWireFrontendMessage::Describe(_)
                | PgWireFrontendMessage::Execute(_)
        );
        if runs {
            self.service.session.check_statements().map_err(refusal)?;
        }
        match message {
            PgWireFrontendMessage::Parse(parse) => {
                limits.statement(parse.name.as_deref().unwrap_or_default(), parse.query.len())
            }
            PgWireFrontendMessage::Bind(bind) => {
                let bytes = bind.parameters.iter().flatten().map(|parameter| parameter.len()).sum();
                limits.portal(bind.portal_name.as_deref().unwrap_or_default(), bytes)
            }
            PgWireFrontendMessage::Close(close) => {
                let name = close.name.as_deref().unwrap_or_default();
                match close.target_type {
                    b'S' => limits.close_statement(name),
                    _ => limits.close_portal(name),
                }
                Ok(())
            }
            // A portal ends with its transaction, and outside of a block that is here.
            PgWireFrontendMessage::Sync(_) if client.transaction_status() == TransactionStatus::Idle => {
                limits.close_portals();
                client.portal_store().clear_portals();
                Ok(())
            }
            _ => Ok(()),
        }
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
    parser: Arc<OurParser>,
    session: Arc<Session>,
    blocks: Blocks,
    settings: Arc<Settings>,
    limits: Arc<Limits>,
    cursors: Arc<Mutex<Cursors>>,
}

/// The parameters of a statement that was prepared before.
struct Prepared<'p> {
    plan: &'p LogicalPlan,
    parameters: ParamValues,
    format: &'p Format,
    fetching: Fetching,
}

impl Service {
    fn new(session: Arc<Session>) -> Service {
        let limits = Arc::new(Limits::default());
        let settings = Arc::new(Settings::new(limits.clone()));
        let blocks = Blocks::new(session.clone(), settings.clone(), limits.clone());
        let cursors = Arc::<Mutex<Cursors>>::default();
        let parser = Arc::new(OurParser { session: session.clone(), cursors: cursors.clone() });
        Service { parser, session, blocks, settings, limits, cursors }
    }

    /// Answers a statement.
    async fn answer(
        &self,
        statement: &Known,
        prepared: Option<Prepared<'_>>,
        client: &mut dyn HookClient,
    ) -> PgWireResult<Response> {
        let statement = match statement {
            Known::Sql(statement) => &**statement,
            Known::Ours(text, statement) => {
                if client.transaction_status() == TransactionStatus::Error {
                    return Err(failed_block());
                }
                let ran = self.session.run_parsed(text, (**statement).clone(), timeout(client)).await;
                return response(ran.map_err(refusal)?, None, &Format::UnifiedText, options_of(client));
            }
        };
        if let Some(answer) = self.blocks.see(statement, client) {
            return answer;
        }
        if let Statement::Declare { stmts } = statement {
            return self.declare(stmts, prepared, client).await;
        }
        if let Some(outcome) = self.session.aside(statement) {
            return response(outcome.map_err(refusal)?, None, &Format::UnifiedText, options_of(client));
        }
        if let Some(answer) = self.settings.answer(statement, client).await {
            return answer;
        }
        let context = self.session.context();
        match statement {
            Statement::Fetch { name, direction, .. } => {
                refuse_too_many(direction)?;
                let format = prepared.as_ref().map_or(&Format::UnifiedText, |prepared| prepared.format);
                self.cursors.lock().fetch(&name.value, format)?;
            }
            Statement::Close { cursor: CloseCursor::All } => self.cursors.lock().0.clear(),
            Statement::Close { cursor: CloseCursor::Specific { name } } => {
                self.cursors.lock().0.remove(&name.value);
            }
            _ => {}
        }
        if let Some(answer) = CursorStatementHook.handle_simple_query(statement, context, client).await {
            return answer;
        }
        if let Some(answer) = TransactionStatementHook.handle_simple_query(statement, context, client).await {
            return answer;
        }
        self.query(statement, prepared, client).await
    }

    async fn query(
        &self,
        statement: &Statement,
        prepared: Option<Prepared<'_>>,
        client: &mut dyn HookClient,
    ) -> PgWireResult<Response> {
        let (text, timeout, options) = (statement.to_string(), timeout(client), options_of(client));
        let Some(prepared) = prepared else {
            let parsed = |statement: &Statement| AnyStatement::Statement(Box::new(statement.clone()));
            let mut ran = self.session.run_parsed(&text, parsed(statement), timeout).await;
            if ran.is_err()
                && let Some(nothing) = empty_catalog::answer_of_none(statement)
            {
                ran = self.session.run_parsed(&text, parsed(&nothing), timeout).await;
            }
            return response(ran.map_err(refusal)?, None, &Format::UnifiedText, options);
        };
        let plan = with_parameters(prepared.plan, &prepared.parameters)?;
        let told = described(&self.session.typed(prepared.plan));
        let ran = self.session.run_planned(&text, plan, timeout, prepared.fetching).await;
        response(ran.map_err(refusal)?, Some(&told), prepared.format, options)
    }

    /// Opens cursors.
    async fn declare(
        &self,
        declared: &[Declare],
        prepared: Option<Prepared<'_>>,
        client: &mut dyn HookClient,
    ) -> PgWireResult<Response> {
        let [declared] = declared else { return Err(coded("42601", "one cursor at a time, please")) };
        let (Some(name), Some(query)) = (declared.names.first(), &declared.for_query) else {
            return Err(coded("42601", "a cursor has a name and a query"));
        };
        let query = Statement::Query(query.clone());
        let plan = match prepared {
            Some(prepared) => with_parameters(prepared.plan, &prepared.parameters)?,
            None => read::plan(&self.session, &query).await?,
        };
        let text = query.to_string();
        self.limits.portal(&name.value, text.len())?;
        let outcome = self.session.open_cursor(&text, plan.clone()).await.map_err(refusal)?;
        let is_binary = IsBinary::default();
        let columns = self.session.typed(&plan);
        let rows = cursor_rows(outcome, options_of(client), is_binary.clone())?;
        self.cursors.lock().open(&name.value, &columns, is_binary)?;
        let stored: StoredStatement<Stored> =
            StoredStatement::new(name.value.clone(), (text, Some((query, plan))), Vec::new());
        let portal = Portal::new_cursor(name.value.clone(), Arc::new(stored));
        portal.start(rows).await;
        client.portal_store().put_portal(Arc::new(portal));
        Ok(Response::Execution(Tag::new("DECLARE CURSOR")))
    }
}

/// Refuses a `FETCH` of too many rows at once.
fn refuse_too_many(direction: &FetchDirection) -> PgWireResult<()> {
    let (FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) }) = direction else {
        return Ok(());
    };
    match limit.to_string().parse::<usize>() {
        Ok(rows) if rows > ROWS_MAX => Err(too_many_rows()),
        _ => Ok(()),
    }
}

fn too_many_rows() -> PgWireError {
    coded(
        "54000",
        &format!("at most {ROWS_MAX} rows can be asked for at once; ask again for more, or for all"),
    )
}

fn with_parameters(plan: &LogicalPlan, parameters: &ParamValues) -> PgWireResult<LogicalPlan> {
    plan.clone().replace_params_with_values(parameters).map_err(|error| refusal(QueryError::from(error)))
}

#[async_trait]
impl SimpleQueryHandler for Service {
    async fn on_query<C>(&self, client: &mut C, query: Query) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        if !matches!(client.state(), PgWireConnectionState::ReadyForQuery) {
            return Err(PgWireError::NotReadyForQuery);
        }
        client.set_state(PgWireConnectionState::QueryInProgress);
        let client = &mut WithNotices::new(client, &self.session);
        let statements = read::read(&query.query)?;
        if statements.is_empty() {
            client.feed(PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new())).await?;
        }
        // A block that a statement began stays open even if a later statement fails.
        for statement in statements {
            let status = match self.answer(&statement, None, client).await? {
                Response::Query(rows) => {
                    send_query_response(client, rows, true).await?;
                    continue;
                }
                Response::Execution(tag) => {
                    send_execution_response(client, tag).await?;
                    continue;
                }
                Response::TransactionStart(tag) => {
                    send_execution_response(client, tag).await?;
                    TransactionStatus::Transaction
                }
                Response::TransactionEnd(tag) => {
                    send_execution_response(client, tag).await?;
                    TransactionStatus::Idle
                }
                Response::Error(error) => return Err(PgWireError::UserError(error)),
                _ => return Err(coded("0A000", "COPY is not there")),
            };
            client.set_transaction_status(status);
        }
        client.set_state(PgWireConnectionState::ReadyForQuery);
        send_ready_for_query(client, client.transaction_status()).await
    }

    async fn do_query<C>(&self, _: &mut C, _: &str) -> PgWireResult<Vec<Response>>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        // All that the library would do here is done above.
        Err(PgWireError::NotReadyForQuery)
    }
}

#[async_trait]
impl ExtendedQueryHandler for Service {
    type Statement = Stored;
    type QueryParser = OurParser;

    fn query_parser(&self) -> Arc<OurParser> {
        self.parser.clone()
    }

    async fn on_execute<C>(&self, client: &mut C, mut message: Execute) -> PgWireResult<()>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Stored>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        // As in PostgreSQL, less than none means all.
        message.max_rows = message.max_rows.max(0);
        if message.max_rows as usize > ROWS_MAX {
            return Err(too_many_rows());
        }
        self._on_execute(&mut WithNotices::new(client, &self.session), message).await?;
        // The library takes a failed block for one that stays so until its end.
        if self.blocks.take_gone_back() {
            client.set_transaction_status(TransactionStatus::Transaction);
        }
        Ok(())
    }

    async fn do_query<C>(
        &self,
        client: &mut C,
        portal: &Portal<Stored>,
        rows_max: usize,
    ) -> PgWireResult<Response>
    where
        C: ClientInfo + ClientPortalStore + Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::PortalStore: PortalStore<Statement = Stored>,
        C::Error: Debug,
        PgWireError: From<<C as Sink<PgWireBackendMessage>>::Error>,
    {
        let (text, read) = &portal.statement.statement;
        let Some((statement, plan)) = read else {
            let statement = read::read(text)?.pop().ok_or_else(|| coded("42601", "there is no statement"))?;
            return self.answer(&statement, None, client).await;
        };
        let (inferred, wire) = read::parameter_types(plan)?;
        let inferred: Vec<_> = inferred.iter().map(Option::as_ref).collect();
        let wire: Vec<_> = wire.iter().map(Some).collect();
        let parameters = deserialize_parameters_with_server_types(portal, &inferred, &wire)?;
        let fetching = if rows_max > 0 { Fetching::InParts } else { Fetching::AtOnce };
        let prepared = Prepared { plan, parameters, format: &portal.result_column_format, fetching };
        self.answer(&Known::Sql(Box::new(statement.clone())), Some(prepared), client).await
    }
}

/// Reads what is sent to be run later.
pub(super) struct OurParser {
    session: Arc<Session>,
    cursors: Arc<Mutex<Cursors>>,
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
        let mut statements = read::read(sql)?;
        if statements.len() > 1 {
            return Err(coded("42601", "cannot insert multiple commands into a prepared statement"));
        }
        let mut statement = match statements.pop() {
            None => return Ok(None),
            Some(Known::Ours(text, _)) => return Ok(Some((text, None))),
            Some(Known::Sql(statement)) => *statement,
        };
        let ends_block = matches!(statement, Statement::Commit { .. } | Statement::Rollback { .. });
        if client.transaction_status() == TransactionStatus::Error && !ends_block {
            return Err(failed_block());
        }
        if let Statement::Fetch { name, .. } = &statement
            && let Some(plan) = self.cursors.lock().described(&name.value)
        {
            return Ok(Some((sql.to_owned(), Some((statement, plan)))));
        }
        rewrite::type_parameters(&mut statement, types);
        let plan = read::plan(&self.session, &statement).await?;
        Ok(Some((sql.to_owned(), Some((statement, plan)))))
    }

    fn get_parameter_types(&self, stored: &Stored) -> PgWireResult<Vec<Type>> {
        match &stored.1 {
            Some((_, plan)) => Ok(read::parameter_types(plan)?.1),
            None => Ok(Vec::new()),
        }
    }

    fn get_result_schema(&self, stored: &Stored, format: Option<&Format>) -> PgWireResult<Vec<FieldInfo>> {
        match &stored.1 {
            None | Some((Statement::Declare { .. }, _) | (_, LogicalPlan::Ddl(_) | LogicalPlan::Dml(_))) => {
                Ok(Vec::new())
            }
            Some((_, plan)) => {
                let schema = described(&self.session.typed(plan));
                arrow_schema_to_pg_fields(&schema, format.unwrap_or(&Format::UnifiedText), None)
            }
        }
    }
}

/// How long a statement of this client may take.
fn timeout(client: &dyn HookClient) -> Option<std::time::Duration> {
    time_of(client.metadata(), STATEMENT)
}

fn options_of(client: &dyn HookClient) -> FormatOptions {
    FormatOptions::from_client_metadata(client.metadata())
}
