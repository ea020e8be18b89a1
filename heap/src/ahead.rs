//! Memory touched ahead of those who write.
//!
//! What the allocator gets from the system is no memory yet: the kernel finds and clears a page when it is
//! touched first. For a huge page, of which a table is made (`docs/design/0008`), that takes it from a tenth
//! of a millisecond to several, while a client waits. So a thread watches how much of each arena is in use.
//! For one that grows it takes memory, touches it and gives it back; the arena has it at hand then.
//!
//! ```text
//!   arena   │ in use ────────────────► │ free and touched │ not touched yet …
//!                    grows by its rate    a quarter of a second of it, at least LEAST
//! ```
//!
//! Nothing is touched for an arena that does not grow, and the allocator gives back to the system what is not
//! used for ten seconds.

use std::hint::black_box;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use tikv_jemalloc_ctl::{Result, arenas, epoch, raw};

/// Between two looks while nothing grows, and while something does.
const LOOK_IDLE: Duration = Duration::from_millis(100);
const LOOK_BUSY: Duration = Duration::from_millis(10);
/// Growth is what was added within this time.
const WINDOW: Duration = Duration::from_secs(1);
/// Growth that is worth a thought.
const GROWTH: usize = 1 << 20;
/// What is touched at a time: a huge page.
const UNIT: usize = 2 << 20;
/// Bytes ahead of an arena that grows.
const LEAST: usize = 8 << 20;
/// Bytes ahead of all arenas.
const MOST: usize = 128 << 20;
/// Before queries, behind those who serve clients.
const PRIORITY: i32 = 5;

/// Touches memory ahead of those who write, as long as it lives.
#[derive(Debug)]
pub struct Ahead {
    /// Dropped to end the thread.
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins. Errors: the thread cannot be started.
    pub fn start() -> io::Result<Ahead> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("tarn-memory".to_owned()).spawn(move || {
            // A system that refuses runs it as any other.
            let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), PRIORITY);
            if let Ok(arenas) = Arenas::new() {
                arenas.keep_ahead(&stopped);
            }
        })?;
        Ok(Ahead { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().map(JoinHandle::join);
        debug_assert!(!matches!(ended, Some(Err(_))), "the thread ends without a panic");
    }
}

/// The arenas of the allocator.
struct Arenas {
    /// Names of figures in the allocator's own form; the third number is that of the arena.
    in_use: [usize; 4],
    free: [usize; 4],
    /// Bytes of a page.
    page: usize,
    /// For each arena what was in use when the window began.
    before: Vec<usize>,
    began: Instant,
}

/// An arena that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Growing {
    arena: usize,
    /// Bytes that are free and touched.
    free: usize,
    /// Bytes more than when the window began.
    grown: usize,
}

impl Arenas {
    fn new() -> Result<Arenas> {
        let (mut in_use, mut free) = ([0; 4], [0; 4]);
        raw::name_to_mib(b"stats.arenas.0.pactive\0", &mut in_use)?;
        raw::name_to_mib(b"stats.arenas.0.pdirty\0", &mut free)?;
        Ok(Arenas {
            in_use,
            free,
            page: rustix::param::page_size(),
            before: Vec::new(),
            began: Instant::now(),
        })
    }

    /// Until `stopped` is closed.
    fn keep_ahead(mut self, stopped: &Receiver<()>) {
        let mut wait = LOOK_IDLE;
        while stopped.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
            let growing = self.growing().unwrap_or_default();
            wait = if growing.is_empty() { LOOK_IDLE } else { LOOK_BUSY };
            for (arena, bytes) in missing(&growing, self.began.elapsed()) {
                if touch(arena, bytes).is_err() {
                    return;
                }
            }
        }
    }

    /// The arenas that have grown since the window began.
    fn growing(&mut self) -> Result<Vec<Growing>> {
        // The statistics are those of the last epoch.
        epoch::advance()?;
        let begins = self.began.elapsed() >= WINDOW;
        let mut growing = Vec::new();
        for arena in 0..arenas::narenas::read()? as usize {
            // One that nobody uses has no figures.
            let (Ok(in_use), Ok(free)) = (self.bytes(self.in_use, arena), self.bytes(self.free, arena))
            else {
                continue;
            };
            if arena >= self.before.len() {
                self.before.resize(arena + 1, 0);
            }
            let grown = in_use.saturating_sub(self.before[arena]);
            if grown >= GROWTH {
                growing.push(Growing { arena, free, grown });
            }
            if begins {
                self.before[arena] = in_use;
            }
        }
        if begins {
            self.began = Instant::now();
        }
        Ok(growing)
    }

    /// A figure of an arena, which counts pages.
    fn bytes(&self, mut name: [usize; 4], arena: usize) -> Result<usize> {
        name[2] = arena;
        // SAFETY: both figures are of the type `size_t`, of which every value is a `usize`.
        #[expect(unsafe_code, reason = "the allocator's figures of one arena have no other interface")]
        let pages: usize = unsafe { raw::read_mib(&name)? };
        Ok(pages * self.page)
    }
}

/// What is missing ahead of arenas that have grown so within a time.
fn missing(growing: &[Growing], within: Duration) -> Vec<(usize, usize)> {
    let most = (MOST / growing.len().max(1)).max(UNIT);
    // What was added before the first look was added within some time, too.
    let quarters = (within.max(LOOK_IDLE).as_secs_f64() * 4.0).recip();
    let missing = |it: &Growing| {
        let wanted = ((it.grown as f64 * quarters) as usize).clamp(LEAST.min(most), most);
        (it.arena, wanted.saturating_sub(it.free))
    };
    growing.iter().map(missing).filter(|(_, bytes)| *bytes > 0).collect()
}

/// Has an arena have so many bytes more, about, that are free and touched.
fn touch(arena: usize, bytes: usize) -> Result<()> {
    // SAFETY: the setting is of the type `unsigned`; that this thread takes its memory from another arena
    // changes nothing for what it has.
    #[expect(unsafe_code, reason = "the allocator's choice of an arena has no other interface")]
    unsafe {
        raw::write(b"thread.arena\0", arena as u32)?;
    }
    let page = rustix::param::page_size();
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for _ in 0..bytes.div_ceil(UNIT) {
        let mut block = Vec::new();
        if block.try_reserve_exact(UNIT).is_err() {
            break;
        }
        for page in block.spare_capacity_mut().chunks_mut(page) {
            page[0].write(0);
        }
        // So that the writes are not left out, as nobody reads what they wrote.
        blocks.push(black_box(block));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[global_allocator]
    static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

    const MB: usize = 1 << 20;

    fn growing(arena: usize, free: usize, grown: usize) -> Growing {
        Growing { arena, free, grown }
    }

    #[test]
    fn a_quarter_of_a_second_is_ahead_within_bounds() {
        let second = Duration::from_secs(1);
        assert_eq!(missing(&[growing(3, 0, MB)], second), [(3, LEAST)]);
        assert_eq!(missing(&[growing(3, 5 * MB, MB)], second), [(3, LEAST - 5 * MB)]);
        assert_eq!(missing(&[growing(3, LEAST, MB)], second), []);
        assert_eq!(missing(&[growing(3, 0, 80 * MB)], second), [(3, 20 * MB)]);
        assert_eq!(missing(&[growing(3, 0, 40 * MB)], second / 2), [(3, 20 * MB)]);
        assert_eq!(missing(&[growing(3, 0, 4000 * MB)], second), [(3, MOST)]);
        let many: Vec<_> = (0..256).map(|arena| growing(arena, 0, 4000 * MB)).collect();
        assert_eq!(missing(&many, second)[255], (255, UNIT));
    }

    #[test]
    fn what_is_touched_is_free_in_the_arena() {
        let mut arenas = Arenas::new().unwrap();
        touch(0, LEAST).unwrap();
        arenas.growing().unwrap();
        assert!(arenas.bytes(arenas.free, 0).unwrap() >= LEAST);
    }

    #[test]
    fn an_arena_that_grows_is_seen_and_one_that_does_not_is_not() {
        let mut arenas = Arenas::new().unwrap();
        arenas.growing().unwrap();
        arenas.began = Instant::now() - WINDOW;
        arenas.growing().unwrap();
        let quiet = arenas.growing().unwrap();
        let kept: Vec<Vec<u8>> = (0..16).map(|_| vec![1; MB]).collect();
        let grown = arenas.growing().unwrap();
        assert!(grown.iter().any(|it| it.grown >= kept.len() * MB), "{grown:?} after {quiet:?}");
    }

    #[test]
    fn it_ends_when_it_is_dropped() {
        drop(Ahead::start().unwrap());
    }
}
