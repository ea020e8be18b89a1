//! Counts the clients of the wire, and gives each that has started one of a limited number of places.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// How many clients of the wire there are and were.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    now: AtomicU64,
    accepted: AtomicU64,
    refused: AtomicU64,
    /// Those that have come through their start.
    started: AtomicUsize,
}

impl Connections {
    /// Whether one more may come through its start, where `most` may.
    pub(crate) fn has_place(&self, most: usize) -> bool {
        self.started.load(Ordering::Relaxed) < most
    }

    /// Takes a place, for as long as what is returned is there.
    pub(crate) fn take_place(self: &Arc<Self>, most: usize) -> Option<Place> {
        let one_more = |started| (started < most).then_some(started + 1);
        self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        Some(Place(self.clone()))
    }

    /// Counts a client as connected, for as long as what is returned is there.
    pub(crate) fn accept(self: &Arc<Self>) -> Connected {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.now.fetch_add(1, Ordering::Relaxed);
        Connected(self.clone())
    }

    /// The clients that are connected, that were accepted, and that were refused.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.now, &self.accepted, &self.refused].map(|counter| counter.load(Ordering::Relaxed))
    }

    /// Counts a client that was refused.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The place of a client that has come through its start.
pub(crate) struct Place(Arc<Connections>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.started.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A client that is connected.
pub(crate) struct Connected(Arc<Connections>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}
