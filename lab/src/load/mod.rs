//! The load generator: pre-encoded requests, chosen keys, many connections on one thread, closed or open
//! loop.

mod connection;
mod cue;
mod keys;
mod plan;
mod replies;
mod request;
mod result;
mod run;
mod tally;
mod watch;

pub use cue::Cue;
pub use keys::{KeyChoice, Keys, scatter};
pub use plan::{Group, Load, Pace, Until};
pub use request::{Arg, Mix, Request, key_text};
pub use result::{GroupResult, LoadResult};
pub use tally::Tally;
pub use watch::{MOMENT, Moment, Phase, Watched};
