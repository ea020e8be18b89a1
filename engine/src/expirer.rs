//! Deletes expired keys and fields of hashes that no command touches, and gives back segments of tables that
//! lost most of their keys. Moves the clock of the uses of keys, and goes over their notes within each half
//! hour.
//!
//! A script may have latches for as long as it runs. Who waited for one inside the gate would keep others
//! from closing it, and those who come behind them from entering it. So the expirer leaves such a segment to
//! its next turn.

use std::time::Duration;

use crate::indexer;
use crate::log::Group;
use crate::record::UnixMs;
use crate::session::Latched;
use crate::store::{CommitError, Databases, Store};
use crate::table::{Due, Entry};
use crate::value::usage;

/// The longest wait for a latch.
const LATCH_WAIT: Duration = Duration::from_millis(1);
/// How often in one turn the expirer makes a table smaller.
const SHRINKS_AT_ONCE: usize = 64;
/// Fields of hashes that are removed under one latch.
const FIELDS_AT_ONCE: usize = 256;
/// How often in one turn that is done to one segment. The rest waits for the next.
const ROUNDS_MAX: usize = 64;

/// In so much time the notes of the use of all keys are gone over, in milliseconds.
const SETTLE_MS: u64 = 30 * 60 * 1000;
/// Segments that are gone over before the gate is left for a moment.
const SETTLED_AT_ONCE: usize = 8;

/// One turn of the expirer: moves the clock of uses, cancels views past a limit, gives up indexes past
/// theirs, deletes what is due, makes tables smaller.
pub(crate) fn turn(store: &Store) {
    usage::set_time(store.clock().monotonic());
    settle_uses(store);
    store.views().enforce_limits();
    indexer::keep_to_limit(store);
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

/// Goes over the notes of the use of keys, in the part of the segments that stands for the time since the
/// last call. In a table that grows some may be left for the next round: the notes can wait for hours.
fn settle_uses(store: &Store) {
    let now = store.clock().monotonic().as_millis() as u64;
    let since = store.eviction().settle_up_to(now);
    let (from, until) = (since % SETTLE_MS, now % SETTLE_MS);
    if now / SETTLE_MS == since / SETTLE_MS {
        settle_part(store, from, until);
    } else {
        settle_part(store, from, SETTLE_MS);
        settle_part(store, 0, until);
    }
}

/// The same for the segments that stand for a part of the round.
fn settle_part(store: &Store, from_ms: u64, until_ms: u64) {
    let count = store.background().tables.len();
    for db in 0..count {
        let (mut next, mut is_over) = (None, false);
        while !is_over {
            // The gate is left again and again, so that closing it waits for a few segments at most.
            let databases = store.background();
            let table = &databases.tables[db];
            let place = |ms: u64| (ms as u128 * table.segments() as u128 / u128::from(SETTLE_MS)) as usize;
            let (first, end) = (next.unwrap_or_else(|| place(from_ms)), place(until_ms));
            let last = end.min(first + SETTLED_AT_ONCE);
            for index in first..last {
                // One that somebody has for long is left for the next round.
                if let Some(segment) = table.read_within(index, Some(LATCH_WAIT)) {
                    segment.iter_fetched().for_each(Entry::settle_use);
                }
            }
            next = Some(last);
            is_over = last >= end;
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
