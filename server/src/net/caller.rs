//! A connection to the metrics port or to the SQL port, which the acceptor passes on.

use crate::net::address::Address;

/// A connection to a port of another protocol than Redis's, on its way to the thread that serves it.
#[derive(Debug)]
pub struct Caller {
    /// The connection, which does not block.
    pub stream: std::net::TcpStream,
    /// The other end.
    pub peer: Address,
    /// Why it is turned away, if it is.
    pub refusal: Option<&'static str>,
    /// Whether it is turned away unless it has itself encrypted.
    pub must_encrypt: bool,
}

/// The refusal of a client whose connection would have to be encrypted, at each port.
pub const UNENCRYPTED: &str = "Connections must be encrypted here, see tls-required.";

/// The refusal of a client of another machine while there is no password, at each port.
pub const PROTECTED: &str = "Tarn runs in protected mode: no password is set, so it serves only clients on \
its own machine. Set requirepass, or protected-mode no where no stranger can reach this port.";
