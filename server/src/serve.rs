//! The life of a server: listen, load, serve, stop.
//!
//! ```text
//!   main thread: bind ── accept ─────────────────────── signal or SHUTDOWN ── stop workers ── close the log
//!   loader:               └─ open the log, replay ─ doors open
//!   workers:              └─ LOADING … ───────────┴─ serve ─────────────────────────────── close connections
//! ```

use crate::apply;
use crate::client::ClientHandle;
use crate::config::{AppendFsync, Config, ConfigStore, Loaded};
use crate::logging;
use crate::process;
use crate::shared::{OpenLog, Shared, Store};
use crate::worker;
use parking_lot::Mutex;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tarn_engine::engine::{Background, Engine};
use tarn_engine::io::OsDisk;
use tarn_engine::recovery;
use tarn_engine::{LogError, LogOptions, OpenError};
use thiserror::Error;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

/// Why the server did not start, or had to stop. One line, which says what to do.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The data directory is missing or cannot be used.
    #[error("cannot use data directory {}: {source}; create it, or name another with --dir", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory of the log cannot be made or used; most often a file of that name is in its place.
    #[error(
        "cannot use log directory {}: {source}; make room for it, or name others with --log-dir",
        path.display()
    )]
    LogDirectory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file for messages cannot be written.
    #[error("cannot write messages to {}: {source}; name another file with --logfile", path.display())]
    LogFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No address could be listened on.
    #[error(
        "cannot listen on {address}: {source}; is another server running there? choose another with --port"
    )]
    Listen {
        /// The address.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The log could not be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The log could not be closed: what was written last may be lost.
    #[error("the log was not closed in order: {0}")]
    Close(#[from] LogError),
    /// The system refused something that a server cannot do without.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Serves until a signal or `SHUTDOWN`. `Ok`: everything that was acknowledged is on disk.
pub fn serve(loaded: Loaded) -> Result<(), ServeError> {
    let config = &loaded.config;
    prepare_directories(config)?;
    logging::init(config).map_err(|(path, source)| ServeError::LogFile { path, source })?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let listeners = bind_all(config)?;
    let threads = config.threads();
    let store = ConfigStore::new(loaded.config.clone(), loaded.file.clone());
    let server = Arc::new(Shared::new(Arc::new(store)));
    apply::set_encoding_limits(config);
    fit_clients(&server, config);
    let durable: Vec<Arc<Notify>> = (0..threads).map(|_| Arc::default()).collect();

    let mut incoming = Vec::with_capacity(threads);
    let mut workers: Vec<JoinHandle<io::Result<()>>> = Vec::with_capacity(threads);
    for index in 0..threads {
        let (sender, receiver) = mpsc::unbounded_channel();
        incoming.push(sender);
        let (server, durable) = (server.clone(), durable[index].clone());
        let run = move || worker::run(index, server, durable, receiver);
        workers.push(spawn(format!("tarn-worker-{index}"), run)?);
    }
    for listener in &listeners {
        if let Ok(address) = listener.local_addr() {
            tracing::info!("Listening on {address}");
        }
    }
    let loader = {
        let (server, config) = (server.clone(), config.clone());
        spawn("tarn-loader".to_owned(), move || {
            let loaded = load(&server, &config, &durable);
            if loaded.is_err() {
                server.shut_down();
            }
            loaded
        })?
    };

    accept_until_stopped(&server, listeners, incoming)?;
    tracing::info!("Stopping: no new connections, closing the open ones");
    for worker in workers {
        join(worker).map_err(|source| ServeError::System { what: "a worker failed", source })?;
    }
    let background = join(loader)?;
    drop(background);
    if let Some(Store { log: Some(log), .. }) = server.store()
        && let Some(log) = log.log.lock().take()
    {
        log.close()?;
        tracing::info!("The log is on disk. Bye");
    }
    Ok(())
}

/// Lowers `maxclients` to what the limit of open files allows, if that cannot be raised.
fn fit_clients(server: &Shared, config: &Config) {
    let Err(fit) = process::allow_clients(config.maxclients) else { return };
    tracing::warn!(
        "only {fit} clients fit the limit of open files, not {}: see ulimit -n",
        config.maxclients
    );
    let lowered = server.config.set(&[("maxclients", &fit.max(1).to_string())]);
    match lowered {
        Ok(_) => server.live.update(&server.config.snapshot()),
        Err(error) => tracing::warn!("{error}"),
    }
}

fn prepare_directories(config: &Config) -> Result<(), ServeError> {
    let failed = |path: &PathBuf| {
        let path = path.clone();
        move |source| ServeError::Directory { path, source }
    };
    if config.dir_is_default() {
        std::fs::create_dir_all(&config.dir).map_err(failed(&config.dir))?;
    }
    let metadata = std::fs::metadata(&config.dir).map_err(failed(&config.dir))?;
    if !metadata.is_dir() {
        return Err(failed(&config.dir)(io::Error::from(io::ErrorKind::NotADirectory)));
    }
    if config.appendonly {
        for path in config.log_dirs() {
            std::fs::create_dir_all(&path).map_err(|source| ServeError::LogDirectory { path, source })?;
        }
    }
    Ok(())
}

/// Listens on every address of `bind`. An address with a leading `-` may be missing on this machine.
fn bind_all(config: &Config) -> Result<Vec<TcpListener>, ServeError> {
    let mut listeners = Vec::new();
    for name in &config.bind {
        let (name, optional) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let host = match name {
            "*" => "0.0.0.0",
            "::*" => "::",
            name => name,
        };
        let address = if host.contains(':') {
            format!("[{host}]:{}", config.port)
        } else {
            format!("{host}:{}", config.port)
        };
        let bound = address
            .to_socket_addrs()
            .and_then(|mut addresses| addresses.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
            .and_then(|address| listen(address, config.tcp_backlog));
        match bound {
            Ok(listener) => listeners.push(listener),
            Err(source) if optional && is_missing(&source) => {}
            Err(source) => return Err(ServeError::Listen { address, source }),
        }
    }
    if listeners.is_empty() {
        let source = io::Error::from(io::ErrorKind::AddrNotAvailable);
        return Err(ServeError::Listen { address: config.bind.join(" "), source });
    }
    Ok(listeners)
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

type Incoming = mpsc::UnboundedSender<(TcpStream, Arc<ClientHandle>)>;

fn accept_until_stopped(
    server: &Arc<Shared>,
    listeners: Vec<TcpListener>,
    incoming: Vec<Incoming>,
) -> Result<(), ServeError> {
    let failed = |source| ServeError::System { what: "cannot accept connections", source };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    let tasks = tokio::task::LocalSet::new();
    let dealer = std::rc::Rc::new(Dealer { server: server.clone(), incoming, next: std::cell::Cell::new(0) });
    tasks.block_on(&runtime, async {
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        for listener in listeners {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
            tokio::task::spawn_local(accept(listener, dealer.clone()));
        }
        tokio::select! {
            _ = terminate.recv() => tracing::info!("Received SIGTERM"),
            _ = interrupt.recv() => tracing::info!("Received SIGINT"),
            () = server.stop.notified() => {}
        }
        Ok(())
    })
}

async fn accept(listener: tokio::net::TcpListener, dealer: std::rc::Rc<Dealer>) {
    loop {
        match listener.accept().await {
            Ok((stream, address)) => dealer.deal(stream, address),
            Err(error) => {
                // Out of file descriptors, most likely: the pause lets others close theirs.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// What a stranger is told while there is no password.
const PROTECTED: &[u8] =
    b"-DENIED Tarn runs in protected mode: no password is set, so it serves only clients on its \
own machine. Set requirepass, or protected-mode no where no stranger can reach this port.\r\n";

/// Deals new connections out to the workers in turn.
struct Dealer {
    server: Arc<Shared>,
    incoming: Vec<Incoming>,
    next: std::cell::Cell<usize>,
}

impl Dealer {
    fn deal(&self, stream: tokio::net::TcpStream, address: SocketAddr) {
        self.server.stats.connections.fetch_add(1, Ordering::Relaxed);
        if self.server.clients.len() >= self.server.live.maxclients() {
            self.server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
            // A fresh socket has room for one line.
            let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
            return;
        }
        if self.server.live.is_protected() && !address.ip().is_loopback() {
            self.server.stats.rejected_connections.fetch_add(1, Ordering::Relaxed);
            let _ = stream.try_write(PROTECTED);
            return;
        }
        let worker = self.next.get();
        self.next.set((worker + 1) % self.incoming.len());
        let _ = stream.set_nodelay(true);
        let keepalive_s = self.server.live.tcp_keepalive_s();
        if keepalive_s > 0 {
            let keepalive = socket2::TcpKeepalive::new().with_time(Duration::from_secs(keepalive_s));
            let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive);
        }
        let (Ok(local), Ok(stream)) = (stream.local_addr(), stream.into_std()) else { return };
        let handle = Arc::new(ClientHandle::new(self.server.clients.next_id(), address, local, worker));
        self.server.clients.insert(handle.clone());
        let _ = self.incoming[worker].send((stream, handle));
    }
}

/// Opens the log, replays it and opens the doors.
fn load(server: &Shared, config: &Config, workers: &[Arc<Notify>]) -> Result<Option<Background>, ServeError> {
    let began = Instant::now();
    if !config.appendonly {
        let (engine, background) = Engine::unlogged(config.databases, config.threads(), server.clock.clone());
        server.set_store(Store { engine, log: None });
        tracing::info!("Ready to accept connections");
        return Ok(Some(background));
    }
    let mut options = LogOptions::new(config.log_dirs());
    options.mode = apply::sync_mode(config.appendfsync);
    options.flushes_in_flight = config.log_flushes_in_flight;
    let opened =
        recovery::open(Arc::new(OsDisk), options, config.databases, config.threads(), &server.loading)?;
    let seconds = began.elapsed().as_secs_f64();
    tracing::info!("Loaded {} records in {seconds:.3} s", opened.replayed.records);
    if opened.replayed.misfits > 0 {
        tracing::warn!("{} records did not fit what they met and were skipped", opened.replayed.misfits);
    }
    let durable = opened.log.durable();
    for notify in workers {
        let notify = notify.clone();
        durable.subscribe(Box::new(move || notify.notify_one()));
    }
    let appender = Some(opened.log.appender());
    let (engine, background) =
        Engine::new(opened.tables, config.threads(), appender, opened.validity, server.clock.clone());
    let always = AtomicBool::new(config.appendfsync == AppendFsync::Always);
    let log = OpenLog { log: Mutex::new(Some(opened.log)), durable, always };
    server.set_store(Store { engine, log: Some(log) });
    apply::after_loading(server);
    tracing::info!("Ready to accept connections");
    Ok(Some(background))
}

fn spawn<T: Send + 'static>(
    name: String,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, ServeError> {
    let spawned = std::thread::Builder::new().name(name).spawn(run);
    spawned.map_err(|source| ServeError::System { what: "cannot start a thread", source })
}

fn join<T>(thread: JoinHandle<T>) -> T {
    match thread.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
