//! A place to swap to, which goes away with its guard: a file, or a device of compressed memory. Both need
//! root.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{IoContext, LabError, Result};
use crate::process::output_of;

/// The names of swap files begin with this.
const PREFIX: &str = "tarn-lab-swap-";
/// Where the devices of compressed memory are.
const DEVICES: &str = "/sys/block";
/// All that the machine swaps to.
const SWAPS: &str = "/proc/swaps";
/// It is used before any that the machine has.
const PRIORITY: &str = "100";

/// A place to swap to. Dropping it brings back what was swapped out, and removes it.
#[derive(Debug)]
pub struct Swap {
    path: PathBuf,
    kind: Kind,
    is_on: bool,
}

#[derive(Debug)]
enum Kind {
    /// A file, which is locked as long as the laboratory runs.
    File { _lock: File },
    /// A device, whose controls are in this directory.
    Zram { controls: PathBuf },
}

impl Swap {
    /// Swaps to a new file in a directory. Swap files in it of laboratories that have ended go away before.
    pub fn file(dir: &Path, bytes: u64) -> Result<Swap> {
        need_root()?;
        let dir = dir.canonicalize().at(dir)?;
        remove_left_behind(&dir)?;
        let path = dir.join(format!("{PREFIX}{:x}", rand::random::<u64>()));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).at(&path)?;
        let place = || format!("reserve {} MB for swapping in {}", bytes >> 20, dir.display());
        let reserved = file
            .try_lock()
            .at(&path)
            .and_then(|()| fallocate(&file, FallocateFlags::empty(), 0, bytes).doing(place));
        let swap = Swap { path, kind: Kind::File { _lock: file }, is_on: false };
        reserved?;
        swap.turned_on()
    }

    /// Swaps to a device of compressed memory that nobody uses.
    pub fn zram(bytes: u64) -> Result<Swap> {
        need_root()?;
        let controls = free_device(Path::new(DEVICES))
            .ok_or_else(|| LabError::Missing("no device of zram is free: modprobe zram".to_owned()))?;
        let path = Path::new("/dev").join(controls.file_name().unwrap_or_default());
        let size = controls.join("disksize");
        let swap = Swap { path, kind: Kind::Zram { controls }, is_on: false };
        fs::write(&size, bytes.to_string()).at(size)?;
        swap.turned_on()
    }

    fn turned_on(mut self) -> Result<Swap> {
        run(Command::new("mkswap").arg(&self.path))?;
        run(Command::new("swapon").args(["--priority", PRIORITY]).arg(&self.path))?;
        self.is_on = true;
        Ok(self)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        let off = if self.is_on { swap_off(&self.path) } else { Ok(()) };
        let removed = off.and_then(|()| match &self.kind {
            Kind::File { .. } => fs::remove_file(&self.path).at(&self.path),
            Kind::Zram { controls } => fs::write(controls.join("reset"), "1").at(controls),
        });
        if let Err(error) = removed {
            eprintln!("{} could not be removed: {error}", self.path.display());
        }
    }
}

fn need_root() -> Result<()> {
    let is_root = rustix::process::geteuid().is_root();
    if is_root { Ok(()) } else { Err(LabError::Missing("only root may make a place to swap to".to_owned())) }
}

/// Runs a program apart from the laboratory's process group, so that Ctrl-C ends neither.
fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    output_of(command.process_group(0), &name).map(|_| ())
}

fn swap_off(path: &Path) -> Result<()> {
    run(Command::new("swapoff").arg(path))
}

/// The controls of a device without a size: nobody uses it.
fn free_device(devices: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("zram"));
    let is_free =
        |dir: &PathBuf| fs::read_to_string(dir.join("disksize")).is_ok_and(|size| size.trim() == "0");
    named.map(|entry| entry.path()).find(is_free)
}

/// Turns off and removes the swap files in a directory whose laboratory has ended, as after `SIGKILL`: nobody
/// has them locked.
fn remove_left_behind(dir: &Path) -> Result<()> {
    for entry in fs::read_dir(dir).at(dir)?.flatten() {
        let path = entry.path();
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && File::open(&path).is_ok_and(|file| file.try_lock().is_ok()) {
            let swaps = fs::read_to_string(SWAPS).unwrap_or_default();
            if swaps.lines().any(|line| line.split(' ').next() == path.to_str()) {
                swap_off(&path)?;
            }
            fs::remove_file(&path).at(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const BYTES: u64 = 1 << 20;

    fn is_on(path: &Path) -> bool {
        fs::read_to_string(SWAPS).unwrap().lines().any(|line| line.starts_with(path.to_str().unwrap()))
    }

    #[test]
    fn a_swap_file_goes_away_with_its_guard_and_one_that_was_left_before() {
        let dir = tempfile::tempdir().unwrap();
        let Ok(swap) = Swap::file(dir.path(), BYTES) else {
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "what failed leaves no file");
            return;
        };
        let path = swap.path.clone();
        assert!(is_on(&path));
        // One that is in use stays. One that is not goes away, turned off first.
        let second = Swap::file(dir.path(), BYTES).unwrap();
        assert!(is_on(&path) && is_on(&second.path));
        drop(second);
        let left = dir.path().join(format!("{PREFIX}left"));
        let file = File::create(&left).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, BYTES).unwrap();
        drop(file);
        run(Command::new("mkswap").arg(&left)).unwrap();
        run(Command::new("swapon").arg(&left)).unwrap();
        drop(Swap::file(dir.path(), BYTES).unwrap());
        assert!(!is_on(&left) && !left.exists() && is_on(&path));
        drop(swap);
        assert!(!is_on(&path));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Swap::file(dir.path(), 1 << 60).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_device_without_a_size_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let device = |name: &str, size: &str| {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("disksize"), size).unwrap();
        };
        device("vda", "0\n");
        device("zram0", "1048576\n");
        assert_eq!(free_device(dir.path()), None);
        device("zram1", "0\n");
        assert_eq!(free_device(dir.path()), Some(dir.path().join("zram1")));
    }
}
