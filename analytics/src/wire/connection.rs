//! The life of a connection: encryption, its place among the clients, and its messages until it ends.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use datafusion_postgres::pgwire::api::{
    ClientInfo, DefaultClient, ErrorHandler, METADATA_USER, PgWireConnectionState, PgWireServerHandlers,
};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError};
use datafusion_postgres::pgwire::messages::response::{GssEncResponse, SslResponse, TransactionStatus};
use datafusion_postgres::pgwire::messages::{
    PgWireBackendMessage, PgWireFrontendMessage, SslNegotiationMetaMessage,
};
use datafusion_postgres::pgwire::tokio::TlsAcceptor;
use datafusion_postgres::pgwire::tokio::server::{PgWireMessageServerCodec, process_error, process_message};
use datafusion_postgres::pgwire::tokio::tokio_rustls::rustls::{HandshakeKind, ProtocolVersion};
use datafusion_postgres::pgwire::tokio::tokio_rustls::server::TlsStream;
use futures::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::codec::Framed;
use tokio_util::either::Either;

use super::bounded::{Bound, Bounded};
use super::disconnect::hung_up;
use super::rules::Rules;
use super::service::Handlers;
use super::set;
use super::starting::{AtStart, Starting};
use super::startup::{Passwords, Sessions};
use crate::analytics::Analytics;
use crate::catalog::settings::IDLE_IN_BLOCK;
use crate::connections::Place;
use crate::rights::Denied;

/// How long a client may take nothing of its answer.
const STALL_PATIENCE: Duration = Duration::from_secs(600);

/// How often it is looked whether the client of a running statement is there, and may have it run.
const GONE_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked whether the time for an idle client has changed, and whether its user is gone.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// How clients are served.
#[derive(Clone)]
pub struct WireOptions {
    /// The settings that may change while clients are served.
    pub rules: Arc<dyn Rules>,
}

/// A client that has connected.
#[derive(Debug)]
pub struct Caller {
    /// The connection, which does not block.
    pub stream: StdStream,
    /// The other end, for which a proxy may have connected.
    pub peer: SocketAddr,
    /// Whether it counts as a client of this machine.
    pub is_local: bool,
    /// Why the client is turned away, if it is.
    pub refusal: Option<&'static str>,
    /// Whether it is turned away unless it asks for encryption.
    pub must_encrypt: bool,
}

/// Serves clients until there are no more to come.
pub async fn serve(analytics: Arc<Analytics>, mut callers: mpsc::Receiver<Caller>, options: WireOptions) {
    let (sessions, starting) = (Arc::new(Sessions::default()), Starting::default());
    let passwords = Arc::new(Passwords::new(options.rules.clone()));
    for number in 0.. {
        let Some(caller) = callers.recv().await else { return };
        let (analytics, options) = (analytics.clone(), options.clone());
        let (sessions, passwords) = (sessions.clone(), passwords.clone());
        starting.spawn(number, move |at_start| async move {
            let house = House { analytics, sessions, passwords, options };
            // A client that disconnects midway is no fault of the server.
            if let Err(error) = talk(caller, at_start, &house).await {
                tracing::debug!("A client of SQL is gone: {error}");
            }
        });
    }
}

/// The state that all connections share.
struct House {
    analytics: Arc<Analytics>,
    sessions: Arc<Sessions>,
    passwords: Arc<Passwords>,
    options: WireOptions,
}

/// The place that a connection holds.
enum Seat {
    /// One of few places for clients without a password yet.
    AtStart { _held: AtStart },
    /// The place of a client.
    Taken { _place: Place },
}

/// Talks to a client until one of both ends it.
async fn talk(caller: Caller, at_start: AtStart, house: &House) -> io::Result<()> {
    let House { analytics, sessions, passwords, options } = house;
    let rules = &options.rules;
    let _counted = analytics.connections().accept();
    let socket = TcpStream::from_std(caller.stream)?;
    let patience = Instant::now() + rules.start_patience();
    let bound = Bound::default();
    let negotiated = negotiate(socket, caller.peer, &bound, &**rules);
    let (mut socket, certificate) = tokio::time::timeout_at(patience, negotiated).await??;
    let mut refusal = caller.refusal.map(|why| ("28000", why));
    if certificate.is_none() && (caller.must_encrypt || rules.needs_encryption()) {
        refusal = refusal.or(Some(("28000", "connections must be encrypted here, as by sslmode=require")));
    }
    let is_private = certificate.is_some() || caller.is_local;
    let handlers = Handlers::new(analytics, sessions, passwords.clone(), certificate.as_deref(), bound);
    let (startup, cancel) = (handlers.startup_handler(), handlers.cancel_handler());
    let (simple, extended) = (handlers.simple_query_handler(), handlers.extended_query_handler());
    let (copy, errors) = (handlers.copy_handler(), handlers.error_handler());
    // Messages have come whose end, a `Sync`, has not.
    let mut is_midway = false;
    let mut seat = Seat::AtStart { _held: at_start };
    loop {
        let is_at_start = matches!(seat, Seat::AtStart { .. });
        let until = is_at_start.then_some(patience);
        let has_user = || is_at_start || handlers.is_user_there();
        let Some(message) = next_message(&mut socket, until, is_midway, &**rules, has_user).await? else {
            return Ok(());
        };
        let is_cancel = matches!(message, PgWireFrontendMessage::CancelRequest(_));
        if is_at_start && !is_cancel {
            if !analytics.connections().has_place(rules.connections_max()) {
                refusal = refusal.or(Some(("53300", "sorry, too many clients already")));
            }
            let (name, peer) = (user_of(&message, &socket), socket.socket_addr());
            let by_name = || rules.refuses(name, peer, is_private);
            refusal = refusal.or_else(|| by_name().map(|why| ("28000", why)));
            if let Some((code, why)) = refusal {
                analytics.connections().refuse();
                return end(&mut socket, code, why).await;
            }
        } else if !is_cancel && !handlers.is_user_there() {
            return end(&mut socket, "28000", &Denied::NoUser.to_string()).await;
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
            () = until_user_is_gone(&handlers), if !is_at_start => {
                return end(&mut socket, "28000", &Denied::NoUser.to_string()).await;
            }
        };
        if let Err(mut error) = done {
            if !is_at_start && !handlers.is_user_there() {
                return end(&mut socket, "28000", &Denied::NoUser.to_string()).await;
            }
            errors.on_error(&socket, &mut error);
            process_error(&mut socket, error, is_extended).await?;
            if is_at_start {
                return Ok(());
            }
        } else if is_at_start && !is_starting(&socket) {
            let Some(place) = analytics.connections().take_place(rules.connections_max()) else {
                analytics.connections().refuse();
                return end(&mut socket, "53300", "sorry, too many clients already").await;
            };
            seat = Seat::Taken { _place: place };
        }
    }
}

/// Waits until the user of a client that is in is gone: a statement could last for long.
async fn until_user_is_gone(handlers: &Handlers) {
    while handlers.is_user_there() {
        tokio::time::sleep(GONE_INTERVAL).await;
    }
}

/// The name that a client gives itself, in this message or in an earlier one.
fn user_of<'m, S>(message: &'m PgWireFrontendMessage, socket: &'m Messages<S>) -> &'m str {
    let named = match message {
        PgWireFrontendMessage::Startup(startup) => startup.parameters.get(METADATA_USER),
        _ => socket.metadata().get(METADATA_USER),
    };
    named.map_or("", String::as_str)
}

fn is_starting<S>(socket: &Messages<S>) -> bool {
    use PgWireConnectionState::{AuthenticationInProgress, AwaitingStartup};
    matches!(socket.state(), AwaitingStartup | AuthenticationInProgress)
}

/// The next message of a client, if it comes in time; `None`: the client is gone, or is to go, as it is once
/// it has no user.
async fn next_message<S>(
    socket: &mut Messages<S>,
    until: Option<Instant>,
    is_midway: bool,
    rules: &dyn Rules,
    has_user: impl Fn() -> bool,
) -> io::Result<Option<PgWireFrontendMessage>> {
    let began = Instant::now();
    // A view lasts until the block, or the statement that was begun, ends.
    let is_idle = !is_midway && socket.transaction_status() == TransactionStatus::Idle;
    let message = loop {
        let limit = match until {
            Some(until) => Some(until),
            None if is_idle => rules.idle_patience().map(|time| began + time),
            None => set::time_of(socket.metadata(), IDLE_IN_BLOCK).map(|time| began + time),
        };
        let look = Instant::now() + IDLE_LOOK;
        match tokio::time::timeout_at(limit.map_or(look, |limit| limit.min(look)), socket.next()).await {
            Ok(Some(Err(error))) => {
                // A malformed message gets an error; earlier messages of the same read are lost.
                if let PgWireError::IoError(error) = &error
                    && error.kind() == io::ErrorKind::InvalidData
                {
                    end(socket, "08P01", &error.to_string()).await?;
                }
                return Err(io::Error::other(error));
            }
            Ok(message) => break message.transpose().map_err(io::Error::other)?,
            Err(_) if !has_user() => {
                end(socket, "28000", &Denied::NoUser.to_string()).await?;
                return Ok(None);
            }
            Err(_) if limit.is_none_or(|limit| Instant::now() < limit) => {}
            Err(_) if until.is_some() => return Ok(None),
            Err(_) if is_idle => {
                end(socket, "57P05", "terminating connection due to idle-session timeout").await?;
                return Ok(None);
            }
            Err(_) => {
                end(socket, "25P03", "terminating connection due to idle-in-transaction timeout").await?;
                return Ok(None);
            }
        }
    };
    Ok(message.filter(|message| !matches!(message, PgWireFrontendMessage::Terminate(_))))
}

/// Tells a client why its connection ends.
async fn end<S>(socket: &mut Messages<S>, code: &str, why: &str) -> io::Result<()> {
    let error = ErrorInfo::new("FATAL".to_owned(), code.to_owned(), why.to_owned());
    socket.send(PgWireBackendMessage::ErrorResponse(error.into())).await?;
    socket.close().await
}

/// A connection, encrypted or not.
type Connection = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// A connection as the messages that come by it.
type Messages<S> = Framed<Bounded<Connection>, PgWireMessageServerCodec<S>>;

fn messages_of<S>(connection: Connection, bound: &Bound, client: DefaultClient<S>) -> Messages<S> {
    let has_one_key = match &connection {
        Either::Left(_) => false,
        Either::Right(encrypted) => {
            encrypted.get_ref().1.protocol_version() == Some(ProtocolVersion::TLSv1_2)
        }
    };
    let connection = Bounded::new(connection, bound.clone(), STALL_PATIENCE);
    let connection = if has_one_key { connection.with_one_key() } else { connection };
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

fn has_resumed(encrypted: &TlsStream<TcpStream>) -> bool {
    encrypted.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
}

/// Negotiates encryption with clients that ask for it first. Returns the connection, and the certificates
/// (PEM) that it is encrypted with, if it is.
async fn negotiate<S>(
    socket: TcpStream,
    address: SocketAddr,
    bound: &Bound,
    rules: &dyn Rules,
) -> io::Result<(Messages<S>, Option<Arc<[u8]>>)> {
    socket.set_nodelay(true)?;
    let mut certificate = None;
    // Each kind of encryption is asked for once: nobody is answered for ever without a password.
    let (mut asked_tls, mut asked_gss) = (false, false);
    let mut messages = messages_of(Either::Left(socket), bound, DefaultClient::new(address, false));
    loop {
        match messages.next().await.transpose().map_err(io::Error::other)? {
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresSsl(_))) => {
                if std::mem::replace(&mut asked_tls, true) {
                    return Err(io::Error::other("encryption was asked for again"));
                }
                let Some(identity) = rules.identity() else {
                    messages.send(PgWireBackendMessage::SslResponse(SslResponse::Refuse)).await?;
                    continue;
                };
                messages.send(PgWireBackendMessage::SslResponse(SslResponse::Accept)).await?;
                let parts = messages.into_parts();
                let Either::Left(socket) = parts.io.into_inner() else {
                    return Err(io::Error::other("a connection is encrypted once"));
                };
                // An attacker in the middle could have injected them, and they would be obeyed as the
                // client's.
                if !parts.read_buf.is_empty() {
                    return Err(io::Error::other("bytes came before the encryption that was asked for"));
                }
                let shaken = TlsAcceptor::from(identity.config).accept(socket).await;
                rules.note_handshake(address, shaken.as_ref().map(has_resumed));
                let encrypted = Box::new(shaken?);
                certificate = Some(identity.pem);
                messages = messages_of(Either::Right(encrypted), bound, DefaultClient::new(address, true));
            }
            Some(PgWireFrontendMessage::SslNegotiation(SslNegotiationMetaMessage::PostgresGss(_))) => {
                if std::mem::replace(&mut asked_gss, true) {
                    return Err(io::Error::other("encryption was asked for again"));
                }
                messages.send(PgWireBackendMessage::GssEncResponse(GssEncResponse::Refuse)).await?;
            }
            _ => {
                messages.set_state(PgWireConnectionState::AwaitingStartup);
                return Ok((messages, certificate));
            }
        }
    }
}
