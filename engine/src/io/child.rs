//! A forked child process: it has a copy of this process's memory, does one task with it, and ends.
//!
//! ```text
//!   parent   fork ────────> numbers, has it ended? …  ────> reaped; killed before, if it is dropped earlier
//!               └ child     work: reads its memory, writes one file, counts ──> _exit
//! ```
//!
//! Between `fork` and `_exit` the child only computes and makes calls of the system: it has one thread, and
//! the others may have held any lock at the fork, that of the allocator included. It ends with its parent.
//!
//! All other files are closed in the child: a connection that the parent closes is to be closed, and a lock
//! file that it gives back is to be free.
//!
//! A terminal sends its signals to the child as well. SIGINT and SIGTERM end it, unless its parent ignores
//! them. SIGHUP does not: a server goes on after it, and needs its checkpoint.

#![expect(
    unsafe_code,
    reason = "fork, memory that two processes share, and the end of a child are calls of the C library"
)]

use std::ffi::{c_int, c_uint};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_parent_process_death_signal,
    waitpid,
};

/// The signals that end a process that does not handle them.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];
/// Bytes of memory that are asked of the system at once: a page.
const NUMBERS_BYTES: usize = 4096;
/// The child ends so if its work panics.
const PANICKED: c_int = 101;
/// And so, if its parent was gone before it could ask to end with it.
const ORPHANED: c_int = 102;

/// Numbers that a parent and its child share, 0 at first.
pub(crate) struct Numbers(NonNull<[AtomicU64; 8]>);

// SAFETY: they are atomic, and the memory is ours until this is dropped.
unsafe impl Send for Numbers {}

impl Numbers {
    pub(crate) fn new() -> io::Result<Numbers> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: the system chooses the place, so nothing of ours is there.
        let place = unsafe { libc::mmap(std::ptr::null_mut(), NUMBERS_BYTES, protection, flags, -1, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Numbers(NonNull::new(place.cast()).expect("the system maps nothing at 0")))
    }

    pub(crate) fn get(&self) -> &[AtomicU64; 8] {
        // SAFETY: mapped as long as this is there, aligned to a page, and zeros are numbers.
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        // SAFETY: what `new` has mapped; nobody has a reference without this.
        unsafe { libc::munmap(self.0.as_ptr().cast(), NUMBERS_BYTES) };
    }
}

/// How a child has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// By itself, with this code.
    Exit(i32),
    /// By a signal.
    Signal(i32),
}

/// The parent's view of a child. It is killed and reaped when this is dropped.
pub(crate) struct Child {
    pid: Pid,
    ended: Option<Ended>,
    numbers: Numbers,
}

impl Child {
    /// Forks a child, which does `work` with no open file but `file` and the standard ones, and ends with the
    /// code that it returns. It is killed when the thread that calls this ends.
    ///
    /// SAFETY, of the call: `work` allocates nothing, frees nothing, and takes no lock; and of the memory
    /// that it reads no thread changes anything during the call.
    // SAFETY: as above.
    pub(crate) unsafe fn fork(
        file: BorrowedFd<'_>,
        numbers: Numbers,
        work: impl FnOnce(&[AtomicU64; 8]) -> c_int,
    ) -> io::Result<Child> {
        let parent = getpid();
        let held_back = HeldBack::begin();
        // SAFETY: the child never returns, and the caller says what it does.
        match unsafe { libc::fork() } {
            0 => {
                // If `work` panics, nothing of the parent's is unwound.
                let end = EndOfProcess(PANICKED);
                let is_ready = prepare(parent, file);
                drop(held_back);
                let code = if is_ready { work(numbers.get()) } else { ORPHANED };
                std::mem::forget(end);
                drop(EndOfProcess(code));
                unreachable!("the process has ended")
            }
            pid => match Pid::from_raw(pid.max(0)) {
                Some(pid) => Ok(Child { pid, ended: None, numbers }),
                None => Err(io::Error::last_os_error()),
            },
        }
    }

    /// The numbers that it shares with us.
    pub(crate) fn numbers(&self) -> &[AtomicU64; 8] {
        self.numbers.get()
    }

    /// How it has ended; `None` while it runs.
    pub(crate) fn ended(&mut self) -> io::Result<Option<Ended>> {
        self.reap(WaitOptions::NOHANG)?;
        Ok(self.ended)
    }

    fn reap(&mut self, options: WaitOptions) -> io::Result<()> {
        while self.ended.is_none() {
            match waitpid(Some(self.pid), options) {
                Ok(None) => break,
                Ok(Some((_, status))) => self.ended = ended(status),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn ended(status: WaitStatus) -> Option<Ended> {
    let exit = status.exit_status().map(Ended::Exit);
    exit.or_else(|| status.terminating_signal().map(Ended::Signal))
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // Its number is not given to another process before we have reaped it.
            let _ = kill_process(self.pid, Signal::KILL);
            let _ = self.reap(WaitOptions::empty());
        }
    }
}

/// Ends the process when it is dropped, without running anything of the parent's.
struct EndOfProcess(c_int);

impl Drop for EndOfProcess {
    fn drop(&mut self) {
        // SAFETY: may be called at any time.
        unsafe { libc::_exit(self.0) }
    }
}

/// Until it is dropped, the signals that end a process wait in the thread that has made it. The other threads
/// of the process handle them as before.
struct HeldBack {
    /// The signals that waited before.
    before: libc::sigset_t,
}

impl HeldBack {
    fn begin() -> HeldBack {
        // SAFETY: numbers alone, of which zeros are a value; they are ours, and the signals exist.
        let before = unsafe {
            let [mut ending, mut before]: [libc::sigset_t; 2] = std::mem::zeroed();
            libc::sigemptyset(&raw mut ending);
            for signal in ENDING {
                libc::sigaddset(&raw mut ending, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const ending, &raw mut before);
            before
        };
        HeldBack { before }
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        // SAFETY: what the system has given us; a null pointer means that the present ones are not wanted.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }
}

/// The parent's handlers would tell the parent, through a pipe that the child has too: one SIGINT would count
/// twice, and the second one ends a server at once. A child ends with its parent, so SIGHUP need not end it.
///
/// REQUIRES: the signals are held back. One that comes before would still be handled, and one that is ignored
/// would end the child between the two calls.
fn forget_handlers() {
    for signal in ENDING {
        // SAFETY: no handler of ours begins to run by this.
        unsafe {
            let before = libc::signal(signal, libc::SIG_DFL);
            if before == libc::SIG_IGN || signal == libc::SIGHUP {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// The first steps of a child; `false` if its parent is gone.
fn prepare(parent: Pid, file: BorrowedFd<'_>) -> bool {
    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() || getppid() != Some(parent) {
        return false;
    }
    forget_handlers();
    let file = file.as_raw_fd() as c_uint;
    for (first, last) in [(3, file.saturating_sub(1)), (file.max(2) + 1, c_uint::MAX)] {
        if first <= last {
            // Where the system does not know this call, the files are closed at the end.
            // SAFETY: in this process nobody else uses them.
            unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
        }
    }
    true
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use std::cell::Cell;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;
    use std::sync::{Mutex, PoisonError};

    fn forked(work: impl FnOnce(&[AtomicU64; 8]) -> c_int) -> Child {
        let file = tempfile::tempfile().unwrap();
        // SAFETY: what the tests have done allocates nothing, but for the one that panics.
        unsafe { Child::fork(file.as_fd(), Numbers::new().unwrap(), work) }.unwrap()
    }

    fn wait(child: &mut Child) -> Ended {
        for _ in 0..60_000 {
            if let Some(ended) = child.ended().unwrap() {
                return ended;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the child does not end");
    }

    #[test]
    fn a_child_has_the_memory_as_it_was_and_tells_by_numbers() {
        let mut told = 41;
        let seen = &raw const told;
        let mut child = forked(move |numbers| {
            while numbers[0].load(Ordering::Acquire) == 0 {
                std::hint::spin_loop();
            }
            // SAFETY: in the child nobody changes it.
            numbers[1].store(unsafe { seen.read_volatile() } + 1, Ordering::Release);
            7
        });
        told += 10;
        std::hint::black_box(told);
        assert_eq!(child.ended().unwrap(), None);
        child.numbers()[0].store(1, Ordering::Release);
        assert_eq!(wait(&mut child), Ended::Exit(7));
        assert_eq!(child.numbers()[1].load(Ordering::Acquire), 42);
        assert_eq!(child.ended().unwrap(), Some(Ended::Exit(7)));
    }

    #[test]
    fn a_child_that_is_killed_or_panics_is_noticed() {
        let mut child = forked(|_| -> c_int {
            loop {
                std::hint::spin_loop();
            }
        });
        kill_process(child.pid, Signal::KILL).unwrap();
        assert_eq!(wait(&mut child), Ended::Signal(Signal::KILL.as_raw()));
        let mut child = forked(|_| std::panic::resume_unwind(Box::new(())));
        assert_eq!(wait(&mut child), Ended::Exit(PANICKED));
    }

    #[test]
    fn a_child_that_is_dropped_is_gone() {
        let child = forked(|_| -> c_int {
            loop {
                std::hint::spin_loop();
            }
        });
        let pid = child.pid;
        drop(child);
        assert_eq!(kill_process(pid, Signal::KILL), Err(rustix::io::Errno::SRCH));
    }

    extern "C" fn do_nothing(_: c_int) {}

    /// Forks a child while the signals that end a process are handled so. One test at a time does.
    fn forked_while_handled_by(
        handler: libc::sighandler_t,
        work: impl FnOnce(&[AtomicU64; 8]) -> c_int,
    ) -> Child {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let to = |signal, handler| {
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(signal, handler) }
        };
        let before = ENDING.map(|signal| to(signal, handler));
        let child = forked(work);
        ENDING.into_iter().zip(before).for_each(|(signal, before)| _ = to(signal, before));
        child
    }

    #[test]
    fn a_child_handles_no_signal_and_ignores_those_that_its_parent_survives() {
        let of_parent = [do_nothing as *const () as libc::sighandler_t, libc::SIG_IGN];
        let in_child = of_parent.map(|handler| {
            let mut child = forked_while_handled_by(handler, |numbers| {
                for (signal, number) in ENDING.into_iter().zip(numbers) {
                    // SAFETY: may be called after a fork.
                    let own = unsafe { libc::signal(signal, libc::SIG_DFL) };
                    number.store(own as u64, Ordering::Release);
                }
                7
            });
            assert_eq!(wait(&mut child), Ended::Exit(7));
            [0, 1, 2].map(|place| child.numbers()[place].load(Ordering::Acquire) as libc::sighandler_t)
        });
        let [end, ignore] = [libc::SIG_DFL, libc::SIG_IGN];
        assert_eq!(in_child, [[end, end, ignore], [ignore; 3]]);
    }

    thread_local! {
        /// True while each child that this thread forks is sent a signal before it does anything.
        static IS_INTERRUPTED: Cell<bool> = const { Cell::new(false) };
    }

    extern "C" fn interrupt() {
        if IS_INTERRUPTED.get() {
            // SAFETY: may be called after a fork.
            unsafe { libc::raise(libc::SIGINT) };
        }
    }

    #[test]
    fn a_signal_during_the_fork_ends_the_child_which_does_not_handle_it() {
        // SAFETY: it does nothing in the children of other tests.
        assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(interrupt)) }, 0);
        IS_INTERRUPTED.set(true);
        let mut child = forked_while_handled_by(do_nothing as *const () as libc::sighandler_t, |_| 7);
        IS_INTERRUPTED.set(false);
        assert_eq!(wait(&mut child), Ended::Signal(libc::SIGINT));
    }
}
