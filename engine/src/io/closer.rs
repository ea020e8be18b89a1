//! Closes replaced files on a thread of its own, because the file system frees their space inside that call.
//!
//! ```text
//!  who replaces a file:  open it ─ rename another over it, or remove it ─ hand it over ──> goes on
//!  the thread:                                                         [ one, two ] ──> close
//! ```
//!
//! - A file whose last name goes while nobody has it open is freed by the call that takes the name. One that
//!   is open is freed when the last who has it open closes it.
//! - No more than [`WAITING_MAX`] files wait, so that little space is taken that no name stands for: who
//!   hands over one more waits. Who finds no room for a new file calls [`Closer::settle`], and tries again
//!   if anything was closed since.
//! - While nobody runs it, who hands over a file closes it.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use crate::lock::{Condvar, Mutex};

use super::disk::{Disk, DiskFile};

/// Files that wait at most; one more is being closed.
pub(super) const WAITING_MAX: usize = 2;

/// Files on their way to be closed.
#[derive(Debug, Default)]
pub struct Closer {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Arc<dyn DiskFile>>,
    /// Files that lose their name or have lost it, and are open.
    nameless: usize,
    /// How many have been closed.
    closed: u64,
    /// Somebody closes what is handed over.
    runs: bool,
    ended: bool,
}

impl Closer {
    /// Does what takes the name `path` away from a file, which is closed later if nobody else has it.
    pub fn outlive<T>(&self, disk: &dyn Disk, path: &Path, takes_name: impl FnOnce() -> T) -> T {
        // There may be none, or no room for one more open file: then nothing is closed later.
        let file = disk.open(path).ok();
        self.queue.lock().nameless += usize::from(file.is_some());
        let answer = takes_name();
        if let Some(file) = file {
            self.hand_over(file);
        }
        answer
    }

    fn hand_over(&self, file: Arc<dyn DiskFile>) {
        let mut queue = self.queue.lock();
        while queue.runs && queue.waiting.len() >= WAITING_MAX {
            self.changed.wait(&mut queue);
        }
        if queue.runs {
            queue.waiting.push_back(file);
            self.changed.notify_all();
        } else {
            drop(queue);
            self.close(file);
        }
    }

    fn close(&self, file: Arc<dyn DiskFile>) {
        drop(file);
        let mut queue = self.queue.lock();
        (queue.nameless, queue.closed) = (queue.nameless - 1, queue.closed + 1);
        self.changed.notify_all();
    }

    /// How many files have been closed.
    pub fn closed(&self) -> u64 {
        self.queue.lock().closed
    }

    /// Waits until no file is on its way, not even one that is just losing its name; says how many have been
    /// closed.
    pub fn settle(&self) -> u64 {
        let mut queue = self.queue.lock();
        while queue.nameless > 0 {
            self.changed.wait(&mut queue);
        }
        queue.closed
    }

    /// Closes what is handed over, until [`Closer::end`], and then what waits.
    pub fn run(&self) {
        let mut queue = self.queue.lock();
        queue.runs = true;
        loop {
            if let Some(file) = queue.waiting.pop_front() {
                drop(queue);
                self.changed.notify_all();
                self.close(file);
                queue = self.queue.lock();
            } else if queue.ended {
                queue.runs = false;
                return;
            } else {
                self.changed.wait(&mut queue);
            }
        }
    }

    /// As if somebody ran it, who closes nothing until he does.
    #[cfg(test)]
    pub(crate) fn hold(&self) {
        self.queue.lock().runs = true;
    }

    /// Ends the one who runs it.
    pub fn end(&self) {
        self.queue.lock().ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::io::{SimDisk, SimOptions};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    /// Files of 1,000 bytes that have no name any more.
    fn nameless(sim: &SimDisk, count: usize) -> Vec<Arc<dyn DiskFile>> {
        let files = (0..count).map(|number| {
            let path = Path::new("/").join(number.to_string());
            let file = sim.create(&path).unwrap();
            file.write_all_at(&[1; 1000], 0).unwrap();
            sim.remove(&path).unwrap();
            file
        });
        files.collect()
    }

    #[test]
    fn a_file_is_closed_behind_its_replacement_and_few_wait_for_that() {
        let sim = SimDisk::new(1, SimOptions::default());
        let (closer, files, given) = (Closer::default(), nameless(&sim, 10), AtomicUsize::new(0));
        assert_eq!(sim.nameless_bytes(), 10_000);
        thread::scope(|scope| {
            scope.spawn(|| closer.run());
            while !closer.queue.lock().runs {
                thread::yield_now();
            }
            // As long as the disk takes no call, none is closed.
            let most = sim.pause(|| {
                scope.spawn(|| {
                    for file in files {
                        closer.queue.lock().nameless += 1;
                        closer.hand_over(file);
                        given.fetch_add(1, Ordering::SeqCst);
                    }
                });
                while given.load(Ordering::SeqCst) <= WAITING_MAX {
                    thread::yield_now();
                }
                (0..1_000).for_each(|_| thread::yield_now());
                given.load(Ordering::SeqCst)
            });
            while given.load(Ordering::SeqCst) < 10 {
                thread::yield_now();
            }
            closer.settle();
            closer.end();
            assert_eq!((most, sim.nameless_bytes()), (WAITING_MAX + 1, 0));
        });
    }

    #[test]
    fn what_waits_at_the_end_is_closed_and_what_comes_later_at_once() {
        let sim = SimDisk::new(1, SimOptions::default());
        let closer = Closer::default();
        closer.hold();
        closer.queue.lock().nameless = WAITING_MAX;
        nameless(&sim, WAITING_MAX).into_iter().for_each(|file| closer.hand_over(file));
        assert_eq!(sim.nameless_bytes(), 1_000 * WAITING_MAX as u64);
        closer.end();
        closer.run();
        assert_eq!(sim.nameless_bytes(), 0);
        let (old, new) = (Path::new("/old"), Path::new("/new"));
        for path in [old, new] {
            sim.create(path).unwrap().write_all_at(&[1; 1000], 0).unwrap();
        }
        closer.outlive(&sim, old, || sim.rename(new, old)).unwrap();
        assert_eq!((sim.nameless_bytes(), sim.paths()), (0, vec![old.to_path_buf()]));
    }
}
