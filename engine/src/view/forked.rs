//! A scan in a child process, which has the store as of one instant in its memory. It is what in-memory
//! stores do that have no versions; views are measured against it.
//!
//! ```text
//!   gate closed ── fork ── gate open: writers go on; the first write to a page copies it
//!                   └ child: entry after entry, counted ──> exit
//! ```
//!
//! Why nobody changes what the child reads is at the head of `checkpoint/fork.rs`.

#![expect(unsafe_code, reason = "the segments are read in a child process, without their latches")]

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::io::child::{Child, Ended, Numbers};
use crate::table::{END, Table};

// What the child tells: places among the shared numbers.
const KEYS: usize = 0;
const BYTES: usize = 1;

/// A child process that counts the entries of a database.
pub struct ForkedScan(Child);

impl ForkedScan {
    /// REQUIRES: the gate is closed, and stays so until this returns.
    pub(crate) fn fork(table: &Arc<Table>) -> io::Result<ForkedScan> {
        let numbers = Numbers::new()?;
        // The first segments of a table that nobody has used yet are made by this look.
        let _ = table.standing(0);
        // SAFETY: `count` below only reads and counts. Why nobody changes what it reads is said above.
        let child = unsafe { Child::fork(rustix::stdio::stderr(), numbers, |told| count(table, told)) };
        child.map(ForkedScan)
    }

    /// Entries that were there, and the bytes of their keys; `None` while it runs.
    pub fn counted(&mut self) -> io::Result<Option<(u64, u64)>> {
        match self.0.ended()? {
            None => Ok(None),
            Some(Ended::Exit(0)) => {
                let [keys, bytes] = [KEYS, BYTES].map(|at| self.0.numbers()[at].load(Ordering::Acquire));
                Ok(Some((keys, bytes)))
            }
            Some(ended) => Err(io::Error::other(format!("the child that scans has ended so: {ended:?}"))),
        }
    }
}

/// The work of the child: it allocates nothing and takes no lock.
fn count(table: &Table, told: &[AtomicU64; 8]) -> c_int {
    let (mut keys, mut bytes, mut from) = (0, 0, 0);
    while from < END {
        let (segment, end) = table.standing(from);
        // SAFETY: this process has one thread, and nobody was changing the segment when it began.
        let segment = unsafe { &*segment };
        for entry in segment.iter_fetched() {
            keys += 1;
            bytes += entry.key().len() as u64;
        }
        from = end;
    }
    told[KEYS].store(keys, Ordering::Release);
    told[BYTES].store(bytes, Ordering::Release);
    0
}
