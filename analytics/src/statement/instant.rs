//! The instant that a statement sees: one for all of its scans.
//!
//! ```text
//!   plan:     scan a ── scan b                 each is registered, nothing is open
//!   first row wanted of any:  newest change durable ── a bit for each ── views of one cut
//!                             ── durable, or soon: each scan takes its own; else given back, and again
//!   end:      a scan that is dropped, early or at its end, gives back its bit and its versions
//! ```
//!
//! Within `BEGIN READ ONLY … COMMIT` one pinned view serves all statements; it keeps versions until the block
//! ends. If all bits are taken, statements queue in order of arrival. Each requests at once all bits that it
//! needs, so statements cannot deadlock.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tarn_engine::checkpoint::Source as _;
use tarn_engine::lock::Mutex;
use tarn_engine::record::{Lsn, UnixMs};
use tarn_engine::{Engine, View, ViewOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::QueryError;
use crate::statement::store::StoreHandle;

/// Views that queries may have; a few are left for checkpoints and exports.
pub(crate) const VIEWS_MAX: usize = 60;
/// Of the views that are free, a statement with parts takes no more than one in so many.
const STATEMENTS_MIN: usize = 6;
/// A statement with more scans reads them through one pinned view.
const VIEWS_OF_ONE: usize = 16;
/// How long views stay open at first that wait for the disk. It doubles from one time to the next.
const PATIENCE_MIN: Duration = Duration::from_millis(50);
/// The name of queries' views in `INFO` and in errors.
const PURPOSE: &str = "query";

/// The bits that queries share.
#[derive(Debug)]
pub(crate) struct Bits {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { free: Arc::new(Semaphore::new(VIEWS_MAX)), waiting: AtomicUsize::new(0) }
    }
}

impl Bits {
    /// The views that each of some scans may have, at most so many, so that much is left for other
    /// statements: clients that are slow to fetch rows keep theirs for long.
    pub(crate) fn for_each(&self, scans: usize, most: usize) -> usize {
        let left = (self.free.available_permits() / STATEMENTS_MIN).min(VIEWS_OF_ONE);
        (left / scans.max(1)).clamp(1, most)
    }

    /// Statements that wait for theirs.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn take(&self, count: usize, holds: &Holds) -> OwnedSemaphorePermit {
        struct Waits<'b>(&'b AtomicUsize, &'b Holds);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
                self.1.waiting.store(false, Ordering::Relaxed);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        holds.waiting.store(true, Ordering::Relaxed);
        let _waits = Waits(&self.waiting, holds);
        self.free.clone().acquire_many_owned(count as u32).await.expect("nobody closes the semaphore")
    }
}

/// The views that an instant holds, for observers: it keeps nothing open.
#[derive(Debug, Default)]
pub struct Holds {
    /// The bits of its views.
    views: AtomicU64,
    waiting: AtomicBool,
}

impl Holds {
    /// The bits of its views.
    pub fn views(&self) -> u64 {
        self.views.load(Ordering::Relaxed)
    }

    /// Whether it waits for bits.
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// A view with the bit that it has.
struct Held {
    view: View,
    _permit: Option<OwnedSemaphorePermit>,
    holds: Arc<Holds>,
}

impl Held {
    fn new(view: View, permit: Option<OwnedSemaphorePermit>, holds: &Arc<Holds>) -> Held {
        holds.views.fetch_or(1 << view.number(), Ordering::Relaxed);
        Held { view, _permit: permit, holds: holds.clone() }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.holds.views.fetch_and(!(1 << self.view.number()), Ordering::Relaxed);
    }
}

/// The view that a scan reads.
pub(crate) struct Reading {
    source: Source,
    /// The time by which keys have expired or not.
    pub now: UnixMs,
}

enum Source {
    Once(Box<Held>),
    Pinned(Arc<Held>),
}

impl Reading {
    /// The view, if it is read once, from front to back.
    pub(crate) fn once(&mut self) -> Option<&mut View> {
        match &mut self.source {
            Source::Once(held) if !held.view.is_pinned() => Some(&mut held.view),
            _ => None,
        }
    }

    /// The view, wherever it is read.
    pub(crate) fn view(&self) -> &View {
        match &self.source {
            Source::Once(held) => &held.view,
            Source::Pinned(held) => &held.view,
        }
    }
}

enum State {
    /// Nothing was read yet.
    Planned,
    /// The views that scans have not taken yet.
    Open { views: HashMap<usize, Held>, now: UnixMs },
    /// One view for all.
    Pinned { held: Arc<Held>, now: UnixMs },
}

/// The instant of a statement, or of a block of them.
pub(crate) struct Instant {
    bits: Arc<Bits>,
    store: Arc<StoreHandle>,
    holds: Arc<Holds>,
    /// Scans that a plan has, with the views that they need.
    scans: Mutex<HashMap<usize, ViewOptions>>,
    next_scan: AtomicUsize,
    pinned: bool,
    state: tokio::sync::Mutex<State>,
}

impl Instant {
    /// An instant that nothing was read of yet. `pinned`: it may be read any number of times.
    pub(crate) fn new(bits: Arc<Bits>, store: Arc<StoreHandle>, pinned: bool) -> Arc<Instant> {
        Arc::new(Instant {
            bits,
            store,
            holds: Arc::default(),
            scans: Mutex::default(),
            next_scan: AtomicUsize::new(0),
            pinned,
            state: tokio::sync::Mutex::new(State::Planned),
        })
    }

    /// The views that it holds.
    pub(crate) fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// Registers a scan of a database, for as long as the scan is there.
    pub(crate) fn plan(self: &Arc<Self>, db: u8, needs: Needs) -> Planned {
        let number = self.next_scan.fetch_add(1, Ordering::Relaxed);
        let options = match needs {
            Needs::Walk(part) => ViewOptions { part, ..ViewOptions::once_of(db, PURPOSE) },
            Needs::Keys => ViewOptions { db: Some(db), ..ViewOptions::pinned(PURPOSE) },
            Needs::Index => ViewOptions::indexed_of(db, PURPOSE),
        };
        self.scans.lock().insert(number, options);
        Planned { instant: self.clone(), number, positions: options.positions() }
    }

    /// Whether the one view that serves all statements may see fields of hashes with times, if it is open.
    pub(crate) fn may_be_timed(&self, db: u8) -> bool {
        let state = self.state.try_lock();
        state.is_ok_and(|state| matches!(&*state, State::Pinned { held, .. } if held.view.may_be_timed(db)))
    }

    async fn read(&self, engine: &Arc<Engine>, number: usize) -> Result<Reading, QueryError> {
        let mut state = self.state.lock().await;
        if matches!(*state, State::Planned) {
            *state = self.open(engine).await?;
        }
        match &mut *state {
            State::Open { views, now } => {
                let held = views.remove(&number).ok_or(QueryError::ReadTwice)?;
                Ok(Reading { source: Source::Once(Box::new(held)), now: *now })
            }
            State::Pinned { held, now } => Ok(Reading { source: Source::Pinned(held.clone()), now: *now }),
            State::Planned => unreachable!("it was opened above"),
        }
    }

    /// Opens views of a cut that may be shown. A disk may hang, and writers keep what a view has still to
    /// read: so it waits for the disk without views, but for what was written just before they were opened.
    async fn open(&self, engine: &Arc<Engine>) -> Result<State, QueryError> {
        let (mut awaited, mut patience) = (engine.newest(), PATIENCE_MIN);
        loop {
            self.store.until_shown(awaited).await?;
            let (state, cut) = self.open_views(engine).await?;
            let Some(cut) = cut else { return Ok(state) };
            match tokio::time::timeout(patience, self.store.until_shown(cut)).await {
                Ok(shown) => return shown.map(|()| state),
                // Given back for now. A disk that is only slow is awaited for longer the next time.
                Err(_) => (awaited, patience) = (cut, patience.saturating_mul(2)),
            }
        }
    }

    /// Opens a view for each scan that is planned, all of one cut, which is returned, too.
    async fn open_views(&self, engine: &Arc<Engine>) -> Result<(State, Option<Lsn>), QueryError> {
        let planned: Vec<_> = self.scans.lock().iter().map(|(number, options)| (*number, *options)).collect();
        if self.pinned || planned.len() > VIEWS_OF_ONE {
            let permit = self.bits.take(1, &self.holds).await;
            let options = ViewOptions { indexed: engine.has_indexes(), ..ViewOptions::pinned(PURPOSE) };
            let held = Held::new(engine.open_view(options)?, Some(permit), &self.holds);
            let cut = held.view.cut();
            return Ok((State::Pinned { held: Arc::new(held), now: engine.now() }, Some(cut)));
        }
        let mut permits = self.bits.take(planned.len(), &self.holds).await;
        let (numbers, options): (Vec<_>, Vec<_>) = planned.into_iter().unzip();
        let views = engine.open_views(&options)?.into_iter();
        let held = views.map(|view| Held::new(view, permits.split(1), &self.holds));
        let views: HashMap<_, _> = numbers.into_iter().zip(held).collect();
        let now = engine.now();
        let cut = views.values().next().map(|held| held.view.cut());
        Ok((State::Open { views, now }, cut))
    }
}

/// How a scan reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Everything, from front to back, or one part of a number of parts.
    Walk((u8, u8)),
    /// Some keys.
    Keys,
    /// By an index.
    Index,
}

/// A scan of a plan.
pub(crate) struct Planned {
    instant: Arc<Instant>,
    number: usize,
    positions: Range<u64>,
}

impl Planned {
    /// The positions of the database that are read.
    pub(crate) fn positions(&self) -> Range<u64> {
        self.positions.clone()
    }

    /// The same scan, which reads in another way.
    pub(crate) fn again(&self, db: u8, needs: Needs) -> Planned {
        self.instant.plan(db, needs)
    }

    /// As of its instant.
    pub(crate) fn may_be_timed(&self, db: u8) -> bool {
        self.instant.may_be_timed(db)
    }

    /// The view that it reads; opens the instant if this is the first scan.
    pub(crate) async fn read(&self, engine: &Arc<Engine>) -> Result<Reading, QueryError> {
        self.instant.read(engine, self.number).await
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        self.instant.scans.lock().remove(&self.number);
        // A view that was opened for it and never read is given back; a task that is opening has counted it.
        if let Ok(mut state) = self.instant.state.try_lock()
            && let State::Open { views, .. } = &mut *state
        {
            views.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn parts_leave_views_to_other_statements() {
        let (bits, holds) = (Bits::default(), Holds::default());
        assert_eq!([1, 2, 3, 100].map(|scans| bits.for_each(scans, 8)), [8, 5, 3, 1]);
        assert_eq!(bits.for_each(1, 2), 2);
        let held = bits.take(VIEWS_MAX - 13, &holds).await;
        assert_eq!(bits.for_each(1, 8), 2, "few are left");
        let _held = (held, bits.take(13, &holds).await);
        assert_eq!(bits.for_each(1, 8), 1, "none is left, and it waits for one");
    }
}
