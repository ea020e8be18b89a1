//! The ends of a connection, as clients and logs see them.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Of a TCP connection.
    Tcp(SocketAddr),
    /// Of a TCP connection that counts as one of another machine, whatever its address: a proxy has named it,
    /// or `trust-local-clients` is off.
    Remote(SocketAddr),
    /// Of a connection over a Unix socket: its path, for both ends.
    Unix(Arc<str>),
}

impl Address {
    /// Whether it is on this machine.
    pub fn is_local(&self) -> bool {
        match self {
            Address::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Address::Remote(_) => false,
            Address::Unix(_) => true,
        }
    }

    /// The address of TCP, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) | Address::Remote(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }

    /// Whether it is a Unix socket's.
    pub fn is_unix(&self) -> bool {
        matches!(self, Address::Unix(_))
    }
}

/// As Redis writes them: `127.0.0.1:6379`, `/run/tarn.socket:0`.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) | Address::Remote(address) => address.fmt(f),
            Address::Unix(path) => write!(f, "{path}:0"),
        }
    }
}
