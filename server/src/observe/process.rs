//! Memory, processor time and open files of this process, read from the operating system.

use std::sync::LazyLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use tarn_engine::lock::{Mutex, rank};

use crate::config::Config;

/// Files that the log and checkpoints have open now and then, listeners, and some to spare.
const OTHER_FILES: u64 = 112;
/// Files of the event loop of a worker, and two in which the system tells of its thread.
const FILES_OF_WORKER: u64 = 6;
/// Files of a directory of the log: open ones, the next ones, and those that are compacted or backed up.
const FILES_OF_LOG_DIRECTORY: u64 = 16;
/// Connections at `sql-port` that wait, or have not said the password yet, each with two descriptors.
const SQL_STARTING_FILES: u64 = 2 * 32 + 64;
/// Connections at `metrics-port` that wait or are answered.
const METRICS_FILES: u64 = 2 * 32 + 8;

/// Bytes of memory that the process has in RAM; 0 if the system does not tell.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// Bytes of address space that the process has; 0 if the system does not tell.
pub(crate) fn virtual_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').next().and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// How many files and sockets the process has open, and how many it may have; 0 if the system does not tell.
pub(crate) fn open_files() -> (u64, u64) {
    // The directory that is read counts itself.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64);
    (open.saturating_sub(1), getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Bytes of memory of the machine.
pub(crate) fn machine_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    // The fields have the width of the machine's `long`.
    info.totalram as u64 * u64::from(info.mem_unit)
}

/// Memory that the allocator holds, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heap {
    /// In objects.
    pub allocated: u64,
    /// In pages that hold objects.
    pub active: u64,
    /// In RAM.
    pub resident: u64,
}

impl Heap {
    /// The memory that it holds now; zeros if it does not tell.
    pub(crate) fn now() -> Self {
        use tikv_jemalloc_ctl::{epoch, stats};
        let read = || -> Result<Self, tikv_jemalloc_ctl::Error> {
            // The statistics are those of the last epoch.
            epoch::advance()?;
            let (allocated, active) = (stats::allocated::read()?, stats::active::read()?);
            let resident = stats::resident::read()?;
            Ok(Self { allocated: allocated as u64, active: active as u64, resident: resident as u64 })
        };
        read().unwrap_or_default()
    }
}

/// Has the allocator give the pages that it keeps for later back to the system.
pub(crate) fn purge_heap() {
    use tikv_jemalloc_ctl::{Access, AsName, arenas};
    // Another one would take the time of now for that of before.
    static PURGING: LazyLock<Mutex<(), rank::Leaf>> = LazyLock::new(Mutex::default);
    let _purging = PURGING.lock();
    let arenas = arenas::narenas::read().unwrap_or_default();
    for arena in 0..arenas {
        for kind in ["dirty", "muzzy"] {
            // Pages that may be kept for no time are given back at once.
            let name = format!("arena.{arena}.{kind}_decay_ms\0");
            let name = name.as_bytes().name();
            let before: Result<isize, _> = name.read();
            if let Ok(before) = before
                && name.write(0isize).is_ok()
            {
                // It was accepted a moment ago.
                let _ = name.write(before);
            }
        }
    }
}

/// Has the allocator keep nothing that this thread frees for its next objects: these would take the places
/// of the last that were freed.
pub(crate) fn keep_no_freed_objects() {
    use tikv_jemalloc_ctl::{Access, AsName};
    let name: &[u8] = b"thread.tcache.enabled\0";
    // Where that is not allowed, a walk moves some in vain.
    let _ = name.name().write(false);
}

/// The figures of the allocator, a line for each.
pub(crate) fn heap_report() -> String {
    use tikv_jemalloc_ctl::{Access, AsName, arenas, epoch, stats, version};
    // The statistics are those of the last epoch; older ones are better than none.
    let _ = epoch::advance();
    let mut text = format!("jemalloc {}\n", version::read().unwrap_or_default());
    let figures = [
        ("bytes in objects", stats::allocated::read()),
        ("bytes in pages with objects", stats::active::read()),
        ("bytes for its own use", stats::metadata::read()),
        ("bytes in RAM", stats::resident::read()),
        ("bytes mapped", stats::mapped::read()),
        ("bytes of addresses kept", stats::retained::read()),
    ];
    for (name, figure) in figures {
        text.push_str(&figure.map_or(format!("{name}: unknown\n"), |bytes| format!("{name}: {bytes}\n")));
    }
    for arena in 0..arenas::narenas::read().unwrap_or_default() {
        let read = |figure: &str| -> Option<usize> {
            format!("stats.arenas.{arena}.{figure}\0").as_bytes().name().read().ok()
        };
        // Those that were never used tell nothing.
        if let (Some(active), Some(dirty), Some(muzzy)) = (read("pactive"), read("pdirty"), read("pmuzzy")) {
            text.push_str(&format!("arena {arena}: pages {active} active, {dirty} dirty, {muzzy} muzzy\n"));
        }
    }
    text
}

/// Processor time, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct CpuTime {
    /// In this program.
    pub user_s: f64,
    /// In the system on its behalf.
    pub system_s: f64,
}

/// Processor time of the process and of its main thread so far; zeros if the system does not tell.
pub(crate) fn cpu_times() -> (CpuTime, CpuTime) {
    let main = format!("/proc/self/task/{}/stat", std::process::id());
    (cpu_time("/proc/self/stat"), cpu_time(&main))
}

/// The processor time of child processes that have ended.
pub(crate) fn children_cpu_time() -> CpuTime {
    cpu_time_in("/proc/self/stat", 13)
}

fn cpu_time(path: &str) -> CpuTime {
    cpu_time_in(path, 11)
}

/// The time in user mode, which stands in this field behind the name, and in the system, in the next one.
fn cpu_time_in(path: &str, field: usize) -> CpuTime {
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // The second field is the program's name in parentheses, and may contain anything.
    let fields = stat.rsplit(')').next().unwrap_or_default();
    let ticks = |n: usize| fields.split_whitespace().nth(n).and_then(|text| text.parse::<f64>().ok());
    let seconds = |n| ticks(n).unwrap_or(0.0) / rustix::param::clock_ticks_per_second() as f64;
    CpuTime { user_s: seconds(field), system_s: seconds(field + 1) }
}

/// The name and release of the operating system, and the machine.
pub(crate) fn system_name() -> String {
    let name = rustix::system::uname();
    [name.sysname(), name.release(), name.machine()].map(|part| part.to_string_lossy()).join(" ")
}

/// Requests that may send keys to other servers at a time (`MIGRATE`), each over a connection.
pub(crate) const MIGRATIONS_MAX: u64 = 16;

/// Connections of proxies that are asked for whom they come; one more ends the oldest.
pub(crate) const PROXIED_MAX: u64 = 256;

/// Files and sockets that a configuration needs beside one for each client of Redis' protocol: the log and
/// checkpoints must always have theirs, however many connect at other ports.
fn reserved_files(config: &Config) -> u64 {
    let sql = match config.sql_port {
        0 => 0,
        // A second descriptor looks whether the client of a running statement is there.
        _ => 2 * config.sql_max_clients as u64 + SQL_STARTING_FILES,
    };
    let metrics = if config.metrics_port == 0 { 0 } else { METRICS_FILES };
    let proxied = if config.tls.proxies.is_empty() { 0 } else { PROXIED_MAX };
    let threads = FILES_OF_WORKER * config.serving_threads() as u64;
    let log = FILES_OF_LOG_DIRECTORY * config.log_dirs().len() as u64;
    [sql, metrics, proxied, threads, log, MIGRATIONS_MAX].into_iter().fold(OTHER_FILES, u64::saturating_add)
}

/// Raises the limit of open files so far that all clients fit that a configuration lets in. `Err` has the
/// number of clients of Redis' protocol that do.
pub(crate) fn allow_clients(config: &Config) -> Result<(), usize> {
    let reserved = reserved_files(config);
    allow_files((config.maxclients as u64).saturating_add(reserved))
        .map_err(|open| open.saturating_sub(reserved) as usize)
}

/// How many clients of Redis' protocol and of PostgreSQL's fit the limit of open files, as far as that can be
/// raised; `None`: all that the configuration lets in.
pub(crate) fn fitting_clients(config: &Config) -> Option<(usize, usize)> {
    let mut fitted = config.clone();
    let mut fit = allow_clients(&fitted).err()?;
    // Those of Redis' protocol come first.
    while config.sql_port != 0 && fitted.sql_max_clients > fit.max(1) {
        fitted.sql_max_clients /= 2;
        fit = allow_clients(&fitted).err().unwrap_or(fitted.maxclients);
    }
    Some((fit.max(1), fitted.sql_max_clients))
}

/// Raises the limit of open files. `Err` has how many there may be, if these are too many.
fn allow_files(needed: u64) -> Result<(), u64> {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return Ok(());
    }
    let wanted = Rlimit { current: Some(needed), maximum: limit.maximum.map(|hard| hard.max(needed)) };
    if setrlimit(Resource::Nofile, wanted).is_ok() {
        return Ok(());
    }
    // Without the right to raise the hard limit, there is what is left below it.
    let reachable = limit.maximum.unwrap_or(u64::MAX).min(needed);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum: limit.maximum });
    let open = if raised.is_ok() { reachable } else { current };
    if open >= needed { Ok(()) } else { Err(open) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_tells_memory_and_time() {
        assert!(resident_bytes() > 100_000);
        assert!(machine_bytes() > resident_bytes());
        assert!(system_name().starts_with("Linux "));
        let mut sum = 0u64;
        while cpu_times().0 == CpuTime::default() {
            sum = sum.wrapping_add(sum.rotate_left(1)) + 1;
        }
        assert!(cpu_times().0.user_s + cpu_times().0.system_s > 0.0);
    }

    fn config(change: impl FnOnce(&mut Config)) -> Config {
        let mut config = Config::default();
        change(&mut config);
        config
    }

    #[test]
    fn few_clients_fit_and_too_many_are_told_how_many_would() {
        let of = |clients| config(|config| config.maxclients = clients);
        assert_eq!(allow_clients(&of(1)), Ok(()));
        let too_many = usize::MAX / 2;
        if let Err(fit) = allow_clients(&of(too_many)) {
            assert!(fit < too_many);
            assert_eq!(allow_clients(&of(fit)), Ok(()));
        }
    }

    #[test]
    fn clients_of_other_ports_have_files_of_their_own() {
        let reserved = |sql_port, metrics_port| {
            reserved_files(&config(|config| {
                (config.sql_port, config.metrics_port, config.sql_max_clients) =
                    (sql_port, metrics_port, 500);
            }))
        };
        assert!(reserved(1, 0) >= reserved(0, 0) + 1000);
        assert!(reserved(1, 2) > reserved(1, 0));
    }
}
