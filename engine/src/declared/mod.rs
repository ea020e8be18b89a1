//! The declarations (indexes and the like) as one immutable value: any thread reads it, and one at a time
//! replaces it. Also keeps the wanted indexes until the store exists.
//!
//! ```text
//!   change:  turn ── file ── gate, if an index comes or goes ── publish
//!   read:    the whole as it is now, for as long as it takes to clone an Arc
//!   start:   the store is there ── make_all, outside of the gate and of whatever is locked inside it
//! ```
//!
//! Who changes waits for the disk and for the gate, with the turn held. So nobody inside the gate takes the
//! turn, and nobody waits for anything while it holds what is shown. `model.rs` has both act in many orders.

#[cfg(all(test, shuttle))]
mod model;

use crate::lock::{Mutex, MutexGuard, rank};
use std::sync::Arc;

/// The current declarations.
#[derive(Debug, Default)]
pub struct Declared<T> {
    changing: Mutex<(), rank::Declarations>,
    shown: Mutex<Arc<T>>,
}

/// The lock that a thread holds to change it.
#[derive(Debug)]
pub struct Turn<'d, T> {
    shown: &'d Mutex<Arc<T>>,
    _turn: MutexGuard<'d, (), rank::Declarations>,
}

impl<T> Declared<T> {
    /// This has been declared.
    pub fn new(value: T) -> Declared<T> {
        Declared { changing: Mutex::default(), shown: Mutex::new(Arc::new(value)) }
    }

    /// As it is now.
    pub fn now(&self) -> Arc<T> {
        self.shown.lock().clone()
    }

    /// Waits until nobody else changes it. REQUIRES: the caller is not inside the gate.
    pub fn turn(&self) -> Turn<'_, T> {
        Turn { _turn: self.changing.lock(), shown: &self.shown }
    }
}

impl<T> Turn<'_, T> {
    /// As it is, until it is published again.
    pub fn now(&self) -> Arc<T> {
        self.shown.lock().clone()
    }

    /// Shows this to everybody from now on.
    pub fn publish(&self, new: T) {
        let old = std::mem::replace(&mut *self.shown.lock(), Arc::new(new));
        drop(old);
    }
}

/// An index that may be wanted before there is a store to make it in.
pub trait Wanted {
    /// Where it is made.
    type Store;
    /// Why it is not.
    type Error;

    /// Makes it. Closes the gate.
    fn make(self: &Arc<Self>, store: &Self::Store) -> Result<(), Self::Error>;

    /// Drops it. Closes the gate.
    fn drop_from(&self, store: &Self::Store);

    /// Whether this is the other.
    fn is_same_as(&self, other: &Self) -> bool;
}

/// The indexes that are wanted.
#[derive(Debug)]
pub struct WantedIndexes<W> {
    /// Held while the gate is closed to make or drop one: nobody inside the gate waits for it.
    state: Mutex<State<W>, rank::WantedIndexes>,
}

#[derive(Debug)]
struct State<W> {
    wanted: Vec<Arc<W>>,
    /// Whether the store has been told of them.
    told: bool,
}

impl<W> Default for WantedIndexes<W> {
    fn default() -> Self {
        WantedIndexes { state: Mutex::new(State { wanted: Vec::new(), told: false }) }
    }
}

impl<W: Wanted> WantedIndexes<W> {
    /// Has an index made, or remembers it until the store is there, which `store` finds.
    ///
    /// REQUIRES: [`WantedIndexes::make_all`] was called if the store is there.
    pub fn want(&self, index: Arc<W>, store: impl Fn() -> Option<Arc<W::Store>>) -> Result<(), W::Error> {
        let mut state = self.state.lock();
        if state.told
            && let Some(store) = store()
        {
            index.make(&store)?;
        }
        state.wanted.push(index);
        Ok(())
    }

    /// Drops an index.
    pub fn want_no_more(&self, index: &W, store: impl Fn() -> Option<Arc<W::Store>>) {
        let mut state = self.state.lock();
        state.wanted.retain(|other| !other.is_same_as(index));
        if let Some(store) = store().filter(|_| state.told) {
            index.drop_from(&store);
        }
    }

    /// Has those made that were wanted before the store was there, if it is there now; `failed` is told which
    /// are not.
    ///
    /// REQUIRES: the caller is not inside the gate, and holds nothing that anybody inside waits for.
    pub fn make_all(&self, store: impl Fn() -> Option<Arc<W::Store>>, failed: impl Fn(&W, W::Error)) {
        let mut state = self.state.lock();
        let Some(store) = store().filter(|_| !state.told) else { return };
        state.told = true;
        for index in &state.wanted {
            if let Err(error) = index.make(&store) {
                failed(index, error);
            }
        }
    }
}
