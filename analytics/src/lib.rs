//! SQL over the live keyspace.
//!
//! ```text
//!   SELECT … ─ plan ─ one scan a table ─ first row wanted: one view for each scan, all of one instant
//!     ─ parts of the table under short latches ─ rows ─ batches of 8,192 ─ operators ─ reply
//! ```
//!
//! Tables are declared over key patterns (`declaration`), or stand in the schema `keyspace` without being
//! declared. A query reads through views of the engine and nothing else, so writers never wait for it, and
//! what it answers is the store as of one instant, over all the tables that it names.

mod access;
mod activity;
mod analytics;
mod by_index;
mod catalog;
mod cells;
mod complexity;
mod compute;
mod condition;
mod connections;
mod counted;
mod datum;
mod declaration;
mod dialect;
mod error;
mod estimate;
mod exact;
mod expansion;
mod export;
mod extremes;
mod figures;
mod functions;
mod growth;
mod held;
mod index;
mod infer;
mod instant;
mod json;
mod keyspace;
mod outcome;
mod query;
mod ranges;
mod requested_indexes;
mod rows;
mod sample;
mod scan;
mod scan_context;
mod search;
mod session;
mod settings;
mod shown;
mod store;
mod system;
mod table;
mod values;
mod watch;
mod wire;
mod work;

pub use analytics::{Analytics, AnalyticsOptions};
pub use complexity::STACK_BYTES;
pub use compute::{give_way, runs_apart};
pub use declaration::{Declaration, DeclarationError, Shape};
pub use error::{QueryError, sqlstate};
pub use export::parquet_of;
pub use outcome::Outcome;
pub use query::{Queries, Query};
pub use search::{Request, Search, SearchError, Tree};
pub use session::Session;
pub use values::Value;
pub use wire::{Caller, Rules, Tls, TlsError, WireOptions, serve};

/// The names of the files in which a data directory keeps what has been declared.
pub const DECLARATION_FILES: [&str; 2] = [catalog::FILE, search::FILE];
