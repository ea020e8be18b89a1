//! Settings about clients that may change while clients are served.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::tls::Identity;
use crate::rights::User;

/// The way in which a client shows who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    /// It says its name.
    Open,
    /// It shows that it knows this password, without sending it.
    Challenge(Vec<u8>),
    /// It sends a password.
    Password,
}

/// Settings about clients, read at each use because they may change.
pub trait Rules: Send + Sync {
    /// The way in for a client that calls itself `name`.
    fn door(&self, name: &str) -> Door;

    /// Why such a client may not come in by its door, whatever it knows; `None`: it may try. `is_private`:
    /// nobody on the way reads what it sends, as the connection is encrypted or does not leave the machine.
    fn refuses(&self, name: &str, peer: SocketAddr, is_private: bool) -> Option<&'static str>;

    /// The user that such a client is, which has shown that it knows this password; `None`: it may not come
    /// in. Without a password it is the empty one.
    fn enter(&self, name: &str, password: &[u8], peer: SocketAddr) -> Option<Arc<dyn User>>;

    /// How many may be connected at once; more are refused.
    fn connections_max(&self) -> usize;

    /// How long the start of a connection may take.
    fn start_patience(&self) -> Duration;

    /// How long a client may do nothing outside of a block; `None`: for ever.
    fn idle_patience(&self) -> Option<Duration>;

    /// Notes that a client that calls itself `name` has given a wrong password.
    fn note_wrong_password(&self, name: &str, peer: SocketAddr);

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
