//! Values that a command prepares: it runs again to put them in their place (`docs/design/0037`).
//!
//! ```text
//!   command ── large: copies under the latch ── step ── others ── step ── … ── the last part is logged
//!   the same command again ── its keys are as they were: one change, under the latch
//!                          └─ they are not: it prepares once more, and the third time it does not wait
//! ```

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tarn_engine::record::{Change, Kind, Lsn, Made, UnixMs};
use tarn_engine::{Engine, Preparation};

use crate::error::CommandError;

/// How often a command prepares a value before it does all at once.
pub(crate) const ATTEMPTS: u8 = 2;

/// A key and its database.
pub(crate) type Place = (u8, Box<[u8]>);

/// A value that is being prepared. It is given up when this is dropped before its end.
///
/// REQUIRES: it is made, used and dropped outside of the gate.
pub(crate) struct Preparing {
    engine: Arc<Engine>,
    /// `None`: nothing is logged, or it has ended.
    preparation: Option<Preparation>,
    /// The value, to be freed elsewhere if it does not get its place.
    made: Option<Made>,
}

impl Preparing {
    /// Begins to prepare a value for a key.
    pub(crate) fn begin(engine: Arc<Engine>, place: &Place, kind: Kind) -> Result<Preparing, CommandError> {
        let preparation = Preparation::begin(engine.store(), place.0, &place.1, kind)?;
        Ok(Preparing { engine, preparation, made: None })
    }

    /// Whether another part may be logged.
    pub(crate) fn has_room(&self) -> bool {
        self.preparation.as_ref().is_none_or(|preparation| preparation.has_room(self.engine.store()))
    }

    /// Logs a part: elements in the form of an image, or bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), CommandError> {
        let Some(preparation) = &mut self.preparation else { return Ok(()) };
        Ok(preparation.add(self.engine.store(), bytes)?)
    }

    /// The change that puts the value in its place.
    pub(crate) fn change(
        &mut self,
        kind: Kind,
        value: Made,
        expiry: Option<UnixMs>,
        sticky: bool,
    ) -> Change<'static> {
        self.made = Some(value.clone());
        match &self.preparation {
            Some(preparation) => preparation.change(value, expiry, sticky),
            None => put_at_once(kind, value, expiry, sticky),
        }
    }

    /// Has a value freed that will not get its place.
    pub(crate) fn discard(&mut self, value: Made) {
        self.engine.store().discard_made(value);
    }

    /// Notes that the value has its place. This takes a lock for a moment, and may be called anywhere.
    pub(crate) fn end(&mut self) {
        self.made = None;
        if let Some(mut preparation) = self.preparation.take() {
            preparation.end(self.engine.store());
        }
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        if let Some(mut preparation) = self.preparation.take() {
            preparation.give_up(self.engine.store());
        }
        if let Some(made) = self.made.take() {
            self.engine.store().discard_made(made);
        }
    }
}

/// The change that puts a value in its place of which the log says nothing.
pub(crate) fn put_at_once(kind: Kind, value: Made, expiry: Option<UnixMs>, sticky: bool) -> Change<'static> {
    Change::Prepared { kind, begun: Lsn::ZERO, parts: 0, expiry, sticky, value }
}

/// A value that a command has prepared.
pub(crate) struct Ready {
    // In this order they are dropped: the last owner of the value is `preparing`.
    /// The keys that it was made of, and the newest change of each; `None`: it is missing.
    pub(crate) sources: Vec<(Place, Option<Lsn>)>,
    /// Puts the value in its place; `None` if it is empty.
    pub(crate) change: Option<Change<'static>>,
    /// Elements of the value.
    pub(crate) elements: usize,
    pub(crate) preparing: Preparing,
    /// How often it was prepared.
    pub(crate) attempts: u8,
    /// The time that this took, all attempts together.
    pub(crate) took: Duration,
    /// The log did not take it.
    pub(crate) is_void: bool,
    /// The value was put in its place by a command that is about to be committed.
    pub(crate) is_used: bool,
    /// The command has run again: it is of no use any more.
    pub(crate) has_run: bool,
}

impl Ready {
    /// Notes that the value has its place. May be called anywhere.
    pub(crate) fn end(&mut self) {
        self.change = None;
        self.preparing.end();
    }
}

impl fmt::Debug for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ready").field("elements", &self.elements).finish_non_exhaustive()
    }
}
