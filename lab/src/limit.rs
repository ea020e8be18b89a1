//! A limit on the memory of a server, its page cache among it: a control group of its own. Of version 1 it
//! lies below the group of the laboratory, so that whatever bounds the laboratory bounds the server too. Of
//! version 2 a group with processes gives no memory to its children, so that the server's lies below one that
//! is above, as a rule beside the laboratory's: what bounds that one alone does not bound the server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{IoContext, Result};
use crate::interrupt::Leftover;

/// Where control groups are mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// The names of groups begin with this; then comes the process of the laboratory.
const PREFIX: &str = "tarn-lab-";
/// A group empties a moment after its last process has ended, which may have gigabytes to give back.
const REMOVALS: u32 = 500;
const REMOVAL_PAUSE: Duration = Duration::from_millis(20);

/// A control group with a limit. Dropping it, or a second signal, removes it, and ends the processes that are
/// left in it.
#[derive(Debug)]
pub struct MemoryLimit {
    dir: PathBuf,
    files: Files,
    _removed: Leftover,
}

/// The files of a version of control groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Files {
    /// The one that has the limit.
    limit: &'static str,
    /// The one that counts the processes that the kernel ended at the limit.
    kills: &'static str,
    /// The one that has the bytes that are swapped out.
    swapped: &'static str,
}

const FIRST: Files =
    Files { limit: "memory.limit_in_bytes", kills: "memory.oom_control", swapped: "memory.stat" };
const SECOND: Files = Files { limit: "memory.max", kills: "memory.events", swapped: "memory.swap.current" };

impl MemoryLimit {
    /// Makes a group that may have this many bytes. Swapping stays allowed, where there is any. `Err` has the
    /// reason why this machine does not permit it.
    pub fn make(bytes: u64) -> std::result::Result<MemoryLimit, String> {
        let lines = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let (parent, files) = parent(&lines, Path::new(ROOT))?;
        remove_left_behind(&parent);
        let dir = parent.join(format!("{PREFIX}{}-{:x}", std::process::id(), rand::random::<u32>()));
        let own = dir.clone();
        let ((), removed) = Leftover::made(|| {
            let made = fs::create_dir(&dir).map_err(|error| format!("{}: {error}", parent.display()));
            made.map(|()| ((), move || remove(&own)))
        })?;
        let limit = MemoryLimit { dir, files, _removed: removed };
        let file = limit.dir.join(files.limit);
        fs::write(&file, bytes.to_string()).map_err(|error| format!("{}: {error}", file.display()))?;
        Ok(limit)
    }

    /// Puts a process into the group, and the processes that it starts from now on. Memory that it has
    /// already stays with the group that it leaves.
    pub fn admit(&self, pid: u32) -> Result<()> {
        let path = self.dir.join("cgroup.procs");
        fs::write(&path, pid.to_string()).at(path)
    }

    /// The processes that the kernel has ended because the group needed more than its limit.
    pub fn kills(&self) -> u64 {
        self.count(self.files.kills, "oom_kill")
    }

    /// Bytes of the group that are swapped out; 0 where they are not counted.
    pub fn swapped_bytes(&self) -> u64 {
        self.count(self.files.swapped, "swap")
    }

    fn count(&self, file: &str, name: &str) -> u64 {
        fs::read_to_string(self.dir.join(file)).map_or(0, |text| number(&text, name))
    }
}

/// Removes a group, and ends the processes in it.
fn remove(dir: &Path) {
    for _ in 0..REMOVALS {
        match fs::remove_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                end_all(dir);
                sleep(REMOVAL_PAUSE);
            }
            // It has been removed, or was never there.
            _ => return,
        }
    }
    tell!("{} could not be removed", dir.display());
}

fn end_all(dir: &Path) {
    let pids = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    for pid in pids.lines().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// The number in lines like `name 12`, or that of a file with nothing else.
fn number(text: &str, name: &str) -> u64 {
    let named = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    named.unwrap_or(text).trim().parse().unwrap_or(0)
}

/// Removes the groups of laboratories that have ended without doing so, as after `SIGKILL`, and the
/// servers in them.
fn remove_left_behind(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&entry.path());
        }
    }
}

/// The process that made a group; `None` if no laboratory has made it.
fn owner(group: &str) -> Option<u32> {
    let (pid, random) = group.strip_prefix(PREFIX)?.split_once('-')?;
    u32::from_str_radix(random, 16).ok()?;
    pid.parse().ok()
}

/// The group below which that of a server is made, and its files: of version 1 the own one, which lines like
/// `4:memory:/some/group` name. Of version 2 (`0::/some/group`) it is the nearest from there upwards that
/// gives memory to its children.
fn parent(lines: &str, root: &Path) -> std::result::Result<(PathBuf, Files), String> {
    let fields = || lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let below = |root: &Path, path: &str| root.join(path.trim_start_matches('/'));
    let first = fields().find(|(names, _)| names.split(',').any(|name| name == "memory"));
    if let Some((_, path)) = first {
        let own = below(&root.join("memory"), path);
        let missing = || format!("{} is missing: no control groups are mounted", own.display());
        return if own.is_dir() { Ok((own, FIRST)) } else { Err(missing()) };
    }
    let second = fields().find(|(names, _)| names.is_empty()).ok_or("there are no control groups")?;
    let own = below(root, second.1);
    let gives = |dir: &&Path| {
        let names = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
        names.split_whitespace().any(|name| name == "memory")
    };
    let parent = own.ancestors().take_while(|dir| dir.starts_with(root)).find(gives);
    let missing = || format!("no control group from {} upwards gives memory to its children", own.display());
    parent.map(|dir| (dir.to_owned(), SECOND)).ok_or_else(missing)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// True if the machine lets this process make a group with memory of its own, in the simplest way.
    /// Otherwise it says so: the reader must not believe that it was tested.
    pub(crate) fn may_limit() -> bool {
        let makes = |dir: &Path| {
            let group = dir.join(format!("tarn-probe-{:x}", rand::random::<u64>()));
            let made = fs::create_dir(&group).is_ok();
            let has_limit = [FIRST, SECOND].iter().any(|files| group.join(files.limit).exists());
            // In another file system this is a plain directory.
            made & fs::remove_dir(&group).is_ok() & has_limit
        };
        let lines = fs::read_to_string("/proc/self/cgroup").unwrap();
        let may = lines.lines().filter_map(|line| line.split_once(':')?.1.split_once(':')).any(|own| {
            let (first, second) = (Path::new(ROOT).join("memory"), Path::new(ROOT));
            let below = |root: &Path| root.join(own.1.trim_start_matches('/'));
            let in_second = || below(second).ancestors().filter(|dir| dir.starts_with(second)).any(makes);
            if own.0.is_empty() {
                in_second()
            } else {
                own.0.split(',').any(|name| name == "memory") && makes(&below(&first))
            }
        });
        if !may {
            tell!("SKIPPED: this process may make no control group with memory");
        }
        may
    }

    #[test]
    fn only_names_that_a_laboratory_gives_are_its_own() {
        assert_eq!(owner("tarn-lab-12-ab3f"), Some(12));
        for name in ["tarn-lab-night.scope", "tarn-lab-12", "tarn-lab-12-night", "tarn-lab-x-ab", "12-ab"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn the_parent_of_a_group_is_found_in_both_versions() {
        let root = tempfile::tempdir().unwrap();
        let of = |lines: &str| parent(lines, root.path());
        let group = |path: &str, gives: &str| {
            let dir = root.path().join(path);
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("cgroup.subtree_control"), gives).unwrap();
            dir
        };
        let own = group("memory/a/b", "");
        assert_eq!(of("9:name=systemd:/\n4:cpu,memory:/a/b\n0::/\n"), Ok((own, FIRST)));
        assert!(of("4:memory:/a/c\n").unwrap_err().contains("/memory/a/c is missing"));
        assert!(of("3:cpu:/\n").is_err());

        group("user.slice/x:y", "cpu");
        assert!(of("0::/user.slice/x:y\n").unwrap_err().contains("x:y upwards gives memory"));
        let slice = group("user.slice", "cpu memory pids");
        assert_eq!(of("0::/user.slice/x:y\n"), Ok((slice, SECOND)));
        let own = group("user.slice/x:y", "memory");
        assert_eq!(of("0::/user.slice/x:y\n"), Ok((own, SECOND)));
    }

    #[test]
    fn counts_stand_alone_or_after_their_names() {
        let stat = "cache 1\nswapped 9\nswap 8192\ntotal_swap 3\n";
        assert_eq!((number(stat, "swap"), number("4096\n", "swap")), (8192, 4096));
        assert_eq!(number("low 0\noom 2\noom_kill 1\n", "oom_kill"), 1);
        assert_eq!(number("low 0\n", "oom_kill"), 0);
    }

    #[test]
    fn a_group_goes_away_with_its_guard_and_with_those_in_it() {
        if !may_limit() {
            assert!(MemoryLimit::make(64 << 20).is_err_and(|why| !why.is_empty()));
            return;
        }
        let limit = MemoryLimit::make(64 << 20).unwrap();
        let dir = limit.dir.clone();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        limit.admit(child.id()).unwrap();
        // One of a laboratory that has ended, with its server: no process has so high a number.
        let left = dir.with_file_name(format!("{PREFIX}999999999-0"));
        fs::create_dir(&left).unwrap();
        let mut server = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        fs::write(left.join("cgroup.procs"), server.id().to_string()).unwrap();
        let end_of_server = std::thread::spawn(move || server.wait().unwrap());
        let other = MemoryLimit::make(64 << 20).unwrap();
        assert!(dir.is_dir() && other.dir.is_dir() && !left.exists());
        assert!(!end_of_server.join().unwrap().success());
        // The process is left to the guard, and waited for beside it: before that it is in the group.
        let end = std::thread::spawn(move || child.wait().unwrap());
        drop(limit);
        assert!(!dir.exists() && !end.join().unwrap().success());
    }
}
