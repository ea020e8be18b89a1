//! The description of the machine that a run took place on, as every JSON line contains it.

use std::fs;
use std::path::Path;

use procfs::process::Process;
use procfs::{CpuInfo, Current, Meminfo};
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
        let processor = CpuInfo::current().ok().and_then(|cores| processor(&cores));
        let memory = Meminfo::current().map_or(0, |memory| memory.mem_total);
        let name = rustix::system::uname();
        Machine {
            processor: processor.unwrap_or_else(|| "unknown".to_owned()),
            cores: crate::process::cores_allowed().len(),
            memory_bytes: memory,
            system: format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy()),
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

/// The kind of file system that holds a directory, and where it is mounted, such as `ext4 at /`.
pub fn file_system(dir: &Path) -> String {
    let dir = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let mounts = Process::myself().and_then(|own| own.mountinfo()).into_iter().flatten();
    let holder = mounts.filter(|mount| dir.starts_with(&mount.mount_point));
    match holder.max_by_key(|mount| mount.mount_point.as_os_str().len()) {
        Some(mount) => format!("{} at {}", mount.fs_type, mount.mount_point.display()),
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
