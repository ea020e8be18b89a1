//! The description of the machine that a run took place on, as every JSON line contains it.

use std::fs;
use std::path::Path;

use procfs::process::{MountInfo, Process};
use procfs::{CpuInfo, Current, Meminfo};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// Facts about the machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that the laboratory may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Operating system and release.
    pub system: String,
    /// Whether the kernel gives huge pages (`always`, `madvise` or `never`).
    pub huge_pages: String,
    /// Swap space in bytes.
    pub swap_bytes: u64,
    /// The governor of the first core's frequency; `none` where there is none, as in most virtual machines.
    pub governor: String,
    /// The kernel's rule for promising more memory than there is (`vm.overcommit_memory`).
    pub overcommit: String,
    /// The disk under the directory that is measured in.
    pub disk: String,
}

/// The kernel's switch for huge pages.
const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

impl Machine {
    /// Describes the machine that this runs on, and the disk under a directory.
    pub fn look(dir: &Path) -> Machine {
        let processor = CpuInfo::current().ok().and_then(|cores| processor(&cores));
        let memory = Meminfo::current();
        let bytes = |of: fn(&Meminfo) -> u64| memory.as_ref().map_or(0, of);
        let word =
            |path: &str| fs::read_to_string(path).map_or("none".to_owned(), |text| text.trim().to_owned());
        let name = rustix::system::uname();
        Machine {
            processor: processor.unwrap_or_else(|| "unknown".to_owned()),
            cores: crate::process::cores_allowed().len(),
            memory_bytes: bytes(|memory| memory.mem_total),
            system: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
            huge_pages: chosen(&word(HUGE_PAGES)).to_owned(),
            swap_bytes: bytes(|memory| memory.swap_total),
            governor: word("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            overcommit: word("/proc/sys/vm/overcommit_memory"),
            disk: disk(dir),
        }
    }
}

/// The name of the processor, with its family and model where the system tells them: a virtual machine may
/// hide its generation in the name alone.
fn processor(cores: &CpuInfo) -> Option<String> {
    let name = cores.model_name(0)?;
    let numbers = ["cpu family", "model"].map(|field| cores.get_field(0, field));
    Some(match numbers {
        [Some(family), Some(model)] => format!("{name}, family {family}, model {model}"),
        _ => name.to_owned(),
    })
}

/// The word in brackets, of `always [madvise] never`; or the whole text.
fn chosen(words: &str) -> &str {
    words.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map_or(words, |(word, _)| word)
}

/// Why this machine has no huge pages; `None` where it has some.
pub fn no_huge_pages() -> Option<String> {
    let enabled = fs::read_to_string(HUGE_PAGES).unwrap_or_default();
    match chosen(enabled.trim()) {
        "always" | "madvise" => None,
        "" => Some(format!("this kernel has no huge pages: there is no {HUGE_PAGES}")),
        word => {
            Some(format!("the kernel gives no huge pages: {HUGE_PAGES} says {word}; root may write madvise"))
        }
    }
}

/// Fails unless most of some data are in huge pages.
pub fn check_huge_pages(huge_bytes: u64, data_bytes: u64) -> Result<()> {
    if huge_bytes >= data_bytes / 2 {
        return Ok(());
    }
    let (huge, data) = (huge_bytes >> 20, data_bytes >> 20);
    Err(LabError::Missing(format!(
        "the kernel gave {huge} MB of huge pages for {data} MB of data (AnonHugePages): \
         its memory may be in pieces"
    )))
}

/// The kind of file system that holds a directory, and where it is mounted, such as `ext4 at /`.
pub fn file_system(dir: &Path) -> String {
    match mount(dir) {
        Some(mount) => format!("{} at {}", mount.fs_type, mount.mount_point.display()),
        None => "unknown".to_owned(),
    }
}

fn mount(dir: &Path) -> Option<MountInfo> {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = Process::myself().and_then(|own| own.mountinfo()).into_iter().flatten();
    let holder = mounts.filter(|mount| dir.starts_with(&mount.mount_point));
    holder.max_by_key(|mount| mount.mount_point.as_os_str().len())
}

/// The device under a directory, with its file system, whether it turns, and its scheduler, such as `ext4 at
/// / on vda, not rotational, scheduler none`.
fn disk(dir: &Path) -> String {
    let Some(mount) = mount(dir) else { return "unknown".to_owned() };
    let text = file_system(dir);
    let source = mount.mount_source.unwrap_or_default();
    let Some(name) = source.strip_prefix("/dev/") else { return text };
    // A partition has its disk's queue.
    let block = fs::canonicalize(Path::new("/sys/class/block").join(name)).unwrap_or_default();
    let queues = [Some(block.as_path()), block.parent()].into_iter().flatten().map(|dir| dir.join("queue"));
    let queue = queues.into_iter().find(|queue| queue.is_dir()).unwrap_or_default();
    let of = |file: &str| fs::read_to_string(queue.join(file)).unwrap_or_default();
    let turns = match of("rotational").trim() {
        "0" => ", not rotational",
        "1" => ", rotational",
        _ => "",
    };
    let scheduler = of("scheduler");
    let scheduler = match chosen(scheduler.trim()) {
        "" => String::new(),
        word => format!(", scheduler {word}"),
    };
    format!("{text} on {name}{turns}{scheduler}")
}

/// True for file systems that keep files in memory, where an fsync costs nothing and shows nothing.
pub fn is_in_memory(file_system: &str) -> bool {
    file_system.starts_with("tmpfs") || file_system.starts_with("ramfs")
}

/// The reason for which nothing can be read from a disk there, if the files are in memory.
pub(crate) fn no_disk(file_system: &str) -> Option<String> {
    let why = || format!("files in memory are not read from a disk: --dir names one ({file_system})");
    is_in_memory(file_system).then(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_its_file_systems_have_names() {
        let machine = Machine::look(Path::new("/"));
        assert!(!machine.disk.is_empty());
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20);
        assert_ne!(file_system(Path::new("/")), "unknown");
        assert_eq!(["always [madvise] never", "none"].map(chosen), ["madvise", "none"]);
        assert!(check_huge_pages(2 << 20, 4 << 20).is_ok() && check_huge_pages(0, 2 << 20).is_err());
        assert!(file_system(Path::new("/proc/self")).starts_with("proc at /proc"));
    }
}
