//! Reads facts about a process from `/proc` (memory, processor time), pins threads to cores, runs a thread
//! beside other work, and runs programs.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use procfs::process::{ClearRefs, Process};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, Meminfo, ProcError, ProcResult};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::{IoContext, LabError, Result};

/// A sleep may last this much longer than asked for.
const OVERSLEEP: Duration = Duration::from_micros(300);

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

/// Names a failure to read `/proc`.
fn proc<T>(what: &str, read: ProcResult<T>) -> Result<T> {
    read.map_err(|error| match error {
        ProcError::Io(source, _) => LabError::Io { what: what.to_owned(), source },
        other => LabError::Reply(format!("{what}: {other}")),
    })
}

/// A process in `/proc`.
fn process(pid: u32) -> ProcResult<Process> {
    Process::new(pid as i32)
}

/// A time that the system counts in ticks.
fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// Reads the memory of a process.
pub fn memory(pid: u32) -> Result<Memory> {
    let name = format!("/proc/{pid}/status");
    let status = proc(&name, process(pid).and_then(|own| own.status()))?;
    let resident = status.vmrss.ok_or_else(|| LabError::Reply(format!("{name}: the process has ended")))?;
    // Not every kernel or container has this file: the resident set replaces it.
    let proportional = rollup(pid, |name| name == "Pss");
    Ok(Memory {
        resident_bytes: resident * 1024,
        proportional_bytes: proportional.unwrap_or(resident * 1024),
        resident_bytes_max: status.vmhwm.unwrap_or(resident) * 1024,
    })
}

/// The sum of some entries of `smaps_rollup`, in bytes; `None` if there are none.
fn rollup(pid: u32, wanted: impl Fn(&str) -> bool) -> Option<u64> {
    let maps = process(pid).and_then(|own| own.smaps_rollup()).ok()?.memory_map_rollup;
    let all = maps.into_iter().flat_map(|map| map.extension.map);
    all.filter(|(name, _)| wanted(name)).map(|(_, bytes)| bytes).reduce(|a, b| a + b)
}

/// Bytes of a process in huge pages; 0 where they are not counted.
pub fn huge_bytes(pid: u32) -> u64 {
    rollup(pid, |name| name == "AnonHugePages").unwrap_or(0)
}

/// Bytes of the page tables of a process (`VmPTE`), which a fork copies; 0 where they are not counted.
pub fn page_table_bytes(pid: u32) -> u64 {
    let status = process(pid).and_then(|own| own.status());
    status.ok().and_then(|status| status.vmpte).unwrap_or(0) * 1024
}

/// Bytes of a process in pages that no other process has; 0 where they are not counted.
pub fn private_bytes(pid: u32) -> u64 {
    rollup(pid, |name| name.starts_with("Private_")).unwrap_or(0)
}

/// The processor time (user and system, all threads) that a process has used so far. Its grain is 10 ms.
pub fn cpu_time(pid: u32) -> Result<Duration> {
    let stat = proc(&format!("/proc/{pid}/stat"), process(pid).and_then(|own| own.stat()))?;
    Ok(of_ticks(stat.utime + stat.stime))
}

/// The same with its children: those that it has now, and those that have ended and for which it has waited.
pub fn family_cpu_time(pid: u32) -> Result<Duration> {
    let stat = proc(&format!("/proc/{pid}/stat"), process(pid).and_then(|own| own.stat()))?;
    let ended = of_ticks((stat.cutime + stat.cstime).unsigned_abs());
    // A child may end while its time is read.
    let running: Duration = forked(pid).into_iter().filter_map(|child| cpu_time(child).ok()).sum();
    Ok(of_ticks(stat.utime + stat.stime) + ended + running)
}

/// Memory that a new process may have without anybody's memory being taken away.
pub fn available_bytes() -> Result<u64> {
    let name = "/proc/meminfo";
    let available = proc(name, Meminfo::current())?.mem_available;
    available.ok_or_else(|| LabError::Reply(format!("{name} has no MemAvailable")))
}

/// The processor time that the machine has used so far, with interrupts, and without what the host gave to
/// others ([`stolen_time`]). Its grain is 10 ms a core.
pub fn machine_cpu_time() -> Result<Duration> {
    Ok(of_ticks(busy_ticks(&proc("/proc/stat", KernelStats::current())?.total)))
}

/// The ticks of all work. Those of interrupts are among it: the kernel counts them to the process that they
/// interrupt, too, as the network's to that which sends.
fn busy_ticks(time: &CpuTime) -> u64 {
    let [irq, softirq] = [time.irq, time.softirq].map(Option::unwrap_or_default);
    time.user + time.nice + time.system + irq + softirq
}

/// The processor time that the host gave to others while this machine wanted it, over all cores; zero where
/// it is not counted. Its grain is 10 ms.
pub fn stolen_time() -> Duration {
    let stat = KernelStats::current();
    of_ticks(stat.ok().and_then(|stat| stat.total.steal).unwrap_or(0))
}

/// The processor time that the calling thread has used so far.
pub fn thread_cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Sleeps until a moment, and polls the clock just before it.
pub fn wait_until(moment: Instant) {
    let rest = moment.saturating_duration_since(Instant::now());
    if rest > OVERSLEEP {
        std::thread::sleep(rest - OVERSLEEP);
    }
    while Instant::now() < moment {
        std::hint::spin_loop();
    }
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
    /// True if it may.
    pub granted: bool,
}

impl Preferred {
    /// Asks for it. Without the privilege, or without the program `chrt`, the thread stays as it was.
    pub fn ask() -> Preferred {
        // Sleeps end this many nanoseconds late at most, where the system's default is 50 µs.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1000));
        // Processes that it starts do not inherit this.
        Preferred { granted: schedule(&["--fifo", "--reset-on-fork", "--pid", "1"]) }
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

/// Works, and does something else meanwhile on a thread of its own, which ends soon after the flag that it
/// gets is set: when the work is done. Returns the results of both.
pub fn beside<O: Send, W>(other: impl FnOnce(&AtomicBool) -> O + Send, work: impl FnOnce() -> W) -> (O, W) {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| other(&is_over));
        let over = Over(&is_over);
        let done = work();
        drop(over);
        (other.join().expect("a thread beside the work does not panic"), done)
    })
}

/// Sets its flag when it is dropped, also by a panic.
struct Over<'f>(&'f AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a program to its end. Returns its output; fails with its words if it ends without success. `what`
/// names it.
pub fn output_of(command: &mut Command, what: &str) -> Result<Vec<u8>> {
    let output = command.output().doing(|| format!("run {}", command.get_program().display()))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(LabError::Program { what: what.to_owned(), status: output.status, words });
    }
    Ok(output.stdout)
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let all = procfs::process::all_processes().into_iter().flatten().flatten();
    all.filter_map(|own| own.stat().ok())
        .filter(|stat| stat.ppid == pid as i32)
        .map(|stat| stat.pid as u32)
        .collect()
}

/// True if a process ignores a signal.
pub fn ignores(pid: u32, signal: i32) -> bool {
    let status = process(pid).and_then(|own| own.status());
    status.is_ok_and(|status| (status.sigign >> (signal - 1)) & 1 == 1)
}

/// The same, read from its threads alone where the kernel lists them there, which takes microseconds. A child
/// that ends meanwhile may hide another.
pub fn forked(pid: u32) -> Vec<u32> {
    let tasks = process(pid).and_then(|own| own.tasks()).into_iter().flatten().flatten();
    // A thread may end meanwhile.
    let listed = tasks.filter_map(|task| task.children().ok()).reduce(|all, own| [all, own].concat());
    listed.unwrap_or_else(|| children(pid))
}

/// A process and its children.
fn family(pid: u32) -> impl Iterator<Item = u32> {
    forked(pid).into_iter().chain([pid])
}

/// The address space of a process and of its children together.
pub fn family_virtual_bytes(pid: u32) -> u64 {
    let size = |pid| process(pid).and_then(|own| own.statm()).map(|statm| statm.size * procfs::page_size());
    family(pid).filter_map(|pid| size(pid).ok()).sum()
}

/// The resident size of a process, and the part of it that has no file, in bytes; without reading its page
/// tables.
pub fn resident_bytes(pid: u32) -> Result<(u64, u64)> {
    let statm = proc(&format!("/proc/{pid}/statm"), process(pid).and_then(|own| own.statm()))?;
    let anonymous = statm.resident.saturating_sub(statm.shared);
    Ok((statm.resident * procfs::page_size(), anonymous * procfs::page_size()))
}

/// The highest resident size of a process since [`forget_peak`] (`VmHWM`).
pub fn resident_bytes_max(pid: u32) -> Result<u64> {
    let name = format!("/proc/{pid}/status");
    let status = proc(&name, process(pid).and_then(|own| own.status()))?;
    let most = status.vmhwm.ok_or_else(|| LabError::Reply(format!("{name}: the process has ended")))?;
    Ok(most * 1024)
}

/// Memory of all processes of the machine that has no file, in bytes. A page that several have counts once.
pub fn machine_anonymous_bytes() -> Result<u64> {
    let name = "/proc/meminfo";
    let anonymous = proc(name, Meminfo::current())?.anon_pages;
    anonymous.ok_or_else(|| LabError::Reply(format!("{name} has no AnonPages")))
}

/// Bytes that a process and its children have had written to the device, those of ended children too; 0 where
/// they are not counted.
pub fn written_bytes(pid: u32) -> u64 {
    family(pid).filter_map(|pid| process(pid).and_then(|own| own.io()).ok()).map(|io| io.write_bytes).sum()
}

/// Resets the highest resident set size of a process (`VmHWM`) to its present size.
pub fn forget_peak(pid: u32) -> Result<()> {
    let cleared = process(pid).and_then(|own| own.clear_refs(ClearRefs::PeakRSS));
    proc(&format!("/proc/{pid}/clear_refs"), cleared)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::io::{Read, Write};

    use procfs::FromReadSI;

    use signal_hook::consts::{SIGHUP, SIGTERM, SIGUSR1, SIGUSR2};

    #[test]
    fn own_memory_and_time_can_be_read() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.resident_bytes > 100_000 && memory.resident_bytes_max >= memory.resident_bytes / 2);
        cpu_time(std::process::id()).unwrap();
        assert!(thread_cpu_time() > Duration::ZERO);
    }

    #[test]
    fn a_child_is_found_and_its_memory_counts() {
        let (stdin, stdout) = (Stdio::piped(), Stdio::piped());
        let mut child = Command::new("cat").stdin(stdin).stdout(stdout).spawn().unwrap();
        // Its memory is that of the program as soon as that answers.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let own = std::process::id();
        assert!(children(own).contains(&child.id()) && forked(own).contains(&child.id()));
        let (resident, anonymous) = resident_bytes(own).unwrap();
        assert!(anonymous > 100_000 && resident > anonymous);
        assert!(machine_anonymous_bytes().unwrap() > anonymous / 2);
        assert!(family_virtual_bytes(own) > family_virtual_bytes(child.id()));
        assert!(family_virtual_bytes(child.id()) > memory(child.id()).unwrap().resident_bytes);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn interrupts_are_work_of_the_machine_and_what_the_host_took_is_not() {
        let text = "cpu  100 5 50 1000 10 3 7 9 0 0\nctxt 1\nbtime 1\nprocesses 1\n";
        let stat = KernelStats::from_read(text.as_bytes(), &procfs::LocalSystemInfo).unwrap();
        assert_eq!(busy_ticks(&stat.total), 100 + 5 + 50 + 3 + 7);
    }

    #[test]
    fn the_time_of_a_child_counts_while_it_runs_and_when_it_has_ended() {
        let count = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo";
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("({count}; read a); echo; read a")]);
        let mut child = shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut stdin, mut stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        for _ in 0..2 {
            stdout.read_exact(&mut [0]).unwrap();
            let [own, all] = [cpu_time, family_cpu_time].map(|time| time(child.id()).unwrap());
            assert!(all > own, "{own:?} {all:?}");
            stdin.write_all(b"\n").unwrap();
        }
        child.wait().unwrap();
    }

    #[test]
    fn a_process_says_which_signals_it_ignores() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP USR2; echo; exec cat"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        // The first one has the lowest bit, wherever it is looked for.
        let signals = [SIGHUP, SIGUSR2, SIGTERM, SIGUSR1];
        assert_eq!(signals.map(|signal| ignores(child.id(), signal)), [true, true, false, false]);
        drop(child.stdin.take());
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
