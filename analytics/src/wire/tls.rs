//! Encrypts the connections of clients that ask for it.

use std::sync::Arc;

use datafusion_postgres::pgwire::tokio::tokio_rustls::rustls::ServerConfig;

/// A certificate of the server, and the rules of handshakes by it.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The rules of handshakes.
    pub config: Arc<ServerConfig>,
    /// The certificates of the server, as PEM: passwords are bound to them.
    pub pem: Arc<[u8]>,
}
