//! A lock for each row, and in the same word the last versions whose transactions have read and written it.
//!
//! ```text
//!   | written_in: 38 bits | copy: 1 bit | before: 1 bit | read_in: 12 bits | holders: 12 bits |
//!                                                            0: free, 1 … 4094: readers, 4095: a writer
//! ```
//!
//! A version is all that is written between two cuts: version `v` is what snapshot `v` has and snapshot
//! `v - 1` lacks. The algorithm says to which version a transaction belongs.
//!
//! A transaction keeps its locks to its end. When it gives a lock back it leaves its version there, in the
//! same step. So the next holder of the lock knows whether it would follow a transaction of a later version,
//! and which version the row's newest content has.
//!
//! `before` says that the row was written in the version before `written_in` as well. So snapshot `v` can
//! tell the rows that have changed in version `v`, also where `v + 1` has changed them again; nothing else
//! needs a mark, and no mark is ever cleared.
//!
//! `copy` says which of two copies has the newest content, for the algorithms that keep it in either
//! (`pairs.rs`). It changes with `written_in`, in one step.
//!
//! No wait is unbounded: a transaction that does not get a lock within some tries aborts, gives all its locks
//! back and is run again (no-wait, with patience). So there is no circular wait. A transaction that has read
//! a row and is to write it has no patience. Otherwise those that wait for one row like this would block each
//! other, collide again and again, and others would join them, until none makes progress
//! (`tests/contention.rs`). Wait-die would abort less often, but needs the ages of the holders in each lock;
//! a wait-for graph would need a lock of its own.
//!
//! 12 bits of the version of a read are kept, and of two versions the later one. After 2^12 snapshots a row
//! that no transaction has read since looks like one that the later version has read. So a mark counts as one
//! of the later version only if that has begun: until then a reader of the earlier one replaces it, and
//! `must_restart` says no. Afterwards an old mark restarts a transaction without need, which begins again in
//! the later version. Of a write all bits are kept that a machine can use up.

use crate::error::SnapshotError;
use crate::memory;
use crate::shape::Shape;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::yield_now;

const HOLDERS: u64 = 0xfff;
const WRITER: u64 = HOLDERS;
const READERS_LIMIT: u64 = HOLDERS - 1;
const READ_IN: u32 = 12;
const READ_MASK: u64 = 0xfff;
const BEFORE: u64 = 1 << 24;
const COPY: u32 = 25;
const WRITTEN_IN: u32 = 26;

/// The number of cuts before what is written: version `v` is first shown by snapshot `v`, counted from 0.
pub type Version = u64;

/// The number of times that a lock is tried before the transaction gives up. loom knows which thread can
/// continue only if none waits with a lock.
const TRIES: usize = if cfg!(loom) { 1 } else { 64 };

/// A lock for each row of a store, with the version that the row has.
pub struct Locks {
    words: Vec<AtomicU64>,
}

/// The newest content of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Newest {
    /// The version in which it was written.
    pub version: Version,
    /// The copy that has it: 0 or 1. 0 with an algorithm that keeps it in one place.
    pub copy: usize,
}

/// The access that a transaction is going to make to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    Read,
    Write,
    /// Write, where it already holds the lock to read.
    WriteAfterRead,
}

/// The state of a row that transactions of a later version have accessed before an older transaction.
#[derive(Clone, Copy, Debug)]
pub struct Meeting {
    /// A transaction of the later version has written the row.
    pub written: bool,
    /// A transaction of the later version has read the row.
    pub read: bool,
    /// The older transaction is about to write the row; else to read it.
    pub to_write: bool,
}

/// Why a lock was not to be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// Others hold it.
    Held,
    /// The transaction would follow one of a later period.
    Newer,
}

impl Locks {
    pub(crate) fn new(shape: Shape) -> Result<Locks, SnapshotError> {
        Ok(Locks { words: memory::zeros(shape.rows, shape)? })
    }

    /// The newest content of a row. While the caller holds the row it stays where it is.
    #[inline]
    pub fn newest(&self, row: usize) -> Newest {
        newest(self.words[row].load(Ordering::Relaxed))
    }

    /// True if a row has changed in a version. REQUIRES: all transactions of that version have ended, and
    /// none belongs to a later one than the next.
    #[inline]
    pub fn has_changed_in(&self, row: usize, version: Version) -> bool {
        let state = self.words[row].load(Ordering::Relaxed);
        let written_in = state >> WRITTEN_IN;
        written_in == version || written_in == version + 1 && state & BEFORE != 0
    }

    /// The rows that have changed in a version. REQUIRES: as [`Locks::has_changed_in`].
    pub fn changed_in(&self, version: Version) -> impl Iterator<Item = usize> {
        (0..self.words.len()).filter(move |row| self.has_changed_in(*row, version))
    }

    /// Locks a row for a transaction that belongs to `version` as long as it has not committed, or gives the
    /// reason why not; `must_restart` judges the accesses of the next version, if there is one.
    #[inline]
    pub(crate) fn lock(
        &self,
        row: usize,
        access: Access,
        version: Version,
        must_restart: impl Fn(Meeting) -> bool,
    ) -> Result<(), Refusal> {
        let word = &self.words[row];
        let later = version + 1;
        let mut state = word.load(Ordering::Relaxed);
        // A reader that holds the lock and waits to write keeps all others from writing, which may wait for
        // the same.
        let tries = if access == Access::WriteAfterRead { 1 } else { TRIES };
        for left in (0..tries).rev() {
            let meeting = Meeting {
                written: state >> WRITTEN_IN == later,
                read: state >> READ_IN & READ_MASK == later & READ_MASK,
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

    /// Has the rows of a version belong to the next one, whose snapshot then shows them. REQUIRES: as
    /// [`Locks::has_changed_in`].
    pub(crate) fn pass_on(&self, version: Version) {
        let is_of = |state: u64| state >> WRITTEN_IN == version;
        let pass = |state: u64| {
            // Who holds a row to write has its word alone.
            let may_pass = is_of(state) && state & HOLDERS != WRITER;
            may_pass.then(|| written_in(state, Newest { version: version + 1, ..newest(state) }))
        };
        for word in &self.words {
            // Release: who writes the row next overwrites what the snapshot may have read.
            while word.fetch_update(Ordering::Release, Ordering::Relaxed, pass).is_err_and(is_of) {
                yield_now();
            }
        }
    }

    /// Gives back a lock that was held to read, by a transaction that belongs to `version`. `later_began`
    /// says whether the next version has begun.
    #[inline]
    pub(crate) fn unlock_read(&self, row: usize, version: Version, later_began: impl Fn() -> bool) {
        let leave = |state: u64| Some(read_in(state, version, &later_began) - 1);
        // Acquire: pairs with the Release of who left a mark of the later version, which has begun then.
        self.words[row].fetch_update(Ordering::Release, Ordering::Acquire, leave).ok();
    }

    /// Gives back a lock that was held to write, by a transaction that belongs to `version` and has `written`
    /// the row; aborted, it has at most read it.
    #[inline]
    pub(crate) fn unlock_write(
        &self,
        row: usize,
        version: Version,
        written: Option<Newest>,
        later_began: impl Fn() -> bool,
    ) {
        let word = &self.words[row];
        // No other thread changes the word of a row that is held to write.
        let state = read_in(word.load(Ordering::Relaxed), version, later_began) & !HOLDERS;
        let state = written.map_or(state, |written| written_in(state, written));
        word.store(state, Ordering::Release);
    }
}

const fn newest(state: u64) -> Newest {
    Newest { version: state >> WRITTEN_IN, copy: (state >> COPY & 1) as usize }
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

/// The word of a row that was written, in a version that is not before the one that it has.
const fn written_in(state: u64, written: Newest) -> u64 {
    let (old, version) = (state >> WRITTEN_IN, written.version);
    let before = if old == version {
        state & BEFORE
    } else if old + 1 == version {
        BEFORE
    } else {
        0
    };
    state & (BEFORE - 1) | before | (written.copy as u64) << COPY | version << WRITTEN_IN
}

/// The word of a row that was read in `version`, or in the one after it if that has begun.
fn read_in(state: u64, version: Version, later_began: impl Fn() -> bool) -> u64 {
    if state >> READ_IN & READ_MASK == (version + 1) & READ_MASK && later_began() {
        state
    } else {
        state & !(READ_MASK << READ_IN) | (version & READ_MASK) << READ_IN
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// After as many versions as the bits tell apart, the mark of a row that nobody has read looks like one
    /// of the next version.
    #[test]
    fn a_read_leaves_its_mark_over_an_old_one() {
        let locks = Locks::new(Shape { rows: 2, fields: 1 }).unwrap();
        let (old, new) = (READ_MASK - 1, READ_MASK);
        for (row, access) in [(0, Access::Read), (1, Access::Write)] {
            locks.lock(row, access, new, |_| false).unwrap();
            match access {
                Access::Read => locks.unlock_read(row, new, || false),
                _ => locks.unlock_write(row, new, None, || false),
            }
            let refusal = locks.lock(row, Access::Write, old, |met| met.read && met.to_write);
            assert_eq!(refusal, Err(Refusal::Newer), "row {row}: an older writer follows a newer reader");
        }
    }

    #[test]
    fn a_read_of_the_older_version_keeps_the_mark_of_the_later() {
        let locks = Locks::new(Shape { rows: 1, fields: 1 }).unwrap();
        for version in [8, 7] {
            locks.lock(0, Access::Read, version, |_| false).unwrap();
            locks.unlock_read(0, version, || version == 7);
        }
        assert_eq!(locks.lock(0, Access::Write, 7, |met| met.read), Err(Refusal::Newer));
    }
}
