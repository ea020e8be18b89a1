//! A limit on the memory of a server, its page cache among it: a control group of its own, below the one that
//! the laboratory runs in, so that whatever bounds the laboratory bounds the server too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use crate::error::{IoContext, Result};

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// A group empties a moment after its last process has ended.
const REMOVALS: u32 = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A control group with a limit. Dropping it removes it; its processes must have ended.
#[derive(Debug)]
pub struct MemoryLimit {
    dir: PathBuf,
}

/// The files of a version of control groups.
struct Version {
    /// The group that the laboratory runs in.
    own: PathBuf,
    /// The file that has the limit.
    limit: &'static str,
}

impl MemoryLimit {
    /// Makes a group that may have this many bytes. Swapping stays allowed, where there is any. `Err` has the
    /// reason why this machine does not permit it.
    pub fn make(bytes: u64) -> std::result::Result<MemoryLimit, String> {
        let version = version().ok_or("no control group for memory is mounted")?;
        let dir = version.own.join(format!("tarn-lab-{}-{:x}", std::process::id(), rand::random::<u32>()));
        let refused = |error: io::Error| format!("{}: {error}", version.own.display());
        fs::create_dir(&dir).map_err(refused)?;
        let limit = MemoryLimit { dir };
        let file = limit.dir.join(version.limit);
        // Version 2 shows the file only where the parent gives memory to its children.
        fs::write(&file, bytes.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(limit)
    }

    /// Puts a process into the group, and the processes that it starts from now on.
    pub fn admit(&self, pid: u32) -> Result<()> {
        let path = self.dir.join("cgroup.procs");
        fs::write(&path, pid.to_string()).at(path)
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.dir) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => sleep(REMOVAL_PAUSE),
                // It has been removed, or was never there.
                _ => return,
            }
        }
        eprintln!("{} could not be removed", self.dir.display());
    }
}

fn version() -> Option<Version> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    own_group(&own, Path::new(ROOT)).filter(|version| version.own.is_dir())
}

/// The group that lines like `4:memory:/some/group` or `0::/some/group` name.
fn own_group(lines: &str, root: &Path) -> Option<Version> {
    let fields = || lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let below = |root: PathBuf, path: &str| root.join(path.trim_start_matches('/'));
    let first = fields().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = first {
        return Some(Version { own: below(root.join("memory"), path), limit: "memory.limit_in_bytes" });
    }
    let (_, path) = fields().find(|(names, _)| names.is_empty())?;
    Some(Version { own: below(root.to_owned(), path), limit: "memory.max" })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_own_group_is_found_in_both_versions() {
        let root = Path::new("/groups");
        let first = own_group("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n", root).unwrap();
        assert_eq!((first.own, first.limit), (PathBuf::from("/groups/memory/a/b"), "memory.limit_in_bytes"));
        let second = own_group("0::/user.slice/x:y\n", root).unwrap();
        assert_eq!((second.own, second.limit), (PathBuf::from("/groups/user.slice/x:y"), "memory.max"));
        assert!(own_group("3:cpu:/\n", root).is_none());
    }

    #[test]
    fn a_group_goes_away_with_its_guard() {
        match MemoryLimit::make(64 << 20) {
            Ok(limit) => {
                let dir = limit.dir.clone();
                assert!(dir.is_dir());
                drop(limit);
                assert!(!dir.exists());
            }
            Err(why) => assert!(!why.is_empty()),
        }
    }
}
