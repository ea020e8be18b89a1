//! `tarn-lab published-store`: a server over the keyed store of the study, so that the published mechanism
//! can be measured as servers are. It speaks a subset of the Redis protocol.
//!
//! ```text
//!   clients ──► serve: one thread, one event loop ──► commands ──► Store
//!                   │ BGSAVE: take                                   ▲ frees
//!                   └────────── Snapshot ──► dump: a second thread ──┘──► dump.rdb, synced
//! ```
//!
//! `docs/algorithms/published-store.md` describes it.

mod commands;
mod dump;
mod options;
mod serve;

pub use options::{Algorithm, Options};

use crate::error::Result;
use tarn_study::paired::{HourglassRow, PiggybackRow};

/// Serves until `SHUTDOWN`, `SIGTERM` or Ctrl-C.
pub fn run(options: &Options) -> Result<()> {
    let settings = options.settings()?;
    match settings.algorithm {
        Algorithm::Hourglass => serve::serve::<HourglassRow>(&settings),
        Algorithm::Piggyback => serve::serve::<PiggybackRow>(&settings),
    }
}
