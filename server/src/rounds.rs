//! What the main thread looks after ten times a second: rates, the peak of memory, and whether the log takes
//! records.

use crate::process;
use crate::rates::Look;
use crate::shared::{Shared, Store};
use std::time::{Duration, Instant};

/// How often a round is made.
pub const PAUSE: Duration = Duration::from_millis(100);

/// What the last round found.
#[derive(Debug, Default)]
pub struct Rounds {
    log_failed: bool,
}

impl Rounds {
    /// Makes a round.
    pub fn make(&mut self, server: &Shared) {
        let stats = &server.stats;
        server.rates.note(Look {
            at: Instant::now(),
            commands: stats.calls(),
            input_bytes: stats.sum(|worker| &worker.input_bytes),
            output_bytes: stats.sum(|worker| &worker.output_bytes),
        });
        stats.note_memory(process::Heap::now().allocated);
        self.look_at_log(server);
        server.saver.look(server, &server.config.snapshot());
    }

    /// Tells when the log fails and when it works again.
    fn look_at_log(&mut self, server: &Shared) {
        let failure = server.store().and_then(Store::log_failure);
        match &failure {
            Some(error) if !self.log_failed => tracing::error!("{error}; writes are refused until it can be"),
            None if self.log_failed => tracing::info!("The log can be written again"),
            _ => {}
        }
        self.log_failed = failure.is_some();
    }
}
