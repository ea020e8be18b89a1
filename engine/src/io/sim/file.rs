//! An open file of the simulated machine.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;

use super::faults::Fault;
use super::state::{Dirty, SimState, apply, injected};
use super::surviving::surviving_bytes;
use crate::io::disk::{DiskError, DiskFile, DiskResult};

/// The longest piece of a write that is there at once where calls overlap.
const PIECE_BYTES_MAX: usize = 1500;
/// How often a call lets others pass, at most, and one that is slow.
const TURNS_MAX: u32 = 6;
const TURNS_MAX_SLOW: u32 = 200;

#[derive(Debug)]
pub(super) struct SimFile {
    pub(super) state: Arc<Mutex<SimState>>,
    pub(super) path: PathBuf,
    pub(super) file: usize,
    pub(super) failures_seen: Mutex<u64>,
    /// It reads what the device has, where nothing waits to be written.
    pub(super) is_past_cache: bool,
    /// A read gives nothing if it cannot give all, as past the cache, where it is one request.
    pub(super) reads_at_once: bool,
}

/// Lets others act.
fn let_others_pass(turns: u32) {
    for _ in 0..turns {
        #[cfg(shuttle)]
        shuttle::thread::yield_now();
        #[cfg(not(shuttle))]
        std::thread::yield_now();
    }
}

impl SimFile {
    /// Where calls overlap: takes some time.
    fn take_time(&self) {
        let mut state = self.state.lock();
        let is_slow = !cfg!(shuttle) && state.rng.random_bool(0.2);
        let turns_max = if is_slow { TURNS_MAX_SLOW } else { TURNS_MAX };
        let turns = if state.options.overlaps { state.rng.random_range(0..turns_max) } else { 0 };
        drop(state);
        let_others_pass(turns);
    }

    /// Does what a write does to a file whose space is there, and says whether the machine lives.
    fn change(&self, offset: u64, bytes: &[u8]) -> DiskResult<()> {
        let mut state = self.state.lock();
        state.alive("write", &self.path)?;
        let written = Dirty::Write { offset, bytes: bytes.to_vec() };
        let inode = &mut state.files[self.file];
        apply(&mut inode.cache, &written);
        inode.dirty.push(written);
        Ok(())
    }

    /// Makes durable what is the first of what waits; some of it may never arrive.
    fn settle(&self, state: &mut SimState, count: usize) {
        let inode = &mut state.files[self.file];
        inode.synced += count as u64;
        let settled: Vec<Dirty> = inode.dirty.drain(..count).collect();
        for dirty in settled {
            if let Dirty::Write { offset, bytes } = &dirty {
                if state.strikes(Fault::LostWrite) {
                    state.broken_promises += 1;
                    continue;
                }
                if state.strikes(Fault::MisdirectedWrite) {
                    state.broken_promises += 1;
                    let file = if state.rng.random() { self.file } else { any_other(state) };
                    let length = state.files[file].device.len();
                    let sector = state.rng.random_range(0..(length as u64 / 512).max(1));
                    let elsewhere = sector * 512 + offset % 512;
                    let room = length.saturating_sub(elsewhere as usize).min(bytes.len());
                    if room > 0 {
                        let bytes = bytes[..room].to_vec();
                        apply(&mut state.files[file].device, &Dirty::Write { offset: elsewhere, bytes });
                    }
                    continue;
                }
            }
            apply(&mut state.files[self.file].device, &dirty);
        }
    }
}

/// A file that has a name.
fn any_other(state: &mut SimState) -> usize {
    let chosen = state.rng.random_range(0..state.names.len().max(1));
    state.names.values().nth(chosen).copied().unwrap_or(0)
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
        let mut state = self.state.lock();
        state.look(Fault::ReadError, "read", &self.path)?;
        if state.options.unreadable.as_ref() == Some(&self.path) {
            return Err(injected("read", &self.path));
        }
        let bad =
            state.options.bad_bytes.iter().filter(|(path, bytes)| *path == self.path && bytes.end > offset);
        let bad_from = bad.map(|(_, bytes)| bytes.start).min().unwrap_or(u64::MAX);
        let whole = if self.reads_at_once { buffer.len() as u64 } else { 1 };
        if bad_from < offset + whole {
            return Err(injected("read", &self.path));
        }
        let is_short = state.strikes(Fault::ShortRead);
        let inode = &state.files[self.file];
        let bytes = if self.is_past_cache && inode.dirty.is_empty() { &inode.device } else { &inode.cache };
        let rest = bytes.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        let mut count = rest.len().min(buffer.len());
        count = count.min(usize::try_from(bad_from - offset).unwrap_or(usize::MAX));
        buffer[..count].copy_from_slice(&rest[..count]);
        if is_short && count > 1 {
            count = state.rng.random_range(1..count);
        }
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
        if state.options.overlaps && !died {
            let inode = &mut state.files[self.file];
            inode.reserved = inode.reserved.max(end);
            let piece = state.rng.random_range(1..=PIECE_BYTES_MAX);
            drop(guard);
            let mut at = offset;
            for piece in bytes[..length].chunks(piece) {
                self.take_time();
                self.change(at, piece)?;
                at += piece.len() as u64;
            }
        } else {
            let written = Dirty::Write { offset, bytes: bytes[..length].to_vec() };
            let inode = &mut state.files[self.file];
            apply(&mut inode.cache, &written);
            inode.dirty.push(written);
        }
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
        guard.call("sync", &self.path)?;
        let unsynced = guard.files[self.file].dirty.iter().map(Dirty::bytes).sum();
        guard.synced_bytes_max = guard.synced_bytes_max.max(unsynced);
        let inode = &guard.files[self.file];
        let mut until = inode.synced + inode.dirty.len() as u64;
        if guard.options.overlaps {
            drop(guard);
            self.take_time();
            guard = self.state.lock();
            guard.alive("sync", &self.path)?;
        }
        let state = &mut *guard;
        let is_full = state.strikes(Fault::FullAtSync);
        let fails = is_full || state.strikes(Fault::SyncError);
        let inode = &mut state.files[self.file];
        let written = inode.synced + inode.dirty.len() as u64;
        if until < written {
            // Of what has been written meanwhile some goes along.
            until = state.rng.random_range(until..=written);
        }
        let count = until.saturating_sub(inode.synced) as usize;
        if fails {
            // Part of it arrives; the rest counts as clean and is never tried again.
            let later = inode.dirty.split_off(count);
            inode.device = surviving_bytes(inode, state.options.tears_sectors, &mut state.rng);
            inode.dirty = later;
            inode.synced += count as u64;
            inode.failures += 1;
            if state.options.drops_unsynced {
                inode.cache = inode.device.clone();
                for dirty in &inode.dirty {
                    apply(&mut inode.cache, dirty);
                }
            }
        }
        let mut seen = self.failures_seen.lock();
        if *seen < inode.failures {
            *seen = inode.failures;
            let full = || DiskError::new("sync", &self.path, io::ErrorKind::StorageFull.into());
            return Err(if is_full { full() } else { injected("sync", &self.path) });
        }
        self.settle(state, count);
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
