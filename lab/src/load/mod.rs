//! The load generator: pre-encoded requests, chosen keys, many connections on one thread, closed or open
//! loop.

mod connection;
mod errors;
mod keys;
mod plan;
mod replies;
mod request;
mod result;
mod run;
mod slowest;
mod watch;

pub use errors::Errors;
pub use keys::{KeyChoice, Keys, scatter};
pub use plan::{Group, Load, Pace, Until};
pub use request::{Arg, Mix, Request, key_text};
pub use result::{GroupResult, LoadResult, Tally};
pub use slowest::{Slow, Slowest};
pub use watch::{Cue, MOMENT, Moment, Phase, Watched};
