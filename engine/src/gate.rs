//! The gate: one reader-writer lock a thread, so that entering costs no shared cache line.
//!
//! ```text
//!   enter        read lock of one's own
//!   pass each    write lock of one after the other, each given back at once: all that were inside have left
//!   close        pass each ── take all, for a moment ── somebody slow came in? give all back, and again
//! ```
//!
//! One command may take seconds. A closer of the gate waits for it while it holds nobody else: it takes
//! all locks only when everybody has just been out, and gives them back after a patience that grows from
//! round to round, so that slow commands that overlap for ever keep nobody from closing
//! (`docs/design/0027`).

use crate::lock::{Number, RwLock, RwLockReadGuard, RwLockWriteGuard, rank};
use std::time::Duration;

/// How long one lock is waited for at first, while others are held. It doubles from round to round, without
/// an end: whatever commands overlap, a patience beyond the longest of them takes all locks.
const HOLD_MIN: Duration = Duration::from_millis(4);
/// The first time limit of waiting for a thread inside, for a closer that does other work meanwhile.
const KNOCK_MIN: Duration = Duration::from_millis(1);
/// Which part of the time that a closer has waited already it may have others wait.
const SHARE: u32 = 16;

#[repr(align(64))]
struct Gate<T>(RwLock<T, rank::Gate>);

/// The locks of all threads; each protects a copy of the same.
pub(crate) struct Gates<T>(Box<[Gate<T>]>);

/// All locks, taken.
pub(crate) type Closed<'g, T> = Vec<RwLockWriteGuard<'g, T, rank::Gate>>;

impl<T> Gates<T> {
    /// A gate of as many locks as there are copies.
    pub(crate) fn new(copies: impl Iterator<Item = T>) -> Gates<T> {
        Gates(copies.map(|copy| Gate(RwLock::new(copy))).collect())
    }

    /// Enters as thread `number`. Waits while the gate is closed.
    pub(crate) fn enter(&self, number: usize) -> RwLockReadGuard<'_, T, rank::Gate> {
        self.0[number].0.read_as(self.number(number))
    }

    /// As `enter`; `None` if the gate stays closed for longer than the limit.
    pub(crate) fn enter_within(
        &self,
        number: usize,
        limit: Duration,
    ) -> Option<RwLockReadGuard<'_, T, rank::Gate>> {
        self.0[number].0.read_within(self.number(number), Some(limit))
    }

    /// Waits until each thread has been out once, and holds nobody meanwhile. When it returns, a thread that
    /// is inside has entered since the call.
    ///
    /// REQUIRES: the caller is not inside.
    pub(crate) fn pass_each(&self) {
        self.each().for_each(|(number, gate)| drop(gate.write_as(number)));
    }

    /// Waits until every thread is out, and keeps them out.
    ///
    /// REQUIRES: the caller is not inside.
    pub(crate) fn close(&self) -> Closed<'_, T> {
        let mut hold = HOLD_MIN;
        loop {
            self.pass_each();
            if let Some(closed) = self.take_all(hold) {
                return closed;
            }
            hold = hold.saturating_mul(2);
        }
    }

    /// As `close`, but `None` if somebody is inside for longer; then the caller, who has `waited` for so
    /// long altogether, tries again a moment later.
    ///
    /// REQUIRES: the caller is not inside.
    pub(crate) fn try_close(&self, waited: Duration) -> Option<Closed<'_, T>> {
        let share = waited / SHARE;
        for (number, gate) in self.each() {
            drop(gate.try_write_for_as(share.max(KNOCK_MIN), number)?);
        }
        self.take_all(share.max(HOLD_MIN))
    }

    /// Takes all locks, each within the time, or none.
    fn take_all(&self, hold: Duration) -> Option<Closed<'_, T>> {
        self.each().map(|(number, gate)| gate.try_write_for_as(hold, number)).collect()
    }

    /// All locks, in their order.
    fn each(&self) -> impl Iterator<Item = (Number, &RwLock<T, rank::Gate>)> {
        self.0.iter().enumerate().map(|(number, gate)| (self.number(number), &gate.0))
    }

    fn number(&self, number: usize) -> Number {
        Number::of(&self.0[0], number)
    }

    /// Whether somebody inside as `number` is waited for.
    #[cfg(all(test, not(any(shuttle, loom))))]
    pub(crate) fn is_waited_for(&self, number: usize) -> bool {
        self.0[number].0.try_read().is_none()
    }

    /// Whether thread `number` could enter within the time.
    #[cfg(all(test, not(any(shuttle, loom))))]
    pub(crate) fn lets_in(&self, number: usize, within: Duration) -> bool {
        let began = std::time::Instant::now();
        loop {
            // Without waiting for it, so that a thread inside may ask.
            match self.0[number].0.try_read() {
                Some(_) => return true,
                None if began.elapsed() > within => return false,
                None => std::thread::yield_now(),
            }
        }
    }
}

#[cfg(all(test, not(any(shuttle, loom))))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An event that has not happened by then will not happen.
    const LIMIT: Duration = Duration::from_secs(30);

    fn until(what: impl Fn() -> bool) {
        let mut tries = 0;
        while !what() {
            tries += 1;
            assert!(tries < 30_000, "it did not happen in time");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn who_closes_holds_nobody_while_it_waits_for_one() {
        let gates = Gates::new(0..3);
        let slow = gates.enter(2);
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| gates.close().len());
            until(|| gates.is_waited_for(2));
            let others_enter = gates.lets_in(0, LIMIT) && gates.lets_in(1, LIMIT);
            drop(slow);
            assert_eq!(closing.join().unwrap(), 3);
            assert!(others_enter);
        });
    }

    #[test]
    fn who_waits_for_a_grace_period_holds_nobody() {
        let gates = Gates::new(0..3);
        let slow = gates.enter(1);
        std::thread::scope(|scope| {
            let passing = scope.spawn(|| gates.pass_each());
            until(|| gates.is_waited_for(1));
            let others_enter = gates.lets_in(0, LIMIT) && gates.lets_in(2, LIMIT);
            drop(slow);
            passing.join().unwrap();
            assert!(others_enter);
        });
    }

    #[test]
    fn what_is_tried_is_given_up_for_a_slow_one_and_holds_nobody_behind_it() {
        let gates = Gates::new(0..3);
        let slow = gates.enter(1);
        let closes = || gates.try_close(Duration::ZERO).is_some();
        assert!(!std::thread::scope(|scope| scope.spawn(closes).join().unwrap()));
        assert!(gates.lets_in(0, LIMIT) && gates.lets_in(1, LIMIT) && gates.lets_in(2, LIMIT));
        drop(slow);
        assert_eq!(gates.try_close(Duration::ZERO).map(|closed| closed.len()), Some(3));
    }

    #[test]
    fn who_enters_with_a_limit_does_not_wait_for_a_gate_that_stays_closed() {
        let gates = Gates::new(0..2);
        let closed = gates.close();
        let enters = || gates.enter_within(1, Duration::ZERO).is_some();
        assert!(!std::thread::scope(|scope| scope.spawn(enters).join().unwrap()));
        drop(closed);
        assert!(enters());
    }

    /// All but one of the threads are inside nearly always, for short times, and two for longer ones.
    #[test]
    fn busy_threads_keep_nobody_from_closing() {
        let gates = Gates::new((0..4).map(|_| 0_u64));
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            for number in 1..4 {
                let (gates, over) = (&gates, &over);
                scope.spawn(move || {
                    while !over.load(std::sync::atomic::Ordering::Relaxed) {
                        let inside = gates.enter(number);
                        std::thread::sleep(Duration::from_millis(number as u64 * 2));
                        drop(inside);
                    }
                });
            }
            for _ in 0..20 {
                gates.close().iter_mut().for_each(|copy| **copy += 1);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert!((0..4).all(|number| *gates.enter(number) == 20));
    }
}

#[cfg(all(test, shuttle))]
mod model {
    //! Two that close, one that passes each and three that enter, in random orders of their steps.

    use super::*;
    use shuttle::sync::atomic::{AtomicU64, Ordering};
    use shuttle::thread;
    use std::sync::Arc;

    const ENTERING: usize = 3;

    struct House {
        gates: Gates<u64>,
        inside: AtomicU64,
        alone: AtomicU64,
        /// Per thread, the records that it has begun and those that it has applied.
        begun: [AtomicU64; ENTERING],
        done: [AtomicU64; ENTERING],
    }

    impl House {
        fn enter(&self, number: usize, tries: bool) {
            let copy = match tries {
                false => self.gates.enter(number),
                true => loop {
                    if let Some(copy) = self.gates.enter_within(number, Duration::ZERO) {
                        break copy;
                    }
                },
            };
            self.inside.fetch_add(1, Ordering::SeqCst);
            self.begun[number].fetch_add(1, Ordering::SeqCst);
            assert_eq!(self.alone.load(Ordering::SeqCst), 0, "somebody has the store alone");
            let before = *copy;
            thread::yield_now();
            assert_eq!(*copy, before, "what the gate protects changed for who is inside");
            self.done[number].fetch_add(1, Ordering::SeqCst);
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }

        fn close(&self, tries: bool) {
            let mut closed = match tries {
                false => self.gates.close(),
                true => loop {
                    if let Some(closed) = self.gates.try_close(Duration::ZERO) {
                        break closed;
                    }
                    thread::yield_now();
                },
            };
            assert_eq!(self.alone.fetch_add(1, Ordering::SeqCst), 0, "two have the store alone");
            assert_eq!(self.inside.load(Ordering::SeqCst), 0, "somebody is inside");
            assert!(closed.iter().all(|copy| **copy == *closed[0]), "all have the same");
            closed.iter_mut().for_each(|copy| **copy += 1);
            self.alone.fetch_sub(1, Ordering::SeqCst);
        }

        /// Behind a grace period, whatever was begun before it is done.
        fn settle(&self) {
            let begun: Vec<u64> = self.begun.iter().map(|begun| begun.load(Ordering::SeqCst)).collect();
            self.gates.pass_each();
            for (begun, done) in begun.iter().zip(&self.done) {
                assert!(done.load(Ordering::SeqCst) >= *begun, "somebody is still at what it had begun");
            }
        }
    }

    #[test]
    fn a_closer_is_alone_and_a_grace_period_leaves_nothing_half_done() {
        let run = || {
            let house = Arc::new(House {
                gates: Gates::new((0..ENTERING).map(|_| 0)),
                inside: AtomicU64::new(0),
                alone: AtomicU64::new(0),
                begun: Default::default(),
                done: Default::default(),
            });
            let spawn = |act: Box<dyn Fn(&House) + Send>| {
                let house = house.clone();
                thread::spawn(move || act(&house))
            };
            let mut threads = vec![
                spawn(Box::new(|house| house.close(false))),
                spawn(Box::new(|house| house.close(true))),
                spawn(Box::new(House::settle)),
            ];
            for number in 0..ENTERING {
                let enter = move |house: &House| (0..3).for_each(|_| house.enter(number, number == 0));
                threads.push(spawn(Box::new(enter)));
            }
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!((0..ENTERING).all(|number| *house.gates.enter(number) == 2));
        };
        shuttle::check_random(run, 3_000);
        shuttle::check_pct(run, 2_000, 3);
    }
}
