//! PostgreSQL's wire protocol, so that its clients connect unchanged.
//!
//! ```text
//!   accept ─ encryption ─ start-up, password ─ statements ─┬─ BEGIN, COMMIT, SAVEPOINT …      blocks.rs
//!            tls.rs       startup.rs                       ├─ SET, SHOW …                     set.rs
//!                                                          └─ queries, declarations           session.rs
//! ```
//!
//! The protocol, the catalog that clients ask for, and cursors are libraries' work; ours are the instant of a
//! statement or a block, settings, what is refused, what a client may keep, and the codes of errors.

mod absent;
mod blocks;
mod bounded;
mod gone;
mod kept;
mod names;
mod noticing;
mod read;
mod reply;
mod rewrite;
mod service;
mod set;
mod startup;
mod tls;

use std::io;
use std::net::TcpListener as StdListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bounded::{Bound, Bounded};
use datafusion_postgres::pgwire::api::{
    ClientInfo, DefaultClient, ErrorHandler, PgWireConnectionState, PgWireServerHandlers,
};
use datafusion_postgres::pgwire::messages::response::{GssEncResponse, SslResponse, TransactionStatus};
use datafusion_postgres::pgwire::messages::{
    PgWireBackendMessage, PgWireFrontendMessage, SslNegotiationMetaMessage,
};
use datafusion_postgres::pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use datafusion_postgres::pgwire::tokio::tokio_rustls::server::TlsStream;
use futures::{SinkExt, StreamExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::codec::Framed;
use tokio_util::either::Either;

use super::session::Analytics;
use super::settings::IDLE_IN_BLOCK;
use gone::hung_up;
use service::Handlers;
pub use startup::Login;
use startup::Sessions;
pub use tls::{Tls, TlsError};

/// How long a client may take nothing of its answer.
const STALL_PATIENCE: Duration = Duration::from_secs(600);

/// How often it is looked whether the client of a running statement is there.
const GONE_INTERVAL: Duration = Duration::from_secs(1);

/// How clients are served.
#[derive(Clone)]
pub struct WireOptions {
    /// Asks for the password that clients need now; `None`: none.
    pub login: Login,
    /// Encrypts the connections of those who ask for it; `None`: nobody's.
    pub tls: Option<Arc<Tls>>,
    /// How many may be connected at once; more are refused.
    pub connections_max: usize,
    /// How long the start of a connection may take.
    pub start_patience: Duration,
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
                            analytics.connections().refuse();
                            tracing::warn!("A client of SQL was refused: there are as many as may be");
                            continue;
                        };
                        let connected = analytics.connections().accept();
                        let (analytics, sessions) = (analytics.clone(), sessions.clone());
                        let options = options.clone();
                        tokio::spawn(async move {
                            // A client that goes away in the middle of something is nobody's trouble.
                            if let Err(error) = talk(socket, &analytics, &sessions, &options).await {
                                tracing::debug!("A client of SQL is gone: {error}");
                            }
                            drop((permit, connected));
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

/// Talks to a client until one of both ends it.
async fn talk(
    socket: TcpStream,
    analytics: &Arc<Analytics>,
    sessions: &Arc<Sessions>,
    options: &WireOptions,
) -> io::Result<()> {
    let patience = tokio::time::Instant::now() + options.start_patience;
    let bound = Bound::default();
    let negotiated = negotiate(socket, &bound, options.tls.as_deref());
    let (mut socket, certificate) = tokio::time::timeout_at(patience, negotiated).await??;
    let handlers = Handlers::new(analytics, sessions, options.login.clone(), certificate.as_deref(), bound);
    let (startup, cancel) = (handlers.startup_handler(), handlers.cancel_handler());
    let (simple, extended) = (handlers.simple_query_handler(), handlers.extended_query_handler());
    let (copy, errors) = (handlers.copy_handler(), handlers.error_handler());
    // Messages have come whose end, a `Sync`, has not.
    let mut is_midway = false;
    loop {
        let is_starting = matches!(
            socket.state(),
            PgWireConnectionState::AwaitingStartup | PgWireConnectionState::AuthenticationInProgress
        );
        let until = match is_starting {
            true => Some(patience),
            // What is read lasts until the block ends, or what was begun.
            false if is_midway || socket.transaction_status() != TransactionStatus::Idle => {
                set::time_of(socket.metadata(), IDLE_IN_BLOCK).map(|time| tokio::time::Instant::now() + time)
            }
            false => None,
        };
        let message = match until {
            Some(until) => match tokio::time::timeout_at(until, socket.next()).await {
                Ok(message) => message,
                Err(_) if is_starting => return Ok(()),
                Err(_) => {
                    let message = "terminating connection due to idle-in-transaction timeout";
                    return process_error(&mut socket, reply::coded("25P03", message), is_midway).await;
                }
            },
            None => socket.next().await,
        };
        let Some(message) = message.transpose().map_err(io::Error::other)? else { return Ok(()) };
        if matches!(message, PgWireFrontendMessage::Terminate(_)) {
            return Ok(());
        }
        let is_extended = message.is_extended_query();
        is_midway = is_extended && !matches!(message, PgWireFrontendMessage::Sync(_));
        let seen = handlers.see(&message, &socket);
        let (startup, simple, extended) = (startup.clone(), simple.clone(), extended.clone());
        // Another handle of the socket; a client is served without, too.
        let look = handle_of(socket.get_ref().get_ref());
        let done = async {
            seen?;
            process_message(message, &mut socket, startup, simple, extended, copy.clone(), cancel.clone())
                .await
        };
        let done = tokio::select! {
            biased;
            done = done => done,
            () = hung_up(look, GONE_INTERVAL) => return Ok(()),
        };
        if let Err(mut error) = done {
            errors.on_error(&socket, &mut error);
            process_error(&mut socket, error, is_extended).await?;
        }
    }
}

/// A connection, encrypted or not.
type Connection = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection as the messages that come by it.
type Messages<S> = Framed<Bounded<Connection>, PgWireMessageServerCodec<S>>;

fn messages_of<S>(connection: Connection, bound: &Bound, client: DefaultClient<S>) -> Messages<S> {
    let connection = Bounded::new(connection, bound.clone(), STALL_PATIENCE);
    Framed::new(connection, PgWireMessageServerCodec::new(client))
}

/// Another handle of a connection's socket.
fn handle_of(connection: &Connection) -> Option<OwnedFd> {
    let socket = match connection {
        Either::Left(socket) => socket,
        Either::Right(encrypted) => encrypted.get_ref().0,
    };
    socket.as_fd().try_clone_to_owned().ok()
}

/// Answers those who ask for encryption first. Returns the connection, and the certificates (PEM) that it is
/// encrypted with, if it is.
async fn negotiate<S>(
    socket: TcpStream,
    bound: &Bound,
    tls: Option<&Tls>,
) -> io::Result<(Messages<S>, Option<Arc<[u8]>>)> {
    let address = socket.peer_addr()?;
    socket.set_nodelay(true)?;
    let mut certificate = None;
    let mut messages = messages_of(Either::Left(socket), bound, DefaultClient::new(address, false));
    loop {
        match messages.next().await.transpose().map_err(io::Error::other)? {
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_))) => {
                let Some(tls) = tls.filter(|_| certificate.is_none()) else {
                    messages.send(PgWireBackendMessage::SslResponse(SslResponse::Refuse)).await?;
                    continue;
                };
                messages.send(PgWireBackendMessage::SslResponse(SslResponse::Accept)).await?;
                let parts = messages.into_parts();
                let Either::Left(socket) = parts.io.into_inner() else {
                    return Err(io::Error::other("a connection is encrypted once"));
                };
                // Anybody on the way could have sent them; as if the client had, they would be obeyed.
                if !parts.read_buf.is_empty() {
                    return Err(io::Error::other("bytes came before the encryption that was asked for"));
                }
                let identity = tls.identity();
                let encrypted = Box::new(identity.acceptor.accept(socket).await?);
                certificate = Some(identity.pem);
                messages = messages_of(Either::Right(encrypted), bound, DefaultClient::new(address, true));
            }
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresGss(_))) => {
                messages.send(PgWireBackendMessage::GssEncResponse(GssEncResponse::Refuse)).await?;
            }
            _ => {
                messages.set_state(PgWireConnectionState::AwaitingStartup);
                return Ok((messages, certificate));
            }
        }
    }
}
