//! A place to swap to, which goes away with its guard: a file, or a device of compressed memory. Both need
//! root.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FallocateFlags, fallocate};

use crate::error::{IoContext, LabError, Result};
use crate::interrupt::{Leftover, undisturbed};
use crate::process::output_of;

/// The names of swap files begin with this.
const PREFIX: &str = "tarn-lab-swap-";
/// Where the devices of compressed memory are.
const DEVICES: &str = "/sys/block";
/// All that the machine swaps to.
const SWAPS: &str = "/proc/swaps";
/// It is used before any that the machine has.
const PRIORITY: &str = "100";

/// A place to swap to. Dropping it, or a second signal, brings back what was swapped out, and removes it.
#[derive(Debug)]
pub struct Swap {
    _removed: Leftover,
    /// A file is locked as long as the laboratory runs.
    _lock: Option<File>,
}

impl Swap {
    /// Swaps to a new file in a directory. Swap files of laboratories that have ended go away before: those
    /// in the directory, and wherever they are those that are still swapped to.
    pub fn file(dir: &Path, bytes: u64) -> Result<Swap> {
        need_root()?;
        let dir = dir.canonicalize().at(dir)?;
        remove_left_behind(&dir)?;
        let (path, file, removed) = reserve(&dir, bytes)?;
        turn_on(&path)?;
        Ok(Swap { _removed: removed, _lock: Some(file) })
    }

    /// Swaps to a device of compressed memory that nobody uses.
    pub fn zram(bytes: u64) -> Result<Swap> {
        need_root()?;
        let (path, removed) = Leftover::made(|| -> Result<_> {
            let controls = take_device(Path::new(DEVICES), |size| fs::write(size, bytes.to_string()))?;
            let path = Path::new("/dev").join(controls.file_name().unwrap_or_default());
            let own = path.clone();
            Ok((path, move || say(&own, reset(&own, &controls))))
        })?;
        turn_on(&path)?;
        Ok(Swap { _removed: removed, _lock: None })
    }
}

/// A new file of this size, which is locked, with its guard.
fn reserve(dir: &Path, bytes: u64) -> Result<(PathBuf, File, Leftover)> {
    let path = dir.join(format!("{PREFIX}{:x}", rand::random::<u64>()));
    let own = path.clone();
    let (file, removed) = Leftover::made(|| -> Result<_> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).at(&path)?;
        Ok((file, move || say(&own, remove_file(&own))))
    })?;
    file.try_lock().at(&path)?;
    let place = || format!("reserve {} MB for swapping in {}", bytes >> 20, dir.display());
    fallocate(&file, FallocateFlags::empty(), 0, bytes).doing(place)?;
    Ok((path, file, removed))
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

/// Turns a place on, and lets no second signal come in between.
fn turn_on(path: &Path) -> Result<()> {
    undisturbed(|| {
        run(Command::new("mkswap").arg(path))?;
        run(Command::new("swapon").args(["--priority", PRIORITY]).arg(path))
    })
}

/// Turns a place off, if it is on.
fn turn_off(path: &Path) -> Result<()> {
    let swaps = fs::read(SWAPS).unwrap_or_default();
    if paths(&swaps).iter().any(|own| own == path) { run(Command::new("swapoff").arg(path)) } else { Ok(()) }
}

fn remove_file(path: &Path) -> Result<()> {
    turn_off(path)?;
    if path.exists() { fs::remove_file(path).at(path) } else { Ok(()) }
}

fn reset(path: &Path, controls: &Path) -> Result<()> {
    turn_off(path)?;
    fs::write(controls.join("reset"), "1").at(controls)
}

/// Says that something stays, if it does.
fn say(path: &Path, removed: Result<()>) {
    if let Err(error) = removed {
        tell!("{} could not be removed: {error}", path.display());
    }
}

/// The paths in `/proc/swaps`: the first word of each line but the first, with blanks and backslashes as
/// octal numbers.
fn paths(swaps: &[u8]) -> Vec<PathBuf> {
    let words = swaps.split(|byte| *byte == b'\n').skip(1).filter_map(|line| {
        let word = line.split(|byte| byte.is_ascii_whitespace()).next()?;
        (!word.is_empty()).then_some(word)
    });
    words.map(|word| OsString::from_vec(unescaped(word)).into()).collect()
}

/// Bytes with `\040` and the like as the byte that they stand for.
fn unescaped(mut word: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let [first, rest @ ..] = word {
        let octal = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok();
        match (*first, rest.get(..3).and_then(octal)) {
            (b'\\', Some(byte)) => {
                bytes.push(byte);
                word = &rest[3..];
            }
            _ => {
                bytes.push(*first);
                word = rest;
            }
        }
    }
    bytes
}

/// Gives a size to a device that has none, as nobody uses it. The kernel lets only one do so: from then on
/// the device is the laboratory's. Returns its controls.
fn take_device(devices: &Path, give: impl Fn(&Path) -> io::Result<()>) -> Result<PathBuf> {
    let entries = fs::read_dir(devices).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("zram"));
    let mut why = "no device of zram is free: modprobe zram".to_owned();
    for controls in named.map(|entry| entry.path()) {
        let size = controls.join("disksize");
        if fs::read_to_string(&size).is_ok_and(|size| size.trim() == "0") {
            match give(&size) {
                Ok(()) => return Ok(controls),
                // Somebody else took it meanwhile, or there is no memory for so large a one.
                Err(error) => why = format!("{}: {error}", size.display()),
            }
        }
    }
    Err(LabError::Missing(why))
}

/// Turns off and removes the swap files of laboratories that have ended, as after `SIGKILL`, in a directory
/// and among all that are swapped to: nobody has them locked.
fn remove_left_behind(dir: &Path) -> Result<()> {
    let mut files = paths(&fs::read(SWAPS).unwrap_or_default());
    files.extend(fs::read_dir(dir).at(dir)?.flatten().map(|entry| entry.path()));
    files.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX)));
    files.sort();
    files.dedup();
    for path in files {
        let Ok(file) = File::open(&path) else { continue };
        // Locked until it is gone: another laboratory may look for such files at this moment.
        if file.try_lock().is_ok() {
            remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    const BYTES: u64 = 1 << 20;

    /// Tests that make places to swap to are alone: each removes those of nobody.
    pub(crate) fn alone() -> MutexGuard<'static, ()> {
        static ALONE: Mutex<()> = Mutex::new(());
        ALONE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn files(dir: &Path) -> Vec<PathBuf> {
        let mut files: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }

    fn is_on(path: &Path) -> bool {
        paths(&fs::read(SWAPS).unwrap()).iter().any(|own| own == path)
    }

    /// A file that can be swapped to, with the programs of the system alone.
    fn swapped_to(path: &Path) -> Result<()> {
        let count = format!("count={}", BYTES >> 10);
        let to = format!("of={}", path.display());
        run(Command::new("dd").args(["if=/dev/zero", "bs=1k", "conv=fsync", &count, &to]))?;
        run(Command::new("mkswap").arg(path))?;
        run(Command::new("swapon").arg(path))
    }

    /// True if the machine lets this process swap to a file in a directory. Otherwise it says so: the reader
    /// must not believe that it was tested.
    pub(crate) fn may_swap(dir: &Path) -> bool {
        let path = dir.join("probe");
        let on = swapped_to(&path).and_then(|()| run(Command::new("swapoff").arg(&path)));
        let _ = fs::remove_file(&path);
        if let Err(why) = &on {
            tell!("SKIPPED: the machine cannot swap to a file here: {why}");
        }
        on.is_ok()
    }

    #[test]
    fn a_swap_file_goes_away_with_its_guard_and_one_that_was_left_before() {
        let (_alone, dir) = (alone(), tempfile::tempdir().unwrap());
        if !may_swap(dir.path()) {
            assert!(Swap::file(dir.path(), BYTES).is_err());
            assert!(files(dir.path()).is_empty(), "what failed leaves no file");
            return;
        }
        let [here, elsewhere] = ["a b", "else where"].map(|name| dir.path().join(name));
        [&here, &elsewhere].iter().for_each(|dir| fs::create_dir(dir).unwrap());
        let swap = Swap::file(&here, BYTES).unwrap();
        let first = files(&here);
        assert!(first.len() == 1 && is_on(&first[0]));
        // One that is in use stays.
        let second = Swap::file(&here, BYTES).unwrap();
        assert!(files(&here).len() == 2 && files(&here).iter().all(|path| is_on(path)));
        drop(second);
        assert_eq!(files(&here), first);
        // One that is not goes away, turned off first, here and elsewhere.
        let left = [&here, &elsewhere].map(|dir| dir.join(format!("{PREFIX}left")));
        left.iter().for_each(|path| swapped_to(path).unwrap());
        fs::write(here.join(format!("{PREFIX}off")), "").unwrap();
        assert!(left.iter().all(|path| is_on(path)));
        drop(Swap::file(&here, BYTES).unwrap());
        assert!(left.iter().all(|path| !is_on(path) && !path.exists()));
        assert!(files(&here) == first && is_on(&first[0]));
        drop(swap);
        assert!(!is_on(&first[0]) && files(&here).is_empty());
    }

    #[test]
    fn a_free_device_is_swapped_to_and_is_free_again() {
        let _alone = alone();
        let size = Path::new(DEVICES).join("zram0/disksize");
        let is_free = || fs::read_to_string(&size).is_ok_and(|size| size.trim() == "0");
        if !rustix::process::geteuid().is_root() || !is_free() {
            tell!("SKIPPED: there is no free device of zram for this process");
            return;
        }
        let (swap, path) = (Swap::zram(16 << 20).unwrap(), Path::new("/dev/zram0"));
        assert!(is_on(path) && !is_free());
        drop(swap);
        assert!(!is_on(path) && is_free());
    }

    #[test]
    fn paths_with_blanks_are_read_as_they_are() {
        let swaps = b"Filename\t\tType\tSize\tUsed\tPriority\n\
            /a\\040b/c\\134d                 file\t1024\t0\t-2\n/dev/zram0 partition 1 0 100\n";
        assert_eq!(paths(swaps), [Path::new("/a b/c\\d"), Path::new("/dev/zram0")]);
        assert_eq!(unescaped(b"\\04"), b"\\04");
    }

    #[test]
    fn a_file_that_does_not_fit_is_refused_and_removed() {
        let (_alone, dir) = (alone(), tempfile::tempdir().unwrap());
        // Without root, too.
        let refused = reserve(dir.path(), 1 << 60).unwrap_err().to_string();
        assert!(refused.starts_with("reserve 1099511627776 MB for swapping in "), "{refused}");
        assert!(files(dir.path()).is_empty());
    }

    #[test]
    fn a_device_is_taken_that_has_no_size_and_that_nobody_took_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let device = |name: &str, size: &str| {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("disksize"), size).unwrap();
        };
        let fine = |_: &Path| Ok(());
        device("vda", "0\n");
        device("zram0", "1048576\n");
        assert!(take_device(dir.path(), fine).is_err());
        device("zram1", "0\n");
        device("zram2", "0\n");
        let zram2 = dir.path().join("zram2");
        let of_another = |size: &Path| {
            if size.starts_with(&zram2) { Ok(()) } else { Err(io::ErrorKind::ResourceBusy.into()) }
        };
        assert_eq!(take_device(dir.path(), of_another).unwrap(), zram2);
        let busy = |_: &Path| Err(io::ErrorKind::ResourceBusy.into());
        assert!(take_device(dir.path(), busy).unwrap_err().to_string().contains("disksize: "));
    }
}
