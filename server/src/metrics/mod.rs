//! `metrics-port`: the figures of `INFO` over HTTP, for Prometheus and whatever reads its text format.
//!
//! ```text
//!   thread tarn-metrics: accept ── a task for each connection: one request, one answer, closed
//!                          └─ one too many: the oldest is ended
//! ```
//!
//! It has a thread and an event loop of its own, so that whoever asks costs clients nothing but processor
//! time. A connection lives for seconds at most and there are few, so neither slow nor many ones hurt. HTTP
//! is hyper's; `docs/design/0017` says why.

mod families;
mod page;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::serve::ServeError;
use crate::shared::Shared;

/// Connections at a time; one more ends the oldest.
const CONNECTIONS_MAX: usize = 32;
/// How long a connection may take, from its beginning to the last byte of the answer.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes that the head of a request may have.
const REQUEST_BYTES_MAX: usize = 16 << 10;
/// What the text format is called.
const TEXT_FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The thread that answers. Dropped, it ends.
pub struct MetricsServer {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Answers those who connect to `listeners`; without any there is no thread.
    pub fn start(server: &Arc<Shared>, listeners: Vec<StdListener>) -> Result<MetricsServer, ServeError> {
        let stop = Arc::new(Notify::new());
        if listeners.is_empty() {
            return Ok(MetricsServer { stop, thread: None });
        }
        let failed = |source| ServeError::System { what: "cannot serve metrics", source };
        for address in listeners.iter().filter_map(|listener| listener.local_addr().ok()) {
            tracing::info!("Metrics on http://{address}/metrics");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let listeners: Vec<TcpListener> = {
            let _context = runtime.enter();
            listeners.into_iter().map(TcpListener::from_std).collect::<io::Result<_>>().map_err(failed)?
        };
        let (server, stopped) = (server.clone(), stop.clone());
        let run = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = stopped.notified() => {}
                    () = accept(server, listeners) => {}
                }
            });
        };
        let thread =
            std::thread::Builder::new().name("tarn-metrics".to_owned()).spawn(run).map_err(failed)?;
        Ok(MetricsServer { stop, thread: Some(thread) })
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so itself.
            let _ = thread.join();
        }
    }
}

async fn accept(server: Arc<Shared>, listeners: Vec<TcpListener>) {
    let mut open = VecDeque::new();
    loop {
        let next = poll_fn(|cx| {
            let ready = listeners.iter().map(|listener| listener.poll_accept(cx)).find(Poll::is_ready);
            ready.unwrap_or(Poll::Pending)
        });
        match next.await {
            Ok((stream, peer)) => {
                open.retain(|task: &tokio::task::JoinHandle<()>| !task.is_finished());
                if open.len() == CONNECTIONS_MAX
                    && let Some(oldest) = open.pop_front()
                {
                    oldest.abort();
                }
                open.push_back(tokio::spawn(answer(server.clone(), stream, peer)));
                // Lets it run before others can push it out.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                // Out of file descriptors, most likely: the pause lets others close theirs.
                tracing::warn!(%error, "cannot accept a connection for metrics");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Answers the one request of a connection.
async fn answer(server: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let service = service_fn(|request| {
        let response = respond(&server, &request, peer);
        async { Ok::<_, Infallible>(response) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).half_close(true).max_buf_size(REQUEST_BYTES_MAX);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // What goes wrong is the other end's affair.
    let _ = tokio::time::timeout(CONNECTION_TIME_MAX, connection).await;
}

fn respond(server: &Shared, request: &Request<Incoming>, peer: SocketAddr) -> Response<Full<Bytes>> {
    let text = |status: StatusCode, text: &str| {
        let mut response = Response::new(Full::from(text.to_owned()));
        *response.status_mut() = status;
        response
    };
    if server.live.is_protected() && !peer.ip().is_loopback() {
        return text(StatusCode::FORBIDDEN, PROTECTED);
    }
    match (request.method(), request.uri().path()) {
        (&Method::GET | &Method::HEAD, "/metrics") => {
            let mut response = text(StatusCode::OK, &families::page(server));
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

const fn header(value: &'static str) -> hyper::header::HeaderValue {
    hyper::header::HeaderValue::from_static(value)
}

/// What a stranger is told while there is no password.
const PROTECTED: &str = "Tarn runs in protected mode: no password is set, so it serves only clients on its \
own machine. Set requirepass, or protected-mode no where no stranger can reach this port.\n";
