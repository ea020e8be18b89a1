//! Limits on the planner and the operators: the complexity of statements, memory, and time between pauses.
//!
//! The library that plans and runs statements bounds some of these only in part. So statements are measured
//! before they are planned, functions and operators reserve what they keep, and long work gives way.
//!
//! It imports `statement` and `error`.

pub(crate) mod complexity;
pub(crate) mod compute;
pub(crate) mod expansion;
pub(crate) mod growth;
pub(crate) mod join_watch;
pub(crate) mod window_memory;
