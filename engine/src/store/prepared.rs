//! Values that are prepared: logged part by part before a key holds them (`docs/design/0037`).
//!
//! ```text
//!   first part (empty) ── part ── part ── … ── "the key holds the value of these parts"
//!        `begun`                                       under the key's latch
//! ```
//!
//! A start that begins with a checkpoint skips the records up to its cut. So no checkpoint may be cut between
//! the first part and the last record: the log refuses the last record then, and the parts are written again.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::lock::{Mutex, MutexGuard, rank};
use crate::log::{Appender, Group};
use crate::record::{Batch, Bytes, Change, Kind, Lsn, Made, UnixMs, Write};

use super::{CommitError, Store};

/// The longest wait for the gate: a script may keep it closed, and the worker has other clients.
const GATE_WAIT: Duration = Duration::from_millis(1);

/// The values that are being prepared.
#[derive(Default)]
pub(crate) struct Preparations {
    state: Mutex<State, rank::Preparations>,
}

#[derive(Default)]
struct State {
    /// The first parts of those that go on.
    running: BTreeSet<Lsn>,
    /// Those that began up to here cannot end any more.
    refused_up_to: Lsn,
    /// Checkpoints whose cut is being chosen.
    cutting: usize,
}

/// Keeps prepared values from taking their place while it is there.
pub(crate) struct Admitted<'p> {
    _state: MutexGuard<'p, State, rank::Preparations>,
}

/// A checkpoint whose cut is being chosen.
pub(crate) struct Cutting<'p> {
    preparations: &'p Preparations,
}

impl Preparations {
    /// Notes that a cut is being chosen, of which [`Cutting::end_at`] will tell.
    pub(crate) fn cut(&self) -> Cutting<'_> {
        self.state.lock().cutting += 1;
        Cutting { preparations: self }
    }

    /// Notes that a value that began up to `lsn` cannot end any more.
    pub(crate) fn refuse_up_to(&self, lsn: Lsn) {
        let mut state = self.state.lock();
        state.refused_up_to = state.refused_up_to.max(lsn);
    }

    /// Whether the log may say now that the value that began there has its key; no cut is chosen until what
    /// is returned is dropped.
    pub(super) fn admit(&self, begun: Lsn) -> Result<Admitted<'_>, CommitError> {
        let state = self.state.lock();
        if state.cutting > 0 || begun <= state.refused_up_to {
            return Err(CommitError::Unprepared);
        }
        Ok(Admitted { _state: state })
    }

    /// Whether the value with this first part is being prepared.
    pub(crate) fn is_running(&self, begun: Lsn) -> bool {
        self.state.lock().running.contains(&begun)
    }
}

impl Cutting<'_> {
    /// Notes where the cut is.
    pub(crate) fn end_at(self, cut: Lsn) {
        self.preparations.refuse_up_to(cut);
    }
}

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.preparations.state.lock().cutting -= 1;
    }
}

/// A value that is being prepared for a key. Who gives it up says so by [`Preparation::give_up`].
pub struct Preparation {
    db: u8,
    key: Box<[u8]>,
    kind: Kind,
    begun: Lsn,
    parts: u64,
    group: Group,
}

impl Preparation {
    /// Begins to prepare a value; `None` if there is no log, and so nothing to be said before.
    pub fn begin(store: &Store, db: u8, key: &[u8], kind: Kind) -> Result<Option<Preparation>, CommitError> {
        let mut preparation =
            Preparation { db, key: key.into(), kind, begun: Lsn::ZERO, parts: 0, group: Group::new() };
        let first = preparation.append(store, Bytes::Borrowed(b""), true)?;
        preparation.begun = first.unwrap_or_default();
        Ok(first.map(|_| preparation))
    }

    /// Whether another part may be logged: the log keeps up, or has failed and will say so, and nobody has
    /// the store for itself for long.
    pub fn has_room(&self, store: &Store) -> bool {
        let databases = store.background_within(GATE_WAIT);
        databases.is_some_and(|databases| databases.log.as_ref().is_none_or(Appender::has_room))
    }

    /// Logs one more part: elements in the form of an image, or bytes. Empty ones are none.
    pub fn add(&mut self, store: &Store, bytes: &[u8]) -> Result<(), CommitError> {
        if !bytes.is_empty() && self.append(store, Bytes::Borrowed(bytes), false)?.is_none() {
            return Err(CommitError::Unprepared);
        }
        Ok(())
    }

    /// The change that puts the value in its place.
    pub fn change(&self, value: Made, expiry: Option<UnixMs>, sticky: bool) -> Change<'static> {
        let Preparation { kind, begun, parts, .. } = *self;
        Change::Prepared { kind, begun, parts, expiry, sticky, value }
    }

    /// Notes that the value has its place, or is not wanted any more: the log need not keep its parts for it.
    pub fn end(&mut self, store: &Store) {
        store.preparations.state.lock().running.remove(&self.begun);
    }

    /// Notes that the value is not wanted any more, and says so in the log: a start forgets the parts.
    pub fn give_up(&mut self, store: &Store) {
        // A log that refuses it keeps the parts until a compaction, as after a crash. So it does while
        // somebody has the store for itself.
        let _ = self.append(store, Bytes::Borrowed(b""), false);
        self.end(store);
    }

    /// Logs a part; `None` if there is no log.
    fn append(
        &mut self,
        store: &Store,
        bytes: Bytes<'_>,
        is_first: bool,
    ) -> Result<Option<Lsn>, CommitError> {
        let databases = store.background_within(GATE_WAIT).ok_or(CommitError::GateClosed)?;
        let Some(log) = &databases.log else { return Ok(None) };
        let (db, key) = (self.db, Bytes::Borrowed(&*self.key));
        let change = Change::PreparedPart { kind: self.kind, begun: self.begun, bytes };
        self.group.clear();
        let batch = Batch::from_iter([Write::Key { db, key, change }]);
        batch.iter().for_each(|write| self.group.push(write));
        // The first part is needed from when it has its number.
        let mut state = is_first.then(|| store.preparations.state.lock());
        let lsn = log.append(&self.group)?;
        if let Some(state) = &mut state {
            state.running.insert(lsn);
        }
        self.parts += 1;
        Ok(Some(lsn))
    }
}
