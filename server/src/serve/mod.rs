//! The threads of a server: the main thread accepts, the workers serve, the loader loads and saves.
//!
//! ```text
//!   life: listen, load, serve, stop
//!   accept ──deals──> event_loop ── connection ──request──> execute::executor
//!                       worker          └── output, outbox <── reply
//! ```
//!
//! The top of the package: it may import every other folder, and none imports it.

pub mod accept;
mod certificate_login;
mod connection;
mod error;
pub mod event_loop;
mod handshakes;
mod life;
mod load;
mod lookahead;
mod outbox;
mod output;
pub mod panics;
mod pidfile;
mod redis_files;
mod rounds;
mod signals;
pub mod supervisor;
mod turn;
mod worker;

pub use error::ServeError;
pub use life::{check_users, serve, serve_beside};
