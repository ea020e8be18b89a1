//! Serves clients that wait for keys: runs their commands in their stead.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tarn_engine::record::{Batch, Kind};

use super::Executor;
use crate::execute::blocking::{LOOK_PAUSE, Outcome, Place, Wait, Waiter, pause_of_looks};
use crate::execute::client::{After, Client};

/// The longest wait for latches in the stead of a client that waits: others that only use a key give it back
/// by then. Who serves others has clients of its own. Behind one that was waited for in vain nothing is
/// waited for, and nothing at the next try.
pub(super) const STAND_IN_WAIT: Duration = Duration::from_millis(2);
/// Keys whose waiters cannot be served, and which are tried at once, at most. Others come first the next
/// time.
pub(super) const VAIN_MAX: usize = 64;
/// A look for what time alone brings goes on to a further key for so long at most.
const LOOK_MAX: Duration = Duration::from_millis(2);

/// The outcome of running a waiter's command.
#[derive(Debug)]
pub(super) enum Served {
    /// The waiter is done, by this or by something else.
    Done,
    /// There is nothing for it. It looks again after this time, if at all.
    FoundNothing(Option<Duration>),
    /// The log has no room for it, writes are paused, or somebody has a key for long. It keeps its place in
    /// the queues.
    Later,
}

impl Executor<'_> {
    /// Serves clients that wait for keys which `batch` may have given something. To be called after each
    /// command that wrote.
    pub(super) fn serve_ready(&mut self, batch: &Batch<'_>) {
        if self.server.blocking.collect_ready(batch, &mut self.ready) {
            self.serve_queued(STAND_IN_WAIT);
        }
    }

    /// Looks once more for something to take, for a waiter that has just been registered.
    pub(crate) fn serve_waiter(&mut self, waiter: &Arc<Waiter>) {
        if waiter.request.kind == Some(Kind::Stream) {
            return self.serve_reader(waiter);
        }
        self.ready.extend(waiter.request.keys.iter().map(|key| (waiter.db, key.clone())));
        self.serve_queued(STAND_IN_WAIT);
    }

    /// Looks once more for entries, for a reader that has just been registered; others have looked already.
    fn serve_reader(&mut self, waiter: &Arc<Waiter>) {
        let stopwatch = &self.server.stats.workers[self.worker].stopwatch;
        let mark = stopwatch.mark();
        (self.serving, self.stand_in_wait) = (true, STAND_IN_WAIT);
        let mut vain = Vec::new();
        let keys: HashSet<&Box<[u8]>> = waiter.request.keys.iter().collect();
        for key in keys {
            let place = (waiter.db, key.clone());
            let is_vain = match &waiter.request.group {
                // Who came first is served first.
                Some(group) => self.serve_readers(&place, Some(group)),
                None => matches!(self.serve(waiter, key), Served::Later),
            };
            if waiter.is_done() {
                break;
            }
            vain.extend(is_vain.then_some(place));
        }
        self.serving = false;
        stopwatch.go_back_to(mark);
        self.server.blocking.postpone(vain.into_iter());
        // What this has made ready in its turn.
        if !self.ready.is_empty() {
            self.serve_queued(STAND_IN_WAIT);
        }
    }

    /// Looks again for what time alone brings to a reader that waits; after which time to do so again.
    pub(crate) fn look_again(&mut self, waiter: &Arc<Waiter>) -> Option<Duration> {
        let began = Instant::now();
        let stopwatch = &self.server.stats.workers[self.worker].stopwatch;
        let mark = stopwatch.mark();
        (self.serving, self.stand_in_wait) = (true, STAND_IN_WAIT);
        let mut next: Option<Duration> = None;
        // Each set has an order of its own: the keys that are left out now come first another time.
        let keys: HashSet<&Box<[u8]>> = waiter.request.keys.iter().collect();
        for (looked_at, key) in keys.into_iter().enumerate() {
            if looked_at > 0 && began.elapsed() > LOOK_MAX {
                next = Some(LOOK_PAUSE);
                break;
            }
            let after = match self.serve(waiter, key) {
                Served::Done => None,
                Served::FoundNothing(after) => after,
                Served::Later => {
                    self.stand_in_wait = Duration::ZERO;
                    Some(LOOK_PAUSE)
                }
            };
            if waiter.is_done() {
                next = None;
                break;
            }
            next = next.into_iter().chain(after).min();
        }
        self.serving = false;
        stopwatch.go_back_to(mark);
        let pause = pause_of_looks(began.elapsed(), self.server.blocking.looking());
        // What this has made ready in its turn.
        if !self.ready.is_empty() {
            self.serve_queued(STAND_IN_WAIT);
        }
        next.map(|next| next.max(pause))
    }

    /// Serves clients that could not be served for want of room in the log, for a pause or for a latch, now
    /// that nothing may be in their way. Waits for no latch: it is tried again soon, and by all workers.
    pub(crate) fn serve_postponed(&mut self) {
        self.ready.extend(self.server.blocking.take_postponed());
        self.serve_queued(Duration::ZERO);
    }

    /// Serves the waiters of the keys in `ready`. A command that serves a waiter may push in its turn
    /// (`BLMOVE`): its keys join the queue instead of the stack. `wait` is the time to wait for latches.
    fn serve_queued(&mut self, wait: Duration) {
        if self.serving {
            return;
        }
        self.serving = true;
        // The commands that run here are timed by themselves, and not taken off the time of the one that
        // served them.
        let stopwatch = &self.server.stats.workers[self.worker].stopwatch;
        let mark = stopwatch.mark();
        self.stand_in_wait = wait;
        let mut vain = Vec::new();
        while vain.len() < VAIN_MAX
            && let Some(place) = self.ready.pop_front()
        {
            let mut is_vain = self.serve_readers(&place, None);
            // Readers of streams take nothing away from others, and each has its own place to read from.
            let mut exhausted = SmallVec::<[Kind; 3]>::from_slice(&[Kind::Stream]);
            while let Some(waiter) = self.server.blocking.first(&place, &exhausted) {
                match self.serve(&waiter, &place.1) {
                    Served::Done => {}
                    Served::FoundNothing(_) => exhausted.extend(waiter.request.kind),
                    Served::Later => {
                        is_vain = true;
                        self.stand_in_wait = Duration::ZERO;
                        exhausted.extend(waiter.request.kind);
                    }
                }
            }
            if is_vain {
                vain.push(place);
            }
        }
        self.server.blocking.postpone(self.ready.drain(..).chain(vain));
        stopwatch.go_back_to(mark);
        self.serving = false;
    }

    /// Serves those that wait for entries of a stream, all or those of a group; says whether one has to be
    /// served later.
    fn serve_readers(&mut self, place: &Place, of_group: Option<&[u8]>) -> bool {
        let mut is_vain = false;
        // Groups that have nothing left: their other clients need not be asked.
        let mut exhausted: HashSet<Box<[u8]>> = HashSet::new();
        for waiter in self.server.blocking.readers(place) {
            let group = waiter.request.group.as_deref();
            let is_other = of_group.is_some() && group != of_group;
            if is_other || group.is_some_and(|group| exhausted.contains(group)) {
                continue;
            }
            match self.serve(&waiter, &place.1) {
                Served::Done => {}
                Served::FoundNothing(_) => exhausted.extend(group.map(Box::from)),
                Served::Later => {
                    is_vain = true;
                    self.stand_in_wait = Duration::ZERO;
                }
            }
        }
        is_vain
    }

    /// Runs the command of `waiter`, for which there may be something at `key`.
    pub(super) fn serve(&mut self, waiter: &Arc<Waiter>, key: &[u8]) -> Served {
        // Who reads a stream for no group writes nothing.
        let writes = waiter.request.kind != Some(Kind::Stream) || waiter.request.group.is_some();
        if self.server.pause.holds(writes, self.now) {
            return Served::Later;
        }
        // A thread that holds the state of a waiter must not wait for the gate: a worker inside may wait for
        // that state.
        if self.enter_gate().is_err() {
            return Served::Later;
        }
        let mut wait = waiter.wait.lock();
        if matches!(*wait, Wait::GoesOn) && !waiter.client.is_killed() {
            let mut stand_in = Client::new(waiter.client.clone(), true);
            stand_in.worker = self.worker;
            stand_in.db = waiter.db;
            stand_in.protocol = waiter.protocol;
            stand_in.waits = true;
            let mut reply = Vec::new();
            let args = waiter.request.looking_only_at(key);
            let lsn = self.run(&mut stand_in, args.as_args(), &mut reply);
            match &stand_in.after {
                After::Block(request) => {
                    waiter.seen.fetch_max(lsn.0, Ordering::Relaxed);
                    return Served::FoundNothing(request.look_after);
                }
                After::Postpone | After::Pause => return Served::Later,
                // Who waits already runs no steps.
                After::GoOn | After::Close | After::Steps(_) => {}
            }
            wait.end(Outcome::Served(reply, lsn));
        }
        drop(wait);
        self.server.blocking.remove(waiter);
        waiter.client.wake();
        Served::Done
    }
}
