//! SQL and search over the live keyspace.
//!
//! ```text
//!   SELECT … ─ plan ─ one scan a table ─ first row wanted: one view for each scan, all of one instant
//!     ─ parts of the table under short latches ─ rows ─ batches of 8,192 ─ operators ─ reply
//! ```
//!
//! Tables are declared over key patterns, or stand in the schema `keyspace` without a declaration. A query
//! reads only through views of the engine, so writers never wait for it. Its answer is the store as of one
//! instant, over all the tables that it names.
//!
//! ```
//! use std::sync::Arc;
//! use tarn_analytics::{Analytics, AnalyticsOptions, Value};
//! use tarn_engine::Engine;
//! use tarn_engine::io::SystemClock;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let (engine, _background) = Engine::unlogged(1, 1, Arc::new(SystemClock::new()));
//! let analytics = Analytics::open(AnalyticsOptions {
//!     databases: 1,
//!     memory_bytes: 64 << 20,
//!     threads: 1,
//!     directory: None,
//!     export_directory: None,
//! })
//! .await?;
//! analytics.read_from(move || Some(engine.clone()));
//!
//! let session = analytics.session();
//! let outcome = session.run("SELECT count(*) AS hashes FROM keyspace.hashes", None).await?;
//! let (columns, rows) = outcome.collect(1 << 20).await?;
//! assert_eq!(columns, ["hashes"]);
//! assert_eq!(rows, [[Value::Integer(0)]]);
//! # Ok(())
//! # })
//! # }
//! ```
//!
//! The modules have floors; each imports lower floors only. `session` runs statements on the state in
//! `analytics`. `plan` has the tables of the planner, `guard` the limits around it, and `exact` the answers
//! of PostgreSQL.
//!
//! <!-- floors: analytics -->
//! ```text
//!   9  search | wire
//!   8  session | stats
//!   7  analytics
//!   6  exact | catalog | export | connections
//!   5  plan | guard
//!   4  statement | dialect | json
//!   3  error
//!   2  table
//!   1  rights
//! ```
//! <!-- end of floors -->
//!
//! [`Analytics::open`] makes the shared state, [`Analytics::session`] a session, [`serve`] the PostgreSQL
//! port, and [`Search::open`] the commands `FT.*`.

mod analytics;
mod catalog;
mod connections;
mod dialect;
mod error;
mod exact;
mod export;
mod guard;
mod json;
mod plan;
mod rights;
mod search;
mod session;
mod statement;
mod stats;
mod table;
mod wire;

pub use analytics::{Analytics, AnalyticsOptions};
pub use error::{QueryError, sqlstate};
pub use export::parquet_of;
pub use guard::complexity::STACK_BYTES;
pub use guard::compute::{give_way, runs_apart};
pub use rights::{Denied, Keys, TableKeys, User, VisibleKeys, Wish};
pub use search::{Request, Search, SearchError, Tree};
pub use session::Session;
pub use statement::outcome::Outcome;
pub use statement::store::Changes;
pub use statement::values::Value;
pub use wire::{Caller, Door, Identity, Rules, WireOptions, serve};

/// The names of the files in which a data directory keeps declarations.
pub const DECLARATION_FILES: [&str; 2] = [catalog::declared::FILE, search::FILE];
