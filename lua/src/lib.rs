//! Lua for the scripts of clients: the interpreter, its sandbox, and what a script sees of the server.
//!
//! ```text
//!   server ──run(function, keys, args)──> Interpreter ── Lua 5.1, patched (build.rs, patches/)
//!      ^                                      │             sandbox: globals are read-only
//!      └────── Host: call, log, look ─────────┘             libraries: cjson, cmsgpack, struct, bit
//! ```
//!
//! Scripts are hostile: nothing that one does may reach another script, end the process, or take memory or
//! time without an end. What keeps it so:
//!
//! - Chunks are text; the holes of Lua 5.1 that are known are patched, each with its reason in `patches/`.
//! - Globals, libraries and the metatables of basic types are read-only.
//! - The memory of an interpreter is limited; a hook looks every some thousand instructions whether to go on.
//! - An [`Abort`] goes through every `pcall`.
//!
//! This is the one package that knows `mlua`. It knows nothing of the store. Without its feature `lua` it has
//! all of these types, but no interpreter can be made.

mod errors;
mod failure;
mod host;
#[cfg_attr(not(feature = "lua"), path = "no_interpreter.rs")]
mod interpreter;
mod program;

pub use errors::Errors;
pub use failure::Failure;
pub use host::{Abort, Host};
pub use interpreter::Interpreter;
pub use program::{FunctionFlag, Limits, Program, Purpose, Registered, valid_name};
