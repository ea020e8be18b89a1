//! One turn of a worker, and what it spent its time on (`observe/ledger.rs`).
//!
//! The waits for locks are measured where they happen, and the writes to sockets around them. What the system
//! knows of the thread is read when a turn was slow, and else once a tick of the coarse clock: 250 times a
//! second at most. So a wait for a processor, or a page fault, is known to belong to the turn or to the ticks
//! just before it.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use tarn_engine::lock::waits::{self, Waits};

use crate::observe::ledger::{Cause, SLOW, Spent};
use crate::observe::stopwatch::coarse_ns;
use crate::observe::thread::{ThreadFigures, Told};

/// The notes of a worker about its turn.
pub(super) struct Turn {
    /// When the first request ran.
    began: Cell<Option<Instant>>,
    requests: Cell<u64>,
    /// The time of writes to sockets before the end of the turn.
    written: Cell<Duration>,
    /// The coarse clock when the system was asked last.
    asked_ns: Cell<u64>,
    /// `None`: the system does not tell.
    thread: RefCell<Option<ThreadFigures>>,
}

/// A turn that has ended.
pub(super) struct Ended {
    /// Its time.
    pub(super) spent: Spent,
    /// Its requests.
    pub(super) requests: u64,
    /// As in [`Waits`].
    pub(super) holder: &'static str,
}

impl Turn {
    /// No turn has begun.
    ///
    /// REQUIRES: it is called in the thread of the worker.
    pub(super) fn new() -> Turn {
        let thread = ThreadFigures::open();
        if let Err(error) = &thread {
            tracing::debug!("waits for processors and page faults are not known: {error}");
        }
        Turn {
            began: Cell::new(None),
            requests: Cell::new(0),
            written: Cell::new(Duration::ZERO),
            asked_ns: Cell::new(0),
            thread: RefCell::new(thread.ok()),
        }
    }

    /// Requests begin to run, the first or others.
    pub(super) fn begin(&self, now: Instant) {
        if self.began.get().is_none() {
            // What was waited for between turns held up no request.
            waits::take();
            self.began.set(Some(now));
        }
    }

    /// So many requests have run.
    pub(super) fn count(&self, requests: u64) {
        self.requests.set(self.requests.get() + requests);
    }

    /// Notes the time of writes to sockets before the end of the turn.
    pub(super) fn note_written(&self, time: Duration) {
        self.written.set(self.written.get() + time);
    }

    /// The turn has ended: requests have run until `ran`, and their replies were written since.
    pub(super) fn end(&self, ran: Instant) -> Ended {
        let ended = Instant::now();
        let began = self.began.take().unwrap_or(ran);
        let waits = waits::take();
        let output = self.written.take() + (ended - ran);
        let coarse = coarse_ns();
        let asks = ended - began >= SLOW || coarse != self.asked_ns.get();
        let told = if asks { self.ask(coarse) } else { Told::default() };
        let spent = divided(ended - began, output, waits.as_ref(), told);
        Ended { spent, requests: self.requests.take(), holder: waits.map_or("", |waits| waits.holder) }
    }

    fn ask(&self, coarse: u64) -> Told {
        self.asked_ns.set(coarse);
        self.thread.borrow_mut().as_mut().and_then(|thread| thread.ask().ok()).unwrap_or_default()
    }
}

/// Divides the time of a turn by cause. A delay that is longer than the turn was before it: the thread was
/// not woken in time, so its requests waited that much longer.
fn divided(wall: Duration, output: Duration, waits: Option<&Waits>, told: Told) -> Spent {
    let mut spent = Spent::default();
    let mut left = wall;
    let mut take = |cause: Cause, time: Duration| {
        let taken = time.min(left);
        left -= taken;
        spent.add(cause, taken);
    };
    if let Some(waits) = waits {
        take(Cause::Latch, waits.latches);
        take(Cause::Gate, waits.gate);
        take(Cause::Appender, waits.appender);
        take(Cause::Lock, waits.others);
    }
    take(Cause::Scheduler, told.delayed);
    take(Cause::PageFault, told.faulted);
    take(Cause::Output, output);
    spent.add(Cause::Scheduler, told.delayed.saturating_sub(wall));
    spent.add(Cause::Command, left);
    spent
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_parts_of_a_turn_are_the_turn(
            [wall, output, delayed, faulted, latches, gate] in prop::array::uniform6(0u64..5000)
        ) {
            let us = Duration::from_micros;
            let waits = Waits { latches: us(latches), gate: us(gate), ..Waits::default() };
            let told = Told { delayed: us(delayed), faulted: us(faulted) };
            let spent = divided(us(wall), us(output), Some(&waits), told);
            let before = us(delayed).saturating_sub(us(wall));
            prop_assert_eq!(spent.total(), us(wall) + before);
            prop_assert!(spent.of(Cause::Latch) <= us(latches) && spent.of(Cause::Output) <= us(output));
            prop_assert_eq!(spent.of(Cause::Disk), Duration::ZERO);
        }
    }

    #[test]
    fn a_turn_counts_its_requests_and_its_writes() {
        let turn = Turn::new();
        let began = Instant::now();
        turn.begin(began);
        turn.begin(Instant::now());
        turn.count(3);
        turn.count(4);
        turn.note_written(Duration::from_secs(3600));
        let ended = turn.end(Instant::now());
        assert_eq!(ended.requests, 7);
        assert!(ended.spent.total() >= Duration::ZERO && ended.spent.of(Cause::Command).is_zero());
        assert_eq!(turn.end(Instant::now()).requests, 0);
    }
}
