//! Ctrl-C: the first one asks the experiment to stop, so that its servers and directories go away; the second
//! ends the servers, removes the directories, and ends the process.

use std::fs;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::{flag, low_level};
use tempfile::TempDir;

use crate::error::{LabError, Result};
use crate::process;

/// The exit code of a process that Ctrl-C ended.
pub const EXIT_CODE: u8 = 130;
/// A directory is removed in this many attempts: a process that was ended may still write there.
const REMOVALS: usize = 3;

/// Set by the handler itself: a call that the signal interrupts finds it.
static ASKED_TO_STOP: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
static SIGNALS: AtomicUsize = AtomicUsize::new(0);
static IS_PATIENT: AtomicBool = AtomicBool::new(false);
/// Directories that are there, or were.
static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Starts to listen for Ctrl-C and for `SIGTERM`.
pub fn listen() {
    let listening = || -> io::Result<()> {
        let (told, teller) = UnixStream::pair()?;
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, ASKED_TO_STOP.clone())?;
            low_level::pipe::register(signal, teller.try_clone()?)?;
        }
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || count(told))?;
        Ok(())
    };
    if let Err(error) = listening() {
        eprintln!("cannot listen for signals: {error}");
    }
}

/// Counts signals, of which each sends a byte.
fn count(mut told: UnixStream) {
    let mut byte = [0];
    while told.read_exact(&mut byte).is_ok() {
        let is_first = SIGNALS.fetch_add(1, Ordering::Relaxed) == 0;
        if !is_first && !IS_PATIENT.load(Ordering::Relaxed) {
            clean_up();
            low_level::exit(EXIT_CODE.into());
        }
    }
}

/// Ends all processes that this one has started, and removes its directories.
fn clean_up() {
    let children = process::children(std::process::id());
    // A server has children of its own.
    let all: Vec<u32> = children.iter().flat_map(|child| process::children(*child)).collect();
    for pid in children.into_iter().chain(all).filter_map(|pid| Pid::from_raw(pid as i32)) {
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
    for dir in DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let is_gone = |_: &usize| fs::remove_dir_all(dir).is_ok() || !dir.exists();
        if dir.exists() && (0..REMOVALS).find(is_gone).is_none() {
            eprintln!("{} could not be removed", dir.display());
        }
    }
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
