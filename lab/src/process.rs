//! Reads facts about a process from `/proc` (memory, processor time), and pins threads to cores.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{IoContext, LabError, Result};

/// The memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Resident set size (`VmRSS`).
    pub resident_bytes: u64,
    /// Proportional set size: shared pages count by the number of those who share them.
    pub proportional_bytes: u64,
    /// The highest resident set size so far (`VmHWM`).
    pub resident_bytes_max: u64,
}

/// Reads the memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).doing(|| path.clone())?;
    let path = format!("/proc/{pid}/smaps_rollup");
    // Not every kernel or container has this file: the resident set replaces it.
    let rollup = fs::read_to_string(&path).unwrap_or_default();
    let resident_bytes = kilobytes(&status, "VmRSS:")
        .ok_or_else(|| LabError::Reply(format!("/proc/{pid}/status has no VmRSS: the process has ended")))?;
    Ok(Memory {
        resident_bytes,
        proportional_bytes: kilobytes(&rollup, "Pss:").unwrap_or(resident_bytes),
        resident_bytes_max: kilobytes(&status, "VmHWM:").unwrap_or(resident_bytes),
    })
}

/// The value of a line `name   123 kB`, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(number * 1024)
}

/// The processor time (user and system, all threads) that a process has used so far. Its grain is 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let path = format!("/proc/{pid}/stat");
    let stat = fs::read_to_string(&path).doing(|| path.clone())?;
    let ticks = cpu_ticks(&stat).ok_or_else(|| LabError::Reply(format!("{path} is not as expected")))?;
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// User and system ticks of a `/proc/PID/stat` line, whose second field is a name in parentheses that may
/// hold anything.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let after_name = &stat[stat.rfind(')')? + 1..];
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

/// Memory that a new process may have without anybody's memory being taken away.
pub fn available_bytes() -> Result<u64> {
    let path = "/proc/meminfo";
    let text = fs::read_to_string(path).doing(|| path.to_owned())?;
    let available = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = available.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes
        .map(|kilobytes| kilobytes * 1024)
        .ok_or_else(|| LabError::Reply(format!("{path} is not as expected")))
}

/// The processor time that all processes of the machine have used so far, without interrupts. Its grain is 10
/// ms a core.
pub fn machine_cpu_time() -> Result<Duration> {
    let path = "/proc/stat";
    let stat = fs::read_to_string(path).doing(|| path.to_owned())?;
    let line = stat.lines().next().unwrap_or_default();
    // User, user at low priority, and system.
    let ticks: u64 =
        line.split_whitespace().skip(1).take(3).filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64))
}

/// The processor time that the host gave to others while this machine wanted it, over all cores; zero where
/// it is not counted. Its grain is 10 ms.
pub fn stolen_time() -> Duration {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    // User, nice, system, idle, iowait, irq, softirq, steal.
    let ticks = line.split_whitespace().nth(8).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// The cores that the calling thread may run on, lowest first.
pub fn cores_allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect(),
        Err(_) => vec![0],
    }
}

/// Confines the calling thread, and the threads and processes that it starts from now on, to the given cores.
pub fn pin_thread(cores: &[usize]) -> Result<()> {
    let mut set = CpuSet::new();
    for &core in cores {
        if core >= CpuSet::MAX_CPU {
            return Err(LabError::Arguments(format!("there is no core {core}")));
        }
        set.set(core);
    }
    sched_setaffinity(None, &set).doing(|| format!("pin to cores {cores:?}"))
}

/// While this lives, the calling thread is confined to some cores; afterwards it is as it was.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Confines the calling thread. An empty list changes nothing.
    pub fn to(cores: &[usize]) -> Result<Pinned> {
        let before = cores_allowed();
        if !cores.is_empty() {
            pin_thread(cores)?;
        }
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Returning to the cores that were allowed before cannot fail, unless the machine lost a core
        // meanwhile.
        let _ = pin_thread(&self.before);
    }
}

/// While this lives, the calling thread comes before all others on its core as soon as it wants to run, if it
/// may, and wakes up on time.
#[derive(Debug)]
pub struct Preferred {
    granted: bool,
}

impl Preferred {
    /// Asks for it. Without the privilege, or without the program `chrt`, the thread stays as it was.
    pub fn ask() -> Preferred {
        // Sleeps end this many nanoseconds late at most, where the system's default is 50 µs.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1000));
        // Processes that it starts do not inherit this.
        Preferred { granted: schedule(&["--fifo", "--reset-on-fork", "--pid", "1"]) }
    }

    /// True if it was granted.
    pub fn is_granted(&self) -> bool {
        self.granted
    }
}

impl Drop for Preferred {
    fn drop(&mut self) {
        if self.granted {
            // Giving up a preference is always allowed.
            schedule(&["--other", "--pid", "0"]);
        }
    }
}

/// Lets the calling thread have most of its core's time as long as it lives, beside others that want it too.
/// Returns whether that was granted.
pub fn prefer_thread() -> bool {
    const NICE: i32 = -15;
    // Nice values are of threads on Linux.
    rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICE).is_ok()
}

/// Has `chrt` change how the calling thread is scheduled. Returns whether it did.
fn schedule(words: &[&str]) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let chrt =
        Command::new("chrt").args(words).arg(thread).stdout(Stdio::null()).stderr(Stdio::null()).status();
    chrt.is_ok_and(|status| status.success())
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parent = |number: u32| {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        stat[stat.rfind(')')? + 1..].split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    numbers.filter(|number| parent(*number) == Some(pid)).collect()
}

/// The proportional sizes of a process and of its children together.
pub fn family_bytes(pid: u32) -> u64 {
    let family = children(pid).into_iter().chain([pid]);
    // A child may end while its memory is read.
    family.filter_map(|pid| memory(pid).ok()).map(|own| own.proportional_bytes).sum()
}

/// The resident size of a process, without reading its page tables.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/statm");
    let text = fs::read_to_string(&path).doing(|| path.clone())?;
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| LabError::Reply(format!("{path} is not as expected")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Bytes that a process and its children have had written to the device, those of ended children too; 0 where
/// they are not counted.
pub fn written_bytes(pid: u32) -> u64 {
    let family = children(pid).into_iter().chain([pid]);
    let own = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:"))?;
        line.trim().parse::<u64>().ok()
    };
    family.filter_map(own).sum()
}

/// Resets the highest resident set size of a process (`VmHWM`) to its present size.
pub fn forget_peak(pid: u32) -> Result<()> {
    let path = format!("/proc/{pid}/clear_refs");
    fs::write(&path, "5").doing(|| path.clone())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn processor_time_is_read_past_a_name_with_parentheses() {
        let line = "42 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 700 33 0 0 20 0 1 0";
        assert_eq!(cpu_ticks(line), Some(733));
    }

    #[test]
    fn own_memory_and_time_can_be_read() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident_bytes > 100_000 && memory.resident_bytes_max >= memory.resident_bytes / 2);
        cpu_time(std::process::id()).unwrap();
        assert!(thread_cpu_time() > Duration::ZERO);
    }

    #[test]
    fn a_child_is_found_and_its_memory_counts() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id();
        assert!(children(own).contains(&child.id()));
        assert!(family_bytes(own) > memory(child.id()).unwrap().proportional_bytes);
        assert!(resident_bytes(own).unwrap() > 100_000);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn pinning_ends_with_the_guard() {
        let before = cores_allowed();
        let guard = Pinned::to(&before[..1]).unwrap();
        assert_eq!(cores_allowed(), before[..1]);
        drop(guard);
        assert_eq!(cores_allowed(), before);
    }
}
