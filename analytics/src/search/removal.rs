//! `FT.DROPINDEX … DD`: deletes the keys that an index has at one instant, some hundreds at a time.

use std::sync::Arc;

use futures::StreamExt;
use tarn_engine::record::{Batch, Change, Kind as ValueKind, Lsn, Write};
use tarn_engine::session::Access;
use tarn_engine::{Engine, Group, KeyRef};

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::query::Fetching;
use crate::statement::values::{Value, values_of};

use super::error::SearchError;
use super::index::{Index, Kind};
use super::table::{Table, column};

/// Keys that are deleted as one group of records; their segments are latched meanwhile.
const AT_ONCE: usize = 256;
/// The database of indexes.
const DB: u8 = 0;

/// Deletes the keys of an index, and waits until that may be shown. A key that has got a value of another
/// type meanwhile stays. If it fails, those deleted so far are gone.
pub(super) async fn delete_keys(
    analytics: &Arc<Analytics>,
    index: &Index,
    said: &str,
) -> Result<(), SearchError> {
    let kind = match index.kind {
        Kind::Hash => ValueKind::Hash,
        Kind::Json => ValueKind::Json,
    };
    let mut table = Table::of(index);
    let key = table.key();
    let plan = table.plan(analytics.store())?.project([column(&key)])?.build()?;
    let session = analytics.session();
    let mut outcome = session.run_planned(said, plan, None, Fetching::AtOnce).await?;
    let mut last = Lsn::default();
    while let Some(batch) = outcome.rows.next().await {
        let values = values_of(batch.map_err(QueryError::from)?.column(0))?;
        let keys = values.into_iter().filter_map(|value| match value {
            Value::Bytes(key) => Some(key),
            _ => None,
        });
        let keys: Vec<Vec<u8>> = keys.collect();
        let refused = |why: String| SearchError::refused(format!("keys are left, and the index: {why}"));
        let engine =
            analytics.store().engine().ok_or_else(|| refused("the store is not there".to_owned()))?;
        let deleted = tokio::task::spawn_blocking(move || {
            keys.chunks(AT_ONCE).try_fold(Lsn::default(), |last, keys| {
                delete(&engine, keys, kind).map(|lsn| lsn.unwrap_or(last))
            })
        });
        let deleted = deleted.await.map_err(|error| refused(error.to_string()))?;
        last = last.max(deleted.map_err(refused)?);
    }
    analytics.store().until_shown(last).await?;
    Ok(())
}

/// Deletes those keys that hold such a value; returns the `Lsn` of the last.
fn delete(engine: &Engine, keys: &[Vec<u8>], kind: ValueKind) -> Result<Option<Lsn>, String> {
    let refs: Vec<KeyRef<'_>> = keys.iter().map(|key| KeyRef::of(DB, key)).collect();
    let session = engine.enter_behind();
    let mut latched = session.latch(&refs, Access::Write, engine.now());
    let there = refs.iter().filter(|key| latched.find(**key).is_some_and(|entry| entry.kind() == kind));
    let delete =
        |key: &KeyRef<'_>| Write::Key { db: DB, key: key.key.to_vec().into(), change: Change::Delete };
    let batch: Batch<'_> = there.map(delete).collect();
    if batch.is_empty() {
        return Ok(None);
    }
    latched.commit(&batch, &mut Group::default()).map(Some).map_err(|error| error.to_string())
}
