//! One turn of a worker, and what it spent its time on (`observe/ledger.rs`).
//!
//! The waits for locks are measured where they happen, and the writes to sockets around them. What the system
//! knows of the thread is read where a turn begins and where it ends, if the coarse clock has gone on since
//! it was read last, or the turn was slow: so seldom that it costs nothing. A wait for a processor is then
//! known to have been in the turn, or before it: the thread was woken late. Shorter waits may be those of
//! other turns of the same tick.

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
    /// The wait for a processor before that.
    woken_late: Cell<Duration>,
    /// When the last turn ended, or an idle worker looked.
    last: Cell<Instant>,
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
            woken_late: Cell::new(Duration::ZERO),
            last: Cell::new(Instant::now()),
            requests: Cell::new(0),
            written: Cell::new(Duration::ZERO),
            asked_ns: Cell::new(0),
            thread: RefCell::new(thread.ok()),
        }
    }

    /// Requests begin to run, the first or others.
    pub(super) fn begin(&self, now: Instant) {
        if self.began.get().is_none() {
            self.forget();
            let late = self.ask_once_a_tick(coarse_ns()).delayed;
            // It was before this turn and behind the last one.
            self.woken_late.set(late.min(now - self.last.get()));
            self.began.set(Some(now));
        }
    }

    /// The worker has been idle, and has run for a moment: that held up no request.
    pub(super) fn look_while_idle(&self) {
        if self.began.get().is_none() {
            self.ask_once_a_tick(coarse_ns());
            self.last.set(Instant::now());
        }
    }

    /// Forgets waits between turns, which held up no request.
    fn forget(&self) {
        waits::take();
        self.written.set(Duration::ZERO);
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
        let began = self.began.take().unwrap_or_else(|| {
            self.forget();
            ran
        });
        let waits = waits::take();
        let output = self.written.take() + (ended - ran);
        let coarse = coarse_ns();
        let told = if ended - began >= SLOW { self.ask(coarse) } else { self.ask_once_a_tick(coarse) };
        let mut spent = divided(ended - began, output, waits.as_ref(), told);
        spent.add(Cause::Scheduler, self.woken_late.take());
        self.last.set(ended);
        Ended { spent, requests: self.requests.take(), holder: waits.map_or("", |waits| waits.holder) }
    }

    fn ask_once_a_tick(&self, coarse: u64) -> Told {
        if coarse == self.asked_ns.get() { Told::default() } else { self.ask(coarse) }
    }

    fn ask(&self, coarse: u64) -> Told {
        self.asked_ns.set(coarse);
        self.thread.borrow_mut().as_mut().and_then(|thread| thread.ask().ok()).unwrap_or_default()
    }
}

/// Divides the time of a turn by cause.
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
            prop_assert_eq!(spent.total(), us(wall));
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
        assert!(ended.spent.of(Cause::Command).is_zero());
        assert_eq!(turn.end(Instant::now()).requests, 0);
    }

    #[test]
    fn what_happens_between_turns_is_of_no_turn() {
        let turn = Turn::new();
        turn.note_written(Duration::from_secs(3600));
        std::thread::sleep(Duration::from_millis(30));
        let (idle, began) = (turn.last.get(), Instant::now());
        turn.begin(began);
        let spent = turn.end(Instant::now()).spent;
        assert!(spent.of(Cause::Output) < Duration::from_secs(3600));
        assert!(spent.total() <= idle.elapsed(), "a delay before a turn is no longer than the pause");
        turn.look_while_idle();
        assert!(turn.last.get() > began);
    }
}
