//! The scripts that run, one for each worker at most: others may ask them to end.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tarn_engine::lock::{Mutex, rank};

/// A script that has the store for itself no longer than this, in nanoseconds, is waited for at the gate.
const BRIEF_NS: u64 = 10_000_000;

/// A function that has run for long.
#[derive(Clone, Debug)]
pub(crate) struct About {
    /// Its name.
    pub(crate) name: String,
    /// The request that runs it.
    pub(crate) request: Vec<Vec<u8>>,
    /// When it began.
    pub(crate) began: Instant,
}

/// The outcome of an attempt to end scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Killing {
    /// None has run for long.
    NoneRuns,
    /// It has written already.
    HasWritten,
    /// One of the other kind runs: a function, if scripts were to be ended.
    OtherKind,
    /// It ends at its next look.
    Ends,
}

/// The script of a worker, as others see it.
#[derive(Debug, Default)]
struct Slot {
    is_overdue: AtomicBool,
    has_written: AtomicBool,
    /// The number of the script that runs, or that ran last.
    number: AtomicU64,
    /// The number of the script that is to end.
    ends: AtomicU64,
    /// Of a function that is overdue.
    about: Mutex<Option<About>, rank::Leaf>,
    /// Bytes of memory of the interpreter of scripts, and of that of functions, after their last run.
    interpreter_bytes: [AtomicUsize; 2],
}

/// The scripts that run.
#[derive(Debug)]
pub(crate) struct Running {
    slots: Vec<Slot>,
    /// Those that have run for longer than `busy-reply-threshold`.
    overdue: AtomicUsize,
    /// Those that have the store for themselves: one, or for a moment two, while the first lets go.
    at_gate: AtomicUsize,
    /// When the last one took it, in nanoseconds after `epoch`.
    gate_taken: AtomicU64,
    epoch: Instant,
    /// A request was postponed for that.
    is_awaited: AtomicBool,
    /// Workers that may run scripts beside each other.
    free: AtomicUsize,
}

impl Running {
    /// No scripts, for so many workers, one of which never runs one while all others do.
    pub(super) fn new(workers: usize) -> Running {
        Running {
            free: AtomicUsize::new(workers - 1),
            slots: (0..workers).map(|_| Slot::default()).collect(),
            overdue: AtomicUsize::new(0),
            at_gate: AtomicUsize::new(0),
            gate_taken: AtomicU64::new(0),
            epoch: Instant::now(),
            is_awaited: AtomicBool::new(false),
        }
    }

    /// Says that a script has the store for itself, until what is returned is dropped.
    ///
    /// REQUIRES: it has closed the gate.
    pub(crate) fn take_gate(&self) -> TakenGate<'_> {
        self.gate_taken.store(self.now(), Ordering::SeqCst);
        self.at_gate.fetch_add(1, Ordering::SeqCst);
        TakenGate { running: self }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Whether a script has had the store for itself for some time: who entered the gate would wait, and
    /// could not tell clients that it does. The caller is woken when it has ended. Where short scripts follow
    /// each other, who waits at the gate gets in between.
    pub(crate) fn bars_the_gate(&self) -> bool {
        let is_barred = || {
            self.at_gate.load(Ordering::SeqCst) > 0
                && self.now() >= self.gate_taken.load(Ordering::SeqCst).saturating_add(BRIEF_NS)
        };
        if !is_barred() {
            return false;
        }
        self.is_awaited.store(true, Ordering::SeqCst);
        is_barred()
    }

    /// Whether requests were postponed since a script had the store for itself; they are to be woken.
    pub(crate) fn take_awaited(&self) -> bool {
        self.is_awaited.load(Ordering::Relaxed) && self.is_awaited.swap(false, Ordering::SeqCst)
    }

    /// Whether a script has run for so long that others are told to wait.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.overdue.load(Ordering::Relaxed) > 0
    }

    /// Whether the script of this worker has run for so long that others are told to wait.
    pub(crate) fn is_overdue(&self, worker: usize) -> bool {
        self.slots[worker].is_overdue.load(Ordering::Acquire)
    }

    /// Admits a script that lets scripts of other workers run beside it, until what is returned is dropped;
    /// `None`: it would occupy the last worker, and nobody could end scripts any more.
    pub(crate) fn admit(&self) -> Option<Admitted<'_>> {
        let less = |free: usize| free.checked_sub(1);
        let admitted = self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok();
        admitted.then_some(Admitted { running: self })
    }

    /// Bytes of memory of all interpreters of scripts, and of functions, as they were when their last ones
    /// ended.
    pub(crate) fn interpreter_bytes(&self) -> [usize; 2] {
        [0, 1].map(|kind| {
            self.slots.iter().map(|slot| slot.interpreter_bytes[kind].load(Ordering::Relaxed)).sum()
        })
    }

    /// Begins a script of a worker.
    pub(crate) fn begin(&self, worker: usize) -> Run<'_> {
        let slot = &self.slots[worker];
        let number = slot.number.fetch_add(1, Ordering::AcqRel) + 1;
        Run { running: self, slot, number, began: Instant::now() }
    }

    /// Ends the scripts, or the functions, that have run for long, unless they have written.
    pub(crate) fn kill(&self, functions: bool) -> Killing {
        let mut outcome = Killing::NoneRuns;
        for slot in &self.slots {
            // Read before all else: the next script of this worker shall not be ended for this one.
            let number = slot.number.load(Ordering::Acquire);
            if !slot.is_overdue.load(Ordering::Acquire) {
                continue;
            }
            outcome = match (slot.about.lock().is_some() == functions, outcome) {
                (_, Killing::Ends) if slot.has_written.load(Ordering::Acquire) => Killing::Ends,
                (true, _) if slot.has_written.load(Ordering::Acquire) => Killing::HasWritten,
                (true, _) => {
                    slot.ends.store(number, Ordering::Release);
                    Killing::Ends
                }
                (false, Killing::NoneRuns) => Killing::OtherKind,
                (false, outcome) => outcome,
            };
        }
        outcome
    }

    /// A function that has run for long; `None`: none does, but perhaps a script.
    pub(crate) fn function(&self) -> Option<About> {
        self.slots.iter().find_map(|slot| slot.about.lock().clone())
    }
}

/// The mark that a script has the store for itself; until it is dropped.
#[derive(Debug)]
pub(crate) struct TakenGate<'r> {
    running: &'r Running,
}

impl Drop for TakenGate<'_> {
    fn drop(&mut self) {
        self.running.at_gate.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The mark that a script was admitted; until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted<'r> {
    running: &'r Running,
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.running.free.fetch_add(1, Ordering::Relaxed);
    }
}

/// A script that runs; until it is dropped.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    running: &'r Running,
    slot: &'r Slot,
    number: u64,
    began: Instant,
}

impl Run<'_> {
    /// Notes that it has changed something.
    pub(crate) fn note_write(&self) {
        self.slot.has_written.store(true, Ordering::Release);
    }

    /// Notes how much memory the interpreter, of functions or of scripts, takes.
    pub(crate) fn note_memory(&self, is_function: bool, bytes: usize) {
        self.slot.interpreter_bytes[usize::from(is_function)].store(bytes, Ordering::Relaxed);
    }

    /// Whether somebody asked it to end.
    pub(crate) fn is_to_end(&self) -> bool {
        self.slot.ends.load(Ordering::Acquire) == self.number
    }

    /// Tells others if it has run for `limit`; of a function, the name and the request.
    pub(crate) fn look_at_time(
        &self,
        limit: Duration,
        about: impl FnOnce() -> Option<(String, Vec<Vec<u8>>)>,
    ) {
        if self.began.elapsed() >= limit && !self.slot.is_overdue.load(Ordering::Relaxed) {
            let began = self.began;
            *self.slot.about.lock() = about().map(|(name, request)| About { name, request, began });
            self.slot.is_overdue.store(true, Ordering::Release);
            self.running.overdue.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(
                "a script has run for {} ms: clients are told to wait, see SCRIPT KILL",
                limit.as_millis()
            );
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if self.slot.is_overdue.swap(false, Ordering::AcqRel) {
            self.running.overdue.fetch_sub(1, Ordering::Relaxed);
            *self.slot.about.lock() = None;
        }
        self.slot.has_written.store(false, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scripts_that_run_for_long_and_have_not_written_are_ended() {
        let running = Running::new(2);
        assert_eq!(running.kill(false), Killing::NoneRuns);
        let run = running.begin(1);
        run.look_at_time(Duration::from_secs(3600), || None);
        assert_eq!((running.kill(false), running.is_busy()), (Killing::NoneRuns, false));
        run.look_at_time(Duration::ZERO, || None);
        assert!(running.is_busy() && !run.is_to_end());
        assert_eq!(running.kill(false), Killing::Ends);
        assert!(run.is_to_end());
        drop(run);
        assert_eq!((running.kill(false), running.is_busy()), (Killing::NoneRuns, false));
        let run = running.begin(1);
        assert!(!run.is_to_end());
        run.look_at_time(Duration::ZERO, || None);
        run.note_write();
        assert_eq!(running.kill(false), Killing::HasWritten);
        assert!(!run.is_to_end());
    }

    #[test]
    fn scripts_never_occupy_the_last_worker() {
        let running = Running::new(3);
        let (one, other) = (running.admit(), running.admit());
        assert!(one.is_some() && other.is_some() && running.admit().is_none());
        drop(one);
        assert!(running.admit().is_some());
        assert!(!running.is_overdue(0));
        let run = running.begin(0);
        run.look_at_time(Duration::ZERO, || None);
        assert!(running.is_overdue(0) && !running.is_overdue(1));
        drop(run);
        assert!(!running.is_overdue(0));
    }

    #[test]
    fn the_gate_is_barred_until_the_last_who_asked_for_it_has_left() {
        let running = Running::new(2);
        let (one, other) = (running.take_gate(), running.take_gate());
        assert!(!running.bars_the_gate(), "it was taken a moment ago");
        running.gate_taken.store(0, Ordering::SeqCst);
        while running.now() < BRIEF_NS {
            std::thread::yield_now();
        }
        drop(other);
        assert!(running.bars_the_gate() && running.take_awaited());
        drop(one);
        assert!(!running.bars_the_gate());
    }

    #[test]
    fn scripts_and_functions_are_ended_apart() {
        let running = Running::new(2);
        let script = running.begin(0);
        script.look_at_time(Duration::ZERO, || None);
        assert_eq!(running.kill(true), Killing::OtherKind);
        assert!(running.function().is_none());
        let function = running.begin(1);
        function.look_at_time(Duration::ZERO, || Some(("f".to_owned(), vec![b"fcall".to_vec()])));
        assert_eq!(running.function().map(|about| about.name), Some("f".to_owned()));
        assert_eq!(running.kill(true), Killing::Ends);
        assert!(function.is_to_end() && !script.is_to_end());
        drop(function);
        assert!(running.function().is_none());
        assert_eq!(running.kill(false), Killing::Ends);
    }
}
