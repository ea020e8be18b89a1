//! Where the server listens: the addresses of `bind` at `port`, and a Unix socket.

use crate::address::Address;
use crate::config::Config;
use crate::stream::Stream;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};

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
        /// What the system said.
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
        /// What the system said.
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
        /// What the system said.
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
        /// What the system said.
        source: io::Error,
    },
    /// The configuration names no place to listen.
    #[error(
        "configured to not listen anywhere: set port to more than 0, with an address to bind, or unixsocket"
    )]
    Nowhere,
}

/// All open listeners.
///
/// They belong to the event loop in whose context they were opened.
pub struct Listeners {
    tcp: Vec<(SocketAddr, TcpListener)>,
    unix: Option<UnixSocket>,
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
    address: SocketAddr,
    /// It may be missing on this machine.
    optional: bool,
}

impl Listeners {
    /// Listens everywhere that the configuration says.
    pub fn open(config: &Config) -> Result<Listeners, ListenError> {
        let wanted = wanted(config, config.port).map_err(not_listening)?;
        let tcp = listen_all(&wanted, config.tcp_backlog)?;
        let unix = match config.unixsocket_path() {
            None => None,
            Some(path) => {
                let opened = UnixSocket::open(config, path.clone());
                Some(opened.map_err(|source| ListenError::Unix { path, source })?)
            }
        };
        if !tcp.is_empty() || unix.is_some() {
            return Ok(Listeners { tcp, unix });
        }
        if config.port == 0 || config.bind.is_empty() {
            return Err(ListenError::Nowhere);
        }
        let source = io::Error::from(io::ErrorKind::AddrNotAvailable);
        Err(ListenError::Tcp { address: config.bind.join(" "), source })
    }

    /// Listens where a changed `port` or `bind` says. On an error everything is as it was.
    pub fn reopen_tcp(&mut self, config: &Config) -> Result<(), ListenError> {
        let wanted = wanted(config, config.port).map_err(not_listening)?;
        let is_wanted = |address: SocketAddr| wanted.iter().any(|wanted| wanted.address == address);
        let is_open = |wanted: &Wanted| self.tcp.iter().any(|&(address, _)| address == wanted.address);
        let missing: Vec<Wanted> = wanted.iter().filter(|wanted| !is_open(wanted)).cloned().collect();
        match listen_all(&missing, config.tcp_backlog) {
            Ok(new) => {
                self.tcp.retain(|&(address, _)| is_wanted(address));
                self.tcp.extend(new);
                Ok(())
            }
            Err(error)
                if error.is_in_use() && self.tcp.iter().any(|(open, _)| open.port() == config.port) =>
            {
                // What is in the way may be our own, as the listener of all addresses is in that of one.
                let old = self.tcp.extract_if(.., |&mut (address, _)| !is_wanted(address));
                let old: Vec<SocketAddr> = old.map(|(address, _)| address).collect();
                match listen_all(&missing, config.tcp_backlog) {
                    Ok(new) => {
                        self.tcp.extend(new);
                        Ok(())
                    }
                    Err(error) => {
                        self.put_back(&old, config.tcp_backlog);
                        Err(error)
                    }
                }
            }
            Err(error) => Err(error),
        }
    }

    fn put_back(&mut self, addresses: &[SocketAddr], backlog: u32) {
        for &address in addresses {
            match listen(address, backlog) {
                Ok(listener) => self.tcp.push((address, listener)),
                Err(error) => tracing::warn!(%error, "cannot listen on {address} any more"),
            }
        }
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = String> {
        let tcp = self.tcp.iter().map(|(address, _)| address.to_string());
        tcp.chain(self.unix.iter().map(|unix| unix.name.to_string()))
    }

    /// Waits for a connection; the address is that of its other end.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Address)>> {
        for (_, listener) in &self.tcp {
            if let Poll::Ready(accepted) = listener.poll_accept(cx) {
                return Poll::Ready(
                    accepted.map(|(stream, address)| (Stream::Tcp(stream), Address::Tcp(address))),
                );
            }
        }
        if let Some(unix) = &self.unix
            && let Poll::Ready(accepted) = unix.listener.poll_accept(cx)
        {
            let address = Address::Unix(unix.name.clone());
            return Poll::Ready(accepted.map(|(stream, _)| (Stream::Unix(stream), address)));
        }
        Poll::Pending
    }
}

impl ListenError {
    fn is_in_use(&self) -> bool {
        matches!(self, ListenError::Tcp { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
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

/// Listens at `metrics-port`, on the addresses of `bind`; nowhere if it is 0.
pub fn open_metrics(config: &Config) -> Result<Vec<StdListener>, ListenError> {
    let failed = |(address, source)| ListenError::Metrics { address, source };
    open_at(config, config.metrics_port).map_err(failed)
}

/// Listens at `sql-port`, on the addresses of `bind`; nowhere if it is 0.
pub fn open_sql(config: &Config) -> Result<Vec<StdListener>, ListenError> {
    let failed = |(address, source)| ListenError::Sql { address, source };
    open_at(config, config.sql_port).map_err(failed)
}

/// Listens at a port, on the addresses of `bind`; or an address where that is not possible, and why.
fn open_at(config: &Config, port: u16) -> Result<Vec<StdListener>, (String, io::Error)> {
    let wanted = wanted(config, port)?;
    let mut listeners = Vec::new();
    for Wanted { address, optional } in wanted {
        match bind(address, config.tcp_backlog) {
            Ok(listener) => listeners.push(listener),
            Err(source) if optional && is_missing(&source) => {}
            Err(source) => return Err((address.to_string(), source)),
        }
    }
    if listeners.is_empty() && port > 0 {
        return Err((config.bind.join(" "), io::Error::from(io::ErrorKind::AddrNotAvailable)));
    }
    Ok(listeners)
}

/// The addresses of `bind` at a port, each once.
fn wanted(config: &Config, port: u16) -> Result<Vec<Wanted>, (String, io::Error)> {
    let mut wanted: Vec<Wanted> = Vec::new();
    if port == 0 {
        return Ok(wanted);
    }
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
        let resolved = (host, port).to_socket_addrs();
        let first =
            resolved.and_then(|mut all| all.next().ok_or_else(|| io::ErrorKind::AddrNotAvailable.into()));
        match first {
            Ok(address) if wanted.iter().any(|other| other.address == address) => {}
            Ok(address) => wanted.push(Wanted { address, optional }),
            Err(_) if optional => {}
            Err(source) => return Err((format!("{host}:{port}"), source)),
        }
    }
    Ok(wanted)
}

fn not_listening((address, source): (String, io::Error)) -> ListenError {
    ListenError::Tcp { address, source }
}

/// Listens on all of them, but for those that this machine may and does lack.
fn listen_all(wanted: &[Wanted], backlog: u32) -> Result<Vec<(SocketAddr, TcpListener)>, ListenError> {
    let mut listeners = Vec::new();
    for &Wanted { address, optional } in wanted {
        match listen(address, backlog) {
            Ok(listener) => listeners.push((address, listener)),
            Err(source) if optional && is_missing(&source) => {}
            Err(source) => return Err(ListenError::Tcp { address: address.to_string(), source }),
        }
    }
    Ok(listeners)
}

fn listen(address: SocketAddr, backlog: u32) -> io::Result<TcpListener> {
    TcpListener::from_std(bind(address, backlog)?)
}

fn bind(address: SocketAddr, backlog: u32) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog_of(backlog))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

fn is_missing(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, Unsupported};
    matches!(error.kind(), AddrNotAvailable | Unsupported)
        || error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error())
}

fn backlog_of(backlog: u32) -> i32 {
    i32::try_from(backlog).unwrap_or(i32::MAX)
}
