//! Scans read side by side while the clients of the store do not wait, and else one after the other.
//!
//! ```text
//!   clients do not wait:   scan ─ batch ─ batch ─ batch      on as many threads as there are for queries
//!                          scan ─ batch ─ batch ─ batch
//!   clients wait:          scan ─ batch ─────── batch ───    on one
//!                          scan ─────── batch ─────── batch
//! ```
//!
//! A turn ends when a batch of rows has been made, or after some steps through the table. What operators do
//! with the rows is not part of it. A statement that is planned while clients wait has one part for each
//! scan.

use tarn_engine::Engine;
use tokio::sync::{Mutex, MutexGuard};

/// The turns of all scans of all statements.
#[derive(Debug, Default)]
pub(crate) struct Turns(Mutex<()>);

impl Turns {
    /// Waits until a scan may go on, which it does while it holds what is returned.
    pub(crate) async fn next(&self, engine: &Engine) -> Option<MutexGuard<'_, ()>> {
        if engine.clients_wait() { Some(self.0.lock().await) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::FutureExt;
    use tarn_engine::io::SystemClock;

    use super::*;

    #[tokio::test]
    async fn scans_read_one_after_the_other_while_clients_wait() {
        let (engine, _background) = Engine::unlogged(1, 1, Arc::new(SystemClock::new()));
        let turns = Turns::default();
        let first = turns.next(&engine).await;
        assert!(turns.next(&engine).now_or_never().is_some(), "nobody waits: as many as like");
        drop(first);
        engine.note_wait(Duration::from_secs(1));
        let first = turns.next(&engine).await;
        assert!(turns.next(&engine).now_or_never().is_none(), "a client waits: one at a time");
        drop(first);
        assert!(turns.next(&engine).now_or_never().is_some(), "it is the turn of the next");
    }
}
