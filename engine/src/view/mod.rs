//! Views: the whole store as of one instant, read step by step while writers go on.
//!
//! ```text
//!   open ──> cut s ──> part after part, each found under a short latch ──> close
//!                      writers keep what they replace behind the walk, for as long as a view needs it
//! ```
//!
//! Checkpoints, exports, a replica's copy and queries are consumers of views, and of nothing else.

mod cuts;
mod forked;
mod indexed;
mod live;
#[cfg(all(test, shuttle))]
mod model;
mod register;
mod walk;

pub use forked::ForkedScan;
pub use live::Live;
pub use register::{Cancelled, OpenView, ViewError, ViewLimits, ViewOptions, Views, ViewsStatus};
pub use walk::{View, Walked};
