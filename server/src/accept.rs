//! Accepting connections and dealing them out to the workers, and the main thread's rounds, until the server
//! stops.

use crate::address::Address;
use crate::client::ClientHandle;
use crate::config::Config;
use crate::listen::{ListenError, Listeners};
use crate::rounds::{self, Rounds};
use crate::shared::Shared;
use crate::stream::{Detached, Stream};
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

/// A worker's end for new connections.
pub type Incoming = mpsc::UnboundedSender<(Detached, Arc<ClientHandle>)>;

/// Asks the acceptor to listen elsewhere.
#[derive(Debug)]
pub struct Move {
    /// The configuration with the new `port` and `bind`.
    config: Config,
    /// Where the outcome is awaited.
    outcome: SyncSender<Result<(), ListenError>>,
}

/// The signals that end the server. From the moment they are caught none of them ends it the hard way.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Catches them. REQUIRES: a runtime's context.
    pub fn catch() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// How others reach the acceptor.
#[derive(Debug, Clone)]
pub struct AcceptorHandle(mpsc::UnboundedSender<Move>);

impl AcceptorHandle {
    /// A handle, and where the acceptor finds what is asked of it.
    pub fn new() -> (AcceptorHandle, mpsc::UnboundedReceiver<Move>) {
        let (sender, moves) = mpsc::unbounded_channel();
        (AcceptorHandle(sender), moves)
    }

    /// Listens where `config` says, and nowhere else. On an error everything is as it was; `None` stands for
    /// a server that stops.
    ///
    /// REQUIRES: not the acceptor's own thread.
    pub fn listen_as(&self, config: &Config) -> Result<(), Option<ListenError>> {
        let (outcome, awaited) = sync_channel(1);
        self.0.send(Move { config: config.clone(), outcome }).map_err(|_| None)?;
        awaited.recv().map_err(|_| None)?.map_err(Some)
    }
}

/// Accepts connections.
pub struct Acceptor {
    server: Arc<Shared>,
    listeners: Listeners,
    moves: mpsc::UnboundedReceiver<Move>,
    signals: Signals,
    incoming: Vec<Incoming>,
    /// The worker that the next connection is dealt to.
    next: usize,
}

impl Acceptor {
    /// Deals what connects to `listeners` out to these workers in turn.
    pub fn new(
        server: Arc<Shared>,
        listeners: Listeners,
        moves: mpsc::UnboundedReceiver<Move>,
        signals: Signals,
        incoming: Vec<Incoming>,
    ) -> Acceptor {
        Acceptor { server, listeners, moves, signals, incoming, next: 0 }
    }

    /// Accepts until a signal or [`Shared::shut_down`], then closes the listeners.
    pub async fn run(mut self) -> io::Result<()> {
        let server = self.server.clone();
        let (mut rounds, mut ticks) = (Rounds::default(), tokio::time::interval(rounds::PAUSE));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = self.signals.terminate.recv() => self.stop_by_signal("SIGTERM"),
                _ = self.signals.interrupt.recv() => self.stop_by_signal("SIGINT"),
                () = server.stop.notified() => {}
                _ = ticks.tick() => {
                    rounds.make(&server);
                    continue;
                }
                accepted = poll_fn(|cx| self.listeners.poll_accept(cx)) => {
                    match accepted {
                        Ok((stream, peer)) => self.deal(stream, peer),
                        Err(error) => {
                            // Out of file descriptors, most likely: the pause lets others close theirs.
                            tracing::warn!(%error, "cannot accept a connection");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    continue;
                }
                Some(Move { config, outcome }) = self.moves.recv() => {
                    let moved = self.listeners.reopen_tcp(&config);
                    if moved.is_ok() {
                        let addresses: Vec<String> = self.listeners.addresses().collect();
                        tracing::info!("Listening on {}", addresses.join(", "));
                    }
                    // Who asked waits for it.
                    let _ = outcome.send(moved);
                    continue;
                }
            }
            return Ok(());
        }
    }

    fn stop_by_signal(&self, signal: &str) {
        tracing::info!("Received {signal}");
        self.server.shut_down(self.server.saves_by_rule());
    }

    fn deal(&mut self, stream: Stream, peer: Address) {
        let server = &self.server;
        server.stats.connections.fetch_add(1, Ordering::Relaxed);
        let refusal = if server.clients.len() >= server.live.maxclients() {
            Some(FULL)
        } else if server.live.is_protected() && !peer.is_local() {
            Some(PROTECTED)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
            // A fresh socket has room for one line.
            let _ = stream.try_write(refusal);
            return;
        }
        if let Stream::Tcp(stream) = &stream {
            let _ = stream.set_nodelay(true);
            let keepalive_s = server.live.tcp_keepalive_s();
            if keepalive_s > 0 {
                let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(keepalive_s));
                let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
            }
        }
        let (Ok(local), Ok(stream)) = (stream.local_address(&peer), stream.detach()) else { return };
        let worker = self.next;
        self.next = (worker + 1) % self.incoming.len();
        let handle = Arc::new(ClientHandle::new(server.clients.next_id(), peer, local, worker));
        server.clients.insert(handle.clone());
        let _ = self.incoming[worker].send((stream, handle));
    }
}

/// What one client too many is told.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// What a stranger is told while there is no password.
const PROTECTED: &[u8] =
    b"-DENIED Tarn runs in protected mode: no password is set, so it serves only clients on its \
own machine. Set requirepass, or protected-mode no where no stranger can reach this port.\r\n";
