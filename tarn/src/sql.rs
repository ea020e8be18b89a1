//! SQL beside the server: the thread that talks to clients of PostgreSQL's protocol, if there is a port for
//! them, and answers the commands `SQL` and `FT.*`. Statements have threads of their own.

use crate::guest::Guest;
use crate::search::Seeker;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use tarn_analytics::{
    Analytics, AnalyticsOptions, Caller, Changes, Door, Identity, QueryError, Rules, Search, User, Value,
    WireOptions, sqlstate,
};
pub(crate) use tarn_analytics::{DECLARATION_FILES, parquet_of, runs_apart};
use tarn_engine::record::Lsn;
use tarn_server::Services;
use tarn_server::acl::{self, Context, Reason, client_at_port};
use tarn_server::analytics::sql::{Answer, Asked, Cell, Who};
use tarn_server::config::Config;
use tarn_server::net::address::Address;
use tarn_server::net::caller;
use tarn_server::net::listen::Service;
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Connections that may wait until the SQL thread takes them.
const CALLERS_MAX: usize = 64;

/// Why SQL cannot be served.
#[derive(Debug, Error)]
pub(crate) enum SqlError {
    /// The declarations cannot be read.
    #[error(transparent)]
    Declarations(#[from] QueryError),
    /// There is nowhere to write files to.
    #[error("sql-export-dir {0} is no directory; make it, or leave the setting out")]
    ExportDirectory(String),
    /// No client could connect.
    #[error(
        "'sql-tls required' and 'sql-tls-auth-clients yes' need a certificate: name it, and its key, with \
         tls-cert-file and tls-key-file"
    )]
    NoTls,
    /// The system refused a thread.
    #[error("cannot start the thread for SQL: {0}")]
    System(#[from] std::io::Error),
}

/// The parts that serve SQL, made before the server exists.
pub(crate) struct Sql {
    runtime: tokio::runtime::Runtime,
    analytics: Arc<Analytics>,
    search: Arc<Search>,
}

impl Sql {
    /// Prepares SQL as configured.
    pub(crate) fn prepare(config: &Config) -> Result<Sql, SqlError> {
        let export_directory = config.sql_export_path();
        if let Some(path) = export_directory.as_ref().filter(|path| !path.is_dir()) {
            return Err(SqlError::ExportDirectory(path.display().to_string()));
        }
        if config.sql_must_encrypt() && config.tls.has_no_certificate() {
            return Err(SqlError::NoTls);
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tarn-sql")
            .thread_stack_size(tarn_analytics::STACK_BYTES)
            .on_thread_start(tarn_analytics::give_way)
            .enable_all()
            .build()?;
        let options = AnalyticsOptions {
            databases: config.databases,
            memory_bytes: config.analytics_max_memory_bytes,
            threads: config.analytics_threads(),
            directory: Some(config.dir.clone()),
            export_directory,
        };
        let analytics = runtime.block_on(Analytics::open(options))?;
        let search = Arc::new(Search::open(analytics.clone(), Some(&config.dir))?);
        Ok(Sql { runtime, analytics, search })
    }

    /// Starts the threads of SQL. The data may be loaded later.
    pub(crate) fn start(self, server: &Arc<Services>) -> Running {
        let (callers, incoming) = mpsc::channel(CALLERS_MAX);
        server.set_sql(Arc::new(Asker {
            handle: self.runtime.handle().clone(),
            analytics: self.analytics.clone(),
            server: Arc::downgrade(server),
            callers,
        }));
        server.set_search(Arc::new(Seeker { handle: self.runtime.handle().clone(), search: self.search }));
        let of_store = Arc::downgrade(server);
        self.analytics.read_from(move || Some(of_store.upgrade()?.store()?.engine.clone()));
        let of_log = Arc::downgrade(server);
        self.analytics.show_by(move |lsn| of_log.upgrade().map_or(Ok(true), |server| server.may_show(lsn)));
        self.analytics.change_by(Changing(Arc::downgrade(server)));
        self.analytics.make_indexes();
        let options = WireOptions { rules: Arc::new(Settings(server.clone())) };
        self.runtime.spawn(tarn_analytics::serve(self.analytics, incoming, options));
        Running(self.runtime)
    }
}

/// The threads of SQL.
pub(crate) struct Running(tokio::runtime::Runtime);

impl Running {
    /// Ends them, without waiting for statements that run.
    pub(crate) fn end(self) {
        self.0.shutdown_background();
    }
}

/// The rules of the server for changes of keys that are made on the threads of SQL.
struct Changing(Weak<Services>);

impl Changes for Changing {
    fn may_change(&self) -> bool {
        self.0.upgrade().is_none_or(|server| server.may_change())
    }

    fn tell(&self, keys: &[&[u8]], lsn: Lsn) {
        if let Some(server) = self.0.upgrade() {
            server.tell_changed(keys, lsn);
        }
    }

    fn count(&self, changes: usize) {
        if let Some(server) = self.0.upgrade() {
            server.count_changes(changes);
        }
    }
}

/// The current values of the configuration.
struct Settings(Arc<Services>);

/// Why a password is not asked for.
const UNENCRYPTED: &str = "the server keeps the SHA-256 of this user's password alone, so the password \
    has to be sent, and nothing encrypts it here: connect with sslmode=require, for which the server \
    needs tls-cert-file and tls-key-file, or from the server's own machine";

impl Rules for Settings {
    fn door(&self, name: &str) -> Door {
        let requirepass = self.0.config.snapshot().requirepass.clone();
        match self.0.acl.door(name.as_bytes(), &requirepass) {
            acl::Door::Open => Door::Open,
            acl::Door::Challenge => Door::Challenge(requirepass),
            acl::Door::Password => Door::Password,
        }
    }

    fn refuses(&self, name: &str, peer: SocketAddr, is_private: bool) -> Option<&'static str> {
        if is_private || self.door(name) != Door::Password {
            return None;
        }
        self.note_refused(name, peer);
        Some(UNENCRYPTED)
    }

    fn enter(&self, name: &str, password: &[u8], peer: SocketAddr) -> Option<Arc<dyn User>> {
        let user = self.0.acl.enter(name.as_bytes(), password)?;
        Some(Arc::new(Guest::of_port(self.0.clone(), &user, peer)))
    }

    fn connections_max(&self) -> usize {
        self.0.config.snapshot().sql_max_clients
    }

    fn start_patience(&self) -> Duration {
        Duration::from_secs(self.0.live.auth_timeout_s())
    }

    fn idle_patience(&self) -> Option<Duration> {
        let seconds = self.0.live.timeout_s();
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }

    fn note_wrong_password(&self, name: &str, peer: SocketAddr) {
        self.note_refused(name, peer);
        // The connection ends in any case.
        self.0.attempts.note_wrong(&Address::Tcp(peer), Service::Sql);
    }

    fn identity(&self) -> Option<Identity> {
        let identity = self.0.tls.identity(Service::Sql)?;
        Some(Identity { config: identity.config.clone(), pem: identity.pem.clone() })
    }

    fn needs_encryption(&self) -> bool {
        self.0.config.snapshot().sql_must_encrypt()
    }

    fn note_handshake(&self, peer: SocketAddr, ended: Result<bool, &io::Error>) {
        self.0.tls.note_handshake(&Address::Tcp(peer), Service::Sql, ended);
    }
}

impl Settings {
    /// Notes a client that did not come in.
    fn note_refused(&self, name: &str, peer: SocketAddr) {
        let (now_ms, named) = (self.0.clock.unix_ms(), (&b"SQL"[..], name.as_bytes()));
        let client = client_at_port(peer, "sql", name.as_bytes());
        self.0.acl.log.push(now_ms, Reason::Auth, Context::TopLevel, named, client);
    }
}

/// The most bytes of an answer to the command `SQL`, which is one reply.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Answers the command `SQL`.
struct Asker {
    handle: Handle,
    analytics: Arc<Analytics>,
    /// It has this.
    server: Weak<Services>,
    callers: mpsc::Sender<Caller>,
}

impl tarn_server::analytics::sql::Sql for Asker {
    fn talk_to(&self, caller: caller::Caller) {
        let caller::Caller { stream, peer, refusal, must_encrypt } = caller;
        let is_local = peer.is_local();
        let Some(peer) = peer.tcp() else { return };
        // The acceptor has seen that there is room. Behind a proxy others may have come first: it is closed.
        let _ = self.callers.try_send(Caller { stream, peer, is_local, refusal, must_encrypt });
    }

    fn ask(&self, statement: &str, who: Who) -> Box<dyn Asked> {
        let (statement, analytics, server) =
            (statement.to_owned(), self.analytics.clone(), self.server.clone());
        let answering = self.handle.spawn(async move {
            // Without a server nobody waits for the answer.
            let server = server.upgrade().ok_or(QueryError::Cancelled)?;
            let Who { name, id, client } = who;
            let session = analytics.session_of(Arc::new(Guest::of_request(server, name, id, client)));
            let outcome = session.run(&statement, None).await?;
            let (columns, rows) = outcome.collect(ANSWER_BYTES_MAX).await?;
            let rows = rows.into_iter().map(|row| row.into_iter().map(cell_of).collect()).collect();
            Ok(Answer { columns, rows, warning: session.warning() })
        });
        Box::new(Answering(answering))
    }

    fn has_room(&self) -> bool {
        self.callers.capacity() > 0
    }

    fn store_is_there(&self) {
        self.analytics.make_indexes();
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        self.analytics.figures()
    }
}

/// A statement that is being answered.
#[derive(Debug)]
struct Answering(JoinHandle<Result<Answer, QueryError>>);

impl Asked for Answering {
    fn answer(&mut self) -> Option<Result<Answer, String>> {
        let ended = (&mut self.0).now_or_never()?;
        Some(match ended {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(format!("{} {error}", sqlstate(&error))),
            Err(panicked) => Err(format!("XX000 the statement was given up: {panicked}")),
        })
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn cell_of(value: Value) -> Cell {
    match value {
        Value::Null => Cell::Null,
        Value::Integer(number) => Cell::Integer(number),
        Value::Double(number) => Cell::Double(number),
        Value::Boolean(truth) => Cell::Boolean(truth),
        Value::Bytes(bytes) => Cell::Bytes(bytes),
    }
}
