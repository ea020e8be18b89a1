//! `FT.DROPINDEX … DD`: deletes the keys that an index has at one instant, some hundreds at a time. It waits
//! while writes are paused, the log takes no more, or a script has one of the keys.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tarn_engine::record::{Batch, Change, Kind as ValueKind, Lsn, Write};
use tarn_engine::session::Access;
use tarn_engine::{CommitError, Engine, Group, KeyRef, LogError};

use crate::analytics::Analytics;
use crate::error::QueryError;
use crate::statement::query::Fetching;
use crate::statement::store::StoreHandle;
use crate::statement::values::{Value, values_of};

use super::error::SearchError;
use super::index::{Index, Kind};
use super::table::{Table, column};

/// Keys that are deleted as one group of records; their segments are latched meanwhile.
const AT_ONCE: usize = 256;
/// The longest wait for a latch: a script may have it for long, and others may not wait for those that are
/// latched already.
const LATCH_WAIT: Duration = Duration::from_millis(10);
/// How long to wait before the next look whether keys may be deleted.
const PAUSE: Duration = Duration::from_millis(5);
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
        let mut keys = keys.collect::<Vec<Vec<u8>>>().into_iter();
        loop {
            let part: Arc<[Vec<u8>]> = keys.by_ref().take(AT_ONCE).collect();
            if part.is_empty() {
                break;
            }
            last = last.max(delete_part(analytics.store(), &part, kind).await?);
        }
    }
    analytics.store().until_shown(last).await?;
    Ok(())
}

/// Deletes those keys that hold such a value as soon as that is possible; returns the `Lsn` of the last.
async fn delete_part(
    store: &Arc<StoreHandle>,
    keys: &Arc<[Vec<u8>]>,
    kind: ValueKind,
) -> Result<Lsn, SearchError> {
    let refused = |why: String| SearchError::refused(format!("keys are left, and the index: {why}"));
    loop {
        let (handle, keys) = (store.clone(), keys.clone());
        // Counted there: who asked may have gone by then, and this function with it.
        let deleted = tokio::task::spawn_blocking(move || {
            if !handle.may_change() {
                return Ok(None);
            }
            let engine = handle.engine().ok_or_else(|| "the store is not there".to_owned())?;
            match delete(&handle, &engine, &keys, kind) {
                Ok(Some((lsn, number))) => {
                    handle.count_changes(number);
                    Ok(Some(lsn))
                }
                Ok(None) | Err(CommitError::Log(LogError::Backlogged)) => Ok(None),
                Err(error) => Err(error.to_string()),
            }
        });
        if let Some(lsn) = deleted.await.map_err(|error| refused(error.to_string()))?.map_err(refused)? {
            return Ok(lsn);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Deletes those keys that hold such a value, and tells of that; returns the `Lsn` of the last, and how many
/// they are. `None` if somebody has their latches, or the store for itself, for long.
fn delete(
    store: &StoreHandle,
    engine: &Engine,
    keys: &[Vec<u8>],
    kind: ValueKind,
) -> Result<Option<(Lsn, usize)>, CommitError> {
    let refs: Vec<KeyRef<'_>> = keys.iter().map(|key| KeyRef::of(DB, key)).collect();
    let session = engine.enter_behind();
    let latched = session.latch_within(&refs, Access::Write, engine.now(), Some(LATCH_WAIT));
    let Some(mut latched) = latched else { return Ok(None) };
    let is_there = |key: &&KeyRef<'_>| latched.find(**key).is_some_and(|entry| entry.kind() == kind);
    let there: Vec<&[u8]> = refs.iter().filter(is_there).map(|key| key.key).collect();
    if there.is_empty() {
        return Ok(Some((Lsn::default(), 0)));
    }
    let delete = |key: &&[u8]| Write::Key { db: DB, key: key.to_vec().into(), change: Change::Delete };
    let batch: Batch<'_> = there.iter().map(delete).collect();
    let lsn = latched.commit(&batch, &mut Group::default())?;
    store.tell_changed(&there, lsn);
    latched.release();
    Ok(Some((lsn, there.len())))
}
