//! Accepting connections and dealing them out to the workers, and the main thread's rounds, until the server
//! stops.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;

use crate::config::{ConfigReader, Encryption};
use crate::execute::services::Services;
use crate::metrics::server::MetricsServer;
use crate::net::address::Address;
use crate::net::caller::{Caller, PROTECTED, UNENCRYPTED};
use crate::net::handle::ClientHandle;
use crate::net::listen::{Listeners, Service};
use crate::net::moves::Move;
use crate::net::proxy::{self, Origin};
use crate::net::stream::{Detached, Stream};
use crate::observe::process::PROXIED_MAX;
use crate::serve::rounds::{self, Rounds};
use crate::serve::signals::{self, Caught, Signals};

/// A worker's end for new connections.
pub type Incoming = mpsc::UnboundedSender<(Detached, Arc<ClientHandle>)>;

/// Accepts connections.
pub struct Acceptor {
    server: Arc<Services>,
    listeners: Listeners,
    moves: mpsc::UnboundedReceiver<Move>,
    signals: Signals,
    incoming: Vec<Incoming>,
    metrics: MetricsServer,
    /// The worker that the next connection is dealt to, unless a script occupies it.
    next: usize,
    config: ConfigReader,
    /// Connections of proxies that have not said yet for whom they come.
    proxied: JoinSet<Result<Named, Unnamed>>,
    /// The same, the oldest first.
    asked: VecDeque<AbortHandle>,
    /// When the log told of one that did not say it.
    told: Option<Instant>,
}

/// A proxy that did not say for whom it comes, and why that is known.
struct Unnamed(SocketAddr, io::Error);

/// A connection of which it is known from where it comes.
struct Named {
    service: Service,
    stream: TcpStream,
    peer: Address,
}

impl Acceptor {
    /// Deals what connects to `listeners` out to these workers in turn, to SQL, and to metrics. The last of
    /// the workers is the spare one.
    pub fn new(
        server: Arc<Services>,
        listeners: Listeners,
        moves: mpsc::UnboundedReceiver<Move>,
        signals: Signals,
        incoming: Vec<Incoming>,
        metrics: MetricsServer,
    ) -> Acceptor {
        let config = server.config.reader();
        let (proxied, asked, told) = (JoinSet::new(), VecDeque::new(), None);
        Acceptor {
            server,
            listeners,
            moves,
            signals,
            incoming,
            metrics,
            next: 0,
            config,
            proxied,
            asked,
            told,
        }
    }

    /// Accepts until `Shared::shut_down`, then closes the listeners.
    /// Returns the signals, which may still come.
    pub async fn run(mut self) -> io::Result<Signals> {
        let server = self.server.clone();
        let (mut rounds, mut ticks) = (Rounds::default(), tokio::time::interval(rounds::PAUSE));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Who has none is looked at again with the next tick.
            let metrics = self.metrics.has_room();
            let sql = server.sql().is_some_and(|sql| sql.has_room());
            let has_room = |service| match service {
                Service::Redis | Service::RedisTls => true,
                Service::Metrics => metrics,
                Service::Sql => sql,
            };
            tokio::select! {
                caught = self.signals.next() => {
                    match caught {
                        Caught::Hangup => {
                            signals::look_around();
                            server.tls.look_soon(true);
                        }
                        Caught::End(ending) => {
                            let running = server.shutdown.attempt();
                            if running.is_some() && self.signals.is_second(ending, running) {
                                self.signals.end_now(ending);
                            }
                            let attempt = server.shutdown.begin_by_signal(&server, &server.saver);
                            self.signals.note(ending, Some(attempt));
                        }
                    }
                    continue;
                }
                () = server.stop.notified() => {}
                _ = ticks.tick() => {
                    rounds.make(&server);
                    continue;
                }
                Some(named) = self.proxied.join_next(), if !self.proxied.is_empty() => {
                    match named {
                        Ok(Ok(Named { service, stream, peer })) => {
                            self.admit(service, Stream::Tcp(stream), peer);
                        }
                        Ok(Err(unnamed)) => self.tell_unnamed(&unnamed),
                        // It was ended, for newer ones.
                        Err(_) => {}
                    }
                    continue;
                }
                accepted = poll_fn(|cx| self.listeners.poll_accept(cx, has_room)) => {
                    match accepted {
                        Ok((service, stream, peer)) => self.welcome(service, stream, peer),
                        Err(error) => {
                            // Out of file descriptors, most likely: the pause lets others close theirs.
                            tracing::warn!(%error, "cannot accept a connection");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    }
                    continue;
                }
                Some(Move { old, config, certificates, outcome }) = self.moves.recv() => {
                    let moved = self.listeners.reopen_tcp(&old, &config);
                    if moved.is_ok() {
                        if let Some(certificates) = certificates {
                            server.tls.apply(certificates);
                        }
                        // A password that is set with the addresses is that of the users in a moment.
                        let needs_password = match old.requirepass == config.requirepass {
                            true => server.acl.needs_password(),
                            false => !config.requirepass.is_empty(),
                        };
                        self.listeners.announce(&config, needs_password);
                    }
                    // Who asked waits for it.
                    let _ = outcome.send(moved);
                    continue;
                }
            }
            return Ok(self.signals);
        }
    }

    /// Admits a connection, a proxy's after it has said for whom it comes.
    fn welcome(&mut self, service: Service, stream: Stream, peer: Address) {
        let proxies = &self.config.current().tls.proxies;
        let proxy = peer.tcp().filter(|address| proxies.contains(address.ip()));
        match (stream, proxy) {
            (Stream::Tcp(stream), Some(proxy)) => self.ask_proxy(service, stream, proxy),
            (stream, _) => self.admit(service, stream, peer),
        }
    }

    /// Reads for whom a proxy connects, at the side.
    fn ask_proxy(&mut self, service: Service, stream: TcpStream, proxy: SocketAddr) {
        self.asked.retain(|asked| !asked.is_finished());
        if self.asked.len() as u64 >= PROXIED_MAX
            && let Some(oldest) = self.asked.pop_front()
        {
            oldest.abort();
        }
        let asked = self.proxied.spawn(async move {
            match proxy::read(&stream).await {
                // Proxies say so as well for clients that have no address.
                Ok(Origin::Itself) => Ok(Named { service, stream, peer: Address::Remote(proxy) }),
                Ok(Origin::Client(client)) => Ok(Named { service, stream, peer: Address::Remote(client) }),
                Err(error) => Err(Unnamed(proxy, error)),
            }
        });
        self.asked.push_back(asked);
    }

    /// Tells of a proxy without a header, which is set up otherwise than `proxy-protocol-from` says.
    fn tell_unnamed(&mut self, Unnamed(proxy, error): &Unnamed) {
        let now = Instant::now();
        // Monitors connect, and go without a word.
        let is_silent = error.kind() == io::ErrorKind::UnexpectedEof;
        if is_silent || self.told.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EVERY) {
            return;
        }
        self.told = Some(now);
        tracing::warn!(
            "A connection from {proxy}, which 'proxy-protocol-from' names, was closed: {error}. Such ones \
             begin with a header of version 2 ('send-proxy-v2' in HAProxy)"
        );
    }

    /// The one way in, whatever the port: strangers are turned away while there is no password, and those
    /// who do not encrypt where that is demanded, in the words of the port; and who is silent for long is
    /// looked for.
    fn admit(&mut self, service: Service, stream: Stream, peer: Address) {
        let live = &self.server.live;
        let peer = match peer {
            Address::Tcp(address) if !live.trusts_local_clients() => Address::Remote(address),
            peer => peer,
        };
        let must_encrypt = match self.config.current().tls.required {
            Encryption::No => false,
            Encryption::Remote => !peer.is_local(),
            Encryption::All => !peer.is_unix(),
        };
        // At the ports of metrics and of SQL they are looked at there.
        let is_plain = service == Service::Redis;
        let refusal = if live.is_protected() && !self.server.acl.needs_password() && !peer.is_local() {
            Some(PROTECTED)
        } else {
            (must_encrypt && is_plain).then_some(UNENCRYPTED)
        };
        if let Stream::Tcp(stream) = &stream {
            let _ = stream.set_nodelay(true);
            let keepalive_s = live.tcp_keepalive_s();
            if keepalive_s > 0 {
                let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(keepalive_s));
                let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
            }
        }
        match service {
            Service::Redis | Service::RedisTls => self.deal(service, stream, peer, refusal),
            Service::Metrics | Service::Sql => {
                let Ok(Detached::Tcp(stream)) = stream.detach() else { return };
                let caller = Caller { stream, peer, refusal, must_encrypt };
                match self.server.sql() {
                    _ if service == Service::Metrics => self.metrics.answer(caller),
                    Some(sql) => sql.talk_to(caller),
                    None => {}
                }
            }
        }
    }

    fn deal(&mut self, service: Service, mut stream: Stream, peer: Address, refusal: Option<&'static str>) {
        let server = self.server.clone();
        server.stats.connections.fetch_add(1, Ordering::Relaxed);
        let is_full = server.clients.len() >= server.live.maxclients();
        if is_full || refusal.is_some() {
            server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
        }
        let can_be_told = service == Service::Redis;
        let said = match refusal {
            _ if is_full => Some(FULL.to_owned()),
            Some(refusal) if can_be_told => Some(format!("-DENIED {refusal}\r\n")),
            // The worker says it, after the handshake.
            _ => None,
        };
        if let Some(said) = said {
            if can_be_told {
                // A fresh socket has room for one line.
                let _ = stream.try_write(said.as_bytes());
            }
            return;
        }
        let (Ok(local), Ok(stream)) = (stream.local_address(&peer), stream.detach()) else { return };
        let stream = match (service, stream, server.tls.identity(service)) {
            (Service::RedisTls, Detached::Tcp(stream), Some(identity)) => {
                Detached::Tls(stream, identity.config.clone())
            }
            // The port is about to be closed.
            (Service::RedisTls, _, _) => return,
            (_, stream, _) => stream,
        };
        let worker = self.choose_worker();
        let handle = Arc::new(ClientHandle::new(server.clients.next_id(), peer, local, worker));
        if let Some(refusal) = refusal {
            // It is new.
            let _ = handle.refusal.set(refusal);
        }
        server.clients.insert(handle.clone());
        if let Err(SendError((_, handle))) = self.incoming[worker].send((stream, handle)) {
            tracing::warn!("cannot serve a new connection: worker {worker} has failed");
            server.clients.remove(handle.id);
        }
    }

    /// The next worker that no script has occupied for long; the spare one if there is none. While a script
    /// runs for long, a worker that is silent for as long may wait for it: nobody could end the script there.
    fn choose_worker(&mut self) -> usize {
        let server = &self.server;
        let (running, limit) = (&server.scripts.running, server.live.busy_reply_threshold().max(SILENCE_MIN));
        let is_silent = |worker| running.is_busy() && server.pulse.is_silent(worker, limit);
        let workers = self.incoming.len() - 1;
        let mut in_turn = (0..workers).map(|step| (self.next + step) % workers);
        let is_free = |worker: &usize| !running.is_overdue(*worker) && !is_silent(*worker);
        let Some(worker) = in_turn.find(is_free) else { return workers };
        self.next = (worker + 1) % workers;
        worker
    }
}

/// A worker that looks after its connections ten times a second is not silent before.
const SILENCE_MIN: Duration = Duration::from_millis(500);
/// The log tells of proxies without a header once in that time, at most.
const TOLD_EVERY: Duration = Duration::from_secs(10);
/// The reply to one client too many.
const FULL: &str = "-ERR max number of clients reached\r\n";
