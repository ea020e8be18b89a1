//! `CONFIG REWRITE`: the file is written and synced on a thread of its own, as a worker waits for no disk.
//!
//! ```text
//!   CONFIG REWRITE ──ticket──> [ asked, done ] <── tarn-config: write the file, note the outcome
//!   the client's request looks again until what was asked for is done; one thread writes for all
//! ```

use std::io;
use std::sync::Arc;

use tarn_engine::lock::Mutex;

use crate::config::ConfigStore;

/// A rewrite that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(u64);

#[derive(Debug)]
struct State {
    asked: u64,
    done: u64,
    is_running: bool,
    /// The outcome of the last one.
    outcome: Result<(), String>,
}

/// Writes the configuration into its file.
#[derive(Debug)]
pub struct Rewriter {
    state: Mutex<State>,
}

impl Default for Rewriter {
    fn default() -> Rewriter {
        Rewriter { state: Mutex::new(State { asked: 0, done: 0, is_running: false, outcome: Ok(()) }) }
    }
}

impl Rewriter {
    /// Has the configuration written as it is from now on. Waits for nothing. `users`: the lines that make
    /// all users as they are when it is called.
    pub fn ask(
        self: &Arc<Self>,
        config: &Arc<ConfigStore>,
        users: impl Fn() -> Vec<Vec<u8>> + Send + 'static,
    ) -> io::Result<Ticket> {
        let mut state = self.state.lock();
        if !state.is_running {
            let (rewriter, config) = (self.clone(), config.clone());
            let write = move || rewriter.write(&config, &users);
            std::thread::Builder::new().name("tarn-config".to_owned()).spawn(write)?;
            state.is_running = true;
        }
        state.asked += 1;
        Ok(Ticket(state.asked))
    }

    /// The outcome of the request with this ticket; `None` while it is not done.
    pub fn outcome(&self, ticket: Ticket) -> Option<Result<(), String>> {
        let state = self.state.lock();
        (state.done >= ticket.0).then(|| state.outcome.clone())
    }

    /// Writes until nobody asks any more.
    fn write(&self, config: &ConfigStore, users: &impl Fn() -> Vec<Vec<u8>>) {
        let mut state = self.state.lock();
        while state.done < state.asked {
            let asked = state.asked;
            drop(state);
            let outcome = config.rewrite(users);
            match &outcome {
                Ok(()) => tracing::info!("CONFIG REWRITE executed with success."),
                Err(error) => tracing::warn!("CONFIG REWRITE failed: {error}"),
            }
            state = self.state.lock();
            state.done = asked;
            state.outcome = outcome.map_err(|error| error.to_string());
        }
        state.is_running = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use std::time::{Duration, Instant};

    #[test]
    fn what_was_asked_for_is_written_and_told_in_order() {
        let config = Arc::new(ConfigStore::new(Config::default(), None));
        let rewriter = Arc::new(Rewriter::default());
        let wait = |ticket| {
            let began = Instant::now();
            loop {
                if let Some(outcome) = rewriter.outcome(ticket) {
                    return outcome;
                }
                assert!(began.elapsed() < Duration::from_secs(30), "it is not done");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let first = rewriter.ask(&config, Vec::new).expect("a thread can be started");
        let second = rewriter.ask(&config, Vec::new).expect("a thread can be started");
        assert!(first < second);
        assert!(wait(second).is_err(), "there is no file");
        assert!(wait(first).is_err());
        let third = rewriter.ask(&config, Vec::new).expect("a thread can be started");
        assert!(third > second && wait(third).is_err());
    }
}
