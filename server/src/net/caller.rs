//! A connection to the metrics port or to the SQL port, which the acceptor passes on.

use std::net::SocketAddr;

/// A connection to a port of another protocol than Redis's, on its way to the thread that serves it.
#[derive(Debug)]
pub struct Caller {
    /// The connection, which does not block.
    pub stream: std::net::TcpStream,
    /// The other end.
    pub peer: SocketAddr,
    /// Why it is turned away, if it is.
    pub refusal: Option<&'static str>,
}

/// The refusal of a client of another machine while there is no password, at each port.
pub const PROTECTED: &str = "Tarn runs in protected mode: no password is set, so it serves only clients on \
its own machine. Set requirepass, or protected-mode no where no stranger can reach this port.";
