//! Evicts keys: deletes those that are used least, while more memory is in use than the limit allows.
//!
//! ```text
//!   one key to evict:   draw a database by its keys ─ draw a segment ─ look at some entries in a row
//!                         └─> the best of them, and of the looks before: the pool
//!                       take the best of the pool ─ latch its key ─ is it there, and as unused as it was?
//!                         └─> delete it: a record of the log as any other
//! ```
//!
//! The segment that a key is in, and its place there, follow from its hash alone, and tell nothing of its
//! use. So the entries of one segment are as good a sample as the same number from all of them, and cost
//! one latch and one walk (`docs/design/0045-memory-limit.md`).
//!
//! A worker that is about to write makes room for what it has written before; a thread of its own does the
//! rest, in short steps. Neither waits for a latch that somebody has for long.

use std::time::Duration;

use smallvec::SmallVec;

use crate::log::Group;
use crate::record::{Batch, Change, UnixMs, Write};
use crate::session::{Access, Session};
use crate::store::{Candidate, CommitError, Databases, Evicted, EvictionOptions, Pool, Room, Store, Victims};
use crate::table::{Entry, KeyHash, KeyRef};
use crate::throttle::give_way;
use crate::value::scale;
use crate::value::usage;

/// The longest wait for a latch.
const LATCH_WAIT: Duration = Duration::from_micros(200);
/// The longest wait for the gate.
const GATE_WAIT: Duration = Duration::from_millis(10);
/// The time after which the thread that evicts looks again what is in use, and rests.
const STEP: Duration = Duration::from_micros(500);
/// The time after which it leaves the gate, and lets threads run that wait for its processor: for a worker
/// that has got a request, where both have one core. `give_way` keeps the processor for an eighth of the time
/// that the thread has waited for it itself.
const PART: Duration = Duration::from_micros(50);
/// Its rest where nothing is to be evicted.
const IDLE: Duration = Duration::from_millis(100);
/// Its rest between two steps.
const REST: Duration = Duration::from_micros(100);
/// Its rest where it waits for other threads: those that free memory, or write the log.
const WAIT: Duration = Duration::from_millis(5);
/// Bytes of records that may wait to be written while it evicts: the log is there for clients.
const BACKLOG_BYTES: u64 = 4 << 20;
/// Looks for a candidate that may find none before nothing is said to be there.
const LOOKS_MAX: usize = 64;
/// Segments that a search passes, where draws find none, before it ends when its time is over.
const PASSED_MIN: usize = 1024;
/// Segments that somebody has for long, among these looks, before it is given up for now.
const LATCHED_MAX: usize = 8;
/// So many keys are found before those of each database are counted again.
const COUNTED_FOR: usize = 64;
/// Candidates in a row that may turn out to be gone, used or latched before it is given up for now.
const MISSES_MAX: usize = 64;
/// A key with a longer name is not evicted: it would have to be copied under a latch.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Bytes of a slot of the table, about, which a key takes beside its entry.
const SLOT_BYTES: usize = 6;

/// Evicts keys until about so many bytes are given back, or the time is over; one in any case, if one is
/// found soon.
///
/// REQUIRES: the caller holds no latch.
pub(crate) fn evict(
    store: &Store,
    session: &Session<'_>,
    wanted: u64,
    time: Duration,
    group: &mut Group,
) -> Evicted {
    let mut evicted = Evicted::default();
    let options = store.eviction().options();
    if options.victims == Victims::None {
        evicted.room = Room::Nothing;
        return evicted;
    }
    // Where the log has no room, who writes waits for it: the rest of it is for what clients have begun.
    let has_room = session.databases().log.as_ref().is_none_or(|log| log.has_room());
    if !has_room || store.eviction().is_behind() {
        evicted.room = Room::Unfinished;
        return evicted;
    }
    let began = store.clock().monotonic();
    let is_over = || store.clock().monotonic().saturating_sub(began) >= time;
    let mut search = Search::new(session.databases(), options, &is_over);
    let mut pool = store.eviction().take_pool();
    let mut misses = 0;
    while evicted.bytes < wanted {
        let Some(candidate) = search.next(&mut pool) else {
            // Where latches were in the way, or the time was over, there may be keys elsewhere.
            let may_be_more = search.latched > 0 || search.is_cut;
            evicted.room = if may_be_more { Room::Unfinished } else { room_at_the_end(store) };
            break;
        };
        match delete(store, session, options, &candidate, group) {
            Ok(Some(deleted)) => {
                misses = 0;
                evicted.keys += u64::from(deleted.is_evicted);
                evicted.bytes += deleted.bytes;
                evicted.bytes_behind += if deleted.is_slow { deleted.bytes } else { 0 };
            }
            Ok(None) => misses += 1,
            Err(_) => misses = MISSES_MAX,
        }
        if misses == MISSES_MAX || is_over() {
            let is_enough = evicted.bytes >= wanted;
            evicted.room = if is_enough { Room::Enough } else { Room::Unfinished };
            break;
        }
    }
    store.eviction().keep_pool(pool);
    if evicted.room == Room::Enough && evicted.bytes_behind > 0 {
        // Nobody counts as given back what is not: a copy or a view may have it.
        evicted.room = Room::Freeing;
    }
    evicted
}

/// The outcome where there is nothing to evict: what was deleted or flushed may be on its way out.
fn room_at_the_end(store: &Store) -> Room {
    if store.pending_frees() > 0 { Room::Freeing } else { Room::Nothing }
}

/// One step of the thread that evicts. Returns its rest behind that.
pub(crate) fn turn(store: &Store, group: &mut Group) -> Duration {
    let Some(listener) = store.eviction().listener() else { return IDLE };
    // Asked first: what others have freed by now the listener knows.
    let is_freeing = store.pending_frees() > 0;
    let excess = listener.excess_bytes();
    if excess == 0 || store.eviction().options().victims == Victims::None {
        return IDLE;
    }
    if is_freeing {
        // Memory that is being given back already looks as if it were in use.
        return WAIT;
    }
    let (clock, mut wanted, mut behind) = (store.clock(), excess, 0);
    // The work of the step, without the waits for the processor and the gate.
    let (mut worked, mut keys) = (Duration::ZERO, 0);
    loop {
        give_way(clock);
        let Some(databases) = store.background_within(GATE_WAIT) else { return REST };
        if databases.log.as_ref().is_some_and(|log| log.backlog_bytes() > BACKLOG_BYTES) {
            return WAIT;
        }
        let session = Session::new(store, databases, true);
        let part = clock.monotonic();
        let evicted = evict(store, &session, wanted, PART, group);
        drop(session);
        let took = clock.monotonic().saturating_sub(part);
        (wanted, behind) = (wanted.saturating_sub(evicted.bytes), behind + evicted.bytes_behind);
        (worked, keys) = (worked + took, keys + evicted.keys);
        let is_over = worked >= STEP;
        // A part that found none, and not for lack of time, has latches or the log in the way.
        let is_in_vain = evicted.keys == 0 && (is_over && keys == 0 || took < PART);
        match evicted.room {
            Room::Enough if behind > 0 => return WAIT,
            Room::Enough | Room::Nothing => return IDLE,
            Room::Freeing => return WAIT,
            Room::Unfinished if is_in_vain => return WAIT,
            Room::Unfinished if is_over => return REST,
            Room::Unfinished => {}
        }
    }
}

/// A search for keys to evict.
struct Search<'d> {
    databases: &'d Databases,
    options: EvictionOptions,
    /// The databases with keys that may be evicted, and how many these were a moment ago.
    there: SmallVec<[(usize, usize); 4]>,
    /// Keys that may still be found before they are counted again.
    counted_for: usize,
    /// Segments that the last search could not look at, as somebody has them for long.
    latched: usize,
    /// Whether the time of the search is over.
    is_over: &'d dyn Fn() -> bool,
    /// Whether the last search ended for that.
    is_cut: bool,
}

impl<'d> Search<'d> {
    fn new(databases: &'d Databases, options: EvictionOptions, is_over: &'d dyn Fn() -> bool) -> Search<'d> {
        let there = SmallVec::new();
        Search { databases, options, there, counted_for: 0, latched: 0, is_over, is_cut: false }
    }

    /// Counts the keys of each database that may be evicted.
    fn count(&mut self) {
        let tables = self.databases.tables.iter().enumerate();
        let there = tables.map(|(db, table)| {
            let keys = if self.options.only_expiring { table.expiring() } else { table.len() };
            (db, keys)
        });
        self.there = there.filter(|(_, keys)| *keys > 0).collect();
        self.counted_for = COUNTED_FOR;
    }

    /// The next key to evict; `None` if there is none, or none was found in time, or for latches that were in
    /// the way.
    fn next(&mut self, pool: &mut Pool) -> Option<Candidate> {
        (self.latched, self.is_cut) = (0, false);
        if self.counted_for == 0 {
            self.count();
        }
        self.counted_for -= 1;
        let mut passed = 0;
        for _ in 0..LOOKS_MAX {
            let Some((db, index)) = self.draw() else { break };
            self.look((db, index), pool);
            if let Some(best) = pool.take_best() {
                return Some(best);
            }
            // To draw one in which something expires may take a walk over all of them.
            passed += if self.options.only_expiring { self.databases.tables[db].segments() } else { 1 };
            if self.gives_up(passed) {
                return None;
            }
        }
        // Nearly all segments are empty, or all.
        self.count();
        for (db, _) in self.there.clone() {
            let segments = self.databases.tables[db].segments();
            // From anywhere, so that those who have little time find the keys at the end as well.
            let first = scale(usage::random(), segments);
            for index in (first..segments).chain(0..first) {
                self.look((db, index), pool);
                if let Some(best) = pool.take_best() {
                    return Some(best);
                }
                passed += 1;
                if self.gives_up(passed) {
                    return None;
                }
            }
        }
        None
    }

    /// Whether a search ends that has passed so many segments and found nothing yet.
    fn gives_up(&mut self, passed: usize) -> bool {
        self.is_cut = passed >= PASSED_MIN && (self.is_over)();
        self.is_cut || self.latched >= LATCHED_MAX
    }

    /// Draws a segment of one of the databases; `None` if no key may be evicted.
    fn draw(&self) -> Option<(usize, usize)> {
        let mut drawn = scale(usage::random(), self.there.iter().map(|(_, keys)| keys).sum());
        let (db, _) = self.there.iter().find(|(_, keys)| {
            let is_here = drawn < *keys;
            drawn = drawn.saturating_sub(*keys);
            is_here
        })?;
        let table = &self.databases.tables[*db];
        let first = scale(usage::random(), table.segments());
        let next = |from| table.next_due(from, UnixMs::MAX);
        let index = if self.options.only_expiring { next(first).or_else(|| next(0)) } else { Some(first) };
        index.map(|index| (*db, index))
    }

    /// Looks at some keys of a segment, and offers them to the pool.
    fn look(&mut self, (db, index): (usize, usize), pool: &mut Pool) {
        let EvictionOptions { victims, only_expiring, samples } = self.options;
        let databases = self.databases;
        let Some(segment) = databases.tables[db].read_within(index, Some(LATCH_WAIT)) else {
            self.latched += 1;
            return;
        };
        if only_expiring && segment.expiring() == 0 {
            return;
        }
        let samples = if victims == Victims::Random { 1 } else { samples };
        let is = |entry: &Entry| {
            let is_allowed = !only_expiring || entry.expiry().is_some();
            is_allowed && entry.key().len() <= KEY_BYTES_MAX
        };
        for entry in segment.sample_row(usage::random(), samples, is) {
            let score = score(victims, entry);
            if pool.admits(score) {
                let (hash, key) = (KeyHash::of_stored(entry.key()), entry.key().into());
                pool.offer(Candidate { score, db: db as u8, hash, key });
            }
        }
    }
}

/// The score of a key: the greater, the sooner it is evicted.
fn score(victims: Victims, entry: &Entry) -> u64 {
    match victims {
        Victims::None | Victims::Random => 0,
        // A key that is too long to have a note counts as one that is used.
        Victims::Idle => entry.used().map_or(0, |used| used.idle_s()),
        Victims::Rare => entry.used().map_or(0, |used| u64::from(u8::MAX - used.frequency())),
        Victims::Soonest => u64::MAX - entry.expiry().unwrap_or(UnixMs::MAX),
    }
}

/// A key that is gone now.
struct Deleted {
    /// Not as its time was over.
    is_evicted: bool,
    /// Another thread frees it.
    is_slow: bool,
    /// The memory that it took, and nobody else has: about, if it is large.
    bytes: u64,
}

/// Deletes a candidate; `None` if its key is gone, or was used since, or somebody has it for long.
fn delete(
    store: &Store,
    session: &Session<'_>,
    options: EvictionOptions,
    candidate: &Candidate,
    group: &mut Group,
) -> Result<Option<Deleted>, CommitError> {
    let Candidate { score: told, db, hash, .. } = candidate;
    let key: &[u8] = &candidate.key;
    let keys = [KeyRef { db: *db, hash: *hash, key }];
    let latched = session.latch_within(&keys, Access::Write, store.now(), Some(LATCH_WAIT));
    let Some(mut latched) = latched else { return Ok(None) };
    // Of a hash fields may be over alone.
    let has_expired = latched.expire(&keys, group)? > 0;
    let Some(entry) = latched.find(keys[0]) else {
        latched.release();
        return Ok(has_expired.then_some(Deleted { is_evicted: false, is_slow: false, bytes: 0 }));
    };
    let is_allowed = !options.only_expiring || entry.expiry().is_some();
    if !is_allowed || score(options.victims, entry) < *told {
        return Ok(None);
    }
    let bytes = (entry.bytes_own() + SLOT_BYTES) as u64;
    let deleted = Deleted { is_evicted: true, is_slow: entry.is_slow_to_free(), bytes };
    let write = Write::Key { db: *db, key: key.into(), change: Change::Delete };
    let lsn = latched.commit(&Batch::from_iter([write]), group)?;
    store.eviction().note_evicted(*db, key, lsn);
    let segment = latched.segment();
    if segment.expiring() == 0 && segment.timed() == 0 {
        // Else a search for keys that expire would come by in vain until the time of this one.
        latched.set_due(None);
    }
    latched.release();
    Ok(Some(deleted))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::record::{Lsn, Stamped};
    use crate::table::{Readers, Retired, Table};

    #[test]
    fn a_search_that_has_no_time_ends_soon_and_one_of_many_finds_the_only_key() {
        let table = Arc::new(Table::default());
        table.make_room(PASSED_MIN * 800);
        assert!(table.segments() >= 2 * PASSED_MIN, "no search without time passes all");
        let databases = Databases { tables: vec![table.clone()], ..Databases::default() };
        let find = |is_over: &dyn Fn() -> bool| {
            let options = EvictionOptions { victims: Victims::Random, only_expiring: false, samples: 5 };
            let mut search = Search::new(&databases, options, is_over);
            let found = search.next(&mut Pool::default());
            (found.map(|candidate| candidate.key.to_vec()), search.is_cut)
        };
        assert_eq!(find(&|| true), (None, false), "that there is no key is known without a walk");
        let key = KeyRef::of(0, b"key");
        let (index, mut segment) = table.write_of(key.hash);
        let change = Change::Put { value: b"value".into(), expiry: None };
        let (stamped, waiting) =
            (Stamped { lsn: Lsn(1), change: &change }, table.waiting(Readers::NONE, key.hash));
        let (effect, fits) = segment.apply(key, stamped, waiting, &mut Retired::default());
        assert!(fits);
        table.note(index, effect);
        drop(segment);
        assert_eq!(find(&|| false), (Some(b"key".to_vec()), false));
        let found: Vec<_> = (0..100).map(|_| find(&|| true)).collect();
        assert!(found.iter().any(|(key, _)| key.is_some()), "walks begin anywhere");
        assert!(found.iter().any(|(key, is_cut)| key.is_none() && *is_cut), "there may be a key");
    }
}
