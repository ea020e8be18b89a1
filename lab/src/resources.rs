//! The use of the machine and of a process, as `/proc` counts it, read repeatedly: a series of the
//! differences.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use procfs::process::{Process, Stat};
use procfs::{CpuTime, Current, CurrentSI, KernelStats, Meminfo};
use serde::{Deserialize, Serialize};

/// The longest single sleep, so that a watcher ends soon after it is asked to.
const NAP: Duration = Duration::from_millis(10);

/// Shares of time, in percent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Shares {
    /// In programs.
    pub user: f32,
    /// In the kernel.
    pub system: f32,
    /// Idle while something waits for a device; of a process, waiting for one, over all threads.
    pub iowait: f32,
    /// Taken by the host; of a process always 0.
    pub stolen: f32,
}

/// The use between one reading and the next.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Its end, in milliseconds since the start.
    pub ms: u32,
    /// Of the machine, of all cores together: 100 % are all of them.
    pub machine: Shares,
    /// The same of each core.
    pub cores: Vec<Shares>,
    /// Of the process with its children: 100 % are one core.
    pub process: Shares,
    /// Memory of the machine that is not available, in bytes.
    pub machine_used: u64,
    /// Swapped out, of the machine.
    pub machine_swapped: u64,
    /// Faults that waited for a device, a second, of the machine.
    pub machine_faults: f32,
    /// Resident memory of the process, without its children.
    pub resident: u64,
    /// Swapped out, of the process.
    pub swapped: u64,
    /// Faults that waited for a device, a second, of the process.
    pub faults: f32,
    /// Bytes that the process and its children had written, since the start.
    pub written: u64,
}

/// Counters of processor time, in ticks.
#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    user: u64,
    system: u64,
    iowait: u64,
    stolen: u64,
    all: u64,
}

impl Ticks {
    fn of_machine(time: &CpuTime) -> Ticks {
        let CpuTime { user, nice, system, idle, .. } = *time;
        let [iowait, irq, softirq, stolen] =
            [time.iowait, time.irq, time.softirq, time.steal].map(Option::unwrap_or_default);
        let (user, system) = (user + nice, system + irq + softirq);
        Ticks { user, system, iowait, stolen, all: user + system + idle + iowait + stolen }
    }

    /// Those of children that have ended are counted too.
    fn of_process(stat: &Stat) -> Ticks {
        Ticks {
            user: stat.utime + stat.cutime.unsigned_abs(),
            system: stat.stime + stat.cstime.unsigned_abs(),
            iowait: stat.delayacct_blkio_ticks.unwrap_or(0),
            ..Ticks::default()
        }
    }

    fn since(self, before: Ticks, all: f64) -> Shares {
        let share = |now: u64, before: u64| {
            if all > 0.0 { (now.saturating_sub(before)) as f64 / all * 100.0 } else { 0.0 }
        };
        Shares {
            user: share(self.user, before.user) as f32,
            system: share(self.system, before.system) as f32,
            iowait: share(self.iowait, before.iowait) as f32,
            stolen: share(self.stolen, before.stolen) as f32,
        }
    }
}

/// One reading of all counters.
#[derive(Debug, Clone, Default)]
struct Reading {
    machine: Ticks,
    cores: Vec<Ticks>,
    process: Ticks,
    machine_faults: u64,
    faults: u64,
    /// The figures of this moment; those of an interval are zero.
    now: Usage,
}

impl Reading {
    fn now(pid: u32) -> Reading {
        let mut reading = Reading::default();
        if let Ok(stat) = KernelStats::current() {
            reading.machine = Ticks::of_machine(&stat.total);
            reading.cores = stat.cpu_time.iter().map(Ticks::of_machine).collect();
        }
        let faults = procfs::vmstat().ok().and_then(|counts| counts.get("pgmajfault").copied());
        reading.machine_faults = faults.unwrap_or(0).unsigned_abs();
        if let Ok(memory) = Meminfo::current() {
            reading.now.machine_used = memory.mem_total.saturating_sub(memory.mem_available.unwrap_or(0));
            reading.now.machine_swapped = memory.swap_total.saturating_sub(memory.swap_free);
        }
        for pid in crate::process::children(pid).into_iter().chain([pid]) {
            let Ok(stat) = Process::new(pid as i32).and_then(|own| own.stat()) else { continue };
            let ticks = Ticks::of_process(&stat);
            reading.process.user += ticks.user;
            reading.process.system += ticks.system;
            reading.process.iowait += ticks.iowait;
            reading.faults += stat.majflt + stat.cmajflt;
        }
        if let Ok(status) = Process::new(pid as i32).and_then(|own| own.status()) {
            reading.now.resident = status.vmrss.unwrap_or(0) * 1024;
            reading.now.swapped = status.vmswap.unwrap_or(0) * 1024;
        }
        reading.now.written = crate::process::written_bytes(pid);
        reading
    }
}

/// Reads all counters at intervals of `every` until `ended` is set.
pub fn watch(pid: u32, every: Duration, ended: &AtomicBool) -> Vec<Usage> {
    let start = Instant::now();
    let (mut before, mut at) = (Reading::now(pid), start);
    let mut series = Vec::new();
    loop {
        let mut is_over = false;
        while !is_over && at.elapsed() < every {
            sleep(NAP.min(every));
            is_over = ended.load(Ordering::Relaxed);
        }
        let (now, then) = (Reading::now(pid), Instant::now());
        // The rest of an interval that is short says little, and its end would be that of the process.
        if !is_over || then - at > every / 2 {
            series.push(usage(&before, &now, (then - at).as_secs_f64(), (then - start).as_millis() as u32));
        }
        if is_over {
            return series;
        }
        (before, at) = (now, then);
    }
}

fn usage(before: &Reading, now: &Reading, seconds: f64, ms: u32) -> Usage {
    let ticks = seconds * rustix::param::clock_ticks_per_second() as f64;
    let passed = |now: Ticks, before: Ticks| now.since(before, now.all.saturating_sub(before.all) as f64);
    let a_second = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds) as f32;
    Usage {
        ms,
        machine: passed(now.machine, before.machine),
        cores: now.cores.iter().zip(&before.cores).map(|(now, before)| passed(*now, *before)).collect(),
        process: now.process.since(before.process, ticks),
        machine_faults: a_second(now.machine_faults, before.machine_faults),
        faults: a_second(now.faults, before.faults),
        ..now.now.clone()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use procfs::{FromRead, FromReadSI};

    fn stat(line: &str) -> KernelStats {
        KernelStats::from_read(std::io::Cursor::new(line), &procfs::LocalSystemInfo).unwrap()
    }

    #[test]
    fn shares_are_those_of_the_time_that_passed() {
        let of = |fields: &str| {
            let text = format!("cpu  {fields}\nctxt 1\nbtime 1\nprocesses 1\n");
            Ticks::of_machine(&stat(&text).total)
        };
        let before = of("100 0 50 1000 10 0 0 0 0 0");
        let now = of("120 5 60 1050 25 2 3 5 0 0");
        let shares = now.since(before, (now.all - before.all) as f64);
        let of = |ticks: f32| ticks / 110.0 * 100.0;
        assert_eq!((now.all, before.all), (1270, 1160));
        for (share, ticks) in [(shares.user, 25.0), (shares.system, 15.0), (shares.iowait, 15.0)] {
            assert!((share - of(ticks)).abs() < 0.01, "{shares:?}");
        }
        assert!((shares.stolen - of(5.0)).abs() < 0.01);
    }

    #[test]
    fn a_process_has_its_childrens_time_and_its_waits() {
        let numbers: Vec<String> = (4..=52).map(|field| field.to_string()).collect();
        let line = format!("7 (a) b) S {}", numbers.join(" "));
        let stat = Stat::from_read(line.as_bytes()).unwrap();
        let ticks = Ticks::of_process(&stat);
        assert_eq!(stat.majflt + stat.cmajflt, 12 + 13);
        assert_eq!((ticks.user, ticks.system, ticks.iowait), (14 + 16, 15 + 17, 42));
    }

    #[test]
    fn a_watcher_sees_a_process_work_and_ends_when_told() {
        let ms = Duration::from_millis;
        let (series, ()) = crate::process::beside(
            |ended| watch(std::process::id(), ms(20), ended),
            || {
                let begun = Instant::now();
                let mut number = 1_u64;
                while begun.elapsed() < ms(200) {
                    number = std::hint::black_box(number.wrapping_mul(3));
                }
            },
        );
        assert!(!series.is_empty() && series.iter().any(|usage| usage.process.user > 0.0), "{series:?}");
        assert!(series.iter().all(|usage| usage.resident > 100_000 && !usage.cores.is_empty()));
    }
}
