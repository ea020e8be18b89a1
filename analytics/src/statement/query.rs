//! Running statements: their text, their progress, and how they are cancelled.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tarn_engine::END;
use tarn_engine::lock::Mutex;
use tokio::sync::Notify;

use crate::error::QueryError;
use crate::rights::{Denied, Grant, Whose};
use crate::statement::instant::Holds;

/// How often a statement that runs is looked at by the rights of its user, besides where it scans.
const RIGHTS_LOOK: Duration = Duration::from_secs(1);

/// The owner of statements: the part of a session that its statements know.
#[derive(Debug, Default)]
pub(crate) struct Owner {
    /// The number by which its statements are cancelled.
    pub pid: i32,
    /// Whose session it is.
    pub whose: Whose,
    /// Values that could not be read in statements that have ended, and that were not reported yet.
    unreadable: AtomicU64,
}

impl Owner {
    /// How many values could not be read since this was asked last.
    pub(crate) fn take_unreadable(&self) -> u64 {
        self.unreadable.swap(0, Ordering::Relaxed)
    }
}

/// The way in which the rows of a statement are fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fetching {
    /// All, one after the other.
    AtOnce,
    /// Some now, and others when the client wants them.
    InParts,
    /// The same by the cursor of a block.
    ByCursor,
}

/// A statement that runs.
pub struct Query {
    /// Its number, since the start of the server.
    pub id: u64,
    /// The text of the statement.
    pub sql: String,
    owner: Arc<Owner>,
    began: Instant,
    /// How long it may take.
    timeout: Option<Duration>,
    /// The views that it reads through, once it has been planned.
    holds: OnceLock<Arc<Holds>>,
    /// The right to it, once it has been planned.
    grant: OnceLock<Arc<Grant>>,
    fetching: Fetching,
    /// Scans of tables that it has.
    scans: AtomicU64,
    /// Positions that they have passed, of [`END`] each.
    passed: AtomicU64,
    rows: AtomicU64,
    rows_table: AtomicU64,
    rows_remset: AtomicU64,
    unreadable: AtomicU64,
    failed: AtomicBool,
    cancelled: AtomicBool,
    changed: Notify,
}

impl Query {
    /// The session that asks.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The session that asks, by the number that `pg_cancel_backend` takes.
    pub fn pid(&self) -> i32 {
        self.owner.pid
    }

    /// How long it has been running.
    pub fn age(&self) -> Duration {
        self.began.elapsed()
    }

    /// Whether it runs only when rows are fetched.
    pub fn is_cursor(&self) -> bool {
        self.fetching == Fetching::ByCursor
    }

    /// Whether all of its rows are fetched, one after the other.
    pub(crate) fn is_read_at_once(&self) -> bool {
        self.fetching == Fetching::AtOnce
    }

    /// Whether it waits for bits.
    pub fn is_waiting(&self) -> bool {
        self.holds.get().is_some_and(|holds| holds.is_waiting())
    }

    /// The bits of the views that it reads through now.
    pub fn views(&self) -> u64 {
        self.holds.get().map_or(0, |holds| holds.views())
    }

    /// The share of the tables that its scans have read, up to 1; `None` if it reads none.
    pub fn progress(&self) -> Option<f64> {
        let scans = self.scans.load(Ordering::Relaxed);
        let passed = self.passed.load(Ordering::Relaxed);
        (scans > 0).then(|| (passed as f64 / (scans as f64 * END as f64)).min(1.0))
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

    /// Counts keys that were read: from the table, and versions of such as were changed since.
    pub(crate) fn count_read(&self, table: u64, remset: u64) {
        self.rows_table.fetch_add(table, Ordering::Relaxed);
        self.rows_remset.fetch_add(remset, Ordering::Relaxed);
    }

    /// Says that it has one scan more.
    pub(crate) fn note_scan(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports that a scan has passed this many more positions, of [`END`].
    pub(crate) fn pass(&self, positions: u64) {
        self.passed.fetch_add(positions, Ordering::Relaxed);
    }

    /// Says through which views it reads.
    pub(crate) fn reads(&self, holds: &Arc<Holds>) {
        let _ = self.holds.set(holds.clone());
    }

    /// Says what it was allowed.
    pub(crate) fn is_allowed(&self, grant: &Arc<Grant>) {
        let _ = self.grant.set(grant.clone());
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
        if let Some(Err(denied)) = self.grant.get().map(|grant| grant.check()) {
            return Some(denied.into());
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
            let rest = self.timeout.map(|timeout| timeout.saturating_sub(self.began.elapsed()));
            let rest = rest.map_or(RIGHTS_LOOK, |rest| rest.min(RIGHTS_LOOK));
            let _ = tokio::time::timeout(rest, changed).await;
        }
    }
}

/// A block of statements that has begun and not ended.
#[derive(Clone)]
pub struct Block {
    /// Its session.
    owner: Arc<Owner>,
    /// When it began.
    pub began: Instant,
    /// The views that it has.
    pub holds: Arc<Holds>,
    /// The statement that ran last in it.
    pub newest: String,
}

impl Block {
    /// Its session.
    pub(crate) fn owner(&self) -> &Owner {
        &self.owner
    }

    /// The number of its session.
    pub fn pid(&self) -> i32 {
        self.owner.pid
    }
}

/// The totals of statements that have ended.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    begun: AtomicU64,
    failed: AtomicU64,
    rows: AtomicU64,
    rows_table: AtomicU64,
    rows_remset: AtomicU64,
    unreadable: AtomicU64,
}

/// All statements that run.
#[derive(Default)]
pub struct Queries {
    running: Mutex<BTreeMap<u64, Arc<Query>>>,
    blocks: Mutex<BTreeMap<i32, Block>>,
    next_pid: AtomicI32,
    totals: Totals,
}

impl Queries {
    /// A new owner.
    pub(crate) fn owner(&self, whose: Whose) -> Arc<Owner> {
        let pid = self.next_pid.fetch_add(1, Ordering::Relaxed).wrapping_add(1) & i32::MAX;
        Arc::new(Owner { pid, whose, unreadable: AtomicU64::new(0) })
    }

    /// Registers a statement, for as long as what is returned is there.
    pub(crate) fn begin(
        self: &Arc<Self>,
        owner: &Arc<Owner>,
        sql: &str,
        timeout: Option<Duration>,
        fetching: Fetching,
    ) -> Running {
        let id = self.totals.begun.fetch_add(1, Ordering::Relaxed) + 1;
        let query = Arc::new(Query {
            id,
            sql: sql.to_owned(),
            owner: owner.clone(),
            began: Instant::now(),
            timeout,
            holds: OnceLock::new(),
            grant: OnceLock::new(),
            fetching,
            scans: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            rows_table: AtomicU64::new(0),
            rows_remset: AtomicU64::new(0),
            unreadable: AtomicU64::new(0),
            failed: AtomicBool::new(false),
            cancelled: AtomicBool::new(false),
            changed: Notify::new(),
        });
        self.running.lock().insert(id, query.clone());
        if let Some(block) = self.blocks.lock().get_mut(&owner.pid) {
            block.newest = sql.to_owned();
        }
        Running { queries: self.clone(), query }
    }

    /// Says that a block of this session has begun, until [`Queries::end_block`].
    pub(crate) fn begin_block(&self, owner: &Arc<Owner>, holds: &Arc<Holds>) {
        let (owner, holds, newest) = (owner.clone(), holds.clone(), "BEGIN".to_owned());
        let block = Block { owner, began: Instant::now(), holds, newest };
        self.blocks.lock().insert(block.pid(), block);
    }

    /// The block of this session, if it has one, is over.
    pub(crate) fn end_block(&self, pid: i32) {
        self.blocks.lock().remove(&pid);
    }

    /// Those that run, the oldest first.
    pub fn running(&self) -> Vec<Arc<Query>> {
        self.running.lock().values().cloned().collect()
    }

    /// The blocks that have begun.
    pub fn blocks(&self) -> Vec<Block> {
        self.blocks.lock().values().cloned().collect()
    }

    /// Stops the statement of a session that began last, as another session asks. Returns whether there was
    /// one.
    pub(crate) fn cancel(&self, pid: i32, by: &Whose) -> Result<bool, Denied> {
        let newest = self.running.lock().values().rev().find(|query| query.pid() == pid).cloned();
        let Some(query) = newest else { return Ok(false) };
        if !by.is_same_as(&query.owner.whose) {
            by.check_kill()?;
        }
        query.cancel();
        Ok(true)
    }

    /// Statements so far.
    pub fn begun(&self) -> u64 {
        self.totals.begun.load(Ordering::Relaxed)
    }

    /// Statements that ended with an error so far.
    pub fn failed(&self) -> u64 {
        self.totals.failed.load(Ordering::Relaxed)
    }

    /// Rows that scans have made so far.
    pub fn rows(&self) -> u64 {
        self.sum(&self.totals.rows, |query| &query.rows)
    }

    /// Keys that scans have read in tables so far.
    pub fn rows_table(&self) -> u64 {
        self.sum(&self.totals.rows_table, |query| &query.rows_table)
    }

    /// Keys of which scans have read a version that was kept, so far.
    pub fn rows_remset(&self) -> u64 {
        self.sum(&self.totals.rows_remset, |query| &query.rows_remset)
    }

    /// Values that could not be read as their column's type so far.
    pub fn unreadable(&self) -> u64 {
        self.sum(&self.totals.unreadable, |query| &query.unreadable)
    }

    /// Of statements that have ended, and of those that run.
    fn sum(&self, ended: &AtomicU64, of: impl Fn(&Query) -> &AtomicU64) -> u64 {
        // Under the lock: so none ends between the two.
        let running = self.running.lock();
        let now: u64 = running.values().map(|query| of(query).load(Ordering::Relaxed)).sum();
        ended.load(Ordering::Relaxed) + now
    }

    /// Says that a statement ended with an error; twice is once.
    pub(crate) fn note_failed(&self, query: &Query) {
        let is_known = query.failed.swap(true, Ordering::Relaxed);
        self.totals.failed.fetch_add(u64::from(!is_known), Ordering::Relaxed);
    }
}

/// A statement that is registered.
pub(crate) struct Running {
    queries: Arc<Queries>,
    query: Arc<Query>,
}

impl Running {
    /// The statement.
    pub(crate) fn query(&self) -> &Arc<Query> {
        &self.query
    }

    /// All of them.
    pub(crate) fn queries(&self) -> &Arc<Queries> {
        &self.queries
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let (query, totals) = (&self.query, &self.queries.totals);
        // Its result is not wanted any more.
        query.cancel();
        let mut running = self.queries.running.lock();
        running.remove(&query.id);
        for (total, own) in [
            (&totals.rows, &query.rows),
            (&totals.rows_table, &query.rows_table),
            (&totals.rows_remset, &query.rows_remset),
            (&totals.unreadable, &query.unreadable),
        ] {
            total.fetch_add(own.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        query.owner.unreadable.fetch_add(query.unreadable(), Ordering::Relaxed);
    }
}
