//! The files and names of the simulated machine: as programs see them, as the device has them, and what lies
//! between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::faults::{Fault, SimOptions};
use crate::io::disk::{DiskError, DiskResult};

/// The machine.
#[derive(Debug)]
pub(super) struct SimState {
    pub(super) options: SimOptions,
    pub(super) rng: SmallRng,
    /// Calls so far that change something.
    pub(super) calls: u64,
    pub(super) dead: bool,
    /// Writes of which the device said that they are durable, and that are not where they belong.
    pub(super) broken_promises: u64,
    /// All files that ever had a name; names refer to them by index.
    pub(super) files: Vec<SimInode>,
    pub(super) names: BTreeMap<PathBuf, usize>,
    pub(super) device_names: BTreeMap<PathBuf, usize>,
    /// The changes of names since their directories were synced.
    pub(super) changes: Vec<NameChange>,
    /// The most bytes that one sync had to make durable.
    pub(super) synced_bytes_max: u64,
    /// The directories that were made; any other that a name speaks of has always been there.
    pub(super) directories: BTreeSet<PathBuf>,
    pub(super) locked: BTreeSet<PathBuf>,
}

/// A file's bytes: as programs see them, as the device has them, and what lies between.
#[derive(Clone, Debug, Default)]
pub(super) struct SimInode {
    pub(super) cache: Vec<u8>,
    pub(super) device: Vec<u8>,
    /// The changes of bytes since the last sync.
    pub(super) dirty: Vec<Dirty>,
    /// How many such changes there were before the first of those.
    pub(super) synced: u64,
    /// Length up to which there is space.
    pub(super) reserved: u64,
    /// How often it is open: without a name it takes space as long as it is.
    pub(super) open: usize,
    /// How many syncs have failed; each handle hears of each failure once.
    pub(super) failures: u64,
}

/// A change of a file's bytes.
#[derive(Clone, Debug)]
pub(super) enum Dirty {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// A change of names.
#[derive(Clone, Debug)]
pub(super) enum NameChange {
    Set {
        path: PathBuf,
        file: usize,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
        file: usize,
    },
    Remove {
        path: PathBuf,
    },
    /// Without it nothing in the directory can be found.
    MakeDirectory {
        path: PathBuf,
    },
}

impl SimState {
    pub(super) fn new(seed: u64, options: SimOptions) -> SimState {
        SimState {
            options,
            rng: SmallRng::seed_from_u64(seed),
            calls: 0,
            dead: false,
            broken_promises: 0,
            files: Vec::new(),
            names: BTreeMap::new(),
            device_names: BTreeMap::new(),
            changes: Vec::new(),
            synced_bytes_max: 0,
            directories: BTreeSet::new(),
            locked: BTreeSet::new(),
        }
    }

    pub(super) fn alive(&self, action: &'static str, path: &Path) -> DiskResult<()> {
        if self.dead {
            return Err(DiskError::new(action, path, io::Error::other("the simulated machine is dead")));
        }
        Ok(())
    }

    /// Counts a call that changes something; dies if it is its turn.
    pub(super) fn call(&mut self, action: &'static str, path: &Path) -> DiskResult<()> {
        self.alive(action, path)?;
        self.calls += 1;
        if self.options.crash_at.is_some_and(|call| self.calls >= call) {
            self.dead = true;
        }
        self.alive(action, path)
    }

    pub(super) fn strikes(&mut self, fault: Fault) -> bool {
        let per_mille: u32 = self
            .options
            .faults_per_mille
            .iter()
            .filter(|(kind, _)| *kind == fault)
            .map(|(_, rate)| rate)
            .sum();
        per_mille > 0 && self.rng.random_range(0..1000) < per_mille
    }

    /// Fails a call that changes nothing, if a fault strikes.
    pub(super) fn look(&mut self, fault: Fault, action: &'static str, path: &Path) -> DiskResult<()> {
        self.alive(action, path)?;
        if self.strikes(fault) { Err(injected(action, path)) } else { Ok(()) }
    }

    pub(super) fn name_call(&mut self, action: &'static str, path: &Path) -> DiskResult<()> {
        self.call(action, path)?;
        if self.strikes(Fault::NameError) { Err(injected(action, path)) } else { Ok(()) }
    }

    pub(super) fn bytes_used(&self) -> u64 {
        self.bytes_of(|inode, is_named| inode.open > 0 || is_named)
    }

    /// How many bytes those files take that are wanted, by whether they have a name.
    pub(super) fn bytes_of(&self, is_wanted: impl Fn(&SimInode, bool) -> bool) -> u64 {
        let named: BTreeSet<_> = self.names.values().collect();
        let files = self.files.iter().enumerate();
        let wanted = files.filter(|(file, inode)| is_wanted(inode, named.contains(file)));
        wanted.map(|(_, inode)| (inode.cache.len() as u64).max(inode.reserved)).sum()
    }

    pub(super) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Whether a directory was made, is the root, or has something.
    pub(super) fn has_directory(&self, directory: &Path) -> bool {
        let is_root = directory.parent().is_none_or(|parent| parent == directory);
        is_root
            || self.directories.contains(directory)
            || self.names.keys().any(|name| name.ancestors().skip(1).any(|level| level == directory))
    }

    pub(super) fn file_at(&self, action: &'static str, path: &Path) -> DiskResult<usize> {
        let missing = || DiskError::new(action, path, io::ErrorKind::NotFound.into());
        self.names.get(path).copied().ok_or_else(missing)
    }
}

impl Dirty {
    /// How many bytes it brings.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Dirty::Write { bytes, .. } => bytes.len() as u64,
            Dirty::SetLen(_) => 0,
        }
    }
}

impl NameChange {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
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
            NameChange::MakeDirectory { .. } => {}
        }
    }

    pub(super) fn directory(&self) -> Option<&Path> {
        match self {
            NameChange::Set { path, .. }
            | NameChange::Remove { path }
            | NameChange::MakeDirectory { path } => path.parent(),
            NameChange::Rename { to, .. } => to.parent(),
        }
    }
}

/// Does to a file's bytes what was noted.
pub(super) fn apply(bytes: &mut Vec<u8>, change: &Dirty) {
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

/// The answer of a call that a fault has struck.
pub(super) fn injected(action: &'static str, path: &Path) -> DiskError {
    DiskError::new(action, path, io::Error::other("injected fault"))
}
