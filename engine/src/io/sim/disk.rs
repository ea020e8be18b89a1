//! The simulated machine as a [`Disk`]: names, locks, and the door for tests that look or spoil.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;

use super::faults::{Fault, SimOptions};
use super::file::SimFile;
use super::state::{NameChange, SimInode, SimState, injected};
use crate::io::disk::{Disk, DiskError, DiskFile, DiskLock, DiskResult};

/// `EMFILE`.
const TOO_MANY_OPEN: i32 = 24;

/// A simulated file system. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SimDisk {
    pub(super) state: Arc<Mutex<SimState>>,
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

    /// The most bytes that one sync of a file had to make durable.
    pub fn synced_bytes_max(&self) -> u64 {
        self.state.lock().synced_bytes_max
    }

    /// Whether the machine has died at `crash_at`.
    pub fn is_dead(&self) -> bool {
        self.state.lock().dead
    }

    /// How many bytes those files take that have no name any more but are open.
    pub fn nameless_bytes(&self) -> u64 {
        self.state.lock().bytes_of(|inode, is_named| inode.open > 0 && !is_named)
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

    /// Flips a bit somewhere in a file, behind everybody's back; `None` if there is no byte in any.
    pub fn rot(&self, chance: &mut impl Rng) -> Option<PathBuf> {
        let paths = self.paths();
        let lengths = paths.iter().map(|path| self.contents(path).map_or(0, |bytes| bytes.len()));
        let rotting: Vec<(&PathBuf, usize)> =
            paths.iter().zip(lengths).filter(|(_, length)| *length > 0).collect();
        let (path, length) = *rotting.get(chance.random_range(0..rotting.len().max(1)))?;
        let bit = 1 << chance.random_range(0..8);
        self.spoil(path, chance.random_range(0..length), |byte| byte ^ bit);
        Some(path.clone())
    }

    /// The operating system forgets what it need not write: programs see what the device has from now on.
    pub fn forget_clean_pages(&self) {
        for inode in &mut self.state.lock().files {
            if inode.dirty.is_empty() {
                inode.cache = inode.device.clone();
            }
        }
    }

    /// Which writes a device has lost, or put elsewhere, while it said that they are durable.
    pub fn broken_promises(&self) -> u64 {
        self.state.lock().broken_promises
    }

    fn opened(&self, path: &Path) -> DiskResult<SimFile> {
        let mut state = self.state.lock();
        let file = state.alive("open", path).and_then(|()| state.file_at("open", path))?;
        if state.strikes(Fault::OpenError) {
            return Err(DiskError::new("open", path, io::Error::from_raw_os_error(TOO_MANY_OPEN)));
        }
        state.files[file].open += 1;
        let failures_seen = Mutex::new(state.files[file].failures);
        let (path, is_past_cache, reads_at_once) = (path.to_path_buf(), false, false);
        let state = self.state.clone();
        Ok(SimFile { state, path, file, failures_seen, is_past_cache, reads_at_once })
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

    fn open_to_scan(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        // What is in the cache is taken from there.
        let mut file = self.opened(path)?;
        file.reads_at_once = true;
        Ok(Arc::new(file))
    }

    fn open_to_verify(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        let mut file = self.opened(path)?;
        (file.is_past_cache, file.reads_at_once) = (true, true);
        Ok(Arc::new(file))
    }

    fn open(&self, path: &Path) -> DiskResult<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.opened(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.name_call("rename", from)?;
        let file = state.file_at("rename", from)?;
        state.change(NameChange::Rename { from: from.to_path_buf(), to: to.to_path_buf(), file });
        Ok(())
    }

    fn link(&self, path: &Path, name: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.name_call("link", path)?;
        if state.options.no_links {
            return Err(DiskError::new("link", path, io::ErrorKind::CrossesDevices.into()));
        }
        let file = state.file_at("link", path)?;
        if state.names.contains_key(name) {
            return Err(DiskError::new("link", name, io::ErrorKind::AlreadyExists.into()));
        }
        state.change(NameChange::Set { path: name.to_path_buf(), file });
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
        let mut state = self.state.lock();
        state.look(Fault::DirectoryError, "list", directory)?;
        let inside = state.names.keys().filter(|path| path.parent() == Some(directory));
        Ok(inside.filter_map(|path| path.file_name()?.to_str().map(str::to_string)).collect())
    }

    fn create_dir(&self, directory: &Path) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.call("create directory", directory)?;
        if state.strikes(Fault::DirectoryError) {
            return Err(injected("create directory", directory));
        }
        let failed = |kind: io::ErrorKind| DiskError::new("create directory", directory, kind.into());
        if state.names.contains_key(directory) {
            return Err(failed(io::ErrorKind::NotADirectory));
        }
        if state.has_directory(directory) {
            return Err(failed(io::ErrorKind::AlreadyExists));
        }
        if directory.parent().is_some_and(|parent| !state.has_directory(parent)) {
            return Err(failed(io::ErrorKind::NotFound));
        }
        state.directories.insert(directory.to_path_buf());
        state.changes.push(NameChange::MakeDirectory { path: directory.to_path_buf() });
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
