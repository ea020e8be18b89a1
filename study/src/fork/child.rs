//! The child process that has a snapshot, and the parent's view of it.
//!
//! ```text
//!   parent   SHOW rows ────>  child     <───── the rows
//!            OPEN path ────>            <───── error number, 0 if open
//!            WRITE rows ───>            <───── error number, checksum
//!            RETURN rows ──>            <───── error number, 0 if the kernel has their pages
//!            END ──────────>            exits
//! ```
//!
//! The parent asks for a piece of rows at a time and reads the answer before it asks again: so it may stop
//! at any time, and a child never writes without being asked.
//!
//! Between `fork` and `_exit` the child calls `signal`, `pthread_sigmask`, `open`, `close`, `read`, `write`,
//! `pwrite`, `madvise` and `_exit` alone, and computes: other threads of the parent may have held any lock,
//! that of the allocator included.
//!
//! Ctrl-C reaches the child as well as its parent, and ends it. A signal that the parent ignores, as `nohup`
//! has it, the child ignores, too.

#![expect(
    unsafe_code,
    reason = "fork, and what may be called between it and _exit, are calls of the C library"
)]

use std::ffi::c_int;
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

/// The signals that end a process that does not handle them.
const ENDING: [c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// Bytes of a path, the zero at its end included.
const PATH_BYTES: usize = 4096;

/// A request of the parent: a verb and its arguments.
type Request = [u64; 3];
/// No more; the child exits.
const END: u64 = 0;
/// Sends rows through the pipe: the first row and their number.
const SHOW: u64 = 1;
/// To open a file, whose path follows; the argument is where in it the rows begin.
const OPEN: u64 = 2;
/// Writes rows to the file: the first row and their number.
const WRITE: u64 = 3;

/// Gives the pages of rows back to the kernel: the first row and their number. They are zeros afterwards.
const RETURN: u64 = 4;

/// The child's answer to OPEN, WRITE and RETURN: an error number, or 0, and a checksum.
type Answer = [u64; 2];

// The child writes the rows as they are in memory, and the format is little-endian.
const _: () = assert!(cfg!(target_endian = "little"));

/// The parent's view of a child.
pub(super) struct Child {
    pub(super) pid: libc::pid_t,
    requests: io::PipeWriter,
    answers: io::PipeReader,
}

/// The rows that a child has.
pub(super) struct Memory<'r> {
    pub(super) words: &'r [AtomicU64],
    pub(super) row_fields: usize,
    /// Bytes of a page, if the rows begin at one and nothing else is in their pages.
    pub(super) page_bytes: Option<usize>,
}

impl Child {
    /// Forks a process that has the rows as they are now.
    pub(super) fn fork(memory: &Memory<'_>) -> io::Result<Child> {
        let (their_requests, requests) = io::pipe()?;
        let (answers, their_answers) = io::pipe()?;
        // Lookups that this makes, such as the features of the processor, were made before the fork.
        crc32c::crc32c(&[0]);
        let ends = Ends { requests: their_requests.as_raw_fd(), answers: their_answers.as_raw_fd() };
        let ours = [requests.as_raw_fd(), answers.as_raw_fd()];
        let held_back = HeldBack::begin();
        // SAFETY: the child calls only functions that may be called after a fork, and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                forget_handlers();
                drop(held_back);
                // The child would keep its own end of the pipe open, and never see that the parent has ended.
                // SAFETY: no other thread of this process uses them.
                ours.iter().for_each(|end| unsafe { _ = libc::close(*end) });
                ends.serve(memory)
            }
            pid => Ok(Child { pid, requests, answers }),
        }
    }

    /// Fills `bytes` with `rows` rows from `first` on.
    pub(super) fn show(&mut self, first: usize, rows: usize, bytes: &mut [u8]) -> io::Result<()> {
        self.ask([SHOW, first as u64, rows as u64])?;
        self.answers.read_exact(bytes)
    }

    /// Opens a file that exists; rows begin at `offset`.
    pub(super) fn open(&mut self, path: &Path, offset: u64) -> io::Result<()> {
        let path = path.as_os_str().as_bytes();
        let mut padded = [0; PATH_BYTES];
        let fits = path.len() < PATH_BYTES;
        let to = padded.get_mut(..path.len()).filter(|_| fits);
        to.ok_or_else(|| io::Error::from_raw_os_error(libc::ENAMETOOLONG))?.copy_from_slice(path);
        self.ask([OPEN, offset, 0])?;
        self.requests.write_all(&padded)?;
        self.answer().map(|_| ())
    }

    /// Has `rows` rows from `first` on written. Returns their checksum.
    pub(super) fn write(&mut self, first: usize, rows: usize) -> io::Result<u32> {
        self.ask([WRITE, first as u64, rows as u64])?;
        self.answer()
    }

    /// Has the pages of `rows` rows from `first` on given back to the kernel: they are not shown or written
    /// any more. Rows are given back in order, and the page in which the next one begins stays.
    pub(super) fn give_back(&mut self, first: usize, rows: usize) -> io::Result<()> {
        self.ask([RETURN, first as u64, rows as u64])?;
        self.answer().map(|_| ())
    }

    fn ask(&mut self, request: Request) -> io::Result<()> {
        self.requests.write_all(request.map(u64::to_ne_bytes).as_flattened())
    }

    fn answer(&mut self) -> io::Result<u32> {
        let mut bytes = [[0; 8]; 2];
        self.answers.read_exact(bytes.as_flattened_mut())?;
        match bytes.map(u64::from_ne_bytes) {
            [0, sum] => Ok(sum as u32),
            [error, _] => Err(io::Error::from_raw_os_error(error as i32)),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // If the child has ended this fails, which changes nothing.
        let _ = self.ask([END, 0, 0]);
        loop {
            // SAFETY: the pid is that of a child of ours that no other thread waits for; a null pointer means
            // that the status is not wanted.
            let reaped = unsafe { libc::waitpid(self.pid, std::ptr::null_mut(), 0) };
            if reaped >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
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

/// From now on the signals that end a process end this one, but for those that it ignores. The parent's
/// handlers would tell the parent, through pipes that the child has too, and one Ctrl-C would count twice.
///
/// REQUIRES: the signals are held back. One that comes before would still be handled, and one that is ignored
/// would end the child between the two calls.
fn forget_handlers() {
    for signal in ENDING {
        // SAFETY: no handler of ours begins to run by this.
        unsafe {
            if libc::signal(signal, libc::SIG_DFL) == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_IGN);
            }
        }
    }
}

/// The child's ends of the pipes.
struct Ends {
    requests: RawFd,
    answers: RawFd,
}

impl Ends {
    /// The life of the child.
    fn serve(&self, memory: &Memory<'_>) -> ! {
        self.answer_all(memory);
        // SAFETY: ends the process without running anything of the parent's.
        unsafe { libc::_exit(0) }
    }

    /// Answers requests until it receives [`END`] or the parent has ended.
    fn answer_all(&self, memory: &Memory<'_>) {
        let mut file = Target { fd: -1, offset: 0 };
        let mut request = [[0; 8]; 3];
        while self.read(request.as_flattened_mut()) {
            let [verb, first, count] = request.map(u64::from_ne_bytes);
            let rows = || memory.rows(first, count);
            let understood = match verb {
                SHOW => rows().is_some_and(|rows| write(self.answers, rows.bytes, None).is_ok()),
                OPEN => self.open(first, &mut file),
                WRITE => rows().is_some_and(|rows| self.answer(file.write(&rows))),
                RETURN => memory.give_back(first, count).is_some_and(|outcome| self.answer(outcome)),
                _ => false,
            };
            // The child answers a request for missing rows by ending, which the parent sees.
            if !understood {
                break;
            }
        }
    }

    /// Fills `bytes`; `false` if the parent has ended.
    fn read(&self, bytes: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < bytes.len() {
            let rest = &mut bytes[filled..];
            // SAFETY: `rest` is memory of ours, as long as we say.
            let count = unsafe { libc::read(self.requests, rest.as_mut_ptr().cast(), rest.len()) };
            match usize::try_from(count) {
                Ok(0) => return false,
                Ok(count) => filled += count,
                Err(_) if last_error() == libc::EINTR => {}
                Err(_) => return false,
            }
        }
        true
    }

    fn open(&self, offset: u64, file: &mut Target) -> bool {
        let mut path = [0; PATH_BYTES];
        if !self.read(&mut path) || path[PATH_BYTES - 1] != 0 {
            return false;
        }
        // SAFETY: the path ends with a zero.
        let fd = unsafe { libc::open(path.as_ptr().cast(), libc::O_WRONLY | libc::O_CLOEXEC) };
        *file = Target { fd, offset };
        self.answer(if fd < 0 { Err(last_error()) } else { Ok(0) })
    }

    fn answer(&self, outcome: Result<u32, c_int>) -> bool {
        let answer: Answer = match outcome {
            Ok(sum) => [0, u64::from(sum)],
            Err(error) => [error as u64, 0],
        };
        write(self.answers, answer.map(u64::to_ne_bytes).as_flattened(), None).is_ok()
    }
}

/// The file that the child writes.
struct Target {
    fd: RawFd,
    /// Where row 0 is.
    offset: u64,
}

impl Target {
    /// Writes rows where they belong. Returns their checksum.
    fn write(&self, rows: &Piece<'_>) -> Result<u32, c_int> {
        write(self.fd, rows.bytes, Some(self.offset + rows.offset))?;
        Ok(crc32c::crc32c(rows.bytes))
    }
}

/// Some rows as they are in memory.
struct Piece<'r> {
    bytes: &'r [u8],
    /// The distance in bytes from row 0 to their beginning.
    offset: u64,
}

impl Memory<'_> {
    /// The words of some rows; `None` if not all of the rows exist.
    fn range(&self, first: u64, count: u64) -> Option<Range<usize>> {
        let words = |rows: u64| usize::try_from(rows).ok()?.checked_mul(self.row_fields);
        let start = words(first)?;
        let range = start..start.checked_add(words(count)?)?;
        self.words.get(range.clone()).map(|_| range)
    }

    fn rows(&self, first: u64, count: u64) -> Option<Piece<'_>> {
        let range = self.range(first, count)?;
        let (start, rows) = (range.start, &self.words[range]);
        // SAFETY: the words are initialised, and `size_of_val(rows)` bytes long. The child has one thread and
        // memory of its own, so no other thread changes them.
        let bytes = unsafe { std::slice::from_raw_parts(rows.as_ptr().cast(), size_of_val(rows)) };
        Some(Piece { bytes, offset: start as u64 * size_of::<u64>() as u64 })
    }

    /// Gives pages back: from the one in which the rows begin, to which only rows before them belong else, to
    /// the one in which they end, which the rows after them need. `None` if that cannot be asked for.
    fn give_back(&self, first: u64, count: u64) -> Option<Result<u32, c_int>> {
        let (range, page_bytes) = (self.range(first, count)?, self.page_bytes?);
        let page_of = |word: usize| word * size_of::<u64>() / page_bytes * page_bytes;
        let (start, end) = (page_of(range.start), page_of(range.end));
        let pages = self.words.as_ptr().cast::<u8>().wrapping_add(start).cast_mut();
        // SAFETY: these are whole pages of the rows, in which nothing else is (`page_bytes`). They are memory
        // of this process alone; that of the parent stays. The words are atomic, so they may become zeros
        // while they are borrowed.
        match unsafe { libc::madvise(pages.cast(), end - start, libc::MADV_DONTNEED) } {
            0 => Some(Ok(0)),
            _ => Some(Err(last_error())),
        }
    }
}

/// Writes all of `bytes`, at an offset or at the end. Returns the number of the error.
fn write(fd: RawFd, bytes: &[u8], offset: Option<u64>) -> Result<(), c_int> {
    let mut written = 0;
    while written < bytes.len() {
        let rest = &bytes[written..];
        let (from, len) = (rest.as_ptr().cast(), rest.len());
        // SAFETY: `rest` is readable memory, as long as we say.
        let count = match offset {
            None => unsafe { libc::write(fd, from, len) },
            // SAFETY: as above.
            Some(offset) => unsafe { libc::pwrite(fd, from, len, (offset + written as u64) as libc::off_t) },
        };
        match usize::try_from(count) {
            Ok(count) => written += count,
            Err(_) if last_error() == libc::EINTR => {}
            Err(_) => return Err(last_error()),
        }
    }
    Ok(())
}

fn last_error() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::cell::Cell;
    use std::sync::{Mutex, PoisonError};

    use rustix::process::{Pid, Signal, kill_process};

    use super::*;

    /// In a thread instead of a process, so that miri can look on.
    #[test]
    fn rows_are_answered_as_they_are_in_memory_and_the_rest_by_leaving() {
        let words: Vec<AtomicU64> = (0..6).map(AtomicU64::new).collect();
        let memory = Memory { words: &words, row_fields: 2, page_bytes: None };
        let asked = |request: Request, answer: &mut [[u8; 8]]| {
            let (their_requests, mut requests) = io::pipe().unwrap();
            let (mut answers, their_answers) = io::pipe().unwrap();
            std::thread::scope(|scope| {
                let ends = Ends { requests: their_requests.as_raw_fd(), answers: their_answers.as_raw_fd() };
                let memory = &memory;
                scope.spawn(move || ends.answer_all(memory));
                requests.write_all(request.map(u64::to_ne_bytes).as_flattened()).unwrap();
                answers.read_exact(answer.as_flattened_mut()).unwrap();
                requests.write_all([END, 0, 0].map(u64::to_ne_bytes).as_flattened()).unwrap();
            });
        };
        let mut rows = [[0; 8]; 4];
        asked([SHOW, 1, 2], &mut rows);
        assert_eq!(rows.map(u64::from_ne_bytes), [2, 3, 4, 5]);
        for elsewhere in [[SHOW, 1, 3], [SHOW, u64::MAX, 1], [SHOW, 3, u64::MAX], [9, 0, 0], [END, 0, 0]] {
            asked(elsewhere, &mut []);
        }
        // Something else may be in their pages.
        asked([RETURN, 0, 3], &mut []);
    }

    /// [`ENDING`] as a mask.
    const ALL: u64 = 1 << (libc::SIGINT - 1) | 1 << (libc::SIGTERM - 1) | 1 << (libc::SIGHUP - 1);

    extern "C" fn do_nothing(_: c_int) {}

    /// Works while the signals that end a process are handled so. One test at a time does.
    fn while_handled_by(handler: libc::sighandler_t, work: impl FnOnce()) {
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let to = |signal, handler| {
            // SAFETY: the handler does nothing.
            unsafe { libc::signal(signal, handler) }
        };
        let before = ENDING.map(|signal| to(signal, handler));
        work();
        ENDING.into_iter().zip(before).for_each(|(signal, before)| _ = to(signal, before));
    }

    /// The signals that end a process, of those that a line of its status lists.
    fn listed(process: &str, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let mask = status.lines().find_map(|own| own.strip_prefix(line)).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() & ALL
    }

    fn forked() -> Child {
        let words = [AtomicU64::new(7)];
        Child::fork(&Memory { words: &words, row_fields: 1, page_bytes: None }).unwrap()
    }

    /// Has a child show its row: it has begun to serve then.
    fn ask(child: &mut Child) -> io::Result<()> {
        child.show(0, 1, &mut [0; 8])
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has one process")]
    fn a_child_has_no_handlers_of_its_parent_that_end_it() {
        while_handled_by(do_nothing as *const () as libc::sighandler_t, || {
            let held_back = listed("thread-self", "SigBlk:");
            let mut child = forked();
            ask(&mut child).unwrap();
            let pid = child.pid.to_string();
            assert_eq!([listed("self", "SigCgt:"), listed(&pid, "SigCgt:")], [ALL, 0]);
            assert_eq!([listed("thread-self", "SigBlk:"), listed(&pid, "SigBlk:")], [held_back; 2]);
        });
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri has one process")]
    fn a_child_outlives_a_signal_that_its_parent_ignores() {
        while_handled_by(libc::SIG_IGN, || {
            let mut child = forked();
            ask(&mut child).unwrap();
            assert_eq!(listed(&child.pid.to_string(), "SigIgn:"), ALL);
            for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
                kill_process(Pid::from_raw(child.pid).unwrap(), signal).unwrap();
            }
            ask(&mut child).unwrap();
        });
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
    #[cfg_attr(miri, ignore = "miri has one process")]
    fn a_signal_during_the_fork_ends_the_child_which_does_not_handle_it() {
        while_handled_by(do_nothing as *const () as libc::sighandler_t, || {
            // SAFETY: it does nothing in the children of other tests.
            assert_eq!(unsafe { libc::pthread_atfork(None, None, Some(interrupt)) }, 0);
            IS_INTERRUPTED.set(true);
            let mut child = forked();
            IS_INTERRUPTED.set(false);
            assert!(ask(&mut child).is_err(), "the handler has run, and the child serves");
        });
    }
}
