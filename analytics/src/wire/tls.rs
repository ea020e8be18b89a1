//! Encrypts the connections of clients that ask for it.

use std::sync::Arc;

use datafusion_postgres::pgwire::tokio::tokio_rustls::rustls::ServerConfig;

/// What a connection is encrypted with.
#[derive(Clone, Debug)]
pub struct Identity {
    /// How its handshake goes.
    pub config: Arc<ServerConfig>,
    /// The certificates of the server, as PEM: passwords are bound to them.
    pub pem: Arc<[u8]>,
}
