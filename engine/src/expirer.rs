//! Deletes expired keys and fields of hashes that no command touches, and gives back segments of tables that
//! lost most of their keys.
//!
//! A script may have latches for as long as it runs. Who waited for one inside the gate would keep others
//! from closing it, and those who come behind them from entering it. So the expirer leaves such a segment to
//! its next turn.

use std::time::Duration;

use crate::log::Group;
use crate::record::UnixMs;
use crate::session::Latched;
use crate::store::{CommitError, Databases, Store};
use crate::table::Due;

/// The longest wait for a latch.
const LATCH_WAIT: Duration = Duration::from_millis(1);
/// How often in one turn the expirer makes a table smaller.
const SHRINKS_AT_ONCE: usize = 64;
/// Fields of hashes that are removed under one latch.
const FIELDS_AT_ONCE: usize = 256;
/// How often in one turn that is done to one segment. The rest waits for the next.
const ROUNDS_MAX: usize = 64;

/// One turn of the expirer: cancels views past a limit, deletes what is due, makes tables smaller.
pub(crate) fn turn(store: &Store) {
    store.views().enforce_limits();
    if store.expiry().is_active() {
        let began = store.clock().monotonic();
        expire_due(store, store.now());
        store.expiry().note_took(store.clock().monotonic().saturating_sub(began));
    }
    shrink_tables(store);
}

/// Deletes the keys and fields that are due at `now`, one segment at a time, but for segments that others
/// have for long. Stops early if the log refuses writes.
pub(crate) fn expire_due(store: &Store, now: UnixMs) {
    let mut group = Group::default();
    let count = store.background().tables.len();
    for db in 0..count {
        let (mut from, mut last, mut rounds) = (0, usize::MAX, 0);
        loop {
            if store.expiry().is_behind() {
                return;
            }
            // The gate is left after each segment, so that closing it waits for one segment at most.
            let databases = store.background();
            let Some(index) = databases.tables[db].next_due(from, now) else { break };
            (last, rounds) = (index, if index == last { rounds + 1 } else { 1 });
            match expire_segment(store, &databases, (db as u8, index), now, &mut group) {
                Ok(is_done) => from = if is_done || rounds == ROUNDS_MAX { index + 1 } else { index },
                Err(_) => return,
            }
        }
    }
}

/// Gives back segments of tables that have lost most of their keys, some hundreds at most.
pub(crate) fn shrink_tables(store: &Store) {
    let count = store.background().tables.len();
    for db in 0..count {
        for _ in 0..SHRINKS_AT_ONCE {
            // The gate is left again and again, so that closing it waits for a few segments at most.
            let databases = store.background();
            if !databases.tables[db].is_sparse() {
                break;
            }
            databases.tables[db].shrink(8);
        }
    }
}

/// Deletes what is due in a segment, of fields a part; says whether nothing is left that is to be tried again
/// at once.
fn expire_segment(
    store: &Store,
    databases: &Databases,
    (db, index): (u8, usize),
    now: UnixMs,
    group: &mut Group,
) -> Result<bool, CommitError> {
    let Some(mut latched) = Latched::of_segment(store, databases, (db, index), now, LATCH_WAIT) else {
        return Ok(true);
    };
    let Due { over, next } = latched.segment().over(now, FIELDS_AT_ONCE);
    let over: Vec<_> = over.into_iter().map(|(key, part)| ((db, key), part)).collect();
    latched.delete_over(&over, group)?;
    latched.set_due(next);
    Ok(next.is_none_or(|next| next >= now))
}
