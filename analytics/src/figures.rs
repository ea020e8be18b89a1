//! What `INFO analytics` shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::session::Analytics;
use tarn_engine::VIEWS;

/// How many clients of the wire there are and were.
#[derive(Debug, Default)]
pub struct Connections {
    now: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Those that have come through their start.
    started: AtomicUsize,
}

impl Connections {
    /// Whether one more may come through its start, where `most` may.
    pub(crate) fn has_place(&self, most: usize) -> bool {
        self.started.load(Ordering::Relaxed) < most
    }

    /// Takes a place, for as long as what is returned is there.
    pub(crate) fn take_place(self: &Arc<Self>, most: usize) -> Option<Place> {
        let one_more = |started| (started < most).then_some(started + 1);
        self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(self.clone()))
    }

    /// Counts a client as connected, for as long as what is returned is there.
    pub(crate) fn accept(self: &Arc<Self>) -> Connected {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.now.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }

    /// Counts a client that was refused.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The place of a client that has come through its start.
pub(crate) struct Place(Arc<Connections>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.started.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client that is connected.
pub(crate) struct Connected(Arc<Connections>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The figures, each with its name, in the order in which they are shown.
pub fn figures(analytics: &Analytics) -> Vec<(&'static str, u64)> {
    let (queries, connections) = (analytics.queries(), analytics.connections());
    let engine = analytics.engine();
    let views = engine.as_ref().map(|engine| engine.views());
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (running, waiting) = (queries.running().len(), analytics.waiting());
    vec![
        ("sql_statements_begun", queries.begun()),
        ("sql_statements_failed", queries.failed()),
        ("sql_statements_running", running.saturating_sub(waiting) as u64),
        ("sql_statements_waiting", waiting as u64),
        ("sql_blocks", queries.blocks().len() as u64),
        ("sql_bits_taken", views.map_or(0, |views| views.status().open.len() as u64)),
        ("sql_bits", VIEWS as u64),
        ("sql_rows_scanned", queries.rows()),
        ("sql_rows_table", queries.rows_table()),
        ("sql_rows_remset", queries.rows_remset()),
        ("sql_values_unreadable", queries.unreadable()),
        ("sql_memory_bytes", analytics.memory_bytes() as u64),
        ("sql_memory_limit_bytes", analytics.memory_bytes_max() as u64),
        ("sql_remset_bytes", views.map_or(0, |views| views.passing_bytes() as u64)),
        ("sql_tables", analytics.tables() as u64),
        ("sql_connections", count(&connections.now)),
        ("sql_connections_accepted", count(&connections.accepted)),
        ("sql_connections_refused", count(&connections.refused)),
    ]
}
