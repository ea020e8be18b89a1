//! Sockets, addresses, and the register of connected clients: the parts of the network that know no command.
//!
//! `listen` opens the ports, `stream` is a connected socket, `handle` is what other threads see of a client.
//! May import `config`. The threads that accept connections and serve them are in `serve`.

pub mod address;
pub(crate) mod attempts;
pub mod caller;
pub(crate) mod clients;
pub mod handle;
pub mod listen;
pub mod moves;
pub(crate) mod pause;
pub mod stream;
pub(crate) mod tracks;
