//! `metrics-port`: the figures of `INFO` over HTTP, for Prometheus and whatever reads its text format.
//!
//! ```text
//!   acceptor ──> thread tarn-metrics ── a task for each connection: one request, one answer, closed
//!                          └─ one too many: the oldest is ended
//! ```
//!
//! It has a thread and an event loop of its own, so that a request costs clients nothing but processor
//! time. A connection lives for seconds at most and there are few, so neither slow nor many ones hurt. HTTP
//! is hyper's; `docs/design/0017` says why.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine as _;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::HandshakeKind;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::families;
use crate::acl::{Context, DEFAULT, Reason, User, client_at_port};
use crate::config::MetricsAuth;
use crate::execute::services::Services;
use crate::execute::table::Table;
use crate::net::address::Address;
use crate::net::caller::{Caller, UNENCRYPTED};
use crate::net::listen::Service;

/// Connections at a time; one more ends the oldest.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may take, from its beginning to the last byte of the answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes that the head of a request may have.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// The content type of the text format.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Who answers, on a thread that is there from the first request on. Dropped, it ends.
pub struct MetricsServer {
    server: Arc<Services>,
    /// All commands, for the names of their counters.
    table: &'static Table,
    answering: Option<Answering>,
}

/// The thread, and how it gets its callers; it ends when it gets no more.
struct Answering {
    callers: mpsc::Sender<Caller>,
    thread: JoinHandle<()>,
}

impl MetricsServer {
    /// Nobody asks yet.
    pub fn new(server: Arc<Services>, table: &'static Table) -> MetricsServer {
        MetricsServer { server, table, answering: None }
    }

    /// Whether one more caller can be answered soon.
    pub fn has_room(&self) -> bool {
        self.answering.as_ref().is_none_or(|answering| answering.callers.capacity() > 0)
    }

    /// Answers a caller soon.
    pub fn answer(&mut self, caller: Caller) {
        if self.answering.is_none() {
            match start(self.server.clone(), self.table) {
                Ok(answering) => self.answering = Some(answering),
                Err(error) => return tracing::warn!("cannot serve metrics: {error}"),
            }
        }
        if let Some(answering) = &self.answering {
            // The acceptor has seen that there is room. Behind a proxy others may have come first: this one
            // is closed.
            let _ = answering.callers.try_send(caller);
        }
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        if let Some(Answering { callers, thread }) = self.answering.take() {
            drop(callers);
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

fn start(server: Arc<Services>, table: &'static Table) -> io::Result<Answering> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (callers, incoming) = mpsc::channel(CONNECTIONS_MAX);
    let run = move || runtime.block_on(serve(server, table, incoming));
    let thread = std::thread::Builder::new().name("tarn-metrics".to_owned()).spawn(run)?;
    Ok(Answering { callers, thread })
}

async fn serve(server: Arc<Services>, table: &'static Table, mut incoming: mpsc::Receiver<Caller>) {
    let mut open = VecDeque::new();
    while let Some(caller) = incoming.recv().await {
        open.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
        if open.len() == CONNECTIONS_MAX
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        open.push_back(tokio::spawn(answer(server.clone(), table, caller)));
        // Lets it run before others can push it out.
        tokio::task::yield_now().await;
    }
}

/// Answers the one request of a connection.
async fn answer(server: Arc<Services>, table: &'static Table, caller: Caller) {
    let Ok(stream) = TcpStream::from_std(caller.stream) else { return };
    let until = Instant::now() + CONNECTION_TIME_MAX;
    let Some(identity) = server.tls.identity(Service::Metrics) else {
        let refusal = caller.refusal.or(caller.must_encrypt.then_some(UNENCRYPTED));
        return talk(&server, table, TokioIo::new(stream), &caller.peer, refusal, until).await;
    };
    let acceptor = TlsAcceptor::from(identity.config.clone());
    let under_way = server.tls.begin_handshake();
    let shaken = tokio::time::timeout_at(until, acceptor.accept(stream)).await;
    drop(under_way);
    let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let has_resumed =
        |stream: &TlsStream<TcpStream>| stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed);
    server.tls.note_handshake(&caller.peer, Service::Metrics, shaken.as_ref().map(has_resumed));
    if let Ok(stream) = shaken {
        talk(&server, table, TokioIo::new(stream), &caller.peer, caller.refusal, until).await;
    }
}

/// Talks HTTP over a connection, encrypted or not, until that time at the latest.
async fn talk<S: hyper::rt::Read + hyper::rt::Write + Unpin>(
    server: &Services,
    table: &'static Table,
    stream: S,
    peer: &Address,
    refusal: Option<&'static str>,
    until: Instant,
) {
    let service = service_fn(|request| {
        let response = respond(server, table, &request, refusal, peer);
        async { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).half_close(true).max_buf_size(REQUEST_BYTES_MAX);
    let connection = http.serve_connection(stream, service);
    // What goes wrong is the other end's affair.
    let _ = tokio::time::timeout_at(until, connection).await;
}

fn respond(
    server: &Services,
    table: &Table,
    request: &Request<Incoming>,
    refusal: Option<&'static str>,
    peer: &Address,
) -> Response<Full<Bytes>> {
    let text = |status: StatusCode, text: &str| {
        let mut response = Response::new(Full::from(text.to_owned()));
        *response.status_mut() = status;
        response
    };
    if let Some(refusal) = refusal {
        return text(StatusCode::FORBIDDEN, &format!("{refusal}\n"));
    }
    if !may_read(server, request, peer) {
        let mut response = text(StatusCode::UNAUTHORIZED, NO_PASSWORD);
        response.headers_mut().insert(WWW_AUTHENTICATE, const { header("Basic realm=\"tarn\"") });
        return response;
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = text(StatusCode::OK, &families::page(server, table));
            response.headers_mut().insert(CONTENT_TYPE, const { header(TEXT_FORMAT) });
            response
        }
        (_, "/metrics") => {
            let mut response = text(StatusCode::METHOD_NOT_ALLOWED, "Only GET and HEAD\n");
            response.headers_mut().insert(ALLOW, const { header("GET, HEAD") });
            response
        }
        _ => text(StatusCode::NOT_FOUND, "Tarn's metrics are at /metrics\n"),
    }
}

const NO_PASSWORD: &str =
    "These metrics take a user that may run INFO, and its password, by HTTP's basic scheme\n";

/// Whether the request names a user that may run `INFO`, with its password, or needs none.
fn may_read(server: &Services, request: &Request<Incoming>, peer: &Address) -> bool {
    let asks = match server.config.snapshot().metrics_auth {
        MetricsAuth::No => false,
        MetricsAuth::Remote => !peer.is_local(),
        MetricsAuth::All => true,
    };
    let catalog = server.acl.catalog();
    let may_info = |user: &User| {
        let info = catalog.find(b"info");
        info.is_some_and(|info| user.selectors().any(|own| own.allows_command(catalog, info, None)))
    };
    // Who says nothing is the user default, if that one needs no password.
    let is_open = |user: &Arc<User>| user.is_enabled() && user.needs_no_password() && may_info(user);
    if !asks || server.acl.user(DEFAULT).is_some_and(|default| is_open(&default)) {
        return true;
    }
    let Some(given) = request.headers().get(AUTHORIZATION) else { return false };
    let given = basic(given.as_bytes()).unwrap_or_default();
    let colon = given.iter().position(|byte| *byte == b':');
    let name = &given[..colon.unwrap_or(given.len())];
    let user = colon.and_then(|colon| server.acl.authenticate(name, &given[colon + 1..]));
    let is_right = user.as_ref().is_some_and(|user| may_info(user));
    if !is_right {
        let (now_ms, client) = (server.clock.unix_ms(), client_at_port(peer, "metrics", name));
        let named = (&b"metrics"[..], name);
        server.acl.log.push(now_ms, Reason::Auth, Context::TopLevel, named, client);
    }
    if user.is_none() {
        // The connection ends in any case.
        server.attempts.note_wrong(peer, Service::Metrics);
    }
    is_right
}

/// The user and the password, with a colon between them, of the basic scheme.
fn basic(header: &[u8]) -> Option<Vec<u8>> {
    let (scheme, encoded) = header.split_at_checked(6)?;
    let encoded = scheme.eq_ignore_ascii_case(b"basic ").then_some(encoded.trim_ascii())?;
    base64::engine::general_purpose::STANDARD.decode(encoded).ok()
}

const fn header(value: &'static str) -> hyper::header::HeaderValue {
    hyper::header::HeaderValue::from_static(value)
}
