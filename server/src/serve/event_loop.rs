//! The thread of a worker: an event loop of its own, and the connections that were dealt to it.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::io::ReadBuf;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Notify, mpsc};

use crate::execute::client::Client;
use crate::execute::services::Services;
use crate::execute::table::Table;
use crate::net::encrypted::Encrypted;
use crate::net::handle::ClientHandle;
use crate::net::stream::{Detached, Stream};
use crate::serve::certificate_login;
use crate::serve::connection::Connection;
use crate::serve::worker::Worker;

/// How often a worker looks after its connections.
const CRON: Duration = Duration::from_millis(100);
/// Bytes that are read of a client that is turned away.
const REFUSED_BYTES: usize = 4 << 10;

/// A client that is being served. It is removed from the registers however that ends, so that a stop does not
/// wait for clients that are gone.
struct Served {
    worker: Rc<Worker>,
    id: u64,
    open: Rc<Notify>,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.worker.clients.borrow_mut().remove(&self.id);
        self.worker.server.clients.remove(self.id);
        self.open.notify_one();
    }
}

/// New connections on their way to a worker.
type Arriving = mpsc::UnboundedReceiver<(Detached, Arc<ClientHandle>)>;

/// Serves the connections that come through `incoming` until it is closed and all of them have ended.
pub fn run(
    index: usize,
    server: Arc<Services>,
    table: &'static Table,
    durable: Arc<Notify>,
    incoming: Arriving,
) -> io::Result<()> {
    serve(&runtime()?, index, server, table, durable, None, incoming);
    Ok(())
}

/// As [`run`], of the spare worker: it sleeps until the first connection comes. What it needs then it has
/// from the start: the limit of open files may have been reached by that time.
pub fn run_spare(
    index: usize,
    server: Arc<Services>,
    table: &'static Table,
    durable: Arc<Notify>,
    mut incoming: Arriving,
) -> io::Result<()> {
    let runtime = runtime()?;
    if let Some(first) = incoming.blocking_recv() {
        serve(&runtime, index, server, table, durable, Some(first), incoming);
    }
    Ok(())
}

fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_io().enable_time().event_interval(61).build()
}

fn serve(
    runtime: &Runtime,
    index: usize,
    server: Arc<Services>,
    table: &'static Table,
    durable: Arc<Notify>,
    mut first: Option<(Detached, Arc<ClientHandle>)>,
    mut incoming: Arriving,
) {
    let tasks = tokio::task::LocalSet::new();
    let worker = Rc::new(Worker::new(index, server, table));
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            loop {
                durable.notified().await;
                worker.go_on();
            }
        }
    });
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            loop {
                worker.turn_over.notified().await;
                while worker.end_turn() {
                    // The sockets are looked at before it goes on.
                    tokio::task::yield_now().await;
                }
            }
        }
    });
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            loop {
                worker.server.pubsub.mailbox(index).arrived.notified().await;
                worker.be_told_of_end_of_turn();
            }
        }
    });
    tasks.spawn_local({
        let worker = worker.clone();
        async move {
            let mut ticks = tokio::time::interval(CRON);
            loop {
                ticks.tick().await;
                worker.server.pulse.beat(index);
                // A mode that was switched lets replies out that were held.
                worker.go_on();
                worker.fetch_mail();
                worker.look_after_clients();
                if worker.index == 0 && !worker.server.scripts.running.bars_the_gate() {
                    worker.server.keyspace();
                }
            }
        }
    });
    tasks.block_on(runtime, async {
        let open = Rc::new(Notify::new());
        loop {
            let arrived = match first.take() {
                None => incoming.recv().await,
                first => first,
            };
            let Some((stream, handle)) = arrived else { break };
            match Stream::attach(stream) {
                Ok(stream) => {
                    worker.clients.borrow_mut().insert(handle.id, handle.clone());
                    let served = Served { worker: worker.clone(), id: handle.id, open: open.clone() };
                    tokio::task::spawn_local(serve_client(served, stream, handle));
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot serve a new connection");
                    worker.server.clients.remove(handle.id);
                }
            }
        }
        for client in worker.clients.borrow().values() {
            client.kill();
        }
        while !worker.clients.borrow().is_empty() {
            open.notified().await;
        }
        while worker.end_turn() {}
    });
}

/// Shakes hands with a client, if it speaks TLS, and serves it until it is gone.
async fn serve_client(served: Served, mut stream: Stream, handle: Arc<ClientHandle>) {
    let worker = served.worker.clone();
    if let Err(error) = worker.handshakes.shake(&worker.server, &mut stream, &handle).await {
        tracing::debug!(client = handle.id, %error, "a handshake failed");
        // As below.
        drop(served);
        return;
    }
    if let Some(refusal) = handle.refusal.get() {
        turn_away(&mut stream, refusal).await;
        drop(served);
        return;
    }
    let mut client = Client::new(handle.clone(), !worker.server.acl.needs_password());
    if let Some(certificate) = stream.encrypted().and_then(Encrypted::client_certificate) {
        certificate_login::log_in(&worker.server, worker.table, &mut client, certificate);
    }
    let mut connection = Connection::new(stream, client, worker);
    // Dropped before the connection: a peer that sees the socket closed no longer finds the client.
    let _served = served;
    let end = connection.serve().await;
    tracing::debug!(client = handle.id, ?end, "connection closed");
}

/// Tells a client why it is turned away.
async fn turn_away(stream: &mut Stream, refusal: &str) {
    // Over TLS 1.3 its first request is mostly there already. A socket that closes with something unread is
    // reset, and some systems drop the line then.
    let mut bytes = [0; REFUSED_BYTES];
    let mut request = ReadBuf::new(&mut bytes);
    let _ = poll_fn(|cx| Poll::Ready(stream.poll_read(cx, &mut request))).await;
    // A fresh socket has room for one line.
    let _ = stream.try_write(format!("-DENIED {refusal}\r\n").as_bytes());
}
