//! SQL beside the server: the thread that talks to clients of PostgreSQL's protocol. Statements have threads
//! of their own.

use crate::search::Seeker;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tarn_analytics::{Analytics, AnalyticsOptions, QueryError, Tls, TlsError, Value, WireOptions, sqlstate};
use tarn_server::config::Config;
use tarn_server::listen::{self, ListenError};
use tarn_server::shared::Shared;
use tarn_server::sql::{Answer, Asked, Cell};
use thiserror::Error;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

/// The port that is taken if none is named, and given up if it is not free.
const PORT_DEFAULT: u16 = 5433;

/// How long the start of a connection may take.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Why SQL cannot be served.
#[derive(Debug, Error)]
pub enum SqlError {
    /// Nobody could connect.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// What has been declared cannot be read.
    #[error(transparent)]
    Declarations(#[from] QueryError),
    /// There is nowhere to write files to.
    #[error("sql-export-dir {0} is no directory; make it, or leave the setting out")]
    ExportDirectory(String),
    /// One file is of no use without the other.
    #[error("tls-cert-file and tls-key-file are needed both, or none of them")]
    HalfTls,
    /// Connections could not be encrypted.
    #[error("tls-cert-file and tls-key-file: {0}")]
    Tls(#[from] TlsError),
    /// The system refused a thread.
    #[error("cannot start the thread for SQL: {0}")]
    System(#[from] std::io::Error),
}

/// What serves SQL, before the server is there.
pub struct Sql {
    runtime: tokio::runtime::Runtime,
    analytics: Arc<Analytics>,
    listeners: Vec<TcpListener>,
    /// Why nobody listens at the default port.
    refused: Option<ListenError>,
    clients_max: usize,
    tls: Option<Arc<Tls>>,
}

impl Sql {
    /// Makes ready what is configured; `None`: nothing is.
    pub fn prepare(config: &Config) -> Result<Option<Sql>, SqlError> {
        if config.sql_port == 0 {
            return Ok(None);
        }
        let (listeners, refused) = match listen::open_sql(config) {
            Ok(listeners) => (listeners, None),
            Err(error) if config.sql_port == PORT_DEFAULT => (Vec::new(), Some(error)),
            Err(error) => return Err(error.into()),
        };
        let export_directory = config.sql_export_path();
        if let Some(path) = export_directory.as_ref().filter(|path| !path.is_dir()) {
            return Err(SqlError::ExportDirectory(path.display().to_string()));
        }
        let tls = match config.tls_paths() {
            [None, None] => None,
            [Some(certificate), Some(key)] => Some(Arc::new(Tls::open(certificate, key)?)),
            [Some(_), None] | [None, Some(_)] => return Err(SqlError::HalfTls),
        };
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
            threads: config.analytics_threads,
            directory: Some(config.dir.clone()),
            export_directory,
        };
        let analytics = runtime.block_on(Analytics::open(options))?;
        let clients_max = config.maxclients;
        Ok(Some(Sql { runtime, analytics, listeners, refused, clients_max, tls }))
    }

    /// Serves as long as what is returned is there. The data may be loaded later.
    pub fn start(self, server: &Arc<Shared>) -> tokio::runtime::Runtime {
        if let Some(error) = &self.refused {
            tracing::warn!("SQL is not served: {error}");
        }
        for address in self.listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
            let encrypted = if self.tls.is_some() { ", encrypted for those who ask" } else { "" };
            tracing::info!("Listening on {address} for SQL{encrypted}");
        }
        server.set_sql(Arc::new(Asker {
            handle: self.runtime.handle().clone(),
            analytics: self.analytics.clone(),
        }));
        server.set_search(Arc::new(Seeker {
            handle: self.runtime.handle().clone(),
            analytics: self.analytics.clone(),
        }));
        let (of_store, of_config) = (Arc::downgrade(server), server.clone());
        self.analytics.read_from(move || Some(of_store.upgrade()?.store()?.engine.clone()));
        self.analytics.make_indexes();
        let login = move || {
            let password = of_config.config.snapshot().requirepass.clone();
            (!password.is_empty()).then_some(password)
        };
        let options = WireOptions {
            login: Arc::new(login),
            tls: self.tls,
            connections_max: self.clients_max,
            start_patience: START_PATIENCE,
        };
        let serving = tarn_analytics::serve(self.analytics, self.listeners, options);
        self.runtime.spawn(async move {
            if let Err(error) = serving.await {
                tracing::error!("SQL is not served any longer: {error}");
            }
        });
        self.runtime
    }
}

/// The most bytes of an answer to the command `SQL`, which is one reply.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Answers the command `SQL`.
struct Asker {
    handle: Handle,
    analytics: Arc<Analytics>,
}

impl tarn_server::sql::Sql for Asker {
    fn ask(&self, statement: &str) -> Box<dyn Asked> {
        let (session, statement) = (self.analytics.session(), statement.to_owned());
        let answering = self.handle.spawn(async move {
            let outcome = session.run(&statement, None).await?;
            let (columns, rows) = outcome.collect(ANSWER_BYTES_MAX).await?;
            let rows = rows.into_iter().map(|row| row.into_iter().map(cell_of).collect()).collect();
            Ok(Answer { columns, rows, warning: session.warning() })
        });
        Box::new(Answering(answering))
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
