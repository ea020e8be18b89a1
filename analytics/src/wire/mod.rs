//! PostgreSQL's wire protocol, so that its clients connect unchanged.
//!
//! ```text
//!   accept ─ encryption ─ start-up, password ─ statements ─┬─ BEGIN, COMMIT, SAVEPOINT …      blocks.rs
//!            tls.rs       startup.rs                       ├─ SET, SHOW …                     set.rs
//!                                                          └─ queries, declarations           session.rs
//! ```
//!
//! Libraries provide the protocol, the catalog that clients ask for, and cursors. This folder adds the
//! instant of a statement or a block, settings, refusals, limits on what a client keeps, and error codes.
//!
//! It imports all other folders except `search`.

mod blocks;
mod bounded;
mod connection;
mod cursors;
mod disconnect;
mod empty_catalog;
mod forms;
mod limits;
mod names;
mod notices;
mod read;
mod reply;
mod rewrite;
mod rules;
mod service;
mod set;
mod starting;
mod startup;
mod tls;

pub use connection::{Caller, WireOptions, serve};
pub use rules::{Door, Rules};
pub use tls::Identity;
