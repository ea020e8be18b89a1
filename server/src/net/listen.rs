//! Where the server listens: for each of its services a port on some addresses, and a Unix socket.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

use crate::config::Config;
use crate::net::address::Address;
use crate::net::stream::Stream;

/// The port of SQL that is taken if none is named, and given up at a start if it is not free.
const SQL_PORT_DEFAULT: u16 = 5433;

/// The protocol served at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Redis' protocol: `port`.
    Redis,
    /// The same over TLS: `tls-port`.
    RedisTls,
    /// Figures over HTTP: `metrics-port`.
    Metrics,
    /// PostgreSQL's protocol: `sql-port`.
    Sql,
}

impl Service {
    /// All of them.
    pub const ALL: [Service; 4] = [Service::Redis, Service::RedisTls, Service::Metrics, Service::Sql];

    /// The port and the addresses that a configuration has for it.
    pub fn place(self, config: &Config) -> (u16, &[String]) {
        let (port, own) = match self {
            Service::Redis => (config.port, &config.bind),
            Service::RedisTls => (config.tls.port, &config.bind),
            Service::Metrics => (config.metrics_port, &config.metrics_bind),
            Service::Sql => (config.sql_port, &config.sql_bind),
        };
        (port, if own.is_empty() { &config.bind } else { own })
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Service::Redis => "Redis",
            Service::RedisTls => "Redis over TLS",
            Service::Metrics => "metrics",
            Service::Sql => "SQL",
        }
    }

    /// Whether its clients speak Redis' protocol.
    pub fn speaks_redis(self) -> bool {
        matches!(self, Service::Redis | Service::RedisTls)
    }

    fn failed(self, address: String, source: io::Error) -> ListenError {
        match self {
            Service::Redis => ListenError::Tcp { address, source },
            Service::RedisTls => ListenError::Tls { address, source },
            Service::Metrics => ListenError::Metrics { address, source },
            Service::Sql => ListenError::Sql { address, source },
        }
    }
}

/// Why the server cannot listen as it should. One line, which says what to do.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address could not be listened on.
    #[error(
        "cannot listen on {address}: {source}; is another server running there? choose another with --port"
    )]
    Tcp {
        /// The address, or all of them if this machine has none.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An address could not be listened on for TLS.
    #[error(
        "cannot listen for TLS on {address}: {source}; is something else running there? choose another port \
         with --tls-port"
    )]
    Tls {
        /// The address, or all of them if this machine has none.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Metrics cannot be served there.
    #[error(
        "cannot serve metrics on {address}: {source}; is something else running there? choose another port \
         with --metrics-port"
    )]
    Metrics {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// SQL cannot be served there.
    #[error(
        "cannot serve SQL on {address}: {source}; is something else running there? choose another port with \
         --sql-port, or 0 for none"
    )]
    Sql {
        /// The address.
        address: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The Unix socket could not be made.
    #[error(
        "cannot listen on the Unix socket {}: {source}; is another server running there? name another with \
         --unixsocket",
        path.display()
    )]
    Unix {
        /// Its path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The configuration names no place to listen.
    #[error(
        "configured to not listen anywhere: set port or tls-port to more than 0, with an address to bind, or \
         unixsocket"
    )]
    Nowhere,
}

/// All open listeners.
///
/// They belong to the event loop in whose context they were opened.
pub struct Listeners {
    tcp: Vec<Open>,
    unix: Option<UnixSocket>,
    /// The services that there is somebody to serve.
    services: Vec<Service>,
    /// SQL's default port was not free at the start: it is no error if it still is not.
    is_sql_given_up: bool,
    /// The listener that is asked first next time, so that a flood at one does not hold up the others.
    first: usize,
}

/// A listener of a service.
struct Open {
    service: Service,
    address: SocketAddr,
    listener: TcpListener,
}

/// A Unix socket and its file, which goes with it.
struct UnixSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The path as clients' addresses show it.
    name: Arc<str>,
}

/// One address to listen on.
#[derive(Clone)]
struct Wanted {
    service: Service,
    address: SocketAddr,
    /// It may be missing on this machine.
    optional: bool,
}

impl Wanted {
    fn is(&self, open: &Open) -> bool {
        (self.service, self.address) == (open.service, open.address)
    }
}

impl Listeners {
    /// Listens everywhere that the configuration says, for these services.
    pub fn open(config: &Config, services: &[Service]) -> Result<Listeners, ListenError> {
        let mut listeners = Listeners {
            tcp: Vec::new(),
            unix: None,
            services: services.to_vec(),
            is_sql_given_up: false,
            first: 0,
        };
        for &service in services {
            let opened = wanted(config, service).and_then(|wanted| {
                let opened = listen_all(&wanted, config.tcp_backlog)?;
                // Redis may have a Unix socket, which is looked at below.
                if opened.is_empty() && !service.speaks_redis() && service.place(config).0 > 0 {
                    let source = io::Error::from(io::ErrorKind::AddrNotAvailable);
                    return Err(service.failed(service.place(config).1.join(" "), source));
                }
                Ok(opened)
            });
            match opened {
                Ok(opened) => listeners.tcp.extend(opened),
                Err(error) if service == Service::Sql && config.sql_port == SQL_PORT_DEFAULT => {
                    tracing::warn!("No client of PostgreSQL's protocol can connect: {error}");
                    listeners.is_sql_given_up = true;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(path) = config.unixsocket_path() {
            let opened = UnixSocket::open(config, path.clone());
            listeners.unix = Some(opened.map_err(|source| ListenError::Unix { path, source })?);
        }
        let serves_redis = listeners.tcp.iter().any(|open| open.service.speaks_redis());
        if serves_redis || listeners.unix.is_some() {
            return Ok(listeners);
        }
        if config.port == 0 && config.tls.port == 0 || config.bind.is_empty() {
            return Err(ListenError::Nowhere);
        }
        let source = io::Error::from(io::ErrorKind::AddrNotAvailable);
        Err(ListenError::Tcp { address: config.bind.join(" "), source })
    }

    /// Listens where a changed configuration says, `old` before. On an error everything is as it was.
    pub fn reopen_tcp(&mut self, old: &Config, config: &Config) -> Result<(), ListenError> {
        let mut all_wanted: Vec<Wanted> = Vec::new();
        for &service in &self.services {
            let is_given_up = service == Service::Sql && self.is_sql_given_up;
            if is_given_up && service.place(old) == service.place(config) {
                continue;
            }
            all_wanted.extend(wanted(config, service)?);
        }
        let is_missing = |wanted: &&Wanted| !self.tcp.iter().any(|open| wanted.is(open));
        let missing: Vec<Wanted> = all_wanted.iter().filter(is_missing).cloned().collect();
        let is_wanted = |open: &Open| all_wanted.iter().any(|wanted| wanted.is(open));
        match listen_all(&missing, config.tcp_backlog) {
            Ok(new) => {
                self.tcp.retain(is_wanted);
                self.tcp.extend(new);
            }
            Err(error) if error.is_in_use() => {
                // What is in the way may be our own, as the listener of all addresses is in that of one.
                let closed: Vec<Wanted> = (self.tcp.extract_if(.., |open| !is_wanted(open)))
                    .map(|Open { service, address, .. }| Wanted { service, address, optional: false })
                    .collect();
                if closed.is_empty() {
                    return Err(error);
                }
                match listen_all(&missing, config.tcp_backlog) {
                    Ok(new) => self.tcp.extend(new),
                    Err(error) => {
                        self.put_back(&closed, config.tcp_backlog);
                        return Err(error);
                    }
                }
            }
            Err(error) => return Err(error),
        }
        self.is_sql_given_up &= !self.tcp.iter().any(|open| open.service == Service::Sql);
        Ok(())
    }

    fn put_back(&mut self, closed: &[Wanted], backlog: u32) {
        for wanted in closed {
            match listen(wanted, backlog) {
                Ok(open) => self.tcp.push(open),
                Err(error) => tracing::warn!(%error, "cannot listen on {} any more", wanted.address),
            }
        }
    }

    /// Says in the log where it listens, and what for. `needs_password`: whether clients have to say one.
    pub fn announce(&self, config: &Config, needs_password: bool) {
        let has_tls = !config.tls.has_no_certificate();
        for Open { service, address, .. } in &self.tcp {
            match service {
                Service::Redis => tracing::info!("Listening on {address}"),
                Service::RedisTls => tracing::info!("Listening on {address} for TLS"),
                Service::Metrics if config.tls.metrics => {
                    tracing::info!("Metrics on https://{address}/metrics");
                }
                Service::Metrics => tracing::info!("Metrics on http://{address}/metrics"),
                Service::Sql if has_tls && config.sql_must_encrypt() => {
                    tracing::info!("Listening on {address} for SQL, encrypted");
                }
                Service::Sql if has_tls => {
                    tracing::info!("Listening on {address} for SQL, encrypted for those who ask")
                }
                Service::Sql => tracing::info!("Listening on {address} for SQL"),
            }
        }
        if let Some(unix) = &self.unix {
            tracing::info!("Listening on {}", unix.name);
        }
        let open_to_strangers = self.tcp.iter().any(|open| !open.address.ip().is_loopback());
        if open_to_strangers && !config.protected_mode && !needs_password {
            tracing::warn!(
                "Whoever reaches these addresses has all data: there is no password, and protected-mode is \
                 off"
            );
        }
    }

    /// Waits for a connection to a service that has room; the address is that of its other end. What comes to
    /// others waits in the backlog of the system.
    pub fn poll_accept(
        &mut self,
        cx: &mut Context<'_>,
        has_room: impl Fn(Service) -> bool,
    ) -> Poll<io::Result<(Service, Stream, Address)>> {
        // The Unix socket is one more of them, at the end, and each begins in turn.
        let count = self.tcp.len() + usize::from(self.unix.is_some());
        for number in 0..count {
            let at = (self.first + number) % count;
            let Some(Open { service, listener, .. }) = self.tcp.get(at) else {
                if let Some(unix) = &self.unix
                    && let Poll::Ready(accepted) = unix.listener.poll_accept(cx)
                {
                    self.first = at + 1;
                    let (stream, address) = (accepted?.0, Address::Unix(unix.name.clone()));
                    return Poll::Ready(Ok((Service::Redis, Stream::Unix(stream), address)));
                }
                continue;
            };
            if has_room(*service)
                && let Poll::Ready(accepted) = listener.poll_accept(cx)
            {
                self.first = at + 1;
                let (stream, address) = accepted?;
                return Poll::Ready(Ok((*service, Stream::Tcp(stream), Address::Tcp(address))));
            }
        }
        Poll::Pending
    }
}

impl ListenError {
    fn is_in_use(&self) -> bool {
        let (ListenError::Tcp { source, .. }
        | ListenError::Tls { source, .. }
        | ListenError::Metrics { source, .. }
        | ListenError::Sql { source, .. }) = self
        else {
            return false;
        };
        source.kind() == io::ErrorKind::AddrInUse
    }
}

impl UnixSocket {
    /// Takes the place of a socket that nobody listens on any more, and of nothing else.
    fn open(config: &Config, path: PathBuf) -> io::Result<UnixSocket> {
        let address = SockAddr::unix(&path)?;
        let socket = || Socket::new(Domain::UNIX, Type::STREAM, None);
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            let probe = socket()?;
            probe.set_nonblocking(true)?;
            match probe.connect(&address) {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                    std::fs::remove_file(&path)?;
                }
                _ => return Err(io::ErrorKind::AddrInUse.into()),
            }
        }
        let socket = socket()?;
        socket.bind(&address)?;
        if config.unixsocket_mode != 0 {
            let permissions = std::fs::Permissions::from_mode(config.unixsocket_mode);
            std::fs::set_permissions(&path, permissions)?;
        }
        socket.listen(backlog_of(config.tcp_backlog))?;
        socket.set_nonblocking(true)?;
        let listener = UnixListener::from_std(socket.into())?;
        let name = String::from_utf8_lossy(&config.unixsocket).into();
        Ok(UnixSocket { listener, path, name })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        // Who removed it before us has done what we would.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// The addresses of a service at its port, each once.
fn wanted(config: &Config, service: Service) -> Result<Vec<Wanted>, ListenError> {
    let mut wanted: Vec<Wanted> = Vec::new();
    let (port, names) = service.place(config);
    if port == 0 {
        return Ok(wanted);
    }
    for name in names {
        let (name, optional) = match name.strip_prefix('-') {
            Some(name) => (name, true),
            None => (name.as_str(), false),
        };
        let host = match name {
            "*" => "0.0.0.0",
            "::*" => "::",
            name => name,
        };
        let resolved = (host, port).to_socket_addrs();
        let first =
            resolved.and_then(|mut all| all.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
        match first {
            Ok(address) if wanted.iter().any(|other| other.address == address) => {}
            Ok(address) => wanted.push(Wanted { service, address, optional }),
            Err(_) if optional => {}
            Err(source) => return Err(service.failed(format!("{host}:{port}"), source)),
        }
    }
    Ok(wanted)
}

/// Listens on all of them, but for those that this machine may and does lack.
fn listen_all(wanted: &[Wanted], backlog: u32) -> Result<Vec<Open>, ListenError> {
    let mut opened = Vec::new();
    for wanted in wanted {
        match listen(wanted, backlog) {
            Ok(open) => opened.push(open),
            Err(source) if wanted.optional && is_missing(&source) => {}
            Err(source) => return Err(wanted.service.failed(wanted.address.to_string(), source)),
        }
    }
    Ok(opened)
}

fn listen(wanted: &Wanted, backlog: u32) -> io::Result<Open> {
    let &Wanted { service, address, .. } = wanted;
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog_of(backlog))?;
    socket.set_nonblocking(true)?;
    Ok(Open { service, address, listener: TcpListener::from_std(socket.into())? })
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Invocation, parse_serve_args};
    use std::ffi::OsString;
    use std::future::poll_fn;

    #[test]
    fn neither_tcp_nor_the_unix_socket_starves_the_other() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.expect("a runtime can be made");
        let folder = tempfile::tempdir().expect("a directory can be made");
        let path = folder.path().join("socket");
        let port = free_port().to_string();
        let words = ["--port", &port, "--bind", "127.0.0.1", "--unixsocket", path.to_str().expect("UTF-8")];
        let Ok(Invocation::Serve(loaded)) = parse_serve_args(words.map(OsString::from).to_vec()) else {
            panic!("it is to serve");
        };
        let config = &loaded.config;
        runtime.block_on(async {
            let mut listeners = Listeners::open(config, &[Service::Redis]).expect("both are free");
            let tcp: Vec<_> = (0..8)
                .map(|_| std::net::TcpStream::connect(("127.0.0.1", config.port)).expect("it listens"))
                .collect();
            let unix: Vec<_> =
                (0..8).map(|_| std::os::unix::net::UnixStream::connect(&path).expect("it listens")).collect();
            let mut kinds = Vec::new();
            for _ in 0..16 {
                let accepted = poll_fn(|cx| listeners.poll_accept(cx, |_| true)).await;
                kinds.push(matches!(accepted.expect("somebody connects").1, Stream::Unix(_)));
            }
            assert!(kinds.windows(2).all(|pair| pair[0] != pair[1]), "{kinds:?}");
            drop((tcp, unix));
        });
    }

    fn free_port() -> u16 {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("there are free ports");
        listener.local_addr().expect("it is bound").port()
    }
}
