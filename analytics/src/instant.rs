//! The instant that a statement sees: one for all of its scans.
//!
//! ```text
//!   plan:     scan a ── scan b                 each is registered, nothing is open
//!   first row wanted of any:  a bit for each ── views of one cut ── each scan takes its own
//!   end:      a scan that is dropped, early or at its end, gives back its bit and its versions
//! ```
//!
//! Within `BEGIN READ ONLY … COMMIT` one pinned view stands for all: it keeps versions until the block ends.
//! Where all bits are taken, statements wait for theirs in the order in which they came; each asks once, and
//! for all that it needs, so nobody waits in a circle.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tarn_engine::record::UnixMs;
use tarn_engine::{Engine, View, ViewOptions};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::error::QueryError;

/// Views that queries may have; a few are left for checkpoints and exports.
pub const VIEWS_MAX: usize = 60;
/// A statement with more scans reads them through one pinned view.
const VIEWS_OF_ONE: usize = 16;
/// What views of queries are called in `INFO` and in errors.
const PURPOSE: &str = "query";

/// The bits that queries share.
#[derive(Debug)]
pub struct Bits {
    free: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { free: Arc::new(Semaphore::new(VIEWS_MAX)), waiting: AtomicUsize::new(0) }
    }
}

impl Bits {
    /// Statements that wait for theirs.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    async fn take(&self, count: usize) -> OwnedSemaphorePermit {
        struct Waits<'b>(&'b AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        self.free.clone().acquire_many_owned(count as u32).await.expect("nobody closes the semaphore")
    }
}

/// A view with the bit that it has.
struct Held {
    view: View,
    _permit: Option<OwnedSemaphorePermit>,
}

/// What a scan reads.
pub struct Reading {
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
    pub fn once(&mut self) -> Option<&mut View> {
        match &mut self.source {
            Source::Once(held) => Some(&mut held.view),
            Source::Pinned(_) => None,
        }
    }

    /// The view, wherever it is read.
    pub fn view(&self) -> &View {
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
pub struct Instant {
    bits: Arc<Bits>,
    /// Scans that a plan has, with their databases.
    scans: Mutex<HashMap<usize, u8>>,
    next_scan: AtomicUsize,
    pinned: bool,
    state: tokio::sync::Mutex<State>,
}

impl Instant {
    /// An instant that nothing was read of yet. `pinned`: it may be read any number of times.
    pub fn new(bits: Arc<Bits>, pinned: bool) -> Arc<Instant> {
        Arc::new(Instant {
            bits,
            scans: Mutex::default(),
            next_scan: AtomicUsize::new(0),
            pinned,
            state: tokio::sync::Mutex::new(State::Planned),
        })
    }

    /// Registers a scan of a database, for as long as the scan is there.
    pub fn plan(self: &Arc<Self>, db: u8) -> Planned {
        let number = self.next_scan.fetch_add(1, Ordering::Relaxed);
        self.scans.lock().insert(number, db);
        Planned { instant: self.clone(), number }
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

    /// Opens a view for each scan that is planned, all of one cut.
    async fn open(&self, engine: &Arc<Engine>) -> Result<State, QueryError> {
        let scans: Vec<(usize, u8)> = self.scans.lock().iter().map(|(number, db)| (*number, *db)).collect();
        if self.pinned || scans.len() > VIEWS_OF_ONE {
            let permit = self.bits.take(1).await;
            let view = engine.open_view(ViewOptions::pinned(PURPOSE))?;
            let held = Arc::new(Held { view, _permit: Some(permit) });
            return Ok(State::Pinned { held, now: engine.now() });
        }
        let mut permits = self.bits.take(scans.len()).await;
        let options: Vec<_> = scans.iter().map(|(_, db)| ViewOptions::once_of(*db, PURPOSE)).collect();
        let views = engine.open_views(&options)?;
        let numbers = scans.into_iter().map(|(number, _)| number);
        let held = views.into_iter().map(|view| Held { view, _permit: permits.split(1) });
        Ok(State::Open { views: numbers.zip(held).collect(), now: engine.now() })
    }
}

/// A scan of a plan.
pub struct Planned {
    instant: Arc<Instant>,
    number: usize,
}

impl Planned {
    /// What it reads; opens the instant if this is the first.
    pub async fn read(&self, engine: &Arc<Engine>) -> Result<Reading, QueryError> {
        self.instant.read(engine, self.number).await
    }
}

impl Drop for Planned {
    fn drop(&mut self) {
        self.instant.scans.lock().remove(&self.number);
        // What was opened for it, and never read, is given back; who opens just now has counted it.
        if let Ok(mut state) = self.instant.state.try_lock()
            && let State::Open { views, .. } = &mut *state
        {
            views.remove(&self.number);
        }
    }
}
