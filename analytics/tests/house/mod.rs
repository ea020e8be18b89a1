//! A store in memory, and sessions that ask it.

#![allow(clippy::unwrap_used, dead_code)]

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use tarn_analytics::{Analytics, AnalyticsOptions, QueryError, Search, Session};
use tarn_engine::io::ManualClock;
use tarn_engine::record::{Batch, Change, Side, Write};
use tarn_engine::session::Access;
use tarn_engine::value::stream::StreamId;
use tarn_engine::value::stream::element::put_entry;
use tarn_engine::{Background, Engine};
use tarn_engine::{Group, KeyHash};

/// The time when a store begins.
pub(crate) const BEGIN_MS: u64 = 1_000_000;

/// A store, and what asks it.
pub(crate) struct House {
    pub engine: Arc<Engine>,
    pub clock: Arc<ManualClock>,
    pub analytics: Arc<Analytics>,
    pub search: Arc<Search>,
    _background: Background,
}

/// Options for so few things as a test has.
pub(crate) fn options(directory: Option<&Path>) -> AnalyticsOptions {
    AnalyticsOptions {
        databases: 3,
        memory_bytes: 64 << 20,
        threads: 1,
        directory: directory.map(Path::to_owned),
        export_directory: None,
    }
}

impl House {
    pub(crate) async fn new() -> House {
        House::with(options(None)).await
    }

    pub(crate) async fn with(options: AnalyticsOptions) -> House {
        let clock = Arc::new(ManualClock::new(BEGIN_MS));
        let (engine, background) = Engine::unlogged(options.databases, 4, clock.clone());
        engine.expiry().set_active(false);
        let directory = options.directory.clone();
        let analytics = Analytics::open(options).await.unwrap();
        let search = Arc::new(Search::open(analytics.clone(), directory.as_deref()).unwrap());
        let read = engine.clone();
        analytics.read_from(move || Some(read.clone()));
        House { engine, clock, analytics, search, _background: background }
    }

    pub(crate) fn session(&self) -> Arc<Session> {
        self.analytics.session()
    }

    /// Commits changes of keys of a database, all or none.
    pub(crate) fn change(&self, worker: usize, db: u8, changes: Vec<(Vec<u8>, Change<'static>)>) {
        let session = self.engine.enter(worker);
        let keys: Vec<_> = changes.iter().map(|(key, _)| (db, KeyHash::of(key))).collect();
        let mut latched = session.latch_places(&keys, Access::Write, BEGIN_MS);
        let write = |(key, change): (Vec<u8>, _)| Write::Key { db, key: key.into(), change };
        let batch: Batch<'_> = changes.into_iter().map(write).collect();
        latched.commit(&batch, &mut Group::default()).unwrap();
        latched.release();
    }

    pub(crate) fn hset(&self, key: &str, fields: &[(&str, &str)]) {
        let put = |(field, value): &(&str, &str)| {
            let (field, value) = (field.as_bytes().to_vec().into(), value.as_bytes().to_vec().into());
            (key.as_bytes().to_vec(), Change::HashPut { field, value })
        };
        fields.iter().for_each(|field| self.change(0, 0, vec![put(field)]));
    }

    pub(crate) fn set(&self, db: u8, key: &str, value: &[u8], expiry: Option<u64>) {
        let change = Change::Put { value: value.to_vec().into(), expiry };
        self.change(0, db, vec![(key.as_bytes().to_vec(), change)]);
    }

    pub(crate) fn zadd(&self, key: &str, member: &str, score: f64) {
        let change = Change::ZSetPut { member: member.as_bytes().to_vec().into(), score };
        self.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    }

    pub(crate) fn sadd(&self, key: &str, member: &str) {
        let change = Change::SetAdd { member: member.as_bytes().to_vec().into() };
        self.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    }

    pub(crate) fn rpush(&self, key: &str, element: &str) {
        let change = Change::ListPush { side: Side::Back, element: element.as_bytes().to_vec().into() };
        self.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    }

    /// Adds an entry with this ID to a stream.
    pub(crate) fn xadd(&self, key: &str, id: (u64, u64), fields: &[(&str, &str)]) {
        let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let change = put_entry(StreamId::new(id.0, id.1), 1, fields);
        self.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    }

    /// Takes the entries below this ID away.
    pub(crate) fn xtrim(&self, key: &str, below: (u64, u64)) {
        let change = Change::StreamTrim { below: StreamId::new(below.0, below.1) };
        self.change(0, 0, vec![(key.as_bytes().to_vec(), change)]);
    }

    pub(crate) fn delete(&self, key: &str) {
        self.change(0, 0, vec![(key.as_bytes().to_vec(), Change::Delete)]);
    }

    /// No view is open, and nothing is kept for any.
    pub(crate) fn assert_nothing_kept(&self) {
        let status = self.engine.views().status();
        assert_eq!((status.open.len(), status.retained.records, status.retained.bytes), (0, 0, 0));
    }
}

/// The answer of a statement: a line for each row, its cells separated by `|`.
pub(crate) async fn ask(session: &Arc<Session>, sql: &str) -> Result<Vec<String>, QueryError> {
    let mut outcome = session.run(sql, None).await?;
    let options = FormatOptions::default().with_null("NULL");
    let mut lines = Vec::new();
    while let Some(batch) = outcome.rows.next().await {
        let batch = batch.map_err(QueryError::from)?;
        let columns: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let cells: Vec<_> = columns.iter().map(|column| column.value(row).to_string()).collect();
            lines.push(cells.join("|"));
        }
    }
    Ok(lines)
}
