//! The gate between turns of clients and the taking of a snapshot.
//!
//! ```text
//!   client 0   |turn|  |turn|      |turn|
//!   client 1     |turn|   (waits)  |turn|
//!   snapshotter          |closed|
//! ```
//!
//! While the gate is closed no turn is in progress: a snapshot has the writes of all turns before it, and
//! none of those after it. A client that arrives waits; the snapshotter waits for the turns in progress.
//!
//! The work of turns before the gate closed happens before the work done while it is closed, and that happens
//! before the turns that follow.

use std::sync::PoisonError;

use crate::sync::atomic::{AtomicBool, Ordering, fence};
use crate::sync::{Mutex, MutexGuard, yield_now};

/// A flag with a cache line of its own.
#[repr(align(128))]
#[derive(Default)]
struct Flag(AtomicBool);

pub(crate) struct Gate {
    closed: AtomicBool,
    /// For each client, whether its turn is in progress.
    turns: Box<[Flag]>,
    /// Held while the gate is closed, for clients to wait for.
    opening: Mutex<()>,
}

/// A closed gate; opens when dropped.
pub(crate) struct Closed<'g> {
    gate: &'g Gate,
    _opening: MutexGuard<'g, ()>,
}

impl Gate {
    pub(crate) fn new(clients: usize) -> Gate {
        let turns = (0..clients).map(|_| Flag::default()).collect();
        Gate { closed: AtomicBool::new(false), turns, opening: Mutex::new(()) }
    }

    /// Begins a turn.
    #[inline]
    pub(crate) fn enter(&self, client: usize) {
        let turn = &self.turns[client].0;
        loop {
            // The fence pairs with that in `close`: if two threads each store a flag and then load the
            // other's, at least one of them sees the other's store. Acquire: pairs with the Release in
            // `Closed::drop`.
            turn.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if !self.closed.load(Ordering::Acquire) {
                return;
            }
            turn.store(false, Ordering::Release);
            drop(self.lock());
        }
    }

    /// Ends a turn.
    #[inline]
    pub(crate) fn leave(&self, client: usize) {
        // Release: pairs with the load in `close`.
        self.turns[client].0.store(false, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // It holds nothing that a panic could leave half done.
        self.opening.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the gate and waits for the turns in progress.
    pub(crate) fn close(&self) -> Closed<'_> {
        let opening = self.lock();
        self.closed.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        for turn in &self.turns {
            // Pairs with the Release in `leave`.
            while turn.0.load(Ordering::Acquire) {
                yield_now();
            }
        }
        Closed { gate: self, _opening: opening }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        // Release: pairs with the load in `enter`.
        self.gate.closed.store(false, Ordering::Release);
    }
}
