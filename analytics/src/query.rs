//! The statements that run: what they are, how far they have come, and how they are stopped.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::error::QueryError;

/// A statement that runs.
pub struct Query {
    /// Its number, since the start of the server.
    pub id: u64,
    /// What was asked.
    pub sql: String,
    began: Instant,
    /// How long it may take.
    timeout: Option<Duration>,
    rows: AtomicU64,
    unreadable: AtomicU64,
    cancelled: AtomicBool,
    changed: Notify,
}

impl Query {
    /// How long it has been running.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Rows that its scans have made so far.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Values that could not be read as their column's type so far.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    /// Counts rows of a scan, and values that could not be read.
    pub(crate) fn count(&self, rows: u64, unreadable: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.unreadable.fetch_add(unreadable, Ordering::Relaxed);
    }

    /// Stops it, soon.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Why it has to stop, if it has.
    pub(crate) fn stopped(&self) -> Option<QueryError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Some(QueryError::Cancelled);
        }
        let is_over = self.timeout.is_some_and(|timeout| self.began.elapsed() >= timeout);
        is_over.then_some(QueryError::Timeout)
    }

    /// Waits until it has to stop, and says why.
    pub(crate) async fn stop(&self) -> QueryError {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(reason) = self.stopped() {
                return reason;
            }
            match self.timeout {
                Some(timeout) => {
                    let rest = timeout.saturating_sub(self.began.elapsed());
                    let _ = tokio::time::timeout(rest, changed).await;
                }
                None => changed.await,
            }
        }
    }
}

/// All statements that run.
#[derive(Default)]
pub struct Queries {
    running: Mutex<BTreeMap<u64, Arc<Query>>>,
    begun: AtomicU64,
    failed: AtomicU64,
    rows: AtomicU64,
    unreadable: AtomicU64,
}

impl Queries {
    /// Registers a statement, for as long as what is returned is there.
    pub fn begin(self: &Arc<Self>, sql: &str, timeout: Option<Duration>) -> Running {
        let id = self.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let query = Arc::new(Query {
            id,
            sql: sql.to_owned(),
            began: Instant::now(),
            timeout,
            rows: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            changed: Notify::new(),
        });
        self.running.lock().insert(id, query.clone());
        Running { queries: self.clone(), query }
    }

    /// Those that run, the oldest first.
    pub fn running(&self) -> Vec<Arc<Query>> {
        self.running.lock().values().cloned().collect()
    }

    /// Statements so far.
    pub fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    /// Statements that ended with an error so far.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Rows that scans of ended statements have made.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Values that could not be read as their column's type, of ended statements.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(crate) fn note_failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A statement that is registered.
pub struct Running {
    queries: Arc<Queries>,
    query: Arc<Query>,
}

impl Running {
    /// The statement.
    pub fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// All of them.
    pub fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.queries.running.lock().remove(&self.query.id);
        self.queries.rows.fetch_add(self.query.rows(), Ordering::Relaxed);
        self.queries.unreadable.fetch_add(self.query.unreadable(), Ordering::Relaxed);
    }
}
