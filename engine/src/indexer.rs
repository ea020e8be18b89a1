//! Creates and drops indexes, and runs the thread that builds them.
//!
//! ```text
//!   create_index   gate closed ── from here on writers maintain it ── gate open ── built, part after part
//! ```
//!
//! Which index is of which database is protected by the gate, as which table is. A database keeps its
//! definitions: when its table is flushed, the fresh one has empty indexes, and when it changes places with
//! another, its indexes are built again from the table that is there now. Views that are open go on reading
//! the table of their instant by the indexes that it had.

use crate::index::{Index, IndexStatus, Indexed};
use crate::session::Exclusive;
use crate::store::{Build, IndexMemory, Store};
use crate::throttle::{Throttle, give_way};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why an index was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    /// The database has one of this name.
    #[error("database {0} has an index \"{1}\" already; drop it first, or choose another name")]
    Exists(u8, String),
    /// There is no such database.
    #[error("there is no database {0}; see the directive databases")]
    NoDatabase(u8),
}

/// Notes the memory of all indexes. Gives one of them up while all take more than they may, the largest; has
/// one that was given up built again when there is room for it. Queries read the table meanwhile. Leaves that
/// to its next call while somebody is inside the gate for long.
///
/// REQUIRES: the caller is not inside the gate.
pub(crate) fn keep_to_limit(store: &Store) {
    let (limit, all) = (store.index_limit().bytes_max(), store.indexes());
    let bytes: usize = all.iter().map(|index| index.bytes).sum();
    let given_up = all.iter().filter(|index| index.given_up_bytes > 0);
    let given_up = given_up.map(|index| (index.db, index.name.clone())).collect();
    store.index_limit().note(IndexMemory { bytes, given_up });
    let fits = |index: &IndexStatus| limit == 0 || bytes + index.given_up_bytes <= limit;
    if limit > 0 && bytes > limit {
        if let Some(largest) = all.iter().max_by_key(|index| index.bytes) {
            replace(store, largest, Index::given_up);
        }
    } else if let Some(index) = all.iter().find(|index| index.given_up_bytes > 0 && fits(index))
        && let Some(build) = replace(store, index, Index::rebuilding)
    {
        store.build(build);
    }
}

/// Puts another index in the place of one; returns the build that it needs. `None` if somebody is inside the
/// gate for long, or there is no such index any more.
fn replace(store: &Store, which: &IndexStatus, other: impl Fn(&Index) -> Index) -> Option<Build> {
    let mut exclusive = Exclusive::try_close(store, Duration::ZERO)?;
    let databases = exclusive.databases();
    let table = databases.tables[usize::from(which.db)].clone();
    let mut indexes = databases.indexes[usize::from(which.db)].to_vec();
    let place = indexes.iter_mut().find(|index| index.name() == which.name)?;
    let index = Arc::new(other(place));
    let old = std::mem::replace(place, index.clone());
    exclusive.set_indexes(which.db, &indexes.into());
    drop(exclusive);
    store.discard_indexes(vec![old].into());
    Some(Build { table, index })
}

/// Builds an index, until it is built or all stops.
pub(crate) fn build(store: &Store, build: &Build, stop: &AtomicBool) {
    let (clock, clients) = (store.clock(), store.clients());
    let mut throttle = Throttle::new(clock.monotonic());
    build.index.build(&build.table, || {
        give_way(clock);
        let asked = clock.monotonic();
        let rest = throttle.rest(clients, asked);
        if !rest.is_zero() {
            std::thread::park_timeout(rest);
            let now = clock.monotonic();
            throttle.go_on(clients, now.saturating_sub(asked), now);
        }
        !stop.load(Ordering::Relaxed)
    });
}

/// Makes an index of a database. It is built in the background: views that are opened when it is ready
/// can read it. Waits until every worker is out of the gate.
///
/// REQUIRES: the caller is not inside the gate.
pub(crate) fn create_index(
    store: &Store,
    db: u8,
    name: &str,
    indexed: Arc<dyn Indexed>,
) -> Result<Arc<Index>, IndexError> {
    let mut exclusive = Exclusive::close(store);
    let databases = exclusive.databases();
    let Some(present) = databases.indexes.get(usize::from(db)) else {
        return Err(IndexError::NoDatabase(db));
    };
    if present.iter().any(|index| index.name() == name) {
        return Err(IndexError::Exists(db, name.to_owned()));
    }
    let index = Arc::new(Index::new(name, indexed));
    let all = present.iter().chain([&index]).cloned().collect();
    let build = Build { table: databases.tables[usize::from(db)].clone(), index: index.clone() };
    exclusive.set_indexes(db, &all);
    drop(exclusive);
    store.build(build);
    Ok(index)
}

/// Drops an index, ready or not; `false` if there is none of that name. Views that read it go on. Waits
/// until every worker is out of the gate: so whatever an open view sees is in it.
///
/// REQUIRES: the caller is not inside the gate.
pub(crate) fn drop_index(store: &Store, db: u8, name: &str) -> bool {
    let mut exclusive = Exclusive::close(store);
    let Some(present) = exclusive.databases().indexes.get(usize::from(db)).cloned() else { return false };
    let (gone, left): (Vec<_>, Vec<_>) = present.iter().cloned().partition(|index| index.name() == name);
    exclusive.set_indexes(db, &left.into());
    drop(exclusive);
    let is_there = !gone.is_empty();
    store.discard_indexes(gone.into());
    is_there
}
