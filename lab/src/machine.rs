//! The description of the machine that a run took place on, as every JSON line contains it.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// Facts about the machine.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that the laboratory may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Operating system and release.
    pub system: String,
}

impl Machine {
    /// Describes the machine that this runs on.
    pub fn look() -> Machine {
        let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let processor =
            processors.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
        let name = rustix::system::uname();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or("0");
        let kilobytes: u64 =
            memory.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0);
        Machine {
            processor: processor.trim_start_matches([' ', '\t', ':']).to_owned(),
            cores: crate::process::cores_allowed().len(),
            memory_bytes: kilobytes * 1024,
            system: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
        }
    }
}

/// The kind of file system that holds a directory, and where it is mounted, such as `ext4 at /`.
pub fn file_system(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let holder = mounts.lines().filter_map(|line| {
        // Fields: ids, device, root, mount point, options …, a lone dash, type, source, options.
        let point = line.split(' ').nth(4)?;
        let kind = line.split(" - ").nth(1)?.split(' ').next()?;
        dir.starts_with(point).then_some((point, kind))
    });
    match holder.max_by_key(|(point, _)| point.len()) {
        Some((point, kind)) => format!("{kind} at {point}"),
        None => "unknown".to_owned(),
    }
}

/// True for file systems that keep files in memory, where an fsync costs nothing and shows nothing.
pub fn is_in_memory(file_system: &str) -> bool {
    file_system.starts_with("tmpfs") || file_system.starts_with("ramfs")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_its_file_systems_have_names() {
        let machine = Machine::look();
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20);
        assert_ne!(file_system(Path::new("/")), "unknown");
        assert!(file_system(Path::new("/proc/self")).starts_with("proc at /proc"));
    }
}
