//! PostgreSQL's wire protocol, so that its clients connect unchanged.
//!
//! ```text
//!   accept ─ start-up, password ─ statements ─┬─ BEGIN, COMMIT, SHOW QUERIES …   service.rs
//!                                             ├─ SET, SHOW, cursors              a library
//!                                             └─ queries, declarations           session.rs
//! ```
//!
//! The protocol, the catalog that clients ask for, cursors and settings are libraries' work; ours are the
//! instant of a statement or a block, what is refused, and the codes of errors.

mod bounded;
mod reply;
mod service;
mod startup;

use std::io;
use std::net::TcpListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use bounded::{Bound, Bounded};
use datafusion_postgres::pgwire::api::{
    ClientInfo, DefaultClient, ErrorHandler, PgWireConnectionState, PgWireServerHandlers,
};
use datafusion_postgres::pgwire::messages::response::{GssEncResponse, SslResponse};
use datafusion_postgres::pgwire::messages::{
    PgWireBackendMessage, PgWireFrontendMessage, SslNegotiationMetaMessage,
};
use datafusion_postgres::pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::codec::Framed;

use super::session::Analytics;
use service::Handlers;
pub use startup::Login;
use startup::Sessions;

/// The priority of queries: a tenth of what others get where there is not enough for all.
const PRIORITY: i32 = 10;

/// How long the start of a connection may take.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// How clients are served.
#[derive(Clone)]
pub struct WireOptions {
    /// Asks for the password that clients need now; `None`: none.
    pub login: Login,
    /// How many may be connected at once; more are refused.
    pub connections_max: usize,
}

/// Serves clients of these sockets, for ever.
pub async fn serve(
    analytics: Arc<Analytics>,
    listeners: Vec<StdListener>,
    options: WireOptions,
) -> io::Result<()> {
    let free = Arc::new(Semaphore::new(options.connections_max));
    let sessions = Arc::new(Sessions::default());
    let mut accepting = tokio::task::JoinSet::new();
    for listener in listeners {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let (analytics, options) = (analytics.clone(), options.clone());
        let (free, sessions) = (free.clone(), sessions.clone());
        accepting.spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((socket, _)) => {
                        let Ok(permit) = free.clone().try_acquire_owned() else {
                            tracing::warn!("A client of SQL was refused: there are as many as may be");
                            continue;
                        };
                        let bound = Bound::default();
                        let handlers =
                            Handlers::new(&analytics, &sessions, options.login.clone(), bound.clone());
                        tokio::spawn(async move {
                            // A client that goes away in the middle of something is nobody's trouble.
                            if let Err(error) = talk(socket, handlers, bound).await {
                                tracing::debug!("A client of SQL is gone: {error}");
                            }
                            drop(permit);
                        });
                    }
                    Err(error) => {
                        tracing::warn!("A client of SQL could not be accepted: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        });
    }
    while accepting.join_next().await.is_some() {}
    Ok(())
}

/// Has the calling thread give way to whoever serves Redis's clients. To be called by each thread that runs
/// queries.
pub fn give_way() {
    // Without it queries are as fast, and clients wait longer: nothing that a query depends on.
    if let Err(error) = rustix::process::setpriority_process(None, PRIORITY) {
        tracing::debug!("queries run at the priority of all others: {error}");
    }
}

/// Talks to a client until one of both ends it.
async fn talk(socket: TcpStream, handlers: Handlers, bound: Bound) -> io::Result<()> {
    let address = socket.peer_addr()?;
    socket.set_nodelay(true)?;
    let codec = PgWireMessageServerCodec::new(DefaultClient::new(address, false));
    let mut socket = Framed::new(Bounded::new(socket, bound), codec);
    let patience = tokio::time::Instant::now() + START_PATIENCE;
    refuse_encryption(&mut socket, patience).await?;
    let (startup, cancel) = (handlers.startup_handler(), handlers.cancel_handler());
    let (simple, extended) = (handlers.simple_query_handler(), handlers.extended_query_handler());
    let (copy, errors) = (handlers.copy_handler(), handlers.error_handler());
    loop {
        let is_starting = matches!(
            socket.state(),
            PgWireConnectionState::AwaitingStartup | PgWireConnectionState::AuthenticationInProgress
        );
        let message = match is_starting {
            true => tokio::time::timeout_at(patience, socket.next()).await.unwrap_or(None),
            false => socket.next().await,
        };
        let Some(message) = message.transpose().map_err(io::Error::other)? else { return Ok(()) };
        if matches!(message, PgWireFrontendMessage::Terminate(_)) {
            return Ok(());
        }
        let is_extended = message.is_extended_query();
        let (startup, simple, extended) = (startup.clone(), simple.clone(), extended.clone());
        let done =
            process_message(message, &mut socket, startup, simple, extended, copy.clone(), cancel.clone());
        if let Err(mut error) = done.await {
            errors.on_error(&socket, &mut error);
            process_error(&mut socket, error, is_extended).await?;
        }
    }
}

/// Answers those who ask for encryption first: there is none.
async fn refuse_encryption<S>(
    socket: &mut Framed<Bounded<TcpStream>, PgWireMessageServerCodec<S>>,
    patience: tokio::time::Instant,
) -> io::Result<()> {
    loop {
        let asked = tokio::time::timeout_at(patience, socket.next()).await?;
        match asked.transpose().map_err(io::Error::other)? {
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_))) => {
                socket.send(PgWireBackendMessage::SslResponse(SslResponse::Refuse)).await?;
            }
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresGss(_))) => {
                socket.send(PgWireBackendMessage::GssEncResponse(GssEncResponse::Refuse)).await?;
            }
            _ => {
                socket.set_state(PgWireConnectionState::AwaitingStartup);
                return Ok(());
            }
        }
    }
}
