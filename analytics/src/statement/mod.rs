//! A running statement: the store and the instant that it reads, its progress and cancellation, its outcome.
//!
//! It imports `rights`, `table` and `error`.

pub(crate) mod activity;
pub(crate) mod constants;
pub(crate) mod durability;
pub(crate) mod instant;
pub(crate) mod outcome;
pub(crate) mod query;
pub(crate) mod scan_context;
pub(crate) mod store;
pub(crate) mod turns;
pub(crate) mod values;
pub(crate) mod work;
