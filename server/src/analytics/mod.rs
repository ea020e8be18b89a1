//! SQL and search as traits. The program implements them with package `analytics`, so that the server knows
//! nothing of planners.
//!
//! May import `net` and `acl`.

pub mod search;
pub mod sql;
