//! Figures of one thread from the system: its waits for a processor, and its page faults.
//!
//! The system counts page faults without their time, so that is the number times the time of one, which is
//! measured once: memory of the allocator is touched for the first time, as that of keys is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Bytes that are touched to measure a page fault: some huge pages.
const TOUCHED_BYTES: usize = 8 << 20;
/// As many times it is measured; the shortest counts.
const PARTS: usize = 4;
/// The smallest page.
const PAGE_BYTES: usize = 4096;

/// Waits of a thread since the system was asked last.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// It could run and had no processor.
    pub delayed: Duration,
    /// Its page faults took about so long.
    pub faulted: Duration,
}

/// The files in which the system tells of a thread.
pub(crate) struct ThreadFigures {
    schedstat: File,
    stat: File,
    delayed_ns: u64,
    faults: u64,
}

impl ThreadFigures {
    /// Those of this thread.
    pub(crate) fn open() -> io::Result<ThreadFigures> {
        let schedstat = File::open("/proc/thread-self/schedstat")?;
        let stat = File::open("/proc/thread-self/stat")?;
        let mut figures = ThreadFigures { schedstat, stat, delayed_ns: 0, faults: 0 };
        // Its own faults are not those of a turn.
        fault_time();
        figures.ask()?;
        Ok(figures)
    }

    /// The waits since it was asked last.
    pub(crate) fn ask(&mut self) -> io::Result<Told> {
        let mut buffer = [0; 1024];
        let delayed_ns = field(text(&self.schedstat, &mut buffer)?, 1)?;
        let faults = faults_in(text(&self.stat, &mut buffer)?)?;
        let since = u32::try_from(faults.saturating_sub(self.faults)).unwrap_or(u32::MAX);
        let told = Told {
            delayed: Duration::from_nanos(delayed_ns.saturating_sub(self.delayed_ns)),
            faulted: fault_time().saturating_mul(since),
        };
        (self.delayed_ns, self.faults) = (delayed_ns, faults);
        Ok(told)
    }
}

fn text<'b>(file: &File, buffer: &'b mut [u8]) -> io::Result<&'b str> {
    let len = file.read_at(buffer, 0)?;
    std::str::from_utf8(&buffer[..len]).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn field(text: &str, place: usize) -> io::Result<u64> {
    let number = text.split_ascii_whitespace().nth(place).and_then(|field| field.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// The page faults, without and with a disk, in what the system tells of a thread.
fn faults_in(stat: &str) -> io::Result<u64> {
    // The name in parentheses may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    Ok(field(fields, 7)?.saturating_add(field(fields, 9)?))
}

/// About how long a page fault takes; zero if that is not known.
fn fault_time() -> Duration {
    static TIME: OnceLock<Duration> = OnceLock::new();
    *TIME.get_or_init(|| measured_fault_time().unwrap_or_default())
}

fn measured_fault_time() -> io::Result<Duration> {
    let stat = File::open("/proc/thread-self/stat")?;
    let mut buffer = [0; 1024];
    let mut memory: Vec<u8> = Vec::with_capacity(TOUCHED_BYTES);
    let mut times = Vec::new();
    for part in memory.spare_capacity_mut().chunks_mut(TOUCHED_BYTES / PARTS) {
        let before = faults_in(text(&stat, &mut buffer)?)?;
        let began = Instant::now();
        part.iter_mut().step_by(PAGE_BYTES).for_each(|byte| _ = byte.write(1));
        let took = began.elapsed();
        let faults = faults_in(text(&stat, &mut buffer)?)?.saturating_sub(before);
        times.extend(u32::try_from(faults).ok().and_then(|faults| took.checked_div(faults)));
    }
    // The others were interrupted, or met memory that was there.
    Ok(times.into_iter().min().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_system_tells_of_page_faults_of_this_thread() {
        let mut figures = ThreadFigures::open().unwrap();
        // An allocator may have memory of tests before, in which nothing faults: it has not all of this.
        let mut kept = Vec::new();
        let mut touch = |_| {
            let mut memory: Vec<u8> = Vec::with_capacity(64 << 20);
            memory.spare_capacity_mut().iter_mut().step_by(PAGE_BYTES).for_each(|byte| _ = byte.write(1));
            kept.push(memory);
            Some(figures.ask().unwrap().faulted).filter(|faulted| *faulted > Duration::ZERO)
        };
        let first = (0..8).find_map(&mut touch).expect("new memory faults");
        assert!(figures.ask().unwrap().faulted < first, "nothing is told twice");
    }
}
