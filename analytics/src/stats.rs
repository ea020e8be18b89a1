//! The statistics that `INFO analytics` and the metrics show.

use tarn_engine::VIEWS;

use crate::analytics::Analytics;

impl Analytics {
    /// The statistics, each with its name, in the order in which they are shown.
    pub fn figures(&self) -> Vec<(&'static str, u64)> {
        let queries = self.queries();
        let [connected, accepted, refused] = self.connections().counts();
        let engine = self.engine();
        let views = engine.as_ref().map(|engine| engine.views());
        let (running, waiting) = (queries.running().len(), self.waiting());
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
            ("sql_memory_bytes", self.memory_bytes() as u64),
            ("sql_memory_limit_bytes", self.memory_bytes_max() as u64),
            ("sql_remset_bytes", views.map_or(0, |views| views.passing_bytes() as u64)),
            ("sql_tables", self.tables() as u64),
            ("sql_connections", connected),
            ("sql_connections_accepted", accepted),
            ("sql_connections_refused", refused),
        ]
    }
}
