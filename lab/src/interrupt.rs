//! Signals that ask the laboratory to end: Ctrl-C, `SIGTERM`, and the `SIGHUP` of a terminal that closes. The
//! first one asks the experiment to stop, so that everything goes away with its guard; the second one ends
//! the servers, takes away what is left, and ends the process.
//!
//! A terminal that closes sends `SIGHUP` twice: one comes from the kernel, one from the shell. Within a
//! second they count once. Words that the terminal does not take any more are lost.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tempfile::TempDir;

use crate::error::{LabError, Result};
use crate::process;

/// The exit code of a process that Ctrl-C ended.
pub const EXIT_CODE: u8 = 130;
/// `SIGHUP`s within this time are those of one terminal that closes.
const HANG_UP: Duration = Duration::from_secs(1);
/// A directory is removed in this many attempts: a process that was ended may still write there.
const REMOVALS: usize = 3;

/// Set by the handler itself: a call that the signal interrupts finds it.
static ASKED_TO_STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static IS_PATIENT: AtomicBool = AtomicBool::new(false);
/// Directories that are there, or were.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Everything else that is there.
static LEFTOVERS: Leftovers = Leftovers(Mutex::new(Vec::new()));

/// Starts to listen for Ctrl-C, for `SIGTERM`, and for `SIGHUP` unless it is ignored, as `nohup` has it.
pub fn listen() {
    let listening = || -> io::Result<()> {
        let counted = || {
            let is_first = SIGNALS.fetch_add(1, Ordering::Relaxed) == 0;
            if !is_first && !IS_PATIENT.load(Ordering::Relaxed) {
                clean_up_and_exit();
            }
        };
        listen_for(&[SIGINT, SIGTERM], move |_| counted())?;
        if !process::ignores(std::process::id(), SIGHUP) {
            let mut hang_ups = HangUps::default();
            listen_for(&[SIGHUP], move |now| {
                if hang_ups.is_new(now) {
                    counted();
                }
            })?;
        }
        Ok(())
    };
    if let Err(error) = listening() {
        tell!("cannot listen for signals: {error}");
    }
}

/// Has a thread take notice of each signal, which sends it a byte.
fn listen_for(signals: &[i32], mut notice: impl FnMut(Instant) + Send + 'static) -> io::Result<()> {
    let (mut told, teller) = UnixStream::pair()?;
    for signal in signals {
        flag::register(*signal, ASKED_TO_STOP.clone())?;
        low_level::pipe::register(*signal, teller.try_clone()?)?;
    }
    let listen = move || {
        while told.read_exact(&mut [0]).is_ok() {
            notice(Instant::now());
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(listen).map(|_| ())
}

/// Tells a terminal that closes from its repetition.
#[derive(Debug, Default)]
struct HangUps {
    /// The last one that was new.
    last: Option<Instant>,
}

impl HangUps {
    /// True if a `SIGHUP` that comes now repeats none.
    fn is_new(&mut self, now: Instant) -> bool {
        let is_new = self.last.is_none_or(|last| now.saturating_duration_since(last) >= HANG_UP);
        if is_new {
            self.last = Some(now);
        }
        is_new
    }
}

/// Ends all processes that this one has started, takes away what is left, and ends this one.
fn clean_up_and_exit() -> ! {
    // Held until the end: a guard that is at work comes to its end first, and nothing new is made.
    let mut leftovers = LEFTOVERS.lock();
    let children = process::children(std::process::id());
    // A server has children of its own.
    let all: Vec<u32> = children.iter().flat_map(|child| process::children(*child)).collect();
    for pid in children.into_iter().chain(all).filter_map(|pid| Pid::from_raw(pid as i32)) {
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
    take_all(&mut leftovers);
    for dir in DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let is_gone = |_: &usize| fs::remove_dir_all(dir).is_ok() || !dir.exists();
        if dir.exists() && (0..REMOVALS).find(is_gone).is_none() {
            tell!("{} could not be removed", dir.display());
        }
    }
    low_level::exit(EXIT_CODE.into())
}

/// Takes something away.
type TakeAway = Box<dyn FnOnce() + Send>;

/// Things that are each taken away once, with their numbers, oldest first. One at a time is taken away, or
/// all.
struct Leftovers(Mutex<Vec<(u64, TakeAway)>>);

impl Leftovers {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, TakeAway)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, take_away: TakeAway) -> u64 {
        add_to(&mut self.lock(), take_away)
    }

    /// Makes a thing and adds it: nothing is taken away in between.
    fn add_made<T, E>(
        &self,
        make: impl FnOnce() -> std::result::Result<(T, TakeAway), E>,
    ) -> std::result::Result<(T, u64), E> {
        let mut all = self.lock();
        let (thing, take_away) = make()?;
        Ok((thing, add_to(&mut all, take_away)))
    }

    fn take(&self, number: u64) {
        let mut all = self.lock();
        if let Some(place) = all.iter().position(|own| own.0 == number) {
            let (_, take_away) = all.remove(place);
            take_away();
        }
    }
}

/// Adds a thing. Returns its number.
fn add_to(leftovers: &mut Vec<(u64, TakeAway)>, take_away: TakeAway) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    leftovers.push((number, take_away));
    number
}

/// Takes all away in the order in which they were made, as their guards do: a group goes before the swap of
/// its processes.
fn take_all(leftovers: &mut Vec<(u64, TakeAway)>) {
    leftovers.drain(..).for_each(|(_, take_away)| take_away());
}

/// A guard of something outside of this process, such as a mount: it is taken away when the guard is dropped,
/// or by a second signal, whichever comes first.
#[derive(Debug)]
pub struct Leftover(u64);

impl Leftover {
    /// A guard that takes something away so. Make it before the thing itself: a signal may come in between.
    ///
    /// REQUIRES: `take_away` neither makes nor drops such a guard.
    pub fn new(take_away: impl FnOnce() + Send + 'static) -> Leftover {
        Leftover(LEFTOVERS.add(Box::new(take_away)))
    }

    /// Makes a thing together with its guard, for one that can only be taken away once it is there. No signal
    /// comes in between: a second one waits, or has come and this waits for the end of the process. Without
    /// the thing there is no guard.
    ///
    /// REQUIRES: neither `make` nor what takes the thing away makes or drops such a guard.
    pub fn made<T, U: FnOnce() + Send + 'static, E>(
        make: impl FnOnce() -> std::result::Result<(T, U), E>,
    ) -> std::result::Result<(T, Leftover), E> {
        let boxed = || make().map(|(thing, take_away)| (thing, Box::new(take_away) as TakeAway));
        LEFTOVERS.add_made(boxed).map(|(thing, number)| (thing, Leftover(number)))
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        LEFTOVERS.take(self.0);
    }
}

/// Does something that a second signal waits for, such as running a program that it must not end in the
/// midst.
///
/// REQUIRES: `work` neither makes nor drops a [`Leftover`].
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _held = LEFTOVERS.lock();
    work()
}

/// From now on a second signal does not end this process: it waits for another one, to which it passes on all
/// signals.
pub fn be_patient() {
    IS_PATIENT.store(true, Ordering::Relaxed);
}

/// The number of signals so far.
pub fn signals() -> usize {
    SIGNALS.load(Ordering::Relaxed)
}

/// Makes a directory that is removed with its value, and by a second signal.
pub fn temporary(prefix: &str, parent: &Path) -> io::Result<TempDir> {
    let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).push(dir.path().to_owned());
    Ok(dir)
}

/// Leaves such a directory where it is.
pub fn keep(dir: TempDir) -> PathBuf {
    let path = dir.keep();
    DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).retain(|own| *own != path);
    path
}

/// True once somebody pressed Ctrl-C.
pub fn asked() -> bool {
    ASKED_TO_STOP.load(Ordering::Relaxed)
}

/// Fails once somebody pressed Ctrl-C. Long loops call this in every turn.
pub fn check() -> Result<()> {
    if asked() { Err(LabError::Interrupted) } else { Ok(()) }
}

/// Looks again and again, at intervals of `every`, until there is something; `None` if there is nothing when
/// `patience` is over. Fails once somebody pressed Ctrl-C.
pub fn wait_for<T>(
    every: Duration,
    patience: Duration,
    mut look: impl FnMut() -> Result<Option<T>>,
) -> Result<Option<T>> {
    let began = Instant::now();
    loop {
        let found = look()?;
        if found.is_some() || began.elapsed() > patience {
            return Ok(found);
        }
        check()?;
        std::thread::sleep(every);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_terminal_that_closes_counts_once_and_a_later_one_again() {
        let (mut hang_ups, start) = (HangUps::default(), Instant::now());
        let at = [0, 5, 999, 1000, 1500, 2500].map(|ms| start + Duration::from_millis(ms));
        assert_eq!(at.map(|at| hang_ups.is_new(at)), [true, false, false, true, false, true]);
    }

    #[test]
    fn each_leftover_is_taken_away_once_and_nothing_is_made_meanwhile() {
        let leftovers: &'static Leftovers = Box::leak(Box::new(Leftovers(Mutex::default())));
        let taken: Arc<Mutex<String>> = Arc::default();
        let add = |name: char| {
            let taken = taken.clone();
            leftovers.add(Box::new(move || {
                assert!(leftovers.0.try_lock().is_err(), "another thread would have to wait");
                taken.lock().unwrap().push(name);
            }))
        };
        let [first, second, third] = ['a', 'b', 'c'].map(add);
        leftovers.take(second);
        leftovers.take(second);
        assert_eq!(*taken.lock().unwrap(), "b");
        take_all(&mut leftovers.lock());
        assert_eq!(*taken.lock().unwrap(), "bac");
        for number in [first, third] {
            leftovers.take(number);
        }
        assert_eq!(*taken.lock().unwrap(), "bac");
    }

    #[test]
    fn nothing_is_taken_away_between_a_thing_and_its_guard() {
        let leftovers: &'static Leftovers = Box::leak(Box::new(Leftovers(Mutex::default())));
        let is_there = Arc::new(AtomicBool::new(false));
        let own = is_there.clone();
        let made = leftovers.add_made(|| -> Result<_> {
            own.store(true, Ordering::Relaxed);
            assert!(leftovers.0.try_lock().is_err(), "a signal would have to wait");
            Ok(((), Box::new(move || own.store(false, Ordering::Relaxed)) as TakeAway))
        });
        let ((), number) = made.unwrap();
        assert!(is_there.load(Ordering::Relaxed));
        leftovers.take(number);
        assert!(!is_there.load(Ordering::Relaxed));
        let failed = leftovers.add_made::<(), _>(|| Err(LabError::Interrupted));
        assert!(failed.is_err() && leftovers.lock().is_empty());
    }

    #[test]
    fn a_guard_takes_its_own_away() {
        let is_gone = Arc::new(AtomicBool::new(false));
        let own = is_gone.clone();
        let guard = Leftover::new(move || own.store(true, Ordering::Relaxed));
        assert!(!is_gone.load(Ordering::Relaxed));
        drop(guard);
        assert!(is_gone.load(Ordering::Relaxed));
    }
}
