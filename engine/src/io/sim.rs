//! A simulated file system that forgets what a real one may forget. Everything follows from a seed and the
//! order of the calls.
//!
//! ```text
//!              write_at, set_len            sync_data
//!  program  --------------------> cache  -------------> device         each file
//!           create rename remove          sync_dir
//!           --------------------> names  -------------> device         each directory
//! ```
//!
//! A loss of power keeps the device and, of what only the cache had, whatever chance picks: each write since
//! the last sync is there, not there, or there in part (a prefix, or some of its sectors); of the changes of
//! names since the last `sync_dir` a prefix or any subset. A kill keeps everything. Faults strike by chance
//! or at a counted call: a write that is short or fails, a sync that fails and *forgets* (what it should have
//! made durable counts as clean from then on, as on Linux), a full disk, a rename that fails. After the call
//! at which the machine dies every call fails, until [`SimDisk::crash`] starts the next life.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult};

const SECTOR_BYTES: u64 = 512;

/// How the machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process ends; the operating system goes on and has everything that was written.
    Kill,
    /// The operating system ends too; what was not synced is at the mercy of chance.
    PowerLoss,
}

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A write takes only a part.
    ShortWrite,
    /// A write fails and may have written a part.
    WriteError,
    /// A sync fails; what it should have made durable is forgotten by the cache's bookkeeping and may never
    /// arrive.
    SyncError,
    /// Making, renaming or removing a name fails.
    NameError,
    /// The names of a directory are not synced, and stay unsynced.
    SyncDirError,
}

impl Fault {
    /// All of them.
    pub const ALL: [Fault; 5] =
        [Fault::ShortWrite, Fault::WriteError, Fault::SyncError, Fault::NameError, Fault::SyncDirError];
}

/// What goes wrong.
#[derive(Clone, Debug, Default)]
pub struct SimOptions {
    /// Of a thousand calls that a fault fits, so many have it.
    pub faults_per_mille: Vec<(Fault, u32)>,
    /// The machine dies at this call, counted from 1 over all calls that change something.
    pub crash_at: Option<u64>,
    /// Bytes that all files together may have.
    pub capacity_bytes: Option<u64>,
}

/// A simulated file system. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SimDisk {
    state: Arc<Mutex<SimState>>,
}

#[derive(Debug)]
struct SimState {
    options: SimOptions,
    rng: SmallRng,
    calls: u64,
    dead: bool,
    files: Vec<SimInode>,
    names: BTreeMap<PathBuf, usize>,
    device_names: BTreeMap<PathBuf, usize>,
    changes: Vec<NameChange>,
    directories: BTreeSet<PathBuf>,
    locked: BTreeSet<PathBuf>,
}

/// A file's bytes: as programs see them, as the device has them, and what lies between.
#[derive(Clone, Debug, Default)]
struct SimInode {
    cache: Vec<u8>,
    device: Vec<u8>,
    dirty: Vec<Dirty>,
    reserved: u64,
    /// How many syncs have failed; each handle hears of each failure once.
    failures: u64,
}

#[derive(Clone, Debug)]
enum Dirty {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

#[derive(Clone, Debug)]
enum NameChange {
    Set { path: PathBuf, file: usize },
    Rename { from: PathBuf, to: PathBuf, file: usize },
    Remove { path: PathBuf },
}

#[derive(Debug)]
struct SimFile {
    state: Arc<Mutex<SimState>>,
    path: PathBuf,
    file: usize,
    failures_seen: Mutex<u64>,
}

#[derive(Debug)]
struct SimLock {
    state: Arc<Mutex<SimState>>,
    path: PathBuf,
}

impl SimDisk {
    /// An empty file system.
    pub fn new(seed: u64, options: SimOptions) -> SimDisk {
        SimDisk { state: Arc::new(Mutex::new(SimState::new(seed, options))) }
    }

    /// Changes what goes wrong from now on.
    pub fn set_options(&self, options: SimOptions) {
        self.state.lock().options = options;
    }

    /// How many calls that change something there have been.
    pub fn calls(&self) -> u64 {
        self.state.lock().calls
    }

    /// Whether the machine has died at `crash_at`.
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// What is left when the machine dies now, for its next life. The old one answers every call with an
    /// error from then on.
    pub fn crash(&self, crash: Crash, seed: u64, options: SimOptions) -> SimDisk {
        let mut old = self.state.lock();
        old.dead = true;
        let mut new = SimState::new(seed, options);
        new.directories = old.directories.clone();
        let chance = &mut new.rng;
        let names = match crash {
            Crash::Kill => old.names.clone(),
            Crash::PowerLoss => surviving_names(&old, chance),
        };
        let mut files = Vec::new();
        for (path, file) in names {
            let inode = &old.files[file];
            let (device, dirty) = match crash {
                Crash::Kill => (inode.device.clone(), inode.dirty.clone()),
                Crash::PowerLoss => (surviving_bytes(inode, chance), Vec::new()),
            };
            let cache = if crash == Crash::Kill { inode.cache.clone() } else { device.clone() };
            files.push((path, SimInode { cache, device, dirty, reserved: 0, failures: 0 }));
        }
        for (index, (path, inode)) in files.into_iter().enumerate() {
            new.names.insert(path.clone(), index);
            if crash == Crash::PowerLoss || old.device_names.contains_key(&path) {
                new.device_names.insert(path, index);
            } else {
                new.changes.push(NameChange::Set { path, file: index });
            }
            new.files.push(inode);
        }
        SimDisk { state: Arc::new(Mutex::new(new)) }
    }

    /// The bytes of a file as programs see them, for tests that look or spoil.
    pub fn contents(&self, path: &Path) -> Option<Vec<u8>> {
        let state = self.state.lock();
        state.names.get(path).map(|file| state.files[*file].cache.clone())
    }

    /// Changes a byte of a file behind everybody's back, on the device too.
    pub fn spoil(&self, path: &Path, offset: usize, change: impl Fn(u8) -> u8) {
        let mut state = self.state.lock();
        let Some(file) = state.names.get(path).copied() else { return };
        let inode = &mut state.files[file];
        for bytes in [&mut inode.cache, &mut inode.device] {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = change(*byte);
            }
        }
    }

    /// Lets no call through while `during` runs.
    pub fn pause<T>(&self, during: impl FnOnce() -> T) -> T {
        let _state = self.state.lock();
        during()
    }

    /// The names of all files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.state.lock().names.keys().cloned().collect()
    }
}

/// Of the changes of names that no sync has covered: in half of the cases a prefix, else any subset.
fn surviving_names(old: &SimState, chance: &mut SmallRng) -> BTreeMap<PathBuf, usize> {
    let mut names = old.device_names.clone();
    let prefix = chance.random_bool(0.5).then(|| chance.random_range(0..=old.changes.len()));
    for (index, change) in old.changes.iter().enumerate() {
        let survives = match prefix {
            Some(count) => index < count,
            None => chance.random_bool(0.5),
        };
        if survives {
            change.apply(&mut names);
        }
    }
    names
}

/// What the device has, and of each write since the last sync all, nothing, or a part.
fn surviving_bytes(inode: &SimInode, chance: &mut SmallRng) -> Vec<u8> {
    let mut device = inode.device.clone();
    for dirty in &inode.dirty {
        match (dirty, chance.random_range(0..4)) {
            (_, 0) => {}
            (Dirty::Write { offset, bytes }, 1) => {
                let length = chance.random_range(0..=bytes.len());
                apply(&mut device, &Dirty::Write { offset: *offset, bytes: bytes[..length].to_vec() });
            }
            (Dirty::Write { offset, bytes }, 2) => {
                let mut at = 0;
                while at < bytes.len() {
                    let next_sector = (offset + at as u64 + 1).next_multiple_of(SECTOR_BYTES) - offset;
                    let end = bytes.len().min(next_sector as usize);
                    if chance.random_bool(0.5) {
                        let part =
                            Dirty::Write { offset: offset + at as u64, bytes: bytes[at..end].to_vec() };
                        apply(&mut device, &part);
                    }
                    at = end;
                }
            }
            (dirty, _) => apply(&mut device, dirty),
        }
    }
    device
}

fn apply(bytes: &mut Vec<u8>, change: &Dirty) {
    match change {
        Dirty::Write { offset, bytes: written } => {
            let (start, end) = (*offset as usize, *offset as usize + written.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(written);
        }
        Dirty::SetLen(length) => bytes.resize(*length as usize, 0),
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            NameChange::Set { path, file } => {
                names.insert(path.clone(), *file);
            }
            NameChange::Rename { from, to, file } => {
                names.remove(from);
                names.insert(to.clone(), *file);
            }
            NameChange::Remove { path } => {
                names.remove(path);
            }
        }
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            NameChange::Set { path, .. } | NameChange::Remove { path } => path.parent(),
            NameChange::Rename { to, .. } => to.parent(),
        }
    }
}

impl SimState {
    fn new(seed: u64, options: SimOptions) -> SimState {
        SimState {
            options,
            rng: SmallRng::seed_from_u64(seed),
            calls: 0,
            dead: false,
            files: Vec::new(),
            names: BTreeMap::new(),
            device_names: BTreeMap::new(),
            changes: Vec::new(),
            directories: BTreeSet::new(),
            locked: BTreeSet::new(),
        }
    }

    fn alive(&self, action: &'static str, path: &Path) -> DiskResult<()> {
        if self.dead {
            return Err(DiskError::new(action, path, io::Error::other("the simulated machine is dead")));
        }
        Ok(())
    }

    /// Counts a call that changes something; dies if it is its turn.
    fn call(&mut self, action: &'static str, path: &Path) -> DiskResult<()> {
        self.alive(action, path)?;
        self.calls += 1;
        if self.options.crash_at.is_some_and(|call| self.calls >= call) {
            self.dead = true;
        }
        self.alive(action, path)
    }

    fn strikes(&mut self, fault: Fault) -> bool {
        let per_mille: u32 = self
            .options
            .faults_per_mille
            .iter()
            .filter(|(kind, _)| *kind == fault)
            .map(|(_, rate)| rate)
            .sum();
        per_mille > 0 && self.rng.random_range(0..1000) < per_mille
    }

    fn name_call(&mut self, action: &'static str, path: &Path) -> DiskResult<()> {
        self.call(action, path)?;
        if self.strikes(Fault::NameError) { Err(injected(action, path)) } else { Ok(()) }
    }

    fn bytes_used(&self) -> u64 {
        let mut used = 0;
        for file in self.names.values().collect::<BTreeSet<_>>() {
            let inode = &self.files[*file];
            used += (inode.cache.len() as u64).max(inode.reserved);
        }
        used
    }

    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    fn file_at(&self, action: &'static str, path: &Path) -> DiskResult<usize> {
        let missing = || DiskError::new(action, path, io::ErrorKind::NotFound.into());
        self.names.get(path).copied().ok_or_else(missing)
    }
}

fn injected(action: &'static str, path: &Path) -> DiskError {
    DiskError::new(action, path, io::Error::other("injected fault"))
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        let mut state = self.state.lock();
        state.name_call("create", path)?;
        if state.names.contains_key(path) {
            return Err(DiskError::new("create", path, io::ErrorKind::AlreadyExists.into()));
        }
        let file = state.files.len();
        state.files.push(SimInode::default());
        state.change(NameChange::Set { path: path.to_path_buf(), file });
        drop(state);
        self.open(path)
    }

    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        let state = self.state.lock();
        state.alive("open", path)?;
        let file = state.file_at("open", path)?;
        let failures_seen = Mutex::new(state.files[file].failures);
        Ok(Arc::new(SimFile { state: self.state.clone(), path: path.to_path_buf(), file, failures_seen }))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.name_call("rename", from)?;
        let file = state.file_at("rename", from)?;
        state.change(NameChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), file });
        Ok(())
    }

    fn remove(&self, path: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.name_call("remove", path)?;
        state.file_at("remove", path)?;
        state.change(NameChange::Remove { path: path.to_path_buf() });
        Ok(())
    }

    fn list(&self, directory: &Path) -> DiskResult<Vec<String>> {
        let state = self.state.lock();
        state.alive("list", directory)?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_string)).collect())
    }

    fn create_dir_all(&self, directory: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.call("create directory", directory)?;
        state.directories.insert(directory.to_path_buf());
        Ok(())
    }

    fn sync_dir(&self, directory: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.call("sync directory", directory)?;
        if state.strikes(Fault::SyncDirError) {
            return Err(injected("sync directory", directory));
        }
        let changes = std::mem::take(&mut state.changes);
        for change in changes {
            if change.directory() == Some(directory) {
                change.apply(&mut state.device_names);
            } else {
                state.changes.push(change);
            }
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> DiskResult<Option<Box<dyn DiskLock>>> {
        let mut state = self.state.lock();
        state.alive("lock", path)?;
        if !state.locked.insert(path.to_path_buf()) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimLock { state: self.state.clone(), path: path.to_path_buf() })))
    }

    fn bytes_free(&self, _directory: &Path) -> DiskResult<u64> {
        let state = self.state.lock();
        Ok(state
            .options
            .capacity_bytes
            .map_or(u64::MAX, |capacity| capacity.saturating_sub(state.bytes_used())))
    }

    fn random(&self) -> u64 {
        self.state.lock().rng.random()
    }
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.state.lock().locked.remove(&self.path);
    }
}

impl DiskFile for SimFile {
    fn path(&self) -> &Path {
        &self.path
    }

    fn len(&self) -> DiskResult<u64> {
        let state = self.state.lock();
        state.alive("examine", &self.path)?;
        Ok(state.files[self.file].cache.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> DiskResult<usize> {
        let state = self.state.lock();
        state.alive("read", &self.path)?;
        let cache = &state.files[self.file].cache;
        let rest = cache.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> DiskResult<usize> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let outcome = state.call("write", &self.path);
        // A write during which the machine dies may have begun.
        let died = outcome.is_err() && state.options.crash_at == Some(state.calls);
        if !died {
            outcome?;
        }
        let mut length = bytes.len();
        let fails = died || state.strikes(Fault::WriteError);
        if fails || state.strikes(Fault::ShortWrite) {
            length = state.rng.random_range(usize::from(!fails)..=length);
        }
        let end = offset + length as u64;
        let inode = &state.files[self.file];
        let growth = end.saturating_sub((inode.cache.len() as u64).max(inode.reserved));
        if state.options.capacity_bytes.is_some_and(|capacity| state.bytes_used() + growth > capacity) {
            return Err(DiskError::new("write", &self.path, io::ErrorKind::StorageFull.into()));
        }
        let written = Dirty::Write { offset, bytes: bytes[..length].to_vec() };
        let inode = &mut state.files[self.file];
        apply(&mut inode.cache, &written);
        inode.dirty.push(written);
        if died {
            return Err(DiskError::new(
                "write",
                &self.path,
                io::Error::other("the simulated machine is dead"),
            ));
        }
        if fails { Err(injected("write", &self.path)) } else { Ok(length) }
    }

    fn sync_data(&self) -> DiskResult<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.call("sync", &self.path)?;
        if state.strikes(Fault::SyncError) {
            let inode = &mut state.files[self.file];
            // Part of it arrives; the rest counts as clean and is never tried again.
            inode.device = surviving_bytes(inode, &mut state.rng);
            inode.dirty.clear();
            inode.failures += 1;
        }
        let inode = &mut state.files[self.file];
        let mut seen = self.failures_seen.lock();
        if *seen < inode.failures {
            *seen = inode.failures;
            return Err(injected("sync", &self.path));
        }
        for dirty in std::mem::take(&mut inode.dirty) {
            apply(&mut inode.device, &dirty);
        }
        Ok(())
    }

    fn reserve(&self, bytes: u64) -> DiskResult<()> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.call("reserve space for", &self.path)?;
        let inode = &state.files[self.file];
        let growth = bytes.saturating_sub((inode.cache.len() as u64).max(inode.reserved));
        if state.options.capacity_bytes.is_some_and(|capacity| state.bytes_used() + growth > capacity) {
            return Err(DiskError::new("reserve space for", &self.path, io::ErrorKind::StorageFull.into()));
        }
        let inode = &mut state.files[self.file];
        inode.reserved = inode.reserved.max(bytes);
        Ok(())
    }

    fn set_len(&self, bytes: u64) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.call("cut", &self.path)?;
        let inode = &mut state.files[self.file];
        inode.reserved = 0;
        apply(&mut inode.cache, &Dirty::SetLen(bytes));
        inode.dirty.push(Dirty::SetLen(bytes));
        Ok(())
    }
}
