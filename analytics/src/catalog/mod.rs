//! The schemas that a session sees: declared tables (`public`), all keys (`keyspace`) and `pg_catalog`; and
//! the functions and settings that clients of PostgreSQL ask for, and a function of distances.
//!
//! It imports `plan`, `statement`, `rights`, `table`, `json` and `error`.

pub(crate) mod declared;
mod distance;
pub(crate) mod functions;
pub(crate) mod infer;
pub(crate) mod keyspace;
pub(crate) mod pg_catalog;
pub(crate) mod requested_indexes;
pub(crate) mod settings;
