//! An open file of the simulated machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;

use super::crash::surviving_bytes;
use super::faults::Fault;
use super::state::{Dirty, SimState, apply, injected};
use crate::io::disk::{DiskError, DiskFile, DiskResult};

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<SimState>>,
    pub(super) path: PathBuf,
    pub(super) file: usize,
    pub(super) failures_seen: Mutex<u64>,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().files[self.file].open -= 1;
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
        if state.options.unreadable.as_ref() == Some(&self.path) {
            return Err(injected("read", &self.path));
        }
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
        let unsynced = state.files[self.file].dirty.iter().map(Dirty::bytes).sum();
        state.synced_bytes_max = state.synced_bytes_max.max(unsynced);
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

    fn is_shared(&self) -> DiskResult<bool> {
        let state = self.state.lock();
        state.alive("examine", &self.path)?;
        Ok(state.names.values().filter(|file| **file == self.file).count() > 1)
    }
}
