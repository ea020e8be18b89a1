//! The crash of the simulated machine: what a kill keeps, and what a loss of power leaves to chance.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::Rng;
use rand::rngs::SmallRng;

use super::disk::SimDisk;
use super::faults::{Crash, SimOptions};
use super::state::{NameChange, SimInode, SimState};
use super::surviving::surviving_bytes;

impl SimDisk {
    /// The disk after the machine dies now, for its next life. The old disk answers every call with an error
    /// from then on.
    pub fn crash(&self, crash: Crash, seed: u64, options: SimOptions) -> SimDisk {
        let mut old = self.state.lock();
        old.dead = true;
        let mut new = SimState::new(seed, options);
        match crash {
            Crash::Kill => {
                let closed = |inode: &SimInode| SimInode { open: 0, failures: 0, ..inode.clone() };
                new.files = old.files.iter().map(closed).collect();
                (new.names, new.device_names) = (old.names.clone(), old.device_names.clone());
                new.changes = old.changes.clone();
                new.directories = old.directories.clone();
            }
            Crash::PowerLoss => {
                let (names, lost) = surviving_names(&old, &mut new.rng);
                let is_found = |path: &Path| !path.ancestors().any(|level| lost.contains(level));
                new.directories = old.directories.iter().filter(|path| is_found(path)).cloned().collect();
                let found = names.into_iter().filter(|(path, _)| is_found(path));
                for (index, (path, file)) in found.enumerate() {
                    let device = surviving_bytes(&old.files[file], old.options.tears_sectors, &mut new.rng);
                    new.files.push(SimInode { cache: device.clone(), device, ..SimInode::default() });
                    new.names.insert(path.clone(), index);
                    new.device_names.insert(path, index);
                }
            }
        }
        SimDisk { state: Arc::new(Mutex::new(new)) }
    }
}

/// Of the changes of names that no sync has covered: in half of the cases a prefix, else any subset. Returns
/// the names of files, and the directories that are gone with all that is in them.
fn surviving_names(old: &SimState, chance: &mut SmallRng) -> (BTreeMap<PathBuf, usize>, BTreeSet<PathBuf>) {
    let (mut names, mut lost) = (old.device_names.clone(), BTreeSet::new());
    let prefix = chance.random_bool(0.5).then(|| chance.random_range(0..=old.changes.len()));
    for (index, change) in old.changes.iter().enumerate() {
        let survives = match prefix {
            Some(count) => index < count,
            None => chance.random_bool(0.5),
        };
        if survives {
            change.apply(&mut names);
        } else if let NameChange::MakeDirectory { path } = change {
            lost.insert(path.clone());
        }
    }
    (names, lost)
}
