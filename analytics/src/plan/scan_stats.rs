//! Counts the keys that a scan has read, by source: the table itself, or versions kept for views (the
//! remset).
//!
//! ```text
//!   a part of the table ─┬─ entries as they stand                       rows_table
//!                        └─ versions of what was changed since the cut  rows_remset
//! ```
//!
//! `EXPLAIN ANALYZE` shows the numbers of one scan, `INFO analytics` those of all statements. They count keys
//! of the store: a list is one key, however many rows it makes.

use std::sync::Arc;

use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use tarn_engine::record::Lsn;
use tarn_engine::{Entry, Visitor};

use crate::statement::query::Query;
use crate::table::rows::Rows;

/// Counts what one scan, or one part of it, reads.
pub(crate) struct ScanStats {
    query: Arc<Query>,
    table: Count,
    remset: Count,
    parts: Count,
}

impl ScanStats {
    /// Nothing was read yet.
    pub(crate) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, query: &Arc<Query>) -> ScanStats {
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        ScanStats {
            query: query.clone(),
            table: count("rows_table"),
            remset: count("rows_remset"),
            parts: count("parts"),
        }
    }

    /// The receiver of a part of a table from a view, which passes entries to `rows`.
    pub(crate) fn visitor<'a>(&'a self, rows: &'a mut Rows) -> Counting<'a> {
        Counting { before: rows.taken(), remset: 0, counted: self, rows }
    }

    /// Counts keys that were read by an index, and those of them that had changed since.
    pub(crate) fn note(&self, keys: u64, kept: u64) {
        // A kept version that has expired is not counted.
        let kept = kept.min(keys);
        self.table.add((keys - kept) as usize);
        self.remset.add(kept as usize);
        self.query.count_read(keys - kept, kept);
    }
}

/// A part of a table that is being read.
pub(crate) struct Counting<'a> {
    counted: &'a ScanStats,
    rows: &'a mut Rows,
    /// Keys that `rows` had taken before.
    before: u64,
    remset: u64,
}

impl Visitor for Counting<'_> {
    fn reach(&self) -> usize {
        self.rows.reach()
    }

    fn part(&mut self, from: u64, end: u64, _: Lsn) {
        self.counted.parts.add(1);
        self.counted.query.pass(end - from);
    }

    #[inline]
    fn visit(&mut self, entry: &Entry) {
        self.rows.take(entry);
    }

    fn version(&mut self, entry: &Entry) {
        let before = self.rows.taken();
        self.rows.take(entry);
        self.remset += self.rows.taken() - before;
    }
}

impl Drop for Counting<'_> {
    fn drop(&mut self) {
        self.counted.note(self.rows.taken() - self.before, self.remset);
    }
}
