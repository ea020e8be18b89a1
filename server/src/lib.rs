//! The server of Tarn: connections, commands and configuration over the engine.
//!
//! ```text
//!   acceptor ──deals──> worker: connection ──request──> executor ──latched keys──> command
//!                                  ^                        │
//!                                  └── outbox <── reply ────┘── batch of writes ──> engine
//! ```
//!
//! [`serve::serve`] is a server in the calling thread, from its arguments to its end:
//!
//! ```
//! use std::io::{Read, Write};
//! use std::net::Shutdown;
//! use std::os::unix::net::UnixStream;
//! use tarn_server::config::{Invocation, parse_serve_args};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let socket = folder.path().join("socket");
//! let args = ["--port", "0", "--unixsocket"].map(Into::into);
//! let dirs = [socket.clone().into(), "--dir".into(), folder.path().into()];
//! let Invocation::Serve(loaded) = parse_serve_args(args.into_iter().chain(dirs))? else { unreachable!() };
//! let server = std::thread::spawn(|| tarn_server::serve::serve(*loaded));
//!
//! let ask = |requests: &str| -> std::io::Result<String> {
//!     let mut client = UnixStream::connect(&socket)?;
//!     client.write_all(requests.as_bytes())?;
//!     client.shutdown(Shutdown::Write)?;
//!     let mut replies = String::new();
//!     client.read_to_string(&mut replies)?;
//!     Ok(replies)
//! };
//! // It listens before it has loaded its data, and answers with an error until then.
//! while !server.is_finished() && !ask("EXISTS greeting\r\n").is_ok_and(|reply| reply == ":0\r\n") {
//!     std::thread::yield_now();
//! }
//! assert_eq!(ask("SET greeting hello\r\nGET greeting\r\n")?, "+OK\r\n$5\r\nhello\r\n");
//! assert_eq!(ask("SHUTDOWN\r\n")?, "");
//! server.join().expect("the server does not panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! The folders are layers. A file imports its own folder and lower layers only; `cargo xtask tidy` checks it.
//! `shared` is the state of all threads, `execute` runs requests, and `serve` has the threads.
//!
//! <!-- floors: server -->
//! ```text
//!   11  serve
//!   10  commands
//!    9  metrics | apply
//!    8  execute
//!    7  persist
//!    6  shared
//!    5  store
//!    4  analytics | observe | pubsub | scripts
//!    3  net | acl
//!    2  json | config
//!    1  error | glob | version
//! ```
//! <!-- end of floors -->

// Start a server: a configuration, and the protocols that share its data.
pub mod analytics;
pub mod config;
pub mod net;
pub mod serve;
// Work on a data directory without a server: import and export.
pub mod persist;
mod pubsub;
pub mod scripts;

// Parts that the tests and fuzz targets of this repository reach. Other programs must not depend on them.
#[doc(hidden)]
pub mod acl;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod execute;
#[doc(hidden)]
pub mod glob;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod store;

mod apply;
mod error;
mod metrics;
mod observe;
mod shared;
mod version;

pub use execute::services::Services;
