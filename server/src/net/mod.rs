//! Sockets, addresses, and the register of connected clients: the parts of the network that know no command.
//!
//! `listen` opens the ports, `stream` is a connected socket, `encrypted` one that speaks TLS, `certificates`
//! is what it speaks it with, `handle` is what other threads see of a client.
//! May import `config`. The threads that accept connections and serve them are in `serve`.

pub mod address;
pub(crate) mod attempts;
pub mod caller;
pub mod certificates;
pub(crate) mod clients;
pub mod encrypted;
pub mod handle;
mod keys_left;
pub mod listen;
pub mod moves;
pub(crate) mod pause;
pub mod proxy;
pub mod stream;
pub(crate) mod tracks;
