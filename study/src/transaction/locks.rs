//! A lock for each row, and in the same word the last periods whose transactions have read and written it.
//!
//! ```text
//!   | written_in: 24 bits | read_in: 24 bits | holders: 16 bits |
//!                                              0: free, 1 … 65534: so many readers, 65535: a writer
//! ```
//!
//! A transaction keeps its locks to its end. When it gives a lock back it leaves its period there, in the
//! same step. So the next holder of the lock knows whether it would follow a transaction of a later period.
//!
//! No wait is unbounded: a transaction that does not get a lock within some tries aborts, gives all its locks
//! back and is run again (no-wait, with patience). So there is no circular wait. A transaction that has read
//! a row and is to write it has no patience. Otherwise those that wait for one row like this would block each
//! other, collide again and again, and others would join them, until none makes progress
//! (`tests/contention.rs`). Wait-die would abort less often, but needs the ages of the holders in each lock;
//! a wait-for graph would need a lock of its own.
//!
//! 24 bits of a period are kept. After 2^24 periods a row that no transaction has accessed since may be taken
//! for one of the later period. The only effect is that a transaction is restarted without need.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::yield_now;
use crate::transaction::algorithm::Meeting;
use crate::transaction::periods::Period;

const HOLDERS: u64 = 0xffff;
const WRITER: u64 = HOLDERS;
const READERS_LIMIT: u64 = HOLDERS - 1;
const STAMP: u64 = 0xff_ffff;
const READ_IN: u32 = 16;
const WRITTEN_IN: u32 = 40;

/// The number of times that a lock is tried before the transaction gives up. loom knows which thread can
/// continue only if none waits with a lock.
const TRIES: usize = if cfg!(loom) { 1 } else { 64 };

pub(crate) struct Locks {
    words: Vec<AtomicU64>,
}

/// The access that a transaction is going to make to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    /// Write, where it already holds the lock to read.
    WriteAfterRead,
}

/// Why a lock was not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Others hold it.
    Held,
    /// The transaction would follow one of a later period.
    Newer,
}

/// A row that the snapshotter has locked.
pub(crate) struct Hold<'l> {
    word: &'l AtomicU64,
}

impl Locks {
    pub(crate) fn new(shape: Shape) -> Result<Locks, SnapshotError> {
        Ok(Locks { words: memory::zeros(shape.rows, shape)? })
    }

    /// Locks a row for a transaction that began in `period`, or gives the reason why not; `must_restart`
    /// judges the accesses of a later period.
    #[inline]
    pub(crate) fn lock(
        &self,
        row: usize,
        access: Access,
        period: Period,
        must_restart: impl Fn(Meeting) -> bool,
    ) -> Result<(), Refusal> {
        let word = &self.words[row];
        let later = stamp(period.number() + 1);
        let mut state = word.load(Ordering::Relaxed);
        // A reader that holds the lock and waits to write keeps all others from writing, which may wait for
        // the same.
        let tries = if access == Access::WriteAfterRead { 1 } else { TRIES };
        for left in (0..tries).rev() {
            let meeting = Meeting {
                written: state >> WRITTEN_IN == later,
                read: state >> READ_IN & STAMP == later,
                to_write: access != Access::Read,
            };
            if (meeting.written || meeting.read) && must_restart(meeting) {
                return Err(Refusal::Newer);
            }
            match locked(state, access) {
                // Acquire: pairs with the Release of the thread that gave the lock back.
                Some(to) => match word.compare_exchange(state, to, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Ok(()),
                    Err(now) => state = now,
                },
                None if left > 0 => {
                    yield_now();
                    state = word.load(Ordering::Relaxed);
                }
                None => {}
            }
        }
        Err(Refusal::Held)
    }

    /// Gives back a lock that was held to read, by a transaction that began in `period`.
    #[inline]
    pub(crate) fn unlock_read(&self, row: usize, period: Period) {
        let leave = |state: u64| Some(read_in(state, period) - 1);
        self.words[row].fetch_update(Ordering::Release, Ordering::Relaxed, leave).ok();
    }

    /// Gives back a lock that was held to write, by a transaction that began in `period` and has `written`
    /// the row or, aborted, has at most read it.
    #[inline]
    pub(crate) fn unlock_write(&self, row: usize, period: Period, written: bool) {
        let word = &self.words[row];
        // No other thread changes the word of a row that is held to write.
        let state = read_in(word.load(Ordering::Relaxed), period) & !HOLDERS;
        let state = if written { with_stamp(state, WRITTEN_IN, period) } else { state };
        word.store(state, Ordering::Release);
    }

    /// Locks a row for the snapshotter, however long that takes. REQUIRES: it holds no other.
    pub(crate) fn hold(&self, row: usize) -> Hold<'_> {
        let word = &self.words[row];
        let take = |state: u64| locked(state, Access::Write);
        while word.fetch_update(Ordering::Acquire, Ordering::Relaxed, take).is_err() {
            yield_now();
        }
        Hold { word }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.word.fetch_and(!HOLDERS, Ordering::Release);
    }
}

/// The word when the lock has been taken, if it can be.
fn locked(state: u64, access: Access) -> Option<u64> {
    let holders = state & HOLDERS;
    match access {
        Access::Read => (holders < READERS_LIMIT).then_some(state + 1),
        Access::Write => (holders == 0).then_some(state | WRITER),
        Access::WriteAfterRead => (holders == 1).then_some(state | WRITER),
    }
}

const fn stamp(period: u64) -> u64 {
    period & STAMP
}

fn with_stamp(state: u64, at: u32, period: Period) -> u64 {
    state & !(STAMP << at) | stamp(period.number()) << at
}

/// The word of a row that was read in `period`, or in the one after it.
fn read_in(state: u64, period: Period) -> u64 {
    if state >> READ_IN & STAMP == stamp(period.number() + 1) {
        state
    } else {
        with_stamp(state, READ_IN, period)
    }
}
