//! Cursors, for answers that are read in parts: each keeps the stream of its statement, and so its instant.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tarn_engine::lock::Mutex;
use tokio::time::Instant;

use crate::error::QueryError;
use crate::session::Session;
use crate::statement::outcome::Outcome;

use super::error::SearchError;
use super::options::{IDLE_MAX, Pace};
use super::pipeline::Shown;
use super::tree::{REPLY_BYTES_MAX, Tree, results};

/// Cursors of all clients. Each may hold a view, of which queries have 60.
pub(super) const CURSORS_MAX: usize = 32;
/// Rows of a part, if nothing is said, as in RediSearch.
const COUNT_DEFAULT: usize = 1000;
/// The interval between checks for idle cursors.
const SWEEP: Duration = Duration::from_millis(100);

/// Rows that are being read.
pub(super) struct Cursor {
    index: String,
    /// The instant and the statement are its.
    #[expect(dead_code, reason = "held to be dropped with the rows")]
    session: Arc<Session>,
    outcome: Outcome,
    shown: Shown,
    /// Rows that have been made and not read, the next at the end.
    ahead: Vec<Tree>,
    is_at_end: bool,
    is_resp3: bool,
    count: usize,
    idle: Duration,
}

impl Cursor {
    /// A cursor at the beginning of an answer.
    pub(super) fn new(
        index: &str,
        session: Arc<Session>,
        outcome: Outcome,
        shown: Shown,
        is_resp3: bool,
    ) -> Cursor {
        Cursor {
            index: index.to_owned(),
            session,
            outcome,
            shown,
            ahead: Vec::new(),
            is_at_end: false,
            is_resp3,
            count: COUNT_DEFAULT,
            idle: IDLE_MAX,
        }
    }

    /// Reads this many rows, or those that are left.
    async fn take(&mut self, count: usize) -> Result<Tree, SearchError> {
        let (mut rows, mut bytes) = (Vec::new(), 0);
        // One row more says whether there is another part.
        while !self.is_at_end || !self.ahead.is_empty() {
            while rows.len() < count
                && let Some(row) = self.ahead.pop()
            {
                bytes += row.bytes();
                rows.push(row);
            }
            if bytes > REPLY_BYTES_MAX {
                return Err(SearchError::refused(format!(
                    "the reply takes more than {REPLY_BYTES_MAX} bytes: add LIMIT, or read it \
                     WITHCURSOR COUNT less"
                )));
            }
            if self.is_at_end || !self.ahead.is_empty() {
                break;
            }
            match self.outcome.rows.next().await {
                None => self.is_at_end = true,
                Some(batch) => {
                    let batch = batch.map_err(QueryError::from)?;
                    let row = |pairs| match self.is_resp3 {
                        true => Tree::map([
                            ("extra_attributes", Tree::Map(pairs)),
                            ("values", Tree::Array(Vec::new())),
                        ]),
                        false => {
                            Tree::Array(pairs.into_iter().flat_map(|(name, value)| [name, value]).collect())
                        }
                    };
                    self.ahead = self.shown.rows(&batch)?.into_iter().rev().map(row).collect();
                }
            }
        }
        let total = rows.len() as i64;
        if self.is_resp3 {
            return Ok(results(total, rows));
        }
        rows.insert(0, Tree::Integer(total));
        Ok(Tree::Array(rows))
    }

    /// Reads all.
    pub(super) async fn all(mut self) -> Result<Tree, SearchError> {
        self.take(usize::MAX).await
    }

    fn is_read(&self) -> bool {
        self.is_at_end && self.ahead.is_empty()
    }
}

/// A cursor that is not being read.
struct Idle {
    cursor: Cursor,
    until: Instant,
}

#[derive(Default)]
struct Open {
    idle: HashMap<u64, Idle>,
    /// Those that are being read.
    read: usize,
    is_swept: bool,
}

/// The cursors of all clients.
#[derive(Default)]
pub(super) struct Cursors {
    open: Mutex<Open>,
}

/// Counts a cursor that is being read.
struct Reads<'c>(&'c Cursors);

impl Drop for Reads<'_> {
    fn drop(&mut self) {
        self.0.open.lock().read -= 1;
    }
}

impl Cursors {
    /// Reads the first part of an answer.
    pub(super) async fn begin(self: &Arc<Self>, mut cursor: Cursor, pace: Pace) -> Result<Tree, SearchError> {
        {
            let mut open = self.open.lock();
            if open.idle.len() + open.read >= CURSORS_MAX {
                return Err(SearchError::Cursors(CURSORS_MAX));
            }
            open.read += 1;
        }
        let reads = Reads(self);
        cursor.count = pace.count.unwrap_or(COUNT_DEFAULT);
        cursor.idle = pace.idle.unwrap_or(IDLE_MAX);
        let id = rand::random_range(1..=i64::MAX as u64);
        let count = cursor.count;
        self.go_on(cursor, id, count, reads).await
    }

    /// `FT.CURSOR READ`: reads the next part.
    pub(super) async fn read(
        self: &Arc<Self>,
        index: &str,
        id: u64,
        pace: Pace,
    ) -> Result<Tree, SearchError> {
        let (mut cursor, reads) = {
            let mut open = self.open.lock();
            let is_its = open.idle.get(&id).is_some_and(|idle| idle.cursor.index == index);
            let idle = is_its.then(|| open.idle.remove(&id)).flatten().ok_or(SearchError::NoCursor(id))?;
            open.read += 1;
            (idle.cursor, Reads(self))
        };
        let count = pace.count.unwrap_or(cursor.count);
        cursor.idle = pace.idle.unwrap_or(cursor.idle);
        self.go_on(cursor, id, count, reads).await
    }

    async fn go_on(
        self: &Arc<Self>,
        mut cursor: Cursor,
        id: u64,
        count: usize,
        reads: Reads<'_>,
    ) -> Result<Tree, SearchError> {
        let rows = cursor.take(count).await?;
        let mut left = 0;
        let is_read = cursor.is_read();
        drop(reads);
        if !is_read {
            left = id;
            let mut open = self.open.lock();
            let until = Instant::now() + cursor.idle;
            open.idle.insert(id, Idle { cursor, until });
            if !std::mem::replace(&mut open.is_swept, true) {
                tokio::spawn(sweep(self.clone()));
            }
        }
        Ok(Tree::Array(vec![rows, Tree::Integer(left as i64)]))
    }

    /// `FT.CURSOR DEL`.
    pub(super) fn end(&self, index: &str, id: u64) -> Result<(), SearchError> {
        let ended = {
            let mut open = self.open.lock();
            let is_its = open.idle.get(&id).is_some_and(|idle| idle.cursor.index == index);
            is_its.then(|| open.idle.remove(&id)).flatten()
        };
        // Its view is given back here, and not under the lock.
        ended.map(drop).ok_or(SearchError::NoCursor(id))
    }

    /// Ends those of an index.
    pub(super) fn end_all(&self, index: &str) {
        let of_index = |_: &u64, idle: &mut Idle| idle.cursor.index == index;
        let ended: Vec<_> = self.open.lock().idle.extract_if(of_index).collect();
        drop(ended);
    }

    /// How many are idle: of all, and of an index.
    pub(super) fn count(&self, index: &str) -> (usize, usize) {
        let open = self.open.lock();
        (open.idle.len(), open.idle.values().filter(|idle| idle.cursor.index == index).count())
    }
}

/// Ends idle cursors, until there are none.
async fn sweep(cursors: Arc<Cursors>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let (ended, is_over) = {
            let mut open = cursors.open.lock();
            let now = Instant::now();
            let ended: Vec<_> = open.idle.extract_if(|_, idle| idle.until <= now).collect();
            open.is_swept = !open.idle.is_empty();
            (ended, open.idle.is_empty())
        };
        drop(ended);
        if is_over {
            return;
        }
    }
}
