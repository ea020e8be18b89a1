//! Commands that take long: they run in steps, and other connections are served between two of them.
//!
//! ```text
//!   command ── the value is small ──> the whole reply, under the latch
//!           └─ large: copies under the latch ── step ── others ── step ── others ── … ── the end
//!                                                (no latch, no gate, a piece of the reply each)
//! ```
//!
//! A command that finds its keys large copies their entries, which costs nothing as copies share their nodes,
//! and says how to go on ([`Context::run_in_steps`]). Its connection runs the steps. So the reply shows the
//! keys as of one instant, however long it takes, and no more of it waits in memory than of any other reply.
//! The same functions serve commands that may not wait, such as those within a transaction: [`at_once`].
//!
//! [`Context::run_in_steps`]: crate::execute::context::Context::run_in_steps

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tarn_engine::record::Lsn;
use tarn_resp::{Args, OwnedArgs, Protocol, Writer};

use crate::error::CommandError;
use crate::execute::preparing::Ready;
use crate::execute::spec::Flags;

/// The time of a step, after which other connections are served.
pub(crate) const STEP: Duration = Duration::from_micros(200);
/// Elements, or 64 bytes each, between two looks at the clock.
const LOOK: usize = 32;
/// Bytes of a value from which on a command runs in steps.
pub(crate) const MUCH: usize = 256 << 10;
/// Elements that are sorted before the first merge.
const SORTED_AT_ONCE: usize = 512;

/// The work of a look for an element by its name.
pub(crate) const LOOKED_UP: usize = 4;
/// Elements above which no two commands of a worker gather at a time.
pub(crate) const GATHERED_MIN: usize = 1 << 16;
/// Room that is made for elements before it is known how many there are.
pub(crate) const CAPACITY_MAX: usize = 1 << 22;

/// The pace of a command, and the reply so far.
pub(crate) struct Steps {
    protocol: Protocol,
    /// Work until the clock is looked at.
    left: Cell<usize>,
    /// The end of this step, and the bytes of its reply that end it; `None`: there is one step for all.
    ends: Cell<Option<(Instant, usize)>>,
    reply: RefCell<Vec<u8>>,
    /// Bytes that the command holds besides copies of keys, and how many it may.
    held: Cell<usize>,
    held_max: usize,
    /// The newest change that the reply reveals beyond what the command saw before its first step.
    seen: Cell<Lsn>,
    /// How long the next step is to wait.
    pause: Cell<Option<Duration>>,
    /// The value that the command was to prepare.
    ready: RefCell<Option<Box<Ready>>>,
}

impl Steps {
    fn new(protocol: Protocol, held_max: usize) -> Steps {
        Steps {
            protocol,
            left: Cell::new(0),
            ends: Cell::new(None),
            reply: RefCell::default(),
            held: Cell::new(0),
            held_max,
            seen: Cell::new(Lsn::ZERO),
            pause: Cell::new(None),
            ready: RefCell::default(),
        }
    }

    /// Says that so many elements, or 64 bytes each, are done. Ends the step if its time is over.
    #[inline]
    pub(crate) async fn pass(&self, work: usize) {
        match self.left.get().checked_sub(work) {
            Some(left) => self.left.set(left),
            None => self.look().await,
        }
    }

    async fn look(&self) {
        self.left.set(LOOK);
        let mut is_over =
            self.ends.get().is_some_and(|(ends, room)| self.replied() >= room || Instant::now() >= ends);
        poll_fn(|_| if std::mem::take(&mut is_over) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Ends the step; the next one begins after that time.
    pub(crate) async fn pause(&self, pause: Duration) {
        self.pause.set(Some(pause));
        let mut is_over = true;
        poll_fn(|_| if std::mem::take(&mut is_over) { Poll::Pending } else { Poll::Ready(()) }).await;
    }

    /// Says what the command has prepared: it runs again.
    pub(crate) fn be_ready(&self, ready: Ready) {
        *self.ready.borrow_mut() = Some(Box::new(ready));
    }

    /// Bytes of the reply that this step has made.
    fn replied(&self) -> usize {
        self.reply.borrow().len()
    }

    /// Appends to the reply. A command that may still fail must not have replied anything.
    pub(crate) fn reply(&self, write: impl FnOnce(&mut Writer<'_>)) {
        write(&mut Writer::new(&mut self.reply.borrow_mut(), self.protocol));
    }

    /// Says that the command holds so many bytes more until its end, as replies do that wait for the client.
    /// An error if these would be more than the client may leave unread.
    pub(crate) fn hold(&self, bytes: usize) -> Result<(), CommandError> {
        self.held.set(self.held.get() + bytes);
        if self.held.get() > self.held_max { Err(CommandError::ReplyTooLong) } else { Ok(()) }
    }

    /// Says that the reply will reveal changes up to `lsn`. REQUIRES: nothing has been replied.
    pub(crate) fn see(&self, lsn: Lsn) {
        self.seen.set(lsn);
    }

    /// Writes each item to the reply.
    pub(crate) async fn each<T>(&self, items: impl Iterator<Item = T>, write: impl Fn(&mut Writer<'_>, T)) {
        for item in items {
            let before = self.replied();
            self.reply(|reply| write(reply, item));
            let written = self.replied() - before;
            self.pass(1 + written / 64).await;
        }
    }

    /// The items, of which there are about `len`.
    pub(crate) async fn collect<T>(&self, items: impl Iterator<Item = T>, len: usize) -> Vec<T> {
        let mut all = Vec::with_capacity(len);
        for item in items {
            all.push(item);
            self.pass(1).await;
        }
        all
    }

    /// Sorts `items`; equal ones keep their order.
    pub(crate) async fn sort<T: Copy>(&self, items: &mut Vec<T>, compare: impl Fn(&T, &T) -> Ordering) {
        for chunk in items.chunks_mut(SORTED_AT_ONCE) {
            chunk.sort_by(&compare);
            // A comparison may wait for memory, twice an element and round.
            self.pass(chunk.len() * 16).await;
        }
        let mut width = SORTED_AT_ONCE;
        while width < items.len() {
            let mut merged = Vec::with_capacity(items.len());
            for pair in items.chunks(2 * width) {
                let (mut left, mut right) = pair.split_at(width.min(pair.len()));
                while let (Some(first), Some(second)) = (left.first(), right.first()) {
                    let from = if compare(second, first).is_lt() { &mut right } else { &mut left };
                    merged.push(from[0]);
                    *from = &from[1..];
                    self.pass(2).await;
                }
                for rest in left.chunks(LOOK).chain(right.chunks(LOOK)) {
                    merged.extend_from_slice(rest);
                    self.pass(LOOK).await;
                }
            }
            *items = merged;
            width *= 2;
        }
    }
}

/// Runs a function that can run in steps to its end.
pub(crate) fn at_once<T>(run: impl AsyncFnOnce(&Steps) -> T) -> T {
    let steps = Steps::new(Protocol::Resp2, usize::MAX);
    match pin!(run(&steps)).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => unreachable!("a step without an end is the last one"),
    }
}

/// The rest of a command, which its connection runs in steps.
pub struct Rest {
    steps: Rc<Steps>,
    /// The time of a step.
    step: Duration,
    future: Pin<Box<dyn Future<Output = Result<(), CommandError>>>>,
    /// The time that it has run.
    took: Duration,
    /// The flags of the command, its place in the table and its arguments.
    call: Option<(Flags, usize, OwnedArgs)>,
    /// It has replied nothing yet, and what it gathers for that takes memory.
    gathers: bool,
    /// The client does not want the reply (`CLIENT REPLY`).
    pub(crate) is_unwanted: bool,
    /// Its outcome was an error.
    pub(crate) has_failed: bool,
    /// Bytes that it has replied.
    pub(crate) replied: usize,
}

impl Rest {
    /// The future that `run` makes of the pace and the reply. `gathers`: it takes much memory before it
    /// replies. `held_max`: bytes that it may hold.
    pub(crate) fn new<F>(
        protocol: Protocol,
        step: Duration,
        gathers: bool,
        held_max: usize,
        run: impl FnOnce(Rc<Steps>) -> F,
    ) -> Rest
    where
        F: Future<Output = Result<(), CommandError>> + 'static,
    {
        let steps = Rc::new(Steps::new(protocol, held_max));
        let future = Box::pin(run(steps.clone()));
        Rest {
            steps,
            step,
            future,
            took: Duration::ZERO,
            call: None,
            gathers,
            is_unwanted: false,
            has_failed: false,
            replied: 0,
        }
    }

    /// Notes whose rest it is.
    pub(crate) fn is_of(&mut self, flags: Flags, slot: usize, args: Args<'_>) {
        self.call = Some((flags, slot, args.to_owned()));
    }

    /// The flags of the command, its place in the table, its arguments, and the time of its steps so far.
    pub(crate) fn call(&self) -> Option<(Flags, usize, Args<'_>, Duration)> {
        self.call.as_ref().map(|(flags, slot, args)| (*flags, *slot, args.as_args(), self.took))
    }

    /// The newest change that the part of the reply from here on reveals, told once.
    pub(crate) fn take_seen(&self) -> Lsn {
        self.steps.seen.take()
    }

    /// Bytes that it holds until its end besides copies of keys.
    pub(crate) fn held(&self) -> usize {
        self.steps.held.get()
    }

    /// How long the next step is to wait, told once.
    pub(crate) fn take_pause(&self) -> Option<Duration> {
        self.steps.pause.take()
    }

    /// Whether the command has prepared something, and runs again.
    pub(crate) fn runs_again(&self) -> bool {
        self.steps.ready.borrow().is_some()
    }

    /// The value that the command has prepared, told once.
    pub(crate) fn take_ready(&self) -> Option<Box<Ready>> {
        self.steps.ready.borrow_mut().take()
    }

    /// Whether it gathers what it will reply.
    pub(crate) fn gathers(&self) -> bool {
        self.gathers
    }

    /// Runs one step, which ends when its part of the reply, which is appended to `out`, has about `room`
    /// bytes. The outcome of the command if it was the last step; an error is still to be written.
    pub(crate) fn step(&mut self, out: &mut Vec<u8>, room: usize) -> Option<Result<(), CommandError>> {
        let began = Instant::now();
        self.steps.ends.set(Some((began + self.step, room)));
        let polled = self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        self.gathers &= self.steps.replied() == 0;
        if self.is_unwanted {
            self.steps.reply.borrow_mut().clear();
        }
        out.append(&mut self.steps.reply.borrow_mut());
        self.took += began.elapsed();
        match polled {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("took", &self.took).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(rest: &mut Rest) -> (Vec<u8>, usize, Result<(), CommandError>) {
        let (mut out, mut steps) = (Vec::new(), 0);
        loop {
            steps += 1;
            if let Some(outcome) = rest.step(&mut out, MUCH) {
                return (out, steps, outcome);
            }
        }
    }

    #[test]
    fn work_is_done_in_several_steps_and_the_reply_comes_in_order() {
        for step in [Duration::ZERO, STEP] {
            let mut rest = Rest::new(Protocol::Resp2, step, false, usize::MAX, async |steps| {
                steps.each(0..100_000, |reply, number| reply.integer(number)).await;
                Ok(())
            });
            let (out, steps, outcome) = run(&mut rest);
            let expected: String = (0..100_000).map(|number| format!(":{number}\r\n")).collect();
            assert_eq!((out, outcome), (expected.into_bytes(), Ok(())));
            assert!(steps > 1, "{step:?}");
        }
    }

    #[test]
    fn an_error_is_the_outcome_of_the_last_step() {
        let mut rest = Rest::new(Protocol::Resp2, Duration::ZERO, false, usize::MAX, async |steps| {
            steps.pass(1).await;
            Err(CommandError::Syntax)
        });
        assert_eq!(run(&mut rest), (Vec::new(), 2, Err(CommandError::Syntax)));
    }

    #[test]
    fn what_is_not_wanted_is_not_replied() {
        let mut rest = Rest::new(Protocol::Resp2, Duration::ZERO, false, usize::MAX, async |steps| {
            steps.each(0..100, |reply, number| reply.integer(number)).await;
            Ok(())
        });
        rest.is_unwanted = true;
        assert_eq!(run(&mut rest).0, b"");
    }

    proptest! {
        #[test]
        fn items_are_sorted_in_steps_as_the_library_sorts_them(
            mut items in prop::collection::vec((0u8..50, any::<u32>()), 0..3000)
        ) {
            let by_first = |a: &(u8, u32), b: &(u8, u32)| a.0.cmp(&b.0);
            let mut sorted = items.clone();
            at_once(async |steps| steps.sort(&mut sorted, by_first).await);
            items.sort_by(by_first);
            prop_assert_eq!(sorted, items);
        }
    }
}
