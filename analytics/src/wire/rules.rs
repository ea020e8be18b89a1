//! Settings about clients that may change while clients are served.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::tls::Identity;

/// Settings about clients, read at each use because they may change.
pub trait Rules: Send + Sync {
    /// The password that clients need; `None`: none.
    fn password(&self) -> Option<Vec<u8>>;

    /// Why a client that calls itself `user` may not come in, whatever it knows; `None`: it may try.
    fn refuses(&self, user: &str, peer: SocketAddr) -> Option<&'static str>;

    /// Whether clients that are in may send another statement.
    fn lets_go_on(&self) -> bool;

    /// How many may be connected at once; more are refused.
    fn connections_max(&self) -> usize;

    /// How long the start of a connection may take.
    fn start_patience(&self) -> Duration;

    /// How long a client may do nothing outside of a block; `None`: for ever.
    fn idle_patience(&self) -> Option<Duration>;

    /// Notes that a client has given a wrong password.
    fn note_wrong_password(&self, peer: SocketAddr);

    /// The certificate by which the connection of a client that asks for it is encrypted; `None`: none is.
    fn identity(&self) -> Option<Identity> {
        None
    }

    /// Whether clients that do not ask for it are refused.
    fn needs_encryption(&self) -> bool {
        false
    }

    /// Notes how the handshake of an encrypted connection ended: whether it resumed a session, or why it
    /// failed.
    fn note_handshake(&self, _peer: SocketAddr, _ended: Result<bool, &io::Error>) {}
}
