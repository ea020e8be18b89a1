//! The files as a mounted file system, by FUSE.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
    WriteFlags,
};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::files::{self, Files, Survival};
use crate::error::{IoContext, Result};
use crate::interrupt::Leftover;
use crate::process::output_of;

/// The kernel asks again each time, because a loss of power changes the answers.
const TTL: Duration = Duration::ZERO;

/// Threads that answer the kernel, so that one sync does not wait for another's write.
const THREADS: usize = 2;

/// The flags of `fallocate` that keep the length, that clear, and that clear and may make longer.
const KEEP_SIZE: i32 = 1;
const PUNCH_HOLE: i32 = 2;
const ZERO_RANGE: i32 = 16;

/// Checks that this process may mount such a disk; the reason if it may not.
pub fn is_available() -> std::result::Result<(), String> {
    let device = Path::new("/dev/fuse");
    match std::fs::File::options().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{} cannot be used: {error}", device.display())),
    }
}

/// Unanswered syncs, while the disk hangs; `None` while it does not.
type Held = Arc<Mutex<Option<Vec<(u64, ReplyEmpty)>>>>;

/// A mounted disk; dropping it, or a second signal, unmounts it.
pub struct PowerDisk {
    files: Arc<Mutex<Files>>,
    held: Held,
    rng: SmallRng,
    /// Declared before the session, which answers until then.
    _unmounted: Leftover,
    _session: BackgroundSession,
}

impl PowerDisk {
    /// Mounts an empty disk at a directory. Without `syncs` it only says that it syncs.
    pub fn mount(path: &Path, syncs: bool, seed: u64) -> Result<PowerDisk> {
        let files = Arc::new(Mutex::new(Files::new(syncs)));
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("tarn-power".to_owned()), MountOption::NoAtime, MountOption::NoSuid];
        config.n_threads = Some(THREADS);
        let held = Held::default();
        let own = path.to_owned();
        let (session, unmounted) = Leftover::made(|| -> Result<_> {
            let session = fuser::spawn_mount(Mounted(files.clone(), held.clone()), path, &config)
                .doing(|| format!("mount a disk that loses power at {}", path.display()))?;
            let take_away = move || {
                if let Err(error) = unmount(&own) {
                    tell!("{} could not be unmounted: {error}", own.display());
                }
            };
            Ok((session, take_away))
        })?;
        let rng = SmallRng::seed_from_u64(seed);
        Ok(PowerDisk { files, held, rng, _unmounted: unmounted, _session: session })
    }

    /// Makes all that is there durable, also on a disk whose syncs do nothing.
    pub fn keep_all(&self) {
        lock(&self.files).keep_all();
    }

    /// Lets no sync end from now on; everything else continues.
    pub fn hold_syncs(&self) {
        lock(&self.held).get_or_insert_default();
    }

    /// Lets those end that were held, and all others.
    pub fn release_syncs(&self) {
        for (number, reply) in lock(&self.held).take().into_iter().flatten() {
            done(lock(&self.files).sync(number), reply);
        }
    }

    /// Power is lost: every call fails.
    pub fn cut(&self) {
        lock(&self.files).cut();
    }

    /// Power is back.
    ///
    /// REQUIRES: no file of it is open.
    pub fn restore(&mut self, survival: Survival) {
        lock(&self.files).restore(survival, &mut self.rng);
    }
}

impl Drop for PowerDisk {
    fn drop(&mut self) {
        self.release_syncs();
    }
}

/// Unmounts a disk, also while a process that was killed still has files open. Who is not root has the
/// program of FUSE.
fn unmount(path: &Path) -> Result<()> {
    let by = |program: &str, words: &[&str]| output_of(Command::new(program).args(words).arg(path), program);
    let helper = |program: &str| by(program, &["-u", "-z"]);
    by("umount", &["-l"]).or_else(|_| helper("fusermount3")).or_else(|_| helper("fusermount")).map(|_| ())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Mounted(Arc<Mutex<Files>>, Held);

fn attributes(number: u64, len: Option<u64>) -> FileAttr {
    let (kind, perm) =
        if len.is_some() { (FileType::RegularFile, 0o644) } else { (FileType::Directory, 0o755) };
    FileAttr {
        ino: INodeNo(number),
        size: len.unwrap_or(0),
        blocks: len.unwrap_or(0).div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: 1,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

impl Mounted {
    fn sync(&self, number: u64, reply: ReplyEmpty) {
        match &mut *lock(&self.1) {
            Some(held) => held.push((number, reply)),
            None => done(lock(&self.0).sync(number), reply),
        }
    }

    fn attributes(&self, number: u64) -> files::Result<FileAttr> {
        Ok(attributes(number, lock(&self.0).len(number)?))
    }

    fn entry(&self, made: files::Result<u64>, reply: ReplyEntry) {
        match made.and_then(|number| self.attributes(number)) {
            Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
            Err(errno) => reply.error(errno),
        }
    }
}

fn done(done: files::Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Mounted {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = lock(&self.0).find(parent.0, name);
        self.entry(found, reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(ino.0) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<std::time::SystemTime>,
        _: Option<FileHandle>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<std::time::SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = size.map_or(Ok(()), |size| lock(&self.0).set_len(ino.0, size));
        match set.and_then(|()| self.attributes(ino.0)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made = lock(&self.0).create(parent.0, name, true);
        self.entry(made, reply);
    }

    fn create(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let made = lock(&self.0).create(parent.0, name, false);
        match made.and_then(|number| self.attributes(number)) {
            Ok(attributes) => {
                reply.created(&TTL, &attributes, Generation(0), FileHandle(0), FopenFlags::empty());
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(lock(&self.0).remove(parent.0, name, false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        done(lock(&self.0).remove(parent.0, name, true), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replaces = !flags.contains(RenameFlags::RENAME_NOREPLACE);
        if flags.contains(RenameFlags::RENAME_EXCHANGE) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        done(lock(&self.0).rename((parent.0, name), (newparent.0, newname), replaces), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, newparent: INodeNo, newname: &OsStr, reply: ReplyEntry) {
        let linked = lock(&self.0).link(ino.0, newparent.0, newname);
        self.entry(linked.map(|()| ino.0), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match lock(&self.0).len(ino.0) {
            Ok(_) => reply.opened(FileHandle(0), FopenFlags::empty()),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match lock(&self.0).read(ino.0, offset, size as usize) {
            Ok(bytes) => reply.data(bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match lock(&self.0).write(ino.0, offset, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close makes nothing durable.
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino.0, reply);
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.sync(ino.0, reply);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let mut files = lock(&self.0);
        let names = match files.list(ino.0) {
            Ok(names) => names,
            Err(errno) => return reply.error(errno),
        };
        for (index, (name, child)) in names.into_iter().enumerate().skip(offset as usize) {
            let is_file = files.len(child).is_ok_and(|len| len.is_some());
            let kind = if is_file { FileType::RegularFile } else { FileType::Directory };
            if reply.add(INodeNo(child), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // A terabyte, nearly free.
        let blocks = 1 << 28;
        reply.statfs(blocks, blocks - 1, blocks - 1, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode & !(KEEP_SIZE | PUNCH_HOLE | ZERO_RANGE) != 0 {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (extends, clears) = (mode & KEEP_SIZE == 0, mode & (PUNCH_HOLE | ZERO_RANGE) != 0);
        done(lock(&self.0).zero(ino.0, offset, length, extends, clears), reply);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_disk_that_is_in_use_without_power_is_unmounted() {
        if let Err(why) = is_available() {
            tell!("SKIPPED: {why}");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let is_mounted = || {
            let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
            mounts.lines().any(|line| line.split(' ').nth(1) == dir.path().to_str())
        };
        let disk = PowerDisk::mount(dir.path(), true, 1).unwrap();
        let file = std::fs::File::create(dir.path().join("open")).unwrap();
        assert!(is_mounted());
        disk.cut();
        unmount(dir.path()).unwrap();
        assert!(!is_mounted());
        drop((file, disk));
        let disk = PowerDisk::mount(dir.path(), true, 1).unwrap();
        assert!(is_mounted());
        drop(disk);
        assert!(!is_mounted());
    }
}
